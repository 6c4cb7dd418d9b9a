"""Writes docs/thresholds.md: every number that decides a claim, its unit and reason, and what depends on it.

    python docs/make_thresholds.py              reads the sources, classifies captures with each changed (two hours)
    python docs/make_thresholds.py --list       names, values and reasons only; what was measured before is kept
    python docs/make_thresholds.py --only WORD  measures those whose file or name has the word; the others are kept
    python docs/make_thresholds.py --missing    measures those that are new, or have another value than when measured

A threshold of classify/ or reconstruct/ is a constant of its module, in capitals, under the comment that gives its
reason; one of the core is a `threshold!` (core/src/threshold.rs), which has its unit, too. Each is halved and doubled,
the core's in a build of its own that can vary them (feature `vary`). What is counted are claims of the verdicts on our
own captures, whose truth the recorder wrote, and on worse versions of them as taps, clocks and cards make them.
"""

from __future__ import annotations

import argparse
import ast
import functools
import importlib
import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "thresholds.md"
ROOMS = ("classify", "reconstruct")
# A constant's unit is the end of its name ...
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
    "FACTOR": "factor",
    "ROUNDS": "round trips",
    "STEPS": "steps",
    "PIECES": "pieces",
    "HALVES": "halves of a round trip",
}
# ... or, where the name says more than that, one of these.
NAMED_UNITS = {
    "share": "MAJORITY MINORITY SURE EXPLAINED IDLE_LOAD MOST_OPEN BIN "
    "RATE_TOLERANCE LAW_KNOWN MATHIS_LOSS PARTLY WITHIN_RWND STARTS_WITHIN",
    "packets": "MOST_HOLES MOST_MISSING PACKETS_PER_STEP",
    "segments": "INITIAL_WINDOW LONGEST_CYCLE AROUND TOGETHER AMONG FEW_TOGETHER MOST_LOOKED_AT",
    "deviations": "CLEAR_OF_NOISE PARTED TIED",
    "factor": "SWELLS UNEVEN MOST_FLIGHTS PER_BLUR SCATTERED SLOWED GOODPUT_SLACK SPAN_RESOLUTIONS PROMPT_PARTS "
    "LONGER MOST_INTERVALS MODE_BINS",
    "exponent": "TAIL",
    "log odds": "MOST_PER_PIECE",
    "count": "MOST_RELEASED FEWEST_ALIKE NEAREST FEWEST_SCREENED WHOLE_CYCLES FEWEST_UNFIT FEWEST_CLEAR MOST "
    "MOST_NAMES MOST_PLACES SHOWN_LIMITS MANY_CONNECTIONS FEWEST_TICKS TICKS_PER_ROUND FEWEST_CALM FEW_TICKS "
    "IDLE_TICKS FEWEST_KNOWN FEWEST_CYCLES "
    "PER_ROUND TICK_SAMPLE ANSWERS FEW_GROUPS COUNTS_STEP PARTS "
    "LATEST_TURNS MOST_KINDS MOST_CYCLES TRIED_RATES COARSE_CENTS MOST_GAPS FEWEST_JUDGED PAUSE_TICKS AROUND_TICKS "
    "HALVINGS BISECTIONS",
}
UNIT_OF = {name: unit for unit, names in NAMED_UNITS.items() for name in names.split()}
# Not a part of 1: how many times as much, or as many pieces.
NO_SHARE = {
    ("classify.control.bbr.by_rate", "LEAST_SHARE"): "factor",
    ("classify.path.rate", "LONGEST_SHARE"): "pieces",
}
# Names of protocols and codes, not choices of ours.
GIVEN = {
    "UNKNOWN",
    "SYN",
    "SECOND_NS",
    "MICROSECOND_NS",
    "TIMESTAMP_BYTES",
    "ETHERNET_MSS",
    "FULL_ETHERNET_MSS",
    "DUP_THRESH",
    "SEQUENCE_SPACE",
    "IP_ID_SPACE",
}
GIVEN |= {
    "ECE",
    "CWR",
    "MISSING",
    "LARGEST_SHIFT",
    "CLOCK_ZERO_NS",
    "NONE",
    "ACK_BYTES",
    "RTT0_NS",
    "CENTS",
    "SIXTEENTHS",
}
# Runs of which each kind of the degrader makes one worse, in turn.
WORSE = ("reno_timeout", "reno_loss", "tahoe_small_buffer", "cubic_v6_two_nodes.receiver")


@dataclass(frozen=True)
class Threshold:
    """A row: where it stands, name, value, unit, the comment above it, the functions that read it."""

    where: str
    name: str
    value: float
    unit: str
    why: str
    read_by: tuple[str, ...] = ()

    @property
    def place(self) -> tuple[str, str, str]:
        """What it was measured as."""
        return (self.where, self.name, f"{self.value:g}")

    @property
    def is_core(self) -> bool:
        return self.where.endswith(".rs")

    def changed(self, factor: float) -> float:
        """Halved or doubled; of a share above one half the distance to the whole is doubled or halved."""
        whole = {"share": 1.0, "percentile": 100.0}.get(self.unit)
        if whole is not None and self.value > whole / 2:
            return whole - min((whole - self.value) / factor, whole)
        value = self.value * factor
        return max(round(value), 1) if isinstance(self.value, int) else value


