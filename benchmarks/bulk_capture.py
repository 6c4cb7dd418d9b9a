"""Captures of bulk transfers, headers only, for speed measurements: any number of packets and connections.

What a tap beside the sender sees: MSS-sized segments with timestamps, an ACK for every second one, 0.2 % of the
segments lost; after a loss duplicate ACKs with a SACK block, the retransmission after the third, and the ACK that
jumps over the repaired hole. One loss cycle is laid out in plain Python; a capture is many of them, shifted.
"""

from __future__ import annotations

import argparse
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

MSS = 1448
# Segments in flight, and segments from one loss to the next (0.2 %).
WINDOW = 40
CYCLE = 500
CLIENT_ISN = 1_000
SERVER_ISN = 5_000
# Captured bytes of a packet without and with a SACK block: Ethernet, IPv4, TCP, timestamps.
PLAIN = 14 + 20 + 20 + 12
SACKED = PLAIN + 12
RECORD = 16

# is_data, is_syn, from_server, offset or acked offset, left and right edge of a SACK block (0, 0: none)
Row = tuple[int, int, int, int, int, int]


def _cycle(lost: int, cycle: int) -> list[Row]:
    """One loss cycle, offsets in segments: segment `lost` of `cycle` is lost."""
    rows: list[Row] = []
    acked, highest, dup_acks, repaired_at = 0, 0, 0, -1
    for sent in range(cycle + WINDOW):
        if sent < cycle:
            rows.append((1, 0, 0, sent, 0, 0))
        arrived = sent - WINDOW
        if arrived < 0 or arrived == lost:
            continue
        highest = arrived + 1
        if acked <= lost < arrived:
            dup_acks += 1
            rows.append((0, 0, 1, lost, lost + 1, highest))
            acked = lost
            if dup_acks == 3:
                rows.append((1, 0, 0, lost, 0, 0))
                repaired_at = sent + WINDOW
            if sent == repaired_at or sent == cycle + WINDOW - 1:
                acked = highest
                rows.append((0, 0, 1, acked, 0, 0))
        elif arrived % 2 == 1 or sent == cycle + WINDOW - 1:
            acked = highest
            rows.append((0, 0, 1, acked, 0, 0))
    return rows


def _flow(packets: int, rng: np.random.Generator, length: int) -> npt.NDArray[np.int64]:
    """The rows of one connection, offsets in bytes."""
    losses = rng.integers(0, length - 2 * WINDOW - 5, 32)
    cycles = [np.array(_cycle(int(lost), length), dtype=np.int64) for lost in losses]
    parts: list[npt.NDArray[np.int64]] = [
        np.array([[0, 1, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0]], dtype=np.int64),
    ]
    total = 2
    number = 0
    while total < packets:
        cycle = cycles[int(rng.integers(len(cycles)))].copy()
        cycle[:, 3:] += (number * length) * np.where(cycle[:, 3:] + cycle[:, [0]] + cycle[:, [2]] > 0, 1, 0)
        # Without a block both edges stay 0.
        cycle[cycle[:, 5] == number * length, 4:] = 0
        parts.append(cycle)
        total += len(cycle)
        number += 1
    return np.concatenate(parts)[:packets]


