"""Wireshark's dissector as a reader: any format it opens, as columns through `tshark -T fields`.

Slower than the native reader by two orders of magnitude; for formats that one does not know, and as a second opinion.
Packets whose checksum is wrong are followed: its fields do not tell a sum that was left to the card from a wrong one.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import IO, Any

from tcptrace_lab import _core
from tcptrace_lab.errors import CaptureError
from tcptrace_lab.programs import program

# Field of tshark -> what becomes of it. Every field may occur several times in a packet (tunnels, SACK blocks).
FIELDS = (
    "frame.time_epoch",
    "frame.protocols",
    "ip.src",
    "ip.dst",
    "ip.len",
    "ip.hdr_len",
    "ip.id",
    "ip.ttl",
    "ip.dsfield.ecn",
    "ipv6.src",
    "ipv6.dst",
    "ipv6.plen",
    "ipv6.hlim",
    "ipv6.tclass.ecn",
    "tcp.srcport",
    "tcp.dstport",
    "tcp.seq_raw",
    "tcp.ack_raw",
    "tcp.flags",
    "tcp.window_size_value",
    "tcp.len",
    "tcp.hdr_len",
    "tcp.option_kind",
    "tcp.options.mss_val",
    "tcp.options.wscale.shift",
    "tcp.options.sack_le",
    "tcp.options.sack_re",
    "tcp.options.timestamp.tsval",
    "tcp.options.timestamp.tsecr",
)

IP_FIELDS = {
    "ip": ("src", "dst", "len", "hdr_len", "id", "ttl", "dsfield.ecn"),
    "ipv6": ("src", "dst", "plen", "hlim", "tclass.ecn"),
}

# Absolute sequence numbers; nothing reassembled above IP; no analysis that we do ourselves.
PREFERENCES = (
    "tcp.relative_sequence_numbers:FALSE",
    "tcp.desegment_tcp_streams:FALSE",
    "tcp.analyze_sequence_numbers:FALSE",
    "ip.defragment:TRUE",
    "ipv6.defragment:TRUE",
)

# Packets whose columns are handed over at once.
BATCH = 20_000

SACK_PERMITTED, MPTCP, FAST_OPEN = "4", "30", "34"

# Columns of whole numbers.
NUMBERS = ("packet", "time_ns", *_core.SEGMENT_NUMBERS)
FLAGS = ("sack_permitted", "has_tfo", "has_mptcp")


def follow_file(
    path: str, name: str, *, detail: bool | list[int] | list[tuple[int, int]] | None = None
) -> _core.Capture:
    """Follow a capture's connections as tshark dissects its packets; `name` stands for the file."""
    # tshark's own message would not say which file is missing; the system's does.
    size = os.stat(path).st_size
    follower = _core.Follower(name, detail)
    with _tshark(path, name) as lines:
        while batch := list(islice(lines, BATCH)):
            push(follower, (line.rstrip("\n").split("\t") for line in batch))
    if lines.cut:
        # tshark says that the file is cut, and not where: after all that it has read.
        follower.set_truncated(size, lines.cut)
    return follower.capture()


def push(follower: _core.Follower, packets: Iterable[list[str]]) -> None:
    """Hand packets, as rows of `FIELDS`, to the core."""
    import numpy as np

    columns = _Columns()
    for fields in packets:
        columns.add(fields)
    arrays: dict[str, Any] = {name: np.array(columns.numbers[name], dtype=np.int64) for name in NUMBERS}
    arrays |= {name: np.array(columns.flags[name], dtype=bool) for name in FLAGS}
    arrays |= {"src": columns.src, "dst": columns.dst, "sack": columns.sack}
    follower.push_columns(arrays, columns.packets, columns.not_ip, columns.not_tcp)


