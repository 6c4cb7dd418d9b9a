"""Captures at the receiver made worse: what was wrong of some of each class, and holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcptrace_lab import read
from tcptrace_lab.classify.verdict import classify
from tcptrace_lab.scenario import ApplicationSpec, ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario
from tcptrace_lab.simulate import simulate
from tests.claims import IDENTIFY, runs
from tests.classify.test_odd_taps import judged
from tests.degraded import variants


@pytest.mark.parametrize("seed", [8600212, 8600224])
def test_a_silence_with_data_in_it_is_no_recovery(seed: int, tmp_path: Path) -> None:
    """The receiver's ACKs took another way for a fifth of the run: the loss before was mended meanwhile."""
    wrong, verdict = judged(seed, "one way meanwhile", tmp_path, worse_at="receiver")
    assert not wrong
    assert verdict.who.tap.unanswered_ns > 0
    assert verdict.limits["cwnd"] > 0.4


@pytest.mark.parametrize("name", ["veno"])
def test_what_acks_told_of_before_they_went_another_way_had_arrived(name: str, tmp_path: Path) -> None:
    """Begun in a recovery: holes of before the capture, filled by nothing in it, hold no later ACK back."""
    if not IDENTIFY.exists():
        pytest.skip("shared captures are not here")
    run = [each for each in runs() if each.name == name]
    found = variants(run, ["begins in a recovery + one way at last"], seed=1, folder=tmp_path, at="receiver")
    assert all(not variant.judged.wrong for variant in found)


@pytest.mark.parametrize(("seed", "variant"), [(8600204, "receiver"), (8600204, "clock steps back")])
def test_the_pace_of_a_slow_reader_is_no_bottlenecks(seed: int, variant: str, tmp_path: Path) -> None:
    """It reads 1 Mbit/s of a path of 1.5: the sender keeps to the window that its reads open."""
    wrong, verdict = judged(seed, variant, tmp_path, worse_at="receiver")
    assert not wrong
    assert verdict.path.bottleneck_bps.low is not None
    assert verdict.path.bottleneck_bps.high is None


@pytest.mark.parametrize(
    ("seed", "variant"),
    [
        (8600073, "one ACK of four"),
        (8600095, "bare ACKs stripped + 1 % seen twice"),
        (8600257, "one ACK of four"),
    ],
)
def test_round_trips_between_acks_that_were_put_back_are_known_to_two_ticks(
    seed: int, variant: str, tmp_path: Path
) -> None:
    """Where in their ticks lay neither the ACK put back nor the captured one that it is counted from."""
    wrong, verdict = judged(seed, variant, tmp_path, worse_at="receiver")
    assert not wrong
    assert verdict.path.base_rtt_s.high is not None


@pytest.mark.parametrize(
    ("seed", "variant"),
    [
        (8600091, "idle tail, keep-alives + stamped by polls"),
        (8600121, "stamped by polls"),
        (8600130, "tap lost 0.1 % + stamped by polls"),
    ],
)
def test_acks_that_their_own_stamps_show_late_bound_no_round_trip_closely(
    seed: int, variant: str, tmp_path: Path
) -> None:
    """A tap read every 1 to 3 ms: the receiver's TSvals count the milliseconds at which its ACKs left."""
    wrong, verdict = judged(seed, variant, tmp_path, worse_at="receiver")
    assert not wrong
    base = verdict.path.base_rtt_s
    assert base.value is not None
    assert base.high is not None
    assert base.high - base.value > 0.002


@pytest.mark.parametrize(
    ("seed", "variant"),
    [
        # The end of the capture is a turn behind the ACKs that would have released more: no restart.
        (8961043, "receiver"),
        # Held by a slow reader's window between its losses, Reno comes to Vegas's flights at them.
        (8929094, "receiver"),
        # A timer restarted it: whether behind avoidance, flights that are open do not tell.
        (8600141, "receiver"),
        # A thousand segments above a hole whose repair was not captured: a loss, and no whole cycle.
        (8931051, "ends early + interrupt batches"),
        # No loss yet: one slow start is all that this piece has.
        (8932033, "reset forged + ends early"),
    ],
)
def test_nothing_is_made_of_what_is_not_in_the_capture(seed: int, variant: str, tmp_path: Path) -> None:
    """RFC 5681 section 3.1: what an ACK releases passes the receiver a round trip later, and as rwnd lets it."""
    wrong, _ = judged(seed, variant, tmp_path, worse_at="receiver")
    assert not wrong


@pytest.mark.parametrize("delayed", [1, 2])
@pytest.mark.parametrize("segments", [40, 60, 80, 100])
def test_a_short_download_shows_its_slow_start_without_timestamps(segments: int, delayed: int, tmp_path: Path) -> None:
    """Flights of 8, 16, 32, ... segments, or half as many more each: which ACK let which segment go is not known, how
    large each flight was is. The data ran out before any threshold."""
    control = ControlSpec(
        window="cubic", recovery="sack", timestamps=False, initial_window=8, delayed_ack_segments=delayed
    )
    scenario = Scenario(
        profile="rfc",
        path=PathSpec(nodes=(NodeSpec(rate_bps=90e6, buffer=400, delay_s=0.03),), return_delay_s=0.027),
        connections=(
            ConnectionSpec(control=control, application=ApplicationSpec(kind="bytes", bytes=segments * 1460)),
        ),
        duration_s=5.0,
        taps=("sender", "receiver"),
    )
    path = tmp_path / "short.pcap"
    simulate(scenario).write(path, tap="receiver")
    (verdict,) = classify(read(path))
    assert verdict.as_dict()["initial_window"]["segments"] == 8
    assert verdict.limits["cwnd"] > 0.9
    assert [each.ssthresh for each in verdict.slow_starts.cycles] == [(None,)]
