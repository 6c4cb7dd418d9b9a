"""The five names that a notebook needs, and the methods of a connection: their docstrings run."""

from __future__ import annotations

import doctest
import subprocess
import sys

import pytest

import tcptrace_lab
from tcptrace_lab import face
from tests.conftest import ROOT


def test_the_examples_of_the_docstrings_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = doctest.testmod(face, optionflags=doctest.ELLIPSIS)
    assert result.failed == 0
    assert result.attempted >= 8


@pytest.mark.parametrize("first", ["classify.verdict", "simulate", "sweep", "capture", "face"])
def test_a_name_is_the_function_whatever_was_imported_before(first: str) -> None:
    """A room of the same name does not take its place."""
    code = (
        f"import tcptrace_lab.{first}; import tcptrace_lab.simulate, tcptrace_lab.sweep;"
        "import tcptrace_lab.classify.path.path;"
        "from tcptrace_lab import classify, predict, read, simulate, sweep;"
        "assert all(type(one).__name__ == 'function' for one in (classify, predict, read, simulate, sweep));"
        "from tcptrace_lab.simulate import simulate as inner; assert inner is not simulate"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, tcptrace_lab; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"numpy", "pandas", "matplotlib", "rich", "scapy", "pyshark", "pyarrow", "tcptrace_lab._core"}
    assert not heavy & set(run.stdout.split())


def test_a_connection_answers_by_itself() -> None:
    connection = tcptrace_lab.read(ROOT / "captures" / "short_reno.pcap.gz")[0]
    assert connection.verdict().as_dict()["losses"]["total"] == 0
    assert len(connection.reconstruct().windows) > 10
    assert connection.plot(start_s=0.1, end_s=0.2).axes
    with pytest.raises(tcptrace_lab.errors.LabError, match="no connection 7"):
        tcptrace_lab.classify(connection.capture, connection=7)


def test_what_a_connection_cannot_mean_is_a_value_error() -> None:
    connection = tcptrace_lab.read(ROOT / "captures" / "short_reno.pcap.gz")[0]
    with pytest.raises(ValueError, match="must be 0"):
        connection.reconstruct(direction=2)
    for start_s, end_s in ((5.0, 1.0), (None, float("inf")), (float("nan"), None), (-1.0, None)):
        with pytest.raises(ValueError, match="0 <= start_s < end_s"):
            connection.plot(start_s=start_s, end_s=end_s)


def test_completion_knows_every_name_of_the_package() -> None:
    assert set(tcptrace_lab.__all__) <= set(dir(tcptrace_lab))


def test_what_a_notebook_shows_of_an_answer_is_a_line() -> None:
    """No page of arrays."""
    connection = tcptrace_lab.read(ROOT / "captures" / "reno_timeout.pcap.gz")[0]
    run = tcptrace_lab.simulate(ROOT / "captures" / "scenarios" / "initial_window_1.toml")
    predicted = tcptrace_lab.predict(ROOT / "captures" / "scenarios" / "small_buffers_B20.toml")
    answers = (connection, connection.verdict(), connection.reconstruct(), run, *predicted)
    shown = [repr(answer) for answer in answers]
    assert all("\n" not in line and len(line) < 300 for line in shown)
    assert "loses packets once" in shown[1]
    assert shown[3] == "<Run of 60 s with 1 connection>"
