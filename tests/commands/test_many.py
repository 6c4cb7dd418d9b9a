"""Captures of many connections: judged on several cores, told in order, and as if each had been judged alone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tcptrace_lab import _core, read, simulate
from tcptrace_lab.capture import Capture
from tcptrace_lab.classify.verdict import Verdict, classify
from tcptrace_lab.cli import main
from tcptrace_lab.commands import many
from tcptrace_lab.commands.classify import FEWEST_SHARED
from tcptrace_lab.errors import LabError
from tcptrace_lab.scenario import ApplicationSpec, ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario

CONNECTIONS = FEWEST_SHARED + 3


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Short connections over one path, one after the other and some at once."""
    control = ControlSpec(initial_window=10, recovery="sack", delayed_ack_segments=2, timestamps=True)
    connections = tuple(
        ConnectionSpec(
            control=control,
            application=ApplicationSpec(kind="bytes", bytes=700 * (1 + number % 37)),
            start_s=0.01 * (number + 1),
        )
        for number in range(CONNECTIONS)
    )
    path = PathSpec(nodes=(NodeSpec(rate_bps=50e6, buffer=50, delay_s=0.005),), return_delay_s=0.005)
    run = simulate(Scenario(path=path, connections=connections, duration_s=3.0, profile="rfc"), truth=False)
    found = tmp_path_factory.mktemp("many") / "many.pcap"
    run.write(found, payload=False)
    return found


def told(verdict: Verdict) -> str:
    """Everything."""
    return json.dumps(verdict.as_dict())


def test_what_several_processes_tell_is_what_one_tells(file: Path) -> None:
    """In the order of the connections, to the last digit."""
    alone = list(map(told, classify(read(file))))
    assert len(alone) == CONNECTIONS
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core: nothing is shared")
    assert list(many.each_told(read(file), told)) == alone


def test_json_is_what_python_writes(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`classify --json` writes verdicts as they come, and as `json.dumps` would have written them together."""
    assert main(["classify", "--json", str(file)]) == 0
    written = capsys.readouterr().out
    found = json.loads(written)
    assert [each["connection"] for each in found] == list(range(CONNECTIONS))
    assert written == json.dumps(found, indent=1) + "\n"


def test_an_error_in_one_of_the_processes_is_told(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends the file with its own words, and leaves no process behind."""

    def breaks(capture: Capture, asked: Iterator[object]) -> Iterator[Verdict]:
        raise LabError("nothing can be inferred from this flow")
        yield

    monkeypatch.setattr(many, "verdicts", breaks)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    with pytest.raises(LabError, match="nothing can be inferred"):
        list(many.each_told(read(file), told))


def test_text_of_any_kind_is_written_as_python_does() -> None:
    """RFC 8259 section 7; numbers as Python's `repr`, whatever their class."""
    value = {"": ['\u00e9\u2028\U0001f600\x7f\x00"\\', 1, -0.0, 1e300, 1e-7, np.float64(0.1), True, None, (), [], {}]}
    assert _core.json_text(value) == json.dumps(value, indent=1)
    with pytest.raises(ValueError, match="not JSON compliant"):
        _core.json_text([float("nan")])
    with pytest.raises(TypeError, match="int64"):
        _core.json_text(np.int64(1))


def test_a_median_and_percentiles_are_numpys_to_the_last_bit() -> None:
    """Of whole and of real numbers, few or many of them alike."""
    rng = np.random.default_rng(7)
    for count in (1, 2, 3, 8, 9, 40):
        for values in (rng.integers(-(10**12), 10**12, count), rng.normal(size=count), rng.integers(0, 3, count)):
            assert _core.median(values) == np.median(values)
            for percent in (0.0, 2.0, 5.0, 50.0, 75.0, 97.0, 100.0):
                assert _core.percentile(values, percent) == np.percentile(values, percent)
