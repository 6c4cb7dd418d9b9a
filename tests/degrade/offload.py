"""Segments and ACKs merged by a network card or a driver."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.degrade.records import FIN, MS, RST, SACK, SYN, Packets, RawPacket, options_of, sender_of


def _merged(packets: Packets, *, within_ns: int, most: int) -> Packets:
    """Data segments that follow each other in sequence and time as one, as TSO's senders and GRO's receivers show."""
    own, found = sender_of(packets), []
    last, begun_ns, count = -1, 0, 0
    for packet in packets:
        if packet.source == own and packet.payload > 0 and not packet.flags & (SYN | FIN | RST):
            if last >= 0:
                head = found[last]
                is_next = (head.seq + head.payload) % (1 << 32) == packet.seq and _fits(head, packet)
                if is_next and packet.time_ns - begun_ns <= within_ns and count < most and head.flags == packet.flags:
                    length = head.length + packet.payload
                    found[last] = with_length(replace(head, length=length))
                    count += 1
                    continue
            last, begun_ns, count = len(found), packet.time_ns, 1
        found.append(packet)
    return found


def _fits(head: RawPacket, packet: RawPacket) -> bool:
    """Whether both together have a length that IP can say."""
    return head.length - head.ip + packet.payload < 1 << 16


def with_length(packet: RawPacket) -> RawPacket:
    """The IP header's length from the record's."""
    if packet.data[packet.ip] >> 4 == 6:
        return packet.with_bytes(packet.ip + 4, (packet.length - packet.ip - 40).to_bytes(2))
    return packet.with_bytes(packet.ip + 2, (packet.length - packet.ip).to_bytes(2))


def gso_at_sender(packets: Packets, rng: random.Random) -> Packets:
    return _merged(packets, within_ns=MS // 10, most=16)


def gro_stamped_last(packets: Packets, rng: random.Random) -> Packets:
    """A host between that merges what comes within 200 us (GRO), and stamps it when the last has come."""
    own, found = sender_of(packets), list[RawPacket]()
    held: RawPacket | None = None
    begun_ns = count = 0
    for packet in packets:
        is_own = packet.source == own
        is_plain = is_own and packet.payload > 0 and not packet.flags & (SYN | FIN | RST)
        if held is not None and is_plain:
            is_next = (held.seq + held.payload) % (1 << 32) == packet.seq and held.flags == packet.flags
            is_next = is_next and _fits(held, packet)
            if is_next and packet.time_ns - begun_ns <= MS // 5 and count < 8:
                longer = replace(held, length=held.length + packet.payload, time_ns=packet.time_ns)
                held, count = with_length(longer), count + 1
                continue
        if held is not None and is_own:
            found.append(held)
            held = None
        if is_plain:
            held, begun_ns, count = packet, packet.time_ns, 1
        else:
            found.append(packet)
    return sorted(found if held is None else [*found, held], key=lambda packet: packet.time_ns)


def super_segments_cut(packets: Packets, rng: random.Random) -> Packets:
    """GSO's, half of them cut in two at a packet's end: by a window with room for a part, or a card's limit."""
    full, found = max(packet.payload for packet in packets), list[RawPacket]()
    for packet in gso_at_sender(packets, rng):
        is_cut = packet.payload > full and rng.random() < 0.5
        found += halves(packet, full * rng.randrange(1, -(-packet.payload // full))) if is_cut else [packet]
    return sorted(found, key=lambda packet: packet.time_ns)


def halves(packet: RawPacket, first: int) -> list[RawPacket]:
    """A segment as two: of so many bytes, and the rest."""
    rest = packet.payload - first
    if first <= 0 or rest <= 0 or packet.flags & (SYN | FIN | RST):
        return [packet]
    head = packet.tcp + packet.header
    one = with_length(replace(packet, data=packet.data[: head + first], length=head + first))
    two = packet.with_bytes(packet.tcp + 4, ((packet.seq + first) % (1 << 32)).to_bytes(4))
    two = replace(two, data=two.data[:head] + packet.data[head + first :], length=head + rest)
    return [one, with_length(replace(two, time_ns=packet.time_ns + 1_000))]


def acks_merged(packets: Packets, rng: random.Random) -> Packets:
    """Trains of ACKs within 200 us reach the tap as their last one (LRO of a card, GRO of a phone)."""
    own, found = sender_of(packets), []
    held: RawPacket | None = None
    for packet in packets:
        plain = packet.source != own and packet.is_bare and not any(kind == SACK for kind, _, _ in options_of(packet))
        if held is not None and not (plain and packet.time_ns - held.time_ns <= MS // 5 and packet.ack != held.ack):
            found.append(held)
            held = None
        if plain:
            held = packet
        else:
            found.append(packet)
    return found if held is None else [*found, held]
