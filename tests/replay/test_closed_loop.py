"""A capture sent again: with everything as found it must come back."""

from __future__ import annotations

import json
import math
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from tcptrace_lab import read
from tcptrace_lab.cli import main
from tcptrace_lab.errors import LabError
from tcptrace_lab.replay.as_found import as_found
from tcptrace_lab.replay.closed_loop import again, sweep_again
from tcptrace_lab.replay.closest import closest
from tcptrace_lab.report.replay_text import closed_loop_lines
from tcptrace_lab.scenario import ApplicationSpec, ConnectionSpec, NodeSpec, PathSpec, Scenario
from tcptrace_lab.scenario_file import load
from tcptrace_lab.simulate import simulate
from tcptrace_lab.sweep import over
from tests import random_loops
from tests.conftest import ROOT, shared
from tests.replay.loops import MODERN, comes_back, path, simulated

CAPTURES = ROOT / "captures"


def test_a_flight_that_stood_comes_back_as_large() -> None:
    """A send buffer of 40 segments, in a queue without an end: its sender alone would have filled that."""
    path = PathSpec(nodes=(NodeSpec(rate_bps=10e6, delay_s=0.02),), return_delay_s=0.02)
    control = replace(MODERN, window="cubic-linux", max_window=40)
    connection = ConnectionSpec(control=control, application=ApplicationSpec(kind="bytes", bytes=8_000_000))
    done = simulate(Scenario(path=path, connections=(connection,), duration_s=12.0, profile="rfc"))
    run = again(done.capture(tap="sender"))
    comes_back(run)
    ((then, now),) = run.outcomes
    assert now.window_max == pytest.approx(then.window_max, abs=1)


@pytest.mark.parametrize("name", ["reno_on_off", "reno_slow_reader", "reno_rwnd", "short_reno", "tahoe_small_buffer"])
def test_our_recordings_come_back_as_found(name: str) -> None:
    """A kernel's run: writes, a slow reader, a small window, a short transfer; and a Tahoe sender's."""
    comes_back(again(read(CAPTURES / f"{name}.pcap.gz")))


@pytest.mark.parametrize(
    "name",
    [
        "kernel/bbr_20M",
        "kernel/ctcp_case3_g90",
        "kernel/ctcp_case6_20M",
        "kernel/cubic_v6_multinode",
        "kernel/mstart_20M",
        "kernel/reno_acked_sched",
        "kernel/reno_nosack_8M",
        "kernel/tahoe_sat_B20",
        "kernel/tahoe_sat_B22",
        "kernel/two_reno_cubic",
        "identify/compound_case4",
        "identify/cubic_loss",
        "identify/cubic_short_rtt",
        "identify/m_start_nots",
        "identify/reno_plain",
        "identify/short_3",
        "identify/westwood",
    ],
)
def test_kernel_recordings_come_back_as_found(name: str) -> None:
    """Path, application, receiver and control from the capture alone."""
    comes_back(again(read(shared("captures", f"{name}.pcap.gz"))))


def test_linux_s_cubic_comes_back_packet_by_packet_almost() -> None:
    """HyStart ends slow start where the kernel's did: as many segments are lost as were."""
    ((then, now),) = again(read(shared("captures", "kernel", "cubic_20M.pcap.gz"))).outcomes
    assert now.window_max == pytest.approx(then.window_max, abs=2)
    assert abs(now.lost_segments - then.lost_segments) <= 2


def test_a_pace_that_shows_no_probe_is_not_taken_for_an_application_s() -> None:
    """Three seconds of BBR over 0.6 Mbit/s: too short for a probe of the round trip, and for most of the rate."""
    control = replace(MODERN, window="bbr", delayed_ack_segments=2)
    application = ApplicationSpec(kind="bytes", bytes=200_000)
    way = path(rate_bps=0.6e6, buffer=8, one_way_s=0.012)
    run = again(simulated(ConnectionSpec(control=control, application=application), way=way, duration_s=30.0))
    comes_back(run)
    (sender,) = run.scenario.connections
    assert (sender.control.window, sender.application.kind) == ("bbr", "bytes")
    assert any("paced by bbr" in note for note in run.found.notes)


def test_what_the_capture_leaves_open_is_settled_by_sending_it_again() -> None:
    """Another control taken for the likeliest: the one that was simulated comes back closest, and that is said."""
    control = replace(MODERN, window="westwood")
    application = ApplicationSpec(kind="bytes", bytes=20_000_000)
    capture = simulated(ConnectionSpec(control=control, application=application), way=path(buffer=30), duration_s=60.0)
    found = as_found(capture, control=control)
    (one,) = found.connections
    wrong = replace(control, window="reno")
    one = replace(one, control=wrong, open_controls=(("reno", wrong), ("westwood", one.control)))
    rows = (replace(found.scenario.connections[0], control=wrong),)
    settled = closest(replace(found, scenario=replace(found.scenario, connections=rows), connections=(one,)))
    assert settled.scenario.connections[0].control.window == "westwood"
    assert any("westwood comes back closest" in note for note in settled.notes)


