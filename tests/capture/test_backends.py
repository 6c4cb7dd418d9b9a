"""The three readers tell the same of the same packets; scapy and Wireshark both ways."""

from __future__ import annotations

import csv
import io
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tcptrace_lab
from tcptrace_lab.backends import tshark
from tcptrace_lab.errors import CaptureError
from tests.conftest import SHARED, needs, needs_root, shared

PUBLIC = SHARED / "captures" / "public"
MANIFEST = PUBLIC / "MANIFEST.csv"
ROWS = list(csv.DictReader(MANIFEST.open())) if MANIFEST.exists() else [{"file": "MANIFEST.csv", "packets": "0"}]

# One of each link type and format, small; the others are slow only by their number.
QUICK = (
    "tcptrace-first_seg_ooo.dmp.gz",
    "tcptrace-dlt_null.dmp.gz",
    "tcptrace-ppp_encap.dmp.gz",
    "tcptrace-linux_cooked_socket.dmp.gz",
    "tcptrace-long_rtt.dmp.gz",
    "ppp-raw_ip.pcap",
    "ppp-many_interfaces-1.pcapng",
    "zeek-mixed-vlan-mpls.pcap",
    "tcpdump-bigtcp-ipv6-hbh.pcap",
    "tcpdump-mptcp-v1.pcap",
    "tcpdump-tcp-handshake-nano.pcap",
)

CAUSES = "tshark -T fields tells no IP from no TCP; encrypted or without a dissector is a finer cause of ours"
CUSTOM_BLOCKS = "tshark 4 counts pcapng's custom blocks as packets; they are metadata (draft section 4.6)"
DAMAGED = "tshark's fields do not tell a sum left to the card from a wrong one: a damaged ACK is followed"
LOST_LENGTH = (
    "the capture's own lengths on the wire were lost (120 for packets whose IP header says 1500, the bytes captured); "
    "tshark believes the capture, we and tcptrace the IP header"
)
SIMPLE_PACKETS = (
    "scapy 2.x reads no data of simple packet blocks where the interface's snapshot length is 0 (unlimited)"
)

# (File, backend) -> what differs, and why. Everything else must be equal.
CUT_OPTIONS = "tshark's fields do not tell that an option list was cut or damaged"
DIFFERENCES: dict[tuple[str, str], tuple[set[str], str]] = {
    ("libtrace-100_packetsns.pcap", "tshark"): ({"undecoded"}, CAUSES),
    ("ppp-microsecs_big_endian.pcap", "tshark"): ({"undecoded"}, CAUSES),
    ("formats/ng-be_basic_test017.pcapng", "tshark"): ({"packets", "undecoded"}, CUSTOM_BLOCKS),
    ("tcprs/comp002.trace", "tshark"): ({"connections"}, CUT_OPTIONS),
    ("ndpi-sites.pcapng", "tshark"): ({"connections"}, CUT_OPTIONS),
    ("tcptrace-dsack.dmp.gz", "tshark"): ({"connections", "acks"}, DAMAGED),
    ("tcptrace-long_rtt.dmp.gz", "tshark"): ({"connections", "segments", "acks"}, LOST_LENGTH),
    ("formats/ng-le_advanced_test100.pcapng", "scapy"): ({"undecoded"}, SIMPLE_PACKETS),
    ("formats/ng-le_basic_test010.pcapng", "scapy"): ({"undecoded"}, SIMPLE_PACKETS),
}


needs_tshark = needs("tshark", "tshark")
TSHARK = pytest.param("tshark", marks=needs_tshark)


def differences(native: tcptrace_lab.Capture, other: tcptrace_lab.Capture) -> dict[str, Any]:
    """What is not equal, by the table it stands in, with the first place."""
    found: dict[str, Any] = {}
    for name in ("packets", "undecoded"):
        if getattr(native, name) != getattr(other, name):
            found[name] = (getattr(native, name), getattr(other, name))
    if len(native) != len(other):
        found["connections"] = (len(native), len(other))
        return found
    _compare(found, "connections", native.connections, other.connections)
    for ours, theirs in zip(native, other, strict=True):
        for flow, their_flow in zip(ours.flows, theirs.flows, strict=True):
            _compare(found, "segments", flow.segments, their_flow.segments)
            _compare(found, "acks", flow.acks, their_flow.acks)
    return found


