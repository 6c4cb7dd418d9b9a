"""What limited a sender, on captures made for one cause each: application, receiver, control; where it is not told."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from tcptrace_lab import read
from tcptrace_lab.classify.control.of_sender import no_evidence
from tcptrace_lab.classify.diagnosis import Course, diagnosis
from tcptrace_lab.classify.sender.limits import Known, limits_told, stood
from tcptrace_lab.classify.sender.written import does_not_grow
from tcptrace_lab.classify.verdict import Verdict, classify
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import build
from tcptrace_lab.scenario import (
    ApplicationSpec,
    ConnectionSpec,
    ControlSpec,
    NodeSpec,
    PathSpec,
    ReceiverSpec,
    Scenario,
)
from tcptrace_lab.simulate import simulate
from tests.conftest import ROOT
from tests.degrade import degrade, read_packets, write_packets
from tests.degrade.records import RawPacket

# 10 Mbit/s, 40 ms: a pipe of 33 packets, and twice that waiting.
PATH = PathSpec(nodes=(NodeSpec(rate_bps=10e6, buffer=66, delay_s=0.02),), return_delay_s=0.02)
SACK = ControlSpec(recovery="sack", initial_window=10, delayed_ack_segments=2, timestamps=True)
MS = 1_000_000
# An odd size: the last segment of each write is short of full.
PERIODIC = ApplicationSpec(kind="schedule", writes=tuple((0.01 * count, 5_000) for count in range(600)))
ANSWERS = ApplicationSpec(kind="turns", turns=tuple((0.03, 9_000 + 7_000 * (count % 3)) for count in range(60)))


FULL = Course(
    new_bytes=10_000_000, smss=1448, loss_times_s=(1.0, 2.0), stopped_s=0.0, is_full=True, grows_throughout=False
)
WIDE = PathSpec(nodes=(NodeSpec(rate_bps=200e6, buffer=5000, delay_s=0.05),), return_delay_s=0.05)
ONCE = ApplicationSpec(kind="bytes", bytes=1_000_000)


def verdicts(connection: ConnectionSpec, *, seconds: float = 6.0, path: PathSpec = PATH) -> tuple[Verdict, Verdict]:
    """At the sender and at the receiver."""
    taps = ("sender", "receiver")
    done = simulate(Scenario(path=path, connections=(connection,), duration_s=seconds, profile="rfc", taps=taps))
    found = [next(iter(classify(done.capture(tap=tap)))) for tap in taps]
    return found[0], found[1]


def test_writes_at_a_constant_pace_are_the_application() -> None:
    """4 Mbit/s into 10: half of the segments follow an ACK by chance, and no write fills the window."""
    at_sender, _ = verdicts(ConnectionSpec(control=SACK, application=PERIODIC, jitter_s=2e-5))
    assert at_sender.limits["application"] > 0.9
    assert "limited by what its application writes" in at_sender.as_dict()["diagnosis"]


def test_small_writes_of_one_size_are_the_application() -> None:
    """40 bytes every 5 ms, less than a full segment of any path has, while ACKs of those before come back."""
    # What the simulated sender calls full is what it writes, so that it sends each at once.
    path = replace(PATH, packet_bytes=92)
    writes = tuple((0.0502 + 0.005 * count, 40) for count in range(1_000))
    written = ApplicationSpec(kind="schedule", writes=writes)
    at_sender, _ = verdicts(ConnectionSpec(control=SACK, application=written, jitter_s=1e-2), path=path)
    assert at_sender.seen.timeline.smss == 40
    assert at_sender.limits["application"] > 0.9, at_sender.limits
    assert "limited by its application" in at_sender.diagnosis


def test_writes_that_meet_a_short_queue_are_no_window_at_the_receiver() -> None:
    """6 Mbit/s into 10: nine of ten round trips are longer by what is written at once. No window stays that level."""
    writes = tuple((0.012 * count, 9_000) for count in range(500))
    written = ApplicationSpec(kind="schedule", writes=writes)
    _, at_receiver = verdicts(ConnectionSpec(control=SACK, application=written, jitter_s=2e-5))
    assert at_receiver.limits["cwnd"] < 0.1, at_receiver.limits


def test_more_in_flight_than_the_window_allows_may_be_acks_that_are_missing(tmp_path: Path) -> None:
    """40 kB of the receiver's, and one ACK in twenty captured: not writes at their own times."""
    connection = ConnectionSpec(control=replace(SACK, timestamps=False), receiver=ReceiverSpec(rwnd=40_000))
    made = tmp_path / "made.pcap"
    done = simulate(Scenario(path=PATH, connections=(connection,), duration_s=4.0, profile="rfc", taps=("sender",)))
    done.write(made, tap="sender", payload=False)
    write_packets(made, *degrade(*read_packets(made), kind="bare ACKs stripped", seed=1))
    (found,) = classify(read(made))
    assert found.who.tap.exceeds_scale
    assert found.limits["unknown"] > 0.9, found.limits


