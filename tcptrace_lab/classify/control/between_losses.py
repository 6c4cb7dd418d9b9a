"""Which control it was where the window shows at its losses, and hardly between: from each loss to the next, by itself.

Away from the sender, behind a queue that never runs empty and without timestamps, segments arrive as the bottleneck
sends them, whatever window let them leave. What was outstanding at a loss is known all the same: the order of what was
sent tells it, and which ACK asked for the retransmission. A candidate begins with that, cuts by its own law, grows with
the ACKs seen, at the round trips that its own window makes (core/src/infer/candidates/own_times.rs), and must have at
the next loss what was outstanding then, and between the two wherever the queue ran empty what was then.

A law that was followed comes to the segment, cycle after cycle. Another may come near in one cycle, and then again in
every one that is like it: such a cycle over and over is one piece of evidence, however often it is seen. Where several
are left, the ACKs that released what a full queue dropped may tell them apart (at_drops.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise

import numpy as np

from tcptrace_lab.classify.control.at_drops import Drops, followed_alone
from tcptrace_lab.classify.control.by_rate import CYCLE_HALVES, PER_ROUND
from tcptrace_lab.classify.control.candidates import Candidate, candidates, other_clocks
from tcptrace_lab.classify.control.compared import Compared, Piece
from tcptrace_lab.classify.control.epoch import Epoch
from tcptrace_lab.classify.control.evidence import Misfits
from tcptrace_lab.classify.control.heard_at_losses import HeardAtLosses
from tcptrace_lab.classify.control.identified import HIDDEN, Identified
from tcptrace_lab.classify.control.identify import INITIAL_WINDOW
from tcptrace_lab.classify.control.likelihood import (
    FITS_SEGMENTS,
    FITS_SHARES,
    MOST_PER_PIECE,
    NOISE_SHARE,
    REFUTED,
    TAIL,
    Replay,
    log_likelihood,
    open_of,
)
from tcptrace_lab.classify.control.refuted import CLEAR_OF_NOISE
from tcptrace_lab.classify.control.tape import Tape, Tapes, clock_zero_ns
from tcptrace_lab.classify.sender.by_losses import is_untold_behind
from tcptrace_lab.classify.sender.initial_window import initial_window
from tcptrace_lab.reconstruct.given import FEWEST_ALIKE, MAJORITY, MINORITY
from tcptrace_lab.reconstruct.losses import DUP_THRESH, Episode
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Bools, Floats, Ints

# Off by more than is open so many times more often than the best: out. Once it may be a recovery that was disturbed,
# and its echo the next cycle of who goes by delay.
FEWEST_MORE = {False: 2, True: FEWEST_ALIKE}
# A twentieth of what is open, a segment and a little, is nothing: windows are counted in whole segments.
LEAST_NOISE_SHARE = 0.05
# Limited transmit (RFC 3042; RFC 6675's pipe does the same) sends a segment for each of the first duplicate ACKs beyond
# the window, or a stack does not: most often the same number at every loss. None: any.
TRANSMITTED = (None, *range(DUP_THRESH))
# A law that was followed comes nearer than by half of what is open.
EXACT_SHARE = 0.5
# Another is off by more than what windows, counted in whole segments by the sender and at the tap, are read off by.
EXACT_SEGMENTS = 1.0
# BBR's cycle has eight round trips, and up to four more while a probe lasts. It sends a quarter more: where that
# overflows a queue, a cut that leaves no more than the rest lets the queue run empty.
MOST_ROUNDS = CYCLE_HALVES[1] / PER_ROUND
MILD_SHARE = 1 / 1.25
# Cycles of so many kinds are told apart; each one beyond them is one of its own.
MOST_KINDS = 64


class Cycles(Compared):
    """From loss to loss: what stands for each cycle is the window at its end, and where else it is known."""

    heard: HeardAtLosses

    def __init__(self, heard: HeardAtLosses, *, at_losses_alone: bool = False) -> None:
        super().__init__(heard)
        seen = heard.seen
        events = [episode for episode in seen.episodes if episode.is_loss]
        told = [_is_told(self.heard, before, loss) for before, loss in zip([None, *events], events, strict=False)]
        # Of losses at which what was outstanding is known to the segment, and was the window.
        self.cycles = {
            number: (before, loss)
            for number, (before, loss) in enumerate(pairwise(events))
            if told[number] and told[number + 1] and not loss.follows
        }
        known = {number: self.heard.within(*ends) for number, ends in self.cycles.items()}
        self.stands = self._stands(known)
        self._within = {number: [] for number in known} if at_losses_alone else known

    def _stands(self, known: Mapping[int, Sequence[tuple[int, int]]]) -> bool:
        """Whether from the middle of most cycles to their ends no more is outstanding, as far as that is known.

        A window that loses nothing grows; what an application or a receiver lets be sent does not. One that delay holds
        does not either, and is not told from those.
        """
        heard, grown = self.heard, list[float]()
        for number, (_, loss) in self.cycles.items():
            flights = [float(heard.flight[ack]) for ack, _ in known[number]]
            if len(flights) > 1:
                grown.append(max(flights[-1], heard.window_before(loss)) - flights[len(flights) // 2])
        return bool(grown) and bool(np.median(grown) < self.smss)

    @property
    def epochs(self) -> tuple[Epoch, ...]:
        """No ACK between two losses shows growth all along."""
        return ()

    def evidence(self) -> Iterator[Piece]:
        """Of each cycle, in order of time."""
        heard, timeline = self.heard, self.heard.timeline
        for number, (_, loss) in self.cycles.items():
            known = [(ack, mark, float(heard.flight[ack])) for ack, mark in self._within[number]]
            asked = int(timeline.acks_before_send[loss.first_send]) - 1
            for ack, mark, flight in (*known, (asked, heard.before_mark[id(loss)], heard.window_before(loss))):
                observed = flight / self.smss
                yield Piece(part="cycle", ack=ack, stretch=number, mark=mark, observed=observed, scale=observed)

    @cached_property
    def is_end(self) -> Bools:
        """Which of the pieces is the last of its cycle: at its loss."""
        return np.append(np.diff(self.pieces.stretch) > 0, True)

    @cached_property
    def begins(self) -> Floats:
        """The window at the loss that each piece's cycle begins with, in segments."""
        at_loss = {number: self.heard.window_before(before) for number, (before, _) in self.cycles.items()}
        return np.array([at_loss[number] for number in self.pieces.stretch.tolist()]) / self.smss

    def off(self, expected: Floats) -> Floats:
        """By how much windows, one a piece, are off; of the window whole segments are seen."""
        most = self.pieces.observed + self.is_end * (self.heard.open / self.smss) + 1.0
        found: Floats = expected - np.clip(expected, self.pieces.observed, most)
        return found

    @cached_property
    def kinds(self) -> Ints:
        """Which pieces are alike: at the same place of cycles that begin alike, and with as much."""
        pieces, begin = self.pieces, self.begins
        # How many of the cycle are still to come.
        last = np.flatnonzero(self.is_end)
        place = last[np.searchsorted(last, np.arange(len(pieces)))] - np.arange(len(pieces))
        near = FITS_SEGMENTS + FITS_SHARES["cycle"] * pieces.scale + pieces.slack
        found = np.full(len(pieces), -1, dtype=np.int64)
        for kind in range(MOST_KINDS):
            rest = np.flatnonzero(found < 0)
            if not len(rest):
                return found
            first = rest[0]
            is_like = np.abs(begin[rest] - begin[first]) <= near[first]
            is_like &= np.abs(pieces.observed[rest] - pieces.observed[first]) <= near[first]
            found[rest[is_like & (place[rest] == place[first])]] = kind
        rest = np.flatnonzero(found < 0)
        found[rest] = MOST_KINDS + np.arange(len(rest))
        return found


