"""BBR is named by the probes of its cycle, at either end, and nobody else is (draft-cardwell-iccrg-bbr 4.3.4)."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from docs.make_identification import REPLAYED, draw
from tcptrace_lab.classify.control.bbr.by_rate import probes_of
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import sender
from tcptrace_lab.simulate import simulate


def sent(seed: int, number: int, tap: str, names: tuple[str, ...]) -> Reconstruction:
    scenario, _ = draw(np.random.default_rng([seed, number]), names)
    done = simulate(dataclasses.replace(scenario, taps=(tap,)))
    return Reconstruction(sender(done.capture(tap=tap)[0]).timeline)


PROBES = {
    "a boundary of halves cuts a probe in three, and a drain behind it takes nothing of it": (55001, 27, "sender"),
    "two segments in half a round trip, and most times at which more is sent it is a probe": (55001, 23, "sender"),
    "a loss takes of a probe's middle, and it goes on": (55001, 7, "receiver"),
    "beside another flow some of its probes go on for longer": (55001, 39, "receiver"),
    "what a drain takes of the half in which it begins is not of its probe": (55001, 0, "sender"),
}


@pytest.mark.parametrize("run", PROBES.values(), ids=PROBES)
def test_a_cycle_of_probes_is_bbrs(run: tuple[int, int, str]) -> None:
    found = probes_of(sent(*run, ("bbr",)))
    assert found.cycled
    assert found.is_bbr


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (34, "a segment more of six, lost every ten round trips, is a quarter more at both ends of a burst"),
        (97, "of three segments one more is a third"),
        (25, "two bursts with an even half between them are no probe of three halves"),
    ],
)
def test_bursts_of_a_small_window_that_losses_cut_are_no_probes(number: int, why: str) -> None:
    assert not probes_of(sent(55003, number, "sender", REPLAYED)).cycled, why
