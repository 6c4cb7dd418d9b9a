"""What captures that nobody's stack sends cost: whether work and memory stay in proportion to the packets.

    python -m benchmarks.hostile [--thousand 50 200] [--kinds "duplicate ACKs" ...] [--commands classify] [--folder DIR]

Each kind is made of so many thousand packets, and each whole command runs over it: seconds of the processor beyond
start-up for a million packets, at each size, and the most memory. Where the larger capture costs much more for each
packet than the smaller, something is done anew for each packet over all of them.
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
from collections.abc import Callable, Iterator
from itertools import chain, count, islice
from pathlib import Path
from typing import NamedTuple

from benchmarks.analyze import captures_in, machine, run
from benchmarks.infer import COMMANDS, asked, start_up

MSS = 1000
SYN, RST, ACK = 0x02, 0x04, 0x10
# Segments of a flight.
FLIGHT = 10


class Packet(NamedTuple):
    """`is_back`: from the receiver, whose `number` is what it acknowledges; `pause_ns`: since the packet before."""

    is_back: bool
    number: int
    length: int = 0
    flags: int = ACK
    window: int = 60_000
    blocks: tuple[tuple[int, int], ...] = ()
    pause_ns: int = 20_000


def _data(place: int, pause_ns: int = 20_000) -> Packet:
    return Packet(False, place * MSS, MSS, pause_ns=pause_ns)


def _ack(place: int, *blocks: tuple[int, int], window: int = 60_000, pause_ns: int = 20_000) -> Packet:
    edges = tuple((left * MSS, right * MSS) for left, right in blocks)
    return Packet(True, place * MSS, window=window, blocks=edges, pause_ns=pause_ns)


def retransmissions() -> Iterator[Packet]:
    """The same flight again and again; now and then an ACK of nothing."""
    for turn in count():
        yield from map(_data, range(FLIGHT))
        if turn % 3 == 0:
            yield _ack(0)


def sent_twice() -> Iterator[Packet]:
    """Every segment twice, far apart."""
    for place in count():
        yield _data(place)
        if place >= 5 * FLIGHT:
            yield _data(place - 5 * FLIGHT)
            yield _ack(place - 5 * FLIGHT + 1)


def duplicate_acks() -> Iterator[Packet]:
    """One segment is never acknowledged."""
    yield from map(_data, range(FLIGHT))
    for place in count(FLIGHT):
        yield _data(place)
        yield _ack(1)
        yield _ack(1)


def blocks_all_over() -> Iterator[Packet]:
    """Every other segment arrives, in blocks that are never told again; their order is no order."""
    rng = random.Random(1)
    for place in count():
        yield _data(place)
        told = [2 * rng.randrange(place // 2 + 1) + 1 for _ in range(3)]
        yield _ack(0, *((each, each + 1) for each in told))


def blocks_that_grow() -> Iterator[Packet]:
    """Holes at every fourth segment, filled from the last to the first after long."""
    step = 4000
    for turn in count():
        first = turn * step
        yield from map(_data, range(first, first + step))
        holes = range(first, first + step, 4)
        for hole in holes:
            yield _ack(first, (hole + 1, hole + 4))
        for hole in reversed(holes):
            yield _data(hole)
            yield _ack(first, (hole, min(hole + 400, first + step)))
        yield _ack(first + step)


def numbers_to_and_fro() -> Iterator[Packet]:
    """Sequence numbers that jump by half of what has been sent."""
    for place in count():
        yield _data(place if place % 2 else place // 2)
        yield _ack(place // 2 if place % 3 else place)


def holes_in_the_capture() -> Iterator[Packet]:
    """Of each three segments one is captured, all are acknowledged."""
    for place in count(0, 3):
        yield _data(place)
        yield _ack(place + 3)


def slow_starts() -> Iterator[Packet]:
    """A flight of a few segments, a timeout, and from the beginning."""
    place = 0
    while True:
        yield _data(place)
        yield _data(place, pause_ns=250_000_000)
        yield _ack(place + 1)
        for size in (2, 4):
            yield from map(_data, range(place + 1, place + 1 + size))
            place += size
            yield _ack(place + 1)
        place += 1


def recoveries() -> Iterator[Packet]:
    """A flight, its first segment lost, three duplicates, a repair; again and again."""
    for place in count(0, FLIGHT):
        yield from map(_data, range(place, place + FLIGHT))
        for arrived in range(3):
            yield _ack(place, (place + 1, place + 2 + arrived))
        yield _data(place)
        yield _ack(place + FLIGHT, pause_ns=1_000_000)


def resets() -> Iterator[Packet]:
    """A reset behind every segment, which nobody heeds."""
    for place in count():
        yield _data(place)
        yield Packet(True, place * MSS + MSS, flags=ACK | RST)


def windows_of_nothing() -> Iterator[Packet]:
    """The window shuts and opens by a byte at every ACK."""
    for place in count():
        yield Packet(False, place, 1)
        yield Packet(True, place + 1, window=place % 2)


def pauses() -> Iterator[Packet]:
    """A segment, its ACK, and a pause of a second."""
    for place in count():
        yield _data(place, pause_ns=1_000_000_000)
        yield _ack(place + 1)


def one_instant() -> Iterator[Packet]:
    """All stamps are the same."""
    for place in count():
        yield _data(place, pause_ns=0)
        yield _data(place + 1, pause_ns=0)
        yield _ack(place, pause_ns=0)


KINDS: dict[str, Callable[[], Iterator[Packet]]] = {
    each.__name__.replace("_", " "): each
    for each in (
        retransmissions,
        sent_twice,
        duplicate_acks,
        blocks_all_over,
        blocks_that_grow,
        numbers_to_and_fro,
        holes_in_the_capture,
        slow_starts,
        recoveries,
        resets,
        windows_of_nothing,
        pauses,
        one_instant,
    )
}


def write(path: Path, kind: str, packets: int) -> None:
    """A classic pcap of nanoseconds: the SYNs, and so many packets."""
    now_ns = 1_700_000_000 * 10**9
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 128, 1))
        begin = (Packet(False, -1, flags=SYN), Packet(True, 0, flags=SYN | ACK, pause_ns=10_000_000), Packet(False, 0))
        for number, packet in enumerate(chain(begin, islice(KINDS[kind](), packets))):
            now_ns += packet.pause_ns
            file.write(_record(packet, now_ns, number))


def _record(packet: Packet, now_ns: int, number: int) -> bytes:
    options = b"\x02\x04\x03\xe8\x01\x01\x04\x02" if packet.flags & SYN else b""
    if packet.blocks:
        edges = b"".join(struct.pack(">II", *(1 + edge & 0xFFFFFFFF for edge in block)) for block in packet.blocks)
        options = struct.pack("BBBB", 1, 1, 5, 2 + len(edges)) + edges
    here, there = (b"\x0a\x00\x00\x01", 40_000), (b"\x0a\x00\x00\x02", 80)
    (source, port), (target, other) = (there, here) if packet.is_back else (here, there)
    own, heard = 1 + packet.number & 0xFFFFFFFF, 1
    if packet.is_back:
        own, heard = (0 if packet.flags & SYN else 1), own
    header = 20 + len(options)
    tcp = struct.pack(">HHIIBBHHH", port, other, own, heard, header // 4 << 4, packet.flags, packet.window, 0, 0)
    total = 20 + header + packet.length
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, total, number & 0xFFFF, 0x4000, 64, 6, 0, source, target)
    frame = b"\x00" * 12 + b"\x08\x00" + ip + tcp + options
    return struct.pack("<IIII", now_ns // 10**9, now_ns % 10**9, len(frame), 14 + total) + frame


def main() -> int:
    """Generate, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--thousand", type=int, nargs="+", default=[50, 200], help="thousands of packets")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--commands", nargs="+", default=list(COMMANDS), choices=COMMANDS)
    parser.add_argument("--folder", type=Path, help="keep the captures here (default: a temporary folder)")
    arguments = parser.parse_args()
    print(machine())
    with captures_in(arguments.folder) as folder:
        for kind in arguments.kinds:
            for thousand in arguments.thousand:
                capture = folder / f"{kind.replace(' ', '_')}_{thousand}k.pcap"
                if not capture.exists():
                    write(capture, kind, thousand * 1000)
                told = []
                for name in arguments.commands:
                    done = run(asked(name, capture, folder))
                    beyond = (done.cpu_s - start_up(name, folder)) / thousand * 1000
                    told.append(f"{name} {beyond:6.2f} s/million, {done.memory_mb:4.0f} MB")
                print(f"{kind:22} {thousand:5} thousand: {'; '.join(told)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
