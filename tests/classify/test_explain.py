"""The evidence with packet numbers, and capture, models and simulator in one table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tcptrace_lab import read
from tcptrace_lab.classify.explain import explain
from tcptrace_lab.cli import main
from tcptrace_lab.scenario import CONTROLS, ConnectionSpec, ControlSpec, NodeSpec, PathSpec, ReceiverSpec, Scenario
from tcptrace_lab.scenario_file import load
from tcptrace_lab.simulate import simulate
from tests.conftest import ROOT

CAPTURE = ROOT / "captures" / "tahoe_small_buffer.pcap.gz"


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The one verdict that the command prints."""
    assert main(["classify", "--json", *arguments]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    return dict(found)


@pytest.mark.parametrize("tap", ["sender", "receiver"])
def test_the_packet_of_a_loss_repeats_the_one_that_is_missing(tap: str, tmp_path: Path) -> None:
    """Frame numbers are those of the file: the same sequence number stands in both packets."""
    run = simulate(load(ROOT / "captures" / "scenarios" / "reno_10M.toml", overrides=[f"taps=['{tap}']"]))
    run.write(tmp_path / "x.pcap", tap=tap, payload=False)
    connection = read(tmp_path / "x.pcap")[0]
    segments = connection.flows[0].segments.set_index("packet")
    acks = set(connection.flows[0].acks["packet"])
    losses = [row for row in explain(connection.verdict(), connection) if row["about"] == "loss"]
    assert len(losses) == len(run.losses)
    for row in losses:
        assert row["frame"] - 1 in segments.index
        noticed = int(row["says"].split("(packet ")[1].split(")")[0])
        assert noticed - 1 in acks
        if tap == "sender":
            missing = int(row["says"].split("the segment of packet ")[1].split()[0])
            assert segments["offset"][missing - 1] == segments["offset"][row["frame"] - 1]
        else:
            # What was lost before the tap is in no packet.
            assert row["says"].startswith("a segment that the tap did not see")


def test_every_slow_start_and_every_refuted_control_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    """As many slow starts as the cycles count, each candidate at the packet at which it parts from what was sent."""
    found = answer(capsys, "--explain", str(CAPTURE))
    about = [row["about"] for row in found["evidence"]]
    assert about.count("slow_start") == sum(found["slow_starts"]["per_cycle"])
    refuted = [row["name"] for row in found["sender_tcp"]["candidates"] if row["confidence"] == 0]
    assert about.count("candidate") <= len(refuted)
    assert about.count("path") == len(found["path"])
    frames = [row["frame"] for row in found["evidence"] if row["frame"] is not None]
    assert all(1 <= frame <= read(CAPTURE).packets for frame in frames)


def test_the_simulation_is_measured_as_the_capture_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Tahoe over 8 packets of buffer: triple in the capture, in the model by packets and in the simulator."""
    simulation = answer(capsys, "--simulate", str(CAPTURE))["simulation"]
    assert simulation["control"] == "tahoe"
    rows = {row["quantity"]: row for row in simulation["table"]}
    assert rows["regime"]["capture"] == rows["regime"]["simulator"] == "triple"
    assert rows["regime"]["models"]["small_buffers_packets"] == "triple"
    assert np.isclose(rows["goodput_bps"]["capture"], rows["goodput_bps"]["simulator"], rtol=0.05)


def test_what_was_not_asked_for_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    """The verdict's keys stay as they are."""
    assert {"evidence", "simulation"}.isdisjoint(answer(capsys, str(CAPTURE)))


def test_a_pace_of_its_own_is_no_limit_of_the_application() -> None:
    """The same count in every view: a BBR that its verdict calls limited by its window waits for nobody's writes."""
    control = ControlSpec(**CONTROLS["bbr"], initial_window=10, delayed_ack_segments=2, stack="linux")
    connection = ConnectionSpec(control=control, receiver=ReceiverSpec(rwnd=4_194_304, delayed_ack_timer_s=0.04))
    path = PathSpec(nodes=(NodeSpec(rate_bps=10e6, buffer=40, delay_s=0.03),), return_delay_s=0.03)
    captured = simulate(Scenario(path=path, connections=(connection,), duration_s=12)).capture()[0]
    verdict = captured.verdict()
    assert verdict.limits["cwnd"] > 0.9
    assert "limit" not in [row["about"] for row in explain(verdict, captured)]