def test_cubic_leaves_slow_start_where_the_kernel_did() -> None:
    """Its HyStart hears the receiver's quick ACKs: no overshoot of a whole slow start (185 segments lost for 14)."""
    run = again(read(shared("captures", "kernel", "cubic_20M.pcap.gz")))
    comes_back(run)
    ((then, now),) = run.outcomes
    assert abs(now.lost_segments - then.lost_segments) <= 4


def test_the_triple_slow_start_comes_back_at_20_and_not_at_22() -> None:
    """Barakat & Altman 1998, Figure 4, from a capture: a larger buffer, one slow start fewer, more throughput."""
    capture = read(shared("captures", "kernel", "tahoe_sat_B20.pcap.gz"))
    rows = sweep_again(capture, [over("path.nodes.0.buffer=20,22")])
    assert list(rows["regime"]) == ["triple", "double"]
    assert rows["goodput_bps"].iloc[1] > 1.1 * rows["goodput_bps"].iloc[0]


def test_a_connection_joined_midway_begins_as_it_stood() -> None:
    """No handshake: SACK shows in what is used; its window is reached by doubling from what the queue takes."""
    capture = read(shared("captures", "kernel", "midstart_cubic.pcap.gz"))
    control = as_found(capture).connections[0].control
    assert control.recovery == "sack"
    assert 10 < control.initial_window < control.initial_ssthresh
    ((then, now),) = again(capture).outcomes
    assert now.completion_s == pytest.approx(then.completion_s, rel=0.1)


def test_what_is_tried_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many connections and controls are open: so many simulations, and no more."""
    from tcptrace_lab.replay import closest as module

    capture = simulated(
        *[ConnectionSpec(control=MODERN, application=ApplicationSpec(kind="bytes", bytes=200_000))] * 12
    )
    found = as_found(capture)
    runs = []
    monkeypatch.setattr(module, "simulate", lambda *words, **keys: runs.append(1) or simulate(*words, **keys))
    monkeypatch.setattr(module, "EVENTS_TRIED", 5 * found.most_events)
    closest(found)
    assert 1 < len(runs) <= 6


def test_ctrl_c_leaves_whole_files_or_none(tmp_path: Path) -> None:
    """Whenever it comes: no part of a file, no capture without what stands beside it."""
    words = ["replay", str(CAPTURES / "reno_on_off.pcap.gz"), "--as-found", "-o", str(tmp_path / "now.pcap")]
    whole = {"now.pcap", "now.truth.csv", "now.drops.csv", "now.queue.csv"}
    for delay_s in (0.7, 1.4, 2.1):
        program = subprocess.Popen(
            [sys.executable, "-m", "tcptrace_lab", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(delay_s)
        program.send_signal(signal.SIGINT)
        program.wait(60)
        assert {file.name for file in tmp_path.iterdir()} in (set(), whole)


def test_answers_to_requests_wait_for_what_was_delivered() -> None:
    """Think times are between an answer's end and the next: on a path of half the rate all of them move."""
    turns = ((0.0, 300_000), (0.5, 200_000), (0.7, 100_000))
    scenario = Scenario(
        path=path(),
        connections=(ConnectionSpec(control=MODERN, application=ApplicationSpec(kind="turns", turns=turns)),),
        duration_s=10.0,
    )
    ends = []
    for run in (simulate(scenario), simulate(replace(scenario, path=path(rate_bps=5e6)))):
        flow = run.capture()[0].data_flow
        segments, acks = flow.segments, flow.acks
        assert (segments["offset"] + segments["length"]).max() == 600_000
        for wait_s, before in ((0.5, 300_000), (0.7, 500_000)):
            acked_ns = acks.loc[acks["ack_offset"] >= before, "time_ns"].iloc[0]
            next_ns = segments.loc[segments["offset"] >= before, "time_ns"].iloc[0]
            assert (next_ns - acked_ns) / 1e9 == pytest.approx(wait_s, abs=1e-3)
        ends.append(acks["time_ns"].iloc[-1] / 1e9)
    assert ends[1] > ends[0] + 0.3


# Drawn by it, a run of each kind; nothing was fitted on it.
SEED = 424242


