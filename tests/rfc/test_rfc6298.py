"""The retransmission timer (RFC 6298)."""

import pytest

from tcptrace_lab.scenario import ControlSpec, RtoSpec
from tests.timeline import timeline


def test_first_sample_sets_rto_to_three_times_itself():
    """Section 2.2: SRTT = R, RTTVAR = R/2, RTO = SRTT + 4 RTTVAR = 3 R: 300 ms after the handshake's 100 ms."""
    timeline(
        """
        0.000 > S
        0.100 < S. ack 1
        0.100 > ack 1
        0.100 > 1:1001 x
        0.400 > 1:1001         | cwnd 1 state loss
        0.501 < ack 1001       | cwnd 2
        """,
        control=ControlSpec(initial_window=1),
    )


def test_each_timeout_doubles_the_timer():
    """Section 5.5: 300 ms, 600 ms, 1.2 s, 2.4 s."""
    timeline(
        """
        0.000 > S
        0.100 < S. ack 1
        0.100 > ack 1
        0.100 > 1:1001 x
        0.400 > 1:1001 x
        1.000 > 1:1001 x
        2.200 > 1:1001 x
        4.601 > 1:1001
        4.702 < ack 1001
        """,
        control=ControlSpec(initial_window=1),
    )


def test_back_off_ends_at_its_maximum():
    """Section 2.5: a maximum may be placed on the RTO."""
    timeline(
        """
        0.000 > S
        0.100 < S. ack 1
        0.100 > ack 1
        0.100 > 1:1001 x
        0.400 > 1:1001 x
        0.900 > 1:1001 x
        1.400 > 1:1001
        """,
        control=ControlSpec(initial_window=1, rto=RtoSpec(max_s=0.5)),
    )


@pytest.mark.parametrize(("minimum_s", "at"), [(0.2, "0.400"), (1.0, "1.100"), (3.0, "3.100")])
def test_the_timer_is_never_below_its_minimum(minimum_s, at):
    """Section 2.4: less than the minimum is rounded up to it."""
    timeline(
        f"""
        0.000 > S
        0.100 < S. ack 1
        0.100 > ack 1
        0.100 > 1:1001 x
        {at} > 1:1001
        """,
        control=ControlSpec(initial_window=1, rto=RtoSpec(min_s=minimum_s)),
    )


def test_an_ack_of_new_data_starts_the_timer_again():
    """Section 5.3: the second segment's timeout counts from the first one's ACK, not from when it was sent."""
    timeline(
        """
        0.000 > S
        0.100 < S. ack 1
        0.100 > ack 1
        0.100 > 1:1001
        0.100 > 1001:1501 x
        0.201 < ack 1001
        0.452 > 1001:1501      # R' = 101 ms: RTTVAR = 3/4 * 50 + 1/4 * 1, RTO = 100.1 + 4 * 37.8 = 251 ms
        """,
        control=ControlSpec(initial_window=2),
        bytes_=1500,
    )


def test_after_a_timeout_sending_goes_on_from_the_first_hole():
    """Sections 5.4 and 5.6, and RFC 5681 section 3.1: one segment, and ssthresh of half the flight."""
    timeline(
        """
        0.000 > S
        0.100 < S. ack 1
        0.100 > ack 1
        0.100 > 1:1001 x
        0.100 > 1001:2001 x
        0.100 > 2001:3001 x
        0.100 > 3001:4001 x
        0.400 > 1:1001         | cwnd 1 ssthresh 2 state loss
        0.501 < ack 1001       | cwnd 2
        0.501 > 1001:2001
        0.501 > 2001:3001
        0.602 < ack 2001
        0.602 > 3001:4001
        """,
        control=ControlSpec(initial_window=4),
    )


def test_a_retransmission_is_not_timed():
    """Section 3 (Karn): the sample of a segment sent twice is ambiguous, the doubled timer stays until a new one."""
    timeline(
        """
        0.000 > S
        0.100 < S. ack 1
        0.100 > ack 1
        0.100 > 1:1001 x
        0.400 > 1:1001
        0.501 < ack 1001       | cwnd 2
        0.501 > 1001:2001 x
        0.501 > 2001:3001 x
        1.101 > 1001:2001      # 600 ms after the ACK: still backed off
        """,
        control=ControlSpec(initial_window=1),
    )
