"""What limited senders that wait for their applications, beside what the simulator's own windows allowed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tcptrace_lab.classify.control.answer.identified import open_names
from tcptrace_lab.classify.obstacles import obstacles_of_run
from tcptrace_lab.classify.sender.shares import between_losses, held_by_application
from tcptrace_lab.classify.verdict import classify
from tcptrace_lab.reconstruct.sender import Sender
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
from tests.claims import judge_claims, main_verdict
from tests.random_degraded import against_truth
from tests.random_runs import tapped
from tests.reconstruct.ladder import ladder, rounds


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(8953039, id="a pause behind the last ACK lasts until the last segment"),
        pytest.param(8730062, id="a pause set the window back (RFC 5681 section 4.1): a round of ACKs shows it"),
        pytest.param(8929048, id="a burst of which the first answer releases nothing was all that there was"),
        pytest.param(8952045, id="what is only sent again behind it was no new data to release"),
    ],
)
def test_what_an_application_leaves_is_told(seed: int, tmp_path: Path) -> None:
    found = tapped(seed, tmp_path)
    assert found is not None
    verdict = main_verdict(found.run.path, without=found.others)
    assert verdict is not None
    assert "sender's limits" not in against_truth(found, verdict)


def test_nothing_is_recovered_where_all_is_acknowledged(tmp_path: Path) -> None:
    """A probe of a closed window leaves by a timer: the state is a timeout's, the limit the receiver's window."""
    found = tapped(8922035, tmp_path)
    assert found is not None
    assert found.limits["rwnd"] > 0.75


def test_the_judge_knows_words_that_wait_for_each_other(tmp_path: Path) -> None:
    """RFC 896: what the windows had room for was the application's, to the verdict and to its judge."""
    found = tapped(8959023, tmp_path)
    assert found is not None
    verdict = main_verdict(found.run.path)
    assert verdict is not None
    assert not judge_claims(found.run, verdict, verdict, keeps="whole").wrong


def test_words_before_a_transfer_and_silence_behind_it_are_no_part_of_its_windows() -> None:
    """A speed test: words for two seconds, a download with losses, and a word after a long silence."""
    words = tuple((0.1 * count, 20) for count in range(20))
    sender = ConnectionSpec(
        control=ControlSpec(window="cubic", recovery="sack", initial_window=10, timestamps=True),
        application=ApplicationSpec(kind="schedule", writes=(*words, (2.0, 14_000_000), (60.0, 20))),
    )
    path = PathSpec(nodes=(NodeSpec(rate_bps=8e6, buffer=20, delay_s=0.02),), return_delay_s=0.02)
    run = simulate(Scenario(path=path, connections=(sender,), duration_s=61.0, profile="rfc"))
    (verdict,) = classify(run.capture(tap="sender"))
    told = verdict.as_dict()
    assert told["sender_tcp"]["congestion_control"] == "cubic"
    assert told["slow_starts"]["regime"] == "none"
    assert verdict.diagnosis.startswith("CUBIC, limited by its application, which paused 7")
    assert "and between pauses by a 8 Mbit/s bottleneck with 20 packets of buffer: overflows it" in verdict.diagnosis


@pytest.mark.parametrize("window", ["reno", "westwood"])
def test_a_connection_left_open_makes_no_set_of_a_held_sender_smaller(window: str) -> None:
    """Held back by the receiver while it sent: what its losses cut is seen in parts, however long it is idle behind."""
    path = PathSpec(nodes=(NodeSpec(rate_bps=8e6, buffer=20, delay_s=0.02, loss=0.003),), return_delay_s=0.02)
    control = ControlSpec(window=window, recovery="sack", initial_window=10, timestamps=True)
    left = []
    for writes in ((0.0, 6_000_000),), ((0.0, 6_000_000), (60.0, 20)):
        application = ApplicationSpec(kind="schedule", writes=writes)
        sender = ConnectionSpec(control=control, application=application, receiver=ReceiverSpec(rwnd=25_000))
        run = simulate(Scenario(path=path, connections=(sender,), duration_s=61.0, profile="rfc", seed=3))
        (verdict,) = classify(run.capture(tap="sender"))
        left.append(open_names(verdict.as_dict()["sender_tcp"]["candidates"]))
    assert left[0] == left[1]
    assert window in left[0]
    assert len(left[0]) > 1


def test_timers_that_nothing_answers_have_no_time_between_them() -> None:
    """A pause of a minute, and then a segment that is sent again and again: its loss events have no ACK in between."""
    sent, acks = rounds([4, 8, 16, 32, 64])
    until = acks[-1][0] + 60_000.0
    sent += [(until + wait, 124) for wait in (0.0, 300.0, 900.0, 2100.0, 4500.0)]
    seen = ladder(sent, acks)
    assert [each.detected_by for each in seen.episodes] == ["rto"] * 4
    assert between_losses(seen) is None
    assert held_by_application(seen) == seen.limits["application"] > 0.9
    found = obstacles_of_run(seen, cast("Sender", SimpleNamespace(view=None, order=None)))
    assert not found.hides_window
    assert "had nothing to send 92% of the time" in found.hides_cycles[0]
