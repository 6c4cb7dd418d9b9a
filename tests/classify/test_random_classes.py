"""Claims that random runs showed to be wrong: of each class one run, with the assumption that did not hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tcptrace_lab.classify.verdict import Verdict
from tcptrace_lab.reconstruct.tap.clock import clock_of
from tests.claims import main_verdict
from tests.degrade import degrade, read_packets, write_packets
from tests.random_degraded import against_truth, judged
from tests.random_runs import Tapped, tapped

MS = 1_000_000


def of(seed: int, folder: Path, *, kind: str = "", place: str = "sender") -> tuple[Tapped, Verdict]:
    """A run and the verdict on its capture at a place, made worse by a kind."""
    found = tapped(seed, folder)
    assert found is not None
    path = found.places[place]
    if kind:
        link, packets = read_packets(path)
        path = folder / "worse.pcap"
        write_packets(path, *degrade(link, packets, kind=kind, seed=found.scenario.seed))
    verdict = main_verdict(path, without=found.others)
    assert verdict is not None
    return found, verdict


@pytest.mark.parametrize("seed", [920042, 910042])
def test_a_burst_may_have_waited_before_a_faster_line(seed: int, tmp_path: Path) -> None:
    """A line of some times the bottleneck's rate stands before it: a burst's wait is the sum of both queues."""
    found, verdict = of(seed, tmp_path)
    low, true = verdict.path.buffer_packets.low, found.run.buffer_packets
    assert true is not None
    assert low is not None
    assert low <= true


@pytest.mark.parametrize(("seed", "place"), [(973026, "receiver"), (973027, "node0.out")])
def test_one_queue_at_inferred_times_is_none(seed: int, place: str, tmp_path: Path) -> None:
    """By the rhythm of the ACKs a segment may seem to have left several round trips before it did."""
    found, verdict = of(seed, tmp_path, place=place)
    low, true = verdict.path.buffer_packets.low, found.run.buffer_packets
    assert true is not None
    assert low is None or low <= true


@pytest.mark.parametrize(
    ("seed", "kind"),
    [
        (910014, "clock set forward"),
        (930008, "GSO at the sender + snaplen 60"),
        (910025, "clock of 4 ms"),
        (981003, "stamped by polls"),
        (983109, "tap reorders + stamped by polls"),
        (982024, "clock steps back"),
        (982056, "one way at first + jittered clock"),
        (8929102, "tap stalls"),
        (8956053, "tap stalls + IP identification 0"),
    ],
)
def test_the_round_trip_is_bounded_from_above_by_what_was_measured(seed: int, kind: str, tmp_path: Path) -> None:
    """Not across a step of the clock, not by the small packets of a handshake, and to the clock's tick.

    Nor where the tap stamps later than the sender's own clock, now more, now less, or has read a few turns late.
    """
    found, verdict = of(seed, tmp_path, kind=kind)
    high, true = verdict.path.base_rtt_s.high, found.run.base_rtt_s
    assert true is not None
    assert high is None or high >= true


def test_what_passed_while_the_clock_was_set_is_no_round_trip(tmp_path: Path) -> None:
    """Nor is a queue measured from it: the step is undone to some gaps between packets only."""
    found, verdict = of(970026, tmp_path, kind="clock set forward")
    base, buffer = verdict.path.base_rtt_s, verdict.path.buffer_packets
    assert base.value == pytest.approx(found.run.base_rtt_s, rel=0.05)
    assert found.run.buffer_packets is not None
    assert buffer.low is None or buffer.low <= found.run.buffer_packets


def test_a_tick_of_several_decimal_ones_is_told_by_what_all_stamps_have_in_common() -> None:
    """Stamps of a path that sends every 19 ms: 16 and 20 ms apart, so none shows the tick of 4 ms by itself."""
    stamps = np.arange(400) * 19_270_000 // (4 * MS) * (4 * MS)
    assert clock_of(stamps.astype(np.int64)).resolution_ns == 4 * MS


def test_where_others_were_not_seen_to_begin_the_queue_may_have_stood(tmp_path: Path) -> None:
    """A flow that has nine tenths of the rate meets a queue that stands all along, if others have the rest."""
    found, verdict = of(920015, tmp_path, kind="begins in avoidance + VLAN")
    low, true = verdict.path.base_rtt_s.low, found.run.base_rtt_s
    assert true is not None
    assert low is None or low <= true


def test_a_past_that_was_chosen_to_fit_is_ahead_in_more_than_a_few_pieces(tmp_path: Path) -> None:
    """YeAH cuts by the queue that it takes for its own: with some base round trip it cuts as a small Hybla."""
    _, verdict = of(2300083, tmp_path, kind="begins in avoidance")
    assert verdict.identified.control is None
    assert "hybla" in {each.candidate.name for each in verdict.identified.left}


def test_a_first_flight_that_is_not_known_to_the_segment_tells_no_other_initial_window(tmp_path: Path) -> None:
    """By rhythm a writer's first segments may all be taken to have left with the handshake's ACK."""
    found, verdict = of(910038, tmp_path, place="receiver")
    assert verdict.who.view is not None
    assert verdict.who.view.is_inferred
    first = verdict.as_dict()["initial_window"]["segments"]
    assert first in (None, found.scenario.connections[0].control.initial_window)


@pytest.mark.parametrize(
    ("seed", "kind"), [(972059, "bare ACKs stripped"), (971009, "jittered clock + bare ACKs stripped")]
)
def test_an_ack_of_what_left_later_is_not_the_first_flights(seed: int, kind: str, tmp_path: Path) -> None:
    """It acknowledges more than a receiver leaves waiting: those before it are missing, and released some of that."""
    found, verdict = of(seed, tmp_path, kind=kind)
    first = verdict.as_dict()["initial_window"]["segments"]
    assert first in (None, found.scenario.connections[0].control.initial_window)


def test_what_is_sent_again_without_sack_begins_where_the_ack_stands(tmp_path: Path) -> None:
    """At the receiver a tick has several ACKs: the last of them, not the first, let Tahoe go on."""
    found, verdict = of(920013, tmp_path, place="receiver")
    assert verdict.sender_tcp.recovery == "tahoe"
    assert not against_truth(found, verdict)


@pytest.mark.parametrize("seed", [910016, 930063])
def test_a_burst_written_in_another_order_was_sent_once(seed: int, tmp_path: Path) -> None:
    """Hundreds of holes at once: none of them is taken for filled before it is."""
    found, verdict = of(seed, tmp_path, kind="written late")
    assert found.losses[0] == 0
    assert not verdict.seen.episodes


def test_what_is_late_behind_a_pause_was_not_sent_again(tmp_path: Path) -> None:
    """The hole opened with the segment that overtook it, though nothing else was under way."""
    found, verdict = of(910002, tmp_path, kind="tap reorders + begins in avoidance")
    assert found.losses[1] == 0
    assert verdict.losses["total"] == 0


def test_a_copy_that_offload_cut_elsewhere_is_a_copy(tmp_path: Path) -> None:
    """Nothing asks within microseconds for what has just left."""
    found, verdict = of(930014, tmp_path, kind="seen twice + GSO at the sender")
    assert verdict.losses["total"] <= found.losses[1]
    assert verdict.limits["recovery"] < 0.1


def test_without_the_scale_a_writes_end_is_not_the_windows(tmp_path: Path) -> None:
    """Whether there was room in the receiver's window is not known."""
    _, whole = of(910003, tmp_path)
    _, verdict = of(910003, tmp_path, kind="window scale cut")
    assert verdict.limits["cwnd"] <= whole.limits["cwnd"] + 0.1
    assert verdict.limits["application"] > 0.3


