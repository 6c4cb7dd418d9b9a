"""What boxes on the way do to packets before a tap sees them."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.degrade.offload import halves, with_length
from tests.degrade.records import (
    ACK,
    MS,
    RST,
    SACK,
    SYN,
    TIMESTAMPS,
    Kind,
    Packets,
    RawPacket,
    options_of,
    sender_of,
    without,
)


def ack_options_lost(packets: Packets, rng: random.Random) -> Packets:
    """A slicer that keeps no options of ACKs; the SYN-ACK's and the data's are there."""
    own = sender_of(packets)
    return [
        packet if packet.source == own or packet.flags & SYN else without(packet, SACK, TIMESTAMPS)
        for packet in packets
    ]


def snaplen_varies(packets: Packets, rng: random.Random) -> Packets:
    """A filter that keeps of each packet what it likes: 54, 68, 82 or all bytes of a frame with Ethernet's 14."""

    def cut(packet: RawPacket) -> RawPacket:
        size = rng.choice((54, 68, 82, 1 << 16)) - 14 + packet.ip
        return replace(packet, data=packet.data[:size])

    return [packet if packet.flags & SYN else cut(packet) for packet in packets]


def blocks_of_other_numbers(packets: Packets, rng: random.Random) -> Packets:
    """A firewall that randomises sequence numbers and leaves the SACK blocks as they were."""
    own, shift = sender_of(packets), rng.randrange(1 << 28, 1 << 32)

    def moved(packet: RawPacket) -> RawPacket:
        if packet.source == own:
            return packet.with_bytes(packet.tcp + 4, ((packet.seq + shift) % (1 << 32)).to_bytes(4))
        if packet.flags & ACK:
            return packet.with_bytes(packet.tcp + 8, ((packet.ack + shift) % (1 << 32)).to_bytes(4))
        return packet

    return [moved(packet) for packet in packets]


def thinned(most: int) -> Kind:
    """A modem that keeps of so many ACKs in a row the last (RFC 3449 section 5.2.1), none that repeats or has blocks.

    Behind the tap's place: the sender heard them all.
    """

    def thin(packets: Packets, rng: random.Random) -> Packets:
        own, found, held, count = sender_of(packets), list[RawPacket](), list[RawPacket](), 0
        for packet in packets:
            if packet.source == own:
                found.append(packet)
                continue
            is_plain = packet.is_bare and not any(kind == SACK for kind, _, _ in options_of(packet))
            is_next = bool(held) and packet.ack != held[0].ack and packet.time_ns - held[0].time_ns <= 5 * MS
            if not (is_plain and is_next and count < most):
                found += held
                count = 0
            if is_plain:
                held, count = [packet], count + 1
            else:
                found.append(packet)
                held = []
        return sorted([*found, *held], key=lambda packet: packet.time_ns)

    return thin


def acks_doubled(packets: Packets, rng: random.Random) -> Packets:
    """A path, or a tap behind two, that brings one ACK in a hundred again, 1 to 3 ms later."""
    own = sender_of(packets)
    again = [
        replace(packet, time_ns=packet.time_ns + rng.randrange(MS, 3 * MS))
        for packet in packets
        if packet.source != own and packet.is_bare and rng.random() < 0.01
    ]
    return sorted([*packets, *again], key=lambda packet: packet.time_ns)


def split_from_the_middle(packets: Packets, rng: random.Random) -> Packets:
    """From the middle on a tunnel lowers the path's MTU, and a box splits each segment in two."""
    own, middle, found = sender_of(packets), len(packets) // 2, list[RawPacket]()
    for at, packet in enumerate(packets):
        is_large = at >= middle and packet.source == own and packet.payload > 1000
        found += halves(packet, 1000) if is_large else [packet]
    return sorted(found, key=lambda packet: packet.time_ns)


def some_split(packets: Packets, rng: random.Random) -> Packets:
    """One segment in fifty as two of any sizes: a proxy, or a card that cuts super-segments at its buffers' ends."""
    own, found = sender_of(packets), list[RawPacket]()
    for packet in packets:
        is_cut = packet.source == own and packet.payload > 100 and rng.random() < 0.02
        found += halves(packet, rng.randrange(1, packet.payload)) if is_cut else [packet]
    return sorted(found, key=lambda packet: packet.time_ns)


def reset_forged(packets: Packets, rng: random.Random) -> Packets:
    """In the middle a box sends a reset with the right number to each end, and the hosts go on."""
    own, middle = sender_of(packets), len(packets) // 2
    found = packets[: middle + 1]
    for is_own in (True, False):
        last = [packet for packet in found if (packet.source == own) == is_own][-1]
        bare = _without_payload(last)
        seq = (last.seq + max(last.payload, 0)) % (1 << 32)
        bare = bare.with_bytes(bare.tcp + 4, seq.to_bytes(4)).with_bytes(bare.tcp + 13, bytes([RST | ACK]))
        found.append(replace(bare, time_ns=found[-1].time_ns + 1_000))
    return sorted([*found, *packets[middle + 1 :]], key=lambda packet: packet.time_ns)


def _without_payload(packet: RawPacket) -> RawPacket:
    head = packet.tcp + packet.header
    return with_length(replace(packet, data=packet.data[:head], length=head))


def marked(packets: Packets, rng: random.Random) -> Packets:
    """ECN's bits of the IP header set by who does not negotiate: all data capable, one packet in fifty marked."""
    own = sender_of(packets)

    def bits(packet: RawPacket) -> RawPacket:
        if packet.source != own or packet.payload <= 0 or packet.data[packet.ip] >> 4 == 6:
            return packet
        at = packet.ip + 1
        return packet.with_bytes(at, bytes([packet.data[at] & 0xFC | (3 if rng.random() < 0.02 else 2)]))

    return [bits(packet) for packet in packets]


def data_options_lost(packets: Packets, rng: random.Random) -> Packets:
    """The other way round: no option of what leaves, but for the SYN's."""
    own = sender_of(packets)
    return [
        packet if packet.source != own or packet.flags & SYN else without(packet, SACK, TIMESTAMPS)
        for packet in packets
    ]
