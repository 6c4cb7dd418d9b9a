"""At a receiver without timestamps: which ACK released what a full queue dropped tells laws apart that end alike."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tcptrace_lab.classify.control.at_losses.at_drops import Drops, followed_alone
from tcptrace_lab.classify.verdict import judge
from tcptrace_lab.reconstruct.sender import sender
from tcptrace_lab.scenario import NodeSpec, PathSpec
from tests.classify.test_between_losses import captured, left


def path(rate_bps: float, buffer: int, rtt_s: float) -> PathSpec:
    return PathSpec(nodes=(NodeSpec(rate_bps=rate_bps, buffer=buffer, delay_s=rtt_s / 2),), return_delay_s=rtt_s / 2)


@pytest.mark.parametrize(
    ("window", "rate_bps", "buffer", "rtt_s"),
    [("bic", 4.8e6, 11, 0.045), ("htcp", 4.8e6, 11, 0.045), ("hybla", 4.8e6, 11, 0.045), ("hybla", 1.35e6, 6, 0.104)],
)
def test_a_law_that_comes_to_every_drop_at_its_ack_is_named_where_windows_of_a_few_segments_end_alike(
    window: str, rate_bps: float, buffer: int, rtt_s: float
) -> None:
    found = judge(sender(captured(window, path=path(rate_bps, buffer, rtt_s))), file="simulated")
    assert found.identified.control == window, found.identified.reasons
    assert "at which ACKs what was lost had left" in found.identified.reasons[0]
    # What it comes to at its losses alone leaves others.
    assert len(found.identified.refuted) >= 8


@pytest.mark.parametrize("window", ["reno", "highspeed", "cubic-linux"])
def test_where_others_come_to_the_same_acks_nobody_is_named(window: str) -> None:
    """Below 38 segments HighSpeed is Reno."""
    found = judge(sender(captured(window, path=path(1e6, 8, 0.09))), file="simulated")
    assert found.identified.control is None
    assert window.removesuffix("-linux") in left(found)


def test_tahoe_begins_each_cycle_at_one_segment_and_tells_its_window_at_the_next_loss() -> None:
    found = judge(sender(captured("reno", path=path(2e6, 29, 0.1), recovery="tahoe")), file="simulated")
    assert found.obstacles.hides_window
    assert found.identified.control == "reno", found.identified.reasons


def drops(kinds: list[int], *, is_full: list[bool] | None = None, among: float = 10.0) -> Drops:
    """Cycles of these kinds, each with one ACK (of so many in a round trip) and a window of ten segments."""
    count = len(kinds)
    return Drops(
        at_loss=np.full(count, 10),
        mark=np.arange(count),
        is_full=np.array(is_full or [True] * count),
        kind=np.array(kinds),
        cycle=np.arange(count),
        ack=2 * np.arange(count) + 1,
        window=np.full(count, 10),
        among=among,
    )


KINDS = [0, 0, 1, 1, 2]
ALL, NONE = [True] * 5, [False] * 5
ONE_KIND = [True, True, False, False, False]
BUT_ONE_KIND = [True, True, True, True, False]


@pytest.mark.parametrize(
    ("own", "other", "is_named"),
    [
        (ALL, NONE, True),
        (ALL, ONE_KIND, True),
        # Of one kind of cycle another may be off where it was disturbed.
        (ALL, BUT_ONE_KIND, False),
        # One kind over and over is one piece of evidence.
        (ONE_KIND, NONE, False),
        # Two of three kinds: most, but more than an odd cycle is not followed.
        ([True, True, True, False, False], NONE, False),
        (NONE, NONE, False),
    ],
)
def test_followed_alone_is_who_comes_to_two_kinds_of_cycles_that_nobody_else_comes_to(
    own: list[bool], other: list[bool], is_named: bool
) -> None:
    every = drops(KINDS)
    played = {"own": [(every, np.array(own))], "other": [(every, np.array(other)), (every, np.array(NONE))]}
    assert followed_alone(played) == ("own" if is_named else None)


def test_two_cycles_name_nobody() -> None:
    """YeAH grows as Scalable does: one that was disturbed, and its echo, leave the other to fit alone."""
    two = drops([0, 1], among=100.0)
    assert followed_alone({"own": [(two, np.array([True, True]))], "other": [(two, np.array([False, False]))]}) is None


def test_drops_tell_where_a_full_queue_ended_most_cycles_and_not_one_kind_alone() -> None:
    assert drops(KINDS).can_tell
    # Chance lost most, or all are alike.
    assert not drops(KINDS, is_full=[True, False, True, False, False]).can_tell
    assert not drops([0, 0, 0]).can_tell
    assert not drops([0, 0, 0, 1], is_full=[True, True, True, False]).can_tell


@pytest.mark.parametrize(
    ("among", "kinds", "is_no_chance"), [(5, 2, False), (5, 3, True), (99, 1, False), (101, 1, True)]
)
def test_the_fewer_acks_in_a_round_trip_the_more_kinds_it_takes(among: float, kinds: int, is_no_chance: bool) -> None:
    assert drops(KINDS, among=among).is_no_chance(kinds) is is_no_chance


def test_a_window_that_has_grown_at_an_earlier_ack_is_not_followed() -> None:
    """Ten segments at the ACK, nine at the one before it, and ten when the loss is noticed."""
    tape: Any = SimpleNamespace(smss=100, rows=lambda acks: acks, row_of_mark=np.array([4, 5]))
    every = drops([0, 1])
    assert every.follows(tape, np.array([950.0, 1049.0, 999.0, 1000.0, 1010.0, 1090.0])).tolist() == [True, True]
    assert every.follows(tape, np.array([1000.0, 1049.0, 999.0, 999.0, 1010.0, 1090.0])).tolist() == [False, False]
    assert every.follows(tape, np.array([950.0, 1049.0, 999.0, 1000.0, 1100.0, 1090.0])).tolist() == [False, True]