def of_python(path: Path) -> Iterator[Threshold]:
    """The numbers that a module begins with; a comment stands for all lines that follow it without one."""
    lines = path.read_text(encoding="utf-8").splitlines()
    tree = ast.parse("\n".join(lines))
    where = ".".join(path.relative_to(ROOT / "tcptrace_lab").with_suffix("").parts)
    for node in tree.body:
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)):
            continue
        name, value = node.targets[0].id, node.value
        if not (name.isupper() and isinstance(value, ast.Constant) and isinstance(value.value, int | float)):
            continue
        if name not in GIVEN:
            unit = NO_SHARE.get((where, name)) or UNIT_OF.get(name) or UNITS.get(name.rpartition("_")[2], "")
            why = _comment(lines, node.lineno - 2, "#")
            yield Threshold(where, name, value.value, unit, why, tuple(_readers(tree, name)))


def of_rust(path: Path) -> Iterator[Threshold]:
    """The thresholds of a file of the core."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        found = re.match(r"threshold!\((?:pub(?:\(\w+\))? )?([A-Z_0-9]+): (\w+) = ([0-9_.]+), (\w+)\);", line)
        if found and found[1] not in GIVEN:
            plain = found[3].replace("_", "")
            value = float(plain) if found[2] == "f64" else int(plain)
            unit = {"Nanoseconds": "ns", "Acks": "ACKs"}.get(found[4], found[4].lower())
            where = path.relative_to(ROOT / "core" / "src").as_posix()
            yield Threshold(where, found[1], value, unit, _comment(lines, number - 1, "//"))


def _comment(lines: list[str], above: int, sign: str) -> str:
    """The comment that ends on a line; past other constants of the same group."""
    while above >= 0 and re.match(r"(?:pub |const )?[A-Z_0-9]+\b.*=|threshold!\(", lines[above]):
        above -= 1
    words: list[str] = []
    while above >= 0 and lines[above].lstrip().startswith(sign):
        words.insert(0, lines[above].strip().lstrip("#/").strip())
        above -= 1
    return " ".join(words)


def _readers(tree: ast.Module, name: str) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and any(
            isinstance(part, ast.Name) and part.id == name for part in ast.walk(node)
        ):
            yield node.name


def thresholds() -> list[Threshold]:
    """All of them, by room and file; Python's, then the core's."""
    python = [path for room in ROOMS for path in sorted((ROOT / "tcptrace_lab" / room).rglob("*.py"))]
    rust = sorted((ROOT / "core" / "src").rglob("*.rs"))
    return [found for path in python for found in of_python(path)] + [found for path in rust for found in of_rust(path)]


def load_varying_core() -> ModuleType:
    """The extension module built with the feature `vary`, in the place of the installed one."""
    folder = ROOT / "core" / "target" / "vary"
    words = ["cargo", "build", "--quiet", "--locked", "--release", "--features", "python,vary", "--target-dir", folder]
    subprocess.run([str(word) for word in words], cwd=ROOT / "core", check=True)
    spec = importlib.util.spec_from_file_location("tcptrace_lab._core", folder / "release" / "libtcptrace_core.so")
    assert spec is not None
    assert spec.loader is not None
    core = importlib.util.module_from_spec(spec)
    sys.modules["tcptrace_lab._core"] = core
    spec.loader.exec_module(core)
    return core


@functools.cache
def captures() -> tuple[tuple[str, Path], ...]:
    """Ours, and the worse ones (in a temporary folder that lives as long as the process)."""
    sys.path.insert(0, str(ROOT))
    from tests.degrade import KINDS, degrade, read_packets, write_packets

    found = [(path.name.removesuffix(".pcap.gz"), path) for path in sorted((ROOT / "captures").glob("*.pcap.gz"))]
    folder = tempfile.TemporaryDirectory(prefix="thresholds")
    captures.folder = folder  # type: ignore[attr-defined]
    runs = {run: read_packets(ROOT / "captures" / f"{run}.pcap.gz") for run in WORSE}
    for i, kind in enumerate(KINDS):
        run = WORSE[i % len(WORSE)]
        path = Path(folder.name) / f"{i}.pcap"
        write_packets(path, *degrade(*runs[run], kind=kind, seed=1))
        found.append((f"{run}, {kind}", path))
    return tuple(found)


def claims() -> dict[str, Any]:
    """What the verdicts say, claim by claim."""
    from tcptrace_lab import classify

    found: dict[str, Any] = {}
    for name, path in captures():
        for verdict in classify(path):
            plain = verdict.as_dict()
            key, limits, sender = f"{name}/{plain['connection']}", plain["limits"], plain["sender_tcp"]
            values = {word: plain["path"][word]["value"] for word in ("bottleneck_bps", "base_rtt_s", "buffer_packets")}
            found |= {
                f"{key} control": sender["congestion_control"],
                f"{key} refuted": sorted(one["name"] for one in sender["candidates"] if one["against"]),
                f"{key} recovery": sender["recovery"],
                f"{key} vantage": plain["vantage"],
                f"{key} regime": plain["slow_starts"]["regime"],
                f"{key} slow starts": plain["slow_starts"]["per_cycle"],
                f"{key} initial window": plain["initial_window"]["segments"],
                f"{key} losses": plain["losses"]["total"],
                f"{key} causes": plain["losses"]["by_cause"],
                f"{key} limit": max(limits, key=limits.__getitem__) if limits else None,
                f"{key} agreement": plain["agreement"],
                **{f"{key} {word}": value and float(f"{value:.2g}") for word, value in values.items()},
            }
    return found


def readers_of(threshold: Threshold) -> Iterator[ModuleType]:
    """The module of a threshold of Python, and those that import it from there."""
    own = f"tcptrace_lab.{threshold.where}"
    yield importlib.import_module(own)
    for name, module in list(sys.modules.items()):
        if name.startswith("tcptrace_lab.") and str(module.__file__).endswith(".py"):
            tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
            imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == own)
            if any(alias.name == threshold.name for node in imports for alias in node.names):
                yield module


def effect(threshold: Threshold, factor: float, standing: dict[str, Any], core: ModuleType) -> list[str]:
    """The claims that change when a threshold does."""
    if threshold.is_core:
        name = f"tcptrace_core::{threshold.where.removesuffix('.rs').replace('/', '::')}::{threshold.name}"
        core.vary_threshold(name, threshold.changed(factor) / threshold.value)
        undo = core.vary_threshold
    else:
        readers = list(readers_of(threshold))
        for module in readers:
            setattr(module, threshold.name, threshold.changed(factor))

        def undo() -> None:
            for module in readers:
                setattr(module, threshold.name, threshold.value)

    try:
        changed = claims()
    except (ArithmeticError, ValueError, IndexError, KeyError) as error:
        return [f"no verdict at all ({type(error).__name__})"]
    finally:
        undo()
    return [name for name in standing if changed.get(name) != standing[name]]


def measured_before() -> dict[tuple[str, str, str], tuple[str, str, str]]:
    """By file, name and value: the cells that an earlier run measured."""
    found = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines() if PAGE.exists() else ():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 9 and "/" in cells[5]:
            found[cells[0], cells[1], cells[2]] = (cells[5], cells[6], cells[7])
    return found


HEAD = """# Thresholds

