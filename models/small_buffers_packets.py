"""Slow starts of a cycle counted packet by packet: what Theorem 1 of RR-3574 approximates with a fluid.

The network of `small_buffers` (Barakat & Altman 1998, section 2). While bursts are shorter than a round trip (B at most
a third of the pipe, equation 3) slow starts go in mini-cycles: the ACKs of one burst, a service time apart, send the
next. So a cycle after the loss of congestion avoidance follows from B and the first threshold alone, with service times
as the unit of time (section 5: "the only parameter ... is the buffer size B"). Here each packet is counted: which finds
a place, what the receiver already holds, when a third duplicate ACK comes, go-back-N after it.

Differs: not the paper's analysis but the recurrence that it describes in section 4. It has ns-2's thresholds at every B
from 2 to 69, on two networks; the theorem has the number of slow starts at 54 of 68.

Units: packets, packets/s, seconds. Parameters broadcast; the recurrence, packet after packet, runs once for each
different combination that can matter (`cycles`): 0.1 to 1 ms a point of a map for B up to 60 or 200.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from tcptrace_lab.models import conditions
from tcptrace_lab.models.avoidance import avoidance
from tcptrace_lab.models.prediction import (
    Applicability,
    FloatArray,
    Model,
    Parameter,
    Prediction,
    Quantity,
    Reason,
    checked,
    named,
    reason,
    require_applies,
)
from tcptrace_lab.models.small_buffers import MU, REGIMES, section_2

from tcptrace_lab.scenario import ControlSpec, PathSpec

# The recurrence takes a step per packet: larger pipes than this are not followed.
LARGEST = 200_000
BUFFER = Parameter(name="buffer", unit="packets", meaning="B, waiting places at the bottleneck", example=20, low=1,
                   low_open=False, high=LARGEST, integer=True)  # fmt: skip
ROUND_TRIP = Parameter(name="round_trip", unit="s", meaning="T, propagation and service, no queue", example=0.5634)
FEED_RATE = Parameter(name="feed_rate", unit="packets/s", meaning="slowest rate before it", example=1e7 / 4096)

DUPLICATE_ACKS = 3
SSTHRESH_MINIMUM = 2
# A threshold that no slow start into a finite buffer reaches.
FREE = 2 * LARGEST
# Thresholds of one path from which on it is counted without any first.
WORTH = 4
# Mini-cycles without a drop, all holes filled, after which congestion avoidance is on its way.
CALM = 3


@dataclass(frozen=True, kw_only=True)
class Cycle:
    """A cycle's slow starts: the thresholds set by their losses, timeouts among these, and where avoidance begins.

    A slow start counts when it is answered: where the first packet of one is lost, the timer's is the same once more.
    `rounds` mini-cycles from the loss of congestion avoidance to its next beginning acknowledge `packets` new ones.
    `first_peak` is the window when the first slow start is cut, infinite if none is.
    """

    slow_starts: int
    thresholds: tuple[int, ...]
    timeouts: int
    rounds: int
    packets: int
    first_peak: float


@dataclass
class _Tahoe:
    """ns-2's Tahoe (go-back-N), packets from 0, and a receiver that acknowledges each packet."""

    ssthresh: float
    cwnd: float = 1.0
    highest_ack: int = -1
    next_packet: int = 0
    largest_sent: int = -1
    recover: int = -1
    duplicates: int = 0
    is_unanswered: bool = True
    slow_starts: int = 0
    thresholds: list[int] = field(default_factory=list)
    timeouts: int = 0
    # The receiver: packets above a hole, the next one wanted, the largest that came.
    held: set[int] = field(default_factory=set)
    expected: int = 0
    largest_received: int = -1
    largest_cwnd: float = 1.0

    def receive(self, packet: int) -> int:
        """The receiver's ACK: the last packet in order."""
        self.largest_received = max(self.largest_received, packet)
        if packet == self.expected:
            self.expected += 1
            while self.expected in self.held:
                self.held.remove(self.expected)
                self.expected += 1
        elif packet > self.expected:
            self.held.add(packet)
        return self.expected - 1

    def on_ack(self, number: int) -> None:
        """One packet more per new ACK below ssthresh, 1/cwnd above; a cut at the third duplicate."""
        if number > self.highest_ack:
            self.slow_starts += self.is_unanswered
            self.is_unanswered = False
            self.duplicates = 0
            self.highest_ack = number
            self.next_packet = max(self.next_packet, number + 1)
            self.cwnd += 1 if self.cwnd < self.ssthresh else 1 / self.cwnd
            return
        self.duplicates += 1
        # Duplicates for a packet sent before the last cut say nothing of a new loss (ns-2's bugFix_): a lost
        # retransmission is left to the timer.
        if self.duplicates == DUPLICATE_ACKS and self.highest_ack > self.recover:
            self.cut()

    def cut(self) -> None:
        """Half the window as threshold, slow start from one packet, everything from the hole on again."""
        self.recover = self.largest_sent
        if not self.thresholds:
            self.largest_cwnd = self.cwnd
        self.ssthresh = max(SSTHRESH_MINIMUM, math.floor(self.cwnd / 2))
        self.thresholds.append(int(self.ssthresh))
        self.cwnd, self.next_packet, self.is_unanswered = 1.0, self.highest_ack + 1, True

    def is_settled(self) -> bool:
        """In congestion avoidance, nothing missing at the receiver."""
        return self.cwnd >= self.ssthresh and self.expected == self.largest_received + 1


