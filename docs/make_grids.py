"""Writes docs/grids.md: grids of simulated Tahoe and Compound senders, and what `classify` says of the capture.

    $ python docs/make_grids.py        # some twenty minutes

Each run is tapped at the sender, classified in memory, and compared with what the simulator knows of its sender.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path

import numpy as np
from tcptrace_lab.models.compound import Compound

from tcptrace_lab import classify
from tcptrace_lab.classify.regime.compound import Step, case_of, phases_of
from tcptrace_lab.classify.verdict import Verdict
from tcptrace_lab.reconstruct.given import MAJORITY
from tcptrace_lab.scenario import ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario
from tcptrace_lab.simulate import Run, simulate

HERE = Path(__file__).parent
IF_IT_IS = "if it is Compound"
KINDS = ("right", IF_IT_IS, "within bounds", "open", "wrong")
# Barakat & Altman's ranges: rate, round trip, packets of buffer.
RATES = (0.5e6, 2e6, 10e6)
ROUND_TRIPS = (0.1, 0.3, 0.8)
BUFFERS = (3, 8, 20, 40, 70)
PROFILES = ("ns2", "rfc")
# So many cycles, each about half of its largest window in round trips; never longer than this.
TAHOE_CYCLES = 4
LONGEST_S = 900.0
# mu tau in packets, at 50 ms; the paper's gamma, and the one with which case 3 exists.
BDPS = (60, 125)
GAMMAS = (30.0, 90.0)
ROUND_TRIP_S = 0.05
PACKET_BITS = 12_000
COMPOUNDS = ("compound", "compound-draft")
COMPOUND_S = 150.0
# The start-up and its recovery.
SETTLED_S = 15.0
# Of each case's range of buffers: one tenth from either end, and its middle.
PLACES = (0.1, 0.5, 0.9)
LARGEST_BUFFER = 2.5
# Off the grid: pipe, round trip, gamma and the buffer within its case's range are drawn, the case itself evenly.
DRAWN_POINTS = 30
DRAWN_SEED = 20281208
DRAWN_BDPS, DRAWN_ROUND_TRIPS_S, DRAWN_GAMMAS = (60.0, 400.0), (0.02, 0.12), (8.0, 130.0)
PAPER_GAMMA_SHARE = 0.4
DRAWN_COMPOUNDS = ("compound", "compound-packets", "compound-draft")
# So many cycles each, within what a capture in memory may hold.
COMPOUND_CYCLES = 5
DRAWN_LASTS_S = (40.0, 400.0)
MOST_PACKETS = 600_000


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One point of a grid: where, what the simulator knows, what was said, and whether it was left open."""

    point: str
    group: str
    truth: str
    said: str | None
    compatible: tuple[str, ...] = ()
    # Told of a sender that may be another.
    is_conditional: bool = False

    @property
    def kind(self) -> str:
        if self.said == self.truth:
            return "right"
        if self.is_conditional and self.compatible == (self.truth,):
            return IF_IT_IS
        if self.truth in self.compatible:
            return "within bounds"
        return "open" if self.said is None else "wrong"


def main() -> None:
    """Runs, compares, writes."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    tahoe, nodes = list(tahoe_grid()), sorted(nodes_draws(), key=lambda answer: answer.group)
    compound, drawn = (sorted(each, key=lambda answer: answer.group) for each in (compound_grid(), compound_draws()))
    text = page(tahoe, nodes, compound, drawn)
    (HERE / "grids.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)


def page(tahoe: list[Answer], nodes: list[Answer], compound: list[Answer], drawn: list[Answer]) -> str:
    """The whole page."""
    starts = [*_section(TAHOE, tahoe), _cycles(tahoe), *_section(NODES, nodes), _cycles(nodes)]
    grids = [*starts, *_section(COMPOUND, compound), *_section(DRAWN, drawn)]
    return "\n".join([HEAD, *grids]).rstrip() + "\n"


HEAD = """# Grids

Written by `docs/make_grids.py`: nothing here is a recording. Each point is simulated, its capture at the sender is
classified, and the answer is compared with what the simulator knows of its own sender.
"""
TAHOE = """## Tahoe: slow starts per cycle

