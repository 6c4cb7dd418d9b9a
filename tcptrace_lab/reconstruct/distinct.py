"""The values of columns, each once: numpy's own `unique` loads masked arrays to ask whether these are (a tenth of a
short capture's verdict)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]


def distinct(*columns: Values) -> Values:
    """Those of all columns together, in rising order."""
    ordered = np.sort(columns[0] if len(columns) == 1 else np.concatenate(columns))
    is_first = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


def is_among(values: Values, others: Values) -> npt.NDArray[np.bool_]:
    """Which of them are among others as well."""
    if not len(others):
        return np.zeros(len(values), dtype=bool)
    ordered = np.sort(others)
    at = np.searchsorted(ordered, values)
    found: npt.NDArray[np.bool_] = ordered[np.minimum(at, len(ordered) - 1)] == values
    return found


def without(values: Values, others: Values) -> Values:
    """Each once, in rising order, but those among others."""
    own = distinct(values)
    return own[~is_among(own, others)]
