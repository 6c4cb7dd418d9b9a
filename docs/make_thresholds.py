"""Writes docs/thresholds.md: every number that decides a verdict, its unit and reason, and what depends on it.

    python docs/make_thresholds.py              reads the sources, classifies our own captures with each changed
    python docs/make_thresholds.py --list       the numbers and reasons only

A threshold is a constant of a module of classify/ or reconstruct/ (or of the core's infer/), in capitals, with the
comment above it; its unit is the end of its name. Each is halved and doubled; what changes are claims of the verdicts
on captures/*.pcap.gz, whose truth the recorder wrote: at their standing values they are held to it by the tests.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("classify", "reconstruct")
UNITS = {
    "NS": "ns",
    "S": "s",
    "BYTES": "bytes",
    "SHARE": "share",
    "SEGMENTS": "segments",
    "PACKETS": "packets",
    "ACKS": "ACKs",
    "PERCENTILE": "percentile",
    "HOPS": "hops",
    "RUNS": "runs",
    "LOSSES": "losses",
    "SAMPLES": "samples",
    "STAMPS": "stamps",
}
# Names of protocols and codes, not choices of ours.
GIVEN = {
    "UNKNOWN",
    "SYN",
    "SECOND_NS",
    "TIMESTAMP_BYTES",
    "ETHERNET_MSS",
    "DUP_THRESH",
    "SEQUENCE_SPACE",
    "IP_ID_SPACE",
}
GIVEN |= {"LARGEST_SHIFT", "CLOCK_ZERO_NS", "NONE", "ACK_BYTES"}


@dataclass(frozen=True)
class Threshold:
    """A constant: module (or Rust file), name, value, the comment above it."""

    module: str
    name: str
    value: float
    why: str

    @property
    def unit(self) -> str:
        return UNITS.get(self.name.rpartition("_")[2], "")


def of_python(path: Path) -> Iterator[Threshold]:
    """The numbers that a module begins with; a comment stands for all lines that follow it without one."""
    lines = path.read_text(encoding="utf-8").splitlines()
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for node in ast.parse("\n".join(lines)).body:
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)):
            continue
        name, value = node.targets[0].id, node.value
        if not (name.isupper() and isinstance(value, ast.Constant) and isinstance(value.value, int | float)):
            continue
        if name not in GIVEN:
            yield Threshold(module, name, value.value, _comment(lines, node.lineno - 2, "#"))


def of_rust(path: Path) -> Iterator[Threshold]:
    """The numbers of a file of the core."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        found = re.match(r"(?:pub(?:\(\w+\))? )?const ([A-Z_0-9]+): \w+ = (-?[0-9_.]+);", line)
        if found and found[1] not in GIVEN:
            value = float(found[2].replace("_", ""))
            yield Threshold(path.relative_to(ROOT).as_posix(), found[1], value, _comment(lines, number - 1, "///"))


def _comment(lines: list[str], above: int, sign: str) -> str:
    """The comment that ends on a line; past other constants of the same group."""
    while above >= 0 and re.match(r"(?:pub |const )?[A-Z_0-9]+\b.*=|(?:pub(?:\(\w+\))? )?const ", lines[above]):
        above -= 1
    words: list[str] = []
    while above >= 0 and lines[above].lstrip().startswith(sign):
        words.insert(0, lines[above].strip().lstrip("#/").strip())
        above -= 1
    return " ".join(words)


def thresholds() -> list[Threshold]:
    """All of them, by room and file."""
    python = [path for room in ROOMS for path in sorted((ROOT / "tcptrace_lab" / room).glob("*.py"))]
    rust = sorted((ROOT / "core" / "src" / "infer").glob("*.rs"))
    return [found for path in python for found in of_python(path)] + [found for path in rust for found in of_rust(path)]


def claims() -> dict[str, Any]:
    """What the verdicts on our own captures say, claim by claim."""
    from tcptrace_lab import classify

    found: dict[str, Any] = {}
    for path in sorted((ROOT / "captures").glob("*.pcap.gz")):
        for verdict in classify(path):
            plain = verdict.as_dict()
            key = f"{path.name.removesuffix('.pcap.gz')}/{plain['connection']}"
            names = ("bottleneck_bps", "base_rtt_s", "buffer_packets")
            values = {name: plain["path"][name]["value"] for name in names}
            limits = plain["limits"]
            found |= {
                f"{key} control": plain["sender_tcp"]["congestion_control"],
                f"{key} recovery": plain["sender_tcp"]["recovery"],
                f"{key} regime": plain["slow_starts"]["regime"],
                f"{key} initial window": plain["initial_window"]["segments"],
                f"{key} losses": plain["losses"]["total"],
                f"{key} limit": max(limits, key=limits.__getitem__) if limits else None,
                **{f"{key} {name}": value and float(f"{value:.2g}") for name, value in values.items()},
            }
    return found


def effect(threshold: Threshold, factor: float, standing: dict[str, Any]) -> list[str]:
    """The claims that change when a threshold is multiplied."""
    module: ModuleType = importlib.import_module(threshold.module)
    value = threshold.value * factor
    setattr(module, threshold.name, round(value) or 1 if isinstance(threshold.value, int) else value)
    try:
        changed = claims()
    except (ArithmeticError, ValueError, IndexError, KeyError) as error:
        return [f"fails: {type(error).__name__}"]
    finally:
        setattr(module, threshold.name, threshold.value)
    return [name for name in standing if changed.get(name) != standing[name]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    found = thresholds()
    lines = [
        "# Thresholds",
        "",
        "Written by `python docs/make_thresholds.py`; do not edit. Every number that decides a verdict. *Halved*,",
        "*doubled*: how many claims of the verdicts on our own captures change (control, recovery, regime,",
        "first window, losses, main limit, rate, round trip, buffer to two digits); those of the core are not varied.",
        "",
        "| where | name | value | unit | halved | doubled | why |",
        "|---|---|---:|---|---:|---:|---|",
    ]
    standing = {} if arguments.list else claims()
    moved: list[str] = []
    for one in found:
        cells = ["", ""]
        if not arguments.list and one.module.startswith("tcptrace_lab."):
            changes = [effect(one, factor, standing) for factor in (0.5, 2.0)]
            cells = [str(len(change)) for change in changes]
            for word, change in zip(("halved", "doubled"), changes, strict=True):
                if change:
                    moved.append(f"- `{one.name}` {word}: {', '.join(change[:4])}{', ...' if len(change) > 4 else ''}")
        where = one.module.removeprefix("tcptrace_lab.").removeprefix("core/src/")
        lines.append(f"| {where} | {one.name} | {one.value:g} | {one.unit} | {cells[0]} | {cells[1]} | {one.why} |")
    if not arguments.list:
        lines += ["", f"{len(standing)} claims in all. What moves:", "", *moved]
    (ROOT / "docs" / "thresholds.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(found)} thresholds, {sum(not one.why for one in found)} without a reason")
    return 0


if __name__ == "__main__":
    sys.exit(main())
