"""Every row of table.toml: a run, simulated or of ns-2, and what must be said of its capture."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from tcptrace_lab.capture import Capture
from tcptrace_lab.classify.verdict import classify
from tcptrace_lab.scenario import ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario
from tcptrace_lab.simulate import simulate
from tests.conftest import ROOT
from tests.ns2_capture import read_events

ROWS: list[dict[str, Any]] = tomllib.loads((ROOT / "tests" / "classify" / "table.toml").read_text())["run"]
PATHS: dict[str, dict[str, Any]] = {
    # Barakat & Altman's path at a third of its delay: a cycle takes seconds.
    "small": {"rate_bps": 1.5e6, "round_trip_s": 0.1, "packet_bytes": 512, "profile": "ns2", "duration_s": 60.0},
    # mu tau = 60 packets.
    "compound": {"rate_bps": 14.4e6, "round_trip_s": 0.05, "profile": "rfc", "duration_s": 80.0},
}


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_what_a_row_of_the_table_says(row: dict[str, Any]) -> None:
    """Regime, case, oscillation and control."""
    (verdict,) = classify(capture_of(row))
    found = verdict.as_dict()
    seen = {
        "regime": found["slow_starts"]["regime"],
        "case": found["compound"]["case"],
        "control": found["sender_tcp"]["congestion_control"],
        "oscillation": found["compound"]["oscillation"],
    }
    expected = dict(row["expect"])
    if "compatible" in expected:
        assert expected.pop("compatible") in found["compound"]["compatible"]
    assert {name: seen[name] for name in expected} == expected, found["reasons"]


def capture_of(row: dict[str, Any]) -> Capture:
    """The capture at the sender."""
    if "ns2" in row:
        return read_events(ROOT / "tests" / "data" / "ns2" / f"{row['ns2']}.csv.gz")
    run = {**PATHS[row["path"]], **row}
    delay_s = run["round_trip_s"] / 2
    # A buffer of Compound's paper counts the packet in service.
    node = NodeSpec(
        rate_bps=run["rate_bps"], buffer=run["buffer"], delay_s=delay_s, counts_in_service=run["path"] == "compound"
    )
    path = PathSpec(nodes=(node,), return_delay_s=delay_s, packet_bytes=run.get("packet_bytes", 1500))
    scenario = Scenario(
        path=path,
        connections=(ConnectionSpec(control=ControlSpec(**run["control"])),),
        duration_s=run["duration_s"],
        profile=run["profile"],
    )
    return simulate(scenario, truth=False).capture(tap="sender")