def test_a_message_every_20_ms_is_the_application() -> None:
    """The first is full and 0.3 ms behind the handshake, which takes 40 ms: no line before the tap takes that."""
    writes = ((0.0404, 1448), *((0.0502 + 0.02 * count, 1_200) for count in range(300)))
    written = ApplicationSpec(kind="schedule", writes=writes)
    at_sender, _ = verdicts(ConnectionSpec(control=SACK, application=written, jitter_s=2e-5))
    assert at_sender.limits["application"] > 0.9, at_sender.limits
    assert "limited by what its application writes" in at_sender.diagnosis


@pytest.mark.parametrize("timestamps", [True, False])
def test_a_bottleneck_that_is_always_busy_is_named_at_the_receiver_too(timestamps: bool) -> None:
    """Which window fills the pipe may be open there; that it is full is not."""
    control = replace(SACK, window="cubic-linux", timestamps=timestamps)
    for found in verdicts(ConnectionSpec(control=control), seconds=8.0):
        assert "limited by a 10 Mbit/s bottleneck" in found.diagnosis, (found.who.vantage, found.limits)


def test_a_bottleneck_that_losses_leave_busy_is_what_limits_it() -> None:
    """BBR keeps the pipe full whatever is lost: most of its time is some recovery's, and none of it is lost by that."""
    lossy = replace(PATH, nodes=(replace(PATH.nodes[0], loss=0.03),))
    control = replace(SACK, window="bbr")
    for found in verdicts(ConnectionSpec(control=control), seconds=8.0, path=lossy):
        assert "limited by a 10 Mbit/s bottleneck" in found.diagnosis, (found.who.vantage, found.limits)
        assert "known ones" not in found.diagnosis


def test_losses_of_more_than_one_in_ten_are_counted_at_the_receiver() -> None:
    """A slow start that overshoots a small buffer: what fills its holes comes a round trip later, not out of order."""
    overshot = replace(PATH, nodes=(NodeSpec(rate_bps=5e6, buffer=100, delay_s=0.15),), return_delay_s=0.15)
    control = replace(SACK, window="cubic-linux")
    connection = ConnectionSpec(control=control, application=ApplicationSpec(kind="bytes", bytes=1_200_000))
    at_sender, at_receiver = verdicts(connection, seconds=20.0, path=overshot)
    assert at_sender.losses["total"] > 0.1 * 1_200_000 / 1448
    assert at_receiver.losses["total"] == at_sender.losses["total"]


def test_answers_to_requests_are_the_application_at_both_ends() -> None:
    """Each is sent in a burst below the window, and the window is empty before the next."""
    for found in verdicts(ConnectionSpec(control=SACK, application=ANSWERS)):
        assert found.limits["application"] > 0.5, found.limits
        assert found.limits["cwnd"] < 0.3, found.limits


