"""At a receiver without timestamps, behind a queue that never runs empty: windows at losses tell the control."""

from __future__ import annotations

from typing import Any

import pytest

from tcptrace_lab.capture import Connection
from tcptrace_lab.classify.control.between_losses import identify_between_losses
from tcptrace_lab.classify.control.candidates import candidates
from tcptrace_lab.classify.explain import explain
from tcptrace_lab.classify.verdict import Verdict, judge
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import sender
from tcptrace_lab.scenario import ApplicationSpec, ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario
from tcptrace_lab.simulate import simulate

# Twice its pipe of buffer: a cut leaves the queue standing.
DEEP = PathSpec(nodes=(NodeSpec(rate_bps=4e6, buffer=80, delay_s=0.06),), return_delay_s=0.06)


def captured(window: str, *, path: PathSpec = DEEP, seconds: float = 60.0, **more: object) -> Connection:
    control = ControlSpec(window=window, recovery="sack", initial_window=10, delayed_ack_segments=2, timestamps=False)
    connection = ConnectionSpec(control=control, **more)  # type: ignore[arg-type]
    scenario = Scenario(path=path, connections=(connection,), duration_s=seconds, profile="rfc", taps=("receiver",))
    return simulate(scenario).capture(tap="receiver")[0]


def verdict(window: str, **more: Any) -> Verdict:
    return judge(sender(captured(window, **more)), file="simulated")


def left(found: Verdict) -> set[str]:
    return {each.candidate.name for each in found.identified.left}


@pytest.mark.parametrize(
    "window", ["cubic-linux", "cubic", "scalable", "bic", "highspeed", "reno", "westwood", "compound"]
)
def test_the_control_is_among_those_that_go_from_loss_to_loss_as_the_sender_did(window: str) -> None:
    found = verdict(window)
    assert found.obstacles.hides_window
    family = window.removesuffix("-linux")
    assert family in left(found), found.identified.reasons
    assert found.identified.control in (family, None)
    # Half of the table cuts, or grows, otherwise.
    assert len(found.identified.refuted) >= 4


def test_a_law_that_no_other_comes_near_is_named() -> None:
    lossy = PathSpec(nodes=(NodeSpec(rate_bps=3.6e6, buffer=112, delay_s=0.075, loss=0.001),), return_delay_s=0.075)
    found = verdict("scalable", path=lossy)
    assert found.as_dict()["sender_tcp"]["congestion_control"] == "scalable", found.identified.reasons


def test_without_its_own_law_in_the_table_a_sender_is_not_named() -> None:
    who = verdict("cubic-linux").who
    others = [each for each in candidates() if each.name != "cubic"]
    assert identify_between_losses(Reconstruction(who.timeline), chosen=others).control is None


def test_a_rate_has_no_window_to_come_back_to() -> None:
    assert verdict("bbr").identified.control is None


def test_an_application_that_pauses_hides_the_window_at_its_losses_too() -> None:
    paused = ApplicationSpec(kind="on_off", bytes=400_000, off_s=1.0)
    assert not verdict("cubic-linux", application=paused).identified.refuted


def test_each_refuted_control_is_explained_by_the_packet_of_a_loss() -> None:
    connection = captured("cubic-linux")
    found = judge(sender(connection), file="simulated")
    rows = [row for row in explain(found, connection) if row["about"] == "candidate"]
    assert len(rows) == len(found.identified.refuted) > 0
    assert all(row["frame"] is not None and "in cycle" in row["says"] for row in rows)
