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

# Rows of `segments` that are no transmission of the sender's window: copies and probes.
COPIES = ("duplicate_capture", "keep_alive", "window_probe")
NEVER = np.iinfo(np.int64).max
# A host that counts its packets gives nearly every segment a little more than the one before.
COUNTS_SHARE = 0.9
COUNTS_STEP = 16
IP_ID_SPACE = 1 << 16
# With this share of the steps explained by what was captured and put back, one that is not is a packet of this flow.
EVERY_NUMBER_SHARE = 0.98
# More missing at once is no loss but a counter that jumped. Among so many holes the one that was sent again is sought.
MOST_MISSING = 256
MOST_HOLES = 4096


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
    kept = (segments["length"].to_numpy() > 0) & ~segments["cause"].isin(COPIES).to_numpy()
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
    counted = _with_missing_numbers(whole, seen)
    return _with_lost_again(whole, seen, turn_ns) if counted is None else counted


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
    lost, filled = _holes(whole)
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
    return _put_in(whole, above[repeated], lost[repeated])


def _with_missing_numbers(whole: Sends, seen: Arrivals) -> Sends | None:
    """The same where the host counts its packets: a number that is missing between two arrivals was a packet.

    What it carried is then the lowest hole that was open and had not been sent again before. None: it does not count.
    """
    arrived = np.flatnonzero(whole.row >= 0)
    steps = np.diff(seen.ip_id[whole.row[arrived]]) % IP_ID_SPACE
    between = np.diff(arrived) - 1
    if not len(steps) or np.mean(steps == 1 + between) < EVERY_NUMBER_SHARE:
        return None
    missing = steps - 1 - between
    if (missing < 0).any():
        whole = _placed_by_number(whole, arrived, missing)
    gaps = np.flatnonzero((missing > 0) & (missing < MOST_MISSING))
    arrived = np.flatnonzero(whole.row >= 0)
    lost, filled = _holes(whole)
    if not len(lost) or not len(gaps):
        return whole
    places: list[int] = []
    chosen: list[int] = []
    tried: dict[int, int] = {}
    for gap in gaps.tolist():
        place = int(arrived[gap + 1])
        # Holes are in order of offset and of leaving: those lost before, and filled after, this place.
        begun = int(np.searchsorted(lost, place, side="left"))
        first = max(begun - MOST_HOLES, 0)
        holes = (np.flatnonzero((filled[first:begun] > place) & (filled[first:begun] < NEVER)) + first).tolist()
        holes.sort(key=lambda hole: tried.get(hole, 0))
        for hole in holes[: int(missing[gap])]:
            tried[hole] = tried.get(hole, 0) + 1
            places.append(place)
            chosen.append(int(lost[hole]))
    return _put_in(whole, np.array(places, dtype=np.int64), np.array(chosen, dtype=np.int64))


def _placed_by_number(whole: Sends, arrived: Ints, missing: Ints) -> Sends:
    """Segments put back where no number is missing had left before, where one is: `missing` is corrected.

    New data leaves in order: only what was sent again may have left between them and the segment below.
    """
    order = np.arange(len(whole.row), dtype=np.float64)
    is_new = (whole.offset >= _reached(whole.offset, whole.end))[arrived]
    below = np.maximum.accumulate(np.where(is_new, np.arange(len(arrived)), 0))
    lacking = np.flatnonzero((missing > 0) & (missing < MOST_MISSING))
    for gap in np.flatnonzero(missing < 0).tolist():
        place = int(arrived[gap]) + 1
        first, last = np.searchsorted(lacking, (below[gap], gap))
        for before in lacking[first:last].tolist():
            while missing[gap] < 0 < missing[before]:
                order[place] = arrived[before + 1] - 0.5
                place += 1
                missing[before] -= 1
                missing[gap] += 1
    found = np.argsort(order, kind="stable")
    return Sends(row=whole.row[found], offset=whole.offset[found], end=whole.end[found])


def _holes(whole: Sends) -> tuple[Ints, Ints]:
    """The places of the segments put back where they left first, and of the arrival that filled each (NEVER: none)."""
    reached = _reached(whole.offset, whole.end)
    lost = np.flatnonzero((whole.row < 0) & (whole.offset >= reached))
    again = np.flatnonzero((whole.offset < reached) & (whole.row >= 0))
    if not len(lost) or not len(again):
        return lost[:0], lost[:0]
    # The first copy of each: in order of offset, then of time.
    again = again[np.lexsort((again, whole.offset[again]))]
    first = again[np.concatenate(([True], np.diff(whole.offset[again]) > 0))]
    at = np.maximum(np.searchsorted(whole.offset[first], whole.offset[lost], side="right") - 1, 0)
    holds = (whole.offset[first[at]] <= whole.offset[lost]) & (whole.end[first[at]] > whole.offset[lost])
    return lost, np.where(holds, first[at], NEVER)


def _put_in(whole: Sends, places: Ints, copies: Ints) -> Sends:
    """Copies of some sends, not captured, before some places."""
    return Sends(
        row=np.insert(whole.row, places, -1),
        offset=np.insert(whole.offset, places, whole.offset[copies]),
        end=np.insert(whole.end, places, whole.end[copies]),
    )
