"""Losses found by time, and probes of a flight's end (RACK-TLP, RFC 8985).

Rules that need reordering have their tests in core/src/recovery/rack.rs: a path here keeps the order.
"""

import pytest

from tcptrace_lab.scenario import ApplicationSpec, ConnectionSpec, ControlSpec, NodeSpec, PathSpec, RtoSpec, Scenario
from tcptrace_lab.simulate import simulate
from tests.timeline import timeline

# A timer of a second (RFC 6298 (2.4)), far behind a probe.
TIMER = RtoSpec(min_s=1.0)
RACK = ControlSpec(recovery="sack", initial_window=10, rack=True, rto=TIMER)
# Ten segments at once, and then nothing for a while: the end of a flight that no later data follow.
ONCE = ApplicationSpec(kind="on_off", bytes=10_000, off_s=1.2)

FLIGHT = """
    ...
    0.100 > 1:1001
    0.100 > 1001:2001
    0.100 > 2001:3001
    0.100 > 3001:4001
    0.100 > 4001:5001
    0.100 > 5001:6001
    0.100 > 6001:7001 {7}
    0.100 > 7001:8001 {8}
    0.100 > 8001:9001 {9}
    0.100 > 9001:10001 {10}
"""


def flight(*lost: int) -> str:
    return FLIGHT.format(*("x" if number in lost else "" for number in range(11)))


@pytest.mark.parametrize(("rack", "timeouts"), [(True, 0), (False, 1)])
def test_a_retransmission_lost_again_waits_for_no_timer(rack, timeouts):
    """Section 6.2: the 30th packet and its retransmission are lost: RFC 6675 has no rule for the second loss."""
    path = PathSpec(nodes=(NodeSpec(rate_bps=8e6, delay_s=0.05),), return_delay_s=0.05, packet_bytes=1000)
    control = ControlSpec(recovery="sack", initial_ssthresh=20.0, initial_window=10, rack=rack)
    scenario = Scenario(path=path, connections=(ConnectionSpec(control=control),), duration_s=4)
    packets = simulate(scenario).packets()
    data = packets[packets["is_from_sender"] & (packets["payload_len"] > 0)]["seq"].reset_index(drop=True)
    lost = data[29]
    path_that_loses = NodeSpec(rate_bps=8e6, delay_s=0.05, drop_packets=(30,))
    once = simulate(_on(scenario, path_that_loses)).packets()
    sent = once[once["is_from_sender"] & (once["payload_len"] > 0)]["seq"].reset_index(drop=True)
    again = int(sent[sent == lost].index[1]) + 1
    run = simulate(_on(scenario, NodeSpec(rate_bps=8e6, delay_s=0.05, drop_packets=(30, again))))
    assert run.totals[0]["timeouts"] == timeouts
    copies = (run.packets()["seq"] == lost) & run.packets()["is_from_sender"]
    assert copies.sum() == 3


def test_three_sacked_segments_make_all_that_was_sent_before_lost_at_once():
    """Section 6.2 step 4: without reordering ever seen there is no window then. Two holes, found by one ACK."""
    timeline(
        """
        ...
        0.100 > 1:1001 x
        0.100 > 1001:2001
        0.100 > 2001:3001 x
        0.100 > 3001:4001
        ...
        0.203 < ack 1 sack 1001:2001
        0.205 < ack 1 sack 3001:4001,1001:2001
        0.206 < ack 1 sack 3001:5001,1001:2001
        0.206 > 1:1001                          | state recovery
        ...
        0.208 > 2001:3001
        ...
        """,
        control=RACK,
        application=ONCE,
    )


def test_one_sacked_segment_is_waited_for_a_quarter_of_the_smallest_round_trip():
    """Section 6.2 step 4 and 5: sent at 100, overtaken by a segment that took 110 ms; 110 + 100/4 after it was sent."""
    run = timeline(
        flight(9)
        + """
        ...
        0.208 < ack 8001
        0.210 < ack 8001 sack 9001:10001        | state disorder
        0.235 > 8001:9001                       | state recovery
        0.336 < ack 10001
        ...
        """,
        control=RACK,
        application=ONCE,
    )
    assert run.totals[0]["timeouts"] == 0


