"""Tables of comparisons as Markdown, for the scripts of this folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A Markdown table."""
    cells = [[f"{value:.4g}" if isinstance(value, float) else str(value) for value in row] for row in rows]
    return ["| " + " | ".join(line) + " |" for line in (columns, ["---"] * len(columns), *cells)]


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a sweep."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def percent(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.1%})" if whole else "none"


def spread(errors: Sequence[float]) -> list[str]:
    """Count, smallest, 5 %, median, 95 % and largest error, in percent."""
    if not len(errors):
        return ["0", *[""] * 5]
    return [str(len(errors)), *(f"{100 * q:+.1f}" for q in np.quantile(errors, [0, 0.05, 0.5, 0.95, 1]))]


SPREAD = ("runs", "min %", "5 %", "median %", "95 %", "max %")
