"""Which control sent it: simulated senders are named from their packets, the kernel's as the recordings' index says."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest

from docs.make_identification import Score, draw, one
from tcptrace_lab import classify, read
from tcptrace_lab.classify.control.answer.followed import excused, grows_alone, is_followed
from tcptrace_lab.classify.control.answer.identified import Identified
from tcptrace_lab.classify.control.answer.refuted import sends_the_same
from tcptrace_lab.classify.control.candidates.candidates import Candidate, candidates
from tcptrace_lab.classify.control.candidates.hearing import replays
from tcptrace_lab.classify.control.candidates.likelihood import REFUTED, Replay, log_likelihood, most_per_piece
from tcptrace_lab.classify.control.readings.identify import identify, replays_of_others
from tcptrace_lab.classify.control.shown.compared import Part
from tcptrace_lab.classify.control.shown.tape import Tapes
from tcptrace_lab.classify.sender.initial_window import initial_window
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import sender
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
from tests.conftest import shared

# 60 packets on the way and 40 waiting: Reno saws between 50 and 100, where its relatives differ from it.
PATH = PathSpec(nodes=(NodeSpec(rate_bps=12e6, buffer=40, delay_s=0.03),), return_delay_s=0.03)


def named(
    control: ControlSpec,
    *,
    path: PathSpec = PATH,
    duration_s: float = 40.0,
    asked: Sequence[Candidate] = (),
    **more: Any,
) -> Identified:
    connection = ConnectionSpec(control=control, **more)
    done = simulate(Scenario(path=path, connections=(connection,), duration_s=duration_s, profile="rfc"))
    seen = Reconstruction(sender(done.capture(tap="sender")[0]).timeline)
    return identify(seen, initial_window=initial_window(seen), chosen=asked)


# A row: what sent, and the family that it is.
SENDERS = (
    (ControlSpec(window="reno", recovery="sack", initial_window=10), "reno"),
    (ControlSpec(window="reno", recovery="newreno", byte_counting=True, delayed_ack_segments=2), "reno"),
    (ControlSpec(window="cubic", recovery="sack", initial_window=10, delayed_ack_segments=2), "cubic"),
    (ControlSpec(window="cubic-linux", recovery="sack", initial_window=3), "cubic"),
    (ControlSpec(window="compound-draft", recovery="sack", initial_window=10), "compound"),
    (ControlSpec(window="reno", slow_start="m-start", recovery="sack", rack=True), "m_start"),
    (ControlSpec(window="htcp", recovery="sack", initial_window=10), "htcp"),
    # On the clock of a kernel's ticks, as Linux has the module.
    (ControlSpec(window="htcp", recovery="sack", parameters=(("module_hz", 250.0),)), "htcp"),
    (ControlSpec(window="westwood", recovery="sack", parameters=(("module_hz", 250.0),)), "westwood"),
    (ControlSpec(window="westwood", recovery="sack", parameters=(("module_hz", 1000.0),)), "westwood"),
    (
        ControlSpec(window="cubic-linux", recovery="sack", initial_window=10, parameters=(("kernel_hz", 1000.0),)),
        "cubic",
    ),
    (ControlSpec(window="illinois", recovery="sack", initial_window=10), "illinois"),
    (ControlSpec(window="scalable", recovery="sack", initial_window=10), "scalable"),
    (ControlSpec(window="highspeed", recovery="sack", initial_window=10), "highspeed"),
    # Round trips of what was sent twice, by timestamps.
    (ControlSpec(window="veno", recovery="sack", delayed_ack_segments=2, timestamps=True), "veno"),
    # A slow start that slows down before it ends, and counts bytes where the window counts ACKs.
    (ControlSpec(window="reno", slow_start="hystart", recovery="sack", delayed_ack_segments=2), "reno"),
    # Six seconds: no probe of the round trip is due.
    (ControlSpec(window="bbr", recovery="sack", initial_window=10), "bbr"),
)


@pytest.mark.parametrize(("control", "family"), SENDERS, ids=lambda value: value if isinstance(value, str) else None)
def test_a_sender_is_named_by_its_packets(control: ControlSpec, family: str) -> None:
    """Some loss cycles at a drop-tail bottleneck tell the controls apart."""
    found = named(control, duration_s=6.0 if family == "bbr" else 40.0)
    assert found.control == family, found.reasons
    assert found.confidence > 0.9


def test_a_tahoe_that_goes_back_over_hundreds_of_segments_is_told_by_its_cuts() -> None:
    """What it sends twice is answered by duplicate ACKs, which tell of no new data: its flight is whole."""
    wide = PathSpec(nodes=(NodeSpec(rate_bps=100e6, buffer=300, delay_s=0.02),), return_delay_s=0.02)
    control = ControlSpec(recovery="tahoe", initial_window=10, delayed_ack_segments=2, timestamps=True)
    assert named(control, path=wide, duration_s=30.0).control == "reno"


# What a sender does besides its control's law, of which the packets tell only in part.
OWN: dict[str, tuple[ControlSpec, PathSpec, float | None, tuple[str, str]]] = {
    "a timer that expires within a recovery, SACKs on an ACK that moves the left edge, losses found by time": (
        ControlSpec(window="cubic", recovery="sack", delayed_ack_segments=2, limited_transmit=True, rack=True),
        PathSpec(nodes=(NodeSpec(rate_bps=1.1e6, buffer=13, delay_s=0.0463),), return_delay_s=0.0463),
        0.054,
        ("cubic", "counts ACKs"),
    ),
    "a window that the receiver's kept from being used when the loss came": (
        ControlSpec(window="compound", recovery="sack", rack=True),
        PathSpec(nodes=(NodeSpec(rate_bps=1.76e6, buffer=42, delay_s=0.074),), return_delay_s=0.074),
        None,
        ("compound", "gamma 30"),
    ),
    "a full acknowledgment that leaves less than ssthresh, and opens the window": (
        ControlSpec(window="reno-linux", recovery="newreno", initial_window=3, delayed_ack_segments=2, timestamps=True),
        PathSpec(nodes=(NodeSpec(rate_bps=2.48e6, buffer=6, delay_s=0.0081),), return_delay_s=0.0081),
        3.08,
        ("reno", "reno-linux"),
    ),
    "a least round trip that is the whole ticks of a timestamp's": (
        ControlSpec(window="veno", recovery="sack", initial_window=10, timestamps=True, delayed_ack_segments=2),
        PathSpec(nodes=(NodeSpec(rate_bps=11.6e6, buffer=12, delay_s=0.0259, loss=0.0005),), return_delay_s=0.0259),
        None,
        ("veno", "veno"),
    ),
    "round trips of what is SACKed at a hole": (
        ControlSpec(window="illinois", recovery="sack", initial_window=3, timestamps=True),
        PathSpec(nodes=(NodeSpec(rate_bps=11.6e6, buffer=3, delay_s=0.011),), return_delay_s=0.011),
        None,
        ("illinois", "illinois"),
    ),
}


@pytest.mark.parametrize(("control", "path", "other_starts_s", "which"), OWN.values(), ids=OWN)
def test_a_senders_own_law_replays_as_it_was_sent(
    control: ControlSpec, path: PathSpec, other_starts_s: float | None, which: tuple[str, str]
) -> None:
    """Every loss cycle and every cut, to a tenth of what is open."""
    connections = [ConnectionSpec(control=control)]
    if other_starts_s is not None:
        connections += [ConnectionSpec(control=ControlSpec(recovery="sack", initial_window=10), start_s=other_starts_s)]
    done = simulate(Scenario(path=path, connections=tuple(connections), duration_s=25.0, profile="rfc"))
    seen = Reconstruction(sender(done.capture(tap="sender")[0]).timeline)
    chosen = [each for each in candidates() if each.name == which[0] and which[1] in each.variant]
    found = replays(chosen, Tapes.of(seen, None).read(), initial_window(seen) or 0)
    assert min(float(each.sizes.max()) for each in found) < 0.1
    assert len(seen.episodes) > 2


# Runs as docs/make_identification.py draws them, by seed and number: what is left of the table. One is the name.
DRAWN = {
    "a hundred pieces followed by one law alone: two in which another is a segment off are no chance": (
        (20301502, 13),
        {"westwood"},
    ),
    "ticks of the capture's own clock, in which a sample of the bandwidth is due or not": (
        (20301502, 669),
        {"westwood"},
    ),
    "a slow start that slows down a little before it ends": ((20301502, 483), {"scalable"}),
    "Reno that counts ACKs behind HyStart++ grows as Veno does over a queue": ((20301502, 27), {"reno", "veno"}),
    "the first ACK with a SACK block moves the left edge too: both have arrived": ((20301501, 64), {"scalable"}),
}


@pytest.mark.parametrize(("seed", "left"), DRAWN.values(), ids=DRAWN)
def test_a_drawn_sender_is_left_of_the_table(seed: tuple[int, int], left: set[str]) -> None:
    scenario, truth = draw(np.random.default_rng(seed))
    seen = Reconstruction(sender(simulate(scenario).capture(tap="sender")[0]).timeline)
    found = identify(seen, initial_window=initial_window(seen))
    assert truth in left
    assert {each.candidate.name for each in found.left} == left
    assert found.control == (truth if len(left) == 1 else None)


def test_a_host_that_answers_late_for_a_while_is_no_other_control() -> None:
    """A dozen ACKs release nothing, the next what all of them allow: the window was what it was."""
    connection = ConnectionSpec(control=ControlSpec(window="reno", recovery="sack", initial_window=10))
    done = simulate(Scenario(path=PATH, connections=(connection,), duration_s=25.0, profile="rfc"))
    timeline = sender(done.capture(tap="sender")[0]).timeline
    asleep_ns, late_ns = 8_000_000_000, 12_000_000
    times, begins = timeline.send_ns.copy(), timeline.start_ns + asleep_ns * np.arange(1, 4)
    for begin_ns in begins:
        held = (times >= begin_ns) & (times < begin_ns + late_ns)
        assert np.count_nonzero(held) > 8
        times[held] = begin_ns + late_ns
    seen = Reconstruction(replace(timeline, send_ns=times))
    found = identify(seen, initial_window=initial_window(seen))
    assert found.control == "reno", found.reasons
    assert float(found.left[0].sizes_of("growth").max()) < 0.1


def test_a_run_without_a_loss_tells_no_control_from_another() -> None:
    """Slow start is the same under every window: a set, and the reason."""
    path = PathSpec(nodes=(NodeSpec(rate_bps=12e6, buffer=400, delay_s=0.03),), return_delay_s=0.03)
    found = named(ControlSpec(window="cubic", recovery="sack", initial_window=10), path=path, duration_s=0.4)
    assert found.control is None
    assert {"reno", "cubic", "compound"} <= {each.candidate.name for each in found.left}
    assert "m_start" not in {each.candidate.name for each in found.left}


@pytest.mark.parametrize("window", ["reno", "bbr"])
def test_a_start_alone_may_be_one_by_rate(window: str) -> None:
    """Startup doubles as a slow start does; nothing of so little tells the two apart. Growth does, again and again."""
    path = PathSpec(nodes=(NodeSpec(rate_bps=12e6, buffer=400, delay_s=0.03),), return_delay_s=0.03)
    control = ControlSpec(window=window, recovery="sack", initial_window=10)
    found = named(control, path=path, duration_s=0.4)
    left = [row for row in found.as_dicts() if row["against"] is None]
    assert {window, "bbr"} <= {row["name"] for row in left}
    assert sum(row["confidence"] for row in left) == pytest.approx(1.0, abs=0.01)
    grown = named(ControlSpec(window="reno", recovery="sack", initial_window=10), path=PATH, duration_s=40.0)
    assert not grown.may_be_bbr


@pytest.mark.parametrize(
    ("rate_bps", "rtt_s", "buffer", "loss"),
    [
        pytest.param(13.7e6, 0.047, 6, 0.0015, id="drops end a probe late, and its drain soon"),
        pytest.param(36e6, 0.0133, 7, 0.0, id="ACKs come closer than a host answers them"),
        pytest.param(6.4e6, 0.022, 4, 0.0, id="six segments in half a round trip"),
    ],
)
def test_a_rate_that_probes_every_eight_round_trips_is_bbrs(
    rate_bps: float, rtt_s: float, buffer: int, loss: float
) -> None:
    """Eight seconds: too few for a probe of the round trip."""
    node = NodeSpec(rate_bps=rate_bps, buffer=buffer, delay_s=rtt_s / 2, loss=loss)
    control = ControlSpec(window="bbr", recovery="sack", initial_window=10, limited_transmit=True, byte_counting=True)
    found = named(control, path=PathSpec(nodes=(node,), return_delay_s=rtt_s / 2), duration_s=8.0)
    assert found.control == "bbr", found.reasons


@pytest.mark.parametrize(("rate_bps", "name"), [(15e6, "bbr"), (2e6, None)])
def test_a_window_that_no_law_follows_may_be_one_by_rate(rate_bps: float, name: str | None) -> None:
    """BBR over a buffer of four packets, at its receiver: a loss in each round trip, and a little growth between.

    Drops end its probes late and its drains soon; of two segments in half a round trip a quarter more is not seen.
    """
    path = PathSpec(nodes=(NodeSpec(rate_bps=rate_bps, buffer=4, delay_s=0.008),), return_delay_s=0.008)
    control = ControlSpec(
        window="bbr", recovery="sack", timestamps=True, delayed_ack_segments=2, rack=True, limited_transmit=True
    )
    connection = ConnectionSpec(control=control)
    run = simulate(Scenario(path=path, connections=(connection,), duration_s=8.0, profile="rfc", taps=("receiver",)))
    (verdict,) = classify(run.capture(tap="receiver"))
    found = verdict.as_dict()["sender_tcp"]
    assert found["congestion_control"] == name
    assert "bbr" in {row["name"] for row in found["candidates"] if row["against"] is None}


@pytest.mark.parametrize("window", ["compound", "htcp"])
def test_a_sender_that_drains_what_is_written_at_times_is_not_unknown(window: str) -> None:
    """80 kB every 100 ms on a pipe that carries 125: a write fills the window and runs dry, losses meet a short flight.

    An epoch in which it runs dry is judged up to there, and no cut leaves more than there was.
    """
    application = ApplicationSpec(kind="schedule", writes=tuple((0.1 * number, 80_000) for number in range(120)))
    path = PathSpec(nodes=(NodeSpec(rate_bps=10e6, buffer=40, delay_s=0.02),), return_delay_s=0.02)
    control = ControlSpec(window=window, recovery="sack", initial_window=3)
    found = named(control, path=path, duration_s=20.0, application=application)
    assert found.control in (None, window), found.reasons
    assert window in {each.candidate.name for each in found.left}


# Without Reno, YeAH is the name of the second: on a short queue it is Reno but for its first cut.
@pytest.mark.parametrize(
    ("control", "family"), [SENDERS[0], *SENDERS[2:10]], ids=lambda value: value if isinstance(value, str) else None
)
def test_a_control_that_is_taken_out_of_the_table_is_unknown_or_a_set(control: ControlSpec, family: str) -> None:
    """Never the nearest name: what would be a wrong answer is not given."""
    done = simulate(Scenario(path=PATH, connections=(ConnectionSpec(control=control),), duration_s=40.0, profile="rfc"))
    seen = Reconstruction(sender(done.capture(tap="sender")[0]).timeline)
    others = [each for each in candidates() if each.name != family]
    found = identify(seen, initial_window=initial_window(seen), chosen=others)
    assert found.control in (None, "unknown"), found.reasons


def test_what_an_unknown_sender_does_is_told_in_numbers() -> None:
    """Scalable, if nobody knew of it: it grows with its window, and seven eighths remain."""
    control = ControlSpec(window="scalable", recovery="sack", initial_window=10)
    done = simulate(Scenario(path=PATH, connections=(ConnectionSpec(control=control),), duration_s=40.0, profile="rfc"))
    seen = Reconstruction(sender(done.capture(tap="sender")[0]).timeline)
    others = [each for each in candidates() if each.name not in ("scalable", "yeah")]
    found = identify(seen, initial_window=initial_window(seen), chosen=others)
    assert found.control == "unknown"
    first = found.as_dicts()[0]
    assert first["name"] == "unknown"
    assert "a loss leaves 0.87 of the window" in first["against"] or "a loss leaves 0.88" in first["against"]
    assert "segments per round trip" in first["against"]
    assert "never falls without a loss" in first["against"]
    assert "as ACKs arrive" in first["against"]


def test_a_first_window_that_was_not_seen_speaks_against_nobody() -> None:
    """One segment at first, and only a slow start up to the receiver's window: it is everybody's, from one segment."""
    path = PathSpec(nodes=(NodeSpec(rate_bps=75e6, buffer=150, delay_s=0.0075),), return_delay_s=0.0075)
    connection = ConnectionSpec(
        control=ControlSpec(recovery="sack", initial_window=1), receiver=ReceiverSpec(rwnd=80_000)
    )
    done = simulate(Scenario(path=path, connections=(connection,), duration_s=2.0, profile="rfc"))
    found = identify(Reconstruction(sender(done.capture(tap="sender")[0]).timeline), initial_window=None)
    assert found.control is None
    assert {"reno", "cubic", "hybla"} <= {each.candidate.name for each in found.left}


@pytest.mark.parametrize("by_cwnd", [0.0, 1.0])
@pytest.mark.parametrize("gamma", [15.0, 45.0])
def test_a_compound_of_any_threshold_is_named_with_its_bounds(gamma: float, by_cwnd: float) -> None:
    """Section 3.2 of the draft, in both readings: round trips of what is SACKed are among those that it hears."""
    control = ControlSpec(
        window="compound-packets",
        recovery="sack",
        initial_window=10,
        timestamps=True,
        stack="linux",
        gamma=gamma,
        parameters=(("dwnd_by_cwnd", by_cwnd),),
    )
    path = PathSpec(nodes=(NodeSpec(rate_bps=32e6, buffer=120, delay_s=0.048),), return_delay_s=0.048)
    found = named(control, path=path, duration_s=40.0)
    assert found.control == "compound", found.reasons
    assert ("dwnd_by_cwnd" in found.left[0].candidate.variant) == bool(by_cwnd)
    assert found.gamma.low is not None
    assert found.gamma.high is not None
    assert found.gamma.low <= gamma <= found.gamma.high


def test_a_reno_says_which_compound_would_have_sent_the_same() -> None:
    """Over a queue that halving does not empty down to gamma the delay window stays shut."""
    path = PathSpec(nodes=(NodeSpec(rate_bps=12e6, buffer=90, delay_s=0.03),), return_delay_s=0.03)
    for sent in ({"window": "compound-packets", "gamma": 8.0}, {"window": "reno", "byte_counting": True}):
        found = named(ControlSpec(recovery="sack", initial_window=10, **sent), path=path, duration_s=60.0)
        assert found.control == "reno"
        assert any("a Compound of gamma <=" in reason for reason in found.reasons)
        (compound,) = (row for row in found.as_dicts() if row["name"] == "compound")
        assert "it is reno here" in compound["against"]


def replay_of(
    growth: list[float], cuts: Sequence[float] = (0.0, 0.0, 0.0), *, of: str = "highspeed", has_start: bool = True
) -> Any:
    """Errors of a law's growth in units of what is open, of each cycle one, and of its cuts."""
    stretch = np.concatenate((np.arange(len(growth)), np.arange(len(cuts))))
    parts = np.array(["growth"] * len(growth) + ["reduction"] * len(cuts))
    places_of = {part: parts == part for part in get_args(Part)}
    # Each cycle of twenty round trips.
    pieces = SimpleNamespace(places_of=places_of, stretch=stretch, cycle=stretch, has_start=has_start, ack=20 * stretch)
    heard = SimpleNamespace(round=np.arange(20 * len(stretch) + 1), seen=SimpleNamespace(stretches=()))
    tape: Any = SimpleNamespace(compared=SimpleNamespace(pieces=pieces, heard=heard, blur=0.0))
    sizes = np.array([*growth, *cuts])
    misfits: Any = None
    candidate = next(each for each in candidates() if each.window == of)
    return Replay(candidate=candidate, tape=tape, initial_window=10, later_ns=0, misfits=misfits, sizes=sizes)


