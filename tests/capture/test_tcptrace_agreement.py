"""Field by field against tcptrace 6.6.7 on every capture with a reference output, and on the kernel's captures.

A field may differ only where `DIFFERENCES` lists it, with the reason why we are right; an entry that no longer differs
fails too.
"""

from __future__ import annotations

import ipaddress
import math
import subprocess
from pathlib import Path

import pandas as pd
import pytest

import tcptrace_lab
from tests import tcptrace_text
from tests.conftest import SHARED, needs, shared, shared_files
from tests.tcptrace_text import Traced

PUBLIC = SHARED / "captures" / "public"

# tcptrace's label -> our column (with `_client` or `_server` behind it).
COUNTS = {
    "total packets": "packets",
    "ack pkts sent": "acks",
    "pure acks sent": "pure_acks",
    "sack pkts sent": "sack_packets",
    "dsack pkts sent": "dsacks",
    "unique bytes sent": "unique_bytes",
    "actual data pkts": "data_packets",
    "actual data bytes": "bytes",
    "rexmt data pkts": "retransmissions",
    "rexmt data bytes": "retransmitted_bytes",
    "outoforder pkts": "out_of_order",
    "zero win adv": "zero_windows",
    "max win adv": "max_window",
    "max segm size": "max_segment",
    "mss requested": "mss",
    "initial window": "initial_window_bytes",
    "initial window pkts": "initial_window_segments",
    "RTT samples": "rtt_count",
}
# Printed in milliseconds with one digit.
TIMES = {
    "RTT min": "rtt_min_ns",
    "RTT max": "rtt_max_ns",
    "RTT avg": "rtt_mean_ns",
    "RTT from 3WHS": "handshake_rtt_ns",
}
# Half a digit; the average it cuts instead of rounding.
ROUNDING = {"RTT min": 0.051, "RTT max": 0.051, "RTT avg": 0.101, "RTT from 3WHS": 0.051}
ENDS = {"yes": "fin", "RESET": "rst", "no": "open"}

SYN = "tcptrace counts a repeated SYN as a retransmitted data packet of one byte; it carries no data (RFC 9293 3.4)"
FIN = "tcptrace counts a repeated FIN (here on every ACK of a half-closed peer) as a retransmitted byte of data"
ZERO = "a sample of 0 us is the minimum; tcptrace takes 0 for `no minimum yet` and replaces it by the next sample"
MIDDLE = "the capture starts in the middle: what tcptrace calls the initial window is not the connection's first"
OFFER = "the SYN-ACK offered 65160 bytes (unscaled, RFC 7323 2.2); tcptrace forgets a SYN's window once scaling begins"
REXMT = ("rexmt data pkts", "rexmt data bytes")

# (capture, connection, side) -> (fields, reason)
DIFFERENCES: dict[tuple[str, int, str], tuple[tuple[str, ...], str]] = {
    **{("ppa-http_espn_fail.pcapng", id, "client"): (REXMT, SYN) for id in (2, 3, 4, 5, 6, 9, 13, 14, 15)},
    ("ppp-one_tcp_stream_max_seq.pcap", 0, "client"): (REXMT, FIN),
    ("usi-reno-flow.pcapng", 0, "server"): (REXMT, FIN),
    **{("ppp-example.pcap", id, "server"): (("RTT min",), ZERO) for id in (1, 2, 3, 6)},
    ("tcptrace-psc.fddi.dmp.gz", 0, "server"): (("RTT min",), ZERO),
    ("nebby-test.pcap", 0, "server"): (("max win adv",), OFFER),
    ("ppp-example.pcap", 65, "client"): (("initial window", "initial window pkts"), MIDDLE),
}


def _end(text: str) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]:
    host, _, port = text.rpartition(":")
    return ipaddress.ip_address(host), int(port)


def differences(row: pd.Series, traced: Traced) -> set[tuple[str, str, str]]:
    """(side, field, what each says) where the two do not agree."""
    client, server = _end(f"{row['client']}:{row['client_port']}"), _end(f"{row['server']}:{row['port']}")
    ends = (_end(traced.a), _end(traced.b))
    assert set(ends) == {client, server}
    sides = ("client", "server") if ends[0] == client else ("server", "client")
    found = set()
    for label, column in (COUNTS | TIMES).items():
        for side, printed in zip(sides, traced.values.get(label, ()), strict=False):
            if printed == "NA":
                continue
            ours = float(row[f"{column}_{side}"])
            theirs = float(printed)
            is_time = label in TIMES
            # Not known to us is 0 in tcptrace.
            known = 0.0 if math.isnan(ours) else ours / 1e6 if is_time else ours
            if abs(known - theirs) > (ROUNDING[label] if is_time else 0.0):
                found.add((side, label, f"ours {known:g}, tcptrace {theirs:g}"))
    if ENDS[traced.complete] != row["end"]:
        found.add(("both", "end", f"ours {row['end']}, tcptrace {traced.complete}"))
    return found


REFERENCES = shared_files("captures", "public", "reference", pattern="*.tcptrace.txt.gz")


@pytest.mark.parametrize("text", REFERENCES, ids=lambda path: path.name.removesuffix(".tcptrace.txt.gz"))
def test_agrees_with_tcptrace_but_for_the_listed_differences(text: Path) -> None:
    name = text.name.removesuffix(".tcptrace.txt.gz")
    path = next(folder / name for folder in (PUBLIC, PUBLIC / "tcprs") if (folder / name).exists())
    table = tcptrace_lab.read(path).connections
    reference = tcptrace_text.read(text)
    assert len(table) == len(reference)
    compared = 0
    for id, traced in enumerate(reference):
        found = differences(table.iloc[id], traced)
        listed = {
            (side, field)
            for (file, number, side), (fields, _) in DIFFERENCES.items()
            for field in fields
            if (file, number) == (name, id)
        }
        assert {(side, field) for side, field, _ in found} == listed, sorted(found)
        compared += sum(len(pair) for label, pair in traced.values.items() if label in COUNTS | TIMES)
    assert compared >= 40 * len(reference)


def test_references_are_there() -> None:
    shared("captures", "public", "reference")
    assert len(REFERENCES) >= 18


@pytest.mark.slow
@needs("tcptrace", "tcptrace")
@pytest.mark.parametrize("path", shared_files("captures", "kernel", pattern="*.pcap.gz"), ids=lambda path: path.name)
def test_agrees_with_tcptrace_on_kernel_captures(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(["tcptrace", "-l", "-r", "-n", path], capture_output=True, cwd=tmp_path, check=True)
    reference = tcptrace_text.parse(done.stdout.decode("latin-1"))
    table = tcptrace_lab.read(path).connections
    assert len(table) == len(reference)
    for id, traced in enumerate(reference):
        row = table.iloc[id]
        found = {(side, field) for side, field, _ in differences(row, traced)}
        # tcptrace calls no connection complete whose SYNs it has not seen; ours ends with both FINs all the same.
        assert found == (set() if row["from_start"] else {("both", "end")})
