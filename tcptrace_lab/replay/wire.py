"""A capture put on a wire: its packets leave a real interface at their recorded times, through tcpreplay's or scapy's
sender. What is sent by a sender of recorded packets answers nobody: no connection comes of it.
"""

from __future__ import annotations

import ipaddress
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tcptrace_lab.capture import Capture
from tcptrace_lab.errors import LabError
from tcptrace_lab.numbers import counted
from tcptrace_lab.programs import program
from tcptrace_lab.replay.interface import check_interface
from tcptrace_lab.replay.leaving import leaving
from tcptrace_lab.replay.open_loop import file_of

SENDERS = ("tcpreplay", "scapy")
# Ethernet's type of an IPv4 and of an IPv6 packet.
ETHERTYPES = {4: 0x0800, 6: 0x86DD}
# The ends of a link that nobody listens to: locally administered addresses.
NEAR_MAC, FAR_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"
# Where Linux lists IPv4's and IPv6's routes.
ROUTES, ROUTES_V6 = "/proc/net/route", "/proc/net/ipv6_route"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What will be sent: shown before it is."""

    capture: str
    interface: str
    sender: str
    packets: int
    elsewhere: int
    bytes: int
    duration_s: float
    rewritten: Mapping[str, str]
    hosts: tuple[str, ...]

    def lines(self) -> list[str]:
        """For a person to say yes to."""
        changed = ", ".join(f"{old} becomes {new}" for old, new in self.rewritten.items()) or "as recorded"
        left_out = f" ({self.elsewhere} without IP are left out)" if self.elsewhere else ""
        return [
            f"{self.capture} on {self.interface}, through {self.sender}",
            f"  packets    {self.packets}{left_out}, {counted(self.bytes, 'byte')} in {self.duration_s:.3f} s",
            f"  addresses  {changed}",
            f"  hosts      {', '.join(self.hosts[:6])}{' ..' if len(self.hosts) > 6 else ''}",
        ]


@dataclass(frozen=True, kw_only=True)
class WireReport:
    """What was sent, and how far from its recorded time each packet left; NaN: not all were seen to leave."""

    packets: int
    duration_s: float
    error_median_s: float
    error_p99_s: float
    error_max_s: float


def plan(
    capture: Capture, interface: str, *, rewrite: Sequence[str] = (), sender: str | None = None, anywhere: bool = False
) -> tuple[Plan, list[tuple[float, bytes]]]:
    """What would be sent, and its frames with their times; refuses what must not be sent there."""
    check_interface(interface)
    if not anywhere and has_default_route(interface):
        raise LabError(
            f"{interface}: has a default route: recorded packets would go out into the world; --anywhere if they may"
        )
    chosen = _sender(sender)
    mapping = dict(_pair(text) for text in rewrite)
    frames, elsewhere = _frames(capture, mapping)
    if not frames:
        raise LabError(f"{capture.name}: no IP packet to send")
    hosts = sorted({*capture.connections["client"], *capture.connections["server"]})
    found = Plan(
        capture=capture.name,
        interface=interface,
        sender=chosen,
        packets=len(frames),
        elsewhere=elsewhere,
        bytes=sum(len(frame) for _, frame in frames),
        duration_s=frames[-1][0] - frames[0][0],
        rewritten=mapping,
        hosts=tuple(mapping.get(host, host) for host in hosts),
    )
    return found, frames


def send(chosen: Plan, frames: Sequence[tuple[float, bytes]], *, speed: float = 1.0) -> WireReport:
    """Send the frames at their times, `speed` times as fast."""
    if chosen.sender == "tcpreplay":
        return _with_tcpreplay(chosen, frames, speed)
    return _with_scapy(chosen, frames, speed)


def has_default_route(interface: str) -> bool:
    """Whether packets for anybody would leave by it."""
    with open(ROUTES, encoding="ascii") as table:
        rows = [line.split() for line in table][1:]
    if any(row[0] == interface and row[1] == "00000000" and row[7] == "00000000" for row in rows if len(row) > 7):
        return True
    if not os.path.exists(ROUTES_V6):
        return False
    with open(ROUTES_V6, encoding="ascii") as table:
        rows = [line.split() for line in table]
    # RTF_GATEWAY or a real metric: the kernel lists a rejecting default route on lo as well.
    return any(row[9] == interface and row[1] == "00" and row[4] != "0" * 32 for row in rows if len(row) > 9)


def _sender(wanted: str | None) -> str:
    if wanted is not None and wanted not in SENDERS:
        raise LabError(f"--sender {wanted}: must be one of {', '.join(SENDERS)}")
    if wanted == "tcpreplay" and program("tcpreplay") is None:
        raise LabError("tcpreplay is not installed (apt-get install tcpreplay); --sender scapy needs nothing more")
    return wanted or ("tcpreplay" if program("tcpreplay") else "scapy")


def _pair(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    try:
        if not equals or ipaddress.ip_address(old).version != ipaddress.ip_address(new).version:
            raise ValueError
    except ValueError:
        raise LabError(f"--rewrite {text}: must be OLD=NEW, two addresses of one family") from None
    return old, new


def _frames(capture: Capture, mapping: Mapping[str, str]) -> tuple[list[tuple[float, bytes]], int]:
    """Ethernet frames around the recorded IP packets; whole ones only, for a receiver looks at checksums."""
    from tcptrace_lab.backends.scapy import to_scapy

    frames: list[tuple[float, bytes]] = []
    elsewhere = 0
    for packet in to_scapy(file_of(capture)[0]):
        network = _network(packet)
        if network is None:
            elsewhere += 1
            continue
        frames.append((float(packet.time), _frame(network, mapping)))
    return frames, elsewhere


def _network(packet: Any) -> Any:
    from scapy.layers.inet import IP
    from scapy.layers.inet6 import IPv6

    return next((packet[layer] for layer in (IP, IPv6) if layer in packet), None)


def _frame(network: Any, mapping: Mapping[str, str]) -> bytes:
    from scapy.layers.inet import TCP, UDP
    from scapy.layers.l2 import Ether

    version = network.version
    missing = _length(network) - len(bytes(network))
    network = network.copy()
    if missing > 0:
        # The capture was cut: the length on the wire is kept, with zeros.
        network.lastlayer().add_payload(bytes(missing))
    for end in ("src", "dst"):
        setattr(network, end, mapping.get(getattr(network, end), getattr(network, end)))
    # Scapy works out afresh what is deleted.
    for name in ("chksum", "len"):
        if hasattr(network, name):
            delattr(network, name)
    for layer in (TCP, UDP):
        if layer in network:
            del network[layer].chksum
    frame: bytes = bytes(Ether(src=NEAR_MAC, dst=FAR_MAC, type=ETHERTYPES[version]) / network)
    return frame


def _length(network: Any) -> int:
    return int(network.len) if network.version == 4 else int(network.plen) + 40


def _with_scapy(chosen: Plan, frames: Sequence[tuple[float, bytes]], speed: float) -> WireReport:
    from scapy.config import conf
    from scapy.packet import Raw

    errors = []
    with conf.L2socket(iface=chosen.interface) as socket:
        first_s, begun_s = frames[0][0], time.perf_counter()
        for time_s, frame in frames:
            due_s = (time_s - first_s) / speed
            wait_s = due_s - (time.perf_counter() - begun_s)
            if wait_s > 0:
                time.sleep(wait_s)
            errors.append(time.perf_counter() - begun_s - due_s)
            try:
                socket.send(Raw(frame))
            except OSError as error:
                raise LabError(f"{chosen.interface}: packet of {len(frame)} bytes: {error.strerror}") from error
        took_s = time.perf_counter() - begun_s
    return _report(took_s, np.array(errors))


def _report(took_s: float, errors: np.ndarray) -> WireReport:
    return WireReport(
        packets=len(errors),
        duration_s=took_s,
        error_median_s=float(np.median(errors)),
        error_p99_s=float(np.percentile(errors, 99)),
        error_max_s=float(errors.max()),
    )


def _with_tcpreplay(chosen: Plan, frames: Sequence[tuple[float, bytes]], speed: float) -> WireReport:
    from scapy.utils import RawPcapWriter

    with tempfile.TemporaryDirectory(prefix="tcptrace-lab-") as folder:
        file = os.path.join(folder, "send.pcap")
        writer = RawPcapWriter(file, linktype=1, nano=True)
        writer.write_header(None)
        for time_s, frame in frames:
            whole, part = divmod(time_s, 1.0)
            writer.write_packet(frame, sec=int(whole), usec=int(part * 1e9))
        writer.close()
        tcpreplay = program("tcpreplay") or "tcpreplay"
        command = [tcpreplay, "-i", chosen.interface, "--multiplier", str(speed), file]
        with leaving(chosen.interface, source=NEAR_MAC) as left_ns:
            begun_s = time.perf_counter()
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            took_s = time.perf_counter() - begun_s
    if done.returncode:
        told = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise LabError(f"{chosen.interface}: tcpreplay: {told[-1] if told else done.returncode}")
    if len(left_ns) != len(frames):
        return _report(took_s, np.full(len(frames), np.nan))
    due_s = np.array([time_s for time_s, _ in frames]) / speed
    left_s = (np.array(left_ns) - left_ns[0]) / 1e9
    return _report(took_s, np.abs(left_s - (due_s - due_s[0])))
