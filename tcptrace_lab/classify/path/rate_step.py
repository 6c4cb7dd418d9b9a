"""A bottleneck whose rate became another during a capture: a route that changed, a radio that fell back.

While a queue stands its ACKs come at the rate. Where they come at one before some time and at another after it, either
the rate is another, or others have come to share it, or have gone. A buffer that overflowed at the higher rate tells
them apart: at the lower one it takes longer to empty; shared, it takes as long as before. Errs towards "one rate": a
step that lasts for a few round trips only, one between rates that are not steady, and a path that lost nothing.
"""

from __future__ import annotations

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.path.runs import Runs
from tcptrace_lab.reconstruct.given import FEWEST_SAMPLES, MINORITY
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Bools, Floats

# Where the run is parted: at each of so many equal pieces.
PARTED_PIECES = 20
# More runs are not looked at: some of all, evenly.
MOST_RUNS = 10_000
# On either side most runs are within this share of its median, as many as where one bottleneck sets their pace.
ALIKE_SHARE = 0.05
STEADY_SHARE = 0.6
# A loss met a full buffer whose wait is the longest at that rate, to this share of it.
FULL_WITHIN_SHARE = 0.25
# A rate so many times another is no estimate's error.
STEP_FACTOR = 1.25


def step_of(runs: Runs, busy: Bools, seen: Reconstruction) -> tuple[float, float] | None:
    """The two rates, the lower one first; `busy`: the runs, in time's order, through which a queue stood."""
    rates, delays = runs.rates[busy], runs.delay_ns[busy]
    if not len(rates) or _steady(rates)[1] > 1 - MINORITY:
        return None
    # Neighbours share most of their segments.
    every = -(-len(rates) // MOST_RUNS)
    rates, delays, lost_in = rates[::every], delays[::every], _waits_at_losses(seen)
    least = max(FEWEST_SAMPLES, int(MINORITY * len(rates)))
    best: tuple[float, float, float] | None = None
    for piece in range(1, PARTED_PIECES):
        at = len(rates) * piece // PARTED_PIECES
        if not least <= at <= len(rates) - least:
            continue
        before, after = _steady(rates[:at]), _steady(rates[at:])
        if min(before[1], after[1]) < STEADY_SHARE or (best is not None and best[2] >= before[1] + after[1]):
            continue
        longest = [_core.percentile(part, 95) for part in (delays[:at], delays[at:])]
        (fast, full_ns), (slow, slow_ns) = sorted(((before[0], longest[0]), (after[0], longest[1])), reverse=True)
        is_full = np.any(np.abs(lost_in - full_ns) <= FULL_WITHIN_SHARE * full_ns)
        if is_full and fast >= STEP_FACTOR * slow and slow_ns >= np.sqrt(fast / slow) * full_ns:
            best = (slow, fast, before[1] + after[1])
    return None if best is None else best[:2]


def _waits_at_losses(seen: Reconstruction) -> Floats:
    """By how much the last round trip begun before what each loss event lost was longer than the least."""
    rows, samples = seen.timeline.rtt
    if not len(rows):
        return np.zeros(0)
    before = np.searchsorted(seen.timeline.ack_ns[rows] - samples, seen.lost_sent_ns) - 1
    return np.asarray(samples[before[before >= 0]] - samples.min(), dtype=np.float64)


def _steady(rates: Floats) -> tuple[float, float]:
    """The median of some rates, and the share of them that are near it."""
    middle = _core.median(rates)
    return middle, float(np.mean(np.abs(rates - middle) <= ALIKE_SHARE * middle))
