"""How long the receiver's window was full, beside a receiver and without timestamps: by what came as soon as it can."""

from __future__ import annotations

import numpy as np
import pytest

from tcptrace_lab.reconstruct.filled import filled_ns
from tcptrace_lab.reconstruct.flights import Offered, Passed

SMSS, MS = 1000, 1_000_000
TURN = 40


def filled(
    window: int,
    *,
    offered: int = 20,
    count: int = 400,
    spacing_ms: float = 1.0,
    lost: frozenset[int] = frozenset(),
    turn_ms: float = TURN,
) -> float:
    """The share of the time of a sender with `window` segments in flight, each acknowledged as it comes, behind a
    bottleneck that sends one in `spacing_ms`; those `lost` come again a turn after the third that outran each."""
    times = np.zeros(count)
    for place in range(count):
        leaves = times[place - window] if place >= window else 0.0
        times[place] = max(leaves + TURN, times[place - 1] + spacing_ms if place else TURN)
    came = np.array([place not in lost for place in range(count)])
    missing = [min((each for each in lost if each <= place), default=None) for place in range(count)]
    una = [
        place + 1 if hole is None or times[place] > times[min(hole + 3, count - 1)] + TURN else hole
        for place, hole in enumerate(missing)
    ]
    time_ns, offset = np.round(times * MS).astype(np.int64), SMSS * np.arange(count)
    passed = Passed(
        time_ns=time_ns[came],
        offset=offset[came],
        length=np.full(int(came.sum()), SMSS),
        asked_ns=np.zeros(0, dtype=np.int64),
        smss=SMSS,
        again_ns=None,
        last_ns=int(time_ns[-1]),
        rtt_ns=None,
    )
    ack = SMSS * np.array([0, *np.array(una)[came].tolist()])
    windows = Offered(
        time_ns=np.append(0, passed.time_ns), ack=ack, rwnd=np.full(len(ack), offered * SMSS, dtype=np.int64)
    )
    return filled_ns(passed, windows, turn_ns=round(turn_ms * MS), near_ns=MS // 5) / int(np.ptp(passed.time_ns))


def test_what_comes_a_turn_behind_the_ack_that_opened_the_window_had_waited_for_it() -> None:
    """RFC 9293 section 3.8.6: 20 segments in a turn of 40 ms, as many as are offered."""
    assert filled(20) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("window", [10, 19])
def test_a_smaller_window_lets_it_come_later(window: int) -> None:
    """Of 20 that are offered."""
    assert filled(window) == 0.0


def test_where_the_queue_never_runs_empty_either_window_may_be_full() -> None:
    """21 or more are what a path of 40 ms with one in 2 ms holds: both come as the bottleneck sends them."""
    assert filled(24, offered=24, spacing_ms=2.0) == filled(22, offered=24, spacing_ms=2.0) == 0.0


def test_a_turn_that_something_beats_is_none() -> None:
    """What seems to come at once then may have come late."""
    assert filled(20, turn_ms=TURN + 0.15) == pytest.approx(1.0, abs=0.1)
    assert filled(20, turn_ms=TURN + 1) == 0.0


def test_nothing_is_told_beside_a_hole() -> None:
    """What comes above it is let go by duplicates, and what follows waits for the recovery to end."""
    lost = frozenset({200})
    assert filled(20, lost=lost) < filled(20) - 40 / 400
