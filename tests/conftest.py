"""Where the reference data lies, and a skip with a clear reason where it does not."""

import contextlib
import csv
import gzip
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"

# A shell lets what it starts in the background ignore Ctrl-C, and every program started from there does too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def needs(program: str, package: str) -> pytest.MarkDecorator:
    """Skips, by name, where a program is not installed."""
    return pytest.mark.skipif(
        shutil.which(program) is None, reason=f"{program} is not installed (Debian's package {package})"
    )


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="not root: network namespaces, or capturing, want it")


@contextlib.contextmanager
def own_network() -> Iterator[list[str]]:
    """The words before a command that run it in a network namespace of its own, loopback up.

    The namespace has no name: it goes with its last process, and those end when we do, however that is.
    """
    with subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as keeper:
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        # It answers from within.
        keeper.stdin.write(b"\n")
        keeper.stdin.flush()
        keeper.stdout.read(1)
        inside = ["setpriv", "--pdeathsig", "KILL", "nsenter", "--target", str(keeper.pid), "--net", "--"]
        subprocess.run([*inside, "ip", "link", "set", "lo", "up"], check=True)
        yield inside


def terminal() -> tuple[int, int]:
    """Both ends of a pseudo terminal; skips the test where there is none, as in a bare chroot."""
    try:
        return os.openpty()
    except OSError as error:
        pytest.skip(f"no pseudo terminal (/dev/ptmx, /dev/pts): {error.strerror}")


def shared(*parts: str) -> Path:
    """A file or folder of the reference data beside the checkout; skips the test where it is absent."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"reference data not there: {path}")
    return path


def shared_files(*parts: str, pattern: str) -> list[Any]:
    """Parameters of a test: the files of a folder of the reference data; where it is absent one that is skipped so."""
    folder = SHARED.joinpath(*parts)
    found = sorted(folder.glob(pattern))
    return found or [pytest.param(folder, marks=pytest.mark.skip(reason=f"reference data not there: {folder}"))]


def ns2_rows(name: str, **wanted: str) -> list[dict[str, str]]:
    """The rows of a table of ns-2.35's runs that have these cells: ours (tests/data/ns2), else the reference.

    Skips where only the reference data has such rows and it is not there.
    """
    own = ROOT / "tests" / "data" / "ns2" / f"{name}.csv.gz"
    if own.exists():
        with gzip.open(own, "rt", newline="") as file:
            found = _chosen(csv.DictReader(file), wanted)
        if found:
            return found
    with shared("oracles", "ns2", f"{name}.csv").open(newline="") as file:
        return _chosen(csv.DictReader(file), wanted)


def _chosen(rows: "csv.DictReader[str]", wanted: dict[str, str]) -> list[dict[str, str]]:
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]
