"""The sentence of a verdict: what it says of losses, and of what limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcptrace_lab.classify.diagnosis import diagnosis
from tests.classify.test_limits import FULL

LOSSES = {"total": 40, "by_cause": {"unknown": 40}, "possible_unseen": 0}
PATH = {
    name: {"value": None, "low": None, "high": None}
    for name in ("bottleneck_bps", "buffer_packets", "policer_bps", "policer_burst_packets")
}
TOLD = {
    "sender_tcp": {"congestion_control": "reno", "recovery": "sack", "candidates": []},
    "limits": {"rwnd": 0.9, "cwnd": 0.1},
    "path": PATH,
    "losses": LOSSES,
    "slow_starts": {"regime": "none"},
    "tap": {"ecn_cuts": 0},
    "predictions": [],
}


@pytest.mark.parametrize(
    ("times", "until", "words"),
    [
        ((1.0, 2.0, 3.0, 4.0), 5.0, "loses packets every 1 s"),
        ((1.0, 1.1, 1.2, 4.0), 5.0, "loses packets 4 times"),
        ((13.6, 13.7, 13.8), 14.0, "loses packets 3 times"),
        ((0.1, 0.2, 0.3), 20.0, "loses packets 3 times"),
        ((1.0, 2.0), 20.0, "loses packets twice"),
    ],
)
def test_losses_have_a_period_where_the_run_has_no_long_part_without_them(
    times: tuple[float, ...], until: float, words: str
) -> None:
    assert diagnosis(TOLD, replace(FULL, loss_times_s=times, sends_until_s=until)).endswith(words)


@pytest.mark.parametrize(
    ("low", "words"), [(9e6, "limited by a 10 Mbit/s bottleneck"), (None, "limited by its congestion window")]
)
def test_a_pace_that_bounds_no_rate_is_no_bottleneck(low: float | None, words: str) -> None:
    path = PATH | {"bottleneck_bps": {"value": 10e6, "low": low, "high": None}}
    assert words in diagnosis(TOLD | {"limits": {"cwnd": 1.0}, "path": path}, FULL)
