"""Round trip: simulate, tap at the sender, classify, compare with what the simulator knew."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tcptrace_lab.classify.verdict import Verdict, classify, judge
from tcptrace_lab.reconstruct.sender import sender
from tcptrace_lab.scenario import (
    ApplicationSpec,
    ConnectionSpec,
    ControlSpec,
    NodeSpec,
    PathSpec,
    ReceiverSpec,
    Scenario,
)
from tcptrace_lab.simulate import Run, simulate

# 1.5 Mbit/s and 512-byte packets as in Barakat & Altman 1998, at a tenth of their delay: a cycle takes seconds.
SMALL = PathSpec(nodes=(NodeSpec(rate_bps=1.5e6, buffer=8, delay_s=0.05),), return_delay_s=0.05, packet_bytes=512)
WIDE = PathSpec(nodes=(NodeSpec(rate_bps=10e6, buffer=30, delay_s=0.02),), return_delay_s=0.02)


def run(path: PathSpec, control: ControlSpec, *, profile: str = "ns2", duration_s: float = 30.0, **more: Any) -> Run:
    sender = ConnectionSpec(control=control, **more)
    return simulate(Scenario(path=path, connections=(sender,), duration_s=duration_s, profile=profile))


def verdict(of: Run) -> Verdict:
    return next(iter(classify(of.capture(tap="sender"))))


def restarts(of: Run) -> int:
    """How often the sender's window fell to one segment."""
    segments = (of.windows["cwnd"] / of.windows["smss"]).tolist()
    return sum(before > 1 and after <= 1 for before, after in pairwise(segments))


@pytest.mark.parametrize("buffer", [3, 5, 8, 12, 20])
def test_tahoes_slow_starts_per_cycle_at_many_buffers(buffer: int) -> None:
    """The steady number that the engine counts from its own window, and every restart."""
    path = replace(SMALL, nodes=(replace(SMALL.nodes[0], buffer=buffer),))
    done = run(path, ControlSpec(recovery="tahoe"), duration_s=60.0)
    found = verdict(done)
    # "1/2": the engine counted both in the steady state. The first cycle, without a threshold, is not in it.
    wanted = {int(count) for count in str(done.summary["slow_starts_per_cycle"]).split("/")}
    assert set(found.slow_starts.per_cycle[1:]) == wanted
    if len(wanted) == 1:
        assert found.slow_starts.regime == {1: "single", 2: "double", 3: "triple"}[wanted.pop()]
    assert sum(episode.restarts for episode in found.seen.episodes) == restarts(done)
    assert found.path.buffer_packets.value == pytest.approx(buffer, abs=1)


@pytest.mark.parametrize(
    ("rate_bps", "round_trip_s", "buffer"), [(0.5e6, 0.3, 20), (2e6, 0.1, 20), (2e6, 0.3, 40), (1e6, 0.18, 28)]
)
def test_a_flight_beyond_the_offered_window_tells_its_scale(rate_bps: float, round_trip_s: float, buffer: int) -> None:
    """Without SYNs 65535 may mean more: one flight beyond it shows that no slow start, and no restart, met it."""
    node = NodeSpec(rate_bps=rate_bps, buffer=buffer, delay_s=round_trip_s / 2)
    done = run(PathSpec(nodes=(node,), return_delay_s=round_trip_s / 2), ControlSpec(recovery="tahoe"), duration_s=90.0)
    found, counted = verdict(done), done.cycles["slow_starts"].tolist()
    said = list(found.slow_starts.per_cycle)
    assert said == counted[: max(len(said), len(counted) - 1)]
    assert found.who.tap.shift.value is None
    assert found.who.tap.least_shift > 0


def test_a_slow_start_that_ends_at_the_least_window_counts_no_cycles() -> None:
    """Without SYNs the window offered was perhaps twice as large: then a threshold ended it."""
    lossy = replace(WIDE, nodes=(replace(WIDE.nodes[0], loss=0.001),))
    done = run(lossy, ControlSpec(recovery="sack", max_window=44))
    found = verdict(done)
    assert found.who.tap.shift.value is None
    assert len(found.seen.episodes) > 1
    assert not found.slow_starts.per_cycle


