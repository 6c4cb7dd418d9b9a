"""A candidate that was replayed over a capture: its errors, and how likely they make it.

The noise is the capture's own, learnt from the candidate that fits best; of one loss cycle, one reduction or a quarter
of a slow start no more than a bounded evidence is taken, so a single odd one decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.control.candidates.candidates import Candidate
from tcptrace_lab.classify.control.shown.compared import Part
from tcptrace_lab.classify.control.shown.evidence import Misfit, Misfits
from tcptrace_lab.classify.control.shown.tape import Tape
from tcptrace_lab.reconstruct.given import FEWEST_ALIKE, MAJORITY, MINORITY
from tcptrace_lab.reconstruct.timeline import Bools, Floats, Ints

# Student's t with two degrees of freedom: (1 + z^2)^-1.5. Large errors count by their logarithm.
TAIL = 1.5
# One loss cycle, one reduction: at most e^4 = 55 to 1 for or against anybody, until it is known how many the best has
# that are disturbed. Of a disturbed piece one in ten looks like another candidate's own.
MOST_PER_PIECE = 4.0
# The noise is what three quarters of the best candidate's errors stay below. Least in segments: one ACK of a hundred at
# which a fifth of a segment is missing.
NOISE_SHARE = 0.75
LEAST_NOISE_SEGMENTS = 0.02
# Nor is it less than this part of what the flight itself may differ by: between two bounds it was put by a rule.
SLACK_NOISE_SHARE = 0.25
# A law that was followed is off by a segment at most, and by a share of what it grew or was cut: K, w_max and the start
# of an epoch are each known to within a segment of some tens; a cut is arithmetic; in slow start a late ACK is a burst.
FITS_SEGMENTS = 1.0
FITS_SHARES: dict[Part, float] = {"growth": 0.03, "reduction": 0.01, "slow_start": 0.1, "cycle": 0.02}
# Odds of 100 to 1 against one that is behind the best: refuted.
REFUTED = math.log(100.0)


@dataclass(frozen=True, kw_only=True)
class Replay:
    """One candidate over one tape, every time of which is `later_ns` later."""

    candidate: Candidate
    tape: Tape
    initial_window: int
    later_ns: int
    misfits: Misfits
    # Their errors in units of what is open; of those behind where it was refuted, and no longer heard, the largest.
    sizes: Floats

    @property
    def is_heard(self) -> Bools:
        """Which of them it was heard in."""
        return ~np.isnan(self.misfits.error)

    def misfit(self, place: int) -> Misfit:
        """One of them."""
        pieces = self.tape.compared.pieces
        return Misfit(
            part=cast(Part, str(pieces.parts[place])),
            ack=int(pieces.ack[place]),
            error=float(self.misfits.error[place]),
            observed=float(pieces.observed[place]),
            expected=float(self.misfits.expected[place]),
        )

    def sizes_of(self, part: Part) -> Floats:
        """Those of slow starts, of growth or of reductions."""
        return self.sizes[self.places_of(part)]

    def places_of(self, part: Part) -> Bools:
        """Which of the misfits are of a part."""
        return self.tape.compared.pieces.places_of[part]

    @property
    def explained(self) -> float:
        """Share of the loss cycles (or of the reductions, if less) that it follows to within what is open."""
        parts = [self.sizes_of(part) <= 1.0 for part in ("growth", "reduction")]
        return min((float(part.mean()) for part in parts if len(part)), default=1.0)

    @property
    def unfit(self) -> int:
        """Errors beyond what is open."""
        return int(np.count_nonzero(self.sizes > 1.0))

    @property
    def residual(self) -> float | None:
        """The median error in units of what is open, as far as it was heard."""
        heard = self.sizes[self.is_heard]
        return _core.median(heard) if len(heard) else None

    @cached_property
    def starts_as_seen(self) -> bool:
        """Whether the slow start is its own."""
        own = self.sizes_of("slow_start") <= 1.0
        # Of the slow start's quarters: another may have had the same first ACKs.
        return len(own) < FEWEST_ALIKE or bool(own.sum() >= MAJORITY * len(own))

    @property
    def against(self) -> str | None:
        """The part that speaks loudest against it, with its numbers."""
        words: dict[Part, str] = {
            "slow_start": "slow start",
            "growth": "growth in avoidance",
            "reduction": "reduction at a loss",
            "cycle": "from one loss to the next",
        }
        told = []
        for part, name in words.items():
            own = np.flatnonzero(self.places_of(part) & self.is_heard)
            sizes = self.sizes[own]
            bad = np.flatnonzero(sizes > 1.0)
            bad = bad[np.argsort(sizes[bad], kind="stable")]
            if len(bad):
                told.append((float(sizes[bad].sum()), name, int(own[bad[len(bad) // 2]]), f"{len(bad)} of {len(own)}"))
        if not told:
            return None
        _, name, place, share = max(told)
        worst = self.misfit(place)
        return f"{name}: {worst.expected:.1f} segments expected, {worst.observed:.1f} seen ({share})"

    def memory(self, *names: str, rows: Ints | None = None) -> dict[str, Floats]:
        """What the candidate held in mind after each row of its tape, or after these, which rise."""
        return dict(self.tape.core.memory(self._sender(), list(names), later_ns=self.later_ns, rows=rows))

    @cached_property
    def dwnd(self) -> Floats:
        """A Compound's delay window after each row: whether it is one, and which, hang on it."""
        return self.memory("dwnd")["dwnd"]

    def cwnd(self) -> Floats:
        """Its window in bytes after each row."""
        found: Floats = self.tape.core.play(self._sender(), later_ns=self.later_ns)[0]
        return found

    def _sender(self) -> _core.CandidateSender:
        return self.candidate.sender(initial_window=self.initial_window, smss=self.tape.smss)


