"""Connections of captures: who, how long, how much, how fast, what was lost.

    $ tcptrace-lab analyze captures/two_reno.pcap.gz
    captures/two_reno.pcap.gz: 18549 packets, 2 TCP connections
    # client         server        lasted packets bytes out bytes in retr out retr in RTT min  median        rate end
    0 10.9.1.1:55622 10.9.2.1:5001 14.3 s   11763  10813440        0       86       0 40.2 ms 62.2 ms 6.03 Mbit/s fin
    1 10.9.1.1:33188 10.9.2.1:5002 11.3 s    6786   6160384        0       37       0 40.2 ms 63.7 ms 4.36 Mbit/s fin

    $ tcptrace-lab analyze --json --filter 'bytes > 10MB and retransmissions > 0' captures/
    $ tcptrace-lab analyze --filter 'tcp.port in {80, 443} and ip.addr == 10.0.0.0/8 and duration > 1s' 'ring.pcap*'
    $ tcptrace-lab analyze -o connections.parquet captures/*.pcap.gz
    $ zcat trace.pcap.gz | tcptrace-lab analyze -

"out" is what the client sent, "in" what the server sent, in unique payload bytes. RTTs are from the tap to one end and
back plus the same to the other end. All columns are in --json and -o, times in nanoseconds, sizes in bytes:
`tcptrace-lab columns` says what each holds.

--json gives a list, an object for each capture with its connections. --json-lines gives a connection a line, written
as soon as it is over, and at the end of each capture a line with its packets: only open connections are held in memory.
"""

from __future__ import annotations

import argparse
import codecs
import os
import sys
import time
from types import SimpleNamespace

from tcptrace_lab import _core
from tcptrace_lab.commands.inputs import HELP, captures, note_truncated
from tcptrace_lab.errors import LabError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, BinaryIO, TextIO

    from tcptrace_lab.capture import Capture

# Work beyond this shows a progress bar on a terminal.
PATIENCE_S = 2.0
SUFFIXES = (".csv", ".csv.gz", ".parquet", ".json")
# Connections turned into a table at a time: what is written needs no more memory than this many.
ROWS = 20_000
# --json-lines: a connection is over so long after its end, or after so long a silence.
OVER_AFTER_S = {"closed": 120.0, "idle": 3600.0}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Files, and what is to come out."""
    parser.add_argument("files", nargs="+", metavar="FILE", help=HELP)
    parser.add_argument("--json", action="store_true", help="one JSON list on standard output, an object a capture")
    parser.add_argument(
        "--json-lines", action="store_true", help="a JSON object a line for each connection, as soon as it is over"
    )
    parser.add_argument(
        "--closed", type=float, metavar="S", help="with --json-lines: written S seconds after its FIN or RST (120)"
    )
    parser.add_argument(
        "--idle", type=float, metavar="S", help="with --json-lines: or after S seconds without a packet (3600)"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write the whole table: .csv, .csv.gz, .parquet or .json"
    )
    parser.add_argument("--filter", metavar="EXPR", help="only these connections, e.g. 'port==443 and bytes>1e6'")
    parser.add_argument("--utc", action="store_true", help="start times in UTC, not in this machine's time zone")
    parser.add_argument("--pager", action="store_true", help="page a table longer than the terminal")


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
    if arguments.json and arguments.json_lines:
        raise LabError("--json and --json-lines: one of them")
    for name in OVER_AFTER_S:
        given = getattr(arguments, name)
        if given is not None and not arguments.json_lines:
            raise LabError(f"--{name}: only with --json-lines")
        if given is not None and not given >= 0:
            raise LabError(f"--{name} {given:g}: must be 0 or more")
    files = captures(arguments.files)
    if output is not None and not output.endswith(".json"):
        status = _write(files, arguments.filter, output)
        if not (arguments.json or arguments.json_lines):
            return status
    elif output is not None:
        from tcptrace_lab.whole_files import replacing

        with replacing(output) as temporary, open(temporary, "wb") as file:
            status = _as_json(files, arguments, file)
        if not (arguments.json or arguments.json_lines):
            return status
    if arguments.json or arguments.json_lines:
        sys.stdout.flush()
        return _as_json(files, arguments, getattr(sys.stdout, "buffer", None) or _Text(sys.stdout))
    return _as_table(files, arguments)


def _each(files: list[str], read: Callable[[str], object]) -> int:
    """Read what can be read; the exit status."""
    status = 0
    for file in files:
        try:
            read(file)
        except LabError as error:
            if len(files) == 1:
                raise
            print(f"tcptrace-lab: {' '.join(str(error).split())}", file=sys.stderr)
            status = 2
    return status


class _Text:
    """Bytes to a stream that takes text only, as a notebook's does; a piece may end within a character."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.decode = codecs.getincrementaldecoder("utf-8")().decode

    def write(self, piece: bytes) -> None:
        self.stream.write(self.decode(piece))

    def flush(self) -> None:
        self.stream.flush()


