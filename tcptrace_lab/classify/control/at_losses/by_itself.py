"""Candidates that go from loss to loss by themselves, at the round trips that their own windows make."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from operator import not_

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.control.answer.followed import excused
from tcptrace_lab.classify.control.answer.refuted import CLEAR_OF_NOISE
from tcptrace_lab.classify.control.at_losses.loss_cycles import Cycles, is_told
from tcptrace_lab.classify.control.candidates.candidates import Candidate
from tcptrace_lab.classify.control.candidates.hearing import UNFIT_SHARE
from tcptrace_lab.classify.control.candidates.likelihood import (
    FITS_SEGMENTS,
    FITS_SHARES,
    Replay,
    log_likelihood,
    open_of,
)
from tcptrace_lab.classify.control.readings.remembered import HALVINGS, STEP_SHARE, rising
from tcptrace_lab.classify.control.shown.evidence import Misfits
from tcptrace_lab.classify.control.shown.tape import Tape, Tapes, clock_zero_ns
from tcptrace_lab.reconstruct.given import MINORITY
from tcptrace_lab.reconstruct.timeline import Floats

# A twentieth of what is open, a segment and a little, is nothing: windows are counted in whole segments.
LEAST_NOISE_SHARE = 0.05
# A round trip without a queue may be as short, to one over the queue that a loss met: that held four times the path.
SHORTEST_SHARE = 0.2


def nearest(
    readings: Sequence[Cycles],
    asked: Sequence[Candidate],
    handshake_rtt_ns: int | None,
    begins_with: int,
    *,
    remembers_ns: int | None = None,
) -> dict[str, Replay]:
    """Of each family the nearest; `remembers_ns`: the least round trip from before the capture.

    In the first reading, and there as the table's clocks begin, first: who is far off there is asked about no other.
    """
    best: dict[str, Replay] = {}
    first = {id(each) for each in _on_their_clocks(asked)}
    out = set[str]()
    for reading in readings:
        heard = [*hearings(reading, [each for each in asked if each.name not in out], handshake_rtt_ns, remembers_ns)]
        if reading is readings[0]:
            is_first = [id(each) in first and not later_ns for _, each, later_ns in heard]
            _keep_nearest(best, _replays(reading, [*compress(heard, is_first)], begins_with))
            out = far_off(best)
            others = compress(heard, map(not_, is_first))
            heard = [(tape, each, later_ns) for tape, each, later_ns in others if each.name not in out]
        _keep_nearest(best, _replays(reading, heard, begins_with))
    return best


def nearest_behind_pasts(
    readings: Sequence[Cycles], asked: Sequence[Candidate], begins_with: int, known: Mapping[str, Replay]
) -> dict[str, Replay]:
    """Of each family that goes by delay the nearest behind any least round trip that it may remember: the queue may
    never have run empty in the capture. `known`: the nearest without.

    In steps first, where most is open of what was outstanding and on the table's clocks; where those come near, by
    halves of them: growth may go by its square.
    """
    turn_ns, found = readings[0].turn_ns, dict[str, tuple[Replay, float]]()

    def ask(some: Sequence[Candidate], share: float, upto: int) -> None:
        for name, each in nearest(readings[:upto], some, None, begins_with, remembers_ns=int(share * turn_ns)).items():
            if name not in found or rank(each) < rank(found[name][0]):
                found[name] = each, share

    first, share = _on_their_clocks(asked), 1.0
    while share >= SHORTEST_SHARE:
        ask(first, share, 1)
        share *= STEP_SHARE
    out = far_off({**known, **{name: min(best, known[name], key=rank) for name, (best, _) in found.items()}})
    for halving in range(HALVINGS):
        step = STEP_SHARE ** (0.5 ** (halving + 1))
        for name, (best, share) in list(found.items()):
            own = [each for each in asked if each.name == name and best.unfit and name not in out]
            for beside in (share * step, min(share / step, 1.0)) if own else ():
                ask(own, beside, len(readings))
    return {name: best for name, (best, _) in found.items()}


def _on_their_clocks(asked: Sequence[Candidate]) -> list[Candidate]:
    """Those on the clock that the table has for their family."""
    first = {each.name: each.phases_ms for each in reversed(asked)}
    return [each for each in asked if each.phases_ms == first[each.name]]


def _keep_nearest(best: dict[str, Replay], replays: Iterable[Replay]) -> None:
    for each in replays:
        name = each.candidate.name
        if name not in best or rank(each) < rank(best[name]):
            best[name] = each


def hearings(
    reading: Cycles, asked: Sequence[Candidate], handshake_rtt_ns: int | None, remembers_ns: int | None = None
) -> Iterator[tuple[Tape, Candidate, int]]:
    """Every tape of a reading with everyone who hears it as no other, and by how much later its clock's tick
    may begin."""
    tapes = Tapes(reading, handshake_rtt_ns)
    seen = reading.heard.seen
    read = tapes.read() if remembers_ns is None else tapes.behind(rising(seen, remembers_ns, reading.turn_ns))
    for tape in read:
        for each in asked:
            if each.is_by_delay or not tape.has_handshake:
                yield from ((tape, each, phase_ms * 1_000_000) for phase_ms in each.phases_ms)


def play(candidate: Candidate, reading: Cycles, tape: Tape, *, initial_window: int, later_ns: int) -> Floats:
    """Its window in bytes after each row, up to the last that is judged."""
    sender = candidate.sender(initial_window=initial_window, smss=tape.smss)
    begins_ns, since_ns = _begins(reading)
    # What comes behind the last loss that is judged nobody asks for.
    count = max(tape.reduction_rows, default=-1) + 1
    found: Floats = tape.core.play_by_itself(
        sender, begins_ns=begins_ns, later_ns=later_ns, since_ns=since_ns, count=count
    )
    return found


def _begins(reading: Cycles) -> tuple[int, int | None]:
    """When the first window left, on a control's clock; and of what begins in the middle the time of its first loss:
    what was outstanding is first known there."""
    timeline = reading.heard.timeline
    zero_ns = clock_zero_ns(timeline)
    since_ns = None if timeline.has_start else reading.first_loss_ns - zero_ns
    return int(timeline.send_ns[0]) - zero_ns, since_ns


def _replays(reading: Cycles, asked: Iterable[tuple[Tape, Candidate, int]], initial_window: int) -> Iterator[Replay]:
    """Everyone of one reading, side by side."""
    entries = [*asked]
    if not entries:
        return
    tapes = list({id(tape): tape for tape, _, _ in entries}.values())
    number = {id(tape): place for place, tape in enumerate(tapes)}
    pieces = reading.pieces
    contest = _core.Contest(
        pieces.core,
        [tape.core for tape in tapes],
        [tape.reduction_rows for tape in tapes],
        [
            (number[id(tape)], each.sender(initial_window=initial_window, smss=tape.smss), later_ns)
            for tape, each, later_ns in entries
        ],
        by_themselves=_begins(reading),
    )
    # The last mark that is judged stands before this ACK, if there is one.
    behind = int(reading.heard.mark_acks[pieces.reductions.mark].max(initial=-1)) + 1
    contest.advance(behind if behind < len(reading.heard.timeline.ack_ns) else None)
    for (tape, each, later_ns), (_, _, expected) in zip(entries, contest.judged(), strict=True):
        error = reading.off(expected)
        yield excused(
            Replay(
                candidate=each,
                tape=tape,
                initial_window=initial_window,
                later_ns=later_ns,
                misfits=Misfits(error=error, expected=expected),
                sizes=np.abs(error) / open_of(tape),
            )
        )


def starting_as_seen(
    readings: Sequence[Cycles], asked: Sequence[Candidate], handshake_rtt_ns: int | None, begins_with: int
) -> set[str]:
    """The families of which one comes to what was outstanding at the first loss, if that is known."""
    found = set[str]()
    for reading in readings:
        heard = reading.heard
        loss = next(episode for episode in heard.seen.episodes if episode.is_loss)
        if not heard.timeline.has_start or not is_told(heard, None, loss):
            continue
        observed = heard.window_before(loss) / reading.smss
        near = FITS_SEGMENTS + FITS_SHARES["slow_start"] * observed
        for tape, each, later_ns in hearings(reading, asked, handshake_rtt_ns):
            cwnd = play(each, reading, tape, initial_window=begins_with, later_ns=later_ns)
            expected = float(cwnd[tape.row_of_mark[heard.before_mark[id(loss)]]]) / reading.smss
            if observed - near <= expected <= observed + 1.0 + near:
                found.add(each.name)
    return found


def rank(each: Replay) -> tuple[int, float]:
    return each.unfit, -log_likelihood(each.sizes, LEAST_NOISE_SHARE, math.inf)


def far_off(best: Mapping[str, Replay]) -> set[str]:
    """Who is clearly off at most pieces, where another is off at next to none: more than a tick of a clock, or a
    segment more or less at a loss, would make of it."""
    if not any(each.unfit <= MINORITY * len(each.sizes) for each in best.values()):
        return set()
    return {
        name
        for name, each in best.items()
        if np.count_nonzero(each.sizes > CLEAR_OF_NOISE) > UNFIT_SHARE * len(each.sizes)
    }
