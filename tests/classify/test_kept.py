"""BBR keeps over a loss what it had outstanding, less what was lost; a set from which that differs is told without."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from docs.make_identification import draw
from tcptrace_lab.classify.control.answer.identified import UNKNOWN
from tcptrace_lab.classify.control.bbr.kept import gives_way
from tcptrace_lab.classify.control.candidates.candidates import candidates
from tcptrace_lab.classify.control.of_sender import no_evidence
from tcptrace_lab.classify.control.readings.identify import identify
from tcptrace_lab.classify.verdict import judge
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import Sender, sender
from tcptrace_lab.scenario import (
    ApplicationSpec,
    ConnectionSpec,
    ControlSpec,
    NodeSpec,
    PathSpec,
    ReceiverSpec,
    Scenario,
)
from tcptrace_lab.simulate import simulate

BULK = ApplicationSpec()
# 10 Mbit/s and 60 ms: a pipe of 50 packets.
QUEUED = NodeSpec(rate_bps=10e6, buffer=40, delay_s=0.03)
LOSSY = dataclasses.replace(QUEUED, loss=0.002)


def sent_by(
    window: str,
    *,
    node: NodeSpec = QUEUED,
    tap: str = "sender",
    application: ApplicationSpec = BULK,
    rwnd: int = 4_194_304,
    duration_s: float = 30.0,
    timestamps: bool = False,
) -> Sender:
    control = ControlSpec(
        window=window, recovery="sack", initial_window=10, delayed_ack_segments=2, timestamps=timestamps
    )
    connection = ConnectionSpec(control=control, application=application, receiver=ReceiverSpec(rwnd=rwnd))
    path = PathSpec(nodes=(node,), return_delay_s=node.delay_s)
    scenario = Scenario(path=path, connections=(connection,), duration_s=duration_s, taps=(tap,))
    return sender(simulate(scenario).capture(tap=tap)[0])


@pytest.mark.parametrize(
    ("window", "node", "gives"),
    [
        ("reno", QUEUED, True),
        ("cubic-linux", QUEUED, True),
        ("reno", LOSSY, True),
        ("bbr", LOSSY, False),
        ("bbr", dataclasses.replace(QUEUED, buffer=5), False),
        ("scalable", LOSSY, False),
    ],
    ids=["reno", "cubic", "reno by chance", "bbr by chance", "bbr at a small buffer", "a mild cut"],
)
def test_most_losses_of_a_control_that_halves_leave_less_than_bbr_would(
    window: str, node: NodeSpec, gives: bool
) -> None:
    """Section 4.2.3.4: a segment for each that is delivered, then the window as it was."""
    assert gives_way(Reconstruction(sent_by(window, node=node).timeline)) is gives


def test_of_a_loss_that_the_receivers_window_was_full_at_nothing_is_read() -> None:
    """RFC 9293 section 3.8.6: what has arrived above a hole still takes of its room, so that nothing new may leave,
    whoever sends: Linux's BBR comes out of such a recovery with a segment outstanding."""
    seen = Reconstruction(sent_by("reno", node=LOSSY, rwnd=20_000).timeline)
    after = [each.window_after for each in seen.episodes if each.is_loss and each.window_after is not None]
    assert sum(window < 10 * seen.timeline.smss for window in after) > len(after) / 2
    assert not gives_way(seen)


def test_an_application_that_has_nothing_more_leaves_less_whoever_sends() -> None:
    paused = ApplicationSpec(kind="on_off", bytes=400_000, off_s=1.0)
    assert not gives_way(Reconstruction(sent_by("reno", application=paused).timeline))


def test_who_gives_way_is_no_bbr_though_no_law_was_followed() -> None:
    """Linux's CUBIC with its own row left out of the table: another is nearest, if not followed."""
    asked = [each for each in candidates("sack") if each.window != "cubic-linux"]
    seen = Reconstruction(sent_by("cubic-linux").timeline)
    found = identify(seen, initial_window=10, handshake_rtt_ns=60_000_000, recovery="sack", chosen=asked)
    assert found.control is None
    assert found.left
    assert not found.may_be_bbr


def test_a_rate_of_its_own_is_no_control_that_is_in_no_table() -> None:
    """BBR beside another flow, before it has probed three times: that no law follows it tells nothing."""
    scenario, _ = draw(np.random.default_rng([20263502, 22]), ("bbr",))
    short = dataclasses.replace(scenario, taps=("sender",), duration_s=2.0)
    seen = (found := judge(sender(simulate(short).capture(tap="sender")[0]), file="")).seen
    assert found.identified.control is None
    assert found.identified.may_be_bbr
    unknown = dataclasses.replace(found.identified, control=UNKNOWN)
    assert no_evidence(found.sender_tcp, unknown, seen) == "its segments left by a rate of their own, as BBR's do"


@pytest.mark.parametrize("tap", ["sender", "receiver"])
def test_a_rate_of_its_own_is_no_law_with_mild_cuts(tap: str) -> None:
    """BBR's four segments on a path that holds one, and three wait: a loss leaves six of seven, as Scalable would."""
    scenario, _ = draw(np.random.default_rng([55004, 50]), ("bbr",))
    done = simulate(dataclasses.replace(scenario, taps=(tap,)))
    found = judge(sender(done.capture(tap=tap)[0]), file="").identified
    assert found.control is None
    assert found.may_be_bbr


@pytest.mark.parametrize(
    ("window", "buffer", "may_be"), [("cubic-linux", 27, False), ("bbr", 4, True)], ids=["a law", "a rate"]
)
def test_several_laws_that_go_from_loss_to_loss_leave_no_rate(window: str, buffer: int, may_be: bool) -> None:
    """At a receiver, of cycles longer than BBR's: which law it was is not told, that it was one is."""
    node = NodeSpec(rate_bps=13.4e6, buffer=buffer, delay_s=0.0145)
    found = judge(sent_by(window, node=node, tap="receiver"), file="simulated").identified
    assert found.control is None
    assert len(found.left) + found.may_be_bbr > 1
    assert found.may_be_bbr is may_be
