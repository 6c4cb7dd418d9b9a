"""A lost retransmission found by what was sent after it (RACK, RFC 8985 section 6.2)."""

import pytest

from tcptrace_lab.scenario import Connection, Control, Node, Path, Scenario
from tcptrace_lab.simulate import simulate


@pytest.mark.parametrize(("rack", "timeouts"), [(True, 0), (False, 1)])
def test_a_retransmission_lost_again_waits_for_no_timer(rack, timeouts):
    """The 30th packet and its retransmission are lost: RFC 6675 has no rule for the second loss."""
    path = Path(nodes=(Node(rate_bps=8e6, delay_s=0.05),), return_delay_s=0.05, packet_bytes=1000)
    control = Control(recovery="sack", initial_ssthresh=20.0, initial_window=10, rack=rack)
    scenario = Scenario(path=path, connections=(Connection(control=control),), duration_s=4)
    packets = simulate(scenario).packets()
    data = packets[packets["is_from_sender"] & (packets["payload_len"] > 0)]["seq"].reset_index(drop=True)
    lost = data[29]
    path_that_loses = Node(rate_bps=8e6, delay_s=0.05, drop_packets=(30,))
    once = simulate(_on(scenario, path_that_loses)).packets()
    sent = once[once["is_from_sender"] & (once["payload_len"] > 0)]["seq"].reset_index(drop=True)
    again = int(sent[sent == lost].index[1]) + 1
    run = simulate(_on(scenario, Node(rate_bps=8e6, delay_s=0.05, drop_packets=(30, again))))
    assert run.totals[0]["timeouts"] == timeouts
    copies = (run.packets()["seq"] == lost) & run.packets()["is_from_sender"]
    assert copies.sum() == 3


def _on(scenario: Scenario, node: Node) -> Scenario:
    path = Path(nodes=(node,), return_delay_s=0.05, packet_bytes=1000)
    return Scenario(path=path, connections=scenario.connections, duration_s=scenario.duration_s)
