"""Slow starts of a cycle over two nodes counted packet by packet (Barakat & Altman 2000).

The two-node model of `several_nodes` with the recurrence of `small_buffers_packets`: a burst queues in the node before
the bottleneck, loses packets there, and goes on at that node's rate. Unlike the paper's analysis it knows a third slow
start and what whole packets decide.

Differs: not in the paper. ns-2 has the same number of slow starts at every point of Figures 4 and 7 (B = 50).
Units: packets, packets/s, seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from tcptrace_lab.models import conditions, several_nodes
from tcptrace_lab.models.prediction import (
    Applicability,
    Parameter,
    Prediction,
    Quantity,
    checked,
)
from tcptrace_lab.models.several_nodes import UPSTREAM_BUFFER, UPSTREAM_RATE
from tcptrace_lab.models.small_buffers import MU
from tcptrace_lab.models.small_buffers_packets import (
    BUFFER,
    FEED_RATE,
    ROUND_TRIP,
    cycle_quantities,
    is_third_of_pipe,
    predict_cycle,
)

from tcptrace_lab.scenario import ControlSpec, PathSpec


@dataclass(frozen=True)
class SeveralNodesPackets:
    """The two-node model, packets counted."""

    name: str = "several_nodes_packets"
    paper: str = "Barakat & Altman 2000, Analysis of TCP with several bottleneck nodes, counted packet by packet"
    parameters: tuple[Parameter, ...] = (BUFFER, MU, ROUND_TRIP, UPSTREAM_RATE, UPSTREAM_BUFFER, FEED_RATE)

    def applies_to(self, path: PathSpec, control: ControlSpec) -> Applicability:
        """The paper's model, with queues so short that mini-cycles do not overlap."""
        answer = several_nodes.SeveralNodes().applies_to(path, control)
        return Applicability(
            (
                *answer.reasons,
                conditions.no_limited_transmit(control),
                is_third_of_pipe(path),
            )
        )

    def inputs(self, path: PathSpec, control: ControlSpec) -> dict[str, float]:
        """B, mu, T, the node equivalent to those that are slower than 2 mu, and the slowest rate of the others."""
        fast = [node.rate_bps for node in conditions.upstream(path) if node.rate_bps >= 2 * path.bottleneck.rate_bps]
        return {
            **several_nodes.SeveralNodes().inputs(path, control),
            # Nothing else before the bottleneck: a burst arrives all at once.
            "feed_rate": min(min(fast, default=math.inf) / (8 * path.packet_bytes), 1e12),
        }

    def evaluate(self, **parameters: ArrayLike) -> dict[str, Quantity]:
        """Slow starts, thresholds and throughput of a cycle."""
        b, mu, round_trip, rate, before, feed = np.broadcast_arrays(*checked(self, parameters))
        return cycle_quantities(b, mu, round_trip, feed, (rate, before))

    def predict(self, path: PathSpec, control: ControlSpec) -> Prediction:
        """Single, double or triple."""
        return predict_cycle(self, path, control)
