"""What limited the sender, as shares of the time: the verdict's `limits`, no finer than the tap allows."""

from __future__ import annotations

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.path.causes import pauses_unseen
from tcptrace_lab.classify.sender.bursts import before_bursts
from tcptrace_lab.classify.sender.recovering import (
    has_no_block,
    holed_beside,
    recovering_beyond,
    recovering_longer,
    recovering_on,
    recovering_unsure,
    share_of,
    silent_behind,
    spent,
)
from tcptrace_lab.classify.sender.written import (
    UNQUEUED_PERCENTILE,
    WITHIN_RWND,
    catches_up,
    does_not_grow,
    is_words,
    stays_below,
    stays_level,
)
from tcptrace_lab.reconstruct.given import DELAYED_ACK_SEGMENTS, MAJORITY, MINORITY, ODD_SHARE
from tcptrace_lab.reconstruct.losses import DUP_THRESH
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.tap.tap import Tap
from tcptrace_lab.reconstruct.tap.unheard import unheard_behind
from tcptrace_lab.reconstruct.timeline import AT_ONCE, Ints, Timeline
from tcptrace_lab.reconstruct.windows import LIMITS, is_either, limited_at

UNKNOWN = "unknown"
# By which of a turn's ACKs a segment left a rhythm does not tell, and behind a standing queue it lags by more: a window
# is told to this part of it.
RHYTHM_SHARE = 0.7
# A clock as fine as this blurs nothing.
FINE_NS = 1_000


