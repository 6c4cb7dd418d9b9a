"""A scenario as TOML: read, overridden with `--set KEY=VALUE`, and refused with the key that is wrong.

What a file may say is the core's schema (core/src/scenario), and so are its conveniences: `control` may be a name
("tahoe") or a table that starts from one (`name = "tahoe"`); `[control]`, `[receiver]` and `[application]` at the top
hold for every connection that does not say otherwise, and describe the only one where no `[[connections]]` stand;
`delayed_ack_segments` may stand under `receiver`, where people look for it.
"""

from __future__ import annotations

import dataclasses
import os
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path as FilePath
from typing import Any

from tcptrace_lab import _core
from tcptrace_lab.controls import CONTROLS, PARAMETERS, SLOW_STARTS, WINDOWS
from tcptrace_lab.errors import ScenarioError
from tcptrace_lab.scenario import Scenario, plain


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
    return typing.cast(Scenario, _built(Scenario, _core.scenario_table(plain(table))))


def split_override(override: str) -> tuple[str, object]:
    """The key and value of "key=value"; what is no TOML value is a string, so that quotes are not needed."""
    key, equals, text = override.partition("=")
    key, text = key.strip(), text.strip()
    if not equals or not key or not text:
        raise ScenarioError(f"{override}: must be KEY=VALUE, for example path.nodes.0.buffer=20")
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
        found = {**node, word: _set(node.get(word, {}), rest, value, here)}
        is_another = at.rpartition(".")[2] == "control" and word in ("name", "slow_start", "window")
        return _with_own_parameters(found) if is_another else found
    raise ScenarioError(f"{here}: {at} is a single value, not a table")


def _with_own_parameters(control: Mapping[str, object]) -> dict[str, object]:
    """A control's table without the parameters of the one that stood there before: a gamma goes with its Compound."""
    named = {**CONTROLS.get(str(control.get("name", "")), {}), **control}
    rows = (SLOW_STARTS.get(str(named.get("slow_start"))), WINDOWS.get(str(named.get("window"))))
    known = {parameter.name for row in rows if row is not None for parameter in row.parameters}
    return {key: value for key, value in control.items() if key not in PARAMETERS or key in known}


def _built(kind: type, table: Mapping[str, Any]) -> Any:
    """A part from its normal form. A control's keys that are no fields are parameters of its slow start and window."""
    hints = typing.get_type_hints(kind)
    values = {key: _typed(hints[key], value) for key, value in table.items() if key in hints}
    others = tuple((key, float(value)) for key, value in table.items() if key not in hints)
    return kind(**values, **({"parameters": others} if others else {}))


def _typed(hint: Any, value: Any) -> Any:
    if dataclasses.is_dataclass(hint):
        return _built(typing.cast(type, hint), value)
    if typing.get_origin(hint) is tuple:
        items = typing.get_args(hint)
        is_list = len(items) == 2 and isinstance(items[1], types.EllipsisType)
        hints = [items[0]] * len(value) if is_list else items
        return tuple(_typed(item, part) for item, part in zip(hints, value, strict=True))
    return value


def scenario_table(scenario: Scenario) -> dict[str, Any]:
    """A scenario as the table that a TOML file of it would be, every value said that its profile reads."""
    return _core.scenario_table(plain(scenario))
