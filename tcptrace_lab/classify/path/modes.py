"""Modes of the rates at which runs of segments were acknowledged, and what lies beside one."""

from __future__ import annotations

import math

import numpy as np

from tcptrace_lab.reconstruct.timeline import Bools, Floats, Places

# A mode of the distribution of rates counts when it holds this share of the runs; bins of 2 % of the rate.
MODE_SHARE = 0.04
# ... and so many: neighbouring runs share most of their segments, one odd ACK is in three of them.
MODE_RUNS = 4
BIN = 0.02
# What belongs to a mode lies so many bins around its middle: half of one for the middle's place, two for the runs' own.
MODE_BINS = 2.5
# One ACK in a hundred stamped early (out of order, held back on its way) makes three runs too fast, by up to the third
# that one ACK of a run is. Beside a mode so many times as frequent they are its strays.
STRAY_FACTOR = 10
STRAY_SHARE = 0.3


def beside(rates: Floats, peak: float, blur: float) -> Bools:
    """What belongs to a mode."""
    width = math.exp(MODE_BINS * BIN + 2 * blur)
    found: Bools = (rates >= peak / width) & (rates <= peak * width)
    return found


def highest_mode(bins: Places, blur: float) -> float | None:
    """Idle gaps between windows, other flows and slow readers make slower modes; none is faster than the path.

    `bins`: of the rates' logarithms.
    """
    origin = int(bins.min())
    mass = np.bincount(bins - origin)
    # As wide as the clock blurs a run's rate, both ends of it.
    width = 3 + 2 * int(np.ceil(2 * blur / BIN))
    smooth = np.convolve(mass, np.ones(width), mode="same") if len(mass) >= width else np.full(len(mass), mass.sum())
    least = max(MODE_SHARE * len(bins), MODE_RUNS)
    peaks = np.flatnonzero((smooth >= np.roll(smooth, 1)) & (smooth >= np.roll(smooth, -1)) & (smooth >= least))
    if not len(peaks):
        return None
    beside = peaks[(peaks > peaks[-1] - STRAY_SHARE / BIN) & (smooth[peaks] >= STRAY_FACTOR * smooth[peaks[-1]])]
    peak = int(beside[-1]) if len(beside) else int(peaks[-1])
    return float(np.exp((origin + peak + 0.5) * BIN))
