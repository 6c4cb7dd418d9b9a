"""Compound's case and gamma from a capture at the sender: the kernel's own counters say which phases its cycles had."""

from __future__ import annotations

import math

import pytest
from tcptrace_lab.models.compound_cases import PHASES_OF_CASE

from tcptrace_lab import read
from tcptrace_lab.classify.verdict import Verdict, classify
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


def extremes(verdict: Verdict) -> tuple[tuple[float | None, float | None], tuple[float, float]]:
    """theta_max and theta_min as seen and as the model has them."""
    (row,) = [row for row in verdict.as_dict()["predictions"] if row["model"] == "compound"]
    wanted = [row["quantities"][name]["value"] for name in ("theta_max", "theta_min")]
    assert verdict.compound is not None
    return (verdict.compound.theta_max, verdict.compound.theta_min), (wanted[0], wanted[1])


@pytest.mark.parametrize(
    ("folder", "name", "within"),
    [
        ("kernel", "ctcp_osc31_100M", 2),
        ("kernel", "ctcp_osc42_96M", 2),
        # Pipes of 42 to 100 packets: the Reno part holds the window up, and each oscillation is shorter than the last.
        ("kernel", "ctcp_case4_20M", 3),
        ("kernel", "ctcp_case5_20M", 6),
        ("identify", "compound_case4", 6),
        ("identify", "compound_case5", 3),
    ],
)
def test_the_model_oscillates_as_the_kernel_does(folder: str, name: str, within: float) -> None:
    """Equations (13) and (14) in a kernel's whole packets: both ends of phase 3, in packets."""
    (verdict,) = classify(read(shared("captures", folder, f"{name}.pcap.gz")))
    seen, wanted = extremes(verdict)
    assert seen == pytest.approx(wanted, abs=within)


@pytest.mark.parametrize(("rate_bps", "gamma"), [(8e6, 15.0), (20e6, 30.0), (30e6, 30.0)])
def test_the_model_oscillates_as_the_simulator_does(rate_bps: float, gamma: float) -> None:
    """The same where the control is ours: a pipe of 80, 167 and 250 packets, 5:1 and 4:1."""
    node = NodeSpec(rate_bps=rate_bps, buffer=2 * gamma, delay_s=0.06 if rate_bps < 10e6 else 0.05)
    control = ControlSpec(window="compound-packets", recovery="sack", initial_window=10, gamma=gamma)
    scenario = Scenario(
        path=PathSpec(nodes=(node,), return_delay_s=node.delay_s),
        connections=(ConnectionSpec(control=control),),
        duration_s=60.0,
    )
    (verdict,) = classify(simulate(scenario).capture(tap="sender"))
    seen, wanted = extremes(verdict)
    assert seen == pytest.approx(wanted, abs=3)
