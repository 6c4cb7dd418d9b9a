"""What a host that counts its packets (IP identification, RFC 6864) tells of those that were lost before a tap."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.away.arrivals import IP_ID_SPACE, NEVER, Arrivals, Sends, goes_back, holes, reached
from tcptrace_lab.reconstruct.distinct import distinct
from tcptrace_lab.reconstruct.given import BURST_NS, FEWEST_SAMPLES, MAJORITY, MINORITY
from tcptrace_lab.reconstruct.losses import DUP_THRESH
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
# Among so many holes the one that was sent again is sought, and no more than those are one loss.
MOST_MISSING = 256
MOST_HOLES = 4096


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
    between = _Between(whole, seen, arrived, smss, turn_ns, has_sack=has_sack)
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


class _Between:
    """What left between two arrivals, as far as it can be told: gap by gap, in their order."""

    def __init__(
        self, whole: Sends, seen: Arrivals, arrived: Places, smss: int, turn_ns: int, *, has_sack: bool
    ) -> None:
        self.whole, self.seen, self.arrived = whole, seen, arrived
        self.smss, self.turn_ns, self.has_sack = smss, turn_ns, has_sack
        self.lost, self.filled = lost, filled = holes(whole)
        self.ends = distinct(whole.end[arrived])
        self.below = reached(whole.offset, whole.end)
        self.goes_back = (whole.offset < self.below) & (whole.row >= 0)
        self.again = np.flatnonzero(self.goes_back)
        self.goes_back[filled[filled < NEVER]] = False
        # The holes in order of what fills them, and of each how often it was sent again, and when and where last.
        self.in_order = np.argsort(filled, kind="stable")
        self.filled_ns = np.where(filled < NEVER, seen.time_ns[whole.row[np.minimum(filled, len(whole.row) - 1)]], 0)
        # What came next behind each shows it: no copy of it left sooner than a turn later.
        shows = arrived[np.minimum(np.searchsorted(arrived, lost), len(arrived) - 1)]
        self.shown_ns = seen.time_ns[whole.row[shows]]
        self.tried, self.tried_ns = np.zeros(len(lost), dtype=np.int32), np.full(len(lost), -NEVER)
        self.left_last = lost.copy()
        self.least_ns = turn_ns - min(BURST_NS, int(turn_ns * MINORITY))
        # The end of what is known to have been sent and lost above all that had arrived.
        self.tail = 0
        # Of each segment put back before which send it stands, and its bytes.
        self.places: list[int] = []
        self.found: list[tuple[int, int]] = []

    def tell(self, gap: int, wanted: int) -> None:
        """So many that are missing between an arrival and the next."""
        whole, place, behind = self.whole, int(self.arrived[gap + 1]), int(self.arrived[gap]) + 1
        begin = int(whole.end[behind - 1])
        upto = begin + wanted * self.smss
        goes_on = bool(self.goes_back[behind - 1] or (self.goes_back[behind] and upto == whole.offset[behind]))
        passed_ns, now_ns = self.seen.time_ns[whole.row[[behind - 1, place]]].tolist()
        if now_ns - passed_ns < self.turn_ns and begin <= whole.offset[place] <= upto:
            # Without SACK all is sent again. More is missing than lies before what comes next: new data left among it.
            is_again = whole.offset[[behind - 1, place]] < self.below[[behind - 1, place]]
            goes_on |= not self.has_sack and bool(is_again.all())
            upto = int(whole.offset[place]) if goes_on else upto
        if goes_on and upto <= self.below[behind]:
            pieces = [piece for piece in _following(self.ends, begin, wanted, self.smss) if piece[1] <= upto]
            self._put(behind, pieces or [(left, left + self.smss) for left in range(begin, upto, self.smss)])
            # Of the holes among it, which are in order of offset, these are copies.
            again = slice(*np.searchsorted(whole.offset[self.lost], (begin, upto)))
            self._note(np.arange(again.start, again.stop)[self.lost[again] < behind], place)
            return
        asked = self._asked_before(gap)
        self._put_copies(place, asked, [])
        wanted -= len(asked)
        if not wanted:
            return
        # Holes are in order of offset and of leaving: those lost before, and filled after, this place.
        begun = int(np.searchsorted(self.lost, place, side="left"))
        if begun and self.lost[begun - 1] >= behind and self.goes_back[place]:
            # What left next, by its number, was lost with it: it left before them, and is what comes now.
            self._put(behind, [(int(whole.offset[place]), int(whole.end[place]))])
            wanted -= 1
        unfilled = self._open(begun, place, behind, now_ns)
        is_sent = self.tried_ns[unfilled] > now_ns - self.least_ns
        if len(unfilled) and is_sent.all():
            # All that is asked for was sent again a moment before.
            return
        unfilled = unfilled[~is_sent]
        if not len(unfilled):
            pieces = self._of_tail(gap, wanted)
            self._put(place, pieces)
            self.tail = pieces[-1][1] if pieces else self.tail
        elif not _answers(self.seen, int(whole.row[place]), self.turn_ns):
            pieces, sent_again = self._sent_again(gap, unfilled, wanted)
            self._put_copies(place, sent_again, pieces)

    def _asked_before(self, gap: int) -> Ints:
        """The hole that a timer fills here, so long after three segments beyond it had asked for it (RFC 6675), and
        behind a silence: the copy which they let leave is missing."""
        before, place = self.arrived[gap : gap + 2]
        passed, now = self.seen.time_ns[self.whole.row[[before, place]]]
        ends = np.searchsorted(self.filled, [place, place + 1], sorter=self.in_order)
        fills = self.in_order[slice(*ends)][:1]
        third = np.searchsorted(self.arrived, self.left_last[fills]) + DUP_THRESH - 1
        asked_ns = self.seen.time_ns[self.whole.row[self.arrived[np.minimum(third, gap)]]]
        fills = fills[(third <= gap) & (now - asked_ns >= _core.LEAST_RTO_NS) & (now - passed > self.turn_ns)]
        if not self.has_sack:
            # RFC 6582 section 3.2 (2): duplicates ask for nothing up to `recover`.
            last = np.searchsorted(self.again, self.arrived[np.minimum(third, gap)][: len(fills)])
            fills = fills[self.whole.offset[self.lost[fills]] > self.recover[last]]
        # A timer begins with the first that is not acknowledged (RFC 6298 section 5.4).
        is_lowest = [not (self.filled[max(hole - MOST_HOLES, 0) : hole] > place).any() for hole in fills.tolist()]
        found: Ints = fills[is_lowest]
        return found

    @cached_property
    def recover(self) -> Ints:
        """Before anything went back (-1), and of each that does: what had been sent as its recovery began, or a timer
        expired in it (RFC 6582 recover)."""
        found, row = self.below[self.again], self.whole.row[self.again]
        is_timer = self.seen.time_ns[row] - self.seen.time_ns[np.maximum(row - 1, 0)] >= _core.LEAST_RTO_NS
        recover = -1
        for place, offset in enumerate(self.whole.offset[self.again].tolist()):
            if offset >= recover or is_timer[place]:
                recover = int(found[place])
            found[place] = recover
        return np.append(-1, found)

    def _put_copies(self, place: int, sent_again: Ints, pieces: list[tuple[int, int]]) -> None:
        """What is new, and behind it copies of these holes."""
        copies = self.lost[sent_again]
        offsets, ends = self.whole.offset[copies].tolist(), self.whole.end[copies].tolist()
        self._put(place, pieces + list(zip(offsets, ends, strict=True)))
        self._note(sent_again, place)

    def _note(self, sent_again: Ints, place: int) -> None:
        self.tried[sent_again] += 1
        self.tried_ns[sent_again] = self.seen.time_ns[self.whole.row[place]]
        self.left_last[sent_again] = place

    def _put(self, place: int, pieces: list[tuple[int, int]]) -> None:
        self.places += [place] * len(pieces)
        self.found += pieces

    def _open(self, begun: int, place: int, behind: int, now_ns: int) -> Ints:
        """The holes that may have been sent again there."""
        first = max(begun - MOST_HOLES, 0)
        filled = self.filled[first:begun]
        # Nor are those open that left first where the numbers are missing.
        may_be = (filled > place) & (filled < NEVER) & (self.lost[first:begun] < behind)
        # A copy of what was sent again leaves no sooner than a turn after it, but for what its host takes.
        may_be &= now_ns - self.shown_ns[first:begun] >= self.least_ns
        unfilled = np.flatnonzero(may_be) + first
        found: Ints = unfilled[self.filled_ns[unfilled] - now_ns >= self.least_ns]
        return found

    def _top(self, place: int) -> int:
        return max(int(self.below[place]), self.tail)

    def _of_tail(self, gap: int, wanted: int) -> list[tuple[int, int]]:
        """The end of what was sent then, which a timer, a probe or the end of the recovery sent again."""
        whole, seen, turn_ns = self.whole, self.seen, self.turn_ns
        before, place = int(self.arrived[gap]), int(self.arrived[gap + 1])
        top = self._top(place)
        hole = int(np.searchsorted(whole.offset[self.lost], top))
        if hole < len(self.lost) and whole.offset[self.lost[hole]] == top:
            # A hole that stands behind: put back once.
            return []
        shown_ns, now_ns = seen.time_ns[whole.row[before]], seen.time_ns[whole.row[place]]
        ends_of = np.searchsorted(self.filled, [place, place + 1], sorter=self.in_order)
        is_first = (
            whole.offset[place] == top
            or now_ns - shown_ns < turn_ns
            or _is_first_copy(whole, seen, self.lost[self.in_order[slice(*ends_of)]], place, turn_ns)
        )
        asked = np.searchsorted(seen.beside.asked_ns, [shown_ns, now_ns])
        # What answers the other side's data may have been an ACK of it.
        is_tail = is_first and asked[0] == asked[1] and _comes_later(whole, seen, before, top, turn_ns)
        return _following(self.ends, top, wanted, self.smss) if is_tail else []

    def _sent_again(self, gap: int, unfilled: Ints, wanted: int) -> tuple[list[tuple[int, int]], Ints]:
        """New data that left there, and which of the holes were sent again."""
        whole, seen, turn_ns = self.whole, self.seen, self.turn_ns
        before, place = int(self.arrived[gap]), int(self.arrived[gap + 1])
        top, lowest = self._top(place), self.lost[unfilled[0]]
        last = int(np.searchsorted(self.again, place, side="left"))
        is_before = last == 0 or self.again[last - 1] < lowest
        offsets = whole.offset[self.lost[unfilled]]
        is_below = offsets < (whole.offset[place] if whole.offset[place] < self.below[place] else 0)
        if is_before and _comes_later(whole, seen, place, top, turn_ns):
            # Holes below the one that is filled here had been sent again before it (RFC 6675 NextSeg): lost twice.
            sent_again = unfilled[is_below][:wanted]
            return _following(self.ends, top, wanted - len(sent_again), self.smss), sent_again
        if is_before and _is_lowest(whole, seen, lowest, (before, place), turn_ns):
            # Retransmissions begin at the lowest hole: it was the last of the new data, which is not asked for again.
            return [], unfilled[:0]
        # A pass over the holes goes upwards: first those between what came before and after, then where it began.
        is_ahead = is_below | (whole.offset[place] >= self.below[place])
        is_apart = ~(is_ahead & (offsets >= whole.end[before]))
        return [], unfilled[np.lexsort((self.tried[unfilled], is_apart))[:wanted]]


def _answers(seen: Arrivals, row: int, turn_ns: int) -> bool:
    """Whether the other side's data, on its way for a turn, was to be answered then: what is missing may be its ACK."""
    now_ns = seen.time_ns[row]
    first, behind = np.searchsorted(seen.beside.asked_ns, [now_ns - 2 * turn_ns, now_ns])
    return bool(behind > first)


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


