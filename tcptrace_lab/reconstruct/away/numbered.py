"""What a host that counts its packets (IP identification, RFC 6864) tells of those that were lost before a tap."""

from __future__ import annotations

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.away.arrivals import IP_ID_SPACE, NEVER, Arrivals, Sends, goes_back, holes
from tcptrace_lab.reconstruct.away.between import MOST_HOLES, Between
from tcptrace_lab.reconstruct.given import FEWEST_SAMPLES, MAJORITY, MINORITY
from tcptrace_lab.reconstruct.tap.sender_clock import Ints
from tcptrace_lab.reconstruct.timeline import Places

# A host that counts its packets gives nearly every segment a little more than the one before.
COUNTS_STEP = 16
# With this share of the steps explained by what was captured and put back, one that is not is a packet of this flow (a
# retransmission that was lost: one in thirty where a lossy path drops one in fifteen).
EVERY_NUMBER_SHARE = 0.95
# Of two packets one may be lost each time: as many copies as there were holes, and the ends of flights.
LOST_AGAIN_FACTOR = 2
# More missing at once, and more than had arrived, is no loss but a counter that jumped; a window doubles at the most.
MOST_MISSING = 256


def counts_packets(ip_id: Places | Ints) -> bool:
    """Whether the IP identification grows from packet to packet."""
    steps = np.diff(ip_id) % IP_ID_SPACE
    return len(steps) > 0 and float(np.mean((steps > 0) & (steps < COUNTS_STEP))) > 1 - MINORITY


def with_missing_numbers(whole: Sends, seen: Arrivals, smss: int, turn_ns: int, *, has_sack: bool) -> Sends | None:
    """A number that is missing between two arrivals was a packet. None: the host does not count.

    While a recovery goes on it carried the lowest hole that was open and had not been sent again before; of a sender
    that goes back over what had arrived, what follows on the one before. Before the first retransmission it was
    new data, the last of the window: it fills no hole when it comes, for nothing was sent above it, but it comes more
    than a turn later.
    """
    arrived = np.flatnonzero(whole.row >= 0).astype(np.int32)
    missing = _missing(whole, seen, arrived)
    if not len(missing) or not _is_every_number(whole, arrived, missing):
        return None
    if (missing < 0).any():
        with_tails = _with_tails_before(whole, seen, arrived, missing, turn_ns)
        if with_tails is not whole:
            whole = with_tails
            arrived = np.flatnonzero(whole.row >= 0).astype(np.int32)
            missing = _missing(whole, seen, arrived)
        _place_by_number(whole, seen, arrived, missing, turn_ns)
        arrived = np.flatnonzero(whole.row >= 0).astype(np.int32)
    gaps = _lacking(missing, seen.time_ns[whole.row[arrived]])
    if not len(gaps):
        return whole
    between = Between(whole, seen, arrived, smss, turn_ns, has_sack=has_sack)
    for gap in gaps.tolist():
        between.tell(gap, int(missing[gap]))
    places, table = between.places, np.array(between.found, dtype=np.int64).reshape(-1, 2)
    return Sends(
        unplaced=int(missing[gaps].sum()) - len(places),
        row=np.insert(whole.row, places, -1),
        offset=np.insert(whole.offset, places, table[:, 0]),
        end=np.insert(whole.end, places, table[:, 1]),
    )


def behind_missing(whole: Sends, seen: Arrivals) -> tuple[Places, Places]:
    """The arrivals before which a packet of the host's is missing that was not put back, in their order, and the place
    of each among what was sent; `whole`: of a host that counts (`is_counted`), else none is."""
    if not whole.is_counted or not whole.unplaced:
        return whole.row[:0], whole.row[:0]
    arrived = np.flatnonzero(whole.row >= 0).astype(np.int32)
    places = arrived[1:][_missing(whole, seen, arrived) > 0]
    rows = whole.row[places]
    order = np.argsort(rows, kind="stable")
    return rows[order], places[order]


def _missing(whole: Sends, seen: Arrivals, arrived: Places) -> Places:
    """How many numbers are missing between each arrival and the next; below zero: there are more packets than those."""
    bare = _core.places(seen.beside.bare_ns, seen.time_ns[whole.row[arrived]])
    found = np.diff(seen.ip_id[whole.row[arrived]]) % IP_ID_SPACE
    found -= np.diff(arrived)
    found -= np.maximum(np.diff(bare), 0)
    return found.astype(np.int32, copy=False)


def _lacking(missing: Places, times: Ints) -> Ints:
    """Between which arrivals (at these `times`) and the next numbers are missing that were lost: no more than a window
    may have sent, and in a silence in which a timer may have sent some of it again, only so many that it is small."""
    found: Ints = np.flatnonzero(missing > 0)
    is_silent = times[found + 1] - times[found] >= _core.LEAST_RTO_NS
    return found[missing[found] < np.where(is_silent, MOST_MISSING, np.clip(found, MOST_MISSING, MOST_HOLES))]


