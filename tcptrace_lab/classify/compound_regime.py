"""Compound's regime: which phases its cycles have, and how its delay window oscillates (Blanc et al. 2008, section 3).

Read off the delay window that the replayed control would have had. Phase 1: it opens over an empty queue; 2: over a
queue; 3: it opens and closes around gamma; 4: it is shut, and the window grows as Reno's. A phase counts when a whole
round trip of the cycle belongs to it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from tcptrace_lab.classify.tape import Tape
from tcptrace_lab.models.compound_cases import PHASES_OF_CASE
from tcptrace_lab.reconstruct.timeline import Floats, Ints

# A loss may end a cycle before its phase 4.
CASE_OF_PHASES = {phases: case for case, phases in PHASES_OF_CASE.items()} | {(1, 2, 3): 4, (2, 3): 5}
# A queue of fewer packets than this is no queue: two are a delayed ACK's pair, and the base round trip may be one off.
EMPTY_PACKETS = 2.0
# The window without its delay part grows by one packet per round trip: as many of those in a row are phase 4.
LINEAR_ROUNDS = 2
# A recovery drains the queue for a round trip, whatever comes after it.
DRAINED_STEPS = 1
# One oscillation must be the most frequent of at least so many, to be named.
FEWEST_OSCILLATIONS = 3
# The queue that a step met is known to within a packet: one is in service, and an ACK may stand for two.
QUEUE_SLACK = 1.0
# A delay window that closes over less than this share of gamma was cut by a loss, not by delay.
CLOSES_SHARE = 0.5
# Counts of oscillations scatter by their square roots: what lies within two of them is tied.
TIED = 2.0
KEYS = ("case", "phases_per_cycle", "oscillation", "theta_max", "theta_min")
OPEN_KEYS = ("compatible", "oscillation_tied")


@dataclass(frozen=True, kw_only=True)
class CompoundRegime:
    """`case` None: the cycles disagree, or none is whole. Windows in packets; `gamma` the replayed candidate's.

    `compatible`: the cases if every queue were a packet more or less; `oscillation_tied`: those as frequent as the one
    named, as far as their number tells.
    """

    case: int | None
    compatible: tuple[int, ...]
    phases_per_cycle: tuple[tuple[int, ...], ...]
    oscillation: str | None
    oscillation_tied: tuple[str, ...]
    theta_max: float | None
    theta_min: float | None
    gamma: float | None
    reasons: tuple[str, ...]

    def if_it_is(self) -> CompoundRegime:
        """The same of a sender that may be another: no case is claimed, those that it would be are possible."""
        names = " or ".join(map(str, self.compatible))
        return CompoundRegime(
            case=None,
            compatible=self.compatible,
            phases_per_cycle=(),
            oscillation=None,
            oscillation_tied=(),
            theta_max=None,
            theta_min=None,
            gamma=None,
            reasons=(f"if it is Compound, it is its case {names}",) if names else (),
        )

    def as_dict(self) -> dict[str, Any]:
        """The verdict's `compound`."""
        return {
            "case": self.case,
            "compatible": list(self.compatible),
            "phases_per_cycle": [list(phases) for phases in self.phases_per_cycle],
            "oscillation": self.oscillation,
            "oscillation_tied": list(self.oscillation_tied),
            "theta_max": self.theta_max,
            "theta_min": self.theta_min,
            "gamma": self.gamma,
        }


NOT_COMPOUND: dict[str, Any] = {**dict.fromkeys(KEYS), **{key: [] for key in OPEN_KEYS}, "gamma": None}


@dataclass(frozen=True, kw_only=True)
class Step:
    """One change of the delay window: its size, the window before, and the packets found in the queue."""

    row: int
    size: float
    window: float
    queued: float


def compound_regime(tape: Tape, *, memory: Mapping[str, Floats], cwnd: Floats, gamma: float | None) -> CompoundRegime:
    """The regime of a sender identified as Compound; `memory` and `cwnd` are its replay's columns."""
    at_work = [tape.rows(epoch) for epoch in tape.epochs if not epoch.is_slow_start]
    # A loss moves the delay window too: that is no phase.
    rows = set(np.concatenate(at_work).tolist()) if at_work else set()
    steps = [step for step in _steps(memory, cwnd / tape.smss) if step.row in rows]
    cycles = _cycles(tape)
    floor = 0.0 if gamma is None else CLOSES_SHARE * gamma
    found = [
        tuple(phases_of(own, steps, memory["dwnd"], tape.round_of_row, floor=floor, empty=empty) for own in cycles)
        for empty in (EMPTY_PACKETS, EMPTY_PACKETS - QUEUE_SLACK, EMPTY_PACKETS + QUEUE_SLACK)
    ]
    case, *others = (case_of(phases) for phases in found)
    compatible = tuple(sorted({each for each in (case, *others) if each is not None}))
    oscillation, tied, theta_max, theta_min = _oscillation(steps, cwnd / tape.smss)
    return CompoundRegime(
        case=case,
        compatible=compatible,
        phases_per_cycle=found[0],
        oscillation=oscillation,
        oscillation_tied=tied,
        theta_max=theta_max,
        theta_min=theta_min,
        gamma=gamma,
        reasons=tuple(_reasons(case, compatible, found[0], oscillation, tied)),
    )