def test_what_hangs_on_cycles_before_the_capture_is_no_departure() -> None:
    """As many cycles follow, in which it is off nowhere; in a capture from the beginning it is."""
    assert is_followed(replay_of([3.0, 2.0, 0.0, 0.0], of="htcp", has_start=False))
    assert not is_followed(replay_of([3.0, 2.0, 0.0, 0.0], of="htcp"))
    assert not is_followed(replay_of([3.0, 2.0, 0.0], of="htcp", has_start=False))
    assert not is_followed(replay_of([3.0, 2.0, 3.0, 3.0], of="htcp", has_start=False))


@pytest.mark.parametrize("of", ["westwood", "htcp", "cubic"])
def test_what_fades_is_excused_where_it_is_off_by_less_than_is_open_too(of: str) -> None:
    """A bandwidth that is smoothed over more than a cycle is off by less and less; a maximum is known or not."""
    off = replay_of([0.9, 0.6] + [0.0] * 9, [0.0] * 11, of=of, has_start=False)
    assert bool(excused(off).sizes.any()) is (of == "cubic")


@pytest.mark.parametrize(("of", "cycles"), [("highspeed", 0), ("cubic", 1), ("vegas", 1), ("westwood", 2), ("htcp", 3)])
def test_a_law_is_excused_for_as_long_as_it_remembers(of: str, cycles: int) -> None:
    """HighSpeed goes by its window alone; a maximum and a base round trip are known after a loss, a bandwidth later."""
    for count, left in ((cycles, 0), (2 * cycles + 1, 2 * cycles + 1)):
        off = replay_of([3.0] * count + [0.0] * 9, [0.0] * (count + 9), of=of, has_start=False)
        assert excused(off).unfit == left


