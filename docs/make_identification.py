"""Writes docs/identification.md: simulated senders on random paths, and which control the capture at the sender names.

    $ python docs/make_identification.py        # some minutes

Nothing of it is a recording: the paths, controls, receivers and competitors are drawn from a seed.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from tcptrace_lab.classify.candidates import candidates
from tcptrace_lab.classify.expectation import initial_window
from tcptrace_lab.classify.identify import Identified, Replayed, identify
from tcptrace_lab.controls import WINDOWS
from tcptrace_lab.errors import ScenarioError
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import sender
from tcptrace_lab.scenario import Connection, Control, Node, Path, Scenario
from tcptrace_lab.simulate import simulate

HERE = FilePath(__file__).parent
RUNS = 120
SEED = 2026
# Without a loss or two a capture cannot tell the controls apart; the marks count runs with at least these.
ENOUGH_EVENTS = 3
MOST_PACKETS = 600


def draw(rng: np.random.Generator) -> tuple[Scenario, str]:
    """A run on a random path, and the family of its first sender."""
    rate, rtt = (float(np.exp(rng.uniform(*np.log(ends)))) for ends in ((1e6, 40e6), (0.01, 0.2)))
    share = float(np.exp(rng.uniform(*np.log((0.1, 3.0)))))
    rate = min(rate, MOST_PACKETS * 12_000 / ((1 + share) * rtt))
    names = [row.name for row in WINDOWS.values() if "rfc" in row.profiles and row.family != "bbr"] + ["m-start"]
    name = str(rng.choice(names))
    own: dict[str, Any] = (
        {"window": "reno", "slow_start": "m-start"}
        if name == "m-start"
        else {"window": name, "slow_start": str(rng.choice(["standard", "standard", "hystart"]))}
    )
    control = Control(
        **own,
        recovery=str(rng.choice(["sack", "sack", "newreno"])),
        initial_window=int(rng.choice([2, 3, 10])),
        delayed_ack_segments=int(rng.choice([1, 2])),
        byte_counting=bool(rng.integers(2)),
        limited_transmit=bool(rng.integers(2)),
        timestamps=bool(rng.integers(2)),
        rack=bool(rng.integers(2)),
    )
    node = Node(
        rate_bps=rate,
        buffer=max(3, int(rate * rtt / 12_000 * share)),
        delay_s=rtt / 2,
        loss=float(rng.choice([0.0, 0.0, 0.0, 1e-4, 1e-3])),
    )
    connections = [Connection(control=control, jitter_s=float(rng.choice([0.0, 1e-5, 2e-4])))]
    if rng.random() < 0.25:
        other = Control(window=str(rng.choice(["reno", "cubic"])), recovery="sack", initial_window=10)
        connections.append(Connection(control=other, start_s=float(rng.uniform(0, 5))))
    scenario = Scenario(
        path=Path(nodes=(node,), return_delay_s=rtt / 2),
        connections=tuple(connections),
        duration_s=float(np.clip(rtt * rng.uniform(100, 600), 5, 60)),
        profile="rfc",
        seed=int(rng.integers(1 << 30)),
    )
    return scenario, "m_start" if name == "m-start" else WINDOWS[name].family


def main() -> None:
    """Runs, counts, writes."""
    counts: Counter[str] = Counter()
    matrix: dict[str, Counter[str]] = defaultdict(Counter)
    promised: dict[int, list[bool]] = defaultdict(list)
    for number in range(RUNS):
        try:
            scenario, truth = draw(np.random.default_rng([SEED, number]))
        except ScenarioError:
            counts["refused"] += 1
            continue
        who = sender(simulate(scenario).capture(tap="sender")[0])
        seen = Reconstruction(who.timeline)
        rtt_ns = None if who.handshake_rtt_s is None else round(who.handshake_rtt_s * 1e9)
        asked = {"initial_window": initial_window(seen), "handshake_rtt_ns": rtt_ns}
        found = identify(seen, **asked)
        count(counts, truth, found, enough=len(seen.episodes) >= ENOUGH_EVENTS)
        matrix[truth]["a set" if found.control is None else found.control] += 1
        for row in found.as_dicts()[: len(found.left)]:
            promised[min(int(row["confidence"] * 10), 9)].append(row["name"] == truth)
        without = identify(seen, **asked, chosen=[each for each in candidates() if each.name != truth])
        if without.control not in (None, "unknown"):
            counts["wrong without it"] += 1
            counts["alike without it"] += is_alike(own(found, truth), without.left[0])
    text = report(counts, matrix, promised)
    (HERE / "identification.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)


def own(found: Identified, truth: str) -> Replayed:
    """The true family's best replay."""
    return next(each for each in (*found.left, *found.refuted) if each.candidate.name == truth)