@pytest.mark.parametrize("number", range(len(random_loops.KINDS)), ids=list(random_loops.KINDS).__getitem__)
def test_random_runs_come_back(number: int) -> None:
    """Simulate, capture, infer, simulate: the loop through every part there is, of every kind, drawn at random; nobody
    says which control it was."""
    _, scenario = random_loops.drawn(number, SEED)
    assert random_loops.misses(random_loops.loop(scenario)) == []


def test_of_a_burst_the_packet_that_was_lost_is_lost_again() -> None:
    """The first window leaves at one instant: its tenth packet is number 10, and the ones sent again count too."""
    lost = (10, 120, 300, 301, 640)
    way = path(buffer=math.inf)
    way = replace(way, nodes=(replace(way.nodes[0], drop_packets=lost),))
    upload = ApplicationSpec(kind="bytes", bytes=2_000_000)
    run = again(simulated(ConnectionSpec(control=MODERN, application=upload), way=way), control="reno")
    assert run.scenario.path.nodes[0].drop_packets == lost
    comes_back(run, within=0.01)


def test_a_sender_without_fast_recovery_may_have_younger_rules() -> None:
    """Tahoe with limited transmit (RFC 3042) and counted bytes (RFC 3465): after a timeout its window opens at once."""
    control = replace(MODERN, recovery="tahoe", initial_window=2)
    way = path(rate_bps=14.7e6, buffer=27, one_way_s=0.027)
    upload = ApplicationSpec(kind="bytes", bytes=11_000_000)
    run = again(simulated(ConnectionSpec(control=control, application=upload), way=way, duration_s=60.0))
    found = run.scenario.connections[0].control
    assert (found.recovery, found.byte_counting) == ("tahoe", True)
    comes_back(run)


def test_several_connections_start_when_they_did() -> None:
    """Starts and sizes of all of them, over the one path that the busiest shows."""
    application = ApplicationSpec(kind="bytes", bytes=3_000_000)
    capture = simulated(
        ConnectionSpec(control=MODERN, application=application),
        ConnectionSpec(control=MODERN, application=application, start_s=1.5),
    )
    run = again(capture, control="reno")
    starts = [connection.start_s for connection in run.scenario.connections]
    assert starts == pytest.approx([0.0, 1.5], abs=0.01)
    total_then = max(then.completion_s + start for (then, _), start in zip(run.outcomes, starts, strict=True))
    total_now = max(now.completion_s + start for (_, now), start in zip(run.outcomes, starts, strict=True))
    assert total_now == pytest.approx(total_then, rel=0.05)


def test_another_path_and_another_control() -> None:
    """Half the rate takes twice the time; CUBIC on the same path is another sender."""
    capture = read(CAPTURES / "reno_small_buffer.pcap.gz")
    same = again(capture).outcomes[0]
    half = again(capture, through=Scenario(path=path(5e6, 30), connections=(ConnectionSpec(),), duration_s=1.0))
    assert half.outcomes[0][1].goodput_bps < 5e6
    assert half.outcomes[0][1].completion_s > same[1].completion_s
    cubic = again(capture, control="cubic")
    assert cubic.scenario.connections[0].control.window.startswith("cubic")
    assert cubic.outcomes[0][1].completion_s != same[1].completion_s


def test_a_run_for_tables_and_plots() -> None:
    """`capture.replay` gives a Run: windows, drops, queue, a capture with verdicts."""
    run = read(CAPTURES / "short_reno.pcap.gz").replay(as_found=True)
    assert len(run.windows)
    assert run.summary["packets_sent"] > 0
    assert run.capture().connections["bytes"].iloc[0] == read(CAPTURES / "short_reno.pcap.gz").connections["bytes"][0]
    assert set(run.comparison["quantity"]) >= {"completion_s", "loss_events", "regime"}
    with pytest.raises(ValueError, match="say how to replay"):
        read(CAPTURES / "short_reno.pcap.gz").replay()


def test_a_rate_that_no_timer_waits_for_is_refused_and_a_slower_one_gets_its_time() -> None:
    """1500 bytes take 120 s at 100 bit/s, and RFC 6298 lets a timer stop at 60; at 2000 the run is long enough."""
    capture = read(CAPTURES / "short_reno.pcap.gz")
    with pytest.raises(LabError, match=r"path.nodes.0.rate_bps = 100: too slow for ever: a packet of 1500 bytes takes"):
        again(capture, settings=["path.nodes.0.rate_bps=100"])
    ((then, now),) = again(capture, settings=["path.nodes.0.rate_bps=2000"]).outcomes
    assert now.completion_s > 8 * 90_000 / 2000 > then.completion_s
    ((_, cut),) = again(capture, settings=["path.nodes.0.rate_bps=2000", "duration_s=3"]).outcomes
    assert math.isnan(cut.completion_s)


