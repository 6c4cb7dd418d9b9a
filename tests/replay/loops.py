"""What the tests of a capture sent again share: a sender of today, its path, and when it has come back."""

from __future__ import annotations

import pytest

from tcptrace_lab.capture import Capture
from tcptrace_lab.replay.closed_loop import ClosedLoop
from tcptrace_lab.scenario import ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario
from tcptrace_lab.simulate import simulate

MODERN = ControlSpec(
    recovery="sack", initial_window=10, timestamps=True, limited_transmit=True, byte_counting=True, rack=True
)


def comes_back(run: ClosedLoop, *, within: float = 0.05) -> None:
    """The mark of issue 11: completion within 5 %, loss events within 1 or 10 %, the same regime."""
    for then, now in run.outcomes:
        assert now.completion_s == pytest.approx(then.completion_s, rel=within)
        assert abs(now.loss_events - then.loss_events) <= max(1, 0.1 * then.loss_events)
        assert "undecided" in (then.regime, now.regime) or now.regime == then.regime


def path(rate_bps: float = 10e6, buffer: float = 40, one_way_s: float = 0.02) -> PathSpec:
    """A bottleneck, and as long a way back."""
    return PathSpec(nodes=(NodeSpec(rate_bps=rate_bps, buffer=buffer, delay_s=one_way_s),), return_delay_s=one_way_s)


def simulated(*connections: ConnectionSpec, way: PathSpec | None = None, duration_s: float = 20.0) -> Capture:
    """What a tap at the sender saw."""
    return simulate(Scenario(path=way or path(), connections=connections, duration_s=duration_s)).capture()
