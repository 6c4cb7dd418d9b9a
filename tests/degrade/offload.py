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
                is_next = (head.seq + head.payload) % (1 << 32) == packet.seq
                if is_next and packet.time_ns - begun_ns <= within_ns and count < most and head.flags == packet.flags:
                    length = head.length + packet.payload
                    found[last] = with_length(replace(head, length=length))
                    count += 1
                    continue
            last, begun_ns, count = len(found), packet.time_ns, 1
        found.append(packet)
    return found


def with_length(packet: RawPacket) -> RawPacket:
    """The IP header's length from the record's."""
    if packet.data[packet.ip] >> 4 == 6:
        return packet.with_bytes(packet.ip + 4, (packet.length - packet.ip - 40).to_bytes(2))
    return packet.with_bytes(packet.ip + 2, (packet.length - packet.ip).to_bytes(2))


def gso_at_sender(packets: Packets, rng: random.Random) -> Packets:
    return _merged(packets, within_ns=MS // 10, most=16)


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
