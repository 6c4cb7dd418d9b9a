"""What a sender's window did: a table of windows per ACK, phases, losses or cycles.

On the terminal times are seconds from the first packet and windows are segments; files and --json have nanoseconds
and bytes.

    $ tcptrace-lab reconstruct captures/tahoe_small_buffer.pcap.gz
    captures/tahoe_small_buffer.pcap.gz connection 0: 10.9.1.1:40000 -> 10.9.2.1:5001, 472-byte segments
      start_s      end_s  kind        cwnd_start  cwnd_end
     0.000180   1.744274  slow_start         1.0      49.0
     1.744274   1.752565  recovery          49.0      49.0
     1.752565   4.044480  slow_start         1.0      25.0
     4.044480   4.096299  avoidance         25.0      25.0
     4.096299   4.328002  recovery          25.0      25.0
     4.328002   5.744858  slow_start         1.0      13.0
    ...
    $ tcptrace-lab reconstruct captures/tahoe_small_buffer.pcap.gz --table cycles
    captures/tahoe_small_buffer.pcap.gz connection 0: 10.9.1.1:40000 -> 10.9.2.1:5001, 472-byte segments
      start_s      end_s  slow_starts  phases  w_max  throughput
     0.000000  33.611940            3       8  109.0   6.755e+05
    33.611940  60.000039            3       7   81.0   5.154e+05
    $ tcptrace-lab reconstruct captures/reno_10M.pcap.gz -o windows.parquet
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from tcptrace_lab import _core

if TYPE_CHECKING:
    from collections.abc import Callable

    from tcptrace_lab.capture import Capture
    from tcptrace_lab.reconstruct.reconstruction import Reconstruction
    from tcptrace_lab.reconstruct.sender import Sender

TABLES = ("windows", "phases", "losses", "cycles")
SHOWN = 40
# Columns with -1 where there is no value.
NULLABLE = ("cwnd_high", "ssthresh", "ssthresh_after")
# Rows turned into text in one go.
ROWS_AT_ONCE = 1 << 14
# Values of a column, a line for each.
BY_LINES = json.JSONEncoder(separators=("\n", ": "), allow_nan=False)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One capture, one connection, one table."""
    parser.add_argument("capture", metavar="FILE", help="pcap or pcapng, also gzip or zstd; - for standard input")
    parser.add_argument("--connection", type=int, metavar="N", help="the connection (default: the one with most data)")
    parser.add_argument(
        "--table", choices=TABLES, help="which table (default: phases on a terminal, windows to a file)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object with every table on standard output")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the table: .csv, .csv.gz, .parquet or .json")


def run(arguments: argparse.Namespace) -> int:
    """Reconstruct, and print or write."""
    from functools import cache, partial

    from tcptrace_lab.tables import check_table, write_table

    if arguments.output:
        check_table(arguments.output)
    capture, who = chosen(
        arguments.capture, arguments.connection, needs="tcptrace_lab.classify.control.windows.replayed"
    )
    from tcptrace_lab.classify.control.windows.replayed import replayed
    from tcptrace_lab.classify.path.causes import causes, with_causes
    from tcptrace_lab.classify.path.neighbours import Neighbours
    from tcptrace_lab.classify.path.path_of import path_of

    seen = replayed(who)
    refused = refusals(seen, who)
    table = arguments.table or ("windows" if arguments.output else "phases")
    if table in refused and (arguments.output or not arguments.json):
        # What classify does not claim is no table either: the capture answers "no".
        print(f"{capture.name} connection {who.connection}: no {table}: {refused[table]}", file=sys.stderr)
        return 1
    # Only what was lost asks for the path.
    causes_of = cache(lambda: causes(seen, path_of(seen, who, beside=partial(Neighbours(capture).of, who)), who))
    if not arguments.output and not arguments.json:
        _print(capture.name, who, seen, causes_of, table)
        return 0
    if arguments.output:
        frame = with_causes(seen, causes_of()) if table == "losses" else seen.tables([table])[table]
        write_table(frame, arguments.output)
    if arguments.json:
        if "losses" not in refused:
            # Worked out while nothing else is held: the path's reading and the replay are each as large as the capture.
            causes_of()
        tables = {name: _columns(seen, causes_of, name) for name in TABLES if name not in refused}
        # Of what they were made of nothing is written: text would stand beside columns as long as the capture.
        del seen, causes_of
        _print_json(capture.name, who, tables, refused)
    return 0


def chosen(file: str, connection: int | None, *, needs: str | None = None) -> tuple[Capture, Sender]:
    """A capture, and the sender of connection N of a capture, or of the one with most data; `needs`: as `opened`."""
    from tcptrace_lab.commands.inputs import opened
    from tcptrace_lab.errors import LabError

    capture = opened(file, needs=needs)
    from tcptrace_lab.reconstruct.sender import sender

    volumes = capture.columns["bytes"]
    if not len(volumes) or not int(volumes.max()):
        raise LabError(f"{capture.name}: no connection carries data")
    number = int(volumes.argmax()) if connection is None else connection
    if not 0 <= number < len(volumes):
        raise LabError(f"{capture.name}: no connection {number}; it has {len(volumes)}")
    return capture, sender(capture[number])


