"""An ns-2 event trace as a capture at its sender: packet n is the bytes from 1 + n p on, as in our `ns2` profile."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.capture import Capture

HEADERS = 40
SENDER, RECEIVER = ("10.9.1.1", 40000), ("10.9.2.1", 5001)
ACK_FLAG = 0x10
ABSENT = -1


def read_events(path: Path) -> Capture:
    """What leaves the sender and what comes back to it, of columns t_s, node, event, seq, size_bytes."""
    with gzip.open(path, "rt", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["node"] == "S" and row["event"] in ("send", "recv_ack")]
    is_data = np.array([row["event"] == "send" for row in rows])
    number = np.array([int(row["seq"]) for row in rows], dtype=np.int64)
    payload = max(int(row["size_bytes"]) for row in rows) - HEADERS
    ends = [(SENDER, RECEIVER) if sent else (RECEIVER, SENDER) for sent in is_data]

    def column(data: Any, ack: Any) -> np.ndarray:
        return np.where(is_data, data, ack).astype(np.int64)

    follower = _core.Follower(path.name, True)
    follower.push_columns(
        {
            "packet": np.arange(len(rows)),
            "time_ns": np.array([round(float(row["t_s"]) * 1e9) for row in rows], dtype=np.int64),
            "src": [source[0] for source, _ in ends],
            "dst": [target[0] for _, target in ends],
            "src_port": np.array([source[1] for source, _ in ends], dtype=np.int64),
            "dst_port": np.array([target[1] for _, target in ends], dtype=np.int64),
            "seq": column(number * payload + 1, 1),
            "ack": column(1, (number + 1) * payload + 1),
            "flags": column(ACK_FLAG, ACK_FLAG),
            "window": column(65535, 65535),
            "payload_len": column(payload, 0),
            "ip_len": column(payload + HEADERS, HEADERS),
            "ip_id": np.arange(len(rows)) % 65536,
            "ttl": column(64, 64),
            "ecn": column(0, 0),
            **{name: column(ABSENT, ABSENT) for name in ("mss", "wscale", "ts_val", "ts_ecr")},
            **{name: np.zeros(len(rows), dtype=bool) for name in ("sack_permitted", "has_tfo", "has_mptcp")},
            "sack": [[] for _ in rows],
        },
        len(rows),
        0,
        0,
    )
    return Capture(follower.capture())
