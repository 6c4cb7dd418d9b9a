"""A run described: path, control, receiver, application, taps. The vocabulary of models and simulator.

The schema is the core's (core/src/scenario): defaults, ranges, the profiles that read a key and what it means
(`tcptrace-lab simulate --schema`). Here stand the names and types that Python code uses, which a test holds against it,
and what a model asks of a path. Reading TOML is tcptrace_lab/scenario_file.py.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from tcptrace_lab import _core, controls

INFINITE = math.inf

SCHEMA: dict[str, Any] = json.loads(_core.scenario_schema())


def _key(part: str, key: str) -> dict[str, Any]:
    table = SCHEMA if part == "Scenario" else SCHEMA["$defs"][part]
    found: dict[str, Any] = table["properties"][key]
    return found


def _default(part: str, key: str) -> Any:
    """A key's default; what JSON has no number for stands in words beside."""
    row = _key(part, key)
    if "x-default" in row:
        return float(row["x-default"])
    value = row["default"]
    if isinstance(value, list):
        return tuple(value)
    return float(value) if row["type"] == "number" else value


SLOW_STARTS = tuple(controls.SLOW_STARTS)
WINDOWS = tuple(controls.WINDOWS)
# The named senders: a row is what differs from Control's defaults.
CONTROLS = controls.CONTROLS
RECOVERIES = tuple(_key("ControlSpec", "recovery")["enum"])
PROFILES = tuple(_key("Scenario", "profile")["enum"])
# Every time is less: 64 bits of nanoseconds hold it.
LONGEST_S: float = _key("Scenario", "duration_s")["exclusiveMaximum"]


class Part:
    """A table of a scenario; ScenarioError names the key that the schema refuses."""

    def __post_init__(self) -> None:
        _core.check_scenario(type(self).__name__, plain(self))


@dataclass(frozen=True, kw_only=True)
class NodeSpec(Part):
    """One node: a policer, if any, a queue, then a link.

    `buffer` is the number of waiting places (packets, or bytes with `buffer_unit`), the one in service not counted
    unless `counts_in_service` (ns-2's `queue-limit q` is `buffer=q, counts_in_service=True`, or `buffer=q-1` without).
    """

    rate_bps: float
    buffer: float = _default("NodeSpec", "buffer")
    buffer_unit: str = _default("NodeSpec", "buffer_unit")
    counts_in_service: bool = _default("NodeSpec", "counts_in_service")
    delay_s: float = _default("NodeSpec", "delay_s")
    loss: float = _default("NodeSpec", "loss")
    drop_packets: tuple[int, ...] = _default("NodeSpec", "drop_packets")
    queue: str = _default("NodeSpec", "queue")
    target_s: float = _default("NodeSpec", "target_s")
    interval_s: float = _default("NodeSpec", "interval_s")
    policer_bps: float = _default("NodeSpec", "policer_bps")
    policer_burst: int = _default("NodeSpec", "policer_burst")


@dataclass(frozen=True, kw_only=True)
class PathSpec(Part):
    """A chain of nodes and the way back.

    The access link (`access_rate_bps`) stands before the first node and never drops; an infinite one is absent.
    The way back is a pure delay, `return_delay_s`, after the nodes of `reverse` (in the order in which an ACK meets
    them; empty in most scenarios).
    """

    nodes: tuple[NodeSpec, ...]
    return_delay_s: float = _default("PathSpec", "return_delay_s")
    packet_bytes: int = _default("PathSpec", "packet_bytes")
    ack_bytes: int = _default("PathSpec", "ack_bytes")
    access_rate_bps: float = _default("PathSpec", "access_rate_bps")
    access_delay_s: float = _default("PathSpec", "access_delay_s")
    reverse: tuple[NodeSpec, ...] = _default("PathSpec", "reverse")
    ack_loss: float = _default("PathSpec", "ack_loss")

    @property
    def bottleneck(self) -> NodeSpec:
        """The slowest node; the first of several equal ones."""
        return min(self.nodes, key=lambda node: node.rate_bps)

    @property
    def mu_pps(self) -> float:
        """The bottleneck's rate in packets a second (the papers' mu)."""
        return self.bottleneck.rate_bps / (8 * self.packet_bytes)

    @property
    def propagation_rtt_s(self) -> float:
        """Propagation there and back, no transmission times (the papers' tau or T)."""
        there = self.access_delay_s + sum(node.delay_s for node in self.nodes)
        return there + sum(node.delay_s for node in self.reverse) + self.return_delay_s

    @property
    def base_rtt_s(self) -> float:
        """An unloaded path's round trip for one full packet: propagation and every transmission time, its ACK's too."""
        there = 8 * self.packet_bytes * (1 / self.access_rate_bps + sum(1 / node.rate_bps for node in self.nodes))
        return self.propagation_rtt_s + there + 8 * self.ack_bytes * sum(1 / node.rate_bps for node in self.reverse)

    def waiting_places(self, node: NodeSpec) -> float:
        """A node's buffer in full packets waiting, the one in service not counted (the papers' B)."""
        places = node.buffer if node.buffer_unit == "packets" else node.buffer // self.packet_bytes
        return places - 1 if node.counts_in_service else places


