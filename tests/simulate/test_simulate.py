"""Runs: what a tap saw and what really happened, as tables and as files."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import tcptrace_lab
from tcptrace_lab.cli import main
from tcptrace_lab.errors import LabError
from tcptrace_lab.scenario_file import load
from tcptrace_lab.simulate import FILE_EPOCH_S, simulate
from tests.conftest import ROOT, needs, shared

SCENARIOS = ROOT / "captures" / "scenarios"
SATELLITE = SCENARIOS / "small_buffers_B20.toml"


@pytest.fixture(scope="module")
def satellite():
    """Tahoe over the satellite until the first cycle is under way."""
    scenario = load(SATELLITE, overrides=["duration_s=30"])
    return simulate(replace(scenario, taps=("sender", "node0.in", "node0.out", "receiver")))


def test_truth_and_taps_agree_on_what_was_lost(satellite):
    before, behind = (satellite.packets(tap=f"node0.{side}")["is_from_sender"].sum() for side in ("in", "out"))
    lost = satellite.drops
    assert len(lost) > 0
    assert set(lost["node"]) == {0}
    assert set(lost["reason"]) == {"overflow"}
    # Waiting or in service when the run ended: no more than the buffer and one.
    assert 0 <= before - behind - len(lost) <= 21
    # The queue was full whenever a packet was lost: 20 places.
    assert set(lost["queue_len"]) == {20}


def test_a_tap_is_followed_the_same_with_and_without_a_file_between(satellite, tmp_path):
    for suffix in (".pcap", ".pcapng"):
        for tap in ("sender", "node0.in", "receiver"):
            file = tmp_path / f"run{suffix}"
            satellite.write(file, tap=tap)
            read, direct = tcptrace_lab.read(file), satellite.capture(tap=tap)
            assert_same_tables(read.connections, direct.connections)
            for ours, theirs in zip(direct[0].flows, read[0].flows, strict=True):
                assert_same_tables(theirs.segments, ours.segments)
                assert_same_tables(theirs.acks, ours.acks)


def assert_same_tables(read: pd.DataFrame, direct: pd.DataFrame) -> None:
    """Equal but for the begin of time: a file's run begins at FILE_EPOCH_S."""
    shifted = direct.copy()
    for name in {"time_ns", "start_ns"} & set(shifted.columns):
        shifted[name] += FILE_EPOCH_S * 10**9
    pd.testing.assert_frame_equal(read, shifted)


def test_headers_alone_carry_the_same_tables_in_a_tenth_of_the_bytes(satellite, tmp_path):
    whole, headers = tmp_path / "whole.pcap", tmp_path / "headers.pcap"
    satellite.write(whole)
    satellite.write(headers, payload=False)
    assert headers.stat().st_size < whole.stat().st_size / 4
    pd.testing.assert_frame_equal(tcptrace_lab.read(whole).connections, tcptrace_lab.read(headers).connections)


def test_same_scenario_and_seed_same_bytes(tmp_path):
    files = []
    for name in ("a", "b"):
        run = simulate(load(SATELLITE, overrides=["duration_s=10"]))
        run.write(tmp_path / f"{name}.pcapng")
        run.write_truth(tmp_path / f"{name}.truth.csv.gz")
        files.append(
            [(tmp_path / f"{name}{end}").read_bytes() for end in (".pcapng", ".truth.csv.gz", ".drops.csv.gz")]
        )
    assert files[0] == files[1]


def test_the_truth_file_has_the_columns_of_the_kernel_captures(satellite, tmp_path):
    kernel = pd.read_csv(shared("captures", "kernel", "reno_10M.truth.csv.gz"), nrows=1)
    kernel_drops = pd.read_csv(shared("captures", "kernel", "reno_10M.drops.csv"), nrows=1)
    written = satellite.write_truth(tmp_path / "run.truth.csv.gz")
    assert [file.name for file in written] == ["run.truth.csv.gz", "run.drops.csv.gz", "run.queue.csv.gz"]
    truth, drops = pd.read_csv(written[0]), pd.read_csv(written[1])
    assert list(truth.columns[: len(kernel.columns)]) == list(kernel.columns)
    assert list(drops.columns[: len(kernel_drops.columns)]) == list(kernel_drops.columns)
    assert truth["time"].is_monotonic_increasing
    # B = 20: three slow starts end within 30 s; each loss is noticed by duplicate ACKs.
    assert list(truth["detected_by"].dropna()) == ["dupack", "dupack"]
    assert len(drops) == len(satellite.drops)