def write(path: Path, *, packets: int, connections: int = 1, turn: int = 8, seed: int = 1, cycle: int = CYCLE) -> None:
    """Write a classic little-endian pcap with microseconds; connections take turns of so many packets.

    `cycle`: segments from one loss to the next, more than two windows.
    """
    rng = np.random.default_rng(seed)
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 96, 1))
        # A block of packets at a time.
        flows = [_flow(packets // connections, rng, cycle) for _ in range(min(connections, 16))]
        per = packets // connections
        block = max(1, 1_000_000 // connections)
        for first in range(0, per, block):
            rows = [flows[index % len(flows)][first : first + block] for index in range(connections)]
            owner = np.repeat(np.arange(connections), [len(part) for part in rows])
            place = np.concatenate([np.arange(len(part)) for part in rows])
            # The SYNs first, a window's time ahead of what answers them: the tap is beside the client.
            order = np.lexsort((place, owner, (place + turn - 1) // turn))
            table = np.concatenate(rows)[order]
            started = first * connections
            file.write(_encode(table, owner[order], (place[order] + first), started, connections).tobytes())


def _encode(
    rows: npt.NDArray[np.int64],
    owner: npt.NDArray[np.int64],
    place: npt.NDArray[np.int64],
    started: int,
    connections: int,
) -> npt.NDArray[np.uint8]:
    """Rows to records."""
    count = len(rows)
    is_data, is_syn, back, offset, left, right = rows.T
    has_sack = right > 0
    captured = np.where(has_sack, SACKED, PLAIN)
    header = np.zeros((count, RECORD + SACKED), dtype=np.uint8)

    def put(at: int, kind: str, values: npt.NDArray[np.int64] | int) -> None:
        width = np.dtype(kind).itemsize
        cells = np.broadcast_to(np.asarray(values), count).astype(np.int64) & ((1 << 8 * width) - 1)
        header[:, at : at + width] = cells.astype(kind).view(np.uint8).reshape(count, width)

    # 2 us apart: about half a million packets a second.
    micros = (np.arange(count) + started + np.where(place > 0, WINDOW * 3 // 2 * connections, 0)) * 2
    length = np.where(is_data == 1, MSS, 0)
    put(0, "<u4", 1_700_000_000 + micros // 1_000_000)
    put(4, "<u4", micros % 1_000_000)
    put(8, "<u4", captured)
    put(12, "<u4", captured + length)
    put(RECORD + 12, ">u2", 0x0800)
    ip = RECORD + 14
    put(ip, "u1", 0x45)
    put(ip + 2, ">u2", captured - 14 + length)
    put(ip + 4, ">u2", place % 65_521 + 1)
    put(ip + 6, ">u2", 0x4000)
    put(ip + 8, "u1", 64)
    put(ip + 9, "u1", 6)
    client = 0x0A00_0001 + owner // 50_000
    put(ip + 12, ">u4", np.where(back == 1, 0x0A01_0001, client))
    put(ip + 16, ">u4", np.where(back == 1, client, 0x0A01_0001))
    tcp = ip + 20
    port = 10_000 + owner % 50_000
    put(tcp, ">u2", np.where(back == 1, 443, port))
    put(tcp + 2, ">u2", np.where(back == 1, port, 443))
    at = CLIENT_ISN + 1 + offset * MSS
    syn = is_syn == 1
    put(tcp + 4, ">u4", np.where(back == 1, SERVER_ISN + 1 - syn, np.where(syn, CLIENT_ISN, at)))
    put(tcp + 8, ">u4", np.where(back == 1, at, np.where(syn, 0, SERVER_ISN + 1)))
    put(tcp + 12, "u1", np.where(has_sack, 0xB0, 0x80))
    put(tcp + 13, "u1", np.where(syn, np.where(back == 1, 0x12, 0x02), 0x10))
    put(tcp + 14, ">u2", 60_000)
    options = tcp + 20
    put(options, ">u4", 0x0101_080A)
    # A millisecond clock; what comes back is the value of a window ago.
    millis = micros // 1000
    put(options + 4, ">u4", millis + 7)
    put(options + 8, ">u4", np.maximum(millis - WINDOW * 3 // 1000, 0) + 7)
    put(options + 12, ">u4", np.where(has_sack, 0x0101_050A, 0))
    put(options + 16, ">u4", np.where(has_sack, CLIENT_ISN + 1 + left * MSS, 0))
    put(options + 20, ">u4", np.where(has_sack, CLIENT_ISN + 1 + right * MSS, 0))
    keep = np.arange(RECORD + SACKED)[None, :] < (RECORD + captured)[:, None]
    return header[keep]


def main() -> None:
    """Writes one as the words say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", metavar="FILE", type=Path)
    parser.add_argument("packets", metavar="PACKETS", type=int)
    parser.add_argument("connections", metavar="CONNECTIONS", type=int, nargs="?", default=1)
    parser.add_argument("turn", metavar="TURN", type=int, nargs="?", default=8, help="packets that one has in a row")
    parser.add_argument("cycle", metavar="CYCLE", type=int, nargs="?", default=CYCLE, help="segments from loss to loss")
    write(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
