"""What limited the sender, as shares of the time: the verdict's `limits`, no finer than the tap allows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.path.causes import pauses_unseen
from tcptrace_lab.classify.sender.bursts import before_bursts
from tcptrace_lab.classify.sender.limits_unheard import begun_before, is_scale_of_missing, leave_unheard, missing_share
from tcptrace_lab.classify.sender.recovering import (
    has_no_block,
    recovering_beyond,
    recovering_longer,
    recovering_on,
    recovering_unsure,
    recovering_until_heard,
    spent,
    waited_for_probes,
)
from tcptrace_lab.classify.sender.shares import UNKNOWN, by_limit, move, share_of, spans_of, within
from tcptrace_lab.classify.sender.written import (
    UNQUEUED_PERCENTILE,
    WITHIN_RWND,
    catches_up,
    does_not_grow,
    is_words,
    stays_below,
    stays_level,
)
from tcptrace_lab.reconstruct.distinct import distinct
from tcptrace_lab.reconstruct.given import DELAYED_ACK_SEGMENTS, MAJORITY, MINORITY, ODD_SHARE
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.tap.tap import Tap
from tcptrace_lab.reconstruct.timeline import Ints, Timeline
from tcptrace_lab.reconstruct.windows import LIMITS, is_either, limited_at

# By which of a turn's ACKs a segment left a rhythm does not tell, and behind a standing queue it lags by more: a window
# is told to this part of it.
RHYTHM_SHARE = 0.7
# A clock as fine as this blurs nothing.
FINE_NS = 1_000


@dataclass(frozen=True, kw_only=True)
class Known:
    """What is known of a flow's place of capture, and of its control, beside what was in flight.

    `is_rebuilt`: captured elsewhere, or behind a line of the sender's. How promptly ACKs released segments is then not
    seen, pauses and emptied windows are. `is_blurred`: neither is how much was in flight, closed windows are, and a
    round trip of each recovery. `before_ns`: what a segment takes to the tap through a line of the sender's.
    `is_rhythm`: which ACK let what go was told by a rhythm. `is_spaced`: what passes comes at one pace, a queue's
    before the tap or an application's.

    `is_paced`: the control is known to send by a rate of its own; that is its window at work. `held`: the share in
    which what was in flight `stood`, by no control that goes by delay. `is_law`: a law of the table was followed to the
    ACK, where others were not: what nothing else held back was its window.
    """

    is_rebuilt: bool = False
    is_blurred: bool = False
    before_ns: int = 0
    is_rhythm: bool = False
    is_spaced: bool = False
    is_paced: bool = False
    held: float = 0.0
    is_law: bool = False


def limits_told(seen: Reconstruction, tap: Tap, known: Known) -> dict[str, float]:
    """The shares by cause; where two causes fit the same time it is `unknown`."""
    if not seen.limits or tap.refuses("limits"):
        return {}
    shares = {**seen.limits, UNKNOWN: 0.0}
    if known.before_ns:
        move(shares, "cwnd", "rwnd", most=_full_with_unpassed(seen, known.before_ns))
    missing = missing_share(seen, tap, is_rebuilt=known.is_rebuilt)
    if missing > ODD_SHARE:
        # Nor is a law followed to ACKs that are missing.
        known = replace(known, is_blurred=True, is_law=False)
    _leave_pauses(shares, seen, tap, known, missing=missing)
    if not (known.is_law or known.is_paced or known.is_rebuilt):
        for name, most in _before_bursts(seen).items():
            move(shares, name, most=most)
    _leave_written(shares, seen, tap, known)
    if shares["rwnd"] and not known.is_rebuilt:
        move(shares, "rwnd", most=_filled_late(seen, tap))
    if known.is_blurred:
        # The least windows that fit were taken for what was in flight, which the missing ACKs make more than it was.
        is_near_known = known.is_law and not (tap.shift.value is None and tap.blurs_flight)
        move(shares, "cwnd", most=_near_rwnd(seen) if is_near_known else 1.0)
        move(shares, "rwnd", most=shares["rwnd"] - closed_only(seen, tap).get("rwnd", 0.0))
    for name, most in _opened(seen, tap, known).items():
        move(shares, name, most=most)
    leave_unheard(shares, seen, tap)
    if known.is_rebuilt:
        # A pause may be a timeout's: what was lost at its beginning left no hole at the tap.
        move(shares, "application", most=_paused_unseen(seen))
    _leave_unscaled(shares, seen, tap)
    return shares


def _leave_written(shares: dict[str, float], seen: Reconstruction, tap: Tap, known: Known) -> None:
    """Takes out of `shares` what was put down to the congestion window and is what was written, or a buffer's."""
    if shares["cwnd"] and _in_words(seen) > MAJORITY * shares["cwnd"]:
        # A word at a time, each held until the last was answered (RFC 896).
        move(shares, "cwnd", "application")
    # A send buffer's, or a fixed window's.
    move(shares, "cwnd", most=known.held)
    is_sure = known.is_law or shares["cwnd"] <= MAJORITY
    # One that marks cut falls without a loss.
    is_cut = known.is_paced or tap.ecn_cuts > 0
    if not is_cut and (stays_level(seen) if known.is_rebuilt else not is_sure and does_not_grow(seen)):
        # A window of Vegas' kind, or a slow application: at its sender alone promptness tells, where a law is followed,
        # or that all that was written had been sent again and again: by chance its writes then meet ACKs.
        is_written = not known.is_rebuilt and stays_below(seen) and catches_up(seen)
        move(shares, "cwnd", "application" if is_written else UNKNOWN)


