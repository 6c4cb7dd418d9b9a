"""A capture's records as they lie in a file, read, changed and written: bytes, and where their headers begin."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from tcptrace_lab import _core

MS = 1_000_000
SECOND = 1_000_000_000
ETHERNET, RAW = 1, 101
END_OF_OPTIONS, NOP, MSS, WSCALE, SACK_PERMITTED, SACK, TIMESTAMPS = 0, 1, 2, 3, 4, 5, 8
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16


@dataclass(frozen=True, slots=True)
class RawPacket:
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

    def with_bytes(self, at: int, new: bytes) -> RawPacket:
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

    def damaged(self, at: int, new: bytes) -> RawPacket:
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


Packets = list[RawPacket]
Kind = Callable[[Packets, random.Random], Packets]


def read_packets(path: str | Path) -> tuple[int, Packets]:
    """The link type and the TCP packets of a capture."""
    link, found = RAW, []
    for time_ns, link_type, length, data, ends in _core.Records(str(path)):
        if ends is not None:
            link = link_type
            found.append(RawPacket(time_ns, bytes(data), length, 14 if link_type == ETHERNET else 0))
    return link, found


def write_packets(path: str | Path, link: int, packets: Iterable[RawPacket]) -> None:
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


def options_of(packet: RawPacket) -> list[tuple[int, int, int]]:
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


def without(packet: RawPacket, *kinds: int) -> RawPacket:
    """Options overwritten with NOPs, as a middlebox or an anonymiser does."""
    for kind, at, size in options_of(packet):
        if kind in kinds:
            packet = packet.with_bytes(at, bytes([NOP]) * size)
    return packet
