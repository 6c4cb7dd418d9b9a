"""Fewer points, the same picture: what a panel of some thousand pixels can show of some million rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def envelope(x: Floats, y: Floats, *, bins: int) -> tuple[Floats, Floats]:
    """First, least, greatest and last point of each of `bins` equal spans of x, in order: a line loses no extreme."""
    if len(x) <= 4 * bins or x[-1] <= x[0]:
        return x, y
    number = np.minimum(((x - x[0]) / (x[-1] - x[0]) * bins).astype(np.int32), bins - 1)
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    kept = set(starts.tolist())
    # Span by span: sorting all of x at once would take several times its memory.
    for start, end in pairwise([*starts.tolist(), len(x)]):
        values = y[start:end]
        least, most = start + int(np.argmin(values)), end - 1 - int(np.argmax(values[::-1]))
        kept.update((end - 1, least, most))
    chosen = np.array(sorted(kept), dtype=np.int64)
    return x[chosen], y[chosen]


def corners(y: Floats) -> Ints:
    """Indices of the points at which a line of steps begins, changes (also from or to NaN) or ends."""
    same = (y[1:] == y[:-1]) | (np.isnan(y[1:]) & np.isnan(y[:-1]))
    changes = np.flatnonzero(~same)
    return np.unique(np.concatenate(([0], changes, changes + 1, [len(y) - 1])))


def cells(x: Floats, y: Floats, *, bins: int) -> Ints:
    """Indices of one point for each cell of a grid of `bins` by `bins`: marks that would hide each other are one."""
    if len(x) <= bins:
        return np.arange(len(x))
    span_x, span_y = max(float(np.ptp(x)), 1e-12), max(float(np.ptp(y)), 1e-12)
    column = ((x - x.min()) / span_x * (bins - 1)).astype(np.int64)
    row = ((y - y.min()) / span_y * (bins - 1)).astype(np.int64)
    _, index = np.unique(column * bins + row, return_index=True)
    return np.sort(index)