def _as_json(files: list[str], arguments: argparse.Namespace, out: BinaryIO | _Text) -> int:
    """Written by the core: nothing else is imported, so that a script that calls this often waits little."""
    patience = None
    if arguments.json_lines:
        closed_s, idle_s = (
            default if getattr(arguments, name) is None else getattr(arguments, name)
            for name, default in OVER_AFTER_S.items()
        )
        patience = (closed_s, idle_s)
    separator = b"["

    def read(file: str) -> None:
        nonlocal separator

        def write(piece: bytes) -> None:
            # Not before the file could be read.
            nonlocal separator
            if patience is None and separator:
                out.write(separator)
                separator = b""
            out.write(piece)

        with Progress(file) as progress:
            _core.analyze_json(file, write, arguments.filter, patience, progress.tell)
        separator = b",\n"

    status = _each(files, read)
    if patience is None:
        out.write(b"[]\n" if separator == b"[" else b"]\n")
    out.flush()
    return status


def _followed(file: str) -> Capture:
    from tcptrace_lab.capture import Capture

    with Progress(file) as progress:
        return Capture(_core.read_path(file, None, progress.tell))


def _columns(capture: Capture) -> Iterator[dict[str, Any]]:
    """The connections, so many at a time."""
    for first in range(0, max(len(capture), 1), ROWS):
        yield capture.connection_columns(first, ROWS)


def _write(files: list[str], expression: str | None, output: str) -> int:
    import pandas as pd

    from tcptrace_lab.tables import appending

    with appending(output) as write:

        def read(file: str) -> None:
            capture = _followed(file)
            note_truncated(capture)
            accepted = None if expression is None else capture.accepted(expression)
            for columns in _columns(capture):
                table = pd.DataFrame({"file": capture.name} | columns)
                write(table if accepted is None else table[table["id"].isin(accepted)])

        return _each(files, read)


def _as_table(files: list[str], arguments: argparse.Namespace) -> int:
    """For people: a table per capture."""
    from contextlib import nullcontext

    from tcptrace_lab.report import terminal

    console = terminal.console(width=terminal.UNBOUNDED)
    is_paged = arguments.pager and sys.stdout.isatty() and sys.stdin.isatty()
    with console.pager(styles=True) if is_paged else nullcontext():

        def read(file: str) -> None:
            capture = _followed(file)
            accepted = None if arguments.filter is None else set(capture.accepted(arguments.filter))
            _show_head(console, capture, len(capture) if accepted is None else len(accepted))
            show_header = True
            for columns in _columns(capture):
                rows = [row for row in rows_of(columns) if accepted is None or row.id in accepted]
                if rows:
                    view = connections_view(rows, console.width, utc=arguments.utc)
                    view.show_header, show_header = show_header, False
                    console.print(view)

        return _each(files, read)


