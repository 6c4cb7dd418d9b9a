"""TCP congestion control (RFC 5681)."""

import pytest

from tcptrace_lab.scenario import ControlSpec, ReceiverSpec
from tests.timeline import SEGMENT, seen_by_sender, timeline


def test_slow_start_opens_the_window_by_a_segment_for_each_ack():
    """Section 3.1, equation (2): every ACK lets two segments out."""
    timeline(
        """
        0.000 > S
        0.100 < S. ack 1       | cwnd 2
        0.100 > ack 1
        0.100 > 1:1001
        0.100 > 1001:2001
        0.201 < ack 1001       | cwnd 3
        0.201 > 2001:3001
        0.201 > 3001:4001
        0.202 < ack 2001       | cwnd 4
        0.202 > 4001:5001
        0.202 > 5001:6001
        0.302 < ack 3001       | cwnd 5
        """,
        control=ControlSpec(initial_window=2),
    )


def test_avoidance_opens_the_window_by_a_segment_in_a_round_trip():
    """Section 3.1, equation (3): each ACK adds 1/cwnd; four of a window of 4 make it nearly 5, the fifth passes it."""
    run = timeline(
        """
        0.000 > S
        0.100 < S. ack 1       | cwnd 4
        ...
        0.201 < ack 1001       | cwnd 4
        ...
        0.204 < ack 4001       | cwnd 4
        ...
        0.302 < ack 5001       | cwnd 5
        """,
        control=ControlSpec(initial_window=4, initial_ssthresh=2.0),
    )
    # 4 + 1/4 = 4.25; + 1/4.25 = 4.4853; + 1/4.4853 = 4.7082; + 1/4.7082 = 4.9206.
    row = run.windows[run.windows["snd_una"] == 4 * SEGMENT].iloc[0]
    assert row["cwnd"] / SEGMENT == pytest.approx(4.9206, abs=1e-4)


def test_third_duplicate_ack_retransmits_first_hole_and_halves_the_flight():
    """Section 3.2 steps 2 to 4: ssthresh = FlightSize / 2 = 2.5 segments, cwnd = ssthresh + 3; then one more each."""
    timeline(
        """
        0.000 > S
        0.100 < S. ack 1
        0.100 > ack 1
        0.100 > 1:1001
        0.100 > 1001:2001 x
        0.100 > 2001:3001
        0.100 > 3001:4001
        0.201 < ack 1001       | cwnd 5
        0.201 > 4001:5001
        0.201 > 5001:6001
        0.203 < ack 1001       | cwnd 5 state disorder
        0.204 < ack 1001       | cwnd 5
        0.302 < ack 1001       | cwnd 5 ssthresh 2 state recovery
        0.302 > 1001:2001
        0.303 < ack 1001       | cwnd 6
        0.303 > 6001:7001
        0.403 < ack 6001       | state open
        """,
        control=ControlSpec(recovery="newreno", initial_window=4),
    )


def test_first_and_second_duplicate_ack_retransmit_nothing():
    """Section 3.2 step 1 (without RFC 3042): one segment lost of three leaves too few duplicates; the timer acts."""
    timeline(
        """
        0.000 > S
        0.100 < S. ack 1
        0.100 > ack 1
        0.100 > 1:1001
        0.100 > 1001:2001 x
        0.100 > 2001:3001
        0.201 < ack 1001       | cwnd 4
        0.201 > 3001:3501
        0.203 < ack 1001       | cwnd 4 state disorder
        0.302 < ack 1001
        0.452 > 1001:2001      | cwnd 1 ssthresh 2 state loss    # 251 ms after the last ACK of new data
        """,
        control=ControlSpec(recovery="newreno", initial_window=3),
        bytes_=3500,
    )


