"""Sweeps: every combination once, in parallel, nothing finished is lost."""

import json
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

from tcptrace_lab import _core
from tcptrace_lab.cli import main
from tcptrace_lab.errors import ScenarioError
from tcptrace_lab.scenario_file import load, set_key, table_of
from tcptrace_lab.simulate import simulate
from tcptrace_lab.sweep import TEXT_COLUMNS, over, sweep
from tcptrace_lab.tables import read_table, write_table
from tests.conftest import ROOT, ns2_rows

SATELLITE = ROOT / "captures" / "scenarios" / "small_buffers_B20.toml"


@pytest.fixture
def short():
    return set_key(table_of(SATELLITE), "duration_s", 5)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("k=3:6", (3, 4, 5, 6)),
        ("k=3:10:3", (3, 6, 9)),
        ("k=6:4:-1", (6, 5, 4)),
        ("k=0:1:0.25", (0, 0.25, 0.5, 0.75, 1)),
        ("k=1.5e6:3e6:0.5e6", (1.5e6, 2e6, 2.5e6, 3e6)),
        ("k=tahoe,reno", ("tahoe", "reno")),
        ("k=1,4:6,true", (1, 4, 5, 6, True)),
    ],
)
def test_values_are_ranges_with_both_ends_lists_or_both(text, values):
    assert over(text).values == values


def test_a_tenth_ends_where_it_should():
    assert len(over("k=0:1:0.1").values) == 11


@pytest.mark.parametrize("text", ["k", "k=", "=3", "k=1:", "k=a:b", "k=5:1", "k=1:2:0", "k=1:2:3:4", "k=1:1e9"])
def test_what_is_no_range_is_refused(text):
    with pytest.raises(ScenarioError, match="--over"):
        over(text)


def test_more_runs_than_can_be_held_are_refused_before_the_first(short):
    ranges = [over(f"path.nodes.0.{key}=1:1000") for key in ("buffer", "delay_s")]
    with pytest.raises(ScenarioError, match="1000000 combinations"):
        sweep(short, ranges)


def test_a_row_is_the_summary_of_its_run(short):
    frame = sweep(short, [over("path.nodes.0.buffer=5,20"), over("control.initial_window=1:3")])
    # The last key varies fastest.
    keys = frame[["path.nodes.0.buffer", "control.initial_window"]]
    assert keys.values.tolist() == [[5, 1], [5, 2], [5, 3], [20, 1], [20, 2], [20, 3]]
    overrides = ["duration_s=5", "path.nodes.0.buffer=20", "control.initial_window=2"]
    alone = simulate(load(SATELLITE, overrides=overrides)).summary
    pd.testing.assert_series_equal(frame.iloc[4][list(alone)], pd.Series(alone), check_names=False)


def test_an_error_of_one_combination_names_its_key(short):
    with pytest.raises(ScenarioError, match=r"path\.nodes\.0\.buffer = 0: must be >= 1"):
        sweep(short, [over("path.nodes.0.buffer=2:0:-1")])


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_rerun_runs_only_what_is_missing(short, tmp_path, monkeypatch, suffix):
    output = tmp_path / f"rows{suffix}"
    first = sweep(short, [over("path.nodes.0.buffer=5:8")], output=output)
    # As if the sweep had been cut after two rows.
    write_table(first.iloc[[1, 3]], output)
    ran = []
    inner = _core.sweep
    monkeypatch.setattr(_core, "sweep", lambda specs, done: (ran.extend(specs), inner(specs, done)))
    again = sweep(short, [over("path.nodes.0.buffer=5:8")], output=output)
    assert len(ran) == 2
    pd.testing.assert_frame_equal(again, first, check_dtype=False)
    pd.testing.assert_frame_equal(read_table(output, text=TEXT_COLUMNS), first, check_dtype=False)


def test_rows_of_another_scenario_are_never_taken_for_this_one(short, tmp_path):
    output = tmp_path / "rows.parquet"
    sweep(short, [over("path.nodes.0.buffer=5:6")], output=output)
    other = set_key(short, "path.packet_bytes", 1000)
    with pytest.raises(ScenarioError, match=r"rows\.parquet: holds rows of another sweep"):
        sweep(other, [over("path.nodes.0.buffer=5:6")], output=output)


def test_an_exception_in_between_keeps_the_rows_that_are_finished(short, tmp_path):
    output = tmp_path / "rows.csv"

    def tire(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(short, [over("path.nodes.0.buffer=5:30")], output=output, progress=tire)
    assert len(pd.read_csv(output)) == 3


@pytest.mark.slow
def test_ctrl_c_ends_a_sweep_at_once_and_keeps_what_is_finished(tmp_path):
    output = tmp_path / "rows.csv"
    command = [sys.executable, "-m", "tcptrace_lab", "sweep", str(SATELLITE), "-o", str(output)]
    command += ["--set", "duration_s=20000", "--over", "path.nodes.0.buffer=5:500"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while not output.exists() and process.poll() is None:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 130, error
    assert 0 < len(pd.read_csv(output)) < 496


def test_figure_2_of_paper_000_is_that_of_ns2():
    """Slow starts per cycle, throughput, packets and timeouts of ns-2 for every seventh buffer (all: slow)."""
    compare_with_ns2("paper", {}, "3:69:7")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "changes"),
    [
        ("paper", {}),
        ("paper_tick0.1", {"control.rto.granularity_s": 0.1}),
        ("paper_limtx", {"control.limited_transmit": True}),
    ],
)
def test_every_buffer_of_every_configuration_is_that_of_ns2(config, changes):
    compare_with_ns2(config, changes, "2:69")


def compare_with_ns2(config: str, changes: dict[str, object], buffers: str) -> None:
    wanted = {int(row["B_pkts"]): row for row in ns2_rows("tahoe_sweep", config=config)}
    table = table_of(SATELLITE)
    for key, value in changes.items():
        table = set_key(table, key, value)
    rows = sweep(table, [over(f"path.nodes.0.buffer={buffers}")]).to_dict("records")
    compared = 0
    for row in rows:
        other = wanted.get(row["path.nodes.0.buffer"])
        if other is None:
            continue
        compared += 1
        assert row["slow_starts_per_cycle"] == other["slow_starts_per_cycle"], other
        assert row["cycles"] == int(other["n_full_cycles"])
        assert row["packets_sent"] == int(other["packets_sent"])
        assert row["retransmissions"] == int(other["retransmissions"])
        assert row["timeouts"] == int(other["timeouts"])
        throughput = float(other["throughput_full_cycles_pkt_per_s"])
        assert row["throughput_full_cycles_pps"] == pytest.approx(throughput, rel=1e-4)
    assert compared > 5


def test_the_command_prints_a_table_or_json(capsys, tmp_path):
    words = ["sweep", str(SATELLITE), "--set", "duration_s=2", "--over", "path.nodes.0.buffer=5:6"]
    assert main(words) == 0
    assert capsys.readouterr().out.count("\n") == 3
    assert main([*words, "--json"]) == 0
    assert [row["path.nodes.0.buffer"] for row in json.loads(capsys.readouterr().out)] == [5, 6]
    assert main([*words, "-o", str(tmp_path / "rows.txt")]) == 2
    assert "the suffix must be one of .parquet" in capsys.readouterr().err