@pytest.mark.parametrize("window", ["reno", "cubic-linux"])
@pytest.mark.parametrize(("most", "what"), [(20, "below the pipe"), (40, "in a queue that never overflows")])
def test_what_stands_is_no_window_at_work(window: str, most: int, what: str) -> None:
    """A pipe of 33 and its queue; each segment released by an ACK: a send buffer, or a fixed window, whatever the
    control. Nothing of the window is seen then but that it is as large."""
    for found in verdicts(ConnectionSpec(control=replace(SACK, window=window, max_window=most)), seconds=12.0):
        assert found.limits["cwnd"] < 0.1, (what, found.limits)
        plain = found.as_dict()
        assert "limited by its send buffer" in plain["diagnosis"]
        assert plain["sender_tcp"]["congestion_control"] is None
        assert window.split("-", maxsplit=1)[0] in [
            row["name"] for row in plain["sender_tcp"]["candidates"] if not row["against"]
        ]
        last = found.seen.windows.iloc[-len(found.seen.windows) // 2]
        assert last["cwnd_low"] > (most - 3) * found.seen.timeline.smss
        assert pd.isna(last["cwnd_high"])


def test_a_window_that_stands_between_losses_is_told_by_what_grows_back_to_it() -> None:
    """Scalable up to 40 segments, a loss in a thousand: its cuts and its growth below them name it, not Vegas."""
    control = replace(SACK, window="scalable", max_window=40)
    lossy = replace(PATH, nodes=(replace(PATH.nodes[0], loss=0.002),))
    found, _ = verdicts(ConnectionSpec(control=control), path=lossy, seconds=30.0)
    assert found.seen.stands.any()
    assert "scalable" in [each.candidate.name for each in found.identified.left]
    assert "vegas" not in [each.candidate.name for each in found.identified.left]


def test_a_window_that_delay_holds_at_its_most_is_told_by_where_it_comes_back_to() -> None:
    """Vegas, whose slow start a loss ended early: it stands at the most it ever sent, where its own law has it."""
    control = replace(SACK, window="vegas")
    lossy = replace(PATH, nodes=(replace(PATH.nodes[0], buffer=4, loss=0.0005),))
    for found in verdicts(ConnectionSpec(control=control, jitter_s=1e-5), path=lossy, seconds=30.0):
        assert found.seen.stands.any()
        assert found.identified.control == "vegas", found.identified.reasons
        assert "send buffer" not in found.as_dict()["diagnosis"]


@pytest.mark.parametrize("most", [35, 36, 37, 38])
def test_a_fixed_window_near_where_delay_would_hold_one_is_not_vegas(most: int) -> None:
    """A few packets in the queue, as Vegas has: but it stands where it stands, whatever the round trips say."""
    control = replace(SACK, window="reno", byte_counting=True, max_window=most)
    lossy = replace(PATH, nodes=(replace(PATH.nodes[0], loss=0.0005),))
    found, _ = verdicts(ConnectionSpec(control=control, jitter_s=1e-5), path=lossy, seconds=30.0)
    assert found.seen.stands.any()
    assert found.identified.control != "vegas", found.identified.reasons


def test_a_small_window_that_is_cut_mildly_does_not_stand() -> None:
    """Scalable over a pipe of 10: from 14 segments to 12 and back within some round trips, all near its largest."""
    small = replace(PATH, nodes=(NodeSpec(rate_bps=5e6, buffer=5, delay_s=0.0115),), return_delay_s=0.0115)
    for found in verdicts(ConnectionSpec(control=replace(SACK, window="scalable")), path=small, seconds=12.0):
        assert not found.seen.stands.any()
        assert "send buffer" not in found.as_dict()["diagnosis"]


def test_a_window_that_grows_to_its_losses_does_not_stand() -> None:
    """At its largest for a moment in each cycle; a cubic, for longer."""
    for window in ("reno", "cubic-linux"):
        found, _ = verdicts(ConnectionSpec(control=replace(SACK, window=window)), seconds=30.0)
        assert not found.seen.stands.any()


@pytest.mark.parametrize("window", ["reno", "cubic-linux", "vegas"])
def test_a_window_at_work_is_not_the_application(window: str) -> None:
    """Bulk data: at both ends."""
    for found in verdicts(ConnectionSpec(control=replace(SACK, window=window))):
        assert found.limits["application"] < 0.05, found.limits


def test_a_slow_start_is_the_windows_wherever_it_was_captured() -> None:
    """10, 20, 40, 80 segments and the end: nothing else doubles."""
    for found in verdicts(ConnectionSpec(control=SACK, application=ONCE), path=WIDE):
        assert found.limits["cwnd"] > 0.9, found.limits
        assert "in slow start to its end" in found.as_dict()["diagnosis"]


def test_a_sender_that_paces_itself_is_limited_by_its_control() -> None:
    """BBR's segments leave at its rate, not with ACKs: that is its window at work."""
    found, _ = verdicts(ConnectionSpec(control=replace(SACK, window="bbr")), seconds=30.0)
    assert found.identified.control == "bbr"
    assert found.limits["cwnd"] > 0.9, found.limits


def test_a_reader_that_stops_is_told_where_nothing_else_is(tmp_path: Path) -> None:
    """RFC 9293 section 3.8.6: a closed window is the receiver's at any tap, whatever the scale."""
    slow = ReceiverSpec(rwnd=60_000, reader_bps=2e6)
    for found in verdicts(ConnectionSpec(control=SACK, receiver=slow)):
        assert found.limits["rwnd"] > 0.5, found.limits


def test_without_the_window_scale_neither_window_is_named(tmp_path: Path) -> None:
    """RFC 7323 section 2.2: no SYN, no scale. What was in flight bounds it from below."""
    narrow = ConnectionSpec(control=SACK, receiver=ReceiverSpec(rwnd=40_000))
    done = simulate(Scenario(path=PATH, connections=(narrow,), duration_s=5.0, profile="rfc"))
    done.write(tmp_path / "whole.pcap")
    write_packets(tmp_path / "x.pcap", *degrade(*read_packets(tmp_path / "whole.pcap"), kind="no SYN", seed=1))
    found = next(iter(classify(read(tmp_path / "x.pcap"))))
    assert found.who.tap.shift.value is None
    assert found.limits["rwnd"] == 0.0
    assert found.limits["unknown"] > 0.8


def test_a_short_answer_between_long_ones_is_no_probe_of_the_round_trip() -> None:
    """Four segments in flight for 200 ms, after ten seconds, and the rate as before: but the network was empty."""
    long, short = (0.04, 40 * 1448), (0.16, 4 * 1448)
    answers = ApplicationSpec(kind="turns", turns=(*(long,) * 100, short, *(long,) * 10))
    found, _ = verdicts(ConnectionSpec(control=SACK, application=answers, jitter_s=2e-5), seconds=16.0)
    assert found.identified.control is None


def degraded(connection: ConnectionSpec, folder: Path, *, kind: str, tap: str, path: PathSpec = PATH) -> Verdict:
    done = simulate(Scenario(path=path, connections=(connection,), duration_s=6.0, profile="rfc", taps=(tap,)))
    done.write(folder / "whole.pcap", tap=tap)
    write_packets(folder / "x.pcap", *degrade(*read_packets(folder / "whole.pcap"), kind=kind, seed=1))
    return next(iter(classify(read(folder / "x.pcap"))))


@pytest.mark.parametrize(
    ("kind", "timestamps"), [("bare ACKs stripped", True), ("data only", True), ("data only", False)]
)
@pytest.mark.parametrize("tap", ["sender", "receiver"])
def test_a_slow_start_shows_in_the_data_alone(kind: str, timestamps: bool, tap: str, tmp_path: Path) -> None:
    """Flights of 10, 20, 40 segments a round trip apart, which a handshake or they themselves tell."""
    control = replace(SACK, timestamps=timestamps)
    found = degraded(ConnectionSpec(control=control, application=ONCE), tmp_path, kind=kind, tap=tap, path=WIDE)
    assert found.limits["cwnd"] > 0.6, found.limits
    assert found.limits["cwnd"] + found.limits["unknown"] > 0.95, found.limits


@pytest.mark.parametrize("kind", ["bare ACKs stripped", "tap lost half of the ACKs"])
@pytest.mark.parametrize("tap", ["sender", "receiver"])
def test_where_acks_are_missing_no_window_is_named(kind: str, tap: str, tmp_path: Path) -> None:
    """The receiver's window holds the sender; without timestamps, more seems to be in flight than it allows."""
    narrow = ConnectionSpec(control=replace(SACK, timestamps=False), receiver=ReceiverSpec(rwnd=20_000))
    limits = degraded(narrow, tmp_path, kind=kind, tap=tap).limits
    assert limits.get("cwnd", 0.0) + limits.get("application", 0.0) <= 0.1, limits


def test_pauses_are_seen_between_acks_that_were_put_back(tmp_path: Path) -> None:
    """ACKs that released nothing are named by no segment: what arrived behind the last that is named was answered."""
    pauses = ApplicationSpec(kind="on_off", bytes=122_000, off_s=3.0)
    connection = ConnectionSpec(control=SACK, application=pauses)
    _, whole = verdicts(connection)
    found = degraded(connection, tmp_path, kind="bare ACKs stripped", tap="receiver")
    assert found.who.tap.has_all_acks
    assert len(found.who.timeline.ack_ns) > 0.8 * len(whole.who.timeline.ack_ns)
    assert found.limits["application"] == pytest.approx(whole.limits["application"], abs=0.1)


@pytest.mark.parametrize(("is_asked", "share"), [(True, 1.0), (False, 0.0)])
def test_the_time_to_the_next_request_is_the_applications(is_asked: bool, share: float) -> None:
    """Answers of four and a half segments in 100 ms, each asked for by what acknowledges the one before."""
    times = [100 * MS * turn + place for turn in range(10) for place in range(5)]
    ends = [
        1000 * number + 500 * turn
        for turn in range(10)
        for number in (*range(4 * turn + 1, 4 * turn + 5), 4 * turn + 4)
    ]
    ends[4::5] = [end + 500 for end in ends[4::5]]
    acked = ends[4::5]
    columns = {
        "send_ns": times,
        "send_offset": [0, *ends[:-1]],
        "send_end": ends,
        "ack_ns": [100 * MS * turn - 1000 for turn in range(1, 11)],
        "ack_offset": acked,
        "is_bare": [not is_asked] * 10,
    }
    limits = Reconstruction(build(columns, smss=1000)).limits
    assert limits["application"] == pytest.approx(share, abs=0.15), limits


def test_a_law_that_was_followed_was_a_window_at_work() -> None:
    """At a receiver without timestamps the flight is blurred; that CUBIC's law was followed tells that it held."""
    lossy = replace(PATH, nodes=(replace(PATH.nodes[0], buffer=30, loss=0.002),))
    control = replace(SACK, window="cubic-linux", timestamps=False)
    at_sender, at_receiver = verdicts(ConnectionSpec(control=control), path=lossy, seconds=30.0)
    assert at_receiver.who.is_blurred
    assert at_receiver.identified.refuted
    assert at_receiver.limits["cwnd"] == pytest.approx(at_sender.limits["cwnd"], abs=0.1)


def test_one_odd_round_trip_does_not_hide_that_a_flight_stands() -> None:
    """Three segments that left an ACK early, once in six seconds: a window that grew would have come there to stay."""
    found, _ = verdicts(ConnectionSpec(control=replace(SACK, max_window=20)), seconds=12.0)
    timeline = found.seen.timeline
    middle, send_ns = len(timeline.send_ns) // 2, timeline.send_ns.copy()
    send_ns[middle : middle + 3] = send_ns[middle - 1]
    odd = Reconstruction(replace(timeline, send_ns=send_ns))
    assert odd.flight.max() > found.seen.flight.max()
    assert stood(odd) > 0.9


def test_few_segments_that_an_application_leaves_outstanding_are_no_window() -> None:
    """Two segments every 50 ms over 40 ms: as much in each round trip as in the next, and nothing held them back."""
    writes = tuple((0.0502 + 0.05 * count, 2 * 1448) for count in range(200))
    written = ApplicationSpec(kind="schedule", writes=writes)
    for found in verdicts(ConnectionSpec(control=SACK, application=written), seconds=12.0):
        assert "send buffer, or by a window" not in found.diagnosis


def test_where_no_write_ends_a_send_buffer_is_not_told_from_its_application() -> None:
    """A full segment every 5 ms may be all there was, or wait for room to be written; what ends in a pause is all."""
    full = ApplicationSpec(kind="schedule", writes=tuple((0.0502 + 0.005 * count, 1448) for count in range(2_000)))
    for written, is_even in ((full, True), (ANSWERS, False)):
        found, _ = verdicts(ConnectionSpec(control=SACK, application=written, jitter_s=2e-5))
        assert found.limits["application"] > 0.5, found.limits
        assert ("what its application writes, by its send buffer" in found.diagnosis) == is_even


def test_what_an_application_holds_back_is_no_send_buffers() -> None:
    """Writes of one size fill the same flight again and again, also where most of the time is between them."""
    found, _ = verdicts(ConnectionSpec(control=SACK), seconds=20.0)
    told = {**found.as_dict(), "limits": {"application": 0.67, "unknown": 0.33}}
    assert "limited by its application" in diagnosis(told, replace(FULL, is_kept=True))


@pytest.mark.parametrize(("recovery", "words"), [(0.45, "held back by losses: 45%"), (0.2, "limited by a 10 Mbit/s")])
def test_the_larger_of_window_and_recovery_is_told(recovery: float, words: str) -> None:
    found, _ = verdicts(ConnectionSpec(control=SACK), seconds=20.0)
    told = {**found.as_dict(), "limits": {"cwnd": 0.4, "recovery": recovery, "unknown": 0.6 - recovery}}
    told["losses"] = {**told["losses"], "total": 10, "by_cause": {"overflow": 10}}
    assert words in diagnosis(told, FULL)


def test_a_rate_that_changes_is_told_as_such() -> None:
    found, _ = verdicts(ConnectionSpec(control=SACK), seconds=20.0)
    told = found.as_dict()
    told["path"]["bottleneck_bps"]["between"] = [2e6, 15e6]
    told["limits"] = {"cwnd": 0.9, "recovery": 0.1, "unknown": 0.0}
    told["losses"] = {**told["losses"], "total": 10, "by_cause": {"overflow": 10}}
    assert "a bottleneck whose rate changes, 2 Mbit/s to 15 Mbit/s" in diagnosis(told, FULL)


def test_away_from_the_sender_a_flight_near_the_offered_window_is_not_the_congestion_windows() -> None:
    """Without timestamps a law is followed there to the ACK, up to a window of 45 segments that holds it back at times:
    of how much was in flight behind a queue less is seen than there was."""
    node = NodeSpec(rate_bps=1.938e6, buffer=39, delay_s=0.1008, loss=0.00125)
    control = ControlSpec(window="veno", recovery="sack", initial_window=3, delayed_ack_segments=2)
    receiver = ReceiverSpec(rwnd=66_881, delayed_ack_timer_s=0.1)
    run = simulate(
        Scenario(
            path=PathSpec(nodes=(node,), return_delay_s=0.1008),
            connections=(ConnectionSpec(control=control, receiver=receiver),),
            duration_s=49.53,
            profile="rfc",
            taps=("sender", "receiver"),
            seed=993_005,
        )
    )
    at_sender, away = (next(iter(classify(run.capture(tap=tap)))).limits for tap in ("sender", "receiver"))
    assert at_sender["rwnd"] > 0.15
    assert away["cwnd"] <= at_sender["cwnd"] + 0.05


@pytest.mark.parametrize(("lost", "is_told"), [(60, False), (62, True), (63, True)])
def test_timeouts_that_nobody_answers_are_told(lost: int, *, is_told: bool) -> None:
    """A flight of 60 is lost to its end; with more than that, what the timer sends again is lost, twice and more."""
    first = 800
    node = replace(PATH.nodes[0], drop_packets=tuple(range(first, first + lost)))
    connection = ConnectionSpec(control=replace(SACK, max_window=60))
    for found in verdicts(connection, path=replace(PATH, nodes=(node,)), seconds=8.0):
        assert ("nothing was answered for" in found.diagnosis) is is_told, found.diagnosis
        assert found.diagnosis.endswith("once")
        # Of what a delayed ACK answered by twos no block had told: it had been lost too (RFC 2018 section 4).
        assert found.losses["total"] == lost


def test_what_a_timer_sends_again_may_have_been_lost_where_blocks_are_cut(tmp_path: Path) -> None:
    """Snap length 68: nothing tells what of a lost tail had arrived."""
    link, packets = read_packets(ROOT / "captures" / "reno_timeout.pcap.gz")
    write_packets(tmp_path / "x.pcap", *degrade(link, packets, kind="snaplen 68", seed=7))
    losses = next(iter(classify(read(tmp_path / "x.pcap")))).as_dict()["losses"]
    assert losses["total"] <= 42 <= losses["total"] + losses["possible_unseen"]


def test_a_window_that_marks_cut_does_not_grow_and_is_at_work() -> None:
    """No loss, and no growth for long: of a path that marks (RFC 3168) what tells nothing."""
    found, _ = verdicts(ConnectionSpec(control=replace(SACK, window="vegas")), seconds=12.0)
    seen, tap = found.seen, found.who.tap
    assert does_not_grow(seen)
    assert limits_told(seen, tap, Known())["cwnd"] == 0.0
    assert limits_told(seen, replace(tap, ecn_cuts=3), Known())["cwnd"] > 0.9


def test_growth_refutes_nobody_where_nothing_grew() -> None:
    """A pace that is set to less than the path carries holds what is outstanding, whatever its window would allow."""
    full = ApplicationSpec(kind="schedule", writes=tuple((0.0502 + 0.005 * count, 1448) for count in range(2_000)))
    found, _ = verdicts(ConnectionSpec(control=SACK, application=full, jitter_s=2e-5))
    families = (*found.identified.left, *found.identified.refuted)
    of_growth = replace(found.identified, left=families[:1], refuted=families[1:])
    for seen, is_told in ((found.seen, True), (verdicts(ConnectionSpec(control=SACK))[0].seen, False)):
        reason = no_evidence(found.sender_tcp, of_growth, seen)
        assert (reason is not None and "did not grow" in reason) == is_told


@pytest.mark.parametrize(("least_ns", "most_ns", "is_told"), [(35_000, 50_000, True), (35_000, 180_000, False)])
def test_a_host_that_is_slow_to_answer_is_clocked_all_the_same(
    least_ns: int, most_ns: int, *, is_told: bool, tmp_path: Path
) -> None:
    """ACKs 0.2 ms apart: an answer within an eighth of that is at once, and so is one that always takes as long."""
    fast = PathSpec(nodes=(NodeSpec(rate_bps=60e6, buffer=60, delay_s=0.006),), return_delay_s=0.006)
    connection = ConnectionSpec(control=replace(SACK, window="cubic", delayed_ack_segments=1))
    run = simulate(Scenario(path=fast, connections=(connection,), duration_s=2.0, profile="rfc", taps=("sender",)))
    run.write(tmp_path / "run.pcap", tap="sender", payload=False)
    link, packets = read_packets(tmp_path / "run.pcap")
    rng, sender = random.Random(1), source(packets[0])
    late = [
        replace(each, time_ns=each.time_ns + rng.randrange(least_ns, most_ns)) if source(each) == sender else each
        for each in packets
    ]
    write_packets(tmp_path / "late.pcap", link, sorted(late, key=lambda each: each.time_ns))
    (found,) = classify(read(tmp_path / "late.pcap"))
    assert (found.limits.get("cwnd", 0.0) > 0.9) == is_told


def source(packet: RawPacket) -> bytes:
    return packet.data[packet.ip + 12 : packet.ip + 16]
