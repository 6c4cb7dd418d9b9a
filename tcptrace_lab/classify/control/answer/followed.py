"""Whether a candidate was followed to the ACK, or alone: what a name is given for.

A law that a sender went by departs from what was sent now and then, where a round trip was disturbed; another is off
time and again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tcptrace_lab.classify.control.candidates.candidates import Candidate
from tcptrace_lab.classify.control.candidates.likelihood import Replay, open_of
from tcptrace_lab.classify.control.shown.compared import Compared
from tcptrace_lab.reconstruct.distinct import distinct
from tcptrace_lab.reconstruct.given import FEWEST_ALIKE, MAJORITY, MINORITY
from tcptrace_lab.reconstruct.timeline import Bools, Floats

# A law that was followed is followed to the ACK. Of its errors (in units of what is open) at most these shares are
# beyond each bound: growth that hangs on a clock or on round trips is read at the tap, not where the control reads it.
# A reduction that is off by half of what is open and more is another's: one of twenty may be disturbed.
CLOSELY: Mapping[bool, Mapping[str, tuple[tuple[float, float], ...]]] = {
    False: {"growth": ((0.02, 0.8), (0.1, 0.3), (0.2, 0.1)), "reduction": ((0.1, 0.1), (0.5, 0.05))},
    True: {"growth": ((0.02, 0.8), (0.1, 0.5), (0.3, 0.2)), "reduction": ((0.1, 0.25), (0.5, 0.05))},
}
# A law that grows as no other does needs less: half of its growth to the ACK, most of it and every cut within what is
# open. It grows so where it alone is within, and where that is a rule (FEWEST_ALIKE).
OWN_GROWTH = ((0.05, 0.5), (1.0, 0.2))
# Where delay moves a window a single round trip read otherwise leads it astray until the next loss. Until then it is
# followed to the ACK; where no other is, over a whole piece and once more, that is its signature.
SIGNED_SHARE = 0.05
FEWEST_SIGNED_PIECES = 2
# Of the reductions, the first included, this share may be beyond what is open, or one beside three that are within: a
# law that was seen to cut otherwise as often as not is another.
ODD_CUTS_SHARE = 0.05
# It is beyond what is open at one place, a cut and what grows around it, or at so many of its pieces.
ODD_PLACES_SHARE = 0.02
# The same of the quarters of a slow start, which burst: half of them.
STARTS_WITHIN = 0.3
# Where the flight itself jumps to and fro, so much more.
PER_BLUR = 2.0


def departs(each: Replay, rivals: Sequence[Replay] = (), *, is_whole: bool = False) -> str | None:
    """How a candidate departs from what was sent more often than a law that was followed; None: it does not.

    `is_whole`: every packet was captured at its time, so that a piece is seldom disturbed.
    """
    if not _starts_closely(each):
        return "but its slow start is another"
    if not is_followed(each):
        return each.against or "but it is off by a little all along: it may be another that is like it"
    if is_whole and not is_its_own(each, rivals):
        return each.against or "but it is off where nothing disturbed it: it may be another that is like it"
    return None


def is_its_own(each: Replay, rivals: Sequence[Replay]) -> bool:
    """Whether it was followed to the ACK throughout, or, where something disturbed it, elsewhere, again and again where
    no rival was: what is off by a little now and then, and does nothing of its own, is another's law as likely.

    What goes by ACKs alone is arithmetic where all of them were captured: only how often a slow start that overshot was
    cut, and what that left in mind, is not told.
    """
    told, later = excused(each), ~each.places_of("slow_start")
    if not each.candidate.is_by_delay and bool((later & (told.sizes > 1.0) & ~_hangs_on_overshoot(each)).any()):
        return False
    closely = SIGNED_SHARE + PER_BLUR * each.tape.compared.blur
    own = later & (each.sizes <= closely)
    for rival in rivals:
        own &= rival.sizes > each.sizes + SIGNED_SHARE
    is_exact = bool((told.sizes <= np.where(later, closely, 1.0)).all())
    return is_exact or int(np.count_nonzero(own)) >= FEWEST_ALIKE


def _hangs_on_overshoot(each: Replay) -> Bools:
    """Which pieces are of the slow start, and of the cycle behind the losses that ended it."""
    compared = each.tape.compared
    stretches, upto = compared.heard.seen.stretches, 1
    while upto + 1 < len(stretches) and (loss := stretches[upto + 1].started_by) is not None and loss.follows:
        upto += 1
    found: Bools = (compared.pieces.stretch <= upto) & compared.pieces.has_start
    return found


def is_followed(each: Replay) -> bool:
    """Whether a candidate departs from what was sent no more often than a law that was followed."""
    bounds, told = CLOSELY[each.candidate.is_by_delay], excused(each)
    return (
        _starts_closely(told)
        and _cuts_by_itself(told)
        and _is_odd_once(told)
        and _stays_within(told, told.sizes_of("growth"), bounds["growth"])
        and _stays_within(told, _cuts(told), bounds["reduction"])
    )


def excused(each: Replay) -> Replay:
    """As if it were off nowhere up to the last of the cycles where it is that hang, by its law, on what came before the
    capture: that no replay knows. As many cycles follow, in most of which it is off nowhere."""
    pieces, remembered = each.tape.compared.pieces, remembered_cycles(each.candidate, each.tape.compared)
    if not remembered:
        return each
    # What fades is off by less and less, and once it has faded by nothing; but who goes by itself (from one loss to the
    # next) goes on from where that has led it.
    closely = SIGNED_SHARE + PER_BLUR * each.tape.compared.blur if each.candidate.fades else 1.0
    goes_on = bool(pieces.places_of["cycle"].any())
    off, later = (distinct(pieces.cycle[each.sizes > most]) for most in (closely, 1.0 if goes_on else closely))
    hanging = off[(off < remembered) & (2 * (off + 1) <= int(pieces.cycle.max()) + 1)]
    if not len(hanging):
        return each
    upto = int(hanging[-1]) + 1
    if np.count_nonzero((later >= upto) & (later < 2 * upto)) >= upto / 2:
        return each
    hangs = pieces.cycle <= hanging[-1]
    if each.candidate.counts_rounds:
        hangs &= (pieces.cycle < each.candidate.remembered_losses) | _is_halved(each)
    return replace(each, sizes=np.where(hangs, 0.0, each.sizes))


def _is_halved(each: Replay) -> Bools:
    """Which pieces are cuts by half: what it does that has counted enough, before the capture too."""
    pieces = each.tape.compared.pieces
    found: Bools = np.abs(pieces.observed - pieces.scale / 2) <= open_of(each.tape)
    return found & pieces.places_of["reduction"]


def remembered_cycles(candidate: Candidate, compared: Compared) -> int:
    """Up to how many of the first cycles a candidate may go by what came before the capture."""
    pieces, remembered = compared.pieces, candidate.remembered_losses
    if pieces.has_start or not remembered:
        return 0
    by_rounds = candidate.remembered_rounds
    if by_rounds:
        rounds = compared.heard.round[pieces.ack]
        remembered = max(int(np.max(pieces.cycle[rounds < rounds[0] + by_rounds], initial=-1)) + 1, remembered)
    return remembered


def grows_alone(each: Replay, rivals: Sequence[Replay]) -> bool:
    """Whether it is followed if not to the ACK, and no other grows like it: nothing near it can be meant."""
    own = each.places_of("growth") & (each.sizes <= 1.0)
    for rival in rivals:
        own &= rival.sizes > 1.0
    if not (_starts_closely(each) and _cuts_by_itself(each) and bool((_cuts(each) <= 1.0).all())):
        return False
    if each.candidate.is_by_delay and _is_led_astray(each, own):
        return True
    # Each stack rounds in its own way: within what is open throughout, and alone so for most of the growth.
    alone = MAJORITY * np.count_nonzero(each.places_of("growth"))
    if not each.unfit and own.sum() >= max(alone, FEWEST_ALIKE):
        return True
    return int(own.sum()) >= FEWEST_ALIKE and _stays_within(each, each.sizes_of("growth"), OWN_GROWTH)


def is_followed_to_the_ack(each: Replay) -> bool:
    """Whether its growth was, but for a few pieces: nothing that only comes near is."""
    growth = each.sizes_of("growth")
    return len(growth) > 0 and bool(np.mean(growth > SIGNED_SHARE) <= MINORITY)


def starts_throughout(each: Replay) -> bool:
    """Whether its slow start was followed to its end: another may have had the same first ACKs."""
    return _starts_closely(each) and bool((each.sizes_of("slow_start") <= 1.0).all())


def is_followed_from_avoidance(each: Replay) -> bool:
    """Whether growth and reductions are its own throughout, and its slow start is off, or what that left is another's:
    HyStart++ (RFC 9406) that goes on as it began after a few rounds (its false alarms) is off by little."""
    starts, hanging = each.places_of("slow_start"), _hangs_on_overshoot(each)
    is_off = bool((each.sizes[starts] > SIGNED_SHARE).any() or (each.sizes[hanging] > 1.0).any())
    later = each.sizes[~(starts | hanging)]
    return is_off and len(each.sizes_of("growth")) > 0 and bool((later <= 1.0).all())


def _is_led_astray(each: Replay, own: Bools) -> bool:
    """Whether it was followed to the ACK from every loss on, again and again where it is `own`, until it was not."""
    growth = np.flatnonzero(each.places_of("growth"))
    _, first = np.unique(each.tape.compared.pieces.stretch[growth], return_index=True)
    closely = each.sizes <= SIGNED_SHARE
    return bool(closely[growth[first]].all()) and bool(np.count_nonzero(closely & own) >= FEWEST_SIGNED_PIECES)


def _starts_closely(each: Replay) -> bool:
    starts = each.sizes_of("slow_start") > STARTS_WITHIN
    return each.starts_as_seen and bool(np.count_nonzero(starts) <= max(len(starts) / 2, 1))


def _cuts_by_itself(each: Replay) -> bool:
    own = each.sizes_of("reduction") <= 1.0
    odd = len(own) - int(own.sum())
    return odd == 0 or (own.sum() >= FEWEST_ALIKE and odd <= max(ODD_CUTS_SHARE * len(own), 1))


def _is_odd_once(each: Replay) -> bool:
    """A disturbance has an echo next to it; another law is another time and again."""
    odd = np.flatnonzero(each.sizes > 1.0)
    places = np.count_nonzero(np.diff(odd) > 2) + min(len(odd), 1)
    return bool(places <= max(ODD_PLACES_SHARE * len(each.sizes), 1))


def _cuts(each: Replay) -> Floats:
    """The reductions but the first: that follows a slow start that overshot, at which some reduce more than once."""
    return each.sizes_of("reduction")[1:]


def _stays_within(each: Replay, sizes: Floats, bounds: Sequence[tuple[float, float]]) -> bool:
    """Whether no more than each share of the errors, or one odd piece, is beyond each bound."""
    slack = PER_BLUR * each.tape.compared.blur
    return all(np.count_nonzero(sizes > bound + slack) <= max(share * len(sizes), 1) for bound, share in bounds)
