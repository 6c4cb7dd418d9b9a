"""Compound's gamma: at how many packets in the queue its delay window closes (Tan et al. 2006).

It is a parameter, and no packet tells it: the value that does what was seen is found by replaying. Its bounds are the
nearest that the capture refutes: where the queue never reached it, nothing bounds it from above; where it was never
below, nothing from below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from tcptrace_lab.classify.control.candidates.candidates import Candidate, with_gamma
from tcptrace_lab.classify.control.candidates.hearing import Hearing, replays, stages
from tcptrace_lab.classify.control.candidates.likelihood import REFUTED, Replay, log_likelihood, noise_of
from tcptrace_lab.classify.control.candidates.values import Values
from tcptrace_lab.classify.control.shown.tape import Tape
from tcptrace_lab.reconstruct.estimate import Estimate, unknown
from tcptrace_lab.reconstruct.given import WITHIN_SEGMENTS
from tcptrace_lab.reconstruct.timeline import Floats

# From fewer packets than a burst queues to more than most buffers hold. Senders have whole numbers: each of them, as
# long as the next is further off than what a value's neighbours still follow; from the best on, where that is off, in
# halves of it, to within 1 %: what the tap hears of a queue is not quite what the sender did.
LEAST, MOST, STEP = 4, 230, 1.06
HALVINGS = 4
# They are told apart by the first pieces that hang on it: the true one's are all but nothing. So many are heard to the
# end: a dozen steps are a factor of two, more than the first pieces leave open.
FEWEST_SCREENED = 6
NEAREST = 12
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
    for reading in dict.fromkeys(map(_reading, asked)):
        variants = [each for each in asked if _reading(each) == reading]
        begun = [each for each in replays(variants, tapes, initial_window) if begins_as_seen(each)]
        nearest = _nearest(_heard_otherwise(begun))
        if nearest is not None:
            gamma = nearest.candidate.parameters["gamma"]
            found += replays([with_gamma(each, gamma) for each in variants], tapes, initial_window)
    return found


def _reading(each: Candidate) -> tuple[str, float]:
    """Which law it is, however its slow start counts."""
    return each.window, each.parameters.get("dwnd_by_cwnd", 0.0)


def _heard_otherwise(begun: Sequence[Replay]) -> list[Replay]:
    """Of those that begin as was seen the nearest, and of the other tapes that tell of other round trips theirs."""
    found: dict[bool, Replay] = {}
    for each in sorted(begun, key=_apart_from_growth):
        found.setdefault(each.tape.opens, each)
    return list(found.values())


def _nearest(like: Sequence[Replay]) -> Replay | None:
    """Of the whole range, and then around the best."""
    steps = range(math.ceil(math.log(MOST / LEAST, STEP)))
    every = sorted({round(LEAST * STEP**each) for each in steps})
    heard: dict[int, Values[Replay]] = {}
    found: list[Replay] = []
    for one in like:
        left, replayed = _screened(every, one)
        heard[id(one.tape)] = _heard(one, replayed)
        found += _with(left, one, heard[id(one.tape)])
    if not found:
        return None
    for halving in range(HALVINGS if nearest_of(found).unfit else 0):
        best, step = nearest_of(found), STEP ** (0.5**halving)
        gamma = best.candidate.parameters["gamma"]
        found += _with([gamma / step, gamma * step], best, heard[id(best.tape)])
    return nearest_of(found)


def _screened(gammas: Sequence[float], like: Replay) -> tuple[list[float], list[Replay]]:
    """The nearest by what the first pieces tell, with as many as tie with the last of them; and some replayed."""
    hearings: list[Hearing] = []

    def ask(asked: Sequence[float]) -> dict[float, Floats]:
        variants = [with_gamma(like.candidate, each) for each in asked]
        hearings.append(Hearing(variants, [like.tape], like.initial_window))
        return _first_errors(hearings[-1], judged)

    left = list(gammas)
    for judged in stages(len(like.sizes), FEWEST_SCREENED):
        known = {gamma: error for each in hearings for gamma, error in _first_errors(each, judged).items()}
        told = Values(ask, partial(np.array_equal, equal_nan=True), known).answers(left)
        apart = np.array([np.nansum(np.log1p(np.abs(told[each]))) for each in left])
        is_near = apart <= np.sort(apart)[:NEAREST][-1]
        left = [left[place] for place in np.flatnonzero(is_near).tolist()]
        for each in hearings:
            each.keep([gamma in left for gamma in _first_errors(each, judged)])
        if len(left) <= NEAREST:
            break
    return left, [replay for each in hearings for replay in each.replays()]


def _first_errors(hearing: Hearing, judged: int) -> dict[float, Floats]:
    return {candidate.parameters["gamma"]: error for candidate, error in hearing.errors(judged)}


def _heard(like: Replay, known: Sequence[Replay] = ()) -> Values[Replay]:
    """The same Compound with other gammas, as far as it has been replayed."""

    def ask(gammas: Sequence[float]) -> dict[float, Replay]:
        asked = [with_gamma(like.candidate, each) for each in gammas]
        before = [each for each in heard.known.values() if each is not None]
        found = replays(asked, [like.tape], like.initial_window, before)
        return {each.candidate.parameters["gamma"]: each for each in found}

    heard = Values(ask, _does_the_same, {each.candidate.parameters["gamma"]: each for each in known})
    return heard


def _does_the_same(one: Replay, other: Replay) -> bool:
    return np.array_equal(one.misfits.error, other.misfits.error) and np.array_equal(
        one.misfits.expected, other.misfits.expected
    )


def _with(gammas: Sequence[float], like: Replay, heard: Values[Replay]) -> list[Replay]:
    told = heard.answers([round(float(each), 2) for each in gammas])
    return [replace(each, candidate=with_gamma(like.candidate, gamma)) for gamma, each in told.items()]


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


def of_a_shut_window(best: Replay, out: Sequence[Replay]) -> str | None:
    """What a Reno's name leaves open: a Compound of other gammas than the document's.

    Named is the law that was followed. A parameter with which another does nothing of its own makes it that law; no
    packet could tell the two apart, nor would any differ.
    """
    compound = next((each for each in out if "gamma" in each.candidate.parameters), None)
    gamma = largest_unseen(compound) if best.candidate.name == "reno" and compound is not None else None
    return None if gamma is None else in_words(gamma)


def largest_unseen(compound: Replay) -> Estimate | None:
    """Of a refuted Compound: the gammas with which it would have followed all that was seen; None: not the least.

    Over a queue that never falls to it the delay window stays shut, and Compound sends what Reno sends.
    """
    found = _with([LEAST], compound, _heard(compound))
    return gamma_of(found[0]) if found and not found[0].unfit and found[0].starts_as_seen else None


def in_words(gamma: Estimate) -> str:
    """What is known of it: no value of several that would all have sent what was seen."""
    low, high = (None if each is None else f"{each:.3g}" for each in (gamma.low, gamma.high))
    if low is None or high is None:
        return "any gamma" if low == high else f"gamma >= {low}" if high is None else f"gamma <= {high}"
    return f"gamma {low} to {high}"


def _bound(best: Replay, gammas: Sequence[float]) -> float | None:
    """The nearest that is refuted."""
    heard = _heard(best, [best])
    judged = {each.candidate.parameters["gamma"]: each for each in _with(gammas, best, heard)}
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
        (other,) = _with([between], best, heard) or (None,)
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


def nearest_of(replays: Sequence[Replay]) -> Replay:
    """No bound on what a piece says: of two that are off in the same pieces the one that is less so is nearer."""
    noise = noise_of(replays)
    return max(replays, key=lambda each: log_likelihood(each.sizes, noise, math.inf))
