"""Claims that taps nobody had drawn before showed to be wrong: of each class some runs, and what holds there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tcptrace_lab.classify.verdict import Verdict
from tcptrace_lab.reconstruct.tap.clock import clock_of
from tcptrace_lab.reconstruct.tap.stalled import stalls
from tcptrace_lab.scenario import ConnectionSpec, NodeSpec, PathSpec
from tests.claims import judge_claims, main_verdict, runs
from tests.classify.test_limits import SACK, verdicts
from tests.conftest import ROOT
from tests.degrade import MS, degrade, keeps_of, read_packets, write_packets
from tests.degraded import variants
from tests.random_runs import at_place, tapped


def judged(seed: int, variant: str, folder: Path, *, worse_at: str = "sender") -> tuple[dict[str, str], Verdict]:
    """What is wrong of a run's capture at a place, or of that of `worse_at` made worse by a kind, and its verdict."""
    found = tapped(seed, folder)
    assert found is not None
    whole = main_verdict(found.run.path, without=found.others)
    assert whole is not None
    run, keeps, path = at_place(found, worse_at), "whole", folder / "worse.pcap"
    if variant in found.places:
        run = at_place(found, variant)
        path = run.path
    else:
        link, packets = read_packets(run.path)
        write_packets(path, *degrade(link, packets, kind=variant, seed=found.scenario.seed))
        keeps = keeps_of(variant)
    verdict = main_verdict(path, without=found.others)
    assert verdict is not None
    return judge_claims(run, whole, verdict, keeps=keeps).wrong, verdict


@pytest.mark.parametrize("seed", [3020001, 3020022, 3020047])
def test_what_a_tap_read_late_gives_no_round_trip(seed: int, tmp_path: Path) -> None:
    """A segment that waited to be read and its ACK are stamped together: microseconds, or a part of the path's."""
    wrong, verdict = judged(seed, "tap stalls", tmp_path)
    assert not wrong
    assert verdict.who.tap.clock.stalled_ns > verdict.seen.base_rtt_ns
    assert any("did not read" in note for note in verdict.who.tap.notes)


@pytest.mark.parametrize("share", [1.1, 1.2])
def test_a_path_that_became_shorter_than_its_handshake_is_no_tap_that_was_late(share: float) -> None:
    """8 Mbit/s: an ACK each 3 ms, which is no silence that makes a round trip shorter by 4 ms and more."""
    path = PathSpec(nodes=(NodeSpec(rate_bps=8e6, buffer=20, delay_s=0.02),), return_delay_s=0.02)
    timeline = verdicts(ConnectionSpec(control=SACK), path=path)[0].seen.timeline
    assert stalls(timeline, share * float(timeline.rtt[1].min()), 1_000) == ((), 0)


@pytest.mark.parametrize(
    ("seed", "variant"), [(3020054, "two resolutions + window scale cut"), (3020048, "two resolutions")]
)
def test_each_way_has_a_tick_of_its_own(seed: int, variant: str, tmp_path: Path) -> None:
    """ACKs in whole milliseconds beside data in nanoseconds: no rate and no queue is finer than the ACKs' tick."""
    wrong, verdict = judged(seed, variant, tmp_path)
    assert not wrong
    assert verdict.who.tap.clock.resolution_ns == MS


def test_a_clock_that_goes_on_from_where_it_was_set_back_to_does_not_jitter(tmp_path: Path) -> None:
    """Three steps in some hundred packets: what follows each is in order, and behind what was stamped before."""
    stamps = np.arange(600) * 100_003
    stamps -= 30 * MS * ((np.arange(600) >= 200).astype(np.int64) + (np.arange(600) >= 400) + (np.arange(600) >= 500))
    clock = clock_of(stamps.astype(np.int64))
    assert (clock.steps_back, clock.jitter_ns) == (3, 0)
    wrong, _ = judged(3010115, "clock steps back + sequence numbers wrap", tmp_path)
    assert not wrong


