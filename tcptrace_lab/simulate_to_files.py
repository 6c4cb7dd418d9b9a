"""A scenario run whose packets and truth go to their files while it goes on: memory does not grow with its length.

    from tcptrace_lab.scenario_file import load
    from tcptrace_lab.simulate_to_files import simulate_to_files

    scenario = load("captures/scenarios/reno_10M.toml")
    done = simulate_to_files(scenario, captures=["reno.pcap"], truth="reno.truth.csv")
    done.summary["throughput_bps"], done.files

The files are those of `simulate`, `Run.write` and `Run.write_truth`. They take their names at the end, or, after Ctrl-C
or an error, never.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tcptrace_lab import _core
from tcptrace_lab.errors import LabError
from tcptrace_lab.scenario import Scenario, plain
from tcptrace_lab.simulate import FILE_EPOCH_S, Run, checked_capture, simulate
from tcptrace_lab.tables import appending, suffix_of
from tcptrace_lab.truth_tables import drop_table, queue_table, truth_files, truth_table
from tcptrace_lab.whole_files import replacing, together

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class FilesOfRun:
    """What is left of a run whose rows are in files."""

    summary: dict[str, Any]
    files: list[Path]


def simulate_to_files(
    scenario: Scenario,
    *,
    captures: Sequence[str | os.PathLike[str]] = (),
    truth: str | os.PathLike[str] | None = None,
    snaplen: int = 65535,
    payload: bool = True,
) -> FilesOfRun:
    """Run a scenario into files: a capture for each of its taps, in their order, and the truth with drops and queue."""
    if len(captures) != len(scenario.taps):
        raise LabError(f"{len(captures)} captures for {len(scenario.taps)} taps ({', '.join(scenario.taps)})")
    suffixes = [checked_capture(path) for path in captures]
    files = [Path(path) for path in captures]
    if truth is not None and suffix_of(truth) == ".json":
        # One list, that has its end only when all is known.
        run = simulate(scenario)
        with together():
            for tap, path in zip(scenario.taps, files, strict=True):
                run.write(path, tap=tap, snaplen=snaplen, payload=payload)
            return FilesOfRun(run.summary, files + run.write_truth(truth))
    with together(), contextlib.ExitStack() as stack:
        parts = [os.fspath(stack.enter_context(replacing(path))) for path in files]
        outputs = [(part, suffix == ".pcapng") for part, suffix in zip(parts, suffixes, strict=True)]
        tables = None if truth is None else stack.enter_context(_Tables.to(truth, scenario))
        core = _core.simulate_to_files(
            plain(scenario),
            outputs,
            snaplen,
            payload,
            FILE_EPOCH_S * 10**9,
            None if tables is None else tables.add,
        )
        if tables is not None and truth is not None:
            tables.end(core)
            files += truth_files(truth)
    return FilesOfRun(core.summary(), files)


class _Tables:
    """Truth, drops and queue, piece by piece."""

    def __init__(self, scenario: Scenario, appends: Sequence[Callable[[pd.DataFrame], None]], spilled: IO[bytes]):
        self._scenario = scenario
        self._truth, self._drops, self._queue = (_Rows(append) for append in appends)
        # Bins come with time, and the table has them node after node.
        self._spilled = spilled

    @classmethod
    @contextlib.contextmanager
    def to(cls, truth: str | os.PathLike[str], scenario: Scenario) -> Iterator[_Tables]:
        with contextlib.ExitStack() as stack:
            appends = [stack.enter_context(appending(path)) for path in truth_files(truth)]
            yield cls(scenario, appends, stack.enter_context(tempfile.TemporaryFile()))

    def add(self, core: _core.Simulation) -> None:
        """The next rows."""
        run = Run(self._scenario, core)
        self._truth.add(truth_table(run))
        self._drops.add(drop_table(run))
        pickle.dump(queue_table(run), self._spilled)

    def end(self, core: _core.Simulation) -> None:
        """The last rows, and the queues."""
        self.add(core)
        for node in Run(self._scenario, core).nodes.itertuples():
            self._spilled.seek(0)
            with contextlib.suppress(EOFError):
                while True:
                    bins = pickle.load(self._spilled)
                    of_node = (bins["node"] == node.node) & (bins["is_reverse"] == node.is_reverse)
                    self._queue.add(bins[of_node])
        for rows in (self._truth, self._drops, self._queue):
            rows.end()


class _Rows:
    """A table whose header stands even where it has no row."""

    def __init__(self, append: Callable[[pd.DataFrame], None]) -> None:
        self._append = append
        self._header: pd.DataFrame | None = None
        self._has_rows = False

    def add(self, rows: pd.DataFrame) -> None:
        self._header = rows[:0]
        if len(rows):
            self._has_rows = True
            self._append(rows)

    def end(self) -> None:
        if not self._has_rows and self._header is not None:
            self._append(self._header)
