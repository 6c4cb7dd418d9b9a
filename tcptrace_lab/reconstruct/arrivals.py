"""The order in which segments left, from where they arrived, with those lost on the way put back.

A path is FIFO but for reordering, which timestamps, the IP identification or the time tell from a retransmission: what
fills a hole and had left before the segment above it was overtaken; what left after it was sent again. A hole is then
where segments were lost: they had left between their neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tcptrace_lab.reconstruct.sender_clock import Ints, unwrapped
from tcptrace_lab.reconstruct.timeline import Bools

# Rows of `segments` that are no transmission of the sender's window.
NOT_SENT = ("duplicate_capture", "keep_alive", "window_probe")
NEVER = np.iinfo(np.int64).max
# A host that counts its packets gives nearly every segment a little more than the one before.
COUNTS_SHARE = 0.9
COUNTS_STEP = 16
IP_ID_SPACE = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Arrivals:
    """Data segments as they passed the tap. `stamp`, `echo`: TSval (unwrapped, from 0) and TSecr, None without."""

    time_ns: Ints
    offset: Ints
    end: Ints
    ip_id: Ints
    stamp: Ints | None
    echo: Ints | None


@dataclass(frozen=True, kw_only=True)
class Sends:
    """Segments in the order in which they left; `row` is the place among the arrivals (-1: put back)."""

    row: Ints
    offset: Ints
    end: Ints

    @property
    def is_put_back(self) -> Bools:
        found: Bools = self.row < 0
        return found


def arrivals(segments: Any, smss: int) -> Arrivals:
    """What passed the tap; segments merged before it (GRO asks for equal timestamps) are taken apart again."""
    kept = (segments["length"].to_numpy() > 0) & ~segments["cause"].isin(NOT_SENT).to_numpy()
    names = ("time_ns", "offset", "length", "ts_val", "ts_ecr", "ip_id")
    data = {name: segments[name].to_numpy()[kept].astype(np.int64) for name in names}
    parts = np.maximum(-(-data["length"] // smss), 1)
    ends = data["offset"] + data["length"]
    if len(parts) and parts.max() > 1:
        number = np.arange(int(parts.sum())) - np.repeat(np.cumsum(parts) - parts, parts)
        data = {name: np.repeat(column, parts) for name, column in data.items()}
        data["offset"] = data["offset"] + number * smss
        data["ip_id"] = (data["ip_id"] + np.where(data["ip_id"] > 0, number, 0)) % IP_ID_SPACE
        ends = np.minimum(data["offset"] + smss, np.repeat(ends, parts))
    has_stamps = bool(len(ends)) and bool((data["ts_val"] >= 0).all())
    return Arrivals(
        time_ns=data["time_ns"],
        offset=data["offset"],
        end=ends,
        ip_id=data["ip_id"],
        stamp=unwrapped(data["ts_val"]) if has_stamps else None,
        echo=data["ts_ecr"] if has_stamps else None,
    )


def sends(seen: Arrivals, smss: int, turn_ns: int) -> Sends:
    """`turn_ns`: from the tap to the sender and back. Nothing that answers news from the tap can come sooner."""
    order = _order(seen, turn_ns)
    offset, end = seen.offset[order], seen.end[order]
    reached = _reached(offset, end)
    gaps = np.flatnonzero(offset > reached)
    sizes = offset[gaps] - reached[gaps]
    # A hole as wide as all that was captured is no loss: it is put back as one piece, so that memory stays bounded.
    pieces = np.where(sizes <= max(smss * len(order), smss), -(-sizes // smss), 1)
    if pieces.sum() > 2 * len(order):
        pieces = np.ones(len(gaps), dtype=np.int64)
    number = np.arange(int(pieces.sum())) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    left = np.repeat(reached[gaps], pieces) + number * smss
    right = np.where(
        np.repeat(pieces, pieces) > 1,
        np.minimum(left + smss, np.repeat(offset[gaps], pieces)),
        np.repeat(offset[gaps], pieces),
    )
    before = np.repeat(gaps, pieces)
    whole = Sends(
        row=np.insert(order, before, -1), offset=np.insert(offset, before, left), end=np.insert(end, before, right)
    )
    return _with_lost_again(whole, seen, turn_ns)


def _reached(offset: Ints, end: Ints) -> Ints:
    """The highest byte seen before each segment."""
    if not len(end):
        return end
    return np.concatenate((offset[:1], np.maximum.accumulate(end)[:-1]))


def counts_packets(ip_id: Ints) -> bool:
    """Whether the IP identification grows from packet to packet."""
    steps = np.diff(ip_id) % IP_ID_SPACE
    return len(steps) > 0 and float(np.mean((steps > 0) & (steps < COUNTS_STEP))) > COUNTS_SHARE


def _order(seen: Arrivals, turn_ns: int) -> Ints:
    """The arrivals in the order of leaving."""
    count = len(seen.offset)
    index = np.arange(count)
    top = np.maximum.accumulate(seen.end) if count else seen.end
    below = np.flatnonzero(seen.offset < _reached(seen.offset, seen.end))
    above = np.searchsorted(top, seen.end[below], side="left")
    fills = seen.offset[above] >= seen.end[below]
    below, above = below[fills], above[fills]
    if counts_packets(seen.ip_id):
        steps = (seen.ip_id[below] - seen.ip_id[above]) % IP_ID_SPACE
        overtaken = steps > IP_ID_SPACE // 2
        # An identification that went round says nothing.
        overtaken &= seen.time_ns[below] - seen.time_ns[above] < max(turn_ns, 1) * 4
    else:
        overtaken = seen.time_ns[below] - seen.time_ns[above] < turn_ns
    if seen.stamp is not None:
        later = seen.stamp[below] - seen.stamp[above]
        overtaken = (later < 0) | ((later == 0) & overtaken)
    key = 2 * index
    key[below[overtaken]] = 2 * above[overtaken] - 1
    found: Ints = np.lexsort((seen.offset, key)) if overtaken.any() else index
    return found


def _with_lost_again(whole: Sends, seen: Arrivals, turn_ns: int) -> Sends:
    """Retransmissions that were lost too: a hole still open when a higher one was filled, and filled later.

    A sender goes through its holes from the lowest up (RFC 6675 `NextSeg`): it had sent this one before that one.
    """
    lost = np.flatnonzero(whole.row < 0)
    again = np.flatnonzero((whole.offset < _reached(whole.offset, whole.end)) & (whole.row >= 0))
    if not len(lost) or not len(again):
        return whole
    # The first copy of each: in order of offset, then of time.
    again = again[np.lexsort((again, whole.offset[again]))]
    first = again[np.concatenate(([True], np.diff(whole.offset[again]) > 0))]
    at = np.searchsorted(whole.offset[first], whole.offset[lost], side="right") - 1
    known = (at >= 0) & (whole.end[first[np.maximum(at, 0)]] > whole.offset[lost])
    filled = np.where(known, first[np.maximum(at, 0)], NEVER)
    # The earliest among the fills of all higher holes.
    above = np.concatenate((np.minimum.accumulate(filled[::-1])[::-1][1:], [NEVER]))
    repeated = known & (above < filled)
    if seen.stamp is not None:
        sent, passed = whole.row[np.where(repeated, filled, 0)], whole.row[np.where(repeated, above, 0)]
        repeated &= seen.stamp[sent] > seen.stamp[passed]
    else:
        sent, passed = whole.row[np.where(repeated, filled, 0)], whole.row[np.where(repeated, above, 0)]
        repeated &= seen.time_ns[sent] - seen.time_ns[passed] > turn_ns
    place = above[repeated]
    return Sends(
        row=np.insert(whole.row, place, -1),
        offset=np.insert(whole.offset, place, whole.offset[lost[repeated]]),
        end=np.insert(whole.end, place, whole.end[lost[repeated]]),
    )