def is_alike(one: Replayed, other: Replayed) -> bool:
    """Whether two controls would have sent the same, to the segment, at the end of every stretch of the capture."""
    pairs = zip(one.misfits, other.misfits, strict=True)
    return all(abs(left.expected - right.expected) < 1.0 for left, right in pairs)


def count(counts: Counter[str], truth: str, found: Identified, *, enough: bool) -> None:
    """One run's answer."""
    counts["runs"] += 1
    counts["in the set"] += truth in {each.candidate.name for each in found.left}
    counts["unknown"] += found.control == "unknown"
    counts["wrong"] += found.control not in (None, "unknown", truth)
    counts["enough"] += enough
    counts["right of enough"] += enough and found.control == truth
    if enough and found.control is None:
        true = own(found, truth)
        others = [each for each in found.left if each.candidate.name != truth]
        counts["alike of enough"] += any(is_alike(true, each) for each in others)


def report(counts: Counter[str], matrix: dict[str, Counter[str]], promised: dict[int, list[bool]]) -> str:
    """The page."""
    runs, enough = counts["runs"], counts["enough"]
    knowable = enough - counts["alike of enough"]
    answers = sorted({answer for row in matrix.values() for answer in row})
    lines = [
        "# Which control was it? Simulated senders",
        "",
        f"Written by `python docs/make_identification.py`: {runs} runs, seed {SEED}; random path, control, receiver,",
        "recovery, loss, and in a quarter of them a competitor. Captured at the sender.",
        "",
        "| | runs | share |",
        "|---|---:|---:|",
        f"| the true control is in the set | {counts['in the set']} of {runs} | {counts['in the set'] / runs:.1%} |",
        f"| a wrong name | {counts['wrong']} of {runs} | {counts['wrong'] / runs:.1%} |",
        f"| unknown, though it is in the table | {counts['unknown']} of {runs} | {counts['unknown'] / runs:.1%} |",
        f"| the right name, with {ENOUGH_EVENTS} loss events or more | {counts['right of enough']} of {enough} "
        f"| {counts['right of enough'] / max(enough, 1):.1%} |",
        f"| the same, of the runs that tell: no other control would have sent the same, to the segment "
        f"| {counts['right of enough']} of {knowable} | {counts['right of enough'] / max(knowable, 1):.1%} |",
        f"| a wrong name when the true control is taken out of the table | {counts['wrong without it']} of {runs} "
        f"| {counts['wrong without it'] / runs:.1%} |",
        f"| of these: the control named would have sent the same, to the segment | {counts['alike without it']} "
        f"| {counts['alike without it'] / runs:.1%} |",
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
        "## Confidence promised to a candidate of a set, and how often it was the one",
        "",
        "| promised | candidates | was it |",
        "|---|---:|---:|",
        *(
            f"| {tenth / 10:.1f} to {tenth / 10 + 0.1:.1f} | {len(promised[tenth])} | {np.mean(promised[tenth]):.1%} |"
            for tenth in sorted(promised)
        ),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
