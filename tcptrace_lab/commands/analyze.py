"""Connections of captures: who, how long, how much, how fast, what was lost.

examples:
  tcptrace-lab analyze captures/two_reno.pcap.gz

  captures/two_reno.pcap.gz: 18549 packets, 2 TCP connections
  #  client          server         seconds  packets  bytes out  bytes in  retr out  retr in  RTT min   median  bit/s ..
  0  10.9.1.1:55622  10.9.2.1:5001   14.336    11763   10813440         0        86        -  40.2 ms  62.2 ms  6.03M ..
  1  10.9.1.1:33188  10.9.2.1:5002   11.312     6786    6160384         0        37        -  40.2 ms  63.7 ms  4.36M ..

  tcptrace-lab analyze --json --filter 'bytes > 1e7 and retransmissions > 0' captures/*.pcap.gz
  tcptrace-lab analyze -o connections.parquet captures/*.pcap.gz
  zcat trace.pcap.gz | tcptrace-lab analyze -

"out" is what the client sent, "in" what the server sent, in unique payload bytes. RTTs are from the tap to one end and
back plus the same to the other end. All columns are in --json and -o: times in nanoseconds, sizes in bytes.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from tcptrace_lab import _core
from tcptrace_lab.errors import LabError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import pandas as pd

    from tcptrace_lab.capture import Capture

# Work beyond this shows a progress bar on a terminal.
PATIENCE_S = 2.0
SUFFIXES = (".csv", ".csv.gz", ".parquet", ".json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Files, and what is to come out."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="pcap or pcapng, gzip or zstd too; - for standard input"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write the whole table: .csv, .csv.gz, .parquet or .json"
    )
    parser.add_argument("--filter", metavar="EXPR", help="only these connections, e.g. 'port==443 and bytes>1e6'")


def run(arguments: argparse.Namespace) -> int:
    """Read each capture; one that cannot be read is told and the others are shown."""
    output: str | None = arguments.output
    if output is not None and not output.endswith(SUFFIXES):
        raise LabError(f"{output}: the suffix must be one of {', '.join(SUFFIXES)}")
    if output is not None:
        from tcptrace_lab.tables import check_output

        check_output(output)
    if arguments.filter is not None:
        _core.check_filter(arguments.filter)
    is_json = arguments.json or (output is not None and output.endswith(".json"))
    if is_json:
        return _as_json(arguments, output)
    return _as_table(arguments, output)


def _each(files: list[str], read: Callable[[str], Any]) -> tuple[list[Any], int]:
    """What could be read, and the exit status."""
    results, status = [], 0
    for file in files:
        try:
            results.append(read(file))
        except LabError as error:
            if len(files) == 1:
                raise
            print(f"tcptrace-lab: {' '.join(str(error).split())}", file=sys.stderr)
            status = 2
    return results, status


def _as_json(arguments: argparse.Namespace, output: str | None) -> int:
    """Written by the core: nothing else is imported, so that a script that calls this often waits little."""

    def read(file: str) -> str:
        with Progress(file) as progress:
            return _core.analyze_json(file, arguments.filter, progress.tell)

    captures, status = _each(arguments.files, read)
    text = '{"captures": [' + ",\n".join(captures) + "]}\n"
    if arguments.json:
        sys.stdout.write(text)
    if output is not None:
        from tcptrace_lab.tables import replacing

        with replacing(output) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return status


def _as_table(arguments: argparse.Namespace, output: str | None) -> int:
    from tcptrace_lab.capture import Capture

    def read(file: str) -> Capture:
        with Progress(file) as progress:
            return Capture(_core.read_path(file, None, progress.tell))

    captures, status = _each(arguments.files, read)
    tables = [_chosen(capture, arguments.filter) for capture in captures]
    if output is not None:
        _write(tables, captures, output)
    else:
        _show(list(zip(captures, tables, strict=True)))
    return status


def _chosen(capture: Capture, expression: str | None) -> pd.DataFrame:
    table = capture.connections
    return table if expression is None else table.iloc[capture.accepted(expression)]


def _write(tables: list[pd.DataFrame], captures: list[Capture], output: str) -> None:
    import pandas as pd

    from tcptrace_lab.tables import write_table

    if not tables:
        return
    names = [capture.name for capture, table in zip(captures, tables, strict=True) for _ in range(len(table))]
    whole = pd.concat([pd.Series(names, name="file", dtype=str), pd.concat(tables, ignore_index=True)], axis=1)
    write_table(whole, output)


def _show(results: list[tuple[Capture, pd.DataFrame]]) -> None:
    """For people: a table per capture, through a pager where it is longer than the terminal."""
    from contextlib import nullcontext

    from tcptrace_lab.report import terminal

    console = terminal.console(width=150)
    lines = sum(len(table) + 6 for _, table in results)
    long = sys.stdout.isatty() and sys.stdin.isatty() and lines > console.size.height
    with console.pager(styles=True) if long else nullcontext():
        for capture, table in results:
            _show_one(console, capture, table)


def _show_one(console: Any, capture: Capture, table: pd.DataFrame) -> None:
    from rich.markup import escape

    shown = f"{len(table)} of {len(capture)}" if len(table) != len(capture) else f"{len(capture)}"
    noun = "connection" if shown == "1" else "connections"
    console.print(f"[bold]{escape(capture.name)}[/bold]: {capture.packets} packets, {shown} TCP {noun}")
    if capture.undecoded:
        causes = ", ".join(f"{count} {cause.replace('_', ' ')}" for cause, count in capture.undecoded.items())
        console.print(f"  without a TCP segment: {causes}")
    if capture.unknown_link_type is not None:
        console.print(f"  no TCP is looked for in link type {capture.unknown_link_type}")
    if capture.truncated is not None:
        offset, reason = capture.truncated
        console.print(f"  [red]truncated[/red] at byte {offset}: {escape(reason)}")
    if not table.empty:
        console.print(connections_view(table, console.width))


# Heading and rank: on a narrow terminal the columns of the highest rank are left out first.
COLUMNS: tuple[tuple[str, int], ...] = (
    *(("#", 0), ("client", 0), ("server", 0), ("seconds", 0), ("packets", 1), ("bytes out", 0), ("bytes in", 3)),
    *(("retr out", 2), ("retr in", 5), ("RTT min", 2), ("median", 6), ("bit/s", 4), ("end", 7), ("tap", 8)),
)
TEXT = ("client", "server", "end", "tap")


def connections_view(table: pd.DataFrame, width: int) -> Any:
    """A connections table as people read it, in so many characters."""
    from rich.table import Table

    rows = [_cells(row) for row in table.itertuples()]
    wide = [max([len(name), *(len(row[place]) for row in rows)]) for place, (name, _) in enumerate(COLUMNS)]
    kept = list(range(len(COLUMNS)))
    gap = 2 if sum(wide) + 2 * len(wide) <= width else 1
    while sum(wide[place] + gap for place in kept) > width and any(COLUMNS[place][1] for place in kept):
        kept.remove(max(kept, key=lambda place: COLUMNS[place][1]))
    view = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for place in kept:
        name = COLUMNS[place][0]
        is_address = name in ("client", "server")
        # Two long addresses are folded, never the numbers cut.
        view.add_column(
            name,
            justify="left" if name in TEXT else "right",
            no_wrap=not is_address,
            overflow="fold",
            min_width=None if is_address else wide[place],
        )
    for row in rows:
        view.add_row(*(row[place] for place in kept))
    return view


def _cells(row: Any) -> tuple[str, ...]:
    # From the tap to one end and back, plus the same to the other end: the path's round trip wherever the tap was.
    ends = ("client", "server")
    minimum, median = (sum(_number(getattr(row, f"rtt_{what}_ns_{end}")) for end in ends) for what in ("min", "median"))
    rate = max(_number(row.throughput_bps_client), _number(row.throughput_bps_server))
    return (
        str(row.id),
        f"{row.client}:{row.client_port}",
        f"{row.server}:{row.port}",
        f"{row.duration_ns / 1e9:.3f}",
        str(row.packets),
        str(row.unique_bytes_client),
        str(row.unique_bytes_server),
        str(row.retransmissions_client or "-"),
        str(row.retransmissions_server or "-"),
        _milliseconds(minimum),
        _milliseconds(median),
        _scaled(rate),
        row.end if row.from_start else f"{row.end}, joined late",
        row.vantage.replace("unknown", "-"),
    )


def _number(value: float) -> float:
    import math

    return 0.0 if math.isnan(value) else value


def _milliseconds(value: float) -> str:
    return f"{value / 1e6:.3g} ms" if value > 0 else "-"


def _scaled(rate: float) -> str:
    for unit in ("", "k", "M"):
        if rate < 1000:
            return f"{rate:.3g}{unit}"
        rate /= 1000
    return f"{rate:.3g}G"


class Progress:
    """A bar on a terminal's standard error, for a file that takes longer than two seconds."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.size = os.path.getsize(file) if os.path.isfile(file) else 0
        self.started = time.monotonic()
        self.bar: Any = None
        # Nobody is asked for what nobody sees.
        self.tell = self._tell if sys.stderr.isatty() else None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def _tell(self, position: int) -> None:
        if self.bar is None:
            if time.monotonic() - self.started < PATIENCE_S:
                return
            from rich.console import Console
            from rich.progress import Progress as Bar

            self.bar = Bar(console=Console(stderr=True), transient=True)
            self.bar.add_task(os.path.basename(self.file), total=self.size or None)
            self.bar.start()
        self.bar.update(self.bar.task_ids[0], completed=position)
