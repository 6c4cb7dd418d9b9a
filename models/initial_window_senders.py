"""ns's senders as RFC 2416's starts meet them: Tahoe, Reno, SACK, FACK, and their timer.

Tahoe goes back to the hole with a window of 1; Reno halves, and inflates its window by the duplicates (RFC 2581); SACK
halves and counts a pipe (Fall & Floyd 1996, RFC 2018); FACK takes what lies below the highest SACK for gone (Mathis &
Mahdavi 1996) and, in ns, starts again from a window of 1 without going back. A loss before `recover`, the last packet
sent at the last cut, is left to the timer. The timer is Jacobson's, in whole ticks, started on a phase of the tick.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tcptrace_lab.models.initial_window_chain import Ack, Chain, Event
from tcptrace_lab.models.initial_window_start import DUPLICATE_ACKS

# A window is never cut to less than two packets' threshold.
SSTHRESH_MINIMUM = 2
MAX_BACK_OFF = 64
# So far backed off, ns keeps the estimate as deviation only.
WORTHLESS = 8


@dataclass(frozen=True, kw_only=True)
class Timer:
    """The retransmission timer: tick, phase of the clock in the tick, first, least and largest value (all s)."""

    tick: float = 0.01
    phase: float = 0.005558
    first: float = 3.0
    least: float = 0.2
    most: float = 60.0


@dataclass
class Sender:
    """What the three have in common; this one is Tahoe."""

    chain: Chain
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

    def run(self, until: float) -> None:
        """ACK after ACK, and the timer where it comes first."""
        self.rto = self.clock.first
        self.try_send(0.0)
        acks = self.chain.acks
        while acks or self.deadline < math.inf:
            is_ack = bool(acks) and acks[0].at <= self.deadline
            now = acks[0].at if is_ack else self.deadline
            if now > until:
                break
            if is_ack:
                ack = acks.popleft()
                is_new = ack.number > self.highest_ack
                self.chain.events.append(Event(at=now, what="ack" if is_new else "duplicate", packet=ack.number))
                self.on_ack(now, ack)
            else:
                self.on_timeout(now)

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

    def on_ack(self, now: float, ack: Ack) -> None:
        """A new one opens the window; the third duplicate cuts it."""
        if ack.number > self.highest_ack:
            self.take(now, ack.number)
            self.open()
        elif ack.number == self.highest_ack:
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
            self.back_off, self.timed = 1, None

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
        if self.back_off > WORTHLESS:
            self.rttvar, self.srtt = self.rttvar + (self.srtt >> 3), 0
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


@dataclass
class Reno(Sender):
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
class Sack(Sender):
    """Half the window after a loss; sends while fewer packets than that are on their way, holes first."""

    in_recovery: bool = False
    after_timeout: bool = False
    pipe: int = 0
    sacked: set[int] = field(default_factory=set)
    mended: int = 0

    def on_ack(self, now: float, ack: Ack) -> None:
        number = ack.number
        is_news = self.learn(ack)
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

    def learn(self, ack: Ack) -> bool:
        """Whether the blocks tell of packets not known to have arrived."""
        before = len(self.sacked)
        self.sacked.update(ack.packets())
        is_news = len(self.sacked) > before
        self.sacked = {packet for packet in self.sacked if packet > ack.number}
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


@dataclass
class Fack(Sender):
    """Everything below the highest SACK is taken for gone; starts again from a window of 1, holes first."""

    in_recovery: bool = False
    # A retransmission was lost: nothing more is sent until the timer runs out.
    waits_for_timeout: bool = False
    # The highest packet known to have arrived.
    highest_sack: int = 0
    # Retransmissions on their way.
    resent: int = 0
    sacked: set[int] = field(default_factory=set)
    # Packets sent again, each with the next packet at that time.
    again: dict[int, int] = field(default_factory=dict)

    def on_ack(self, now: float, ack: Ack) -> None:
        if self.in_recovery:
            self.echoed(now, ack)
            self.learn(ack)
            self.forget_lost(ack)
            self.open()
            if not ack.blocks and ack.number >= self.recover:
                self.in_recovery, self.duplicates = False, 0
                self.forget()
            self.try_send(now)
            return
        if ack.number > self.highest_ack and not ack.blocks:
            self.take(now, ack.number)
            self.open()
            self.highest_sack = ack.number
            self.forget()
        elif ack.number >= self.highest_ack:
            self.learn(ack)
            self.echoed(now, ack)
            self.duplicates = self.highest_sack - self.highest_ack - 1
            if self.duplicates >= DUPLICATE_ACKS:
                self.cut(now)
        if self.duplicates == 0:
            self.try_send(now)

    def echoed(self, now: float, ack: Ack) -> None:
        """Each ACK with SACK about restarts the timer and gives a sample, by what it echoes."""
        self.highest_ack = ack.number
        self.highest_sack = max(self.highest_sack, ack.number, *(last for _, last in ack.blocks), 0)
        self.next_packet = max(self.next_packet, self.highest_sack + 1)
        self.restart_timer(now)
        if self.timed is not None and ack.number >= self.timed[0]:
            self.back_off, self.timed = 1, None
        self.sample(now - ack.echo, ack.echo)

    def learn(self, ack: Ack) -> None:
        """Retransmissions that have arrived leave `resent`."""
        self.sacked.update(ack.packets())
        self.sacked = {packet for packet in self.sacked if packet > ack.number}
        arrived = [packet for packet in self.again if packet <= ack.number or packet in self.sacked]
        self.resent -= len(arrived)
        for packet in arrived:
            del self.again[packet]

    def forget_lost(self, ack: Ack) -> None:
        """A packet sent after a retransmission came before it: the retransmission is lost."""
        for _, last in ack.blocks:
            lost = [packet for packet, following in self.again.items() if packet <= last and following <= last]
            self.waits_for_timeout = self.waits_for_timeout or bool(lost)
            for packet in lost:
                del self.again[packet]

    def forget(self) -> None:
        self.sacked, self.again, self.resent, self.waits_for_timeout = set(), {}, 0, False

    def cut(self, now: float) -> None:
        self.close(self.cwnd)
        self.recover, self.cwnd, self.in_recovery = self.next_packet, 1.0, True
        self.restart_timer(now)
        self.send_again(now, self.highest_ack + 1)

    def send_again(self, now: float, packet: int) -> None:
        self.again[packet] = self.next_packet
        self.resent += 1
        self.output(now, packet)

    def try_send(self, now: float) -> None:
        while not self.waits_for_timeout and self.next_packet <= self.highest_sack + self.window() - self.resent:
            hole = self.hole()
            if hole is not None:
                self.send_again(now, hole)
            else:
                self.next_packet += 1
                self.output(now, self.next_packet - 1)

    def hole(self) -> int | None:
        """The first packet neither SACKed nor sent again with something SACKed above it."""
        top = max(self.sacked, default=0)
        missing = (n for n in range(self.highest_ack + 1, top) if n not in self.sacked and n not in self.again)
        return next(missing, None)

    def on_timeout(self, now: float) -> None:
        recover = self.recover
        self.forget()
        self.highest_sack = self.highest_ack
        super().on_timeout(now)
        self.recover = recover


SENDERS: dict[str, type[Sender]] = {"tahoe": Sender, "reno": Reno, "sack": Sack, "fack": Fack}
