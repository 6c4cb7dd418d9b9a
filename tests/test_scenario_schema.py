"""The schema that editors complete scenarios from: shipped scenarios fit it, what the reader refuses does not."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tcptrace_lab.cli import main
from tcptrace_lab.errors import ScenarioError
from tcptrace_lab.scenario_file import parse
from tcptrace_lab.scenario_schema import schema
from tests.conftest import ROOT

SCENARIOS = sorted((ROOT / "captures" / "scenarios").glob("*.toml"))
PLAIN: dict[str, Any] = {"path": {"nodes": [{"rate_bps": 1e6}]}, "duration_s": 1.0}


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_shipped_scenario_fits_the_schema(path: Path) -> None:
    jsonschema.validate(tomllib.loads(path.read_text()), schema())


@pytest.mark.parametrize(
    "more",
    [
        {"durations": 3},
        {"profile": "ns3"},
        {"control": "renoo"},
        {"control": {"window": "qubic"}},
        {"control": {"prr": 1}},
        {"path": {"nodes": [{"rate": 1e6}]}},
        {"application": {"kind": "bulky"}},
        {"taps": "sender"},
    ],
    ids=str,
)
def test_what_the_reader_refuses_the_schema_refuses(more: dict[str, Any]) -> None:
    with pytest.raises(ScenarioError):
        parse({**PLAIN, **more})
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**PLAIN, **more}, schema())


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--schema"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["$defs"]["Control"]["properties"]["prr"]["x-profiles"] == ["rfc"]
    assert "vegas" in found["$defs"]["Control"]["properties"]["name"]["enum"]
    assert main(["simulate"]) == 2