@dataclass
class _Columns:
    """Segments found so far, and how many packets held none."""

    numbers: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in NUMBERS})
    flags: dict[str, list[bool]] = field(default_factory=lambda: {name: [] for name in FLAGS})
    src: list[str] = field(default_factory=list)
    dst: list[str] = field(default_factory=list)
    sack: list[list[tuple[int, int]]] = field(default_factory=list)
    packets: int = 0
    not_ip: int = 0
    not_tcp: int = 0

    def add(self, fields: list[str]) -> None:
        """One packet."""
        index = self.packets
        self.packets += 1
        value = dict(zip(FIELDS, fields, strict=False))
        # What stands before TCP tells which IP header is its own. Behind ICMP stand headers of another packet.
        layers = value["frame.protocols"].split(":")
        below = layers[: layers.index("tcp")] if "tcp" in layers else layers
        if "ip" not in below and "ipv6" not in below:
            self.not_ip += 1
            return
        if "tcp" not in layers or "icmp" in below or "icmpv6" in below:
            self.not_tcp += 1
            return
        address = max(range(len(below)), key=lambda at: (below[at] in ("ip", "ipv6"), at))
        family = below[address]
        ip = {name: self._last(value[f"{family}.{name}"], below.count(family)) for name in IP_FIELDS[family]}
        if not (value["tcp.len"] and value["tcp.flags"] and ip["src"] and ip["dst"]):
            # tshark gives up within headers that contradict each other.
            return
        self._add_ip(value, ip)
        self._add_tcp(value)
        self.numbers["packet"].append(index)
        self.numbers["time_ns"].append(nanoseconds(value["frame.time_epoch"]))

    @staticmethod
    def _last(values: str, count: int) -> str:
        """The value in the header nearest to TCP, of `count`; empty if tshark did not get so far."""
        found = values.split(",")
        return found[count - 1] if len(found) >= count else ""

    def _add_ip(self, value: dict[str, str], ip: dict[str, str]) -> None:
        self.src.append(ip["src"])
        self.dst.append(ip["dst"])
        tcp_bytes = number(value["tcp.hdr_len"]) + number(value["tcp.len"])
        if "len" in ip:
            # A super-segment's length did not fit into the header.
            ip_len = max(number(ip["len"]), number(ip["hdr_len"]) + tcp_bytes)
            ip_id, ttl, ecn = ip["id"], ip["ttl"], ip["dsfield.ecn"]
        else:
            ip_len = 40 + max(number(ip["plen"]), tcp_bytes)
            ip_id, ttl, ecn = "0", ip["hlim"], ip["tclass.ecn"]
        for name, found in (("ip_len", ip_len), ("ip_id", number(ip_id)), ("ttl", number(ttl)), ("ecn", number(ecn))):
            self.numbers[name].append(found)

    def _add_tcp(self, value: dict[str, str]) -> None:
        def first(name: str) -> str:
            return value[name].split(",", 1)[0]

        def option(name: str) -> int:
            return number(first(name)) if value[name] else -1

        columns = self.numbers
        columns["src_port"].append(number(first("tcp.srcport")))
        columns["dst_port"].append(number(first("tcp.dstport")))
        columns["seq"].append(number(first("tcp.seq_raw")))
        columns["ack"].append(number(first("tcp.ack_raw")))
        columns["flags"].append(number(first("tcp.flags")))
        columns["window"].append(number(first("tcp.window_size_value")))
        columns["payload_len"].append(number(first("tcp.len")))
        columns["mss"].append(option("tcp.options.mss_val"))
        columns["wscale"].append(option("tcp.options.wscale.shift"))
        columns["ts_val"].append(option("tcp.options.timestamp.tsval"))
        columns["ts_ecr"].append(option("tcp.options.timestamp.tsecr"))
        kinds = value["tcp.option_kind"].split(",")
        self.flags["sack_permitted"].append(SACK_PERMITTED in kinds)
        self.flags["has_mptcp"].append(MPTCP in kinds)
        self.flags["has_tfo"].append(FAST_OPEN in kinds)
        edges = (value["tcp.options.sack_le"], value["tcp.options.sack_re"])
        left, right = ([number(edge) for edge in edge.split(",") if edge] for edge in edges)
        self.sack.append(list(zip(left, right, strict=False))[:4])


def nanoseconds(epoch: str) -> int:
    """A decimal number of seconds, exactly (a float would lose the last three digits)."""
    whole, _, fraction = epoch.partition(".")
    sign = -1 if whole.startswith("-") else 1
    return int(whole or 0) * 10**9 + sign * int(fraction[:9].ljust(9, "0"))


def number(text: str) -> int:
    """A number, decimal or hexadecimal; of several the first. tshark leaves an ACK number without its flag out."""
    return int(text.split(",", 1)[0] or "0", 0)


class _Lines:
    """Lines of a running tshark; `cut` says why it stopped early, if it did."""

    def __init__(self, stdout: IO[str]) -> None:
        self.stdout = stdout
        self.cut: str | None = None

    def __iter__(self) -> Iterator[str]:
        return self.stdout

    def __next__(self) -> str:
        return next(self.stdout)


@contextmanager
def _tshark(path: str, name: str) -> Iterator[_Lines]:
    """tshark's lines for each packet of a file; CaptureError if it cannot read it at all."""
    command = [executable(), "-n", "-r", path, "-T", "fields", "-E", "occurrence=a", "-E", "aggregator=,"]
    for preference in PREFERENCES:
        command += ["-o", preference]
    for field_name in FIELDS:
        command += ["-e", field_name]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert process.stdout is not None
        lines = _Lines(process.stdout)
        try:
            yield lines
        except BaseException:
            process.kill()
            raise
        finally:
            process.stdout.close()
            status = process.wait()
        errors.seek(0)
        # What it says about running as root, or about its own settings, is no news of the capture.
        said = [line.strip() for line in errors if line.startswith("tshark:")]
        if status == 0:
            return
        reason = said[-1].removeprefix("tshark: ") if said else f"tshark exit status {status}"
        if "cut short" in reason:
            lines.cut = reason
            return
        raise CaptureError(f"{name}: {reason}")


def executable() -> str:
    """The tshark to run."""
    found = program("tshark")
    if found is None:
        raise CaptureError("tshark is not installed (apt install tshark); backend native reads pcap and pcapng without")
    return found
