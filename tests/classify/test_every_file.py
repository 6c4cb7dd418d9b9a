"""analyze, classify and reconstruct end in an answer or in one line on every capture of the reference data."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from tcptrace_lab.cli import main
from tests.conftest import SHARED

CAPTURE = (".pcap", ".pcap.gz", ".pcapng", ".dmp.gz", ".trace")
FOLDERS = [SHARED / "captures" / "public", SHARED / "captures" / "kernel"]
FILES = [path for folder in FOLDERS for path in sorted(folder.rglob("*")) if path.name.endswith(CAPTURE)]
# Above this a verdict takes the best part of a second.
BIG_BYTES = 300_000


def each() -> list[object]:
    found = []
    for path in FILES:
        marks = [pytest.mark.slow] if path.stat().st_size > BIG_BYTES else []
        found.append(pytest.param(path, marks=marks, id=f"{path.parent.name}/{path.name}"))
    return found or [pytest.param(None, marks=pytest.mark.skip(reason="reference data not there"))]


@pytest.mark.parametrize("path", each())
def test_every_capture_gets_an_answer(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 0 and JSON that another program can read, or exit 2 and one line that names the file."""
    for command in ("analyze", "classify"):
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            status = main([command, "--json", str(path)])
        out, err = capsys.readouterr()
        if status == 2:
            assert path.name in err
            assert len(err.splitlines()) == 1
        else:
            assert status == 0
            json.loads(out)