@dataclass
class _Queue:
    """`buffer` places and a server that takes `service` ticks a packet; times within a mini-cycle."""

    buffer: float
    service: float
    idle_at: float = -math.inf
    is_full: bool = False

    def offer(self, arrival: float) -> float | None:
        """When the packet leaves; None if it is dropped."""
        if self.idle_at <= arrival:
            self.idle_at = arrival + self.service
            return self.idle_at
        # More departures still to come than places; one at the very time of the arrival frees its place first.
        if (self.idle_at - arrival) / self.service - 1e-9 > self.buffer:
            self.is_full = True
            return None
        self.idle_at += self.service
        return self.idle_at


def _pass(queues: list[_Queue], now: float) -> float | None:
    """When a packet sent at `now` leaves the last queue; None if one of them drops it."""
    at: float | None = now
    for queue in queues:
        if at is None:
            break
        at = queue.offer(at)
    return at


@lru_cache(maxsize=65_536)
def cycle(buffer: int, threshold: int, upstream: tuple[tuple[float, float], ...] = ()) -> Cycle:
    """The slow starts after a loss in congestion avoidance that set `threshold` (packets).

    `upstream` are the nodes before the bottleneck: (mu over the node's rate, its waiting places), in a packet's order.
    """
    tcp = _Tahoe(ssthresh=threshold)
    calm, begun = 0, (0, 0, -1)
    acks: list[tuple[float, int]] = [(0.0, -1)]
    for mini_cycle in range(1, 100 + 40 * int(math.log2(threshold + 2))):
        queues = [_Queue(buffer=places, service=service) for service, places in (*upstream, (1.0, buffer))]
        burst: list[tuple[float, int]] = []
        if not acks:
            # Nothing in flight and a hole: the retransmission timer.
            tcp.timeouts += 1
            tcp.cut()
            acks = [(0.0, -2)]
        for at, number in acks:
            if number >= 0:
                tcp.on_ack(number)
            allowed = tcp.highest_ack + math.floor(tcp.cwnd)
            if tcp.next_packet > allowed:
                continue
            for packet in range(tcp.next_packet, allowed + 1):
                leaves = _pass(queues, at - acks[0][0])
                if leaves is not None:
                    burst.append((leaves, packet))
            tcp.next_packet = allowed + 1
            tcp.largest_sent = max(tcp.largest_sent, allowed)
        if tcp.cwnd >= tcp.ssthresh and begun[2] != len(tcp.thresholds):
            begun = mini_cycle, tcp.highest_ack + 1, len(tcp.thresholds)
        acks = [(at, tcp.receive(packet)) for at, packet in burst]
        calm = calm + 1 if tcp.is_settled() and not any(queue.is_full for queue in queues) else 0
        if calm >= CALM:
            break
    return Cycle(
        slow_starts=tcp.slow_starts,
        thresholds=tuple(tcp.thresholds),
        timeouts=tcp.timeouts,
        rounds=begun[0],
        packets=begun[1],
        first_peak=tcp.largest_cwnd if tcp.thresholds else math.inf,
    )


