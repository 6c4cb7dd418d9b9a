"""Watching: at the end nothing that reading the whole capture would say otherwise, wherever the packets come from."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from tcptrace_lab import _core, read
from tcptrace_lab.capture import Capture
from tcptrace_lab.classify.verdict import classify
from tcptrace_lab.cli import main
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.replay.watch import NEVER_NS, Watch, watch_files
from tcptrace_lab.report.watch_view import Screen, connections_table
from tests.conftest import ROOT, SHARED, needs, needs_root, terminal

CAPTURES = ROOT / "captures"
SHORT = CAPTURES / "short_reno.pcap.gz"
RENO = CAPTURES / "reno_small_buffer.pcap.gz"
EVERY = sorted(
    [*CAPTURES.glob("*.pcap.gz"), *(SHARED / "captures" / "public").glob("*.pcap*")]
    + [path for kind in ("kernel", "identify") for path in (SHARED / "captures" / kind).glob("*.pcap.gz")]
)
# Each of one or two connections, captured where it was sent.
AT_SENDERS = sorted(path for path in EVERY if path.parent.name != "public" and path.name.count(".") == 2)


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


def test_in_a_pipe_each_event_is_a_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    """And at the end the verdicts, as classify has them."""
    assert main(["watch", str(SHORT)]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines[:2]] == ["syn", "established"]
    *events, verdict = lines
    assert all(event["time_s"] >= 0 for event in events)
    assert verdict.pop("event") == "verdict"
    assert verdict == json.loads(json.dumps(next(classify(read(SHORT), file=str(SHORT))).as_dict()))
    assert main(["replay", str(SHORT), "--watch", "--until", "50ms", "--no-verdicts"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert main(["watch", str(RENO), "--json", "--no-verdicts"]) == 0
    seen = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {event["phase"] for event in seen if event["event"] == "loss"} == {"recovery"}


def test_on_a_terminal_there_are_keys(tmp_path: Path) -> None:
    """The view as a person has it: a table, and q ends it."""
    own, other = terminal()
    command = [sys.executable, "-m", "tcptrace_lab", "replay", str(RENO), "--watch", "--speed", "2", "--no-verdicts"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "150", "LINES": "30"}
    with subprocess.Popen(
        command, stdin=other, stdout=other, stderr=other, env=environment, cwd=ROOT, start_new_session=True
    ) as program:
        os.close(other)
        told, typed = b"", False
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                told += os.read(own, 65536)
            except OSError:
                break
            if b"quit" in told and not typed:
                os.write(own, b" q")
                typed = True
        os.close(own)
        if program.poll() is None and not typed:
            program.kill()
    assert b"ssthresh" in told


def test_the_screen_shows_windows_in_segments() -> None:
    """Drawn without a terminal: what the table says of a run in its middle."""
    watcher = watch_files([str(RENO)])
    first = watcher.advance(NEVER_NS, 1, False, 1.0)
    assert first == "reached"
    watcher.advance((watcher.position()[1] or 0) + 5 * 10**9, NEVER_NS, False, 2.0)
    console = Console(width=150, height=30, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(Screen(console, None).drawn(Watch(watcher, "x")))
    text = console.export_text()
    assert "10.9.1.1" in text
    assert "avoidance" in text
    (row,) = watcher.connections(10)
    # The run: 10 Mbit/s, a window between 24 and 50 segments.
    assert 20 <= row["window"] / row["mss"] <= 60
    assert row["rate_bps"] == pytest.approx(5.8e6, rel=0.25)
    assert row["min_rtt_ns"] / 1e6 == pytest.approx(read(RENO).connections["rtt_min_ns_client"][0] / 1e6, rel=0.1)


def observed(found: Reconstruction) -> dict[str, Any]:
    """The last row of the windows as the packets show them, and the loss events so far."""
    last = found.envelope.iloc[-1]
    known = {name: int(last[name]) for name in ("cwnd", "cwnd_low", "cwnd_high", "ssthresh") if not pd.isna(last[name])}
    losses = sum(episode.detected_by != "tlp" for episode in found.episodes)
    return {**known, "flight": int(found.flight[-1]), "limited_by": last["limited_by"], "losses": losses}


@pytest.mark.parametrize("file", AT_SENDERS, ids=lambda path: path.name)
def test_on_the_way_the_observer_says_what_it_says_of_all_packets_until_then(file: Path) -> None:
    """Though it keeps some windows' rows only: window, bounds, threshold, flight, limit and losses, to the byte."""
    watcher = _core.Watcher("x", [str(file)], False, True)
    watcher.observe()
    watch = Watch(watcher, "x")
    step = read(file).packets // 4
    for _ in range(3):
        watcher.advance(NEVER_NS, step, False, 5.0)
        whole = watch.capture()
        for row in watcher.connections(2):
            now = watch.look(row)
            assert now is not None
            told = {name: value for name, value in asdict(now).items() if value is not None and name != "phase"}
            assert told == observed(whole[row["id"]].reconstruct()), watcher.position()


