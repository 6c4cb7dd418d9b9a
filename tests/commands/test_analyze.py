"""`tcptrace-lab analyze`: tables out, one line and exit 2 for what cannot be read."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tcptrace_lab.cli import main
from tests.conftest import ROOT, shared

TWO = ROOT / "captures" / "two_reno.pcap.gz"


def test_json_and_files_hold_the_same_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = str(TWO)
    assert main(["analyze", "--json", capture]) == 0
    (document,) = json.loads(capsys.readouterr().out)
    assert main(["analyze", "-o", str(tmp_path / "t.csv"), capture]) == 0
    assert main(["analyze", "-o", str(tmp_path / "t.parquet"), capture]) == 0
    assert main(["analyze", "-o", str(tmp_path / "t.json"), capture]) == 0
    csv, parquet = pd.read_csv(tmp_path / "t.csv"), pd.read_parquet(tmp_path / "t.parquet")
    assert list(csv.columns) == list(parquet.columns) == ["file", *document["connections"][0]]
    assert len(csv) == len(parquet) == len(document["connections"]) == 2
    assert csv["bytes"].tolist() == [row["bytes"] for row in document["connections"]]
    assert json.loads((tmp_path / "t.json").read_text()) == [document]
    assert capsys.readouterr().out == ""


def test_filter_chooses_connections_in_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    capture = str(TWO)
    assert main(["analyze", "--json", "--filter", "port==5002 and bytes>4e5", capture]) == 0
    (document,) = json.loads(capsys.readouterr().out)
    assert [row["id"] for row in document["connections"]] == [1]
    assert main(["analyze", "--filter", "port==5002 and bytes>4e5", capture]) == 0
    assert "1 of 2 TCP connections" in capsys.readouterr().out


@pytest.mark.parametrize("expression", ["bytess > 1", "port = 1", "port ==", "__import__('os')", "bytes > 'x", ""])
def test_bad_filter_is_one_line_and_exit_2(expression: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", "x.pcap", "--filter", expression]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("tcptrace-lab: filter: ")
    assert err.count("\n") == 1


def test_unreadable_file_is_told_and_the_others_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.pcap"
    bad.write_bytes(b"nothing")
    good = str(TWO)
    assert main(["analyze", str(bad), good]) == 2
    out, err = capsys.readouterr()
    assert "10813440" in out
    assert "bad.pcap" in err
    assert err.count("\n") == 1


def test_truncated_capture_is_marked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = gzip.decompress(TWO.read_bytes())
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(whole[:100_000])
    assert main(["analyze", str(cut)]) == 0
    assert "truncated at byte" in capsys.readouterr().out
    assert main(["analyze", "--json", str(cut)]) == 0
    (document,) = json.loads(capsys.readouterr().out)
    assert 0 < document["truncated"]["offset"] < 100_000


def test_standard_input_is_a_capture() -> None:
    command = [sys.executable, "-m", "tcptrace_lab", "analyze", "--json", "-"]
    with TWO.open("rb") as stream:
        done = subprocess.run(command, stdin=stream, capture_output=True, check=True)
    assert json.loads(done.stdout)[0]["connections"][0]["unique_bytes_client"] == 10813440


@pytest.mark.parametrize(
    ("words", "unneeded"),
    [(["--json"], "numpy pandas rich json"), ([], "pandas pyarrow matplotlib scapy pyshark")],
)
def test_analyze_imports_only_what_it_needs(words: list[str], unneeded: str) -> None:
    code = (
        "import sys; from tcptrace_lab.cli import main; main(['analyze', *sys.argv[2:]]);"
        "sys.exit(any(m in sys.modules for m in sys.argv[1].split()))"
    )
    command = [sys.executable, "-c", code, unneeded, *words, str(TWO)]
    assert subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 0


def test_json_goes_to_a_stream_of_text_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook's standard output has no bytes."""
    text = io.StringIO()
    monkeypatch.setattr(sys, "stdout", text)
    capture = str(ROOT / "captures" / "short_reno.pcap.gz")
    assert main(["analyze", "--json", capture]) == 0
    assert json.loads(text.getvalue())[0]["packets"] == 132


@pytest.mark.slow
def test_every_file_gives_a_result_or_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    folder = shared("captures", "public")
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    assert len(files) > 100
    for path in files:
        status = main(["analyze", "--json", str(path)])
        out, err = capsys.readouterr()
        assert status in (0, 2), path
        if status == 0:
            assert json.loads(out)
        else:
            assert err.count("\n") == 1, path
