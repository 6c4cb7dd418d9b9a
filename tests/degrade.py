"""A capture made worse, as captures come: the degrader of the tests, seeded, over records of a pcap.

Every kind takes the packets of a good capture in their order and gives those that a worse tap, clock, disk, card or
middlebox would have left. What the kind leaves of the run is its `Part`: the same run, or a piece of it.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from tcptrace_lab import _core

MS = 1_000_000
SECOND = 1_000_000_000
ETHERNET, RAW = 1, 101
# What is added to a run answers later than any of its own round trips.
ANSWER_NS = 2 * SECOND
END_OF_OPTIONS, NOP, MSS, WSCALE, SACK_PERMITTED, SACK, TIMESTAMPS = 0, 1, 2, 3, 4, 5, 8
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16


@dataclass(frozen=True, slots=True)
class Packet:
    """One record; `length` is what it was on the wire, `ip` where its IP header begins."""

    time_ns: int
    data: bytes
    length: int
    ip: int = 0

    @property
    def tcp(self) -> int:
        """Where the TCP header begins (no IPv6 extension headers, no fragments: our own captures have none)."""
        return self.ip + (40 if self.data[self.ip] >> 4 == 6 else 4 * (self.data[self.ip] & 15))

    @property
    def seq(self) -> int:
        return int.from_bytes(self.data[self.tcp + 4 : self.tcp + 8])

    @property
    def ack(self) -> int:
        return int.from_bytes(self.data[self.tcp + 8 : self.tcp + 12])

    @property
    def flags(self) -> int:
        return self.data[self.tcp + 13]

    @property
    def header(self) -> int:
        """Bytes of the TCP header."""
        return 4 * (self.data[self.tcp + 12] >> 4)

    @property
    def payload(self) -> int:
        return self.length - self.tcp - self.header

    @property
    def source(self) -> bytes:
        """Address and port."""
        at, size = (self.ip + 8, 16) if self.data[self.ip] >> 4 == 6 else (self.ip + 12, 4)
        return self.data[at : at + size] + self.data[self.tcp : self.tcp + 2]

    @property
    def target(self) -> bytes:
        """Address and port."""
        at, size = (self.ip + 24, 16) if self.data[self.ip] >> 4 == 6 else (self.ip + 16, 4)
        return self.data[at : at + size] + self.data[self.tcp + 2 : self.tcp + 4]

    @property
    def is_bare(self) -> bool:
        """An ACK and nothing else."""
        return self.payload == 0 and self.flags & (SYN | FIN | RST) == 0

    def with_bytes(self, at: int, new: bytes) -> Packet:
        """The same with other bytes at a place (those that were captured), its checksums no more wrong than before."""
        room = new[: max(len(self.data) - at, 0)]
        data = bytearray(self.damaged(at, new).data)
        spans = [(self.tcp, len(data), self.tcp + 16)]
        if self.data[self.ip] >> 4 == 4:
            # Addresses count in both (RFC 9293 section 3.1).
            spans += ((self.ip, self.tcp, self.ip + 10), (self.ip + 12, self.ip + 20, self.tcp + 16))
        else:
            spans.append((self.ip + 8, self.ip + 40, self.tcp + 16))
        for begin, end, place in spans:
            _adjust(data, self.data, (max(at, begin), min(at + len(room), end)), base=begin, place=place)
        return replace(self, data=bytes(data))

    def damaged(self, at: int, new: bytes) -> Packet:
        """The same with other bytes at a place, and its checksums as they are."""
        room = new[: max(len(self.data) - at, 0)]
        return replace(self, data=self.data[:at] + room + self.data[at + len(room) :])


def _adjust(data: bytearray, before: bytes, changed: tuple[int, int], *, base: int, place: int) -> None:
    """RFC 1624: a checksum at `place` after some bytes of what it covers (from `base`) have changed."""
    if changed[0] >= changed[1] or place + 2 > len(data):
        return
    begin = base + (changed[0] - base) // 2 * 2
    size = (changed[1] - begin + 1) // 2 * 2

    def words(octets: bytes | bytearray) -> int:
        part = bytes(octets[begin : begin + size]).ljust(size, b"\0")
        return sum(int.from_bytes(part[index : index + 2]) for index in range(0, size, 2))

    told = int.from_bytes(data[place : place + 2])
    found = (~told & 0xFFFF) + words(data) - words(before)
    data[place : place + 2] = (~(found % 0xFFFF) & 0xFFFF).to_bytes(2)


Packets = list[Packet]


def read_packets(path: str | Path) -> tuple[int, Packets]:
    """The link type and the TCP packets of a capture."""
    link, found = RAW, []
    for time_ns, link_type, length, data, ends in _core.Records(str(path)):
        if ends is not None:
            link = link_type
            found.append(Packet(time_ns, bytes(data), length, 14 if link_type == ETHERNET else 0))
    return link, found


def write_packets(path: str | Path, link: int, packets: Iterable[Packet]) -> None:
    """A pcap with nanoseconds."""
    parts = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, link)]
    for packet in packets:
        seconds, rest = divmod(packet.time_ns, SECOND)
        parts += (struct.pack("<IIII", seconds, rest, len(packet.data), packet.length), packet.data)
    Path(path).write_bytes(b"".join(parts))


def sender_of(packets: Packets) -> bytes:
    """The end that sent more payload."""
    sums: dict[bytes, int] = {}
    for packet in packets:
        sums[packet.source] = sums.get(packet.source, 0) + max(packet.payload, 0)
    return max(sums, key=lambda end: sums[end])


def options_of(packet: Packet) -> list[tuple[int, int, int]]:
    """(kind, where it begins, its length) of every option."""
    at, end, found = packet.tcp + 20, packet.tcp + packet.header, []
    while at < min(end, len(packet.data)):
        kind = packet.data[at]
        if kind == END_OF_OPTIONS:
            break
        size = 1 if kind == NOP or at + 1 >= len(packet.data) else max(packet.data[at + 1], 2)
        found.append((kind, at, size))
        at += size
    return found


def _without(packet: Packet, *kinds: int) -> Packet:
    """Options overwritten with NOPs, as a middlebox or an anonymiser does."""
    for kind, at, size in options_of(packet):
        if kind in kinds:
            packet = packet.with_bytes(at, bytes([NOP]) * size)
    return packet


# --- what the start and the options lose


def no_syn(packets: Packets, rng: random.Random) -> Packets:
    return [packet for packet in packets if not packet.flags & SYN]


def only_syn(packets: Packets, rng: random.Random) -> Packets:
    return [packet for packet in packets if packet.flags & (SYN | ACK) != SYN | ACK]


def only_syn_ack(packets: Packets, rng: random.Random) -> Packets:
    return [packet for packet in packets if packet.flags & (SYN | ACK) != SYN]


def _snaplen(size: int) -> Kind:
    # The records begin at the IP header: a card's would have its 14 bytes before.
    def cut(packets: Packets, rng: random.Random) -> Packets:
        return [replace(packet, data=packet.data[: size - 14 + packet.ip]) for packet in packets]

    return cut


def _stripped(*kinds: int) -> Kind:
    def strip(packets: Packets, rng: random.Random) -> Packets:
        return [_without(packet, *kinds) for packet in packets]

    return strip


def wscale_hidden(packets: Packets, rng: random.Random) -> Packets:
    """The SYNs cut before their options, by a tap that keeps 40 bytes of them."""
    return [
        replace(packet, data=packet.data[: packet.tcp + 20]) if packet.flags & SYN else packet for packet in packets
    ]


def mss_rewritten(packets: Packets, rng: random.Random) -> Packets:
    """A middlebox lowers the option of the SYNs where the tap is, and another restores it: it binds nobody."""

    def low(packet: Packet) -> Packet:
        for kind, at, _ in options_of(packet) if packet.flags & SYN else ():
            packet = packet.with_bytes(at + 2, (536).to_bytes(2)) if kind == MSS else packet
        return packet

    return [low(packet) for packet in packets]


# --- clocks


def _ticks(tick_ns: int) -> Kind:
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


# --- where it begins and ends


def one_way_at_last(packets: Packets, rng: random.Random) -> Packets:
    """The route of the ACKs changes in the middle of the run: they pass the tap no more."""
    own, middle = sender_of(packets), len(packets) // 2
    return [packet for at, packet in enumerate(packets) if at < middle or packet.source == own]


def one_way_at_first(packets: Packets, rng: random.Random) -> Packets:
    """The route of the data passes the tap from the middle on; the handshake did."""
    own, middle = sender_of(packets), len(packets) // 2
    return [packet for at, packet in enumerate(packets) if at >= middle or packet.source != own or packet.flags & SYN]


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


def _last_bare(packets: Packets, own: bytes) -> Packet:
    """The sender's last segment without data; where it sent none, its last without its data."""
    every = [packet for packet in packets if packet.source == own]
    last = max([packet for packet in every if packet.is_bare] or every, key=lambda one: one.time_ns)
    head = last.tcp + last.header
    return _with_length(replace(last, data=last.data[:head], length=head))


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