def cycles(points: Sequence[tuple[int, int, tuple[tuple[float, float], ...]]]) -> list[Cycle]:
    """`cycle` of each point (buffer, threshold, upstream), counted once where the threshold is never reached.

    Below the window of the first cut no comparison with a larger threshold can come out differently, so one count with
    none stands for all of these. That count is a long one: it is made where a path comes with several thresholds.
    """
    thresholds: dict[tuple[int, tuple[tuple[float, float], ...]], set[int]] = {}
    for buffer, threshold, upstream in points:
        thresholds.setdefault((buffer, upstream), set()).add(threshold)
    free = {path: cycle(path[0], FREE, path[1]) for path, of in thresholds.items() if len(of) >= WORTH}
    found = []
    for buffer, threshold, upstream in points:
        most = free.get((buffer, upstream))
        found.append(most if most and threshold > most.first_peak else cycle(buffer, threshold, upstream))
    return found


def lost_window(buffer: ArrayLike, mu: ArrayLike, round_trip: ArrayLike, feed_rate: ArrayLike) -> FloatArray:
    """The window, packets, at which congestion avoidance loses one: floor(B + mu T + mu / feed) + 1.

    The second packet of the pair that a larger window sends comes mu / feed service times after the first.
    """
    pipe = MU.check(mu) * (ROUND_TRIP.check(round_trip) + 1 / FEED_RATE.check(feed_rate))
    result: FloatArray = np.floor(BUFFER.check(buffer) + pipe + 1e-9) + 1
    return result


def first_threshold(buffer: ArrayLike, mu: ArrayLike, round_trip: ArrayLike, feed_rate: ArrayLike) -> FloatArray:
    """The threshold set by the loss in congestion avoidance, packets: half of the window when it is detected, floored.

    A round trip after the loss, when it is detected, the window has grown by nearly one.
    """
    window = lost_window(buffer, mu, round_trip, feed_rate)
    return np.maximum(np.floor(window / 2), SSTHRESH_MINIMUM)


def cycle_quantities(
    buffer: FloatArray, mu: FloatArray, round_trip: FloatArray, feed_rate: FloatArray, nodes: Sequence[FloatArray] = ()
) -> dict[str, Quantity]:
    """Slow starts, thresholds and throughput of a cycle, for arrays of one shape.

    `feed_rate` is the slowest rate before the bottleneck and a node of `nodes` (its rate and waiting places), if any.
    """
    slowest = nodes[0] if nodes else feed_rate
    threshold = first_threshold(buffer, mu, round_trip, slowest)
    # (mu / rate, places) of the link that feeds all, whose queue has no end, and of the node.
    pairs = (mu / feed_rate, np.full(mu.shape, np.inf), *((mu / nodes[0], nodes[1]) if nodes else ()))
    chains = np.stack([array.ravel() for array in pairs], axis=-1).reshape(mu.size, -1, 2).tolist()
    points = zip(buffer.ravel(), threshold.ravel(), chains, strict=True)
    runs = cycles([(int(b), int(first), tuple((s, n) for s, n in chain)) for b, first, chain in points])

    def column(values: list[float]) -> FloatArray:
        return np.array(values, dtype=np.float64).reshape(buffer.shape)

    start = column([float(run.thresholds[-1]) if run.thresholds else math.nan for run in runs])
    start = np.where(np.isnan(start), threshold, start)
    second = column([float(run.thresholds[0]) if run.thresholds else math.nan for run in runs])
    end = lost_window(buffer, mu, round_trip, slowest)
    packets, seconds = avoidance(start, end, mu, round_trip)
    # The slow starts before, and the round trip (of a full queue) in which the loss is detected.
    packets = packets + column([float(run.packets) for run in runs]) + end
    seconds = seconds + round_trip * column([float(run.rounds) for run in runs]) + end / mu
    rows: tuple[tuple[str, FloatArray, str], ...] = (
        ("slow_starts", column([float(run.slow_starts) for run in runs]), "1"),
        ("W_th", threshold, "packets"),
        ("W_th_second", second, "packets"),
        ("W_S", start, "packets"),
        ("W_max", end, "packets"),
        ("timeouts", column([float(run.timeouts) for run in runs]), "1"),
        ("rounds_of_slow_start", column([float(run.rounds) for run in runs]), "1"),
        ("cycle", seconds, "s"),
        ("throughput_cycle", packets / seconds, "packets/s"),
    )
    return {name: Quantity(value=value, unit=unit, equation="recurrence") for name, value, unit in rows}


