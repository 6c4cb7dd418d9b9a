"""Compound's regime: which phases its cycles have, and how its delay window oscillates (Blanc et al. 2008, section 3).

Read off the delay window that the replayed control would have had. Phase 1: it opens over an empty queue; 2: over a
queue; 3: it opens and closes around gamma; 4: it is shut, and the window grows as Reno's. A phase counts when a whole
round trip of the cycle belongs to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from tcptrace_lab.classify.tape import Epoch, Tape
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
KEYS = ("case", "phases_per_cycle", "oscillation", "theta_max", "theta_min")


@dataclass(frozen=True, kw_only=True)
class CompoundRegime:
    """`case` None: the cycles disagree, or none is whole. Windows in packets; `gamma` the replayed candidate's."""

    case: int | None
    phases_per_cycle: tuple[tuple[int, ...], ...]
    oscillation: str | None
    theta_max: float | None
    theta_min: float | None
    gamma: float | None
    reasons: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The verdict's `compound`."""
        return {
            "case": self.case,
            "phases_per_cycle": [list(phases) for phases in self.phases_per_cycle],
            "oscillation": self.oscillation,
            "theta_max": self.theta_max,
            "theta_min": self.theta_min,
            "gamma": self.gamma,
        }


NOT_COMPOUND: dict[str, Any] = {**dict.fromkeys(KEYS), "gamma": None}


@dataclass(frozen=True, kw_only=True)
class Step:
    """One change of the delay window: its size, the window before, and the packets found in the queue."""

    row: int
    size: float
    window: float
    queued: float


def compound_regime(tape: Tape, *, memory: Mapping[str, Floats], cwnd: Floats, gamma: float | None) -> CompoundRegime:
    """The regime of a sender identified as Compound; `memory` and `cwnd` are its replay's columns."""
    at_work = [epoch.rows for epoch in tape.epochs if not epoch.is_slow_start]
    # A loss moves the delay window too: that is no phase.
    rows = set(np.concatenate(at_work).tolist()) if at_work else set()
    steps = [step for step in _steps(memory, cwnd / tape.smss) if step.row in rows]
    cycles = _cycles(tape.epochs)
    phases = tuple(phases_of(own, steps, memory["dwnd"], tape.round_of_row) for own in cycles)
    cases = [CASE_OF_PHASES.get(found) for found in phases]
    counted = Counter(case for case in cases if case is not None)
    case = counted.most_common(1)[0][0] if counted and counted.most_common(1)[0][1] * 2 > len(cases) else None
    oscillation, theta_max, theta_min = _oscillation(steps, cwnd / tape.smss)
    return CompoundRegime(
        case=case,
        phases_per_cycle=phases,
        oscillation=oscillation,
        theta_max=theta_max,
        theta_min=theta_min,
        gamma=gamma,
        reasons=_reasons(case, counted, len(cases)),
    )


def _reasons(case: int | None, counted: Counter[int], cycles: int) -> tuple[str, ...]:
    if case is not None:
        return (f"{counted[case]} of {cycles} cycles have the phases of Compound's case {case}",)
    if not cycles:
        return ("no whole cycle of avoidance: Compound's case is not seen",)
    return ("Compound's cycles do not agree on a case",)


def _cycles(epochs: Sequence[Epoch]) -> list[Ints]:
    """The rows of each avoidance from a recovery to the next loss."""
    found = []
    for _, parts in groupby(epochs, key=lambda epoch: epoch.number):
        own = [part for part in parts if not part.is_slow_start and part.begin == "recovery" and part.ends_in_loss]
        rows = [part.rows for part in own if len(part.rows)]
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


def phases_of(rows: Ints, steps: Sequence[Step], dwnd: Floats, round_of_row: Ints) -> tuple[int, ...]:
    """The phases of one cycle, from its rows of a replay, or of a simulator's truth."""
    own = [step for step in steps if rows[0] <= step.row <= rows[-1]]
    opened = [step for step in own if step.size > 0]
    closed = [step for step in own if step.size < 0]
    before_closing = [step for step in opened if not closed or step.row < closed[0].row]
    shut = rows[dwnd[rows] == 0]
    after = shut[shut > closed[-1].row] if closed else shut if not opened else shut[:0]
    rounds = int(round_of_row[after[-1]] - round_of_row[after[0]]) if len(after) else 0
    found = []
    if sum(step.queued < EMPTY_PACKETS for step in before_closing) > DRAINED_STEPS:
        found.append(1)
    if any(step.queued >= EMPTY_PACKETS for step in before_closing):
        found.append(2)
    if closed:
        found.append(3)
    if rounds >= LINEAR_ROUNDS:
        found.append(4)
    # Section 3: once the delay window has given way, phase 2 was passed, however short, and phase 4 follows.
    if closed:
        found = sorted({*found, 2})
    return tuple(found)


def _oscillation(steps: Sequence[Step], window: Floats) -> tuple[str | None, float | None, float | None]:
    """m:n, the most frequent run of openings and the closings after it, and the windows at its two ends."""
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
        return None, None, None
    name = found.most_common(1)[0][0]
    return name, float(np.median(tops[name])), float(np.median(lows[name]))
