"""What limited a sender whose window is not seen: from loss to loss, where each met a queue that its own data filled.

At a receiver, without timestamps, the ACKs tell when each recovery began and ended. Where more was outstanding than
passes in a turn, or a repair came later than a turn after the ACK that asked for it, there was a queue: no application
held that back, nor the receiver's window where it had room for more. From the recovery before up to such a loss, with
no pause and no end of a write between them, it was the window; so it was where ACKs let go what came between. What
follows the last loss, or a timer, stays unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tcptrace_lab.classify.sender.recovering import silent_behind
from tcptrace_lab.classify.sender.shares import UNKNOWN
from tcptrace_lab.reconstruct.away.rhythm import is_chance
from tcptrace_lab.reconstruct.away.sender_view import SenderView
from tcptrace_lab.reconstruct.given import FULL_SHARE, MAJORITY, MINORITY
from tcptrace_lab.reconstruct.losses import DUP_THRESH, Episode
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Bools, Ints, Timeline
from tcptrace_lab.reconstruct.windows import LIMITS


def is_doubtful(event: Episode) -> bool:
    """Whether an event at inferred times may be none, one of two, or another's: it is not sure, began as the one before
    ended, or with nothing outstanding."""
    return not event.sure or event.follows or event.flight <= 0


def opens_at_each_ack(timeline: Timeline, loss: Episode) -> bool:
    """Whether the window at the first loss is one that each ACK has opened by a segment (RFC 5681 section 3.1 (2))."""
    known = int(timeline.acks_before_send[loss.first_send])
    opened = np.count_nonzero(timeline.newly_acked[:known] > 0)
    return timeline.has_start and bool(loss.window_before >= FULL_SHARE * opened * timeline.smss)


def is_untold_behind(timeline: Timeline, recover: Ints) -> Bools:
    """Of each recovery that ends with an ACK of so much, whether nothing had told of a next loss when it was over."""
    over = np.searchsorted(timeline.snd_una, recover, side="left")
    found: Bools = over < len(timeline.snd_una)
    over = over[found]
    found[found] = timeline.delivered[over] - timeline.snd_una[over] < DUP_THRESH * timeline.smss
    return found


@dataclass(frozen=True, kw_only=True)
class _Recovery:
    """At `first` something was missing, at the latest at `asked` that was sent again, and at `over` all was mended.

    ACKs. `flight`: what was outstanding when it began. `is_asked`: duplicate ACKs asked for it, and it is over;
    `is_windows`: that flight was a window, too, and filled a queue; `is_sure`: nor did the window restart, which makes
    of all that follows the repair a slow start.
    """

    first: int
    asked: int
    over: int
    flight: int
    is_asked: bool
    is_windows: bool
    is_sure: bool


def limits_by_losses(
    seen: Reconstruction,
    order: SenderView,
    *,
    unanswered_ns: int = 0,
    by_flights: dict[str, float] | None = None,
) -> dict[str, float]:
    """The shares of the time by cause, `unknown` among them; empty: the losses tell nothing.

    `unanswered_ns`: how long data passed that was answered by ACKs which were not captured; `by_flights`: what the data
    alone tells of the time up to its first retransmission.
    """
    timeline, turn_ns = seen.timeline, order.turn_ns
    losses = [each for each in seen.episodes if each.is_loss]
    whole_ns = int(timeline.send_ns[-1]) - timeline.start_ns if len(timeline.send_ns) else 0
    if not losses or turn_ns <= 0 or whole_ns <= 0:
        return {}
    spacing_ns = 0 if order.by_rhythm is None else order.by_rhythm.spacing_ns
    recoveries = [_recovery(timeline, each, turn_ns, spacing_ns) for each in losses]
    times, first = timeline.ack_ns, recoveries[0]
    # What held the sender back in a silence is not known: such a time belongs to none.
    silent_ns = np.where(_lets_go_more(timeline, max(each.flight for each in losses)), np.diff(times), 0)
    if unanswered_ns:
        # Nor does what lies behind the last ACK.
        silent_ns = np.maximum(silent_ns, silent_behind(np.diff(times), turn_ns))
        whole_ns += max(unanswered_ns - int(silent_ns.sum()), 0)
    times = times - np.append(0, np.cumsum(silent_ns))
    begun = recovery = 0
    # Of ACKs that are missing between two captured ones any may have told of the loss, or have ended the recovery.
    unheard = 1 if seen.is_stretched else 0
    if first.is_windows and timeline.has_start:
        until = max(first.first - unheard, 0)
        begun = _unheld_ns(timeline, times[: until + 1], 0, first.flight, turn_ns)
    cwnd = begun
    # A sender goes on each time where at one loss it did for sure, and at none that was asked for the window restarted.
    asked = [loss for loss, one in zip(losses, recoveries, strict=True) if one.is_asked]
    goes_on = any(one.is_sure for one in recoveries) and not any(loss.restarts for loss in asked)
    following: Sequence[_Recovery | None] = [*recoveries[1:], None]
    for one, after in zip(recoveries, following, strict=True):
        over = one.over if after is None else min(one.over, after.asked)
        if not one.is_asked:
            continue
        if one.is_sure or goes_on:
            # A silence longer than any timer's is none of it: the tap missed what was sent, or its clock was set.
            spans_ns = np.diff(times[one.asked : max(over - unheard, one.asked) + 1])
            recovery += int((spans_ns - silent_behind(spans_ns, turn_ns)).sum())
        if after is None or after.first <= over:
            continue
        if not (after.is_windows or (after.is_asked and _is_clocked(timeline, order, over, after.first))):
            continue
        until = max(after.first - unheard, over)
        cwnd += _unheld_ns(timeline, times[over : until + 1], over, max(one.flight, after.flight), turn_ns)
    if not cwnd + recovery:
        return {}
    told = {**dict.fromkeys(LIMITS, 0.0), "cwnd": cwnd / whole_ns, "recovery": recovery / whole_ns}
    if not begun and by_flights:
        told["cwnd"], told["application"] = told["cwnd"] + by_flights["cwnd"], by_flights["application"]
    told = {name: round(share, 4) for name, share in told.items()}
    return {**told, UNKNOWN: round(max(1.0 - sum(told.values()), 0.0), 4)}


def _lets_go_more(timeline: Timeline, flight: int) -> Bools:
    """Of each ACK but the last, whether more new data left behind it than was outstanding at any loss: no window lets
    as much go at once (RFC 5681 section 3.1), so others were heard and not captured."""
    # Of the first what left with it.
    behind = np.maximum(timeline.sends_before_next_ack[:-1] - 1, 0)
    top = timeline.snd_max[behind]
    found: Bools = np.diff(top, prepend=top[:1]) > flight
    return found


def _recovery(timeline: Timeline, loss: Episode, turn_ns: int, spacing_ns: int) -> _Recovery:
    asked = max(int(timeline.acks_before_send[loss.first_send]) - 1, 0)
    mended = int(np.searchsorted(timeline.snd_una, loss.una, side="right"))
    over = int(np.searchsorted(timeline.snd_una, loss.recover, side="left"))
    has_ended = max(over, mended) < len(timeline.ack_ns)
    taken_ns = int(timeline.ack_ns[mended] - timeline.ack_ns[asked]) if has_ended else 0
    # More was outstanding than passes in a turn, the segment apart that is in service; or the repair stood in a queue.
    is_queued = (loss.window_before - timeline.smss) * spacing_ns > turn_ns * timeline.smss
    is_queued |= taken_ns > (1 + MINORITY) * turn_ns
    # Whether the window restarted is not asked, but what a timer sent again waited for that.
    is_asked = has_ended and loss.is_asked and not loss.follows and loss.flight > 0
    return _Recovery(
        # RFC 8985: by its time the first duplicate may tell of the loss.
        first=min(max(int(timeline.last_moved[asked]), 0) + 1, asked),
        asked=asked,
        over=max(over, asked),
        flight=loss.flight,
        is_asked=is_asked,
        is_windows=is_asked and is_queued,
        is_sure=is_asked and not loss.restarts and not is_doubtful(loss),
    )


def _is_clocked(timeline: Timeline, order: SenderView, over: int, until: int) -> bool:
    """Whether most of what met no queue between two ACKs came a turn behind an ACK, as what a window lets go does, and
    more than chance brings there."""
    told = order.by_rhythm
    if told is None:
        return False
    sent = slice(*np.searchsorted(timeline.send_ns, timeline.ack_ns[[over, until]]))
    free, at_once = (int(np.count_nonzero(each[sent])) for each in (told.met_no_queue, told.came_at_once))
    if at_once <= MAJORITY * free:
        return False
    near = 2 * told.near_ns * (until - over) / max(int(timeline.ack_ns[until] - timeline.ack_ns[over]), 1)
    return near < 1 and not is_chance(at_once, free, free, near)


def _unheld_ns(timeline: Timeline, times: Ints, over: int, most: int, turn_ns: int) -> int:
    """How long between two ACKs nothing but a window of up to `most` held back, by `times`, those of the ACKs from
    `over` on.

    None, where all was answered and nothing followed, or a segment that was not full ended what there was to send. Nor
    behind an ACK whose receiver had no room for a segment more than what was outstanding at the most, which the order
    of what was sent tells to the segment: it offers less while it holds what came above a hole.
    """
    until = over + len(times) - 1
    acks, sends = timeline.answered_to_the_end
    within = (acks >= over) & (acks < until)
    waits = timeline.send_ns[sends[within]] - timeline.ack_ns[acks[within]]
    sent = slice(*np.searchsorted(timeline.send_ns, timeline.ack_ns[[over, until]]))
    sizes = (timeline.send_end[sent] - timeline.send_offset[sent])[~timeline.is_retransmission[sent]]
    if (waits > MAJORITY * turn_ns).any() or (sizes < timeline.smss).any():
        return 0
    has_room = timeline.rwnd[over:until] >= most + timeline.smss
    return int(np.diff(times)[has_room].sum())
