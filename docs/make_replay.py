"""Writes the tables of docs/replay.md: recordings sent again as found, and random runs that nobody looked at.

$ python -m docs.make_replay                 # some ten minutes; the recordings are looked for beside the checkout
$ python -m docs.make_replay FILE ...         # prints the rows of these captures, writes nothing
$ python -m docs.make_replay --random        # the random runs' part only, written
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tcptrace_lab import read
from tcptrace_lab.errors import LabError
from tcptrace_lab.replay.closed_loop import ClosedLoop, again
from tcptrace_lab.replay.closest import HOST_TIME_S, Figures, figures
from tcptrace_lab.replay.outcome import Outcome
from tcptrace_lab.simulate import simulate
from tests import random_loops

HERE = Path(__file__).parent
RECORDINGS = HERE.parent.parent / "shared" / "captures"
KINDS = ("kernel", "identify")
# What comes back: completion time within, loss events within (and never less than one).
COMPLETION_SHARE = 0.05
EVENTS_SHARE = 0.1
# Orders of arrival besides, that nothing was chosen among: a host takes its time over an ACK, and starts are this much
# earlier or later.
ORDERS = 16
START_S = 0.001
RUNS = 84
# Nothing was fitted on it.
SEED = 20261124


@dataclass(frozen=True, kw_only=True)
class Row:
    """One connection, then and now, and in `orders` besides; `words` are what was said of it."""

    name: str
    control: str
    then: Outcome
    now: Outcome
    cases: tuple[int | None, int | None]
    named: tuple[str | None, str | None]
    words: tuple[str, ...]
    orders: tuple[Figures, ...] = ()

    @property
    def is_usual(self) -> bool:
        """Whether the median order is within the marks of time and losses."""
        then_s, then = self.then.completion_s, self.then.loss_events
        usual_s = float(np.median([each.completion_s for each in self.orders]))
        usual = float(np.median([each.loss_events for each in self.orders]))
        if abs(usual - then) > max(1, EVENTS_SHARE * then):
            return False
        return math.isnan(then_s) or abs(usual_s - then_s) <= COMPLETION_SHARE * then_s

    @property
    def misses(self) -> tuple[str, ...]:
        """In what it does not come back."""
        then, now = self.then, self.now
        known = then.completion_s == then.completion_s
        found = []
        if known and not abs(now.completion_s - then.completion_s) <= COMPLETION_SHARE * then.completion_s:
            found.append("time")
        if abs(now.loss_events - then.loss_events) > max(1, EVENTS_SHARE * then.loss_events):
            found.append("losses")
        for what, (before, after) in (
            ("regime", (_known(then.regime), _known(now.regime))),
            ("case", self.cases),
            ("control", self.named),
        ):
            if before is not None and after is not None and before != after:
                found.append(what)
        return tuple(found)

    def line(self) -> str:
        """A row of the table."""
        return (
            f"| {self.name} ({self.control}) | {self.then.completion_s:.2f} | {self.now.completion_s:.2f} |"
            f" {self.then.loss_events}, {self.now.loss_events} | {self._ranges()} | {', '.join(self.misses)} |"
        )

    def _ranges(self) -> str:
        if not self.orders:
            return ""
        times = sorted(each.completion_s for each in self.orders)
        events = sorted(each.loss_events for each in self.orders)
        return f"{times[0]:.2f} to {times[-1]:.2f}; {events[0]} to {events[-1]}"


def _known(regime: str) -> str | None:
    return None if regime == "undecided" else regime


def in_orders(run: ClosedLoop, count: int) -> Iterator[list[Figures]]:
    """The same sent so many times more, each in an order of its own."""
    for seed in range(SEED, SEED + count):
        rng = np.random.default_rng(seed)
        connections = tuple(
            replace(row, jitter_s=HOST_TIME_S, start_s=max(row.start_s + float(rng.uniform(-START_S, START_S)), 0.0))
            for row in run.found.scenario.connections
        )
        scenario = replace(run.found.scenario, connections=connections, seed=seed, taps=("sender",))
        yield figures(simulate(scenario, most_events=run.found.most_events), scenario)


def rows(name: str, run: ClosedLoop, *, orders: int = 0) -> Iterator[Row]:
    """Each connection of a closed loop."""
    besides = list(in_orders(run, orders))
    for place, (one, (then, now), verdict) in enumerate(
        zip(run.found.connections, run.outcomes, run.verdicts, strict=True)
    ):
        before = one.verdict
        cases = tuple(None if each.compound is None else each.compound.case for each in (before, verdict))
        named = tuple(each.as_dict()["sender_tcp"]["congestion_control"] for each in (before, verdict))
        yield Row(
            name=name if len(run.outcomes) == 1 else f"{name}, connection {place}",
            control=one.control_name.partition(" ")[0] + ("" if named[0] else "*"),
            then=then,
            now=now,
            cases=(cases[0], cases[1]),
            named=(named[0], named[1]),
            words=run.notes,
            orders=tuple(each[place] for each in besides),
        )


def recorded(files: Iterable[Path]) -> Iterator[Row]:
    """Recordings, each sent again; what is refused is told."""
    for file in files:
        name = f"{file.parent.name}/{file.name.partition('.')[0]}"
        try:
            found = list(rows(name, again(read(file)), orders=ORDERS))
        except LabError as error:
            sys.stderr.write(f"{name}: {error}\n")
            continue
        for row in found:
            sys.stderr.write(f"{row.line()} {'; '.join(row.words)}\n")
        yield from found


def recordings(found: list[Row]) -> list[str]:
    """The table of the recordings."""
    back = sum(not row.misses for row in found)
    return [
        f"| recordings of real kernels | then s | again s | loss events | in {ORDERS} other orders | differs in |",
        "|---|---:|---:|---|---|---|",
        *(row.line() for row in found),
        "",
        f"{back} of {len(found)} connections come back. `*`: the verdict names none; the likeliest of those that it"
        " leaves, or the closest.",
        "",
        f"In {ORDERS} other orders of arrival, among which nothing was chosen, the medians of time and loss events come"
        f" back for {sum(row.is_usual for row in found)}.",
    ]


def random_runs() -> list[str]:
    """What was drawn, and what does not come back."""
    told = [random_loops.told(number, SEED) for number in range(RUNS)]
    return [
        f"Runs drawn at random from seed {SEED}, which nothing was fitted on (`tests/random_loops.py`): in turn of"
        f" {len(random_loops.KINDS)} kinds ({', '.join(random_loops.KINDS)}), each simulated with a control that nobody"
        f" is told of, captured and sent again: {sum(not misses for _, misses in told)} of {RUNS} come back.",
        "",
        *(f"- {name}: {'; '.join(misses)}" for name, misses in told if misses),
    ]


def written(text: str, name: str, lines: list[str]) -> str:
    """The page with one of its generated parts anew."""
    begin, end = f"<!-- {name}: make_replay.py -->", f"<!-- end of {name} -->"
    before, _, after = text.partition(begin)
    return "\n".join([before + begin, *lines, end + after.partition(end)[2]])


def main() -> None:
    """Sends again, compares, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", metavar="FILE", type=Path, nargs="*", help="print these captures' rows only")
    parser.add_argument("--random", action="store_true", help="write the random runs' part only")
    arguments = parser.parse_args()
    if arguments.files:
        found = list(recorded(arguments.files))
        sys.stdout.write("".join(f"{row.line()}\n" for row in found))
        return
    target = HERE / "replay.md"
    text = written(target.read_text(encoding="utf-8"), "random", random_runs())
    if not arguments.random:
        files = [file for kind in KINDS for file in sorted((RECORDINGS / kind).glob("*.pcap.gz")) if _at_sender(file)]
        text = written(text, "recordings", recordings(list(recorded(files))))
    target.write_text(text, encoding="utf-8")


def _at_sender(file: Path) -> bool:
    return file.name.count(".") == 2


if __name__ == "__main__":
    main()
