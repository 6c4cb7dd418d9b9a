"""The readings of a capture that candidates are replayed over: every one that it leaves open, and none twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tcptrace_lab.classify.control.candidates.candidates import candidates
from tcptrace_lab.classify.control.candidates.hearing import replays
from tcptrace_lab.classify.control.shown.tape import Tapes
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import sender
from tcptrace_lab.scenario import ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario
from tcptrace_lab.simulate import simulate
from tests.classify.test_random_classes import of

PATH = PathSpec(nodes=(NodeSpec(rate_bps=12e6, buffer=40, delay_s=0.03),), return_delay_s=0.03)
# What is open without SACK: how much the ACK that ends a recovery told to be new. After a restart nothing ends one.
READINGS = {"tahoe": 2, "newreno": 3, "sack": 2}


def tapes_of(control: ControlSpec) -> Tapes:
    scenario = Scenario(path=PATH, connections=(ConnectionSpec(control=control),), duration_s=40.0, profile="rfc")
    seen = Reconstruction(sender(simulate(scenario).capture(tap="sender")[0]).timeline)
    return Tapes.of(seen, None)


@pytest.mark.parametrize("recovery", READINGS)
def test_no_reading_is_made_twice(recovery: str) -> None:
    tapes = tapes_of(ControlSpec(recovery=recovery, initial_window=10)).read()
    assert len({(tape.opens, tuple(tape.row_of_mark.tolist())) for tape in tapes}) == len(tapes) == READINGS[recovery]


def test_what_a_control_holds_in_mind_after_some_rows_is_as_among_all() -> None:
    control = ControlSpec(window="compound", recovery="sack", initial_window=10)
    compound = next(each for each in candidates() if each.name == "compound")
    replay, *_ = replays([compound], tapes_of(control).read(), 10)
    names, rows = ("dwnd", "base_rtt_ns"), np.array([0, 5, 5, 200])
    every, some = replay.memory(*names), replay.memory(*names, rows=rows)
    assert list(some) == list(names)
    assert all(np.array_equal(some[name], every[name][rows], equal_nan=True) for name in names)
    assert np.array_equal(replay.dwnd, every["dwnd"])
    assert replay.dwnd is replay.dwnd
    with pytest.raises(ValueError, match="which rise"):
        replay.memory(*names, rows=rows[::-1].copy())


@pytest.mark.parametrize(("seed", "control"), [(8780118, "yeah"), (8780149, "hybla")])
def test_a_handshake_that_was_not_captured_took_the_path_without_a_segments_length(
    seed: int, control: str, tmp_path: Path
) -> None:
    """Of a beginning without its SYNs: who goes by round trips has heard a shorter one than any segment's."""
    _, verdict = of(seed, tmp_path, kind="no SYN", place="receiver")
    assert verdict.who.handshake_rtt_s is None
    assert verdict.identified.control == control
