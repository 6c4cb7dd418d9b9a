"""Errors that a user can mend: the command line prints them as one line and exits with 2."""

from __future__ import annotations

import sys


class LabError(Exception):
    """What went wrong, in one line that names the file or key and the reason."""


def reason(error: OSError) -> str:
    """Why, in the system's words; no number, and no path (it may be a temporary one). The core's have no strerror."""
    return error.strerror or str(error).partition(" (os error")[0]


def to_install(*packages: str) -> str:
    """What to type for packages that are missing here, whatever `pip` is another Python's."""
    return f"{sys.executable} -m pip install {' '.join(packages)}"


class CaptureError(LabError):
    """A capture that cannot be read: file, byte offset, layer and reason."""


class ScenarioError(LabError):
    """A scenario that cannot be run: the key, its value and the range it must lie in."""
