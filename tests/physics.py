"""What holds of every verdict on every capture, whatever it shows: the laws, and all captures there are asked at once.

python -m tests.physics --each 4         # files as they are, degraded, damaged and simulated; every breach is printed
"""

from __future__ import annotations

import argparse
import json
import math
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tcptrace_lab import read
from tcptrace_lab.classify.control.at_losses.loss_cycles import Cycles
from tcptrace_lab.classify.verdict import Verdict, classify
from tcptrace_lab.errors import LabError
from tcptrace_lab.reconstruct.tap.clock import BATCH_NS
from tests.conftest import ROOT, SHARED
from tests.degrade import KINDS, degrade, read_packets, write_packets
from tests.mutate import MUTATIONS, damaged, mutate
from tests.random_runs import random_runs

SUFFIXES = (".pcap", ".pcapng", ".gz", ".trace")
PUBLIC = ("public", "public/tcprs", "public/formats", "public/malformed")
FOLDERS = [ROOT / "captures", *(SHARED / "captures" / name for name in (*PUBLIC, "kernel", "identify"))]
FILES = [
    path
    for folder in FOLDERS
    if folder.exists()
    for path in sorted(folder.iterdir())
    if path.name.endswith(SUFFIXES) and not path.name.endswith((".csv.gz", ".json", ".toml"))
]
PATH = ("base_rtt_s", "bottleneck_bps", "bottleneck_pps", "bdp_packets", "buffer_packets")
SECOND_NS = 1_000_000_000
# By rounding alone, and what a delayed ACK at either end of a second may leave.
RATE_SLACK = 1.05
# A rate rests on spans of many times what two stamps tell apart (the code's own rule is stricter).
SPAN_RESOLUTIONS = 10


