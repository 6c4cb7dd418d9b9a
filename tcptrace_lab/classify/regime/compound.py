"""Compound's regime: which phases its cycles have, and how its delay window oscillates (Blanc et al. 2008, section 3).

Read off the delay window that the replayed control would have had. Phase 1: it opens over an empty queue; 2: over a
queue; 3: it opens and closes around gamma; 4: it is shut, and the window grows as Reno's. A phase counts when a whole
round trip of the cycle belongs to it.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, groupby, pairwise
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from tcptrace_lab.classify.control.candidates.likelihood import Replay
from tcptrace_lab.classify.control.shown.tape import Tape
from tcptrace_lab.models.compound_cases import PHASES_OF_CASE
from tcptrace_lab.reconstruct.estimate import Estimate
from tcptrace_lab.reconstruct.given import DELAYED_ACK_SEGMENTS, FEWEST_ALIKE, MAJORITY, WITHIN_SEGMENTS
from tcptrace_lab.reconstruct.timeline import Floats, Ints, parts

# What is read of a Compound's mind.
# Phases after which none can come that would change the case: the queue does not fall below gamma again.
SETTLED = frozenset({3, 4})
# A loss may end a cycle before its phase 4.
CASE_OF_PHASES = {phases: case for case, phases in PHASES_OF_CASE.items()} | {(1, 2, 3): 4, (2, 3): 5}
# The window without its delay part grows by one packet per round trip: as many of those in a row are phase 4.
LINEAR_ROUNDS = 2
# A recovery drains the queue for a round trip, whatever comes after it.
DRAINED_STEPS = 1
# A loss is noticed a round trip after the overflow: a delay window that closes then has prevented nothing. Round trips
# of the cycle that must follow; where in its round trip the overflow fell is not seen.
NOTICED_ROUNDS = 0.5
# For so much of the time, if not most of it, the cycles have the phases of a case: it is possible.
OFTEN_SHARE = 0.25
# Counts of oscillations scatter by their square roots: what lies within two of them is tied.
TIED = 2.0
KEYS = ("case", "phases_per_cycle", "oscillation", "theta_max", "theta_min")
OPEN_KEYS = ("compatible", "oscillation_tied")


@dataclass(frozen=True, kw_only=True)
class CompoundRegime:
    """`case` None: the cycles disagree, or none is whole. Windows and `gamma` in packets.

    `compatible`: the cases if every queue were a packet, every phase a round trip more or less; `oscillation_tied`:
    those as frequent as the one named, as far as their number tells.
    """

    case: int | None
    compatible: tuple[int, ...]
    phases_per_cycle: tuple[tuple[int, ...], ...]
    oscillation: str | None
    oscillation_tied: tuple[str, ...]
    theta_max: float | None
    theta_min: float | None
    gamma: Estimate | None
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
            "gamma": None if self.gamma is None else self.gamma.as_dict(),
        }


NOT_COMPOUND: dict[str, Any] = {**dict.fromkeys(KEYS), **{key: [] for key in OPEN_KEYS}, "gamma": None}


@dataclass(frozen=True, kw_only=True)
class Step:
    """One change of the delay window: its size, the window before, and the packets found in the queue."""

    row: int
    size: float
    window: float
    queued: float


@dataclass(frozen=True, kw_only=True)
class PhaseReading:
    """Where a phase is taken to begin: what counts as an empty queue, as its draining, as noticed too late."""

    # Fewer packets are no queue, and the base round trip may be one off.
    empty: float = DELAYED_ACK_SEGMENTS
    drained: int = DRAINED_STEPS
    noticed: float = NOTICED_ROUNDS


AS_SEEN = PhaseReading()
# Then with a packet or a round trip more or less.
READINGS = (
    AS_SEEN,
    PhaseReading(empty=DELAYED_ACK_SEGMENTS - WITHIN_SEGMENTS),
    PhaseReading(empty=DELAYED_ACK_SEGMENTS + WITHIN_SEGMENTS),
    PhaseReading(drained=DRAINED_STEPS - 1),
    PhaseReading(drained=DRAINED_STEPS + 1),
    PhaseReading(noticed=0.0),
    PhaseReading(noticed=2 * NOTICED_ROUNDS),
)


def compound_regime(best: Replay, gamma: Estimate, *, pipe: float | None = None) -> CompoundRegime:
    """The regime of a sender identified as Compound; `pipe` is its mu tau.

    Without `pipe` (in packets) the queue is the one that the delay window went by, which is a round trip old.
    """
    tape, dwnd = best.tape, best.dwnd
    # A loss moves the delay window too: that is no phase.
    is_avoidance = np.zeros(len(dwnd), dtype=np.bool_)
    for epoch in tape.epochs:
        if not epoch.is_slow_start:
            is_avoidance[tape.rows(epoch.acks)] = True
    steps = _steps(best, dwnd, np.flatnonzero((np.diff(dwnd, prepend=dwnd[:1]) != 0) & is_avoidance), pipe)
    cycles, rounds = _cycles(tape), _rounds(tape.round_of_row)
    floor = MAJORITY * best.candidate.parameters["gamma"]
    read = [phases_of(own, steps, dwnd, rounds, floor=floor, readings=READINGS) for own, _ in cycles]
    # What the capture's end cuts short is told by what it cannot lose any more.
    told = [ends or not SETTLED.isdisjoint(phases) for (_, ends), (phases, *_) in zip(cycles, read, strict=True)]
    lengths = [int(tape.round_of_row[own[-1]] - tape.round_of_row[own[0]]) for own, _ in compress(cycles, told)]
    found, *others = (tuple(each[at] for each in compress(read, told)) for at in range(len(READINGS)))
    case = case_of(found, lengths)
    compatible = tuple(sorted({each for phases in (found, *others) for each in _often(phases, lengths)}))
    # Where cycles end before phase 3 nothing oscillates: what closes the delay window is an overflow on its way.
    is_oscillating = case is None or not SETTLED.isdisjoint(PHASES_OF_CASE[case])
    oscillation, tied, theta_max, theta_min = _oscillation(steps if is_oscillating else [], floor)
    return CompoundRegime(
        case=case,
        compatible=compatible,
        phases_per_cycle=found,
        oscillation=oscillation,
        oscillation_tied=tied,
        theta_max=theta_max,
        theta_min=theta_min,
        gamma=gamma,
        reasons=tuple(_reasons(case, compatible, found, oscillation, tied)),
    )


def case_of(cycles: Sequence[tuple[int, ...]], lengths: Sequence[float]) -> int | None:
    """The case of cycles that last for more than half of the time; `lengths` in round trips."""
    found = [case for case, rounds in _cases(cycles, lengths).items() if rounds * 2 > sum(lengths)]
    return found[0] if found else None


def _often(cycles: Sequence[tuple[int, ...]], lengths: Sequence[float]) -> list[int]:
    """The cases of cycles that last for a good part of the time."""
    return [case for case, rounds in _cases(cycles, lengths).items() if rounds >= OFTEN_SHARE * sum(lengths)]


def _cases(cycles: Sequence[tuple[int, ...]], lengths: Sequence[float]) -> dict[int, float]:
    """The round trips of the cycles of each case."""
    counted: dict[int, float] = {}
    for phases, rounds in zip(cycles, lengths, strict=True):
        if phases in CASE_OF_PHASES:
            case = CASE_OF_PHASES[phases]
            counted[case] = counted.get(case, 0.0) + rounds
    return counted


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
        counted = Counter(CASE_OF_PHASES[phases] for phases in cycles if phases in CASE_OF_PHASES)
        often = ", ".join(f"case {each} in {count}" for each, count in counted.most_common())
        yield f"Compound's {len(cycles)} cycles do not agree on a case: {often or 'they have none of the six'}"
    else:
        own = sum(CASE_OF_PHASES.get(phases) == case for phases in cycles)
        yield f"{own} of {len(cycles)} cycles have the phases of Compound's case {case}"
    others = [other for other in compatible if other != case]
    if others:
        yield f"with a packet or a round trip more or less it is Compound's case {' or '.join(map(str, others))}"
    if tied:
        yield f"the delay window oscillates {oscillation}, as often {', '.join(tied)}"


def _window(tape: Tape, cwnd: Floats) -> Floats:
    """In packets: the replay's, where what is outstanding shows it to within a segment of that."""
    window = cwnd / tape.smss
    for epoch in tape.epochs:
        rows, flight = tape.rows(epoch.released), epoch.heard.flight[epoch.released] / tape.smss
        window[rows] = np.clip(window[rows], flight, flight + 1)
    return window