def _following(ends: Ints, top: int, wanted: int, smss: int) -> list[tuple[int, int]]:
    """So many segments from `top` on, cut where those that came later end; empty: not as much came."""
    found: list[tuple[int, int]] = []
    at = int(np.searchsorted(ends, top, side="right"))
    while at < len(ends) and len(found) < wanted:
        found.append((top, min(top + smss, int(ends[at]))))
        top = found[-1][1]
        at += int(top == ends[at])
    return found if len(found) == wanted else []


def _comes_later(whole: Sends, seen: Arrivals, place: int, top: int, turn_ns: int) -> bool:
    """Whether the data from `top` on comes in order after `place`, but more than a turn later than what came there."""
    ahead = np.arange(place, min(place + MOST_HOLES, len(whole.row)))
    found = ahead[(whole.offset[ahead] == top) & (whole.row[ahead] >= 0)]
    return bool(len(found) and seen.time_ns[whole.row[found[0]]] - seen.time_ns[whole.row[place]] >= turn_ns)


def _is_lowest(whole: Sends, seen: Arrivals, hole: int, pair: tuple[int, int], turn_ns: int) -> bool:
    """Whether the second of two arrivals, at once behind the first, fills a hole below this one."""
    before, place = pair
    soon = seen.time_ns[whole.row[place]] - seen.time_ns[whole.row[before]] < turn_ns
    return bool(soon and whole.offset[place] < whole.offset[hole])


def _is_first_copy(whole: Sends, seen: Arrivals, lost: Ints, place: int, turn_ns: int) -> bool:
    """Whether what fills these holes comes within two turns of what showed the first: a second copy comes later."""
    if not len(lost):
        return False
    shows = int(lost[0]) + int(np.argmax(whole.row[lost[0] :] >= 0))
    return bool(seen.time_ns[whole.row[place]] - seen.time_ns[whole.row[shows]] < 2 * turn_ns)


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
