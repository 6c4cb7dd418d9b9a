"""A capture through another path, open loop: beside the emulator's own list of drops, and laws of its own."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tcptrace_lab import read
from tcptrace_lab.cli import main
from tcptrace_lab.errors import LabError
from tcptrace_lab.replay.open_loop import sweep_through, through
from tcptrace_lab.replay.sides import find_sides, wire_mtu
from tcptrace_lab.report.replay_text import open_loop_lines
from tcptrace_lab.scenario import ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario
from tcptrace_lab.scenario_file import load, table_of
from tcptrace_lab.simulate import simulate
from tcptrace_lab.sweep import over
from tests.conftest import ROOT, shared, shared_files

CAPTURES = ROOT / "captures"
TWO = CAPTURES / "two_reno.pcap.gz"
RENO_10M = CAPTURES / "scenarios" / "reno_10M.toml"


def path_of(node: NodeSpec, *, return_delay_s: float = 0.02) -> Scenario:
    """A scenario of which only the path is used."""
    base = load(RENO_10M)
    return replace(base, path=PathSpec(nodes=(node,), return_delay_s=return_delay_s))


@pytest.mark.parametrize("name", ["tahoe_small_buffer", "reno_small_buffer", "two_reno", "newreno_nosack_8M"])
def test_what_the_recorded_path_dropped_is_dropped_again(name: str) -> None:
    """Our recordings are captured before the bottleneck, and the emulator kept its own list of dropped packets.

    Sent through the same path, no packet is dropped that was not; where the machine stood still for a moment while
    recording (its path then froze, with a queue in it) some that were dropped get through.
    """
    run = through(read(CAPTURES / f"{name}.pcap.gz"), load(CAPTURES / "scenarios" / "recorded" / f"{name}.toml"))
    truth = pd.read_csv(CAPTURES / f"{name}.drops.csv")
    ours, theirs = (set(zip(rows["tcp_seq"], rows["ip_id"], strict=True)) for rows in (run.drops, truth))
    assert ours <= theirs
    assert len(ours) >= 0.75 * len(theirs)


@pytest.mark.parametrize("queue", ["drop_tail", "codel"])
def test_a_simulated_capture_loses_the_same_packets_on_the_same_path(tmp_path: Path, queue: str) -> None:
    """Simulate, capture, send through the scenario again: the same drops to the nanosecond, the same receiver's tap."""
    keys = [f"path.nodes.0.queue={queue}", "path.nodes.0.target_s=0.004"]
    scenario = replace(load(RENO_10M, overrides=keys), taps=("sender", "receiver"), duration_s=6.0)
    first = simulate(scenario)
    assert queue in ("drop_tail", *first.drops["reason"])
    first.write(tmp_path / "sent.pcap", tap="sender", payload=False)
    again = through(read(tmp_path / "sent.pcap"), scenario)
    assert list(again.drops["time_ns"]) == list(first.drops["time_ns"])
    assert list(again.drops["tcp_seq"]) == list(first.drops["tcp_seq"])
    at_receiver = first.packets(tap="receiver")
    data = at_receiver[at_receiver["payload_len"] > 0]
    out = again.delays[(~again.delays["is_reverse"]) & (again.delays["delay_ns"] >= 0) & (again.delays["ip_len"] > 100)]
    left = np.sort((out["time_ns"] + out["delay_ns"]).to_numpy())
    assert np.array_equal(left[: len(data)], np.sort(data["time_ns"].to_numpy()))


def test_packets_in_are_packets_out_and_dropped() -> None:
    """Conservation in both directions, and every packet's own row."""
    run = through(read(TWO), load(RENO_10M))
    row = run.summary
    assert row["packets"] + row["packets_back"] == run.counts["records"] - run.counts["elsewhere"] == len(run.delays)
    assert row["packets"] == row["packets_out"] + row["drops"]
    assert row["drops"] == len(run.drops) > 0
    assert run.nodes["is_conserved"].all()
    assert (run.delays["delay_ns"] < 0).sum() == row["drops"]
    assert set(run.drops["connection"]) == {0, 1}
    of_port = run.recording.connections.set_index("client_port")["id"]
    assert list(run.drops["connection"]) == list(of_port[run.drops["sport"]])
    behind = run.capture()
    assert behind.packets == row["packets_out"] + row["packets_out_back"]
    assert run.queue["waiting_max"].max() == 40


