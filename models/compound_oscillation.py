"""Compound TCP's "constant" window is a cycle of m increases and n decreases (Blanc et al. 2008, section 3).

A. Blanc, K. Avrachenkov, D. Collange, "Modelling an Isolated Compound TCP Connection", INRIA RR-6778. One connection,
one FIFO bottleneck. Windows, gamma and the bandwidth-delay product mu tau are in packets; once per round trip the
window grows by alpha w^k while the estimated queue Delta_i is below gamma, else it falls by Delta_i less the Reno
part's 1.

Five arithmetics: "float"; "linux", that of L. Andrew's Linux module 1.3 (April 2008), which the paper simulates: whole
windows, Delta in half packets rounded up and its whole part subtracted, w^(3/4) as w / sqrt(sqrt(w)) with 8-bit
fractions; and three whose types come from their rounds (`compound_rounds`), not from Table 1's conditions: "ns2",
ns-2.35's older module, "packets", a kernel's whole packets, and "draft", real numbers in the rounds of the draft.
Functions broadcast over bdp and gamma.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tcptrace_lab.models import compound_rounds as by_rounds
from tcptrace_lab.models.prediction import FloatArray, Parameter

BDP = Parameter(name="bdp", unit="packets", meaning="mu tau, the bandwidth-delay product", example=5000 / 12)
GAMMA = Parameter(name="gamma", unit="packets", meaning="the queue above which the window gives way", example=30)

ARITHMETICS = ("float", "linux", "ns2", "packets", "draft")
# What settles a free run of rounds (compound_rounds.draft_rounds).
SETTLING_ROUNDS = 60
# Figure 3's flow chart is not in the text. Section 3.3: 5:2 wins over 2:1 and 4:2; Figure 5's drop at 1340 and the
# change at 320 Mb/s put 3:2 before 4:2; 3:1 ends where 2:1 begins; m:1 with m >= 4 is what is left.
PRIORITY: tuple[tuple[int, int], ...] = ((3, 1), (5, 2), (3, 2), (4, 2), (2, 1))
# Table 1's last column for gamma = 30: the mu tau (packets of 1500 B) at which each type can live.
TABLE_1_PRINTED: dict[tuple[int, int], tuple[float, float]] = {
    (2, 1): (545, 558),
    (3, 1): (312, 545),
    (5, 2): (546, 573),
    (4, 2): (559, 1411),
    (3, 2): (1342, np.inf),
}
# A window of 30 packets grows by 1.6 a round trip: more increases in a row than this need a pipe of a few packets.
LONGEST_RISE = 24
# The map from one cycle to the next is a strong contraction (its slope is about gamma / w): 16 rounds settle it.
CYCLES = 16
# mu tau is a product of two floats: whole numbers are compared as if it were exact (packets).
TIE = 1e-9


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The window's rule: w + alpha w^k while Delta < gamma, in one of `ARITHMETICS`.

    "ns2", "packets" and "draft" count real round trips: a lone packet's is `round_trip` s (ns-2 rounds it to
    microseconds) and exceeds tau by `transmission` packets, its own and what else it meets on its way. `is_newreno`:
    losses are mended one a round trip (`compound_steps`).
    """

    alpha: float = 0.125
    k: float = 0.75
    arithmetic: str = "linux"
    round_trip: float = 0.05
    transmission: float = 1.0
    is_newreno: bool = False

    def __post_init__(self) -> None:
        if self.arithmetic not in ARITHMETICS:
            raise ValueError(f"arithmetic = {self.arithmetic!r}: must be one of {', '.join(ARITHMETICS)}")
        if not 0 < self.k < 1:
            # Section 2.1.1: with k > 1 a large window grows faster than in slow start.
            raise ValueError(f"k = {self.k:g}: must be > 0 and < 1")
        if not 0 < self.alpha < np.inf:
            raise ValueError(f"alpha = {self.alpha:g}: must be > 0")
        if not self.is_real and (self.k != 0.75 or np.frexp(self.alpha)[0] != 0.5):
            raise ValueError(
                f"alpha = {self.alpha:g}, k = {self.k:g}: must be a power of two and 3/4 in whole-number arithmetic"
            )

    @property
    def is_real(self) -> bool:
        """Real numbers, or a module's whole ones."""
        return self.arithmetic in ("float", "draft")

    @property
    def steps_rounds(self) -> bool:
        """Types and extremes come from stepped rounds, over a pipe longer than mu tau by `transmission`."""
        return self.arithmetic in ("ns2", "packets", "draft")

    def increase(self, window: FloatArray) -> FloatArray:
        """Packets added in a round trip: alpha w^k, of which the Reno part is 1 (so never less)."""
        if self.is_real:
            return np.asarray(np.maximum(self.alpha * window**self.k, 1.0))
        if self.arithmetic == "ns2":
            return np.asarray(np.maximum(np.floor(by_rounds.quartic_root(window**3) * self.alpha), 1.0))
        if self.arithmetic == "packets":
            return np.asarray(np.maximum(np.floor(self.alpha * window**self.k), 1.0))
        root = np.floor(np.sqrt(np.floor(np.sqrt(window)) * 65536))
        return np.asarray(np.maximum(np.floor(np.floor(window * 256 / np.maximum(root, 1)) * self.alpha), 1.0))

    def delta(self, window: FloatArray, seen: FloatArray, bdp: FloatArray) -> FloatArray:
        """Equation (13): Delta = w (1 - tau / tau_i), packets, with `seen` packets in flight behind tau_i."""
        if self.is_real or self.arithmetic == "packets":
            return window * (1 - bdp / np.maximum(seen, bdp))
        # 2 w - floor(2 w tau / tau_i): half packets, rounded up.
        return (2 * window - np.floor(2 * window * bdp / np.maximum(seen, bdp) + TIE)) / 2

    def decrease(self, delta: FloatArray) -> FloatArray:
        """Packets by which a Delta shrinks the window; the Reno part still adds its 1."""
        if self.arithmetic == "ns2":
            return np.ceil(delta) - 1
        return (delta if self.is_real else np.floor(delta)) - 1


