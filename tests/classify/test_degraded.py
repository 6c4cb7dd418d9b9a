"""Degraded captures: nothing silently wrong, and no silence where the information is still there (docs/degraded.md)."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tcptrace_lab import read
from tcptrace_lab.classify.verdict import classify
from tcptrace_lab.controls import WINDOWS
from tcptrace_lab.scenario import ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario
from tcptrace_lab.simulate import simulate
from tests.claims import IDENTIFY, KERNEL, judge_claims, runs
from tests.conftest import ROOT
from tests.degrade import KINDS, Packets, degrade, first_again, read_packets, sender_of, write_packets
from tests.degraded import variants
from tests.random_degraded import judged
from tests.random_runs import tapped
from tests.random_told import told_by

# Short, and between them: timeouts and an outage, pauses, a closed and a small receiver's window, Tahoe's cycles.
FEW = ("own: reno_timeout", "own: reno_on_off", "own: reno_slow_reader", "own: short_reno")
OWN = [run for run in runs() if run.name in FEW]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_worse_capture_claims_nothing_that_is_wrong(kind: str, tmp_path: Path) -> None:
    """Regime, counts, recovery, control, first window, losses, limits, path: right, bounded or unknown."""
    found = variants(OWN, [kind], seed=4, folder=tmp_path, each=2)
    wrong = {variant.run: variant.judged.wrong for variant in found if variant.kind == kind and variant.judged.wrong}
    assert not wrong


@pytest.mark.parametrize("kind", sorted(name for name, each in KINDS.items() if each.tells))
def test_a_worse_capture_still_tells_what_it_holds(kind: str, tmp_path: Path) -> None:
    """Tahoe's three slow starts per cycle, seen without options, SYNs, a part of the packets."""
    chosen = [run for run in runs() if run.name == "own: tahoe_small_buffer"]
    (found, _) = variants(chosen, [kind], seed=4, folder=tmp_path)
    assert not {"regime", "recovery"} & found.judged.silent or KINDS[kind].keeps == "piece"
    assert not found.judged.wrong


@pytest.mark.parametrize(
    ("seed", "place", "kind"),
    [
        (5200009, "sender", "idle tail, keep-alives"),
        (5200009, "sender", "seen twice"),
        (5200007, "sender", "tap lost 0.1 % of data"),
        (5200007, "receiver", "no SYN"),
        # No timestamps either: flights show the turn to the sender, on a slow line and from one segment on.
        (7200005, "receiver", "no SYN"),
        (7200041, "receiver", "no SYN"),
        (7200001, "receiver", "no SYN"),
        (5200031, "receiver", "window scale cut"),
        # What filled a hole was not captured: no round trip (Illinois remembers the longest).
        (5500005, "sender", "tap lost 0.1 %"),
        # What passed in its order and was only not captured disturbs no piece, of which there are few.
        (8792047, "receiver", "tap lost 0.1 % of data"),
        (8792113, "receiver", "tap lost 0.1 %"),
        (8792011, "receiver", "tap lost 0.1 % of data"),
        # Duplicates are no longer than other ACKs: no block is in what was overwritten.
        (5500014, "sender", "timestamps stripped"),
        # Two losses whose reductions are seen together: the first's is never at work.
        (5500021, "sender", "begins in avoidance"),
        # Off once by far, where the nearest is off nowhere: a packet that is missing did not bring it there.
        (5500061, "sender", "tap lost 0.1 % of ACKs"),
        # What an ACK released that the tap missed seems to be the ACK's before it.
        (5500155, "sender", "tap lost 0.1 %"),
        # Of two restarts a packet is missing beside one.
        (5500153, "sender", "tap lost 0.1 % of data"),
        # Each packet of a super-segment tells a round trip, and nothing is left open that ACKs release at once.
        (5500106, "sender", "GSO at the sender"),
        (5500136, "sender", "GSO at the sender"),
    ],
)
def test_a_random_runs_worse_capture_tells_the_same(seed: int, place: str, kind: str, tmp_path: Path) -> None:
    """A flight of hundreds has a packet that the tap lost; copies, SYNs and options are not all that tells."""
    found = tapped(seed, tmp_path)
    assert found is not None
    assert {outcome for _, _, outcome, _ in told_by(found, place, [kind], tmp_path)} == {"same"}


@pytest.mark.parametrize("kind", ["begins in avoidance", "clock set forward"])
def test_cubic_is_named_without_what_it_remembers(kind: str, tmp_path: Path) -> None:
    """Its plateau from before the capture shows in none of the cycles that the capture holds."""
    (found, _) = variants([run for run in runs() if run.name == "own: cubic_20M"], [kind], seed=902, folder=tmp_path)
    assert "control" in found.judged.told
    assert not found.judged.wrong


