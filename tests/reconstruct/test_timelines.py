"""Loss events, slow starts and cycles of hand-written timelines: each family varies one thing."""

from __future__ import annotations

import pytest

from tcptrace_lab.reconstruct.timeline import build
from tests.reconstruct.ladder import SMSS, ladder, rounds


def test_slow_start_ends_where_growth_per_ack_ends() -> None:
    """RFC 5681 section 3.1: one segment per ACK up to ssthresh, then one per round trip."""
    seen = ladder(*rounds([1, 2, 4, 8, 16, 16, 17, 18, 19]))
    (part,) = seen.stretches
    assert part.begin == "connection"
    assert part.grown_to == 16 * SMSS
    assert part.has_threshold
    assert [cycle.slow_starts for cycle in seen.cycles] == [1]


def test_flight_before_the_next_ack_is_the_window() -> None:
    """With data at hand, each ACK's segments are out before the next ACK comes: flight = cwnd."""
    seen = ladder(*rounds([1, 2, 4, 8, 8]))
    cwnd = seen.windows["cwnd"].to_numpy() // SMSS
    # Slow start, after each ACK: 2; 3, 4; 5, 6, 7, 8; then as many as were acknowledged.
    assert cwnd[:7].tolist() == [2, 3, 4, 5, 6, 7, 8]
    assert set(cwnd[7:11].tolist()) == {8}


def test_avoidance_alone_is_no_slow_start() -> None:
    """A window that grows by one segment per round trip never looks like slow start."""
    seen = ladder(*rounds([10, 10, 11, 12, 13, 14]))
    assert not seen.stretches[0].is_slow_start


def test_receivers_window_ends_slow_start_without_a_threshold() -> None:
    """Growth that stops at rwnd says nothing of ssthresh."""
    seen = ladder(*rounds([1, 2, 4, 8, 8, 8, 8]), rwnd=8 * SMSS)
    assert not seen.stretches[0].has_threshold
    assert seen.windows["ssthresh"].isna().all()
    assert seen.limits["rwnd"] > 0.4


# Ten segments at 0 ms, number 2 lost: ACKs 1 and 2 at 100 ms, then a duplicate for each of the other seven.
FLIGHT = [(0.1 * number, number) for number in range(10)]
HEARD = [(100.0, 1), (101.0, 2), *[(102.0 + index, 2) for index in range(7)]]


def test_third_duplicate_ack_retransmits_and_half_the_window_goes_on() -> None:
    """RFC 5681 section 3.2: fast retransmit, then new segments for the duplicates beyond half the window."""
    sent = [*FLIGHT, (104.01, 2), (107.01, 10), (108.01, 11)]
    seen = ladder(sent, [*HEARD, (204.1, 10), (207.2, 11), (208.2, 12)])
    (event,) = seen.episodes
    assert (event.detected_by, event.restarts, event.dupacks) == ("dupack", False, 3)
    assert len(seen.losses) == 1
    assert seen.losses["offset"].tolist() == [2 * SMSS]


def test_a_retransmission_sooner_than_a_round_trip_after_new_data_is_no_timeout() -> None:
    """RFC 6298 (5.3): the timer has begun again; with SACKs there it is RACK's, for what may have been reordered."""
    flight = [(0.1 * number, number) for number in range(5)]
    # One SACK at 101 ms, and a quarter of a round trip later (RFC 8985 section 6.2 step 4) the hole.
    heard = [(100.0, 1), (101.0, 2), (127.0, 2), (128.0, 2), (226.1, 5)]
    blocks = {1: [(3, 4)], 2: [(3, 4)], 3: [(3, 5)]}
    for late_ms, detected_by in ((126.0, "sack"), (226.0, "rto")):
        acks = [(time + late_ms - 126.0 if index > 1 else time, ack) for index, (time, ack) in enumerate(heard)]
        seen = ladder([*flight, (late_ms, 2)], acks, blocks=blocks)
        assert [event.detected_by for event in seen.episodes] == [detected_by]


