"""Captures of many connections as servers have them, headers only: short ones, a few long, half-open and reset ones.

    python -m benchmarks.many_capture FILE CONNECTIONS [PER_SECOND]

A connection is one of 240 simulated ones (its path, size, control, losses and what the tap saw drawn at random), with a
client of its own, somewhere in time. One in twenty is a SYN that nobody answers, one in twenty ends with a reset.
"""

from __future__ import annotations

import argparse
import struct
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tcptrace_lab import simulate
from tcptrace_lab.scenario import (
    ApplicationSpec,
    ConnectionSpec,
    ControlSpec,
    NodeSpec,
    PathSpec,
    ReceiverSpec,
    Scenario,
)

TEMPLATES = 240
PER_SECOND = 500
GLOBAL, RECORD, ETHERNET = 24, 16, 14
CUT = 96
SYN_ONLY, RESET = 0.05, 0.05
RST, ACK = 0x04, 0x10

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]


def _scenario(rng: np.random.Generator, number: int) -> Scenario:
    """One connection: most carry a few segments, one in twenty some hundreds."""
    segments = int(rng.integers(200, 600)) if rng.random() < 0.05 else int(rng.integers(1, 25))
    node = NodeSpec(
        rate_bps=float(rng.choice([2e6, 10e6, 50e6, 1e9])),
        buffer=int(rng.integers(5, 60)),
        delay_s=float(rng.uniform(0.001, 0.08)),
        loss=float(rng.choice([0.0, 0.0, 0.0, 0.03])),
    )
    control = ControlSpec(
        window=str(rng.choice(["cubic", "reno"])),
        recovery="sack",
        initial_window=10,
        delayed_ack_segments=2,
        timestamps=bool(rng.random() < 0.8),
    )
    application = ApplicationSpec(kind="bytes", bytes=segments * 1448 - int(rng.integers(0, 1400)))
    connection = ConnectionSpec(control=control, receiver=ReceiverSpec(), application=application)
    return Scenario(
        path=PathSpec(nodes=(node,), return_delay_s=node.delay_s),
        connections=(connection,),
        duration_s=20.0,
        profile="rfc",
        seed=number,
        taps=(str(rng.choice(["sender", "sender", "receiver"])),),
    )


def _template(scenario: Scenario, folder: Path, rng: np.random.Generator) -> tuple[Ints, Bytes, Ints]:
    """Times, captured bytes (a row each) and how many of a row count."""
    file = folder / "one.pcap"
    simulate(scenario, truth=False).write(file, snaplen=CUT, payload=False)
    data, at = file.read_bytes(), GLOBAL
    times, rows, lengths = [], [], []
    while at < len(data):
        seconds, nanos, captured, length = struct.unpack_from("<IIII", data, at)
        times.append(seconds * 10**9 + nanos)
        rows.append(data[at + RECORD : at + RECORD + captured].ljust(CUT, b"\0") + struct.pack("<II", captured, length))
        lengths.append(captured)
        at += RECORD + captured
    kind, count = rng.random(), len(times)
    if kind < SYN_ONLY:
        # Asked again after a second, and after three (RFC 6298).
        times, rows, lengths = [times[0], times[0] + 10**9, times[0] + 3 * 10**9], rows[:1] * 3, lengths[:1] * 3
    elif kind < SYN_ONLY + RESET and count > 3:
        upto = int(rng.integers(3, count + 1))
        times, rows, lengths = times[:upto], rows[:upto], lengths[:upto]
        rows[-1] = _reset(rows[-1])
    table = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), -1)
    return np.array(times, dtype=np.int64) - times[0], table, np.array(lengths, dtype=np.int64)


def _reset(row: bytes) -> bytes:
    """The same packet with RST set, its checksum with it."""
    changed, at = bytearray(row), ETHERNET + 20
    before = changed[at + 13]
    changed[at + 13] = RST | ACK
    struct.pack_into(">H", changed, at + 16, _updated(struct.unpack_from(">H", changed, at + 16)[0], before, RST | ACK))
    return bytes(changed)


def _updated(checksum: int, before: int, after: int) -> int:
    """RFC 1624, equation 3."""
    total = (~checksum & 0xFFFF) + (~before & 0xFFFF) + after
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _word(table: Bytes, at: int) -> Ints:
    return (table[:, at].astype(np.int64) << 8) | table[:, at + 1]


def _put(table: Bytes, at: int, word: Ints) -> None:
    table[:, at], table[:, at + 1] = word >> 8, word & 0xFF


def _renamed(table: Bytes, clients: Ints, is_back: npt.NDArray[np.bool_]) -> None:
    """Each row's client is 10.X.Y.Z with a port of its own; the checksums follow (RFC 1624)."""
    ip, tcp = ETHERNET, ETHERNET + 20
    high, low, port = 0x0A00 + (clients >> 16), clients & 0xFFFF, 10_000 + clients % 50_000
    delta = np.zeros(len(table), dtype=np.int64)
    for back in (False, True):
        rows = np.flatnonzero(is_back == back)
        part = table[rows]
        for at, word in ((ip + 12 + 4 * back, high), (ip + 14 + 4 * back, low), (tcp + 2 * back, port)):
            change = (~_word(part, at) & 0xFFFF) + word[rows]
            delta[rows] += change
            _put(part, at, word[rows])
            if at < tcp:
                _put(part, ip + 10, _added(_word(part, ip + 10), change))
        table[rows] = part
    _put(table, tcp + 16, _added(_word(table, tcp + 16), delta))


def _added(checksum: Ints, change: Ints) -> Ints:
    total = (~checksum & 0xFFFF) + change
    for _ in range(2):
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def write(path: Path, *, connections: int, per_second: int = PER_SECOND, seed: int = 1) -> None:
    """A classic pcap with nanoseconds, in the order of time."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        templates = [_template(_scenario(rng, number), Path(folder), rng) for number in range(TEMPLATES)]
    which = rng.integers(0, len(templates), connections)
    begins = np.sort(rng.integers(0, max(connections * 10**9 // per_second, 1), connections))
    times, rows = [], []
    for number, (own, table, _) in enumerate(templates):
        who = np.flatnonzero(which == number)
        made = np.tile(table, (len(who), 1))
        is_back = np.tile(_word(table, ETHERNET + 20) != _word(table, ETHERNET + 20)[0], len(who))
        _renamed(made, np.repeat(who, len(own)), is_back)
        times.append((begins[who][:, None] + own[None, :]).ravel())
        rows.append(made)
    stamps, whole = np.concatenate(times), np.concatenate(rows)
    order = np.argsort(stamps, kind="stable")
    stamps, whole = stamps[order] + 1_700_000_000 * 10**9, whole[order]
    head = np.empty((len(stamps), 2), dtype="<u4")
    head[:, 0], head[:, 1] = stamps // 10**9, stamps % 10**9
    full = np.concatenate([head.view(np.uint8), whole[:, CUT:], whole[:, :CUT]], axis=1)
    captured = whole[:, CUT : CUT + 4].copy().view("<u4").ravel()
    keep = np.arange(full.shape[1])[None, :] < (RECORD + captured)[:, None]
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, CUT, 1))
        file.write(full[keep].tobytes())


def main() -> None:
    """Writes one as the words say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", metavar="FILE", type=Path)
    parser.add_argument("connections", metavar="CONNECTIONS", type=int)
    parser.add_argument("per_second", metavar="PER_SECOND", type=int, nargs="?", default=PER_SECOND)
    write(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