@pytest.mark.parametrize("recovery", ["reno", "newreno", "sack"])
@pytest.mark.parametrize("acks", [1, 2])
def test_recovery_and_restarts_of_each_sender(recovery: str, acks: int) -> None:
    """RFC 5681, 6582, 6675: fast recoveries are no restarts, timeouts are."""
    done = run(replace(WIDE, packet_bytes=1000), ControlSpec(recovery=recovery, delayed_ack_segments=acks))
    found = verdict(done)
    assert sum(episode.restarts for episode in found.seen.episodes) == restarts(done)
    assert found.as_dict()["sender_tcp"]["recovery"] == recovery
    assert found.as_dict()["losses"]["total"] == pytest.approx(len(done.drops), abs=2)


def test_window_of_a_modern_stack_is_the_senders() -> None:
    """Before each ACK the flight is the simulator's cwnd, to a segment, at nine ACKs of ten."""
    done = run(WIDE, ControlSpec(recovery="sack", initial_window=10), profile="rfc", duration_s=10.0)
    table, truth = verdict(done).seen.windows, done.windows
    limited = table[table["limited_by"] == "cwnd"]
    at = truth["time_ns"].searchsorted(limited["time_ns"], side="right") - 1
    error = (limited["cwnd"].to_numpy() - truth["cwnd"].to_numpy()[at]) / truth["smss"].to_numpy()[at]
    assert (abs(error) <= 1.0).mean() > 0.9


def two_flows() -> Run:
    """The second flow begins five seconds after the first, whose queue stands from then on."""
    path = PathSpec(nodes=(NodeSpec(rate_bps=7e6, buffer=40, delay_s=0.01),), return_delay_s=0.025)
    senders = tuple(
        ConnectionSpec(control=ControlSpec(recovery="sack", window=window, initial_window=10), start_s=start_s)
        for window, start_s in (("reno", 0.0), ("cubic", 5.0))
    )
    return simulate(Scenario(path=path, connections=senders, duration_s=28.0, profile="rfc"))


def test_flows_of_one_queue_tell_each_other_of_it() -> None:
    """A flow that never met an empty queue: its least round trip is 59 ms alone, of 37 ms on the path."""
    capture = two_flows().capture(tap="sender")
    known = [verdict.path for verdict in classify(capture)]
    alone = judge(sender(capture[1]), file="").path
    assert alone.base_rtt_s.value is not None
    assert alone.base_rtt_s.value > 0.055
    for path in known:
        assert path.base_rtt_s.value == pytest.approx(0.0367, rel=0.1)
        assert path.buffer_packets.value == pytest.approx(40, abs=3)
        assert path.bottleneck_bps.value == pytest.approx(7e6, rel=0.01)


def test_a_flow_that_pauses_tells_nothing_of_the_queue_meanwhile() -> None:
    """Bursts of the other flow fill the queue at 0 s and at 5 s; in between this one meets its own queue only."""
    path = PathSpec(
        nodes=(NodeSpec(rate_bps=4e6, buffer=2000, delay_s=0.02, drop_packets=(450,)),), return_delay_s=0.02
    )
    linux = ControlSpec(recovery="sack", window="reno-linux", stack="linux", initial_window=10)
    control, receiver = replace(linux, slow_start_after_idle=False), ReceiverSpec(rwnd=3_000_000)
    bursts = ApplicationSpec(kind="schedule", writes=((0.0, 580_000), (5.0, 580_000)))
    senders = (
        ConnectionSpec(start_s=2.0, control=control, receiver=receiver),
        ConnectionSpec(control=control, receiver=receiver, application=bursts),
    )
    done = simulate(Scenario(path=path, connections=senders, duration_s=9.0, profile="rfc"))
    for judged in classify(done.capture(tap="sender")):
        assert judged.path.base_rtt_s.value == pytest.approx(0.043, rel=0.01)