@pytest.mark.parametrize("name", ["own: reno_rwnd", "own: short_reno"])
def test_without_a_loss_few_super_segments_show_the_slow_start(name: str, tmp_path: Path) -> None:
    """A flight of three super-segments is too coarse for what a loss leaves of it; here there is none."""
    chosen = [run for run in runs() if run.name == name]
    (found, _) = variants(chosen, ["GSO at the sender"], seed=1, folder=tmp_path)
    assert "regime" in found.judged.told
    assert not found.judged.wrong


def test_a_first_flight_that_left_at_once_does_not_hide_the_windows_behind_it(tmp_path: Path) -> None:
    """One super-segment is half of what is ever outstanding; of the others few have three segments."""
    path = PathSpec(nodes=(NodeSpec(rate_bps=3e6, buffer=12, delay_s=0.02),), return_delay_s=0.02)
    sender = ConnectionSpec(control=ControlSpec(window="cubic", recovery="sack", initial_window=10, timestamps=True))
    scenario = Scenario(path=path, connections=(sender,), duration_s=20.0, profile="rfc", taps=("sender",))
    made = tmp_path / "made.pcap"
    simulate(scenario).write(made, tap="sender", payload=False)
    write_packets(made, *degrade(*read_packets(made), kind="GSO at the sender", seed=1))
    (found,) = classify(read(made))
    assert not found.obstacles.hides_window
    assert found.identified.control == "cubic"


def test_only_the_first_slow_start_tells_reno_from_m_start(tmp_path: Path) -> None:
    """M-Start is another slow start over the same window: without that slow start both are left."""
    (run,) = (run for run in runs() if run.name == "own: newreno_nosack_8M")
    made = tmp_path / "made.pcap"
    write_packets(made, *degrade(*read_packets(run.path), kind="begins in avoidance", seed=1))
    (found,) = classify(read(made))
    assert found.identified.control is None
    assert {"reno", "m_start"} <= {each.candidate.name for each in found.identified.left}


@pytest.mark.skipif(not IDENTIFY.exists(), reason="reference captures not found")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        # The maximum round trip and the last two cycles from before the capture are known to the sender alone.
        ("htcp", "begins in avoidance"),
        ("compound_case5", "begins in avoidance"),
        # What a super-segment may leave of the window unused is no noise.
        ("veno", "GSO at the sender"),
        # YeAH's first cut would have been another by a hundred times the noise.
        ("reno_nots_rcvcap", "tap lost 0.1 %"),
    ],
)
def test_a_control_is_named_where_the_capture_still_holds_it(name: str, kind: str, tmp_path: Path) -> None:
    """Silent before, though nothing that tells them was gone."""
    (found, _) = variants([run for run in runs() if run.name == name], [kind], seed=1, folder=tmp_path)
    assert "control" in found.judged.told
    assert not found.judged.wrong


@pytest.mark.skipif(not IDENTIFY.exists(), reason="reference captures not found")
@pytest.mark.parametrize("name", ["reno_loss", "compound_case6"])
def test_a_repair_whose_stamp_was_cut_off_echoes_no_older_one(name: str, tmp_path: Path) -> None:
    """Else half of what was lost seems to have been sent again needlessly (RFC 3522)."""
    (found, _) = variants([run for run in runs() if run.name == name], ["snaplen varies"], seed=95, folder=tmp_path)
    assert not found.judged.wrong


@pytest.mark.parametrize(
    ("window", "delayed", "rate_bps", "buffer"),
    [("bic", 1, 5e6, 27), ("hybla", 2, 5e6, 27), ("westwood", 2, 13e6, 9)],
)
def test_what_a_sender_counts_through_its_losses_is_asked_where_a_capture_begins_in_the_middle(
    window: str, delayed: int, rate_bps: float, buffer: int, tmp_path: Path
) -> None:
    """BIC's segments per ACK and Hybla's fraction stay at any of their counts; Westwood's bandwidth fades."""
    path = PathSpec(nodes=(NodeSpec(rate_bps=rate_bps, buffer=buffer, delay_s=0.03),), return_delay_s=0.03)
    control = ControlSpec(window=window, recovery="sack", initial_window=10, delayed_ack_segments=delayed)
    scenario = Scenario(
        path=path, connections=(ConnectionSpec(control=control),), duration_s=60.0, profile="rfc", taps=("sender",)
    )
    made = tmp_path / "made.pcap"
    simulate(scenario).write(made, tap="sender", payload=False)
    write_packets(made, *degrade(*read_packets(made), kind="begins in avoidance", seed=1))
    (found,) = classify(read(made))
    assert found.identified.control == window, found.identified.reasons


