"""What the tap itself takes from a capture: ticks of any length, effects before causes, ends of flights; and marks."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tcptrace_lab import read
from tcptrace_lab.classify.verdict import Verdict, classify
from tcptrace_lab.reconstruct.sender import sender, senders
from tcptrace_lab.reconstruct.tap.asked import asked_late_ns
from tcptrace_lab.reconstruct.tap.clock import clock_of
from tests.claims import main_verdict
from tests.conftest import ROOT
from tests.degrade import (
    ACK,
    SECOND,
    SYN,
    TIMESTAMPS,
    Packets,
    RawPacket,
    degrade,
    first_again,
    options_of,
    read_packets,
    sender_of,
    write_packets,
)
from tests.random_runs import tapped

OWN = ROOT / "captures"
ECE = 0x40


@pytest.mark.parametrize("tick_ns", [15_600_000.0, 15_625_000.0, 976_562.5, 54_925_400.0, 1e9 / 300, 1e6, 1e7])
@pytest.mark.parametrize("unit_ns", [1, 1_000])
def test_a_tick_of_any_length_is_found(tick_ns: float, unit_ns: int) -> None:
    times = np.sort(np.random.default_rng(1).integers(0, 60 * 10**9, 5_000))
    stamps = (np.floor(times / tick_ns) * tick_ns).astype(np.int64) // unit_ns * unit_ns
    assert clock_of(stamps).tick_ns == pytest.approx(tick_ns, rel=1e-5)


@pytest.mark.parametrize("acks", [1, 2])
def test_the_spacing_of_a_path_that_is_never_idle_is_no_tick(acks: int) -> None:
    """ACKs come one packet's time apart, or two, and release what is sent: every stamp is a multiple of it."""
    heard = 80_000_000 + 600_200 * acks * np.arange(2_000)
    sent = np.repeat(heard, acks)
    stamps = np.sort(np.concatenate((heard, sent)))
    is_sent = np.resize(np.arange(acks + 1) > 0, len(stamps))
    assert not clock_of(stamps, is_sent).is_coarse


def test_the_spacing_of_a_queue_that_others_share_is_no_tick() -> None:
    """Others' packets lie between some of its own; what an ACK releases leaves with it."""
    apart = np.random.default_rng(1).integers(1, 4, 2_000)
    heard = 80_000_000 + np.round(600_200.3 * np.cumsum(apart)).astype(np.int64)
    stamps = np.repeat(heard, 3)
    assert not clock_of(stamps, np.resize([False, True, True], len(stamps))).is_coarse


@pytest.mark.parametrize(
    ("packet_ns", "round_ns", "tick_ns"),
    [(121_120, 40_313_701, 1), (121_120, 336 * 121_120, 121_120), (1_298_303, 160 * 1_298_303 + 66_000, 1)],
)
def test_the_spacing_of_a_path_that_was_idle_is_no_tick(packet_ns: int, round_ns: int, tick_ns: int) -> None:
    """A slow start's rounds begin a round trip apart, at no multiple of the packets' time, before the pipe is full."""
    rounds = [number * round_ns + packet_ns * np.arange(10 * 2**number) for number in range(5)]
    heard = np.concatenate([*rounds, 5 * round_ns + packet_ns * np.cumsum(1 + np.arange(20_000) % 2)])
    stamps = np.repeat(heard, 3)
    is_sent = np.resize([False, True, True], len(stamps))
    assert clock_of(stamps, is_sent).resolution_ns == tick_ns


def test_a_tick_of_nearly_the_spacing_is_a_tick() -> None:
    """Now and then it has none of them."""
    stamps = np.repeat(np.floor(1.03 * np.arange(2_000)).astype(np.int64) * 600_200, 2)
    assert clock_of(stamps, np.resize([False, True], len(stamps))).resolution_ns == 600_200


def test_packets_of_one_link_are_no_ticks() -> None:
    """Departures spaced by a packet's time have a queue's idle times and a host's between them."""
    rng = np.random.default_rng(1)
    stamps = np.cumsum(np.where(rng.random(5_000) < 0.9, 1_211_200, rng.integers(1_211_200, 10**7, 5_000)))
    assert clock_of(stamps).tick_ns == 1


