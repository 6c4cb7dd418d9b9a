"""The commands classify, reconstruct, plot and score: what they print, write and answer."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tcptrace_lab import read
from tcptrace_lab.cli import main
from tcptrace_lab.report.connection_figure import BOUNDS_ALPHA
from tests.conftest import ROOT

TAHOE = str(ROOT / "captures" / "tahoe_small_buffer.pcap.gz")
TRUTH = str(ROOT / "captures" / "tahoe_small_buffer.truth.csv.gz")
SHORT = str(ROOT / "captures" / "short_reno.pcap.gz")


@pytest.mark.parametrize(
    ("regime", "status"), [("triple", 0), ("double", 1), ("single", 1), ("none", 1), ("undecided", 1)]
)
def test_expectation_is_the_exit_status(regime: str, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    """0: the capture shows this regime; 1: it does not."""
    assert main(["classify", "--expect", regime, TAHOE]) == status
    assert "triple" in capsys.readouterr().out


def test_classify_writes_what_it_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same JSON list on standard output and in a file."""
    assert main(["classify", "--json", TAHOE, SHORT, "-o", str(tmp_path / "x.json")]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [found["slow_starts"]["per_cycle"] for found in printed] == [[3, 3], [1]]
    assert json.loads((tmp_path / "x.json").read_text()) == printed


def test_unreadable_file_among_others_is_told_and_the_rest_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2 and one line for the bad one."""
    bad = tmp_path / "bad.pcap"
    bad.write_bytes(b"not a capture")
    assert main(["classify", "--json", str(bad), SHORT]) == 2
    out, err = capsys.readouterr()
    assert len(json.loads(out)) == 1
    assert str(bad) in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("command", "word"),
    [
        (["classify", SHORT, "--connection", "7"], "no connection 7"),
        (["classify", SHORT, "-o", "x.txt"], ".json"),
        (["reconstruct", SHORT, "-o", "x.txt"], "suffix"),
        (["plot", SHORT, "-o", "x.bmp"], ".png"),
        (["plot", SHORT, "-o", "x.png", "--from", "3", "--to", "1"], "from"),
        (["score", SHORT, TRUTH], "port"),
    ],
)
def test_bad_usage_is_one_line_and_exit_2(command: list[str], word: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What was wrong and what would be right."""
    assert main(command) == 2
    err = capsys.readouterr().err
    assert word in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("table", ["windows", "phases", "losses", "cycles"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".json"])
def test_tables_go_to_files_with_the_columns_of_the_vocabulary(table: str, suffix: str, tmp_path: Path) -> None:
    """Names as in the project's table of tables, in every format."""
    path = tmp_path / f"x{suffix}"
    assert main(["reconstruct", TAHOE, "--table", table, "-o", str(path)]) == 0
    read = {".csv": pd.read_csv, ".parquet": pd.read_parquet, ".json": pd.read_json}[suffix]
    columns = {
        "windows": ["time_ns", "cwnd", "cwnd_low", "cwnd_high", "ssthresh", "limited_by"],
        "phases": ["start_ns", "end_ns", "kind", "cwnd_start", "cwnd_end"],
        "losses": ["time_ns", "offset", "length", "detected_by", "cause", "cwnd_before", "ssthresh_after", "spurious"],
        "cycles": ["start_ns", "end_ns", "slow_starts", "phases", "w_max", "throughput"],
    }
    found = read(path)
    assert list(found.columns) == columns[table]
    assert len(found) > 0


def test_phases_follow_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    """Slow starts, avoidance and recovery in turn: six slow starts in two cycles of three."""
    assert main(["reconstruct", TAHOE, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    kinds = [phase["kind"] for phase in found["phases"]]
    assert kinds.count("slow_start") == 6
    ends = [phase["end_ns"] for phase in found["phases"]]
    starts = [phase["start_ns"] for phase in found["phases"]]
    assert all(start >= end for start, end in zip(starts[1:], ends, strict=False))


def test_score_of_a_recording_is_exact(capsys: pytest.CaptureFixture[str]) -> None:
    """The sender's window at the ACKs where it was the limit, every dropped packet, every slow start."""
    assert main(["score", TAHOE, TRUTH, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["window_cwnd_limited"]["median"] == 0
    assert found["window_cwnd_limited"]["p90"] < 0.02
    assert (found["losses"]["precision"], found["losses"]["recall"]) == (1.0, 1.0)
    assert found["slow_starts"]["found"] == found["slow_starts"]["truth"] == 6


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_plot_writes_a_picture(suffix: str, magic: bytes, tmp_path: Path) -> None:
    """Three panels in the format of the suffix."""
    path = tmp_path / f"x{suffix}"
    assert main(["plot", TAHOE, "-o", str(path)]) == 0
    assert path.read_bytes().startswith(magic)


def test_figure_shades_and_numbers_the_slow_starts_of_each_cycle() -> None:
    """1, 2, 3 in either cycle, a loss marked at each."""
    from tcptrace_lab.commands.reconstruct import chosen
    from tcptrace_lab.reconstruct.reconstruction import Reconstruction
    from tcptrace_lab.report.connection_figure import connection_figure

    _, who = chosen(TAHOE, None)
    figure = connection_figure(Reconstruction(who.timeline), who, title="x")
    window = figure.axes[1]
    assert [text.get_text() for text in window.texts] == ["1", "2", "3", "1", "2", "3"]
    (losses,) = [line for line in window.lines if line.get_marker() == "v"]
    assert len(losses.get_xdata()) == 5  # type: ignore[arg-type]


def test_figure_draws_the_window_that_reconstruct_tells() -> None:
    """Held at the receiver's 22 segments, the window that its control had is larger, and bounded from below."""
    connection = read(ROOT / "captures" / "reno_rwnd.pcap.gz")[0]
    told = connection.reconstruct().windows["cwnd"].max() / 1448
    window = connection.plot().axes[1]
    (cwnd,) = [line for line in window.lines if line.get_color() == "#0072B2"]
    assert told > 40
    assert np.max(cwnd.get_ydata()) == pytest.approx(told)
    bounds = [patch for patch in window.collections if patch.get_alpha() == BOUNDS_ALPHA]
    assert len(bounds) == 1


def test_standard_input_is_called_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with gzip.open(SHORT, "rt", encoding="latin-1") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert main(["classify", "-", "--json"]) == 0
    assert {row["file"] for row in json.loads(capsys.readouterr().out)} == {"standard input"}


def test_no_verdict_loads_what_numpy_has_for_masked_arrays() -> None:
    """Its `unique`, `median` and `percentile` do, to ask whether a column is one: a tenth of a short capture's time."""
    code = "import sys; from tcptrace_lab.cli import main; main(['classify', '--json', *sys.argv[1:]]);"
    code += "sys.exit('numpy.ma' in sys.modules)"
    command = [sys.executable, "-c", code, TAHOE, SHORT]
    assert subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 0
