"""What users expect of a command line: many files at once, words for numbers, documented columns, a build to name."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tcptrace_lab import numbers
from tcptrace_lab.cli import COMMANDS, main
from tests.conftest import ROOT

CAPTURES = ROOT / "captures"
SHORT = CAPTURES / "short_reno.pcap.gz"


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_folder_a_pattern_and_a_ring_are_their_captures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Numbered files come in the order of their numbers."""
    for name in ("ring.pcap0.gz", "ring.pcap10.gz", "ring.pcap2.gz", "notes.txt"):
        shutil.copy(SHORT, tmp_path / name)
    for words in ([str(tmp_path)], [str(tmp_path / "ring*")]):
        assert main(["analyze", "--json", *words]) == 0
        names = [Path(capture["file"]).name for capture in json.loads(capsys.readouterr().out)]
        assert names == ["ring.pcap0.gz", "ring.pcap2.gz", "ring.pcap10.gz"]
    assert main(["analyze", str(tmp_path / "none*.pcap")]) == 2
    (tmp_path / "empty").mkdir()
    assert main(["analyze", str(tmp_path / "empty")]) == 2


def test_json_lines_are_the_rows_of_the_table_and_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    two = str(CAPTURES / "two_reno.pcap.gz")
    assert main(["analyze", "--json", two]) == 0
    (capture,) = json.loads(capsys.readouterr().out)
    assert main(["analyze", "--json-lines", two]) == 0
    *rows, summary = lines(capsys)
    assert [{**row, "file": two} for row in capture["connections"]] == rows
    assert summary["packets"] == capture["packets"]
    assert main(["analyze", "--json-lines", "--filter", "tcp.port == 5002", two]) == 0
    assert [row["port"] for row in lines(capsys)[:-1]] == [5002]


def test_json_goes_to_standard_output_and_the_table_to_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "t.csv"
    assert main(["analyze", "--json", "-o", str(out), str(SHORT)]) == 0
    assert json.loads(capsys.readouterr().out)[0]["packets"] == 132
    assert out.read_text().startswith("file,id,client,")


@pytest.mark.parametrize("command", ["classify", "reconstruct"])
def test_standard_input_has_one_name_and_an_ipv6_end_its_brackets(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """RFC 5952 section 6, in every command."""
    with (CAPTURES / "cubic_v6_two_nodes.receiver.pcap.gz").open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert main([command, "-"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("standard input")
    assert "[fd09:2::1]:5001" in told


def test_version_names_the_build(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(["--version"])
    assert done.value.code == 0
    assert "rustc" in capsys.readouterr().out


def test_every_column_of_the_table_is_documented(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["columns", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert main(["analyze", "--json", str(SHORT)]) == 0
    (capture,) = json.loads(capsys.readouterr().out)
    assert [row["column"] for row in told] == list(capture["connections"][0])
    assert all(row["holds"] for row in told)
    assert {row["unit"] for row in told if "_ns" in row["column"]} == {"ns"}
    assert main(["columns", "no_such_word"]) == 2


def test_an_option_that_a_command_lacks_is_told_by_that_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(["reconstruct", str(SHORT), "-c", "9"])
    assert done.value.code == 2
    told = "tcptrace-lab reconstruct: unrecognized arguments: -c 9 (see tcptrace-lab reconstruct --help)"
    assert capsys.readouterr().err.strip() == told


@pytest.mark.parametrize("shell", ["bash", "zsh", "man"])
def test_completion_and_manual_know_the_commands_arguments(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out.replace("\\-", "-")
    assert "--json-lines" in text
    assert "reconstruct" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0 s"),
        (12.4e-6, "12.4 us"),
        (0.0412, "41.2 ms"),
        (8.0, "8.0 s"),
        (14.336, "14.3 s"),
        (200.0, "3 min 20 s"),
    ],
)
def test_times_as_people_write_them(value: float, text: str) -> None:
    assert numbers.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(35.3e9, "35.3 Gbit/s"), (999.7, "1.00 kbit/s"), (950.0, "950 bit/s"), (None, "-"), (0.0, "0 bit/s")],
)
def test_rates_as_people_write_them(value: float | None, text: str) -> None:
    assert numbers.rate(value) == text


def test_without_words_the_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    said = capsys.readouterr().out
    assert all(f"\n    {name}" in said for name in COMMANDS)


@pytest.mark.parametrize(("word", "near"), [("analyse", "; did you mean analyze?"), ("frobnicate", "")])
def test_an_unknown_command_is_told_with_the_nearest(word: str, near: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([word, "x.pcap"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"tcptrace-lab: no command {word!r}{near} (see tcptrace-lab --help)\n"


def test_a_reader_that_leaves_is_no_answer() -> None:
    """`tcptrace-lab analyze ... | head -1`: 1 is for a capture that says "no"."""
    words = [sys.executable, "-m", "tcptrace_lab", "analyze", *[str(SHORT)] * 40]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 0
        assert process.stderr.read() == b""


@pytest.mark.parametrize("told", [KeyboardInterrupt(), None])
def test_an_interrupt_while_a_library_is_loaded_is_an_interrupt(
    told: BaseException | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library in C says that it could not be initialized; a library that is broken still says so."""

    def loads(_: object) -> int:
        raise ImportError("initialization failed") from told

    monkeypatch.setattr("tcptrace_lab.commands.columns.run", loads)
    if told is None:
        with pytest.raises(ImportError):
            main(["columns"])
    else:
        assert main(["columns"]) == 130
