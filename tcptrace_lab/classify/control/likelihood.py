"""Candidates replayed over a capture, each with its errors and how likely they make it.

The noise is the capture's own, learnt from the candidate that fits best; of one loss cycle, one reduction or a quarter
of a slow start no more than a bounded evidence is taken, so a single odd one decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.control.candidates import Candidate
from tcptrace_lab.classify.control.compared import Part
from tcptrace_lab.classify.control.evidence import Misfit, Misfits
from tcptrace_lab.classify.control.tape import Tape
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
# Of one family the best speaks. Who is behind it by odds of e^40 (more than 10^17 to 1) after so many pieces does not
# come back, nor does a family that is so far behind another: laws are the same all along.
HOPELESS = 10 * MOST_PER_PIECE
FEWEST_JUDGED = 16
# Nor does who was beyond what is open at so many of them, once those of the slow start are few: a law explains most.
UNFIT_SHARE = 0.75
UNFIT_PIECES = 32
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
        return float(np.median(self.sizes[self.is_heard])) if len(self.sizes) else None

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


def replays(
    candidates: Sequence[Candidate],
    tapes: Sequence[Tape],
    initial_window: int,
    known: Sequence[Replay] = (),
    *,
    to_the_end: bool = True,
) -> list[Replay]:
    """Every candidate over every reading of the capture under which its law may differ, but the hopeless ones.

    Of each family one at least is there, or is `known`: the best, and all that are not far behind it. But for
    `to_the_end`, a family that is refuted beyond doubt is heard no further.
    """
    if not tapes:
        return []
    hearing = Hearing(candidates, tapes, initial_window)
    for judged in stages(len(hearing.opened), FEWEST_JUDGED):
        told = hearing.errors(judged)
        names = [each.name for each, _ in told] + [each.candidate.name for each in known]
        first = [np.abs(error) / hearing.opened[: len(error)] for _, error in told]
        sizes = first + [each.sizes[:judged] for each in known]
        is_left = _not_hopeless(names, sizes)
        if not to_the_end:
            is_out = _beyond_doubt(names, sizes, is_left)
            hearing.end(is_out[: len(told)])
            is_left = [left and not out for left, out in zip(is_left, is_out, strict=True)]
        hearing.keep(is_left[: len(told)])
    return hearing.replays()


def heard_to_the_end(known: Sequence[Replay]) -> list[Replay]:
    """The same, also of those that were refuted on the way."""
    return [
        each
        if each.is_heard.all()
        else Hearing([each.candidate], [each.tape], each.initial_window, later_ns=each.later_ns).replays()[0]
        for each in known
    ]


def unheard(candidates: Sequence[Candidate], tape: Tape, initial_window: int) -> list[Replay]:
    """The first of each family, over a tape on which there is nothing to hold a window against."""
    none, first = np.zeros(0), {each.name: each for each in reversed(candidates)}
    return [
        Replay(
            candidate=each,
            tape=tape,
            initial_window=initial_window,
            later_ns=each.phases_ms[0] * 1_000_000,
            misfits=Misfits(error=none, expected=none),
            sizes=none,
        )
        for each in candidates
        if first[each.name] is each
    ]


class Hearing:
    """Candidates replayed together, as far as is asked for; `opened`: what is open, per misfit; `later_ns`: no other
    phase of their clocks is asked about."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        tapes: Sequence[Tape],
        initial_window: int,
        *,
        later_ns: int | None = None,
    ) -> None:
        self._tapes = tapes
        self._initial_window = initial_window
        self._entries = [
            (candidate, number, phase_ms * 1_000_000)
            for candidate in candidates
            for number, tape in enumerate(tapes)
            if candidate.is_by_delay or not tape.has_handshake
            for phase_ms in candidate.phases_ms
            if later_ns in (None, phase_ms * 1_000_000)
        ]
        # Of who is heard no further, by number: the errors, and what was expected.
        self._ended: dict[int, tuple[Floats, Floats]] = {}
        # Of who goes on.
        self._numbers = list(range(len(self._entries)))
        self._pieces, self.opened = tapes[0].compared.pieces, open_of(tapes[0])
        self._contest = _core.Contest(
            self._pieces.core,
            [tape.core for tape in tapes],
            [tape.reduction_rows for tape in tapes],
            [
                (number, candidate.sender(initial_window=initial_window, smss=tapes[number].smss), later_ns)
                for candidate, number, later_ns in self._entries
            ],
        )

    def errors(self, judged: int) -> list[tuple[Candidate, Floats]]:
        """Of everyone who goes on: by how much it is off in the first so many pieces (NaN: not judged by then)."""
        self._contest.advance(max(int(self._pieces.ack[:judged].max()), 0))
        return [(self._entries[number][0], error[:judged]) for number, error, _ in self._contest.judged()]

    def keep(self, is_left: Sequence[bool]) -> None:
        """Only these of them go on."""
        self._numbers = [number for number, is_kept in zip(self._numbers, is_left, strict=True) if is_kept]
        self._contest.keep(self._numbers)

    def end(self, is_ended: Sequence[bool]) -> None:
        """These of them are heard no further, but told of by what they were heard in."""
        if not any(is_ended):
            return
        for (number, error, expected), is_one in zip(self._contest.judged(), is_ended, strict=True):
            if is_one:
                behind = np.full(len(self.opened) - len(error), np.nan)
                self._ended[number] = (np.concatenate((error, behind)), np.concatenate((expected, behind)))

    def replays(self) -> list[Replay]:
        """Everyone who goes on, heard to the end, and who was ended."""
        self._contest.advance(None)
        heard = {number: (error, expected) for number, error, expected in self._contest.judged()} | self._ended
        return [
            Replay(
                candidate=self._entries[number][0],
                tape=self._tapes[self._entries[number][1]],
                initial_window=self._initial_window,
                later_ns=self._entries[number][2],
                misfits=Misfits(error=heard[number][0], expected=heard[number][1]),
                sizes=self._sizes(heard[number][0]),
            )
            for number in sorted(heard)
        ]

    def _sizes(self, error: Floats) -> Floats:
        sizes: Floats = np.abs(error) / self.opened
        is_unheard = np.isnan(sizes)
        if is_unheard.any():
            sizes[is_unheard] = np.nanmax(sizes)
        return sizes


