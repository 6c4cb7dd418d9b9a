"""A capture on a wire: in namespaces that the test makes, what arrives is what was recorded, when it was."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tcptrace_lab import read
from tcptrace_lab.capture import Capture
from tcptrace_lab.cli import main
from tcptrace_lab.errors import LabError
from tcptrace_lab.replay.wire import plan
from tests.conftest import ROOT, needs, needs_root, own_network

SHORT = ROOT / "captures" / "short_reno.pcap.gz"


def ip(inside: list[str], *words: str) -> None:
    """Run ip(8) there."""
    subprocess.run([*inside, "ip", *words], check=True)


@pytest.fixture
def inside() -> Iterator[list[str]]:
    """The words that lead into a namespace with a pair of joined interfaces, wire0 and wire1."""
    with own_network() as words:
        ip(words, "link", "add", "wire0", "type", "veth", "peer", "name", "wire1")
        for link in ("wire0", "wire1"):
            ip(words, "link", "set", link, "up")
        yield words


def replay(inside: list[str], *words: str) -> subprocess.CompletedProcess[str]:
    """The command there."""
    command = [*inside, sys.executable, "-m", "tcptrace_lab", "replay", str(SHORT), *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


@needs_root
@pytest.mark.parametrize("sender", ["scapy", pytest.param("tcpreplay", marks=needs("tcpreplay", "tcpreplay"))])
def test_what_arrives_is_what_was_recorded(sender: str, inside: list[str], tmp_path: Path) -> None:
    """Every packet in order, addresses rewritten with right checksums, times within some milliseconds.

    Where other programs have the processors a packet waits for them: one time of five must be undisturbed.
    """
    recorded, late_ns = read(SHORT), math.inf
    for number in range(5):
        arrived = sent_again(inside, tmp_path / f"arrived{number}.pcap", sender)
        assert arrived.packets == recorded.packets
        assert arrived.connections["client"][0] == "192.0.2.1"
        for column in ("unique_bytes", "retransmissions", "packets_client", "packets_server", "end"):
            assert arrived.connections[column][0] == recorded.connections[column][0]
        ours, theirs = (each[0].data_flow.segments["time_ns"].to_numpy() for each in (arrived, recorded))
        late_ns = np.percentile(np.abs((ours - ours[0]) - (theirs - theirs[0])), 90)
        if late_ns < 20e6:
            break
    assert late_ns < 20e6


def sent_again(inside: list[str], file: Path, sender: str) -> Capture:
    """The short capture sent from wire0, as wire1 had it."""
    # As another user it would outlive us.
    listen = [*inside, "tcpdump", "-Z", "root", "-i", "wire1", "--immediate-mode", "-U", "-w", str(file), "tcp"]
    with subprocess.Popen(listen, stderr=subprocess.PIPE, text=True) as program:
        assert program.stderr is not None
        program.stderr.readline()
        words = ["--interface", "wire0", "--rewrite", "10.9.1.1=192.0.2.1", "--sender", sender, "--yes"]
        done = replay(inside, *words)
        # What has arrived is written a moment later.
        until = time.monotonic() + 60
        while time.monotonic() < until and read(file).packets < read(SHORT).packets:
            time.sleep(0.05)
        program.terminate()
        program.communicate(timeout=60)
    assert done.returncode == 0, done.stderr
    assert re.search(r"timing     off by \d+ us \(half of the packets\)", done.stdout)
    return read(file)


@needs_root
def test_nothing_is_sent_without_a_yes_nor_into_the_world(inside: list[str]) -> None:
    """It is shown first; an interface with a default route is refused."""
    shown = replay(inside, "--interface", "wire0")
    assert shown.returncode == 2
    assert "10.9.1.1" in shown.stdout
    assert "nothing was sent: --yes sends it" in shown.stderr
    ip(inside, "addr", "add", "198.51.100.1/24", "dev", "wire0")
    ip(inside, "route", "add", "default", "via", "198.51.100.2")
    refused = replay(inside, "--interface", "wire0", "--yes")
    assert refused.returncode == 2
    assert "default route" in refused.stderr
    assert replay(inside, "--interface", "wire0", "--anywhere", "--speed", "20", "--yes").returncode == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--interface", "nowhere0"], "nowhere0: no such network interface"),
        (["--interface", "lo", "--rewrite", "a=b"], "--rewrite a=b: must be OLD=NEW"),
        (["--interface", "lo", "--sender", "pigeon"], "--sender pigeon: must be one of"),
    ],
)
def test_errors_are_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2, and what to mend."""
    assert main(["replay", str(SHORT), *words]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1


def test_a_capture_without_ip_is_refused(tmp_path: Path) -> None:
    """Nothing to send."""
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000"))
    with pytest.raises(LabError, match="no IP packet to send"):
        plan(read(empty), "lo", anywhere=True)
