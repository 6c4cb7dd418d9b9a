"""Compound's case and gamma from a capture at the sender: the kernel's own counters say which phases its cycles had."""

from __future__ import annotations

import math

import pytest
from tcptrace_lab.models.compound_cases import PHASES_OF_CASE

from tcptrace_lab import read
from tcptrace_lab.classify.verdict import classify
from tcptrace_lab.scenario import ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario
from tcptrace_lab.simulate import simulate
from tests.conftest import shared

# A row: set, run, case (None where the delay window never opens, so that it is Reno), gamma, m:n (None: not looked at).
RUNS = (
    ("identify", "compound_case1", 1, 30.0, None),
    ("identify", "compound_case4", 4, 30.0, None),
    ("identify", "compound_case5", 5, 30.0, None),
    ("identify", "compound_case6", None, None, None),
    ("kernel", "ctcp_case1_50M", 1, 30.0, None),
    ("kernel", "ctcp_case2_50M", 2, 30.0, None),
    ("kernel", "ctcp_case3_g90", 3, 90.0, None),
    ("kernel", "ctcp_case4_20M", 4, 30.0, "7:1"),
    ("kernel", "ctcp_case5_20M", 5, 30.0, None),
    # Neither ends its only steady cycle: it has oscillated for most of the run.
    ("kernel", "ctcp_osc31_100M", 4, 30.0, "3:1"),
    ("kernel", "ctcp_osc42_96M", 4, 30.0, "4:2"),
)


@pytest.mark.parametrize(("folder", "name", "case", "gamma", "oscillation"), RUNS, ids=[row[1] for row in RUNS])
def test_the_case_is_the_kernels(
    folder: str, name: str, case: int | None, gamma: float | None, oscillation: str | None
) -> None:
    """Blanc, Avrachenkov & Collange 2008, section 3: the set of phases in the steady cycles."""
    (verdict,) = classify(read(shared("captures", folder, f"{name}.pcap.gz")))
    found = verdict.as_dict()["compound"]
    assert found["case"] == case
    if gamma is None:
        assert found["gamma"] is None
    else:
        told = found["gamma"]
        assert (told["low"] or 0.0) <= gamma <= (told["high"] or math.inf)
        # Without phase 3 the queue never met it.
        assert (told["value"] is not None) == (case is not None and 3 in PHASES_OF_CASE[case])
    if oscillation is not None:
        assert found["oscillation"] == oscillation


@pytest.mark.parametrize(
    ("window", "gamma"), [("compound", 12.0), ("compound-draft", 60.0), ("compound-packets", 120.0)]
)
def test_another_gamma_is_found(window: str, gamma: float) -> None:
    """Half a pipe of buffer, and gamma above it or below: the delay window oscillates around it."""
    node = NodeSpec(rate_bps=40e6, buffer=max(2 * gamma, 60), delay_s=0.03)
    control = ControlSpec(window=window, recovery="sack", initial_window=3, gamma=gamma)
    scenario = Scenario(
        path=PathSpec(nodes=(node,), return_delay_s=0.03),
        connections=(ConnectionSpec(control=control),),
        duration_s=60.0,
    )
    (verdict,) = classify(simulate(scenario).capture(tap="sender"))
    assert verdict.identified.control == "compound"
    assert verdict.compound is not None
    assert verdict.compound.gamma is not None
    told = verdict.compound.gamma
    assert told.low is not None
    assert told.high is not None
    assert told.low <= gamma <= told.high <= 1.5 * told.low