def _compare(found: dict[str, Any], name: str, ours: pd.DataFrame, theirs: pd.DataFrame) -> None:
    try:
        pd.testing.assert_frame_equal(ours, theirs, check_exact=True)
    except AssertionError as error:
        found.setdefault(name, str(error))


def cases() -> list[Any]:
    """Every well-formed capture; tshark takes a third of a second even for a small one."""

    def is_quick(row: dict[str, str], backend: str) -> bool:
        return row["file"] in QUICK or (backend == "scapy" and int(row["packets"] or 0) < 1000)

    return [
        pytest.param(
            row["file"],
            backend,
            marks=([] if is_quick(row, backend) else [pytest.mark.slow])
            + ([needs_tshark] if backend == "tshark" else []),
        )
        for row in ROWS
        for backend in ("tshark", "scapy")
    ]


@pytest.mark.parametrize(("file", "backend"), cases())
def test_backend_gives_the_same_columns(file: str, backend: str) -> None:
    path = shared("captures", "public", file)
    native = tcptrace_lab.read(path, detail=True)
    found = differences(native, tcptrace_lab.read(path, backend=backend, detail=True))
    allowed, reason = DIFFERENCES.get((file, backend), (set(), ""))
    assert set(found) == allowed, f"{found} (allowed: {reason})"


def test_native_reader_finds_the_packets_the_manifest_counts() -> None:
    """Counted by tshark when the captures were gathered."""
    shared("captures", "public")
    wrong = {}
    for row in ROWS:
        capture = tcptrace_lab.read(PUBLIC / row["file"])
        expected = (int(row["packets"]), int(row["tcp_packets"] or 0))
        if (capture.packets, capture.segments) != expected:
            wrong[row["file"]] = (capture.packets, capture.segments, expected)
    # tshark's four are custom blocks.
    assert wrong == {"formats/ng-be_basic_test017.pcapng": (0, 0, (4, 0))}


def dsack() -> Path:
    return shared("captures", "public", "tcptrace-first_seg_ooo.dmp.gz")


def test_scapy_packets_come_back_as_the_same_connections() -> None:
    capture = tcptrace_lab.read(dsack(), detail=True)
    packets = capture.to_scapy()
    assert len(packets) == capture.packets
    again = tcptrace_lab.read(packets, backend="scapy", detail=True)
    assert differences(capture, again) == {}


def test_one_connection_goes_to_scapy_with_its_handshake_and_end() -> None:
    capture = tcptrace_lab.read(shared("captures", "public", "sbu-http_1080.pcap"))
    row = capture[3].summary
    packets = capture.to_scapy(connection=3)
    assert len(packets) == row["packets"] < capture.packets
    assert packets[0]["TCP"].flags == "S"
    assert {packet["TCP"].sport for packet in packets} == {row["client_port"], row["port"]}


def test_scapy_packets_made_by_hand_are_followed() -> None:
    from scapy.layers.inet import IP, TCP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.l2 import Ether
    from scapy.packet import Raw

    for below in (Ether() / IP(src="10.0.0.1", dst="10.0.0.2"), IP(src="10.0.0.1", dst="10.0.0.2"), IPv6()):
        syn = below / TCP(sport=1000, dport=80, flags="S", seq=7, options=[("MSS", 1400)])
        data = below / TCP(sport=1000, dport=80, flags="PA", seq=8) / Raw(b"x" * 100)
        syn.time, data.time = 1.5, 1.75
        connections = tcptrace_lab.read([syn, data], backend="scapy").connections
        row = connections.iloc[0]
        assert (len(connections), row["mss_client"], row["bytes"], row["start_ns"]) == (1, 1400, 100, 1_500_000_000)
        assert row["duration_ns"] == 250_000_000