def test_a_law_that_rounds_in_its_own_way_is_named_where_no_other_is_near() -> None:
    """Never to the ACK, but within what is open throughout, and alone so for most of the growth."""
    own = replay_of([0.2, 0.6, 0.3, 0.7, 0.3, 0.4])
    assert grows_alone(own, [replay_of([9.0, 0.1, 8.0, 0.5, 7.0, 9.0])])
    assert not grows_alone(own, [replay_of([9.0, 0.1, 8.0, 0.5, 0.4, 0.9])])
    assert not grows_alone(replay_of([0.2, 0.6, 1.3, 0.7, 0.3, 0.4]), [replay_of([9.0] * 6)])


def test_a_law_that_never_cut_as_was_seen_is_not_named_by_its_growth() -> None:
    """The first cut may be another behind a slow start that overshot, where cuts of its own follow."""
    own, others = [0.0] * 6, [9.0] * 6
    for cuts, is_named in (([16.0, 0.1, 0.2, 0.0], True), ([16.0], False)):
        assert grows_alone(replay_of(own, cuts), [replay_of(others, cuts)]) == is_named


def test_a_delay_window_that_opens_by_a_segment_does_not_tell_a_compound_from_reno() -> None:
    """Veno over a queue that is never short grows by one segment in two round trips, as Reno that counts ACKs does:
    where Veno is not asked, a gamma of which nothing is seen is no reason to call it Compound."""
    path = PathSpec(nodes=(NodeSpec(rate_bps=8e6, buffer=46, delay_s=0.0275),), return_delay_s=0.0275)
    veno = ControlSpec(
        window="veno", recovery="sack", initial_window=10, delayed_ack_segments=2, timestamps=True, byte_counting=True
    )
    others = [each for each in candidates() if each.name != "veno"]
    found = named(veno, path=path, asked=others)
    assert found.control is None
    assert "reno" in {each.candidate.name for each in found.left}


