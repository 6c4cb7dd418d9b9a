"""The schema that editors complete scenarios from: shipped scenarios fit it, what the reader refuses does not."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import math
import tomllib
import typing
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tcptrace_lab import scenario
from tcptrace_lab.cli import main
from tcptrace_lab.controls import PARAMETERS
from tcptrace_lab.errors import ScenarioError
from tcptrace_lab.scenario import SCHEMA
from tcptrace_lab.scenario_file import load, parse, scenario_table
from tests.conftest import ROOT

SCENARIOS = sorted((ROOT / "captures" / "scenarios").glob("**/*.toml"))
PLAIN: dict[str, Any] = {"path": {"nodes": [{"rate_bps": 1e6}]}, "duration_s": 1.0}
PARTS = [*SCHEMA["$defs"], "Scenario"]
# What a file may say and a `Scenario` says otherwise: a control's name, what holds for all connections.
CONVENIENCES = {
    "ControlSpec": {"name"},
    "ReceiverSpec": {"delayed_ack_segments"},
    "Scenario": {"control", "receiver", "application"},
}
JSON_TYPES = {"number": float, "integer": int, "boolean": bool, "string": str}


def table_of(part: str) -> dict[str, Any]:
    found: dict[str, Any] = SCHEMA if part == "Scenario" else SCHEMA["$defs"][part]
    return found


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_shipped_scenario_fits_the_schema(path: Path) -> None:
    jsonschema.validate(tomllib.loads(path.read_text()), SCHEMA)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_normal_form_fits_the_schema_too(path: Path) -> None:
    jsonschema.validate(scenario_table(load(path)), SCHEMA)


@pytest.mark.parametrize("part", PARTS)
def test_python_s_fields_are_the_schema_s_keys(part: str) -> None:
    kind = getattr(scenario, part)
    own = {row.name for row in dataclasses.fields(kind)} - {"parameters"}
    keys = set(table_of(part)["properties"]) - CONVENIENCES.get(part, set())
    if part == "ControlSpec":
        assert own <= keys
        assert keys - own <= set(PARAMETERS), "a key that is no parameter of the table needs a field"
    else:
        assert own == keys


@pytest.mark.parametrize("part", PARTS)
def test_python_s_types_are_the_schema_s(part: str) -> None:
    hints = typing.get_type_hints(getattr(scenario, part))
    hints.pop("parameters", None)
    for key, hint in hints.items():
        row = table_of(part)["properties"][key]
        if "type" not in row:
            named = row.get("$ref") or row["anyOf"][1]["$ref"]
            assert named == f"#/$defs/{hint.__name__}"
        elif row["type"] == "array":
            assert typing.get_origin(hint) is tuple
        else:
            assert JSON_TYPES[row["type"]] is hint, key


@pytest.mark.parametrize("part", PARTS)
def test_every_key_has_words_and_every_number_a_range(part: str) -> None:
    for key, row in table_of(part)["properties"].items():
        assert row.get("description") or "$ref" in row, key
        if row.get("type") in ("number", "integer"):
            assert {"minimum", "exclusiveMinimum"} & set(row), key


def test_defaults_are_python_s() -> None:
    node = scenario.NodeSpec(rate_bps=1e6)
    assert (node.buffer, node.drop_packets, node.buffer_unit) == (math.inf, (), "packets")
    assert scenario.ControlSpec().window == "reno"
    assert scenario.ControlSpec().gamma == PARAMETERS["gamma"].default
    assert isinstance(scenario.RtoSpec().max_s, float)


@pytest.mark.parametrize(
    "more",
    [
        {"durations": 3},
        {"profile": "ns3"},
        {"control": "renoo"},
        {"control": {"window": "qubic"}},
        {"control": {"prr": 1}},
        {"path": {"nodes": [{"rate": 1e6}]}},
        {"path": {"nodes": [{"rate_bps": 0}]}},
        {"path": {"nodes": []}},
        {"application": {"kind": "bulky"}},
        {"taps": "sender"},
        {"taps": ["sender", "sender"]},
        {"receiver": {"delayed_ack_timer_s": 0.6}},
        {"connections": []},
        {"duration_s": 1e9},
    ],
    ids=str,
)
def test_what_the_reader_refuses_the_schema_refuses(more: dict[str, Any]) -> None:
    with pytest.raises(ScenarioError):
        parse({**PLAIN, **more})
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**PLAIN, **more}, SCHEMA)


FOREIGN = [
    ({"control": {"prr": True}}, "control.prr = true"),
    ({"control": {"rack": False}}, "control.rack = false"),
    ({"receiver": {"rwnd": 1 << 30}}, "receiver.rwnd = 1073741824"),
    ({"control": {"name": "reno", "kernel_hz": 250}}, "control.kernel_hz = 250"),
    ({"connections": [{"jitter_s": 0}]}, "connections.0.jitter_s = 0"),
    ({"connections": [{"control": {"impatient": False}}]}, "connections.0.control.impatient = false"),
]


@pytest.mark.parametrize(("more", "words"), FOREIGN, ids=str)
def test_a_key_that_the_profile_does_not_read_is_refused_even_at_its_default(more: dict[str, Any], words: str) -> None:
    """An ns2 scenario with `prr`, `rack` or `rwnd` would say what no agent of ns-2 does."""
    with pytest.raises(ScenarioError) as caught:
        parse({**PLAIN, **more, "profile": "ns2"})
    assert str(caught.value) == f"{words}: must be absent in profile ns2, which does not read it"


def test_what_holds_itself_is_refused_not_followed() -> None:
    table: dict[str, Any] = dict(PLAIN)
    table["path"] = table
    with pytest.raises((ScenarioError, RecursionError)):
        parse(table)


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--schema"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["$defs"]["ControlSpec"]["properties"]["prr"]["x-profiles"] == ["rfc"]
    assert "vegas" in found["$defs"]["ControlSpec"]["properties"]["name"]["enum"]
    assert main(["simulate"]) == 2


def test_the_page_of_keys_is_the_schema_s() -> None:
    """docs/make_scenario.py writes it."""
    spec = importlib.util.spec_from_file_location("make_scenario", ROOT / "docs" / "make_scenario.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert (ROOT / "docs" / "scenario.md").read_text(encoding="utf-8") == script.page()
