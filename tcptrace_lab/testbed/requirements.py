"""What a recording needs of the machine; what is missing is said in one line."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tcptrace_lab.errors import LabError

# Program and the Debian package that brings it.
PROGRAMS = {"ip": "iproute2", "tcpdump": "tcpdump", "unshare": "util-linux", "nsenter": "util-linux"}
# linux/capability.h: namespaces; devices, addresses and routes; capturing.
CAPABILITIES = {"CAP_SYS_ADMIN": 21, "CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13}
# The system's own folders: what is run as root is looked for there before the search path of whoever called.
SYSTEM_PATHS = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin"


def program(name: str) -> str | None:
    """Where a program lies."""
    return shutil.which(name, path=f"{SYSTEM_PATHS}:{os.environ.get('PATH', os.defpath)}")


def capabilities() -> int:
    """This process's effective capabilities as bits; all, where the kernel does not say."""
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return -1


def missing() -> str | None:
    """The first thing that is missing to record here, or None."""
    if sys.platform != "linux":
        return f"recording needs Linux (this is {sys.platform})"
    if os.geteuid() != 0:
        return "recording needs root (network namespaces): run it with sudo"
    lacking = [name for name, bit in CAPABILITIES.items() if not capabilities() >> bit & 1]
    if lacking:
        return f"recording needs the capabilities {', '.join(lacking)}: a container must be started with them"
    if not Path("/dev/net/tun").exists():
        return "recording needs /dev/net/tun: modprobe tun, or start the container with --device /dev/net/tun"
    for name, package in PROGRAMS.items():
        if program(name) is None:
            return f"recording needs {name}: apt install {package}"
    return None


def require() -> None:
    """Raises LabError with the one line."""
    line = missing()
    if line is not None:
        raise LabError(line)
