"""Packets of a network interface as a pcap stream: dumpcap's or tcpdump's, whichever is there."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
from collections.abc import Iterator

from tcptrace_lab.errors import LabError
from tcptrace_lab.programs import program

# Every header with its options; the payload is never looked at.
SNAPLEN = 192
ANY = "any"
# A program that is asked to end does so at once, or not at all.
GRACE_S = 2.0


@contextlib.contextmanager
def capturing(interface: str, *, bpf: str) -> Iterator[str]:
    """The path from which an interface's packets can be read while the block lasts."""
    check_interface(interface)
    with subprocess.Popen(command(interface, bpf), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as listener:
        assert listener.stdout is not None
        try:
            yield f"/dev/fd/{listener.stdout.fileno()}"
        except LabError as error:
            # The stream ended before it began: its maker says why.
            listener.terminate()
            told = listener.communicate()[1].decode(errors="replace").strip().splitlines()
            raise LabError(f"{interface}: {told[-1] if told else error}") from error
        finally:
            if listener.poll() is None:
                listener.send_signal(signal.SIGINT)
                try:
                    listener.wait(GRACE_S)
                except subprocess.TimeoutExpired:
                    listener.kill()


def check_interface(interface: str) -> None:
    """Refuse an interface that is not there: in our namespace, which /sys need not show."""
    if interface != ANY and interface not in (name for _, name in socket.if_nameindex()):
        raise LabError(f"{interface}: no such network interface")


def command(interface: str, bpf: str) -> list[str]:
    """The program that writes the interface's packets to its standard output as they come."""
    tcpdump = program("tcpdump")
    if tcpdump:
        return [tcpdump, "-i", interface, "-n", "-U", "-s", str(SNAPLEN), "--immediate-mode", "-w", "-", bpf]
    dumpcap = program("dumpcap")
    if dumpcap:
        return [dumpcap, "-q", "-i", interface, "-s", str(SNAPLEN), "-P", "-w", "-", "-f", bpf]
    raise LabError("neither tcpdump nor dumpcap is installed (apt-get install tcpdump)")
