"""A run described: path, control, receiver, application, taps. The vocabulary of models and simulator.

Models depend on this file and on nothing else of ours; which controls there are is the core's to say (controls.py).
Reading it from TOML is tcptrace_lab/scenario_file.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, is_dataclass

from tcptrace_lab import controls
from tcptrace_lab.errors import ScenarioError

INFINITE = math.inf

SLOW_STARTS = tuple(controls.SLOW_STARTS)
WINDOWS = tuple(controls.WINDOWS)
# The named senders: a row is what differs from Control's defaults.
CONTROLS = controls.CONTROLS
RECOVERIES = ("tahoe", "reno", "newreno", "sack", "fack")
PROFILES = ("ns2", "rfc")
QUEUES = ("drop_tail", "codel")
APPLICATIONS = ("bulk", "bytes", "on_off", "schedule", "turns")

# A key that only one profile reads.
NS2_ONLY = {"profile": "ns2"}
RFC_ONLY = {"profile": "rfc"}

# What the engine counts in: seconds as 64-bit nanoseconds, packets and segments in 30 bits, everything else in 53.
LONGEST_S = 1e9
MOST_PACKETS = 1 << 30
MOST = 1 << 53


@dataclass(frozen=True, kw_only=True)
class Node:
    """One node: a queue, then a link.

    `buffer` is the number of waiting places (packets, or bytes with `buffer_unit`), the one in service not counted
    unless `counts_in_service` (ns-2's `queue-limit q` is `buffer=q, counts_in_service=True`, or `buffer=q-1` without).
    `rate_bps` may be infinite (no serialisation); `delay_s` is the propagation delay of the link behind the queue.
    `loss` is the probability that a data packet is lost after service (seeded by the scenario); `drop_packets` are
    data packets lost after service by number, the first served being 1.

    `queue` says who of those that wait is lost: nobody (drop_tail), or by RFC 8289 (codel, without ECN) packets whose
    turn comes while every wait of `interval_s` was longer than `target_s`.
    """

    rate_bps: float
    buffer: float = INFINITE
    buffer_unit: str = "packets"
    counts_in_service: bool = False
    delay_s: float = 0.0
    loss: float = 0.0
    drop_packets: tuple[int, ...] = ()
    queue: str = "drop_tail"
    target_s: float = 0.005
    interval_s: float = 0.1

    def __post_init__(self) -> None:
        _require("rate_bps", self.rate_bps, self.rate_bps > 0, "> 0")
        _require("buffer", self.buffer, 0 < self.buffer <= MOST or self.buffer == INFINITE, "> 0 and <= 2^53 (or inf)")
        _require("buffer", self.buffer, self.buffer == INFINITE or self.buffer == int(self.buffer), "a whole number")
        _require("delay_s", self.delay_s, 0 <= self.delay_s < LONGEST_S, ">= 0 and < 1e9")
        _one_of("buffer_unit", self.buffer_unit, ("packets", "bytes"))
        _one_of("queue", self.queue, QUEUES)
        for key in ("target_s", "interval_s"):
            _require(key, getattr(self, key), 1e-9 <= getattr(self, key) < LONGEST_S, ">= 1e-9 and < 1e9")
        _require("loss", self.loss, 0 <= self.loss < 1, ">= 0 and < 1")
        for number in self.drop_packets:
            _require("drop_packets", number, 1 <= number <= MOST, ">= 1 (the first data packet is 1) and <= 2^53")


@dataclass(frozen=True, kw_only=True)
class Path:
    """A chain of nodes and the way back.

    `packet_bytes` is what one full data packet occupies on the wire (the papers' packet size), `ack_bytes` an ACK.
    The access link (`access_rate_bps`) stands before the first node and never drops; an infinite one is absent.
    The way back is a pure delay, `return_delay_s`, after the nodes of `reverse` (in the order in which an ACK meets
    them; empty in most scenarios). `ack_loss` is the probability that an ACK is lost on it.
    """

    nodes: tuple[Node, ...]
    return_delay_s: float = 0.0
    packet_bytes: int = 1500
    ack_bytes: int = 40
    access_rate_bps: float = INFINITE
    access_delay_s: float = 0.0
    reverse: tuple[Node, ...] = ()
    ack_loss: float = 0.0

    def __post_init__(self) -> None:
        _require("nodes", self.nodes, len(self.nodes) > 0, "one node or more")
        _require("return_delay_s", self.return_delay_s, 0 <= self.return_delay_s < LONGEST_S, ">= 0 and < 1e9")
        _require("packet_bytes", self.packet_bytes, 0 < self.packet_bytes <= 65535, "> 0 and <= 65535")
        _require("ack_bytes", self.ack_bytes, 0 < self.ack_bytes <= 65535, "> 0 and <= 65535")
        _require("access_rate_bps", self.access_rate_bps, self.access_rate_bps > 0, "> 0")
        _require("access_delay_s", self.access_delay_s, 0 <= self.access_delay_s < LONGEST_S, ">= 0 and < 1e9")
        _require("ack_loss", self.ack_loss, 0 <= self.ack_loss < 1, ">= 0 and < 1")

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
        there = self.access_delay_s + sum(node.delay_s for node in self.nodes)
        return there + sum(node.delay_s for node in self.reverse) + self.return_delay_s

    @property
    def base_rtt_s(self) -> float:
        """An unloaded path's round trip for one full packet: propagation and every transmission time, its ACK's too."""
        there = 8 * self.packet_bytes * (1 / self.access_rate_bps + sum(1 / node.rate_bps for node in self.nodes))
        return self.propagation_rtt_s + there + 8 * self.ack_bytes * sum(1 / node.rate_bps for node in self.reverse)

    def waiting_places(self, node: Node) -> float:
        """A node's buffer in full packets waiting, the one in service not counted (the papers' B)."""
        places = node.buffer if node.buffer_unit == "packets" else node.buffer // self.packet_bytes
        return places - 1 if node.counts_in_service else places


@dataclass(frozen=True, kw_only=True)
class Rto:
    """The retransmission timer (RFC 6298); `backoff` doubles it on every timeout.

    The ns-2 profile takes `granularity_s` as its `tcpTick_` and `tick_phase` (a share of a tick) as its clock's phase.
    """

    min_s: float = 0.2
    max_s: float = 60.0
    initial_s: float = 1.0
    granularity_s: float = 0.001
    backoff: bool = True
    tick_phase: float = field(default=0.5558, metadata=NS2_ONLY)

    def __post_init__(self) -> None:
        for key in ("min_s", "max_s", "initial_s", "granularity_s"):
            _require(key, getattr(self, key), 0 < getattr(self, key) < LONGEST_S, "> 0 and < 1e9")
        _require("max_s", self.max_s, self.max_s >= self.min_s, f">= min_s ({self.min_s:g})")
        _require("tick_phase", self.tick_phase, 0 <= self.tick_phase < 1, ">= 0 and < 1")


@dataclass(frozen=True, kw_only=True)
class Control:
    """A sender as a row of three parts, and the parameters the papers vary.

    `slow_start` and `window` are names of the table of controls (core/src/congestion/table.rs), where their sources and
    parameters stand; recovery: tahoe, reno, newreno, sack, fack.

    Windows are in segments. `gamma` is Compound's (packets queued before it gives way); `zero_step` gives M-Start a
    step cycle of 11 ACKs instead of equation 3's 10; `max_ssthresh` is limited slow start's; `byte_counting` counts
    acknowledged segments in congestion avoidance, not ACKs (RFC 3465); `parameters` are the table's other ones, as
    pairs of name and value (in a file they are keys like all others); `prr` is proportional rate reduction with SACK
    (RFC 9937), `rack` finds lost retransmissions (RFC 8985), `impatient` is RFC 6582's timer; `syn` sends ns-2's
    packet 0 of 40 bytes first.
    """

    slow_start: str = "standard"
    window: str = "reno"
    recovery: str = "newreno"
    initial_window: int = 1
    delayed_ack_segments: int = 1
    gamma: float = 30.0
    initial_ssthresh: float = INFINITE
    max_window: int = 100_000
    max_ssthresh: float = 100.0
    limited_transmit: bool = False
    timestamps: bool = False
    slow_start_after_idle: bool = field(default=True, metadata=RFC_ONLY)
    byte_counting: bool = False
    prr: bool = field(default=True, metadata=RFC_ONLY)
    rack: bool = field(default=False, metadata=RFC_ONLY)
    impatient: bool = field(default=False, metadata=RFC_ONLY)
    zero_step: bool = False
    syn: bool = field(default=False, metadata=NS2_ONLY)
    parameters: tuple[tuple[str, float], ...] = ()
    rto: Rto = field(default_factory=Rto)

    def __post_init__(self) -> None:
        _one_of("slow_start", self.slow_start, SLOW_STARTS)
        _one_of("window", self.window, WINDOWS)
        _one_of("recovery", self.recovery, RECOVERIES)
        _require("initial_window", self.initial_window, 1 <= self.initial_window <= MOST_PACKETS, ">= 1 and <= 2^30")
        _require("delayed_ack_segments", self.delayed_ack_segments, self.delayed_ack_segments in (1, 2), "1 or 2")
        _require("initial_ssthresh", self.initial_ssthresh, self.initial_ssthresh >= 2, ">= 2 segments")
        holds = 1 <= self.max_window <= MOST_PACKETS or self.max_window == INFINITE
        _require("max_window", self.max_window, holds, ">= 1 and <= 2^30 segments (or inf)")
        known = controls.parameters_of(self.slow_start, self.window)
        for name, value in self.set_parameters.items():
            wanted = f"absent: slow start {self.slow_start} over {self.window} knows {', '.join(known) or 'none'}"
            _require(name, value, name in known, wanted)
            _require(name, value, known[name].holds(value), known[name].wanted)

    @property
    def set_parameters(self) -> dict[str, float]:
        """The parameters of slow start and window that are not left at their defaults."""
        own = {name: getattr(self, name) for name in _OWN_PARAMETERS}
        changed = {name: value for name, value in own.items() if value != controls.PARAMETERS[name].default}
        return {**changed, **dict(self.parameters)}

    def all_parameters(self, profile: str) -> dict[str, float]:
        """What slow start and window are told in a profile, defaults included."""
        known = controls.parameters_of(self.slow_start, self.window)
        defaults = {name: row.default for name, row in known.items() if profile in row.profiles}
        return {**defaults, **self.set_parameters}

    @property
    def has_sack(self) -> bool:
        """Whether the recovery needs a receiver that sends SACK blocks."""
        return self.recovery in ("sack", "fack")


# Parameters of the table that are fields of `Control`: those that the papers' models vary.
_OWN_PARAMETERS = tuple(row.name for row in fields(Control) if row.name in controls.PARAMETERS)


@dataclass(frozen=True, kw_only=True)
class Receiver:
    """Who answers: the delayed-ACK timer, the window it offers (bytes) and how fast its application reads.

    The first `quickack_segments` of a connection are acknowledged at once, as Linux does; with `dsack` it reports to a
    SACK sender what arrives twice (RFC 2883). Both are profile rfc's.
    """

    delayed_ack_timer_s: float = 0.1
    quickack_segments: int = field(default=0, metadata=RFC_ONLY)
    dsack: bool = field(default=False, metadata=RFC_ONLY)
    rwnd: int = field(default=1 << 30, metadata=RFC_ONLY)
    reader_bps: float = field(default=INFINITE, metadata=RFC_ONLY)

    def __post_init__(self) -> None:
        # RFC 1122 section 4.2.3.2: an ACK must not be delayed by more than 0.5 s.
        _require("delayed_ack_timer_s", self.delayed_ack_timer_s, 0 < self.delayed_ack_timer_s <= 0.5, "> 0 and <= 0.5")
        _require(
            "quickack_segments", self.quickack_segments, 0 <= self.quickack_segments <= MOST_PACKETS, ">= 0 and <= 2^30"
        )
        # RFC 7323 section 2.3: the largest window a scale of 14 can say.
        _require("rwnd", self.rwnd, 0 < self.rwnd <= 1 << 30, "> 0 and <= 2^30 bytes")
        _require("reader_bps", self.reader_bps, self.reader_bps > 0, "> 0")


@dataclass(frozen=True, kw_only=True)
class Application:
    """What the sender is given to send.

    kind: bulk (always more), bytes (`bytes` once), on_off (`bytes`, then `off_s` of silence, `repeats` times, 0 meaning
    for ever), schedule (`writes`: pairs of seconds after the connection's start and bytes), turns (profile rfc;
    `turns`: pairs of seconds after everything before was acknowledged and bytes, as answers to requests come).
    """

    kind: str = "bulk"
    bytes: int = 0
    off_s: float = 0.0
    repeats: int = 0
    writes: tuple[tuple[float, int], ...] = ()
    turns: tuple[tuple[float, int], ...] = field(default=(), metadata=RFC_ONLY)

    def __post_init__(self) -> None:
        _one_of("kind", self.kind, APPLICATIONS)
        self._used("bytes", self.bytes, "bytes", "on_off")
        self._used("off_s", self.off_s, "on_off")
        self._used("writes", len(self.writes), "schedule")
        self._used("turns", len(self.turns), "turns")
        _require("bytes", self.bytes, self.bytes <= MOST, "<= 2^53")
        _require("off_s", self.off_s, self.off_s < LONGEST_S, "< 1e9")
        _require("repeats", self.repeats, 0 <= self.repeats <= MOST_PACKETS, ">= 0 and <= 2^30")
        before_s = 0.0
        for at_s, size in self.writes:
            holds = before_s <= at_s < LONGEST_S and 0 < size <= MOST
            _require("writes", (at_s, size), holds, "in order of time below 1e9 s, bytes > 0 and <= 2^53")
            before_s = at_s
        for wait_s, size in self.turns:
            holds = 0 <= wait_s < LONGEST_S and 0 < size <= MOST
            _require("turns", (wait_s, size), holds, "waits >= 0 and below 1e9 s, bytes > 0 and <= 2^53")

    def _used(self, key: str, value: float, *kinds: str) -> None:
        wanted = self.kind in kinds
        holds = value > 0 if wanted else value == 0
        _require(key, value, holds, f"> 0 with kind {self.kind}" if wanted else f"absent with kind {self.kind}")


@dataclass(frozen=True, kw_only=True)
class Connection:
    """One sender and its receiver.

    With `reverse` the data runs along `path.reverse`, as cross traffic for the ACKs. `extra_delay_s` lengthens the way
    back of this connection alone: unequal round trips over shared nodes. With `jitter_s` (profile rfc) the sender's
    host takes up to so long over each ACK, as real ones do: without it, whether a packet finds the place that is just
    becoming free is the same every time.
    """

    control: Control = field(default_factory=Control)
    receiver: Receiver = field(default_factory=Receiver)
    application: Application = field(default_factory=Application)
    start_s: float = 0.0
    extra_delay_s: float = 0.0
    jitter_s: float = field(default=0.0, metadata=RFC_ONLY)
    reverse: bool = False

    def __post_init__(self) -> None:
        _require("start_s", self.start_s, 0 <= self.start_s < LONGEST_S, ">= 0 and < 1e9")
        _require("extra_delay_s", self.extra_delay_s, 0 <= self.extra_delay_s < LONGEST_S, ">= 0 and < 1e9")
        _require("jitter_s", self.jitter_s, 0 <= self.jitter_s <= 1, ">= 0 and <= 1")


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One run: who sends over which path for how long, and where it is tapped.

    Profile `ns2` counts packets as ns-2.35 does (no SYN, fixed packet size); `rfc` is a modern byte-counting stack.
    A tap is "sender", "receiver", "nodeN.in" or "nodeN.out" with N the place in `path.nodes`.
    """

    path: Path
    connections: tuple[Connection, ...]
    duration_s: float
    profile: str = "rfc"
    seed: int = 1
    taps: tuple[str, ...] = ("sender",)
    ipv6: bool = False
    title: str = ""

    def __post_init__(self) -> None:
        _one_of("profile", self.profile, PROFILES)
        _require("duration_s", self.duration_s, 0 < self.duration_s < LONGEST_S, "> 0 and < 1e9")
        _require("connections", self.connections, len(self.connections) > 0, "one connection or more")
        _require("seed", self.seed, 0 <= self.seed < 2**63, ">= 0")
        _require("taps", self.taps, len(set(self.taps)) == len(self.taps), "each named once")
        for tap in self.taps:
            self._check_tap(tap)
        # Linux's least segment, 48 bytes, behind the headers.
        holds = self.profile == "ns2" or self.path.packet_bytes >= 88
        _require("path.packet_bytes", self.path.packet_bytes, holds, ">= 88 in profile rfc")
        for number, connection in enumerate(self.connections):
            for key, value in _foreign(connection, self.profile):
                at = f"connections.{number}.{key}"
                _require(at, value, False, f"absent in profile {self.profile}, which does not read it")
            window = connection.control.window
            holds = self.profile in controls.WINDOWS[window].profiles
            _require(f"connections.{number}.control.window", window, holds, f"one for profile {self.profile}")

    @property
    def control(self) -> Control:
        """The first connection's sender: what a model of one connection predicts for."""
        return self.connections[0].control

    def _check_tap(self, tap: str) -> None:
        match = re.fullmatch(r"sender|receiver|node(\d+)\.(?:in|out)", tap)
        known = match is not None and (match[1] is None or int(match[1]) < len(self.path.nodes))
        last = len(self.path.nodes) - 1
        _require("taps", tap, known, f"sender, receiver, or node0.in, node0.out ... node{last}.out")


def _foreign(table: object, profile: str) -> Iterable[tuple[str, object]]:
    """The keys of a table that have been set and that the profile does not read."""
    assert is_dataclass(table)
    for row in fields(table):
        value = getattr(table, row.name)
        if is_dataclass(value):
            yield from ((f"{row.name}.{key}", found) for key, found in _foreign(value, profile))
        elif row.metadata.get("profile", profile) != profile and value != row.default:
            yield row.name, value
    if isinstance(table, Control):
        for name, value in table.set_parameters.items():
            if profile not in controls.PARAMETERS[name].profiles:
                yield name, value


def _one_of(key: str, value: str, known: tuple[str, ...]) -> None:
    _require(key, value, value in known, "one of " + ", ".join(known))


def _require(key: str, value: object, holds: bool, wanted: str) -> None:
    if not holds:
        raise ScenarioError(f"{key} = {value!r}: must be {wanted}")
