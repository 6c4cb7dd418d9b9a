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
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.control.answer.identified import HIDDEN, Identified
from tcptrace_lab.classify.control.answer.refuted import CLEAR_OF_NOISE
from tcptrace_lab.classify.control.at_losses.at_drops import Drops, followed_alone
from tcptrace_lab.classify.control.at_losses.by_itself import (
    LEAST_NOISE_SHARE,
    hearings,
    nearest,
    nearest_behind_pasts,
    play,
    rank,
    starting_as_seen,
)
from tcptrace_lab.classify.control.at_losses.loss_cycles import Cycles
from tcptrace_lab.classify.control.bbr.by_rate import CYCLE_HALVES, PER_ROUND
from tcptrace_lab.classify.control.candidates.candidates import TOLD_BY_THEIR_START, Candidate, candidates, other_clocks
from tcptrace_lab.classify.control.candidates.likelihood import (
    FITS_SEGMENTS,
    FITS_SHARES,
    MOST_PER_PIECE,
    NOISE_SHARE,
    REFUTED,
    TAIL,
    Replay,
    open_of,
)
from tcptrace_lab.classify.control.heard.heard_at_losses import HeardAtLosses
from tcptrace_lab.classify.control.readings.identify import INITIAL_WINDOW, first_windows
from tcptrace_lab.classify.control.shown.evidence import Misfits
from tcptrace_lab.classify.sender.initial_window import Captured, initial_window
from tcptrace_lab.reconstruct.distinct import distinct
from tcptrace_lab.reconstruct.given import FEWEST_ALIKE, MAJORITY, MINORITY
from tcptrace_lab.reconstruct.losses import DUP_THRESH
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Bools, Ints

# Off by more than is open so many times more often than the best: out. Once it may be a recovery that was disturbed,
# and its echo the next cycle of who goes by delay.
FEWEST_MORE = {False: 2, True: FEWEST_ALIKE}
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


def identify_between_losses(
    seen: Reconstruction, *, handshake_rtt_ns: int | None = None, chosen: Sequence[Candidate] = ()
) -> Identified:
    """The controls that go from loss to loss as the sender did; nobody, where too few losses tell, or none does.

    Where no law passes through what is taken for known between them, other flows' segments may have spaced its own: by
    the losses alone. Where those that a whole window came before are too few, also by those that came sooner: after a
    mild cut the next overflow is of what left within the recovery.
    """
    ask = partial(_identify, seen, chosen, handshake_rtt_ns)
    # Without a handshake the rhythm may be read a spacing off: between losses it tells no flight, and at them the order
    # does.
    found, is_within = ask(at_losses_alone=not seen.timeline.has_start)
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
    # Nor are restarts told by a rhythm that may be read wrong.
    is_tahoe = compared.heard.always_restarts and compared.heard.timeline.has_start
    asked = tuple(chosen) or candidates("tahoe" if is_tahoe else None)
    asked = (*asked, *(other for each in asked for other in other_clocks(each)))
    # What goes by the longest round trip hears that of a slow start that overshoots.
    begins_with = initial_window(seen) or INITIAL_WINDOW
    best = nearest(readings, asked, handshake_rtt_ns, begins_with)
    if not compared.heard.timeline.has_start:
        # Who is off nowhere needs no past; of who goes by delay any shorter round trip may be what it remembers.
        open_ones = [each for each in asked if each.is_by_delay and best[each.name].unfit]
        for name, each in nearest_behind_pasts(readings, open_ones, begins_with, best).items():
            best[name] = min(best[name], each, key=rank)
    families = sorted(best.values(), key=rank)
    if families[0].unfit > max(MINORITY * len(compared.pieces), 1):
        return HIDDEN, is_within
    kinds = compared.kinds
    left = _left(families, kinds)
    left = _begun_as_seen(left, readings[1:], asked, handshake_rtt_ns)
    # Whose past was chosen to fit is not told by what it fits.
    is_chosen = any(each.tape.is_remembered for each in left)
    is_law = is_exact(left[0]) and not is_chosen and _are_telling(compared)
    # Of several left each has to cut by more than shows.
    keeps = is_law and any(_may_keep(each, readings, kinds) for each in left)
    is_told = is_law and not keeps and len(left) == 1
    why = (
        "and who keeps what it has outstanding would have had as much" if keeps else "but nothing grew again and again"
    )
    # What is left of a past to choose from comes to single ACKs by chance.
    is_open = not is_chosen and (len(left) > 1 or not is_law)
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
    return found if is_told or (is_law and not keeps) else found.or_bbr(why), is_within


