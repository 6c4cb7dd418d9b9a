"""Regenerate a paper's tables and figures beside the published numbers."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path

from tcptrace_lab.errors import LabError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The paper, the folder, the sources."""
    parser.add_argument("paper", nargs="?", metavar="PAPER", help="000 to 004, or a name; without one: the list")
    parser.add_argument(
        "-o", "--output", metavar="DIR", help="folder for tables and figures (default: reproduced/NAME)"
    )
    parser.add_argument("--oracles", metavar="DIR", help="folder of ns-2 reference data (default: the one found)")
    parser.add_argument("--no-simulate", action="store_true", help="do not run the simulator: leave its columns empty")
    parser.add_argument("--no-figures", action="store_true", help="tables only")
    parser.add_argument("--json", action="store_true", help="tables as JSON on standard output, no files")


def run(arguments: argparse.Namespace) -> int:
    """Reproduce one paper, or list them all."""
    from tcptrace_lab.reproduce import PAPERS, Sources
    from tcptrace_lab.reproduce.paper import find_oracles, write

    if arguments.paper is None:
        if arguments.json:
            print(json.dumps([{"paper": number, "name": name, "title": title} for number, name, title in PAPERS]))
        else:
            for number, name, title in PAPERS:
                print(f"{number}  {name:<16}{title}")
        return 0
    name = _module(arguments.paper, PAPERS)
    sources = Sources(oracles=find_oracles(arguments.oracles), simulate=not arguments.no_simulate)
    if not arguments.json and sys.stderr.isatty():
        print(f"reproducing {name} ...", file=sys.stderr)
    found = importlib.import_module(f"tcptrace_lab.reproduce.{name}").reproduce(sources)
    if arguments.json:
        print(json.dumps(found.as_dict(), indent=1, allow_nan=False))
        return 0
    for table in found.tables:
        print(table.text())
    for note in (*found.notes, sources.note()):
        print(note)
    folder = Path(arguments.output or Path("reproduced") / name)
    files = write(found, folder, formats=() if arguments.no_figures else ("png", "svg"))
    print(f"{len(files)} files in {folder}")
    return 0


def _module(given: str, papers: tuple[tuple[str, str, str], ...]) -> str:
    for number, name, _ in papers:
        if given in (number, name):
            return name
    known = ", ".join(f"{number} ({name})" for number, name, _ in papers)
    raise LabError(f"{given}: no such paper; known are {known}")
