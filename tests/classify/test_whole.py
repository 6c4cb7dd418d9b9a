"""A capture that has every packet disturbs no law: what is off at times, and does nothing of its own, is no name."""

from __future__ import annotations

import numpy as np
import pytest

from docs.make_identification import draw
from tcptrace_lab.classify.control.answer.followed import is_its_own
from tcptrace_lab.classify.control.candidates.candidates import candidates
from tcptrace_lab.classify.control.readings.identify import identify
from tcptrace_lab.classify.sender.initial_window import initial_window
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import sender
from tcptrace_lab.simulate import simulate
from tests.classify.test_identify import replay_of

NEAR, FAR = [0.0] * 6, [9.0] * 6


@pytest.mark.parametrize(
    ("of", "growth", "rival", "is_own"),
    [
        pytest.param("highspeed", NEAR, NEAR, True, id="to the ACK throughout"),
        pytest.param("highspeed", [0.2, *NEAR[1:]], NEAR, False, id="off a little, and nothing of its own"),
        pytest.param("highspeed", [0.2, *NEAR[1:]], FAR, True, id="off a little, elsewhere alone to the ACK"),
        pytest.param("highspeed", [2.0, *NEAR[1:]], FAR, True, id="behind the slow start that overshot"),
        pytest.param("highspeed", [*NEAR[:4], 2.0, 0.0], FAR, False, id="what goes by ACKs alone is arithmetic"),
        pytest.param("vegas", [*NEAR[:4], 2.0, 0.0], FAR, True, id="a round trip may be read otherwise"),
        pytest.param("vegas", [*NEAR[:4], 2.0, 0.0], NEAR, False, id="but is not where its law shows nowhere"),
    ],
)
def test_what_is_off_where_nothing_disturbs_is_named_by_a_law_of_its_own(
    of: str, growth: list[float], rival: list[float], is_own: bool
) -> None:
    cuts = [9.0] * 3 if rival == FAR else [0.0] * 3
    assert is_its_own(replay_of(growth, of=of), [replay_of(rival, cuts)]) == is_own


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param((20371001, 18), id="Vegas stands over a queue: no Reno, which grows on"),
        pytest.param((20371001, 134), id="Reno for a while where YeAH would have grown faster"),
        pytest.param((20371001, 356), id="H-TCP of few segments: HighSpeed but for two pieces"),
    ],
)
def test_the_nearest_is_not_named_where_the_true_law_is_not_asked(seed: tuple[int, int]) -> None:
    scenario, truth = draw(np.random.default_rng(seed))
    seen = Reconstruction(sender(simulate(scenario).capture(tap="sender")[0]).timeline)
    found = identify(seen, initial_window=initial_window(seen))
    assert found.control == truth, found.reasons
    others = [each for each in candidates() if each.name != truth]
    found = identify(seen, initial_window=initial_window(seen), chosen=others)
    assert found.control in (None, "unknown"), found.reasons