@pytest.mark.parametrize(
    ("kind", "is_blurred"),
    [("seen twice", False), ("both cards of a router", True), ("seen twice + IP identification 0", True)],
)
def test_copies_close_together_leave_times_as_they_are(kind: str, tmp_path: Path, *, is_blurred: bool) -> None:
    """Which of two was the packet is all one where they lie microseconds apart, and a number tells them from others."""
    write_packets(tmp_path / "x.pcap", *degrade(*read_packets(OWN / "short_reno.pcap.gz"), kind=kind, seed=1))
    tap = sender(read(tmp_path / "x.pcap")[0]).tap
    assert tap.copies > 0
    assert tap.blurs_times == is_blurred


@pytest.mark.parametrize("kind", ["two clocks", "stamped early", "written late", "timestamps stripped + two clocks"])
def test_causes_stamped_after_their_effects_hide_the_window(kind: str, tmp_path: Path) -> None:
    found = _verdict(degrade(*_packets("cubic_v6_two_nodes"), kind=kind, seed=1), tmp_path)
    assert found.who.tap.ahead_ns > 0
    told = found.as_dict()
    assert (told["initial_window"]["segments"], told["slow_starts"]["per_cycle"]) == (None, [])
    assert told["sender_tcp"]["congestion_control"] is None


