"""What a capture is read from, as a file: a path, a pipe, standard input, a file object."""

from __future__ import annotations

import os
import stat
from typing import IO, Any

Source = str | os.PathLike[str] | IO[bytes] | Any


class SourceFile:
    """A source as a file that can be read as often as needed, and the name that stands for it.

    Standard input, pipes and file objects are copied to a temporary file, not to memory, however long they are; it goes
    when the capture does.
    """

    def __init__(self, source: Source) -> None:
        if isinstance(source, (str, os.PathLike)) and os.fspath(source) != "-":
            self.path = self.name = os.fspath(source)
            # A pipe gives its bytes once: a second pass would wait for ever.
            if _is_pipe(self.path):
                with open(self.path, "rb") as pipe:
                    self._spool(pipe)
            return
        if isinstance(source, (str, os.PathLike)):
            import sys

            stream: Any = sys.stdin.buffer
            self.name = "standard input"
        else:
            stream = source
            self.name = str(getattr(source, "name", "") or "file object")
        if not hasattr(stream, "read"):
            raise ValueError(f"cannot read a {type(source).__name__}; wanted a path or a binary file object")
        self._spool(stream)

    def _spool(self, stream: Any) -> None:
        import shutil
        import tempfile

        # It lives as long as this object, and no shorter.
        self._copy = tempfile.NamedTemporaryFile(prefix="tcptrace-lab-")  # noqa: SIM115
        self.path = self._copy.name
        try:
            shutil.copyfileobj(stream, self._copy, 1 << 20)
        except TypeError:
            raise ValueError(f"{self.name}: opened as text; a capture is read in binary mode") from None
        self._copy.flush()


def _is_pipe(path: str) -> bool:
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:
        # The reader says what is wrong with it.
        return False
