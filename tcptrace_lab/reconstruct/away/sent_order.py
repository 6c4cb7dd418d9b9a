"""The order in which segments left, from where they arrived, with those lost on the way put back.

A path is FIFO but for reordering, which timestamps, the IP identification or the time tell from a retransmission: what
fills a hole and had left before the segment above it was overtaken; what left after it was sent again. A hole is then
where segments were lost: they had left between their neighbours.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.away.arrivals import (
    IP_ID_SPACE,
    NEVER,
    Arrivals,
    Sends,
    goes_back,
    holes,
    put_in,
    reached,
)
from tcptrace_lab.reconstruct.away.numbered import counts_packets, with_missing_numbers
from tcptrace_lab.reconstruct.distinct import distinct, is_among
from tcptrace_lab.reconstruct.timeline import Ints, Places, Timeline, rows_from

# What an identification says is older may be one that came round after 65,536 packets: not within so many turns, which
# may themselves be known too short.
LATEST_TURNS = 4


def in_sent_order(timeline: Timeline, seen: Arrivals, turn_ns: int | None, *, sent_before: int = 0) -> Sends:
    """Of a timeline's arrivals; `turn_ns` and `sent_before` as below."""
    start, sack = timeline.has_start, timeline.has_sack
    return sends(seen, timeline.smss, turn_ns, has_start=start, has_sack=sack, sent_before=sent_before)


def sends(
    seen: Arrivals,
    smss: int,
    turn_ns: int | None,
    *,
    has_start: bool = False,
    has_sack: bool = True,
    sent_before: int = 0,
) -> Sends:
    """`turn_ns`: from the tap to the sender and back. Nothing that answers news from the tap can come sooner. None: not
    known, so that what was sent twice shows by its number only.

    `has_start`: offset 0 is the connection's first byte, so what lies before the first arrival was lost as well.
    `sent_before`: what is below had left before the capture began. It may have come by then: no loss is put back.
    """
    whole = _with_holes(seen, _order(seen, turn_ns), smss, has_start=has_start, sent_before=sent_before)
    later_ns = NEVER if turn_ns is None else turn_ns
    counted = with_missing_numbers(whole, seen, smss, later_ns, has_sack=has_sack)
    return _with_lost_again(whole, seen, later_ns) if counted is None else replace(counted, is_counted=True)


def _with_holes(seen: Arrivals, order: Places, smss: int, *, has_start: bool, sent_before: int) -> Sends:
    """The arrivals in this order, and before each that begins above all before it what is missing."""
    offset, end = seen.offset[order], seen.end[order]
    top = reached(offset, end)
    if has_start and len(top):
        top[0] = 0
    np.maximum(top, sent_before, out=top)
    gaps: Places = np.flatnonzero(offset > top).astype(np.int32)
    left, right, before = _cut(top[gaps], offset[gaps], gaps, _boundaries(offset, end, top))
    sizes = right - left
    # A hole as wide as all that was captured is no loss: it is put back as one piece, so that memory stays bounded.
    pieces = np.where(sizes <= max(smss * len(order), smss), -(-sizes // smss), 1)
    if pieces.sum() > 2 * len(order):
        left, right, before = top[gaps], offset[gaps], gaps
        pieces = np.ones(len(gaps), dtype=np.int64)
    number = np.arange(int(pieces.sum())) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    right = np.repeat(right, pieces)
    left = np.repeat(left, pieces) + number * smss
    right = np.where(np.repeat(pieces, pieces) > 1, np.minimum(left + smss, right), right)
    before = np.repeat(before, pieces)
    # Each as long as the capture, and let go as soon as what is made of it is there.
    del top
    row = np.insert(order, before, -1)
    offset = np.insert(offset, before, left)
    end = np.insert(end, before, right)
    return Sends(row=row, offset=offset, end=end)


def _boundaries(offset: Ints, end: Ints, top: Ints) -> Ints:
    """Where one segment that was sent again ends and another begins."""
    is_again = offset < top
    begins = distinct(offset[is_again])
    return begins[is_among(begins, end[is_again])]


def _cut(left: Ints, right: Ints, before: Places, boundaries: Ints) -> tuple[Ints, Ints, Places]:
    """Holes from `left` to `right`, in pieces: a host sends again what it has in its queue, in the segments in which it
    left first, of which one that ends a write is short. `before`: the places that they stand before."""
    first = np.searchsorted(boundaries, left, side="right")
    inside = np.maximum(np.searchsorted(boundaries, right) - first, 0)
    if not inside.any():
        return left, right, before
    cuts = boundaries[rows_from(first, inside)]
    holes = np.repeat(np.arange(len(left)), inside)
    lefts = np.insert(left, holes + 1, cuts)
    rights = np.insert(right, holes, cuts)
    return lefts, rights, np.repeat(before, inside + 1)


def _order(seen: Arrivals, turn_ns: int | None) -> Places:
    """The arrivals in the order of leaving."""
    count = len(seen.offset)
    index = np.arange(count, dtype=np.int32)
    top = np.maximum.accumulate(seen.end) if count else seen.end
    below = np.flatnonzero(goes_back(seen.offset, seen.end))
    above = np.searchsorted(top, seen.end[below], side="left")
    fills = seen.offset[above] >= seen.end[below]
    below, above = below[fills], above[fills]
    if counts_packets(seen.ip_id):
        steps = (seen.ip_id[below] - seen.ip_id[above]) % IP_ID_SPACE
        overtaken = steps > IP_ID_SPACE // 2
        # An identification that went round says nothing.
        overtaken &= seen.time_ns[below] - seen.time_ns[above] < (
            NEVER if turn_ns is None else max(turn_ns, 1) * LATEST_TURNS
        )
    else:
        # Within one stamp nothing is answered, nor within a turn, which may itself be known too long.
        soon_ns = _core.swapped_ns(turn_ns or 0)
        if turn_ns is not None:
            soon_ns = min(max(turn_ns, 1), soon_ns)
        overtaken = seen.time_ns[below] - seen.time_ns[above] < soon_ns
    if seen.stamp is not None:
        later = seen.stamp[below] - seen.stamp[above]
        overtaken = (later < 0) | ((later == 0) & overtaken)
    key = 2 * index
    key[below[overtaken]] = 2 * above[overtaken] - 1
    return np.lexsort((seen.offset, key)).astype(np.int32) if overtaken.any() else index


def _with_lost_again(whole: Sends, seen: Arrivals, turn_ns: int) -> Sends:
    """Retransmissions that were lost too: a hole still open when a higher one was filled, and filled later.

    A sender goes through its holes from the lowest up (RFC 6675 `NextSeg`): it had sent this one before that one.
    """
    lost, filled = holes(whole)
    if not len(lost):
        return whole
    # The earliest among the fills of all higher holes.
    above = np.concatenate((np.minimum.accumulate(filled[::-1])[::-1][1:], [NEVER]))
    repeated = np.flatnonzero((filled < NEVER) & (above < filled))
    sent, passed = whole.row[filled[repeated]], whole.row[above[repeated]]
    if seen.stamp is not None:
        repeated = repeated[seen.stamp[sent] > seen.stamp[passed]]
    else:
        repeated = repeated[seen.time_ns[sent] - seen.time_ns[passed] > turn_ns]
    return put_in(whole, above[repeated], lost[repeated])
