"""RFC 2416's network packet by packet: links, a last queue that may overflow, a receiver that acknowledges all at once.

ACKs carry ns's SACK option where the sender wants it, and the time at which what they echo was sent. Packets are
numbered from 1, as in the RFC; seconds.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from tcptrace_lab.models.initial_window import reduce_chain
from tcptrace_lab.models.initial_window_start import BLOCK_BYTES, BLOCKS

from tcptrace_lab.scenario import PathSpec


@dataclass(frozen=True, kw_only=True)
class Event:
    """What the sender sees ("send", "retransmit", "ack", "duplicate", "timeout") or does not ("drop", "deliver")."""

    at: float
    what: str
    packet: int


@dataclass(frozen=True, slots=True)
class Ack:
    """Back at the sender: covers all up to `number`, [first, last] of each block, when what it echoes was sent."""

    at: float
    number: int
    blocks: tuple[tuple[int, int], ...]
    echo: float

    def packets(self) -> Iterator[int]:
        """All that the blocks report."""
        for first, last in self.blocks:
            yield from range(first, last + 1)


class Chain:
    """Links, the last queue and the receiver: each packet sent becomes a drop or an ACK on its way."""

    def __init__(self, path: PathSpec, *, has_sack: bool) -> None:
        reduced = reduce_chain(path)
        self.rate, self.places = reduced["last_rate"], reduced["places"]
        self.feed_rate, self.there = reduced["feed_rate"], reduced["feed_time"]
        self.last_delay, self.return_delay = path.nodes[-1].delay_s, path.return_delay_s
        self.reverse = [(node.rate_bps, node.delay_s) for node in path.reverse]
        self.ack_bytes, self.has_sack = path.ack_bytes, has_sack
        self.fed = self.idle_at = -math.inf
        self.free_at = [-math.inf] * len(self.reverse)
        # What has arrived: all up to `in_order`, and what is held above it.
        self.in_order = self.highest = 0
        self.held: set[int] = set()
        self.reported: list[tuple[int, int]] = []
        self.echo = 0.0
        self.acks: deque[Ack] = deque()
        self.events: list[Event] = []
        self.delivered: dict[int, float] = {}

    def send(self, now: float, packet: int) -> None:
        """The packet's whole way: queues are first come, first served, so it can be followed at once."""
        self.fed = max(now, self.fed + 1 / self.feed_rate)
        arrival = self.fed + self.there
        # A departure at the very time of the arrival frees its place first.
        if math.ceil((self.idle_at - arrival) * self.rate - 1e-9) >= self.places if self.idle_at > arrival else False:
            self.events.append(Event(at=arrival, what="drop", packet=packet))
            return
        self.idle_at = max(arrival, self.idle_at) + 1 / self.rate
        at = self.idle_at + self.last_delay
        self.events.append(Event(at=at, what="deliver", packet=packet))
        self.delivered.setdefault(packet, at)
        # A packet above a hole does not move the echo (RFC 7323's rule, without options).
        if packet <= self.in_order + 1 and now >= self.echo:
            self.echo = now
        blocks = self._receive(packet)
        size = self.ack_bytes + BLOCK_BYTES * len(blocks)
        for i, (rate, delay) in enumerate(self.reverse):
            self.free_at[i] = max(at, self.free_at[i]) + 8 * size / rate
            at = self.free_at[i] + delay
        self.acks.append(Ack(at + self.return_delay, self.in_order, blocks, self.echo))

    def _receive(self, packet: int) -> tuple[tuple[int, int], ...]:
        """Takes a packet in; the blocks of its ACK."""
        self.highest = max(self.highest, packet)
        if packet > self.in_order:
            self.held.add(packet)
        while self.in_order + 1 in self.held:
            self.in_order += 1
            self.held.remove(self.in_order)
        return self._blocks(packet) if self.has_sack else ()

    def _blocks(self, packet: int) -> tuple[tuple[int, int], ...]:
        """RFC 2018 section 4: the block that holds the packet, then those reported last; ns remembers three."""
        if self.in_order >= self.highest:
            self.reported = []
            return ()
        if packet <= self.in_order:
            self.reported = [block for block in self.reported if block[1] > self.in_order]
            return tuple(self.reported[:BLOCKS])
        first = last = packet
        while first - 1 in self.held:
            first -= 1
        while last + 1 in self.held:
            last += 1
        others = [block for block in self.reported if not first <= block[0] <= block[1] <= last]
        self.reported = [(first, last), *others[: BLOCKS - 1]]
        return tuple(self.reported)