def limits_told(
    seen: Reconstruction,
    tap: Tap,
    *,
    is_rebuilt: bool = False,
    is_blurred: bool = False,
    is_paced: bool = False,
    held: float = 0.0,
    is_law: bool = False,
    before_ns: int = 0,
    is_rhythm: bool = False,
    is_spaced: bool = False,
) -> dict[str, float]:
    """The shares by cause; where two causes fit the same time it is `unknown`.

    `is_rebuilt`: captured elsewhere, or behind a line of the sender's. How promptly ACKs released segments is then not
    seen, pauses and emptied windows are. `is_blurred`: neither is how much was in flight, closed windows are, and a
    round trip of each recovery. `is_paced`: the control is known to send by a rate of its own; that is its window at
    work. `held`: the share in which what was in flight `stood`, by no control that goes by delay. `is_law`: a law of
    the table was followed to the ACK, where others were not: what nothing else held back was its window. `before_ns`:
    what a segment takes to the tap through a line of the sender's. `is_rhythm`: which ACK let what go was told by a
    rhythm. `is_spaced`: what passes comes at one pace, a queue's before the tap or an application's.
    """
    if not seen.limits or tap.refuses("limits"):
        return {}
    shares = {**seen.limits, UNKNOWN: 0.0}
    if before_ns:
        _move(shares, "cwnd", "rwnd", most=_full_with_unpassed(seen, before_ns))
    missing = 0.0 if tap.has_all_acks else max(_unanswered(seen), 0.0 if is_rebuilt else _beyond(seen))
    if missing > ODD_SHARE:
        # Nor is a law followed to ACKs that are missing.
        is_blurred, is_law = True, False
    unclocked = shares["application"] - min(shares["application"], seen.timeline.observed.starved)
    if is_paced:
        _move(shares, "application", "cwnd", most=unclocked)
    elif (
        tap.blurs_flight
        or tap.exceeds_scale
        or is_spaced
        or _may_fill_half(seen, tap)
        or seen.is_stretched
        # Behind a line what waits before the tap is outstanding too; between pauses, elsewhere, bursts may fill a
        # window that those leave as it is.
        or not (
            (stays_below(seen) and not before_ns and not (is_rebuilt and seen.timeline.observed.starved > MINORITY))
            or is_words(seen)
            or (not is_rebuilt and catches_up(seen))
        )
    ):
        # Segments that no ACK released at once are a slow application's, or those of a sender that paces itself; or the
        # ACKs are missing, as where more is in flight than they allow.
        _move(shares, "application", most=unclocked)
    if before_ns:
        # Nor is it a pause that what had left takes to the tap.
        _move(shares, "application", most=_paused(seen, 0) - _paused(seen, before_ns))
    if missing > ODD_SHARE and not is_paced:
        # How much was outstanding before a pause, and so when its window was full again, is not known either.
        _move(shares, "application", most=shares["application"] - _paused(seen, _core.HOST_NS))
    if not (is_law or is_paced or is_rebuilt):
        for name, most in _before_bursts(seen).items():
            _move(shares, name, most=most)
    if shares["cwnd"] and _in_words(seen) > MAJORITY * shares["cwnd"]:
        # A word at a time, each held until the last was answered (RFC 896).
        _move(shares, "cwnd", "application")
    # A send buffer's, or a fixed window's.
    _move(shares, "cwnd", most=held)
    is_sure = is_law or shares["cwnd"] <= MAJORITY
    # One that marks cut falls without a loss.
    is_cut = is_paced or tap.ecn_cuts > 0
    if not is_cut and (stays_level(seen) if is_rebuilt else not is_sure and does_not_grow(seen)):
        # A window of Vegas' kind, or a slow application: at its sender alone promptness tells, where a law is followed,
        # or that all that was written had been sent again and again: by chance its writes then meet ACKs.
        is_written = not is_rebuilt and stays_below(seen) and catches_up(seen)
        _move(shares, "cwnd", "application" if is_written else UNKNOWN)
    if is_blurred:
        # The least windows that fit were taken for what was in flight, which the missing ACKs make more than it was.
        is_near_known = is_law and not (tap.shift.value is None and tap.blurs_flight)
        _move(shares, "cwnd", most=_near_rwnd(seen) if is_near_known else 1.0)
        _move(shares, "rwnd", most=shares["rwnd"] - closed_only(seen, tap).get("rwnd", 0.0))
    # Nor, of a recovery, when the window was at work again.
    opened = {"recovery": recovering_longer(seen)} if is_blurred else _unsure(seen, is_rhythm=is_rhythm)
    if not is_blurred:
        opened["recovery"] = recovering_unsure(seen, tap)
    if has_no_block(seen, tap):
        # When one recovery is over, and whether the next send was a timer's, is told by the blocks that are missing.
        opened["cwnd"] = opened.get("cwnd", 0.0) + spent(seen, [each for each in seen.episodes if each.restarts])
        opened["cwnd"] += recovering_on(seen)
    opened["cwnd"] = opened.get("cwnd", 0.0) + recovering_beyond(seen)
    for name, share in _begun_before(seen, tap).items():
        opened[name] = opened.get(name, 0.0) + share
    if is_rebuilt:
        opened["cwnd"] += _resumed_unseen(seen)
    for name, most in opened.items():
        _move(shares, name, most=most)
    # Where more is in flight than ACKs allow those that are missing may have ended a recovery.
    unheard = {"cwnd": tap.tap_lost_bytes, "rwnd": tap.tap_lost_bytes, "recovery": tap.exceeds_scale}
    for name, most in _silent(seen, *(name for name, is_open in unheard.items() if is_open)).items():
        _move(shares, name, most=most)
    if tap.unanswered_ns and not tap.has_all_acks:
        _leave_unanswered(shares, seen, tap)
    if tap.tap_lost_acks:
        # A recovery that was over, or began, before the next ACK that was captured.
        rows = unheard_behind(seen.timeline)
        spans, limited = _spans(seen.timeline)[rows], limited_at(seen.timeline)[rows]
        _move(shares, "recovery", most=_by_limit(seen.timeline, spans, limited, "recovery")["recovery"])
    if tap.repairs[1]:
        holed = holed_beside(seen)
        spans, limited = _spans(seen.timeline)[holed], limited_at(seen.timeline)[holed]
        for name, most in _by_limit(seen.timeline, spans, limited, "cwnd", "rwnd", "application").items():
            _move(shares, name, most=most)
    if is_rebuilt:
        # A pause may be a timeout's: what was lost at its beginning left no hole at the tap.
        _move(shares, "application", most=_paused_unseen(seen))
    # The windows are scaled by the least that fits, so a flight reaches one of them now and then whatever limits it: it
    # is the receiver's window if that is the scale, the congestion window if it is more. Where ACKs may be missing
    # instead it is either all the time; what windows those that were put back offered is not known.
    # That a flight ended for want of data, with room left in that window, is not told then either.
    is_open = tap.shift.value is None and shares["rwnd"] > 0 and shares["application"] > MINORITY
    if tap.exceeds_scale or is_open:
        _move(shares, "cwnd")
    if tap.shift.value is None or tap.has_all_acks:
        _move(shares, "rwnd")
    if _blurs(seen, tap):
        # That ACKs release segments is seen by what follows at once; with these stamps everything does.
        _move(shares, "cwnd")
        if not (stays_below(seen) or catches_up(seen)):
            # Nor is a pause told from an answer at once, unless it is many ticks long.
            paused = _paused(seen, _core.PROMPT_PARTS * tap.clock.resolution_ns)
            _move(shares, "application", most=shares["application"] - paused)
    return shares


