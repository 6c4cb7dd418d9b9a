"""Every link layer, tag, tunnel and extension header in one pcapng file: the native reader and tshark agree."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tcptrace_lab
from tests.capture.test_backends import differences, needs_tshark

Frames = Iterator[tuple[str, int, Any]]


class Builder:
    """Packets of connections that differ in their client port, with payloads that differ in length."""

    def __init__(self) -> None:
        self.count = 0

    def tcp(self) -> Any:
        from scapy.layers.inet import TCP
        from scapy.packet import Raw

        self.count += 1
        options = [("NOP", None), ("NOP", None), ("Timestamp", (self.count, 7))]
        return TCP(sport=1000 + self.count, dport=80, seq=5, ack=9, flags="PA", options=options) / Raw(
            b"x" * self.count
        )

    def v4(self, **fields: Any) -> Any:
        from scapy.layers.inet import IP

        return IP(src="10.0.0.1", dst="10.0.0.2", ttl=61, tos=2, id=77, **fields) / self.tcp()

    def v6(self, *extensions: Any, **fields: Any) -> Any:
        from scapy.layers.inet6 import IPv6

        packet = IPv6(src="2001:db8::1", dst="2001:db8::2", hlim=55, tc=3, **fields)
        for extension in extensions:
            packet /= extension
        return packet / self.tcp()


def tags(make: Builder) -> Frames:
    """Ethernet with what may stand before IP."""
    from scapy.contrib.mpls import MPLS
    from scapy.layers.l2 import LLC, SNAP, Dot1AD, Dot1Q, Dot3, Ether
    from scapy.layers.ppp import PPP, PPPoE

    ether = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    yield "Ethernet", 1, ether / make.v4()
    yield "Ethernet, IPv6", 1, ether / make.v6()
    yield "802.1Q", 1, ether / Dot1Q(vlan=5) / make.v4()
    yield "QinQ", 1, ether / Dot1AD(vlan=3) / Dot1Q(vlan=5) / make.v6()
    yield "MPLS, two labels", 1, ether / MPLS(label=16, s=0) / MPLS(label=17, s=1) / make.v4()
    yield "MPLS, IPv6", 1, ether / MPLS(label=17, s=1) / make.v6()
    yield "PPPoE", 1, ether / PPPoE(sessionid=3) / PPP() / make.v4()
    yield "PPPoE, IPv6", 1, ether / PPPoE(sessionid=3) / PPP() / make.v6()
    snap = LLC(dsap=0xAA, ssap=0xAA, ctrl=3) / SNAP(code=0x800)
    yield "802.3", 1, Dot3(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / snap / make.v4()


def tunnels(make: Builder) -> Frames:
    """IP in IP, and its relatives."""
    from scapy.layers.inet import IP, UDP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.l2 import GRE, Ether
    from scapy.layers.vxlan import VXLAN

    ether = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    outer4, outer6 = ether / IP(src="1.1.1.1", dst="2.2.2.2"), ether / IPv6(src="::1", dst="::2")
    yield "GRE", 1, outer4 / GRE() / make.v4()
    full = GRE(key_present=1, key=3, chksum_present=1, seqnum_present=1)
    yield "GRE with checksum, key and number", 1, outer4 / full / make.v4()
    yield "GRE, IPv6", 1, outer4 / GRE() / make.v6()
    yield "GRE, Ethernet", 1, outer4 / GRE(proto=0x6558) / ether / make.v4()
    yield "IP in IP", 1, outer4 / make.v4()
    yield "6in4", 1, outer4 / make.v6()
    yield "4in6", 1, outer6 / make.v4()
    yield "6in6", 1, outer6 / make.v6()
    for outer in (outer4, outer6):
        yield "VXLAN", 1, outer / UDP(sport=3333, dport=4789) / VXLAN(vni=5, flags=8) / ether / make.v4()


def extensions(make: Builder) -> Frames:
    """Options, extension headers, fragments, lengths that do not fit."""
    from scapy.layers.inet import IP, IPOption_RR, fragment
    from scapy.layers.inet6 import (
        IPv6,
        IPv6ExtHdrDestOpt,
        IPv6ExtHdrFragment,
        IPv6ExtHdrHopByHop,
        IPv6ExtHdrRouting,
        RouterAlert,
        fragment6,
    )
    from scapy.layers.ipsec import AH
    from scapy.packet import Raw

    yield "IPv4 options", 101, make.v4(options=[IPOption_RR(length=11, routers=["0.0.0.0", "0.0.0.0"])])
    yield "super-segment", 101, make.v4(len=0)
    yield "bad checksum", 101, make.v4(chksum=1)
    yield "hop-by-hop", 101, make.v6(IPv6ExtHdrHopByHop(options=[RouterAlert()]))
    yield "destination options", 101, make.v6(IPv6ExtHdrDestOpt())
    yield "routing", 101, make.v6(IPv6ExtHdrRouting(addresses=["2001:db8::9"]))
    header = AH(nh=6, payloadlen=4, spi=1, seq=2, icv=b"a" * 12)
    yield "authentication header, IPv6", 101, make.v6(header)
    yield "authentication header", 101, IP(src="10.0.0.1", dst="10.0.0.2", proto=51) / header / make.tcp()
    for piece in fragment(IP(bytes(make.v4(flags=0) / Raw(b"y" * 3000))), fragsize=1000):
        yield "fragments", 101, piece
    pieces = fragment6(IPv6(src="::1", dst="::2") / IPv6ExtHdrFragment(id=9) / make.tcp() / Raw(b"y" * 3000), 1200)
    for piece in reversed(pieces):
        yield "fragments, IPv6, last first", 101, piece


def options(_: Builder) -> Frames:
    """TCP options, known and unknown."""
    from scapy.layers.inet import IP, TCP, UDP
    from scapy.packet import Padding

    ip = IP(src="10.0.0.3", dst="10.0.0.4")
    syn = [("MSS", 1400), ("SAckOK", b""), ("Timestamp", (1, 0)), ("NOP", None), ("WScale", 7)]
    yield "SYN", 228, ip / TCP(sport=700, dport=80, flags="S", options=syn)
    sack = [("NOP", None), ("NOP", None), ("SAck", (1, 2, 5, 6, 9, 10, 20, 30))]
    yield "four SACK blocks", 228, ip / TCP(sport=700, dport=80, flags="A", options=sack)
    yield "TFO", 228, ip / TCP(sport=701, dport=80, flags="S", options=[("TFO", (1, 2))])
    yield "unknown", 228, ip / TCP(sport=702, dport=80, flags="S", options=[(99, b"abc"), ("WScale", 3)])
    yield "urgent, all flags", 228, ip / TCP(sport=703, dport=80, flags="UAPEC", urgptr=3) / b"hello"
    yield "padding", 228, ip / TCP(sport=704, dport=80, flags="A") / Padding(b"\0" * 6)
    yield "UDP", 228, ip / UDP(sport=5, dport=6) / b"zzz"


def links(make: Builder) -> Frames:
    """The other link types."""
    from scapy.layers.dot11 import Dot11, Dot11QoS, RadioTap
    from scapy.layers.l2 import LLC, SNAP, CookedLinux, CookedLinuxV2, Dot1Q
    from scapy.layers.ppp import PPP, PPPoE
    from scapy.packet import Raw

    snap = LLC(dsap=0xAA, ssap=0xAA, ctrl=3) / SNAP(code=0x800)
    addresses = {f"addr{n}": f"02:00:00:00:00:0{n}" for n in (1, 2, 3)}
    for number in (12, 14, 101):
        yield "raw", number, make.v4()
    yield "raw", 101, make.v6()
    yield "IPv6", 229, make.v6()
    for number, family in ((0, b"\2\0\0\0"), (0, b"\0\0\0\2"), (108, b"\0\0\0\2")):
        yield "loopback", number, Raw(family) / make.v4()
    yield "loopback, macOS", 0, Raw(b"\x1e\0\0\0") / make.v6()
    yield "loop, OpenBSD", 108, Raw(b"\0\0\0\x18") / make.v6()
    yield "SLL", 113, CookedLinux(proto=0x800) / make.v4()
    yield "SLL, 802.1Q", 113, CookedLinux(proto=0x8100) / Dot1Q(vlan=4, type=0x800) / make.v4()
    yield "SLL2", 276, CookedLinuxV2(proto=0x86DD) / make.v6()
    yield "PPP", 9, Raw(b"\xff\x03\x00\x21") / make.v4()
    yield "PPP, compressed", 9, Raw(b"\x21") / make.v4()
    yield "PPP, IPv6", 9, Raw(b"\x00\x57") / make.v6()
    yield "PPP, HDLC", 50, Raw(b"\xff\x03\x00\x21") / make.v4()
    yield "PPP, Cisco", 50, Raw(b"\x0f\x00\x08\x00") / make.v4()
    yield "Cisco HDLC", 104, Raw(b"\x0f\x00\x86\xdd") / make.v6()
    yield "PPPoE alone", 51, PPPoE(sessionid=3) / PPP() / make.v4()
    yield "FDDI", 10, Raw(b"\x50" + b"\1" * 12) / snap / make.v4()
    yield "RFC 1483", 100, snap / make.v4()
    yield "802.11", 105, Dot11(type=2, **addresses) / snap / make.v4()
    yield "802.11, QoS", 105, Dot11(type=2, subtype=8, **addresses) / Dot11QoS() / snap / make.v4()
    relayed = Dot11(type=2, FCfield=3, addr4="02:00:00:00:00:04", **addresses)
    yield "802.11, relayed", 105, relayed / snap / make.v4()
    yield "radiotap", 127, RadioTap() / Dot11(type=2, **addresses) / snap / make.v4()
    stamped = RadioTap(present="TSFT+Flags+Rate", mac_timestamp=5, Flags=0, Rate=2)
    yield "radiotap, time and flags", 127, stamped / Dot11(type=2, **addresses) / snap / make.v4()


def pcapng(frames: Frames) -> bytes:
    """One interface per link type, a microsecond between packets."""

    def block(kind: int, body: bytes) -> bytes:
        length = len(body) + 12
        return struct.pack("<II", kind, length) + body + struct.pack("<I", length)

    section = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    interfaces: dict[int, bytes] = {}
    packets = b""
    for number, (_, link_type, packet) in enumerate(frames):
        interfaces.setdefault(link_type, block(1, struct.pack("<HHI", link_type, 0, 0)))
        data = bytes(packet)
        interface = list(interfaces).index(link_type)
        head = struct.pack("<IIIII", interface, 0, number, len(data), len(data))
        packets += block(6, head + data + bytes(-len(data) % 4))
    return section + b"".join(interfaces.values()) + packets


@pytest.mark.slow
@needs_tshark
@pytest.mark.parametrize(
    ("kind", "segments", "undecoded"),
    [
        (tags, 9, {}),
        (tunnels, 10, {}),
        (extensions, 10, {"fragments": 5}),
        (options, 6, {"not_tcp": 1}),
        (links, 27, {}),
    ],
)
def test_native_reader_and_tshark_agree(kind: Any, segments: int, undecoded: dict[str, int], tmp_path: Path) -> None:
    path = tmp_path / "all.pcapng"
    path.write_bytes(pcapng(kind(Builder())))
    native = tcptrace_lab.read(path, detail=True)
    assert (native.segments, native.undecoded) == (segments, undecoded)
    found = differences(native, tcptrace_lab.read(path, backend="tshark", detail=True))
    # For tshark a piece of a datagram is a packet without TCP.
    if "fragments" in undecoded:
        found.pop("undecoded")
    assert found == {}