def test_codel_would_have_dropped_these_and_kept_the_queue_short(tmp_path: Path) -> None:
    """RFC 8289 over a recording: losses at the head, waits far below the buffer's, and every packet in one place."""
    keys = ["path.nodes.0.buffer=200"]
    plain = through(read(TWO), load(RENO_10M, overrides=keys))
    run = through(read(TWO), load(RENO_10M, overrides=[*keys, "path.nodes.0.queue=codel"]))
    row = run.summary
    assert row["drops_codel"] == row["drops"] == len(run.drops) > 0
    assert set(run.drops["reason"]) == {"codel"}
    assert row["packets"] == row["packets_out"] + row["drops"]
    assert run.nodes["is_conserved"].all()
    assert run.capture().packets == row["packets_out"] + row["packets_out_back"]
    # Recorded senders do not slow down: CoDel's drops alone take the standing queue away.
    assert row["delay_p50_s"] < plain.summary["delay_p50_s"] - 0.01
    run.write(tmp_path / "behind.pcapng")
    assert read(tmp_path / "behind.pcapng").packets == run.capture().packets
    swept = sweep_through(
        read(TWO), table_of(RENO_10M), [over("path.nodes.0.queue=drop_tail,codel"), over("path.nodes.0.buffer=40,200")]
    )
    assert list(swept["drops"])[3] == row["drops"]
    assert list(swept["drops"])[1] == plain.summary["drops"]


@pytest.mark.parametrize("profile", ["rfc", "ns2"])
def test_a_sender_behind_codel_waits_less(profile: str) -> None:
    """Closed loop: the mean queue is near the target's packets (4 of 1.2 ms), where drop-tail's is nearly full."""
    scenario = Scenario(
        path=PathSpec(nodes=(NodeSpec(rate_bps=10e6, buffer=200, delay_s=0.02),), return_delay_s=0.02),
        connections=(ConnectionSpec(control=ControlSpec(recovery="sack")),),
        duration_s=30.0,
        profile=profile,
    )
    node = replace(scenario.path.nodes[0], queue="codel")
    managed = simulate(replace(scenario, path=replace(scenario.path, nodes=(node,))))
    plain = simulate(scenario)
    assert managed.summary["backlog_packets"] < 10
    assert plain.summary["backlog_packets"] > 100
    assert managed.summary["utilization"] > 0.75
    assert set(managed.drops["reason"]) == {"codel"}
    assert managed.nodes["is_conserved"].all()


def test_acks_go_through_the_way_back() -> None:
    """A node of `path.reverse` queues and drops what comes back."""
    scenario = load(RENO_10M)
    narrow = NodeSpec(rate_bps=100e3, buffer=5)
    run = through(read(TWO), replace(scenario, path=replace(scenario.path, reverse=(narrow,))))
    assert run.summary["drops_back"] == run.drops["is_reverse"].sum() > 0
    # Five wait, one is in service: 6 x 52 bytes or more at 100 kbit/s, and the way back's 20 ms.
    assert run.summary["delay_max_back_s"] > 6 * 52 * 8 / 100e3 + 0.02


def test_a_receiver_cannot_acknowledge_what_never_came() -> None:
    """What open loop cannot know is counted: on a path ten times slower most recorded ACKs are impossible."""
    capture = read(TWO)
    same = through(capture, load(RENO_10M)).summary
    slow = through(capture, path_of(NodeSpec(rate_bps=1e6, buffer=20))).summary
    assert same["acks_of_dropped"] + same["acks_early"] < 0.05 * same["acks"]
    assert slow["acks_of_dropped"] > 0.5 * slow["acks"]


def test_super_segments_are_cut_to_what_the_wire_carried() -> None:
    """A capture before segmentation offload holds packets longer than the link's MTU: the path meets them cut."""
    capture = read(shared("captures", "kernel", "cubic_gso_50M.pcap.gz"))
    run = through(capture, path_of(NodeSpec(rate_bps=50e6, buffer=200)))
    assert run.counts["cut_up"] > 0
    assert run.delays["ip_len"].max() <= wire_mtu(capture.connections) == 1500
    behind = run.capture()
    rows, sent = behind.connections.iloc[0], capture.connections.iloc[0]
    assert rows["max_segment_client"] <= 1460
    # Cut or not, all that was not dropped is there.
    assert rows["bytes_client"] == sent["bytes_client"] - run.drops["payload_len"].sum()


def test_the_side_that_sends_more_is_near() -> None:
    """Hosts that talk stand on different sides; in a triangle somebody's packets do not cross."""
    columns = ["id", "client", "client_port", "server", "port", "bytes_client", "bytes_server"]
    rows = [
        [0, "a", 1, "s", 80, 10, 5000],
        [1, "b", 1, "s", 80, 10, 100],
        [2, "a", 2, "b", 22, 300, 0],
        [3, "x", 1, "y", 2, 50, 9],
        [4, "z", 1, "z", 2, 5, 9],
    ]
    table = pd.DataFrame(rows, columns=columns)
    table["bytes"] = table["bytes_client"] + table["bytes_server"]
    sides = find_sides(table)
    assert sides.near == ("s", "x")
    assert sides.near_ends == (("z", 2),)
    assert sides.not_crossing == (2,)
    assert find_sides(table, near=["a", "b", "y"]).near == ("a", "b", "y")
    with pytest.raises(LabError, match="no host q"):
        find_sides(table, near=["q"])


