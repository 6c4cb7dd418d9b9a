"""Broken and foreign files: a result, or one line on stderr and exit status 2; bounded time and memory."""

from __future__ import annotations

import csv
import gzip
import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.conftest import ROOT, SHARED, shared

MANIFEST = SHARED / "captures" / "public" / "malformed" / "MANIFEST.csv"
FILES = [row["file"] for row in csv.DictReader(MANIFEST.open())] if MANIFEST.exists() else ["MANIFEST.csv"]

LIMIT_S = 60
LIMIT_KB = 300 * 1024

# Not captures, or of a version that nobody has defined.
UNREADABLE = {
    "libpcap-pcap-invalid-version-1.pcap": "version 1.4",
    "libpcap-pcapng-invalid-vers-1.pcapng": "pcapng version 0.1",
    "libpcap-shb-option-too-long.pcapng": "total lengths 52 and 808464432",
    "tcptrace-all.snoop.gz": "Solaris snoop",
    "tcptrace-eth.erf.gz": "begins with 00115318",
}

# A process of its own between the tests and the command: ru_maxrss begins at what the process that forked had resident.
METER = f"""
import resource, subprocess, sys
status = subprocess.run(sys.argv[2:], timeout={LIMIT_S}).returncode
with open(sys.argv[1], "w") as peak:
    peak.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(status)
"""


def analyze(path: Path) -> tuple[int, str, str, int]:
    """Exit status, standard output and error, and the most memory that was resident (KB)."""
    command = [sys.executable, "-m", "tcptrace_lab", "analyze", "--json", str(path)]
    with tempfile.NamedTemporaryFile("r") as peak:
        done = subprocess.run(
            [sys.executable, "-c", METER, peak.name, *command], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout, done.stderr, int(peak.read())


@pytest.mark.parametrize("name", FILES)
def test_malformed_file_ends_in_a_result_or_in_one_line(name: str) -> None:
    path = shared("captures", "public", "malformed", name)
    status, out, err, peak_kb = analyze(path)
    assert peak_kb < LIMIT_KB
    if name in UNREADABLE:
        assert status == 2
        assert out == ""
        assert len(err.splitlines()) == 1
        assert str(path) in err
        assert "at byte " in err
        assert UNREADABLE[name] in err
        return
    assert (status, err) == (0, "")
    (capture,) = json.loads(out)
    # No packet goes uncounted.
    assert capture["packets"] == capture["segments"] + sum(capture["undecoded"].values())


def test_cut_captures_say_where() -> None:
    path = shared("captures", "public", "malformed", "ndpi-fuzz-2021-10-13.pcap")
    _, out, _, _ = analyze(path)
    assert json.loads(out)[0]["truncated"] == {
        "offset": 237,
        "reason": "record header of 16 bytes, 2 left",
    }


def test_capture_without_tcp_names_its_link_type() -> None:
    path = shared("captures", "public", "ppp-microsecs_big_endian.pcap")
    status, out, err, _ = analyze(path)
    capture = json.loads(out)[0]
    assert (status, err, capture["connections"]) == (0, "", [])
    assert (capture["undecoded"], capture["unknown_link_type"]) == ({"unknown_link_type": 13}, "253 (NETLINK)")


def header(snaplen: int = 65535) -> bytes:
    return struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, snaplen, 1)


@pytest.mark.slow
def test_decompression_bomb_takes_time_and_no_memory(tmp_path: Path) -> None:
    """400 MB of empty records in 0.4 MB, and one record that claims 4 GB behind a header that allows it."""
    bomb = tmp_path / "bomb.pcap.gz"
    with gzip.open(bomb, "wb", compresslevel=1) as stream:
        stream.write(header())
        for _ in range(400):
            stream.write(bytes(1 << 20))
    status, out, _, peak_kb = analyze(bomb)
    assert status == 0
    assert peak_kb < LIMIT_KB
    assert json.loads(out)[0]["undecoded"] == {"malformed": 400 * (1 << 20) // 16}
    absurd = tmp_path / "absurd.pcap.gz"
    with gzip.open(absurd, "wb", compresslevel=1) as stream:
        stream.write(header(0xFFFFFFFF) + struct.pack("<IIII", 0, 0, 0xFFFFFFFF, 0xFFFFFFFF) + bytes(1 << 20))
    status, out, _, peak_kb = analyze(absurd)
    assert status == 0
    assert peak_kb < LIMIT_KB
    assert json.loads(out)[0]["truncated"]["offset"] == 24


def test_missing_file_and_folder_are_one_line(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.pcap", tmp_path):
        status, out, err, _ = analyze(path)
        assert (status, out, len(err.splitlines())) == (2, "", 1)
        assert str(path) in err


def test_text_file_is_named_as_such(tmp_path: Path) -> None:
    path = tmp_path / "notes.pcap"
    path.write_text("time,bytes\n1,2\n")
    status, _, err, _ = analyze(path)
    assert status == 2
    assert "begins with the text" in err


def test_unreadable_file_among_others_does_not_hide_them(tmp_path: Path) -> None:
    good = ROOT / "captures" / "short_reno.pcap.gz"
    bad = tmp_path / "bad.pcap"
    bad.write_bytes(os.urandom(4) + b"\0" * 100)
    command = [sys.executable, "-m", "tcptrace_lab", "analyze", "--json", str(good), str(bad)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert len(json.loads(done.stdout)) == 1