@pytest.mark.parametrize(
    ("opened", "most", "is_reno"), [(0, 0.0, True), (2, 1.0, True), (2, 2.0, False), (50, 1.0, False)]
)
def test_a_delay_window_that_opens_once_by_a_segment_is_no_law_of_its_own(
    opened: int, most: float, is_reno: bool
) -> None:
    """In so few of a hundred rows, by so much, with its document's gamma: Hybla's windows below ten were Compound's."""
    dwnd = np.concatenate((np.full(opened, most), np.zeros(100 - opened)))
    plain = replay_of([0.0] * 4)
    plain.tape.smss, plain.tape.core = 1, SimpleNamespace(memory=lambda *_, **__: {"dwnd": dwnd})
    rows = {each.variant: each for each in candidates()}
    reno, compound = (
        replace(plain, candidate=rows[name]) for name in ("reno-linux", "compound, counts ACKs, gamma 30")
    )
    assert sends_the_same(reno, compound) is is_reno
    odd = np.array([2.0, *reno.sizes[1:]])
    assert not sends_the_same(replace(reno, sizes=odd), compound)
    # Where a piece is disturbed it is off in as many.
    assert sends_the_same(replace(reno, sizes=odd), replace(compound, sizes=odd)) is is_reno


def test_a_compound_whose_delay_window_never_opened_is_not_named() -> None:
    """Reno where Reno is not asked: what grows as Reno does has shown nothing of Compound's own."""
    path = PathSpec(nodes=(NodeSpec(rate_bps=6e6, buffer=10, delay_s=0.03),), return_delay_s=0.03)
    others = [each for each in candidates() if each.name != "reno"]
    reno = ControlSpec(window="reno", recovery="sack", initial_window=10, byte_counting=True)
    found = named(reno, path=path, asked=others)
    assert "compound" in {each.candidate.name for each in found.left}
    assert found.control is None


