"""RFC 2416's starts followed past the first retransmission: whole transfers with Tahoe's, Reno's or SACK's recovery.

The RFC prints its traces up to the first fast retransmission ("And the trace continues...") and then compares: packet N
of the one-packet start at T is packet N - 3 of the four-packet start at T - 2.889 s, whichever of ns's senders is used.
This file continues the traces, packet by packet, over the chain that `initial_window.reduce_chain` reads from a path.

The senders are those of ns: Tahoe goes back to the hole with a window of 1; Reno halves, and inflates its window by the
duplicates (RFC 2581); SACK halves and counts a pipe (Fall & Floyd 1996, RFC 2018). A loss before `recover`, the last
packet sent at the last cut, is left to the timer. The timer is Jacobson's, in whole ticks, started on a phase of the
tick. Packets are numbered from 1, as in the RFC; seconds; one set of parameters at a time.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from tcptrace_lab.models.initial_window import reduce_chain

from tcptrace_lab.scenario import Path

RECOVERIES = ("tahoe", "reno", "sack")
DUPLICATE_ACKS = 3
# A window is never cut to less than two packets' threshold.
SSTHRESH_MINIMUM = 2
# ns's SACK option: at most three blocks of 8 bytes.
BLOCKS, BLOCK_BYTES = 3, 8
MAX_BACK_OFF = 64


@dataclass(frozen=True, kw_only=True)
class Timer:
    """The retransmission timer: tick, phase of the clock in the tick, first, least and largest value (all s)."""

    tick: float = 0.01
    phase: float = 0.005558
    first: float = 3.0
    least: float = 0.2
    most: float = 60.0


@dataclass(frozen=True, kw_only=True)
class Event:
    """What the sender sees ("send", "retransmit", "ack", "duplicate", "timeout") or does not ("drop", "deliver")."""

    at: float
    what: str
    packet: int


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """All events in order of time; `delivered` has the first delivery of each packet, s, by number."""

    events: tuple[Event, ...]
    delivered: dict[int, float]

    def at_sender(self) -> list[Event]:
        """Without what happens at the last queue and at the receiver."""
        return [event for event in self.events if event.what not in ("drop", "deliver")]

    def complete(self, packet: int) -> float:
        """When the receiver has everything up to `packet`, s; infinite if it never does."""
        return max(self.delivered.get(number, math.inf) for number in range(1, packet + 1))


def transfer(path: Path, recovery: str, initial_window: int, *, until: float, timer: Timer | None = None) -> Transfer:
    """A transfer without end over this path, as far as `until` s."""
    if recovery not in RECOVERIES:
        raise ValueError(f"recovery = {recovery!r}: must be one of {', '.join(RECOVERIES)}")
    if initial_window < 1:
        raise ValueError(f"initial_window = {initial_window}: must be >= 1 packets")
    sender = _SENDERS[recovery](_Chain(path, has_sack=recovery == "sack"), float(initial_window), timer or Timer())
    return sender.run(until)


class _Chain:
    """Links, the last queue and the receiver: each packet sent becomes a drop or an ACK on its way."""

    def __init__(self, path: Path, *, has_sack: bool) -> None:
        reduced = reduce_chain(path)
        self.rate, self.places = reduced["last_rate"], reduced["places"]
        self.feed_rate, self.there = reduced["feed_rate"], reduced["feed_time"]
        self.last_delay, self.return_delay = path.nodes[-1].delay_s, path.return_delay_s
        self.reverse = [(node.rate_bps, node.delay_s) for node in path.reverse]
        self.ack_bytes, self.has_sack = path.ack_bytes, has_sack
        self.fed = self.idle_at = -math.inf
        self.free_at = [-math.inf] * len(self.reverse)
        self.received: set[int] = set()
        self.in_order = 0
        # Blocks above the hole as [first, last], the one that changed last at the end.
        self.blocks: list[list[int]] = []
        self.acks: deque[tuple[float, int, tuple[tuple[int, int], ...]]] = deque()
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
        self._receive(packet)
        blocks = tuple((first, last) for first, last in reversed(self.blocks))[:BLOCKS] if self.has_sack else ()
        size = self.ack_bytes + BLOCK_BYTES * len(blocks)
        for i, (rate, delay) in enumerate(self.reverse):
            self.free_at[i] = max(at, self.free_at[i]) + 8 * size / rate
            at = self.free_at[i] + delay
        self.acks.append((at + self.return_delay, self.in_order, blocks))

    def _receive(self, packet: int) -> None:
        if packet in self.received:
            self._touch(packet)
            return
        self.received.add(packet)
        if packet == self.in_order + 1:
            while self.in_order + 1 in self.received:
                self.in_order += 1
            self.blocks = [block for block in self.blocks if block[0] > self.in_order]
            return
        first = last = packet
        for block in [block for block in self.blocks if block[1] == packet - 1 or block[0] == packet + 1]:
            first, last = min(first, block[0]), max(last, block[1])
            self.blocks.remove(block)
        self.blocks.append([first, last])

    def _touch(self, packet: int) -> None:
        """A block repeated is reported first."""
        for block in self.blocks:
            if block[0] <= packet <= block[1]:
                self.blocks.remove(block)
                self.blocks.append(block)
                return


@dataclass
class _Sender:
    """What the three have in common; this one is Tahoe."""

    chain: _Chain
    cwnd: float
    clock: Timer
    ssthresh: float = math.inf
    highest_ack: int = 0
    next_packet: int = 1
    largest_sent: int = 0
    recover: int = 0
    duplicates: int = 0
    has_cut_by_duplicates: bool = False
    deadline: float = math.inf
    back_off: int = 1
    srtt: int = 0
    rttvar: int = 0
    rto: float = 0.0
    timed: tuple[int, float] | None = None
    sent: set[int] = field(default_factory=set)

    def run(self, until: float) -> Transfer:
        """ACK after ACK, and the timer where it comes first."""
        self.rto = self.clock.first
        self.try_send(0.0)
        acks = self.chain.acks
        while acks or self.deadline < math.inf:
            is_ack = bool(acks) and acks[0][0] <= self.deadline
            now = acks[0][0] if is_ack else self.deadline
            if now > until:
                break
            if is_ack:
                _, number, blocks = acks.popleft()
                is_new = number > self.highest_ack
                self.chain.events.append(Event(at=now, what="ack" if is_new else "duplicate", packet=number))
                self.on_ack(now, number, blocks)
            else:
                self.on_timeout(now)
        events = sorted((event for event in self.chain.events if event.at <= until), key=lambda event: event.at)
        return Transfer(
            events=tuple(events), delivered={n: at for n, at in self.chain.delivered.items() if at <= until}
        )

    # The window.

    def window(self) -> int:
        """Packets that may be outstanding."""
        return math.floor(self.cwnd)

    def open(self) -> None:
        """Slow start below the threshold, else one packet a window."""
        self.cwnd += 1 if self.cwnd < self.ssthresh else 1 / self.cwnd

    def try_send(self, now: float) -> None:
        """Everything that the window allows, from the next packet on."""
        while self.next_packet <= self.highest_ack + self.window():
            self.output(now, self.next_packet)
            self.next_packet += 1

    def output(self, now: float, packet: int) -> None:
        """One packet, first or again; the first that is not timed yet starts a measurement."""
        again = packet in self.sent
        self.chain.events.append(Event(at=now, what="retransmit" if again else "send", packet=packet))
        self.chain.send(now, packet)
        if not again and self.timed is None:
            self.timed = packet, now
        self.sent.add(packet)
        self.largest_sent = max(self.largest_sent, packet)
        if self.deadline == math.inf:
            self.restart_timer(now)

    # ACKs.

    def on_ack(self, now: float, number: int, blocks: tuple[tuple[int, int], ...]) -> None:
        """A new one opens the window; the third duplicate cuts it."""
        if number > self.highest_ack:
            self.take(now, number)
            self.open()
        elif number == self.highest_ack:
            self.duplicates += 1
            self.on_duplicate(now)
        self.try_send(now)

    def take(self, now: float, number: int) -> None:
        """Everything up to `number` has arrived: measurement, timer, state."""
        self.duplicates, self.highest_ack = 0, number
        self.next_packet = max(self.next_packet, number + 1)
        self.has_cut_by_duplicates = False
        self.measure(now, number)
        self.restart_timer(now)

    def measure(self, now: float, number: int) -> None:
        """A sample, if the timed packet is among what arrived."""
        if self.timed is not None and number >= self.timed[0]:
            self.sample(now - self.timed[1], self.timed[1])
            self.timed = None

    def on_duplicate(self, now: float) -> None:
        if self.duplicates == DUPLICATE_ACKS and self.may_cut():
            self.cut(now)

    def may_cut(self) -> bool:
        """A hole above what the last cut was about."""
        return self.highest_ack > self.recover

    def cut(self, now: float) -> None:
        """Half the window as threshold, one packet, and everything from the hole on again."""
        self.close(self.cwnd)
        self.cwnd, self.next_packet = 1.0, self.highest_ack + 1
        self.restart_timer(now)

    def close(self, window: float) -> None:
        self.recover, self.timed = self.largest_sent, None
        self.ssthresh = max(SSTHRESH_MINIMUM, math.floor(window / 2))

    # The timer.

    def on_timeout(self, now: float) -> None:
        """As a cut, and the timer backs off."""
        self.chain.events.append(Event(at=now, what="timeout", packet=self.highest_ack + 1))
        self.close(self.cwnd)
        self.has_cut_by_duplicates = False
        self.cwnd, self.next_packet = 1.0, self.highest_ack + 1
        self.back_off = min(2 * self.back_off, MAX_BACK_OFF)
        self.restart_timer(now)
        self.try_send(now)

    def restart_timer(self, now: float) -> None:
        value = min(max(self.rto, self.clock.least) * self.back_off, self.clock.most)
        self.deadline = now + max(value, 2 * self.clock.tick)

    def sample(self, seconds: float, sent_at: float) -> None:
        """Jacobson's estimators in ticks: srtt in eighths, rttvar in quarters."""
        tick = self.clock.tick
        ticks = max(1, int((seconds + math.fmod(sent_at + self.clock.phase, tick)) / tick))
        if self.srtt == 0:
            self.srtt, self.rttvar = 8 * ticks, 2 * ticks
        else:
            delta = ticks - (self.srtt >> 3)
            self.srtt = max(self.srtt + delta, 1)
            self.rttvar = max(self.rttvar + abs(delta) - (self.rttvar >> 2), 1)
        self.rto = ((4 * self.rttvar * 2 + self.srtt) >> 3) * tick
        self.back_off = 1


