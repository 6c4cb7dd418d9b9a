"""Timers that expire before a loss event is over: again in a loss state, while new data is sent and lost on top, and in
a recovery without SACK while duplicate or partial ACKs still come."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcptrace_lab import read
from tcptrace_lab.classify.control.windows.replayed import replayed
from tcptrace_lab.classify.verdict import classify
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import sender
from tcptrace_lab.reconstruct.truth.score import score
from tcptrace_lab.reconstruct.truth.truth_file import read_truth
from tcptrace_lab.scenario import ConnectionSpec, ControlSpec, NodeSpec, PathSpec, ReceiverSpec, Scenario
from tcptrace_lab.simulate import simulate
from tcptrace_lab.simulate_to_files import simulate_to_files
from tests.reconstruct.ladder import ladder, rounds

# M-Start overshoots a small buffer by so much that its repairs are lost as well.
CONTROL = ControlSpec(slow_start="m-start", recovery="sack", initial_window=10, prr=True)


def overshooting(rate_bps: float, buffer: int, delay_s: float) -> Scenario:
    path = PathSpec(nodes=(NodeSpec(rate_bps=rate_bps, buffer=buffer, delay_s=delay_s),), return_delay_s=delay_s)
    return Scenario(path=path, connections=(ConnectionSpec(control=CONTROL),), duration_s=7, profile="rfc", seed=3)


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(overshooting(3.2e6, 17, 0.026), id="a timer every half second"),
        pytest.param(overshooting(13.4e6, 75, 0.0142), id="hundreds of new segments lost in a loss state"),
    ],
)
def test_each_is_an_event_and_what_is_lost_or_on_its_way_is_counted(scenario: Scenario, tmp_path: Path) -> None:
    run = simulate(scenario)
    capture, truth = tmp_path / "capture.pcap", tmp_path / "capture.truth.csv"
    simulate_to_files(scenario, captures=[capture], truth=truth, payload=False)
    (verdict,) = classify(read(capture))
    expired = run.losses[run.losses["detected_by"] == "rto"]
    assert len(expired) > 2
    events = [event for event in verdict.seen.episodes if event.detected_by == "rto"]
    assert [event.una for event in events] == expired["offset"].tolist()
    scored = score(
        replayed(verdict.who), read_truth(truth, port=run.ports[0][0]), first_sequence=verdict.who.first_sequence
    )
    assert scored.within is not None
    assert scored.within >= 0.99
    # Of the copies that a repair outran all but those that the capture's end leaves unrepaired.
    assert (scored.precision, scored.recall) == (1, pytest.approx(1, abs=0.05))
    assert verdict.as_dict()["sender_tcp"]["congestion_control"] == "m_start"


def newreno(window: str, rate_bps: float, buffer: int, delay_s: float, **given: object) -> Scenario:
    control = ControlSpec(window=window, recovery="newreno", **given)  # type: ignore[arg-type]
    path = PathSpec(nodes=(NodeSpec(rate_bps=rate_bps, buffer=buffer, delay_s=delay_s),), return_delay_s=delay_s)
    receiver = ReceiverSpec(delayed_ack_timer_s=0.1)
    connection = ConnectionSpec(control=control, receiver=receiver, jitter_s=0.0002)
    return Scenario(path=path, connections=(connection,), duration_s=10, profile="rfc", seed=3)


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(newreno("scalable", 24.8e6, 125, 0.016, initial_window=2, impatient=True), id="on a partial ACK"),
        pytest.param(
            newreno("veno", 25.1e6, 42, 0.029, initial_window=10, delayed_ack_segments=2, timestamps=True),
            id="on duplicates",
        ),
    ],
)
def test_without_sack_no_duplicate_hides_a_timer(scenario: Scenario) -> None:
    run = simulate(scenario)
    expired = run.losses[run.losses["detected_by"] == "rto"]
    assert len(expired)
    seen = Reconstruction(sender(run.capture(tap="sender")[0]).timeline)
    assert [event.una for event in seen.episodes if event.detected_by == "rto"] == expired["offset"].tolist()


def test_without_sack_what_is_sent_again_long_after_the_third_duplicate_was_the_timers() -> None:
    """RFC 6582 section 3.2 (2): of what had been sent when the recovery before began no duplicate asks. New data
    leaves at each of 19, the timer sends it between two ACKs, and the ACK of all lets ten segments go."""
    sent, acks = rounds([10, 20])
    acks = [ack for ack in acks if ack[1] <= 10]
    duplicates = [(acks[-1][0] + 100 + 18 * number, 10) for number in range(19)]
    sent += [(time + 0.05, 30 + number) for number, (time, _) in enumerate(duplicates)]
    expired = duplicates[-1][0] + 4
    sent += [(expired, 10), *((expired + 100.05 + 0.01 * number, 49 + number) for number in range(10))]
    acks += [*duplicates, (expired + 100, 49), *((expired + 200 + number, 50 + number) for number in range(10))]
    (event,) = ladder(sent, acks).episodes
    assert (event.detected_by, event.restarts, event.sure) == ("rto", True, True)


def test_a_timer_behind_new_data_that_a_timeout_was_tried_with_begins_again() -> None:
    """RFC 5682 section 2.1: the first answer to a timer's segment lets two new ones go, and nothing comes. What leaves
    400 ms later, though for the first time again, was let go by the timer; each is a slow start of one segment."""
    sent, acks = rounds([10])
    acks = [ack for ack in acks if ack[1] <= 2]
    sent += [(500.0, 2), (600.11, 10), (600.12, 11), (1000.0, 3), (1100.11, 4), (1100.12, 5), (1200.21, 12)]
    acks += [(600.1, 3), (1100.1, 4), (1200.1, 5), (1200.2, 12), (1300.2, 13)]
    seen = ladder(sent, acks)
    assert [(event.detected_by, event.restarts, event.una) for event in seen.episodes] == [
        ("rto", True, 2000),
        ("rto", True, 3000),
    ]
    # The connection's own, and one behind each timer.
    assert sum(cycle.slow_starts for cycle in seen.cycles) == 3
