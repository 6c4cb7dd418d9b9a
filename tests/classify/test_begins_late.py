"""Captures that begin in the middle of congestion avoidance: what a sender remembers from before is not in them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from docs.make_identification import draw
from tcptrace_lab.classify.verdict import Verdict
from tcptrace_lab.scenario import ConnectionSpec, ControlSpec, NodeSpec, PathSpec, ReceiverSpec, Scenario
from tcptrace_lab.simulate import simulate
from tests.claims import main_verdict
from tests.degrade import degrade, read_packets, write_packets

# A draw's seed and number, whether its sender has timestamps, and its control.
TOLD = (
    (5552, 71, True, "illinois", "its round trip lies between those that are asked for first"),
    (5552, 94, True, "veno", "of a hundred segments a step of it is five that are queued"),
    (5553, 0, True, "veno", "steps that do the same hide where between them another begins"),
    (5552, 5, True, "compound", "H-TCP has forgotten after three losses, and is off behind them"),
    (5552, 62, True, "hybla", "so it is by less than is open"),
)
NOT_ANOTHER = ((5551, 11, True, "veno", "a handshake's round trip is shorter than an empty path's of full segments"),)


def alone(
    window: str,
    rate_bps: float,
    delay_s: float,
    buffer: int,
    seconds: float,
    *,
    loss: float = 0.0,
    seed: int,
    timestamps: bool = True,
    quickack_segments: int = 0,
    jitter_s: float = 0.0,
    delayed: int = 2,
) -> Scenario:
    """One sender over one queue, with SACK; of so many segments the receiver acknowledges one."""
    node = NodeSpec(rate_bps=rate_bps, buffer=buffer, delay_s=delay_s, loss=loss)
    control = ControlSpec(
        window=window, recovery="sack", initial_window=10, delayed_ack_segments=delayed, timestamps=timestamps
    )
    receiver = ReceiverSpec(rwnd=1 << 30, quickack_segments=quickack_segments)
    return Scenario(
        path=PathSpec(nodes=(node,), return_delay_s=delay_s),
        connections=(ConnectionSpec(control=control, receiver=receiver, jitter_s=jitter_s),),
        duration_s=seconds,
        profile="rfc",
        seed=seed,
        taps=("sender", "receiver"),
    )


# YeAH halves its window from the sixteenth round over a queue on, and else takes the queue: at these losses in turn.
YEAH = alone("yeah", 2194116.9860964892, 0.05466612008349583, 13, 65.63, seed=75)
# Of Illinois' longest round trip the capture has less up to its losses, and more behind them.
ILLINOIS = alone(
    "illinois",
    21485231.804742984,
    0.015034805002025815,
    69,
    6.702278165237725,
    loss=0.0012524355695050294,
    seed=35,
    quickack_segments=16,
)
# Of what left before the capture half a bandwidth's sample was missing.
WESTWOOD = alone("westwood", 17943128.085628103, 0.009081077851914053, 12, 5.350237681070396, seed=15)
# At the receiver flights between the ACKs that timestamps name are inferred: one law is followed to the ACK all along,
# and Illinois off by less than is open behind every loss.
VENO = alone(
    "veno", 7397707.9670071015, 0.009773767424295393, 14, 12.976992391176916, seed=50, quickack_segments=16, delayed=1
)
# Without timestamps: where ACKs stand so close that every lag is some ACK's, and where a recovery is under way.
CLOSE_ACKS = alone(
    "scalable",
    47178754.354588665,
    0.0060138213578966,
    52,
    3.052221322286657,
    loss=0.003167241693293081,
    seed=58,
    timestamps=False,
)
UNDER_WAY = alone(
    "scalable",
    35014678.42102333,
    0.006593672755683936,
    43,
    4.112560974243883,
    loss=0.0005629833376446686,
    seed=32,
    timestamps=False,
    jitter_s=2e-5,
)
# The first copy of every repair is lost, which the numbers of its host's packets tell.
LOST_REPAIRS = alone(
    "cubic-linux",
    4989452.488380911,
    0.007639504179129033,
    7,
    19.240588065235237,
    seed=11,
    timestamps=False,
    delayed=1,
)


def named(seed: int, number: int, *, timestamps: bool, folder: Path) -> str | None:
    """Who is named of a drawn run whose first third is not captured."""
    scenario, _ = draw(np.random.default_rng([seed, number]))
    first, *others = scenario.connections
    first = replace(first, control=replace(first.control, timestamps=timestamps))
    done = simulate(replace(scenario, connections=(first, *others)))
    path = folder / "late.pcap"
    done.write(path, tap="sender", payload=False)
    link, packets = read_packets(path)
    write_packets(path, *degrade(link, packets, kind="begins in avoidance", seed=scenario.seed))
    verdict = main_verdict(path, without=frozenset(sender for sender, _ in done.ports[1:]))
    assert verdict is not None
    return verdict.identified.control


def begun_late(scenario: Scenario, *, place: str, folder: Path) -> Verdict:
    """The verdict on a run whose first third is not captured."""
    path = folder / "late.pcap"
    simulate(scenario).write(path, tap=place, payload=False)
    link, packets = read_packets(path)
    write_packets(path, *degrade(link, packets, kind="begins in avoidance", seed=scenario.seed))
    verdict = main_verdict(path)
    assert verdict is not None
    return verdict


@pytest.mark.parametrize("place", ["sender", "receiver"])
@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(YEAH, id="yeah"),
        pytest.param(ILLINOIS, id="illinois"),
        pytest.param(WESTWOOD, id="westwood"),
        pytest.param(VENO, id="veno"),
    ],
)
def test_what_it_counted_and_met_before_leaves_a_law_its_name(scenario: Scenario, place: str, tmp_path: Path) -> None:
    found = begun_late(scenario, place=place, folder=tmp_path).identified
    assert found.control == scenario.connections[0].control.window


@pytest.mark.parametrize(
    "scenario", [pytest.param(CLOSE_ACKS, id="close ACKs"), pytest.param(UNDER_WAY, id="a recovery under way")]
)
def test_losses_refute_most_where_the_turn_to_the_sender_is_read_off_them(scenario: Scenario, tmp_path: Path) -> None:
    found = begun_late(scenario, place="receiver", folder=tmp_path).identified
    assert {each.candidate.name for each in found.left} == {"scalable", "yeah", "westwood"}


def test_a_repair_that_came_late_was_no_answer_where_its_first_copy_is_missing(tmp_path: Path) -> None:
    found = begun_late(LOST_REPAIRS, place="receiver", folder=tmp_path)
    assert "cubic" in {each.candidate.name for each in found.identified.left}
    assert {each.flight // found.seen.timeline.smss for each in found.seen.episodes} == {16}


@pytest.mark.parametrize(
    ("seed", "number", "timestamps", "control"), [pytest.param(*case[:4], id=case[4]) for case in TOLD]
)
def test_a_law_is_told_behind_a_past_of_its_own(
    seed: int, number: int, timestamps: bool, control: str, tmp_path: Path
) -> None:
    assert named(seed, number, timestamps=timestamps, folder=tmp_path) == control


@pytest.mark.parametrize(
    ("seed", "number", "timestamps", "control"), [pytest.param(*case[:4], id=case[4]) for case in NOT_ANOTHER]
)
def test_no_law_is_refuted_by_what_it_may_remember(
    seed: int, number: int, timestamps: bool, control: str, tmp_path: Path
) -> None:
    assert named(seed, number, timestamps=timestamps, folder=tmp_path) in (None, control)
