"""Watching on a terminal, with keys; or a line of JSON for each event where there is none."""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import termios
import tty
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tcptrace_lab.numbers import counted

if TYPE_CHECKING:
    from tcptrace_lab.replay.watch import Seen, Watch

KEYS = {" ": "pause", "s": "step", "e": "event", "+": "faster", "=": "faster", "-": "slower", "n": "next", "q": "quit"}
HELP = "space pause   s step   e next event   + faster   - slower   n next connection   q quit"
# Rows: the header, the column names, the events and the keys stay on the screen too.
LAST_EVENTS = 6
FURNITURE = LAST_EVENTS + 6
LEAST_ROWS = 5


class JsonLines:
    """A line per event; nothing is asked for."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self.stream = stream or sys.stdout

    def show(self, watch: Watch) -> None:
        self.stream.flush()

    def tell(self, event: dict[str, Any]) -> None:
        self.stream.write(json.dumps(event) + "\n")

    def commands(self, timeout_s: float) -> Sequence[str]:
        if timeout_s:
            import time

            time.sleep(timeout_s)
        return ()


class Silent(JsonLines):
    """Nothing is shown on the way."""

    def tell(self, event: dict[str, Any]) -> None:
        pass


class Screen:
    """The terminal: connections, the last events, keys."""

    def __init__(self, console: Console, keys: int | None) -> None:
        self.console = console
        self.keys = keys
        self.last: deque[dict[str, Any]] = deque(maxlen=LAST_EVENTS)
        self.live = Live(console=console, transient=True, auto_refresh=False)

    def show(self, watch: Watch) -> None:
        self.live.update(self.drawn(watch), refresh=True)

    def tell(self, event: dict[str, Any]) -> None:
        self.last.append(event)

    def commands(self, timeout_s: float) -> Sequence[str]:
        if self.keys is None:
            select.select([], [], [], timeout_s)
            return ()
        if not select.select([self.keys], [], [], timeout_s)[0]:
            return ()
        typed = os.read(self.keys, 64).decode(errors="ignore")
        return [KEYS[key] for key in typed if key in KEYS]

    def drawn(self, watch: Watch) -> Group:
        """Everything on the screen."""
        rows = watch.watcher.connections(max(self.console.height - FURNITURE, LEAST_ROWS))
        seen = watch.seen(rows)
        records = watch.watcher.position()[0]
        speed = "as it comes" if watch.speed is None else f"{watch.speed:g} x"
        state = "paused" if watch.is_paused else speed
        shown = f"{watch.name}  {watch.elapsed_s:.3f} s  {counted(records, 'packet')}  {state}"
        head = Text(shown, style="bold", no_wrap=True)
        return Group(head, connections_table(rows, watch.chosen, seen), *self._events(), Text(HELP, style="dim"))

    def _events(self) -> Iterator[Text]:
        for event in self.last:
            words = (
                f"{event['time_s']:12.6f}  #{event['connection']}  {event['event']}  {event['from']} -> {event['to']}"
            )
            yield Text(f"{words}, {counted(event['flight'], 'byte')} outstanding", no_wrap=True)


def connections_table(rows: list[dict[str, Any]], chosen: int, seen: Mapping[int, Seen]) -> Table:
    """One row per connection; windows in segments: the observer's, with ~ where the tap may not be the sender's, or
    before the first ACK."""
    table = Table(box=None, pad_edge=False, header_style="cyan")
    for name in ("#", "sender", "receiver"):
        table.add_column(name, no_wrap=True)
    for name in ("cwnd", "ssthresh", "flight", "Mbit/s", "RTT ms", "least", "retr", "losses"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("phase", "limited by", "last event"):
        table.add_column(name, no_wrap=True)
    for number, row in enumerate(rows):
        mss, found = max(row["mss"], 1), seen.get(row["id"])
        table.add_row(
            str(row["id"]),
            row["sender"],
            row["receiver"],
            *_windows(row, found, mss),
            f"{row['rate_bps'] / 1e6:.3g}",
            _ms(row["srtt_ns"]),
            _ms(row["min_rtt_ns"]),
            str(row["retransmissions"]),
            f"~{row['losses']}" if found is None or found.losses is None else str(found.losses),
            f"~{row['phase']}" if found is None or found.phase is None else found.phase,
            f"~{row['limited_by']}" if found is None else found.limited_by,
            row["last_event"] or "-",
            style="reverse" if rows and number == chosen % len(rows) else "",
        )
    return table


def _windows(row: dict[str, Any], seen: Seen | None, mss: int) -> tuple[str, str, str]:
    """cwnd, ssthresh, flight."""
    if seen is None and row["is_near"] is False:
        # What has reached the tap and is not acknowledged is no window.
        return "-", "-", "-"
    if seen is None:
        ssthresh = "-" if row["ssthresh"] is None else f"~{row['ssthresh'] / mss:.1f}"
        return f"~{row['window'] / mss:.1f}", ssthresh, f"~{row['flight'] / mss:.1f}"
    about = "" if row["is_near"] else "~"
    ssthresh = "-" if seen.ssthresh is None else f"{about}{seen.ssthresh / mss:.1f}"
    bound = "+" if seen.cwnd_high is None else ""
    return f"{about}{seen.cwnd / mss:.1f}{bound}", ssthresh, f"{about}{seen.flight / mss:.1f}"


def _ms(ns: int | None) -> str:
    return "-" if ns is None else f"{ns / 1e6:.3g}"


@contextlib.contextmanager
def screen(console: Console) -> Iterator[Screen]:
    """A screen that hears keys, also where standard input is the capture."""
    keys: int | None = None
    before: list[Any] | None = None
    try:
        with contextlib.suppress(OSError, termios.error):
            # Standard input may be the capture.
            keys = os.dup(sys.stdin.fileno()) if sys.stdin.isatty() else os.open("/dev/tty", os.O_RDONLY)
            before = termios.tcgetattr(keys)
            tty.setcbreak(keys)
        view = Screen(console, keys)
        with view.live:
            yield view
    finally:
        if keys is not None:
            if before is not None:
                termios.tcsetattr(keys, termios.TCSADRAIN, before)
            os.close(keys)