@pytest.mark.parametrize(
    ("window", "pieces", "is_done"), [("htcp", 400, True), ("htcp", 40, False), ("reno", 400, False)]
)
def test_one_odd_piece_of_hundreds_asks_for_no_other_parameters(window: str, pieces: int, is_done: bool) -> None:
    """But of a Reno's, in which the delay window of a Compound with another gamma may have opened."""
    candidate = next(each for each in candidates() if each.window == window)
    one_odd = replace(replay_of([0.0] * pieces + [2.0]), candidate=candidate)
    asked = []
    tapes: Any = SimpleNamespace(read=lambda **_: asked.append(True) or [], remembering=lambda _: [])
    replays_of_others([one_odd], [candidate], tapes)
    assert bool(asked) is not is_done


def test_a_piece_beyond_what_is_open_says_more_than_one_within() -> None:
    """Who is a quarter of it off in eight of 36 pieces, and nowhere beyond it, is before who is far beyond it in nine.

    One in ten of the disturbed looks like another's own: (36 + 1) / (9 x 0.1) and (36 + 1) / (1 x 0.1) to 1 a piece.
    """
    near, far = np.array([0.25] * 8 + [0.0] * 28), np.array([6.6] * 9 + [0.0] * 27)
    within, beyond = most_per_piece(8, 36), most_per_piece(0, 36)
    assert log_likelihood(near, 0.02, within) - log_likelihood(far, 0.02, within) == pytest.approx(within)
    assert within < REFUTED
    told = log_likelihood(near, 0.02, within, beyond) - log_likelihood(far, 0.02, within, beyond)
    assert told == pytest.approx(9 * beyond - 8 * within)
    assert told > REFUTED


