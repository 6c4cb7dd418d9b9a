"""The table of controls: what is offered, and what is refused by name."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tcptrace_lab import controls
from tcptrace_lab.errors import ScenarioError
from tcptrace_lab.scenario import (
    CONTROLS,
    RECOVERIES,
    SLOW_STARTS,
    WINDOWS,
    ConnectionSpec,
    ControlSpec,
    NodeSpec,
    PathSpec,
    ReceiverSpec,
    Scenario,
)
from tcptrace_lab.scenario_file import parse
from tcptrace_lab.simulate import simulate
from tests.conftest import ROOT

PATH = PathSpec(nodes=(NodeSpec(rate_bps=2e6, buffer=10, delay_s=0.02),), return_delay_s=0.02)


def of(control: ControlSpec, profile: str = "rfc") -> Scenario:
    return Scenario(path=PATH, connections=(ConnectionSpec(control=control),), duration_s=5, profile=profile)


def test_every_row_names_its_proof():
    page = (ROOT / "docs" / "controls.md").read_text()
    for name in WINDOWS:
        assert f"\n| {name} | " in page
        assert f"\n- `{name}`: " in page
    for name in (*SLOW_STARTS, *RECOVERIES):
        assert f"\n| {name} | " in page
    named = re.findall(r"`((?:core|tests)/[\w/.]+)`", page)
    assert len(named) > len(WINDOWS)
    assert all((ROOT / path).is_file() for path in named)


def test_an_unknown_control_is_refused_with_the_known_ones():
    table = {"duration_s": 1, "path": {"nodes": [{"rate_bps": 1e6}]}, "control": {"window": "no-such"}}
    with pytest.raises(ScenarioError, match=rf'control.window = "no-such": must be one of {", ".join(WINDOWS)}'):
        parse(table)


@pytest.mark.parametrize(
    ("control", "profile", "message"),
    [
        ({"gamma": 5}, "rfc", "gamma = 5.0: must be absent: slow start standard over reno knows byte_counting"),
        ({"window": "compound", "gamma": -1}, "rfc", "gamma = -1: must be > 0"),
        ({"byte_counting": True}, "ns2", r"connections.0.control.byte_counting = true: must be absent in profile ns2"),
        ({"rack": True}, "ns2", r"connections.0.control.rack = true: must be absent in profile ns2"),
        ({"syn": True}, "rfc", r"connections.0.control.syn = true: must be absent in profile rfc"),
    ],
)
def test_a_key_that_nobody_reads_is_refused_by_name(control, profile, message):
    with pytest.raises(ScenarioError, match=message):
        of(ControlSpec(**control), profile)


def test_a_receivers_key_of_another_profile_is_refused_by_name():
    receiver = ReceiverSpec(rwnd=9000)
    connection = ConnectionSpec(receiver=receiver)
    with pytest.raises(ScenarioError, match=r"connections.0.receiver.rwnd = 9000: must be absent in profile ns2"):
        Scenario(path=PATH, connections=(connection,), duration_s=1, profile="ns2")


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("slow_start", SLOW_STARTS)
def test_every_pair_runs_where_it_says_it_does(slow_start, window):
    """The lists are the core's, so whatever stands in its table can be run; what would change nothing is refused."""
    if controls.WINDOWS[window].has_slow_start and slow_start != "standard":
        with pytest.raises(ScenarioError, match=rf"slow_start = .*{slow_start}.*: must be standard: {window} has a"):
            of(ControlSpec(slow_start=slow_start, window=window, recovery="sack"))
        return
    for profile in controls.WINDOWS[window].profiles:
        run = simulate(of(ControlSpec(slow_start=slow_start, window=window, recovery="sack"), profile))
        assert run.totals[0]["acked"] > 0


@pytest.mark.parametrize("row", [row for row in controls.WINDOWS.values() if not row.has_slow_start])
def test_m_start_opens_the_first_windows_of_every_window_that_takes_it(row):
    """Paper 002 proposes it over each: after the first ACK 10, 9, ..., 1 packets."""
    path = PathSpec(nodes=(NodeSpec(rate_bps=1e8, buffer=1000, delay_s=0.02),), return_delay_s=0.02)
    sender = ConnectionSpec(
        control=ControlSpec(window=row.name, slow_start="m-start", recovery="sack", initial_window=4)
    )
    for profile in row.profiles:
        run = simulate(Scenario(path=path, connections=(sender,), duration_s=0.25, profile=profile))
        steps = (run.windows["cwnd"] / run.windows["smss"]).diff().iloc[1:]
        assert steps[steps != 0].tolist()[1:12] == [10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 10], profile


def test_what_a_control_holds_in_mind_is_a_column_of_the_truth(tmp_path):
    two = replace(of(ControlSpec(window="cubic", recovery="sack")), taps=())
    two = replace(
        two, connections=(two.connections[0], ConnectionSpec(control=ControlSpec(**CONTROLS["compound-draft"])))
    )
    run = simulate(two)
    windows = run.windows
    cubic, compound = windows[windows["connection"] == 0], windows[windows["connection"] == 1]
    after_a_loss = cubic[cubic["k_s"].notna()]
    assert len(after_a_loss) > 0
    assert (after_a_loss["w_max"] > 0).all()
    assert cubic["dwnd"].isna().all()
    assert compound["w_max"].isna().all()
    # Propagation, a packet's and its ACK's transmission, 46.2 ms; the other's first packet, 6 ms, may be before it.
    assert 46e6 < compound["base_rtt_ns"].min() < 53e6
    file, *_ = run.write_truth(tmp_path / "two.truth.csv")
    rows = pd.read_csv(file)
    changed = rows[rows["ev"] == "S"]
    assert {"w_max", "k_s", "dwnd", "base_rtt_ns"} <= set(run.control_names)
    for name in run.control_names:
        np.testing.assert_allclose(changed[name], windows[name])


def test_a_window_that_duplicate_acks_inflate_is_a_column_of_its_own(tmp_path):
    """ns-2's Reno keeps cwnd_ apart from what duplicate ACKs add: in recovery cwnd is half, the usable window more."""
    run = simulate(of(ControlSpec(recovery="reno"), "ns2"))
    windows = run.windows.assign(w=run.windows["cwnd"] / run.windows["smss"])
    windows["usable"] = windows["usable_window"] / windows["smss"]
    recovering = windows[windows["state"] == 3]
    assert (recovering["usable"] > recovering["w"] + 2).any()
    opened = windows[windows["state"] == 0]
    assert (opened["usable"] == opened["w"].astype(int)).all()
    lost = run.losses.iloc[0]
    assert recovering["w"].iloc[0] == lost["cwnd_before"] / lost["smss"] / 2
    file, *_ = run.write_truth(tmp_path / "reno.truth.csv")
    rows = pd.read_csv(file)
    np.testing.assert_allclose(rows[rows["ev"] == "S"]["usable_window"], windows["usable"])