def _before_bursts(seen: Reconstruction) -> dict[str, float]:
    """Share of the time, put down to a window, in which a burst that followed tells of room or of a host's delay."""
    timeline, acks = seen.timeline, before_bursts(seen)
    acks = acks[seen.flight[acks] + timeline.smss <= timeline.rwnd[acks]]
    if not len(acks):
        return {}
    return _by_limit(timeline, _spans(timeline, acks), limited_at(timeline, acks), "cwnd", "rwnd")


def _move(shares: dict[str, float], name: str, to: str = UNKNOWN, *, most: float = 1.0) -> None:
    """Takes up to `most` of what was put down to one cause to another."""
    share = round(min(most, shares[name]), 4)
    if share > 0:
        shares[to] = round(shares[to] + share, 4)
        shares[name] = round(shares[name] - share, 4)


def _paused(seen: Reconstruction, least_ns: int) -> float:
    """Share of the time in pauses of at least so long: all was acknowledged, and nothing sent."""
    timeline = seen.timeline
    acks, sends = timeline.answered_to_the_end
    # The first ACK of everything before each send.
    sends, first = np.unique(sends, return_index=True)
    waits = timeline.send_ns[sends] - timeline.ack_ns[acks[first]]
    return share_of(timeline, float(waits[waits > least_ns].sum()))


def _spans(timeline: Timeline, acks: Ints | None = None) -> Ints:
    """How long each ACK, or each of these, was the last one, until the last segment left."""
    until = int(timeline.send_ns[-1])
    if acks is None:
        found: Ints = np.diff(np.minimum(np.append(timeline.ack_ns, until), until))
        return found
    is_last = acks + 1 >= len(timeline.ack_ns)
    ends_ns = np.where(is_last, until, timeline.ack_ns[np.where(is_last, acks, acks + 1)])
    return np.minimum(ends_ns, until) - np.minimum(timeline.ack_ns[acks], until)


def _by_limit(timeline: Timeline, spent_ns: Ints, limited: Ints, *names: str) -> dict[str, float]:
    """Shares of the time, of what was spent with each of these as the limit."""
    return {name: share_of(timeline, float(spent_ns[limited == LIMITS.index(name)].sum())) for name in names}


def _paused_unseen(seen: Reconstruction) -> float:
    """Share of the time in pauses, away from the sender, that may be timeouts."""
    timeline = seen.timeline
    acks, sends = pauses_unseen(seen)
    return share_of(timeline, float((timeline.send_ns[sends] - timeline.ack_ns[acks]).sum()))


def _begun_before(seen: Reconstruction, tap: Tap) -> dict[str, float]:
    """Share of the time in a recovery that may have begun before the capture, or before anything was sent in it: of
    what was put down to a window, or to an application, then."""
    timeline = seen.timeline
    if timeline.has_start or not len(timeline.send_ns):
        return {}
    # What had been sent before is acknowledged: no recovery of it goes on.
    over = int(np.searchsorted(timeline.snd_una, tap.first_new, side="left"))
    if not timeline.sacked[:over].any() and np.count_nonzero(timeline.is_dupack[:over]) < DUP_THRESH:
        over = int(np.searchsorted(timeline.ack_ns, timeline.send_ns[0], side="left"))
    spent, limited = _spans(timeline)[:over], limited_at(timeline)[:over]
    return _by_limit(timeline, spent, limited, "cwnd", "rwnd", "application")