@dataclass(frozen=True, kw_only=True)
class RtoSpec(Part):
    """The retransmission timer (RFC 6298).

    The ns-2 profile takes `granularity_s` as its `tcpTick_` and `tick_phase` (a share of a tick) as its clock's phase.
    """

    min_s: float = _default("RtoSpec", "min_s")
    max_s: float = _default("RtoSpec", "max_s")
    initial_s: float = _default("RtoSpec", "initial_s")
    granularity_s: float = _default("RtoSpec", "granularity_s")
    backoff: bool = _default("RtoSpec", "backoff")
    tick_phase: float = _default("RtoSpec", "tick_phase")


@dataclass(frozen=True, kw_only=True)
class ControlSpec(Part):
    """A sender as a row of three parts, and the parameters the papers vary.

    `slow_start` and `window` are names of the table of controls (core/src/congestion/table.rs), where their sources and
    parameters stand. Those that models ask for are fields; the others stand in `parameters`, pairs of name and value
    (in a file they are keys like all others).
    """

    slow_start: str = _default("ControlSpec", "slow_start")
    window: str = _default("ControlSpec", "window")
    recovery: str = _default("ControlSpec", "recovery")
    initial_window: int = _default("ControlSpec", "initial_window")
    delayed_ack_segments: int = _default("ControlSpec", "delayed_ack_segments")
    gamma: float = _default("ControlSpec", "gamma")
    initial_ssthresh: float = _default("ControlSpec", "initial_ssthresh")
    max_window: int = _default("ControlSpec", "max_window")
    max_ssthresh: float = _default("ControlSpec", "max_ssthresh")
    limited_transmit: bool = _default("ControlSpec", "limited_transmit")
    timestamps: bool = _default("ControlSpec", "timestamps")
    slow_start_after_idle: bool = _default("ControlSpec", "slow_start_after_idle")
    byte_counting: bool = _default("ControlSpec", "byte_counting")
    prr: bool = _default("ControlSpec", "prr")
    rack: bool = _default("ControlSpec", "rack")
    impatient: bool = _default("ControlSpec", "impatient")
    stack: str = _default("ControlSpec", "stack")
    zero_step: bool = _default("ControlSpec", "zero_step")
    syn: bool = _default("ControlSpec", "syn")
    parameters: tuple[tuple[str, float], ...] = ()
    rto: RtoSpec = field(default_factory=RtoSpec)

    @property
    def is_linux(self) -> bool:
        """Whether the sender keeps Linux's rules."""
        return self.stack == "linux" or (self.stack == "auto" and controls.WINDOWS[self.window].is_linux_module)

    @property
    def has_sack(self) -> bool:
        """Whether the recovery needs a receiver that sends SACK blocks."""
        return self.recovery in ("sack", "fack")