@pytest.mark.parametrize(
    ("seed", "kind", "place"),
    [
        (950029, "no segment twice + stamped early", "sender"),
        (950036, "stamped by polls", "sender"),
        (971012, "", "receiver"),
        (982047, "one way at first + clock of 1 s", "sender"),
        (983026, "clock steps back", "sender"),
        (983071, "jittered clock", "sender"),
        (983072, "jittered clock", "sender"),
        (8956053, "tap stalls", "sender"),
        (8972048, "snaplen 68 + begins in a recovery", "receiver"),
    ],
)
def test_the_rate_is_the_paths(seed: int, kind: str, place: str, tmp_path: Path) -> None:
    """Not what an ACK tells of what came long before it, nor a window in a round trip that a poll makes longer.

    Nor what a writer sends, seen where it is not known when that left, nor at a clock that makes queues of nothing or
    runs so long that others' packets are in them; nor what two ticks of a second make of a second's data, or a tap
    that did not read for a while reads at once.
    """
    found, verdict = of(seed, tmp_path, kind=kind, place=place)
    rate, true = verdict.path.bottleneck_bps, found.run.bottleneck_bps
    assert true is not None
    assert rate.low is None or rate.low <= 1.05 * true
    assert rate.high is None or rate.high >= 0.95 * true


