"""Writes the tables of docs/replay.md: recordings sent again as found, and random runs that nobody looked at.

$ python docs/make_replay.py                  # some ten minutes; the recordings are looked for beside the checkout
$ python docs/make_replay.py FILE ...         # prints the rows of these captures, writes nothing
$ python docs/make_replay.py --random 40 77   # so many random runs from another seed, printed
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tcptrace_lab import read
from tcptrace_lab.errors import LabError
from tcptrace_lab.replay.closed_loop import ClosedLoop, again
from tcptrace_lab.replay.closest import HOST_TIME_S, Figures, figures
from tcptrace_lab.replay.outcome import Outcome
from tcptrace_lab.scenario import ApplicationSpec, ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario
from tcptrace_lab.simulate import simulate

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
RUNS = 36
# Nothing was fitted on it.
SEED = 20261124
# Linux's modules, and the documents' senders.
SENDERS = ("reno", "cubic-linux", "compound", "westwood", "highspeed", "bbr")
MODERN = ControlSpec(
    recovery="sack", initial_window=10, timestamps=True, limited_transmit=True, byte_counting=True, rack=True
)


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


def random_run(rng: np.random.Generator, window: str) -> Scenario:
    """A path, a transfer and a sender drawn at random."""
    rate_bps = float(10 ** rng.uniform(6.5, 7.3))
    one_way_s = float(rng.uniform(0.01, 0.05))
    bdp = rate_bps * 2 * one_way_s / 12_000
    buffer = max(8.0, round(bdp * rng.uniform(0.5, 1.5)))
    control = ControlSpec(**{**vars(MODERN), "window": window, "delayed_ack_segments": int(rng.integers(1, 3))})
    size = int(rate_bps / 8 * rng.uniform(4, 12))
    node = NodeSpec(rate_bps=rate_bps, buffer=buffer, delay_s=one_way_s)
    return Scenario(
        path=PathSpec(nodes=(node,), return_delay_s=one_way_s),
        connections=(ConnectionSpec(control=control, application=ApplicationSpec(kind="bytes", bytes=size)),),
        duration_s=60.0,
        seed=int(rng.integers(1 << 30)),
    )


def drawn(count: int, seed: int) -> Iterator[Row]:
    """Simulate, capture, infer, simulate; nobody says which control it was."""
    with tempfile.TemporaryDirectory(prefix="tcptrace-lab-") as folder:
        for number in range(count):
            window = SENDERS[number % len(SENDERS)]
            file = Path(folder) / "run.pcap"
            simulate(random_run(np.random.default_rng([seed, number]), window)).write(file, payload=False)
            for row in rows(f"{window} {number}", again(read(file))):
                sys.stderr.write(f"{row.line()} {'; '.join(row.words)}\n")
                yield row


def page(text: str, found: list[Row], random: list[Row]) -> str:
    """The page with its two generated parts anew."""
    back = sum(not row.misses for row in found)
    table = [
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
    own = [
        f"Runs drawn at random from seed {SEED}, which nothing was fitted on, simulated with one of"
        f" {len(SENDERS)} controls that nobody is told of, captured and sent again:"
        f" {sum(not row.misses for row in random)} of {len(random)} come back.",
        *(f"- {row.name}: {', '.join(row.misses)}" for row in random if row.misses),
    ]
    for name, lines in (("recordings", table), ("random", own)):
        begin, end = f"<!-- {name}: make_replay.py -->", f"<!-- end of {name} -->"
        before, _, after = text.partition(begin)
        text = "\n".join([before + begin, *lines, end + after.partition(end)[2]])
    return text


def main() -> None:
    """Sends again, compares, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", metavar="FILE", type=Path, nargs="*", help="print these captures' rows only")
    parser.add_argument(
        "--random", metavar=("COUNT", "SEED"), type=int, nargs=2, help="print so many random runs' rows"
    )
    arguments = parser.parse_args()
    if arguments.random:
        found = list(drawn(*arguments.random))
    elif arguments.files:
        found = list(recorded(arguments.files))
    else:
        files = [file for kind in KINDS for file in sorted((RECORDINGS / kind).glob("*.pcap.gz")) if _at_sender(file)]
        found, random = list(recorded(files)), list(drawn(RUNS, SEED))
        target = HERE / "replay.md"
        target.write_text(page(target.read_text(encoding="utf-8"), found, random), encoding="utf-8")
    sys.stdout.write("".join(f"{row.line()}\n" for row in found))
    sys.stdout.write(f"{sum(not row.misses for row in found)} of {len(found)} come back\n")


def _at_sender(file: Path) -> bool:
    return file.name.count(".") == 2


if __name__ == "__main__":
    main()
