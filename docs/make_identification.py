"""Writes docs/identification.md: simulated senders on random paths, and which control the capture at the sender names.

    $ python docs/make_identification.py RUNS SEED   # 1000 take some quarters of an hour; written as they come

A seed on which nothing was tuned; the page names the one that it was written with.

Nothing of it is a recording: the paths, controls, receivers and competitors are drawn from a seed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tcptrace_lab.classify.control.answer.decided import decide
from tcptrace_lab.classify.control.answer.identified import Identified, open_names
from tcptrace_lab.classify.control.bbr.by_rate import probes_of
from tcptrace_lab.classify.control.candidates.candidates import candidates
from tcptrace_lab.classify.control.candidates.hearing import replays
from tcptrace_lab.classify.control.candidates.likelihood import Replay
from tcptrace_lab.classify.control.readings.identify import INITIAL_WINDOW, replays_of_others
from tcptrace_lab.classify.control.shown.tape import Tapes
from tcptrace_lab.classify.sender.initial_window import initial_window
from tcptrace_lab.controls import WINDOWS
from tcptrace_lab.errors import ScenarioError
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import sender
from tcptrace_lab.scenario import ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario
from tcptrace_lab.simulate import simulate

HERE = Path(__file__).parent
REPLAYED = (*(row.name for row in WINDOWS.values() if "rfc" in row.profiles and row.family != "bbr"), "m-start")
WRITES_EVERY = 50
# Without a loss or two a capture cannot tell the controls apart; the marks count runs with at least these.
ENOUGH_EVENTS = 3
MOST_PACKETS = 600
# Another control would have sent the same: in all pieces of the capture but one it is no further off than this, root
# mean square in segments (at one ACK of 400 a segment more or less).
ALIKE_SEGMENTS = 0.05
ALIKE_BUT = 1
# One run of BBR's to so many of the others.
ONE_OF_BBR_TO = 10


@dataclass
class Score:
    """What is counted."""

    counts: Counter[str] = field(default_factory=Counter)
    matrix: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    promised: dict[int, list[bool]] = field(default_factory=lambda: defaultdict(list))
    of_bbr: Counter[str] = field(default_factory=Counter)

    def add(self, truth: str, found: Identified, without: Identified, families: dict[str, Replay], events: int) -> None:
        """One run: the answer, the answer if its control were not in the table, and each family's best replay."""
        counts, enough = self.counts, events >= ENOUGH_EVENTS
        alike = {name for name in families if name != truth and is_alike(families[truth], families[name])}
        counts["runs"] += 1
        counts["in the set"] += truth in {each.candidate.name for each in found.left}
        counts["unknown"] += found.control == "unknown"
        counts["wrong"] += found.control not in (None, "unknown", truth)
        counts["enough"] += enough
        counts["right of enough"] += enough and found.control == truth
        counts["telling"] += enough and not alike
        counts["right of telling"] += enough and not alike and found.control == truth
        self.matrix[truth]["a set" if found.control is None else found.control] += 1
        for row in found.as_dicts()[: len(found.left)]:
            self.promised[min(int(row["confidence"] * 10), 9)].append(row["name"] == truth)
        if without.control not in (None, "unknown"):
            counts["wrong without it"] += 1
            counts["alike without it"] += any(is_alike(families[truth], each) for each in without.left)


def draw(rng: np.random.Generator, names: tuple[str, ...] = REPLAYED) -> tuple[Scenario, str]:
    """A run on a random path under one of these controls, and the family of its first sender."""
    rate, rtt = (float(np.exp(rng.uniform(*np.log(ends)))) for ends in ((1e6, 40e6), (0.01, 0.2)))
    share = float(np.exp(rng.uniform(*np.log((0.1, 3.0)))))
    rate = min(rate, MOST_PACKETS * 12_000 / ((1 + share) * rtt))
    name = str(rng.choice(names))
    own: dict[str, Any] = (
        {"window": "reno", "slow_start": "m-start"}
        if name == "m-start"
        else {"window": name, "slow_start": str(rng.choice(["standard", "standard", "hystart"]))}
    )
    if name in WINDOWS and (WINDOWS[name].keeps_to_its_slow_start or WINDOWS[name].family == "bbr"):
        # No stack has another over such a module; BBR's start is its own.
        own["slow_start"] = "standard"
    recovery = str(rng.choice(["sack", "sack", "newreno"]))
    control = ControlSpec(
        **own,
        recovery="sack" if name == "bbr" else recovery,
        initial_window=int(rng.choice([2, 3, 10])),
        delayed_ack_segments=int(rng.choice([1, 2])),
        byte_counting=bool(rng.integers(2)),
        limited_transmit=bool(rng.integers(2)),
        timestamps=bool(rng.integers(2)),
        rack=bool(rng.integers(2)),
    )
    node = NodeSpec(
        rate_bps=rate,
        buffer=max(3, int(rate * rtt / 12_000 * share)),
        delay_s=rtt / 2,
        loss=float(rng.choice([0.0, 0.0, 0.0, 1e-4, 1e-3])),
    )
    connections = [ConnectionSpec(control=control, jitter_s=float(rng.choice([0.0, 1e-5, 2e-4])))]
    if rng.random() < 0.25:
        other = ControlSpec(window=str(rng.choice(["reno", "cubic"])), recovery="sack", initial_window=10)
        connections.append(ConnectionSpec(control=other, start_s=float(rng.uniform(0, 5))))
    scenario = Scenario(
        path=PathSpec(nodes=(node,), return_delay_s=rtt / 2),
        connections=tuple(connections),
        duration_s=float(np.clip(rtt * rng.uniform(100, 600), 5, 60)),
        profile="rfc",
        seed=int(rng.integers(1 << 30)),
    )
    return scenario, "m_start" if name == "m-start" else WINDOWS[name].family


