"""Loss recovery with SACK (RFC 6675)."""

from tcptrace_lab.scenario import ControlSpec
from tests.timeline import timeline

CONTROL = ControlSpec(recovery="sack", initial_window=6, initial_ssthresh=4.0, prr=False)


def test_two_holes_of_a_window_are_filled_within_a_round_trip():
    """Section 5: pipe = 6 - 2 SACKed - 1 lost = 3 at the third duplicate; a hole is lost when more than
    (DupThresh - 1) * SMSS bytes above it are SACKed: the second one with the block 4001:7001."""
    timeline(
        """
        0.000 > S
        0.100 < S. ack 1
        0.100 > ack 1
        0.100 > 1:1001
        0.100 > 1001:2001 x
        0.100 > 2001:3001
        0.100 > 3001:4001 x
        0.100 > 4001:5001
        0.100 > 5001:6001
        0.201 < ack 1001
        0.201 > 6001:7001
        0.203 < ack 1001 sack 2001:3001            | state disorder
        0.205 < ack 1001 sack 4001:5001,2001:3001
        0.206 < ack 1001 sack 4001:6001,2001:3001  | cwnd 3 ssthresh 3 state recovery
        0.206 > 1001:2001
        0.302 < ack 1001 sack 4001:7001,2001:3001
        0.302 > 3001:4001
        0.302 > 7001:8001
        0.307 < ack 3001 sack 4001:7001            | cwnd 3 state recovery
        0.307 > 8001:9001
        0.403 < ack 7001                           | cwnd 3 state open
        """,
        control=CONTROL,
    )


def test_the_first_block_is_the_one_that_holds_the_segment_just_received():
    """RFC 2018 section 4: most recent first, then the blocks reported before."""
    timeline(
        """
        0.000 > S
        0.100 < S. ack 1
        0.100 > ack 1
        0.100 > 1:1001 x
        0.100 > 1001:2001
        0.100 > 2001:3001 x
        0.100 > 3001:4001
        0.100 > 4001:5001 x
        0.100 > 5001:6001
        0.202 < ack 1 sack 1001:2001
        0.204 < ack 1 sack 3001:4001,1001:2001
        0.206 < ack 1 sack 5001:6001,3001:4001,1001:2001
        """,
        control=CONTROL,
    )


def test_an_ack_that_moves_on_and_brings_new_sack_counts_as_duplicate():
    """Section 2: whatever the cumulative point does; section 5 (3): with limited transmit, new data goes out while
    cwnd - pipe >= 1 SMSS. The first ACK acknowledges one segment, which waited for a second, and SACKs the third: 5
    outstanding, 1 SACKed, so 2 go out under a cwnd of 6 and a bit."""
    timeline(
        """
        0.000 > S
        0.100 < S. ack 1
        0.100 > ack 1
        0.100 > 1:1001
        0.100 > 1001:2001 x
        0.100 > 2001:3001
        0.100 > 3001:4001
        0.100 > 4001:5001
        0.100 > 5001:6001
        0.203 < ack 1001 sack 2001:3001 | state disorder
        0.203 > 6001:7001
        0.203 > 7001:8001
        0.204 < ack 1001 sack 2001:4001
        0.204 > 8001:9001
        0.205 < ack 1001 sack 2001:5001 | state recovery
        0.205 > 1001:2001
        """,
        control=ControlSpec(
            recovery="sack",
            initial_window=6,
            initial_ssthresh=4.0,
            prr=False,
            limited_transmit=True,
            delayed_ack_segments=2,
        ),
    )