@dataclass(frozen=True)
class SmallBuffersPackets:
    """RR-3574's cycle as a model that counts packets."""

    name: str = "small_buffers_packets"
    paper: str = "Barakat & Altman 1998 (INRIA RR-3574), its section 4 counted packet by packet"
    parameters: tuple[Parameter, ...] = (BUFFER, MU, ROUND_TRIP, FEED_RATE)

    def applies_to(self, path: PathSpec, control: ControlSpec) -> Applicability:
        """Section 2's model, with B at most a third of the pipe, so that mini-cycles do not overlap."""
        places, pipe = path.waiting_places(path.bottleneck), path.mu_pps * path.base_rtt_s
        return Applicability(
            (
                *section_2(path, control),
                conditions.window_is_free(control, places + pipe),
                is_third_of_pipe(path),
            )
        )

    def inputs(self, path: PathSpec, control: ControlSpec) -> dict[str, float]:
        """B, mu, T and the slowest rate before the bottleneck."""
        before = [node.rate_bps for node in conditions.upstream(path)]
        return {
            "buffer": path.waiting_places(path.bottleneck),
            "mu": path.mu_pps,
            "round_trip": path.base_rtt_s,
            # Nothing before the bottleneck: a burst arrives all at once.
            "feed_rate": min(min(before, default=math.inf) / (8 * path.packet_bytes), 1e12),
        }

    def evaluate(self, **parameters: ArrayLike) -> dict[str, Quantity]:
        """Slow starts, thresholds and throughput of a cycle."""
        b, mu, round_trip, feed = np.broadcast_arrays(*checked(self, parameters))
        return cycle_quantities(b, mu, round_trip, feed)

    def predict(self, path: PathSpec, control: ControlSpec) -> Prediction:
        """Single, double or triple."""
        return predict_cycle(self, path, control)


def is_third_of_pipe(path: PathSpec) -> Reason:
    """Bursts shorter than a round trip, so that mini-cycles do not overlap (equation 3); a pipe that can be counted."""
    places, pipe = path.waiting_places(path.bottleneck), path.mu_pps * path.base_rtt_s
    return reason(
        3 * places <= pipe <= LARGEST,
        f"B is at most a third of the pipe ({pipe:.6g} packets): bursts do not overlap",
        f"B = {places:g} is more than a third of the pipe ({pipe:.6g} packets), or the pipe too large",
    )


def predict_cycle(model: Model, path: PathSpec, control: ControlSpec) -> Prediction:
    """What the count says of a path: single, double or triple, and what a packet more or less of buffer changes."""
    require_applies(model, path, control)
    inputs = model.inputs(path, control)
    found = model.evaluate(**inputs)
    count = int(found["slow_starts"].value)
    near = near_buffers(model, inputs)
    notes = () if near == {count} else (f"one packet more or less of buffer: {sorted(near)} slow starts per cycle",)
    return Prediction(
        model=model.name,
        paper=model.paper,
        inputs=named(model, inputs),
        quantities=found,
        equations=("recurrence",),
        regime=REGIMES.get(count, "more"),
        notes=notes,
    )


def near_buffers(model: Model, inputs: dict[str, float]) -> set[int]:
    """The numbers of slow starts at B - 1, B and B + 1: how much a verdict hangs on one packet."""
    buffers = np.array([inputs["buffer"] + step for step in (-1, 0, 1) if inputs["buffer"] + step >= 1])
    others = {name: np.full(buffers.shape, value) for name, value in inputs.items() if name != "buffer"}
    found = model.evaluate(buffer=buffers, **others)
    return {int(value) for value in found["slow_starts"].value}
