"""Imports point downward only (the house in README.md, "Where things are")."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGE = ROOT / "tcptrace_lab"

# Each layer may import itself, those below it in this list, and the vocabulary (errors, version, core, scenario).
LAYERS = (
    ("cli", "__main__"),
    ("commands",),
    ("face",),
    ("corpus",),
    ("reproduce",),
    ("report",),
    ("replay",),
    ("classify",),
    ("reconstruct",),
    ("sweep", "testbed"),
    ("simulate", "simulate_to_files", "truth_tables"),
    ("capture",),
    ("flow", "source"),
    ("backends",),
    ("models",),
    ("scenario_file", "tables", "whole_files"),
    ("scenario", "controls", "errors", "numbers", "programs", "_version", "_core"),
)
RANK = {name: len(LAYERS) - row for row, names in enumerate(LAYERS) for name in names}


def sources() -> list[tuple[str, Path]]:
    """Every module of ours with the layer that it belongs to."""
    found = [(path.relative_to(PACKAGE).parts[0].removesuffix(".py"), path) for path in PACKAGE.rglob("*.py")]
    return [row for row in found if row[0] != "__init__"] + [
        ("models", path) for path in (ROOT / "models").rglob("*.py")
    ]


def run_time_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those that only type checkers read."""
    yield node
    is_for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    for child in node.orelse if is_for_types else ast.iter_child_nodes(node):
        yield from run_time_nodes(child)