@pytest.mark.parametrize("variant", ["split from the middle on", "two resolutions + stamped by polls"])
def test_the_rest_of_a_segment_that_was_cut_is_no_second_hole(variant: str, tmp_path: Path) -> None:
    """Sent again as two, both behind the same three duplicates; nor is it told within what a clock leaves open."""
    wrong, _ = judged(3020047 if variant.startswith("split") else 3020038, variant, tmp_path)
    assert "recovery" not in wrong


@pytest.mark.parametrize(("seed", "variant"), [(3020060, "one ACK of four"), (3020040, "directions delayed apart")])
def test_what_leaves_a_round_trip_later_is_not_the_first_flights(seed: int, variant: str, tmp_path: Path) -> None:
    """The ACK that released it was not captured, or both were stamped by a buffer's time apart."""
    assert "initial_window" not in judged(seed, variant, tmp_path)[0]


@pytest.mark.parametrize("seed", [3010088, 3010111])
def test_what_was_lost_behind_all_that_came_in_a_recovery_leaves_no_hole(seed: int, tmp_path: Path) -> None:
    """The last that its duplicates let go, sent again behind the recovery: at the receiver it comes in order."""
    assert "losses" not in judged(seed, "receiver", tmp_path)[0]


@pytest.mark.parametrize(("seed", "variant"), [(3010074, "stamped early"), (3020053, "directions delayed apart")])
def test_a_round_trip_of_stamps_that_may_be_late_does_not_bound_the_path(
    seed: int, variant: str, tmp_path: Path
) -> None:
    """Where effects are stamped before their causes nothing does; where only the turn is known, it may be the tap's."""
    assert "base_rtt_s" not in judged(seed, variant, tmp_path)[0]


def test_of_thinned_acks_no_control_is_called_unknown(tmp_path: Path) -> None:
    """ACKs of eight segments: the sender heard four, and its law is none of the table's by what was captured."""
    assert "control" not in judged(3020074, "ports used again + one ACK of four", tmp_path)[0]


def test_what_is_stamped_before_its_cause_does_not_tell_where_the_tap_was(tmp_path: Path) -> None:
    """By two clocks an ACK's segments seem to follow the one before by a whole round: as if captured midway."""
    wrong, verdict = judged(3010117, "two clocks", tmp_path)
    assert not wrong
    assert verdict.who.vantage == "unknown"


def test_a_queue_no_longer_than_the_stamps_err_by_shows_no_bottleneck(tmp_path: Path) -> None:
    """A flow held by its receiver's window, with stamps that err by some hundred microseconds, out of order."""
    assert not judged(3020062, "noisy stamps, sorted", tmp_path)[0]


def test_where_no_ack_releases_segments_at_once_slow_starts_are_not_counted(tmp_path: Path) -> None:
    """Two machines' clocks drift apart by 3 ms in a minute: in the end what ACKs let go is stamped before them."""
    chosen = [run for run in runs() if run.name == "own: tahoe_small_buffer"]
    (found, _) = variants(chosen, ["clocks that drift apart"], seed=71, folder=tmp_path)
    assert not found.judged.wrong
    assert {"recovery", "losses", "buffer_packets"} <= found.judged.told


@pytest.mark.parametrize(
    ("seed", "variant", "names"),
    [
        # A queue of ten packets, 16 ms: Vegas read on its host that it was shorter than its alpha.
        (5090037, "clock of 4 ms", {"reno", "vegas"}),
        # Round trips that seem to have met a queue of 30 ms: by it YeAH would halve its window.
        (5110065, "only the SYN-ACK + tap stalls", {"scalable", "yeah"}),
    ],
)
def test_what_a_tap_does_not_read_in_time_speaks_against_no_law_that_goes_by_delay(
    seed: int, variant: str, names: set[str], tmp_path: Path
) -> None:
    _, verdict = judged(seed, variant, tmp_path)
    assert names <= {each.candidate.name for each in verdict.identified.left}


