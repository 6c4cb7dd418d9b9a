"""What recordings of real programs taught: senders of short segments, of which no window is seen at work."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pytest

from tcptrace_lab import simulate
from tcptrace_lab.classify.verdict import classify
from tcptrace_lab.scenario import ApplicationSpec, ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario

TAPS = ("sender", "receiver")


def verdicts(*writes: tuple[float, int]) -> dict[str, dict[str, Any]]:
    """What is said at both ends of a sender to which so much is written at these times."""
    control = ControlSpec(initial_window=10, recovery="sack", delayed_ack_segments=2, timestamps=True)
    connection = ConnectionSpec(control=control, application=ApplicationSpec(kind="schedule", writes=writes))
    path = PathSpec(nodes=(NodeSpec(rate_bps=20e6, buffer=60, delay_s=0.02),), return_delay_s=0.02)
    scenario = Scenario(path=path, connections=(connection,), duration_s=4.0, profile="rfc", taps=TAPS)
    run = simulate(scenario, truth=False)
    return {tap: next(classify(run.capture(tap=tap))).as_dict() for tap in TAPS}


@pytest.mark.parametrize("tap", TAPS)
@pytest.mark.parametrize(
    "writes", [[(0.005, 100)] * 600, [(0.03 + 0.04 * (n % 3), 40 + 70 * (n % 5)) for n in range(45)]]
)
def test_words_show_no_window(writes: list[tuple[float, int]], tap: str) -> None:
    """Segments of which few are full are the application's (RFC 896, RFC 1122 section 4.2.3.4): not what a congestion
    window let go, which is never less than a full one."""
    times = accumulate(apart for apart, _ in writes)
    found = verdicts(*((time_s, size) for time_s, (_, size) in zip(times, writes, strict=True)))[tap]
    assert found["initial_window"]["segments"] is None
    assert found["limits"].get("cwnd", 0.0) == 0.0
    assert found["limits"]["application"] > 0.9
