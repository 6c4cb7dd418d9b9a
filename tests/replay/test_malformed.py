"""Damaged captures in every use: a result, or one line that says what is missing; work bounded by what was captured."""

from __future__ import annotations

import contextlib
import gzip
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tcptrace_lab import read
from tcptrace_lab.cli import main
from tcptrace_lab.errors import CaptureError
from tcptrace_lab.replay.as_found import as_found
from tcptrace_lab.replay.by_number import packets
from tcptrace_lab.replay.closed_loop import ClosedLoop, again
from tcptrace_lab.replay.watch import NEVER_NS, watch_files
from tcptrace_lab.scenario import ApplicationSpec
from tests.capture.test_malformed import FILES, shared
from tests.conftest import ROOT

CAPTURES = ROOT / "captures"
RENO_10M = str(CAPTURES / "scenarios" / "reno_10M.toml")
# Of a few kilobytes, on a machine that does other things: what is not bounded takes minutes.
LIMIT_S = 20.0
USES = (
    ["--as-found"],
    ["--control", "cubic", "--through", RENO_10M],
    ["--through", RENO_10M, "--set", "path.nodes.0.queue=codel"],
    ["--through", RENO_10M, "--over", "path.nodes.0.buffer=5,80"],
    ["--watch", "--json"],
)


def mutated(name: str, seed: int, tmp_path: Path) -> Path:
    """A capture in which a hundred bytes behind the file's header are others."""
    data = bytearray(gzip.decompress((CAPTURES / f"{name}.pcap.gz").read_bytes()))
    rng = np.random.default_rng(seed)
    for place in rng.integers(24, len(data), 100):
        data[place] = int(rng.integers(256))
    path = tmp_path / f"{name}.{seed}.pcap"
    path.write_bytes(data)
    return path


def answers(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Done, or refused in one line, in bounded time."""
    begun_s = time.process_time()
    status = main(command)
    told = capsys.readouterr()
    assert status in (0, 2), command
    lines = [line for line in told.err.splitlines() if "truncated" not in line and "cut" not in line]
    assert len(lines) <= 1, told.err
    assert status == 0 or not told.out
    assert time.process_time() - begun_s < LIMIT_S, command


@pytest.mark.parametrize("file", [*FILES, *range(12)], ids=str)
def test_what_the_view_observes_of_a_damaged_capture_is_bounded(file: str | int, tmp_path: Path) -> None:
    """Whatever the columns: the observer's rows stay few, and its windows are no more than what was sent."""
    path = (
        shared("captures", "public", "malformed", file)
        if isinstance(file, str)
        else mutated("cubic_20M" if file % 2 else "reno_loss", file, tmp_path)
    )
    watcher = watch_files([str(path)])
    watcher.observe()
    with contextlib.suppress(CaptureError):
        while watcher.advance(NEVER_NS, 999, False, 1.0) != "ended":
            for row in watcher.connections(8):
                found = row["observed"]
                assert found is None or 0 <= found["cwnd_low"] <= found["cwnd"] < 1 << 58
    assert watcher.kept_rows() < 20_000


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("use", USES, ids=lambda use: " ".join(use[:1] + use[2:3]))
def test_a_mutated_capture_ends_in_a_result_or_one_line(
    use: list[str], seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Times, lengths, numbers and addresses that nobody sent."""
    answers(["replay", str(mutated(("short_reno", "reno_timeout")[seed % 2], seed, tmp_path)), *use], capsys)


@pytest.mark.parametrize("name", FILES)
def test_a_malformed_file_ends_in_a_result_or_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Fuzzers' findings of other projects, in three uses."""
    path = str(shared("captures", "public", "malformed", name))
    for use in (USES[0], USES[2], USES[4]):
        answers(["replay", path, *use], capsys)


def test_a_gap_that_a_broken_number_claims_is_no_million_packets() -> None:
    """Neither work nor losses to repeat follow from bytes that nobody captured."""
    timeline = read(CAPTURES / "short_reno.pcap.gz")[0].reconstruct().timeline
    claimed = replace(timeline, send_end=timeline.send_offset + (1 << 40))
    assert packets(claimed).max() <= 1000
    assert packets(timeline).tolist() == [1] * len(timeline.send_ns)


def test_work_beyond_a_multiple_of_what_was_captured_is_cut_and_said() -> None:
    """A terabyte that a broken sequence number claims is not sent again."""
    found = as_found(read(CAPTURES / "short_reno.pcap.gz"))
    (connection,) = found.scenario.connections
    terabyte = ApplicationSpec(kind="bytes", bytes=1 << 40)
    endless = replace(
        found.scenario, connections=(replace(connection, application=terabyte),), duration_s=100_000_000.0
    )
    run = ClosedLoop(replace(found, scenario=endless), read(CAPTURES / "short_reno.pcap.gz"))
    assert run.is_cut
    assert "cut after" in run.notes[-1]
    assert run.summary["packets_sent"] < found.most_events
    assert not again(read(CAPTURES / "short_reno.pcap.gz")).is_cut
