"""Two network namespaces without names, each with a TUN device whose other end we hold.

They exist as long as their keepers run, and the keepers as long as we do: nothing is left in /run/netns, in the
host's interfaces or in its routes, not even by a recorder that is killed. Concurrent recordings cannot meet. Without
root each lies in a user namespace of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from tcptrace_lab.errors import LabError
from tcptrace_lab.programs import program
from tcptrace_lab.testbed.requirements import NEW_USER, is_root

ENDPOINT = Path(__file__).with_name("endpoint.py")
DEVICE = "tun0"
APP_DEVICE = "app0"
FORWARDING = {
    "net.ipv4.ip_forward": "1",
    "net.ipv6.conf.all.forwarding": "1",
    "net.ipv4.conf.all.rp_filter": "0",
    "net.ipv4.conf.default.rp_filter": "0",
}
# No queue between kernel and path may drop: losses are the path's.
TXQUEUELEN = 20_000
_PATIENCE_S = 10.0
# Twice dumpcap's read timeout, 250 ms.
BLOCK_S = 0.5


class Program:
    """A role of endpoint.py as a process: an order in, answers out, gone when closed."""

    def __init__(
        self, role: str, order: dict[str, Any], *, prefix: Sequence[str] = (), pass_fds: Sequence[int] = ()
    ) -> None:
        self.role = role
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-S", "-E", "-s", str(ENDPOINT), role],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=pass_fds,
            # Ctrl-C is for us; we end our programs in order.
            start_new_session=True,
        )
        self._input().write(json.dumps(order) + "\n")
        self._input().flush()

    def answer(self) -> dict[str, Any]:
        """The next line the program says."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            assert self.process.stderr is not None
            said = self.process.stderr.read().strip().splitlines() or [f"status {self.process.wait()}"]
            raise LabError(f"recording: the {self.role} ended unexpectedly: {said[-1]}")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise LabError(f"recording: {self.role}: {reply['error']}")
        return reply

    def finish(self) -> None:
        """Tells the program to come to its end, by closing its standard input."""
        if not self._input().closed:
            self._input().close()

    def close(self) -> None:
        """Ends the process, and waits until it is gone."""
        with contextlib.suppress(BrokenPipeError):
            self.finish()
        reap(self.process)

    def _input(self) -> IO[str]:
        assert self.process.stdin is not None
        return self.process.stdin


def reap(process: subprocess.Popen[str]) -> None:
    """Waits for a process that has been asked to end; one that does not is killed."""
    try:
        process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


class Namespace:
    """A network namespace with one TUN device, up, with an address and a route to the peer.

    With `forwards` the address is that of a program behind a second device (`app_fd`), for which the kernel forwards.
    """

    def __init__(
        self,
        *,
        address: str,
        peer: str,
        prefix: int,
        mtu: int,
        route: Sequence[str],
        sysctls: dict[str, str],
        forwards: bool = False,
    ) -> None:
        ours, theirs = socket.socketpair()
        ip = program("ip")
        version = "-6" if ":" in address else "-4"
        devices = [DEVICE, APP_DEVICE] if forwards else [DEVICE]
        words = [f"link set {name} mtu {mtu} txqueuelen {TXQUEUELEN} gso_max_segs 1 up" for name in devices]
        if forwards:
            words.append(f"{version} route add {address}/{prefix} dev {APP_DEVICE}")
            sysctls = sysctls | FORWARDING
        else:
            words.append(f"address add {address}/{prefix} dev {DEVICE}")
        words.append(" ".join([f"{version} route add {peer}/{prefix} dev {DEVICE}", *route]))
        order = {
            "sysctls": sysctls,
            "devices": devices,
            "commands": [[ip, *line.split()] for line in words],
            "socket": theirs.fileno(),
        }
        self.has_own_user = not is_root()
        prefix_words = (str(program("unshare")), *(NEW_USER if self.has_own_user else ()), "--net", "--")
        with ours, theirs:
            self._keeper = Program("keeper", order, prefix=prefix_words, pass_fds=(theirs.fileno(),))
            theirs.close()
            try:
                self._keeper.answer()
                self._fds = socket.recv_fds(ours, 16, 2)[1]
            except BaseException:
                self._keeper.close()
                raise

    @property
    def device_fd(self) -> int:
        """The other end of the device towards the peer."""
        return self._fds[0]

    @property
    def app_fd(self) -> int:
        """The other end of the device of the program for which the kernel forwards."""
        return self._fds[1]

    @property
    def prefix(self) -> tuple[str, ...]:
        """What makes a command run inside."""
        kinds = ("user", "net") if self.has_own_user else ("net",)
        spaces = [f"--{kind}=/proc/{self._keeper.process.pid}/ns/{kind}" for kind in kinds]
        return (str(program("nsenter")), *spaces, *(["--preserve-credentials"] if self.has_own_user else []), "--")

    @property
    def pid(self) -> int:
        """The keeper: `nsenter --net=/proc/PID/ns/net` looks inside while it runs."""
        return self._keeper.process.pid

    def __enter__(self) -> Namespace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for descriptor in self._fds:
            os.close(descriptor)
        self._keeper.close()


class Dump:
    """tcpdump on a namespace's device, from the moment at which it listens; dumpcap in a user namespace.

    There tcpdump, which gives up root's groups, is refused that (user_namespaces(7), setgroups).
    """

    def __init__(self, namespace: Namespace, path: Path, *, snaplen: int) -> None:
        self._is_dumpcap = namespace.has_own_user
        if self._is_dumpcap:
            words = ["dumpcap", "-q", "-p", "-P", "-i", DEVICE, "-s", str(snaplen), "-B", "8", "-f", "tcp"]
            words += ["-w", str(path)]
        else:
            # Immediate mode: without it the last block of packets would still be in the ring when we stop.
            words = ["tcpdump", "-n", "-p", "-i", DEVICE, "-s", str(snaplen), "-B", "8192", "--immediate-mode"]
            words += ["-Z", "root", "-w", str(path), "tcp"]
        self._process = subprocess.Popen(
            [*namespace.prefix, str(program(words[0])), *words[1:]],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stderr is not None
        said = ""
        for line in self._process.stderr:
            said += line
            if "listening on" in line or line.startswith("File:"):
                return
        raise LabError(f"recording: {words[0]}: {' '.join(said.split())}")

    def finish(self) -> dict[str, int]:
        """Stops the capture; the program's own counts (captured, received, dropped by the kernel)."""
        if self._is_dumpcap:
            # It has no immediate mode: a block of packets waits for as long as this.
            time.sleep(BLOCK_S)
        self._process.send_signal(signal.SIGINT)
        assert self._process.stderr is not None
        said = self._process.stderr.read()
        return dumpcap_counts(said) if self._is_dumpcap else tcpdump_counts(said)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        reap(self._process)


def tcpdump_counts(said: str) -> dict[str, int]:
    """From what tcpdump says as it ends: a line for each count."""
    counts = {}
    for line in said.splitlines():
        number, _, what = line.partition(" packet")
        for key, word in (("captured", "captured"), ("received", "received"), ("dropped", "dropped by kernel")):
            if number.isdigit() and word in what:
                counts[key] = int(number)
    return counts


def dumpcap_counts(said: str) -> dict[str, int]:
    """From what dumpcap says as it ends: "Packets received/dropped on interface 'tun0': 812/0 (...)"."""
    found = re.search(r"received/dropped on interface .*: (\d+)/(\d+)", said)
    if found is None:
        return {}
    received, dropped = int(found[1]), int(found[2])
    return {"captured": received, "received": received + dropped, "dropped": dropped}