@pytest.mark.parametrize("kind", ["clock of 10 ms", "jittered clock", "tap lost 1 %", "ACK trains merged"])
def test_what_keeps_the_order_is_not_taken_for_two_clocks(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "made.pcap"
    write_packets(path, *degrade(*_packets("cubic_v6_two_nodes"), kind=kind, seed=1))
    (found,) = senders(read(path))
    assert found.tap.ahead_ns == 0


@pytest.mark.parametrize("also", ["VLAN", "timestamps stripped"])
def test_a_clock_set_forward_is_no_pause(also: str, tmp_path: Path) -> None:
    """Five seconds pass for the tap in the middle, none for either host: their TSvals go on, and so do the ACKs."""
    link, packets = degrade(*_packets("cubic_v6_two_nodes"), kind=also, seed=1)
    middle, whole = len(packets) // 2, _verdict((link, packets), tmp_path)
    moved = [replace(each, time_ns=each.time_ns + 5 * SECOND * (at >= middle)) for at, each in enumerate(packets)]
    found = _verdict((link, moved), tmp_path)
    assert found.who.tap.clock.set_forward_ns == pytest.approx(5 * SECOND, rel=0.01)
    assert any("set forward" in note for note in found.who.tap.notes)
    assert found.limits == pytest.approx(whole.limits, abs=0.01)
    assert found.losses["total"] == whole.losses["total"]


def test_a_pause_of_the_application_is_no_clock_set_forward(tmp_path: Path) -> None:
    """The same with TSvals that go on as well: as many ticks as pass."""
    link, packets = _packets("cubic_v6_two_nodes")
    middle = len(packets) // 2
    moved = [_later(each, 5 * SECOND) if at >= middle else each for at, each in enumerate(packets)]
    assert _verdict((link, moved), tmp_path).who.tap.clock.set_forward_ns == 0


def test_a_pause_behind_an_ack_that_was_not_captured_is_no_clock_set_forward(tmp_path: Path) -> None:
    """Without timestamps: data seems outstanding in each pause, and what comes next acknowledges all of it."""
    link, packets = degrade(*_packets("reno_on_off"), kind="timestamps stripped", seed=1)
    own, made, late_ns = sender_of(packets), packets[:1], 0
    for before, packet in pairwise(packets):
        if packet.time_ns - before.time_ns > SECOND // 2:
            late_ns += 5 * SECOND
            made = made[:-1] if before.source != own else made
        made.append(replace(packet, time_ns=packet.time_ns + late_ns))
    assert len(made) < len(packets)
    assert _verdict((link, made), tmp_path).who.tap.clock.set_forward_ns == 0


def test_losses_answered_out_of_sight_are_none_of_a_timer(tmp_path: Path) -> None:
    """From the middle on no ACK is captured, and the sender goes on, recoveries and all: its cycles are not counted."""
    found = _verdict(degrade(*_packets("reno_small_buffer"), kind="one way at last", seed=1), tmp_path).as_dict()
    assert found["tap"]["unanswered_s"] > 1
    assert found["slow_starts"]["per_cycle"] == []


@pytest.mark.parametrize("kind", ["tap lost half of the ACKs", "timestamps stripped + tap lost half of the ACKs"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_restarts_whose_duplicates_the_tap_lost_are_no_fast_recovery(kind: str, seed: int, tmp_path: Path) -> None:
    link, packets = read_packets(OWN / "tahoe_small_buffer.pcap.gz")
    path = tmp_path / "half.pcap"
    write_packets(path, *degrade(link, packets, kind=kind, seed=seed))
    (verdict,) = classify(read(path))
    assert verdict.sender_tcp.recovery in (None, "tahoe")


def test_more_than_two_flights_behind_the_last_ack_were_answered(tmp_path: Path) -> None:
    """The same in half a second, which no timer tells."""
    link, packets = _packets("cubic_20M")
    short = (link, [packet for packet in packets if packet.time_ns < packets[0].time_ns + SECOND])
    assert _verdict(short, tmp_path).who.tap.unanswered_ns == 0
    found = _verdict(degrade(*short, kind="one way at last", seed=1), tmp_path)
    assert found.who.tap.unanswered_ns > 0
    # The first flights show a slow start; behind the last ACK nothing is told.
    assert found.limits["cwnd"] + found.limits["unknown"] == pytest.approx(1.0)
    whole_ns = int(found.seen.timeline.send_ns[-1]) - found.seen.timeline.start_ns
    assert found.limits["unknown"] == pytest.approx(found.who.tap.unanswered_ns / whole_ns, abs=0.01)


@pytest.mark.parametrize("name", ["reno_10M", "reno_on_off"])
def test_super_segments_tell_their_packets_where_the_option_was_rewritten(name: str, tmp_path: Path) -> None:
    """Most are multiples of one size; what a write left over is none."""
    whole = _verdict(_packets(name), tmp_path).seen.timeline.smss
    made = degrade(*degrade(*_packets(name), kind="MSS rewritten", seed=1), kind="GSO at the sender", seed=1)
    assert _verdict(made, tmp_path).seen.timeline.smss == whole


@pytest.mark.parametrize(
    ("fills_ms", "resolution_ns", "late_ms"),
    [
        pytest.param([7.8, 7.9, 7.7, 8.1], 1, 0, id="few loss events show no habit"),
        pytest.param(4 * [7.8, 7.9, 7.7, 8.1], 1, 0.3, id="nearly with the third, time and again: it was asked for"),
        pytest.param(4 * [4.2, 4.1, 4.3, 4.2], 1, 0, id="behind the second: a sender that waits for fewer"),
        pytest.param(4 * [4.2, 7.9, 5.9, 6.5], 1, 0, id="anywhere between: a sender that waits for a time"),
        pytest.param(4 * [7.8, 7.9, 7.7, 8.1], 1_000_000, 0, id="no order within a tick"),
    ],
)
def test_a_repair_nearly_with_what_asks_for_it_was_stamped_before_it(
    fills_ms: list[float], resolution_ns: int, late_ms: float
) -> None:
    """Duplicates 4 ms apart, the third at 8 ms, in each loss event."""
    count, acks_ms = len(fills_ms), np.array([0.0, 4.0, 8.0])
    heard = (100 * np.arange(count)[:, None] + acks_ms).ravel() * 1e6
    sent = (100 * np.arange(count) + np.array(fills_ms)) * 1e6
    order = np.argsort(np.argsort(np.concatenate((heard, sent))))
    holes = 10_000 * np.arange(count)
    acks = {
        "dup_count": np.tile([1, 2, 3], count),
        "ack_offset": np.repeat(holes, 3),
        "packet": order[: 3 * count],
        "sack_edges": np.zeros(0),
    }
    segments = {"offset": holes, "is_retransmission": np.ones(count, dtype=bool), "packet": order[3 * count :]}
    found = asked_late_ns(segments, acks, (sent.astype(np.int64), heard.astype(np.int64)), resolution_ns)
    assert found == pytest.approx(late_ms * 1e6)


def _later(packet: RawPacket, time_ns: int) -> RawPacket:
    """By so much on all three clocks, whose ticks are milliseconds."""
    packet = replace(packet, time_ns=packet.time_ns + time_ns)
    for kind, at, _ in options_of(packet):
        if kind == TIMESTAMPS:
            for place in (at + 2, at + 6):
                value = int.from_bytes(packet.data[place : place + 4]) + time_ns // 1_000_000
                packet = packet.with_bytes(place, (value % (1 << 32)).to_bytes(4))
    return packet


def test_round_trips_shorter_than_the_clock_tells_show_no_window(tmp_path: Path) -> None:
    found = _verdict(degrade(*_packets("reno_10M"), kind="clock of 1 s", seed=1), tmp_path).as_dict()
    assert (found["slow_starts"]["per_cycle"], found["limits"]) == ([], {})
    assert "no round is told from the next" in " ".join(found["reasons"])


def test_stamps_that_are_all_one_bound_no_round_trip(tmp_path: Path) -> None:
    """A clock of a second shows no tick in a transfer of half of one."""
    link, packets = _packets("reno_10M")
    begin = packets[0].time_ns // SECOND * SECOND
    found = _verdict((link, [replace(packet, time_ns=begin) for packet in packets[:200]]), tmp_path).as_dict()
    base = found["path"]["base_rtt_s"]
    assert (base["value"], base["low"], base["high"]) == (None, None, None)
    assert "does not tell a round trip" in base["method"]


def test_marks_of_the_path_are_told_and_their_cuts_are_no_riddle(tmp_path: Path) -> None:
    """Bits set in a capture: twenty ACKs echo a mark, twice."""
    link, packets = _packets("reno_10M")
    own = sender_of(packets)
    heard = [index for index, packet in enumerate(packets) if packet.source != own]
    marked = {*heard[500:520], *heard[900:920]}
    echoed = [_echoing(packet) if index in marked else packet for index, packet in enumerate(packets)]
    found = _verdict((link, echoed), tmp_path).as_dict()
    assert found["tap"]["ecn_cuts"] == 2
    assert "told to slow down by ECN marks twice" in found["diagnosis"]
    assert (found["sender_tcp"]["congestion_control"], found["slow_starts"]["regime"]) == (None, "undecided")


def _echoing(packet: RawPacket) -> RawPacket:
    return packet.with_bytes(packet.tcp + 13, bytes([ACK | ECE]))


def _packets(name: str) -> tuple[int, Packets]:
    return read_packets(OWN / f"{name}.pcap.gz")


def _verdict(made: tuple[int, Packets], folder: Path) -> Verdict:
    path = folder / "made.pcap"
    write_packets(path, *made)
    (found,) = classify(read(path), file=path.name)
    return found


@pytest.mark.parametrize(("name", "kept", "hides"), [("cubic_v6_two_nodes", 96, False), ("reno_10M", 68, True)])
def test_a_cut_block_behind_one_that_was_known_tells_nothing_new(
    name: str, kept: int, tmp_path: Path, *, hides: bool
) -> None:
    """RFC 2018 section 4: the latest block comes first. Of three the last is cut here, or all behind the first."""
    link, packets = _packets(name)
    found = _verdict((link, [replace(each, data=each.data[: each.ip + kept]) for each in packets]), tmp_path)
    assert (found.who.tap.cut_acks > 0) == found.who.tap.hides_blocks == hides


@pytest.mark.parametrize(("missed", "said"), [([0], 10), ([4], 10), ([9], None), ([8, 9], None)])
def test_a_first_flight_of_which_the_tap_lost_a_segment(missed: list[int], said: int | None, tmp_path: Path) -> None:
    """What is missing at its beginning or within it is known by what surrounds it; its end is not."""
    link, packets = _packets("reno_10M")
    packets, own = packets[:600], sender_of(packets)
    data = [packet for packet in packets if packet.source == own and packet.payload > 0]
    lost = [data[index] for index in missed]
    found = _verdict((link, [packet for packet in packets if packet not in lost]), tmp_path)
    assert found.as_dict()["initial_window"]["segments"] == said


@pytest.mark.parametrize("unit_ns", [1, 1_000])
def test_who_reads_both_ways_together_stamps_nothing_finer(unit_ns: int, tmp_path: Path) -> None:
    link, packets = _packets("reno_loss")
    polled = degrade(link, packets, kind="stamped by polls", seed=1)[1]
    found = _verdict((link, [_later(each, each.time_ns // unit_ns * unit_ns) for each in polled]), tmp_path)
    base = found.path.base_rtt_s
    assert found.who.tap.clock.resolution_ns > 1_000_000
    assert base.high is not None
    assert base.high > _verdict((link, packets), tmp_path).path.base_rtt_s.value


def test_answers_at_once_are_not_polled() -> None:
    """A sender without a delay answers with the ACK's own stamp: one order, whatever comes by chance."""
    heard = np.cumsum(np.random.default_rng(1).integers(100_000, 2_000_000, 3_000))
    stamps, is_sent = np.repeat(heard, 3), np.resize([False, True, True], 9_000)
    assert clock_of(stamps, is_sent).resolution_ns == 1


def test_segments_of_a_small_path_are_told_without_a_syn(tmp_path: Path) -> None:
    """A sixth of the segments reaches the tap two at once: the others' size is the path's."""
    link, packets = _packets("reno_loss")
    own = sender_of(packets)
    found: Packets = []
    for number, packet in enumerate(each for each in packets if not each.flags & SYN):
        last = found[-1] if found else packet
        is_next = last.source == packet.source == own and packet.seq == last.seq + last.payload
        if number % 6 == 0 and is_next and packet.payload == last.payload > 0:
            found[-1] = replace(last, length=last.length + packet.payload)
        else:
            found.append(packet)
    sizes = [packet.payload for packet in packets if packet.source == own]
    assert _verdict((link, found), tmp_path).seen.timeline.smss == max(sizes)


def test_a_loss_on_its_way_may_begin_another_slow_start(tmp_path: Path) -> None:
    """A slow start that fills a buffer is cut before the first answer to what was lost."""
    link, packets = _packets("reno_10M")
    whole = _verdict((link, packets), tmp_path)
    cut_ns = packets[first_again(packets, after=0)].time_ns - round(whole.path.base_rtt_s.value * SECOND)
    cut = _verdict((link, [each for each in packets if each.time_ns < cut_ns]), tmp_path)
    assert (cut.slow_starts.per_cycle, cut.slow_starts.regime) == ((), "undecided")


def test_recoveries_that_adjoin_are_two_wherever_they_are_captured(tmp_path: Path) -> None:
    """What one ACK released behind a retransmission was sent after it: its loss is another cycle's."""
    run = tapped(783005, tmp_path)
    assert run is not None
    counts = [len(main_verdict(run.places[place]).slow_starts.per_cycle) for place in ("sender", "receiver")]
    assert counts[0] == counts[1] > 50


@pytest.mark.parametrize("also", [None, "seen twice"])
def test_holes_that_nothing_captured_has_filled_leave_losses_open(also: str | None, tmp_path: Path) -> None:
    """Nor does a second copy of what was lost, which the tap itself has made, fill its hole."""
    link, packets = _packets("reno_loss")
    whole = _verdict((link, packets), tmp_path)
    taken = degrade(link, packets, kind="no segment twice", seed=1)
    found = _verdict(taken if also is None else degrade(*taken, kind=also, seed=1), tmp_path)
    assert whole.who.tap.repairs[0] > 0 == whole.who.tap.repairs[1]
    assert found.who.tap.repairs[1] == found.who.tap.repairs[0] > 0
    assert (found.losses["total"], found.slow_starts.per_cycle, found.slow_starts.regime) == (None, (), "undecided")
    assert (found.limits, found.path.buffer_packets.low, found.identified.control) == ({}, None, None)
