"""Compound's case and gamma from a capture at the sender: the kernel's own counters say which phases its cycles had."""

from __future__ import annotations

import pytest

from tcptrace_lab import read
from tcptrace_lab.classify.verdict import classify
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
    assert found["gamma"] == gamma
    if oscillation is not None:
        assert found["oscillation"] == oscillation
