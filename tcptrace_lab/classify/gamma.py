"""Compound's gamma: at how many packets in the queue its delay window closes (Tan et al. 2006).

It is a parameter, and no packet tells it: the value that does what was seen is found by replaying. Its bounds are the
nearest that the capture refutes: where the queue never reached it, nothing bounds it from above; where it was never
below, nothing from below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tcptrace_lab.classify.candidates import Candidate, with_gamma
from tcptrace_lab.classify.likelihood import REFUTED, Replay, log_likelihood, noise_of, replays
from tcptrace_lab.classify.tape import Tape
from tcptrace_lab.reconstruct.estimate import Estimate, unknown
from tcptrace_lab.reconstruct.given import WITHIN_SEGMENTS
from tcptrace_lab.reconstruct.timeline import Floats

# From fewer packets than a burst queues to more than most buffers hold. A step between two is less than what the best
# value's neighbours still follow in part; from the best on in halves of it, to within 1 %.
LEAST, STEP, VALUES = 4.0, 1.12, 36
HALVINGS = 4
# A value is refuted by odds against it, or by one piece in which it is off by so much more than the best (in units of
# what is open): what a single round trip read otherwise does is less.
PARTED = 2.0
# Its bounds are looked for by these factors to either side, and then between the last that is not refuted and the
# first that is: of a factor of two to within a twentieth.
BOUNDS = (1.02, 1.05, 1.1, 1.25, 1.5, 2.0, 4.0, 8.0)
BISECTIONS = 4


def replays_of_gammas(asked: Sequence[Candidate], tapes: Sequence[Tape], initial_window: int) -> list[Replay]:
    """The Compounds asked that begin as was seen, with the gamma of each that comes nearest."""
    found: list[Replay] = []
    for window in sorted({each.window for each in asked}):
        variants = [each for each in asked if each.window == window]
        begun = [each for each in replays(variants, tapes, initial_window) if begins_as_seen(each)]
        if begun:
            gamma = _nearest(min(begun, key=_apart_from_growth))
            found += replays([with_gamma(each, gamma) for each in variants], tapes, initial_window)
    return found


def _nearest(like: Replay) -> float:
    """Of the whole range, and then around the best."""
    found = _with([LEAST * STEP**each for each in range(VALUES)], like)
    for halving in range(1, HALVINGS + 1):
        gamma, step = _best(found).candidate.parameters["gamma"], STEP ** (0.5**halving)
        found += _with([gamma / step, gamma * step], like, found)
    return _best(found).candidate.parameters["gamma"]


def _with(gammas: Sequence[float], like: Replay, known: Sequence[Replay] = ()) -> list[Replay]:
    asked = [with_gamma(like.candidate, round(each, 2)) for each in gammas]
    return replays(asked, [like.tape], like.initial_window, known)


def gamma_of(best: Replay) -> Estimate:
    """The value of a sender identified as Compound, and the nearest on either side that the capture refutes."""
    gamma = best.candidate.parameters["gamma"]
    low, high = (_bound(best, [round(gamma * each**sign, 2) for each in BOUNDS]) for sign in (-1, 1))
    low = None if low is None else max(low - WITHIN_SEGMENTS, 0.0)
    high = None if high is None else high + WITHIN_SEGMENTS
    if low is None or high is None:
        return unknown("the queue never came so near to it that its delay window told", low=low, high=high)
    return Estimate(
        value=gamma, low=low, high=high, method="replayed: values beyond the bounds do not send what was seen"
    )


def largest_unseen(compound: Replay) -> Estimate | None:
    """Of a refuted Compound: the gammas with which it would have followed all that was seen; None: not the least.

    Over a queue that never falls to it the delay window stays shut, and Compound sends what Reno sends.
    """
    found = _with([LEAST], compound)
    return gamma_of(found[0]) if found and not found[0].unfit and found[0].starts_as_seen else None


def in_words(gamma: Estimate) -> str:
    """What is known of it: no value of several that would all have sent what was seen."""
    low, high = (None if each is None else f"{each:.3g}" for each in (gamma.low, gamma.high))
    if low is None or high is None:
        return "any gamma" if low == high else f"gamma >= {low}" if high is None else f"gamma <= {high}"
    return f"gamma {low} to {high}"


def _bound(best: Replay, gammas: Sequence[float]) -> float | None:
    """The nearest that is refuted."""
    judged = {each.candidate.parameters["gamma"]: each for each in _with(gammas, best, [best])}
    noise = noise_of([best, *judged.values()])
    kept = best.candidate.parameters["gamma"]
    for gamma in gammas:
        if _is_refuted(judged.get(gamma), best, noise):
            break
        kept = gamma
    else:
        return None
    for _ in range(BISECTIONS):
        between = round(math.sqrt(kept * gamma), 2)
        (other,) = _with([between], best, [best]) or (None,)
        if _is_refuted(other, best, noise):
            gamma = between
        else:
            kept = between
    return gamma


def _is_refuted(other: Replay | None, best: Replay, noise: Floats | float) -> bool:
    # One that is hopeless was not heard to the end.
    return (
        other is None
        or log_likelihood(best.sizes, noise) - log_likelihood(other.sizes, noise) > REFUTED
        or bool((other.sizes > best.sizes + PARTED).any())
    )


def begins_as_seen(each: Replay) -> bool:
    """Whether slow start is its own, and a reduction: the first meets no delay window yet, whatever gamma is."""
    own = each.sizes_of("reduction") <= 1.0
    return each.starts_as_seen and (not len(own) or bool(own.any()))


def _apart_from_growth(each: Replay) -> float:
    return float(each.sizes[~each.places_of("growth")].sum())


def _best(replays: Sequence[Replay]) -> Replay:
    """No bound on what a piece says: of two that are off in the same pieces the one that is less so is nearer."""
    noise = noise_of(replays)
    return max(replays, key=lambda each: log_likelihood(each.sizes, noise, math.inf))