def test_more_than_one_segment_behind_a_reordering_timer_is_no_restart() -> None:
    """RFC 8985 section 6.2 in a queue: later than the least round trip, told by SACKs, and each SACK releases more."""
    flight = [(0.1 * number, number) for number in range(8)]
    sent = [*flight, (195.0, 2), (196.01, 8), (197.01, 9)]
    heard = [(100.0, 1), (101.0, 2), (102.0, 2), (103.0, 2), (196.0, 2), (197.0, 2), (295.1, 8), (296.1, 10)]
    blocks = {2: [(3, 4)], 3: [(3, 5)], 4: [(3, 6)], 5: [(3, 7)]}
    (event,) = ladder(sent, heard, blocks=blocks).episodes
    assert (event.detected_by, event.restarts) == ("sack", False)


def test_a_late_answer_to_a_partial_ack_is_no_timeout() -> None:
    """RFC 6582: nothing was sent since the ACK that asks for it; a host that stood still sends it 15 ms later."""
    heard = [(100.0, 1), (101.0, 2), *[(102.0 + index, 2) for index in range(6)]]
    sent = [*FLIGHT, (104.01, 2), (219.0, 5), (319.11, 10), (319.12, 11), (319.13, 12)]
    (event,) = ladder(sent, [*heard, (204.1, 5), (319.1, 10), (419.2, 13)]).episodes
    assert (event.detected_by, event.restarts, event.retransmitted) == ("dupack", False, 2)


def test_one_segment_after_many_duplicates_is_a_restart() -> None:
    """Tahoe: fast retransmit, then a window of one segment whatever the duplicates say."""
    flight = [(0.1 * number, number) for number in range(20)]
    heard = [(100.0, 1), (101.0, 2), *[(102.0 + index, 2) for index in range(17)]]
    sent = [*flight, (104.01, 2), (204.11, 20), (204.12, 21), (304.3, 22), (304.31, 23), (304.5, 24), (304.51, 25)]
    acks = [*heard, (204.1, 20), (304.2, 21), (304.4, 22), (404.5, 24)]
    seen = ladder(sent, acks)
    (event,) = seen.episodes
    assert event.restarts
    assert event.sure
    assert [part.begin for part in seen.stretches] == ["connection", "restart"]


@pytest.mark.parametrize("sends_on", [True, False])
def test_who_sends_on_in_recovery_has_not_gone_back_to_one_segment(sends_on: bool) -> None:
    """RFC 6582 section 3.2 (3): with little outstanding at its end the window is two segments, as Tahoe's is then."""
    flight = [(0.1 * number, number) for number in range(8)]
    behind = [(101.21, 9), (200.71, 10)] if sends_on else [(200.71, 9), (200.72, 10)]
    dupacks = [(100.2 + 0.2 * number, 1) for number in range(6)]
    later = [(301.21, 11), (301.22, 12), (301.23, 13), (401.31, 14), (401.32, 15), (401.33, 16), (401.34, 17)]
    sent = [*flight, (100.01, 8), (100.61, 1), *behind, *later]
    (event,) = ladder(sent, [(100.0, 1), *dupacks, (200.7, 9), (301.2, 11), (401.3, 14)]).episodes
    assert event.restarts != sends_on


def test_silence_before_a_retransmission_is_a_timeout() -> None:
    """RFC 6298 section 5: nothing was heard, the timer expired; the first unacknowledged segment goes again."""
    seen = ladder([*FLIGHT, (500.0, 2)], [(100.0, 1), (101.0, 2), (600.1, 10)])
    (event,) = seen.episodes
    assert (event.detected_by, event.restarts) == ("rto", True)


