"""Captures that begin in the middle of congestion avoidance: what a sender remembers from before is not in them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from docs.make_identification import draw
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