def _show_head(console: Any, capture: Capture, chosen: int) -> None:
    from rich.text import Text

    name = Text(capture.name, "bold")
    # A line that names a file is not broken: it may be copied.
    name.append(f": {extent(capture, chosen)}", "not bold")
    console.print(name, soft_wrap=not console.is_terminal)
    if capture.undecoded:
        causes = ", ".join(f"{count} {cause.replace('_', ' ')}" for cause, count in capture.undecoded.items())
        console.print(f"  without a TCP segment: {causes}")
    if capture.unknown_link_type is not None:
        console.print(f"  no TCP is looked for in link type {capture.unknown_link_type}")
    if capture.truncated is not None:
        offset, reason = capture.truncated
        console.print(Text("  ").append("truncated", "red").append(f" at byte {offset}: {reason}"))


def extent(capture: Capture, chosen: int | None = None) -> str:
    """18549 packets, 2 TCP connections; of which `chosen` are shown."""
    from tcptrace_lab.numbers import counted

    shown = "" if chosen is None or chosen == len(capture) else f"{chosen} of "
    return f"{counted(capture.packets, 'packet')}, {shown}{counted(len(capture), 'TCP connection')}"


# Heading and rank: on a narrow terminal the columns of the highest rank are left out first.
COLUMNS: tuple[tuple[str, int], ...] = (
    *(("#", 0), ("start", 9), ("client", 0), ("server", 0), ("lasted", 0), ("packets", 1), ("bytes out", 0)),
    *(("bytes in", 3), ("retr out", 2), ("retr in", 5), ("RTT min", 2), ("median", 6), ("rate", 4), ("end", 7)),
    ("tap", 8),
)
TEXT = ("start", "client", "server", "end", "tap")


def rows_of(columns: dict[str, Any]) -> Iterator[SimpleNamespace]:
    """A table's rows, without pandas: it takes longer to import than most captures to read."""
    for values in zip(*columns.values(), strict=True):
        yield SimpleNamespace(**dict(zip(columns, values, strict=True)))


def connections_view(connections: Iterable[Any], width: int, *, utc: bool = False) -> Any:
    """Rows of the connections table as people read them, in so many characters; start times in UTC or local time."""
    from rich.table import Table

    rows = [_cells(row, utc=utc) for row in connections]
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


def _cells(row: Any, *, utc: bool) -> tuple[str, ...]:
    from tcptrace_lab import numbers

    # From the tap to one end and back, plus the same to the other end: the path's round trip wherever the tap was.
    ends = ("client", "server")
    minimum, median = (sum(_number(getattr(row, f"rtt_{what}_ns_{end}")) for end in ends) for what in ("min", "median"))
    rates = (row.throughput_bps_client, row.throughput_bps_server)
    rate = max((_number(rate) for rate in rates), default=0.0)
    return (
        str(row.id),
        started(row.start_ns, utc=utc),
        numbers.end(row.client, row.client_port),
        numbers.end(row.server, row.port),
        numbers.seconds(row.duration_ns / 1e9),
        str(row.packets),
        str(row.unique_bytes_client),
        str(row.unique_bytes_server),
        str(row.retransmissions_client),
        str(row.retransmissions_server),
        numbers.seconds(minimum / 1e9 if minimum > 0 else None),
        numbers.seconds(median / 1e9 if median > 0 else None),
        numbers.rate(rate if row.duration_ns > 0 else None),
        row.end if row.from_start else f"{row.end}, joined late",
        row.vantage.replace("unknown", numbers.UNKNOWN),
    )


def started(start_ns: int, *, utc: bool) -> str:
    """A time since the epoch as a date of this machine's time zone, or of UTC, to the millisecond."""
    from datetime import UTC, datetime

    at = datetime.fromtimestamp(start_ns // 10**9, UTC).replace(microsecond=start_ns % 10**9 // 1000)
    text = (at if utc else at.astimezone()).isoformat(sep=" ", timespec="milliseconds")
    return text.removesuffix("+00:00") + "Z" if utc else text[:23]


def _number(value: float) -> float:
    import math

    return 0.0 if math.isnan(value) else value


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