def _silent(seen: Reconstruction, *names: str) -> dict[str, float]:
    """Share of the time beyond the longest round trip in which no ACK came, by these limits: what was sent then, and
    whether a timer sent it, is among what the tap lost. A closed window is silent by itself."""
    timeline = seen.timeline
    if not names or not len(timeline.rtt[1]) or len(timeline.ack_ns) < 2:
        return {}
    beyond = np.diff(timeline.ack_ns) - int(timeline.rtt[1].max())
    limited = limited_at(timeline)[:-1]
    is_open = (beyond > 0) & (seen.flight[:-1] > 0) & (timeline.rwnd[:-1] >= timeline.smss)
    return _by_limit(timeline, beyond[is_open], limited[is_open], *names)


def _leave_unanswered(shares: dict[str, float], seen: Reconstruction, tap: Tap) -> None:
    """Takes out of `shares` the silences longer than any timer's: what was sent in them was answered, so neither what
    held the sender back at their beginning nor a recovery lasted as long. Behind the last ACK a timeline that rests on
    ACKs alone has no time at all."""
    timeline = seen.timeline
    whole_ns = int(timeline.send_ns[-1]) - timeline.start_ns
    spans, limited = _spans(timeline), limited_at(timeline)
    silent_ns = silent_behind(spans, seen.typical_rtt_ns)
    # An application's pauses are silent too, and stay its own, as do closed windows, beyond which nobody sends; behind
    # the last ACK all is unanswered.
    is_within = seen.flight <= timeline.rwnd + DELAYED_ACK_SEGMENTS * timeline.smss
    silent_ns[(limited == LIMITS.index("application")) | ((limited == LIMITS.index("rwnd")) & is_within)] = 0
    if tap.unanswered_ns >= spans[-1]:
        silent_ns[-1] = spans[-1]
    before, silent = shares[UNKNOWN], share_of(timeline, float(silent_ns.sum()))
    for name, most in _by_limit(timeline, silent_ns, limited, *LIMITS).items():
        _move(shares, name, most=most)
    for name in ("cwnd", "recovery", "application"):
        # What was sent meanwhile was put down to a window that filled.
        _move(shares, name, most=max(before + silent - shares[UNKNOWN], 0.0))
    left_ns = tap.unanswered_ns - int(silent_ns.sum())
    if left_ns > 0 and whole_ns > 0:
        known = whole_ns / (whole_ns + left_ns)
        shares.update({name: round(share * known, 4) for name, share in shares.items()})
        shares[UNKNOWN] = round(shares[UNKNOWN] + 1 - known, 4)


def _resumed_unseen(seen: Reconstruction) -> float:
    """Share of the time behind ACKs of all that was sent, away from the sender, of which the next ACK shows no window
    at work: what the first of them seems to have released may have been written later."""
    timeline, columns = seen.timeline, seen.timeline.observed.windows()
    acks, _ = timeline.answered_to_the_end
    acks = np.unique(acks)
    acks = acks[acks + 1 < len(timeline.ack_ns)]
    at = np.maximum(
        np.searchsorted(columns["time_ns"], timeline.ack_ns[np.stack((acks, acks + 1))], side="right") - 1, 0
    )
    limited, following = columns["limited_by"][at]
    is_open = (limited == LIMITS.index("cwnd")) & (following == LIMITS.index("application"))
    return share_of(timeline, float((timeline.ack_ns[acks + 1] - timeline.ack_ns[acks])[is_open].sum()))


def _unsure(seen: Reconstruction, *, is_rhythm: bool) -> dict[str, float]:
    """Of a rebuilt flight: the time in which it may be so much more or less that either window may be the limit."""
    timeline = seen.timeline
    if not len(timeline.slack) or len(timeline.send_ns) < 2:
        return {}
    spans, limited = _spans(timeline), limited_at(timeline)
    unknown = is_either(timeline, limited, np.arange(len(limited)))
    if is_rhythm:
        unknown |= (limited == LIMITS.index("cwnd")) & (seen.flight > RHYTHM_SHARE * timeline.rwnd)
    return _by_limit(timeline, spans[unknown], limited[unknown], "cwnd", "rwnd")