def imported(path: Path) -> list[tuple[str, int]]:
    """The modules of ours that a file names in its imports, also inside functions, with the line."""
    rows = []
    for node in run_time_nodes(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            rows += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            rows += [(f"{node.module}.{alias.name}", node.lineno) for alias in node.names]
    return [(name, line) for name, line in rows if name.split(".")[0] == "tcptrace_lab"]


def layer_of(name: str) -> str | None:
    """The layer of an imported dotted name; None for the package's own face (tcptrace_lab.read)."""
    parts = name.split(".")
    if parts[1:2] == ["face"]:
        # What a connection's methods lend: it is looked for when one is called, and every room lies below it.
        return None
    return parts[1] if len(parts) > 1 and parts[1] in RANK else None


@pytest.mark.parametrize(("layer", "path"), sources(), ids=lambda value: str(value).rsplit("/", 1)[-1])
def test_imports_point_downward(layer: str, path: Path) -> None:
    """architecture: cli -> report -> classify -> reconstruct -> capture -> core."""
    assert layer in RANK, f"{path}: a new room; give it a place in LAYERS"
    for name, line in imported(path):
        target = layer_of(name)
        if target is not None:
            assert RANK[target] <= RANK[layer], f"{path}:{line}: {layer} imports {target}, which lies above it"


def test_models_know_only_the_path_vocabulary() -> None:
    """architecture: `models` imports nothing of ours but scenario's path vocabulary (and the errors).

    And the core where it counts packet by packet, in a room that knows no simulator.
    """
    for path in (ROOT / "models").rglob("*.py"):
        known = {"models", "scenario", "errors"} | ({"_core"} if path.stem == "initial_window_start" else set())
        for name, line in imported(path):
            assert layer_of(name) in known, f"{path}:{line}: {name}"
    for path in (ROOT / "core" / "src" / "models").glob("*.rs"):
        text = path.read_text(encoding="utf-8")
        assert set(re.findall(r"\bcrate::(\w+)", text)) <= {"recovery"}, path


@pytest.mark.parametrize("room", ["classify", "classify/control", "reconstruct"])
def test_the_folders_of_a_room_have_an_order(room: str) -> None:
    """No folder of a room is imported by one that it imports, and no file by one that it imports."""
    above = ["tcptrace_lab", *room.split("/")]
    folders: dict[str, set[str]] = {}
    files: dict[str, set[str]] = {}
    for path in (PACKAGE / room).rglob("*.py"):
        here = path.relative_to(PACKAGE / room).with_suffix("").parts
        found = {
            tuple(name.split(".")[len(above) : -1])
            for name, _ in imported(path)
            if name.split(".")[: len(above)] == above
        }
        files.setdefault("/".join(here), set()).update("/".join(one) for one in found)
        folders.setdefault(here[0], set()).update(one[0] for one in found if one)
    assert not circles({name: below for name, below in folders.items() if (PACKAGE / room / name).is_dir()})
    assert not circles(files)


@pytest.mark.parametrize("room", ["reconstruct", "classify", "core/src/infer/sender", "core/src/infer/candidates"])
def test_architecture_names_the_files_of_the_large_rooms(room: str) -> None:
    """ARCHITECTURE.md, "The large rooms, file by file": one that is new stands there, one that is gone does not."""
    rows = re.findall(r"^([\w/]*) +((?:\w+[,;]? )+) ", architecture().partition("file by file")[2], re.MULTILINE)
    named: dict[str, set[str]] = {}
    folder = ""
    for head, words in rows:
        folder = head or folder
        named.setdefault(folder, set()).update(re.findall(r"\w+", words))
    base = ROOT if room.startswith("core") else PACKAGE
    for place in {path.parent for path in (base / room).rglob("*.*") if path.suffix in {".py", ".rs"}}:
        files = {path.stem for path in place.iterdir() if path.suffix in {".py", ".rs"}} - {"__init__", "mod"}
        if (name := place.relative_to(base).as_posix()) in named:
            assert files == named[name], name
        else:
            assert name == "reconstruct/truth", f"ARCHITECTURE.md does not have {name}"


def architecture() -> str:
    return (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def test_only_the_report_draws() -> None:
    """architecture: report/ is the only importer of plotting libraries."""
    for layer, path in sources():
        for node in run_time_nodes(ast.parse(path.read_text(encoding="utf-8"))):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            for name in names:
                if name.split(".")[0] in {"matplotlib", "plotly", "tsdownsample"}:
                    assert layer in {"report", "reproduce"}, f"{path}:{node.lineno}: {name}"


def test_only_the_seam_knows_python() -> None:
    """architecture: core/src/python is the only folder that knows PyO3."""
    for path in (ROOT / "core" / "src").rglob("*.rs"):
        if "python" not in path.relative_to(ROOT / "core" / "src").parts:
            text = path.read_text(encoding="utf-8")
            assert "pyo3" not in text, f"{path}: knows PyO3"
            assert "use numpy" not in text, f"{path}: knows numpy"


def test_the_cores_rooms_have_an_order() -> None:
    """No folder of the core is imported by one that it imports, whatever lies between."""
    source = ROOT / "core" / "src"
    below: dict[str, set[str]] = {}
    for path in source.rglob("*.rs"):
        room = path.relative_to(source).parts[0].removesuffix(".rs")
        text = path.read_text(encoding="utf-8")
        below.setdefault(room, set()).update(re.findall(r"\bcrate::(\w+)", text))
    assert not circles(below)


def test_the_cores_files_have_an_order() -> None:
    """Nor is a file by one of its folder that it imports. What a folder's `mod.rs` says is its files' to use."""
    for folder in {path.parent for path in (ROOT / "core" / "src").rglob("mod.rs")}:
        files = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.rs") if path.stem != "mod"}
        assert not circles({name: set(siblings(text)) for name, text in files.items()}), folder


def test_the_cores_inner_folders_have_an_order() -> None:
    """Nor is a folder within a room, or within one of its folders, by one beside it that it imports."""
    source = ROOT / "core" / "src"
    for room in {path.parent.parent for path in source.rglob("*/*/mod.rs")}:
        name = "::".join(room.relative_to(source).parts)
        below: dict[str, set[str]] = {}
        for path in room.glob("*/**/*.rs"):
            inner = path.relative_to(room).parts[0]
            found = re.findall(rf"\bcrate::{name}::(\w+)", path.read_text(encoding="utf-8"))
            below.setdefault(inner, set()).update(found)
        assert not circles(below), room


def siblings(text: str) -> Iterator[str]:
    """The first names of what a Rust file imports from its own folder."""
    for path in re.findall(r"^use super::([^;]+);", text, re.MULTILINE):
        # Of `{a::{b, c}, d}` the names a and d.
        yield from re.findall(r"(?:^|,)\s*(\w+)", re.sub(r"::\{[^}]*\}", "", path.strip("{}")))


def circles(below: dict[str, set[str]]) -> dict[str, set[str]]:
    """What is left when the lowest is taken away again and again: those that lie below themselves."""
    below = {name: (found & below.keys()) - {name} for name, found in below.items()}
    while lowest := {name for name, found in below.items() if not found}:
        below = {name: found - lowest for name, found in below.items() if name not in lowest}
    return below
