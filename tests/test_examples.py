"""The controls in examples/ run, are short, and do what their first lines say."""

import runpy

import pytest

from tcptrace_lab.scenario_file import load
from tcptrace_lab.simulate import simulate
from tests.conftest import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PATH = ROOT / "captures" / "scenarios" / "reno_10M.toml"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_from_anywhere_and_is_under_forty_lines(path, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert len(path.read_text().splitlines()) < 40
    runpy.run_path(str(path), run_name="__main__")
    assert "utilization" in capsys.readouterr().out


def run_of(name: str, control: str, **overrides: object):
    made = runpy.run_path(str(ROOT / "examples" / f"{name}.py"))[control]
    given = [f"{key}={value}" for key, value in {"duration_s": 30, **overrides}.items()]
    return simulate(load(PATH, overrides=given), control=made())


@pytest.mark.parametrize(
    ("name", "control"), [("vegas", "Vegas"), ("delay_gradient", "DelayGradient"), ("rate_based", "RateBased")]
)
def test_the_path_is_filled_without_filling_the_buffer(name, control):
    """10 Mbit/s, 40 ms: what a loss-based control fills with losses, these fill by delay or by rate."""
    run = run_of(name, control)
    built_in = simulate(load(PATH, overrides=["duration_s=30"]))
    assert run.summary["utilization"] > 0.9
    assert run.summary["losses"] < built_in.summary["losses"]
    # The buffer has 40 places, of which the built-in one fills more than half on the average.
    assert run.summary["backlog_packets"] < 10 < built_in.summary["backlog_packets"]