@pytest.mark.parametrize("kind", ["timestamps stripped", "SACK blocks stripped"])
def test_an_option_that_is_overwritten_in_every_ack_is_not_the_blocks_that_are_seen(kind: str, tmp_path: Path) -> None:
    """A middlebox fills what it takes out with no-operations (RFC 9293 section 3.1)."""
    (run,) = (run for run in runs() if run.name == "own: cubic_20M")
    made = tmp_path / "made.pcap"
    write_packets(made, *degrade(*read_packets(run.path), kind=kind, seed=1))
    (found,) = classify(read(made))
    assert (found.who.tap.hides_details is None) is (kind == "timestamps stripped")


@pytest.mark.skipif(not IDENTIFY.exists(), reason="reference captures not found")
def test_holes_that_nothing_captured_fills_leave_a_range(tmp_path: Path) -> None:
    """Each may have been a flight, and begun a cycle of its own."""
    (found, _) = variants(
        [run for run in runs() if run.name == "cubic_gso"], ["no segment twice"], seed=20301205, folder=tmp_path
    )
    assert "losses" in found.judged.told
    assert not found.judged.wrong


def test_a_habit_is_told_by_the_events_that_the_tap_took_whole(tmp_path: Path) -> None:
    """Beside three of five restarts a packet is missing; the other two are sure, and none shows otherwise."""
    chosen = [run for run in runs() if run.name == "own: tahoe_small_buffer"]
    (found, _) = variants(chosen, ["tap lost 0.1 %"], seed=20291127, folder=tmp_path)
    assert {"regime", "recovery"} <= found.judged.told
    assert not found.judged.wrong


def test_a_habit_that_sure_events_show_is_that_of_the_unsure_too(tmp_path: Path) -> None:
    """Of 89 events in windows of some segments too little is sent in most to tell; the other 34 show the same."""
    found = tapped(5510043, tmp_path)
    assert found is not None
    (verdict, *_) = classify(read(found.places["sender"]))
    assert 2 * sum(each.sure for each in verdict.seen.episodes) < len(verdict.seen.episodes)
    assert verdict.slow_starts.regime == "none"


def test_a_copy_of_an_ack_is_no_duplicate(tmp_path: Path) -> None:
    """NewReno answers each partial ACK: with every ACK there twice, three in a row stand before no retransmission."""
    chosen = [run for run in runs() if run.name == "own: newreno_nosack_8M"]
    (found, _) = variants(chosen, ["seen twice + IP identification 0"], seed=1, folder=tmp_path)
    assert "recovery" in found.judged.told
    assert not found.judged.wrong


@pytest.mark.skipif(not KERNEL.exists(), reason="reference captures not found")
def test_two_flows_captured_twice_are_two(tmp_path: Path) -> None:
    """On two VLANs: the rate of all ACKs together is not twice the path's."""
    whole, made = KERNEL / "two_reno_cubic.pcap.gz", tmp_path / "made.pcap"
    write_packets(made, *degrade(*read_packets(whole), kind="the same on two VLANs", seed=1))
    (known, *_), (found, *_) = (tuple(classify(read(path))) for path in (whole, made))
    assert known.path.bottleneck_bps.value is not None
    assert found.path.bottleneck_bps.value == pytest.approx(known.path.bottleneck_bps.value, rel=0.02)


@pytest.mark.parametrize(
    ("window", "node"),
    [
        ("hybla", NodeSpec(rate_bps=5e6, buffer=48, delay_s=0.05)),
        ("illinois", NodeSpec(rate_bps=10e6, buffer=40, delay_s=0.02)),
        # The longest round trip is the first slow start's: losses at random find the queue shorter.
        ("illinois", NodeSpec(rate_bps=10e6, buffer=60, delay_s=0.05, loss=0.004)),
        # The curve is looked up a least round trip ahead, and no cut empties the queue.
        ("cubic-linux", NodeSpec(rate_bps=4e6, buffer=40, delay_s=0.01)),
    ],
)
def test_what_a_sender_remembers_of_a_path_may_be_from_before_the_capture(
    window: str, node: NodeSpec, tmp_path: Path
) -> None:
    """The handshake's packets are short, and what is smoothed stays above the shortest: laws hang on both."""
    path = PathSpec(nodes=(node,), return_delay_s=node.delay_s)
    sender = ConnectionSpec(control=ControlSpec(window=window, recovery="sack", initial_window=10, timestamps=True))
    scenario = Scenario(
        path=path, connections=(sender,), duration_s=96e6 / node.rate_bps, profile="rfc", taps=("sender",)
    )
    made = tmp_path / "made.pcap"
    simulate(scenario).write(made, tap="sender", payload=False)
    write_packets(made, *degrade(*read_packets(made), kind="begins in avoidance", seed=1))
    (found,) = classify(read(made))
    assert found.identified.control == WINDOWS[window].family, found.identified.reasons


