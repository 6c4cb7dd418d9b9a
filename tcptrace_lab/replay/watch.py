"""A capture as it happened: its own clock drives the following, as fast as asked; or packets as they come in."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tcptrace_lab import _core
from tcptrace_lab.capture import Capture
from tcptrace_lab.errors import LabError
from tcptrace_lab.numbers import end

if TYPE_CHECKING:
    from tcptrace_lab.reconstruct.reconstruction import Reconstruction

# Later than every packet.
NEVER_NS = 2**63 - 1
# How long packets are waited for at a time: how soon a key is heard.
PATIENCE_S = 0.05
# Connections whose senders are not at the tap, and so are rebuilt at each look, besides the chosen one.
AT_A_TIME = 2
WINDOW_COLUMNS = ("cwnd", "cwnd_low", "cwnd_high", "ssthresh")
# Between two looks at the connections.
REFRESH_S = 0.1


class View(Protocol):
    """Who is shown what happens, and says what to do."""

    def show(self, watch: Watch) -> None:
        """The connections as they are now."""

    def tell(self, event: dict[str, Any]) -> None:
        """Something happened."""

    def commands(self, timeout_s: float) -> Sequence[str]:
        """What was asked for since the last call: pause, step, event, faster, slower, next, quit."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A sender by the observer, which reconstruction asks as well; bytes, None: not known.

    At the sender's tap it is what the observer says of all packets until now. Elsewhere it is rebuilt from the last
    windows by their timestamps, and errs in what lies before them: a recovery that has lasted since, and a pause; no
    phase, no count of losses.
    """

    cwnd: int
    cwnd_low: int
    cwnd_high: int | None
    ssthresh: int | None
    flight: int
    limited_by: str
    phase: str | None = None
    losses: int | None = None


@dataclass
class Watch:
    """Following at a pace. `speed` is capture seconds per second; None: as they come. Times are nanoseconds."""

    watcher: _core.Watcher
    name: str
    speed: float | None = None
    until_s: float | None = None
    count: int | None = None
    duration_s: float | None = None
    is_paused: bool = False
    chosen: int = 0
    status: str = "waiting"
    _seen: dict[int, Seen] = field(default_factory=dict, repr=False)
    _turn: int = field(default=0, repr=False)
    _seeks_event: bool = field(default=False, repr=False)
    _anchor: tuple[float, int] | None = field(default=None, repr=False)
    _target_ns: int = field(default=0, repr=False)

    def run(self, view: View) -> None:
        """Follow until the end, or until the view says so."""
        begun, shown = time.monotonic(), 0.0
        while True:
            self._follow(view)
            for event in self.events():
                view.tell(event)
            now = time.monotonic()
            is_over = self.status == "ended" or self._is_enough(now - begun)
            if is_over or now - shown >= REFRESH_S:
                view.show(self)
                shown = now
            if is_over or not self._obey(view):
                return

    def events(self) -> Iterator[dict[str, Any]]:
        """What happened since the last call."""
        for event in self.watcher.events():
            first_ns = self.watcher.position()[1] or event["time_ns"]
            yield {"time_s": (event["time_ns"] - first_ns) / 1e9, **event}

    def seen(self, rows: Sequence[Mapping[str, Any]]) -> Mapping[int, Seen]:
        """What the observer says of these rows of `watcher.connections`, by id. Senders that have to be rebuilt: the
        chosen one now, the others as their turn comes, a few at each call."""
        far = [row for row in rows if row["is_near"] is False]
        chosen = rows[self.chosen % len(rows)] if rows else None
        turns = [far[(self._turn + step) % len(far)] for step in range(min(AT_A_TIME, len(far)))]
        self._turn += AT_A_TIME
        for row in rows:
            found = self.look(row) if row["observed"] is not None or row is chosen or row in turns else None
            if found is not None:
                self._seen[row["id"]] = found
        kept = {row["id"] for row in rows}
        self._seen = {id: found for id, found in self._seen.items() if id in kept}
        return self._seen

    def look(self, row: Mapping[str, Any]) -> Seen | None:
        """The sender of a row of `watcher.connections`, as the observer sees it now; None: it has sent no data."""
        if row["observed"] is not None:
            return Seen(**row["observed"])
        recent = self.watcher.recent(row["id"]) if row["is_near"] is False else None
        if recent is None or not len(recent):
            return None
        connection = Capture(recent)[0]
        known = connection.summary
        ends = [end(known["client"], known["client_port"]), end(known["server"], known["port"])]
        direction = ends.index(row["sender"])
        if connection.flows[direction].segments.empty or not known["timestamps"]:
            # Without timestamps what was dropped would be taken for lost.
            return None
        return _observed(connection.reconstruct(direction=direction), self._seen.get(row["id"]))

    def capture(self) -> Capture:
        """What was followed, as `read` gives it."""
        return Capture(self.watcher.capture())

    @property
    def elapsed_s(self) -> float:
        """Capture time since the first packet."""
        _, first_ns, now_ns, _ = self.watcher.position()
        return 0.0 if first_ns is None else (now_ns - first_ns) / 1e9

    def _follow(self, view: View) -> None:
        if self._seeks_event:
            self.status = self.watcher.advance(self._limit_ns(), NEVER_NS, True, PATIENCE_S)
            self._seeks_event = self.status == "waiting"
            return
        if self.is_paused:
            self.status = "paused"
            return
        until_ns = self._limit_ns()
        if self.speed is not None:
            until_ns = min(until_ns, self._paced_ns())
        self._target_ns = until_ns
        left = NEVER_NS if self.count is None else self.count - self.watcher.position()[0]
        self.status = self.watcher.advance(until_ns, max(left, 0), False, PATIENCE_S)

    def _limit_ns(self) -> int:
        """The end of `--until`, once the first packet says from when on."""
        first_ns = self.watcher.position()[1]
        if self.until_s is None:
            return NEVER_NS
        if first_ns is None:
            self.watcher.advance(NEVER_NS, 1, False, PATIENCE_S)
            first_ns = self.watcher.position()[1]
        return NEVER_NS if first_ns is None else first_ns + int(self.until_s * 1e9)

    def _paced_ns(self) -> int:
        _, first_ns, now_ns, _ = self.watcher.position()
        if first_ns is None:
            self.watcher.advance(NEVER_NS, 1, False, PATIENCE_S)
            return NEVER_NS if self.watcher.position()[1] is None else self.watcher.position()[2]
        if self._anchor is None:
            self._anchor = (time.monotonic(), now_ns)
        wall_s, at_ns = self._anchor
        return at_ns + int((time.monotonic() - wall_s) * (self.speed or 1.0) * 1e9)

    def _is_enough(self, elapsed_s: float) -> bool:
        records, first_ns, _, _ = self.watcher.position()
        if self.duration_s is not None and elapsed_s >= self.duration_s:
            return True
        if self.count is not None and records >= self.count:
            return True
        if self.until_s is None or first_ns is None:
            return False
        return self.status == "reached" and self._target_ns >= first_ns + int(self.until_s * 1e9)

    def _obey(self, view: View) -> bool:
        """Carry out the view's commands; False: it wants no more."""
        is_idle = (self.is_paused and not self._seeks_event) or self.status == "reached"
        for command in view.commands(PATIENCE_S if is_idle else 0.0):
            if command == "quit":
                return False
            self._carry_out(command)
        return True

    def _carry_out(self, command: str) -> None:
        self._anchor = None
        self._seeks_event = command == "event"
        if command == "pause":
            self.is_paused = not self.is_paused
        elif command == "event":
            # Sought as long as it takes, unless another key comes.
            self.is_paused = True
        elif command == "step":
            self.is_paused = True
            self.status = self.watcher.advance(self._limit_ns(), 1, False, PATIENCE_S)
        elif command in ("faster", "slower"):
            factor = 2.0 if command == "faster" else 0.5
            self.speed = None if self.speed is None else self.speed * factor
        elif command == "next":
            self.chosen += 1


