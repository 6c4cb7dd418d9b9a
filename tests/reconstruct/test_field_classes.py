"""Captures as people have them: closed windows, packets that the tap lost, reordering, no SACK."""

from __future__ import annotations

import pytest

from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import build
from tests.reconstruct.ladder import MS, SMSS, ladder, rounds

# A run of four and eight segments: what was sent and told by then, when it ended, the first segment of what follows.
SENT, TOLD = rounds([4, 8])
ENDED, BASE = TOLD[-1][0], 12


def test_a_window_that_stays_closed_is_the_receivers_limit_and_no_loss() -> None:
    """RFC 9293 section 3.8.6: ten segments, then five seconds of a closed window, probed; then ten more."""
    sent = [(0.01 * index, index) for index in range(10)]
    acks = [(100.0 + index, index + 1, (9 - index) * SMSS) for index in range(10)]
    # What answers the probes says the same again, at once and a second apart.
    acks += [(1000.0 * second, 10, 0) for second in (1, 2, 3, 4)]
    acks += [(5100.0, 10, 10 * SMSS)]
    sent += [(5100.1 + 0.01 * index, 10 + index) for index in range(10)]
    acks += [(5200.0 + index, 11 + index, 10 * SMSS) for index in range(10)]
    seen = Reconstruction(
        build(
            {
                "send_ns": [round(time * MS) for time, _ in sent],
                "send_offset": [number * SMSS for _, number in sent],
                "send_end": [(number + 1) * SMSS for _, number in sent],
                "ack_ns": [round(time * MS) for time, _, _ in acks],
                "ack_offset": [number * SMSS for _, number, _ in acks],
                "rwnd": [rwnd for _, _, rwnd in acks],
            },
            smss=SMSS,
        )
    )
    assert seen.episodes == ()
    assert not seen.timeline.is_dupack.any()
    assert seen.limits["rwnd"] > 0.95
    assert seen.windows["ssthresh"].isna().all()


def test_beside_a_hole_in_the_capture_no_loss_event_is_sure_but_one_that_sends_on() -> None:
    """Segment 14 was acknowledged and never captured: what else the tap missed there is not known. A window of one
    segment is not behind more than a restart sends, whatever else is missing."""
    sent, acks = rounds([4, 8])
    heard = acks[-1][0]
    lost = [(heard + 0.1 + 0.01 * index, 12 + index) for index in range(10)]
    late = heard + 110.0
    acks += [(late + index, 12) for index in range(6)]
    again = [(late + 3.1, 12), (late + 3.2, 22), (late + 4.1, 23)]
    acks += [(late + 110.0, 22), (late + 111.0, 24)]
    whole = ladder([*sent, *lost, *again], acks)
    holed = ladder([*sent, *(row for row in lost if row[1] != 14), *again], acks)
    assert [episode.sure for episode in whole.episodes] == [True]
    assert [episode.sure for episode in holed.episodes] == [False]
    more = [(late + 4.2 + 0.1 * index, 24 + index) for index in range(4)]
    going_on = ladder([*sent, *(row for row in lost if row[1] != 14), *again, *more], acks)
    assert [(episode.restarts, episode.sure) for episode in going_on.episodes] == [(False, True)]


def test_reordered_data_is_not_in_flight() -> None:
    """RFC 6675: what is SACKed has left the network, also where nothing is sent again for it."""
    sent = [(0.01 * index, index) for index in range(10)]
    acks = [(100.0, 1), (101.0, 1), (101.5, 3), (102.0, 4)]
    seen = ladder(sent, acks, blocks={1: [(2, 3)]})
    assert seen.episodes == ()
    assert seen.flight.tolist() == [9 * SMSS, 8 * SMSS, 7 * SMSS, 6 * SMSS]