@pytest.mark.parametrize("seed", [910008, 930071])
def test_what_no_ack_had_room_for_may_have_arrived(seed: int, tmp_path: Path) -> None:
    """RFC 2018 section 3: an ACK of fourteen segments has room for three blocks. Nobody asks for what has just left."""
    found, verdict = of(seed, tmp_path)
    assert "drops" not in against_truth(found, verdict)
    assert verdict.losses["possible_unseen"] > 0


@pytest.mark.parametrize(("seed", "place"), [(980002, "node0.out"), (980040, "node0.out"), (983088, "node0.out")])
def test_what_waits_for_a_line_before_the_tap_is_in_flight(seed: int, place: str, tmp_path: Path) -> None:
    """Some ms for each full segment: the receiver's window is full though at the tap it is not."""
    found, verdict = of(seed, tmp_path, place=place)
    assert "sender's limits" not in against_truth(found, verdict)
    assert verdict.sender_tcp.recovery in (None, found.scenario.connections[0].control.recovery)
    assert verdict.as_dict()["sender_tcp"]["congestion_control"] != "unknown"


def test_behind_a_pause_the_window_that_the_next_ack_shows_was_the_limit(tmp_path: Path) -> None:
    """A window of three segments, and more to send: the application's time ended when it wrote."""
    found, verdict = of(983113, tmp_path)
    # In slow start over round trips of 0.72 s: five from the beginning, four behind the pause, of 12.3 s.
    assert verdict.limits["cwnd"] > 0.5
    assert verdict.limits["application"] < 0.45
    assert found.losses[1] == 0


def test_a_recovery_lasts_as_long_as_what_had_left_when_it_began(tmp_path: Path) -> None:
    """Lost before the tap, behind the rest of the flight: it may have left before the retransmission, or after."""
    _, whole = of(982042, tmp_path)
    _, verdict = of(982042, tmp_path, place="receiver")
    assert verdict.limits["recovery"] + verdict.limits["unknown"] >= whole.limits["recovery"] - 0.02
    assert verdict.limits["cwnd"] <= whole.limits["cwnd"] + 0.02


def test_no_round_trip_passes_a_step_back_of_the_clock(tmp_path: Path) -> None:
    """One that is short by the step would make a queue of that length of all others."""
    found, verdict = of(983071, tmp_path, kind="clock steps back + clock set forward")
    assert len(verdict.who.tap.clock.set_at) > 1
    assert found.run.buffer_packets is not None
    assert verdict.path.buffer_packets.low is None or verdict.path.buffer_packets.low <= found.run.buffer_packets


def test_a_burst_seen_elsewhere_may_have_been_written_later(tmp_path: Path) -> None:
    """At the receiver a writer's burst seems to leave with the ACK of all before: the wait for it is no window's."""
    found, verdict = of(972048, tmp_path, place="receiver")
    _, whole = of(972048, tmp_path)
    assert found.losses[1] == 0
    assert verdict.limits["cwnd"] <= whole.limits["cwnd"] + 0.1


