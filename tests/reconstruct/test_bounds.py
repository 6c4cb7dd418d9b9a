"""Bounds of the window hold the truth where the flight alone does not tell it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tcptrace_lab import read
from tcptrace_lab.classify.control.windows.replayed import replayed
from tcptrace_lab.reconstruct.away.arrivals import Sends
from tcptrace_lab.reconstruct.away.echoes import in_order
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import sender
from tcptrace_lab.reconstruct.tap.tap import Fact
from tcptrace_lab.reconstruct.truth.score import score
from tcptrace_lab.reconstruct.truth.truth_file import read_truth
from tcptrace_lab.scenario import ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario
from tcptrace_lab.simulate import simulate
from tests.conftest import shared


def run_of(rate_bps: float, buffer: int, delay_s: float, **control: Any) -> Scenario:
    node = NodeSpec(rate_bps=rate_bps, buffer=buffer, delay_s=delay_s)
    each = ControlSpec(timestamps=False, delayed_ack_segments=1, **control)
    path = PathSpec(nodes=(node,), return_delay_s=delay_s)
    return Scenario(path=path, connections=(ConnectionSpec(control=each),), duration_s=30, taps=("sender", "receiver"))


def within(scenario: Scenario, place: str, folder: Path) -> float:
    """The share of the first sender's ACKs after which its window lies between the bounds."""
    run = simulate(scenario)
    run.write_truth(folder / "x.truth.parquet")
    run.write(folder / "x.pcap", tap=place, payload=False)
    truth = read_truth(folder / "x.truth.parquet", port=run.ports[0][0])
    who = sender(read(folder / "x.pcap")[0])
    found = score(Reconstruction(who.timeline), truth, first_sequence=who.first_sequence).within
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("place", "least", "scenario"),
    [
        # ACKs are spaced as the data are: the turn shows at several lags alike. And the segments on the first duplicate
        # ACKs may be limited transmit's, or the window's.
        ("receiver", 0.99, run_of(3e6, 4, 0.01, window="reno", recovery="sack", rack=True, limited_transmit=False)),
        # The ACK that ends its recovery releases nothing: its window is what it goes on with, not what is outstanding.
        ("sender", 0.98, run_of(3e6, 15, 0.02, window="westwood", recovery="sack")),
        # After its timer it sends new data first; without a window's share in it, once it has arrived.
        ("sender", 0.95, run_of(30e6, 47, 0.0775, window="compound", recovery="newreno", initial_window=10)),
    ],
)
def test_bounds_hold_the_truth(place: str, least: float, scenario: Scenario, tmp_path: Path) -> None:
    assert within(scenario, place, tmp_path) >= least


@pytest.mark.parametrize("is_closed", [False, True])
def test_what_the_last_acks_released_is_on_its_way_when_a_receivers_capture_ends(
    *, is_closed: bool, tmp_path: Path
) -> None:
    scenario = run_of(8e6, 40, 0.03, window="reno", recovery="sack")
    each = scenario.connections[0]
    stamped = replace(each, control=replace(each.control, timestamps=True))
    run = simulate(replace(scenario, connections=(stamped,)))
    run.write(tmp_path / "x.pcap", tap="receiver", payload=False)
    who = sender(read(tmp_path / "x.pcap")[0])
    if is_closed:
        who = replace(who, tap=replace(who.tap, ends=Fact(value="fin")))
    last = replayed(who).windows.iloc[-1]
    assert (bool(pd.isna(last["cwnd_high"])), bool(pd.isna(last["limited_by"]))) == (not is_closed, not is_closed)


def test_a_repair_shows_its_window_though_the_data_behind_it_had_run_out() -> None:
    """Linux's own window in a recovery behind which its application paused."""
    folder = shared("captures", "kernel")
    who = sender(read(folder / "reno_onoff.pcap.gz")[0])
    truth = read_truth(folder / "reno_onoff.truth.csv.gz", port=int(who.sender.rpartition(":")[2]))
    found = score(Reconstruction(who.timeline), truth, first_sequence=who.first_sequence).recovery
    assert found.rows > 50
    assert found.p90 is not None
    assert found.p90 < 0.02


def test_what_was_put_back_left_with_the_ack_before_or_the_one_behind() -> None:
    """Behind all that arrived: with the last of those."""
    size = 1000
    row = np.array([0, 1, -1, -1, 2, 3, -1], dtype=np.int32)
    left = Sends(row=row, offset=size * np.arange(7), end=size * np.arange(1, 8))
    named = np.array([4, 5, -1, -1, 7, 8, -1], dtype=np.int32)
    bounds = in_order(named, named, left)
    assert bounds.low.tolist() == [4, 5, 5, 5, 7, 8, 8]
    assert bounds.high.tolist() == [4, 5, 7, 7, 7, 8, 8]
