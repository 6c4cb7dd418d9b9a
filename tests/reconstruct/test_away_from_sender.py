"""Captures at the receiver and midway: where the tap was, the sender's timeline rebuilt, and its score."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tcptrace_lab import read
from tcptrace_lab.reconstruct.away.arrivals import Beside, arrivals
from tcptrace_lab.reconstruct.away.echoes import Bounds, are_stale, leaves_at_once, without_gaps
from tcptrace_lab.reconstruct.away.rhythm import NEAR_NS
from tcptrace_lab.reconstruct.away.self_clocking import _tells_apart
from tcptrace_lab.reconstruct.away.sender_view import sender_view
from tcptrace_lab.reconstruct.away.sent_order import sends
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import Sender, sender
from tcptrace_lab.reconstruct.tap.sender_clock import sender_clock, unwrapped
from tcptrace_lab.reconstruct.timeline import ARRIVED, LOST, Ints, build
from tcptrace_lab.reconstruct.truth.score import Score, score
from tcptrace_lab.reconstruct.truth.truth_file import read_truth
from tcptrace_lab.scenario_file import load
from tcptrace_lab.simulate import simulate
from tests.conftest import ROOT, shared
from tests.degrade import degrade, read_packets, write_packets
from tests.random_runs import tapped

SCENARIOS = ROOT / "captures" / "scenarios"
SMSS = 1000
MS = 1_000_000


@dataclass(frozen=True)
class Seen:
    """One tap of one run."""

    who: Sender
    score: Score


def taps(name: str, folder: Path, *overrides: str, places: tuple[str, ...] = ("sender", "receiver")) -> list[Seen]:
    """What is made of a run at each of its taps."""
    run = simulate(load(SCENARIOS / f"{name}.toml", overrides=[f"taps={list(places)!r}", *overrides]))
    run.write_truth(folder / "x.truth.parquet")
    truth = read_truth(folder / "x.truth.parquet", port=run.ports[0][0])
    found = []
    for place in places:
        run.write(folder / "x.pcap", tap=place, payload=False)
        who = sender(read(folder / "x.pcap")[0])
        result = score(Reconstruction(who.timeline), truth, first_sequence=who.first_sequence)
        found.append(Seen(who=who, score=result))
    return found


@pytest.mark.parametrize("name", ["reno_10M", "newreno_8M", "cubic_20M", "compound_20M", "reno_loss"])
def test_timestamps_make_the_receivers_capture_the_senders(name: str, tmp_path: Path) -> None:
    """Every loss, every slow start, the window as near as at the sender: also right behind the full queue."""
    at_sender, *others = taps(name, tmp_path, places=("sender", "node0.out", "receiver"))
    for other in others:
        assert other.who.view is not None
        assert other.who.view.how == "timestamps"
        assert (other.score.precision, other.score.recall) == (1.0, 1.0)
        assert other.score.slow_starts == at_sender.score.slow_starts
        assert other.score.limited.median is not None
        assert at_sender.score.limited.median is not None
        assert other.score.limited.median < at_sender.score.limited.median + 0.001
        assert other.score.within is not None
        assert other.score.within > 0.99


def test_midway_between_two_bottlenecks_is_midway(tmp_path: Path) -> None:
    """Losses before the tap are put back, those behind it are seen: both are counted."""
    places = ("sender", "node0.out", "node1.in", "node1.out", "receiver")
    found = taps("recorded/cubic_v6_two_nodes", tmp_path, places=places)
    assert [each.who.vantage for each in found] == ["sender", "sender", "middle", "middle", "receiver"]
    for each in found[1:]:
        assert each.score.precision is not None
        assert each.score.precision >= 0.99
        assert each.score.recall is not None
        assert each.score.recall >= 0.95
        assert each.score.limited.median is not None
        assert each.score.limited.median < 0.05
        assert each.score.slow_starts == found[0].score.slow_starts


@pytest.mark.parametrize(
    "change",
    [
        # What an application writes after a pause leaves all at once: no ACK released it.
        ("application.kind=schedule", f"application.writes={[[0.8 * k, 300_000] for k in range(1, 9)]}"),
        # Another's segments between them.
        ("connections=[{start_s=0}, {start_s=1}]",),
    ],
)
def test_without_timestamps_no_rhythm_shows_the_window_of_an_application_or_of_one_of_two(
    change: tuple[str, ...], tmp_path: Path
) -> None:
    fixed = ("control.timestamps=false", "path.nodes.0.buffer=10", "duration_s=8")
    (_, at_receiver) = taps("reno_10M", tmp_path, *fixed, *change)
    assert at_receiver.who.view is None


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("tahoe_small", ()),
        ("reno_10M", ("path.nodes.0.buffer=10",)),
        ("cubic_20M", ("path.nodes.0.buffer=20",)),
        # ACKs closer than a jitter that this path does not have.
        ("reno_10M", ("path.nodes.0.rate_bps=40e6", "path.nodes.0.buffer=40", "duration_s=20")),
    ],
)
def test_without_timestamps_the_rhythm_tells(name: str, change: tuple[str, ...], tmp_path: Path) -> None:
    """A queue that runs empty after each loss: the window within 5 %, every slow start, no loss that was none."""
    at_sender, at_receiver = taps(name, tmp_path, "control.timestamps=false", *change)
    assert at_receiver.who.view is not None
    assert at_receiver.who.view.how == "the rhythm of its ACKs"
    assert at_receiver.score.limited.median is not None
    assert at_receiver.score.limited.median <= 0.05
    assert at_receiver.score.precision == 1.0
    assert at_receiver.score.recall is not None
    assert at_receiver.score.recall > 0.94
    assert at_receiver.score.slow_starts == at_sender.score.slow_starts


def test_where_the_queue_never_runs_empty_only_losses_are_told(tmp_path: Path) -> None:
    """40 places on a path of 34 packets, no timestamps: no view of the window, but each loss."""
    (_, at_receiver) = taps("reno_10M", tmp_path, "control.timestamps=false")
    assert at_receiver.who.view is None
    assert at_receiver.who.lost_before_tap == 0
    assert (at_receiver.score.precision, at_receiver.score.recall) == (1.0, 1.0)


@pytest.mark.parametrize("place", ["sender", "receiver"])
def test_the_tap_is_placed_without_a_handshake(place: str, tmp_path: Path) -> None:
    """Echoes and answers of data, once the first thousand packets are missing."""
    run = simulate(load(SCENARIOS / "reno_10M.toml", overrides=[f"taps=['{place}']"]))
    run.write(tmp_path / "x.pcap", tap=place, payload=False)
    raw = (tmp_path / "x.pcap").read_bytes()
    at = 24
    for _ in range(1000):
        at += 16 + int.from_bytes(raw[at + 8 : at + 12], "little")
    (tmp_path / "x.pcap").write_bytes(raw[:24] + raw[at:])
    who = sender(read(tmp_path / "x.pcap")[0])
    assert who.vantage == place
    assert (who.view is None) == (place == "sender")
    assert not who.timeline.has_start or place == "sender"


@pytest.mark.parametrize("kind", ["no SYN", "window scale cut"])
def test_timestamps_tell_the_beginning_without_the_handshakes_options(kind: str, tmp_path: Path) -> None:
    """What left first was released by one ACK; a SYN whose options were cut carries what the first segment echoes."""
    run = simulate(load(SCENARIOS / "reno_10M.toml", overrides=["taps=['receiver']"]))
    run.write(tmp_path / "x.pcap", tap="receiver", payload=False)
    whole = sender(read(tmp_path / "x.pcap")[0])
    write_packets(tmp_path / "x.pcap", *degrade(*read_packets(tmp_path / "x.pcap"), kind=kind, seed=1))
    who = sender(read(tmp_path / "x.pcap")[0])
    assert who.view is not None
    assert who.view.how == "timestamps"
    assert who.timeline.has_start
    assert who.timeline.send_offset.tolist() == whole.timeline.send_offset.tolist()


# Of ten segments, 1 ms apart, TSval and TSecr; the first ACK captured has TSval 50 and acknowledges the first of them.
@pytest.mark.parametrize(
    ("stamps", "echoes", "is_begun"),
    [
        ([10] * 4 + [30] * 6, [40] * 4 + [50] * 6, True),
        # The window was at work: each ACK released some.
        ([10] * 2 + [11] * 2 + [30] * 6, [40] * 2 + [41] * 2 + [50] * 6, False),
        # So may it have been where a round trip is a few ticks.
        ([10] * 4 + [12] * 6, [40] * 4 + [50] * 6, False),
        # What one ACK released left at the pace of an application.
        ([10, 14, 18, 22] + [30] * 6, [40] * 4 + [50] * 6, False),
    ],
)
def test_a_capture_begins_with_nothing_outstanding_or_not(
    stamps: list[int], echoes: list[int], *, is_begun: bool
) -> None:
    rows = [(index, index, 1, stamps[index], 0) for index in range(10)]
    seen = arrivals({**table(rows), "ts_ecr": np.array(echoes)}, SMSS)
    assert leaves_at_once(seen, np.array([50, 51]), np.array([SMSS, 4 * SMSS])) == is_begun


@pytest.mark.parametrize("seed", [5360000, 5360002])
def test_what_left_before_the_capture_began_gives_no_short_round_trip(seed: int, tmp_path: Path) -> None:
    """A turn before it arrived, also behind a hole of which nothing was captured, and where ticks hold several ACKs."""
    found = tapped(seed, tmp_path)
    assert found is not None
    packets = degrade(*read_packets(found.places["receiver"]), kind="begins in a recovery", seed=seed + 1)
    write_packets(tmp_path / "x.pcap", *packets)
    who = sender(read(tmp_path / "x.pcap")[0])
    assert who.view is not None
    assert who.timeline.rtt[1].min() >= who.view.turn_ns


def test_only_what_a_syn_or_a_reset_does_not_show_is_taken_over() -> None:
    """RFC 7323 section 5.2: a reset need not carry the option."""
    stamps, ack = np.array([-1, 7, 9, -1]), 0x10
    assert without_gaps(stamps, np.array([0x2 | ack, ack, ack, 0x4 | ack]), 5).tolist() == [5, 7, 9, 9]
    assert without_gaps(stamps, np.array([0x2 | ack, ack, ack, ack]), 5).tolist() == stamps.tolist()


def table(rows: list[tuple[float, float, float, int, int]]) -> dict[str, Ints]:
    """Segments: time in ms, offset and length in segments, TSval, IP-ID."""
    columns = {
        "time_ns": [row[0] * MS for row in rows],
        "offset": [row[1] * SMSS for row in rows],
        "length": [row[2] * SMSS for row in rows],
        "ts_val": [row[3] for row in rows],
        "ts_ecr": [1 for _ in rows],
        "ip_id": [row[4] for row in rows],
        "cause": [0 for _ in rows],
    }
    return {name: np.array(values, dtype=np.int64) for name, values in columns.items()}


def test_segments_merged_by_the_receivers_host_are_taken_apart() -> None:
    """GRO merges segments of one TSval: three of a kind, and a short one behind."""
    seen = arrivals(table([(0, 0, 3, 7, 1), (4, 3, 1, 9, 4)]), SMSS)
    assert (seen.offset // SMSS).tolist() == [0, 1, 2, 3]
    assert ((seen.end - seen.offset) // SMSS).tolist() == [1, 1, 1, 1]
    assert seen.ip_id.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("ip_id", [0, 1])
def test_a_hole_is_filled_by_what_left_later_or_earlier(ip_id: int) -> None:
    """Segment 1 comes after segment 2: with a later TSval it was lost and sent again, with an earlier one overtaken."""
    later = [(0, 0, 1, 10, 1), (1, 2, 1, 11, 3), (40, 1, 1, 50, 4)]
    earlier = [(0, 0, 1, 10, 1), (1, 2, 1, 12, 3), (40, 1, 1, 11, 2)]
    lost, swapped = (
        sends(arrivals(table([(*row[:4], row[4] * ip_id) for row in rows]), SMSS), SMSS, 30 * MS)
        for rows in (later, earlier)
    )
    assert (lost.offset // SMSS).tolist() == [0, 1, 2, 1]
    assert lost.is_put_back.tolist() == [False, True, False, False]
    assert (swapped.offset // SMSS).tolist() == [0, 1, 2]
    assert not swapped.is_put_back.any()


def test_a_missing_number_is_a_retransmission_that_was_lost_too() -> None:
    """Segment 1 is lost (number 2); its retransmission too (number 5); the second one fills the hole."""
    rows = [(0, 0, 1, 1, 1), (1, 2, 1, 2, 3), (2, 3, 1, 3, 4), (43, 4, 1, 40, 6), (90, 1, 1, 90, 7)]
    more = [(100 + number, 5 + number, 1, 100 + number, 8 + number) for number in range(100)]
    found = sends(arrivals(table([*rows, *more]), SMSS), SMSS, 30 * MS)
    assert (found.offset[:7] // SMSS).tolist() == [0, 1, 2, 3, 1, 4, 1]
    assert np.flatnonzero(found.is_put_back).tolist() == [1, 4]


def test_a_hole_as_wide_as_the_sequence_space_costs_no_memory() -> None:
    """Two segments two gigabytes apart (RFC 9293: half the sequence space)."""
    found = sends(arrivals(table([(0, 0, 1, 1, 1), (1, 2_000_000, 1, 2, 2)]), SMSS), SMSS, MS)
    assert len(found.row) == 3


def test_the_senders_clock_is_found_through_wraps_and_drift() -> None:
    """A clock of 1 kHz that is 50 ppm fast and wraps after 3 s: the ends of its ticks to 0.1 ms."""
    times = np.arange(20_000, dtype=np.int64) * 997_123
    ticks = (times * 1.00005 / 1e6).astype(np.int64)
    clock = sender_clock(unwrapped((ticks - 3000) % (1 << 32)), times)
    assert clock is not None
    assert clock.tick_ns == pytest.approx(1e6 / 1.00005, rel=1e-6)
    ends = (ticks + 1) / 1.00005 * 1e6
    assert np.abs(clock.ends(ticks - ticks[0]) - ends).max() < MS / 10


def test_stamps_whose_highest_stand_still_are_no_clock() -> None:
    """A tap's clock set forward and back: the line through its latest stamps has no slope, and a tick no length."""
    stamps = np.arange(100, dtype=np.int64)
    times = stamps * MS
    times[[10, 90]] = 95 * MS
    assert sender_clock(stamps, times) is None


