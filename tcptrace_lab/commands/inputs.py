"""The captures that a command line names: files, folders, patterns; and what is said of a cut one."""

from __future__ import annotations

import contextlib
import glob
import importlib
import os
import re
import sys
import threading
from collections.abc import Iterator

from tcptrace_lab.errors import LabError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tcptrace_lab.capture import Capture

# What a folder is searched for: also the numbered files of a ring (tcpdump -W, dumpcap -b), also compressed.
CAPTURE_NAME = re.compile(r"\.(pcapng|pcap|cap|dmp|ntar)\d*(\.(gz|zst))?$", re.IGNORECASE)
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
HELP = "pcap or pcapng, gzip or zstd too; a folder or a pattern stands for all captures in it; - for standard input"


def captures(words: list[str]) -> list[str]:
    """The files, folders (searched whole) and patterns named, as files, each folder's in the order of their numbers."""
    found: list[str] = []
    for word in words:
        if word == "-" or os.path.isfile(word):
            found.append(word)
        elif os.path.isdir(word):
            inside = [os.path.join(folder, name) for folder, _, names in os.walk(word) for name in names]
            chosen = sorted((path for path in inside if CAPTURE_NAME.search(path)), key=_by_number)
            if not chosen:
                raise LabError(f"{word}: no capture in this folder")
            found += chosen
        elif glob.has_magic(word) and not os.path.lexists(word):
            chosen = sorted(glob.glob(word, recursive=True), key=_by_number)
            if not chosen:
                raise LabError(f"{word}: no file of this pattern")
            found += captures(chosen)
        else:
            # The reader says what is wrong with it.
            found.append(word)
    return found


def _by_number(path: str) -> list[tuple[int, int, str]]:
    """x.pcap2 before x.pcap10."""
    parts = re.split(r"(\d+)", path)
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts]


def note_truncated(capture: Capture) -> None:
    """One line on standard error for a cut or damaged capture: what stands before the cut is all there is."""
    if capture.truncated is not None:
        offset, reason = capture.truncated
        print(f"tcptrace-lab: {capture.name}: truncated at byte {offset}: {reason}", file=sys.stderr)


def opened(file: str, *, needs: str | None = None) -> Capture:
    """A capture for a command that shows no table of its own: most have one connection, which is looked into.

    `needs`: the module that looks into it, which is imported while the core reads."""
    from tcptrace_lab.capture import read

    with _importing(needs):
        capture = read(file, detail="first")
    note_truncated(capture)
    _keep_memory()
    return capture


@contextlib.contextmanager
def _importing(needs: str | None) -> Iterator[None]:
    """Meanwhile a module is imported; what fails then fails again where it is asked for."""
    if needs is None:
        yield
        return

    def run() -> None:
        with contextlib.suppress(ImportError):
            importlib.import_module(needs)

    beside = threading.Thread(target=run)
    beside.start()
    try:
        yield
    finally:
        beside.join()


def _keep_memory() -> None:
    """What is let go is used again: glibc gives what is as long as a capture back to the kernel, which clears it anew
    page by page, a tenth of the processor's time. Not before all is read: a column that grows moves for nothing in
    pages of its own."""
    import ctypes

    # malloc.h: one arena for all threads, the most that is not mapped by itself (HEAP_MAX_SIZE / 2), nothing trimmed.
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in ((M_ARENA_MAX, 1), (M_MMAP_THRESHOLD, 32 << 20), (M_TRIM_THRESHOLD, 1 << 30)):
            mallopt(parameter, value)
