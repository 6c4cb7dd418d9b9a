"""A family that is refuted beyond doubt is replayed no further, and the verdict is what it would be if it were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcptrace_lab.classify.control.answer.identified import UNKNOWN, Identified
from tcptrace_lab.classify.control.candidates.candidates import candidates
from tcptrace_lab.classify.control.candidates.hearing import heard_to_the_end, replays
from tcptrace_lab.classify.control.candidates.likelihood import Replay
from tcptrace_lab.classify.control.readings import identify as identifying
from tcptrace_lab.classify.control.shown.tape import Tapes
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import sender
from tcptrace_lab.scenario import ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario
from tcptrace_lab.simulate import simulate

PATH = PathSpec(nodes=(NodeSpec(rate_bps=12e6, buffer=40, delay_s=0.03),), return_delay_s=0.03)
INITIAL_WINDOW = 10


class Turncoat:
    """Reno for so many losses; then it grows by a segment and 6 % a round trip, and keeps 38 % at a loss."""

    def __init__(self, losses: int) -> None:
        self.left = losses

    def on_ack(self, state: Any) -> None:
        if state.cwnd < state.ssthresh:
            state.cwnd += state.smss
        else:
            more = 0.06 * state.cwnd if self.left < 0 else 0.0
            state.cwnd += (state.smss + more) * state.smss / state.cwnd

    def on_loss(self, state: Any) -> None:
        self.left -= 1
        state.ssthresh = max((0.38 if self.left < 0 else 0.5) * state.cwnd, 2 * state.smss)

    on_timeout = on_loss


def seen_of(window: str, duration_s: float, control: Any = None) -> Reconstruction:
    spec = ControlSpec(window=window, recovery="sack", initial_window=INITIAL_WINDOW)
    scenario = Scenario(
        path=PATH, connections=(ConnectionSpec(control=spec),), duration_s=duration_s, profile="rfc", seed=3
    )
    done = simulate(scenario, control=control)
    return Reconstruction(sender(done.capture(tap="sender")[0]).timeline)


def key(each: Replay) -> tuple[str, int, int]:
    return each.candidate.variant, id(each.tape), each.later_ns


@pytest.mark.parametrize("window", ["reno", "cubic", "compound"])
def test_who_is_heard_no_further_was_heard_as_among_all(window: str) -> None:
    tapes = Tapes.of(seen_of(window, 200.0), None).read()
    every = {key(each): each for each in replays(candidates(), tapes, INITIAL_WINDOW)}
    found = replays(candidates(), tapes, INITIAL_WINDOW, to_the_end=False)
    ended = [each for each in found if not each.is_heard.all()]
    assert len({each.candidate.name for each in ended}) > 5
    assert window not in {each.candidate.name for each in ended}
    # Heard on, some of those that were ended together would have been left out later.
    for each in (each for each in found if key(each) in every):
        whole, heard = every[key(each)], each.is_heard
        assert np.array_equal(each.misfits.error[heard], whole.misfits.error[heard])
        # Behind that it counts as off, and is told of by what it was heard in.
        assert (each.sizes[~heard] > 1.0).all()
        assert each.residual == np.median(whole.sizes[heard])
    for each in heard_to_the_end(found):
        assert each.is_heard.all()
        assert key(each) not in every or np.array_equal(each.sizes, every[key(each)].sizes)


def told(found: Identified) -> tuple[Any, ...]:
    refuted = {each.candidate.name for each in found.refuted}
    return found.control, found.confidence, [each.candidate for each in found.left], found.shares, refuted


@pytest.mark.parametrize(
    ("window", "control", "name"),
    [("reno", None, "reno"), ("cubic", None, "cubic"), ("reno", Turncoat(12), UNKNOWN)],
    ids=["reno", "cubic", "another from the twelfth loss on"],
)
def test_the_verdict_is_that_of_all_heard_to_the_end(
    monkeypatch: pytest.MonkeyPatch, window: str, control: Any, name: str
) -> None:
    seen = seen_of(window, 200.0, control)
    found = identifying.identify(seen, initial_window=INITIAL_WINDOW)
    assert found.control == name, found.reasons

    def to_the_end(*asked: Any, to_the_end: bool = True) -> list[Replay]:
        return replays(*asked)

    monkeypatch.setattr(identifying, "replays", to_the_end)
    every = identifying.identify(seen, initial_window=INITIAL_WINDOW)
    assert told(found) == told(every)
    if name == UNKNOWN:
        assert found.as_dicts() == every.as_dicts()
