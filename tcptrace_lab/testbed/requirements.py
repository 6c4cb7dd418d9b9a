"""What a recording needs of the machine; what is missing is said in one line.

Root with its capabilities, or whoever may make a user namespace (unshare(1)) and open /dev/net/tun: there everything is
had but tracefs, whose place TCP_INFO takes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tcptrace_lab.errors import LabError
from tcptrace_lab.programs import program

# Program and the Debian package that brings it.
PROGRAMS = {"ip": "iproute2", "tcpdump": "tcpdump", "unshare": "util-linux", "nsenter": "util-linux"}
# In a user namespace tcpdump cannot give up its groups.
PROGRAMS_OF_USERS = {name: package for name, package in PROGRAMS.items() if name != "tcpdump"} | {"dumpcap": "tshark"}
# linux/capability.h: namespaces; devices, addresses and routes; capturing.
CAPABILITIES = {"CAP_SYS_ADMIN": 21, "CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13}
# unshare(1): a user namespace in which the caller is root.
NEW_USER = ("--user", "--map-root-user")


def capabilities() -> int:
    """This process's effective capabilities as bits; all, where the kernel does not say."""
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return -1


def is_root() -> bool:
    """Whether network namespaces can be made as they are; else in a user namespace of our own."""
    return os.geteuid() == 0 and all(capabilities() >> bit & 1 for bit in CAPABILITIES.values())


def missing() -> str | None:
    """The first thing that is missing to record here, or None."""
    if sys.platform != "linux":
        return f"recording needs Linux (this is {sys.platform})"
    for name, package in (PROGRAMS if is_root() else PROGRAMS_OF_USERS).items():
        if program(name) is None:
            return f"recording needs {name}: apt install {package}"
    if not is_root():
        refused = user_namespace_refused()
        if refused and os.geteuid() == 0:
            lacking = [name for name, bit in CAPABILITIES.items() if not capabilities() >> bit & 1]
            return f"recording needs the capabilities {', '.join(lacking)}: a container must be started with them"
        if refused:
            return f"recording needs root, or a user namespace ({refused}): run it with sudo"
    device = Path("/dev/net/tun")
    if not device.exists():
        return "recording needs /dev/net/tun: modprobe tun, or start the container with --device /dev/net/tun"
    if not os.access(device, os.R_OK | os.W_OK):
        return "recording needs /dev/net/tun, which this user may not open: run it with sudo"
    return None


def user_namespace_refused() -> str:
    """Why this user may not have a user namespace with a network of its own; nothing where it may."""
    words = [str(program("unshare")), *NEW_USER, "--net", "--", "true"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return " ".join(done.stderr.split()) if done.returncode else ""


def require() -> None:
    """Raises LabError with the one line."""
    line = missing()
    if line is not None:
        raise LabError(line)