@cache
def recorded() -> dict[str, dict[str, str]]:
    with shared("captures", "identify", "index.csv").open() as file:
        return {row["name"]: row for row in csv.DictReader(file)}


def identified(name: str) -> tuple[dict[str, str], Identified]:
    row = recorded()[name]
    capture = read(shared("captures", "identify", row["sender_capture"]))
    (number,) = [
        number for number, port in enumerate(capture.connections["port"]) if int(port) == int(row["server_port"])
    ]
    seen = Reconstruction(sender(capture[number]).timeline)
    return row, identify(seen, initial_window=initial_window(seen))


@pytest.mark.parametrize(
    "name", ["reno_plain", "reno_nosack", "cubic_loss", "m_start_nots", "htcp", "veno", "vegas", "bbr_plain1"]
)
def test_no_wrong_name_for_a_kernels_sender(name: str) -> None:
    """The set holds the kernel's control, or the answer is that it is none of ours."""
    row, found = identified(name)
    assert found.control in (row["control"], None, "unknown")
    if found.left:
        assert row["control"] in {each.candidate.name for each in found.left}


@pytest.mark.parametrize("name", ["short_1", "short_3", "limited_app", "limited_rwnd"])
def test_a_kernels_sender_that_leaves_no_trace_is_not_named(name: str) -> None:
    """Too short, or held back by something else than its window."""
    _, found = identified(name)
    assert found.control is None
    assert len(found.left) > 1


def test_the_page_of_simulated_senders_counts_a_run() -> None:
    """docs/make_identification.py, which a thousand runs are too long for."""
    drawn, family = draw(np.random.default_rng([1, 2]))
    score = Score()
    one(drawn, family, score)
    assert score.counts["runs"] == 1
    assert score.counts["in the set"] == 1
    assert sum(score.matrix[family].values()) == 1
