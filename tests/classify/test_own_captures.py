"""Verdicts on the recordings shipped with the project, against the kernel's facts in captures/index.toml."""

from __future__ import annotations

import tomllib
from functools import cache
from typing import Any

import pytest

from tcptrace_lab import read
from tcptrace_lab.classify.verdict import classify
from tests.conftest import ROOT

CAPTURES = ROOT / "captures"
INDEX: list[dict[str, Any]] = tomllib.loads((CAPTURES / "index.toml").read_text())["captures"]
EXPECTED = [(entry, facts) for entry in INDEX for facts in entry["expected"]]
every_sender = pytest.mark.parametrize(
    ("entry", "facts"), EXPECTED, ids=[f"{entry['name']}-{number}" for number, (entry, _) in enumerate(EXPECTED)]
)


@cache
def verdicts(file: str) -> dict[int, dict[str, Any]]:
    """By the sender's port."""
    found = [verdict.as_dict() for verdict in classify(read(CAPTURES / file))]
    return {int(verdict["sender"].rpartition(":")[2]): verdict for verdict in found}


@every_sender
def test_slow_starts_in_each_cycle_are_the_kernels(entry: dict[str, Any], facts: dict[str, Any]) -> None:
    """RFC 5681: the connection's own, and one for each timeout; none after a fast recovery."""
    found = verdicts(entry["file"])[facts["client_port"]]["slow_starts"]
    assert found["per_cycle"] == facts["slow_starts_per_cycle"]


@every_sender
def test_recovery_is_by_ack_or_by_timer_as_the_kernel_says(entry: dict[str, Any], facts: dict[str, Any]) -> None:
    """A fast retransmit shows the recovery; where there was none, nothing is claimed."""
    found = verdicts(entry["file"])[facts["client_port"]]["sender_tcp"]
    assert (found["recovery"] is not None) == (facts["fast_retransmits"] > 0)


@pytest.mark.parametrize(
    "entry", [entry for entry in INDEX if len(entry["expected"]) == 1], ids=lambda entry: entry["name"]
)
def test_path_lies_within_the_bounds(entry: dict[str, Any]) -> None:
    """The emulator's round trip and buffer: within what is claimed, where anything is."""
    (facts,) = entry["expected"]
    path, truth = verdicts(entry["file"])[facts["client_port"]]["path"], entry["path"]
    least = path["base_rtt_s"]["low"]
    assert least is None or least <= truth["base_rtt_s"] * 1.001
    assert path["base_rtt_s"]["high"] >= truth["base_rtt_s"] * 0.999
    low, high = path["buffer_packets"]["low"], path["buffer_packets"]["high"]
    assert low is None or low <= truth["buffer_packets"]
    assert high is None or high >= truth["buffer_packets"]


@pytest.mark.parametrize(
    "row",
    [row for entry in INDEX for row in entry.get("also", []) if row["vantage"] == "receiver"],
    ids=lambda row: row["file"],
)
def test_a_capture_at_the_receiver_is_read_as_the_senders(row: dict[str, Any]) -> None:
    """By timestamps: the same slow starts, recovery, initial window and losses; limits within a percent."""
    at_sender = verdicts(row["file"].replace(".receiver", ""))
    for name, found in verdicts(row["file"]).items():
        same = at_sender[name]
        assert found["vantage"] == "receiver"
        assert found["slow_starts"]["regime"] == same["slow_starts"]["regime"]
        assert found["slow_starts"]["per_cycle"] == same["slow_starts"]["per_cycle"]
        assert found["sender_tcp"]["recovery"] == same["sender_tcp"]["recovery"]
        assert found["initial_window"] == same["initial_window"]
        assert found["losses"]["total"] == same["losses"]["total"]
        assert found["limits"] == pytest.approx(same["limits"], abs=0.01)
