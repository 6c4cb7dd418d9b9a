"""Fewer points, the same picture."""

import numpy as np

from tcptrace_lab.report.decimate import band, cells, envelope


def test_envelope_keeps_every_extreme() -> None:
    """A spike of one point among a million still shows."""
    x = np.arange(1_000_000, dtype=np.float64)
    y = np.sin(x / 5e4)
    y[123_456], y[654_321] = 9.0, -9.0
    kept = envelope(x, y, bins=500)
    few_x, few_y = x[kept], y[kept]
    assert len(few_x) <= 4 * 500
    assert few_y.max() == 9.0
    assert few_y.min() == -9.0
    assert (few_x[0], few_x[-1]) == (x[0], x[-1])
    assert (np.diff(few_x) > 0).all()


def test_a_span_of_nanoseconds_since_1970_is_cut_between_its_ends() -> None:
    """A float of such a time is off by more than all that a capture of one instant lasts."""
    x = 1_700_000_000_000_000_129 + np.arange(1000) // 100
    kept = envelope(x, np.arange(1000), bins=20)
    assert (kept[0], kept[-1]) == (0, 999)
    assert band(x, x, x, bins=20)[0].tolist() == list(range(0, 900, 100))


def test_few_points_are_left_alone() -> None:
    """Nothing to gain: all of them."""
    x = np.arange(10, dtype=np.float64)
    assert envelope(x, x, bins=500).tolist() == list(range(10))


def test_cells_keep_one_mark_of_those_that_hide_each_other() -> None:
    """Ten thousand marks on ten places are ten."""
    x = np.repeat(np.arange(10, dtype=np.float64), 1000)
    assert len(cells(x, x, bins=50)) == 10


def test_a_band_holds_every_bound_of_its_spans() -> None:
    """The least and the greatest of each span, and no span is left out."""
    x = np.arange(1000)
    low, high = np.where(x == 123, -9, 0), np.where(x == 456, 9, 0)
    at, least, greatest = band(x, low, high, bins=10)
    assert len(at) <= 10
    assert at[0] == 0
    assert sorted(least)[:2] == [-9, 0]
    assert sorted(greatest)[-2:] == [0, 9]
