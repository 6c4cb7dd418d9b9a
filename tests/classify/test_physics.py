"""No verdict breaks a law of physics (tests/physics.py): captures as they are, degraded, damaged and simulated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tcptrace_lab import read
from tcptrace_lab.classify.verdict import classify
from tests.conftest import ROOT
from tests.degrade import KINDS, SECOND, degrade, read_packets, write_packets
from tests.degrade.options import with_mss
from tests.mutate import MUTATIONS, damaged, mutate
from tests.physics import FILES, check, verdicts
from tests.random_runs import random_runs

# Above this a capture takes the best part of a second.
BIG_BYTES = 100_000
OWN = ROOT / "captures"


def each() -> list[Any]:
    return [
        pytest.param(
            path,
            marks=[pytest.mark.slow] if path.stat().st_size > BIG_BYTES else [],
            id=f"{path.parent.name}/{path.name}",
        )
        for path in FILES
    ]


def check_all(path: Path) -> None:
    for verdict in verdicts(path):
        check(verdict)


@pytest.mark.parametrize("path", each())
def test_no_verdict_breaks_a_law_of_physics(path: Path) -> None:
    """Round trip, rate, buffer, windows, counts and shares: what cannot be is claimed of no file."""
    check_all(path)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_no_verdict_on_a_degraded_capture_breaks_one(kind: str, tmp_path: Path) -> None:
    """Of a short run with timeouts, and of one with an application's pauses, by every kind of degradation."""
    for name in ("reno_timeout", "reno_on_off"):
        link, packets = read_packets(OWN / f"{name}.pcap.gz")
        write_packets(tmp_path / "x.pcap", *degrade(link, packets, kind=kind, seed=3))
        check_all(tmp_path / "x.pcap")


@pytest.mark.parametrize("kind", MUTATIONS)
def test_no_verdict_on_a_damaged_capture_breaks_one(kind: str, tmp_path: Path) -> None:
    """Numbers, flags, options and stamps that no sender, path or tap would leave."""
    for name in ("reno_timeout", "reno_on_off", "short_reno"):
        link, packets = read_packets(OWN / f"{name}.pcap.gz")
        for seed in range(2):
            write_packets(tmp_path / "x.pcap", link, mutate(packets, kind=kind, seed=seed))
            check_all(tmp_path / "x.pcap")


@pytest.mark.parametrize("seed", range(4))
def test_no_verdict_on_a_file_with_bytes_changed_breaks_one(seed: int, tmp_path: Path) -> None:
    link, packets = read_packets(OWN / "short_reno.pcap.gz")
    write_packets(tmp_path / "x.pcap", link, packets)
    (tmp_path / "x.pcap").write_bytes(damaged((tmp_path / "x.pcap").read_bytes(), seed=seed))
    check_all(tmp_path / "x.pcap")


@pytest.mark.slow
def test_no_verdict_on_a_run_that_nobody_chose_breaks_one(tmp_path: Path) -> None:
    for run in random_runs(3, tmp_path, first=77):
        for path in run.places.values():
            check_all(path)


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("name", ["cubic_v6_two_nodes.receiver", "short_reno"])
def test_nothing_of_a_handshake_takes_less_than_no_time(name: str, number: int, tmp_path: Path) -> None:
    """One of its packets was stamped an hour late, as by a clock that is set meanwhile."""
    link, packets = read_packets(OWN / f"{name}.pcap.gz")
    packets[number] = replace(packets[number], time_ns=packets[number].time_ns + 3600 * SECOND)
    write_packets(tmp_path / "x.pcap", link, packets)
    check_all(tmp_path / "x.pcap")
    table = read(tmp_path / "x.pcap").connections
    assert not (table.filter(like="rtt_min_ns") < 0).any(axis=None)
    assert not (table.filter(like="handshake_rtt_ns") < 0).any(axis=None)


def test_syns_that_allow_a_byte_make_no_million_sends(tmp_path: Path) -> None:
    """With timestamps an MSS of 13 leaves a byte, of which every segment is a multiple."""
    link, packets = read_packets(OWN / "cubic_v6_two_nodes.receiver.pcap.gz")
    write_packets(tmp_path / "x.pcap", link, with_mss(packets, 13))
    (verdict,) = classify(read(tmp_path / "x.pcap"))
    assert verdict.seen.timeline.smss == 1428
    assert len(verdict.seen.timeline.send_ns) < len(packets)
