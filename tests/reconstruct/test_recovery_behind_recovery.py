"""A recovery that begins with the ACK that ends another: what is lost has been sent again already."""

from __future__ import annotations

import pytest

from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import sender
from tcptrace_lab.scenario import ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario
from tcptrace_lab.simulate import simulate


# Who reduces again with the first ACK above the recovery point, and who leaves what is under way alone (RFC 8985 finds
# nothing newly lost).
@pytest.mark.parametrize(
    ("window", "rack", "cuts_again"),
    [("bic", False, True), ("yeah", True, True), ("reno", True, False)],
)
@pytest.mark.parametrize("seed", [5, 7])
def test_every_reduction_of_a_sender_is_an_event_and_nothing_else(
    window: str, rack: bool, cuts_again: bool, seed: int
) -> None:
    """RFC 6675 section 5 (2) and Linux, at a loss rate at which every second recovery finds another loss behind it."""
    control = ControlSpec(window=window, recovery="sack", initial_window=10, rack=rack)
    path = PathSpec(nodes=(NodeSpec(rate_bps=8e6, buffer=60, delay_s=0.04, loss=0.008),), return_delay_s=0.04)
    run = simulate(
        Scenario(path=path, connections=(ConnectionSpec(control=control),), duration_s=40, profile="rfc", seed=seed)
    )
    seen = Reconstruction(sender(run.capture(tap="sender")[0]).timeline)
    events = [event for event in seen.episodes if event.detected_by == "sack"]
    truth = run.losses[run.losses["detected_by"] == "sack"]
    assert [event.una for event in events] == truth["offset"].tolist()
    assert any(event.follows for event in events) == cuts_again