def test_backing_off_twice_is_one_slow_start() -> None:
    """RFC 6298 section 5.5: the timer doubles; no answer came in between, so no slow start did."""
    sent = [*FLIGHT, (500.0, 2), (1300.0, 2), (1400.11, 10), (1400.12, 11), (1500.3, 12), (1500.31, 13)]
    seen = ladder(sent, [(100.0, 1), (101.0, 2), (1400.1, 10), (1500.2, 11), (1500.4, 12), (1600.5, 14)])
    assert [event.detected_by for event in seen.episodes] == ["rto", "rto"]
    # The first cycle has the connection's own slow start and one restart.
    assert sum(cycle.slow_starts for cycle in seen.cycles) == 2


@pytest.mark.parametrize(("late_ms", "expired"), [(0.0, False), (108.0, True)])
def test_a_copy_lost_again_that_an_ack_tells_of_waits_for_no_timer(late_ms: float, expired: bool) -> None:
    """RFC 8985 section 5: number 1 goes again at 103 ms, and at once when number 5, sent behind that copy, is SACKed.

    At a window of two segments no more is sent then than after a timeout. Between two ACKs it is the timer, as soon as
    one may expire.
    """
    sent = [*[(0.1 * number, number) for number in range(5)], (103.0, 1), (105.0, 5), (205.0 + late_ms, 1)]
    heard = [(100.0, 1), (101.0, 1), (102.0, 1), (103.0, 1), (205.0, 1), *[(305.0, 1)] * expired, (315.0, 1)]
    blocks = {1: [(2, 3)], 2: [(2, 4)], 3: [(2, 5)], **{place: [(2, 6)] for place in range(4, len(heard))}}
    seen = ladder(sent, [*heard, (405.1 + late_ms, 6)], blocks=blocks)
    assert [event.restarts for event in seen.episodes] == [False, *[True] * expired]
    assert seen.losses["detected_by"].tolist() == ["sack", "rto" if expired else "sack"]


def test_a_copy_lost_again_that_another_copy_tells_of_waits_for_no_timer() -> None:
    """The same, told by the hole behind it, which was sent again later and is SACKed sooner."""
    sent = [*[(0.1 * number, number) for number in range(6)], (103.0, 1), (104.0, 2), (204.0, 1)]
    heard = [(100.0, 1), (101.0, 1), (102.0, 1), (103.0, 1), (204.0, 1), (304.1, 6)]
    blocks = {1: [(3, 4)], 2: [(3, 5)], 3: [(3, 6)], 4: [(2, 6)]}
    (event,) = ladder(sent, heard, blocks=blocks).episodes
    assert not event.restarts


@pytest.mark.parametrize(("late_ms", "detected_by"), [(0.0, "sack"), (6.0, "sack"), (60.0, "rto")])
def test_a_reordering_timer_behind_new_data_that_is_long_ago_is_no_restart(late_ms: float, detected_by: str) -> None:
    """RFC 8985 section 6.2 step 4: a quarter of the least round trip behind the SACK, less what parts the segments.

    No cumulative ACK came for a round trip and more. Later it is the timer of RFC 6298.
    """
    sent = [(0.0, 0), (100.0, 1), (104.0, 2), (225.0 + late_ms, 1)]
    heard = [(100.0, 1), (204.0, 1), (325.0 + late_ms, 3)]
    (event,) = ladder(sent, heard, blocks={1: [(2, 3)]}).episodes
    assert event.detected_by == detected_by


def test_probe_of_the_last_segment_is_no_restart() -> None:
    """RFC 8985 section 7: the tail loss probe repeats the last segment, not the first unacknowledged one."""
    seen = ladder([*FLIGHT, (350.0, 9)], [(100.0, 1), (101.0, 2), (450.1, 2), (451.0, 10)])
    (event,) = seen.episodes
    assert (event.detected_by, event.restarts) == ("tlp", False)


