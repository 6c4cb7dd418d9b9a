"""Where commands print for people: the whole terminal, or plain lines where there is none."""

from __future__ import annotations

import os
import re
import sys
from typing import IO, Any, cast

from rich.console import Console

# A pipe has no width: a line is as long as its table. COLUMNS says otherwise.
UNBOUNDED = 10_000


def console(width: int = 110) -> Console:
    """The console on standard output; `width` in columns is that of running text in a pipe or a file.

    Nothing in what is printed is markup: an IPv6 address in brackets is no style, `::ab:` no picture.
    """
    given = os.environ.get("COLUMNS", "")
    columns = int(given) if given.isdigit() and int(given) > 0 else None
    if sys.stdout.isatty():
        return _Console(width=columns, highlight=False, markup=False, emoji=False)
    stream = cast(IO[str], _Unpadded(sys.stdout))
    return _Console(file=stream, width=columns or width, highlight=False, markup=False, emoji=False)


class _Console(Console):
    """Whose reader (head, less) may leave: the command line takes that for an end, rich for a failure (status 1)."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class _Unpadded:
    """Without the spaces that fill a table's lines: they mean nothing in a file."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        self.stream.write(re.sub(r" +(?=\n)", "", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
