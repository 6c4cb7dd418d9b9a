"""What is told where no window is seen: at a receiver, without timestamps, behind a queue that never runs empty."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tcptrace_lab import read
from tcptrace_lab.classify.verdict import Verdict, classify
from tcptrace_lab.simulate import simulate
from tests.claims import main_verdict
from tests.classify.test_random_classes import of
from tests.conftest import SHARED
from tests.random_runs import random_scenario, tapped


def at_receiver(seed: int, folder: Path) -> Verdict:
    """Of a random run whose window is not seen there."""
    found = tapped(seed, folder)
    assert found is not None
    verdict = main_verdict(found.places["receiver"], without=found.others)
    assert verdict is not None
    assert verdict.who.order is not None
    return verdict


@pytest.mark.parametrize(
    ("seed", "regime"),
    [
        # Half a window goes on between each repair and its answer: SACK, NewReno, and without a threshold in sight.
        (5210005, "none"),
        (5210066, "none"),
        (5210144, "none"),
        # No loss, and one loss that the slow start made: each ACK had opened the window by a segment.
        (5210022, "single"),
        (5210042, "single"),
        # Tahoe: nothing follows the repair until it is answered; the loss ended a slow start.
        (5210018, "double"),
    ],
)
def test_the_order_of_what_came_tells_the_regime(seed: int, regime: str, tmp_path: Path) -> None:
    """RFC 5681 sections 3.1 and 3.2, RFC 6298 section 5: a restarted sender waits for one answer."""
    starts = at_receiver(seed, tmp_path).slow_starts
    assert starts.regime == regime
    # Where each ended takes a window.
    assert not starts.cycles


@pytest.mark.parametrize(
    ("seed", "kind"),
    [
        # Repairs tell the turn, with the queue that they met; it never ran empty, as behind a restart.
        (8760128, "no SYN"),
        (8760169, "begins in avoidance"),
        # Two holes only: what was asked for came late, where data is answered at once.
        (8760267, "begins in avoidance"),
    ],
)
def test_the_order_tells_it_without_handshake_and_of_one_cycle(seed: int, kind: str, tmp_path: Path) -> None:
    """RFC 5681 section 3.2: the third duplicate ACK asks for the repair, which passes a turn later."""
    _, verdict = of(seed, tmp_path, kind=kind, place="receiver")
    assert verdict.who.vantage in ("receiver", "unknown")
    assert verdict.slow_starts.regime == "none"


@pytest.mark.parametrize(
    ("seed", "kind"),
    [
        # A full queue takes longer than a timer may: behind a timer's segment nothing would come for a round trip.
        (8780182, "timestamps stripped"),
        # No loss on either side of the tap, wherever that is, and flights that grew: 4 segments, then 8.
        (8780307, "no SYN"),
        # The first segment, a pause, and none after it.
        (8780170, "no SYN"),
    ],
)
def test_what_no_window_is_needed_for_is_told(seed: int, kind: str, tmp_path: Path) -> None:
    """RFC 5681 section 3.1: a connection begins with a slow start; a timer leaves its sender one segment."""
    _, verdict = of(seed, tmp_path, kind=kind, place="receiver")
    assert verdict.obstacles.hides_window
    assert verdict.slow_starts.regime == "single"


@pytest.mark.parametrize(
    "seed",
    [
        # One segment was asked for before the capture began, and more left than a timer's sender sends.
        8780207,
        8780230,
        # Recoveries take most of the time: each goes on without a restart all the same.
        8780123,
    ],
)
def test_a_capture_that_begins_amid_a_recovery_tells_what_follows(seed: int, tmp_path: Path) -> None:
    """RFC 5681 section 3.2: duplicate ACKs that were not captured asked for the repair, not a timer."""
    _, verdict = of(seed, tmp_path, kind="begins in avoidance", place="receiver")
    assert verdict.seen.episodes[0].detected_by == "sack"
    assert verdict.slow_starts.regime == "none"


def test_where_whole_cycles_are_few_what_left_within_a_recovery_tells_too(tmp_path: Path) -> None:
    """After a mild cut the next overflow is of what left within the recovery: two cycles are whole, and two are not."""
    _, verdict = of(8780134, tmp_path, kind="timestamps stripped", place="receiver")
    assert verdict.identified.control == "scalable"


def test_a_loss_that_may_be_the_slow_starts_own_makes_no_cycle(tmp_path: Path) -> None:
    """The connection's slow start, and two losses: at the sender one cycle, single. Here its window is not seen."""
    assert at_receiver(8971010, tmp_path).slow_starts.regime == "undecided"


def test_a_lead_a_little_later_than_others_behind_its_ack_shows_a_restart(tmp_path: Path) -> None:
    """Tahoe: after a silence of a turn two segments, released by the answer to the repair."""
    _, verdict = of(8760229, tmp_path, kind="timestamps stripped", place="receiver")
    assert verdict.slow_starts.regime == "double"
    assert [each.restarts for each in verdict.seen.episodes] == [True]