def _begun_as_seen(
    left: tuple[Replay, ...],
    readings: Sequence[Cycles],
    asked: Sequence[Candidate],
    handshake_rtt_ns: int | None,
) -> tuple[Replay, ...]:
    """The same without who differs from another by its slow start alone (M-Start from Reno), and does not come to what
    was outstanding at the first loss, where the other does, from any first window that it may have been."""
    if not {each.candidate.name for each in left}.issuperset(TOLD_BY_THEIR_START):
        return left
    rivals = [each for each in asked if each.name in TOLD_BY_THEIR_START]
    seen = readings[0].heard.seen
    firsts = first_windows(seen, initial_window(seen, captured=Captured(is_unseen=True)))
    begun = {name for each in firsts for name in starting_as_seen(readings, rivals, handshake_rtt_ns, each)}
    out = set(TOLD_BY_THEIR_START) - begun if begun else set()
    return tuple(each for each in left if each.candidate.name not in out)


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
        for tape, each, later_ns in hearings(reading, asked, handshake_rtt_ns):
            cwnd = play(each, reading, tape, initial_window=begins_with, later_ns=later_ns)
            played[each.name].append((drops, drops.follows(tape, cwnd)))
    return followed_alone(played)


def _may_keep(each: Replay, readings: Sequence[Cycles], kinds: Ints) -> bool:
    """Whether a rate of its own, which keeps what it has outstanding whatever is lost (BBR), is not told from it.

    Losses come as often as BBR probes for bandwidth, and the candidate cuts as little as hardly shows over a queue.
    """
    (reading,) = (one for one in readings if one is each.tape.compared)
    spans = [loss.time_ns - before.time_ns for before, loss in reading.cycles.values()]
    if np.median(spans) > MOST_ROUNDS * reading.heard.seen.typical_rtt_ns:
        return False
    tape, ends = each.tape, reading.pieces.reductions.mark[reading.is_end]
    cwnd = play(each.candidate, reading, tape, initial_window=each.initial_window, later_ns=each.later_ns)
    rows = distinct(tape.row_of_mark[ends])
    left = np.minimum.reduceat(cwnd, rows)[:-1] / cwnd[rows[:-1]]
    if len(left) and _core.median(left) < MILD_SHARE:
        return False
    error = reading.off(reading.begins)
    kept = Misfits(error=error, expected=reading.begins)
    return not _is_refuted(replace(each, misfits=kept, sizes=np.abs(error) / open_of(tape)), each, kinds)


def _left(families: Sequence[Replay], kinds: Ints) -> tuple[Replay, ...]:
    """Who is not refuted; and whom from one of those the slow start alone tells (M-Start from Reno), which comes before
    the first loss, unless it is off clearly more often between losses than that one."""
    is_out = [_is_refuted(each, families[0], kinds) for each in families]
    is_told = [each.candidate.name in TOLD_BY_THEIR_START for each in families]
    rows = list(zip(families, is_out, is_told, strict=True))
    most = min((each.unfit + FEWEST_MORE[False] for each, out, told in rows if told and not out), default=0)
    return tuple(each for each, out, told in rows if not out or (told and each.unfit < most))


def _is_refuted(each: Replay, best: Replay, kinds: Ints) -> bool:
    # Of one cycle all pieces are off where its beginning was read wrong: one disturbance.
    cycles = each.tape.compared.pieces.stretch
    unfit, fewest = (len(distinct(cycles[_is_off(one, kinds)])) for one in (each, best))
    if unfit - fewest >= FEWEST_MORE[each.candidate.is_by_delay]:
        return True
    noise = max(_core.percentile(best.sizes, 100 * NOISE_SHARE), LEAST_NOISE_SHARE)
    # Where the best is off nowhere: once by so much that chance would have brought a disturbed cycle to where the best
    # is once in a hundred times.
    if not best.unfit and bool((math.exp(REFUTED) * (best.sizes + noise) < each.sizes).any()):
        return True
    told = TAIL * (np.log1p((each.sizes / noise) ** 2) - np.log1p((best.sizes / noise) ** 2))
    told = np.bincount(kinds, np.clip(told, -MOST_PER_PIECE, MOST_PER_PIECE)) / np.bincount(kinds)
    is_clear = (each.sizes > best.sizes + CLEAR_OF_NOISE * noise) & (np.abs(each.misfits.error) > EXACT_SEGMENTS)
    return bool(told.sum() > REFUTED and len(distinct(cycles[is_clear])) >= FEWEST_ALIKE)


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
    is_fine = len(share) > 0 and bool(_core.median(share) >= FITS_SEGMENTS)
    return is_fine or len(distinct(compared.kinds)) >= FEWEST_ALIKE
