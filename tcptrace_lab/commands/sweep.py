"""Run a scenario over ranges of its keys, in parallel, one row for each run.

Ctrl-C loses nothing finished: with -o the same command again runs only what is missing. --json and -o have more
columns than what is printed.

    $ tcptrace-lab sweep captures/scenarios/small_buffers_B20.toml --over path.nodes.0.buffer=19:22
     path.nodes.0.buffer  throughput_pps  utilization  backlog_packets  losses  timeouts  cycles slow_starts_per_cycle
                      19         218.065      0.59716          1.23862      11         0       4                     2
                      20          193.93     0.531206          1.11145      14         0       3                     3
                      21         221.687     0.607014          1.56007      11         0       4                     2
                      22         223.097     0.610827          1.67543      11         0       4                     2

The paper's triple slow start at B = 20 (000, Figure 4): a larger buffer, and less throughput.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


# What fits a terminal.
SHOWN = (
    *("throughput_pps", "utilization", "backlog_packets", "losses", "timeouts"),
    *("cycles", "slow_starts_per_cycle"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`sweep SCENARIO --over KEY=VALUES ...`."""
    parser.add_argument("scenario", help="scenario file (TOML)")
    parser.add_argument(
        "--over",
        action="append",
        required=True,
        metavar="KEY=VALUES",
        help="swept key: 3:70 (both ends run), 0:1:0.25 (step), tahoe,reno (list); may be given again",
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a key in every run")
    parser.add_argument("-o", "--output", metavar="FILE", help="keep the rows: .parquet, .csv, .csv.gz or .json")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Sweep, keep and print."""
    from tcptrace_lab.errors import ScenarioError
    from tcptrace_lab.scenario_file import parse, set_key, split_override, table_of
    from tcptrace_lab.sweep import over, sweep
    from tcptrace_lab.tables import check_table

    if arguments.output:
        check_table(arguments.output)
    table = table_of(arguments.scenario)
    for override in arguments.set:
        table = set_key(table, *split_override(override))
    overs = [over(text) for text in arguments.over]
    try:
        parse(table)
        with _progress() as tell:
            frame = sweep(table, overs, output=arguments.output, progress=tell)
    except ScenarioError as error:
        raise ScenarioError(f"{arguments.scenario}: {error}") from error
    if arguments.json:
        print(json.dumps(json.loads(frame.to_json(orient="records")), indent=2))
    elif not arguments.output:
        print(_table(frame))
    return 0


def _table(frame: pd.DataFrame) -> str:
    swept = list(frame.columns[: list(frame.columns).index("duration_s")])
    shown = frame[swept + [name for name in SHOWN if name in frame and name not in swept]]
    return str(shown.to_string(index=False, float_format=lambda value: f"{value:.6g}"))


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """A bar on stderr, on a terminal only."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("[progress.description]{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("runs", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