def test_what_no_captured_ack_asked_for_shows_that_acks_are_missing(tmp_path: Path) -> None:
    """A timer would have restarted the window: it was told by duplicates, and when its recovery ended as well."""
    _, whole = of(972059, tmp_path)
    _, verdict = of(972059, tmp_path, kind="bare ACKs stripped")
    assert verdict.who.tap.tap_lost_acks > 100
    assert verdict.limits["recovery"] <= whole.limits["recovery"] + 0.1


def test_of_an_ack_that_is_missing_the_next_of_its_tick_is_no_cause_behind_its_effect(tmp_path: Path) -> None:
    """Half of the ACKs: what segments echo is not captured, or of the same tick and later."""
    found, verdict = of(980011, tmp_path, kind="tap lost half of the ACKs")
    assert verdict.who.tap.ahead_ns == 0
    assert verdict.identified.control in found.run.controls
    assert verdict.losses["total"] <= found.losses[1] <= verdict.losses["total"] + verdict.losses["possible_unseen"]


def test_no_control_is_called_unknown_for_a_window_that_the_receivers_hides(tmp_path: Path) -> None:
    """It grew on behind that, or it did not: a loss that leaves the flight as it was is no rule of its own."""
    found, verdict = of(972049, tmp_path)
    assert verdict.limits["rwnd"] > 0.1
    assert verdict.as_dict()["sender_tcp"]["congestion_control"] in (None, *found.run.controls)


def test_one_cycle_at_inferred_times_is_no_regime(tmp_path: Path) -> None:
    """By rhythm: whether its loss was followed by another slow start hangs on when what was put back had left."""
    _, verdict = of(980027, tmp_path, place="receiver")
    assert verdict.slow_starts.regime == "undecided"


def test_cycles_are_not_counted_from_what_no_captured_ack_asked_for(tmp_path: Path) -> None:
    """Several losses, and their recoveries' ends, may look like one where most ACKs are missing."""
    _, verdict = of(983061, tmp_path, kind="VLAN + bare ACKs stripped")
    assert not verdict.slow_starts.per_cycle


@pytest.mark.parametrize("seed", [700018, 700035])
def test_new_data_that_follows_a_retransmission_in_one_super_segment_was_not_lost(seed: int, tmp_path: Path) -> None:
    """What lies behind all that was sent before left for the first time."""
    found, verdict = of(seed, tmp_path, kind="GSO at the sender")
    assert "drops" not in against_truth(found, verdict)
    assert verdict.who.tap.offload_bytes


def test_a_hole_of_a_short_queue_is_filled_within_less_than_the_usual_round_trip(tmp_path: Path) -> None:
    """A flight of five segments waits for itself; what fills its hole meets no queue, and was not captured."""
    _, verdict = of(972018, tmp_path, kind="two clocks + no segment twice")
    assert verdict.losses["total"] is None


def test_super_segments_all_along_are_no_size_of_a_path(tmp_path: Path) -> None:
    """Without an MSS nearly all of 2920 bytes are two full frames of Ethernet each."""
    found, verdict = of(972037, tmp_path, kind="GSO at the sender + window scale cut")
    assert verdict.as_dict()["initial_window"]["segments"] == found.scenario.connections[0].control.initial_window


def test_one_alone_behind_the_first_flight_may_be_a_probe(tmp_path: Path) -> None:
    """RFC 8985: after two round trips of a handshake of which one SYN was not captured."""
    _, verdict = of(980063, tmp_path, kind="only the SYN-ACK")
    assert verdict.as_dict()["initial_window"]["segments"] is None


@pytest.mark.parametrize(
    ("seed", "kind"),
    [
        # Of round trips of which all but one take no tick the usual one is not told.
        (987007, "zero-window stall + clock of 1 s"),
        # What goes over its flight again behind the last ACK captured was answered by others.
        (987049, "SACK blocks stripped + one way at last"),
    ],
)
def test_where_answers_do_not_show_what_arrived_no_losses_are_counted(seed: int, kind: str, tmp_path: Path) -> None:
    """Neither that all that was sent again was lost, nor that none of it was."""
    _, verdict = of(seed, tmp_path, kind=kind)
    assert verdict.losses["total"] is None


