"""A scenario as TOML: read, overridden with `--set KEY=VALUE`, and refused with the key that is wrong.

Keys are the dataclasses' field names (tcptrace_lab/scenario.py). Three conveniences: `control` may be a name
("tahoe") or a table that starts from one (`name = "tahoe"`); `[control]`, `[receiver]` and `[application]` at the top
hold for every connection that does not say otherwise, and describe the only one where no `[[connections]]` stand;
`delayed_ack_segments` may stand under `receiver`, where people look for it.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path as FilePath

from tcptrace_lab.controls import PARAMETERS
from tcptrace_lab.errors import ScenarioError
from tcptrace_lab.scenario import CONTROLS, Application, Control, Receiver, Scenario

_PARTS = ("control", "receiver", "application")


def load(path: str | FilePath, *, overrides: Iterable[str] = ()) -> Scenario:
    """Read a scenario file; every override is "key=value" with a TOML value (`path.nodes.0.buffer=20`)."""
    table = table_of(path)
    try:
        return parse(table, overrides=overrides)
    except ScenarioError as error:
        raise ScenarioError(f"{path}: {error}") from error


def table_of(path: str | os.PathLike[str]) -> Mapping[str, object]:
    """A scenario file's TOML, not looked at yet."""
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: not TOML: {error}") from error


def parse(table: Mapping[str, object], *, overrides: Iterable[str] = ()) -> Scenario:
    """The scenario that a TOML table describes."""
    for override in overrides:
        table = set_key(table, *split_override(override))
    top = dict(table)
    common = {part: top.pop(part) for part in _PARTS if part in top}
    listed = top.get("connections", [{}])
    if not isinstance(listed, list | tuple):
        raise ScenarioError("connections: must be a list of tables ([[connections]])")
    for part in _PARTS:
        if part in common and listed and all(isinstance(row, Mapping) and part in row for row in listed):
            raise ScenarioError(f"{part}: every connection has its own, so this one is never used")
    top["connections"] = [_connection(row, common, f"connections.{i}") for i, row in enumerate(listed)]
    return typing.cast(Scenario, _build(Scenario, top, ""))


def split_override(override: str) -> tuple[str, object]:
    """The key and value of "key=value"; what is no TOML value is a string, so that quotes are not needed."""
    key, equals, text = override.partition("=")
    key, text = key.strip(), text.strip()
    if not equals or not key or not text:
        raise ScenarioError(f"--set {override}: must be KEY=VALUE, for example path.nodes.0.buffer=20")
    try:
        return key, tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return key, text


def set_key(table: Mapping[str, object], key: str, value: object) -> dict[str, object]:
    """A copy of the table with one dotted key set; tables on the way are made, list places must exist."""
    return typing.cast(dict[str, object], _set(table, key.split("."), value, ""))


def _set(node: object, words: list[str], value: object, at: str) -> object:
    if not words:
        return value
    word, rest = words[0], words[1:]
    here = f"{at}.{word}" if at else word
    if isinstance(node, str) and at.rpartition(".")[2] == "control":
        node = {"name": node}  # control = "tahoe", and now one field of it
    if isinstance(node, list):
        if not word.isdigit() or int(word) >= len(node):
            raise ScenarioError(f"{here}: must be a place in a list of {len(node)} (0 to {len(node) - 1})")
        return [_set(item, rest, value, here) if i == int(word) else item for i, item in enumerate(node)]
    if isinstance(node, Mapping):
        return {**node, word: _set(node.get(word, {}), rest, value, here)}
    raise ScenarioError(f"{here}: {at} is a single value, not a table")


def _connection(row: object, common: Mapping[str, object], at: str) -> dict[str, object]:
    if not isinstance(row, Mapping):
        raise ScenarioError(f"{at} = {row!r}: must be a table")
    merged = {**common, **row}
    control = _control(merged.get("control", {}), "control" if "control" not in row else f"{at}.control")
    receiver = merged.get("receiver", {})
    if isinstance(receiver, Mapping) and "delayed_ack_segments" in receiver:
        receiver = dict(receiver)
        segments = receiver.pop("delayed_ack_segments")
        if control.setdefault("delayed_ack_segments", segments) != segments:
            raise ScenarioError(f"{at}: receiver.delayed_ack_segments and control.delayed_ack_segments differ")
    # Built here, so that an error names the table in which the value stands.
    built = {
        "control": control,
        "receiver": receiver,
        "application": merged.get("application", {}),
    }
    kinds = {"control": Control, "receiver": Receiver, "application": Application}
    return {**merged, **{p: _build(kinds[p], built[p], f"{at}.{p}" if p in row else p) for p in _PARTS}}