@dataclass(frozen=True, kw_only=True)
class ReceiverSpec(Part):
    """Who answers: the delayed-ACK timer, the window it offers (bytes) and how fast its application reads."""

    delayed_ack_timer_s: float = _default("ReceiverSpec", "delayed_ack_timer_s")
    stack: str = _default("ReceiverSpec", "stack")
    initial_rwnd: int = _default("ReceiverSpec", "initial_rwnd")
    quickack_segments: int = _default("ReceiverSpec", "quickack_segments")
    sack: bool = _default("ReceiverSpec", "sack")
    dsack: bool = _default("ReceiverSpec", "dsack")
    rwnd: int = _default("ReceiverSpec", "rwnd")
    reader_bps: float = _default("ReceiverSpec", "reader_bps")


@dataclass(frozen=True, kw_only=True)
class ApplicationSpec(Part):
    """What the sender is given to send.

    kind: bulk (always more), bytes (`bytes` once), on_off (`bytes`, then `off_s` of silence, `repeats` times, 0 meaning
    for ever), schedule (`writes`: pairs of seconds after the connection's start and bytes), turns (profile rfc;
    `turns`: pairs of seconds after everything before was acknowledged and bytes, as answers to requests come).
    """

    kind: str = _default("ApplicationSpec", "kind")
    bytes: int = _default("ApplicationSpec", "bytes")
    off_s: float = _default("ApplicationSpec", "off_s")
    repeats: int = _default("ApplicationSpec", "repeats")
    writes: tuple[tuple[float, int], ...] = _default("ApplicationSpec", "writes")
    turns: tuple[tuple[float, int], ...] = _default("ApplicationSpec", "turns")


@dataclass(frozen=True, kw_only=True)
class ConnectionSpec(Part):
    """One sender and its receiver."""

    control: ControlSpec = field(default_factory=ControlSpec)
    receiver: ReceiverSpec = field(default_factory=ReceiverSpec)
    application: ApplicationSpec = field(default_factory=ApplicationSpec)
    start_s: float = _default("ConnectionSpec", "start_s")
    extra_delay_s: float = _default("ConnectionSpec", "extra_delay_s")
    jitter_s: float = _default("ConnectionSpec", "jitter_s")
    pauses: tuple[tuple[float, float], ...] = _default("ConnectionSpec", "pauses")
    reverse: bool = _default("ConnectionSpec", "reverse")

    @property
    def has_sack(self) -> bool:
        """Whether the receiver sends SACK blocks: the sender's recovery asks for them, and it agrees."""
        return self.receiver.sack and self.control.has_sack

    @property
    def has_linux_receiver(self) -> bool:
        """Whether the receiver keeps Linux's rules."""
        return self.receiver.stack == "linux" or (self.receiver.stack == "auto" and self.control.is_linux)


@dataclass(frozen=True, kw_only=True)
class Scenario(Part):
    """One run: who sends over which path for how long, and where it is tapped.

    Profile `ns2` counts packets as ns-2.35 does (no SYN, fixed packet size); `rfc` is a modern byte-counting stack.
    A tap is "sender", "receiver", "nodeN.in" or "nodeN.out" with N the place in `path.nodes`.
    """

    path: PathSpec
    connections: tuple[ConnectionSpec, ...]
    duration_s: float
    profile: str = _default("Scenario", "profile")
    seed: int = _default("Scenario", "seed")
    taps: tuple[str, ...] = _default("Scenario", "taps")
    ipv6: bool = _default("Scenario", "ipv6")
    title: str = _default("Scenario", "title")

    @property
    def control(self) -> ControlSpec:
        """The first connection's sender: what a model of one connection predicts for."""
        return self.connections[0].control


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # The names of 0.2, for notebooks that were written with them.
        if name in ("Application", "Connection", "Control", "Node", "Path", "Receiver", "Rto"):
            return globals()[f"{name}Spec"]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def plain(value: object) -> Any:
    """A scenario, or a part of one, as the table that a file would hold: what differs from the defaults."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if not is_dataclass(value) or isinstance(value, type):
        return value
    table = {}
    for row in fields(value):
        item = getattr(value, row.name)
        if row.default is MISSING or item != row.default:
            table[row.name] = plain(item)
    if isinstance(value, ControlSpec):
        table.pop("parameters", None)
        table |= {name: _flag_or_number(name, number) for name, number in value.parameters}
    return table


def _flag_or_number(name: str, value: float) -> float:
    row = controls.PARAMETERS.get(name)
    return bool(value) if row is not None and isinstance(row.default, bool) else value
