"""What holds of every verdict on every capture, whatever it shows: own, reference, degraded and simulated."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from tcptrace_lab import read
from tcptrace_lab.classify.verdict import Verdict, classify
from tcptrace_lab.errors import LabError
from tests.conftest import ROOT, SHARED
from tests.degrade import KINDS, degrade, read_packets, write_packets

SUFFIXES = (".pcap", ".pcapng", ".gz", ".trace")
FOLDERS = [
    ROOT / "captures",
    *(SHARED / "captures" / name for name in ("public", "public/tcprs", "public/formats", "kernel", "identify")),
]
FILES = [
    path
    for folder in FOLDERS
    if folder.exists()
    for path in sorted(folder.iterdir())
    if path.name.endswith(SUFFIXES) and not path.name.endswith((".csv.gz", ".json"))
]
# Above this a capture takes the best part of a second.
BIG_BYTES = 100_000
PATH = ("base_rtt_s", "bottleneck_bps", "bottleneck_pps", "bdp_packets", "buffer_packets")


def check(verdict: Verdict) -> None:
    """Every law, with the claim in the message."""
    found = verdict.as_dict()
    for name in PATH:
        check_interval(name, found["path"][name], resolution_s=verdict.who.tap.clock.resolution_ns / 1e9)
    check_round_trips(verdict, found)
    check_rate(verdict, found)
    check_counts(verdict, found)
    check_windows(verdict, found)


def check_interval(name: str, estimate: dict[str, Any], *, resolution_s: float) -> None:
    """Low <= value <= high, no zero width, nothing below zero, nothing finer than the clock."""
    value, low, high = estimate["value"], estimate["low"], estimate["high"]
    for number in (value, low, high):
        assert number is None or (math.isfinite(number) and number >= 0), (name, estimate)
    assert low is None or value is None or low <= value, (name, estimate)
    assert high is None or value is None or value <= high, (name, estimate)
    if value is not None and low is not None and high is not None:
        assert high > low, (name, estimate)
        if name == "base_rtt_s":
            assert high - low >= resolution_s, (name, estimate, resolution_s)


def check_round_trips(verdict: Verdict, found: dict[str, Any]) -> None:
    """The path's round trip is at most every one that was measured."""
    _, samples = verdict.seen.timeline.rtt
    low = found["path"]["base_rtt_s"]["low"]
    if low is not None and len(samples):
        assert low <= float(samples.min()) / 1e9, found["path"]["base_rtt_s"]


def check_rate(verdict: Verdict, found: dict[str, Any]) -> None:
    """The bottleneck carried what was acknowledged in any second without a loss event."""
    from tcptrace_lab.classify.rate import GOODPUT_SLACK, goodput_pps

    high, goodput = found["path"]["bottleneck_pps"]["high"], goodput_pps(verdict.seen)
    assert high is None or goodput is None or goodput <= high * GOODPUT_SLACK, (goodput, found["path"])


def check_counts(verdict: Verdict, found: dict[str, Any]) -> None:
    """Counts agree with each other; shares are shares; no first window without a beginning."""
    losses, limits = found["losses"], found["limits"]
    if losses["total"] is not None:
        assert sum(losses["by_cause"].values()) == losses["total"]
    assert losses["possible_unseen"] >= 0
    assert all(0 <= share <= 1 for share in limits.values())
    assert not limits or sum(limits.values()) == pytest.approx(1, abs=0.01), limits
    if verdict.who.tap.syns.value == "none":
        assert found["initial_window"]["segments"] is None
    assert len(found["slow_starts"]["cycles"]) == len(found["slow_starts"]["per_cycle"])
    if verdict.obstacles.hides_window:
        assert found["slow_starts"]["regime"] == "undecided"
        assert found["slow_starts"]["per_cycle"] == []
        assert found["sender_tcp"]["congestion_control"] is None


def check_windows(verdict: Verdict, found: dict[str, Any]) -> None:
    """No throughput of 0 where ACKs advanced, no threshold below two segments (RFC 5681 equation 4)."""
    timeline, smss = verdict.seen.timeline, verdict.seen.timeline.smss
    for cycle in verdict.slow_starts.cycles:
        within = (timeline.ack_ns >= cycle.start_ns) & (timeline.ack_ns <= cycle.end_ns)
        has_moved = bool((timeline.newly_acked[within] > 0).any())
        assert (cycle.throughput > 0) == has_moved, cycle
        assert all(at is None or at >= smss for at in cycle.ssthresh), cycle


def each() -> list[Any]:
    return [
        pytest.param(
            path,
            marks=[pytest.mark.slow] if path.stat().st_size > BIG_BYTES else [],
            id=f"{path.parent.name}/{path.name}",
        )
        for path in FILES
    ]


@pytest.mark.parametrize("path", each())
def test_no_verdict_breaks_a_law_of_physics(path: Path) -> None:
    """RTT, rate, buffer, counts and shares: what cannot be is claimed of no file."""
    try:
        capture = read(path)
    except LabError:
        return
    for verdict in classify(capture):
        check(verdict)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_no_verdict_on_a_degraded_capture_breaks_one(kind: str, tmp_path: Path) -> None:
    """The same of a short run by every kind of degradation."""
    link, packets = read_packets(ROOT / "captures" / "reno_timeout.pcap.gz")
    write_packets(tmp_path / "x.pcap", *degrade(link, packets, kind=kind, seed=3))
    for verdict in classify(read(tmp_path / "x.pcap")):
        check(verdict)
