"""What ACKs that are missing leave open of the limits: silences, flights beyond the window offered, recoveries of which
neither the beginning nor the end was captured."""

from __future__ import annotations

import numpy as np

from tcptrace_lab.classify.sender.recovering import holed_beside, silent_behind
from tcptrace_lab.classify.sender.shares import UNKNOWN, by_limit, move, share_of, spans_of, within
from tcptrace_lab.reconstruct.distinct import without
from tcptrace_lab.reconstruct.given import DELAYED_ACK_SEGMENTS, FEWEST_SAMPLES
from tcptrace_lab.reconstruct.losses import DUP_THRESH
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.tap.tap import Tap
from tcptrace_lab.reconstruct.tap.unheard import unheard_behind
from tcptrace_lab.reconstruct.timeline import AT_ONCE
from tcptrace_lab.reconstruct.windows import LIMITS, limited_at


def missing_share(seen: Reconstruction, tap: Tap, *, is_rebuilt: bool) -> float:
    """Share of the time in which ACKs that the tap does not have hide how much was in flight."""
    return 0.0 if tap.has_all_acks else max(_unanswered(seen), 0.0 if is_rebuilt else _beyond(seen))


def _unanswered(seen: Reconstruction) -> float:
    """Share of the time in which a sender of new data was silent for longer than any round trip, and something was
    outstanding by what was captured: its answer is missing, and with it how much was in flight."""
    timeline = seen.timeline
    _, samples = timeline.rtt
    if not len(samples):
        return 0.0
    longest = int(samples.max())
    # Of the few before which nothing left for so long.
    parts = range(0, len(timeline.send_ns), AT_ONCE)
    apart = (np.diff(timeline.send_ns[first : first + AT_ONCE + 1]) for first in parts)
    late = np.concatenate([first + 1 + np.flatnonzero(gap > longest) for first, gap in zip(parts, apart, strict=True)])
    known, left = timeline.acks_before_send[late] - 1, timeline.send_ns[late - 1]
    una = timeline.una_after(known + 1)
    since = np.maximum(left, np.where(known >= 0, timeline.ack_ns[np.maximum(known, 0)], left))
    silent = timeline.send_ns[late] - since - longest
    is_open = (una < timeline.snd_max[late - 1]) & ~timeline.is_retransmission[late]
    silent_ns = int(silent[is_open & (silent > 0)].sum())
    return share_of(timeline, float(silent_ns))


def _beyond(seen: Reconstruction) -> float:
    """Share of the time with more in flight than the window offered: the ACK that allowed it is missing."""
    timeline, beyond_ns = seen.timeline, 0
    slack = DELAYED_ACK_SEGMENTS * timeline.smss
    for first in range(0, len(timeline.ack_ns), AT_ONCE):
        rows = timeline.ack_ns[first : first + AT_ONCE + 1]
        part = slice(first, first + len(rows) - 1)
        beyond_ns += int(np.diff(rows)[seen.flight[part] > timeline.rwnd[part] + slack].sum())
    return share_of(timeline, float(beyond_ns))