@pytest.mark.parametrize("backend", ["native", TSHARK, "scapy"])
def test_backend_reads_a_file_object(backend: str) -> None:
    with dsack().open("rb") as stream:
        found = tcptrace_lab.read(io.BytesIO(stream.read()), backend=backend)
    assert found.connections.equals(tcptrace_lab.read(dsack()).connections)
    # Detail is read in a second pass, which the stream itself would not give.
    assert len(found[0].flows[0].segments) == len(tcptrace_lab.read(dsack())[0].flows[0].segments) > 0


@pytest.mark.parametrize("backend", [TSHARK, "scapy"])
def test_backend_says_what_it_cannot_read(backend: str, tmp_path: Path) -> None:
    text = tmp_path / "notes.pcap"
    text.write_text("no capture at all, but a text of some length\n")
    with pytest.raises(CaptureError, match=r"notes\.pcap"):
        tcptrace_lab.read(text, backend=backend)
    with pytest.raises(FileNotFoundError):
        tcptrace_lab.read(tmp_path / "absent.pcap", backend=backend)
    with pytest.raises(ValueError, match="cannot read a int"):
        tcptrace_lab.read(7, backend=backend)


@needs_tshark
def test_tshark_reads_what_the_native_reader_does_not() -> None:
    snoop = shared("captures", "public", "malformed", "tcptrace-all.snoop.gz")
    with pytest.raises(CaptureError, match="Solaris snoop"):
        tcptrace_lab.read(snoop)
    assert len(tcptrace_lab.read(snoop, backend="tshark")) > 0


@needs_tshark
def test_tshark_tells_a_cut_capture(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    whole = shared("captures", "public", "zeek-tcp_timestamp.pcap").read_bytes()
    cut.write_bytes(whole[:-7])
    native, other = tcptrace_lab.read(cut), tcptrace_lab.read(cut, backend="tshark")
    assert native.truncated is not None
    assert other.truncated is not None
    assert native.packets == other.packets
    assert "cut short" in other.truncated[1]


def test_times_keep_their_nanoseconds() -> None:
    assert tshark.nanoseconds("1418145369.924505488") == 1_418_145_369_924_505_488
    assert tshark.nanoseconds("0.5") == 500_000_000
    assert tshark.nanoseconds("-1.25") == -1_250_000_000


@needs_tshark
def test_dissect_shows_every_field_of_one_packet() -> None:
    capture = tcptrace_lab.read(shared("captures", "public", "tcpdump-tcp-handshake-nano.pcap"))
    packet = capture.dissect(1)
    assert (packet.ip.src, packet.tcp.flags_syn, packet.tcp.flags_ack) == ("137.116.81.94", "1", "1")
    with pytest.raises(CaptureError, match="no packet 3"):
        capture.dissect(3)


@needs_tshark
def test_live_refuses_an_interface_that_is_not_there() -> None:
    done = live("nowhere0", "--count", "1")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert "nowhere0: no such network interface" in done.stderr
    assert live("lo", "--duration", "0").returncode == 2


def live(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tcptrace_lab", "live", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.slow
@needs_root
@needs("dumpcap", "tshark")
def test_live_follows_a_connection_as_it_happens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        stop = threading.Event()

        def talk() -> None:
            while not stop.is_set():
                with socket.create_connection(("127.0.0.1", port)) as client, server.accept()[0] as peer:
                    client.sendall(b"x" * 5000)
                    peer.recv(10_000)
                time.sleep(0.05)

        talker = threading.Thread(target=talk)
        talker.start()
        try:
            done = live("lo", "--count", "30", "--bpf", f"tcp port {port}", "--json")
        finally:
            stop.set()
            talker.join()
    assert (done.returncode, done.stderr) == (0, "")
    rows = pd.DataFrame(pd.read_json(io.StringIO(done.stdout), typ="series")["connections"])
    assert np.all(rows["port"] == port)
    assert rows["packets"].sum() == 30
    assert (rows["unique_bytes_client"] == 5000).sum() >= 1
