"""ACKs that a receiver's tap captured and that were lost behind it: known by what the sender's segments echo."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tcptrace_lab import read
from tcptrace_lab.classify.verdict import classify
from tcptrace_lab.reconstruct.sender import sender
from tcptrace_lab.scenario import ApplicationSpec, ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario
from tcptrace_lab.simulate_to_files import simulate_to_files

BULK = ApplicationSpec()
# A segment every 20 ms, whatever ACKs come.
WRITTEN = ApplicationSpec(kind="schedule", writes=tuple((0.02 * at, 1448) for at in range(400)))


def run(folder: Path, *, ack_loss: float, application: ApplicationSpec = BULK, rate_bps: float = 25e6) -> list[Path]:
    """Captures at the sender and at the receiver; of the receiver's ACKs one or two come in each tick of its clock."""
    node = NodeSpec(rate_bps=rate_bps, buffer=45, delay_s=0.0125)
    control = ControlSpec(window="cubic", recovery="sack", initial_window=10, delayed_ack_segments=2, timestamps=True)
    scenario = Scenario(
        path=PathSpec(nodes=(node,), return_delay_s=0.0125, ack_loss=ack_loss),
        connections=(ConnectionSpec(control=control, application=application),),
        duration_s=8.0,
        taps=("sender", "receiver"),
        profile="rfc",
        seed=1,
    )
    files = [folder / f"{name}.pcap" for name in scenario.taps]
    simulate_to_files(scenario, captures=files, truth=folder / "x.truth.csv", payload=False)
    return files


def acks_of(capture: Path) -> Counter[int]:
    return Counter(sender(read(capture)[0]).timeline.ack_offset.tolist())


def test_acks_lost_behind_the_tap_are_none_that_the_sender_heard(tmp_path: Path) -> None:
    at_sender, at_receiver = run(tmp_path, ack_loss=0.1)
    heard, told = acks_of(at_sender), acks_of(at_receiver)
    captured = Counter(offset for offset in read(at_receiver)[0].rows(0)[1]["ack_offset"].tolist())
    assert not heard - told
    lost = (captured - heard).total()
    assert (captured - told).total() > lost / 2


@pytest.mark.parametrize("application", [BULK, WRITTEN])
def test_what_a_sender_heard_is_not_left_out(application: ApplicationSpec, tmp_path: Path) -> None:
    """Nothing echoes the ACKs between two writes either; but the next segment leaves when it is written."""
    at_sender, at_receiver = run(tmp_path, ack_loss=0.0, application=application)
    assert not acks_of(at_sender) - acks_of(at_receiver)


def test_a_law_is_followed_over_what_its_sender_heard(tmp_path: Path) -> None:
    """An ACK more than it heard, and CUBIC would not have grown as it did: BBR was not told from it."""
    _, at_receiver = run(tmp_path, ack_loss=0.1, rate_bps=12e6)
    (verdict,) = classify(read(at_receiver))
    assert verdict.as_dict()["sender_tcp"]["congestion_control"] == "cubic"