def _observed(found: Reconstruction, before: Seen | None) -> Seen | None:
    import pandas as pd

    # What the packets show: a replay of the last packets alone knows little of the window, and takes long.
    if not len(found.envelope):
        return None
    last = found.envelope.iloc[-1]
    known = {name: None if pd.isna(last[name]) or last[name] < 0 else int(last[name]) for name in WINDOW_COLUMNS}
    # A threshold stands until the next loss, which would be among the last packets.
    ssthresh = known["ssthresh"] if known["ssthresh"] is not None or before is None else before.ssthresh
    return Seen(
        cwnd=known["cwnd"] or 0,
        cwnd_low=known["cwnd_low"] or 0,
        cwnd_high=known["cwnd_high"],
        ssthresh=ssthresh,
        flight=int(found.flight[-1]),
        limited_by=str(last["limited_by"]),
    )


def watch_files(
    files: Sequence[str], *, follow: bool = False, detail: bool = False, name: str | None = None
) -> _core.Watcher:
    """A watcher of captures as one stream; `-` is standard input."""
    for file in files:
        if file != "-" and not os.path.exists(file):
            raise LabError(f"{file}: No such file or directory")
    shown = name or ("standard input" if files[0] == "-" else ", ".join(files))
    return _core.Watcher(shown, list(files), follow, True if detail else None)