def refusals(seen: Reconstruction, who: Sender) -> dict[str, str]:
    """The tables that this capture cannot carry, and why."""
    from tcptrace_lab.classify.obstacles import find_obstacles
    from tcptrace_lab.classify.path.causes import losses_refused

    hidden = find_obstacles(seen, who).hides_window
    found = {name: hidden[0] for name in ("windows", "phases", "cycles") if hidden}
    if (refused := who.tap.refuses("cycles")) and seen.episodes:
        found.setdefault("cycles", refused)
    if refused := losses_refused(seen, who):
        found["losses"] = refused
    return found


def _columns(seen: Reconstruction, causes_of: Callable[[], list[str]], table: str) -> dict[str, Any]:
    """A table's columns as a reader gets them; pandas (75 MB) is not needed for it."""
    columns = dict(seen.columns(table))
    if table == "losses":
        by_event = causes_of()
        columns["cause"] = [by_event[event] for event in columns.pop("event").tolist()]
    return columns


def _values(name: str, column: Any) -> list[Any]:
    """Some rows of a column: None where a bound is not known, words for codes."""
    from tcptrace_lab.reconstruct.windows import LIMITS

    values = column.tolist() if hasattr(column, "tolist") else list(column)
    if name == "limited_by":
        return [LIMITS[code] if code >= 0 else None for code in values]
    if name in NULLABLE:
        return [None if value < 0 else value for value in values]
    # NaN alone is not what it is.
    return [None if value != value else value for value in values]  # noqa: PLR0124


def _print_json(file: str, who: Sender, tables: dict[str, dict[str, Any]], refused: dict[str, str]) -> None:
    """One object; a line for each row of a table, written as they come."""
    head = {"file": file, "connection": who.connection, "sender": who.sender, "receiver": who.receiver}
    told = {**head, "notes": list(who.tap.notes), "refused": refused, **dict.fromkeys(refused)}
    write = sys.stdout.write
    write(json.dumps(told, indent=1, allow_nan=False).removesuffix("\n}"))
    between = ",\n  "
    for name, columns in tables.items():
        write(f",\n {json.dumps(name)}: [")
        for first in range(0, len(next(iter(columns.values()))), ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            cells = [_cells(key, column[rows]) for key, column in columns.items()]
            write(between.removeprefix("" if first else ",") + _core.json_rows(list(columns), cells, between))
        write("\n ]")
    write("\n}\n")


def _cells(name: str, column: Any) -> list[str] | tuple[Any, list[str], bool]:
    """Some rows of a column as the core writes them; what is as long as the capture is numbers."""
    from tcptrace_lab.reconstruct.windows import LIMITS

    if hasattr(column, "dtype") and column.dtype.kind == "i":
        return column.astype("int64"), list(LIMITS) if name == "limited_by" else [], name in NULLABLE
    # At once: no value has a line's end in it.
    return BY_LINES.encode(_values(name, column))[1:-1].split("\n")


def _head(seen: Reconstruction, causes_of: Callable[[], list[str]], table: str) -> tuple[dict[str, list[Any]], int]:
    """The rows of a table that are shown, as columns, and how many it has."""
    columns = _columns(seen, causes_of, table)
    head = {name: _values(name, column[:SHOWN]) for name, column in columns.items()}
    return head, len(next(iter(columns.values())))


def _print(file: str, who: Sender, seen: Reconstruction, causes_of: Callable[[], list[str]], table: str) -> None:
    """Times in seconds from the first packet, windows in segments: what a person reads."""
    from rich.table import Table

    from tcptrace_lab.report import terminal

    console = terminal.console()
    console.print(
        f"{file} connection {who.connection}: {who.sender} -> {who.receiver}, {who.timeline.smss}-byte segments"
    )
    for note in who.tap.notes:
        # A cut is told on standard error, for every command.
        if note != who.tap.truncated:
            console.print(f"note: {note}")
    shown = Table(box=None, pad_edge=False)
    head, rows = _head(seen, causes_of, table)
    for name in head:
        shown.add_column(_heading(name), justify="left" if name in ("kind", "limited_by", "detected_by") else "right")
    for row in zip(*head.values(), strict=True):
        shown.add_row(*(_cell(name, value, who) for name, value in zip(head, row, strict=True)))
    console.print(shown)
    if rows > SHOWN:
        console.print(f"... {rows - SHOWN} more rows (-o FILE writes all)")


BYTES = (
    "cwnd",
    "cwnd_low",
    "cwnd_high",
    "ssthresh",
    "cwnd_start",
    "cwnd_end",
    "cwnd_before",
    "ssthresh_after",
    "w_max",
)


def _heading(name: str) -> str:
    return name.removesuffix("_ns") + "_s" if name.endswith("_ns") else name


def _cell(name: str, value: Any, who: Sender) -> str:
    if value is None:
        return "-"
    if name.endswith("_ns"):
        return f"{who.timeline.seconds(value):.6f}"
    if name in BYTES:
        return f"{value / who.timeline.smss:.1f}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
