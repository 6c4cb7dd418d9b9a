"""Stamps as worse clocks, cards and drivers give them."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.degrade.records import MS, SECOND, Kind, Packets, sender_of


def ticks(tick_ns: int) -> Kind:
    def coarse(packets: Packets, rng: random.Random) -> Packets:
        return [replace(packet, time_ns=packet.time_ns // tick_ns * tick_ns) for packet in packets]

    return coarse


def jittered_clock(packets: Packets, rng: random.Random) -> Packets:
    """Stamps taken late by up to 0.5 ms each, in the order of capture."""
    return [replace(packet, time_ns=packet.time_ns + rng.randrange(MS // 2)) for packet in packets]


def two_clocks(packets: Packets, rng: random.Random) -> Packets:
    """Each direction on a card of its own: what arrives is stamped by a clock that is 2 ms ahead."""
    own = sender_of(packets)
    late = [packet if packet.source == own else replace(packet, time_ns=packet.time_ns + 2 * MS) for packet in packets]
    return sorted(late, key=lambda packet: packet.time_ns)


def stamped_early(packets: Packets, rng: random.Random) -> Packets:
    """What leaves is stamped before it waits in its host, up to 1 ms."""
    own = sender_of(packets)
    early = [
        replace(packet, time_ns=packet.time_ns - rng.randrange(MS)) if packet.source == own else packet
        for packet in packets
    ]
    return sorted(early, key=lambda packet: packet.time_ns)


def written_late(packets: Packets, rng: random.Random) -> Packets:
    """Stamped rightly, written up to 1 ms later, in the order of that: several queues of a card in one file."""
    return sorted(packets, key=lambda packet: packet.time_ns + rng.randrange(MS))


def clock_steps_back(packets: Packets, rng: random.Random) -> Packets:
    """A time server sets the clock back by 30 ms, three times."""
    steps = sorted(rng.randrange(len(packets)) for _ in range(3))
    return [
        replace(packet, time_ns=packet.time_ns - 30 * MS * sum(step <= index for step in steps))
        for index, packet in enumerate(packets)
    ]


def clock_set_forward(packets: Packets, rng: random.Random) -> Packets:
    """A time server sets the clock forward by five seconds, once."""
    step = int(len(packets) * rng.uniform(0.4, 0.6))
    return [replace(packet, time_ns=packet.time_ns + 5 * SECOND * (at >= step)) for at, packet in enumerate(packets)]


def slewed_clock(packets: Packets, rng: random.Random) -> Packets:
    """A clock that is slewed: 500 millionths fast, then as much slow, a few seconds each."""
    found, now, before, drift = [], packets[0].time_ns, packets[0].time_ns, 5e-4
    turn = before
    for packet in packets:
        if packet.time_ns >= turn:
            turn, drift = packet.time_ns + round(rng.uniform(1, 4) * SECOND), -drift
        now += round((packet.time_ns - before) * (1 + drift))
        before = packet.time_ns
        found.append(replace(packet, time_ns=now))
    return found


def stamped_by_polls(packets: Packets, rng: random.Random) -> Packets:
    """A tap that is read every 1 to 3 ms, and stamps what it finds then."""
    found, poll = [], 0
    for packet in packets:
        while packet.time_ns > poll:
            poll = max(poll, packet.time_ns - 3 * MS) + rng.randrange(MS, 3 * MS)
        found.append(replace(packet, time_ns=poll))
    return found


def interrupt_batches(packets: Packets, rng: random.Random) -> Packets:
    """What arrives within 250 us is stamped at once; what leaves keeps its time, and the order of capture stays."""
    own, found, last = sender_of(packets), [], 0
    until = 0
    for packet in packets:
        time_ns = packet.time_ns
        if packet.source != own:
            if time_ns > until:
                until = time_ns + MS // 4
            time_ns = until
        last = max(last, time_ns)
        found.append(replace(packet, time_ns=last))
    return found