def _is_told(heard: HeardAtLosses, before: Episode | None, loss: Episode) -> bool:
    """Whether what was outstanding at a loss is known to the segment, and was the window: the ACK that asked for its
    first retransmission is the one that tells of three segments above the hole; what was lost left after the recovery
    before was over, so that a whole window has, or, if early, nothing had told of it then."""
    timeline = heard.timeline
    asked = int(timeline.acks_before_send[loss.first_send]) - 1
    # ACKs of other numbers than the data's leave less than nothing outstanding.
    # Nor is it known what a timer's window was.
    is_by_timer = loss.restarts and loss.detected_by == "rto"
    if asked < 1 or loss.flight <= 0 or is_by_timer or id(loss) in heard.unsettled:
        return False
    if timeline.slack[asked - 1] >= timeline.smss:
        return False
    if before is not None and not (
        is_untold_behind(timeline, np.array([before.recover]))[0]
        if heard.is_early
        else loss.una - before.recover >= loss.flight
    ):
        return False
    above = timeline.delivered[asked - 1 : asked + 1] - timeline.snd_una[asked - 1 : asked + 1]
    is_third = above[1] >= DUP_THRESH * timeline.smss > above[0]
    return bool(is_third) and not _is_held(heard, before, asked)


def _is_held(heard: HeardAtLosses, before: Episode | None, asked: int) -> bool:
    """Whether since the loss before the receiver's window had no room for another segment: what is outstanding at a
    loss is a window that did not grow meanwhile (RFC 5681 section 3.1, RFC 7661)."""
    timeline = heard.timeline
    since = 0 if before is None else int(np.searchsorted(timeline.snd_una, before.recover, side="left"))
    span = slice(min(since, asked), asked + 1)
    # The least that was, where it is not known which ACK released what.
    least = heard.flight[span] - timeline.slack[span]
    return bool((least + timeline.smss > timeline.rwnd[span]).any())