@pytest.mark.parametrize("name", ["small_buffers_B20", "newreno_8M", "reno_loss"])
def test_the_numbers_of_the_truth_are_those_of_the_capture(name, tmp_path):
    run = simulate(load(SCENARIOS / f"{name}.toml", overrides=["duration_s=5", "seed=2"]))
    truth, drops = (pd.read_csv(file) for file in run.write_truth(tmp_path / "run.truth.csv")[:2])
    packets = run.packets()
    from_sender = packets["is_from_sender"]
    data = packets[from_sender & (packets["payload_len"] > 0)]
    assert len(drops) > 0
    # Each was captured at the sender before the path lost it: the same number, length and IP identification.
    keys = ["tcp_seq", "payload_len", "ip_id"]
    seen = data.rename(columns={"seq": "tcp_seq"})
    assert len(drops.merge(seen[["tcp_seq", "payload_len"]].drop_duplicates())) == len(drops)
    assert drops[keys].notna().all(axis=None)
    # snd_una is always a number that has been acknowledged, the last of them the last.
    acks = set(packets.loc[~from_sender, "ack"])
    changes = truth[truth["ev"] == "S"]
    assert set(changes["snd_una"].iloc[1:]) <= acks
    assert changes["snd_una"].iloc[-1] == packets.loc[~from_sender, "ack"].iloc[-1]


def test_the_truth_counts_what_is_in_flight_as_the_kernel_does(tmp_path):
    run = simulate(load(SCENARIOS / "cubic_20M.toml", overrides=["duration_s=20"]))
    (file, *_) = run.write_truth(tmp_path / "run.truth.csv")
    rows = pd.read_csv(file, low_memory=False).query("ev == 'S'")
    in_flight = rows["packets_out"] - rows["sacked_out"] - rows["lost_out"] + rows["retrans_out"]
    assert in_flight.to_numpy() == pytest.approx((rows["flight_size"] / run.windows["smss"].iloc[0]).to_numpy())
    in_recovery = rows[rows["ca_state"] == 3]
    assert (in_recovery[["sacked_out", "lost_out", "retrans_out"]].max() > 1).all()
    # Nothing is sent again outside recovery; what a recovery sent from above its own end may still be on its way.
    assert (rows["retrans_out"].diff().loc[rows["ca_state"] == 0].dropna() <= 0).all()
    # 50 ms of path; 60 packets of 0.6 ms wait when the buffer is full.
    assert rows["srtt_us"].between(50_000, 88_000).all()
    assert rows["srtt_us"].max() > 80_000


@pytest.mark.parametrize(("name", "base_s"), [("small_buffers_B20", 0.56), ("newreno_8M", 0.06)])
def test_a_sender_without_a_scoreboard_leaves_its_columns_empty(name, base_s, tmp_path):
    run = simulate(load(SCENARIOS / f"{name}.toml", overrides=["duration_s=5"]))
    (file, *_) = run.write_truth(tmp_path / "run.truth.csv")
    rows = pd.read_csv(file).query("ev == 'S'")
    assert rows[["sacked_out", "lost_out", "retrans_out"]].isna().all(axis=None)
    assert rows["srtt_us"].iloc[-1] >= base_s * 1e6


def test_parquet_truth_is_the_csv_truth(satellite, tmp_path):
    satellite.write_truth(tmp_path / "a.parquet")
    satellite.write_truth(tmp_path / "a.truth.csv")
    parquet, csv = pd.read_parquet(tmp_path / "a.parquet"), pd.read_csv(tmp_path / "a.truth.csv")
    pd.testing.assert_frame_equal(parquet, csv, check_dtype=False)
    assert (tmp_path / "a.drops.parquet").exists()


def test_the_window_tells_what_limits_it():
    run = simulate(load(SATELLITE, overrides=["duration_s=5"]))
    assert set(run.windows["limited_by"]) == {"cwnd"}
    small = simulate(load(SATELLITE, overrides=["duration_s=5", "application={kind='bytes', bytes=20000}"]))
    assert small.windows["limited_by"].iloc[-1] == "application"


@needs("tshark", "tshark")
@pytest.mark.parametrize("is_ipv6", [False, True], ids=["ipv4", "ipv6"])
@pytest.mark.parametrize("name", ["small_buffers_B20", "compound_case1", "cubic_20M", "newreno_8M", "slow_reader"])
def test_tshark_finds_nothing_malformed_and_the_same_packets(tmp_path, name, is_ipv6):
    tap = "node0.out" if is_ipv6 else "sender"
    scenario = load(SCENARIOS / f"{name}.toml")
    run = simulate(replace(scenario, duration_s=2, ipv6=is_ipv6, taps=(tap,)))
    file = tmp_path / "run.pcapng"
    run.write(file, payload=name == "slow_reader")
    problems = tshark(file, "-Y", "_ws.malformed || tcp.checksum.status == 0 || ip.checksum.status == 0")
    assert problems == []
    lengths = [int(line) for line in tshark(file, "-T", "fields", "-e", "tcp.len")]
    assert lengths == list(run.packets()["payload_len"])