0.5 to 10 Mb/s, 100 to 800 ms, 3 to 70 packets of buffer, in both profiles. Right: every whole cycle has the count that
the simulator's has.
"""
COMPOUND = """## Compound: the case

b over mu tau at 50 ms, within each of the model's six ranges and near their ends, for the paper's Compound and the
draft's. Right: the case that the simulator's cycles have for most of the time, read off its own delay window and queue.
If it is Compound: the same, where the capture leaves open whether it is Compound at all: in case 6 the delay window
stays shut, and what is sent is Reno's. Within bounds: another, and the verdict names this one as possible with a packet
or a round trip more or less. Open: no case is named.
"""

DRAWN = f"""## Compound off the grid

The same of {DRAWN_POINTS} points drawn (seed {DRAWN_SEED}): any of the three Compounds, gamma often the paper's and
else 8 to 130, mu tau 60 to 400 packets, 20 to 120 ms, each of the model's cases as likely, the buffer anywhere in its
range: also a packet from its ends.
"""
NODES = f"""## Tahoe over several nodes: slow starts per cycle

{DRAWN_POINTS} paths drawn (seed {DRAWN_SEED}) of two or three nodes, each with a rate of 0.5 to 10 Mb/s and 3 to 70
packets of buffer, 50 to 500 ms in all: the slowest need not be the first to overflow. Right: as above.
"""


def _section(head: str, answers: list[Answer]) -> list[str]:
    groups: dict[str, Counter[str]] = {}
    for answer in answers:
        groups.setdefault(answer.group, Counter())[answer.kind] += 1
    everything = sum(groups.values(), Counter())
    kinds = [kind for kind in KINDS if kind != IF_IT_IS or everything[kind]]
    rows = [f"| | points | {' | '.join(kinds)} |", "|---" * (len(kinds) + 2) + "|"]
    for name, counts in [*groups.items(), ("all", everything)]:
        rows.append(f"| {name} | {counts.total()} | {' | '.join(str(counts[kind]) for kind in kinds)} |")
    share, held = everything["right"] / len(answers), sum(map(is_held, answers)) / len(answers)
    conditional = (everything["right"] + everything[IF_IT_IS]) / len(answers)
    told = f"; with those told {IF_IT_IS}: {conditional:.1%}" if everything[IF_IT_IS] else ""
    rows.append(f"\nRight: {share:.1%}{told}; within bounds or right: {held:.1%}.\n")
    for answer in answers:
        if answer.kind not in ("right", IF_IT_IS):
            rows.append(
                f"- {answer.kind}: {answer.point}: {answer.truth} in the simulator, {answer.said} in the capture"
            )
    return [head, *rows, ""]


def is_held(answer: Answer) -> bool:
    """Right, or another with this one named as possible."""
    return answer.kind in ("right", IF_IT_IS, "within bounds")


def _cycles(answers: list[Answer]) -> str:
    """Of all cycles those with the simulator's count."""
    pairs = [(answer.truth.split(), (answer.said or "").split()) for answer in answers]
    same = sum(one == other for truth, said in pairs for one, other in zip(truth, said, strict=False))
    total = sum(max(len(truth), len(said)) for truth, said in pairs)
    return f"Cycles with the simulator's count: {same} of {total} ({same / total:.2%}).\n"


def _classified(run: Run) -> Verdict:
    (verdict,) = classify(run.capture(tap="sender"))
    return verdict


# ---- Tahoe


def tahoe_grid() -> Iterator[Answer]:
    """A run per point and profile."""
    for rate, rtt, buffer, profile in product(RATES, ROUND_TRIPS, BUFFERS, PROFILES):
        node = NodeSpec(rate_bps=rate, buffer=buffer, delay_s=rtt / 2)
        point = f"{profile}, {rate / 1e6:g} Mb/s, {rtt * 1e3:g} ms, B = {buffer}"
        yield _counted(_tahoe((node,), rtt, profile), point, f"{rate / 1e6:g} Mb/s")


