"""Drawn runs from both ends whose verdict, window or losses once were not what the simulator did."""

from __future__ import annotations

import pytest

from docs.accuracy_rows import rows_of_run

CASES = (
    (
        20261403,
        67,
        "sender",
        "control",
        "HyStart++ that goes on as it began is off by little: asked of all",
    ),
    (20371204, 22, "sender", "control", "so is who is off only in what an overshoot left"),
    (20261402, 24, "sender", "slow starts", "what a recovery left beyond its window, and is lost, shows no restart"),
    (20261403, 10, "sender", "bounds", "what drains shows no window where delay closed it"),
    (20261403, 54, "sender", "losses", "what arrived between two timers outran copies"),
    (20261502, 23, "sender", "bounds", "behind a timer duplicates let go what the window does not open by"),
    (20261502, 65, "sender", "bounds", "duplicates that answer what was sent twice tell of nothing new"),
    (20261502, 65, "receiver", "bounds", "a duplicate lets go no more than two new segments"),
    (20261503, 41, "receiver", "bounds", "duplicates of a whole recovery tell what has arrived in it"),
    (20261503, 43, "receiver", "bounds", "behind a recovery the flight may begin with a burst"),
    (20261403, 32, "receiver", "control", "what is put at even times between anchors refutes no law by delay"),
    (20261403, 16, "sender", "bounds", "Linux's NewReno leaves its recovery above what was sent before the loss"),
    (20261402, 60, "receiver", "losses", "a hole below the one that is filled had been sent again before"),
    (20261402, 9, "receiver", "losses", "a host's own time counts in a turn"),
    (20261402, 31, "receiver", "bounds", "a timer within a restart, and half of the packets lost: every number is one"),
    (20261401, 2, "receiver", "losses", "numbers that others took are no losses"),
    (20261701, 10, "sender", "control", "a first loss of a window that was not seen asks for another slow start"),
    (20261602, 66, "sender", "slow starts", "a retransmission above the ACK goes on with what a timer went back over"),
    (20261216, 41, "receiver", "losses", "arrivals are counted again once their numbers have moved them"),
    (20261602, 59, "receiver", "control", "what was asked for and came soonest bounds the turn"),
    (20261404, 36, "sender", "bounds", "a window is replayed with the handshake's round trip"),
    (20261801, 65, "receiver", "control", "an ACK that released nothing shows no window at work"),
    (20261702, 23, "receiver", "control", "a law by delay that comes to half of the cycles alike goes as they do"),
    (20261404, 8, "sender", "bounds", "a stack has that round trip, where nothing tells"),
    (20261804, 31, "sender", "control", "Westwood's window behind a recovery is seen once the network has drained"),
    (20261805, 67, "sender", "control", "a timer within a recovery keeps its threshold, and asks for none"),
    (20261805, 44, "sender", "bounds", "a replay ends its slow start as the reading that was followed does"),
    (20261802, 2, "sender", "bounds", "what a timer went back below counts no more, and is sent again"),
    (20261806, 65, "sender", "slow starts", "with SACK plain duplicates let nothing go, restarted or not"),
    (20261804, 62, "sender", "losses", "an answer sooner than the least round trip may be either copy's"),
    (20261810, 21, "sender", "losses", "a repair that nothing has outrun may be what is answered behind a timer"),
    (20261811, 54, "sender", "slow starts", "no timer expires sooner than the least one, while blocks tell"),
    (20261811, 8, "sender", "control", "what the ACK that ends a recovery shows outrun begins the next"),
    (20261808, 42, "receiver", "bounds", "a flight that is open is no window that a replay goes on from"),
    (20261906, 34, "receiver", "bounds", "what may have been outstanding is no more than the window"),
    (20261903, 24, "receiver", "control", "a flight that is open shows no cut, nor that there was none"),
    (20261810, 65, "sender", "slow starts", "a timer among blocks: its copy is answered too soon, and nothing leaves"),
    (20262001, 21, "sender", "bounds", "windows are replayed with the round trips that the one followed has heard"),
    (
        20262006,
        55,
        "receiver",
        "control",
        "of a few cycles none is an odd one: a law off in one of four is not alone",
    ),
    (20262007, 7, "sender", "slow starts", "what was acknowledged before a timer expired answers no restart"),
    (20262007, 30, "sender", "bounds", "an ACK has no room for all blocks: those before count too"),
    (20262001, 21, "receiver", "bounds", "a window that was seen cut between two losses is none that is not used"),
    (20261805, 20, "receiver", "losses", "a flight's end that a repair's answer shows outrun leaves no hole"),
    (20262004, 1, "receiver", "losses", "so it is where it leaves behind what ends the recovery"),
    (20261804, 54, "receiver", "losses", "what a restart goes back over, and had arrived, is lost unseen"),
    (
        20261811,
        13,
        "receiver",
        "control",
        "Linux times what an ACK SACKs, not what waited for a hole, by itself too",
    ),
    (20263202, 11, "receiver", "control", "so it does at a small buffer with another flow"),
    (20263202, 22, "receiver", "losses", "a hole is sent again no sooner than a turn after what shows it came"),
    (20262005, 10, "receiver", "losses", "a number before a hole that stands behind is none of a flight's end"),
    (20262003, 68, "receiver", "losses", "behind what is filled a pass over the holes goes on upwards"),
    (20262007, 7, "receiver", "losses", "what a timer fills had been sent before, as three segments asked for it"),
    (20263202, 33, "sender", "buffer", "few places are no buffer where a queue grew far beyond by what was sent"),
    (20262004, 51, "sender", "losses", "an answer that echoes the first copy's stamp is not the second one's"),
    (20261807, 21, "sender", "losses", "so behind a timer that went back over what was on its way"),
    (20263201, 53, "sender", "losses", "what is sent needlessly, and is not answered, may have been lost"),
    (20261802, 0, "sender", "bounds", "what was sent a short time before a timer still counts (RFC 8985 section 6.3)"),
    (20261810, 11, "sender", "bounds", "holes behind a recovery, lost already, are not under way"),
    (20261810, 69, "sender", "bounds", "behind a timer too what drains shows no window"),
    (20262009, 33, "sender", "bounds", "the last ACK that opens an unused window does so by its control's own rule"),
    (20263103, 7, "receiver", "control", "between losses nothing tells M-Start from Reno but chance"),
    (20261901, 10, "receiver", "losses", "of a flight's end M-Start may have let go several segments more an ACK"),
)


@pytest.mark.parametrize(("seed", "number", "tap", "claim"), [pytest.param(*case[:4], id=case[4]) for case in CASES])
def test_what_a_drawn_run_did_is_not_contradicted(seed: int, number: int, tap: str, claim: str) -> None:
    (row,) = (row for row in rows_of_run(seed, number) if row.name.endswith(tap))
    assert claim not in dict(row.wrong())
