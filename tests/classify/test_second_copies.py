"""Segments sent again: which copy was answered, and which left no trace at the tap."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tcptrace_lab.classify.verdict import Verdict
from tests.claims import main_verdict
from tests.degrade import degrade, read_packets, sender_of, write_packets
from tests.random_degraded import against_truth
from tests.random_runs import Tapped, tapped

Runs = Callable[[int], Tapped]


@pytest.fixture
def run_of(tmp_path: Path) -> Runs:
    def make(seed: int) -> Tapped:
        found = tapped(seed, tmp_path)
        assert found is not None
        return found

    return make


def judged(found: Tapped, place: str = "sender") -> Verdict:
    verdict = main_verdict(found.places[place], without=found.others)
    assert verdict is not None
    return verdict


@pytest.mark.parametrize(("seed", "is_echoed"), [(830074, True), (830078, False), (830082, True)])
def test_a_segment_sent_again_without_a_hole_may_not_have_been_lost(seed: int, is_echoed: bool, run_of: Runs) -> None:
    """No duplicate ACK and no SACK block told of a hole: a rescue retransmission (RFC 6675 section 4 (4)), or a timer
    that went back over what was on its way. Whose the answer is the stamp that it echoes tells (RFC 3522); without,
    either copy's."""
    found = run_of(seed)
    verdict = judged(found)
    noticed, dropped = found.losses
    assert noticed <= verdict.losses["total"] <= dropped
    assert (verdict.losses["possible_unseen"] == 0) == is_echoed
    assert not against_truth(found, verdict)


@pytest.mark.parametrize("seed", [830052, 830097, 830137])
def test_a_copy_lost_before_the_tap_is_not_ruled_out(seed: int, run_of: Runs) -> None:
    """At the receiver the first copy of what filled a hole is never seen; that it left shows in what left behind it."""
    found = run_of(seed)
    whole, verdict = judged(found), judged(found, "receiver")
    least, told = found.losses[0], verdict.losses
    assert told["total"] <= whole.losses["total"]
    assert told["total"] + told["possible_unseen"] >= least
    assert not verdict.slow_starts.per_cycle


def test_what_was_acknowledged_of_what_was_not_captured_is_no_rate(run_of: Runs, tmp_path: Path) -> None:
    """Every second segment fills a hole: the ACKs move at twice the path's rate, and no captured block tells why."""
    found, path = run_of(830046), tmp_path / "middle.pcap"
    link, packets = read_packets(found.run.path)
    write_packets(path, *degrade(link, packets, kind="begins in avoidance", seed=found.scenario.seed))
    verdict = main_verdict(path)
    assert verdict is not None
    rate = verdict.path.bottleneck_bps
    assert rate.value == pytest.approx(found.run.bottleneck_bps, rel=0.02)


def test_round_trips_across_a_step_of_the_clock_bound_nothing(run_of: Runs, tmp_path: Path) -> None:
    """How long the step took of the hosts' time is known to some gaps between packets."""
    found, path = run_of(830119), tmp_path / "forward.pcap"
    link, packets = read_packets(found.run.path)
    kind = "clock set forward + IP identification 0"
    write_packets(path, *degrade(link, packets, kind=kind, seed=found.scenario.seed))
    verdict = main_verdict(path)
    assert verdict is not None
    assert verdict.who.tap.clock.set_forward_ns
    base = verdict.path.base_rtt_s
    assert base.high is not None
    assert base.high == pytest.approx(found.run.base_rtt_s, rel=0.01)


def test_a_first_flight_that_was_not_captured_tells_no_initial_window(run_of: Runs, tmp_path: Path) -> None:
    """The handshake was captured: what was captured first of the data is a later flight's."""
    found, path = run_of(830046), tmp_path / "late.pcap"
    link, packets = read_packets(found.run.path)
    first = next(place for place, packet in enumerate(packets) if packet.payload > 0)
    write_packets(path, link, [*packets[:first], *packets[first + 40 :]])
    verdict = main_verdict(path)
    assert verdict is not None
    assert verdict.who.tap.begins_whole
    assert verdict.as_dict()["initial_window"]["segments"] is None


def test_a_receivers_answer_passes_a_router_behind_both_copies_of_what_it_answers(run_of: Runs) -> None:
    """The degrader's: beside its receiver a router hands data on before that can answer it."""
    link, packets = read_packets(run_of(8780170).places["receiver"])
    found, own = degrade(link, packets, kind="both cards of a router", seed=1)[1], sender_of(packets)
    last: dict[int, int] = {}
    for packet in found:
        if packet.source == own and packet.payload > 0:
            last[packet.seq + packet.payload] = packet.time_ns
    answers = [packet for packet in found if packet.source != own and packet.ack in last]
    assert answers
    assert all(packet.time_ns >= last[packet.ack] for packet in answers)
