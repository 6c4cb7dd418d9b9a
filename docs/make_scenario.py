"""Writes docs/scenario.md: every key of a scenario file, from the schema that reads it (core/src/scenario).

python docs/make_scenario.py
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tcptrace_lab.controls import PARAMETERS, SLOW_STARTS, WINDOWS
from tcptrace_lab.scenario import SCHEMA

PAGE = Path(__file__).resolve().parent / "scenario.md"
# Part and the place in a file where it stands.
TABLES = (
    ("Scenario", "At the top"),
    ("PathSpec", "`[path]`"),
    ("NodeSpec", "`[[path.nodes]]`, `[[path.reverse]]`"),
    ("ConnectionSpec", "`[[connections]]`"),
    ("ControlSpec", "`[control]`, or of one connection"),
    ("RtoSpec", "`[control.rto]`"),
    ("ReceiverSpec", "`[receiver]`, or of one connection"),
    ("ApplicationSpec", "`[application]`, or of one connection"),
)
HEAD = """# Scenario files

Written by docs/make_scenario.py from the schema of the core.

A scenario is a TOML file (`captures/scenarios/` has many). An unknown key is refused with the nearest known one; so is
a key that the scenario's profile does not read. Editors complete and check the file by the same schema:
`tcptrace-lab simulate --schema > scenario.schema.json`, and as the file's first line `#:schema scenario.schema.json`.

`control` may be the name of a row of [the controls' table](controls.md), or a table that starts from one
(`name = "tahoe"`). `[control]`, `[receiver]` and `[application]` at the top hold for every connection that does not say
otherwise, and describe the only one where no `[[connections]]` stand.
"""


def page() -> str:
    """The page's text."""
    lines = [HEAD]
    for part, place in TABLES:
        table: dict[str, Any] = SCHEMA if part == "Scenario" else SCHEMA["$defs"][part]
        lines += [f"## {place}", ""]
        if part != "Scenario":
            lines += [table["description"], ""]
        lines += ["| key | default | may be | unit | profile | what it is |", "|---|---|---|---|---|---|"]
        lines += list(_rows(part, table))
        lines.append("")
    return "\n".join(lines)


def _rows(part: str, table: dict[str, Any]) -> Iterator[str]:
    needed = table.get("required", [])
    for key in sorted(table["properties"], key=lambda key: (key not in needed, key)):
        row = table["properties"][key]
        profiles = row.get("x-profiles", [])
        cells = (
            f"`{key}`",
            "needed" if key in needed else _default(row),
            _range(row),
            row.get("x-unit", ""),
            profiles[0] if len(profiles) == 1 else "",
            f"{_words(row)}{_owners(key) if part == 'ControlSpec' else ''}".replace("|", "\\|"),
        )
        yield f"| {' | '.join(cells)} |"


def _words(row: dict[str, Any]) -> str:
    """What a key is; of a table that stands apart, what that is."""
    named: str = row.get("$ref", "")
    words: str = row.get("description") or SCHEMA["$defs"][named.rpartition("/")[2]]["description"]
    return words


def _default(row: dict[str, Any]) -> str:
    if "x-default" in row:
        return str(row["x-default"])
    value = row.get("default")
    return "" if value is None or isinstance(value, list) else f"{value:g}" if _is_number(value) else str(value).lower()


def _range(row: dict[str, Any]) -> str:
    """What a value may be, in words."""
    if "enum" in row:
        return "a name" if len(row["enum"]) > 6 else ", ".join(row["enum"])
    kind = row.get("type")
    if kind not in ("number", "integer"):
        return {"boolean": "true, false", "array": "a list", "string": "text"}.get(str(kind), "a table")
    signs = (("minimum", ">="), ("exclusiveMinimum", ">"), ("maximum", "<="), ("exclusiveMaximum", "<"))
    bounds = [f"{sign} {row[name]:g}" for name, sign in signs if name in row and row[name] < 1e300]
    return ("whole, " if kind == "integer" or "x-whole-up-to" in row else "") + " and ".join(bounds)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _owners(key: str) -> str:
    """For a parameter: whose it is."""
    if key not in PARAMETERS:
        return ""
    rows = (*SLOW_STARTS.values(), *WINDOWS.values())
    names = [row.name for row in rows if any(one.name == key for one in row.parameters)]
    return f" (of {', '.join(names)})"


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    PAGE.write_text(page(), encoding="utf-8")
