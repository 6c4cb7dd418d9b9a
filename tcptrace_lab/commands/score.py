"""Compare a reconstruction with the truth beside a capture: window, losses, slow starts.

The truth is what `tcptrace-lab record` and `simulate` write: the sender's own window, and the packets dropped.

    $ tcptrace-lab score captures/tahoe_small_buffer.pcap.gz captures/tahoe_small_buffer.truth.csv.gz
    window against the sender's own     rows  median error  90 % below            bias
    every ACK                           9664         0.00%       0.00%  +0.00 segments
    where cwnd is said to be the limit  9285         0.00%       0.00%  +0.00 segments
    in recovery                          297         0.00%       0.00%  +0.00 segments
    truth within the bounds, recovery apart: 100.0%
    losses: 39 found, 39 dropped, precision 1.000, recall 1.000
    slow starts: 6 found, 6 in the truth
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tcptrace_lab.reconstruct.truth.score import Score, WindowError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A capture and its side-car."""
    parser.add_argument("capture", metavar="CAPTURE", help="pcap or pcapng, also gzip or zstd")
    parser.add_argument(
        "truth", metavar="TRUTH", help="NAME.truth.csv.gz (or .csv, .parquet); NAME.drops.* beside it is used"
    )
    parser.add_argument("--connection", type=int, metavar="N", help="the connection (default: the one with most data)")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write .json (the object), or .csv, .csv.gz, .parquet (flat)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Reconstruct, compare, print."""
    from tcptrace_lab.classify.control.windows.replayed import replayed
    from tcptrace_lab.commands.reconstruct import chosen
    from tcptrace_lab.reconstruct.truth.score import score
    from tcptrace_lab.reconstruct.truth.truth_file import read_truth
    from tcptrace_lab.tables import check_table, flat, write_answer

    if arguments.output:
        check_table(arguments.output)
    capture, who = chosen(arguments.capture, arguments.connection)
    truth = read_truth(arguments.truth, port=int(who.sender.rpartition(":")[2]))
    result = score(replayed(who), truth, first_sequence=who.first_sequence)
    head = {"file": capture.name, "truth": arguments.truth, "connection": who.connection}
    answer = {**head, **result.as_dict()}
    if arguments.output:
        write_answer(answer, flat([answer]), arguments.output)
    if arguments.json:
        print(json.dumps(answer, indent=1, allow_nan=False))
    elif not arguments.output:
        _print(result)
    return 0


def _print(result: Score) -> None:
    from rich.table import Table

    from tcptrace_lab.report import terminal

    table = Table(box=None, pad_edge=False)
    table.add_column("window against the sender's own")
    for name in ("rows", "median error", "90 % below", "bias"):
        table.add_column(name, justify="right")
    for name, error in (
        ("every ACK", result.window),
        ("where cwnd is said to be the limit", result.limited),
        ("in recovery", result.recovery),
    ):
        table.add_row(name, *_error(error))
    console = terminal.console()
    console.print(table)
    if result.within is not None:
        console.print(f"truth within the bounds, recovery apart: {result.within:.1%}")
    dropped = "no list of drops" if result.drops is None else f"{result.drops} dropped"
    rates = (
        ""
        if result.precision is None or result.recall is None
        else (f", precision {result.precision:.3f}, recall {result.recall:.3f}")
    )
    unmended = f"; {result.unmended} more were not sent again before the capture ends" if result.unmended else ""
    console.print(f"losses: {result.losses} found, {dropped}{rates}{unmended}")
    in_truth = "not told by" if result.slow_starts_truth is None else f"{result.slow_starts_truth} in"
    console.print(f"slow starts: {result.slow_starts} found, {in_truth} the truth")


def _error(error: WindowError) -> list[str]:
    if error.median is None or error.p90 is None or error.bias is None:
        return [str(error.rows), "", "", ""]
    return [str(error.rows), f"{error.median:.2%}", f"{error.p90:.2%}", f"{error.bias:+.2f} segments"]
