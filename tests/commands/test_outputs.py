"""Every command's -o: the three formats, one line for what cannot be written, and no half-written file."""

from __future__ import annotations

import gzip
import json
import math
import os
import signal
from pathlib import Path

import pandas as pd
import pytest

from tcptrace_lab import read
from tcptrace_lab._core import json_text
from tcptrace_lab.cli import main
from tcptrace_lab.whole_files import replacing, together
from tests.conftest import ROOT

SHORT = str(ROOT / "captures" / "short_reno.pcap.gz")
SCENARIOS = ROOT / "captures" / "scenarios"
SWEEP = (str(SCENARIOS / "small_buffers_B20.toml"), "--over", "path.nodes.0.buffer=19,20", "--set", "duration_s=20")
WRITERS = {
    "analyze": ("analyze", SHORT),
    "reconstruct": ("reconstruct", SHORT),
    "classify": ("classify", SHORT),
    "sweep": ("sweep", *SWEEP),
}
TAHOE = str(ROOT / "captures" / "tahoe_small_buffer")
# One object in JSON; in a table its rows.
ANSWERS = {
    "score": ("score", f"{TAHOE}.pcap.gz", f"{TAHOE}.truth.csv.gz"),
    "predict": ("predict", str(SCENARIOS / "small_buffers_B20.toml")),
}


@pytest.mark.parametrize("command", WRITERS)
def test_each_suffix_holds_the_same_rows(command: str, tmp_path: Path) -> None:
    """.csv, .csv.gz, .parquet and .json: one row each for the same things."""
    counts = set()
    for suffix in (".csv", ".csv.gz", ".parquet", ".json"):
        path = tmp_path / f"x{suffix}"
        assert main([*WRITERS[command], "-o", str(path)]) == 0
        if suffix == ".json":
            found = json.loads(path.read_text())
            counts.add(len(found[0]["connections"]) if command == "analyze" else len(found))
        else:
            counts.add(len(pd.read_parquet(path) if suffix == ".parquet" else pd.read_csv(path)))
    assert len(counts) == 1
    assert counts.pop() > 0


@pytest.mark.parametrize(("suffix", "empty"), [(".csv", ""), (".csv.gz", ""), (".json", "[]\n")])
def test_where_nothing_is_judged_the_table_is_empty(suffix: str, empty: str, tmp_path: Path) -> None:
    """A SYN alone carries no data."""
    syn, path = tmp_path / "syn.pcap", tmp_path / f"x{suffix}"
    packets = gzip.decompress(Path(SHORT).read_bytes())
    length = int.from_bytes(packets[32:36], "little")
    syn.write_bytes(packets[: 24 + 16 + length])
    assert main(["classify", str(syn), "-o", str(path)]) == 0
    written = path.read_bytes()
    assert (gzip.decompress(written) if suffix == ".csv.gz" else written).decode() == empty


