"""What replays leave of the candidates, and the name if there is one.

The answer is a set. A candidate leaves it when what it would have done lies outside of what was sent by more than the
capture's own noise, again and again; the noise is that of the candidate that fits best. A name is given to the only one
left, and only where it does all that was seen: being better than the others is not enough. Where even the best does not
follow what was sent, it is "unknown".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tcptrace_lab.classify.control.answer.followed import (
    ODD_CUTS_SHARE,
    ODD_PLACES_SHARE,
    departs,
    grows_alone,
    is_followed,
)
from tcptrace_lab.classify.control.answer.identified import NOT_TOLD, UNKNOWN, Identified, all_left, not_captured
from tcptrace_lab.classify.control.answer.refuted import (
    CLEAR_OF_NOISE,
    FEWEST_CLEAR,
    NO_CHANCE,
    is_clearly_off,
    is_no_chance,
    is_partly_followed,
    sends_less,
    sends_the_same,
    stays_shut,
)
from tcptrace_lab.classify.control.answer.traits import traits
from tcptrace_lab.classify.control.bbr.by_rate import ByRate
from tcptrace_lab.classify.control.candidates.candidates import with_gamma_told
from tcptrace_lab.classify.control.candidates.gamma import gamma_of, in_words, of_a_shut_window
from tcptrace_lab.classify.control.candidates.likelihood import (
    REFUTED,
    Replay,
    log_likelihoods,
    most_per_piece,
    noise_of,
    table_of,
)
from tcptrace_lab.classify.sender.shares import held_by_application
from tcptrace_lab.reconstruct.estimate import Estimate
from tcptrace_lab.reconstruct.given import FEWEST_ALIKE, MAJORITY, MINORITY
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Floats


@dataclass(frozen=True, kw_only=True)
class Doubts:
    """What a tap leaves open of what is replayed.

    `is_holed`: packets, or times, were inferred: beside a packet that is missing a piece may be disturbed that the best
    follows by chance. `is_rough`: which of two copies was the packet, or where in a tick it came: less than what is
    open refutes nobody; `is_untimed`: what arrived when in a recovery: nobody who goes by delay. `tick_ns`: by how much
    a round trip may have been shorter than its stamps say, where that is more than a format's rounding.
    """

    is_holed: bool = False
    is_rough: bool = False
    is_untimed: bool = False
    tick_ns: int = 0

    @property
    def is_any(self) -> bool:
        return self.is_holed or self.is_rough or self.is_untimed


NONE = Doubts()


def decide(seen: Reconstruction, replays: Sequence[Replay], rate: ByRate, doubts: Doubts = NONE) -> Identified:
    """The set, and the name if there is one, from everything replayed and what tells of a rate."""
    noise = noise_of(replays, is_told=not doubts.is_any)
    likeliest = _least_off(replays, noise)
    disturbed, told = _told(replays, likeliest, noise, is_holed=doubts.is_holed)
    likely = {id(each): own for each, own in zip(replays, told, strict=True)}
    families = best_of_families(_likeliest_first(replays, told))
    if rate.is_bbr:
        return by_rate(seen, rate, families)
    if not families or not len(families[0].sizes):
        return all_left(families, "no window of its own is seen at work: nothing tells the controls apart")
    share = 1.0 / len(families)
    # Held back by its application most of the time a sender shows pieces of a law: Compound's were H-TCP's.
    if held_by_application(seen) >= MAJORITY:
        reason = "the application held it back most of the time: its window is seen in parts only"
        return all_left(families, reason, confidence=share)
    best = families[0]
    behind = {id(each): 0.0 if sends_the_same(each, best) else likely[id(best)] - likely[id(each)] for each in families}
    # Held back by the receiver most of the time its losses cut a window that had not been seen.
    is_held = seen.is_rwnd_limited
    # Who had no past to choose from, or not its own, may be behind in a few by that alone.
    with_pasts = {
        each.candidate.name for each in replays if each.tape.is_remembered and each.candidate.is_told_by_pasts
    }
    bar = _Bar(best, noise, disturbed, doubts, is_held, with_pasts if best.tape.is_remembered else None)
    left = [each for each in families if not bar.is_refuted(each, behind[id(each)])]
    is_ahead = len(families) < 2 or behind[id(families[1])] > REFUTED
    # The true law explains most of the loss cycles and reductions; two odd ones are no rule of their own.
    is_foreign = best.explained < MAJORITY and best.unfit >= FEWEST_ALIKE
    if is_foreign and not (is_ahead and is_partly_followed(best)):
        if sends_less(best):
            reason = "less was sent than any control allows: what held it back hides which it is"
            return replace(all_left(families, reason, confidence=share), hides_window=True)
        return _unknown(families, traits(best.tape, is_clocked=rate.is_clocked))
    weights = np.exp([-behind[id(each)] for each in left])
    shares = tuple(float(share) for share in weights / weights.sum())
    out = [each for each in families if each not in left]
    return answer(left, out, shares, is_whole=not doubts.is_any)


def _told(
    replays: Sequence[Replay], best: Replay | None, noise: Floats, *, is_holed: bool
) -> tuple[int, Sequence[float]]:
    """How many pieces of the best are disturbed, for all that is known, and how likely that leaves each candidate."""
    if best is None:
        return 0, log_likelihoods(table_of(replays), noise, 0.0, 0.0)
    disturbed = int(is_holed) + int(np.count_nonzero(best.sizes > CLEAR_OF_NOISE * noise))
    # A piece beyond what is open is a rarer disturbance than one within: it says more where the best has few.
    odd = min(int(is_holed) + best.unfit, disturbed)
    bounds = [most_per_piece(few, len(best.sizes)) for few in (disturbed, odd)]
    return disturbed, log_likelihoods(table_of(replays), noise, *bounds)


@dataclass(frozen=True)
class _Bar:
    """What it takes to refute a family beside the best.

    `disturbed`: so many pieces of the best's are; `is_held`: the receiver held the sender back most of the time;
    `with_pasts`: who could choose a past that fits (None: the best has not).
    """

    best: Replay
    noise: Floats
    disturbed: int
    doubts: Doubts
    is_held: bool
    with_pasts: set[str] | None

    def is_refuted(self, each: Replay, behind: float) -> bool:
        """`behind`: by what log odds it is less likely than the best."""
        by_delay = each.candidate.is_by_delay
        if (self.doubts.is_rough or (self.doubts.is_untimed and by_delay)) and not each.unfit:
            return False
        is_sure = self.disturbed <= int(self.doubts.is_holed) and not self.is_held
        has_no_chance = is_sure and is_no_chance(each, self.best, self.noise)
        if behind + (NO_CHANCE if has_no_chance and not by_delay else 0.0) <= REFUTED:
            return False
        return has_no_chance or self._is_clearly_off(each)

    def _is_clearly_off(self, each: Replay) -> bool:
        pieces = len(self.best.sizes)
        # Of so many pieces one may be disturbed that the best follows by chance; once within what is open is no proof.
        is_odd = self.disturbed or self.is_held or ODD_PLACES_SHARE * pieces >= 1
        fewest = FEWEST_CLEAR if is_odd or not each.unfit else 1
        is_chosen = self.with_pasts is not None and each.candidate.name not in self.with_pasts
        return is_clearly_off(
            each,
            self.best,
            self.noise,
            min(fewest, len(each.sizes)),
            odd=MINORITY if is_chosen else ODD_CUTS_SHARE * (self.disturbed > 0),
            is_holed=self.doubts.is_holed,
        )


def _least_off(replays: Sequence[Replay], noise: Floats) -> Replay | None:
    """Of the likeliest, between whom the odds are open, the one that is least off where it is.

    Beyond the noise every piece says the same at first, and one that is within what is open what one far beyond does.
    """
    likely = log_likelihoods(table_of(replays), noise)
    near = [each for each, own in zip(replays, likely, strict=True) if own >= max(likely) - REFUTED]
    if not near:
        return None
    told = log_likelihoods(table_of(near), noise, math.inf)
    return near[told.index(max(told))]


def _likeliest_first(replays: Sequence[Replay], likely: Sequence[float]) -> list[Replay]:
    """Of two readings that tell the same of a candidate the one with its handshake's round trip: a stack has that."""
    first: dict[int, int] = {}
    for number, each in enumerate(replays):
        first.setdefault(id(each.candidate), number)
    ranked = sorted(
        zip(replays, likely, strict=True),
        key=lambda pair: (-pair[1], first[id(pair[0].candidate)], not pair[0].tape.has_handshake),
    )
    return [each for each, _ in ranked]


