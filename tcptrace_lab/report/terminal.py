"""Where commands print for people: the whole terminal, or plain lines of a fixed width where there is none."""

from __future__ import annotations

import re
import sys
from typing import IO, Any, cast

from rich.console import Console


def console(width: int = 110) -> Console:
    """The console on standard output; `width` in columns is that of a pipe or a file."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(file=cast(IO[str], _Unpadded(sys.stdout)), width=width, highlight=False)


class _Unpadded:
    """Without the spaces that fill a table's lines: they mean nothing in a file."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        self.stream.write(re.sub(r" +(?=\n)", "", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
