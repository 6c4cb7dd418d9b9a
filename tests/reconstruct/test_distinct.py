"""The values of columns, each once: as numpy has them."""

from __future__ import annotations

import numpy as np
import pytest

from tcptrace_lab.reconstruct.distinct import distinct, is_among, without

COLUMNS = ([], [4], [3, 1, 3, 2, 1], [-5, 5, 1 << 40, 5])


@pytest.mark.parametrize("left", COLUMNS)
@pytest.mark.parametrize("right", COLUMNS)
def test_values_are_told_apart_as_numpy_does(left: list[int], right: list[int]) -> None:
    values, others = np.array(left, dtype=np.int64), np.array(right, dtype=np.int64)
    assert distinct(values).tolist() == np.unique(values).tolist()
    assert distinct(values, others).tolist() == np.union1d(values, others).tolist()
    assert without(values, others).tolist() == np.setdiff1d(values, others).tolist()
    assert is_among(values, others).tolist() == np.isin(values, others).tolist()
