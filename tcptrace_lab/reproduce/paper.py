"""What a reproduction is made of: tables, figures, and the sources beside which ours are put."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tcptrace_lab.errors import LabError

if TYPE_CHECKING:
    import matplotlib.figure

    from tcptrace_lab.simulate import Run

Row = tuple[object, ...]

# Our own runs of ns-2.35 in a checkout; an installed package has none.
ORACLES = Path(__file__).parents[2] / "tests" / "data" / "ns2"


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under columns; `name` is the file's stem. None is an empty cell (unknown, or not printed)."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def text(self) -> str:
        """Aligned text: numbers to the right, words to the left."""
        cells = [[_cell(value) for value in row] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(self.columns, *cells, strict=True)]
        is_number = [
            all(isinstance(row[i], int | float) or row[i] is None for row in self.rows) and bool(self.rows)
            for i in range(len(self.columns))
        ]
        lines = [self.title, ""]
        for line in [list(self.columns), ["-" * width for width in widths], *cells]:
            padded = [
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(line, widths, is_number, strict=True)
            ]
            lines.append("  ".join(padded).rstrip())
        return "\n".join([*lines, *([""] if self.notes else []), *self.notes]) + "\n"

    def csv(self) -> str:
        """Comma-separated values with a header line."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([_cell(value) for value in row] for row in self.rows)
        return out.getvalue()

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        rows = [dict(zip(self.columns, (_json(value) for value in row), strict=True)) for row in self.rows]
        return {"name": self.name, "title": self.title, "rows": rows, "notes": list(self.notes)}


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A picture: `draw` fills an empty matplotlib figure of `size` inches."""

    name: str
    title: str
    draw: Callable[[matplotlib.figure.Figure], None]
    size: tuple[float, float] = (8.0, 4.8)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One number (or word) that the paper prints, what follows from its rules, and why they differ where they do."""

    where: str
    what: str
    printed: object
    ours: object
    agrees: bool
    why: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {name: _json(value) for name, value in vars(self).items()}


def compared(table: Table, *, where: str = "where", what: str = "what", ours: str = "ours") -> tuple[Comparison, ...]:
    """The rows of a table of printed numbers (columns "printed", "agrees", perhaps "remark"), one by one."""
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return tuple(
        Comparison(
            where=str(row.get(where, "")),
            what=str(row[what]),
            printed=row["printed"],
            ours=row[ours],
            agrees=bool(row["agrees"]),
            why="" if row["agrees"] else str(row.get("remark", "")),
        )
        for row in rows
    )


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """A paper's tables and figures; `notes` say what was compared and what could not be.

    `printed`: every printed number that is compared, once.
    """

    paper: str
    title: str
    tables: tuple[Table, ...] = ()
    printed: tuple[Comparison, ...] = ()
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the tables' numbers, the figures' names."""
        return {
            "paper": self.paper,
            "title": self.title,
            "tables": [table.as_dict() for table in self.tables],
            "printed": [one.as_dict() for one in self.printed],
            "figures": [{"name": figure.name, "title": figure.title} for figure in self.figures],
            "notes": list(self.notes),
        }


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where comparisons come from: a folder of ns-2 data (None: absent) and the simulator (if `simulate`).

    `tell` hears before each simulation what is going on.
    """

    oracles: Path | None = None
    simulate: bool = True
    tell: Callable[[str], None] | None = None
    _read: dict[str, list[dict[str, str]]] = field(default_factory=dict, repr=False, compare=False)

    def rows(self, name: str, **wanted: object) -> list[dict[str, str]]:
        """The rows of an ns-2 CSV (also gzipped) whose columns have the wanted values; none where data is absent."""
        if self.oracles is None:
            return []
        if name not in self._read:
            self._read[name] = _load(self.oracles, name)
        return [row for row in self._read[name] if all(row[key] == str(value) for key, value in wanted.items())]

    def sweep(self, table: Mapping[str, Any], key: str, values: Iterable[object]) -> list[dict[str, Any]]:
        """The simulator's summary (`Run.summary`) for each value of a key, in order; none where it is not to run."""
        if not self.simulate:
            return []
        from tcptrace_lab.sweep import Over, sweep

        self._say(table, f"over {key}")
        frame = sweep(table, [Over(key=key, values=tuple(values))])
        return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]

    def run(self, table: Mapping[str, Any], *overrides: str) -> Run | None:
        """One simulated run of a scenario table; None where the simulator is not to run."""
        if not self.simulate:
            return None
        from tcptrace_lab.scenario_file import parse
        from tcptrace_lab.simulate import simulate

        self._say(table, ", ".join(overrides))
        return simulate(parse(table, overrides=overrides))

    def windows(self, table: Mapping[str, Any], *overrides: str) -> tuple[Any, Any] | None:
        """Seconds and cwnd in packets of one simulated run."""
        run = self.run(table, *overrides)
        if run is None:
            return None
        rows = run.windows
        return rows["time_ns"] / 1e9, rows["cwnd"] / rows["smss"]

    def _say(self, table: Mapping[str, Any], what: str) -> None:
        if self.tell is not None:
            self.tell(f"simulating {table.get('title', '')} {what}".rstrip())

    def _place(self) -> str:
        empty = sorted(name for name, rows in self._read.items() if not rows)
        own = "tests/data/ns2, our own runs" if self.oracles == ORACLES else str(self.oracles)
        return own + (f"; none of {', '.join(empty)}: columns empty" if empty else "")

    def note(self) -> str:
        """One line that says which comparisons are there."""
        ns2 = f"ns-2: {self._place()}" if self.oracles else "ns-2: no runs of it found (--oracles DIR), columns empty"
        return ns2 + ("" if self.simulate else "; simulator: not run (--no-simulate), columns empty")


