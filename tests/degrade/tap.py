"""What a tap loses, sees twice or in another order."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.degrade.records import MS, SYN, Kind, Packets, RawPacket, sender_of


def tap_loss(share: float, *, data: bool, acks: bool) -> Kind:
    def lose(packets: Packets, rng: random.Random) -> Packets:
        own = sender_of(packets)
        return [
            packet
            for packet in packets
            if packet.flags & SYN or not ((data if packet.source == own else acks) and rng.random() < share)
        ]

    return lose


def tap_gap(packets: Packets, rng: random.Random) -> Packets:
    """A full ring: 300 ms of nothing, in the middle."""
    begin = packets[0].time_ns + int((packets[-1].time_ns - packets[0].time_ns) * rng.uniform(0.4, 0.6))
    return [packet for packet in packets if not begin <= packet.time_ns < begin + 300 * MS]


def file_missing(packets: Packets, rng: random.Random) -> Packets:
    """Of a ring of files one in the middle was not kept: a tenth of the run."""
    lasts = packets[-1].time_ns - packets[0].time_ns
    begin = packets[0].time_ns + int(lasts * rng.uniform(0.3, 0.6))
    return [packet for packet in packets if not begin <= packet.time_ns < begin + lasts // 10]


def one_of_each(packets: Packets, rng: random.Random) -> Packets:
    """A broker that leaves out what it takes for copies: segments with numbers that it has seen."""
    own, seen, found = sender_of(packets), set[int](), list[RawPacket]()
    for packet in packets:
        is_copy = packet.source == own and packet.payload > 0 and packet.seq in seen
        if packet.source == own and packet.payload > 0:
            seen.add(packet.seq)
        if not is_copy:
            found.append(packet)
    return found


def seen_twice(packets: Packets, rng: random.Random) -> Packets:
    """A mirror of both directions of a port: every packet, and again some microseconds later."""
    both = [replace(packet, time_ns=packet.time_ns + 2_000 + rng.randrange(3_000)) for packet in packets]
    return sorted([*packets, *both], key=lambda packet: packet.time_ns)


def some_twice(packets: Packets, rng: random.Random) -> Packets:
    """In the order of capture, also across a step of the clock."""
    found: Packets = []
    copy: RawPacket | None = None
    for packet in packets:
        if copy is not None and not 0 <= copy.time_ns - packet.time_ns <= 3_000:
            found.append(copy)
            copy = None
        found.append(packet)
        if copy is None and rng.random() < 0.01:
            copy = replace(packet, time_ns=packet.time_ns + 3_000)
    return found


def tap_reorders(packets: Packets, rng: random.Random) -> Packets:
    """Two queues of a card: one packet in a hundred is written after its successor, if that came within 100 us."""
    found = list(packets)
    for index in range(len(found) - 1):
        this, after = found[index], found[index + 1]
        if after.time_ns - this.time_ns < MS // 10 and rng.random() < 0.01 and not this.flags & SYN:
            found[index] = replace(after, time_ns=this.time_ns)
            found[index + 1] = replace(this, time_ns=after.time_ns)
    return found


def bare_acks_stripped(packets: Packets, rng: random.Random) -> Packets:
    """ACKs without data left out, but for one in twenty, as a request would carry it."""
    own, bare = sender_of(packets), 0
    found = []
    for packet in packets:
        is_bare = packet.source != own and packet.is_bare
        bare += is_bare
        if not is_bare or bare % 20 == 0:
            found.append(packet)
    return found


def one_way(*, data: bool) -> Kind:
    def half(packets: Packets, rng: random.Random) -> Packets:
        own = sender_of(packets)
        return [packet for packet in packets if (packet.source == own) == data]

    return half
