"""Compound round by round: what whole numbers, and the draft's own rounds, make of equations (13) and (14).

Blanc et al. 2008 (INRIA RR-6778) section 3.1 describes the algorithm that A. Castellani and S. Hemminger's Linux module
(the one in ns-2.35, 2006) carries out once a round, on the ACK of the first packet sent after the last update. While no
packet is lost a round is known without its packets: it has as many ACKs as the window had packets just before the
update, the Reno part gains 1 each time as many ACKs have come as the window holds, and the shortest round trip
belongs either to the second packet of the last burst or to the first packet sent after the update before.

Differs from `compound_oscillation`, which has the paper's own model and L. Andrew's later module, in three places: the
root is Newton's (stopped at a step of 1), Delta in half packets is subtracted rounded up, and the Reno part's gain is
counted in ACKs. Round trips are rounded to microseconds, plus one, as the module does. Units: packets, packets/s,
seconds. Functions take arrays of paths and step them together.

A kernel that computes the draft in whole packets has the same rounds (`Arithmetic` "packets"): Delta is in 1024ths of a
packet, of which the whole ones are subtracted, and the increase is cut to whole packets.

A sender that follows the draft to the letter (draft-sridharan-tcpm-ctcp-02) ends its rounds one packet earlier, on the
last packet sent before the update: `draft_rounds`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tcptrace_lab.models.prediction import FloatArray

IntArray = NDArray[np.int64]
Arithmetic = Literal["ns2", "packets"]

ALPHA_SHIFT = 3  # alpha = 1/8
K = 0.75
# Fractions of a packet in Delta: halves in ns-2.35's module.
HALF_PACKETS, PACKETS_SHIFT = 2, 10
MICROSECONDS = 1e6


def quartic_root(value: ArrayLike) -> IntArray:
    """The module's integer fourth root: Newton from a power of two until a step changes it by at most 1."""
    a = np.asarray(value, dtype=np.int64)
    _, exponent = np.frexp(a.astype(np.float64))
    x = np.int64(1) << (exponent.astype(np.int64) >> 2)
    running = np.ones(a.shape, dtype=bool)
    while running.any():
        after = (3 * x + a // x**3) // 4
        running, x = running & (np.abs(after - x) > 1), np.where(running, after, x)
    return x


def increase(sent: ArrayLike, arithmetic: Arithmetic = "ns2") -> IntArray:
    """Packets that a round of `sent` packets adds to the delay window: sent^(3/4) / 8, less the Reno part's 1."""
    old = np.asarray(sent, dtype=np.int64)
    root = quartic_root(old**3) if arithmetic == "ns2" else np.floor(old**K).astype(np.int64)
    return np.asarray(np.maximum((root >> ALPHA_SHIFT) - 1, 0))


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """A row per round: the window after the update, whether it was a decrease, and the delay window."""

    window: IntArray | FloatArray
    decreased: NDArray[np.bool_]
    delay_window: IntArray

    def after(self, count: int) -> Rounds:
        """Without the first rounds."""
        rest = slice(count, None)
        return Rounds(window=self.window[rest], decreased=self.decreased[rest], delay_window=self.delay_window[rest])

    def path(self, i: int) -> Rounds:
        """The columns of one of several paths."""
        return Rounds(window=self.window[:, i], decreased=self.decreased[:, i], delay_window=self.delay_window[:, i])


def rounds(
    mu: ArrayLike,
    base_rtt: ArrayLike,
    gamma: ArrayLike = 30,
    *,
    start: ArrayLike | None = None,
    count: int = 200,
    arithmetic: Arithmetic = "ns2",
) -> Rounds:
    """`count` rounds without loss, after a slow start that ended at `start` packets (half the pipe if None).

    `base_rtt` is the round trip of a lone packet, its transmission times included: mu base_rtt packets fill the path.
    """
    rate, base, limit = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in (mu, base_rtt, gamma)))
    first = np.floor(rate * base / 2) if start is None else np.broadcast_to(np.asarray(start), rate.shape)
    state = _State(first.astype(np.int64), rate, base, arithmetic)
    rows = [state.step(limit) for _ in range(count)]
    window, decreased, delay_window = (np.stack(column) for column in zip(*rows, strict=True))
    return Rounds(window=window, decreased=decreased, delay_window=delay_window)


def draft_rounds(
    pipe: ArrayLike, gamma: ArrayLike = 30, *, alpha: float = 0.125, k: float = 0.75, count: int = 240
) -> Rounds:
    """`count` rounds of the draft in real numbers, from 0.8 of the pipe on; all of the window is delay window.

    A round's samples are those of the packets sent before the last update, so a decrease shows only in the second round
    after it and is made twice or three times: equation (14) with the conditions on w_(i-1), as printed. Real numbers
    do not come to rest: neighbouring types (7:2, 8:2) take turns. Where gamma is as large as the pipe the decreases can
    ask for more than the window: one packet and no delay window are left.
    """
    fill, limit = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in (pipe, gamma)))
    window = before = before_that = 0.8 * fill
    rows = []
    for _ in range(count):
        seen = np.maximum(np.where(before > before_that, before_that, before), fill)
        delta = before * (1 - fill / seen)
        falls = delta >= limit
        left = np.maximum(window - delta, 0)
        after = np.where(falls, left + 1, window + np.maximum(alpha * window**k, 1))
        window, before, before_that = after, window, before
        rows.append((after, falls, np.where(falls, np.ceil(left), np.ceil(after)).astype(np.int64)))
    windows, decreased, delay_window = (np.stack(column) for column in zip(*rows, strict=True))
    return Rounds(window=windows, decreased=decreased, delay_window=delay_window)


