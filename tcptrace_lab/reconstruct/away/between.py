"""What left between two arrivals of a host that counts its packets, where numbers are missing."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.away.arrivals import NEVER, Arrivals, Sends, holes, reached
from tcptrace_lab.reconstruct.distinct import distinct
from tcptrace_lab.reconstruct.given import BURST_NS, MINORITY
from tcptrace_lab.reconstruct.losses import DUP_THRESH
from tcptrace_lab.reconstruct.tap.sender_clock import Ints
from tcptrace_lab.reconstruct.timeline import Bools, Places

# Among so many holes the one that was sent again is sought, and no more than those are one loss.
MOST_HOLES = 4096


class Between:
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
        passed = self._passed(gap)
        begin = int(whole.end[passed])
        upto = begin + wanted * self.smss
        goes_on = bool(self.goes_back[behind - 1] or (self.goes_back[behind] and upto == whole.offset[behind]))
        passed_ns, now_ns = self.seen.time_ns[whole.row[[behind - 1, place]]].tolist()
        goes_on |= not self.has_sack and bool(self.is_passing[gap])
        if now_ns - passed_ns < self.turn_ns and begin <= whole.offset[place] <= upto:
            # Without SACK all is sent again. More is missing than lies before what comes next: new data left among it.
            goes_on |= not self.has_sack and bool((whole.offset[[passed, place]] < self.below[[passed, place]]).all())
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
        unfilled = self._open(begun, place, behind, (passed_ns, now_ns))
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

    @cached_property
    def is_passing(self) -> Bools:
        """Whether each arrival goes on with what was sent again just before. Without SACK a repair is asked for by the
        answer to the one before, and comes a turn later (RFC 6582): what comes sooner a timer goes over, whole."""
        offset, row = self.whole.offset[self.arrived], self.whole.row[self.arrived]
        is_again = offset < self.below[self.arrived]
        goes_up = offset[1:] >= self.whole.end[self.arrived[:-1]]
        found = np.zeros(len(row), dtype=bool)
        found[1:] = is_again[1:] & is_again[:-1] & goes_up & (np.diff(self.seen.time_ns[row]) < self.turn_ns)
        return found

    def _passed(self, gap: int) -> int:
        """The arrival behind which numbers are missing: but for new data that left among what a timer goes over."""
        before, place = int(self.arrived[gap]), int(self.arrived[gap + 1])
        is_again = self.whole.offset[[before, place]] < self.below[[before, place]]
        last = int(np.searchsorted(self.again, before)) - 1
        if self.has_sack or is_again[0] or not is_again[1] or last < 0:
            return before
        again_ns, now_ns = self.seen.time_ns[self.whole.row[[self.again[last], place]]]
        return int(self.again[last]) if now_ns - again_ns < self.turn_ns else before

    def _filled_by(self, place: int) -> Ints:
        """The first of the holes that what came there fills; empty: none."""
        ends = np.searchsorted(self.filled, [place, place + 1], sorter=self.in_order)
        found: Ints = self.in_order[slice(*ends)][:1]
        return found

    def _asked_before(self, gap: int) -> Ints:
        """The hole that a timer fills here, so long after three segments beyond it had asked for it (RFC 6675), and
        behind a silence: the copy which they let leave is missing."""
        before, place = self.arrived[gap : gap + 2]
        passed, now = self.seen.time_ns[self.whole.row[[before, place]]]
        fills = self._filled_by(place)
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

    @cached_property
    def not_before(self) -> Ints:
        """Of each hole the last place at which the first copy of one below came, before which none of its own left (-1:
        none): first copies leave upwards (RFC 6675 NextSeg), and come sooner than two turns, as no second ones do."""
        is_first = (self.filled < NEVER) & (self.filled_ns - self.shown_ns < 2 * self.turn_ns)
        found = np.maximum.accumulate(np.where(is_first, self.filled, -1))
        shifted: Ints = np.append([-1], found[:-1])[: len(found)]
        return shifted

    def _open(self, begun: int, place: int, behind: int, between_ns: tuple[int, int]) -> Ints:
        """The holes that may have been sent again there, between these times."""
        passed_ns, now_ns = between_ns
        first = max(begun - MOST_HOLES, 0)
        filled = self.filled[first:begun]
        # Nor are those open that left first where the numbers are missing.
        may_be = (filled >= place) & (filled < NEVER) & (self.lost[first:begun] < behind)
        may_be &= self.not_before[first:begun] < place
        # A copy of what was sent again leaves no sooner than a turn after it, but for what its host takes.
        may_be &= now_ns - self.shown_ns[first:begun] >= self.least_ns
        unfilled = np.flatnonzero(may_be) + first
        if not self.has_sack:
            # RFC 6582 section 3.2: the first that is not acknowledged, and no other. Behind a silence nothing tells it
            # from the end of a flight, if it is what the timer fills.
            is_silent = now_ns - passed_ns >= _core.LEAST_RTO_NS
            is_open = self.filled_ns[unfilled] - (passed_ns if is_silent else now_ns) >= self.least_ns
            lowest = unfilled[is_open][:1]
            return lowest[self.filled[lowest] > place]
        is_open = self.filled_ns[unfilled] - now_ns >= self.least_ns
        # None is sent again twice before one below the last copy of which had left before its own.
        is_tried, left_last = self.tried[unfilled] > 0, self.left_last[unfilled]
        earliest = np.minimum.accumulate(np.where(is_tried & ~is_open, left_last, NEVER))
        found: Ints = unfilled[is_open & (~is_tried | (earliest > left_last))]
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
        fills = self._filled_by(place)
        is_first = (
            whole.offset[place] == top
            or now_ns - shown_ns < turn_ns
            # A second copy comes later than two turns behind what showed the hole.
            or bool((now_ns - self.shown_ns[fills] < 2 * turn_ns).any())
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
