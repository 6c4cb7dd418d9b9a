"""A recording: the capture, the kernel's truth beside it, and all that was set and measured, as files."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DROP_COLUMNS = (
    *("time", "node", "reason", "dir", "ip_id", "tcp_seq"),
    *("payload_len", "sport", "dport", "queue_len", "ip_len"),
)
# HyStart (RFC 9406) reacts to a round trip longer by 4 ms; nothing in the kernel does to less.
FREEZE_TOLERATED_MS = 4.0
# Our own sender answers late by so much: at 20 Mbit/s a burst of two packets more than the path would have made.
STALL_TOLERATED_MS = 1.0
QUEUE_COLUMNS = ("time_bin", "node", "arrivals", "drops", "qmax", "qlast")


@dataclass(frozen=True, kw_only=True)
class Recording:
    """What `record` leaves behind. `metadata` is what stands in the JSON file."""

    captures: Mapping[str, Path]
    truth: Path
    drops: Path
    queue: Path
    description: Path
    metadata: Mapping[str, Any]

    @property
    def capture(self) -> Path:
        """The capture at the first place asked for."""
        return next(iter(self.captures.values()))

    @property
    def missed(self) -> int:
        """Packets that a capture or a device has missed, and events that the kernel's trace has."""
        count: int = self.metadata["truth"]["events_lost"] + self.metadata["emulator"]["write_errors"]
        for counts in self.metadata["tcpdump"].values():
            count += counts["received"] - counts["captured"] + counts["dropped"]
        return count

    @property
    def longest_freeze_ms(self) -> float:
        """The longest time for which the machine, and with it the path, stood still."""
        return max((length for _, length in self.metadata["emulator"]["freezes"]), default=0.0)

    @property
    def longest_stall_ms(self) -> float:
        """The longest time for which our own sender had to wait for a processor; the kernel's has no process."""
        return max((length for _, length in self.metadata["truth"].get("stalls", [])), default=0.0)

    @property
    def late_acks(self) -> int:
        """ACKs for many segments at once though none was missing: the receiving host was late."""
        return len(self.metadata["truth"].get("late_acks", []))

    @property
    def is_clean(self) -> bool:
        """Nothing missed, no freeze that an end point would notice as more than jitter, no late sender or receiver."""
        is_still = self.longest_freeze_ms > FREEZE_TOLERATED_MS or self.longest_stall_ms > STALL_TOLERATED_MS
        return self.missed == 0 and not is_still and not self.late_acks

    def moved_to(self, folder: Path) -> Recording:
        """The same files in another folder."""

        def move(file: Path) -> Path:
            return Path(shutil.move(file, folder / file.name))

        return Recording(
            captures={tap: move(file) for tap, file in self.captures.items()},
            truth=move(self.truth),
            drops=move(self.drops),
            queue=move(self.queue),
            description=move(self.description),
            metadata=self.metadata,
        )

    def summary(self) -> str:
        """What was recorded, for people."""
        about, emulator = self.metadata, self.metadata["emulator"]
        forward = emulator["forward"]
        drops = ", ".join(f"{count} {reason}" for reason, count in about["drops"].items()) or "none"
        lines = [f"{self.capture}: {about['tcpdump'][next(iter(self.captures))]['captured']} packets"]
        lines += [f"  path       {forward['entered']} packets in, {forward['left']} out; drops: {drops}"]
        for port, measured in about["measured"].items():
            kinds = [event["kind"] for event in measured["loss_events"]]
            events = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)) or "none"
            lines += [
                f"  port {port} {measured['retransmissions']} retransmissions, cwnd up to {measured['cwnd_max']}; "
                f"loss events: {events}"
            ]
        late = emulator["delivery_lateness_us"]
        if late:
            lines += [f"  deliveries {late['p50']} us late (median), {late['p99']} us (99th percentile)"]
        frozen = sum(length for _, length in emulator["freezes"])
        longest = self.longest_freeze_ms
        several = f"  freezes    {len(emulator['freezes'])}, {frozen:.0f} ms in all, the longest {longest:.1f} ms"
        lines += [several if frozen else "  freezes    none"]
        if self.longest_stall_ms:
            stalls = about["truth"]["stalls"]
            lines += [f"  sender     late {len(stalls)} times, by {self.longest_stall_ms:.1f} ms at most"]
        if self.late_acks:
            most = max(segments for _, segments in about["truth"]["late_acks"])
            lines += [f"  receiver   late {self.late_acks} times: one ACK for {most} segments"]
        if about["truth"]["unavailable"]:
            lines += [f"  no trace   {about['truth']['unavailable']}: the truth is TCP_INFO's, every 10 ms"]
        lines += [f"  not as in the scenario: {line}" for line in about["departures"]]
        return "\n".join(lines) + "\n"


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table, compressed where the name says so; the same rows make the same bytes."""
    if path.suffix != ".gz":
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([columns, *rows])
        return
    lines = [",".join(map(str, row)) for row in (columns, *rows)]
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode(), 9, mtime=0))


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def compress(source: Path, target: Path) -> None:
    """gzip without a name and a date in it, so that equal captures are equal files."""
    with (
        source.open("rb") as plain,
        target.open("wb") as file,
        gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=9, mtime=0) as packed,
    ):
        shutil.copyfileobj(plain, packed)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def drop_rows(drops: Mapping[str, Sequence[Any]], *, nodes_before: int) -> list[list[object]]:
    """The emulator's drops as rows. `node` counts the scenario's nodes from 1, `sport` is the data sender's port."""
    rows: list[list[object]] = []
    columns = [drops[name] for name in ("time_ns", *DROP_COLUMNS[1:])]
    for time_ns, node, reason, direction, ip_id, seq, payload, src, dst, *rest in zip(*columns, strict=True):
        if direction == "fwd":
            # An access link before them is node 0.
            rows.append(
                [seconds(time_ns), node - nodes_before, reason, direction, ip_id, seq, payload, src, dst, *rest]
            )
        else:
            rows.append([seconds(time_ns), node, reason, direction, ip_id, seq, payload, dst, src, *rest])
    return rows


def queue_rows(queue: Mapping[str, Sequence[Any]], *, nodes_before: int) -> list[list[object]]:
    """The emulator's queue bins as rows."""
    columns = [queue[name] for name in ("time_ns", *QUEUE_COLUMNS[1:])]
    rows: list[list[object]] = []
    for time_ns, node, *rest in zip(*columns, strict=True):
        if node > nodes_before:
            rows.append([f"{time_ns / 1e9:.2f}", node - nodes_before, *rest])
    return rows


def seconds(time_ns: int) -> str:
    return f"{time_ns // 10**9}.{time_ns % 10**9:09d}"