def identify_between_losses(
    seen: Reconstruction, *, handshake_rtt_ns: int | None = None, chosen: Sequence[Candidate] = ()
) -> Identified:
    """The controls that go from loss to loss as the sender did; nobody, where too few losses tell, or none does.

    Where no law passes through what is taken for known between them, other flows' segments may have spaced its own: by
    the losses alone. Where those that a whole window came before are too few, also by those that came sooner: after a
    mild cut the next overflow is of what left within the recovery.
    """
    ask = partial(_identify, seen, chosen, handshake_rtt_ns)
    found, is_within = ask(at_losses_alone=False)
    if found is HIDDEN and is_within:
        found, _ = ask(at_losses_alone=True)
    if found is HIDDEN:
        return ask(at_losses_alone=True, is_early=True)[0]
    if found.control is None and len(found.left[0].sizes) < FEWEST_ALIKE:
        sooner, _ = ask(at_losses_alone=True, is_early=True)
        # Nobody comes back whom the others have refuted.
        return sooner if sooner.control in {each.candidate.name for each in found.left} else found
    return found


def _identify(
    seen: Reconstruction,
    chosen: Sequence[Candidate],
    handshake_rtt_ns: int | None,
    *,
    at_losses_alone: bool,
    is_early: bool = False,
) -> tuple[Identified, bool]:
    """Who is left, and whether more than losses told it."""
    readings: list[Cycles] = []
    for transmitted in TRANSMITTED:
        columns = readings[0].heard.columns if readings else None
        heard = HeardAtLosses(seen, transmitted, columns, handshake_rtt_ns=handshake_rtt_ns, is_early=is_early)
        readings.append(Cycles(heard, at_losses_alone=at_losses_alone))
    # Whole windows, as all that was outstanding.
    compared = readings[1]
    is_within = not compared.is_end.all()
    if len(compared.pieces) < FEWEST_MORE[False] or readings[0].stands:
        return HIDDEN, is_within
    asked = tuple(chosen) or candidates("tahoe" if compared.heard.always_restarts else None)
    asked = (*asked, *(other for each in asked for other in other_clocks(each)))
    # What goes by the longest round trip hears that of a slow start that overshoots.
    begins_with = initial_window(seen) or INITIAL_WINDOW
    best: dict[str, Replay] = {}
    for reading in readings:
        for tape, each, phase_ms in _hearings(reading, asked, handshake_rtt_ns):
            played = _replay(each, reading, tape, initial_window=begins_with, later_ns=phase_ms * 1_000_000)
            if each.name not in best or _rank(played) < _rank(best[each.name]):
                best[each.name] = played
    families = sorted(best.values(), key=_rank)
    if families[0].unfit > max(MINORITY * len(compared.pieces), 1):
        return HIDDEN, is_within
    kinds = compared.kinds
    left = tuple(each for each in families if not _is_refuted(each, families[0], kinds))
    is_told = len(left) == 1 and is_exact(left[0]) and _are_telling(compared)
    keeps = is_told and _may_keep(left[0], readings, kinds)
    is_told &= not keeps
    why = (
        "and who keeps what it has outstanding would have had as much" if keeps else "but nothing grew again and again"
    )
    is_open = not (is_told or keeps)
    by_drops = _by_drops(readings[1:], asked, left, handshake_rtt_ns, begins_with) if is_open else None
    if by_drops is not None:
        left, is_told = tuple(each for each in left if each.candidate.name == by_drops), True
    out = tuple(each for each in families if each not in left)
    names = ", ".join(each.candidate.name for each in left)
    where = f"{np.count_nonzero(compared.is_end)} losses " + ("and between them" if is_within else "alone")
    where += ", and at which ACKs what was lost had left" if by_drops is not None else ""
    found = Identified(
        control=left[0].candidate.name if is_told else None,
        confidence=1.0 / len(left),
        left=left,
        refuted=out,
        reasons=(f"by what was outstanding at {where}: {names} would have had it",),
        shares=(1.0 / len(left),) * len(left),
    )
    return found if is_told else found.or_bbr(why), is_within