@pytest.mark.parametrize("seed", [5210005, 5210066])
def test_the_order_tells_it_where_the_tap_lost_packets_too(seed: int, tmp_path: Path) -> None:
    """A hole that nobody asks for is no loss; most repairs and their answers are still there."""
    _, verdict = of(seed, tmp_path, kind="tap lost 0.1 % of data", place="receiver")
    assert verdict.who.tap.is_holed
    assert verdict.slow_starts.regime == "none"


@pytest.mark.parametrize(
    "seed",
    [
        # Reno's several events in one window, some of them others'.
        5210154,
        # One loss, after a slow start that had ended before: which of the two lost it takes a window.
        5210019,
        # A loss that the first recovery may have mended is no second cycle.
        5200034,
    ],
)
def test_what_may_be_another_losss_tells_no_regime(seed: int, tmp_path: Path) -> None:
    assert at_receiver(seed, tmp_path).slow_starts.regime == "undecided"


@pytest.mark.parametrize(("seed", "segments"), [(5210005, 3), (5210018, 1), (5210034, 10), (5210131, 1)])
def test_what_came_before_anything_can_have_answered_is_the_initial_window(
    seed: int, segments: int, tmp_path: Path
) -> None:
    """RFC 6928; behind a silence it is known which ACK released the second flight, others' segments between or not."""
    assert at_receiver(seed, tmp_path).as_dict()["initial_window"]["segments"] == segments


@pytest.mark.parametrize(
    ("seed", "cwnd", "recovery"),
    [
        # By the sender's own capture; the rest is what the losses leave open.
        (5210044, 0.95, 0.05),
        (5210104, 0.89, 0.11),
        # A queue of four packets: of each recovery the time up to the third duplicate is open.
        (5210205, 0.76, 0.24),
    ],
)
def test_from_loss_to_loss_a_queue_that_stands_is_the_windows(
    seed: int, cwnd: float, recovery: float, tmp_path: Path
) -> None:
    """RFC 8985: when within the first duplicates a sender noticed is its own; nothing else held it back between."""
    limits = at_receiver(seed, tmp_path).limits
    assert limits["unknown"] < 0.2
    for name, share in {"cwnd": cwnd, "recovery": recovery}.items():
        assert share - limits["unknown"] - 0.04 <= limits[name] <= share + 0.04


@pytest.mark.parametrize("seed", [5210022, 5210056, 5210084])
def test_where_the_receivers_window_or_the_application_held_back_nothing_is_put_down_to_the_window(
    seed: int, tmp_path: Path
) -> None:
    """No loss met a queue, or the window offered was near, or there were pauses: a slow start's flights apart."""
    found, verdict = of(seed, tmp_path, place="receiver")
    assert verdict.who.order is not None
    for name in ("cwnd", "recovery"):
        assert verdict.limits.get(name, 0.0) <= found.limits.get(name, 0.0) + 0.02


@pytest.mark.parametrize("seed", [5210039, 5210207])
def test_after_a_mild_cut_losses_of_what_left_within_a_recovery_tell_the_control(seed: int, tmp_path: Path) -> None:
    """BIC's and YeAH's: whole windows between the losses are too few, but the cuts are seen."""
    verdict = at_receiver(seed, tmp_path)
    assert verdict.identified.refuted
    told = verdict.as_dict()["sender_tcp"]["candidates"]
    assert {"bic", "yeah"} & {each["name"] for each in told if not each["against"]}


def test_a_slow_start_is_seen_to_grow_by_its_flights_where_a_rule_puts_them_evenly(tmp_path: Path) -> None:
    """Held by the receiver's window after three round trips; of no loss the slow start is the connection's."""
    scenario = random_scenario(5210204)
    (one,) = scenario.connections
    path = tmp_path / "receiver.pcap"
    without = replace(one, control=replace(one.control, timestamps=False))
    simulate(replace(scenario, connections=(without,))).write(path, tap="receiver", payload=False)
    verdict = main_verdict(path)
    assert verdict is not None
    assert verdict.slow_starts.per_cycle == (1,)
    assert verdict.slow_starts.regime == "single"


PUBLIC = SHARED / "captures" / "public"


@pytest.mark.skipif(not PUBLIC.exists(), reason="the public captures are not at hand")
def test_a_first_flight_that_was_all_there_was_to_send_is_no_initial_window() -> None:
    """Responses of one segment, whatever its size; where more follows it is told."""
    (path,) = PUBLIC.rglob("ndpi-1kxun.pcap")
    told = {each.who.connection: each.as_dict()["initial_window"]["segments"] for each in classify(read(path))}
    assert told[1] is told[3] is None
    assert told[5] == told[11] == 10