def test_without_sack_a_restart_may_hide_losses() -> None:
    """What goes out again behind the first hole may have been lost, or not: its answer is either copy's."""
    sent, acks = rounds([4, 8])
    heard = acks[-1][0]
    sent += [(heard + 0.1 + 0.01 * index, 12 + index) for index in range(6)]
    # Nothing comes back: the timer, one segment; its answer releases two, theirs all the rest.
    sent += [(heard + 1000.0, 12), (heard + 1100.1, 13), (heard + 1100.2, 14), (heard + 1200.1, 15)]
    acks += [(heard + 1100.0, 13), (heard + 1200.0, 15), (heard + 1300.0, 18)]
    seen = ladder(sent, acks)
    assert [episode.detected_by for episode in seen.episodes] == ["rto"]
    # 13 stood in front of an ACK; 14 was filled before one could.
    assert (seen.losses["offset"] // SMSS).tolist() == [12, 13, 15]
    assert seen.timeline.observed.possible_losses == 1


def test_a_capture_that_begins_in_a_recovery_has_no_round_trip_of_what_was_sent_before_it() -> None:
    """Segment 3 fills a hole below what is SACKed, 6 one that no ACK has told of yet; 20 is new."""
    sends = [(0.0, 3), (0.1, 6), (0.2, 20), (0.3, 21)]
    acks = [(-1.0, 3, 6), (1.0, 6, 20), (2.0, 20, 0), (100.0, 21, 0), (100.1, 22, 0)]
    seen = Reconstruction(
        build(
            {
                "send_ns": [round(time * MS) for time, _ in sends],
                "send_offset": [number * SMSS for _, number in sends],
                "send_end": [(number + 1) * SMSS for _, number in sends],
                "ack_ns": [round(time * MS) for time, _, _ in acks],
                "ack_offset": [number * SMSS for _, number, _ in acks],
                "sack_high": [top * SMSS for _, _, top in acks],
                "sacked": [SMSS if top else 0 for _, _, top in acks],
            },
            smss=SMSS,
            has_sack=True,
            has_start=False,
        )
    )
    assert seen.timeline.rtt[0].tolist() == [3, 4]
    assert seen.base_rtt_ns > 99 * MS


def with_the_first_unanswered(
    count: int,
) -> tuple[list[tuple[float, int]], list[tuple[float, int]], dict[int, list[tuple[int, int]]]]:
    """Of ten segments more the first `count` are not answered, all others are SACKed: sends, ACKs, blocks by ACK."""
    sent = [*SENT, *((ENDED + 0.1 + 0.01 * index, BASE + index) for index in range(10))]
    others = range(10 - count)
    acks = [*TOLD, *((ENDED + 110.0 + index, BASE) for index in others)]
    return sent, acks, {len(TOLD) + index: [(BASE + count, BASE + count + 1 + index)] for index in others}


def test_a_super_segment_sent_again_is_lost_packet_by_packet() -> None:
    """Five segments again in one piece, and a D-SACK for the middle two: what surrounds them was lost."""
    sent, acks, blocks = with_the_first_unanswered(5)
    late, base = ENDED + 110.0, BASE
    again = len(sent)
    sent.append((late + 3.1, base))
    acks.append((late + 110.0, base + 10))
    seen = ladder(sent, acks, blocks=blocks, lengths={again: 5}, dsacks=((base + 2, base + 4),))
    lost = seen.losses
    assert (lost["offset"] // SMSS).tolist() == [base, base + 2, base + 4]
    assert (lost["length"] // SMSS).tolist() == [2, 2, 1]
    assert lost["spurious"].tolist() == [False, True, False]


@pytest.mark.parametrize(("reports", "spurious"), [(1, [False, True]), (2, [True, True])])
def test_a_report_for_each_copy_that_arrived_again(reports: int, spurious: list[bool]) -> None:
    """A segment sent again twice: of one D-SACK (RFC 2883) one of the three copies was lost, of two none."""
    sent, acks, blocks = with_the_first_unanswered(1)
    late, base = ENDED + 110.0, BASE
    sent += [(late + 3.1, base), (late + 160.0, base)]
    acks.append((late + 260.0, base + 10))
    seen = ladder(sent, acks, blocks=blocks, dsacks=((base, base + 1),) * reports)
    assert seen.losses["spurious"].tolist() == spurious


def test_of_a_sender_that_sends_needlessly_what_the_end_leaves_unanswered_is_open() -> None:
    """Three segments again, a D-SACK for the second; the capture ends before the third is answered."""
    sent, acks, blocks = with_the_first_unanswered(6)
    late, base = ENDED + 110.0, BASE
    sent += [(late + 3.1 + 0.1 * index, base + at) for index, at in enumerate((0, 1, 5))]
    acks.append((late + 104.0, base + 5))
    for dsacks, rows, unseen in (((), [0, 1, 5], 0), (((base + 1, base + 2),), [0, 1], 1)):
        seen = ladder(sent, acks, blocks=blocks, dsacks=dsacks)
        assert (seen.losses["offset"] // SMSS - base).tolist() == rows
        assert seen.timeline.observed.possible_losses == unseen


def test_where_the_beginning_is_missing_what_ends_duplicate_acks_gives_no_round_trip() -> None:
    """A sender that goes back over what was sent before the capture: segment 2 had arrived, 1 filled the hole."""
    sent = [(0.0, 0), (0.1, 1), (98.0, 2), (98.1, 3), (102.2, 4), (102.3, 5)]
    acks = [(-1.0, 0), (100.0, 1), (101.0, 1), (102.0, 3), (202.2, 5), (202.3, 6)]
    whole, late = (ladder(sent, acks, has_start=has_start).timeline.rtt[1].tolist() for has_start in (True, False))
    assert 4 * MS in whole
    assert min(late) == 100 * MS


def test_acks_before_the_first_segment_captured_tell_of_no_limit() -> None:
    """A capture begins in the tail of a burst: until something is sent nobody knows what was outstanding."""
    sent, acks = rounds([10], begin_ms=2000.0, first=10)
    later = rounds([10], begin_ms=3000.0, first=20)
    tail = [(10.0 * index, index) for index in range(10)]
    seen = ladder([*sent, *later[0]], [*tail, *acks, *later[1]], has_start=False)
    # 0.9 s of 1.1 s with nothing outstanding; the two seconds before would make it 0.3.
    assert seen.limits["application"] > 0.8


def test_a_partial_ack_that_releases_nothing_until_a_timer_is_no_restart() -> None:
    """A restarted sender goes on from `snd_una` at each ACK; one that waits for its timer there had not restarted."""
    sent, acks = rounds([4, 8, 16, 32])
    first = len(sent)
    heard = acks[-1][0]
    sent += [(heard + 0.1 + 0.01 * index, first + index) for index in range(40)]
    # Segments 0 and 3 of the flight are lost; 37 duplicates, a repair at the third, nothing else.
    late, blocks = heard + 101.0, dict[int, list[tuple[int, int]]]()
    for index in range(38):
        known = [(first + 1, first + min(index + 2, 3))] + [(first + 4, first + index + 2)] * (index > 2)
        blocks[len(acks)] = known
        acks.append((late + index, first))
    sent += [(late + 3.1, first)]
    blocks[len(acks)] = [(first + 4, first + 40)]
    acks += [(late + 104.0, first + 3)]
    timer = late + 1100.0
    sent += [(timer, first + 3)]
    acks += [(timer + 100.0, first + 40)]
    sent += [(timer + 100.1, first + 40), (timer + 100.2, first + 41)]
    found = ladder(sent, acks, blocks=blocks).episodes
    assert [(each.detected_by, each.restarts) for each in found] == [("sack", False), ("rto", True)]
    assert not found[0].sure


def test_acks_that_never_move_still_have_a_jump() -> None:
    """A host that never answers a request, sent again and again: the only ACKs say that nothing has come."""
    sent = [(1000.0 * second, 0) for second in (0, 1, 3, 7, 15)]
    seen = ladder(sent, [(500.0, 0), (20000.0, 0)])
    assert not (seen.timeline.newly_acked > 0).any()
    assert seen.jump == 4 * SMSS
