"""The numbers that decide claims, as docs/make_thresholds.py lists them."""

from __future__ import annotations

import pytest

from docs.make_thresholds import Threshold, thresholds
from tests.conftest import ROOT

ALL = thresholds()


def test_each_has_a_unit_and_a_reason_and_is_on_the_page() -> None:
    assert len(ALL) > 100
    assert not [one.name for one in ALL if not one.unit or not one.why]
    page = (ROOT / "docs" / "thresholds.md").read_text(encoding="utf-8")
    missing = [one.name for one in ALL if f"| {one.where} | {one.name} | {one.value:g} |" not in page]
    assert not missing, "python docs/make_thresholds.py --list"


def test_the_cores_are_among_them() -> None:
    assert {"SILENT_SHARE", "CLOCKED_SHARE", "LEAST_RTO_NS"} <= {one.name for one in ALL if one.is_core}


@pytest.mark.parametrize(
    ("value", "unit", "halved", "doubled"),
    # Of 0.9 the lacking 0.1 is doubled and halved.
    [(0.2, "share", 0.1, 0.4), (0.9, "share", 0.8, 0.95), (98, "percentile", 96, 99), (3, "ACKs", 2, 6)],
)
def test_what_halved_and_doubled_mean(value: float, unit: str, halved: float, doubled: float) -> None:
    one = Threshold("here", "NAME", value, unit, "why")
    assert (one.changed(0.5), one.changed(2.0)) == (pytest.approx(halved), pytest.approx(doubled))
