"""predict and reproduce: what a reader types, and what he gets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tcptrace_lab.models import ALL

from tcptrace_lab.cli import main
from tcptrace_lab.reproduce import PAPERS, Table
from tests.conftest import ROOT, SHARED

SCENARIOS = ROOT / "captures" / "scenarios"
ORACLES = SHARED / "oracles" / "ns2"


def test_predict_prints_regime_margin_and_what_decided(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(SCENARIOS / "small_buffers_B20.toml")]) == 0
    out = capsys.readouterr().out
    assert "small_buffers: triple (margin 8.7%)" in out
    assert "eq. 10 holds" in out
    assert "mathis does not apply: the path loses no packet at random" in out


def test_predict_json_names_every_model_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", "--json", str(SCENARIOS / "reno_loss.toml")]) == 0
    found = json.loads(capsys.readouterr().out)
    asked = [row["model"] for row in found["predictions"] + found["not_applicable"]]
    assert sorted(asked) == sorted(model.name for model in ALL)
    assert "mathis" in [row["model"] for row in found["predictions"]]
    assert all(row["reasons"] for row in found["not_applicable"])


def test_predict_takes_overrides_and_one_model(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(SCENARIOS / "small_buffers_B20.toml")
    assert main(["predict", "--json", "--model", "small_buffers", "--set", "path.nodes.0.buffer=22", file]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["predictions"]
    assert (answer["model"], answer["regime"]) == ("small_buffers", "double")
    assert answer["inputs"]["buffer"] == {"value": 22.0, "unit": "packets", "equation": ""}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["predict", "nowhere.toml"], "nowhere.toml"),
        (["predict", str(SCENARIOS / "reno_loss.toml"), "--model", "psychic"], "known are small_buffers"),
        (["reproduce", "005"], "known are 000 (small_buffers)"),
        (["reproduce", "000", "--oracles", "/nowhere"], "--oracles /nowhere: no such folder"),
    ],
)
def test_what_a_user_can_mend_is_one_line_and_status_2(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_without_a_paper_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [[number, name] for number, name, _ in PAPERS]


@pytest.mark.parametrize("paper", [number for number, *_ in PAPERS])
@pytest.mark.slow
def test_every_paper_is_reproduced_without_ns2_and_simulator(
    paper: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The models alone: tables and figures are all there, the columns of others are empty."""
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", paper, "--no-simulate", "-o", "out"]) == 0
    said = capsys.readouterr().out
    assert "columns empty" in said
    found = json.loads((tmp_path / "out" / "reproduction.json").read_text())
    for table in found["tables"]:
        assert table["rows"]
        assert (tmp_path / "out" / f"{table['name']}.csv").read_text().count("\n") >= len(table["rows"]) + 1
    for figure in found["figures"]:
        for suffix in ("png", "svg"):
            assert (tmp_path / "out" / f"{figure['name']}.{suffix}").stat().st_size > 2000


@pytest.mark.parametrize("paper", ["000", "001", "002", "003", "004"])
def test_printed_tables_say_where_ours_differ(paper: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What does not agree is in models/ERRATA.md; all else does."""
    oracles = ["--oracles", str(ORACLES)] if ORACLES.is_dir() else []
    assert main(["reproduce", paper, "--no-simulate", "--json", *oracles]) == 0
    tables = json.loads(capsys.readouterr().out)["tables"]
    rows = [row for table in tables for row in table["rows"] if "agrees" in row]
    assert rows
    differ = [str(row.get("event") or row["what"]) for row in rows if not row["agrees"]]
    known = {
        "000": [],
        "001": [
            "duplicate ACK 6",
            "three 1024-byte packets at 9600 b/s, s",
            "four-packet start ahead by, s",
            "... as a share of a packet's time",
        ],
        "002": [
            "T of 4 x 10^6 m at 2 x 10^8 m/s, ms",
            "time to the epoch point reduced to, %",
            "the same from Table 4's last averages, %",
            "traditional saturation, packets",
            "M-Start saturation, packets",
            "the same, first window 2, zero step, 249 places",
        ],
        "003": [
            "to case 2 at Mb/s, gamma = 30",
            "to case 4 at Mb/s, gamma = 30",
            "to case 2 at Mb/s, gamma = 30",
        ],
        "004": [],
    }
    assert differ == known[paper]


def test_a_table_is_aligned_and_empty_where_nothing_is_known() -> None:
    table = Table(name="t", title="T", columns=("n", "word"), rows=((1.5, "a"), (None, "bc"), (200, None)))
    assert table.text() == "T\n\n  n  word\n---  ----\n1.5  a\n     bc\n200\n"
    assert table.csv() == "n,word\n1.5,a\n,bc\n200,\n"
    assert table.as_dict()["rows"][2] == {"n": 200, "word": None}
