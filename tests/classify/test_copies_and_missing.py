"""What was captured twice is sent once, and what no capture holds shows no habit: runs made worse by kind and seed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tcptrace_lab.scenario import ConnectionSpec, ReceiverSpec, Scenario
from tcptrace_lab.simulate import simulate
from tests.claims import Judged, judge_claims, main_verdict, runs
from tests.classify.test_limits import PATH, SACK
from tests.degrade import degrade, keeps_of, read_packets, sender_of, write_packets

RUNS = {run.name: run for run in runs()}
ACROSS = "clock set forward + both cards of a router"
CUT_AGAIN = "1 % seen twice + GSO, cut again"


@pytest.mark.parametrize(
    ("name", "kind", "seed"),
    [
        # A packet before the step and its copy behind it; also where the step is undone to some part of a millisecond.
        ("own: tahoe_small_buffer", ACROSS, 1),
        ("own: cubic_v6_two_nodes", ACROSS, 1),
        ("own: reno_timeout", ACROSS, 4),
        # A copy becomes the begin of the next super-segment, or one of its own: no ACK came since that asked for it.
        ("own: newreno_nosack_8M", CUT_AGAIN, 1),
        ("own: reno_loss", CUT_AGAIN, 4),
        ("own: reno_timeout", CUT_AGAIN, 2),
        # Of each ACK a copy that nothing tells from a duplicate: not a segment that arrived beyond a hole.
        ("own: reno_on_off", "seen twice + IP identification 0", 1),
    ],
)
def test_a_copy_is_no_retransmission(name: str, kind: str, seed: int, tmp_path: Path) -> None:
    """No cycle begins with one, and nothing is lost by it; counts and regime are told as of the whole capture."""
    judged = _judged(name, kind, seed, tmp_path)
    assert not judged.wrong
    assert not {"regime", "per_cycle", "losses"} & judged.silent


@pytest.mark.parametrize(
    ("name", "kind", "seed"),
    [
        # The hole behind the first recovery was filled by nothing captured: a cycle more.
        ("cubic_gso_50M", "no segment twice", 1),
        # Nearly a whole flight was lost: a block tells of the hole that a timeout repaired, no third duplicate does.
        ("own: reno_timeout", "no segment twice", 1),
        # Most of a short run's stamps are late: what was late does not stand out, but small packets took longer.
        ("short_reno", "tap stalls", 1),
        # No duplicate, no answer to what was sent again: seven restarts that look like recoveries.
        ("utahoe_sat_B20", "bare ACKs stripped", 1),
        # Beside holes no loss shows its reduction: Westwood was within what is open all along, and Reno nearly.
        ("utahoe_sat_B18", "tap reorders + tap lost 5 %", 2),
        # Its retransmissions' answers are among nineteen of twenty ACKs that are not there.
        ("tahoe_sat_B20", "bare ACKs stripped + snaplen 68", 77),
        # The answer to a restart alone is missing: what it released seems to have left before the next.
        ("own: tahoe_small_buffer", "tap lost 1 % of ACKs", 6),
        ("own: tahoe_small_buffer", "tap lost 1 % of ACKs", 15),
        ("own: tahoe_small_buffer", "tap lost 1 % of ACKs", 29),
        # An ACK of four segments answers the last: with no SYN to bound it the path's round trip is less by three.
        ("cubic_short_rtt", "one ACK of four + only the SYN-ACK", 77),
        # The first loss had been under way when the capture began: from which window is not seen.
        ("own: reno_small_buffer", "begins in a recovery", 101),
        # The blocks were overwritten, in as many ACKs as duplicates came.
        ("ctcp_osc31_100M", "SACK stripped + noisy stamps", 2),
    ],
)
def test_what_is_missing_names_nothing(name: str, kind: str, seed: int, tmp_path: Path) -> None:
    """Neither regime, nor control, nor recovery, nor a bound: each rested on what the capture does not hold."""
    if name not in RUNS:
        pytest.skip("the shared captures are not here")
    assert not _judged(name, kind, seed, tmp_path).wrong


def _judged(name: str, kind: str, seed: int, folder: Path) -> Judged:
    run, made = RUNS[name], folder / "made.pcap"
    whole = main_verdict(run.path)
    assert whole is not None
    write_packets(made, *degrade(*read_packets(run.path), kind=kind, seed=seed))
    return judge_claims(run, whole, main_verdict(made), keeps=keeps_of(kind))


def test_a_window_full_between_two_captures_of_each_ack_is_the_receivers(tmp_path: Path) -> None:
    """Each ACK makes room for the segment that leaves behind its second capture: no threshold ends the slow start."""
    connection = ConnectionSpec(control=SACK, receiver=ReceiverSpec(rwnd=80_065))
    run = simulate(Scenario(path=PATH, connections=(connection,), duration_s=3.0, taps=("sender",)))
    path = tmp_path / "made.pcap"
    run.write(path, tap="sender", payload=False)
    link, packets = read_packets(path)
    own = sender_of(packets)
    # A host takes some microseconds.
    late = [replace(each, time_ns=each.time_ns + 8_000 * (each.source == own)) for each in packets]
    late.sort(key=lambda each: each.time_ns)
    write_packets(path, *degrade(link, late, kind="seen twice + IP identification 0", seed=1))
    found = main_verdict(path)
    assert found is not None
    (only,) = found.seen.stretches
    assert (only.has_threshold, found.limits["rwnd"] > 0.9) == (False, True)
