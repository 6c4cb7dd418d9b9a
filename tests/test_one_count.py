"""One count: retransmissions, losses, slow starts and limits are the same wherever this project tells of them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tcptrace_lab import read
from tcptrace_lab.cli import main
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import sender
from tcptrace_lab.report.connection_figure import connection_figure
from tests.conftest import ROOT
from tests.degrade import degrade, read_packets, write_packets

CAPTURES = sorted((ROOT / "captures").glob("*.pcap.gz"))


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main([*words]) == 0
    return json.loads(capsys.readouterr().out)


def answers_when_worse(run: str, kind: str, file: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Any, Any]:
    """The verdict and the tables of one of our captures, made worse and written to `file`."""
    link, packets = read_packets(ROOT / "captures" / f"{run}.pcap.gz")
    write_packets(file, *degrade(link, packets, kind=kind, seed=1))
    (verdict,) = answer(capsys, "classify", "--json", str(file))
    return verdict, answer(capsys, "reconstruct", "--json", str(file))


def assert_same_limits(tables: Any, verdict: Any, seen: Reconstruction) -> None:
    """A row puts down to one cause what the verdict does, not what it leaves open."""
    rows = {row["limited_by"] for row in tables["windows"]} & {"cwnd", "rwnd", "application"}
    assert all(verdict["limits"][name] for name in rows if seen.limits[name])


@pytest.mark.parametrize("file", CAPTURES, ids=lambda file: file.name.removesuffix(".pcap.gz"))
def test_every_view_counts_the_same(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """analyze, the tables of read, reconstruct, classify and plot."""
    (analyzed,) = answer(capsys, "analyze", "--json", str(file))
    verdicts = {row["connection"]: row for row in answer(capsys, "classify", "--json", str(file))}
    capture = read(file)
    for row in analyzed["connections"]:
        number = row["id"]
        who = sender(capture[number])
        side = ("client", "server")[who.direction]
        segments = capture[number].flows[who.direction].segments
        assert row[f"retransmissions_{side}"] == int(segments["is_retransmission"].sum())
        assert row["retransmissions"] == row["retransmissions_client"] + row["retransmissions_server"]

        verdict = verdicts[number]
        tables = answer(capsys, "reconstruct", "--json", "--connection", str(number), str(file))
        lost = [loss for loss in tables["losses"] if not loss["spurious"]]
        told = verdict["losses"]
        if told["total"] is not None:
            assert told["total"] == sum(told["by_cause"].values())
            # A super-segment is several packets.
            assert told["total"] >= len(lost)
            if all(loss["length"] <= who.timeline.smss for loss in lost):
                assert told["total"] == len(lost)
                assert told["by_cause"] == Counter(loss["cause"] for loss in lost)

        seen = Reconstruction(who.timeline)
        starts = verdict["slow_starts"]
        assert starts["per_cycle"] == [cycle["slow_starts"] for cycle in starts["cycles"]]
        assert sum(starts["per_cycle"]) <= sum(cycle["slow_starts"] for cycle in tables["cycles"])
        if verdict["limits"]:
            assert sum(verdict["limits"].values()) == pytest.approx(1.0, abs=0.01)
            assert_same_limits(tables, verdict, seen)

        events = [episode for episode in seen.episodes if episode.detected_by in ("dupack", "sack", "rto")]
        _, window, _ = connection_figure(seen, who, title="").axes
        drawn = sum(len(line.get_xdata()) for line in window.lines if line.get_marker() in ("v", "X"))
        assert drawn == len(events)
        shaded = sum(phase["kind"] == "slow_start" for phase in tables["phases"])
        assert len(window.patches) == shaded


@pytest.mark.parametrize(
    ("run", "kind", "is_told"),
    [
        ("tahoe_small_buffer", "clock of 1 ms", True),
        ("tahoe_small_buffer", "clock of 1 s", False),
        ("tahoe_small_buffer", "one way at first", False),
        ("cubic_v6_two_nodes.receiver", "timestamps stripped", True),
    ],
)
def test_where_a_tap_hides_losses_the_table_and_the_verdict_agree(
    run: str, kind: str, is_told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same causes of the same losses, or neither tells of any."""
    verdict, tables = answers_when_worse(run, kind, tmp_path / "worse.pcap", capsys)
    if is_told:
        lost = [loss["cause"] for loss in tables["losses"] if not loss["spurious"]]
        assert verdict["losses"]["by_cause"] == Counter(lost)
        assert lost
    else:
        assert verdict["losses"]["total"] is None
        assert tables["losses"] is None
        assert tables["refused"]["losses"]


@pytest.mark.parametrize(
    "kind", ["clock of 15.6 ms", "tap lost half of the ACKs", "window scale stripped", "tap lost 1 %"]
)
@pytest.mark.parametrize("run", ["reno_10M", "reno_on_off"])
def test_what_the_verdict_leaves_open_no_row_puts_down_to_one_cause(
    run: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "worse.pcap"
    verdict, tables = answers_when_worse(run, kind, file, capsys)
    if tables["windows"] is not None:
        assert_same_limits(tables, verdict, Reconstruction(sender(read(file)[0]).timeline))