def test_what_leaves_as_a_recovery_ends_may_have_begun_the_next(tmp_path: Path) -> None:
    """Data and ACKs held in two buffers: the next recovery's first segment is stamped before the ACK that let it go."""
    assert not judged(5090042, "directions delayed apart + frames padded", tmp_path)[0]


@pytest.mark.parametrize(
    ("seed", "variant"),
    [(5110063, "directions delayed apart"), (5110047, "no options of ACKs + noisy stamps, sorted")],
)
def test_the_least_round_trip_is_of_the_segment_that_was_stamped_latest(
    seed: int, variant: str, tmp_path: Path
) -> None:
    """Data is stamped up to a millisecond late: an ACK's answers show by how much."""
    assert "base_rtt_s" not in judged(seed, variant, tmp_path)[0]


def test_where_all_is_read_in_a_row_neither_a_round_trip_nor_a_queue_is_told(tmp_path: Path) -> None:
    """A tap that mostly stands still, and stamps that jitter: a round trip seems to take no time."""
    wrong, verdict = judged(5110063, "tap stalls + jittered clock", tmp_path)
    assert not wrong
    assert verdict.path.base_rtt_s.high is None
    assert verdict.path.buffer_packets.low is None


@pytest.mark.parametrize("seed", [6000312, 5110044])
def test_what_the_receivers_window_let_go_shows_how_far_the_tap_is_behind_the_sender(seed: int, tmp_path: Path) -> None:
    """No timestamps, a window that is always full, and a slow line between the sender and the tap."""
    wrong, verdict = judged(seed, "node0.out", tmp_path)
    assert not wrong
    found = tapped(seed, tmp_path)
    assert found is not None
    assert verdict.path.base_rtt_s.high == pytest.approx(found.scenario.path.base_rtt_s, rel=0.001)


def test_flights_up_to_the_first_hole_are_a_share_of_the_whole_run(tmp_path: Path) -> None:
    """A NewReno fills 28 holes, one in a round trip: most of the run is behind the last of the new data."""
    assert "limits" not in judged(5110030, "receiver", tmp_path)[0]


def test_a_burst_that_ends_as_a_loss_is_repaired_shows_no_window(tmp_path: Path) -> None:
    """What is left to send is two segments: a Reno's half window sends no more of them than a Tahoe's single one."""
    assert "recovery" not in judged(5090054, "ends early", tmp_path)[0]


def test_what_a_timer_sent_was_not_released_by_a_partial_ack(tmp_path: Path) -> None:
    """A Reno whose recoveries a timer ends a quarter of a second behind the ACK of the first hole: no NewReno."""
    assert "recovery" not in judged(5110045, "receiver", tmp_path)[0]


@pytest.mark.parametrize(("seed", "place"), [(5090036, "node0.out"), (5110015, "receiver")])
def test_what_was_lost_behind_a_slow_starts_flight_leaves_no_hole(seed: int, place: str, tmp_path: Path) -> None:
    """Every second one was lost, and the one that the first duplicate let go as well: sent again it comes in order."""
    assert "losses" not in judged(seed, place, tmp_path)[0]


@pytest.mark.parametrize("begin", [3155, 3281, 3479])
def test_a_recovery_under_way_when_a_capture_begins_tells_no_threshold(begin: int, tmp_path: Path) -> None:
    """No SACK, one hole a round trip: partial ACKs are all that is seen, with what was outstanding tens of times."""
    link, packets = read_packets(ROOT / "captures" / "newreno_nosack_8M.pcap.gz")
    # As much of it as a slow start to a threshold of half of that would take.
    write_packets(tmp_path / "x.pcap", link, packets[begin : begin + 4_000])
    found = main_verdict(tmp_path / "x.pcap")
    assert found is not None
    assert "reno" in [each.candidate.name for each in found.identified.left], found.identified.reasons