def is_alike(one: Replay, other: Replay) -> bool:
    """Whether another control would have sent the same, ACK by ACK, in every piece of the capture but one."""
    its, own = np.abs(other.misfits.error), np.abs(one.misfits.error)
    return int(np.count_nonzero(its > own + ALIKE_SEGMENTS)) <= ALIKE_BUT


def best_of(replays: list[Replay]) -> dict[str, Replay]:
    """Each family's replay with the smallest errors."""
    return {each.candidate.name: each for each in sorted(replays, key=lambda each: -float(each.sizes.sum()))}


def answer_to_bbr(scenario: Scenario) -> str:
    """A run of BBR's, its capture at the sender, and what is said of it."""
    told = simulate(scenario).capture(tap="sender")[0].verdict().as_dict()["sender_tcp"]
    if told["congestion_control"] is not None:
        return str(told["congestion_control"])
    return "a set with it" if "bbr" in open_names(told["candidates"]) else "a set without it"


def one(scenario: Scenario, truth: str, score: Score) -> None:
    """A run, its capture at the sender, and what is said of it."""
    who = sender(simulate(scenario).capture(tap="sender")[0])
    seen = Reconstruction(who.timeline)
    rtt_ns = None if who.handshake_rtt_s is None else round(who.handshake_rtt_s * 1e9)
    written = Tapes.of(seen, rtt_ns)
    read = written.read()
    begins_with = initial_window(seen) or INITIAL_WINDOW
    asked = candidates()
    told = replays(asked, read, begins_with)
    every = [*told, *replays_of_others(told, asked, written)]
    # By themselves: whom the true control leaves far behind is not heard to the end.
    unasked = [each for each in asked if each.name != truth]
    others = replays(unasked, read, begins_with)
    rate = probes_of(seen)
    found, without = (
        decide(seen, told, rate) for told in (every, [*others, *replays_of_others(others, unasked, written)])
    )
    score.add(truth, found, without, best_of(every), len(seen.episodes))


def main() -> None:
    """Runs, counts, writes; what is counted so far is written again and again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", metavar="RUNS", type=int, help="how many senders are drawn")
    parser.add_argument("seed", metavar="SEED", type=int, help="one on which nothing was tuned")
    arguments = parser.parse_args()
    runs, seed = arguments.runs, arguments.seed
    score = Score()
    for number in range(runs):
        try:
            scenario, truth = draw(np.random.default_rng([seed, number]))
        except ScenarioError:
            score.counts["refused"] += 1
            continue
        one(scenario, truth, score)
        if number % ONE_OF_BBR_TO == 0:
            score.of_bbr[answer_to_bbr(draw(np.random.default_rng([seed, number]), ("bbr",))[0])] += 1
        if number + 1 == runs or (number + 1) % WRITES_EVERY == 0:
            text = report(score, seed)
            (HERE / "identification.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)


def report(score: Score, seed: int) -> str:
    """The page."""
    counts, matrix = score.counts, score.matrix
    runs, answers = counts["runs"], sorted({answer for row in matrix.values() for answer in row})

    def row(words: str, name: str, of: str = "runs") -> str:
        return f"| {words} | {counts[name]} of {counts[of]} | {counts[name] / max(counts[of], 1):.1%} |"

    lines = [
        "# Which control was it? Simulated senders",
        "",
        f"Written by `python docs/make_identification.py {runs} {seed}` (runs, seed): random path, control, receiver,",
        "recovery, loss, and in a quarter of them a competitor. Captured at the sender. The rules were tuned on other",
        "seeds; this one was looked at when they were done.",
        "",
        "| | runs | share |",
        "|---|---:|---:|",
        row("the true control is in the set", "in the set"),
        row("a wrong name", "wrong"),
        row("unknown, though it is in the table", "unknown"),
        row(f"the right name, with {ENOUGH_EVENTS} loss events or more", "right of enough", "enough"),
        row(
            "the same, of the runs that tell: no other control would have sent the same", "right of telling", "telling"
        ),
        row("a wrong name when the true control is taken out of the table", "wrong without it"),
        row("of these: the control named would have sent the same", "alike without it"),
        "",
        "*The same*: in all loss cycles, reductions and quarters of slow starts but one, what was outstanding after",
        f"every ACK is what its window allows as well (to {ALIKE_SEGMENTS} segments, root mean square).",
        "",
        "## Truth (rows) against answer",
        "",
        f"| | {' | '.join(answers)} |",
        f"|---|{'---:|' * len(answers)}",
        *(
            f"| {truth} | {' | '.join(str(matrix[truth][answer] or '') for answer in answers)} |"
            for truth in sorted(matrix)
        ),
        "",
        f"BBR is told by its pace, not replayed. One of its senders to every {ONE_OF_BBR_TO} of the others,",
        "on such paths:",
        "",
        "| the answer | runs |",
        "|---|---:|",
        *(f"| {answer} | {count} |" for answer, count in sorted(score.of_bbr.items())),
        "",
        "## Confidence promised to a candidate of a set, and how often it was the one",
        "",
        "| promised | candidates | was it |",
        "|---|---:|---:|",
        *(
            f"| {tenth / 10:.1f} to {tenth / 10 + 0.1:.1f} | {len(was)} | {np.mean(was):.1%} |"
            for tenth, was in sorted(score.promised.items())
        ),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
