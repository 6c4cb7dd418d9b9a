"""Simulate, write a capture, read it, reconstruct, and score against the simulator's own truth."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcptrace_lab import read
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import sender
from tcptrace_lab.reconstruct.truth.score import Score, score
from tcptrace_lab.reconstruct.truth.truth_file import read_truth
from tcptrace_lab.scenario_file import load
from tcptrace_lab.simulate import simulate
from tests.conftest import ROOT

SCENARIOS = ("reno_10M", "newreno_8M", "cubic_20M", "compound_20M", "tahoe_small", "reno_loss")


def round_trip(name: str, folder: Path, suffix: str, *overrides: str) -> Score:
    """Through the files that `simulate -o x.pcap --truth x.truth.SUFFIX` writes."""
    run = simulate(load(ROOT / "captures" / "scenarios" / f"{name}.toml", overrides=overrides))
    run.write(folder / "x.pcap", payload=False)
    run.write_truth(folder / f"x.truth{suffix}")
    who = sender(read(folder / "x.pcap")[0])
    truth = read_truth(folder / f"x.truth{suffix}", port=run.ports[0][0])
    return score(Reconstruction(who.timeline), truth, first_sequence=who.first_sequence)


@pytest.mark.parametrize("name", SCENARIOS)
def test_reconstruction_finds_what_the_simulator_did(name: str, tmp_path: Path) -> None:
    """Window within a segment, every loss, every slow start.

    The sender's window is a real number and only whole segments of it can be seen: half a segment of bias is what
    cannot be known, one segment the tolerance.
    """
    found = round_trip(name, tmp_path, ".parquet")
    assert found.window.bias is not None
    assert abs(found.window.bias) < 1
    assert found.limited.median is not None
    assert found.limited.median < 0.03
    assert found.recovery.bias is not None
    assert abs(found.recovery.bias) < 1
    assert found.recovery.p90 is not None
    # A segment of nineteen.
    assert found.recovery.p90 < 0.06
    assert found.within is not None
    assert found.within > 0.99
    assert found.drops
    assert found.recall == 1.0
    assert found.precision is not None
    assert found.precision == 1.0
    assert found.slow_starts == found.slow_starts_truth


@pytest.mark.parametrize("control", ["tahoe", "reno", "newreno", "sack", "cubic"])
@pytest.mark.parametrize("seed", [101, 202])
@pytest.mark.parametrize("loss", [0.002, 0.01, 0.03])
def test_windows_kept_small_by_loss_are_told_as_well(control: str, loss: float, seed: int, tmp_path: Path) -> None:
    """A few segments in flight: too few duplicate ACKs, timeouts within recovery, retransmissions lost again.

    What is lost at the very end is never sent again and cannot be seen: one segment. A needless retransmission that
    nothing tells from a loss: one. A restart whose only answer is lost: one.
    """
    change = (f"control.name='{control}'", f"path.nodes.0.loss={loss}", f"seed={seed}")
    found = round_trip("reno_loss", tmp_path, ".parquet", *change)
    assert found.drops is not None
    assert found.precision is not None
    assert found.recall is not None
    assert found.recall * found.drops >= found.drops - 1
    assert found.precision * found.losses >= found.losses - 1
    assert abs(found.slow_starts - found.slow_starts_truth) <= 1


@pytest.mark.parametrize("window", ["compound", "compound-packets"])
def test_a_window_cut_without_a_loss_is_below_what_is_outstanding(window: str, tmp_path: Path) -> None:
    """A delay window gives way to a queue at once (paper 003, section 3): the sender waits until that has left."""
    path = ("path.nodes.0.rate_bps=32e6", "path.nodes.0.buffer=120", "path.nodes.0.delay_s=0.048")
    found = round_trip("compound_20M", tmp_path, ".parquet", f"control.name='{window}'", *path)
    assert found.within is not None
    assert found.within > 0.999
    assert found.window.median == 0.0


def test_csv_and_parquet_score_alike(tmp_path: Path) -> None:
    """Sequence numbers and nanoseconds survive text."""
    assert round_trip("newreno_8M", tmp_path, ".csv") == round_trip("newreno_8M", tmp_path, ".parquet")


def test_a_truth_without_windows_scores_none(tmp_path: Path) -> None:
    """Of a recorder that was stopped early: nothing to compare with, and no traceback."""
    who = sender(read(ROOT / "captures" / "reno_10M.pcap.gz")[0])
    port = who.sender.rpartition(":")[2]
    (tmp_path / "x.truth.csv").write_text(f"time,ev,sport,cwnd\n1.0,C,{port},\n")
    found = score(Reconstruction(who.timeline), read_truth(tmp_path / "x.truth.csv", port=int(port)))
    assert (found.window.rows, found.within, found.drops) == (0, None, None)


def test_what_was_not_sent_again_when_the_capture_ends_is_told_apart(tmp_path: Path) -> None:
    """NewReno mends one loss a round trip (RFC 6582): a run cut in its first recovery shows some, and only those."""
    run = simulate(load(ROOT / "captures" / "scenarios" / "newreno_8M.toml"))
    until = (float(run.losses["time_ns"].iloc[0]) + 250e6) / 1e9
    cut = round_trip("newreno_8M", tmp_path, ".csv", f"duration_s={until}")
    whole = round_trip("newreno_8M", tmp_path, ".csv")
    assert cut.unmended
    assert whole.unmended == 0
    assert (cut.precision, cut.recall) == (1.0, 1.0)


def test_a_wrong_reconstruction_scores_badly(tmp_path: Path) -> None:
    """The truth of another run: neither losses nor windows agree."""
    scenario = load(ROOT / "captures" / "scenarios" / "reno_10M.toml")
    run = simulate(scenario)
    run.write(tmp_path / "x.pcap", payload=False)
    other = simulate(load(ROOT / "captures" / "scenarios" / "reno_10M.toml", overrides=["path.nodes.0.buffer=12"]))
    other.write_truth(tmp_path / "x.truth.parquet")
    who = sender(read(tmp_path / "x.pcap")[0])
    found = score(Reconstruction(who.timeline), read_truth(tmp_path / "x.truth.parquet", port=run.ports[0][0]))
    assert found.window.median is not None
    assert found.window.median > 0.05
    assert found.recall is None or found.recall < 0.5


def test_what_follows_a_timeout_within_recovery_is_no_second_one(tmp_path: Path) -> None:
    """RFC 6675 section 5.1: after the timer the sender goes through the lost segments again from a window of one."""
    run = simulate(load(ROOT / "captures" / "scenarios" / "recorded" / "cubic_v6_two_nodes.toml"))
    assert list(run.losses["detected_by"]).count("rto") == 1
    run.write(tmp_path / "x.pcap", tap="sender", payload=False)
    run.write_truth(tmp_path / "x.truth.parquet")
    who = sender(read(tmp_path / "x.pcap")[0])
    found = score(Reconstruction(who.timeline), read_truth(tmp_path / "x.truth.parquet", port=run.ports[0][0]))
    assert (found.slow_starts, found.slow_starts_truth) == (2, 2)
    assert (found.precision, found.recall) == (1.0, 1.0)