def _control(given: object, at: str) -> dict[str, object]:
    """A control's fields: those of its name, then its own."""
    row = {"name": given} if isinstance(given, str) else given
    if not isinstance(row, Mapping):
        raise ScenarioError(f"{at} = {given!r}: must be a name or a table")
    fields = dict(row)
    # Parameters of the table that are no field of Control.
    others = [key for key in fields if key in PARAMETERS and key not in Control.__dataclass_fields__]
    if others:
        fields["parameters"] = [(key, _flag_or_number(fields.pop(key))) for key in others]
    name = fields.pop("name", None)
    if name is None:
        return fields
    if name not in CONTROLS:
        key = at if isinstance(given, str) else f"{at}.name"
        raise ScenarioError(f"{key} = {name!r}: must be one of {', '.join(CONTROLS)}{_nearest(str(name), CONTROLS)}")
    return {**CONTROLS[str(name)], **fields}


def _flag_or_number(value: object) -> object:
    """A flag of the table is 0 or 1."""
    return float(value) if isinstance(value, bool) else value


def _build(kind: type, given: object, at: str) -> object:
    """A dataclass from a table; the error of a field or of the class's own check is given the whole key."""
    if isinstance(given, kind):
        return given
    if not isinstance(given, Mapping):
        raise ScenarioError(f"{at} = {given!r}: must be a table")
    hints = typing.get_type_hints(kind)
    dot = f"{at}." if at else ""
    for key in given:
        if key not in hints:
            raise ScenarioError(f"{dot}{key}: unknown key{_nearest(key, hints)}")
    values = {key: _value(hints[key], value, f"{dot}{key}") for key, value in given.items()}
    for field in dataclasses.fields(kind):
        wanted = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if wanted and field.name not in values:
            raise ScenarioError(f"{dot}{field.name}: missing")
    try:
        return kind(**values)
    except ScenarioError as error:
        raise ScenarioError(f"{dot}{error}") from error


def _value(hint: object, value: object, at: str) -> object:
    """One field's value, as the type hint wants it."""
    if dataclasses.is_dataclass(hint):
        return _build(typing.cast(type, hint), value, at)
    if typing.get_origin(hint) is tuple:
        return _tuple(typing.get_args(hint), value, at)
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if hint is int and isinstance(value, int | float) and not isinstance(value, bool):
        if math.isfinite(value) and value == int(value):
            return int(value)
        raise ScenarioError(f"{at} = {value!r}: must be a whole number")
    if isinstance(hint, type) and isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value
    name = hint.__name__ if isinstance(hint, type) else str(hint)
    raise ScenarioError(f"{at} = {value!r}: must be a {_HUMAN.get(name, name)}")


_HUMAN = {"float": "number", "int": "whole number", "str": "string", "bool": "boolean (true or false)"}


def _tuple(items: tuple[object, ...], value: object, at: str) -> tuple[object, ...]:
    if not isinstance(value, list | tuple):
        raise ScenarioError(f"{at} = {value!r}: must be a list")
    if len(items) == 2 and isinstance(items[1], types.EllipsisType):
        return tuple(_value(items[0], item, f"{at}.{i}") for i, item in enumerate(value))
    if len(value) != len(items):
        raise ScenarioError(f"{at} = {value!r}: must be a list of {len(items)}")
    return tuple(_value(hint, item, f"{at}.{i}") for i, (hint, item) in enumerate(zip(items, value, strict=True)))


def _nearest(key: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(key, list(known), n=1, cutoff=0.5)
    return f" (did you mean {near[0]}?)" if near else ""


def scenario_table(scenario: Scenario) -> dict[str, object]:
    """A scenario as the table that a TOML file of it would be."""
    return {key: _listed(value) for key, value in dataclasses.asdict(scenario).items()}


def _listed(value: object) -> object:
    if isinstance(value, (list, tuple)):
        return [_listed(item) for item in value]
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    return value
