"""Regenerate a paper's tables and figures beside the published numbers.

Tables go to standard output and, as text and CSV, with the figures (PNG, SVG), into a folder. ns-2's columns are
from the checkout's own runs of it (tests/data/ns2), or from --oracles; the simulator's are computed here.

    $ tcptrace-lab reproduce
    000  small_buffers   Barakat & Altman 1998: one, two or three slow starts per cycle (small buffers)
    001  initial_window  RFC 2416: four packets into three buffers
    ...
    $ tcptrace-lab reproduce 001 -o rfc2416
    When ACKs come to the sender, s

    start  event            printed  model     ns-2      simulator  model, 1024 B  agrees  remark
    ...
        1  duplicate ACK 6  6.111    6.611260  6.611260  6.611260   6.751520           no
    misprint: an ACK before + 0.833 is 6.611
    ...
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import sys
from collections.abc import Callable, Iterator
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
    folder = Path(arguments.output or Path("reproduced") / name)
    if not arguments.json:
        # A folder that cannot be is told before the minutes of work, not after them.
        folder.mkdir(parents=True, exist_ok=True)
    with _status(f"reproducing {name}") as tell:
        sources = Sources(oracles=find_oracles(arguments.oracles), simulate=not arguments.no_simulate, tell=tell)
        found = importlib.import_module(f"tcptrace_lab.reproduce.{name}").reproduce(sources)
        if arguments.json:
            print(json.dumps(found.as_dict(), indent=1, allow_nan=False))
            return 0
        files = write(found, folder, formats=() if arguments.no_figures else ("png", "svg"))
    for table in found.tables:
        print(table.text())
    for note in (*found.notes, sources.note()):
        print(note)
    print(f"{len(files)} files in {folder}")
    return 0


@contextlib.contextmanager
def _status(what: str) -> Iterator[Callable[[str], None] | None]:
    """A line on stderr that says what is going on, where it is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status(what) as status:
        yield lambda text: status.update(f"{what}: {text}")


def _module(given: str, papers: tuple[tuple[str, str, str], ...]) -> str:
    for number, name, _ in papers:
        if given in (number, name):
            return name
    known = ", ".join(f"{number} ({name})" for number, name, _ in papers)
    raise LabError(f"{given}: no such paper; known are {known}")
