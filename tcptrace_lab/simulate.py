"""One scenario run in the Rust engine: what a tap saw, and what really happened.

A congestion control can be written in Python. The engine calls it and sends what it allows:

    from tcptrace_lab.scenario_file import load
    from tcptrace_lab.simulate import simulate

    class Reno:
        '''RFC 5681: one segment more per ACK in slow start, per round trip in avoidance; half the flight at a loss.'''

        def on_ack(self, state):
            if not state.is_cwnd_limited:
                return
            if state.cwnd < state.ssthresh:
                state.cwnd += min(state.newly_acked, state.smss)
            else:
                state.cwnd += state.smss * state.smss / state.cwnd

        def on_loss(self, state):  # recovery sets cwnd from ssthresh; its floor of two segments is the sender's
            state.ssthresh = state.flight_size / 2

        on_timeout = on_loss

    run = simulate(load("captures/scenarios/reno_10M.toml"), control=Reno())
    run.windows.plot(x="time_ns", y="cwnd")

`state` (core/src/python/control.rs) is one object per connection, always the same. A unit is a byte in profile rfc and
a packet in ns2, where smss is 1. What a method is not told keeps its last value.

    field            unit      told to, or set by
    cwnd             units     to be set, in any method; at least one segment
    ssthresh         units     to be set, in on_loss and on_timeout above all: recovery sets cwnd from it
    pacing_rate      units/s   to be set, None: segments leave as the window lets them (profile rfc)
    smss             units     all: a full segment
    now_ns           ns        all but start
    newly_acked      units     on_ack: acknowledged; on_delivery: acknowledged or SACKed for the first time
    newly_lost       units     on_delivery: taken for lost by this ACK (ns2: sent again)
    delivered        units     on_delivery: since the start of the connection
    lost             units     on_delivery: since the start of the connection
    delivery_rate    units/s   on_delivery: the sample of draft-cheng-iccrg-delivery-rate-estimation, None without one
    flight_size      units     on_ack, on_loss, on_timeout: outstanding before; on_delivery: on the path now
    rtt_ns           ns        on_ack, on_delivery: of the segments it acknowledges, None without a sample
    srtt_ns          ns        on_ack, on_delivery: the timer's, None before the first sample
    snd_una          units     on_ack
    snd_nxt          units     on_ack, on_loss, on_timeout, on_recovered, start
    is_cwnd_limited  bool      on_ack: the window, not the application, held the sender back
    is_app_limited   bool      on_delivery: the sample is a lower bound only
    is_in_recovery   bool      on_delivery

on_ack(state) comes for each ACK that may open the window. Optional, in both profiles: start(state), once, before the
first data; on_delivery(state), for every ACK, duplicates and those of a recovery too, after all else (ns2: after the
agent has sent, so what it sets counts from the next ACK on); on_rtt(now_ns, rtt_ns), for each round trip of which the
sender's timer takes a sample (ns-2's agents without timestamps time one packet at a time). on_recovered(state), at the
end of a recovery, is called in profile rfc only: ns-2's agents have no such moment. An attribute owns_window = True
makes recovery leave cwnd to the control (profile rfc). In examples/: a Vegas, a delay-gradient, a rate-based control.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tcptrace_lab import _core
from tcptrace_lab.capture import Capture, Detail
from tcptrace_lab.errors import LabError, ScenarioError
from tcptrace_lab.numbers import counted
from tcptrace_lab.scenario import Scenario, plain
from tcptrace_lab.tables import write_table
from tcptrace_lab.whole_files import replacing, together

if TYPE_CHECKING:
    import pandas as pd

CAPTURE_SUFFIXES = (".pcap", ".pcapng")

# When a run begins, in files: a capture that begins at 0 is one without a clock to tcptrace and others.
FILE_EPOCH_S = 1_000_000_000

RECOVERY = _core.SENDER_STATES["recovery"]


def checked_capture(path: str | os.PathLike[str]) -> str:
    """The suffix of a capture file; an unknown one is refused with the known."""
    suffix = Path(path).suffix
    if suffix not in CAPTURE_SUFFIXES:
        raise LabError(f"{path}: the suffix must be one of {', '.join(CAPTURE_SUFFIXES)}")
    return suffix


class Control(Protocol):
    """A congestion control written in Python: these three, and the optional ones named above."""

    def on_ack(self, state: _core.ControlState, /) -> None: ...
    def on_loss(self, state: _core.ControlState, /) -> None: ...
    def on_timeout(self, state: _core.ControlState, /) -> None: ...


def simulate(
    scenario: Scenario,
    *,
    control: Control | None = None,
    controls: Sequence[Control | None] = (),
    truth: bool = True,
    most_events: int | None = None,
) -> Run:
    """Run a scenario. With `control` the first connection's slow start and window are that object's.

    `controls` has one for each connection, or None where the scenario's own is meant; connections behind its end keep
    theirs. Without `truth` the tables of windows and queues stay empty, and the run is a quarter faster. After
    `most_events` (about one for each packet that arrives) it is cut, and says so (`Run.is_cut`).
    """
    own = [control] if control is not None else list(controls)
    if control is not None and controls:
        raise LabError("control is the first connection's: give it as the first of controls")
    if len(own) > len(scenario.connections):
        raise LabError(f"{len(own)} controls for {len(scenario.connections)} connections")
    return Run(scenario, _core.simulate(plain(scenario), own, truth=truth, most_events=most_events))


class Run:
    """What a simulation left behind. Times are integer nanoseconds since its start, windows and offsets bytes."""

    def __init__(self, scenario: Scenario, core: _core.Simulation) -> None:
        self.scenario = scenario
        self._core = core

    def __repr__(self) -> str:
        return f"<Run of {self.scenario.duration_s:g} s with {counted(len(self.scenario.connections), 'connection')}>"

    @property
    def is_cut(self) -> bool:
        """Whether it ended before its duration, with the events that it was given."""
        return self._core.is_cut

    @property
    def control_names(self) -> list[str]:
        """The columns of `windows` that say what the controls hold in mind (windows in segments)."""
        return self._core.control_names

    @functools.cached_property
    def summary(self) -> dict[str, Any]:
        """One row of a sweep: throughput, cycles, slow starts per cycle, losses, utilization, backlog."""
        return self._core.summary()

    @functools.cached_property
    def windows(self) -> pd.DataFrame:
        """Every change at a sender, as it stands afterwards.

        `limited_by` says what kept it from sending more: recovery, cwnd, rwnd, or application.
        """
        import numpy as np

        units = (
            "cwnd",
            "usable_window",
            "ssthresh",
            "flight_size",
            "snd_una",
            "snd_nxt",
            "rwnd",
            "sacked",
            "lost",
            "retransmitted",
        )
        frame = self._frame(self._core.truth(), *units)
        room = frame["smss"] + frame["flight_size"]
        limits = [frame["state"] == RECOVERY, room > frame["rwnd"], room > frame["cwnd"]]
        frame["limited_by"] = np.select(limits, ["recovery", "rwnd", "cwnd"], "application")
        return frame

    @functools.cached_property
    def losses(self) -> pd.DataFrame:
        """Every loss a sender noticed, and by what: dupack, sack, rto, partial."""
        import numpy as np

        frame = self._frame(self._core.losses(), "offset", "cwnd_before", "ssthresh_after")
        frame["detected_by"] = np.take(_core.DETECTED_BY, frame["detected_by"])
        return frame

    @functools.cached_property
    def cycles(self) -> pd.DataFrame:
        """Every connection's loss cycles and the slow starts in each: the first begins with the connection."""
        import pandas as pd

        return pd.DataFrame(self._core.cycles())

    @functools.cached_property
    def drops(self) -> pd.DataFrame:
        """Every packet the path lost.

        `node` counts `path.nodes` (or, with `is_reverse`, `path.reverse`) from 0, the access link being -1.
        """
        import numpy as np

        frame = self._frame(self._core.drops(), "offset").rename(columns={"bytes": "ip_len", "waiting": "queue_len"})
        frame["reason"] = np.take(_core.DROP_REASONS, frame["reason"])
        frame["node"] = frame["node"].astype("int64") - self._access * ~frame["is_reverse"]
        return frame.drop(columns="smss")

    @functools.cached_property
    def queue(self) -> pd.DataFrame:
        """The nodes' queues in bins of 10 ms: packets waiting at most and last; a bin without an arrival is absent."""
        import pandas as pd

        frames = []
        for node in self._core.nodes():
            bins = self._core.queue(node["node"], node["is_reverse"])
            number = node["node"] if node["is_reverse"] else node["node"] - self._access
            frames.append(pd.DataFrame({"node": number, "is_reverse": node["is_reverse"], **bins}))
        return pd.concat(frames, ignore_index=True)

    @functools.cached_property
    def nodes(self) -> pd.DataFrame:
        """Every node's packets and bytes in, out and dropped, and what waits at the end."""
        import pandas as pd

        frame = pd.DataFrame(self._core.nodes()).rename(columns={"node": "engine_node"})
        frame.insert(0, "node", frame["engine_node"] - self._access * ~frame["is_reverse"])
        return frame

    @functools.cached_property
    def totals(self) -> list[dict[str, int]]:
        """Per connection: packets_sent, retransmissions, ..., and acked, delivered in the unit of its profile."""
        return self._core.totals()

    @functools.cached_property
    def ports(self) -> list[tuple[int, int]]:
        """Each connection's ports: its sender's and its receiver's."""
        return self._core.ports()

    @functools.cached_property
    def first_seqs(self) -> list[int]:
        """Each connection's sequence number on the wire of the first byte of data."""
        return self._core.first_seqs()

    def capture(self, *, tap: str | None = None) -> Capture:
        """What a tap saw, followed as `tcptrace_lab.read` follows a file, without a file."""
        number = self._tap(tap)
        name = f"{self.scenario.title or 'simulation'}, {self.scenario.taps[number]}"

        def again(wanted: Detail) -> _core.Capture:
            return self._core.capture(number, name, wanted)

        return Capture(again(None), reread=again)

    def packets(self, *, tap: str | None = None) -> pd.DataFrame:
        """What a tap saw, a row for each packet, with the wire's numbers."""
        import pandas as pd

        return pd.DataFrame(self._core.packets(self._tap(tap)))

    def write(
        self, path: str | os.PathLike[str], *, tap: str | None = None, snaplen: int = 65535, payload: bool = True
    ) -> None:
        """Write what a tap saw: .pcap (nanoseconds) or .pcapng. Without `payload` only headers are captured.

        The run begins at FILE_EPOCH_S.
        """
        suffix = checked_capture(path)
        with replacing(path) as temporary:
            self._core.write(
                self._tap(tap), os.fspath(temporary), suffix == ".pcapng", snaplen, payload, FILE_EPOCH_S * 10**9
            )

    def write_truth(self, path: str | os.PathLike[str]) -> list[Path]:
        """Write the truth side-car (.parquet, .csv, .csv.gz), and beside it NAME.drops and NAME.queue."""
        from tcptrace_lab.truth_tables import drop_table, queue_table, truth_files, truth_table

        files = truth_files(path)
        with together():
            for file, table in zip(files, (truth_table, drop_table, queue_table), strict=True):
                write_table(table(self), file)
        return files

    def _tap(self, tap: str | None) -> int:
        taps = self.scenario.taps
        if not taps:
            raise ScenarioError("taps = []: nothing was captured; name one, for example sender")
        name = taps[0] if tap is None else tap
        if name not in taps:
            raise ValueError(f"no tap {name!r}: this run has {', '.join(taps)}")
        return taps.index(name)

    @property
    def _access(self) -> int:
        return self._core.nodes_before

    def _frame(self, columns: dict[str, Any], *counted: str) -> pd.DataFrame:
        """A table with the columns counted in the profile's unit turned into bytes, and each row's segment size."""
        import numpy as np
        import pandas as pd

        frame = pd.DataFrame(columns)
        unit = self._core.unit_bytes
        for name in counted:
            frame[name] = frame[name] * unit
        frame["smss"] = np.take(self._core.smss(), frame["connection"])
        return frame
