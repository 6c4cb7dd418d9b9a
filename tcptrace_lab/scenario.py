"""A run described: path, control, receiver, application, taps. The vocabulary of models and simulator.

Only the standard library is imported here: models depend on this file and on nothing else of ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tcptrace_lab.errors import ScenarioError

INFINITE = math.inf


@dataclass(frozen=True, kw_only=True)
class Node:
    """One drop-tail node: a queue, then a link.

    `buffer` is the number of waiting places (packets, or bytes with `buffer_unit`), the one in service not counted
    unless `counts_in_service` (ns-2's `queue-limit q` is `buffer=q, counts_in_service=True`, or `buffer=q-1` without).
    `rate_bps` may be infinite (no serialisation); `delay_s` is the propagation delay of the link behind the queue.
    """

    rate_bps: float
    buffer: float = INFINITE
    buffer_unit: str = "packets"
    counts_in_service: bool = False
    delay_s: float = 0.0

    def __post_init__(self) -> None:
        _require("rate_bps", self.rate_bps, self.rate_bps > 0, "> 0")
        _require("buffer", self.buffer, self.buffer > 0, "> 0")
        _require("delay_s", self.delay_s, 0 <= self.delay_s < math.inf, ">= 0")
        _require("buffer_unit", self.buffer_unit, self.buffer_unit in ("packets", "bytes"), "packets or bytes")


@dataclass(frozen=True, kw_only=True)
class Path:
    """A chain of nodes and a return path that is a pure delay.

    `packet_bytes` is what one full data packet occupies on the wire (the papers' packet size), `ack_bytes` an ACK.
    """

    nodes: tuple[Node, ...]
    return_delay_s: float = 0.0
    packet_bytes: int = 1500
    ack_bytes: int = 40

    def __post_init__(self) -> None:
        _require("nodes", self.nodes, len(self.nodes) > 0, "one node or more")
        _require("return_delay_s", self.return_delay_s, 0 <= self.return_delay_s < math.inf, ">= 0")
        _require("packet_bytes", self.packet_bytes, self.packet_bytes > 0, "> 0")

    @property
    def bottleneck(self) -> Node:
        """The slowest node; the first of several equal ones."""
        return min(self.nodes, key=lambda node: node.rate_bps)

    @property
    def mu_pps(self) -> float:
        """The bottleneck's rate in packets a second (the papers' mu)."""
        return self.bottleneck.rate_bps / (8 * self.packet_bytes)

    @property
    def propagation_rtt_s(self) -> float:
        """Propagation there and back, no transmission times (the papers' tau or T)."""
        return sum(node.delay_s for node in self.nodes) + self.return_delay_s

    @property
    def base_rtt_s(self) -> float:
        """An unloaded path's round trip for one full packet: propagation and every node's transmission time."""
        return self.propagation_rtt_s + sum(8 * self.packet_bytes / node.rate_bps for node in self.nodes)

    def waiting_places(self, node: Node) -> float:
        """A node's buffer in full packets waiting, the one in service not counted (the papers' B)."""
        places = node.buffer if node.buffer_unit == "packets" else node.buffer // self.packet_bytes
        return places - 1 if node.counts_in_service else places


@dataclass(frozen=True, kw_only=True)
class Control:
    """A sender as a row of three parts, and the parameters the papers vary.

    slow_start: standard, limited, hystart, m-start. window: reno, cubic, compound (Linux integers), compound-draft
    (real arithmetic). recovery: tahoe, reno, newreno, sack, fack.
    """

    slow_start: str = "standard"
    window: str = "reno"
    recovery: str = "newreno"
    initial_window: int = 1
    delayed_ack_segments: int = 1
    gamma: float = 30.0

    def __post_init__(self) -> None:
        _require("initial_window", self.initial_window, self.initial_window >= 1, ">= 1")
        _require("delayed_ack_segments", self.delayed_ack_segments, self.delayed_ack_segments in (1, 2), "1 or 2")


def _require(key: str, value: object, holds: bool, wanted: str) -> None:
    if not holds:
        raise ScenarioError(f"{key} = {value!r}: must be {wanted}")
