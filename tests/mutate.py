"""A capture's packets and bytes damaged at random, seeded: what no tap, path or sender would leave."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from tests.degrade import MS, SECOND, Packets, RawPacket

WRAP = 1 << 32
HOUR = 3600 * SECOND


def _some(packets: Packets, rng: random.Random, share: float, change: Callable[[RawPacket], RawPacket]) -> Packets:
    return [change(packet) if rng.random() < share else packet for packet in packets]


def flipped_headers(packets: Packets, rng: random.Random) -> Packets:
    """One bit of an IP or TCP header in every fiftieth packet."""

    def flip(packet: RawPacket) -> RawPacket:
        at = rng.randrange(packet.ip, max(len(packet.data), packet.ip + 1))
        return packet.damaged(at, bytes([packet.data[at] ^ 1 << rng.randrange(8)]))

    return _some(packets, rng, 0.02, flip)


def wild_sequence(packets: Packets, rng: random.Random) -> Packets:
    return _some(packets, rng, 0.01, lambda each: each.with_bytes(each.tcp + 4, rng.randrange(WRAP).to_bytes(4)))


def wild_acks(packets: Packets, rng: random.Random) -> Packets:
    return _some(packets, rng, 0.01, lambda each: each.with_bytes(each.tcp + 8, rng.randrange(WRAP).to_bytes(4)))


def wild_windows(packets: Packets, rng: random.Random) -> Packets:
    """Every tenth window is any, one in two of them closed."""

    def window(packet: RawPacket) -> RawPacket:
        return packet.with_bytes(packet.tcp + 14, rng.choice((0, rng.randrange(1 << 16))).to_bytes(2))

    return _some(packets, rng, 0.1, window)


def wild_options(packets: Packets, rng: random.Random) -> Packets:
    def scramble(packet: RawPacket) -> RawPacket:
        return packet.with_bytes(packet.tcp + 20, rng.randbytes(max(packet.header - 20, 0)))

    return _some(packets, rng, 0.05, scramble)


def wild_flags(packets: Packets, rng: random.Random) -> Packets:
    return _some(packets, rng, 0.02, lambda each: each.with_bytes(each.tcp + 13, bytes([rng.randrange(64)])))


def wild_stamps(packets: Packets, rng: random.Random) -> Packets:
    """One stamp in a hundred is up to an hour off."""
    return _some(
        packets, rng, 0.01, lambda each: replace(each, time_ns=max(each.time_ns + rng.randrange(-HOUR, HOUR), 0))
    )


def one_stamp(packets: Packets, rng: random.Random) -> Packets:
    return [replace(packet, time_ns=packets[0].time_ns) for packet in packets]


def backwards(packets: Packets, rng: random.Random) -> Packets:
    """The file from its end, the stamps as they were."""
    return packets[::-1]


def shuffled(packets: Packets, rng: random.Random) -> Packets:
    """Blocks of sixteen packets in any order, stamps and all."""
    found: Packets = []
    for first in range(0, len(packets), 16):
        block = packets[first : first + 16]
        found += rng.sample(block, len(block))
    return found


def thinned(packets: Packets, rng: random.Random) -> Packets:
    """Two of three packets are gone, both SYNs perhaps among them."""
    return [packet for packet in packets if rng.random() < 1 / 3]


def repeated(packets: Packets, rng: random.Random) -> Packets:
    """A twentieth of the packets again, up to half a minute later."""
    again = [
        replace(packet, time_ns=packet.time_ns + rng.randrange(30 * SECOND))
        for packet in packets
        if rng.random() < 0.05
    ]
    return sorted([*packets, *again], key=lambda packet: packet.time_ns)


def two_halves(packets: Packets, rng: random.Random) -> Packets:
    """The middle third is gone, and what follows comes at once."""
    third = len(packets) // 3
    gap = packets[2 * third].time_ns - packets[third].time_ns - MS
    return packets[:third] + [replace(packet, time_ns=packet.time_ns - gap) for packet in packets[2 * third :]]


def spliced(packets: Packets, rng: random.Random) -> Packets:
    """The run, and a part of it again ten seconds later with other numbers: the same ports used again, unannounced."""
    begin = len(packets) // 2
    shift = packets[-1].time_ns - packets[begin].time_ns + 10 * SECOND

    def moved(packet: RawPacket) -> RawPacket:
        seq = packet.with_bytes(packet.tcp + 4, ((packet.seq + 0x1234567) % WRAP).to_bytes(4))
        return replace(seq, time_ns=packet.time_ns + shift)

    return packets + [moved(packet) for packet in packets[begin:]]


MUTATIONS: dict[str, Callable[[Packets, random.Random], Packets]] = {
    "flipped headers": flipped_headers,
    "wild sequence": wild_sequence,
    "wild ACKs": wild_acks,
    "wild windows": wild_windows,
    "wild options": wild_options,
    "wild flags": wild_flags,
    "wild stamps": wild_stamps,
    "one stamp": one_stamp,
    "backwards": backwards,
    "shuffled": shuffled,
    "thinned": thinned,
    "repeated": repeated,
    "two halves": two_halves,
    "spliced": spliced,
}


def mutate(packets: Packets, *, kind: str, seed: int) -> Packets:
    """A capture's packets, damaged."""
    return MUTATIONS[kind](packets, random.Random(f"{kind} {seed}"))


def damaged(data: bytes, *, seed: int) -> bytes:
    """A file with bytes changed, cut out and put in behind its header."""
    rng = random.Random(f"bytes {seed}")
    found = bytearray(data)
    for _ in range(1 + len(found) // 20_000):
        at = rng.randrange(24, len(found))
        size = rng.choice((1, 1, 2, 4, 40))
        found[at : at + size] = rng.choice((rng.randbytes(size), b"", rng.randbytes(2 * size)))
    return bytes(found)
