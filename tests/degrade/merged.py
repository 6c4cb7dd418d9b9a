"""Captures of several cards, threads or machines in one file: each direction, or each copy, with a time of its own."""

from __future__ import annotations

import random
from bisect import bisect_right
from dataclasses import replace
from itertools import pairwise

from tests.degrade.records import MS, SECOND, Packets, RawPacket, sender_of

ETHERNET_HEADER = 14


def _by_time(packets: Packets) -> Packets:
    return sorted(packets, key=lambda packet: packet.time_ns)


def _queued(packets: Packets, rng: random.Random, *, most_ns: int) -> Packets:
    """Each a random time later, in order: a buffer that is emptied now and then."""
    found, last = [], 0
    for packet in packets:
        last = max(last, packet.time_ns + rng.randrange(most_ns))
        found.append(replace(packet, time_ns=last))
    return found


def delayed_apart(packets: Packets, rng: random.Random) -> Packets:
    """A mirror that holds each direction in a buffer of its own: data for up to 1 ms, ACKs for up to 0.3 ms."""
    own = sender_of(packets)
    data, acks = ([each for each in packets if (each.source == own) == is_own] for is_own in (True, False))
    return _by_time(_queued(data, rng, most_ns=MS) + _queued(acks, rng, most_ns=3 * MS // 10))


def two_resolutions(packets: Packets, rng: random.Random) -> Packets:
    """Two interfaces in one pcapng: what arrives is stamped in whole milliseconds, what leaves in nanoseconds."""
    own = sender_of(packets)
    return _by_time(
        [packet if packet.source == own else replace(packet, time_ns=packet.time_ns // MS * MS) for packet in packets]
    )


def merged_by_tick(packets: Packets, rng: random.Random) -> Packets:
    """Two files of a millisecond's clock merged: within a tick first all of one direction, then all of the other."""
    own = sender_of(packets)
    coarse = [replace(packet, time_ns=packet.time_ns // MS * MS) for packet in packets]
    return sorted(coarse, key=lambda packet: (packet.time_ns, packet.source != own))


def shuffled_within_ticks(packets: Packets, rng: random.Random) -> Packets:
    """Stamps of whole milliseconds, and what has the same in any order: several readers, and a sort by stamps alone."""
    coarse = [replace(packet, time_ns=packet.time_ns // MS * MS) for packet in packets]
    return sorted(coarse, key=lambda packet: (packet.time_ns, rng.random()))


def drifting_clocks(packets: Packets, rng: random.Random) -> Packets:
    """Two machines' captures merged: what arrives is on a clock 50 millionths faster, right in the middle."""
    own, middle = sender_of(packets), packets[len(packets) // 2].time_ns
    return _by_time(
        [
            packet
            if packet.source == own
            else replace(packet, time_ns=packet.time_ns + (packet.time_ns - middle) // 20_000)
            for packet in packets
        ]
    )


def noisy_stamps(packets: Packets, rng: random.Random) -> Packets:
    """Each stamp off by a normal error of 50 us to 2 ms, in the order of capture."""
    sigma = 50_000 * 40 ** rng.random()
    return [replace(packet, time_ns=packet.time_ns + round(rng.gauss(0, sigma))) for packet in packets]


def noisy_and_sorted(packets: Packets, rng: random.Random) -> Packets:
    """The same, and put in the order of the stamps by who merged it."""
    return _by_time(noisy_stamps(packets, rng))


def reversed_within_ms(packets: Packets, rng: random.Random) -> Packets:
    """A reader that empties each millisecond's ring from its end: the last packet first, stamps as they were."""
    return sorted(packets, key=lambda packet: (packet.time_ns // MS, -packet.time_ns))


def tap_stalls(packets: Packets, rng: random.Random) -> Packets:
    """The capturing thread does not run for 20 to 80 ms, ten times: what came meanwhile is stamped when it wakes."""
    begin, last = packets[0].time_ns, packets[-1].time_ns
    stalls = sorted(rng.randrange(begin, last + 1) for _ in range(10))
    found, at, wakes, past = [], 0, 0, 0
    for packet in packets:
        while at < len(stalls) and stalls[at] <= packet.time_ns:
            wakes = max(wakes, stalls[at] + rng.randrange(20, 80) * MS)
            at += 1
        # Read out at some microseconds each.
        past = max(past + 2_000, wakes) if packet.time_ns < wakes or past + 2_000 > packet.time_ns else 0
        found.append(replace(packet, time_ns=max(packet.time_ns, past)))
    return found


def _framed(packet: RawPacket, card: int) -> RawPacket:
    kind = b"\x86\xdd" if packet.data[packet.ip] >> 4 == 6 else b"\x08\x00"
    head = bytes(11) + bytes([card]) + kind
    return replace(
        packet,
        data=head + packet.data[packet.ip :],
        length=packet.length - packet.ip + ETHERNET_HEADER,
        ip=ETHERNET_HEADER,
    )


def both_cards(packets: Packets, rng: random.Random) -> Packets:
    """A router's `-i any`: each packet as it comes in and, 50 to 400 us later, as it goes out, a hop fewer to live."""

    def hop(packet: RawPacket) -> RawPacket:
        at = packet.ip + (7 if packet.data[packet.ip] >> 4 == 6 else 8)
        return packet.with_bytes(at, bytes([max(packet.data[at] - 1, 1)]))

    own, copies, came_ns = sender_of(packets), list[RawPacket](), [packet.time_ns for packet in packets]
    # A receiver beside the tap answers at once what it heard behind the router: the data's copies come first.
    waits = not _sender_answers_at_once(packets, own)
    data_ns, copied_ns = [packets[0].time_ns], [packets[0].time_ns]
    for is_own in (True, False):
        last = 0
        for at, packet in enumerate(packets):
            if (packet.source == own) == is_own:
                if waits and not is_own:
                    came_ns[at] = max(came_ns[at], copied_ns[bisect_right(data_ns, packet.time_ns) - 1])
                last = max(last, came_ns[at] + rng.randrange(MS // 20, 2 * MS // 5))
                copies.append(replace(hop(_framed(packet, 2)), time_ns=last))
                if is_own:
                    data_ns.append(packet.time_ns)
                    copied_ns.append(last)
    firsts = [replace(_framed(packet, 1), time_ns=came) for packet, came in zip(packets, came_ns, strict=True)]
    return _by_time([*firsts, *copies])


def _sender_answers_at_once(packets: Packets, own: bytes) -> bool:
    """Whether it is the sender (else the receiver) whose packets follow the other side's at once."""
    soon = {True: 0, False: 0}
    for before, packet in pairwise(packets):
        is_own = packet.source == own
        is_answer = (before.source == own) != is_own and packet.time_ns - before.time_ns < MS // 20
        soon[is_own] += is_answer
    return soon[True] >= soon[False]


def read_in_batches(packets: Packets, rng: random.Random) -> Packets:
    """The host beside the tap is interrupted every 300 us: what has come is stamped 1 us apart, and its answers leave
    behind that, 5 to 30 us apart."""
    own = sender_of(packets)
    is_sender = _sender_answers_at_once(packets, own)
    found, came, answers = list[RawPacket](), list[RawPacket](), list[RawPacket]()
    until = 0

    def read() -> None:
        time_ns = until
        for packet in came:
            time_ns += 1_000
            found.append(replace(packet, time_ns=time_ns))
        for packet in answers:
            time_ns += rng.randrange(5_000, 30_000)
            found.append(replace(packet, time_ns=time_ns))
        came.clear()
        answers.clear()

    for packet in packets:
        if came and packet.time_ns > until:
            read()
        if (packet.source == own) == is_sender:
            (answers if came else found).append(packet)
        else:
            until = until if came else packet.time_ns + 3 * MS // 10
            came.append(packet)
    read()
    return _by_time(found)


def padded(packets: Packets, rng: random.Random) -> Packets:
    """Ethernet's least frame and a mirror's trailer: up to 20 bytes behind what the IP header says."""
    found = []
    for packet in packets:
        framed = _framed(packet, 1)
        more = max(60 - framed.length, 0) + rng.choice((0, 4, 20))
        room = bytes(more) if len(framed.data) == framed.length else b""
        found.append(replace(framed, data=framed.data + room, length=framed.length + more))
    return found


def bursts_lost(packets: Packets, rng: random.Random) -> Packets:
    """A ring that is full for a moment, eight times: some packets in a row, of both ways, at the most 1 % of all."""
    missing, most = set[int](), max(len(packets) // 800, 3)
    for _ in range(8):
        begin = rng.randrange(len(packets))
        missing.update(range(begin, begin + rng.randrange(2, most + 1)))
    return [packet for at, packet in enumerate(packets) if at not in missing]


def reused(packets: Packets, rng: random.Random) -> Packets:
    """The same two ports again after the run: another connection with other numbers, a third of the run long."""
    own, shifts = sender_of(packets), {True: rng.randrange(1 << 32), False: rng.randrange(1 << 32)}
    later = packets[-1].time_ns + 3 * SECOND - packets[0].time_ns

    def moved(packet: RawPacket) -> RawPacket:
        is_own = packet.source == own
        seq, ack = packet.seq + shifts[is_own], packet.ack + shifts[not is_own]
        packet = packet.with_bytes(packet.tcp + 4, (seq % (1 << 32)).to_bytes(4))
        packet = packet.with_bytes(packet.tcp + 8, (ack % (1 << 32)).to_bytes(4))
        return replace(packet, time_ns=packet.time_ns + later)

    return [*packets, *(moved(packet) for packet in packets[: len(packets) // 3])]
