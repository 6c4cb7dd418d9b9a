"""Runs that were drawn, not chosen, their receivers' captures made worse, and whose verdict claimed what is not so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.classify.test_odd_taps import judged

CASES = (
    (7400034, "clock of 1 s", "losses", "what came out of order within one tick was late, or sent again"),
    (7401022, "the same on two VLANs", "losses", "a copy of another connection has taken no numbers of the host"),
    (7400034, "NAT + clock of 10 ms", "losses", "numbers that a host took for others, under another address"),
    (7300017, "NAT", "losses", "so many that half of the packets seem lost"),
    (7401040, "tap lost 1 % + ACK trains merged", "base_rtt_s", "the first ACK of a tick was not captured"),
    (7401215, "one ACK of four + zero-window stall", "base_rtt_s", "three of four first ACKs were not"),
    (7401039, "tap lost half of the ACKs", "bottleneck_bps", "ACKs that were put back are placed within a tick"),
    # By a rhythm, which is known to what two stamps tell apart.
    (7401031, "clock of 1 ms", "initial_window", "a tick sooner than a turn after the ACK that released it"),
    (7400038, "clock of 4 ms", "initial_window", "a turn of two ticks, where the handshake took one"),
    (7400042, "clock of 4 ms", "limits", "what follows an ACK within a tick was released by it"),
    (7500016, "clocks that drift apart + clock of 15.6 ms", "initial_window", "no round trip is told, so no flight"),
    (7500016, "no SYN", "base_rtt_s", "a round trip of no time is the rhythm's"),
    (7310014, "receiver", "bottleneck_bps", "slower runs that seem to have waited, where most are faster"),
    (7420016, "stamped by polls", "bottleneck_bps", "runs of more than a round trip have the window's pace"),
    (7500049, "stamped early + 1 % of ACKs doubled", "base_rtt_s", "out of order by more than the turn is short"),
    (8520065, "seen twice", "losses", "numbers that another connection of the host took, copies apart"),
    (8831089, "clock set forward + both cards of a router", "limits", "a copy behind the clock's step is no timer's"),
    (7420021, "stamped early", "base_rtt_s", "out of order, by how much of the least round trip is open"),
    (
        8931065,
        "one way at last + the same on two VLANs",
        "losses",
        "a number that comes twice moves nothing that arrived",
    ),
    (
        8833106,
        "receiver",
        "recovery",
        "no duplicate released the second segment sent again",
    ),
    (8931413, "receiver", "recovery", "nor where it goes on behind the first"),
    (8931059, "receiver", "bottleneck_bps", "others were faster, with no queue before them"),
    (8931436, "receiver", "bottleneck_bps", "by a rhythm: an application's pace, which varies as no queue's does"),
    (8931467, "receiver", "bottleneck_bps", "an ACK that waited for its timer comes too close before the next"),
    (8932010, "receiver", "recovery", "by a rhythm: what comes back to back with what was sent again left with it"),
    (8931215, "merged by tick", "recovery", "a window of one lets no hundred segments leave in a round trip"),
    (8931011, "clock of 15.6 ms + SACK blocks of other numbers", "recovery", "what is sure speaks for the other"),
    (8931002, "begins in avoidance", "base_rtt_s", "an ACK before the first of its tick may have released it"),
    (8932025, "begins in a recovery", "base_rtt_s", "nor does what left before the capture began tell of the turn"),
    (9001095, "receiver", "losses", "gone back over, the end of a flight that was lost leaves no hole"),
    (9021046, "receiver", "recovery", "what was asked for left with the ACK that asked, however long a queue held it"),
    (9023001, "tap lost bursts + snaplen varies", "recovery", "what comes apart is told by arrivals, not by ACKs"),
    (9022009, "clock of 10 ms + jittered clock", "recovery", "nothing asked for what had been acknowledged"),
    (8821092, "tap stalls + tap lost 0.1 %", "bottleneck_bps", "ACKs and segments between them read at once"),
    (9074009, "tap stalls", "base_rtt_s", "on a slow line a full segment's turn is longer than the handshake's"),
    (9076000, "tap stalls", "initial_window", "an ACK that was read late tilts the sender's clock"),
    (9076011, "tap stalls + IP identification 0", "base_rtt_s", "the same, where windows are of a few segments"),
    (9076036, "tap stalls", "bottleneck_bps", "read late twice in a row: the second silence alone is too short for it"),
    (
        9033013,
        "receiver",
        "limits",
        "behind a pause more left than any ACK lets go, however promptly others are answered",
    ),
    (9077008, "receiver", "limits", "flights that grew as what the receiver offered did"),
    (9076035, "snaplen varies + noisy stamps", "limits", "stamps of neighbouring ticks show no pause between flights"),
    (9076030, "one way meanwhile", "limits", "where answers are missing more seems in flight than a window allowed"),
    (9041045, "receiver", "initial_window", "a segment at a time, by the sender's own stamps: an application's pace"),
    (9074000, "noisy stamps", "initial_window", "a round trip of one tick tells no flight from the next"),
    (9074014, "clock steps back", "regime", "the only restart behind the first loss is not sure"),
    (
        9082010,
        "noisy stamps, sorted + shuffled within 1 ms",
        "limits",
        "what fills a hole, and nothing asked for, came late",
    ),
    (9076000, "tap stalls + begins in avoidance", "base_rtt_s", "each ACK may have been read late by a silence"),
    (9076005, "tap stalls + only the SYN", "base_rtt_s", "so where the handshake was not captured whole"),
    (9082026, "stamped by polls + tap lost 300 ms", "recovery", "one restart, where repairs are not in the capture"),
    (9085009, "bare ACKs stripped", "limits", "a missing ACK may have told of a loss, or have ended its recovery"),
    (9087005, "receiver", "limits", "a pause begins behind a segment that a receiver leaves waiting, too"),
    (9087021, "receiver", "initial_window", "a pause between writes that is shorter than a full segment's turn"),
    (9088001, "begins in a recovery + tap stalls", "losses", "what left before the capture began may have come"),
    (9088001, "begins in a recovery + tap stalls", "base_rtt_s", "ACKs that were held back, and no handshake"),
    (9088023, "tap stalls + clock of 15.6 ms", "base_rtt_s", "turns of whole ticks are alike that are not"),
    (
        9088030,
        "one way at last + tap lost 1 %",
        "limits",
        "a hole below one that is filled, and never filled, had come",
    ),
    (9188013, "receiver", "per_cycle", "what left between two stamps, shared out among their ACKs, is no avoidance"),
    (9085006, "noisy stamps, sorted + MSS rewritten", "regime", "what nothing asked for came in another order"),
    (9093003, "jittered clock", "limits", "nor, where no flight is seen, when a window was full again behind a pause"),
    (9095108, "tap stalls + 2 % of data split", "base_rtt_s", "a full segment takes the bottleneck longer than a SYN"),
    (9095019, "one way meanwhile", "limits", "behind one ACK more left than a window lets go: a recovery was over"),
    (9095019, "one way meanwhile + tap lost 0.1 % of ACKs", "limits", "so it is where no silence tells of it"),
    (9098003, "clock set forward + no SYN", "limits", "nor is what no timer would have waited for of a recovery"),
)


@pytest.mark.parametrize(("seed", "variant", "claim"), [pytest.param(*case[:3], id=case[3]) for case in CASES])
def test_what_a_receivers_tap_does_not_carry_is_not_claimed(
    seed: int, variant: str, claim: str, tmp_path: Path
) -> None:
    assert claim not in judged(seed, variant, tmp_path, worse_at="receiver")[0]


def test_what_the_tap_lost_leaves_the_path_known(tmp_path: Path) -> None:
    """By longer runs, as a clock of such ticks would: 22 Mbit/s, and 247 packets."""
    wrong, verdict = judged(7401039, "tap lost half of the ACKs", tmp_path, worse_at="receiver")
    assert not wrong
    path = verdict.path.as_dict()
    assert path["bottleneck_bps"]["value"] == pytest.approx(22e6, rel=0.01)
    assert path["buffer_packets"]["value"] == pytest.approx(247, abs=3)


TOLD = (
    (8820000, "triple", "of a tick's ACKs the third duplicate asked for what is sent again"),
    (8600148, "double", "and the one that ends a recovery released a window of two segments"),
    (8820045, "undecided", "without timestamps a timer's segment left one turn before it came alone"),
    (8832017, "none", "a timer's restart is known by the silence before it, and is no recovery's"),
    (8820152, "undecided", "nor did it where only the order is told"),
)


@pytest.mark.parametrize(("seed", "regime"), [pytest.param(*case[:2], id=case[2]) for case in TOLD])
def test_what_followed_a_loss_is_told_as_at_the_sender(seed: int, regime: str, tmp_path: Path) -> None:
    wrong, verdict = judged(seed, "receiver", tmp_path)
    assert not wrong
    assert verdict.slow_starts.regime == regime


def test_what_is_missing_before_a_first_repair_is_no_other_holes(tmp_path: Path) -> None:
    """Else a recovery seems to begin with it, and a timer to restart its sender: the last new data was lost as well."""
    wrong, verdict = judged(8600083, "receiver", tmp_path)
    assert not wrong
    assert [each.detected_by for each in verdict.seen.episodes] == ["dupack"]
