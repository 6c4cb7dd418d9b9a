"""Under a final name stands the whole file, or what stood there before; of the files of one run all, or none."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from types import FrameType

from tcptrace_lab.errors import LabError, reason

# Files that are whole and wait for those of the same run: where each is, and its name.
_WAITING: ContextVar[list[tuple[Path, Path]] | None] = ContextVar("waiting", default=None)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file beside `path` that takes its name when the block ends well, and vanishes when it does not.

    A device or a pipe (/dev/stdout) has no name to take: it is written to directly.
    """
    # Not for those who write none: it takes a thirtieth of a command's start.
    import tempfile

    target = Path(path)
    if target.exists() and not target.is_file():
        if target.is_dir():
            raise LabError(f"{path}: Is a directory")
        try:
            yield target
        except OSError as error:
            raise LabError(f"{path}: {reason(error)}") from error
        return
    with contextlib.ExitStack() as stack:
        try:
            with _uninterrupted():
                # A name that nobody has put there before, as in a folder that others may write to.
                handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
                temporary = Path(name)
                stack.callback(temporary.unlink, missing_ok=True)
            os.fchmod(handle, _mode(target))
            os.close(handle)
            yield temporary
            # A full disk shows here at the latest, while the old file still stands.
            with open(temporary, "rb") as written:
                os.fsync(written.fileno())
            waiting = _WAITING.get()
            if waiting is None:
                os.replace(temporary, target)
            else:
                with _uninterrupted():
                    waiting.append((temporary, target))
                    stack.pop_all()
        except OSError as error:
            raise LabError(f"{path}: {reason(error)}") from error


@contextlib.contextmanager
def together() -> Iterator[None]:
    """What is written within the block takes its names when the block ends well: the files of a run, all or none."""
    if _WAITING.get() is not None:
        yield
        return
    waiting: list[tuple[Path, Path]] = []
    try:
        _WAITING.set(waiting)
        yield
        with _uninterrupted():
            for temporary, target in waiting:
                try:
                    os.replace(temporary, target)
                except OSError as error:
                    raise LabError(f"{target}: {reason(error)}") from error
    finally:
        with _uninterrupted():
            _WAITING.set(None)
            for temporary, _ in waiting:
                temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C within the block is heard at its end."""
    outside = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(outside):
        yield
        return
    heard: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda *words: heard.append(words))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, outside)
        if heard:
            outside(*heard[0])


def _mode(target: Path) -> int:
    """The rights that a file has, or that a new one would get."""
    if target.exists():
        return target.stat().st_mode & 0o7777
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask
