"""scapy as a reader: a list of scapy packets, or a file that scapy reads; and packets handed back to scapy.

The packets go to the core as bytes, so what a script has built or changed is followed as it would look on the wire.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, Literal

from tcptrace_lab import _core
from tcptrace_lab.errors import CaptureError

# Link types (LINKTYPE_ numbers) of scapy layers for which scapy's own table gives the number of another system.
LINK_TYPES = {"IP": 228, "IPv6": 229, "Ether": 1, "CookedLinux": 113, "CookedLinuxV2": 276}

GZIP = b"\x1f\x8b"
PCAPNG = b"\x0a\x0d\x0d\x0a"
# pcap's magic number as a little-endian machine writes it: microseconds, nanoseconds.
LITTLE = (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1")

# Time, link type, length on the wire, bytes captured.
Record = tuple[int, int, int, bytes]


def follow_file(
    path: str, name: str, *, detail: bool | list[int] | list[tuple[int, int]] | None = None
) -> _core.Capture:
    """Follow the connections in a file that scapy reads; `name` stands for it."""
    return _follow(_packets_of_file(path, name), name, detail, _cut(path))


def follower_of(packets: Any) -> Callable[[bool | list[int] | list[tuple[int, int]] | None], _core.Capture]:
    """What follows the connections in scapy packets (a PacketList, a list, any iterable), as often as it is called."""
    if not isinstance(packets, Iterable):
        raise ValueError(
            f"cannot read a {type(packets).__name__}; wanted scapy packets, a path or a binary file object"
        )
    name = str(getattr(packets, "listname", "") or "scapy packets")
    kept = [_packet(packet) for packet in packets]
    return lambda detail: _follow(kept, name, detail)


def _follow(
    packets: Iterable[Record],
    name: str,
    detail: bool | list[int] | list[tuple[int, int]] | None,
    cut: tuple[int, str] | None = None,
) -> _core.Capture:
    follower = _core.Follower(name, detail)
    for time_ns, link_type, orig_len, data in packets:
        follower.push_packet(time_ns, link_type, orig_len, data)
    if cut is not None:
        follower.set_truncated(*cut)
    return follower.capture()


def _packets_of_file(path: str, name: str) -> Iterator[Record]:
    from scapy.error import Scapy_Exception
    from scapy.utils import RawPcapNgReader, RawPcapReader

    try:
        with _open(path) as stream, RawPcapReader(stream) as reader:
            is_pcapng = isinstance(reader, RawPcapNgReader)
            meta: Any
            for data, meta in reader:
                if is_pcapng:
                    # Ticks of the interface; scapy counts them from the epoch, without if_tsoffset.
                    ticks = None if meta.tshigh is None else (meta.tshigh << 32) | meta.tslow
                    time_ns = 0 if ticks is None else ticks * 10**9 // meta.tsresol
                    yield time_ns, meta.linktype, meta.wirelen, data
                else:
                    time_ns = meta.sec * 10**9 + meta.usec * (1 if reader.nano else 1000)
                    yield time_ns, reader.linktype, meta.wirelen, data
    except (Scapy_Exception, EOFError) as error:
        raise CaptureError(f"{name}: scapy: {error}") from error


def _cut(path: str) -> tuple[int, str] | None:
    """Where a file ends within a record, and how: scapy stops there and does not say so."""
    with _open(path) as stream:
        try:
            magic = stream.read(4)
            if magic == PCAPNG:
                return _cut_of_pcapng(stream)
            return _cut_of_pcap(stream, "little" if magic in LITTLE else "big")
        except (EOFError, zlib.error, gzip.BadGzipFile):
            return os.stat(path).st_size, "compressed data ends too early"


def _cut_of_pcap(stream: Any, order: Literal["little", "big"]) -> tuple[int, str] | None:
    at = 24
    while head := _at(stream, at, 16):
        captured = int.from_bytes(head[8:12], order)
        if len(head) < 16 or (captured and not _at(stream, at + 15 + captured, 1)):
            return at, f"file ends within a packet {'record' if len(head) == 16 else 'header'}"
        at += 16 + captured
    return None


def _cut_of_pcapng(stream: Any) -> tuple[int, str] | None:
    at, order = 0, "little"
    while head := _at(stream, at, 12):
        if head[:4] == PCAPNG:
            # Each section says its byte order.
            order = "little" if head[8:12] == b"\x4d\x3c\x2b\x1a" else "big"
        length = int.from_bytes(head[4:8], "little" if order == "little" else "big")
        if len(head) < 12 or length < 12 or not _at(stream, at + length - 1, 1):
            return at, "file ends within a block"
        at += length
    return None


def _at(stream: Any, offset: int, length: int) -> bytes:
    stream.seek(offset)
    return bytes(stream.read(length))


@contextmanager
def _open(path: str) -> Iterator[Any]:
    """A binary stream; scapy itself would go by the file's name, and leave it open on an error."""
    with open(path, "rb") as stream:
        is_gzip = stream.read(len(GZIP)) == GZIP
        stream.seek(0)
        yield gzip.GzipFile(fileobj=stream) if is_gzip else stream


def _packet(packet: Any) -> Record:
    data = bytes(packet)
    # A Decimal where it came from a file; a float, with its error, where it was sniffed or set.
    time_ns = int(Decimal(str(packet.time)) * 10**9)
    return time_ns, link_type_of(packet), max(packet.wirelen or 0, len(data)), data


def link_type_of(packet: Any) -> int:
    """LINKTYPE_ number for a packet's outermost layer."""
    from scapy.config import conf

    layer = type(packet).__name__
    if layer in LINK_TYPES:
        return LINK_TYPES[layer]
    try:
        return int(conf.l2types[type(packet)])
    except KeyError:
        raise ValueError(f"no link type for packets that begin with {layer}") from None


def to_scapy(path: str | os.PathLike[str], *, endpoints: Endpoints | None = None, during: Span | None = None) -> Any:
    """The packets of a capture file as a scapy PacketList; only those between two endpoints, in a span of time (ns)."""
    import scapy.all  # noqa: F401  (registers the dissectors of all link types)
    from scapy.config import conf
    from scapy.packet import Raw
    from scapy.plist import PacketList

    chosen = []
    for time_ns, link_type, orig_len, data, ends in _core.Records(os.fspath(path)):
        if endpoints is not None and not _is_between(ends, endpoints):
            continue
        if during is not None and not during[0] <= time_ns <= during[1]:
            continue
        layer: Any = conf.l2types.get(link_type, Raw)
        packet = layer(data)
        packet.time = Decimal(time_ns) / 10**9
        packet.wirelen = orig_len
        chosen.append(packet)
    return PacketList(chosen, name=os.fspath(path))


# Address and port of either side.
Endpoints = tuple[str, int, str, int]
Span = tuple[int, int]


def _is_between(found: Endpoints | None, wanted: Endpoints) -> bool:
    return found is not None and (found == wanted or found[2:] + found[:2] == wanted)
