"""Limited transmit (RFC 3042)."""

import pytest

from tcptrace_lab.scenario import ControlSpec
from tests.timeline import timeline

START = """
    0.000 > S
    0.100 < S. ack 1
    0.100 > ack 1
    0.100 > 1:1001
    0.100 > 1001:2001 x
    0.100 > 2001:3001
    0.201 < ack 1001           | cwnd 3
    0.201 > 3001:4001
"""


@pytest.mark.parametrize("recovery", ["reno", "newreno", "sack"])
def test_the_first_two_duplicates_let_a_new_segment_out_each(recovery):
    """Section 2: so a window of three gets its third duplicate, and no timeout."""
    timeline(
        START
        + """
        0.203 < ack 1001       | cwnd 3
        0.203 > 4001:5001
        0.302 < ack 1001       | cwnd 3
        0.302 > 5001:6001
        0.304 < ack 1001       | ssthresh 2 state recovery
        0.304 > 1001:2001
        """,
        control=ControlSpec(recovery=recovery, initial_window=3, initial_ssthresh=2.0, limited_transmit=True),
    )


def test_without_it_a_window_of_three_waits_for_the_timer():
    timeline(
        START
        + """
        0.203 < ack 1001
        0.302 < ack 1001
        0.452 > 1001:2001      | cwnd 1 state loss
        """,
        control=ControlSpec(recovery="newreno", initial_window=3, initial_ssthresh=2.0),
    )
