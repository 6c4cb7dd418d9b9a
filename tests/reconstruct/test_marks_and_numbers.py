"""What ECN marks, a host that counts its packets, and ACKs that came together tell at a receiver of its sender."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tcptrace_lab.reconstruct.away.arrivals import Beside, arrivals, goes_back
from tcptrace_lab.reconstruct.away.own_times import _bunched
from tcptrace_lab.reconstruct.away.rhythm import Rhythm
from tcptrace_lab.reconstruct.away.self_clocking import _reduced, between_anchors
from tcptrace_lab.reconstruct.away.sent_order import sends
from tests.reconstruct.test_away_from_sender import MS, SMSS, table

TURN_MS = 30
RHYTHM = Rhythm(
    turn_ns=TURN_MS * MS, spacing_ns=MS, is_clocked=True, near_ns=MS // 5, is_measured=True, least_ns=TURN_MS * MS
)


@pytest.mark.parametrize(
    ("came", "lost", "later_ms", "is_lost"),
    [(400, 1, 100, True), (400, 300, 100, True), (10, 300, 100, False), (400, 300, 900, False)],
)
def test_a_tail_may_have_been_as_long_as_all_that_came_before(
    came: int, lost: int, later_ms: float, is_lost: bool
) -> None:
    """A window doubles at the most: with more numbers missing at once a counter jumped. In a silence of 0.9 s a timer
    may have sent some of them."""
    rows = [(0.1 * number, number, 1, 1, 1 + number) for number in range(came)]
    begin_ms = 0.1 * came + later_ms
    rows += [(begin_ms + number, came + number, 1, 900, 1 + came + lost + number) for number in range(600)]
    left = sends(arrivals(table(rows), SMSS), SMSS, TURN_MS * MS)
    assert left.offset[left.is_put_back].tolist() == [(came + number) * SMSS for number in range(lost * is_lost)]


@pytest.mark.parametrize(("has_sack", "times"), [(True, 3), (False, 2)])
def test_without_sack_no_duplicates_ask_for_what_had_been_sent_when_a_timer_expired(has_sack: bool, times: int) -> None:
    """RFC 6582 section 3.2 (2). Segments 3, 5 and 8 are lost, and 8 again (number 13) behind 3 and 5, which a timer
    sent; four beyond it come. The one number that is missing when a timer sends 8 is, without SACK, no copy of it."""
    rows = [(number, number, 1, 1, 1 + number) for number in (0, 1, 2, 4, 6, 7, 9)]
    rows += [(300, 3, 1, 300, 11), (330, 5, 1, 330, 12)]
    rows += [(360 + number, 10 + number, 1, 360, 14 + number) for number in range(4)]
    rows += [(700, 8, 1, 700, 19), *((730 + number, 14 + number, 1, 730, 20 + number) for number in range(200))]
    left = sends(arrivals(table(rows), SMSS), SMSS, TURN_MS * MS, has_sack=has_sack)
    assert left.offset[left.is_put_back].tolist() == [number * SMSS for number in (3, 5, *[8] * times)]
    assert left.unplaced == 3 - times


def test_without_sack_what_goes_back_goes_over_all_and_new_data_may_leave_among_it() -> None:
    """A timer goes back to segment 2; of what follows 4, 6 and 8 are lost again (numbers 15, 17, 19), though they had
    arrived, and something else (20): Linux's pace lets new data go."""
    rows = [(number, number, 1, 1, 1 + number) for number in (0, 1, 4, 6, 8, 11)]
    rows += [(300, 2, 1, 300, 13), (330, 3, 1, 330, 14), (331, 5, 1, 330, 16), (332, 7, 1, 330, 18)]
    rows += [(333, 9, 1, 330, 21), (334, 10, 1, 330, 22), (335, 11, 1, 330, 23)]
    rows += [(370 + number, 12 + number, 1, 370, 24 + number) for number in range(200)]
    left = sends(arrivals(table(rows), SMSS), SMSS, TURN_MS * MS, has_sack=False)
    assert (left.offset[12:22] // SMSS).tolist() == list(range(2, 12))
    assert (left.offset[left.is_put_back] // SMSS).tolist() == [2, 3, 5, 7, 9, 10, 4, 6, 8]
    assert left.unplaced == 1


def _put_back(rows: list[tuple[float, float, float, int, int]], *, has_sack: bool) -> tuple[list[int], int]:
    """Which segments are put back where they left again, of these and 200 that came behind, and how many more left."""
    at_ms, _, _, _, number = rows[-1]
    top = int(max(row[1] for row in rows)) + 1
    rows = rows + [(at_ms + 35 + more, top + more, 1, int(at_ms) + 35, number + 1 + more) for more in range(200)]
    left = sends(arrivals(table(rows), SMSS), SMSS, TURN_MS * MS, has_sack=has_sack)
    is_again = goes_back(left.offset, left.end)
    return (left.offset[left.is_put_back & is_again] // SMSS).tolist(), left.unplaced


def test_holes_are_sent_again_upwards_and_none_before_the_one_below_is() -> None:
    """RFC 6675 NextSeg. Segment 2 is lost three times (numbers 3, 8 and 15), 8 and 10 once, of which 8 comes first."""
    rows = [(0, 0, 1, 1, 1), (1, 1, 1, 1, 2), (3, 3, 1, 1, 4), (4, 4, 1, 1, 5), (5, 5, 1, 1, 6), (40, 6, 1, 40, 7)]
    rows += [(41, 7, 1, 40, 9), (43, 9, 1, 40, 11), (45, 11, 1, 40, 13), (84, 12, 1, 80, 14), (85, 13, 1, 80, 16)]
    rows += [(86, 8, 1, 80, 17), (118, 10, 1, 115, 18), (125, 2, 1, 120, 19)]
    assert _put_back(rows, has_sack=True) == ([2, 2], 0)


def test_what_was_sent_again_with_a_hole_that_a_timer_fills_is_not_sent_again_before_it() -> None:
    """Segments 1 to 3 are lost, 2 and 3 again (numbers 10 and 11), then the end of a flight, 12 (16). A timer sends 2
    (17), and behind it 3."""
    rows = [(number, number, 1, 1, 1 + number) for number in (0, 4, 5, 6)]
    rows += [(40, 7, 1, 40, 8), (40.5, 1, 1, 40, 9), (41, 8, 1, 40, 12), (42, 9, 1, 40, 13), (75, 10, 1, 75, 14)]
    rows += [(76, 11, 1, 75, 15), (80, 2, 1, 80, 17), (115, 3, 1, 110, 18), (118, 12, 1, 110, 19)]
    assert _put_back(rows, has_sack=True) == ([2, 3], 0)


@pytest.mark.parametrize(
    ("rows", "again", "unplaced"),
    [
        # What follows on a hole that a timer filled in going over all (5), and is lost again.
        ([(300, 2, 14), (301, 3, 15), (302, 4, 16), (303, 5, 17), (600, 8, 19), (630, 9, 20)], [6], 0),
        # New data, 13, left among what a timer goes over, of which 4 is lost again.
        ([(300, 2, 14), (301, 3, 15), (302, 13, 16), (303, 5, 18), (304, 6, 19), (340, 8, 20)], [4], 0),
        # The timer's copy of segment 2, or new data above all: none beyond it was asked for.
        ([(40, 13, 14), (41, 14, 16), (400, 2, 18), (430, 5, 19), (460, 8, 20)], [2], 1),
    ],
)
def test_without_sack_a_timer_goes_over_all_and_nothing_else_is_asked_for_but_what_an_ack_stands_before(
    rows: list[tuple[float, int, int]], again: list[int], unplaced: int
) -> None:
    """RFC 6582 section 3.2. Of thirteen segments 2, 5 and 8 are lost."""
    before = [(number, number, 1, 1, 1 + number) for number in range(13) if number not in {2, 5, 8}]
    more = [(at_ms, number, 1, int(at_ms), ip_id) for at_ms, number, ip_id in rows]
    assert _put_back([*before, *more], has_sack=False) == (again, unplaced)


def test_a_hole_lies_in_the_segments_in_which_it_is_sent_again() -> None:
    """The second of three that were lost ends a write, and is short; what fills the hole shows it."""
    rows = [(0, 0, 1, 1, 1), (1, 1, 1, 1, 2), (2, 4.5, 1, 1, 6)]
    rows += [(80, 2, 1, 80, 7), (81, 3, 0.5, 80, 8), (82, 3.5, 1, 80, 9)]
    rows += [(120 + number, 5.5 + number, 1, 120, 10 + number) for number in range(20)]
    left = sends(arrivals(table(rows), SMSS), SMSS, TURN_MS * MS)
    assert (left.offset[left.is_put_back] / SMSS).tolist() == [2, 3, 3.5]
    assert (left.end[left.is_put_back] / SMSS).tolist() == [3, 3.5, 4.5]


def test_the_segment_that_tells_of_a_cut_is_the_first_behind_the_ack_that_asked_for_it() -> None:
    """RFC 3168 section 6.1.2. The mark at 100 ms was answered by what came at 150, not by what says so at 120."""
    seen = arrivals(table([(10 * number, number, 1, 1, 1 + number) for number in range(30)]), SMSS)
    timeline: Any = SimpleNamespace(ack_ns=MS * np.array([50, 100, 101, 130, 200]))
    times = {"bare_ns": np.zeros(0, dtype=np.int64), "asked_ns": np.zeros(0, dtype=np.int64)}
    marked = Beside(**times, marked_ns=MS * np.array([100]), reduced_ns=MS * np.array([120, 150, 170]))
    seen = arrivals(table([(10 * number, number, 1, 1, 1 + number) for number in range(30)]), SMSS, marked)
    places, acks = _reduced(timeline, seen, sends(seen, SMSS, TURN_MS * MS), RHYTHM)
    assert (places.tolist(), acks.tolist()) == ([15], [1])


@pytest.mark.parametrize(("marked_ms", "is_open"), [([], False), ([250], True), ([900], False)])
def test_a_window_that_marks_cut_between_two_anchors_is_not_drawn_evenly(marked_ms: list[int], is_open: bool) -> None:
    """Between the anchors at 110 and 350 ms as much is in the network: it did not grow, or it was cut meanwhile."""
    count = 40
    rows = [(10 * number, number, 1, 1, 1 + number) for number in range(count)]
    # The first segment was sent again: what may end a slow start lies behind.
    left = sends(arrivals(table([rows[0], (5, 0, 1, 1, 1), *rows[1:]]), SMSS), SMSS, TURN_MS * MS)
    release = np.arange(len(left.row), dtype=np.int32) - 1
    heard = np.arange(count + 3)
    timeline: Any = SimpleNamespace(
        ack_ns=10 * MS * heard, arrived=SMSS * heard, snd_una=SMSS * heard, last_moved=heard, smss=SMSS
    )
    open_bytes = np.where(np.isin(heard, [11, 35]), 0, 50 * SMSS)
    found = between_anchors(
        timeline, left, release, open_bytes, RHYTHM, marked_ns=MS * np.array(marked_ms, dtype=np.int64)
    )
    assert bool((found[12:35] == 50 * SMSS).all()) == is_open


@pytest.mark.parametrize(
    ("named_ms", "told"),
    [
        ([1, 5, 5, 9, 12], [False, True, True, True, True]),
        # A pause, and what is written behind it: only the first two left far apart.
        ([1, 12, 12, 13, 13], [False] * 5),
        # What a write sends names the newest.
        ([12, 12, 12, 12, 12], [False] * 5),
    ],
)
def test_acks_that_left_apart_and_were_heard_within_one_tick_came_together(
    named_ms: list[int], told: list[bool]
) -> None:
    """Of five segments with one TSval, by the ACKs that they name; what has the tick before to itself tells nothing."""
    stamps, begins = np.array([6] + [7] * 5), MS * np.array([0, *named_ms])
    assert _bunched(stamps, begins, float(MS)).tolist() == [False, *told]