def check(verdict: Verdict) -> None:
    """Every law, with the claim in the message."""
    found = verdict.as_dict()
    json.dumps(found, allow_nan=False)
    clock = verdict.who.tap.clock
    for name in PATH:
        check_interval(name, found["path"][name], resolution_s=clock.resolution_ns / 1e9)
    check_round_trips(verdict, found)
    check_rate(verdict, found)
    check_buffer(verdict, found)
    check_losses(verdict, found)
    check_shares(found)
    check_slow_starts(verdict, found)
    check_cycles(verdict)
    check_windows(verdict)
    check_words(found)


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
    """The bottleneck carried what was acknowledged in any second; its rate rests on more than a few ticks.

    Of each second without a loss event: what its ACKs moved, but for the largest, which may have filled a hole.
    """
    timeline, rate = verdict.seen.timeline, found["path"]["bottleneck_pps"]
    clock = verdict.who.tap.clock
    if rate["value"] is not None and clock.resolution_ns > BATCH_NS:
        spans = len(timeline.ack_ns) / rate["value"]
        assert spans >= SPAN_RESOLUTIONS * clock.resolution_ns / 1e9, (rate, clock)
    if rate["high"] is None or not len(timeline.ack_ns):
        return
    events = [(each.time_ns, each.end_ns) for each in verdict.seen.episodes]
    times, moved = timeline.ack_ns, timeline.newly_acked
    for begin_ns in range(int(times[0]), int(times[-1]) - SECOND_NS, SECOND_NS // 2)[:2000]:
        end_ns = begin_ns + SECOND_NS
        if any(start <= end_ns and end >= begin_ns for start, end in events):
            continue
        rows = moved[np.searchsorted(times, begin_ns, side="right") : np.searchsorted(times, end_ns, side="right")]
        if len(rows) and not timeline.sacked[np.searchsorted(times, begin_ns) : np.searchsorted(times, end_ns)].any():
            packets = float(rows.sum() - rows.max()) / timeline.smss
            assert packets <= rate["high"] * RATE_SLACK + 2, (packets, rate)


def check_buffer(verdict: Verdict, found: dict[str, Any]) -> None:
    """One loss event shows what a buffer holds at least, not at most."""
    buffer = found["path"]["buffer_packets"]
    if sum(each.detected_by != "tlp" for each in verdict.seen.episodes) < 2:
        assert buffer["high"] is None, buffer


def check_losses(verdict: Verdict, found: dict[str, Any]) -> None:
    """Counts agree with each other and with the table; no more was lost than was sent again."""
    losses, table = found["losses"], verdict.seen.losses
    assert losses["possible_unseen"] >= 0
    if losses["total"] is None:
        return
    assert sum(losses["by_cause"].values()) == losses["total"]
    assert all(count > 0 for count in losses["by_cause"].values())
    timeline = verdict.seen.timeline
    again = (timeline.send_end - timeline.send_offset)[timeline.is_retransmission]
    assert losses["total"] <= int(np.ceil(again / timeline.smss).sum()), losses
    rows = table[~table["spurious"].astype(bool)]
    if verdict.who.view is None and (rows["length"] <= timeline.smss).all():
        assert losses["total"] <= len(rows), losses


def check_shares(found: dict[str, Any]) -> None:
    """Shares are shares, and make up the whole; so do those of the candidates left."""
    limits = found["limits"]
    assert all(0 <= share <= 1 for share in limits.values()), limits
    assert not limits or abs(sum(limits.values()) - 1) <= 0.01, limits
    shares = [row["confidence"] for row in found["sender_tcp"]["candidates"]]
    assert all(0 <= share <= 1 for share in shares), shares
    assert 0 <= found["sender_tcp"]["confidence"] <= 1


def check_slow_starts(verdict: Verdict, found: dict[str, Any]) -> None:
    """No first window without a beginning; of slow starts no more than the order tells where the window is hidden."""
    starts, first = found["slow_starts"], found["initial_window"]["segments"]
    assert first is None or first >= 1
    if verdict.who.tap.syns.value == "none" or not verdict.who.tap.begins_whole:
        assert first is None
    if not verdict.who.tap.begins_whole:
        assert starts["initial"] is None
    is_hidden = bool(verdict.obstacles.hides_window)
    if not is_hidden or verdict.seen.episodes:
        assert starts["per_cycle"] == [cycle["slow_starts"] for cycle in starts["cycles"]]
    assert all(at is None or at >= 2 for cycle in starts["cycles"] for at in cycle["ssthresh"]), starts["cycles"]
    if starts["regime"] == "none":
        assert verdict.seen.episodes
    if is_hidden:
        assert starts["regime"] == "undecided" or verdict.who.order is not None
        assert starts["cycles"] == []
        # What was outstanding at its losses may name it.
        is_by_losses = any(isinstance(each.tape.compared, Cycles) for each in verdict.identified.left)
        assert found["sender_tcp"]["congestion_control"] is None or is_by_losses
        assert found["sender_tcp"]["recovery"] is None


def check_cycles(verdict: Verdict) -> None:
    """No throughput of 0 where ACKs advanced, no threshold below two segments (RFC 5681 equation 4)."""
    timeline, smss = verdict.seen.timeline, verdict.seen.timeline.smss
    for cycle in verdict.slow_starts.cycles:
        within = (timeline.ack_ns >= cycle.start_ns) & (timeline.ack_ns <= cycle.end_ns)
        if cycle.end_ns > cycle.start_ns:
            has_moved = bool((timeline.newly_acked[within] > 0).any())
            assert (cycle.throughput > 0) == has_moved, cycle
        assert all(at is None or at >= smss for at in cycle.ssthresh), cycle


def check_windows(verdict: Verdict) -> None:
    """A window is at least a segment and within its bounds; time goes on."""
    table, smss = verdict.seen.windows, verdict.seen.timeline.smss
    if not len(table):
        return
    cwnd, low = table["cwnd"].to_numpy(dtype=float, na_value=np.nan), table["cwnd_low"].to_numpy(dtype=float)
    high = table["cwnd_high"].to_numpy(dtype=float, na_value=np.inf)
    assert (cwnd[~np.isnan(cwnd)] >= smss).all()
    assert (low <= high).all()
    assert ((low <= cwnd) | np.isnan(cwnd)).all()
    assert ((cwnd <= high) | np.isnan(cwnd)).all()
    assert (np.diff(table["time_ns"].to_numpy()) >= 0).all()


def check_words(found: dict[str, Any]) -> None:
    """A sentence is one, and no number in it is none."""
    words = [found["diagnosis"], *found["reasons"], *found["tap"]["notes"]]
    for sentence in words:
        assert sentence
        assert "\n" not in sentence
        assert not {"nan", "inf", "None"} & set(sentence.replace(",", " ").split()), sentence


def verdicts(path: Path) -> Iterator[Verdict]:
    """Of every connection of a file; none where it cannot be read."""
    try:
        capture = read(path)
    except LabError:
        return
    yield from classify(capture)


def variants(folder: Path, *, each: int, seed: int) -> Iterator[tuple[str, Path]]:
    """Every file as it is; so many of them by every kind of degradation and damage; so many simulated runs."""
    rng = random.Random(seed)
    for path in FILES:
        yield path.name, path
    own = [path for path in FILES if path.parent.name in ("captures", "kernel", "identify")]
    made = folder / "made.pcap"
    for kind in KINDS:
        for path in rng.sample(own, min(each, len(own))):
            link, packets = read_packets(path)
            write_packets(made, *degrade(link, packets, kind=kind, seed=seed))
            yield f"{path.name}: {kind}", made
    for kind in MUTATIONS:
        for path in rng.sample(own, min(each, len(own))):
            link, packets = read_packets(path)
            write_packets(made, link, mutate(packets, kind=kind, seed=seed))
            yield f"{path.name}: {kind}", made
    plain = [path for path in FILES if path.suffix in (".pcap", ".pcapng") and path.stat().st_size > 24]
    for number in range(each):
        for path in plain:
            made.write_bytes(damaged(path.read_bytes(), seed=seed + number))
            yield f"{path.name}: bytes {seed + number}", made
    for run in random_runs(10 * each, folder, first=seed):
        yield from ((f"{run.run.name} at {place}", path) for place, path in run.places.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=4, help="captures for each kind (default 4)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    begun, files, found, broken = time.monotonic(), 0, 0, 0
    with tempfile.TemporaryDirectory() as name:
        for words, path in variants(Path(name), each=arguments.each, seed=arguments.seed):
            files += 1
            try:
                for verdict in verdicts(path):
                    found += 1
                    check(verdict)
            # A crash is a breach as well.
            except Exception as error:
                broken += 1
                law = error.__traceback__
                while law is not None and law.tb_next is not None:
                    law = law.tb_next
                where = f"{law.tb_frame.f_code.co_name}:{law.tb_lineno}" if law is not None else ""
                print(f"{words}: {where}: {type(error).__name__} {str(error)[:300]}", flush=True)
    print(f"{broken} of {files} files break a law ({found} verdicts); {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