def case_of(cycles: Sequence[tuple[int, ...]]) -> int | None:
    """The case that more than half of the cycles have the phases of."""
    cases = [CASE_OF_PHASES.get(phases) for phases in cycles]
    counted = Counter(case for case in cases if case is not None)
    best = counted.most_common(1)
    return best[0][0] if best and best[0][1] * 2 > len(cases) else None


def _reasons(
    case: int | None,
    compatible: Sequence[int],
    cycles: Sequence[tuple[int, ...]],
    oscillation: str | None,
    tied: Sequence[str],
) -> Iterator[str]:
    if not cycles:
        yield "no whole cycle of avoidance: Compound's case is not seen"
    elif case is None:
        yield "Compound's cycles do not agree on a case"
    else:
        own = sum(CASE_OF_PHASES.get(phases) == case for phases in cycles)
        yield f"{own} of {len(cycles)} cycles have the phases of Compound's case {case}"
    others = [other for other in compatible if other != case]
    if others:
        yield f"with a packet more or less in the queue it is Compound's case {' or '.join(map(str, others))}"
    if tied:
        yield f"the delay window oscillates {oscillation}, as often {', '.join(tied)}"


def _cycles(tape: Tape) -> list[Ints]:
    """The rows of each avoidance from a recovery to the next loss."""
    found = []
    for _, parts in groupby(tape.epochs, key=lambda epoch: epoch.number):
        own = [part for part in parts if not part.is_slow_start and part.begin == "recovery" and part.ends_in_loss]
        rows = [rows for part in own if len(rows := tape.rows(part))]
        if rows:
            found.append(np.concatenate(rows))
    return found


def _steps(memory: Mapping[str, Floats], window: Floats) -> list[Step]:
    """Where the delay window moved; the queue is Delta = w (1 - base RTT / least RTT of the round)."""
    dwnd = memory["dwnd"]
    moved = np.flatnonzero(np.diff(dwnd) != 0) + 1
    steps = []
    for row in moved.tolist():
        base, least = memory["base_rtt_ns"][row - 1], memory["round_min_rtt_ns"][row - 1]
        queued = float(window[row - 1] * (1 - base / least)) if least > 0 else float("nan")
        steps.append(Step(row=row, size=float(dwnd[row] - dwnd[row - 1]), window=float(window[row - 1]), queued=queued))
    return steps


def phases_of(
    rows: Ints, steps: Sequence[Step], dwnd: Floats, round_of_row: Ints, *, floor: float, empty: float = EMPTY_PACKETS
) -> tuple[int, ...]:
    """The phases of one cycle, from its rows of a replay, or of a simulator's truth.

    Over a queue of less than `floor` packets nothing closes the window, below `empty` there is none.
    """
    own = [step for step in steps if rows[0] <= step.row <= rows[-1]]
    opened = [step for step in own if step.size > 0]
    closed = [step for step in own if step.size < 0 and step.queued >= floor]
    before_closing = [step for step in opened if not closed or step.row < closed[0].row]
    shut = rows[dwnd[rows] == 0]
    after = shut[shut > closed[-1].row] if closed else shut if not opened else shut[:0]
    rounds = int(round_of_row[after[-1]] - round_of_row[after[0]]) if len(after) else 0
    found = []
    if sum(step.queued < empty for step in before_closing) > DRAINED_STEPS:
        found.append(1)
    if any(step.queued >= empty for step in before_closing):
        found.append(2)
    if closed:
        found.append(3)
    if rounds >= LINEAR_ROUNDS:
        found.append(4)
    # Section 3: once the delay window has given way, phase 2 was passed, however short, and phase 4 follows.
    if closed:
        found = sorted({*found, 2})
    return tuple(found)


def _oscillation(
    steps: Sequence[Step], window: Floats
) -> tuple[str | None, tuple[str, ...], float | None, float | None]:
    """m:n, the most frequent run of openings and the closings after; what is tied with it; the windows at its ends."""
    found: Counter[str] = Counter()
    tops: dict[str, list[float]] = {}
    lows: dict[str, list[float]] = {}
    runs = [(is_up, list(run)) for is_up, run in groupby(steps, key=lambda step: step.size > 0)]
    for (is_up, up), (_, down) in pairwise(runs):
        if is_up:
            name = f"{len(up)}:{len(down)}"
            found[name] += 1
            tops.setdefault(name, []).append(down[0].window)
            lows.setdefault(name, []).append(float(window[down[-1].row]))
    if not found or found.most_common(1)[0][1] < FEWEST_OSCILLATIONS:
        return None, (), None, None
    (name, most), *rest = found.most_common()
    tied = tuple(other for other, count in rest if most - count <= TIED * math.sqrt(most + count))
    return name, tied, float(np.median(tops[name])), float(np.median(lows[name]))