def _in_words(seen: Reconstruction) -> float:
    """Share of the time put down to the congestion window with less than two full segments in flight, of a sender of
    which one in each is short: nobody sends one as long as there is more to send (RFC 1122 section 4.2.3.4), and a
    window that has lost nothing is no smaller (RFC 5681 section 3.1)."""
    timeline = seen.timeline
    sizes, counts = timeline.sizes
    if seen.episodes or int(counts[sizes < timeline.smss].sum()) < MAJORITY * int(counts.sum()):
        return 0.0
    is_below = seen.flight < DELAYED_ACK_SEGMENTS * timeline.smss
    if np.mean(is_below) < 1 - MINORITY:
        # More was in flight again and again: what a long wait had less of may be the end of an answer.
        return 0.0
    return _by_limit(timeline, _spans(timeline)[is_below], limited_at(timeline)[is_below], "cwnd")["cwnd"]


def _full_with_unpassed(seen: Reconstruction, before_ns: int) -> float:
    """Share of the time put down to the congestion window in which what was in flight fills the receiver's window with
    what had left and not yet passed."""
    timeline = seen.timeline
    passed = _core.places(timeline.send_ns, timeline.ack_ns + before_ns, or_equal=True)
    flight = timeline.snd_max[np.maximum(passed - 1, 0)] - timeline.snd_una
    is_full = (passed > 0) & (flight > timeline.rwnd - timeline.smss)
    return _by_limit(timeline, _spans(timeline)[is_full], limited_at(timeline)[is_full], "cwnd")["cwnd"]


def _near_rwnd(seen: Reconstruction) -> float:
    """Share of the time put down to the congestion window with so much in flight that it may be the receiver's."""
    timeline = seen.timeline
    is_near = seen.flight > WITHIN_RWND * timeline.rwnd
    return _by_limit(timeline, _spans(timeline)[is_near], limited_at(timeline)[is_near], "cwnd")["cwnd"]


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


def stalls_ns(timeline: Timeline, tap: Tap) -> Ints:
    """How long each closed window lasted, where more data was sent after it: seen from anywhere."""
    closed = timeline.rwnd < (1 if tap.shift.value is None else timeline.smss)
    if not closed.any() or not len(timeline.send_ns):
        return np.zeros(0, dtype=np.int64)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], closed, [False])).astype(np.int8)))
    first, over = edges[::2], edges[1::2]
    fresh = timeline.send_ns[~timeline.is_retransmission]
    last_ns = int(fresh[-1]) if len(fresh) else 0
    ends = timeline.ack_ns[np.minimum(over, len(closed) - 1)]
    kept = (over < len(closed)) & (ends <= last_ns)
    found: Ints = (ends - timeline.ack_ns[first])[kept]
    return found


def closed_only(seen: Reconstruction, tap: Tap) -> dict[str, float]:
    """What is seen where the flight is not: the receiver's closed windows. Empty: there were none."""
    timeline = seen.timeline
    if tap.refuses("limits") or not len(timeline.send_ns):
        return {}
    whole = int(timeline.send_ns[-1]) - timeline.start_ns
    share = round(min(float(stalls_ns(timeline, tap).sum()) / whole, 1.0), 4) if whole > 0 else 0.0
    return {**dict.fromkeys(LIMITS, 0.0), "rwnd": share, UNKNOWN: round(1 - share, 4)} if share else {}


def _may_fill_half(seen: Reconstruction, tap: Tap) -> bool:
    """Whether what was in flight fills the receiver's window if that is half as wide: where no SYN tells its scale,
    what the tap put out of order makes a flight beyond it, and the least scale that fits one too many."""
    if tap.shift.value is not None or not tap.least_shift or seen.timeline.has_start:
        return False
    return _core.percentile(seen.flight, UNQUEUED_PERCENTILE) > WITHIN_RWND / 2 * _core.median(seen.timeline.rwnd)


def stood(seen: Reconstruction) -> float:
    """Share of the time in which what was in flight stood, as no window that grows does."""
    if not seen.stands.any():
        return 0.0
    return share_of(seen.timeline, float(_spans(seen.timeline)[seen.stands].sum()))


def _blurs(seen: Reconstruction, tap: Tap) -> bool:
    """Whether the clock does not tell an answer at once from one some time before the next ACK."""
    times = seen.timeline.ack_ns
    if len(times) < 2 or tap.clock.resolution_ns <= FINE_NS:
        return False
    # Ticks round an ACK and its answer alike; stamps that jitter do not.
    soon = _core.PROMPT_PARTS if tap.clock.jitter_ns else _core.PROMPT_PARTS / 2
    return bool(tap.clock.resolution_ns > float(times[-1] - times[0]) / len(times) / soon)
