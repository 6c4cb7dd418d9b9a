"""A capture through another path, open loop: every recorded packet enters when it was recorded.

What open loop answers: would this buffer have dropped these packets, how long would they have waited. What it cannot:
what the senders would have done then. They were not asked; `OpenLoop.cannot_know` says how much of the recording the
path has made impossible.
"""

from __future__ import annotations

import functools
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tcptrace_lab import _core
from tcptrace_lab.capture import Capture, read
from tcptrace_lab.errors import LabError
from tcptrace_lab.replay.sides import find_sides, wire_mtu
from tcptrace_lab.scenario import Scenario, plain
from tcptrace_lab.simulate import CAPTURE_SUFFIXES, Run
from tcptrace_lab.tables import suffix_of, write_table
from tcptrace_lab.whole_files import replacing, together

if TYPE_CHECKING:
    import pandas as pd

# A node this close to the recorded rate without a limit to its queue still ends: rounding of a rate to three digits.
ENDLESS_SHARE = 1.005


class OpenLoop(Run):
    """A capture behind a scenario's path. Tables as of a simulation; no sender ran, so it has no windows of its own.

    `capture()` is what came out, followed as a file is: `capture()[0].data_flow`, verdicts and plots work on it.
    """

    def __init__(self, scenario: Scenario, core: _core.OpenLoop, recording: Capture, behind: _Behind) -> None:
        # Its queue and nodes are those of a simulation, column for column.
        super().__init__(scenario, cast("_core.Simulation", core))
        self._open = core
        self.recording = recording
        self._behind = behind

    @functools.cached_property
    def summary(self) -> dict[str, Any]:
        """One row: packets and bytes in and out, drops, delays; the way back's end in `_back`."""
        return _row(self._open.summary(), self._open.nodes(), self.scenario)

    @functools.cached_property
    def counts(self) -> dict[str, int]:
        """Records of the capture; those elsewhere (no IP, or not crossing), cut up (super-segments), out of order."""
        return self._open.counts()

    @property
    def cut(self) -> str | None:
        """Where the recording is cut or damaged, and why."""
        found = self._open.truncated
        return None if found is None else f"at byte {found[0]}: {found[1]}"

    @property
    def is_cut(self) -> bool:
        """Never: it ends with the recording."""
        return False

    @property
    def windows(self) -> pd.DataFrame:
        """Refused: open loop runs no sender."""
        raise LabError("open loop: no sender ran, so there are no windows; the recording's own are in its verdict")

    @property
    def losses(self) -> pd.DataFrame:
        """Refused: open loop runs no sender."""
        raise LabError("open loop: no sender ran, so none noticed a loss; `drops` has what the path dropped")

    @functools.cached_property
    def drops(self) -> pd.DataFrame:
        """Every packet the path lost: as of a simulation, with `packet`, the record's number in the recording."""
        import numpy as np
        import pandas as pd

        frame = pd.DataFrame(self._open.drops()).rename(columns={"bytes": "ip_len", "waiting": "queue_len"})
        frame["reason"] = np.take(_core.DROP_REASONS, frame["reason"])
        frame["node"] = frame["node"].astype("int64") - self._access * ~frame["is_reverse"]
        frame.insert(4, "connection", self._connections(frame["pair"].to_numpy(), frame["recorded_ns"].to_numpy()))
        pairs = [*self._open.pairs(), ("", 0, "", 0)]
        ports = np.array([(pair[1], pair[3]) for pair in pairs], dtype=np.int64)[frame["pair"].to_numpy()]
        back = frame["is_reverse"].to_numpy().astype(int)
        rows = np.arange(len(frame))
        frame["sport"], frame["dport"] = ports[rows, back], ports[rows, 1 - back]
        return frame.drop(columns=["pair", "recorded_ns"])

    @functools.cached_property
    def delays(self) -> pd.DataFrame:
        """A row per packet: its record's number, when it entered, and how long it was on the way (-1: lost)."""
        import pandas as pd

        return pd.DataFrame(self._open.delays())

    @property
    def totals(self) -> list[dict[str, int]]:
        """Refused: open loop runs no sender."""
        raise LabError("open loop: no sender ran, so there are no sender's totals; `summary` has the path's")

    def capture(self, *, tap: str | None = None) -> Capture:
        """What came out of the path, both directions, followed as `tcptrace_lab.read` follows a file."""
        if tap is not None:
            raise ValueError("open loop has one tap, behind the path")
        return read(self._behind.path)

    def write(
        self, path: str | os.PathLike[str], *, tap: str | None = None, snaplen: int = 65535, payload: bool = True
    ) -> None:
        """Write what came out as .pcap (nanoseconds) or .pcapng, on the recording's clock."""
        if tap is not None or snaplen != 65535 or not payload:
            raise ValueError("open loop has one tap, and keeps what the recording has of each packet")
        check_suffix(path)
        with replacing(path) as temporary:
            if Path(path).suffix == self._behind.suffix:
                import shutil

                shutil.copyfile(self._behind.path, temporary)
            else:
                _carry(self.scenario, self.recording, self._behind.near, output=temporary, suffix=Path(path).suffix)

    def write_side_cars(self, path: str | os.PathLike[str], *, suffix: str = ".csv") -> list[Path]:
        """Write NAME.drops, NAME.queue and NAME.delays beside `path`."""
        from tcptrace_lab.truth_tables import DROP_COLUMNS, queue_table

        base = Path(path).with_suffix("")
        epoch_ns = self._open.epoch_ns
        drops = self.drops.assign(
            time_ns=self.drops["time_ns"] + epoch_ns,
            time=(self.drops["time_ns"] + epoch_ns) / 1e9,
            dir=self.drops["is_reverse"].map({False: "fwd", True: "rev"}),
        )
        queue = queue_table(self, epoch_ns=epoch_ns)
        delays = self.delays.assign(time_ns=self.delays["time_ns"] + epoch_ns)
        written = []
        with together():
            for kind, table in (("drops", drops[[*DROP_COLUMNS, "packet"]]), ("queue", queue), ("delays", delays)):
                written.append(base.with_name(f"{base.name}.{kind}{suffix}"))
                write_table(table, written[-1])
        return written

    @property
    def cannot_know(self) -> tuple[str, ...]:
        """Sentences on what open loop leaves open, with this run's figures."""
        return tuple(_open_questions(self.summary, self.recording))

    def _connections(self, pairs: Any, recorded_ns: Any) -> Any:
        """Numbers of the recording's connections; -1: no TCP. Endpoints used again belong to the latest connection."""
        import numpy as np

        of: dict[tuple[str, int, str, int], list[tuple[int, int]]] = {}
        columns = ["client", "client_port", "server", "port", "start_ns", "id"]
        for client, client_port, server, port, start_ns, number in zip(
            *(self.recording.connections[name].tolist() for name in columns), strict=True
        ):
            for ends in {(client, client_port, server, port), (server, port, client, client_port)}:
                of.setdefault(ends, []).append((start_ns, number))
        found = np.full(len(pairs), -1, dtype=np.int64)
        absolute_ns = recorded_ns + self._open.epoch_ns
        named = self._open.pairs()
        order = np.argsort(pairs, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(pairs[order])) + 1):
            pair = int(pairs[rows[0]]) if len(rows) else -1
            those = sorted(of.get(named[pair], ())) if pair >= 0 else []
            if those:
                starts, numbers = np.array(those, dtype=np.int64).T
                found[rows] = numbers[np.maximum(np.searchsorted(starts, absolute_ns[rows], side="right") - 1, 0)]
        return found


