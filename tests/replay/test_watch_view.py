"""What watching shows on the way: the observer's windows, on a terminal with keys or as lines of JSON."""

from __future__ import annotations

import contextlib
import functools
import gzip
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from tcptrace_lab import _core, read
from tcptrace_lab.classify.verdict import classify
from tcptrace_lab.cli import main
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.replay.watch import NEVER_NS, Watch, watch_files
from tcptrace_lab.report.watch_view import KEYS as KEY_NAMES
from tcptrace_lab.report.watch_view import Screen, connections_table
from tests.conftest import ROOT, terminal
from tests.replay.test_watch import CAPTURES, EVERY, RENO, SHORT

# Each of one or two connections, captured where it was sent.
AT_SENDERS = sorted(path for path in EVERY if path.parent.name != "public" and path.name.count(".") == 2)


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


# What each key does, by the packets followed and the pace in the title before and behind it.
KEYS = (
    (b" ", lambda was, now: now[1] == "paused"),
    (b"s", lambda was, now: now == (was[0] + 1, "paused")),
    (b"e", lambda was, now: now[0] > was[0] + 1 and now[1] == "paused"),
    (b" ", lambda was, now: now[1] == "2 x"),
    (b"+", lambda was, now: now[1] == "4 x"),
    (b"-", lambda was, now: now[1] == "2 x"),
)


def test_on_a_terminal_there_are_keys() -> None:
    """The view as a person has it: a table, each key does what the last line says, and q ends it."""
    own, other = terminal()
    command = [sys.executable, "-m", "tcptrace_lab", "replay", str(RENO), "--watch", "--speed", "2", "--no-verdicts"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "150", "LINES": "30"}
    with subprocess.Popen(
        command, stdin=other, stdout=other, stderr=other, env=environment, cwd=ROOT, start_new_session=True
    ) as program:
        os.close(other)
        told = b""
        deadline = time.monotonic() + 120

        def until(is_so: Callable[[tuple[int, str]], bool]) -> tuple[int, str]:
            """The first title of which it is so."""
            nonlocal told
            seen = len(told)
            while time.monotonic() < deadline:
                for packets, pace in re.findall(rb"s  (\d+) packets  (paused|[\d.]+ x)\W", told[seen:]):
                    if is_so((int(packets), pace.decode())):
                        return int(packets), pace.decode()
                told += os.read(own, 65536)
            raise AssertionError(told[seen:])

        try:
            was = until(lambda title: title[0] > 10)
            for key, does in KEYS:
                os.write(own, key)
                was = until(functools.partial(does, was))
            os.write(own, b"q")
            with contextlib.suppress(OSError):
                while more := os.read(own, 65536):
                    told += more
            assert program.wait(60) == 0
        finally:
            os.close(own)
            program.kill()
    assert b"ssthresh" in told
    assert b"1 TCP connection\r" in told


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


def test_n_marks_the_next_connection() -> None:
    """One row in reverse, which is looked at closely; behind the last comes the first."""
    watcher = watch_files([str(CAPTURES / "two_reno.pcap.gz")])
    while watcher.advance(NEVER_NS, NEVER_NS, False, 1.0) != "ended":
        pass
    rows = watcher.connections(10)
    marked = [[row.style for row in connections_table(rows, chosen, {}).rows].index("reverse") for chosen in range(4)]
    assert marked == [0, 1, 0, 1]
    assert KEY_NAMES["n"] == "next"


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
