"""Where the reference data lies, and a skip with a clear reason where it does not."""

import csv
import gzip
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"


def shared(*parts: str) -> Path:
    """A file or folder of the reference data beside the checkout; skips the test where it is absent."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"reference data not there: {path}")
    return path


def ns2_rows(name: str, **wanted: str) -> list[dict[str, str]]:
    """The rows of a table of ns-2.35's runs that have these cells: ours (tests/data/ns2), else the reference.

    Skips where only the reference data has such rows and it is not there.
    """
    own = ROOT / "tests" / "data" / "ns2" / f"{name}.csv.gz"
    if own.exists():
        with gzip.open(own, "rt", newline="") as file:
            found = _chosen(csv.DictReader(file), wanted)
        if found:
            return found
    with shared("oracles", "ns2", f"{name}.csv").open(newline="") as file:
        return _chosen(csv.DictReader(file), wanted)


def _chosen(rows: "csv.DictReader[str]", wanted: dict[str, str]) -> list[dict[str, str]]:
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]
