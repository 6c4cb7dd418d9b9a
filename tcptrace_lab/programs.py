"""Other programs, and where they are looked for."""

from __future__ import annotations

import os
import shutil

# The system's own folders: what is run as root is looked for there before the search path of whoever called.
SYSTEM_PATHS = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin"


def program(name: str) -> str | None:
    """Where a program lies."""
    return shutil.which(name, path=f"{SYSTEM_PATHS}:{os.environ.get('PATH', os.defpath)}")
