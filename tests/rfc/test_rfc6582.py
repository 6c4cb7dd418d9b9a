"""NewReno (RFC 6582)."""

from tcptrace_lab.scenario import ControlSpec
from tests.timeline import timeline

TWO_HOLES = """
    0.000 > S
    0.100 < S. ack 1
    0.100 > ack 1
    0.100 > 1:1001
    0.100 > 1001:2001 x
    0.100 > 2001:3001
    0.100 > 3001:4001 x
    0.100 > 4001:5001
    0.100 > 5001:6001
    0.100 > 6001:7001
    0.100 > 7001:8001
    0.201 < ack 1001
    0.201 > 8001:9001
    0.203 < ack 1001
    0.205 < ack 1001
    0.206 < ack 1001           | ssthresh 4 cwnd 7 state recovery
    0.206 > 1001:2001
"""


def control(recovery: str) -> ControlSpec:
    return ControlSpec(recovery=recovery, initial_window=8, initial_ssthresh=4.0)


def test_a_partial_ack_retransmits_the_next_hole_at_once():
    """Section 3.2 step 3: deflate by what is acknowledged, add one segment, and stay in recovery until `recover`."""
    timeline(
        TWO_HOLES
        + """
        0.207 < ack 1001       | cwnd 8
        0.208 < ack 1001       | cwnd 9
        0.208 > 9001:10001
        0.302 < ack 1001       | cwnd 10
        0.302 > 10001:11001
        0.307 < ack 3001       | cwnd 9 ssthresh 4 state recovery
        0.307 > 3001:4001
        ...
        0.408 < ack 11001      | cwnd 4 state open
        """,
        control=control("newreno"),
    )


def test_reno_leaves_recovery_at_the_partial_ack():
    """RFC 5681 section 3.2 step 6: any ACK of new data ends it; the second hole waits for three more duplicates."""
    timeline(
        TWO_HOLES
        + """
        ...
        0.307 < ack 3001       | cwnd 4 state open
        """,
        control=control("reno"),
    )


def test_a_window_is_halved_once_however_many_holes_it_has():
    """Section 3.2 step 1: losses of the same window do not reduce ssthresh again."""
    run = timeline(TWO_HOLES, control=control("newreno"), seconds=0.6)
    assert (run.losses["detected_by"] == "dupack").sum() == 1
    assert set(run.losses["ssthresh_after"]) == {4000}