@cache
def both_ends(name: str) -> tuple[Seen, Seen]:
    """A recorded run from both its ends."""
    folder = shared("captures", "identify")
    index = pd.read_csv(folder / "index.csv").set_index("name").loc[name]
    truth = read_truth(folder / f"{name}.truth.csv.gz", port=int(index["client_port"]))
    found = []
    for file in (index["sender_capture"], index["receiver_capture"]):
        capture = read(folder / file)
        number = int(np.flatnonzero(capture.connections["client_port"] == index["client_port"])[0])
        who = sender(capture[number])
        found.append(Seen(who=who, score=score(Reconstruction(who.timeline), truth, first_sequence=who.first_sequence)))
    return found[0], found[1]


@pytest.mark.parametrize(
    "name",
    ["bbr_compete", "compound_case1", "cubic_gso", "cubic_loss", "m_start_nots", "m_start_plain2", "reno_nosack"],
)
def test_the_kernels_receiver_side_captures_tell_what_the_senders_tell(name: str) -> None:
    """Losses (precision 0.99, recall 0.95), the window within 5 %, the same slow starts, round trips, limits."""
    at_sender, at_receiver = both_ends(name)
    assert (at_sender.who.vantage, at_receiver.who.vantage) == ("sender", "receiver")
    assert at_receiver.score.precision is not None
    assert at_receiver.score.precision >= 0.99
    assert at_receiver.score.recall is not None
    assert at_receiver.score.recall >= 0.95
    if at_sender.score.limited.median is not None:
        assert at_receiver.score.limited.median is not None
        assert at_receiver.score.limited.median <= at_sender.score.limited.median + 0.05
    assert at_receiver.score.slow_starts == at_sender.score.slow_starts
    mine, theirs = Reconstruction(at_receiver.who.timeline), Reconstruction(at_sender.who.timeline)
    assert mine.limits == pytest.approx(theirs.limits, abs=0.03)
    assert mine.base_rtt_ns == pytest.approx(theirs.base_rtt_ns, rel=0.01)