def test_a_sweep_is_many_runs_in_one_pass() -> None:
    """Every row as the run alone; a larger buffer never drops more of the same packets."""
    capture = read(TWO)
    frame = sweep_through(capture, table_of(RENO_10M), [over("path.nodes.0.buffer=10:60:25")])
    assert list(frame["path.nodes.0.buffer"]) == [10, 35, 60]
    alone = through(capture, path_of(NodeSpec(rate_bps=10e6, buffer=35, delay_s=0.02))).summary
    assert frame["drops"].iloc[1] == alone["drops"]
    assert frame["delay_max_s"].iloc[1] == alone["delay_max_s"]
    assert list(frame["drops"]) == sorted(frame["drops"], reverse=True)


def test_a_queue_that_never_ends_is_refused() -> None:
    """A rate below the recorded one with room for everything, in one line that names the node."""
    with pytest.raises(LabError, match=r"path\.nodes\.0 has 1e\+06 bit/s and a buffer without limit"):
        through(read(TWO), path_of(NodeSpec(rate_bps=1e6)))


def test_a_queue_that_drains_long_after_the_recording_counts_until_it_is_empty() -> None:
    """All packets come within half a second and leave 12 s apart: from its longest to none, half on average."""
    slow = load(RENO_10M, overrides=["path.nodes.0.rate_bps=1000", "path.nodes.0.buffer=1000"])
    lines = open_loop_lines(read(ROOT / "captures" / "short_reno.pcap.gz").replay(through=slow), "x")
    (node,) = (line for line in lines if "waiting on average" in line)
    mean, longest = (float(word) for word in re.findall(r"([\d.]+) (?:packets waiting|at most)", node))
    assert mean == pytest.approx(longest / 2, rel=0.05)


@pytest.mark.parametrize("file", shared_files("captures", "public", pattern="*.pcap*"), ids=str)
def test_any_capture_goes_through_or_is_refused_in_one_line(file: Path) -> None:
    """VLANs, tunnels, IPv6, cut files, no data at all."""
    capture = read(file)
    try:
        run = through(capture, path_of(NodeSpec(rate_bps=1e6, buffer=10)))
    except LabError as error:
        told = str(error)
    else:
        told = ""
    if told:
        assert told.startswith(f"{file}: ")
        assert "\n" not in told
        return
    assert run.summary["packets"] + run.summary["packets_back"] >= run.counts["records"] - run.counts["elsewhere"]
    assert run.capture().packets == run.summary["packets_out"] + run.summary["packets_out_back"]


def test_the_command_writes_the_capture_and_its_side_cars(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What comes out can be read by other tools; JSON says the same as the table."""
    out = tmp_path / "out.pcapng"
    command = ["replay", str(TWO), "--through", str(RENO_10M), "-o", str(out), "--json"]
    assert main(command) == 0
    told = json.loads(capsys.readouterr().out)
    assert [Path(file).name for file in told["files"]] == [
        *("out.pcapng", "out.drops.csv", "out.queue.csv", "out.delays.csv")
    ]
    assert len(pd.read_csv(tmp_path / "out.drops.csv")) == told["drops"] + told["drops_back"]
    assert read(out).packets == told["packets_out"] + told["packets_out_back"]
    assert told["cannot_know"]
    # One unit for times, and the name says it; the way back's 20 ms are what a packet alone takes.
    assert not [name for name in told if "_ns" in name]
    assert told["delay_p50_back_s"] == pytest.approx(0.02, rel=0.01)
    assert main(command[:4]) == 0
    assert "open loop" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--through", "nix.toml"], "nix.toml: No such file"),
        (["--through", str(RENO_10M), "-o", "x.txt"], "x.txt: the suffix must be"),
        (["--through", str(RENO_10M), "--set", "path.nodes.0.rate_bps=-1"], "rate_bps"),
        (["--through", str(RENO_10M), "--near", "1.2.3.4"], "no host 1.2.3.4"),
        ([], "say how to replay it"),
    ],
)
def test_errors_are_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2, and what to mend."""
    assert main(["replay", str(TWO), *words]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1


def test_a_stopped_run_leaves_no_file(tmp_path: Path) -> None:
    """Ctrl-C: whole files or none."""
    code = (
        "import tcptrace_lab._core as core, sys\n"
        "def stop(*words): raise KeyboardInterrupt\n"
        "real = core.open_loop\n"
        "core.open_loop = lambda *words: real(*words[:-1], stop)\n"
        "from tcptrace_lab.cli import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    words = ["replay", str(TWO), "--through", str(RENO_10M), "-o", str(tmp_path / "out.pcap")]
    done = subprocess.run([".venv/bin/python", "-c", code, *words], cwd=ROOT, check=False)
    assert done.returncode == 130
    assert list(tmp_path.iterdir()) == []