def _is_every_number(whole: Sends, arrived: Places, missing: Places) -> bool:
    """Whether the host numbers nothing but this flow's packets: most steps are explained; or, with as many packets lost
    as arrive, those between which nothing was under repair. Most holes are filled then, and no more is missing than is
    lost again.
    """
    if np.mean(missing == 0) >= EVERY_NUMBER_SHARE:
        return True
    lost, filled = holes(whole)
    is_mended = np.count_nonzero(filled < NEVER) > MAJORITY * len(lost)
    if not is_mended or missing[missing > 0].sum() > LOST_AGAIN_FACTOR * len(lost):
        return False
    opened = np.searchsorted(lost, arrived[1:])
    closed = np.searchsorted(np.sort(filled), arrived[:-1], side="right")
    told = missing[opened == closed]
    return len(told) > FEWEST_SAMPLES and bool(np.mean(told == 0) >= EVERY_NUMBER_SHARE)


def _with_tails_before(whole: Sends, seen: Arrivals, arrived: Places, missing: Places, turn_ns: int) -> Sends:
    """Flights lost to their end, the beginning of which a timer sent again before anything showed the rest: F-RTO
    (RFC 5682) sends new data next, and what lies between had left where its numbers are missing.
    """

    def is_next(before: int) -> bool:
        return bool(whole.offset[arrived[before + 1]] == whole.end[arrived[before]])

    def is_late(before: int) -> bool:
        passed, now = seen.time_ns[whole.row[arrived[before : before + 2]]]
        return bool(now - passed >= turn_ns)

    parts, done = [], 0
    for gap in np.flatnonzero(missing < 0).tolist():
        # The in-order arrivals below the hole, down to where something is missing.
        first = gap
        while max(gap - MOST_MISSING, 0) < first and missing[first - 1] == 0 and is_next(first - 1):
            first -= 1
        again = gap + 1 - first
        before, begin, above = first - 1, int(arrived[first]), int(arrived[gap + 1])
        is_tail = before >= 0 and is_next(before) and is_late(before) and missing[before] >= again - missing[gap]
        if not is_tail or begin < done or above - begin != again - missing[gap]:
            continue
        parts += [np.arange(done, begin), -1 - np.arange(begin, above), np.arange(begin, begin + again)]
        done = above
    if not parts:
        # Nothing is copied.
        return whole
    # Below zero: the first copy of what stands there, which did not arrive.
    found = np.concatenate((*parts, np.arange(done, len(whole.row)))).astype(np.int64)
    place = np.where(found < 0, -1 - found, found)
    return Sends(row=np.where(found < 0, -1, whole.row[place]), offset=whole.offset[place], end=whole.end[place])


def _place_by_number(whole: Sends, seen: Arrivals, arrived: Places, missing: Places, turn_ns: int) -> None:
    """Segments put back where no number is missing had left before, where one is: both are corrected in place.

    New data leaves in order: only what was sent again may have left between them and the segment below. What comes in
    order, but a turn later and behind missing numbers, may have been sent again itself: the end of a flight was lost.
    """
    is_new = ~goes_back(whole.offset, whole.end)[arrived]
    behind = np.flatnonzero(missing > 1) + 1
    is_late = seen.time_ns[whole.row[arrived[behind]]] - seen.time_ns[whole.row[arrived[behind - 1]]] >= turn_ns
    is_new[behind[is_late]] = False
    below = np.maximum.accumulate(np.where(is_new, np.arange(len(arrived), dtype=np.int32), 0))
    lacking = _lacking(missing, seen.time_ns[whole.row[arrived]])
    del is_new
    # Before whom, and what is put there.
    moved: list[tuple[int, int]] = []
    for gap in np.flatnonzero(missing < 0).tolist():
        # A number may come twice: only what was put back in between is moved, never what arrived.
        place, end = int(arrived[gap]) + 1, int(arrived[gap + 1])
        first, last = np.searchsorted(lacking, (below[gap], gap))
        for before in lacking[first:last].tolist():
            while missing[gap] < 0 < missing[before] and place < end:
                moved.append((int(arrived[before + 1]), place))
                place += 1
                missing[before] -= 1
                missing[gap] += 1
    _move(whole, moved)


def _move(whole: Sends, moved: list[tuple[int, int]]) -> None:
    """Puts what stands at the second place of each pair, further up, before what stands at the first, in place."""
    if not moved:
        return
    before, place = np.array(sorted(moved)).T
    upto = np.maximum.accumulate(place) + 1
    # Nothing moves from one of these parts to another, and no more than those is sorted.
    begins = np.flatnonzero(np.append(True, before[1:] >= upto[:-1]))
    for first, end in zip(begins, np.append(begins[1:], len(before)), strict=True):
        rows = slice(before[first], upto[end - 1])
        # Of each twice its place: between two others there is one more.
        order = 2 * np.arange(rows.start, rows.stop)
        order[place[first:end] - rows.start] = 2 * before[first:end] - 1
        found = rows.start + np.argsort(order, kind="stable")
        for column in (whole.row, whole.offset, whole.end):
            column[rows] = column[found]
