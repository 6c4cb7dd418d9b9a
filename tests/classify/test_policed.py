"""A policer told from a queue and from chance."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tcptrace_lab.classify.verdict import Verdict, classify
from tcptrace_lab.scenario import ConnectionSpec, NodeSpec, PathSpec, Scenario
from tcptrace_lab.simulate import Run, simulate
from tests.classify.test_limits import SACK

LINK = NodeSpec(rate_bps=40e6, buffer=1000, delay_s=0.02)
POLICED = replace(LINK, policer_bps=4e6, policer_burst=90_000)
TAPS = ("sender", "receiver")


@cache
def simulated(node: NodeSpec, seconds: float = 6.0) -> Run:
    path = PathSpec(nodes=(node,), return_delay_s=0.02)
    flow = ConnectionSpec(control=SACK)
    return simulate(Scenario(path=path, connections=(flow,), duration_s=seconds, profile="rfc", taps=TAPS))


def verdicts(run: Run) -> list[Verdict]:
    return [next(iter(classify(run.capture(tap=tap)))) for tap in TAPS]


def test_a_policer_lets_its_rate_and_a_burst_pass() -> None:
    run = simulated(POLICED)
    assert set(run.drops["reason"]) == {"policed"}
    passed = run.summary["throughput_bps"] * 6.0 / 8
    assert 0.7 * 6.0 * POLICED.policer_bps / 8 < passed <= 6.0 * POLICED.policer_bps / 8 + POLICED.policer_burst


@pytest.mark.parametrize("tap", TAPS)
def test_a_policer_is_told_with_its_rate_and_its_burst(tap: str) -> None:
    found = verdicts(simulated(POLICED))[TAPS.index(tap)].as_dict()
    rate, burst = found["path"]["policer_bps"], found["path"]["policer_burst_packets"]
    assert rate["value"] == pytest.approx(POLICED.policer_bps, rel=0.01)
    assert rate["low"] <= POLICED.policer_bps * 1.001
    assert rate["high"] >= POLICED.policer_bps * 0.999
    assert burst["low"] - 1 <= POLICED.policer_burst / 1500 <= burst["high"] + 1
    assert found["losses"]["by_cause"] == {"policed": found["losses"]["total"]}
    assert "limited by a policer that lets 4 Mbit/s pass" in found["diagnosis"]


@pytest.mark.parametrize("node", [replace(LINK, rate_bps=4e6, buffer=20), replace(LINK, loss=0.01)])
def test_a_full_queue_and_chance_are_no_policer(node: NodeSpec) -> None:
    """A queue loses as a bucket does, but round trips rise; what chance drops meets buckets of any level."""
    for found in verdicts(simulated(node, 10.0)):
        assert not np.any(found.path.policed.is_policed)
        assert found.as_dict()["path"]["policer_bps"]["value"] is None
