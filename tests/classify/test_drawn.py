"""Runs and taps that were drawn, not chosen, and whose verdict claimed what is not so: one for each cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.claims import main_verdict
from tests.classify.test_odd_taps import judged
from tests.degrade import SECOND
from tests.random_degraded import against_truth
from tests.random_runs import tapped

CASES = (
    # Without a handshake nothing says what the path takes at least.
    (6300009, "only the SYN-ACK + tap stalls", "base_rtt_s", "read late, as no handshake tells"),
    (6300010, "only the SYN-ACK + tap stalls", "base_rtt_s", "what is read in a row behind a silence waited as long"),
    (6300003, "only the SYN-ACK + tap stalls", "bottleneck_bps", "a second of ACKs that a stall held back before it"),
    # Where cycles begin is not told: nor that their counts differ, nor that the first is the only one.
    (6400006, "SACK blocks stripped", "regime", "a recovery behind a recovery, and no block"),
    (6400006, "tap stalls", "regime", "a recovery behind a recovery, read late"),
    (6400038, "bare ACKs stripped", "regime", "ACKs missing, cycles told by guess"),
    (6400057, "clock of 1 ms", "per_cycle", "ACKs of one stamp leave room in the receiver's window"),
    (6400053, "begins in a recovery", "bottleneck_bps", "a pace that less than half of the runs have"),
    (6400004, "split from the middle on", "bottleneck_bps", "a slow reader's pace, out of order"),
    (6400032, "tap lost half of the ACKs + reset forged", "recovery", "timers behind duplicates, ACKs missing"),
    # What a tap read late is stamped apart besides, so that no run of stamps at once is seen.
    (5410053, "tap stalls + directions delayed apart", "buffer_packets", "late, and a buffer for each way"),
    (5110060, "tap stalls + directions delayed apart", "buffer_packets", "late half of the time, over 2 ms each"),
    (5410055, "tap stalls + noisy stamps", "base_rtt_s", "late, and stamps that jitter"),
    (5120046, "tap stalls + noisy stamps, sorted", "buffer_packets", "late, no handshake: one turn's least is odd"),
    (5110065, "stamped by polls + timestamps stripped", "base_rtt_s", "as late as since the poll before"),
    (5010013, "split from the middle on + clock set forward", "limits", "a late second half is not sent again"),
    (5410058, "clock steps back + bare ACKs stripped", "initial_window", "words at one pace, the first ACKs missing"),
    (5410041, "one ACK of four + timestamps stripped", "per_cycle", "a window that was shut, its scale in doubt"),
    (5120006, "clocks that drift apart", "limits", "what a restarted sender sent after its answer"),
    (5120024, "node0.out", "limits", "behind a bottleneck's queue nothing says who sets the pace"),
    (5120041, "receiver", "limits", "by a rhythm a window is known to a part of it"),
    (5110017, "receiver", "limits", "a pause is as long as since the last segment, whenever its ACK came"),
    (5510013, "node0.out", "losses", "a flight lost to its end leaves no hole behind the bottleneck"),
    (5320029, "node0.out", "buffer_packets", "of a lossy link's four losses three met the longest queue"),
    (6100024, "node0.out", "initial_window", "on a line slower for segments than for SYNs no pause, so no probe"),
    (6100033, "node0.out", "initial_window", "behind a line a first flight still comes when its first ACK passes"),
    (6110024, "GSO at the sender", "bottleneck_bps", "of a super-segment the last packet waits behind the others"),
    (6110009, "GSO at the sender + tap stalls", "base_rtt_s", "not every segment that was read late shows it"),
    (6130003, "tap lost 0.1 % of data + tap stalls", "base_rtt_s", "a full segment takes longer than a SYN"),
    (6203024, "tap lost 1 % + tap stalls", "bottleneck_bps", "a second may have been longer by what was read late"),
    (6110000, "receiver", "per_cycle", "the capture ends in the recovery that begins the last cycle"),
    (6140015, "clock of 15.6 ms", "regime", "within a tick of a recovery's end another may be the same"),
    (6130019, "tap lost half of the ACKs + no SYN", "limits", "windows scaled to a flight that missing ACKs make"),
    (6110023, "GSO at the sender + noisy stamps", "limits", "no timer's, once all is answered"),
    (6130021, "tap lost bursts + clock set forward", "limits", "a recovery goes on, and no timer began it"),
    (6140001, "node0.out", "limits", "what waits before the tap is outstanding too"),
    (6100014, "SACK blocks of other numbers + only the SYN-ACK", "losses", "blocks of what nobody sent"),
    (6300003, "SACK blocks stripped + window scale stripped", "regime", "two recoveries are one without a block"),
    (6300002, "no options of ACKs", "bottleneck_bps", "holes that no block tells of are filled behind a recovery"),
    (6211002, "GSO at the sender + split from the middle on", "initial_window", "cut pieces have sizes of their own"),
    (6211007, "GSO at the sender + tap stalls", "base_rtt_s", "on a slow line each segment comes behind a silence"),
    (6211014, "GSO at the sender + clock of 1 ms", "regime", "a repair as its last ACK passes begins no other"),
    (6211023, "GSO at the sender", "buffer_packets", "ahead of the lost packet was a part of its super-segment"),
    (6220017, "NAT + clock of 4 ms", "per_cycle", "by coarse stamps a first slow start ends before its loss"),
    (6223005, "tap lost half of the ACKs", "regime", "counts that differ for want of ACKs"),
    (6200011, "receiver", "bottleneck_bps", "an application's pace, where few that had it met a queue"),
    (7100018, "no options of ACKs + merged by tick", "recovery", "no room seen, in a window scaled by guess"),
    (7100017, "only the SYN + tap lost 5 %", "limits", "a timer ended what a window at work may have repaired"),
    (7100080, "clock of 10 ms", "per_cycle", "by coarse stamps a timer's segment follows its answer"),
    (7100074, "clock steps back", "losses", "sent again across a step, as soon as a second capture"),
    (7101012, "both cards of a router + one ACK of four", "bottleneck_bps", "either of two captures is left"),
    (
        7101028,
        "slewed clock + two resolutions",
        "bottleneck_bps",
        "a tick of one way, faster and slower",
    ),
    (7101044, "tap stalls + clock of 10 ms", "base_rtt_s", "read late within a tick, and a handshake of one"),
    (7101063, "bare ACKs stripped + no options of ACKs", "losses", "of few ACKs left none tells what had arrived"),
    (7101071, "bare ACKs stripped + merged, stamped as the last", "limits", "no timer and no duplicate began it"),
    (7101063, "receiver", "regime", "sent again with nothing outstanding, as the rhythm has it"),
    (7101061, "tap reorders + interrupt batches", "per_cycle", "the third duplicate behind what it asked for"),
    (6100020, "snaplen varies", "per_cycle", "a block, which was cut, or a timer"),
    (6600053, "receiver", "limits", "between pauses a burst may fill a window that those leave as it is"),
    (6201005, "receiver", "losses", "a timer's restart over a flight's end leaves no hole"),
    (7102005, "one way meanwhile", "limits", "a recovery begins and ends between two captured ACKs"),
    (7102019, "one way meanwhile", "per_cycle", "so does an event, which is in no table"),
    (7101054, "both cards of a router + all options stripped", "recovery", "duplicates counted twice, and no answer"),
    (7101089, "node0.out", "initial_window", "of one segment behind a line no pace is known"),
    (7101089, "node0.out", "limits", "what had left takes to the tap as long as it seems to pause"),
    (7151028, "bare ACKs stripped + GSO, cut again", "losses", "of few ACKs' round trips what was answered too soon"),
    (7151028, "bare ACKs stripped + GSO, cut again", "regime", "a restart that few ACKs leave open"),
    (7151002, "GSO at the sender + snaplen varies", "per_cycle", "blocks missing where one recovery follows another"),
    (7151032, "tap stalls + noisy stamps", "bottleneck_bps", "a queue by a least round trip that was read late"),
    (7150032, "bare ACKs stripped + shuffled within 1 ms", "losses", "needless, by few ACKs, may have been lost"),
    (7151024, "receiver", "limits", "a restarted sender waits for its answer, no timer"),
    (7151052, "merged, stamped as the last + both cards of a router", "limits", "a copy merged with what follows it"),
    (7100113, "no segment twice + noisy stamps, sorted", "per_cycle", "one hole's repair was not captured: no cycle"),
    (7101010, "no segment twice + begins in a recovery", "limits", "holes beside the recoveries seen"),
    (7101021, "GSO at the sender + tap lost 0.1 % of data", "losses", "repairs among what the tap lost"),
    (7100087, "begins in a recovery + clocks that drift apart", "limits", "a window half as wide as its scale seems"),
    (7100113, "two clocks + only the SYN-ACK", "limits", "a SYN-ACK behind what answers it begins no connection"),
    (7501009, "VLAN", "buffer_packets", "two losses of one flight met one queue, whoever lost them"),
    (7501086, "clock steps back + tap stalls", "buffer_packets", "what was read late is no queue that was carried"),
    (7501025, "tap lost 1 % + clock of 15.6 ms", "bottleneck_bps", "a queue of one tick is none"),
    (
        7540108,
        "sequence numbers wrap + begins in a recovery",
        "base_rtt_s",
        "sooner answers than those of whole flights",
    ),
    (7501024, "tap lost half of the ACKs", "bottleneck_bps", "duplicates missing, so that partial ACKs fill holes"),
    (7155012, "no option captured + no segment twice", "bottleneck_bps", "few runs, and holes filled out of sight"),
    (8811181, "a file of the ring missing + merged by tick", "bottleneck_bps", "two ACKs behind what is missing jump"),
    (8812046, "no SYN + begins in avoidance", "bottleneck_bps", "another's share of a queue of a few packets"),
    (8923001, "tap stalls", "base_rtt_s", "a burst of the host's own, left while the tap did not read"),
    (8922020, "tap stalls + only the SYN-ACK", "base_rtt_s", "a burst may have waited for as long as the tap stalls"),
    (8921012, "tap stalls", "base_rtt_s", "many turns undercut a handshake that was read late"),
    (8921073, "tap stalls + one ACK of four", "base_rtt_s", "a path that is shorter stays so"),
    (8921089, "tap stalls + only the SYN-ACK", "base_rtt_s", "one turn's round trips that no other comes near"),
    (8922025, "directions delayed apart", "control", "holes filled before the third duplicate"),
    (8921023, "directions delayed apart", "control", "the same, where one of two laws is named"),
    (8921040, "noisy stamps, sorted + IP identification 0", "recovery", "the same, and restarts"),
    (8811022, "one ACK of four", "initial_window", "the first ACK captured tells of four segments: others released"),
    (8922020, "bare ACKs stripped", "initial_window", "a write's short end that waited for an answer out of sight"),
    (8811209, "one way meanwhile + split from the middle on", "bottleneck_bps", "blocks missing, then holes filled"),
    (8982032, "tap stalls + ends early", "bottleneck_bps", "what such a tap reads in a row comes at its own pace"),
    (8956047, "tap stalls + noisy stamps", "losses", "a few answers in no time are no receiver's own"),
    (8982009, "tap stalls + merged by tick", "base_rtt_s", "answers in no time behind silences alone"),
    (8982013, "tap stalls + clocks that drift apart", "limits", "what left just before its answer may follow it"),
    (8981009, "tap lost 300 ms", "losses", "a recovery silent for longer than any round trip"),
    (8982030, "one way meanwhile", "limits", "nobody sends beyond the offered window: ACKs are missing"),
    (8956045, "tap stalls + merged by tick", "bottleneck_bps", "by a least round trip of nothing each met a queue"),
    (9013280, "clock of 10 ms", "initial_window", "what the first flight's ACKs let go is less than it had: a write"),
    (9013185, "tap lost 1 % of ACKs + ACK trains merged", "control", "growth behind a disturbed cut"),
    (9013185, "one way meanwhile", "control", "how often it reduced while no ACK was captured"),
    (9032014, "SACK blocks of other numbers + only the SYN-ACK", "regime", "each duplicate's block was cut"),
    (9031033, "clock of 1 ms + snaplen varies", "regime", "the only cycle's count, which blocks or timers would tell"),
    (9013106, "one ACK of four", "initial_window", "what no ACK released was written, at the application's pace"),
    (9013344, "clock of 4 ms + zero-window stall", "initial_window", "ACKs of one stamp let go less than there was"),
    (9013112, "ports used again + tap stalls", "initial_window", "more left before any ACK came, and none is missing"),
    (9007001, "receiver", "per_cycle", "a probe of the only segment is no restart"),
    (9012125, "tap lost 5 %", "buffer_packets", "duplicates missing that told of a longer queue behind the loss"),
    (9073031, "ports used again + snaplen varies", "bottleneck_bps", "blocks cut, so that ACKs behind a recovery jump"),
    (9073000, "tap lost 0.1 % of data + one ACK of four", "limits", "a recovery may be over before the ACK that tells"),
    (9039014, "begins in avoidance + one way meanwhile", "limits", "windows scaled to a flight of missing ACKs"),
    (9084037, "one way meanwhile", "recovery", "the ACK that ended a recovery is among those that are missing"),
    (9084037, "one way meanwhile", "per_cycle", "so it is where the SYN's scale tells that they are"),
    (9073036, "tap stalls", "base_rtt_s", "one round trip is left of a tap that was late: it need not be the path's"),
    (9094015, "tap lost half of the ACKs", "regime", "another hole is filled: the first one's answer is missing"),
    (9094030, "bare ACKs stripped + tap lost half of the ACKs", "regime", "of one recovery that may be two"),
    (9094187, "bare ACKs stripped + merged, stamped as the last", "recovery", "nor of holes filled at once"),
)


@pytest.mark.parametrize(("seed", "variant", "claim"), [pytest.param(*case[:3], id=case[3]) for case in CASES])
def test_what_a_drawn_tap_does_not_carry_is_not_claimed(seed: int, variant: str, claim: str, tmp_path: Path) -> None:
    assert claim not in judged(seed, variant, tmp_path)[0]


@pytest.mark.parametrize(
    ("seed", "claim"),
    [
        pytest.param(5010056, "sender's limits", id="until the first duplicate the receiver's window held it"),
        pytest.param(8110008, "sender's limits", id="writes that come early by the time to the next train of ACKs"),
        pytest.param(830078, "sender's limits", id="what a burst behind a pause filled was open before the pause"),
        pytest.param(8210054, "sender's limits", id="the end of a write drains a window that the receiver offers"),
        pytest.param(8120051, "sender's limits", id="writes of a window and a half, one before the other is answered"),
        pytest.param(8700059, "sender's limits", id="writes that leave behind an ACK by chance"),
        pytest.param(8981029, "sender's limits", id="writes behind ACKs that released nothing, or a host that stands"),
        pytest.param(8400171, "sender's limits", id="what a pause made small is not the offered window"),
        pytest.param(8811134, "sender's limits", id="a timer's wait goes on behind a late write"),
        pytest.param(8955037, "sender's limits", id="less than what a recovery leaves is the end of a write"),
        pytest.param(9039148, "sender's limits", id="writes as soon behind trains of ACKs as a host is late"),
        pytest.param(9013028, "sender's limits", id="many ACKs in a row of which none released anything at once"),
        pytest.param(8720083, "sender's limits", id="the same, between recoveries and a window that is filled"),
        pytest.param(8957193, "sender's limits", id="the same, of writes at nearly the path's own rate"),
        pytest.param(8951030, "sender's limits", id="a step of slow start before the short end of a write"),
        pytest.param(9082025, "sender's limits", id="the same, of a window that was wide before"),
        pytest.param(8959086, "sender's limits", id="what fills the offered window late had room in it until then"),
        pytest.param(9073024, "sender's limits", id="the only segment in flight again may be a probe"),
        pytest.param(5120007, "drops", id="a timer's copy is answered sooner than any other"),
        pytest.param(8957102, "drops", id="and the copy's before later than any measured"),
        pytest.param(6100022, "drops", id="a rescue retransmission that the capture's end left unanswered"),
        pytest.param(9085019, "drops", id="the last segment's answer waits for another, which its second copy was"),
        pytest.param(9094144, "drops", id="a block that was there before is left out, though an ACK has room"),
    ],
)
def test_what_an_untouched_capture_carries_is_right(seed: int, claim: str, tmp_path: Path) -> None:
    found = tapped(seed, tmp_path)
    assert found is not None
    verdict = main_verdict(found.run.path, without=found.others)
    assert verdict is not None
    assert claim not in against_truth(found, verdict)


@pytest.mark.parametrize(
    ("seed", "names"),
    [
        pytest.param(8989109, {"veno", "westwood"}, id="one cut of a window that the receiver hid"),
        # It waits until all before it is acknowledged (RFC 9293 section 3.7.4).
        pytest.param(8999017, {"cubic"}, id="the end of a write behind a recovery is no window"),
    ],
)
def test_what_shows_no_window_refutes_nobody(seed: int, names: set[str], tmp_path: Path) -> None:
    found = tapped(seed, tmp_path)
    assert found is not None
    verdict = main_verdict(found.run.path, without=found.others)
    assert verdict is not None
    left = {each["name"] for each in verdict.as_dict()["sender_tcp"]["candidates"] if each["against"] is None}
    assert left >= names


@pytest.mark.parametrize("seed", [8400060, 8400103])
def test_what_a_receivers_capture_shows_of_a_writer_is_right(seed: int, tmp_path: Path) -> None:
    """An ACK released a part of what it acknowledged, or nothing, and behind a pause more than it can have let go."""
    found = tapped(seed, tmp_path)
    assert found is not None
    verdict = main_verdict(found.places["receiver"], without=found.others)
    assert verdict is not None
    assert "sender's limits" not in against_truth(found, verdict)


@pytest.mark.parametrize("seed", [8921031, 8921053])
def test_the_path_is_told_of_a_tap_that_stalls(seed: int, tmp_path: Path) -> None:
    """A path that is idle for a part of each round trip is silent for as long as the tap was; its ACKs come on time."""
    wrong, verdict = judged(seed, "tap stalls", tmp_path)
    assert not wrong
    assert verdict.path.base_rtt_s.high is not None


@pytest.mark.parametrize(("seed", "segments"), [(8921015, 10), (8921037, 4)])
def test_the_first_window_is_told_where_the_first_acks_are_missing(seed: int, segments: int, tmp_path: Path) -> None:
    """The first captured tells of four segments: what left a round trip behind the first was released by others."""
    wrong, verdict = judged(seed, "one ACK of four", tmp_path)
    assert not wrong
    assert verdict.as_dict()["initial_window"]["segments"] == segments


def test_the_end_of_a_flight_that_was_lost_is_counted_once(tmp_path: Path) -> None:
    """In order when it comes again, and missing by its host's numbers before: what left behind it was lost with it."""
    wrong, verdict = judged(7100008, "receiver", tmp_path)
    assert not wrong
    assert verdict.losses["total"] == 71


