"""What a capture is sent again with: the application, the receiver and the path, recovered from it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tcptrace_lab import read
from tcptrace_lab.errors import LabError
from tcptrace_lab.replay.as_found import as_found
from tcptrace_lab.replay.closed_loop import again
from tcptrace_lab.scenario import ApplicationSpec, ConnectionSpec, ReceiverSpec, Scenario
from tcptrace_lab.scenario_file import load
from tcptrace_lab.simulate import simulate
from tests.conftest import ROOT, shared, shared_files
from tests.replay.loops import MODERN, comes_back, path, simulated

CAPTURES = ROOT / "captures"


def test_what_a_rate_releases_was_not_written_then() -> None:
    """BBR's segments follow no ACK: its application wrote at once, and another control is not held to BBR's pace."""
    found = as_found(read(shared("captures", "kernel", "bbr_20M.pcap.gz"))).connections[0]
    assert found.control_name == "bbr"
    assert found.written.application.kind == "bytes"


def test_an_application_s_writes_are_not_taken_for_a_pace() -> None:
    """A steady stream below the path's rate stays the application's."""
    writes = tuple((0.02 * number, 6_000) for number in range(300))
    application = ApplicationSpec(kind="schedule", writes=writes)
    run = again(simulated(ConnectionSpec(control=MODERN, application=application), way=path(rate_bps=4e6, buffer=20)))
    assert run.scenario.connections[0].application.kind == "schedule"


def test_a_beginning_without_a_handshake_is_still_a_beginning(tmp_path: Path) -> None:
    """ns-2's senders open no connection: one packet outstanding is a slow start, not a connection joined midway."""
    run = simulate(load(CAPTURES / "scenarios" / "small_buffers_B20.toml", overrides=["duration_s=60"]))
    run.write(tmp_path / "ns2.pcap", payload=False)
    found = as_found(read(tmp_path / "ns2.pcap")).connections[0]
    assert found.control.initial_window == 1
    assert found.control.initial_ssthresh == math.inf


def test_writes_at_their_own_times_are_recovered() -> None:
    """An application that nobody asks writes when it writes, whatever was delivered."""
    writes = ((0.0, 80_000), (0.6, 50_000), (1.9, 120_000))
    capture = simulated(ConnectionSpec(control=MODERN, application=ApplicationSpec(kind="schedule", writes=writes)))
    found = as_found(capture, control="reno").connections[0].written
    assert found.application.kind == "schedule"
    assert [size for _, size in found.application.writes] == [80_000, 50_000, 120_000]
    # The first write opens the connection: its bytes leave a round trip later.
    assert [at for at, _ in found.application.writes] == pytest.approx([0.0, 0.56, 1.86], abs=0.01)


def test_a_slow_reader_is_measured() -> None:
    """The window's right edge moves as the application reads."""
    receiver = ReceiverSpec(rwnd=60_000, reader_bps=2e6, delayed_ack_timer_s=0.04)
    control = replace(MODERN, delayed_ack_segments=2)
    application = ApplicationSpec(kind="bytes", bytes=1_500_000)
    capture = simulated(ConnectionSpec(control=control, receiver=receiver, application=application))
    habit = as_found(capture, control="reno").connections[0].habit
    assert habit.receiver.reader_bps == pytest.approx(2e6, rel=0.05)
    assert habit.delayed_ack_segments == 2
    assert habit.receiver.rwnd == pytest.approx(60_000, rel=0.05)


@pytest.mark.parametrize("every", [1, 2])
def test_delayed_acks_are_a_habit(every: int) -> None:
    """An ACK for every segment, or for every second one."""
    control = replace(MODERN, delayed_ack_segments=every)
    capture = simulated(ConnectionSpec(control=control, application=ApplicationSpec(kind="bytes", bytes=400_000)))
    assert as_found(capture, control="reno").connections[0].habit.delayed_ack_segments == every


def test_a_receiver_that_is_quick_at_first_is_so_behind_a_recovery_as_well() -> None:
    """The first loss comes before its 250 quick ACKs are used up: pairs within the recovery are holes that fill."""
    control = replace(MODERN, delayed_ack_segments=2)
    receiver = ReceiverSpec(quickack_segments=250)
    upload = ApplicationSpec(kind="bytes", bytes=2_000_000)
    capture = simulated(ConnectionSpec(control=control, receiver=receiver, application=upload), way=path(buffer=20))
    (one,) = as_found(capture, control="reno").connections
    recovered = one.verdict.seen.episodes[0].end_ns
    timeline = one.verdict.seen.timeline
    assert np.count_nonzero(timeline.newly_acked[timeline.ack_ns <= recovered]) < 200
    assert one.habit.receiver.quickack_segments == pytest.approx(250, abs=5)
    assert one.habit.delayed_ack_segments == 2