def in_flight_seen(window: FloatArray, before: FloatArray, before_that: FloatArray) -> FloatArray:
    """Equation (14) in packets: mu tau_i, the fewest in flight behind any round-trip sample of the last round.

    Differs: (14) prints min where max is needed (no sample is below tau), asks of w_(i-1) where "at the last update" is
    w_i, and lacks 1/mu in its second branch, w_(i-1) tau / tau_(i-1), which approximates w_i. Meant: after an increase
    the first packet of the burst before, w_(i-2) + 1; after a decrease w_i (and w_(i-1) one round later).
    """
    burst = np.where(before > before_that, before_that + 1, before)
    first = np.where(window > before, before + 1, window)
    return np.minimum(burst, first)


def forced_cycle(
    rises: int, falls: int, bdp: ArrayLike, rule: Rule, start: ArrayLike | None = None
) -> tuple[list[FloatArray], list[FloatArray]]:
    """The fixed point of f_(m:n) (section 3.2): windows w_1..w_(m+n) and Delta_1..Delta_(m+n) of its cycle, packets.

    The pattern is imposed whatever gamma says. Iterated to rest rather than solved: f is so flat that each cycle gains
    two digits. Linux's whole numbers may rest in one of two neighbouring cycles; `start` (mu tau) decides which.
    """
    pipe = np.asarray(bdp, dtype=np.float64)
    w = np.array(pipe if start is None else np.broadcast_to(np.asarray(start, dtype=np.float64), pipe.shape))
    if not rule.is_real:
        w = np.floor(w + TIE)
    before, before_that = w, w
    windows: list[FloatArray] = []
    deltas: list[FloatArray] = []
    for _ in range(CYCLES):
        windows, deltas = [], []
        for step in range(rises + falls):
            windows.append(w)
            deltas.append(rule.delta(before, in_flight_seen(w, before, before_that), pipe))
            after = w + rule.increase(w) if step < rises else w - rule.decrease(deltas[-1])
            w, before, before_that = after, w, before
    return windows, deltas


def conditions(rises: int, falls: int, deltas: list[FloatArray], gamma: ArrayLike) -> tuple[FloatArray, ...]:
    """Table 1's three conditions as signed margins in packets, positive where they hold.

    Delta_m < gamma (no cut before), Delta_(m+1) >= gamma (a cut now), and after the last cut one more or none: for m:1
    Delta_(m+2) < gamma, for m:2 Delta_(m+2) >= gamma. Delta_(m+2) of an m:1 cycle is the next cycle's Delta_1.
    """
    limit = np.asarray(gamma, dtype=np.float64)
    after = limit - deltas[0] if falls == 1 else deltas[rises + 1] - limit
    return limit - deltas[rises - 1], deltas[rises] - limit, after


def is_feasible(rises: int, falls: int, bdp: ArrayLike, gamma: ArrayLike = 30, rule: Rule | None = None) -> FloatArray:
    """Whether the type m:n can live at this mu tau (Table 1), as 0 or 1."""
    pipe, limit = np.broadcast_arrays(BDP.check(bdp), GAMMA.check(gamma))
    _, deltas = forced_cycle(rises, falls, pipe, rule or Rule())
    return np.asarray(_holds(conditions(rises, falls, deltas, limit)), dtype=np.float64)


