"""What recordings of real programs taught: senders of short segments, of which no window is seen at work."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
import pytest

from tcptrace_lab import read, simulate
from tcptrace_lab.classify.sender.limits import Known, limits_told
from tcptrace_lab.classify.verdict import classify
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import build
from tcptrace_lab.scenario import ApplicationSpec, ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario
from tests.conftest import ROOT

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


@pytest.mark.parametrize(("size", "share"), [(80, 1.0), (1448, 0.0)])
def test_words_are_the_applications_though_their_answers_wait(size: int, share: float) -> None:
    """One each 20 ms, without Nagle's rule, and a receiver that leaves every third waiting: of full ones, away
    from their sender, they may as well be a pacer's."""
    captured = read(ROOT / "captures" / "reno_10M.pcap.gz")
    tap = next(iter(classify(captured))).who.tap
    count = np.arange(400)
    left = 20_000_000 * count
    columns = {"send_ns": left, "send_offset": size * count, "send_end": size * (count + 1)}
    columns |= {"ack_ns": left + 63_000_000 + 40_000_000 * (count % 3 == 0) // 3, "ack_offset": size * (count + 1)}
    limits = limits_told(Reconstruction(build(columns, smss=1448)), tap, Known(is_rebuilt=True))
    assert limits["application"] == pytest.approx(share, abs=0.05), limits