@pytest.mark.parametrize("window", [4, 6, 9, 14])
def test_half_the_flight_is_never_less_than_two_segments(window):
    """Equation (4), over a family of initial windows: ssthresh = max(FlightSize / 2, 2 SMSS)."""
    lines = "\n".join(f"0.100 > {n * 1000 + 1}:{n * 1000 + 1001}{' x' if n == 0 else ''}" for n in range(window))
    run = timeline(
        f"0.000 > S\n0.100 < S. ack 1\n0.100 > ack 1\n{lines}\n...\n",
        control=ControlSpec(recovery="newreno", initial_window=window, initial_ssthresh=2.0),
    )
    loss = run.losses.iloc[0]
    assert loss["ssthresh_after"] == max(loss["cwnd_before"] // SEGMENT * SEGMENT / 2, 2 * SEGMENT)


def test_an_ack_for_every_second_segment_or_after_the_timer():
    """Section 4.2: the ACK of a single segment waits for the next one, but not longer than the timer."""
    timeline(
        """
        0.000 > S
        0.100 < S. ack 1
        0.100 > ack 1
        0.100 > 1:1001
        0.100 > 1001:2001
        0.100 > 2001:3001
        0.202 < ack 2001       | cwnd 4
        0.202 > 3001:4001
        0.202 > 4001:5001
        0.202 > 5001:6001
        0.303 < ack 3001       | cwnd 5    # the third segment's, after 100 ms
        """,
        control=ControlSpec(initial_window=3, delayed_ack_segments=2),
        receiver=ReceiverSpec(delayed_ack_timer_s=0.1),
    )


def test_a_gap_is_acknowledged_at_once_also_by_a_receiver_that_delays():
    """Section 4.2: out of order segments, and the one that fills the gap, are not delayed."""
    timeline(
        """
        0.000 > S
        0.100 < S. ack 1
        0.100 > ack 1
        0.100 > 1:1001
        0.100 > 1001:2001
        0.100 > 2001:3001 x
        0.100 > 3001:4001
        0.100 > 4001:5001
        0.100 > 5001:6001
        0.202 < ack 2001
        0.202 > 6001:7001
        0.202 > 7001:8001
        0.202 > 8001:9001
        0.204 < ack 2001       | state disorder
        0.205 < ack 2001
        0.206 < ack 2001       | state recovery
        0.206 > 2001:3001
        ...
        0.307 < ack 9001       | state open
        """,
        control=ControlSpec(recovery="newreno", initial_window=6, delayed_ack_segments=2),
    )


def test_the_receive_window_holds_the_sender_back():
    """Section 3.1: a sender must not send beyond the minimum of cwnd and rwnd."""
    run = timeline(
        """
        0.000 > S
        0.100 < S. ack 1
        0.100 > ack 1
        0.100 > 1:1001
        0.100 > 1001:2001
        0.100 > 2001:3001
        0.201 < ack 1001       | cwnd 4
        0.201 > 3001:4001
        0.201 > 4001:5001
        0.202 < ack 2001       | cwnd 5
        0.202 > 5001:6001
        0.203 < ack 3001       | cwnd 6
        0.203 > 6001:7001
        """,
        control=ControlSpec(initial_window=3),
        receiver=ReceiverSpec(rwnd=4000),
    )
    assert run.windows["flight_size"].max() == 4000


def test_a_mistake_in_a_timeline_is_found():
    """The notation itself: a wrong number fails and shows the ladder; a right one does not."""
    control = ControlSpec(initial_window=1)
    with pytest.raises(pytest.fail.Exception, match=r"wanted '0\.201 < ack 1002'") as caught:
        timeline("0.000 > S\n...\n0.201 < ack 1002", control=control)
    assert "1:1001" in str(caught.value)
    with pytest.raises(pytest.fail.Exception, match=r"cwnd is 2\.0"):
        timeline("0.000 > S\n...\n0.201 < ack 1001 | cwnd 3", control=control)
    run = timeline("0.000 > S\n...\n0.201 < ack 1001 | cwnd 2", control=control)
    assert seen_by_sender(run)[0].flags == "S"