def best_of_families(likeliest_first: Sequence[Replay]) -> list[Replay]:
    best: dict[str, Replay] = {}
    for each in likeliest_first:
        best.setdefault(each.candidate.name, each)
    return list(best.values())


def by_rate(seen: Reconstruction, rate: ByRate, families: Sequence[Replay] = ()) -> Identified:
    """BBR: what the windows would have been speaks of nothing."""
    told = []
    if rate.cycled:
        first = seen.timeline.seconds(rate.cycled[0])
        told.append(
            f"went a quarter faster for a round trip, and then drained that or lost it, every eight round trips "
            f"({len(rate.cycled)} times from {first:.2f} s on)"
        )
    if rate.probes:
        times = ", ".join(f"{seen.timeline.seconds(at):.2f}" for at in rate.probes)
        told.append(f"held four segments in flight for 200 ms at {times} s")
    return Identified(
        control="bbr",
        confidence=rate.confidence,
        left=(),
        refuted=tuple(families),
        reasons=(f"sent by a rate, not by ACKs, and {' and '.join(told)}: only bbr does",),
    )


def _unknown(families: Sequence[Replay], traits_seen: str) -> Identified:
    best = families[0]
    return Identified(
        control=UNKNOWN,
        confidence=1.0 - best.explained,
        left=(),
        refuted=tuple(families),
        reasons=(
            f"no control of the table does what was seen; the nearest is {best.candidate.name}: {best.against}",
            f"seen instead: {traits_seen}",
        ),
        seen_instead=traits_seen,
    )