@pytest.mark.parametrize("name", ["newreno_nosack_8M", "cubic_v6_two_nodes", "reno_timeout", "tahoe_small_buffer"])
def test_what_left_before_the_capture_was_not_lost_by_the_tap(name: str, tmp_path: Path) -> None:
    """Beginning within a recovery: between what is sent again lies what had been sent before."""
    link, packets = read_packets(ROOT / "captures" / f"{name}.pcap.gz")
    first, made = first_again(packets, after=0.1), tmp_path / "made.pcap"
    for begin in (first - 10, first, first + 3, first + 10, first + 30):
        write_packets(made, link, packets[begin:])
        (found,) = classify(read(made))
        assert found.who.tap.tap_lost_bytes == 0, begin
    own = sender_of(packets)
    lost = next(at for at in range(len(packets) - 200, len(packets)) if _is_new(packets, at, own))
    write_packets(made, link, packets[first:lost] + packets[lost + 1 :])
    (found,) = classify(read(made))
    assert found.who.tap.tap_lost_bytes == packets[lost].payload


@pytest.mark.parametrize("name", ["cubic_20M", "newreno_nosack_8M", "reno_10M", "reno_small_buffer"])
def test_a_recovery_that_began_before_the_capture_is_no_window_at_work(name: str, tmp_path: Path) -> None:
    """All that it sent again had left before: nothing captured is sent twice, and yet no window was the limit."""
    (run,) = (run for run in runs() if run.name == f"own: {name}")
    (link, packets), made = read_packets(run.path), tmp_path / "made.pcap"
    (whole,) = classify(read(run.path))
    for first in (first_again(packets, after=after) for after in (0.1, 0.3)):
        for begin in (first + 3, first + 10):
            write_packets(made, link, packets[begin : begin + 300])
            (found,) = classify(read(made))
            assert not judge_claims(run, whole, found, keeps="piece").wrong, begin


def _is_new(packets: Packets, at: int, own: bytes) -> bool:
    """Whether this segment is full and was sent only once."""
    found = packets[at]
    others = (each for other, each in enumerate(packets) if other != at and each.source == own and each.payload > 0)
    return found.source == own and found.payload > 0 and all(each.seq != found.seq for each in others)


def test_every_kind_changes_the_capture() -> None:
    """A degrader that does nothing proves nothing; a kind may have nothing to do in one run, not in all."""
    link, packets = read_packets(ROOT / "captures" / "reno_timeout.pcap.gz")
    still = {kind for kind in KINDS if degrade(link, packets, kind=kind, seed=1)[1] == packets}
    assert len(KINDS) >= 28
    # Its ACKs come too far apart to be merged.
    assert still <= {"ACK trains merged"}, still


def test_a_clock_goes_back_under_what_is_captured_twice() -> None:
    """In the order of capture: sorted by its stamps a file would show no step, and times that never passed."""
    link, packets = read_packets(ROOT / "captures" / "reno_timeout.pcap.gz")
    for kind in ("clock steps back + the same on two VLANs", "the same on two VLANs + clock steps back"):
        _, found = degrade(link, packets, kind=kind, seed=1)
        steps = [after.time_ns - before.time_ns for before, after in pairwise(found)]
        assert sum(step < 0 for step in steps) == 3


def test_a_silence_beside_what_the_tap_lost_is_no_windows(tmp_path: Path) -> None:
    """Two timeouts within what was not captured: for a second no ACK came, and no window held the sender that long."""
    (run,) = (run for run in runs() if run.name == "own: reno_timeout")
    made = tmp_path / "made.pcap"
    write_packets(made, *degrade(*read_packets(run.path), kind="tap lost 300 ms", seed=20301207))
    (whole,), (found,) = classify(read(run.path)), classify(read(made))
    assert found.who.tap.tap_lost_bytes
    assert found.limits["rwnd"] <= whole.limits["rwnd"] + 0.1
    assert found.limits["unknown"] > 0.2


@pytest.mark.parametrize(
    ("seed", "kind"),
    [
        pytest.param(8921038, "zero-window stall", id="no window is at work in a silence as long as a timer's"),
        pytest.param(8951049, "one way meanwhile", id="an ACK that is missing may have ended a recovery"),
        pytest.param(8921038, "tap lost 300 ms + ports used again", id="nor by which round trips a law went in it"),
    ],
)
def test_what_acks_do_not_tell_is_not_told(seed: int, kind: str, tmp_path: Path) -> None:
    found = tapped(seed, tmp_path)
    assert found is not None
    assert not next(one.wrong for name, one in judged(found, [kind], tmp_path) if name == kind)