def test_a_super_segment_waits_for_itself(tmp_path: Path) -> None:
    """Without a handshake the least round trip of several packets at once is no path's."""
    found, verdict = of(700010, tmp_path, kind="GSO at the sender + only the SYN-ACK")
    low, true = verdict.path.base_rtt_s.low, found.run.base_rtt_s
    assert low is not None
    assert true is not None
    assert low <= true


def test_a_flight_beyond_the_least_window_tells_that_no_window_ended_its_slow_start(tmp_path: Path) -> None:
    """With the scale cut from the SYNs: what was sent in one flight alone shows it."""
    _, whole = of(987033, tmp_path)
    _, verdict = of(987033, tmp_path, kind="window scale cut")
    assert verdict.who.tap.shift.value is None
    assert verdict.who.tap.least_shift <= whole.who.tap.shift.value
    assert verdict.slow_starts.per_cycle == whole.slow_starts.per_cycle


@pytest.mark.parametrize("seed", [994012, 994062, 1010039, 1200121])
def test_what_binds_is_asked_between_changes_of_the_window_too(seed: int, tmp_path: Path) -> None:
    """The truth's own rows stand where window or state change: a flight fills the offered window without one."""
    found, verdict = of(seed, tmp_path)
    assert found.limits
    assert found.limits["application"] == 0.0
    assert "sender's limits" not in against_truth(found, verdict)


def test_the_judge_of_limits_tells_one_window_from_the_other(tmp_path: Path) -> None:
    """30,000 bytes offered, all of them outstanding but for nine recoveries."""
    found, verdict = of(994062, tmp_path)
    assert found.limits["rwnd"] > 0.95
    exchanged = {**verdict.limits, "cwnd": verdict.limits["rwnd"], "rwnd": verdict.limits["cwnd"]}
    assert "sender's limits" in against_truth(found, replace(verdict, limits=exchanged))


def wrong_claims(seed: int, variant: str, folder: Path) -> dict[str, str]:
    """Of a run's capture at a place, or made worse by a kind."""
    found = tapped(seed, folder)
    assert found is not None
    kinds = [] if variant in found.places else [variant]
    return next(one.wrong for name, one in judged(found, kinds, folder) if name == variant)


@pytest.mark.parametrize(("seed", "variant"), [(1010006, "node0.out"), (1200143, "receiver")])
def test_what_a_host_takes_to_answer_is_no_pause(seed: int, variant: str, tmp_path: Path) -> None:
    """All was acknowledged, and what that ACK released passes microseconds later: the ACK's own limit stands."""
    assert not wrong_claims(seed, variant, tmp_path)


@pytest.mark.parametrize("seed", [1010051, 1010108, 1200131])
def test_what_comes_no_closer_than_acks_report_it_has_passed_the_bottleneck(seed: int, tmp_path: Path) -> None:
    """Near the sender by a handshake that met no queue, and no timestamps: the queue is before the tap all the same."""
    assert not wrong_claims(seed, "node0.out", tmp_path)


def test_a_segment_that_no_block_told_of_may_have_been_sent_again_needlessly(tmp_path: Path) -> None:
    """The last of a write, sent again before the answer to its first copy was due: each of 110 may be no loss."""
    assert not wrong_claims(1010037, "untouched", tmp_path)


def test_what_never_came_to_the_tap_gives_no_round_trip(tmp_path: Path) -> None:
    """It is put back among its neighbours: when it left is not known."""
    assert not wrong_claims(1200105, "tap lost 5 % + clock of 4 ms", tmp_path)


def test_no_rate_is_read_across_a_step_of_the_clock(tmp_path: Path) -> None:
    """What passed meanwhile is not known: six ACKs around three steps are too fast by one packet's time."""
    assert not wrong_claims(1010136, "clock steps back", tmp_path)


def test_what_fills_the_receivers_window_behind_a_recovery_is_no_reduction(tmp_path: Path) -> None:
    """A slow reader's two segments after each of 90 losses: YeAH's window was larger."""
    _, verdict = of(8720015, tmp_path)
    assert verdict.limits["rwnd"] > 0.5
    assert verdict.identified.control is None