def stages(pieces: int, judged: int) -> Iterator[int]:
    """After how many pieces the hopeless ones are dropped: twice as many each time."""
    while judged < pieces:
        yield judged
        judged *= 2


def _not_hopeless(names: Sequence[str], sizes: Sequence[Floats]) -> list[bool]:
    """Who may yet be spoken of, by what is judged of all: who is not far behind the best of its family; of a family
    that is out itself, or where it fits nowhere, that best alone."""
    table = _judged_of_all(sizes)
    if not table.shape[1]:
        return [True] * len(names)
    likely = _likely(table)
    best: dict[str, int] = {}
    for place, name in enumerate(names):
        if name not in best or likely[place] > likely[best[name]]:
            best[name] = place
    most, _ = max(likely)
    is_unfit = (np.mean(table > 1.0, axis=1) > UNFIT_SHARE) & (table.shape[1] >= UNFIT_PIECES)
    found = []
    for place, name in enumerate(names):
        (own, _), (top, _) = likely[place], likely[best[name]]
        is_rival = own >= top - HOPELESS and top >= most - HOPELESS and not is_unfit[place]
        found.append(is_rival or place == best[name])
    return found


def _beyond_doubt(names: Sequence[str], sizes: Sequence[Floats], is_left: Sequence[bool]) -> list[bool]:
    """Whose family is refuted by what is judged of all: beyond what is open where the best is within, at as many pieces
    as make it hopeless; while the best is all but nowhere beyond. The nearest other is heard on, to be told against."""
    table = _judged_of_all(sizes)
    if not table.shape[1]:
        return [False] * len(names)
    likely = _likely(table)
    order = sorted(range(len(names)), key=lambda place: likely[place], reverse=True)
    is_within = table <= 1.0
    best = is_within[order[0]]
    if np.count_nonzero(~best) > 1:
        return [False] * len(names)
    is_parted = np.count_nonzero(best & ~is_within, axis=1) >= HOPELESS / MOST_PER_PIECE
    rivals = {name for name, parted, left in zip(names, is_parted, is_left, strict=True) if left and not parted}
    rivals.update(list(dict.fromkeys(names[place] for place in order))[:2])
    return [left and name not in rivals for name, left in zip(names, is_left, strict=True)]


def _likely(table: Floats) -> list[tuple[float, float]]:
    """Of each: where every piece says the most that it may, two are told apart by how far they are off."""
    noise = _noise(table)
    return list(zip(log_likelihoods(table, noise), log_likelihoods(table, noise, math.inf), strict=True))


def _judged_of_all(sizes: Sequence[Floats]) -> Floats:
    """A row for each, of the pieces that all are judged by."""
    count = min(map(len, sizes))
    table = np.stack([each[:count] for each in sizes])
    return np.ascontiguousarray(table[:, ~np.isnan(table).any(axis=0)])


def open_of(tape: Tape) -> Floats:
    """Segments that a law which was followed may be off, per misfit."""
    pieces = tape.compared.pieces
    shares = np.zeros(len(pieces))
    for part, share in FITS_SHARES.items():
        shares[pieces.places_of[part]] = share
    found: Floats = FITS_SEGMENTS + shares * pieces.scale + pieces.slack
    return found


def noise_of(replays: Sequence[Replay]) -> Floats:
    """What most errors of the best candidate stay below, as shares of what is open: the capture's own noise, and at
    each piece no less than what was inferred there leaves."""
    judged = [each for each in replays if len(each.sizes)]
    if not judged:
        return np.ones(0)
    tape = judged[0].tape
    inferred = SLACK_NOISE_SHARE * tape.compared.pieces.inferred / open_of(tape)
    least = max(_noise(table_of(judged)), float(np.median(inferred)))
    found: Floats = np.clip(inferred, least, 1.0)
    return found


def _noise(sizes: Floats) -> float:
    """A row of errors for each candidate."""
    return min(max(float(np.quantile(sizes, NOISE_SHARE, axis=1).min()), LEAST_NOISE_SEGMENTS), 1.0)


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
