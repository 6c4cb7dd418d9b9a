"""Watching: at the end nothing that reading the whole capture would say otherwise, wherever the packets come from."""

from __future__ import annotations

import gzip
import json
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tcptrace_lab import read
from tcptrace_lab.capture import Capture
from tcptrace_lab.classify.verdict import classify
from tcptrace_lab.replay import watch as module
from tcptrace_lab.replay.watch import NEVER_NS, Watch, watch_files
from tcptrace_lab.scenario_file import load
from tcptrace_lab.simulate import simulate
from tests.conftest import ROOT, SHARED, needs, needs_root, own_network

CAPTURES = ROOT / "captures"
SHORT = CAPTURES / "short_reno.pcap.gz"
RENO = CAPTURES / "reno_small_buffer.pcap.gz"
EVERY = sorted(
    [*CAPTURES.glob("*.pcap.gz"), *(SHARED / "captures" / "public").glob("*.pcap*")]
    + [path for kind in ("kernel", "identify") for path in (SHARED / "captures" / kind).glob("*.pcap.gz")]
)


class Recorder:
    """A view that keeps what it is told, and types what it was given."""

    def __init__(self, *typed: str) -> None:
        self.events: list[dict[str, Any]] = []
        self.typed = list(typed)

    def show(self, watch: Watch) -> None:
        """Nothing."""

    def tell(self, event: dict[str, Any]) -> None:
        self.events.append(event)

    def commands(self, timeout_s: float) -> Sequence[str]:
        return [self.typed.pop(0)] if self.typed else []


def followed(*files: Path, detail: bool = False) -> Capture:
    """All of it, in steps of some hundred packets."""
    watcher = watch_files([str(file) for file in files], detail=detail)
    while watcher.advance(NEVER_NS, 777, False, 1.0) != "ended":
        pass
    return Capture(watcher.capture())


@pytest.mark.parametrize("file", EVERY, ids=lambda path: path.name)
def test_at_the_end_the_table_is_that_of_the_whole_capture(file: Path) -> None:
    """The incremental code is the batch code: every column of every connection."""
    whole = read(file)
    watched = followed(file)
    pd.testing.assert_frame_equal(watched.connections, whole.connections)
    assert (watched.packets, watched.segments, watched.truncated) == (whole.packets, whole.segments, whole.truncated)


@pytest.mark.parametrize("file", EVERY, ids=lambda path: path.name)
def test_what_it_keeps_for_the_verdicts_is_what_a_reading_keeps(file: Path) -> None:
    """A verdict rests on the connection's row and on these tables, so it is classify's on every capture there is."""
    for whole, watched in zip(read(file), followed(file, detail=True), strict=True):
        for there, here in zip(whole.flows, watched.flows, strict=True):
            pd.testing.assert_frame_equal(here.segments, there.segments)
            pd.testing.assert_frame_equal(here.acks, there.acks)


@pytest.mark.parametrize("name", ["short_reno", "reno_small_buffer", "reno_slow_reader", "two_reno"])
def test_at_the_end_the_verdict_is_that_of_classify(name: str) -> None:
    """Also where nothing can be read a second time: what came through a pipe was kept."""
    file = CAPTURES / f"{name}.pcap.gz"
    watched = [verdict.as_dict() for verdict in classify(followed(file, detail=True), file="x")]
    assert watched == [verdict.as_dict() for verdict in classify(read(file), file="x")]


def test_the_capture_s_own_clock_drives_it() -> None:
    """At ten times the speed 0.5 s take 50 ms; no packet is followed before its time."""
    watch = Watch(watch_files([str(SHORT)]), "x", speed=10.0, until_s=0.4)
    begun = time.monotonic()
    watch.run(Recorder())
    assert time.monotonic() - begun > 0.03
    assert 0.3 < watch.elapsed_s <= 0.4