def test_a_host_that_stood_still_does_so_again() -> None:
    """40 ms without an ACK taken in, then a burst that twenty places do not take: a loss before its time."""
    way = path(rate_bps=8e6, buffer=20, one_way_s=0.03)
    quiet = ConnectionSpec(control=MODERN, application=ApplicationSpec(kind="bytes", bytes=8_000_000))
    still = replace(quiet, pauses=((4.0, 0.04),))
    run = again(simulated(still, way=way))
    ((pause_s, lasts_s),) = run.scenario.connections[0].pauses
    assert pause_s == pytest.approx(4.0, abs=0.002)
    assert lasts_s == pytest.approx(0.04, abs=0.002)
    ((then, now),) = run.outcomes
    assert now.loss_events == then.loss_events
    assert now.completion_s == pytest.approx(then.completion_s, rel=0.002)
    ((without, _),) = again(simulated(quiet, way=way)).outcomes
    assert then.completion_s > 1.02 * without.completion_s


def test_a_window_by_rate_keeps_room_for_acks_that_came_late_together() -> None:
    """Two ACKs, of 34 and 55 segments, at 1.3 s: for seconds BBR's window was larger by as many.

    The kernel's own median was 192 segments then; without the late ACKs it is 143.
    """
    kernel = pd.read_csv(shared("captures", "kernel", "bbr_20M.truth.csv.gz"))
    acks = kernel[(kernel["ev"] == "A") & (kernel["time"] - kernel["time"].min()).between(2, 7)]
    windows = again(read(shared("captures", "kernel", "bbr_20M.pcap.gz"))).windows
    now = windows[windows["time_ns"].between(2e9, 7e9)]
    assert (now["cwnd"] / now["smss"]).median() == pytest.approx(acks["cwnd"].median(), rel=0.05)


def test_a_capture_without_data_is_refused() -> None:
    """In one line that says what is missing."""
    capture = read(shared("captures", "public", "tcpdump-tcp-handshake-nano.pcap"))
    with pytest.raises(LabError, match="no connection carries data"):
        again(capture)


def test_a_capture_of_one_direction_is_refused(tmp_path: Path) -> None:
    """Almost all ACKs missing: what is sent again would rest on none."""
    capture = simulate(load(CAPTURES / "scenarios" / "reno_10M.toml", overrides=["duration_s=5"]))
    capture.write(tmp_path / "whole.pcap", payload=False)
    data = (tmp_path / "whole.pcap").read_bytes()
    kept, at, answers = [data[:24]], 24, 0
    while at < len(data):
        captured, length = (int.from_bytes(data[at + place : at + place + 4], "little") for place in (8, 12))
        is_answer = length < 100
        answers += is_answer
        if not is_answer or answers % 20 < 2:
            kept.append(data[at : at + 16 + captured])
        at += 16 + captured
    (tmp_path / "one_way.pcap").write_bytes(b"".join(kept))
    with pytest.raises(LabError, match="ACKs or more were never captured"):
        again(read(tmp_path / "one_way.pcap"))


def test_the_report_says_the_path_with_its_round_trip() -> None:
    """10 Mbit/s, 20 ms each way and 1.2 ms for the packet itself, in the units that a person reads."""
    run = again(simulated(ConnectionSpec(control=MODERN, application=ApplicationSpec(kind="bytes", bytes=4_000_000))))
    first, line, *rest = closed_loop_lines(run, None)
    assert first.endswith("sent again over the path that it shows")
    assert re.fullmatch(
        r"  path        10 Mbit/s, buffer (39|40|41) packets; round trip 41.2 ms, packets of 1500 bytes", line
    )
    assert any(line.split()[:2] == ["completion", "time"] for line in rest)


def test_the_command_prints_then_and_now(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table, JSON with the scenario found, the run's own capture and truth, the figure."""
    short = str(CAPTURES / "short_reno.pcap.gz")
    assert main(["replay", short, "--as-found"]) == 0
    told = capsys.readouterr().out
    assert "completion time" in told
    command = ["replay", short, "--control", "cubic", "--set", "path.nodes.0.buffer=5", "--json"]
    assert main([*command, "-o", str(tmp_path / "now.pcap"), "--figure", str(tmp_path / "now.png")]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["scenario"]["path"]["nodes"][0]["buffer"] == 5
    assert answer["connections"][0]["now"]["completion_s"] > 0
    assert {Path(file).name for file in answer["files"]} == {
        *("now.pcap", "now.truth.csv", "now.drops.csv", "now.queue.csv", "now.png")
    }
    assert main(["replay", short, "--as-found", "--over", "path.nodes.0.buffer=5,50", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["path.nodes.0.buffer"] for row in rows] == [5, 50]
    assert not any(math.isnan(row["completion_s"]) for row in rows)