@dataclass
class _Reno(_Sender):
    """Half the window after a loss; duplicates stand for packets that have left."""

    inflation: int = 0

    def window(self) -> int:
        return math.floor(self.cwnd + self.inflation)

    def take(self, now: float, number: int) -> None:
        self.inflation = 0
        super().take(now, number)

    def on_duplicate(self, now: float) -> None:
        if self.duplicates == DUPLICATE_ACKS and self.may_cut():
            self.cut(now)
        elif self.duplicates > DUPLICATE_ACKS and self.inflation:
            self.inflation += 1

    def may_cut(self) -> bool:
        return self.highest_ack > self.recover or self.has_cut_by_duplicates

    def cut(self, now: float) -> None:
        whole = self.cwnd + self.inflation
        self.close(whole)
        self.cwnd, self.inflation, self.has_cut_by_duplicates = whole / 2, DUPLICATE_ACKS, True
        self.restart_timer(now)
        self.output(now, self.highest_ack + 1)

    def on_timeout(self, now: float) -> None:
        self.inflation = 0
        super().on_timeout(now)


@dataclass
class _Sack(_Sender):
    """Half the window after a loss; sends while fewer packets than that are on their way, holes first."""

    in_recovery: bool = False
    after_timeout: bool = False
    pipe: int = 0
    sacked: set[int] = field(default_factory=set)
    mended: int = 0

    def on_ack(self, now: float, number: int, blocks: tuple[tuple[int, int], ...]) -> None:
        is_news = self.learn(number, blocks)
        if self.in_recovery:
            self.pipe -= 1
            if number >= self.recover:
                self.leave(now, number)
            elif number > self.highest_ack:
                # A partial ACK: a retransmission arrived, which leaves the pipe as well.
                self.pipe -= 1
                self.highest_ack = number
                self.measure(now, number)
                self.back_off = 1
                self.restart_timer(now)
            self.try_send(now)
            return
        if number > self.highest_ack:
            self.take(now, number)
            self.open()
            self.after_timeout = False
            self.forget()
        elif number == self.highest_ack and not self.after_timeout and is_news:
            self.duplicates += 1
            self.on_duplicate(now)
        if self.duplicates == 0:
            self.try_send(now)

    def learn(self, number: int, blocks: tuple[tuple[int, int], ...]) -> bool:
        """Whether the blocks tell of packets not known to have arrived."""
        before = len(self.sacked)
        self.sacked.update(packet for first, last in blocks for packet in range(first, last + 1))
        is_news = len(self.sacked) > before
        self.sacked = {packet for packet in self.sacked if packet > number}
        return is_news

    def forget(self) -> None:
        self.sacked, self.mended = set(), 0

    def leave(self, now: float, number: int) -> None:
        """All that was outstanding at the cut has arrived."""
        self.in_recovery, self.recover = False, 0
        self.take(now, number)
        self.forget()

    def cut(self, now: float) -> None:
        self.pipe = self.largest_sent - self.highest_ack - DUPLICATE_ACKS
        whole = self.cwnd
        self.close(whole)
        self.cwnd, self.in_recovery = whole / 2, True
        self.restart_timer(now)
        self.mended = self.highest_ack + 1
        self.output(now, self.highest_ack + 1)

    def try_send(self, now: float) -> None:
        if not self.in_recovery:
            super().try_send(now)
            return
        while self.pipe < math.floor(self.cwnd):
            packet = self.hole() or self.next_packet
            self.mended = max(self.mended, packet) if packet < self.next_packet else self.mended
            self.next_packet = max(self.next_packet, packet + 1)
            self.output(now, packet)
            self.pipe += 1

    def hole(self) -> int | None:
        """The first packet not mended yet with something SACKed above it."""
        top = max(self.sacked, default=0)
        start = max(self.mended, self.highest_ack) + 1
        return next((packet for packet in range(start, top) if packet not in self.sacked), None)

    def on_timeout(self, now: float) -> None:
        self.in_recovery, self.after_timeout, self.duplicates = False, True, 0
        self.forget()
        super().on_timeout(now)


_SENDERS = {"tahoe": _Sender, "reno": _Reno, "sack": _Sack}