def _rounds(round_of_row: npt.NDArray[np.int32]) -> Floats:
    """Round trips up to each row, with the part of its own that is over."""
    starts = np.flatnonzero(np.diff(round_of_row, prepend=-1))
    ends = np.append(starts, len(round_of_row))
    values, found = np.append(round_of_row[starts], round_of_row[-1] + 1), np.empty(len(round_of_row))
    for part in parts(len(found)):
        found[part] = np.interp(np.arange(part.start, part.stop), ends, values)
    return found


def _cycles(tape: Tape) -> list[tuple[Ints, bool]]:
    """The rows of each avoidance from a recovery on, and whether it lasts to the next loss: the last may not."""
    found = []
    for number, pieces in groupby(tape.epochs, key=lambda epoch: epoch.number):
        own = [part for part in pieces if not part.is_slow_start and part.begin == "recovery"]
        ends = any(part.ends_in_loss for part in own)
        rows = np.concatenate([tape.rows(part.acks) for part in own]) if own else np.zeros(0, dtype=np.int64)
        if len(rows) and (ends or number == tape.epochs[-1].number):
            found.append((rows, ends))
    return found


def _steps(best: Replay, dwnd: Floats, rows: Ints, pipe: float | None) -> list[Step]:
    """What moved the delay window at these rows, with the queue: what is above `pipe`, or w (1 - base / least RTT)."""
    window = _window(best.tape, best.cwnd())[rows - 1]
    base, least = best.memory("base_rtt_ns", "round_min_rtt_ns", rows=rows - 1).values()
    if pipe is not None:
        queued = window - pipe
    else:
        queued = np.where(least > 0, window * (1 - base / np.maximum(least, 1)), np.nan)
    columns = (rows, dwnd[rows] - dwnd[rows - 1], window, queued)
    return [
        Step(row=row, size=size, window=before, queued=told)
        for row, size, before, told in zip(*(column.tolist() for column in columns), strict=True)
    ]