def _by_drops(
    readings: Sequence[Cycles],
    asked: Sequence[Candidate],
    left: Sequence[Replay],
    handshake_rtt_ns: int | None,
    begins_with: int,
) -> str | None:
    """Who of those left was followed to the ACKs that released what was dropped, and no other."""
    played: dict[str, list[tuple[Drops, Bools]]] = {each.candidate.name: [] for each in left}
    asked = [each for each in asked if each.name in played]
    for reading in readings:
        heard, cycles = reading.heard, [*reading.cycles.values()]
        drops = Drops.of(heard.seen, cycles, heard.before_mark, heard.transmitted // heard.timeline.smss)
        if not drops.can_tell:
            continue
        for tape, each, phase_ms in _hearings(reading, asked, handshake_rtt_ns):
            cwnd = _play(each, reading, tape, initial_window=begins_with, later_ns=phase_ms * 1_000_000)
            played[each.name].append((drops, drops.follows(tape, cwnd)))
    return followed_alone(played)


def _hearings(
    reading: Cycles, asked: Sequence[Candidate], handshake_rtt_ns: int | None
) -> Iterator[tuple[Tape, Candidate, int]]:
    """Every tape of a reading with everyone who hears it as no other, and where its clock's tick may begin."""
    for tape in Tapes(reading, handshake_rtt_ns).read():
        for each in asked:
            if each.is_by_delay or not tape.has_handshake:
                yield from ((tape, each, phase_ms) for phase_ms in each.phases_ms)


def _play(candidate: Candidate, reading: Cycles, tape: Tape, *, initial_window: int, later_ns: int) -> Floats:
    timeline = reading.heard.timeline
    sender = candidate.sender(initial_window=initial_window, smss=tape.smss)
    begins_ns = int(timeline.send_ns[0]) - clock_zero_ns(timeline)
    found: Floats = tape.core.play_by_itself(sender, begins_ns=begins_ns, later_ns=later_ns)
    return found


def _replay(candidate: Candidate, reading: Cycles, tape: Tape, *, initial_window: int, later_ns: int) -> Replay:
    cwnd = _play(candidate, reading, tape, initial_window=initial_window, later_ns=later_ns)
    expected: Floats = cwnd[tape.row_of_mark[reading.pieces.reductions.mark]] / tape.smss
    error = reading.off(expected)
    return Replay(
        candidate=candidate,
        tape=tape,
        initial_window=initial_window,
        later_ns=later_ns,
        misfits=Misfits(error=error, expected=expected),
        sizes=np.abs(error) / open_of(tape),
    )


def _may_keep(each: Replay, readings: Sequence[Cycles], kinds: Ints) -> bool:
    """Whether a rate of its own, which keeps what it has outstanding whatever is lost (BBR), is not told from it.

    Losses come as often as BBR probes for bandwidth, and the candidate cuts as little as hardly shows over a queue.
    """
    (reading,) = (one for one in readings if one is each.tape.compared)
    spans = [loss.time_ns - before.time_ns for before, loss in reading.cycles.values()]
    if np.median(spans) > MOST_ROUNDS * reading.heard.seen.typical_rtt_ns:
        return False
    tape, ends = each.tape, reading.pieces.reductions.mark[reading.is_end]
    cwnd = _play(each.candidate, reading, tape, initial_window=each.initial_window, later_ns=each.later_ns)
    rows = np.unique(tape.row_of_mark[ends])
    left = np.minimum.reduceat(cwnd, rows)[:-1] / cwnd[rows[:-1]]
    if len(left) and np.median(left) < MILD_SHARE:
        return False
    error = reading.off(reading.begins)
    kept = Misfits(error=error, expected=reading.begins)
    return not _is_refuted(replace(each, misfits=kept, sizes=np.abs(error) / open_of(tape)), each, kinds)


def _rank(each: Replay) -> tuple[int, float]:
    return each.unfit, -log_likelihood(each.sizes, LEAST_NOISE_SHARE, math.inf)


def _is_refuted(each: Replay, best: Replay, kinds: Ints) -> bool:
    # Of one cycle all pieces are off where its beginning was read wrong: one disturbance.
    cycles = each.tape.compared.pieces.stretch
    unfit, fewest = (len(np.unique(cycles[_is_off(one, kinds)])) for one in (each, best))
    if unfit - fewest >= FEWEST_MORE[each.candidate.is_by_delay]:
        return True
    noise = max(float(np.quantile(best.sizes, NOISE_SHARE)), LEAST_NOISE_SHARE)
    # Where the best is off nowhere: once by so much that chance would have brought a disturbed cycle to where the best
    # is once in a hundred times.
    if not best.unfit and bool((math.exp(REFUTED) * (best.sizes + noise) < each.sizes).any()):
        return True
    told = TAIL * (np.log1p((each.sizes / noise) ** 2) - np.log1p((best.sizes / noise) ** 2))
    told = np.bincount(kinds, np.clip(told, -MOST_PER_PIECE, MOST_PER_PIECE)) / np.bincount(kinds)
    is_clear = (each.sizes > best.sizes + CLEAR_OF_NOISE * noise) & (np.abs(each.misfits.error) > EXACT_SEGMENTS)
    return bool(told.sum() > REFUTED and len(np.unique(cycles[is_clear])) >= FEWEST_ALIKE)


def _is_off(each: Replay, kinds: Ints) -> Bools:
    """Where it was; a law that goes by delay and comes to no fewer of the pieces alike than it misses goes as they do:
    what it missed it heard otherwise, by a queue of a segment more or less."""
    found: Bools = each.sizes > 1.0
    if each.candidate.is_by_delay:
        found &= (np.bincount(kinds, found) > MAJORITY * np.bincount(kinds))[kinds]
    return found


def is_exact(each: Replay) -> bool:
    """Whether it came to the segment, cycle after cycle."""
    odd = np.count_nonzero(each.sizes > EXACT_SHARE)
    return len(each.sizes) >= FEWEST_ALIKE and bool(odd <= round(MINORITY * len(each.sizes)))


def _are_telling(compared: Cycles) -> bool:
    """Whether what it came to is of several kinds, and no one cycle over and over, which another law comes by chance to
    the same end of: but for one so long that its end is read finer than laws are told apart by."""
    share = FITS_SHARES["cycle"] * compared.pieces.observed[compared.is_end]
    is_fine = bool(np.median(share) >= FITS_SEGMENTS)
    return is_fine or len(np.unique(compared.kinds)) >= FEWEST_ALIKE