class _Behind:
    """The file behind the path; a temporary one goes when nobody needs it any more."""

    def __init__(self, near: Sequence[str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tcptrace-lab-")
        self.path = os.path.join(self._folder.name, "behind.pcap")
        self.suffix = ".pcap"
        self.near = near


def through(
    capture: Capture,
    scenario: Scenario,
    *,
    near: Sequence[str] = (),
    progress: Callable[[int], object] | None = None,
) -> OpenLoop:
    """Send a capture through a scenario's path; its connections and duration are not used."""
    behind = _Behind(near)
    core = _carry(scenario, capture, near, output=behind.path, suffix=".pcap", progress=progress)
    run = OpenLoop(scenario, core, capture, behind)
    _refuse_endless(run.summary, scenario, capture.name)
    return run


def sweep_through(
    capture: Capture,
    table: Mapping[str, object],
    overs: Sequence[Any],
    *,
    near: Sequence[str] = (),
    progress: Callable[[int], object] | None = None,
) -> pd.DataFrame:
    """One row for each combination of `overs` over a scenario table, all of them in one pass over the capture."""
    import pandas as pd

    from tcptrace_lab.sweep import combinations

    points = list(combinations(table, overs))
    sides = find_sides(capture.connections, near=near, name=capture.name)
    path, name = file_of(capture)
    rows = _core.open_loop_sweep(
        path,
        name,
        [plain(_ready(scenario)) for _, scenario in points],
        list(sides.near),
        list(sides.near_ends),
        wire_mtu(capture.connections),
        progress,
    )
    found = []
    for (keys, scenario), (summary, nodes) in zip(points, rows, strict=True):
        row = _row(summary, nodes, scenario)
        _refuse_endless(row, scenario, capture.name)
        found.append({**keys, **row})
    return pd.DataFrame(found)


def check_suffix(path: str | os.PathLike[str]) -> None:
    """Refuse a name that no capture has."""
    if Path(path).suffix not in CAPTURE_SUFFIXES:
        raise LabError(f"{path}: the suffix must be one of {', '.join(CAPTURE_SUFFIXES)}")


def check_side_cars(suffix: str) -> None:
    """Refuse a suffix that no table has."""
    suffix_of(f"side-cars{suffix}")


def _carry(
    scenario: Scenario,
    capture: Capture,
    near: Sequence[str],
    *,
    output: str | os.PathLike[str],
    suffix: str,
    progress: Callable[[int], object] | None = None,
) -> _core.OpenLoop:
    sides = find_sides(capture.connections, near=near, name=capture.name)
    path, name = file_of(capture)
    return _core.open_loop(
        path,
        name,
        plain(_ready(scenario)),
        list(sides.near),
        list(sides.near_ends),
        wire_mtu(capture.connections),
        os.fspath(output),
        suffix == ".pcapng",
        progress,
    )


def _ready(scenario: Scenario) -> Scenario:
    """Only path and seed count: whole nanoseconds, and no taps."""
    return replace(scenario, taps=())


def file_of(capture: Capture) -> tuple[str, str]:
    """The file that a capture was read from, and the name that stands for it."""
    path = capture.path
    if path is None:
        raise LabError(f"{capture.name}: only a capture read from a file can be replayed")
    return path, capture.name


def _row(summary: dict[str, Any], nodes: list[dict[str, Any]], scenario: Scenario) -> dict[str, Any]:
    """The core's totals, times in seconds, with what a person asks for first."""
    seconds = {
        f"{name}{way}_s": math.nan if summary[key] is None else summary[key] / 1e9
        for key in summary
        for name, is_time, way in [key.partition("_ns")]
        if is_time
    }
    there = [node for node in nodes if not node["is_reverse"]][-len(scenario.path.nodes) :]
    row = {
        "duration_s": seconds["duration_s"],
        "packets": summary["packets"],
        "drops": summary["drops"],
        "drop_share": summary["drops"] / summary["packets"] if summary["packets"] else math.nan,
        "drops_per_node": "/".join(str(node["packets_dropped"]) for node in there),
        "offered_bps": 8 * summary["bytes"] / seconds["duration_s"] if seconds["duration_s"] > 0 else math.nan,
    }
    counted = {name: value for name, value in summary.items() if "_ns" not in name}
    return row | seconds | counted


def _refuse_endless(row: Mapping[str, Any], scenario: Scenario, name: str) -> None:
    """A rate below the recorded one with room for everything: the queue never ends, and its delays mean nothing."""
    for number, node in enumerate(scenario.path.nodes):
        if node.buffer == math.inf and row["offered_bps"] > ENDLESS_SHARE * node.rate_bps:
            raise LabError(
                f"{name}: path.nodes.{number} has {node.rate_bps:.4g} bit/s and a buffer without limit, the capture"
                f" sends {row['offered_bps']:.4g} bit/s for {row['duration_s']:.1f} s: the queue never ends; give it a"
                " buffer"
            )


def _open_questions(row: Mapping[str, Any], recording: Capture) -> Iterator[str]:
    yield "the senders were not asked: each packet enters when it was recorded, whatever became of those before it"
    if row["data_drops"]:
        yield (
            f"{row['data_drops']} data packets are dropped here: their senders would have sent them again and slowed"
            " down, so what follows the first drop shows the recording's load, not this path's"
        )
    of_dropped, early, acks = row["acks_of_dropped"], row["acks_early"], row["acks"]
    if of_dropped:
        yield f"{of_dropped} of {acks} recorded ACKs acknowledge what this path dropped: nobody would have sent them"
    if early:
        yield f"{early} of {acks} recorded ACKs come before the data that they acknowledge is out of this path"
    again = int(recording.connections["retransmissions"].sum())
    if again:
        yield f"{again} retransmissions of the recording are carried too, though what they repair may not be lost here"
    elsewhere = set(recording.connections["vantage"]) & {"server", "middle"}
    if elsewhere:
        yield "not captured at the sender: the recorded times already hold the queues before the tap"