def find_oracles(given: str | None) -> Path | None:
    """The folder of ns-2 data: the one given (which must exist), or the checkout's own runs."""
    if given is not None:
        folder = Path(given)
        if not folder.is_dir():
            raise LabError(f"--oracles {given}: no such folder")
        return folder
    return ORACLES if ORACLES.is_dir() else None


def write(found: Reproduction, folder: Path, *, formats: Sequence[str] = ("png", "svg")) -> list[Path]:
    """Tables as .txt and .csv, figures in `formats`, everything as .json; the files written."""
    folder.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    for table in found.tables:
        files += [_save(folder / f"{table.name}.txt", table.text()), _save(folder / f"{table.name}.csv", table.csv())]
    files.append(_save(folder / "reproduction.json", json.dumps(found.as_dict(), indent=1, allow_nan=False) + "\n"))
    for figure in found.figures:
        files += _picture(figure, folder, formats)
    return files


def _picture(figure: Figure, folder: Path, formats: Sequence[str]) -> list[Path]:
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    # A fixed salt: the same figure is the same SVG, byte for byte.
    with mpl.rc_context({"svg.hashsalt": figure.name, "font.size": 9, "axes.grid": True, "grid.alpha": 0.3}):
        canvas = Canvas(figsize=figure.size, layout="constrained")
        figure.draw(canvas)
        canvas.suptitle(figure.title, fontsize=10)
        files = []
        for suffix in formats:
            path = folder / f"{figure.name}.{suffix}"
            canvas.savefig(path, dpi=120, metadata={"Date": None} if suffix == "svg" else None)
            files.append(path)
    return files


def _save(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def _load(folder: Path, name: str) -> list[dict[str, str]]:
    plain, packed = folder / name, folder / f"{name}.gz"
    if packed.exists():
        with gzip.open(packed, "rt", encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    if not plain.exists():
        if (folder / "MANIFEST.json").exists():
            # Our own runs are of some figures only: the others' columns stay empty.
            return []
        raise LabError(f"{plain}: not there; is {folder} the folder of ns-2 data?")
    with open(plain, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _json(value: object) -> object:
    """numpy scalars to Python, NaN to null."""
    item = getattr(value, "item", None)
    plain = item() if callable(item) else value
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain


def _cell(value: object) -> str:
    plain = _json(value)
    if plain is None:
        return ""
    if isinstance(plain, bool):
        return "yes" if plain else "no"
    return f"{plain:.6g}" if isinstance(plain, float) else str(plain)


def simulated_slow_starts(row: Mapping[str, Any]) -> int | None:
    """Slow starts per full cycle of a simulated run; None without a full cycle or where cycles differ."""
    text = str(row["slow_starts_per_cycle"])
    return int(text) if text.isdigit() else None
