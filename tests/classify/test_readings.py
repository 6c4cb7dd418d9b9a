"""The readings of a capture that candidates are replayed over: every one that it leaves open, and none twice."""

from __future__ import annotations

import pytest

from tcptrace_lab.classify.control.tape import Tapes
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import sender
from tcptrace_lab.scenario import ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario
from tcptrace_lab.simulate import simulate

PATH = PathSpec(nodes=(NodeSpec(rate_bps=12e6, buffer=40, delay_s=0.03),), return_delay_s=0.03)
# What is open without SACK: how much the ACK that ends a recovery told to be new. After a restart nothing ends one.
READINGS = {"tahoe": 2, "newreno": 3, "sack": 2}


@pytest.mark.parametrize("recovery", READINGS)
def test_no_reading_is_made_twice(recovery: str) -> None:
    control = ControlSpec(recovery=recovery, initial_window=10)
    scenario = Scenario(path=PATH, connections=(ConnectionSpec(control=control),), duration_s=40.0, profile="rfc")
    seen = Reconstruction(sender(simulate(scenario).capture(tap="sender")[0]).timeline)
    tapes = Tapes.of(seen, None).read()
    assert len({(tape.opens, tuple(tape.row_of_mark.tolist())) for tape in tapes}) == len(tapes) == READINGS[recovery]