def test_an_application_that_pauses_is_told_at_its_receiver(tmp_path: Path) -> None:
    """Without timestamps, its bursts longer than what leads them: its pauses take 42 % of the time."""
    wrong, verdict = judged(7100055, "receiver", tmp_path)
    assert not wrong
    assert verdict.limits["application"] > 0.4


def test_what_a_write_leaves_behind_is_no_turn(tmp_path: Path) -> None:
    """Each write follows the end of the one before by the same time, which is longer than a turn and is none."""
    wrong, _ = judged(8996002, "receiver", tmp_path)
    assert not wrong


def test_a_clock_set_forward_is_told_by_the_stamps_that_were_not_cut(tmp_path: Path) -> None:
    """Five seconds, which a flight's own timers would have waited for: of two thirds of the ACKs the TSvals tell."""
    wrong, verdict = judged(7101004, "clock set forward + snaplen varies", tmp_path)
    assert not wrong
    assert verdict.who.tap.clock.set_forward_ns > 4 * SECOND


def test_a_copy_that_a_card_merged_with_what_follows_it_is_none_sent_again(tmp_path: Path) -> None:
    """Each packet twice, and a card that merges (GRO): the second copy of one and the next are a super-segment."""
    wrong, verdict = judged(7151026, "merged, stamped as the last + seen twice", tmp_path)
    assert not wrong
    assert verdict.losses["total"] == 0
    assert verdict.limits["cwnd"] + verdict.limits["rwnd"] > 0.9


@pytest.mark.parametrize(
    ("seed", "name", "told"),
    [
        pytest.param(7520000, "regime", "none", id="what was outstanding as the capture began is nothing the tap lost"),
        pytest.param(7520011, "regime", "none", id="a window of one has no room for more than the segment lost"),
        pytest.param(7200055, "regime", "none", id="of two losses one is sure, and a sender has one algorithm"),
        pytest.param(7200023, "control", "yeah", id="who had pasts to choose from as well is behind by itself"),
    ],
)
def test_what_a_piece_of_a_run_carries_is_told(seed: int, name: str, told: str, tmp_path: Path) -> None:
    wrong, verdict = judged(seed, "begins in avoidance", tmp_path)
    assert not wrong
    assert {"regime": verdict.slow_starts.regime, "control": verdict.identified.control}[name] == told


def test_laws_that_tie_in_a_piece_are_told_with_what_would_part_them(tmp_path: Path) -> None:
    """M-Start is Reno but for its slow start, and none is in a piece whose sender recovers without one."""
    _, verdict = judged(7200007, "begins in avoidance", tmp_path)
    assert {each.candidate.name for each in verdict.identified.left} == {"reno", "m_start"}
    assert "before the capture: a slow start" in verdict.identified.reasons[0]
