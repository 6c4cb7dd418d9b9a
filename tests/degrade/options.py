"""What the start and the options lose."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.degrade.records import ACK, MSS, SYN, Kind, Packets, RawPacket, options_of, without


def no_syn(packets: Packets, rng: random.Random) -> Packets:
    return [packet for packet in packets if not packet.flags & SYN]


def only_syn(packets: Packets, rng: random.Random) -> Packets:
    return [packet for packet in packets if packet.flags & (SYN | ACK) != SYN | ACK]


def only_syn_ack(packets: Packets, rng: random.Random) -> Packets:
    return [packet for packet in packets if packet.flags & (SYN | ACK) != SYN]


def snaplen(size: int) -> Kind:
    # The records begin at the IP header: a card's would have its 14 bytes before.
    def cut(packets: Packets, rng: random.Random) -> Packets:
        return [replace(packet, data=packet.data[: size - 14 + packet.ip]) for packet in packets]

    return cut


def stripped(*kinds: int) -> Kind:
    def strip(packets: Packets, rng: random.Random) -> Packets:
        return [without(packet, *kinds) for packet in packets]

    return strip


def wscale_hidden(packets: Packets, rng: random.Random) -> Packets:
    """The SYNs cut before their options, by a tap that keeps 40 bytes of them."""
    return [
        replace(packet, data=packet.data[: packet.tcp + 20]) if packet.flags & SYN else packet for packet in packets
    ]


def with_mss(packets: Packets, size: int) -> Packets:
    """SYNs that allow segments of so many bytes, those that follow as they were."""

    def low(packet: RawPacket) -> RawPacket:
        for kind, at, _ in options_of(packet) if packet.flags & SYN else ():
            packet = packet.with_bytes(at + 2, size.to_bytes(2)) if kind == MSS else packet
        return packet

    return [low(packet) for packet in packets]


def mss_rewritten(packets: Packets, rng: random.Random) -> Packets:
    """A middlebox lowers the option of the SYNs where the tap is, and another restores it: it binds nobody."""
    return with_mss(packets, 536)