def _leave_pauses(shares: dict[str, float], seen: Reconstruction, tap: Tap, known: Known, *, missing: float) -> None:
    """Takes out of `shares` what was put down to the application and may be another's."""
    is_rebuilt, is_paced, before_ns = known.is_rebuilt, known.is_paced, known.before_ns
    unclocked = shares["application"] - min(shares["application"], seen.timeline.observed.starved)
    if is_paced:
        move(shares, "application", "cwnd", most=unclocked)
    elif (
        tap.blurs_flight
        or tap.exceeds_scale
        or known.is_spaced
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
        move(shares, "application", most=unclocked)
    if before_ns:
        # Nor is it a pause that what had left takes to the tap.
        move(shares, "application", most=paused(seen, 0) - paused(seen, before_ns))
    if (missing > ODD_SHARE or known.is_blurred) and not is_paced:
        # How much was outstanding before a pause, and so when its window was full again, is not known either.
        move(shares, "application", most=shares["application"] - paused(seen, _core.HOST_NS))


def _opened(seen: Reconstruction, tap: Tap, known: Known) -> dict[str, float]:
    """Shares of the time in which recoveries, and the flight, do not tell which window was at work."""
    if known.is_blurred:
        opened = {"recovery": recovering_longer(seen)}
    else:
        opened = _unsure(seen, is_rhythm=known.is_rhythm)
        opened["recovery"] = recovering_unsure(seen, tap) + waited_for_probes(seen, tap)
        opened["recovery"] += recovering_until_heard(seen)
    if has_no_block(seen, tap):
        # When one recovery is over, and whether the next send was a timer's, is told by the blocks that are missing.
        opened["cwnd"] = opened.get("cwnd", 0.0) + spent(seen, [each for each in seen.episodes if each.restarts])
        opened["cwnd"] += recovering_on(seen)
    opened["cwnd"] = opened.get("cwnd", 0.0) + recovering_beyond(seen)
    for name, share in begun_before(seen, tap).items():
        opened[name] = opened.get(name, 0.0) + share
    if known.is_rebuilt:
        opened["cwnd"] += _resumed_unseen(seen)
    return opened


def _leave_unscaled(shares: dict[str, float], seen: Reconstruction, tap: Tap) -> None:
    """Takes out of `shares` what the windows' scale, or the clock, would have to tell."""
    # The windows are scaled by the least that fits, so a flight reaches one of them now and then whatever limits it: it
    # is the receiver's window if that is the scale, the congestion window if it is more. Where ACKs may be missing
    # instead it is either all the time; what windows those that were put back offered is not known.
    # That a flight ended for want of data, with room left in that window, is not told then either.
    is_open = tap.shift.value is None and shares["rwnd"] > 0 and shares["application"] > MINORITY
    if tap.exceeds_scale or is_open or is_scale_of_missing(seen, tap):
        move(shares, "cwnd")
    if tap.shift.value is None or tap.has_all_acks:
        move(shares, "rwnd")
    if _blurs(seen, tap):
        # That ACKs release segments is seen by what follows at once; with these stamps everything does.
        move(shares, "cwnd")
        if not (stays_below(seen) or catches_up(seen)):
            # Nor is a pause told from an answer at once, unless it is many ticks long.
            pauses = paused(seen, _core.PROMPT_PARTS * tap.clock.resolution_ns)
            move(shares, "application", most=shares["application"] - pauses)


def _before_bursts(seen: Reconstruction) -> dict[str, float]:
    """Share of the time, put down to a window, in which a burst that followed tells of room or of a host's delay."""
    timeline, acks = seen.timeline, before_bursts(seen)
    acks = acks[seen.flight[acks] + timeline.smss <= timeline.rwnd[acks]]
    if not len(acks):
        return {}
    return by_limit(timeline, spans_of(timeline, acks), limited_at(timeline, acks), "cwnd", "rwnd")


def paused(seen: Reconstruction, least_ns: int) -> float:
    """Share of the time in pauses of at least so long: all was acknowledged, and nothing sent."""
    timeline = seen.timeline
    acks, sends = timeline.answered_to_the_end
    # The first ACK of everything before each send.
    sends, first = np.unique(sends, return_index=True)
    waits = timeline.send_ns[sends] - timeline.ack_ns[acks[first]]
    return share_of(timeline, float(waits[waits > least_ns].sum()))


def _paused_unseen(seen: Reconstruction) -> float:
    """Share of the time in pauses, away from the sender, that may be timeouts."""
    timeline = seen.timeline
    acks, sends = pauses_unseen(seen)
    return share_of(timeline, float((timeline.send_ns[sends] - timeline.ack_ns[acks]).sum()))


def _resumed_unseen(seen: Reconstruction) -> float:
    """Share of the time behind ACKs of all that was sent, away from the sender, of which the next ACK shows no window
    at work: what the first of them seems to have released may have been written later."""
    timeline, columns = seen.timeline, seen.timeline.observed.windows()
    acks, _ = timeline.answered_to_the_end
    acks = distinct(acks)
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
    spans, limited = spans_of(timeline), limited_at(timeline)
    unknown = is_either(timeline, limited, np.arange(len(limited)))
    if is_rhythm:
        unknown |= (limited == LIMITS.index("cwnd")) & (seen.flight > RHYTHM_SHARE * timeline.rwnd)
    return by_limit(timeline, spans[unknown], limited[unknown], "cwnd", "rwnd")


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
    return within(timeline, is_below, "cwnd")["cwnd"]


def _full_with_unpassed(seen: Reconstruction, before_ns: int) -> float:
    """Share of the time put down to the congestion window in which what was in flight fills the receiver's window with
    what had left and not yet passed."""
    timeline = seen.timeline
    passed = _core.places(timeline.send_ns, timeline.ack_ns + before_ns, or_equal=True)
    flight = timeline.snd_max[np.maximum(passed - 1, 0)] - timeline.snd_una
    is_full = (passed > 0) & (flight > timeline.rwnd - timeline.smss)
    return within(timeline, is_full, "cwnd")["cwnd"]


def _filled_late(seen: Reconstruction, tap: Tap) -> float:
    """Share of the time put down to the receiver's window, at the sender, before what filled that left later than any
    host answers: while it is full nothing leaves (RFC 9293 section 3.8.6.2), so it had had room until then."""
    timeline = seen.timeline
    sent = timeline.sends_before_next_ack
    acks = np.flatnonzero(np.diff(sent, prepend=0) > 0)
    acks = acks[limited_at(timeline, acks) == LIMITS.index("rwnd")]
    # A probe leaves in spite of it (section 3.8.6.1).
    acks = acks[timeline.send_end[sent[acks] - 1] <= timeline.snd_una[acks] + timeline.rwnd[acks]]
    waits = timeline.send_ns[sent[acks] - 1] - timeline.ack_ns[acks]
    return share_of(timeline, float(waits[waits > _core.HOST_NS + tap.clock.resolution_ns].sum()))


def _near_rwnd(seen: Reconstruction) -> float:
    """Share of the time put down to the congestion window with so much in flight that it may be the receiver's."""
    timeline = seen.timeline
    is_near = seen.flight > WITHIN_RWND * timeline.rwnd
    return within(timeline, is_near, "cwnd")["cwnd"]


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
    return share_of(seen.timeline, float(spans_of(seen.timeline)[seen.stands].sum()))


def _blurs(seen: Reconstruction, tap: Tap) -> bool:
    """Whether the clock does not tell an answer at once from one some time before the next ACK."""
    times = seen.timeline.ack_ns
    if len(times) < 2 or tap.clock.resolution_ns <= FINE_NS:
        return False
    # Ticks round an ACK and its answer alike; stamps that jitter do not.
    soon = _core.PROMPT_PARTS if tap.clock.jitter_ns else _core.PROMPT_PARTS / 2
    return bool(tap.clock.resolution_ns > float(times[-1] - times[0]) / len(times) / soon)
