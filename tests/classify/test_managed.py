"""A managed queue loses by another law than a full buffer: what the verdict says of CoDel's losses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tcptrace_lab.classify.path.managed import loses_at_any_length
from tcptrace_lab.classify.verdict import Verdict, classify
from tcptrace_lab.replay.closed_loop import again
from tcptrace_lab.scenario import ApplicationSpec, ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario
from tcptrace_lab.simulate import Run, simulate
from tests.random_runs import random_scenario

ENDLESS = ApplicationSpec()


def run(
    window: str, rate_bps: float, one_way_s: float, seed: int, application: ApplicationSpec = ENDLESS, **node: object
) -> Run:
    """Twenty seconds of one sender with delayed ACKs."""
    control = ControlSpec(window=window, recovery="sack", initial_window=10, timestamps=True, delayed_ack_segments=2)
    queue = NodeSpec(rate_bps=rate_bps, delay_s=one_way_s, **node)  # type: ignore[arg-type]
    scenario = Scenario(
        path=PathSpec(nodes=(queue,), return_delay_s=one_way_s),
        connections=(ConnectionSpec(control=control, application=application),),
        duration_s=20.0,
        seed=seed,
    )
    return simulate(scenario)


def judged(done: Run) -> Verdict:
    return next(iter(classify(done.capture())))


@pytest.mark.parametrize("window", ["reno-linux", "cubic-linux", "highspeed"])
@pytest.mark.parametrize(("rate_bps", "one_way_s"), [(1.2e7, 0.025), (4e7, 0.015)])
def test_codel_s_losses_are_codel_s(window: str, rate_bps: float, one_way_s: float) -> None:
    """RFC 8289: the first comes 100 ms after waits rose above 5 ms, in a slow start's queue; the buffer is not seen."""
    done = run(window, rate_bps, one_way_s, 5, queue="codel", buffer=1000)
    assert set(done.drops["reason"]) == {"codel"}
    verdict = judged(done)
    assert verdict.as_dict()["losses"]["by_cause"] == {"codel": len(done.drops)}
    buffer = verdict.path.buffer_packets
    assert buffer.value is None
    assert buffer.low is not None
    assert buffer.low < 1000
    assert "loses packets to CoDel" in verdict.as_dict()["diagnosis"]


@pytest.mark.parametrize("loss", [0.0, 0.0005, 0.005])
@pytest.mark.parametrize("pipes", [0.3, 1.0, 3.0])
def test_no_full_buffer_and_no_lossy_link_is_taken_for_codel(loss: float, pipes: float) -> None:
    """Short and long queues, with random losses and without."""
    rate_bps, one_way_s = 1.2e7, 0.025
    buffer = round(pipes * rate_bps * 2 * one_way_s / 12_000)
    done = run("reno-linux", rate_bps, one_way_s, 5, buffer=buffer, loss=loss)
    assert "codel" not in judged(done).as_dict()["losses"]["by_cause"]


def test_losses_that_follow_one_in_a_standing_queue_do_not_speak_against_codel() -> None:
    """The first of each queue comes after 100 ms; of eleven seven follow one, ever sooner (RFC 8289 section 3.3)."""
    scenario = random_scenario(91024)
    path = replace(scenario.path, nodes=(replace(scenario.path.bottleneck, queue="codel", buffer=1000),))
    done = simulate(replace(scenario, path=path, taps=("sender",)))
    assert judged(done).as_dict()["losses"]["by_cause"] == {"codel": len(done.drops)}


def test_a_capture_behind_codel_comes_back_through_codel() -> None:
    """As found, the bottleneck is managed again: the same time and loss events."""
    upload = ApplicationSpec(kind="bytes", bytes=20_000_000)
    loop = again(run("cubic-linux", 1.2e7, 0.025, 5, upload, queue="codel", buffer=1000).capture())
    assert loop.scenario.path.nodes[0].queue == "codel"
    ((then, now),) = loop.outcomes
    assert now.completion_s == pytest.approx(then.completion_s, rel=0.05)
    assert abs(now.loss_events - then.loss_events) <= max(1, 0.1 * then.loss_events)


def test_losses_of_writes_that_codel_cuts_short_are_neither_a_full_buffer_s_nor_a_link_s() -> None:
    """Each write's slow start loses when its own queue has stood for the interval, at lengths that differ."""
    writes = ApplicationSpec(kind="on_off", bytes=1_500_000, off_s=2.0)
    causes = judged(run("reno-linux", 6e6, 0.15, 5, writes, queue="codel", buffer=1000)).as_dict()["losses"]["by_cause"]
    assert set(causes) <= {"codel", "unknown"}


@pytest.mark.parametrize("rate_bps", [0.8e6, 1.5e6])
def test_a_queue_of_a_few_slow_packets_is_no_full_buffer(rate_bps: float) -> None:
    """A packet's service is longer than the target: RFC 8289 section 4.4 loses none from a queue of one."""
    verdict = judged(run("reno-linux", rate_bps, 0.01, 5, queue="codel", buffer=1000))
    assert "overflow" not in verdict.as_dict()["losses"]["by_cause"]


@pytest.mark.parametrize(("queue", "cause"), [("codel", "codel"), ("drop_tail", "overflow")])
def test_a_target_shorter_than_a_packet_hides_for_how_long_a_queue_has_stood(queue: str, cause: str) -> None:
    """10 ms a packet: losses at four packets waiting, the slow start's at six; a buffer of four never holds six."""
    scenario = random_scenario(93011)
    buffer = {"codel": 200, "drop_tail": scenario.path.bottleneck.buffer}[queue]
    path = replace(scenario.path, nodes=(replace(scenario.path.bottleneck, queue=queue, buffer=buffer),))
    done = simulate(replace(scenario, path=path, taps=("sender",)))
    assert judged(done).as_dict()["losses"]["by_cause"] == {cause: len(done.drops)}


@pytest.mark.parametrize(("others", "is_told"), [((7.2, 6.3), False), ((7.2, 7.1) * 9, True)])
def test_a_buffer_whose_length_is_misread_now_and_then_is_no_managed_queue(
    others: tuple[float, ...], is_told: bool
) -> None:
    """74 packets a second: eighteen losses at three packets waiting, and a few, or as many, at six and seven."""
    pps = 74.0
    waits = np.array([3.2] * 18 + [*others]) / pps * 1e9
    every = np.ones(len(waits), dtype=bool)
    assert loses_at_any_length(waits, every, every, pps) == is_told
