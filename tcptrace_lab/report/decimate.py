"""Fewer points, the same picture: what a panel of some thousand pixels can show of some million rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def envelope(x: Floats | Ints, y: Floats | Ints, *, bins: int) -> Ints:
    """Indices of the first, least, greatest and last point of each of `bins` equal spans of x: a line loses no extreme.

    x rises. Nothing as long as x is made: of a million rows each copy takes megabytes.
    """
    if len(x) <= 4 * bins or x[-1] <= x[0]:
        return np.arange(len(x))
    starts = _starts(x, bins=bins)
    kept = set(starts.tolist())
    for start, end in pairwise([*starts.tolist(), len(x)]):
        values = y[start:end]
        least, most = start + int(np.argmin(values)), end - 1 - int(np.argmax(values[::-1]))
        kept.update((end - 1, least, most))
    return np.array(sorted(kept), dtype=np.int64)


def band(x: Ints, low: Ints, high: Ints, *, bins: int) -> tuple[Ints, Ints, Ints]:
    """Of each of `bins` equal spans of x: the index of its first point, the least of `low`, the greatest of `high`."""
    starts = np.arange(len(x)) if len(x) <= 4 * bins or x[-1] <= x[0] else _starts(x, bins=bins)
    return starts, np.minimum.reduceat(low, starts), np.maximum.reduceat(high, starts)


def _starts(x: Floats | Ints, *, bins: int) -> Ints:
    """The first point of each of `bins` equal spans of x that has one."""
    # From the first on: nanoseconds since 1970 as floats lie 256 apart, and an edge may come out beyond the last.
    edges = x[0] + ((x[-1] - x[0]) * (np.arange(1, bins) / bins)).astype(x.dtype)
    return np.unique(np.concatenate(([0], np.searchsorted(x, edges, side="left"))))


def corners(y: Ints) -> Ints:
    """Indices of the points at which a line of steps begins, changes or ends."""
    changes = np.flatnonzero(y[1:] != y[:-1])
    return np.unique(np.concatenate(([0], changes, changes + 1, [len(y) - 1])))


def cells(x: Ints, y: Ints, *, bins: int) -> Ints:
    """Indices of one point for each cell of a grid of `bins` by `bins`: marks that would hide each other are one."""
    if len(x) <= bins:
        return np.arange(len(x))
    span_x, span_y = max(float(np.ptp(x)), 1e-12), max(float(np.ptp(y)), 1e-12)
    column = ((x - x.min()) / span_x * (bins - 1)).astype(np.int64)
    row = ((y - y.min()) / span_y * (bins - 1)).astype(np.int64)
    _, index = np.unique(column * bins + row, return_index=True)
    return np.sort(index)
