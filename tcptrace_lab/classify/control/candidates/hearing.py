"""Candidates replayed together over every reading of a capture, and dropped on the way once they are hopeless.

A capture may be long and the candidates are many: after twice as many pieces each time who is far behind is heard no
further.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.control.candidates.candidates import Candidate
from tcptrace_lab.classify.control.candidates.likelihood import (
    MOST_PER_PIECE,
    Replay,
    log_likelihoods,
    noise_among,
    open_of,
)
from tcptrace_lab.classify.control.shown.evidence import Misfits
from tcptrace_lab.classify.control.shown.tape import Tape
from tcptrace_lab.reconstruct.timeline import Floats

# Of one family the best speaks. Who is behind it by odds of e^40 (more than 10^17 to 1) after so many pieces does not
# come back, nor does a family that is so far behind another: laws are the same all along.
HOPELESS = 10 * MOST_PER_PIECE
FEWEST_JUDGED = 16
# Nor does who was beyond what is open at so many of them, once those of the slow start are few: a law explains most.
UNFIT_SHARE = 0.75
UNFIT_PIECES = 32
# How likely one is, and the same where a single piece may say whatever it does.
Likely = tuple[float, float]


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
        table = _judged_of_all(sizes)
        if not table.shape[1]:
            continue
        likely = _likely(table)
        is_left = _not_hopeless(names, table, likely)
        if not to_the_end:
            is_out = _beyond_doubt(names, table, likely, is_left)
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


def _not_hopeless(names: Sequence[str], table: Floats, likely: Sequence[Likely]) -> list[bool]:
    """Who may yet be spoken of, by what is judged of all: who is not far behind the best of its family; of a family
    that is out itself, or where it fits nowhere, that best alone."""
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


def _beyond_doubt(names: Sequence[str], table: Floats, likely: Sequence[Likely], is_left: Sequence[bool]) -> list[bool]:
    """Whose family is refuted by what is judged of all: beyond what is open where the best is within, at as many pieces
    as make it hopeless; while the best is all but nowhere beyond. The nearest other is heard on, to be told against."""
    order = sorted(range(len(names)), key=lambda place: likely[place], reverse=True)
    is_within = table <= 1.0
    best = is_within[order[0]]
    if np.count_nonzero(~best) > 1:
        return [False] * len(names)
    is_parted = np.count_nonzero(best & ~is_within, axis=1) >= HOPELESS / MOST_PER_PIECE
    rivals = {name for name, parted, left in zip(names, is_parted, is_left, strict=True) if left and not parted}
    rivals.update(list(dict.fromkeys(names[place] for place in order))[:2])
    return [left and name not in rivals for name, left in zip(names, is_left, strict=True)]


def _likely(table: Floats) -> list[Likely]:
    """Of each: where every piece says the most that it may, two are told apart by how far they are off."""
    noise = noise_among(table)
    return list(zip(log_likelihoods(table, noise), log_likelihoods(table, noise, math.inf), strict=True))


def _judged_of_all(sizes: Sequence[Floats]) -> Floats:
    """A row for each, of the pieces that all are judged by."""
    count = min(map(len, sizes))
    table = np.stack([each[:count] for each in sizes])
    return np.ascontiguousarray(table[:, ~np.isnan(table).any(axis=0)])