def test_steps_are_packets_or_events() -> None:
    """Paused; a packet; the next event; and on."""
    watch = Watch(watch_files([str(RENO)]), "x", speed=1000.0, is_paused=True)
    watch.run(Recorder("step", "step", "quit"))
    assert watch.watcher.position()[0] == 2
    view = Recorder("event", "event", "event", "quit")
    watch.run(view)
    # SYN, SYN-ACK and ACK have been told: what comes next is the slow start's overshoot.
    assert view.events[-1]["event"] in ("loss", "timeout", "recovered")
    assert 100 < watch.watcher.position()[0] < read(RENO).packets // 2


def test_loss_events_are_told_as_they_happen() -> None:
    """At a glance: as many as reconstruction finds, give or take what only hindsight tells."""
    view = Recorder()
    Watch(watch_files([str(RENO)]), "x").run(view)
    told = [event for event in view.events if event["event"] in ("loss", "timeout")]
    found = next(classify(read(RENO))).seen.episodes
    assert abs(len(told) - len(found)) <= max(1, len(found) // 10)
    first = min(found, key=lambda episode: episode.time_ns)
    assert told[0]["time_ns"] == first.time_ns


def test_captures_one_after_the_other_are_one_stream(tmp_path: Path) -> None:
    """A connection that crosses the border between two files of a rotation is one."""
    parts = split(RENO, tmp_path / "ring.pcap", 3)
    together = followed(*parts)
    assert len(together) == 1
    assert together.packets == read(RENO).packets
    pd.testing.assert_frame_equal(together.connections, read(RENO).connections)


def split(source: Path, target: Path, count: int) -> list[Path]:
    """A pcap as several, named as tcpdump -C names them."""
    data = gzip.decompress(source.read_bytes())
    order = "little" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else "big"
    header, at, records = data[:24], 24, []
    while at < len(data):
        length = int.from_bytes(data[at + 8 : at + 12], order)
        records.append(data[at : at + 16 + length])
        at += 16 + length
    share = -(-len(records) // count)
    parts = []
    for number in range(count):
        parts.append(target.with_name(target.name + (str(number) if number else "")))
        parts[-1].write_bytes(header + b"".join(records[number * share : (number + 1) * share]))
    return parts


def test_a_growing_rotation_is_followed_from_file_to_file(tmp_path: Path) -> None:
    """Written while it is watched, in pieces that end anywhere; then the writer goes on with the next file."""
    parts = [path.read_bytes() for path in split(RENO, tmp_path / "whole.pcap", 2)]
    first, second = tmp_path / "live.pcap", tmp_path / "live.pcap1"
    first.write_bytes(parts[0][:1000])
    watcher = watch_files([str(first)], follow=True)

    def write() -> None:
        with open(first, "ab") as file:
            for at in range(1000, len(parts[0]), 200_001):
                file.write(parts[0][at : at + 200_001])
                file.flush()
        time.sleep(0.05)
        second.write_bytes(parts[1])

    writer = threading.Thread(target=write)
    writer.start()
    wanted = read(RENO).packets
    deadline = time.monotonic() + 120
    while watcher.position()[0] < wanted and time.monotonic() < deadline:
        watcher.advance(NEVER_NS, NEVER_NS, False, 0.05)
    writer.join()
    watcher.stop()
    pd.testing.assert_frame_equal(Capture(watcher.capture()).connections, read(RENO).connections)


def test_a_pipe_is_followed_as_it_fills(tmp_path: Path) -> None:
    """Packets are shown when they are there, not when a buffer is full."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    data = gzip.decompress(SHORT.read_bytes())
    go_on = threading.Event()

    def write() -> None:
        with open(pipe, "wb", buffering=0) as file:
            file.write(data[:2000])
            go_on.wait(120)
            file.write(data[2000:])

    writer = threading.Thread(target=write)
    writer.start()
    watcher = watch_files([str(pipe)])
    deadline = time.monotonic() + 120
    while watcher.position()[0] < 10 and time.monotonic() < deadline:
        watcher.advance(NEVER_NS, NEVER_NS, False, 0.05)
    assert 10 <= watcher.position()[0] < 30
    go_on.set()
    while watcher.advance(NEVER_NS, NEVER_NS, False, 1.0) != "ended":
        pass
    writer.join()
    assert watcher.position()[0] == read(SHORT).packets


class Seeker(Recorder):
    """Asks for the next event each time that one was told, until the last of a connection."""

    def commands(self, timeout_s: float) -> Sequence[str]:
        asked = len(self.typed)
        if time.monotonic() > self.deadline or "fin" in [event["event"] for event in self.events]:
            return ["quit"]
        if asked > len(self.events):
            return []
        self.typed.append("event")
        return ["event"]

    deadline = math.inf


def test_the_next_event_is_sought_however_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost between the handshake and the end, and each look ends before it comes there."""
    monkeypatch.setattr(module, "PATIENCE_S", 0.0)
    view = Seeker()
    view.deadline = time.monotonic() + 60
    Watch(watch_files([str(CAPTURES / "reno_rwnd.pcap.gz")]), "x", speed=1.0, is_paused=True).run(view)
    assert [event["event"] for event in view.events][-1:] == ["fin"]


def test_what_was_not_followed_is_not_counted() -> None:
    """Packets are read ahead, in batches; where it stops they have not been seen."""
    watch = Watch(watch_files([str(RENO)]), "x", until_s=1.0)
    watch.run(Recorder())
    capture = watch.capture()
    followed = watch.watcher.position()[0]
    assert 0 < followed < read(RENO).packets
    assert capture.packets == capture.segments == followed
    assert capture.connections["packets"].sum() == followed


TALKS = """
import socket, threading, time
s = socket.create_server(("127.0.0.1", 5599))
threading.Thread(target=lambda: [s.accept()[0].recv(9999) for _ in iter(int, 1)], daemon=True).start()
while True:
    time.sleep(0.2)
    socket.create_connection(("127.0.0.1", 5599)).sendall(b"x" * 5000)
"""

LIVE = '"$0" -m tcptrace_lab live lo --count 20 --duration 60 --lines'

PIPE = 'tcpdump -i lo -n -U --immediate-mode -w - tcp | "$0" -m tcptrace_lab watch - --until 1s --no-verdicts'


@needs_root
@needs("tcpdump", "tcpdump")
@pytest.mark.parametrize("command", [LIVE, PIPE], ids=["live", "tcpdump"])
def test_an_interface_is_watched_as_it_goes(command: str) -> None:
    """Through tcpdump's own writer and our reader: every packet, in a namespace of the test's own."""
    with own_network() as inside:
        talker = subprocess.Popen([*inside, sys.executable, "-c", TALKS])
        words = [*inside, "sh", "-c", command, sys.executable]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
        talker.terminate()
        talker.wait(10)
    assert done.returncode == 0, done.stderr
    told = [json.loads(line)["event"] for line in done.stdout.splitlines()]
    begun = told.index("syn")
    assert told[begun : begun + 2] == ["syn", "established"]


def test_state_of_a_connection_does_not_grow_with_its_length(tmp_path: Path) -> None:
    """Ten times the packets of one sender, with as many losses, in the same memory: a row of each would take 50 MB."""
    code = (
        "import sys; from tcptrace_lab import _core\n"
        "watcher = _core.Watcher('x', [sys.argv[1]], False, None); watcher.observe(keeps_recent=False)\n"
        "events, state = 0, None\n"
        "while state != 'ended':\n"
        "    state = watcher.advance(2**63 - 1, 2**63 - 1, False, 0.1)\n"
        "    events += len(watcher.events())\n"
        "status = dict(line.split(':') for line in open('/proc/self/status'))\n"
        "print(events, int(status['VmHWM'].split()[0]) // 1024)"
    )
    told = []
    for seconds in (50, 500):
        file = tmp_path / f"{seconds}.pcap"
        run = simulate(load(CAPTURES / "scenarios" / "reno_10M.toml", overrides=[f"duration_s={seconds}"]))
        run.write(file, payload=False)
        done = subprocess.run(
            [sys.executable, "-c", code, str(file)], cwd=ROOT, capture_output=True, text=True, check=True
        )
        told.append([int(word) for word in done.stdout.split()])
    (few, short_mb), (many, long_mb) = told
    assert many > 5 * few
    assert long_mb < short_mb + 5