def _holds(margins: tuple[FloatArray, ...]) -> NDArray[np.bool_]:
    # "< gamma" is strict, ">= gamma" is not.
    first, cut, last = margins
    return (first > 0) & (cut >= 0) & (last >= 0)


@dataclass(frozen=True, kw_only=True)
class Oscillation:
    """What phase 3 does at each mu tau: the type m:n, its largest and smallest window, and how firmly it is settled.

    `margin` is the distance (fraction of gamma) of the nearest condition of Table 1 from failing; negative where no
    type's conditions all hold and the least violated was taken. With "ns2" and "draft" see
    `_of_rounds`.
    """

    rises: FloatArray
    falls: FloatArray
    theta_max: FloatArray
    theta_min: FloatArray
    margin: FloatArray

    @property
    def theta(self) -> FloatArray:
        """The window of phase 3 taken as constant: the mean of the extremes (section 4.4)."""
        return (self.theta_max + self.theta_min) / 2

    @property
    def amplitude(self) -> FloatArray:
        """Figure 5: theta_max - theta_min, packets."""
        return self.theta_max - self.theta_min


def oscillation(
    bdp: ArrayLike, gamma: ArrayLike = 30, rule: Rule | None = None, *, reno: ArrayLike | None = None
) -> Oscillation:
    """Figures 3-5: the first feasible type in order of `PRIORITY`, else m:1 with the smallest m >= 4 that can live.

    `reno`: packets of the Reno part as a cycle begins (half the pipe if None), which a step of rounds needs.
    """
    fill = BDP.check(bdp)
    pipe, limit, first = np.broadcast_arrays(fill, GAMMA.check(gamma), fill / 2 if reno is None else np.asarray(reno))
    shape = pipe.shape
    # A map repeats few values of mu tau many times: each is solved once.
    stacked = np.stack([pipe.ravel(), limit.ravel(), np.floor(first).ravel()])
    (pipe, limit, first), place = np.unique(stacked, axis=1, return_inverse=True)
    place = place.ravel()
    best = {name: np.zeros(pipe.shape) for name in ("rises", "falls", "theta_max", "theta_min")}
    margin = np.full(pipe.shape, -np.inf)
    open_ = np.arange(pipe.size)
    for rises, falls in _types():
        if not open_.size:
            break
        windows, deltas = forced_cycle(rises, falls, pipe[open_], rule or Rule())
        margins = conditions(rises, falls, deltas, limit[open_])
        score = np.minimum.reduce(margins) / limit[open_]
        settled = _holds(margins)
        better = settled | (score > margin[open_])
        at = open_[better]
        found = {
            "rises": np.full(at.shape, rises),
            "falls": np.full(at.shape, falls),
            "theta_max": np.maximum.reduce(windows)[better],
            "theta_min": np.minimum.reduce(windows)[better],
        }
        for name, value in found.items():
            best[name][at] = value
        margin[at] = score[better]
        open_ = open_[~settled]
    best["margin"] = margin
    if rule and rule.steps_rounds:
        _of_rounds(best, pipe, limit, first, rule)
    return Oscillation(**{name: value[place].reshape(shape) for name, value in best.items()})


def _of_rounds(best: dict[str, FloatArray], pipe: FloatArray, gamma: FloatArray, reno: FloatArray, rule: Rule) -> None:
    """Put in what the rounds show wherever they oscillate long enough to be a type.

    The margin is the share of the most frequent type's cycles less that of all others.
    """
    filled = pipe + rule.transmission
    if rule.arithmetic == "draft":
        run = by_rounds.draft_rounds(filled, gamma, alpha=rule.alpha, k=rule.k).after(SETTLING_ROUNDS)
    else:
        kind: by_rounds.Arithmetic = "packets" if rule.arithmetic == "packets" else "ns2"
        run = by_rounds.rounds(filled / rule.round_trip, rule.round_trip, gamma, start=reno, arithmetic=kind)
    for i in range(pipe.size):
        seen = by_rounds.cycles_of(run.path(i))
        if seen is None and rule.arithmetic == "packets":
            seen = by_rounds.cycles_of(run.path(i), closes=True)
        if seen is None:
            continue
        share = seen.counts[seen.rises, seen.falls] / sum(seen.counts.values())
        row = (seen.rises, seen.falls, seen.theta_max, seen.theta_min, 2 * share - 1)
        for name, value in zip(("rises", "falls", "theta_max", "theta_min", "margin"), row, strict=True):
            best[name][i] = value


def _types() -> Iterator[tuple[int, int]]:
    yield from PRIORITY
    for rises in range(4, LONGEST_RISE + 1):
        yield rises, 1