def is_scale_of_missing(seen: Reconstruction, tap: Tap) -> bool:
    """Whether no SYN tells the scale of the windows offered, and but for the flights that missing ACKs made half of it
    would fit: then the least that fits is one too many, and what is well below such a window may fill the real one."""
    if tap.shift.value is not None or not tap.least_shift or not tap.tap_lost_acks:
        return False
    timeline = seen.timeline
    slack = DELAYED_ACK_SEGMENTS * timeline.smss
    beyond = np.flatnonzero(seen.flight > timeline.rwnd // 2 + slack)
    return len(without(beyond, unheard_behind(timeline))) < FEWEST_SAMPLES


def begun_before(seen: Reconstruction, tap: Tap) -> dict[str, float]:
    """Share of the time in a recovery that may have begun before the capture, or before anything was sent in it: of
    what was put down to a window, or to an application, then."""
    timeline = seen.timeline
    if timeline.has_start or not len(timeline.send_ns):
        return {}
    # What had been sent before is acknowledged: no recovery of it goes on.
    over = int(np.searchsorted(timeline.snd_una, tap.first_new, side="left"))
    if not timeline.sacked[:over].any() and np.count_nonzero(timeline.is_dupack[:over]) < DUP_THRESH:
        over = int(np.searchsorted(timeline.ack_ns, timeline.send_ns[0], side="left"))
    return within(timeline, slice(over), "cwnd", "rwnd", "application")


def leave_unheard(shares: dict[str, float], seen: Reconstruction, tap: Tap) -> None:
    """Takes out of `shares` what hangs on ACKs that were not captured."""
    # Where more is in flight than ACKs allow those that are missing may have ended a recovery.
    unheard = {"cwnd": tap.tap_lost_bytes, "rwnd": tap.tap_lost_bytes, "recovery": tap.exceeds_scale}
    for name, most in _silent(seen, *(name for name, is_open in unheard.items() if is_open)).items():
        move(shares, name, most=most)
    if tap.unanswered_ns and not tap.has_all_acks:
        _leave_unanswered(shares, seen, tap)
    if tap.tap_lost_acks:
        # A recovery that was over, or began, before the next ACK that was captured.
        move(shares, "recovery", most=within(seen.timeline, unheard_behind(seen.timeline), "recovery")["recovery"])
    if tap.repairs[1]:
        for name, most in within(seen.timeline, holed_beside(seen), "cwnd", "rwnd", "application").items():
            move(shares, name, most=most)


def _silent(seen: Reconstruction, *names: str) -> dict[str, float]:
    """Share of the time beyond the longest round trip in which no ACK came, by these limits: what was sent then, and
    whether a timer sent it, is among what the tap lost. A closed window is silent by itself."""
    timeline = seen.timeline
    if not names or not len(timeline.rtt[1]) or len(timeline.ack_ns) < 2:
        return {}
    beyond = np.diff(timeline.ack_ns) - int(timeline.rtt[1].max())
    limited = limited_at(timeline)[:-1]
    is_open = (beyond > 0) & (seen.flight[:-1] > 0) & (timeline.rwnd[:-1] >= timeline.smss)
    return by_limit(timeline, beyond[is_open], limited[is_open], *names)


def _leave_unanswered(shares: dict[str, float], seen: Reconstruction, tap: Tap) -> None:
    """Takes out of `shares` the silences longer than any timer's: what was sent in them was answered, so neither what
    held the sender back at their beginning nor a recovery lasted as long. Behind the last ACK a timeline that rests on
    ACKs alone has no time at all."""
    timeline = seen.timeline
    whole_ns = int(timeline.send_ns[-1]) - timeline.start_ns
    spans, limited = spans_of(timeline), limited_at(timeline)
    silent_ns = silent_behind(spans, seen.typical_rtt_ns)
    # An application's pauses are silent too, and stay its own, as do closed windows, beyond which nobody sends; behind
    # the last ACK all is unanswered.
    is_within = seen.flight <= timeline.rwnd + DELAYED_ACK_SEGMENTS * timeline.smss
    silent_ns[(limited == LIMITS.index("application")) | ((limited == LIMITS.index("rwnd")) & is_within)] = 0
    if tap.unanswered_ns >= spans[-1]:
        silent_ns[-1] = spans[-1]
    before, silent = shares[UNKNOWN], share_of(timeline, float(silent_ns.sum()))
    for name, most in by_limit(timeline, silent_ns, limited, *LIMITS).items():
        move(shares, name, most=most)
    for name in ("cwnd", "recovery", "application"):
        # What was sent meanwhile was put down to a window that filled.
        move(shares, name, most=max(before + silent - shares[UNKNOWN], 0.0))
    left_ns = tap.unanswered_ns - int(silent_ns.sum())
    if left_ns > 0 and whole_ns > 0:
        known = whole_ns / (whole_ns + left_ns)
        shares.update({name: round(share * known, 4) for name, share in shares.items()})
        shares[UNKNOWN] = round(shares[UNKNOWN] + 1 - known, 4)