class _State:
    """The sender between two updates; every member is an array over the paths."""

    def __init__(self, start: IntArray, rate: FloatArray, base: FloatArray, arithmetic: Arithmetic) -> None:
        self.rate, self.base, self.arithmetic = rate, base, arithmetic
        self.base_us = np.rint(base * MICROSECONDS).astype(np.int64) + 1
        self.congestion, self.delay = start.copy(), np.zeros_like(start)
        self.acks = np.zeros_like(start)
        # Just before the last update: the window. In flight behind the first packet after it, and behind the one with
        # the shortest queue among the others, of this round and of the one before.
        self.before, self.first, self.others, self.others_before = start, start, start, start

    def step(self, gamma: FloatArray) -> tuple[IntArray, NDArray[np.bool_], IntArray]:
        """One round's ACKs, then the update on its last."""
        self._count(self.before - 1)
        window = self.congestion + self.delay
        seen = np.minimum(self.others_before, self.first)
        rtt_us = np.rint(np.maximum(self.base, seen / self.rate) * MICROSECONDS).astype(np.int64) + 1
        self._count(np.ones_like(window))
        if self.arithmetic == "ns2":
            # In half packets, as the module keeps it.
            diff = HALF_PACKETS * self.before - HALF_PACKETS * self.before * self.base_us // rtt_us
            falls = diff >= HALF_PACKETS * gamma
            fallen = (HALF_PACKETS * self.delay - diff) // HALF_PACKETS
        else:
            diff = (self.before << PACKETS_SHIFT) * (rtt_us - self.base_us) // rtt_us
            falls = diff >= gamma * (1 << PACKETS_SHIFT)
            fallen = self.delay - (diff >> PACKETS_SHIFT)
        grown = self.delay + increase(self.before, self.arithmetic)
        self.delay = np.where(falls, np.maximum(fallen, 0), grown)
        after = self.congestion + self.delay
        self.others_before = self.others
        # After an increase the burst's first packet replaces the one acknowledged, the second queues behind it. After a
        # decrease nothing is sent until only the new window is in flight.
        self.first = np.where(after >= window, window, after)
        self.others = np.where(after > window, window + 1, np.minimum(window, after))
        self.before = window
        return after, falls, self.delay.copy()

    def _count(self, acks: IntArray) -> None:
        """The Reno part: 1 packet more each time as many ACKs have come as the window holds."""
        left = acks
        while True:
            needed = self.congestion + self.delay - self.acks
            gains = needed <= left
            if not gains.any():
                break
            left = np.where(gains, left - needed, left)
            self.acks = np.where(gains, 0, self.acks)
            self.congestion = self.congestion + gains
        self.acks = self.acks + left


@dataclass(frozen=True, kw_only=True)
class CyclesSeen:
    """The oscillations of one path: the most frequent type, all types with their counts, the type's median extremes (of
    all, where the delay window closes)."""

    rises: int
    falls: int
    counts: dict[tuple[int, int], int]
    theta_max: float
    theta_min: float
    cycles: tuple[tuple[float, ...], ...]


def cycles_of(run: Rounds, *, closes: bool = False) -> CyclesSeen | None:
    """The cycles of one path (one-dimensional columns) while its delay window lasts; None without a whole one.

    A cycle is a run of increases and the decreases after it. The first one, which comes from below, is left out.
    `closes`: a decrease that takes all of the delay window ends a cycle as any other does: on a pipe of few packets the
    Reno part is most of the window, and holds it up.
    """
    found = list(_cycles(run, closes=closes))[1:]
    if not found:
        return None
    counts = Counter(kind for kind, _ in found)
    kind = counts.most_common(1)[0][0]
    # Where each cycle closes the delay window, each is shorter than the one before: what is typical is their middle.
    windows = [window for other, window in found if closes or other == kind]
    return CyclesSeen(
        rises=kind[0],
        falls=kind[1],
        counts=dict(counts),
        theta_max=float(np.median([max(window) for window in windows])),
        theta_min=float(np.median([min(window) for window in windows])),
        cycles=tuple(windows),
    )


def _cycles(run: Rounds, *, closes: bool) -> Iterator[tuple[tuple[int, int], tuple[float, ...]]]:
    rises = falls = 0
    windows: list[float] = []
    for window, decreased, delay in zip(run.window, run.decreased, run.delay_window, strict=True):
        if falls and not decreased:
            yield (rises, falls), tuple(windows)
            rises = falls = 0
            windows = []
        rises, falls = rises + (not decreased), falls + bool(decreased)
        windows.append(float(window))
        if delay == 0 and falls and not closes:
            return
