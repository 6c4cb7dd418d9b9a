"""Claims at taps that infer or lack what they rest on: of each class a random run of which they were told wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.random_degraded import judged
from tests.random_runs import tapped


def wrong(seed: int, variant: str, folder: Path) -> dict[str, str]:
    """Of one variant of a run (a kind, a place, or untouched): what is said, and what is true."""
    found = tapped(seed, folder)
    assert found is not None
    kinds = [] if variant in (*found.places, "untouched") else [variant]
    told = dict(judged(found, kinds, folder))
    return told[variant].wrong


@pytest.mark.parametrize("seed", [3030007, 5010092, 6000121])
def test_cycles_are_not_counted_from_events_that_inferred_times_leave_open(seed: int, tmp_path: Path) -> None:
    """Not sure, begun as the one before ended, or with nothing outstanding: one cycle may be two, or two one."""
    assert not wrong(seed, "receiver", tmp_path)


@pytest.mark.parametrize("seed", [3040044, 6000248, 6000277])
def test_the_rhythm_of_acks_tells_no_regime_by_few_cycles(seed: int, tmp_path: Path) -> None:
    """Whether a loss ended a slow start or an avoidance is by then a choice; nor is one restart Tahoe's."""
    assert not wrong(seed, "receiver", tmp_path)


def test_a_segment_put_where_it_was_sent_again_shows_no_timer(tmp_path: Path) -> None:
    """Nobody asks again for what has just left: its place is wrong, and what had been heard by then is not known."""
    assert not wrong(6000184, "receiver", tmp_path)


@pytest.mark.parametrize(
    ("seed", "variant"),
    [
        (5010065, "receiver"),
        (5010065, "2 % of data split"),
        (5010087, "slewed clock + stamped early"),
    ],
)
def test_a_run_with_a_pause_in_it_is_no_bottlenecks(seed: int, variant: str, tmp_path: Path) -> None:
    """A queue that stands lets packets go evenly: what comes by turns is the window's pace, or an application's."""
    assert "bottleneck_bps" not in wrong(seed, variant, tmp_path)


@pytest.mark.parametrize(
    ("seed", "variant"),
    [
        (5010057, "tap lost half of the ACKs"),
        (5010087, "tap lost 0.1 % of data + bare ACKs stripped"),
        (5010104, "no option captured"),
        (3040011, "reversed within 1 ms"),
    ],
)
def test_what_released_a_segment_is_not_told_by_acks_that_are_missing(seed: int, variant: str, tmp_path: Path) -> None:
    """Nor by stamps that jitter by as much as promptly is; nor when a recovery is over by blocks that are missing."""
    assert "limits" not in wrong(seed, variant, tmp_path)


def test_what_nobody_answered_before_the_end_may_have_been_lost(tmp_path: Path) -> None:
    """A restarted sender's second copies: no ACK has come to stand in front of them, nor jumped over them."""
    found = tapped(5010061, tmp_path)
    assert found is not None
    assert "drops" not in dict(judged(found, [], tmp_path))["untouched"].wrong


def test_what_was_late_is_no_second_copy_that_names_a_recovery(tmp_path: Path) -> None:
    """Packets out of order: what filled a hole may have been sent once."""
    assert not wrong(5010051, "bare ACKs stripped + split from the middle on", tmp_path)


def test_few_queues_of_many_losses_are_no_full_buffer(tmp_path: Path) -> None:
    """A tap that stood still at most of the losses leaves those that random losses met."""
    assert not wrong(5010060, "tap stalls + one way at last", tmp_path)


def test_where_the_first_flight_ends_is_not_told_on_a_line_that_is_slower_than_the_turn(tmp_path: Path) -> None:
    """The next flight comes on its heels."""
    assert not wrong(3030048, "receiver", tmp_path)
