"""The network around a tap: translated addresses, VLANs, numbers of another kind."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.degrade.records import ACK, SACK, Packets, RawPacket, options_of, sender_of


def nat(packets: Packets, rng: random.Random) -> Packets:
    """Another address and port for one end, everywhere."""
    own = sender_of(packets)
    port = rng.randrange(20_000, 60_000).to_bytes(2)

    def translated(packet: RawPacket) -> RawPacket:
        is_six, is_own = packet.data[packet.ip] >> 4 == 6, packet.source == own
        if not is_own and packet.target != own:
            # Another connection's.
            return packet
        at = packet.ip + (8 if is_six else 12) + (0 if is_own else 16 if is_six else 4)
        moved = packet.with_bytes(at + (12 if is_six else 0), bytes([192, 0, 2, 7]))
        return moved.with_bytes(moved.tcp + (0 if is_own else 2), port)

    return [translated(packet) for packet in packets]


def bound_anew(packets: Packets, rng: random.Random) -> Packets:
    """A translator forgets its binding in the middle of the run: one end has another port from then on."""
    middle, port = len(packets) // 2, rng.randrange(20_000, 60_000).to_bytes(2)
    own = sender_of(packets)

    def bound(packet: RawPacket) -> RawPacket:
        if own not in (packet.source, packet.target):
            return packet
        return packet.with_bytes(packet.tcp + (0 if packet.source == own else 2), port)

    return [*packets[:middle], *map(bound, packets[middle:])]


def _tagged(packet: RawPacket, vlan: int) -> RawPacket:
    kind = b"\x86\xdd" if packet.data[packet.ip] >> 4 == 6 else b"\x08\x00"
    head = bytes(12) + b"\x81\x00" + vlan.to_bytes(2) + kind
    return replace(packet, data=head + packet.data[packet.ip :], length=packet.length - packet.ip + 18, ip=18)


def vlan(packets: Packets, rng: random.Random) -> Packets:
    return [_tagged(packet, 42) for packet in packets]


def two_vlans(packets: Packets, rng: random.Random) -> Packets:
    """A mirror before and behind a router: each packet on one VLAN, and 20 to 40 us later on another."""
    both = [_tagged(packet, 42) for packet in packets]
    both += [
        replace(_tagged(packet, 43), time_ns=packet.time_ns + 20_000 + rng.randrange(20_000)) for packet in packets
    ]
    return sorted(both, key=lambda packet: packet.time_ns)


def ip_id_zero(packets: Packets, rng: random.Random) -> Packets:
    return [
        packet if packet.data[packet.ip] >> 4 == 6 else packet.with_bytes(packet.ip + 4, b"\0\0") for packet in packets
    ]


def sequence_wraps(packets: Packets, rng: random.Random) -> Packets:
    """The same with numbers that pass 2^32 in the middle of the run."""
    own = sender_of(packets)
    seqs = [packet.seq for packet in packets if packet.source == own and packet.payload > 0]
    shift = -seqs[len(seqs) // 2] % (1 << 32)

    def moved(packet: RawPacket) -> RawPacket:
        if packet.source == own:
            return packet.with_bytes(packet.tcp + 4, ((packet.seq + shift) % (1 << 32)).to_bytes(4))
        if packet.target != own:
            # Another connection's.
            return packet
        if packet.flags & ACK:
            packet = packet.with_bytes(packet.tcp + 8, ((packet.ack + shift) % (1 << 32)).to_bytes(4))
        for kind, at, size in options_of(packet):
            if kind == SACK:
                for edge in range(at + 2, min(at + size, len(packet.data) - 3), 4):
                    value = int.from_bytes(packet.data[edge : edge + 4]) + shift
                    packet = packet.with_bytes(edge, (value % (1 << 32)).to_bytes(4))
        return packet

    return [moved(packet) for packet in packets]
