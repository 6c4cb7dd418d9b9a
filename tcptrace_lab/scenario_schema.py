"""A scenario's keys as JSON Schema (draft 2020-12), made from what reads them: editors complete and check TOML by it.

Types, defaults and names come from the dataclasses of scenario.py, controls and their parameters from the core's table;
`x-profiles` says which profiles read a key. Ranges that depend on other keys are checked when a scenario is read.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from typing import Any

from tcptrace_lab.controls import CONTROLS, PARAMETERS, SLOW_STARTS, WINDOWS
from tcptrace_lab.scenario import APPLICATIONS, PROFILES, QUEUES, RECOVERIES, Scenario

_NAMES: dict[tuple[str, str], typing.Iterable[str]] = {
    ("Control", "slow_start"): SLOW_STARTS,
    ("Control", "window"): WINDOWS,
    ("Control", "recovery"): RECOVERIES,
    ("Application", "kind"): APPLICATIONS,
    ("Scenario", "profile"): PROFILES,
    ("Node", "buffer_unit"): ("packets", "bytes"),
    ("Node", "queue"): QUEUES,
}
_PLAIN = {float: {"type": "number"}, int: {"type": "integer"}, str: {"type": "string"}, bool: {"type": "boolean"}}


def schema() -> dict[str, Any]:
    """The schema of a scenario file."""
    definitions: dict[str, Any] = {}
    top = _table(Scenario, definitions)
    control = definitions["Control"]
    control["properties"] |= {
        "name": {"enum": sorted(CONTROLS), "description": "a row of the table of controls; other keys change it"},
        **{name: _parameter(name) for name in PARAMETERS},
    }
    control["properties"].pop("parameters")
    named = {"anyOf": [{"enum": sorted(CONTROLS)}, {"$ref": "#/$defs/Control"}]}
    definitions["Connection"]["properties"]["control"] = named
    definitions["Receiver"]["properties"]["delayed_ack_segments"] = {"enum": [1, 2]}
    # What stands at the top holds for every connection that does not say otherwise.
    top["properties"] |= {
        "control": named,
        "receiver": {"$ref": "#/$defs/Receiver"},
        "application": {"$ref": "#/$defs/Application"},
    }
    top["required"] = [name for name in top["required"] if name != "connections"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A scenario of tcptrace_lab",
        **top,
        "$defs": dict(sorted(definitions.items())),
    }


def _parameter(name: str) -> dict[str, Any]:
    row = PARAMETERS[name]
    found: dict[str, Any] = {
        "description": f"{row.what} ({row.unit})" if row.unit else row.what,
        "default": row.default,
    }
    if isinstance(row.default, bool):
        return {"type": "boolean", **found, "x-profiles": list(row.profiles)}
    bounds = {"minimum": row.low, "maximum": row.high}
    finite = {key: value for key, value in bounds.items() if math.isfinite(value)}
    return {"type": "number", **finite, **found, "x-profiles": list(row.profiles)}


def _table(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    """A dataclass as an object; those within it go to the definitions."""
    hints = typing.get_type_hints(kind)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for field in dataclasses.fields(kind):
        found = dict(_value(hints[field.name], definitions))
        if (kind.__name__, field.name) in _NAMES:
            found = {"enum": list(_NAMES[kind.__name__, field.name])}
        if field.default is not dataclasses.MISSING:
            if not (isinstance(field.default, float) and math.isinf(field.default)):
                found["default"] = field.default
        elif field.default_factory is dataclasses.MISSING:
            required.append(field.name)
        if profile := field.metadata.get("profile"):
            found["x-profiles"] = [profile]
        properties[field.name] = found
    words = (kind.__doc__ or "").strip()
    return {
        "type": "object",
        "description": " ".join(words.split()),
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _value(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if dataclasses.is_dataclass(hint):
        name = typing.cast(type, hint).__name__
        if name not in definitions:
            definitions[name] = {}
            definitions[name] = _table(typing.cast(type, hint), definitions)
        return {"$ref": f"#/$defs/{name}"}
    if typing.get_origin(hint) is tuple:
        items = typing.get_args(hint)
        if len(items) == 2 and isinstance(items[1], types.EllipsisType):
            return {"type": "array", "items": _value(items[0], definitions)}
        return {"type": "array", "prefixItems": [_value(item, definitions) for item in items], "items": False}
    return _PLAIN[hint]