def nodes_draws() -> Iterator[Answer]:
    """As many paths as are drawn, the profiles in turn."""
    for number in range(DRAWN_POINTS):
        rng, profile = np.random.default_rng([DRAWN_SEED, number, 4]), PROFILES[number % 2]
        count, rtt_s = int(rng.integers(2, 4)), _between(rng, 0.05, 0.5)
        each = [
            (_between(rng, RATES[0], RATES[-1]), int(rng.integers(BUFFERS[0], BUFFERS[-1] + 1))) for _ in range(count)
        ]
        nodes = tuple(NodeSpec(rate_bps=rate, buffer=buffer, delay_s=rtt_s / 2 / count) for rate, buffer in each)
        words = " then ".join(f"{rate / 1e6:.2f} Mb/s with B = {buffer}" for rate, buffer in each)
        yield _counted(_tahoe(nodes, rtt_s, profile), f"{profile}, {rtt_s * 1e3:.0f} ms, {words}", f"{count} nodes")


def _counted(scenario: Scenario, point: str, group: str) -> Answer:
    run = simulate(scenario, truth=False)
    counts = run.cycles["slow_starts"].tolist()
    said = list(_classified(run).slow_starts.per_cycle)
    # The last cycle may end with the run.
    truth = counts[: max(len(said), len(counts) - 1)]
    return Answer(
        point=point,
        group=group,
        truth=" ".join(map(str, truth)),
        said=" ".join(map(str, said)) if said else None,
    )


def _tahoe(nodes: tuple[NodeSpec, ...], rtt: float, profile: str) -> Scenario:
    packets = min(node.rate_bps for node in nodes) * rtt / PACKET_BITS + sum(int(node.buffer) for node in nodes)
    return Scenario(
        path=PathSpec(nodes=nodes, return_delay_s=rtt / 2),
        connections=(ConnectionSpec(control=ControlSpec(recovery="tahoe", initial_window=1)),),
        duration_s=float(np.clip(TAHOE_CYCLES * packets * rtt, 40.0, LONGEST_S)),
        profile=profile,
    )


# ---- Compound


def compound_grid() -> Iterator[Answer]:
    """A point per place in a range and Compound; a range of buffers that is no packet wide has none."""
    for bdp, gamma in product(BDPS, GAMMAS):
        edges = _edges(bdp, ROUND_TRIP_S, gamma)
        # With the larger gamma only what the smaller does not have.
        wanted = [edge for edge in edges if gamma == GAMMAS[0] or edge[0] == 3]
        for (number, low, high), place, name in product(wanted, PLACES, COMPOUNDS):
            control = ControlSpec(window=name, recovery="sack", initial_window=3, gamma=gamma)
            buffer = round(low + place * (high - low))
            scenario = _compound(bdp, ROUND_TRIP_S, buffer, control, COMPOUND_S)
            yield from _answered(scenario, f"(case {number} by the model)")


def compound_draws() -> Iterator[Answer]:
    """As many points as are drawn."""
    for number in range(DRAWN_POINTS):
        rng = np.random.default_rng([DRAWN_SEED, number])
        gamma = GAMMAS[0] if rng.random() < PAPER_GAMMA_SHARE else round(_between(rng, *DRAWN_GAMMAS))
        bdp, rtt_s = _between(rng, *DRAWN_BDPS), _between(rng, *DRAWN_ROUND_TRIPS_S)
        edges = _edges(bdp, rtt_s, gamma)
        case, low, high = edges[int(rng.integers(len(edges)))]
        buffer = int(rng.integers(int(low), int(high) + 1))
        control = ControlSpec(
            window=DRAWN_COMPOUNDS[int(rng.integers(len(DRAWN_COMPOUNDS)))],
            recovery="sack",
            initial_window=3,
            gamma=float(gamma),
        )
        # A cycle lasts half of its largest window in round trips, at most.
        largest = bdp + buffer
        lasts_s = float(np.clip(COMPOUND_CYCLES * largest**2 / 2 * rtt_s / bdp + SETTLED_S, *DRAWN_LASTS_S))
        scenario = _compound(bdp, rtt_s, buffer, control, min(lasts_s, MOST_PACKETS * rtt_s / bdp))
        yield from _answered(scenario, f"over {rtt_s * 1e3:.0f} ms (case {case} by the model)")


