"""Who sends: the kernel, with its tracer beside it, or this project's own sender in user space.

Both have `send` (run to the end, one result per connection), `rows` (the truth) and `account` (how it was come by).
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from tcptrace_lab import _core
from tcptrace_lab.errors import LabError
from tcptrace_lab.programs import program
from tcptrace_lab.scenario import Scenario, plain
from tcptrace_lab.testbed import kernel_truth
from tcptrace_lab.testbed.kernel import ADDRESSES, Settings
from tcptrace_lab.testbed.namespaces import Namespace, Program
from tcptrace_lab.testbed.realtime import RealTime
from tcptrace_lab.testbed.requirements import is_root

# After the last write: what is still queued or lost is delivered in this time, or the connection is left as it is.
DRAIN_S = 20.0
# Our own sender's port; in its namespace nobody else asks for one.
OWN_PORT = 40_000
_TRACE_BUFFER_KB = 16384


class KernelSenders:
    """The kernel's TCP in the sender's namespace, watched through tracefs."""

    def __init__(
        self, scenario: Scenario, plan: Settings, near: Namespace, *, folder: Path, stack: contextlib.ExitStack
    ) -> None:
        self._scenario = scenario
        self._plan = plan
        self._near = near
        self._stack = stack
        self._trace = folder / "trace"
        self._samples: list[tuple[int, list[list[int]]]] = []
        self._tai_offset_s = 0
        self.account: dict[str, Any] = {"tracepoints": [], "unavailable": None, "events_lost": 0}
        self._tracer = self._start_tracer()
        if self._tracer is None:
            self.account["source"] = "TCP_INFO every 10 ms"

    def _start_tracer(self) -> Program | None:
        if not is_root():
            self.account["unavailable"] = "tracefs needs root"
            return None
        first_port = self._plan.flows[0]["port"]
        order = {
            "name": f"tcptrace-lab-{first_port}",
            "events": kernel_truth.EVENTS,
            "first_port": first_port,
            "last_port": self._plan.flows[-1]["port"],
            "buffer_kb": _TRACE_BUFFER_KB,
            "output": str(self._trace),
        }
        # In a mount of its own, which goes when the tracer goes.
        tracer = Program("tracer", order, prefix=(str(program("unshare")), "--mount", "--"))
        self._stack.callback(tracer.close)
        try:
            tracer.answer()
        except LabError as error:
            self.account["unavailable"] = str(error)
            return None
        self.account["tracepoints"] = list(kernel_truth.EVENTS)
        return tracer

    def send(self) -> list[dict[str, Any]]:
        """Every connection to its end: `client_port`, `bytes` (absent when it did not come to one)."""
        order = {
            "flows": self._plan.flows,
            "ipv6": self._scenario.ipv6,
            "duration_s": self._scenario.duration_s,
            "drain_s": DRAIN_S,
        }
        senders = Program("senders", order, prefix=self._near.prefix)
        self._stack.callback(senders.close)
        flows: list[dict[str, Any]] = senders.answer()["flows"]
        for flow in flows:
            self._samples.append((flow.get("client_port", 0), flow.pop("samples", [])))
        return flows

    def finish(self) -> None:
        """Ends the trace."""
        if self._tracer is not None:
            self._tracer.finish()
            said = self._tracer.answer()
            self.account["events_lost"] = said["lost"]
            self._tai_offset_s = said["tai_offset_s"]

    def rows(self) -> list[kernel_truth.TruthRow]:
        """The kernel's events and samples, by time."""
        rows = []
        if self._tracer is not None:
            with self._trace.open(encoding="utf-8", errors="replace") as lines:
                rows = kernel_truth.from_trace(lines, tai_offset_s=self._tai_offset_s)
        for port, samples in self._samples:
            rows += kernel_truth.from_samples(samples, sport=port)
        return kernel_truth.settle_ssthresh(rows)


class OwnSender:
    """The simulator's sender over a TUN device of the sender's namespace, whose kernel forwards for it."""

    def __init__(self, scenario: Scenario, plan: Settings, near: Namespace, *, stack: contextlib.ExitStack) -> None:
        source, destination, _ = ADDRESSES[scenario.ipv6]
        self._core = _core.OwnSender(
            plain(scenario), 0, near.app_fd, (source, OWN_PORT), (destination, plan.flows[0]["port"])
        )
        self._stack = stack
        self._columns: dict[str, list[Any]] = {}
        self.account: dict[str, Any] = {"tracepoints": [], "unavailable": None, "events_lost": 0}

    def send(self) -> list[dict[str, Any]]:
        """The connection to its end."""
        # Below the path's priority: it is the path that keeps the time.
        thread = RealTime("sender", lambda: self._core.run(DRAIN_S), self._core.stop, priority=40)
        self._stack.callback(thread.close)
        sent = thread.result()
        self._columns = sent["rows"]
        self.account["stalls"] = [[time_ns / 1e9, round(length / 1e6, 3)] for time_ns, length in sent["stalls"]]
        flow: dict[str, Any] = {"client_port": OWN_PORT}
        if sent["is_reset"]:
            flow["error"] = "the receiver has reset the connection"
        elif sent["has_ended"]:
            flow["bytes"] = sent["acknowledged"]
        return [flow]

    def finish(self) -> None:
        """Nothing runs any more."""

    def rows(self) -> list[kernel_truth.TruthRow]:
        """The sender's own rows."""
        names = tuple(self._columns)
        rows = []
        for values in zip(*self._columns.values(), strict=True):
            row = dict(zip(names, values, strict=True))
            if row["ssthresh"] is None:
                row["ssthresh"] = kernel_truth.NO_SSTHRESH
            rows.append(kernel_truth.TruthRow(sport=OWN_PORT, **row))
        return rows