@pytest.mark.parametrize("command", ANSWERS)
def test_an_answer_in_a_json_file_is_what_json_prints(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.json"
    assert main([*ANSWERS[command], "-o", str(path)]) == 0
    assert capsys.readouterr().out == ""
    assert main([*ANSWERS[command], "--json"]) == 0
    assert path.read_text() == capsys.readouterr().out


def test_a_score_in_a_table_is_one_row(tmp_path: Path) -> None:
    for suffix in (".csv", ".csv.gz", ".parquet"):
        path = tmp_path / f"x{suffix}"
        assert main([*ANSWERS["score"], "-o", str(path)]) == 0
        (row,) = (pd.read_parquet(path) if suffix == ".parquet" else pd.read_csv(path)).to_dict("records")
        assert (row["losses.found"], row["losses.dropped"], row["losses.recall"]) == (39, 39, 1.0)


def test_a_prediction_in_a_table_has_a_row_per_quantity(tmp_path: Path) -> None:
    """Barakat & Altman 1998: with B = 20, W_B = 52 by equation 5."""
    for suffix in (".csv", ".parquet"):
        path = tmp_path / f"x{suffix}"
        assert main([*ANSWERS["predict"], "-o", str(path)]) == 0
        table = pd.read_parquet(path) if suffix == ".parquet" else pd.read_csv(path)
        found = table[(table["model"] == "small_buffers") & (table["quantity"] == "W_B")]
        assert found["value"].tolist() == [52.0]
        assert found["equation"].tolist() == ["eq. 5"]
        assert set(table["kind"]) == {"input", "quantity"}


def test_sweep_resumes_from_json(tmp_path: Path) -> None:
    """The rows in the file are taken as they are: a second run leaves the same bytes."""
    path = tmp_path / "x.json"
    assert main(["sweep", *SWEEP, "-o", str(path)]) == 0
    before = path.stat().st_mtime_ns
    assert main(["sweep", *SWEEP, "-o", str(path)]) == 0
    assert path.stat().st_mtime_ns == before


@pytest.mark.parametrize("command", [*WRITERS, *ANSWERS, "plot", "simulate"])
@pytest.mark.parametrize("name", ["x.txt", "absent/x.SUFFIX", "folder.SUFFIX"])
def test_unwritable_path_is_one_line_and_leaves_nothing(
    command: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong suffix, a missing folder, a folder of that name: exit 2."""
    suffix = {"plot": "png", "simulate": "pcap"}.get(command, "csv")
    (tmp_path / f"folder.{suffix}").mkdir()
    others = {"plot": ("plot", SHORT), "simulate": ("simulate", str(SCENARIOS / "reno_10M.toml"))}
    path = tmp_path / name.replace("SUFFIX", suffix)
    assert main([*{**WRITERS, **ANSWERS, **others}[command], "-o", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert str(path) in error
    assert [entry.name for entry in tmp_path.iterdir()] == [f"folder.{suffix}"]


def test_what_a_short_run_has_not_is_a_dash_or_null(capsys: pytest.CaptureFixture[str]) -> None:
    """No cycle is complete within a second: no number stands for its length."""
    command = ["simulate", str(SCENARIOS / "reno_10M.toml"), "--set", "duration_s=0.2"]
    assert main(command) == 0
    lines = {line.rpartition(" ")[0].strip(): line.split()[-1] for line in capsys.readouterr().out.splitlines()}
    assert (lines["cycle s"], lines["slow starts mean"]) == ("-", "-")
    assert "nan" not in lines.values()
    assert main([*command, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert summary["cycle_s"] is None
    assert not any(isinstance(x, float) and math.isnan(x) for x in summary.values())


@pytest.mark.parametrize("suffix", ["pcap", "pcapng"])
def test_scapy_says_that_a_file_is_cut(suffix: str, tmp_path: Path) -> None:
    """scapy stops silently within a record; where it starts is what the native reader says too."""
    pytest.importorskip("scapy")
    whole = tmp_path / f"whole.{suffix}"
    assert main(["simulate", str(SCENARIOS / "reno_10M.toml"), "--set", "duration_s=0.2", "-o", str(whole)]) == 0
    assert read(whole, backend="scapy").truncated is None
    for less in (1, 700, 1550):
        cut = tmp_path / f"cut.{suffix}"
        cut.write_bytes(whole.read_bytes()[:-less])
        native, found = read(cut).truncated, read(cut, backend="scapy").truncated
        assert native is not None
        assert found is not None
        assert found[0] == native[0]


def test_reproduce_tells_a_folder_that_cannot_be_before_it_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file stands where the folder should: exit 2, one line."""
    (tmp_path / "file").write_text("x")
    assert main(["reproduce", "compound", "-o", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("command", ["analyze", "classify", "reconstruct", "plot", "score"])
def test_what_the_system_refuses_is_said_in_words(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file and the reason: no number of an error, no traceback."""
    others = {"plot": ["-o", str(tmp_path / "x.png")], "score": [f"{TAHOE}.truth.csv.gz"]}.get(command, [])
    # analyze and classify take a folder for the captures in it.
    folder = "no capture in this folder" if command in ("analyze", "classify") else "Is a directory"
    for file, reason in ((tmp_path, folder), (tmp_path / "absent.pcap", "No such file or directory")):
        assert main([command, str(file), *others]) == 2
        assert capsys.readouterr().err == f"tcptrace-lab: {file}: {reason}\n"


def write(folder: Path, *names: str, interrupts: bool = False) -> None:
    """The files of a run, the last of them by a part of it that has files of its own."""
    with together():
        for name in names[:-1]:
            with replacing(folder / name) as temporary:
                temporary.write_text("whole")
        with together(), replacing(folder / names[-1]) as temporary:
            temporary.write_text("whole")
        if interrupts:
            raise KeyboardInterrupt


def test_of_the_files_of_a_run_there_are_all_or_none(tmp_path: Path) -> None:
    """Stopped behind the last: none has its name yet, and what had it before still stands."""
    (tmp_path / "a").write_text("before")
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, "a", "b", "c", interrupts=True)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("a", "before")]


def test_ctrl_c_while_they_take_their_names_is_heard_when_all_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.replace

    def interrupted(*words: Path) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        rename(*words)

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, "a", "b", "c")
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == dict.fromkeys("abc", "whole")


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        3,
        [{"name": 'é"\n', "none": None, "share": 1e-7, "flags": [True, False]}],
        {"empty": [], "lists": [[1, 2], []], "deep": {"x": [{"y": {}}], "z": 1e22}},
        ({"a": (1, 2.5)}, "b"),
    ],
)
def test_json_text_is_json_s_own(value: object) -> None:
    assert json_text(value) == json.dumps(value, indent=1, allow_nan=False)


def test_json_text_has_no_number_that_json_has_not() -> None:
    with pytest.raises(ValueError, match="JSON"):
        json_text([{"share": math.nan}])