@pytest.mark.parametrize(("name", "is_clocked"), [("bbr_plain1", False), ("cubic_short_rtt", True)])
def test_a_pacer_is_told_from_a_window_though_the_clock_ticks_slowly(name: str, *, is_clocked: bool) -> None:
    """Ticks of 4 ms hold several ACKs: a window gives back at once what they report, a pacer now less, now more."""
    folder = shared("captures", "identify")
    connection = read(folder / f"{name}.rcv.pcap.gz")[0]
    who = sender(connection)
    segments, acks = connection.flows[who.direction].columns
    slower = {name: segments[name] // 4 for name in ("ts_val", "ts_ecr")}
    seen = arrivals({**segments, **slower}, who.timeline.smss)
    view = sender_view(who.timeline, seen, acks["ts_val"] // 4, place="receiver")
    assert (Reconstruction(view.timeline).limits["cwnd"] > 0.5) == is_clocked


def test_an_echo_that_stands_still_names_no_newest_ack() -> None:
    """Segments above the right edge of the ACK they name: their sender had heard a newer one."""
    columns = {"send_ns": [0], "send_offset": [0], "send_end": [SMSS], "ack_ns": [0, 1], "ack_offset": [0, 5 * SMSS]}
    line = build({**columns, "rwnd": [4 * SMSS, 4 * SMSS]}, smss=SMSS)
    ends = np.array([4 * SMSS, 9 * SMSS])
    assert not are_stale(line, Bounds(low=np.array([0, 1]), high=np.array([0, 1])), ends)
    assert are_stale(line, Bounds(low=np.array([0, 0]), high=np.array([0, 0])), ends)


def test_what_a_receivers_tap_never_saw_was_lost_and_the_rest_was_not(tmp_path: Path) -> None:
    """Also where the first flight's beginning was lost, and without a rhythm: the order of what came tells."""
    (seen,) = taps("reno_loss", tmp_path, "control.timestamps=false", places=("receiver",))
    fate = seen.who.timeline.fate
    assert set(fate.tolist()) == {LOST, ARRIVED}
    assert seen.who.put_back == np.count_nonzero(fate == LOST)
    assert (seen.score.precision, seen.score.recall) == (1.0, 1.0)


def test_what_lies_before_the_first_arrival_was_lost_too() -> None:
    """Offset 0 is the connection's first byte where it begins in the capture."""
    rows = [(30, 2, 1, 1, 3), (60, 0, 1, 31, 4), (61, 1, 1, 31, 5), (90, 3, 1, 60, 6)]
    found = sends(arrivals(table(rows), SMSS), SMSS, 30 * MS, has_start=True)
    assert (found.offset // SMSS).tolist() == [0, 1, 2, 0, 1, 3]
    assert np.flatnonzero(found.is_put_back).tolist() == [0, 1]


def test_missing_numbers_above_all_that_came_are_the_tail_of_a_flight() -> None:
    """Segment 3 (number 4) is lost with nothing behind it; it comes more than a turn later, and a bare ACK is none."""
    rows = [(0, 0, 1, 1, 1), (1, 1, 1, 1, 2), (2, 2, 1, 1, 3), (90, 3, 1, 90, 5)]
    more = [(100 + number, 4 + number, 1, 100 + number, 6 + number) for number in range(100)]
    lost = sends(arrivals(table([*rows, *more]), SMSS), SMSS, 30 * MS)
    assert (lost.offset[:6] // SMSS).tolist() == [0, 1, 2, 3, 3, 4]
    assert np.flatnonzero(lost.is_put_back).tolist() == [3]
    beside = Beside(bare_ns=np.array([50 * MS]), asked_ns=np.array([], dtype=np.int64))
    assert not sends(arrivals(table([*rows, *more]), SMSS, beside), SMSS, 30 * MS).is_put_back.any()


def test_a_tail_that_f_rto_shows_late_had_left_where_its_numbers_are_missing() -> None:
    """Segments 3 to 6 (numbers 4 to 7) are lost to the end. The timer sends 3 again, then F-RTO new data."""
    rows = [(0, 0, 1, 1, 1), (1, 1, 1, 1, 2), (2, 2, 1, 1, 3), (300, 3, 1, 300, 8), (330, 7, 1, 330, 9)]
    rows += [(360 + number, 4 + number, 1, 360, 10 + number) for number in range(3)]
    more = [(400 + number, 8 + number, 1, 400 + number, 13 + number) for number in range(200)]
    left = sends(arrivals(table([*rows, *more]), SMSS), SMSS, 30 * MS)
    assert (left.offset[:12] // SMSS).tolist() == [0, 1, 2, 3, 4, 5, 6, 3, 7, 4, 5, 6]
    assert np.flatnonzero(left.is_put_back).tolist() == [3, 4, 5, 6]
    assert left.unplaced == 0


def test_a_missing_number_is_no_repair_where_it_may_be_an_ack_of_the_other_sides_data() -> None:
    """Segment 1 (number 2) is lost, and number 5 behind what showed it: sent again and lost again, or a bare ACK."""
    rows = [(0, 0, 1, 1, 1), (1, 2, 1, 1, 3), (2, 3, 1, 1, 4), (40, 4, 1, 35, 6), (120, 1, 1, 100, 7)]
    more = [(121 + number, 5 + number, 1, 100 + number, 8 + number) for number in range(100)]
    for asked_ms, times in (([], 2), ([10], 1), ([200], 2)):
        beside = Beside(bare_ns=np.array([], dtype=np.int64), asked_ns=np.array(asked_ms, dtype=np.int64) * MS)
        left = sends(arrivals(table([*rows, *more]), SMSS, beside), SMSS, 30 * MS)
        assert left.offset[left.is_put_back].tolist() == [SMSS] * times
        assert left.unplaced == 2 - times


def test_an_arrival_among_close_acks_is_no_anchor() -> None:
    """Where ACKs come every 0.3 ms, most times lie within a path's jitter (0.2 ms) of a turn after one of them."""
    for spacing_ns, is_told in ((300_000, False), (3_000_000, True)):
        timeline: Any = SimpleNamespace(ack_ns=spacing_ns * np.arange(10))
        assert _tells_apart(timeline, np.array([4, 5]), NEAR_NS).tolist() == [is_told] * 2
    lone: Any = SimpleNamespace(ack_ns=np.array([7]))
    assert not _tells_apart(lone, np.array([0]), NEAR_NS).any()


def test_a_tail_that_was_lost_ends_where_what_was_sent_again_does() -> None:
    """Segments 3 and the half behind it (numbers 4 and 5) are lost: the half ends an answer."""
    rows = [(0, 0, 1, 1, 1), (1, 1, 1, 1, 2), (2, 2, 1, 1, 3), (90, 3, 1, 90, 6), (91, 4, 0.5, 90, 7)]
    more = [(400 + number, 4.5 + number, 1, 400 + number, 8 + number) for number in range(100)]
    left = sends(arrivals(table([*rows, *more]), SMSS), SMSS, 30 * MS)
    assert left.offset[left.is_put_back].tolist() == [3 * SMSS, 4 * SMSS]
    assert left.end[left.is_put_back].tolist() == [4 * SMSS, 4 * SMSS + SMSS // 2]
