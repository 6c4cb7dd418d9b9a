"""Where a capture begins and ends, and what stands still within."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.degrade.offload import with_length
from tests.degrade.records import FIN, MS, RST, SACK, SECOND, SYN, Packets, RawPacket, sender_of, without

# What is added to a run answers later than any of its own round trips.
ANSWER_NS = 2 * SECOND


def one_way_at_last(packets: Packets, rng: random.Random) -> Packets:
    """The route of the ACKs changes in the middle of the run: they pass the tap no more."""
    own, middle = sender_of(packets), len(packets) // 2
    return [packet for at, packet in enumerate(packets) if at < middle or packet.source == own]


def one_way_at_first(packets: Packets, rng: random.Random) -> Packets:
    """The route of the data passes the tap from the middle on; the handshake did."""
    own, middle = sender_of(packets), len(packets) // 2
    return [packet for at, packet in enumerate(packets) if at >= middle or packet.source != own or packet.flags & SYN]


def one_way_meanwhile(packets: Packets, rng: random.Random) -> Packets:
    """The route of the ACKs changes, and changes back: for a fifth of the run they pass elsewhere."""
    own, begin = sender_of(packets), int(len(packets) * rng.uniform(0.3, 0.5))
    there = range(begin, begin + len(packets) // 5)
    return [packet for at, packet in enumerate(packets) if at not in there or packet.source == own]


def first_again(packets: Packets, *, after: float) -> int:
    """The place of a retransmission in the later part of the run, or the part's begin."""
    own, top, begin = sender_of(packets), None, int(len(packets) * after)
    for index, packet in enumerate(packets):
        if packet.source != own or packet.payload <= 0:
            continue
        ahead = 1 if top is None else (packet.seq - top) % (1 << 32)
        if ahead >= 1 << 31 and index >= begin:
            return index
        top = packet.seq if ahead < 1 << 31 else top
    return begin


def begins_in_avoidance(packets: Packets, rng: random.Random) -> Packets:
    return packets[int(len(packets) * rng.uniform(0.3, 0.4)) :]


def begins_in_recovery(packets: Packets, rng: random.Random) -> Packets:
    return packets[first_again(packets, after=0.3) :]


def ends_early(packets: Packets, rng: random.Random) -> Packets:
    return packets[: int(len(packets) * rng.uniform(0.55, 0.7))]


def ends_in_recovery(packets: Packets, rng: random.Random) -> Packets:
    return packets[: first_again(packets, after=0.5) + 3]


def idle_tail(packets: Packets, rng: random.Random) -> Packets:
    """No FIN: a minute of keep-alives, ten seconds apart, and their answers."""
    own, body = sender_of(packets), [packet for packet in packets if not packet.flags & (FIN | RST)]
    sent = _last_bare(body, own)
    answer = [packet for packet in body if packet.source != own][-1]
    for count in range(1, 7):
        now = body[-1].time_ns + 10 * SECOND
        probe = sent.with_bytes(sent.tcp + 4, ((answer.ack - 1) % (1 << 32)).to_bytes(4))
        body += (replace(probe, time_ns=now), replace(answer, time_ns=now + ANSWER_NS + count))
    return body


def _last_bare(packets: Packets, own: bytes) -> RawPacket:
    """The sender's last segment without data; where it sent none, its last without its data."""
    every = [packet for packet in packets if packet.source == own]
    last = max([packet for packet in every if packet.is_bare] or every, key=lambda one: one.time_ns)
    head = last.tcp + last.header
    return with_length(replace(last, data=last.data[:head], length=head))


def zero_window_stall(packets: Packets, rng: random.Random) -> Packets:
    """All has arrived, and the receiver stops reading: twenty seconds of a closed window, probes, then it opens."""
    own, body = sender_of(packets), [packet for packet in packets if not packet.flags & (FIN | RST)]
    sent = _last_bare(body, own)
    full = [packet for packet in body if packet.source == own and packet.payload > 0][-1]
    answer = _all_told(body, own)
    closed = answer.with_bytes(answer.tcp + 14, b"\0\0")
    body.append(replace(closed, time_ns=body[-1].time_ns + ANSWER_NS))
    probe = sent.with_bytes(sent.tcp + 4, ((answer.ack - 1) % (1 << 32)).to_bytes(4))
    wait = SECOND
    for _ in range(4):
        now = body[-1].time_ns + wait
        body += (replace(probe, time_ns=now), replace(closed, time_ns=now + ANSWER_NS))
        wait *= 2
    now = body[-1].time_ns + SECOND
    again = full.with_bytes(full.tcp + 4, answer.ack.to_bytes(4))
    told = answer.with_bytes(answer.tcp + 8, ((answer.ack + full.payload) % (1 << 32)).to_bytes(4))
    body += (replace(answer, time_ns=now), replace(again, time_ns=now + MS // 10))
    body.append(replace(told, time_ns=now + ANSWER_NS + MS))
    return body


def _all_told(packets: Packets, own: bytes) -> RawPacket:
    """The last ACK, as it would be once all data has arrived: windows close behind it."""
    last = without([packet for packet in packets if packet.source != own][-1], SACK)
    data = [packet for packet in packets if packet.source == own and packet.payload > 0]
    ends = [(packet.seq + packet.payload - last.ack) % (1 << 32) for packet in data]
    ahead = max((end for end in ends if end < 1 << 31), default=0)
    return last.with_bytes(last.tcp + 8, ((last.ack + ahead) % (1 << 32)).to_bytes(4))
