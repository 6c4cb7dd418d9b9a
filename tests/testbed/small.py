"""A short recording's scenario, and its sender changed."""

import dataclasses

from tcptrace_lab.scenario import (
    ConnectionSpec,
    ControlSpec,
    NodeSpec,
    PathSpec,
    Scenario,
)

# Reno with SACK over 20 Mbit/s (0.6 ms a packet), 30 ms there and back, 20 places: BDP 51, so W_max = 51 + 20 + 1.
SMALL = Scenario(
    path=PathSpec(nodes=(NodeSpec(rate_bps=20e6, buffer=20, delay_s=0.015),), return_delay_s=0.015),
    connections=(
        ConnectionSpec(
            control=ControlSpec(recovery="sack", initial_window=10, delayed_ack_segments=2, timestamps=True)
        ),
    ),
    duration_s=1.5,
)


def with_control(**changes: object) -> Scenario:
    """SMALL with another sender."""
    control = dataclasses.replace(SMALL.control, **changes)
    return dataclasses.replace(SMALL, connections=(dataclasses.replace(SMALL.connections[0], control=control),))