def test_a_lone_last_segment_is_probed_after_two_round_trips_and_the_longest_delay_of_an_ack():
    """Sections 7.2 and 7.3: the last ACK comes at 209, twice SRTT is 208 ms, and 200 ms for a delayed ACK."""
    run = timeline(
        flight(10)
        + """
        ...
        0.209 < ack 9001
        0.617 > 9001:10001                      | state open
        0.718 < ack 10001
        ...
        1.200 > 10001:11001
        """,
        control=RACK,
        application=ONCE,
    )
    assert run.totals[0]["timeouts"] == 0


def test_without_rack_the_timer_finds_it():
    run = timeline(
        flight(10)
        + """
        ...
        0.209 < ack 9001
        1.209 > 9001:10001                      | state loss
        """,
        control=ControlSpec(recovery="sack", initial_window=10, rto=TIMER),
        application=ApplicationSpec(kind="on_off", bytes=10_000, off_s=9.0),
        seconds=2.0,
    )
    assert run.totals[0]["timeouts"] == 1


def test_a_loss_that_the_probe_repaired_reduces_the_window_with_the_next_ack():
    """Section 7.4.1 case 2: the ACK beyond the probe comes without a DSACK."""
    run = timeline(
        flight(10)
        + """
        ...
        1.200 > 10001:11001
        ...
        1.301 < ack 11001                       | cwnd 4 ssthresh 4
        """,
        control=RACK,
        application=ONCE,
    )
    assert list(run.losses["detected_by"]) == ["tlp"]


def test_a_probe_for_nothing_reduces_nothing():
    """Section 7.4.1 case 1: only the ACK was lost, and a DSACK tells of both copies."""
    path = PathSpec(nodes=(NodeSpec(rate_bps=8e6, delay_s=0.05),), return_delay_s=0.05, packet_bytes=1000, ack_loss=0.3)
    scenario = Scenario(
        path=path,
        connections=(ConnectionSpec(control=RACK, application=ApplicationSpec(kind="on_off", bytes=1000, off_s=1.0)),),
        duration_s=60,
        seed=3,
    )
    run = simulate(scenario)
    assert run.totals[0]["retransmissions"] > 5
    assert len(run.drops[run.drops["reason"] != "ackloss"]) == 0


def test_the_probe_s_sack_tells_of_the_losses_before_it():
    """Section 7.1: three segments at the end of a flight, found without a timeout, two SRTT after the last ACK."""
    run = timeline(
        flight(8, 9, 10)
        + """
        ...
        0.207 < ack 7001
        0.413 > 9001:10001
        0.514 < ack 7001 sack 9001:10001
        0.514 > 7001:8001                       | state recovery
        ...
        """,
        control=RACK,
        application=ONCE,
    )
    assert run.totals[0]["timeouts"] == 0


def test_new_data_are_the_probe_where_there_are_any():
    """Section 7.3: beyond cwnd, one segment. Two segments are all the window lets out, and both are lost."""
    run = timeline(
        """
        ...
        0.100 > 1:1001 x
        0.100 > 1001:2001 x
        0.300 > 2001:3001
        0.401 < ack 1 sack 2001:3001
        0.401 > 1:1001                          | state recovery
        ...
        """,
        control=ControlSpec(recovery="sack", initial_window=2, rack=True),
    )
    assert run.totals[0]["timeouts"] == 0


def test_a_probe_that_is_lost_too_leaves_it_to_the_timer():
    """Section 7.3: one probe at a time; RFC 6298's timer runs a whole timeout from it."""
    run = timeline(
        flight(10)
        + """
        ...
        0.617 > 9001:10001 x
        1.617 > 9001:10001                      | state loss
        1.718 < ack 10001
        """,
        control=RACK,
        application=ApplicationSpec(kind="on_off", bytes=10_000, off_s=9.0),
        seconds=5.0,
    )
    assert run.totals[0]["timeouts"] == 1


def _on(scenario: Scenario, node: NodeSpec) -> Scenario:
    path = PathSpec(nodes=(node,), return_delay_s=0.05, packet_bytes=1000)
    return Scenario(path=path, connections=scenario.connections, duration_s=scenario.duration_s)
