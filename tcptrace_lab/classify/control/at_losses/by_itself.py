"""Candidates that go from loss to loss by themselves, at the round trips that their own windows make."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from operator import not_
from types import MappingProxyType

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.control.answer.followed import excused, remembered_cycles
from tcptrace_lab.classify.control.answer.refuted import CLEAR_OF_NOISE
from tcptrace_lab.classify.control.at_losses.loss_cycles import Cycles, is_told
from tcptrace_lab.classify.control.candidates.candidates import Candidate
from tcptrace_lab.classify.control.candidates.hearing import UNFIT_SHARE, stages
from tcptrace_lab.classify.control.candidates.likelihood import (
    FITS_SEGMENTS,
    FITS_SHARES,
    Replay,
    log_likelihood,
    log_likelihoods,
    open_of,
)
from tcptrace_lab.classify.control.readings.remembered import HALVINGS, STEP_SHARE, rising
from tcptrace_lab.classify.control.shown.evidence import Misfits
from tcptrace_lab.classify.control.shown.tape import Tape, Tapes, clock_zero_ns
from tcptrace_lab.reconstruct.given import MINORITY
from tcptrace_lab.reconstruct.timeline import Floats

# A tape, who hears it, and by how much later every time is.
Hearing = tuple[Tape, Candidate, int]
# How often a candidate is off, and how far.
Rank = tuple[int, float]
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
    known: Mapping[str, Replay] = MappingProxyType({}),
) -> dict[str, Replay]:
    """Of each family the nearest; `remembers_ns`: the least round trip from before the capture; `known`: a family may
    be left out if that is nearer.

    In the first reading, and there as the table's clocks begin, first: who is far off there is asked about no other.
    """
    best: dict[str, Replay] = {}
    first = {id(each) for each in _on_their_clocks(asked)}
    out = set[str]()
    for reading in readings:
        heard = [*hearings(reading, [each for each in asked if each.name not in out], handshake_rtt_ns, remembers_ns)]
        if reading is readings[0]:
            is_first = [id(each) in first and not later_ns for _, each, later_ns in heard]
            others = [*compress(heard, map(not_, is_first))]
            # Who is far off is told beside the nearest of the other families.
            is_last = not others and len(readings) == 1
            is_alone = len({each.name for each in asked}) == 1
            bounds = known if is_last or is_alone else {}
            _keep_nearest(best, reading, [*compress(heard, is_first)], begins_with, bounds)
            out = far_off(best)
            heard = [(tape, each, later_ns) for tape, each, later_ns in others if each.name not in out]
        _keep_nearest(best, reading, heard, begins_with, known)
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

    def ask(some: Sequence[Candidate], share: float, within: Sequence[Cycles]) -> None:
        nearer = {name: each for name, (each, _) in found.items()}
        remembers_ns = int(share * turn_ns)
        heard = nearest(within, some, None, begins_with, remembers_ns=remembers_ns, known=nearer)
        for name, each in heard.items():
            if name not in found or rank(each) < rank(found[name][0]):
                found[name] = each, share

    first, share = _on_their_clocks(asked), 1.0
    while share >= SHORTEST_SHARE:
        ask(first, share, readings[:1])
        share *= STEP_SHARE
    out = far_off({**known, **{name: min(best, known[name], key=rank) for name, (best, _) in found.items()}})
    for halving in range(HALVINGS):
        step = STEP_SHARE ** (0.5 ** (halving + 1))
        for name, (best, share) in list(found.items()):
            if not best.unfit or name in out:
                continue
            # Once told, which of a family on which clock, and by which reading, changes no more.
            is_told = halving > 0
            own = [best.candidate] if is_told else [each for each in asked if each.name == name]
            within = [reading for reading in readings if not is_told or reading is best.tape.compared]
            for beside in (share * step, min(share / step, 1.0)):
                ask(own, beside, within)
    return {name: best for name, (best, _) in found.items()}


def _on_their_clocks(asked: Sequence[Candidate]) -> list[Candidate]:
    """Those on the clock that the table has for their family."""
    first = {each.name: each.phases_ms for each in reversed(asked)}
    return [each for each in asked if each.phases_ms == first[each.name]]


def _keep_nearest(
    best: dict[str, Replay],
    reading: Cycles,
    asked: Sequence[Hearing],
    initial_window: int,
    known: Mapping[str, Replay],
) -> None:
    """The nearest of each family there as well; of one of which none is known yet one is heard to the end first: the
    others may soon be farther off than that."""
    opening: dict[str, Hearing] = {}
    for hearing in asked:
        if hearing[1].name not in best and hearing[1].name not in known:
            opening.setdefault(hearing[1].name, hearing)
    opens = {id(hearing) for hearing in opening.values()}
    for some in ([*opening.values()], [hearing for hearing in asked if id(hearing) not in opens]):
        bounds = {name: min(rank(each[name]) for each in (best, known) if name in each) for name in {*best, *known}}
        for each in _replays(reading, some, initial_window, bounds):
            name = each.candidate.name
            if name not in best or rank(each) < rank(best[name]):
                best[name] = each


def hearings(
    reading: Cycles, asked: Sequence[Candidate], handshake_rtt_ns: int | None, remembers_ns: int | None = None
) -> Iterator[Hearing]:
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


def _replays(
    reading: Cycles, asked: Sequence[Hearing], initial_window: int, bounds: Mapping[str, Rank]
) -> Iterator[Replay]:
    """Everyone of one reading, side by side; but who is farther off than its family's bound is heard no further."""
    if not asked:
        return
    tapes = list({id(tape): tape for tape, _, _ in asked}.values())
    number = {id(tape): place for place, tape in enumerate(tapes)}
    pieces = reading.pieces
    contest = _core.Contest(
        pieces.core,
        [tape.core for tape in tapes],
        [tape.reduction_rows for tape in tapes],
        [
            (number[id(tape)], each.sender(initial_window=initial_window, smss=tape.smss), later_ns)
            for tape, each, later_ns in asked
        ],
        by_themselves=_begins(reading),
    )
    # Every mark that is judged stands before the ACK behind its own, if there is one.
    behind = np.maximum.accumulate(reading.heard.mark_acks[pieces.reductions.mark]) + 1
    opened = open_of(tapes[0])
    for judged in stages(len(behind), 1) if bounds else ():
        contest.advance(int(behind[judged - 1]))
        contest.keep(_within_bounds(reading, asked, contest, opened, bounds))
    last = int(behind.max(initial=0))
    contest.advance(last if last < len(reading.heard.timeline.ack_ns) else None)
    for place, _, expected in contest.judged():
        tape, each, later_ns = asked[place]
        error = reading.off(expected)
        yield excused(
            Replay(
                candidate=each,
                tape=tape,
                initial_window=initial_window,
                later_ns=later_ns,
                misfits=Misfits(error=error, expected=expected),
                sizes=np.abs(error) / opened,
            )
        )