def test_a_receiver_that_acknowledges_many_at_once_is_no_pause() -> None:
    """Each ACK for some ten segments, as hosts that merge what comes in: the receiver's habit, not a standstill."""
    capture = simulated(ConnectionSpec(control=MODERN, application=ApplicationSpec(kind="bytes", bytes=2_000_000)))
    assert all(not one.pauses_ns for one in as_found(capture, control="reno").connections)


@pytest.mark.parametrize("extra_s", [0.0, 0.02, 0.05])
def test_a_way_that_is_longer_is_so_by_its_own_length_not_by_the_queue_it_never_saw_empty(extra_s: float) -> None:
    """The second begins over the first's standing queue: its least round trip has some of it."""
    upload = ApplicationSpec(kind="bytes", bytes=6_000_000)
    capture = simulated(
        ConnectionSpec(control=replace(MODERN, max_window=60), application=upload),
        ConnectionSpec(
            control=MODERN, application=ApplicationSpec(kind="bytes", bytes=2_000_000), start_s=1, extra_delay_s=extra_s
        ),
        way=path(rate_bps=8e6, buffer=60, one_way_s=0.02),
    )
    found = as_found(capture, control="reno").scenario.connections
    assert found[1].extra_delay_s == pytest.approx(extra_s, abs=0.0015)


def test_a_flow_that_shared_the_bottleneck_and_was_not_captured_is_said_and_bounded(tmp_path: Path) -> None:
    """Two senders, one left in the capture: half of what the queue served was somebody else's. With both: nothing."""
    upload = ApplicationSpec(kind="bytes", bytes=6_000_000)
    both = [ConnectionSpec(control=MODERN, application=upload)] * 2
    run = simulate(Scenario(path=path(buffer=40), connections=tuple(both), duration_s=8.0))
    run.write(tmp_path / "both.pcap", payload=False)
    port = run.ports[0][0]
    one = tmp_path / "one.pcap"
    one.write_bytes(only_port((tmp_path / "both.pcap").read_bytes(), port))
    (note,) = [note for note in as_found(read(one), control="reno").notes if "another flow" in note]
    told = float(note.partition("at least ")[2].partition(" Mbit/s")[0])
    shared = read(tmp_path / "both.pcap").connections["bytes"]
    assert told <= 10 * 1.1 * shared[1] / shared.sum()
    assert told > 2
    assert not any("another flow" in note for note in as_found(read(tmp_path / "both.pcap"), control="reno").notes)


def only_port(data: bytes, port: int) -> bytes:
    """A little-endian pcap's packets (Ethernet, IPv4) of one TCP port."""
    kept, at = [data[:24]], 24
    while at < len(data):
        end = at + 16 + int.from_bytes(data[at + 8 : at + 12], "little")
        tcp = at + 16 + 34
        if port in (int.from_bytes(data[tcp + side : tcp + side + 2], "big") for side in (0, 2)):
            kept.append(data[at:end])
        at = end
    return b"".join(kept)


@pytest.mark.parametrize("file", shared_files("captures", "public", pattern="*.[dp]*"), ids=str)
def test_any_capture_is_found_or_refused_in_one_line(file: Path) -> None:
    """Also where the windows' rows are fewer than what the limits were judged by."""
    try:
        found = as_found(read(file)).scenario.connections
    except LabError as error:
        told, found = str(error), ()
    else:
        told = ""
    assert "\n" not in told
    assert all(one.receiver.rwnd > 0 for one in found)


def test_a_reader_that_keeps_up_on_average_is_measured() -> None:
    """Its window never falls to half: what it reads while a burst comes in shows in the right edge."""
    receiver = ReceiverSpec(rwnd=66_000, reader_bps=9e6)
    way = path(rate_bps=16e6, buffer=200, one_way_s=0.05)
    upload = ApplicationSpec(kind="bytes", bytes=6_000_000)
    capture = simulated(ConnectionSpec(control=MODERN, receiver=receiver, application=upload), way=way)
    habit = as_found(capture, control="reno").connections[0].habit
    assert habit.receiver.reader_bps == pytest.approx(9e6, rel=0.1)
    ((then, now),) = again(capture, control="reno").outcomes
    assert now.completion_s == pytest.approx(then.completion_s, rel=0.05)


def test_a_window_that_opens_as_data_comes_does_so_again() -> None:
    """Without SACK a Linux receiver opens it for nothing behind a hole: amid a recovery less is offered than later."""
    control = replace(MODERN, recovery="newreno", window="cubic-linux")
    way = path(rate_bps=5.6e6, buffer=36, one_way_s=0.027)
    upload = ApplicationSpec(kind="bytes", bytes=7_400_000)
    capture = simulated(ConnectionSpec(control=control, application=upload), way=way)
    found = as_found(capture).connections[0].habit
    assert found.opening is not None
    assert found.opening.initial_rwnd < found.receiver.rwnd // 4
    comes_back(again(capture))