def answer(left: Sequence[Replay], out: Sequence[Replay], shares: tuple[float, ...], *, is_whole: bool) -> Identified:
    gamma = next((gamma_of(each) for each in left if _tells_gamma(each, out)), NOT_TOLD)
    if gamma is not NOT_TOLD:
        left = [_with_bounds(each, gamma) for each in left]
    best, name = left[0], left[0].candidate.name
    control, same_with, more = None, None, tuple[str, ...]()
    if len(left) > 1:
        words = f"{', '.join(each.candidate.name for each in left)} would all have done what was seen"
        if lacking := not_captured(left):
            words = f"{words}; what would tell is from before the capture: {', '.join(lacking)}"
    elif (reason := departs(best, out, is_whole=is_whole)) and not grows_alone(best, out):
        words = f"{name} ({best.candidate.variant}) is nearest, {reason}"
    elif stays_shut(best) and not any(each.candidate.name == "reno" for each in out):
        alike = "as Reno would, which was not asked: its delay window never opened"
        words = f"{name} ({best.candidate.variant}) does what was seen, {alike}"
    else:
        control, same_with = name, of_a_shut_window(best, out)
        rival = out[0] if out else None
        against = f"; against {rival.candidate.name}: {rival.against}" if rival is not None and rival.against else ""
        words = f"only {name} ({best.candidate.variant}) does what was seen{against}"
        if same_with:
            words = f"{words}; a Compound with its document's gamma does not"
            more = (f"a Compound of {same_with} would be reno over this queue: its delay window never opens",)
    return Identified(
        control=control,
        confidence=shares[0],
        left=tuple(left),
        refuted=tuple(out),
        reasons=(words, *more),
        shares=shares,
        gamma=gamma,
        same_with=same_with,
    )


def _tells_gamma(each: Replay, out: Sequence[Replay]) -> bool:
    return "gamma" in each.candidate.parameters and (is_followed(each) or grows_alone(each, out))


def _with_bounds(each: Replay, gamma: Estimate) -> Replay:
    """A Compound says what is known of its gamma, not which of those that tie was replayed."""
    if "gamma" not in each.candidate.parameters:
        return each
    return replace(each, candidate=with_gamma_told(each.candidate, in_words(gamma)))