@pytest.mark.parametrize(("segments", "detected_by", "restarts"), [(12, "tlp", False), (2, "rto", True)])
def test_a_probe_of_the_only_segment_is_told_by_the_flight_that_follows(
    segments: int, detected_by: str, restarts: bool
) -> None:
    """A restart has two segments to send when its one is answered (RFC 5681 section 3.1), a probed sender more."""
    sent = [*FLIGHT, (350.0, 9), *[(500.0, 10 + number) for number in range(segments)]]
    seen = ladder(sent, [*[(100.0 + number, 1 + number) for number in range(9)], (450.0, 10), (600.0, 10 + segments)])
    (event,) = seen.episodes
    assert (event.detected_by, event.restarts) == (detected_by, restarts)


@pytest.mark.parametrize(("pause_ms", "begins"), [(50.0, 1), (900.0, 2)])
def test_long_pause_begins_a_new_stretch(pause_ms: float, begins: int) -> None:
    """RFC 5681 section 4.1: idle for longer than an RTO, the sender may restart from its initial window."""
    sent, acks = rounds([2, 4, 8])
    again, heard = rounds([2, 4, 8], first=14, begin_ms=acks[-1][0] + pause_ms)
    seen = ladder([*sent, *again], [*acks, *heard])
    assert len(seen.stretches) == begins
    # A pause is no loss: still one cycle.
    assert len(seen.cycles) == 1


def test_round_trips_across_a_retransmission_are_left_out() -> None:
    """Karn; and an ACK that waited for a hole to be filled measures the recovery."""
    sent = [*FLIGHT, (104.01, 2), (107.01, 10), (108.01, 11)]
    seen = ladder(sent, [*HEARD, (204.1, 10), (207.2, 11), (208.2, 12)])
    rows, samples = seen.timeline.rtt
    assert rows.tolist() == [0, 1, 10, 11]
    assert samples.max() < 105_000_000


def test_selective_acknowledgement_tells_the_pipe() -> None:
    """RFC 6675: below the highest SACKed segment all is received or lost; what was retransmitted is in the pipe."""
    sacked = {2 + index: 4 + index for index in range(7)}
    seen = ladder([*FLIGHT, (104.01, 2)], [*HEARD, (204.1, 10)], sacked=sacked)
    # After the third duplicate ACK (SACKed up to 6): segments 6 to 9 and the retransmission.
    assert int(seen.flight[4]) == 5 * SMSS