def phases_of(
    rows: Ints,
    steps: Sequence[Step],
    dwnd: Floats,
    rounds: Floats,
    *,
    floor: float,
    readings: Sequence[PhaseReading] = (AS_SEEN,),
) -> list[tuple[int, ...]]:
    """The phases of one cycle by each reading, from its rows of a replay, or of a simulator's truth; `rounds`: round
    trips up to each.

    `steps` in the order of their rows. Over a queue of less than `floor` packets nothing closes the window.
    """
    row_of = attrgetter("row")
    own = steps[bisect_left(steps, rows[0], key=row_of) : bisect_right(steps, rows[-1], key=row_of)]
    opened = [step for step in own if step.size > 0]
    closing = [step for step in own if step.size < 0 and step.queued >= floor]
    shut = rows[dwnd[rows] == 0]
    return [_phases(opened, closing, shut, rounds[: rows[-1] + 1], reading) for reading in readings]


def _phases(
    opened: Sequence[Step], closing: Sequence[Step], shut: Ints, rounds: Floats, reading: PhaseReading
) -> tuple[int, ...]:
    """From what opened and closed the delay window in a cycle, and where it is shut; `rounds`: up to its end."""
    over = rounds[-1] - reading.noticed
    closed = [step for step in closing if rounds[step.row] <= over]
    before_closing = [step for step in opened if not closed or step.row < closed[0].row]
    after = shut[shut > closed[-1].row] if closed else shut if not opened else shut[:0]
    found = []
    if sum(step.queued < reading.empty for step in before_closing) > reading.drained:
        found.append(1)
    if any(step.queued >= reading.empty for step in before_closing):
        found.append(2)
    if closed:
        found.append(3)
    if len(after) and rounds[after[-1]] - rounds[after[0]] >= LINEAR_ROUNDS:
        found.append(4)
    # Section 3: once the delay window has given way, phase 2 was passed, however short, and phase 4 follows.
    if closed:
        found = sorted({*found, 2})
    return tuple(found)


def _oscillation(steps: Sequence[Step], floor: float) -> tuple[str | None, tuple[str, ...], float | None, float | None]:
    """m:n, the most frequent run of openings and the closings after; what is tied with it; the windows at its ends.

    Over a queue of less than `floor` packets no delay closes the window.
    """
    found: Counter[str] = Counter()
    tops: dict[str, list[float]] = {}
    lows: dict[str, list[float]] = {}
    runs = [(is_up, list(run)) for is_up, run in groupby(steps, key=lambda step: step.size > 0)]
    for (is_up, up), (_, down) in pairwise(runs):
        if is_up and down[0].queued >= floor:
            name = f"{len(up)}:{len(down)}"
            found[name] += 1
            tops.setdefault(name, []).append(down[0].window)
            # What is outstanding takes a round trip to fall to the window left.
            lows.setdefault(name, []).append(down[0].window + sum(step.size for step in down))
    if not found or found.most_common(1)[0][1] < FEWEST_ALIKE:
        return None, (), None, None
    (name, most), *rest = found.most_common()
    tied = tuple(other for other, count in rest if most - count <= TIED * math.sqrt(most + count))
    return name, tied, float(np.median(tops[name])), float(np.median(lows[name]))
