"""Pauses away from the sender: a timer's, whose flight was lost to its end before the tap, or an application's."""

from __future__ import annotations

import pytest

from tcptrace_lab.classify.path.causes import pauses_unseen
from tests.reconstruct.ladder import ladder, rounds


@pytest.mark.parametrize(("burst", "count"), [(1, 1), (6, 0)])
def test_a_timer_sends_one_segment_and_an_application_its_burst(burst: int, count: int) -> None:
    """All that came to the tap was acknowledged; half a second later it goes on."""
    sent, acks = rounds([4, 8])
    begin = acks[-1][0] + 500.0
    later, heard = rounds([burst, 8], first=12, begin_ms=begin)
    seen = ladder([*sent, *later], [*acks, *heard])
    assert len(pauses_unseen(seen)[1]) == count


def test_an_ack_just_before_the_data_ends_the_pause() -> None:
    """The receiver's window opened again: no timer of the sender's ran."""
    sent, acks = rounds([4, 8])
    begin = acks[-1][0] + 500.0
    later, heard = rounds([1, 8], first=12, begin_ms=begin)
    seen = ladder([*sent, *later], [*acks, (begin - 50.0, 12), *heard])
    assert not len(pauses_unseen(seen)[1])
