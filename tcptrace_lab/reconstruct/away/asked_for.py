"""Without SACK: which of the ACKs that a segment may answer asked for what is sent again, and which ended its recovery.

A tick of the receiver's clock holds several ACKs. Of those a sender that knows of no hole but at `snd_una` answers the
third duplicate (RFC 5681 section 3.2), and a window of one segment no duplicate at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tcptrace_lab.reconstruct.away.arrivals import Sends, reached
from tcptrace_lab.reconstruct.away.echoes import Bounds, in_order
from tcptrace_lab.reconstruct.losses import DUP_THRESH
from tcptrace_lab.reconstruct.timeline import Ints, Places, Timeline

# Of what a window of one segment has grown to when the first ACK behind its loss is heard (RFC 5681 section 3.1).
BEHIND_RESTART_SEGMENTS = 2


@dataclass(frozen=True, kw_only=True)
class _Recovery:
    """Its first send, the next that is sent again (None: none), the ACK that moved `snd_una` to the first, and what had
    been sent by then (RFC 6582 `recover`)."""

    first: int
    next: int | None
    una: int
    recover: int


def as_asked(timeline: Timeline, left: Sends, bounds: Bounds) -> Bounds:
    """`bounds`, narrower where two of the ACKs in them cannot both have released what is sent then."""
    if timeline.has_sack:
        return bounds
    top = reached(left.offset, left.end)
    again, asked = _asked(timeline, left, top)
    low, high = bounds.low.copy(), bounds.high.copy()
    asked = asked.astype(low.dtype)
    low[again] = np.where(asked <= high[again], np.maximum(low[again], asked), low[again])
    told = np.flatnonzero(timeline.delivered - timeline.snd_una >= DUP_THRESH * timeline.smss)
    for each in _recoveries(timeline, left, (again, asked), top):
        third = _next(told, each.una)
        is_first = third is not None and timeline.snd_una[third] == timeline.snd_una[each.una]
        if third is not None and is_first and low[each.first] <= third <= high[each.first]:
            low[each.first] = high[each.first] = third
        _next_one(timeline, left, each, low, high)
        _released_at_end(timeline, left, each, low, high)
    return in_order(low, high, left)


def least_turn(timeline: Timeline, left: Sends, echoed: Bounds, taken: Ints) -> int | None:
    """From the ACK that asked for what is sent again until that passes the tap, the least: of the ACKs that it echoes
    the first came before it. `taken`: from that first one, of each arrival (below 0: not known). None: of nothing."""
    if timeline.has_sack:
        return None
    again, asked = _asked(timeline, left, reached(left.offset, left.end))
    row = left.row[again]
    is_named = (row >= 0) & (taken[row] >= 0) & (left.end[again] - left.offset[again] >= timeline.smss)
    is_named &= (echoed.low[row] <= asked) & (asked <= echoed.high[row])
    row, asked = row[is_named], asked[is_named]
    found = taken[row] - (timeline.ack_ns[asked] - timeline.ack_ns[echoed.low[row]])
    found = found[found > 0]
    return int(found.min()) if len(found) else None


def _asked(timeline: Timeline, left: Sends, top: Ints) -> tuple[Ints, Ints]:
    """What is sent again and does not go on behind the segment before: it begins at `snd_una` (RFC 5681 section 3.2,
    RFC 6582, RFC 6298), so that the ACK which moved that there had been heard."""
    goes_on = np.append(False, left.offset[1:] == left.end[:-1])
    again = np.flatnonzero((left.offset < top) & ~goes_on)
    return again, np.searchsorted(timeline.snd_una, left.offset[again], side="left")


def _recoveries(timeline: Timeline, left: Sends, asked: tuple[Ints, Ints], top: Ints) -> Iterator[_Recovery]:
    """Those of which what was sent first lies above all that had been sent when the one before began; `asked`: of
    `_asked`."""
    recover = np.iinfo(np.int64).min
    repeats = np.flatnonzero(left.offset < top)
    for first, ack in zip(*(each.tolist() for each in asked), strict=True):
        if left.offset[first] >= recover and ack < len(timeline.snd_una):
            recover = int(top[first])
            if timeline.snd_una[ack] == left.offset[first]:
                yield _Recovery(first=first, next=_next(repeats, first + 1), una=ack, recover=recover)


def _next(places: Ints, least: int) -> int | None:
    at = int(np.searchsorted(places, least))
    return int(places[at]) if at < len(places) else None


def _next_one(timeline: Timeline, left: Sends, each: _Recovery, low: Places, high: Places) -> None:
    """What is sent again next, though it goes on behind the first: no duplicate releases it, only what moves `snd_una`
    (RFC 6582 section 3.2 step 3; a window of one segment likewise)."""
    if each.next is not None and left.row[each.next] >= 0 and left.offset[each.next] > left.offset[each.first]:
        moves = int(np.searchsorted(timeline.snd_una, left.offset[each.first], side="right"))
        if low[each.next] < moves <= high[each.next]:
            low[each.next] = moves


def _released_at_end(timeline: Timeline, left: Sends, each: _Recovery, low: Places, high: Places) -> None:
    """What left first behind a recovery, with the ACK that ended it where a duplicate of its tick may have released it.

    Fast recovery goes on with half of what was outstanding (RFC 5681 section 3.2 step 6): a sender that has no more
    than two segments in the network then had gone back to one, and no duplicate opens that.
    """
    over = int(np.searchsorted(timeline.snd_una, each.recover, side="left"))
    # In order of leaving, and of the ACKs.
    until = int(np.searchsorted(low, over, side="right"))
    fresh = each.first + np.flatnonzero(left.offset[each.first : until] >= each.recover)
    if over == len(timeline.snd_una) or not len(fresh) or not low[fresh[0]] < over <= high[fresh].min():
        return
    size = int(left.end[fresh].max()) - each.recover
    half = (each.recover - int(left.offset[each.first])) // 2
    if size <= min(BEHIND_RESTART_SEGMENTS * timeline.smss, half - timeline.smss):
        low[fresh] = over