def tshark(file, *arguments: str) -> list[str]:
    checks = ("-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE")
    command = ["tshark", "-r", str(file), *checks, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@needs("tcptrace", "tcptrace")
@pytest.mark.parametrize("name", ["small_buffers_B20", "reno_10M", "newreno_8M", "scheduled_drops"])
def test_tcptrace_counts_the_same(tmp_path, name):
    run = simulate(load(SCENARIOS / f"{name}.toml", overrides=["duration_s=10"]))
    file = tmp_path / "run.pcap"
    run.write(file, payload=False)
    text = subprocess.run(["tcptrace", "-l", str(file)], capture_output=True, text=True, check=True).stdout
    words = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    forward = {name.strip(): value.split()[0] for name, value in words.items() if value.split()}
    packets = run.packets()
    data = packets[packets["is_from_sender"] & (packets["payload_len"] > 0)]
    assert int(forward["actual data pkts"]) == len(data)
    assert int(forward["actual data bytes"]) == data["payload_len"].sum()
    assert int(forward["rexmt data pkts"]) == run.summary["retransmissions"]
    # From the first packet on: tcptrace takes a capture that begins at 0 for one without a clock.
    assert packets["time_ns"].iloc[0] == 0
    seconds = float(forward["elapsed time"].removeprefix("0:00:"))
    ours = run.capture().connections.iloc[0]
    assert int(forward["rexmt data bytes"]) == ours["retransmitted_bytes_client"]
    assert int(forward["unique bytes sent"]) == ours["unique_bytes_client"]
    assert seconds == pytest.approx(packets["time_ns"].iloc[-1] / 1e9, abs=2e-6)


class TestCommand:
    def test_writes_capture_and_truth_and_says_so(self, tmp_path, capsys):
        output, truth = tmp_path / "run.pcap", tmp_path / "run.truth.csv"
        words = [
            "simulate",
            str(SATELLITE),
            "--set",
            "duration_s=5",
            "-o",
            str(output),
            "--truth",
            str(truth),
            "--json",
        ]
        assert main(words) == 0
        summary = json.loads(capsys.readouterr().out)
        assert summary["files"][:2] == [str(output), str(truth)]
        assert summary["slow_starts_mean"] is None
        assert tcptrace_lab.read(output).packets > 100

    def test_names_a_file_for_each_of_several_taps(self, tmp_path, capsys):
        words = ["simulate", str(SATELLITE), "--set", "duration_s=1", "-o", str(tmp_path / "run.pcapng")]
        assert main([*words, "--tap", "sender", "--tap", "node0.in"]) == 0
        assert sorted(file.name for file in tmp_path.iterdir()) == ["run.node0.in.pcapng", "run.sender.pcapng"]

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--set", "path.nodes.0.rate_bps=-1"], "path.nodes.0.rate_bps = -1: must be > 0"),
            (["--set", "path.nodes.0.buffer=0"], "path.nodes.0.buffer = 0: must be >= 1"),
            (["--set", "control=tahoo"], 'control = "tahoo": must be one of tahoe'),
            (["-o", "/nonexistent/run.pcap"], "/nonexistent/run.pcap: No such directory"),
            (["-o", "run.cap"], "run.cap: the suffix must be one of .pcap, .pcapng"),
            (["--truth", "truth.xls"], "truth.xls: the suffix must be one of .parquet"),
            (["-o", "/tmp/x.pcap", "--snaplen", "0"], "--snaplen 0: must be > 0"),
            (["--tap", "receiver"], "--tap: only with -o, the capture's file"),
            (["--snaplen", "96"], "--snaplen: only with -o, the capture's file"),
            (["--headers-only"], "--headers-only: only with -o, the capture's file"),
        ],
    )
    def test_what_cannot_be_done_is_one_line_and_exit_2(self, words, message, capsys):
        assert main(["simulate", str(SATELLITE), "--set", "duration_s=1", *words]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1

    def test_a_full_disk_leaves_no_file_and_what_stood_there_before(self, tmp_path, monkeypatch, capsys):
        run = simulate(load(SATELLITE, overrides=["duration_s=1"]))
        file = tmp_path / "run.pcap"
        file.write_bytes(b"before")

        # /dev/full answers every write with ENOSPC; the temporary file is made a link to it.
        def full(*, prefix: str, suffix: str, dir: Path) -> tuple[int, str]:
            part = dir / f"{prefix}{suffix}"
            part.symlink_to("/dev/full")
            return os.memfd_create("unused"), str(part)

        monkeypatch.setattr("tempfile.mkstemp", full)
        with pytest.raises(LabError, match=r"run\.pcap: No space left on device"):
            run.write(file)
        assert file.read_bytes() == b"before"
        assert [left.name for left in tmp_path.iterdir()] == ["run.pcap"]
