"""By what a candidate is refuted beside the best: where it is off and the best is not, and what is no evidence."""

from __future__ import annotations

import math

import numpy as np

from tcptrace_lab.classify.control.candidates.candidates import GAMMA
from tcptrace_lab.classify.control.candidates.likelihood import FITS_SEGMENTS, FITS_SHARES, REFUTED, Replay
from tcptrace_lab.reconstruct.given import FEWEST_ALIKE, MINORITY
from tcptrace_lab.reconstruct.timeline import Floats

# Refuted is who the best is far likelier than, if it is clearly off where the best is not. More than once, where the
# best itself is off anywhere: then a single disturbed cycle refutes nobody.
CLEAR_OF_NOISE = 3.0
FEWEST_CLEAR = 2
# A disturbed piece that would hardly have fallen so near the best says more than Laplace's rule, which takes that for
# MINORITY; but not against a law that goes by delay: a round trip that was read otherwise disturbs that law itself.
NO_CHANCE = REFUTED + math.log(MINORITY)


def sends_the_same(each: Replay, best: Replay) -> bool:
    """A Compound whose delay window stays shut sends what Reno sends: only how each rounds tells them apart. So does
    one that opens it by no more than is open, where its gamma was fitted, or in a few places, as a disturbed one is."""
    if each.candidate.name != "reno" or each.unfit > best.unfit or best.candidate.name != "compound":
        return False
    is_fitted = best.candidate.parameters.get("gamma", GAMMA) != GAMMA
    is_seldom = bool(np.mean(best.dwnd > 0) <= MINORITY)
    return stays_shut(best, within=FITS_SEGMENTS if is_fitted or is_seldom else 0.0)


def stays_shut(each: Replay, *, within: float = 0.0) -> bool:
    """Whether it is a Compound whose delay window never opened, or by so many segments: it has shown no own law."""
    return each.candidate.name == "compound" and not (each.dwnd > within).any()


def is_clearly_off(
    each: Replay, best: Replay, noise: Floats, fewest: int, *, odd: float, is_holed: bool = False
) -> bool:
    """Whether it is off where the best is not, in so many pieces; within what is open, in more than an `odd` share.

    What a recovery leaves of a few segments is seen to a segment: of hundreds some are read one off, whoever sent them,
    if the best is off somewhere itself. Where it is nowhere, chance would have to disturb the pieces that tell the two
    apart, and no other; but a past that was chosen to fit may be ahead in a few. Where packets are missing
    (`is_holed`), what disturbed the best has its echo, whoever sent, up to the next loss.
    """
    is_clear = each.sizes > best.sizes + CLEAR_OF_NOISE * noise
    if is_holed:
        stretch = best.tape.compared.pieces.stretch
        is_clear &= ~np.isin(stretch, stretch[best.sizes > 1.0])
    beyond, clear = np.count_nonzero(is_clear & (each.sizes > 1.0)), np.count_nonzero(is_clear)
    return bool(beyond >= fewest or clear >= max(fewest, odd * len(is_clear)))


def is_no_chance(each: Replay, best: Replay, noise: Floats) -> bool:
    """Whether at one piece it is off by so much that, disturbed, it would have fallen where the best is once in a
    hundred times: where the best is off nowhere, and packets are missing."""
    return bool(((best.sizes + noise) * math.exp(REFUTED) < each.sizes).any())


def sends_less(best: Replay) -> bool:
    """Whether the nearest is off where less was sent than it allows, and elsewhere no more than by chance.

    Something else than a window may hold a sender back, and what that is need not show (an application that writes as
    fast as most of it drains): that it sent more than allowed, or cut otherwise, is what speaks for another rule.
    """
    off = best.sizes > 1.0
    less = off & best.places_of("growth") & (best.tape.compared.pieces.observed < best.misfits.expected)
    return int(np.count_nonzero(off & ~less)) < FEWEST_ALIKE


def is_partly_followed(best: Replay) -> bool:
    """Whether the nearest may yet be the one: every cut is its own, and growth that no other family has.

    A delay window that opens and closes hangs on single round trips: where one is read otherwise, or a parameter is
    not the table's, what comes behind it is off, though the law is that one.
    """
    followed = {part: best.sizes_of(part) <= 1.0 for part in FITS_SHARES}
    return (
        best.candidate.is_by_delay
        and best.starts_as_seen
        and bool(followed["reduction"].all())
        and min(int(followed["growth"].sum()), len(followed["reduction"])) >= FEWEST_CLEAR
    )