Written by `python docs/make_thresholds.py`; do not edit. Every number that decides a claim, of Python (`classify.*`,
`reconstruct.*`) and of the core (`*.rs`). *Halved*, *doubled*: how many claims of the verdicts change, of how many: on
our own captures and on a worse version of them of each kind that the degrader of the tests has (control, what is
refuted, recovery, vantage, regime, slow starts, first window, losses and their causes, main limit, agreement; rate,
round trip and buffer to two digits); where fewer were asked, with fewer worse versions. Of a share above one half,
what it lacks to the whole is doubled (halved). *Moves*: the first of those claims. What moves none here is a guard
against captures worse than these, or a limit of work.

| where | name | value | unit | read by | halved | doubled | moves | why |
|---|---|---:|---|---|---:|---:|---|---|
"""


def write(found: list[Threshold], measured: dict[tuple[str, str, str], tuple[str, str, str]]) -> None:
    """The page."""
    lines, halves = [], []
    for one in found:
        cells = measured.get(one.place, ("", "", ""))
        halves += [cells[:2]] if cells[0] else []
        lines.append(f"| {' | '.join((*one.place, one.unit, ', '.join(one.read_by), *cells, one.why))} |")
    idle = sum(all(cell.startswith("0/") for cell in pair) for pair in halves)
    told = f"{idle} of the {len(halves)} measured move nothing here; {len(found) - len(halves)} are not measured yet."
    PAGE.write_text(HEAD + "\n".join([*lines, "", told]) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="measure nothing")
    parser.add_argument("--missing", action="store_true", help="measure what was not measured before")
    parser.add_argument("--only", metavar="WORD", help="measure those whose file or name has this word")
    arguments = parser.parse_args()
    found, before = thresholds(), measured_before()
    core, standing = None, {}
    if not arguments.list:
        core = load_varying_core()
        standing = claims()
    write(found, before)
    for one in found if core is not None else ():
        is_asked = arguments.only is None or arguments.only in f"{one.where} {one.name}"
        if is_asked and not (arguments.missing and one.place in before):
            changes = [effect(one, factor, standing, core) for factor in (0.5, 2.0)]
            first = list(dict.fromkeys(name for change in changes for name in change))[:3]
            halved, doubled = (f"{len(change)}/{len(standing)}" for change in changes)
            before[one.place] = (halved, doubled, "; ".join(first))
            print(*one.place, *before[one.place], sep="  ", flush=True)
            # A run takes long: what it has measured stays when it is stopped.
            write(found, before)
    print(f"{len(found)} thresholds; without a reason {sum(not one.why for one in found)}, without a unit "
          f"{sum(not one.unit for one in found)}")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