def _all_told(packets: Packets, own: bytes) -> Packet:
    """The last ACK, as it would be once all data has arrived: windows close behind it."""
    last = _without([packet for packet in packets if packet.source != own][-1], SACK)
    data = [packet for packet in packets if packet.source == own and packet.payload > 0]
    ends = [(packet.seq + packet.payload - last.ack) % (1 << 32) for packet in data]
    ahead = max((end for end in ends if end < 1 << 31), default=0)
    return last.with_bytes(last.tcp + 8, ((last.ack + ahead) % (1 << 32)).to_bytes(4))


# --- offload


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
                    found[last] = _with_length(replace(head, length=length))
                    count += 1
                    continue
            last, begun_ns, count = len(found), packet.time_ns, 1
        found.append(packet)
    return found


def _with_length(packet: Packet) -> Packet:
    """The IP header's length from the record's."""
    if packet.data[packet.ip] >> 4 == 6:
        return packet.with_bytes(packet.ip + 4, (packet.length - packet.ip - 40).to_bytes(2))
    return packet.with_bytes(packet.ip + 2, (packet.length - packet.ip).to_bytes(2))


def gso_at_sender(packets: Packets, rng: random.Random) -> Packets:
    return _merged(packets, within_ns=MS // 10, most=16)


def acks_merged(packets: Packets, rng: random.Random) -> Packets:
    """Trains of ACKs within 200 us reach the tap as their last one (LRO of a card, GRO of a phone)."""
    own, found = sender_of(packets), []
    held: Packet | None = None
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


# --- the tap


def _tap_loss(share: float, *, data: bool, acks: bool) -> Kind:
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


def one_of_each(packets: Packets, rng: random.Random) -> Packets:
    """A broker that leaves out what it takes for copies: segments with numbers that it has seen."""
    own, seen, found = sender_of(packets), set[int](), list[Packet]()
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
    copy: Packet | None = None
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


def _one_way(*, data: bool) -> Kind:
    def half(packets: Packets, rng: random.Random) -> Packets:
        own = sender_of(packets)
        return [packet for packet in packets if (packet.source == own) == data]

    return half


# --- the network around it


def nat(packets: Packets, rng: random.Random) -> Packets:
    """Another address and port for one end, everywhere."""
    own = sender_of(packets)
    port = rng.randrange(20_000, 60_000).to_bytes(2)

    def translated(packet: Packet) -> Packet:
        is_six, is_own = packet.data[packet.ip] >> 4 == 6, packet.source == own
        if not is_own and packet.target != own:
            # Another connection's.
            return packet
        at = packet.ip + (8 if is_six else 12) + (0 if is_own else 16 if is_six else 4)
        moved = packet.with_bytes(at + (12 if is_six else 0), bytes([192, 0, 2, 7]))
        return moved.with_bytes(moved.tcp + (0 if is_own else 2), port)

    return [translated(packet) for packet in packets]


def _tagged(packet: Packet, vlan: int) -> Packet:
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

    def moved(packet: Packet) -> Packet:
        if packet.source == own:
            return packet.with_bytes(packet.tcp + 4, ((packet.seq + shift) % (1 << 32)).to_bytes(4))
        if packet.flags & ACK:
            packet = packet.with_bytes(packet.tcp + 8, ((packet.ack + shift) % (1 << 32)).to_bytes(4))
        for kind, at, size in options_of(packet):
            if kind == SACK:
                for edge in range(at + 2, min(at + size, len(packet.data) - 3), 4):
                    value = int.from_bytes(packet.data[edge : edge + 4]) + shift
                    packet = packet.with_bytes(edge, (value % (1 << 32)).to_bytes(4))
        return packet

    return [moved(packet) for packet in packets]


# --- all of them

Kind = Callable[[Packets, random.Random], Packets]


@dataclass(frozen=True, kw_only=True)
class Degradation:
    """`keeps`: whole (the run is all there), a piece of it, longer than it was, or of two kinds "longer piece".

    `tells`: what regime and control need is still there."""

    change: Kind
    keeps: str = "whole"
    tells: bool = False
    link: int | None = field(default=None)


def _two(first: Degradation, second: Degradation) -> Degradation:
    keeps = " ".join(sorted({first.keeps, second.keeps} - {"whole"})) or "whole"

    def both(packets: Packets, rng: random.Random) -> Packets:
        return second.change(first.change(packets, rng), rng)

    return Degradation(change=both, keeps=keeps, link=second.link or first.link)


ONES: dict[str, Degradation] = {
    "no SYN": Degradation(change=no_syn, tells=True),
    "only the SYN": Degradation(change=only_syn),
    "only the SYN-ACK": Degradation(change=only_syn_ack),
    "snaplen 68": Degradation(change=_snaplen(68 + 14), tells=True),
    "snaplen 60": Degradation(change=_snaplen(60 + 14)),
    "snaplen 54": Degradation(change=_snaplen(54 + 14)),
    "no option captured": Degradation(change=_snaplen(54)),
    "timestamps stripped": Degradation(change=_stripped(TIMESTAMPS), tells=True),
    "SACK stripped": Degradation(change=_stripped(SACK, SACK_PERMITTED)),
    "SACK blocks stripped": Degradation(change=_stripped(SACK)),
    "all options stripped": Degradation(change=_stripped(MSS, WSCALE, SACK, SACK_PERMITTED, TIMESTAMPS)),
    "window scale stripped": Degradation(change=_stripped(WSCALE)),
    "window scale cut": Degradation(change=wscale_hidden),
    "MSS rewritten": Degradation(change=mss_rewritten),
    "clock of 1 ms": Degradation(change=_ticks(MS)),
    "clock of 4 ms": Degradation(change=_ticks(4 * MS)),
    "clock of 10 ms": Degradation(change=_ticks(10 * MS)),
    "clock of 15.6 ms": Degradation(change=_ticks(15_600_000)),
    "clock of 1 s": Degradation(change=_ticks(SECOND)),
    "two clocks": Degradation(change=two_clocks),
    "stamped early": Degradation(change=stamped_early),
    "written late": Degradation(change=written_late),
    "clock set forward": Degradation(change=clock_set_forward),
    "slewed clock": Degradation(change=slewed_clock),
    "stamped by polls": Degradation(change=stamped_by_polls),
    "jittered clock": Degradation(change=jittered_clock),
    "clock steps back": Degradation(change=clock_steps_back),
    "interrupt batches": Degradation(change=interrupt_batches),
    "begins in avoidance": Degradation(change=begins_in_avoidance, keeps="piece", tells=True),
    "begins in a recovery": Degradation(change=begins_in_recovery, keeps="piece"),
    "one way at last": Degradation(change=one_way_at_last),
    "one way at first": Degradation(change=one_way_at_first),
    "ends early": Degradation(change=ends_early, keeps="piece"),
    "ends in a recovery": Degradation(change=ends_in_recovery, keeps="piece"),
    "idle tail, keep-alives": Degradation(change=idle_tail),
    "zero-window stall": Degradation(change=zero_window_stall, keeps="longer"),
    "GSO at the sender": Degradation(change=gso_at_sender, tells=True),
    "ACK trains merged": Degradation(change=acks_merged, tells=True),
    "tap lost 0.1 % of data": Degradation(change=_tap_loss(0.001, data=True, acks=False), tells=True),
    "tap lost 0.1 % of ACKs": Degradation(change=_tap_loss(0.001, data=False, acks=True), tells=True),
    "tap lost 0.1 %": Degradation(change=_tap_loss(0.001, data=True, acks=True), tells=True),
    "tap lost 1 % of data": Degradation(change=_tap_loss(0.01, data=True, acks=False)),
    "tap lost 1 % of ACKs": Degradation(change=_tap_loss(0.01, data=False, acks=True)),
    "tap lost 1 %": Degradation(change=_tap_loss(0.01, data=True, acks=True)),
    "tap lost 5 %": Degradation(change=_tap_loss(0.05, data=True, acks=True)),
    "tap lost half of the ACKs": Degradation(change=_tap_loss(0.5, data=False, acks=True)),
    "bare ACKs stripped": Degradation(change=bare_acks_stripped),
    "tap lost 300 ms": Degradation(change=tap_gap),
    "no segment twice": Degradation(change=one_of_each),
    "seen twice": Degradation(change=seen_twice),
    "1 % seen twice": Degradation(change=some_twice),
    "tap reorders": Degradation(change=tap_reorders),
    "data only": Degradation(change=_one_way(data=True)),
    "ACKs only": Degradation(change=_one_way(data=False)),
    "NAT": Degradation(change=nat, tells=True),
    "VLAN": Degradation(change=vlan, link=ETHERNET),
    "the same on two VLANs": Degradation(change=two_vlans, link=ETHERNET),
    "IP identification 0": Degradation(change=ip_id_zero),
    "sequence numbers wrap": Degradation(change=sequence_wraps),
}

PAIRS = (
    ("no SYN", "tap lost 0.1 %"),
    ("no SYN", "clock of 1 ms"),
    ("timestamps stripped", "tap lost 1 %"),
    ("snaplen 68", "clock of 1 ms"),
    ("SACK stripped", "tap lost 0.1 %"),
    ("begins in avoidance", "GSO at the sender"),
    ("begins in a recovery", "no option captured"),
    ("ends early", "tap lost 1 % of ACKs"),
    ("tap reorders", "IP identification 0"),
    ("seen twice", "IP identification 0"),
    ("GSO at the sender", "interrupt batches"),
    ("idle tail, keep-alives", "no SYN"),
)

KINDS: dict[str, Degradation] = {
    **ONES,
    **{f"{first} + {second}": _two(ONES[first], ONES[second]) for first, second in PAIRS},
}


def chosen(kind: str) -> Degradation:
    """A kind by its name; any two at once by theirs, with " + " between."""
    if kind in KINDS:
        return KINDS[kind]
    first, second = kind.split(" + ")
    return _two(ONES[first], ONES[second])


def keeps_of(kind: str) -> str:
    """What of the run is left."""
    return chosen(kind).keeps


def degrade(link: int, packets: Packets, *, kind: str, seed: int) -> tuple[int, Packets]:
    """A capture's packets by one kind: link type and packets."""
    by = chosen(kind)
    return by.link or link, by.change(packets, random.Random(f"{kind} {seed}"))
