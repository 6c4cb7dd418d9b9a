"""Which recovery is named by what a sender did behind its duplicate ACKs, and where none is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcptrace_lab import read
from tcptrace_lab.classify.path.causes import is_burst
from tcptrace_lab.classify.sender.recovery import SenderTcp, identify_recovery
from tcptrace_lab.reconstruct.sender import sender
from tcptrace_lab.reconstruct.tap.tap import Fact, Tap
from tests.conftest import ROOT
from tests.reconstruct.ladder import SMSS, ladder, rounds
from tests.reconstruct.test_field_classes import ENDED

SENT, ACKS = rounds([4, 8])


@pytest.fixture(scope="module")
def plain_tap() -> Tap:
    """A whole capture at its sender, of a connection without SACK."""
    tap = sender(read(ROOT / "captures" / "short_reno.pcap.gz")[0]).tap
    return replace(tap, sack=Fact(value="not offered"))


def repaired_by_a_timer(times: int) -> tuple[list[tuple[float, int]], list[tuple[float, int]]]:
    """Flights of 20 of which the first is lost: 19 duplicates are let pass, and a second later the timer repairs it."""
    sent, acks, now = list(SENT), list(ACKS), ENDED
    for _ in range(times):
        first = max(number for _, number in sent) + 1
        sent += [(now + 0.1 + 0.01 * index, first + index) for index in range(20)]
        acks += [(now + 101.0 + index, first) for index in range(20)]
        sent += [(now + 1200.0, first)]
        acks += [(now + 1300.0, first + 20)]
        now += 1300.0
    sent += [(now + 0.1, first + 20), (now + 0.2, first + 21)]
    acks += [(now + 101.0, first + 21), (now + 102.0, first + 22)]
    return sent, acks


def named(tap: Tap, times: int) -> SenderTcp:
    return identify_recovery(ladder(*repaired_by_a_timer(times)), tap)


def test_a_single_timer_behind_duplicates_is_no_habit(plain_tap: Tap) -> None:
    assert named(plain_tap, 1).recovery is None
    assert named(plain_tap, 2).recovery == "tahoe"


def test_one_hole_repaired_and_then_the_timer_is_no_sack(plain_tap: Tap) -> None:
    """RFC 6675: what the blocks tell of is sent again; a sender that waits for its timer does not go by them."""
    sent, acks, blocks = list(SENT), list(ACKS), dict[int, list[tuple[int, int]]]()
    first, late = 12, ENDED + 101.0
    sent += [(ENDED + 0.1 + 0.01 * index, first + index) for index in range(20)]
    # Segments 0 and 5 of the flight are lost.
    for index in range(14):
        blocks[len(acks)] = [(first + 1, first + 5), *([(first + 6, first + 7 + index)] if index else [])]
        acks.append((late + index, first))
    sent += [(late + 2.1, first), (late + 2.2, first + 20), (late + 2.3, first + 21)]
    blocks[len(acks)] = [(first + 6, first + 20)]
    acks.append((late + 103.0, first + 5))
    sent += [(late + 1200.0, first + 5)]
    acks.append((late + 1300.0, first + 22))
    found = identify_recovery(
        ladder(sent, acks, blocks=blocks), replace(plain_tap, sack=Fact(value="used", why="both SYNs permit it"))
    )
    assert found.recovery is None
    assert "waited for the timer" in found.reasons[0]


@pytest.mark.parametrize(("lost", "expected"), [(1, False), (12, True)])
def test_half_a_window_is_not_lost_by_chance(*, lost: int, expected: bool) -> None:
    """Chance would have taken some of each window before it."""
    sent, acks, first, late = list(SENT), list(ACKS), 12, ENDED + 101.0
    sent += [(ENDED + 0.1 + 0.01 * index, first + index) for index in range(20)]
    acks += [(late + index, first) for index in range(20 - lost)]
    sent += [(late + 2.1 + 0.01 * index, first + index) for index in range(lost)]
    acks += [(late + 103.0, first + 20)]
    (event,) = ladder(sent, acks).episodes
    assert is_burst(event, SMSS) is expected