def test_an_event_carries_what_the_observer_says_then() -> None:
    """Also without a terminal: the windows at each loss and recovery are those of all packets until then."""
    watcher = _core.Watcher("x", [str(CAPTURES / "two_reno.pcap.gz")], False, True)
    watcher.observe()
    watch = Watch(watcher, "x")
    told = 0
    while told < 12 and watcher.advance(NEVER_NS, NEVER_NS, True, 5.0) != "ended":
        for event in watch.events():
            if event["event"] in ("loss", "timeout", "recovered"):
                said = observed(watch.capture()[event["connection"]].reconstruct())
                # What is outstanding is said of now, not of the last ACK.
                said.pop("flight")
                assert {name: event[name] for name in said} == said
                told += 1
    assert told == 12


def test_where_nobody_looks_no_packets_are_kept_for_it() -> None:
    """Lines of JSON ask for the observer only; a window behind the sender is rebuilt for the screen alone."""
    watcher = watch_files([str(CAPTURES / "cubic_v6_two_nodes.receiver.pcap.gz")])
    watcher.observe(keeps_recent=False)
    watcher.advance(NEVER_NS, 5000, False, 5.0)
    recent = watcher.recent(0)
    assert recent is not None
    assert recent.packets == 0


def test_what_is_kept_of_a_sender_does_not_grow_with_its_length() -> None:
    """Rows are dropped where nothing is open: at the end there are those of some windows, whatever was sent before."""
    file = CAPTURES / "cubic_20M.pcap.gz"
    watcher = watch_files([str(file)])
    watcher.observe()
    kept = []
    while watcher.advance(NEVER_NS, 500, False, 5.0) != "ended":
        kept.append(watcher.kept_rows())
    whole = next(classify(read(file))).seen
    # Segments and ACKs of eight windows, and as many until they are dropped; some of the other direction.
    windows = 2 * 2 * 8 * int(whole.flight.max()) / whole.timeline.smss
    assert max(kept) <= windows + 1024 < read(file).packets / 4


def test_behind_the_sender_a_window_is_rebuilt_or_not_told() -> None:
    """At the receiver's tap what has arrived and is not acknowledged is no window: with timestamps the sender's is
    rebuilt from the last windows, roughly that of all packets (few segments wait there for an ACK); no more is said."""
    file = CAPTURES / "cubic_v6_two_nodes.receiver.pcap.gz"
    watcher = _core.Watcher("x", [str(file)], False, True)
    watcher.observe()
    watch = Watch(watcher, "x")
    watcher.advance(NEVER_NS, read(file).packets // 2, False, 5.0)
    (row,) = watcher.connections(1)
    assert row["observed"] is None
    assert row["is_near"] is False
    now, whole = watch.look(row), watch.capture()[0].reconstruct()
    assert now is not None
    assert now.cwnd == pytest.approx(int(whole.envelope["cwnd"].iloc[-1]), rel=0.5)
    console = Console(width=150, height=30, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(connections_table([row], 0, {}))
    assert " - " in console.export_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["watch", "nowhere.pcap"], "nowhere.pcap: No such file"),
        (["watch", str(SHORT), "--speed", "0"], "--speed 0: must be above 0"),
        (["watch", str(SHORT), "--until", "soon"], "--until soon: must be a time"),
        (["watch", str(SHORT), "--step"], "--step: wants a terminal"),
        (["watch", str(ROOT / "README.md")], "README.md: at byte 0: capture file: not pcap"),
    ],
)
def test_errors_are_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2, and what to mend."""
    assert main(words) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1


@pytest.mark.parametrize("words", [["watch"], ["replay", "--watch"]], ids=" ".join)
def test_a_capture_without_a_connection_is_refused(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A header and nothing behind it: nothing to watch, and that is said."""
    file = tmp_path / "empty.pcap"
    file.write_bytes(gzip.decompress(SHORT.read_bytes())[:24])
    assert main([words[0], str(file), *words[1:]]) == 2
    assert "no TCP connection in 0 packets: nothing to watch" in capsys.readouterr().err


@needs_root
@needs("tcpdump", "tcpdump")
def test_an_interface_is_watched_as_it_goes() -> None:
    """Through tcpdump's own writer and our reader: every packet, in a namespace of the test's own."""
    name = f"tlwatch{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        talk = (
            "import socket,threading,time\n"
            "s=socket.create_server(('127.0.0.1',5599))\n"
            "threading.Thread(target=lambda:[s.accept()[0].recv(9999) for _ in iter(int,1)],daemon=True).start()\n"
            "while True:\n"
            "  time.sleep(0.2)\n"
            "  socket.create_connection(('127.0.0.1',5599)).sendall(b'x'*5000)"
        )
        inside = ["ip", "netns", "exec", name]
        talker = subprocess.Popen([*inside, sys.executable, "-c", talk])
        command = [sys.executable, "-m", "tcptrace_lab", "live", "lo", "--count", "20", "--duration", "60", "--lines"]
        done = subprocess.run([*inside, *command], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
        talker.terminate()
        talker.wait(10)
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)
    assert done.returncode == 0, done.stderr
    told = [json.loads(line)["event"] for line in done.stdout.splitlines()]
    begun = told.index("syn")
    assert told[begun : begun + 2] == ["syn", "established"]


def test_state_of_a_connection_does_not_grow_with_its_length() -> None:
    """A watcher keeps no packets: what it holds is the table, whose connections grow with their window only."""
    watcher = _core.Watcher("x", [str(CAPTURES / "cubic_20M.pcap.gz")])
    while watcher.advance(NEVER_NS, NEVER_NS, False, 1.0) != "ended":
        pass
    assert not watcher.capture().has_detail(0, 0)
