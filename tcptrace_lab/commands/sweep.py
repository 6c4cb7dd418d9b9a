"""Run a scenario over ranges of its keys, in parallel, one row for each run.

Ctrl-C loses nothing finished: with -o the same command again runs only what is missing.
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
    parser.add_argument("-o", "--output", metavar="FILE", help="keep the rows: .parquet, .csv or .csv.gz")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Sweep, keep and print."""
    from tcptrace_lab.errors import ScenarioError
    from tcptrace_lab.scenario_file import parse, set_key, split_override, table_of
    from tcptrace_lab.sweep import over, sweep
    from tcptrace_lab.tables import suffix_of

    if arguments.output:
        suffix_of(arguments.output)
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
    shown = frame.drop(columns="run")
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