def _between(rng: np.random.Generator, low: float, high: float) -> float:
    """Log-uniform."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _answered(scenario: Scenario, words: str) -> Iterator[Answer]:
    """The point's answer; none where the simulator's own cycles have no case."""
    control, path = scenario.connections[0].control, scenario.path
    bdp, rtt_s = path.mu_pps * path.propagation_rtt_s, path.propagation_rtt_s
    run = simulate(scenario)
    truth = true_case(run, bdp, rtt_s, control.gamma)
    if truth is None:
        return
    verdict = _classified(run)
    compound = verdict.compound
    yield Answer(
        point=f"{control.window}, gamma {control.gamma:g}, mu tau = {bdp:.0f}, b = {path.bottleneck.buffer:g} {words}",
        group=f"case {truth}",
        truth=str(truth),
        said=None if compound is None or compound.case is None else str(compound.case),
        compatible=() if compound is None else tuple(map(str, compound.compatible)),
        is_conditional=len(verdict.identified.left) > 1,
    )


def _edges(bdp: float, rtt_s: float, gamma: float) -> list[tuple[int, float, float]]:
    """The model's cases that exist on this pipe, each with its range of buffers."""
    buffers = np.arange(3, int(LARGEST_BUFFER * max(bdp, gamma * 2)))
    model = Compound().evaluate(buffer=buffers, mu=bdp / rtt_s, tau=rtt_s, gamma=gamma, beta=0.5, per_ack=1)
    cases = np.asarray(model["case"].value)
    found = []
    for number in range(1, 7):
        own = buffers[cases == number]
        if len(own):
            found.append((number, float(own.min()), float(own.max())))
    return found


def _compound(bdp: float, rtt_s: float, buffer: int, control: ControlSpec, duration_s: float) -> Scenario:
    rate = bdp / rtt_s * PACKET_BITS
    node = NodeSpec(rate_bps=rate, buffer=buffer, delay_s=rtt_s / 2, counts_in_service=True)
    return Scenario(
        path=PathSpec(nodes=(node,), return_delay_s=rtt_s / 2),
        connections=(ConnectionSpec(control=control),),
        duration_s=duration_s,
    )


def true_case(run: Run, bdp: float, rtt_s: float, gamma: float) -> int | None:
    """The case of most cycles, by the simulator's own delay window and queue; None: they have none."""
    rows = run.windows
    rows = rows[(rows["state"] == 0) & (rows["cwnd"] >= rows["ssthresh"])]
    times, dwnd = rows["time_ns"].to_numpy(), rows["dwnd"].to_numpy()
    cwnd = (rows["cwnd"] / rows["smss"]).to_numpy()
    # A packet is being sent, and its ACK is on its way.
    queued = cwnd - bdp - 1
    moved = np.flatnonzero(np.diff(dwnd) != 0) + 1
    steps = [
        Step(row=row, size=float(dwnd[row] - dwnd[row - 1]), window=cwnd[row - 1], queued=queued[row - 1])
        for row in moved.tolist()
    ]
    # Round trips end where each ends, the queue included.
    rounds = np.cumsum(np.diff(times, prepend=0) / (rtt_s * 1e9 * np.maximum(cwnd / bdp, 1.0)))
    losses = run.losses["time_ns"].to_numpy()
    losses = losses[losses > SETTLED_S * 1e9]
    found, lengths = [], []
    for first, last in pairwise(losses):
        own = np.flatnonzero((times > first) & (times < last))
        if len(own) > 1:
            # The first row's step is the loss itself.
            inside = [step for step in steps if own[0] < step.row <= own[-1]]
            found.append(phases_of(own, inside, dwnd, rounds, floor=MAJORITY * gamma)[0])
            lengths.append(float(rounds[own[-1]] - rounds[own[0]]))
    return case_of(found, lengths)


if __name__ == "__main__":
    main()
