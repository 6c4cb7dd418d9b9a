"""A scenario run many times over ranges of its keys: in parallel inside the core, no captures in between, resumable."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tcptrace_lab import _core
from tcptrace_lab._version import __version__
from tcptrace_lab.errors import ScenarioError
from tcptrace_lab.scenario import Scenario
from tcptrace_lab.scenario_file import parse, scenario_table, set_key, split_override
from tcptrace_lab.tables import read_table, write_table

if TYPE_CHECKING:
    import pandas as pd

# In CSV "3" would come back as a number and "" as a missing one.
TEXT_COLUMNS = ("run", "slow_starts_per_cycle", "drops_per_node")

# Rows reach the disk at most this long after their run ended: what a power cut can cost.
FLUSH_S = 2.0

# All are held, with their scenarios, before the first is run: some kilobytes each.
MOST_RUNS = 100_000


@dataclass(frozen=True, kw_only=True)
class Over:
    """One swept key and its values in order."""

    key: str
    values: tuple[object, ...]


def over(text: str) -> Over:
    """`KEY=3:70` (both ends run), `KEY=0:1:0.25` (a step), `KEY=tahoe,reno` (a list), or a mixture of these."""
    key, equals, values = text.partition("=")
    if not equals or not key.strip() or not values.strip():
        raise ScenarioError(f"--over {text}: must be KEY=START:STOP[:STEP] or KEY=A,B,C")
    key = key.strip()
    found = tuple(value for part in values.split(",") for value in _values(key, part.strip()))
    if not found:
        raise ScenarioError(f"--over {text}: no value lies in the range")
    return Over(key=key, values=found)


def sweep(
    table: Mapping[str, object],
    overs: Sequence[Over],
    *,
    output: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Run every combination of `overs` (the last one varies fastest) over a scenario table; one row for each.

    With `output` (.parquet or .csv) rows are kept as they finish and on Ctrl-C, and a later call runs only the ones
    that are missing. `progress` is told (done, all). A row's `run` names its scenario and this version: what was
    computed for another one is never taken for it.
    """
    import pandas as pd

    points = list(_points(table, overs))
    wanted = {point.run: point for point in points}
    done = _finished(output, wanted) if output is not None else {}
    missing = [point for point in wanted.values() if point.run not in done]
    keep = _Keeper(output, points, done, progress)
    try:
        if missing:
            _core.sweep([point.scenario for point in missing], lambda i, row: keep.add(missing[i], row))
    finally:
        keep.flush()
    return pd.DataFrame([done[point.run] for point in points])


@dataclass(frozen=True)
class _Point:
    run: str
    keys: dict[str, object]
    scenario: dict[str, Any]


class _Keeper:
    """Rows in the order of the sweep, written now and then and at the end."""

    def __init__(
        self,
        output: str | os.PathLike[str] | None,
        points: Sequence[_Point],
        done: dict[str, dict[str, object]],
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.output, self.points, self.done, self.progress = output, points, done, progress
        self.pending = 0
        self.flushed_s = _now_s()
        self._tell()

    def add(self, point: _Point, row: dict[str, object]) -> None:
        self.done[point.run] = {**point.keys, **row, "run": point.run}
        self.pending += 1
        self._tell()
        if _now_s() - self.flushed_s > FLUSH_S:
            self.flush()

    def flush(self) -> None:
        if self.output is not None and self.pending:
            import pandas as pd

            rows = [self.done[point.run] for point in self.points if point.run in self.done]
            write_table(pd.DataFrame(rows), self.output)
        self.pending, self.flushed_s = 0, _now_s()

    def _tell(self) -> None:
        if self.progress is not None:
            self.progress(len(self.done), len({point.run for point in self.points}))


def combinations(table: Mapping[str, object], overs: Sequence[Over]) -> Iterator[tuple[dict[str, object], Scenario]]:
    """Every combination of values, the last key varying fastest, with its scenario."""
    runs = math.prod(len(one.values) for one in overs)
    if runs > MOST_RUNS:
        raise ScenarioError(f"--over: {runs} combinations; a sweep has {MOST_RUNS} runs at most")
    for values in itertools.product(*(one.values for one in overs)):
        keys = dict(zip((one.key for one in overs), values, strict=True))
        changed: Mapping[str, object] = table
        for key, value in keys.items():
            changed = set_key(changed, key, value)
        yield keys, parse({**changed, "taps": []})


def _points(table: Mapping[str, object], overs: Sequence[Over]) -> Iterator[_Point]:
    for keys, scenario in combinations(table, overs):
        said = scenario_table(scenario)
        text = f"{__version__} {json.dumps(said, sort_keys=True)}"
        yield _Point(hashlib.sha256(text.encode()).hexdigest()[:16], keys, said)


def _finished(output: str | os.PathLike[str], wanted: Mapping[str, _Point]) -> dict[str, dict[str, object]]:
    """The rows an earlier call left in `output`."""
    if not Path(output).exists():
        return {}
    frame = read_table(output, text=TEXT_COLUMNS)
    if "run" not in frame.columns or not set(frame["run"]) <= set(wanted):
        raise ScenarioError(f"{output}: holds rows of another sweep: remove it or name another file")
    return {str(row["run"]): cast(dict[str, object], row) for row in frame.to_dict("records")}


def _values(key: str, text: str) -> Iterator[object]:
    words = text.split(":")
    if len(words) == 1:
        yield split_override(f"{key}={text}")[1]
        return
    numbers = [_number(key, text, word) for word in words]
    start, stop, step = [*numbers, 1][:3]
    if len(numbers) > 3 or step == 0:
        raise ScenarioError(f"--over {key}={text}: must be START:STOP or START:STOP:STEP with a step other than 0")
    # Half a step of tolerance in 1e9: 0:1:0.1 ends at 1, whatever the sum of tenths is in binary.
    count = math.floor((stop - start) / step + 1e-9) + 1
    if count > MOST_RUNS:
        raise ScenarioError(f"--over {key}={text}: {count} values; a sweep has {MOST_RUNS} runs at most")
    for i in range(max(count, 0)):
        yield start + i * step


def _number(key: str, text: str, word: str) -> float:
    value = split_override(f"{key}={word}")[1] if word.strip() else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ScenarioError(f"--over {key}={text}: {word!r} is not a number")
    return value


def _now_s() -> float:
    import time

    return time.monotonic()
