"""Fewer points, the same picture: what a panel of some thousand pixels can show of some million rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def envelope(x: Floats, y: Floats, *, bins: int) -> tuple[Floats, Floats]:
    """First, least, greatest and last point of each of `bins` equal spans of x, in order: a line loses no extreme."""
    if len(x) <= 4 * bins or x[-1] <= x[0]:
        return x, y
    number = np.minimum(((x - x[0]) / (x[-1] - x[0]) * bins).astype(np.int64), bins - 1)
    order = np.lexsort((y, number))
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    ends = np.append(starts[1:], len(x)) - 1
    by_value = np.searchsorted(number[order], number[starts], side="left")
    above = np.searchsorted(number[order], number[starts], side="right") - 1
    kept = np.unique(np.concatenate((starts, ends, order[by_value], order[above])))
    return x[kept], y[kept]


def cells(x: Floats, y: Floats, *, bins: int) -> Ints:
    """Indices of one point for each cell of a grid of `bins` by `bins`: marks that would hide each other are one."""
    if len(x) <= bins:
        return np.arange(len(x))
    span_x, span_y = max(float(np.ptp(x)), 1e-12), max(float(np.ptp(y)), 1e-12)
    column = ((x - x.min()) / span_x * (bins - 1)).astype(np.int64)
    row = ((y - y.min()) / span_y * (bins - 1)).astype(np.int64)
    _, index = np.unique(column * bins + row, return_index=True)
    return np.sort(index)