def _within_bounds(
    reading: Cycles, asked: Sequence[Hearing], contest: _core.Contest, opened: Floats, bounds: Mapping[str, Rank]
) -> list[int]:
    """The numbers of who is no farther off by now than its family's bound, even if what may yet be excused is."""
    heard = contest.judged()
    expected = np.full((len(heard), len(opened)), np.nan)
    for row, (_, _, own) in zip(expected, heard, strict=True):
        row[: len(own)] = own
    # What nobody was judged by yet counts nothing.
    sizes = np.nan_to_num(np.abs(reading.off(expected)) / opened)
    candidates = [asked[number][1] for number, _, _ in heard]
    remembered = {id(each): remembered_cycles(each, reading) for each in candidates}
    for row, each in zip(sizes, candidates, strict=True):
        row[reading.pieces.cycle < remembered[id(each)]] = 0.0
    unfit = np.count_nonzero(sizes > 1.0, axis=1)
    likely = log_likelihoods(sizes, LEAST_NOISE_SHARE, math.inf)
    return [
        number
        for (number, _, _), each, *least in zip(heard, candidates, unfit, likely, strict=True)
        if each.name not in bounds or (least[0], -least[1]) <= bounds[each.name]
    ]


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


def rank(each: Replay) -> Rank:
    """How near it is: how often it is off, and how far."""
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