def open_of(tape: Tape) -> Floats:
    """Segments that a law which was followed may be off, per misfit."""
    pieces = tape.compared.pieces
    shares = np.zeros(len(pieces))
    for part, share in FITS_SHARES.items():
        shares[pieces.places_of[part]] = share
    found: Floats = FITS_SEGMENTS + shares * pieces.scale + pieces.slack
    return found


def noise_of(replays: Sequence[Replay], *, is_told: bool = False) -> Floats:
    """What most errors of the best candidate stay below, as shares of what is open: the capture's own noise, and at
    each piece no less than what was inferred there leaves.

    `is_told`: what is inferred lies between ACKs that a segment each names, and not on the line of any law: one that
    is followed there throughout shows that it was put right.
    """
    judged = [each for each in replays if len(each.sizes)]
    if not judged:
        return np.ones(0)
    tape, table = judged[0].tape, table_of(judged)
    inferred = SLACK_NOISE_SHARE * tape.compared.pieces.inferred / open_of(tape)
    least = noise_among(table)
    if is_told and table.shape[1] > FEWEST_ALIKE and table.max(axis=1).min() <= LEAST_NOISE_SEGMENTS:
        return np.full(len(inferred), least)
    found: Floats = np.clip(inferred, max(least, _core.median(inferred)), 1.0)
    return found


def noise_among(sizes: Floats) -> float:
    """A row of errors for each candidate."""
    return min(max(min(_core.percentile(each, 100 * NOISE_SHARE) for each in sizes), LEAST_NOISE_SEGMENTS), 1.0)


def log_likelihood(
    sizes: Floats, noise: Floats | float, most: float = MOST_PER_PIECE, most_beyond: float = 0.0
) -> float:
    """Of errors of these sizes; `most` that one within what is open says, and `most_beyond` one beyond it."""
    return log_likelihoods(sizes[None], noise, most, most_beyond)[0]


def log_likelihoods(
    table: Floats, noise: Floats | float, most: float = MOST_PER_PIECE, most_beyond: float = 0.0
) -> list[float]:
    """The same of each row of a table."""
    bounds = np.where(table > 1.0, most_beyond, most) if most_beyond > most else most
    # In place: a table has a row for each candidate.
    told = table / noise
    told = np.log1p(np.square(told, out=told), out=told)
    told *= TAIL
    np.minimum(told, bounds, out=told)
    found: list[float] = (-told.sum(axis=1)).tolist()
    return found


def table_of(replays: Sequence[Replay]) -> Floats:
    """A row for each candidate's errors, in units of what is open."""
    return np.stack([each.sizes for each in replays]) if replays else np.zeros((0, 0))


def most_per_piece(disturbed: int, pieces: int) -> float:
    """What a single piece may say against a candidate: the odds that it is no disturbed one (Laplace's rule)."""
    return math.log((pieces + 1) / ((disturbed + 1) * MINORITY))