def test_a_flow_of_another_path_tells_nothing() -> None:
    """Two flows at the same time, each with a queue of its own."""
    capture = two_flows().capture(tap="sender")
    who = sender(capture[0])
    elsewhere = verdict(run(WIDE, ControlSpec(recovery="sack", initial_window=10), profile="rfc")).seen
    assert judge(who, file="", beside=lambda: (elsewhere,)).path == judge(who, file="").path


@pytest.mark.parametrize("loss", [0.003, 0.01])
def test_random_losses_are_not_taken_for_a_full_buffer(loss: float) -> None:
    """A lossy link behind a long queue."""
    path = replace(WIDE, nodes=(replace(WIDE.nodes[0], buffer=500, loss=loss),))
    found = verdict(run(path, ControlSpec(recovery="sack", initial_window=10), profile="rfc")).as_dict()
    assert found["path"]["buffer_packets"]["value"] is None
    assert "overflow" not in found["losses"]["by_cause"]


def test_receivers_window_and_application_are_told_apart() -> None:
    """The same path: held back by 20 kB of window, or by bursts of 60 kB with silence between."""
    control = ControlSpec(recovery="sack", initial_window=10)
    narrow = verdict(run(WIDE, control, profile="rfc", receiver=ReceiverSpec(rwnd=20_000)))
    assert narrow.seen.limits["rwnd"] > 0.9
    bursts = ApplicationSpec(kind="on_off", bytes=60_000, off_s=1.0, repeats=10)
    idle = verdict(run(WIDE, control, profile="rfc", application=bursts))
    assert idle.seen.limits["application"] > 0.5
    assert idle.slow_starts.regime == "undecided"


@pytest.mark.parametrize("profile", ["ns2", "rfc"])
def test_a_tap_at_the_receiver_tells_the_same_with_and_without_a_handshake(profile: str) -> None:
    """No timestamps, and in the ns2 profile no SYN: the rhythm of arrivals and ACKs tells which released which, and the
    flights of the slow start that the connection began with the capture."""
    sender = ConnectionSpec(control=ControlSpec(recovery="tahoe"))
    taps = ("sender", "receiver")
    done = simulate(Scenario(path=SMALL, connections=(sender,), duration_s=20.0, profile=profile, taps=taps))
    at_sender, at_receiver = (next(iter(classify(done.capture(tap=tap)))).slow_starts for tap in taps)
    assert at_sender.regime != "undecided"
    assert at_receiver.regime == at_sender.regime
    assert at_receiver.per_cycle == at_sender.per_cycle


def test_m_start_is_detected_and_standard_slow_start_is_not() -> None:
    """Patel & Ganatra 2017, equation 3: steps 10, 9, ... 1, and again 10."""
    path = replace(WIDE, nodes=(replace(WIDE.nodes[0], buffer=400),))
    fast = verdict(run(path, ControlSpec(slow_start="m-start", recovery="sack"), duration_s=5.0)).as_dict()
    assert fast["m_start"] == {"detected": True, "step_cycle": list(range(10, 0, -1))}
    plain = verdict(run(path, ControlSpec(recovery="sack"), duration_s=5.0)).as_dict()
    assert plain["m_start"] == {"detected": False, "step_cycle": None}


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (700, "700 bytes sent, too few to show a control or what limited it: no losses"),
        (3000, "3000 bytes sent, too few to show a congestion control"),
        (60_000, "A sender whose control does not show"),
    ],
)
def test_a_short_transfer_is_said_to_be_one(sent: int, words: str) -> None:
    done = run(WIDE, ControlSpec(), profile="rfc", application=ApplicationSpec(kind="bytes", bytes=sent))
    assert verdict(done).as_dict()["diagnosis"].startswith(words)
