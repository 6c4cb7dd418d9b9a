"""At a receiver without timestamps, behind a queue that never runs empty: windows at losses tell the control."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tcptrace_lab import read
from tcptrace_lab.capture import Connection
from tcptrace_lab.classify.control.at_losses import by_itself
from tcptrace_lab.classify.control.at_losses.between_losses import identify_between_losses, is_exact
from tcptrace_lab.classify.control.at_losses.by_itself import far_off
from tcptrace_lab.classify.control.at_losses.loss_cycles import is_told
from tcptrace_lab.classify.control.candidates.candidates import candidates
from tcptrace_lab.classify.control.candidates.likelihood import Replay
from tcptrace_lab.classify.control.of_sender import opened_where_held
from tcptrace_lab.classify.explain import explain
from tcptrace_lab.classify.verdict import Verdict, classify, judge
from tcptrace_lab.reconstruct.given import FEWEST_ALIKE
from tcptrace_lab.reconstruct.losses import DUP_THRESH
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import sender
from tcptrace_lab.reconstruct.timeline import Floats
from tcptrace_lab.scenario import ApplicationSpec, ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario
from tcptrace_lab.simulate import Run, simulate
from tests.degrade import degrade, read_packets, write_packets

# Twice its pipe of buffer: a cut leaves the queue standing.
DEEP = PathSpec(nodes=(NodeSpec(rate_bps=4e6, buffer=80, delay_s=0.06),), return_delay_s=0.06)


# A quarter of it: a cut empties the queue.
SHALLOW = PathSpec(nodes=(NodeSpec(rate_bps=11.3e6, buffer=18, delay_s=0.03),), return_delay_s=0.03)


# Full for as long as its sender cuts by less than half; losses by chance come on top of the other.
FULL = PathSpec(nodes=(NodeSpec(rate_bps=6e6, buffer=60, delay_s=0.04),), return_delay_s=0.04)
LOSSY = PathSpec(nodes=(NodeSpec(rate_bps=3.6e6, buffer=24, delay_s=0.03, loss=0.0005),), return_delay_s=0.03)


def captured(
    window: str, *, path: PathSpec = DEEP, seconds: float = 60.0, recovery: str = "sack", **more: object
) -> Connection:
    return captured_of(control_of(window, recovery), path, seconds=seconds, **more)


def control_of(window: str, recovery: str) -> ControlSpec:
    return ControlSpec(window=window, recovery=recovery, initial_window=10, delayed_ack_segments=2, timestamps=False)


def captured_of(control: ControlSpec, path: PathSpec, *, seconds: float = 60.0, **more: object) -> Connection:
    return run(control, path, seconds=seconds, **more).capture(tap="receiver")[0]


def run(control: ControlSpec, path: PathSpec, *, seconds: float, **more: object) -> Run:
    connection = ConnectionSpec(control=control, **more)  # type: ignore[arg-type]
    scenario = Scenario(path=path, connections=(connection,), duration_s=seconds, profile="rfc", taps=("receiver",))
    return simulate(scenario)


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


@pytest.mark.parametrize("window", ["westwood", "hybla", "htcp", "cubic"])
def test_a_law_that_comes_to_the_segment_is_named_over_one_cycle_again_and_again(window: str) -> None:
    """What limited transmit adds to what is outstanding is the same at every loss: within a segment or two another law
    would have come to the same. Of a few segments it may: there the only one that is left has a name only if it came to
    the drops at their ACKs as well."""
    for rate_bps, buffer, rtt_s, is_named in ((6e6, 60, 0.08, True), (3e6, 25, 0.06, False)):
        path = PathSpec(
            nodes=(NodeSpec(rate_bps=rate_bps, buffer=buffer, delay_s=rtt_s / 2),), return_delay_s=rtt_s / 2
        )
        found = verdict(window, path=path)
        assert found.obstacles.hides_window
        assert window in left(found)
        is_by_drops = "at which ACKs" in found.identified.reasons[0]
        assert (found.identified.control == window) is (is_named or is_by_drops), found.identified.reasons
        assert is_exact(found.identified.left[0])


@pytest.mark.parametrize("window", ["compound", "htcp", "cubic"])
def test_where_the_queue_runs_empty_between_losses_a_law_must_pass_through_what_is_seen_there(window: str) -> None:
    """A buffer of a third of the pipe: a cut empties it, and each round trip is a train that follows its first ACK."""
    path = PathSpec(nodes=(NodeSpec(rate_bps=11.3e6, buffer=18, delay_s=0.03),), return_delay_s=0.03)
    found = verdict(window, path=path)
    assert found.identified.control == window, found.identified.reasons


@pytest.mark.parametrize(
    ("window", "path", "control"),
    [
        ("bic", LOSSY, "bic"),
        ("hybla", FULL, None),
        ("highspeed", LOSSY, None),
        ("htcp", LOSSY, None),
    ],
)
def test_what_began_in_the_middle_is_told_from_its_first_loss_on(
    window: str, path: PathSpec, control: str | None, tmp_path: Path
) -> None:
    """Nothing tells the way to the sender, and the queue never runs empty: what had left at each loss is known all the
    same. Of a law that goes by delay any least round trip may be from before: refuted is who is off behind each."""
    made = tmp_path / "made.pcap"
    run(control_of(window, "sack"), path, seconds=40.0).write(made, tap="receiver", payload=False)
    write_packets(made, *degrade(*read_packets(made), kind="begins in avoidance", seed=1))
    (found,) = classify(read(made))
    assert found.obstacles.hides_window
    assert not found.seen.timeline.has_start
    assert window in left(found), found.identified.reasons
    assert found.identified.control == control
    assert len(found.identified.refuted) >= 4


def test_the_first_loss_tells_reno_from_m_start() -> None:
    found = verdict("reno")
    assert "reno" in left(found)
    assert "m_start" not in left(found)


def test_a_first_window_is_taken_from_the_capture() -> None:
    """Illinois goes by the longest round trip, which a slow start from another window makes another."""
    path = PathSpec(nodes=(NodeSpec(rate_bps=2e6, buffer=12, delay_s=0.043, loss=0.001),), return_delay_s=0.043)
    control = ControlSpec(window="illinois", recovery="sack", initial_window=2, timestamps=False)
    assert "illinois" in left(judge(sender(captured_of(control, path)), file="simulated"))


@pytest.mark.parametrize("recovery", ["sack", "newreno"])
def test_a_retransmission_is_placed_at_the_third_duplicate_ack(recovery: str) -> None:
    """Behind a gap, in the instant of the first duplicate, or put back: what was outstanding is known at every loss."""
    path = PathSpec(nodes=(NodeSpec(rate_bps=14e6, buffer=28, delay_s=0.022),), return_delay_s=0.022)
    seen = verdict("reno", path=path, recovery=recovery).seen
    timeline = seen.timeline
    above = (timeline.delivered - timeline.snd_una) // timeline.smss
    asked = [int(timeline.acks_before_send[each.first_send]) - 1 for each in seen.episodes]
    assert len(asked) > FEWEST_ALIKE
    assert set(above[asked].tolist()) == {DUP_THRESH}


def test_without_its_own_law_in_the_table_a_sender_is_not_named() -> None:
    who = verdict("cubic-linux").who
    others = [each for each in candidates() if each.name != "cubic"]
    assert identify_between_losses(Reconstruction(who.timeline), chosen=others).control is None


def test_a_rate_has_no_window_to_come_back_to() -> None:
    assert verdict("bbr").identified.control is None


def test_over_a_short_queue_a_rate_loses_every_eight_round_trips_and_is_no_mild_cut() -> None:
    """An eighth of eleven segments is hardly seen, and grows back in as many round trips as BBR's cycle has."""
    short = PathSpec(nodes=(NodeSpec(rate_bps=3.7e6, buffer=4, delay_s=0.024),), return_delay_s=0.024)
    control = ControlSpec(
        window="bbr",
        recovery="sack",
        initial_window=10,
        delayed_ack_segments=2,
        limited_transmit=True,
        byte_counting=True,
    )
    found = judge(sender(captured_of(control, short, seconds=19.0)), file="simulated")
    assert found.identified.control is None, found.identified.reasons
    assert found.identified.may_be_bbr