def test_a_retransmission_that_was_selectively_acknowledged_has_left_the_pipe() -> None:
    """RFC 6675 section 4: 2 and 5 go again; 5 is SACKed while 2 is still missing."""
    heard = [(100.0, 1), (101.0, 2), *[(103.0 + index, 2) for index in range(4)]]
    blocks: dict[int, list[tuple[int, int]]] = {2: [(3, 5)], 3: [(6, 8), (3, 5)], 4: [(6, 10), (3, 5)]}
    blocks[5] = [(3, 10)]
    sent = [*FLIGHT, (104.01, 2), (105.01, 5)]
    seen = ladder(sent, [*heard[:5], (205.0, 2), (206.0, 10)], blocks=blocks)
    assert (seen.flight[4:6] // SMSS).tolist() == [2, 1]


@pytest.mark.parametrize(
    ("resumes_ms", "window"),
    [
        # RFC 5681: silent until half the flight has left; then one segment for each duplicate ACK.
        ([111.01, 112.01, 113.01, 114.01], 10),
        # RFC 6937: one segment for every second ACK; the window comes down with what is outstanding.
        ([105.01, 107.01, 109.01, 111.01], 16),
    ],
)
def test_a_sender_silent_in_recovery_has_its_window_already(resumes_ms: list[float], window: int) -> None:
    """Segments 1 to 20 outstanding, 1 lost, the third duplicate ACK at 103 ms; what is said after the fourth."""
    new = list(enumerate(resumes_ms, start=21))
    sent = [*((0.1 * number, number) for number in range(20)), (100.01, 20), (103.01, 1)]
    acks = [(100.0, 1), *((101.0 + index, 1) for index in range(19)), (203.0, 21)]
    seen = ladder(
        [*sent, *((time, number) for number, time in new)], [*acks, *((time + 100, n + 1) for n, time in new)]
    )
    (event,) = seen.episodes
    assert not event.restarts
    row = seen.windows.iloc[4]
    assert (row["limited_by"], row["cwnd"] // SMSS, row["cwnd_low"] // SMSS) == ("recovery", window, window)
    # Twenty less four were outstanding: no window of a silent sender is above that.
    assert row["cwnd_high"] // SMSS == 17


@pytest.mark.parametrize(("dsacks", "spurious"), [((), False), (((2, 3),), True)])
def test_a_segment_received_twice_was_not_lost(dsacks: tuple[tuple[int, int], ...], spurious: bool) -> None:
    """RFC 2883, 3708: reordered, not lost; the D-SACK for the retransmission says so."""
    sacked = {2 + index: 4 + index for index in range(7)}
    seen = ladder([*FLIGHT, (104.01, 2)], [*HEARD, (204.1, 10)], sacked=sacked, dsacks=dsacks)
    assert seen.losses["spurious"].tolist() == [spurious]


# Number 2 goes again at 104 ms and once more at 140 ms, with segments 10 and 11 sent between.
TWICE = [*FLIGHT, (104.01, 2), (107.01, 10), (108.01, 11), (140.0, 2)]


@pytest.mark.parametrize(
    ("answer", "lost_twice"),
    [
        # 10 arrives after the hole is filled: the second copy, sent later, cannot have filled it.
        ([(204.1, 10), (207.2, 12), (240.1, 12)], [False, True]),
        # 10 and 11 were there already: the first copy was lost as well.
        ([(207.2, 2), (208.2, 2), (240.1, 12)], [False, False]),
        # 10 was sent again too: it may have been lost, so nothing is known of the order.
        ([(230.0, 10), (330.1, 12)], [False, False, False]),
    ],
)
def test_a_copy_that_others_would_have_overtaken_did_not_fill_the_hole(
    answer: list[tuple[float, int]], lost_twice: list[bool]
) -> None:
    """RFC 9293 section 3.10.7.4: an ACK tells of all that arrived in order; paths keep the order."""
    sent = [*TWICE, (230.01, 10)] if len(lost_twice) == 3 else TWICE
    assert ladder(sent, [*HEARD, *answer]).losses["spurious"].tolist() == lost_twice


def test_data_below_the_first_byte_seen_counts_as_any_other() -> None:
    """Offset 0 is the first byte seen; with packets out of order, others lie below it."""
    first = 1000
    sent, acks = [*FLIGHT, (104.01, 2), (107.01, 10), (108.01, 11)], [*HEARD, (204.1, 10), (207.2, 11), (208.2, 12)]
    seen, below = (
        ladder([(time, number - less) for time, number in sent], [(time, number - less) for time, number in acks])
        for less in (0, first)
    )
    assert [event.detected_by for event in below.episodes] == ["dupack"]
    assert (below.losses["offset"] + first * SMSS).tolist() == seen.losses["offset"].tolist()


def test_nothing_sent_is_nothing_found() -> None:
    """An empty timeline gives empty tables."""
    seen = ladder([], [])
    assert seen.episodes == ()
    assert seen.cycles == ()
    assert {name: len(table) for name, table in seen.tables().items()} == {
        "windows": 0,
        "phases": 0,
        "losses": 0,
        "cycles": 0,
    }


def test_a_recovery_with_no_data_left_to_send_is_no_restart() -> None:
    """RFC 5681: one retransmission among many duplicate ACKs is Tahoe's, unless nothing else was there to be sent."""
    flight = [(0.1 * number, number) for number in range(20)]
    heard = [(100.0, 1), (101.0, 2), *[(102.0 + index, 2) for index in range(17)]]
    acks = [*heard, (204.1, 20), (304.2, 21)]
    # The application writes again half a second later.
    seen = ladder([*flight, (104.01, 2), (700.0, 20)], [*acks, (800.0, 21)])
    assert [(event.restarts, event.sure) for event in seen.episodes] == [(False, False)]


def test_a_recovery_into_a_full_receivers_window_is_no_restart() -> None:
    """RFC 9293 section 3.8.6: duplicate ACKs release nothing beyond the offered window."""
    sent = [(0.1 * number, number) for number in range(20)]
    sent += [(104.01, 2), *[(204.11 + 0.01 * number, 20 + number) for number in range(18)]]
    acks = [(100.0, 1), (101.0, 2), *[(102.0 + index, 2) for index in range(17)], (204.1, 20)]
    acks += [(305.0 + number, 21 + number) for number in range(18)]
    narrow = ladder(sent, acks, rwnd=18 * SMSS)
    assert [event.restarts for event in narrow.episodes] == [False]


def test_a_reordering_timer_at_the_end_of_the_data_is_no_timeout() -> None:
    """RFC 8985 section 6.2: a quarter of a round trip behind the ACK; the timer of RFC 6298 is never that short."""
    sent, acks = rounds([8, 8])
    *acks, (before_ms, _), (last_ms, _) = acks
    acks += [(before_ms, 14), (last_ms, 14), (last_ms + 125, 16)]
    for wait_ms, detected_by, restarts in ((25, "sack", False), (250, "rto", True)):
        lost = [*sent, (last_ms + wait_ms, 14)]
        answered = [*acks[:-1], (last_ms + wait_ms + 100, 16)]
        (event,) = ladder(lost, answered, blocks={len(acks) - 2: [(15, 16)]}).episodes
        assert (event.detected_by, event.restarts) == (detected_by, restarts)


def test_data_that_ends_before_a_loss_bounds_no_window() -> None:
    """What drains behind the last new segment is not the window, though a retransmission follows."""
    sent, acks = rounds([8, 8, 8])
    *acks, (last_ms, _) = acks
    found = ladder([*sent, (last_ms + 250, 23)], [*acks, (last_ms + 350, 24)]).windows
    drained = found[(found["time_ns"] > sent[-1][0] * 1e6) & (found["limited_by"] != "recovery")]
    assert len(drained) >= 6
    assert set(drained["limited_by"].iloc[:-1]) == {"application"}
    assert drained["cwnd_high"].isna().all()
    assert (drained["cwnd"].iloc[:-1] >= 7 * 1000).all()


def test_a_short_segment_is_one_of_a_window_that_counts_packets() -> None:
    """Its bytes are fewer, which is all that a window in bytes may hold; one in packets holds as many as before."""
    sent, acks = rounds([10, 10, 10])
    full, seen = ladder(sent, acks).windows, ladder(sent, acks, short=[4]).windows
    is_under_way = full["time_ns"] < acks[4][0] * 1e6
    lacks = full["cwnd_low"] - seen["cwnd_low"]
    assert lacks.tolist() == [SMSS // 2 if each else 0 for each in is_under_way]
    assert 0 < is_under_way.sum() < len(full)
    assert seen["cwnd_high"].equals(full["cwnd_high"])


def test_acks_alone_keep_what_was_asked_of_all() -> None:
    """A view asks of the ACKs what the sends told as well, and holds no sends meanwhile."""
    columns = {"send_ns": [0, 1, 2], "send_offset": [10, 20, 30], "send_end": [20, 30, 40]}
    timeline = build({**columns, "ack_ns": [5, 6], "ack_offset": [20, 30]}, smss=10)
    alone = timeline.acks_alone("snd_una", "first_offset", "start_ns")
    assert alone.snd_una is timeline.snd_una
    assert (alone.first_offset, alone.start_ns) == (10, 0)
    assert alone.ack_ns is timeline.ack_ns
    assert not any(len(column) for column in (alone.send_ns, alone.send_offset, alone.send_end))
    assert "observed" not in vars(alone)
