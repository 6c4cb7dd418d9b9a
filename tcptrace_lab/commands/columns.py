"""The columns of the connections table: name, unit, what each holds and by which document it is counted.

    $ tcptrace-lab columns handshake
    column                   unit  holds
    handshake_rtt_ns         ns    SYN to the ACK of the SYN-ACK: a whole round trip wherever the tap stands
    handshake_rtt_ns_client  ns    client: from this side's SYN or SYN-ACK, if sent once, to its ACK: the part of the
                                   handshake behind the tap
    handshake_rtt_ns_server  ns    server: from this side's SYN or SYN-ACK, if sent once, to its ACK: the part of the
                                   handshake behind the tap

Each is a word of `analyze --filter` and a column of --json, -o and `Capture.connections`.
"""

from __future__ import annotations

import argparse
import json

from tcptrace_lab.errors import LabError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which columns."""
    parser.add_argument("word", nargs="?", default="", help="only columns with this word in their name")
    parser.add_argument("--json", action="store_true", help="a JSON list of objects")


def run(arguments: argparse.Namespace) -> int:
    """Print what the core says of its columns."""
    from tcptrace_lab import _core

    found = [row for row in _core.COLUMNS if arguments.word in row[0]]
    if not found:
        raise LabError(f"no column has {arguments.word!r} in its name")
    if arguments.json:
        print(json.dumps([dict(zip(("column", "unit", "holds"), row, strict=True)) for row in found], indent=1))
        return 0
    from rich.table import Table

    from tcptrace_lab.report import terminal

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("column", "unit", "holds"):
        table.add_column(name, no_wrap=name != "holds")
    for row in found:
        table.add_row(*row)
    terminal.console(width=120).print(table)
    return 0