def test_an_application_that_pauses_hides_the_window_at_its_losses_too() -> None:
    paused = ApplicationSpec(kind="on_off", bytes=400_000, off_s=1.0)
    assert not verdict("cubic-linux", application=paused).identified.refuted


def test_an_applications_pace_is_no_law_that_delay_holds() -> None:
    """Below the path's rate it has as much outstanding at every loss, as Vegas would; what a loss takes never grows
    again."""
    paced = ApplicationSpec(kind="schedule", writes=tuple((number * 0.004, 1030) for number in range(3000)))
    lossy = PathSpec(nodes=(NodeSpec(rate_bps=4.16e6, buffer=20, delay_s=0.0075, loss=0.006),), return_delay_s=0.0075)
    found = verdict("cubic", path=lossy, seconds=12.0, application=paced)
    assert found.who.view is not None
    assert found.identified.control is None, found.identified.reasons
    assert not found.identified.refuted


def test_a_window_that_the_receivers_hides_most_of_the_time_names_nobody() -> None:
    found = verdict("reno", path=SHALLOW)
    seen: Any = SimpleNamespace(is_rwnd_limited=True)
    assert found.identified.refuted
    assert not opened_where_held(found.identified, seen).refuted


def test_who_is_farther_off_than_another_of_its_family_is_heard_no_further_and_nothing_else_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the middle, where laws that go by delay are asked behind one least round trip after the other, and whose
    first cycles may yet be excused: of each family the nearest is the same as if everyone were heard to the end."""
    made = tmp_path / "made.pcap"
    run(control_of("westwood", "sack"), LOSSY, seconds=40.0).write(made, tap="receiver", payload=False)
    write_packets(made, *degrade(*read_packets(made), kind="begins in avoidance", seed=1))
    dropped = list[int]()
    within_bounds = by_itself._within_bounds

    def counted(reading: Any, asked: Any, contest: Any, *more: Any) -> list[int]:
        kept = within_bounds(reading, asked, contest, *more)
        dropped.append(len(contest.judged()) - len(kept))
        return kept

    def everyone(reading: Any, asked: Any, contest: Any, *more: Any) -> list[int]:
        return [number for number, _, _ in contest.judged()]

    answers = []
    for rule in (counted, everyone):
        monkeypatch.setattr(by_itself, "_within_bounds", rule)
        (found,) = classify(read(made))
        assert not found.seen.timeline.has_start
        answers.append(found.as_dict())
    assert answers[0] == answers[1]
    assert sum(dropped) > len(dropped)


def test_each_refuted_control_is_explained_by_the_packet_of_a_loss() -> None:
    connection = captured("cubic-linux")
    found = judge(sender(connection), file="simulated")
    rows = [row for row in explain(found, connection) if row["about"] == "candidate"]
    assert len(rows) == len(found.identified.refuted) > 0
    assert all(row["frame"] is not None and "in cycle" in row["says"] for row in rows)


def test_less_than_nothing_outstanding_is_no_window() -> None:
    """ACKs of other numbers than the data's, as where a tool has moved those of one way only."""
    heard: Any = SimpleNamespace(timeline=SimpleNamespace(acks_before_send=np.array([9])), unsettled=())
    loss: Any = SimpleNamespace(first_send=0, flight=-(1 << 31), restarts=False)
    assert not is_told(heard, None, loss)


@pytest.mark.parametrize(
    ("nearest", "sizes", "is_out"),
    [
        ((0.2, 0.1, 0.3, 0.2, 0.1), (9.0, 5.0, 1.5, 4.0, 3.1), True),
        ((0.2, 0.1, 0.3, 0.2, 0.1), (9.0, 5.0, 1.5, 4.0, 2.9), False),
        ((0.2, 0.1, 0.3, 1.2, 0.1), (9.0, 5.0, 1.5, 4.0, 3.1), False),
    ],
)
def test_who_is_far_off_where_another_is_not_is_asked_about_no_other_clock(
    nearest: tuple[float, ...], sizes: tuple[float, ...], is_out: bool
) -> None:
    best = {name: replay_of(np.array(found)) for name, found in (("cubic", nearest), ("reno", sizes))}
    assert far_off(best) == ({"reno"} if is_out else set())


def replay_of(sizes: Floats) -> Replay:
    """One with errors of these sizes, and nothing else."""
    none: Any = None
    return Replay(candidate=none, tape=none, initial_window=10, later_ns=0, misfits=none, sizes=sizes)
