"""Records a scenario with the real kernel: two namespaces, a path between them, tcpdump, and the kernel's own cwnd."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import platform
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tcptrace_lab import _core
from tcptrace_lab.errors import LabError
from tcptrace_lab.scenario import Scenario
from tcptrace_lab.scenario_spec import nodes_before, to_json, to_spec
from tcptrace_lab.testbed import truth
from tcptrace_lab.testbed.kernel import ADDRESSES, Settings, settings
from tcptrace_lab.testbed.namespaces import Dump, Namespace, Program
from tcptrace_lab.testbed.recording import (
    DROP_COLUMNS,
    QUEUE_COLUMNS,
    Recording,
    compress,
    drop_rows,
    queue_rows,
    seconds,
    write_csv,
    write_json,
)
from tcptrace_lab.testbed.requirements import program, require

SNAPLEN = 96
FIRST_PORT = 5001
# After the last write: what is still queued or lost is delivered in this time, or the connection is left as it is.
DRAIN_S = 20.0
# The last ACKs and FINs are on their way when the senders have ended.
SETTLE_S = 0.2
_TRACE_BUFFER_KB = 16384


def record(scenario: Scenario, *, output: Path, snaplen: int = SNAPLEN, attempts: int = 1) -> Recording:
    """Run a scenario on this machine's kernel; files are `output` with suffixes (.pcap.gz, .truth.csv.gz, ...).

    With `attempts` a run that the machine has disturbed (`Recording.is_clean`) is made again, so often at most, and
    the least disturbed is kept. Needs root and /dev/net/tun; LabError says in one line what is missing, ScenarioError
    what this kernel cannot do.
    """
    settings(scenario, first_port=FIRST_PORT)  # refused before anything is set up
    require()
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tcptrace-lab-") as folder:
        best = None
        for attempt in range(attempts):
            part = Path(folder) / str(attempt)
            part.mkdir()
            recording = _record(scenario, output=part / output.name, snaplen=snaplen)
            if best is None or _disturbance(recording) < _disturbance(best):
                best = recording
            if recording.is_clean:
                break
        if best is None:
            raise ValueError(f"attempts = {attempts}: must be >= 1")
        return best.moved_to(output.parent)


def _disturbance(recording: Recording) -> tuple[int, float]:
    return recording.missed, recording.longest_freeze_ms


def _record(scenario: Scenario, *, output: Path, snaplen: int) -> Recording:
    with tempfile.TemporaryDirectory(prefix="tcptrace-lab-") as folder, _ports(len(scenario.connections)) as port:
        plan = settings(scenario, first_port=port)
        with contextlib.ExitStack() as stack:
            run = _run(scenario, plan, port=port, snaplen=snaplen, folder=Path(folder), stack=stack)
        return _write(scenario, plan, run, output=output, snaplen=snaplen, folder=Path(folder))


@contextlib.contextmanager
def _ports(count: int) -> Iterator[int]:
    """A range of server ports that no other recording on this machine has: tracefs does not tell namespaces apart."""
    for first in range(FIRST_PORT, 65000, 100):
        with socket.socket(socket.AF_UNIX) as lock:
            # An abstract name belongs to its socket: the kernel frees it, however we end.
            try:
                lock.bind(f"\0tcptrace-lab-record-{first}")
            except OSError:
                continue
            if count > 100:
                raise LabError(f"recording: {count} connections are more than 100")
            yield first
            return
    raise LabError("recording: hundreds of recordings run already")


def _run(
    scenario: Scenario, plan: Settings, *, port: int, snaplen: int, folder: Path, stack: contextlib.ExitStack
) -> dict[str, Any]:
    """Everything between the first namespace and the end of the last program; the stack takes it down again."""
    path = scenario.path
    sender, receiver, prefix = ADDRESSES[scenario.ipv6]
    make = functools.partial(Namespace, prefix=prefix, mtu=path.packet_bytes, sysctls=plan.sysctls)
    near = stack.enter_context(make(address=sender, peer=receiver, route=plan.sender_route))
    far = stack.enter_context(make(address=receiver, peer=sender, route=plan.receiver_route))
    tracer = _tracer(plan, port=port, folder=folder, stack=stack)
    emulator = _Path(_core.Emulator(to_json(scenario), near.device_fd, far.device_fd))
    stack.callback(emulator.close)
    dumps = {}
    for tap in scenario.taps:
        place = near if tap == "sender" else far
        dumps[tap] = dump = Dump(place, folder / f"{tap}.pcap", snaplen=snaplen)
        stack.callback(dump.close)
    shared = {"flows": plan.flows, "ipv6": scenario.ipv6}
    receivers = Program("receivers", shared, prefix=far.prefix)
    stack.callback(receivers.close)
    receivers.answer()
    order = {**shared, "duration_s": scenario.duration_s, "drain_s": DRAIN_S}
    senders = Program("senders", order, prefix=near.prefix)
    stack.callback(senders.close)
    sent = senders.answer()["flows"]
    unfinished = any("bytes" not in flow for flow in sent)
    received = [] if unfinished else receivers.answer()["flows"]
    time.sleep(SETTLE_S)
    counts = {tap: dump.finish() for tap, dump in dumps.items()}
    tracer_said = tracer()
    return {
        "sent": sent,
        "received": received,
        "tcpdump": counts,
        "tracer": tracer_said,
        "emulator": emulator.close(),
        "scheduling": emulator.scheduling,
    }


def _tracer(plan: Settings, *, port: int, folder: Path, stack: contextlib.ExitStack) -> Any:
    """Starts the kernel's tracer; the function that ends it and says what it has. Without tracefs, why not."""
    order = {
        "name": f"tcptrace-lab-{port}",
        "events": truth.EVENTS,
        "first_port": port,
        "last_port": port + len(plan.flows) - 1,
        "buffer_kb": _TRACE_BUFFER_KB,
        "output": str(folder / "trace"),
    }
    tracer = Program("tracer", order, prefix=(str(program("unshare")), "--mount", "--"))
    stack.callback(tracer.close)
    try:
        tracer.answer()
    except LabError as error:
        reason = str(error)
        return lambda: {"unavailable": reason}

    def finish() -> dict[str, Any]:
        tracer.finish()
        return tracer.answer()

    return finish


class _Path:
    """The emulated path in a thread of its own, at real-time priority where that is allowed."""

    def __init__(self, emulator: _core.Emulator) -> None:
        self._emulator = emulator
        self._report: dict[str, Any] = {}
        self._error: BaseException | None = None
        self.scheduling = "normal"
        self._thread = threading.Thread(target=self._carry, name="path", daemon=True)
        self._thread.start()

    def _carry(self) -> None:
        try:
            # Of this thread alone; a packet delivered late is a longer path.
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
            self.scheduling = "SCHED_FIFO 50"
        except PermissionError:
            pass
        try:
            self._report = self._emulator.run()
        except OSError as error:
            self._error = error

    def close(self) -> dict[str, Any]:
        """Stops the path; what it reports."""
        self._emulator.stop()
        self._thread.join()
        if self._error is not None:
            raise LabError(f"recording: the path stopped: {self._error}")
        return self._report


def _write(
    scenario: Scenario, plan: Settings, run: Mapping[str, Any], *, output: Path, snaplen: int, folder: Path
) -> Recording:
    """The files of a recording."""
    captures = {}
    for number, tap in enumerate(scenario.taps):
        suffix = ".pcap.gz" if number == 0 else f".{tap}.pcap.gz"
        captures[tap] = output.with_name(output.name + suffix)
        compress(folder / f"{tap}.pcap", captures[tap])
    rows = _truth_rows(run, folder)
    before = nodes_before(scenario.path)
    report = run["emulator"]
    files = {
        "truth": output.with_name(output.name + ".truth.csv.gz"),
        "drops": output.with_name(output.name + ".drops.csv"),
        "queue": output.with_name(output.name + ".queue.csv.gz"),
    }
    write_csv(files["truth"], truth.COLUMNS, [row.text() for row in rows])
    write_csv(files["drops"], DROP_COLUMNS, drop_rows(report["drops"], nodes_before=before))
    write_csv(files["queue"], QUEUE_COLUMNS, queue_rows(report["queue"], nodes_before=before))
    metadata = _metadata(scenario, plan, run, rows=rows, snaplen=snaplen)
    description = output.with_name(output.name + ".json")
    write_json(description, metadata)
    return Recording(captures=captures, description=description, metadata=metadata, **files)


def _truth_rows(run: Mapping[str, Any], folder: Path) -> list[truth.Row]:
    rows = []
    if "unavailable" not in run["tracer"]:
        with (folder / "trace").open(encoding="utf-8", errors="replace") as lines:
            rows = truth.from_trace(lines, tai_offset_s=run["tracer"]["tai_offset_s"])
    for flow in run["sent"]:
        rows += truth.from_samples(flow.get("samples", []), sport=flow.get("client_port", 0))
    return sorted(rows, key=lambda row: row.time_ns)


def _metadata(
    scenario: Scenario, plan: Settings, run: Mapping[str, Any], *, rows: list[truth.Row], snaplen: int
) -> dict[str, Any]:
    report, tracer, path = run["emulator"], run["tracer"], scenario.path
    ports = [flow.get("client_port") for flow in run["sent"]]
    bottleneck = path.bottleneck
    drops: dict[str, int] = {}
    for reason in report["drops"]["reason"]:
        drops[reason] = drops.get(reason, 0) + 1
    sender, receiver, _ = ADDRESSES[scenario.ipv6]
    return {
        "title": scenario.title,
        "kernel": f"{platform.system()} {platform.release()}",
        "scenario": json.loads(json.dumps(to_spec(scenario))),
        "departures": plan.departures,
        "snaplen": snaplen,
        "addresses": {
            "sender": sender,
            "receiver": receiver,
            "client_ports": ports,
            "server_port": plan.flows[0]["port"],
        },
        "congestion_control": [flow["congestion"] for flow in plan.flows],
        "derived": {
            "base_rtt_s": path.base_rtt_s,
            "bdp_packets": path.base_rtt_s * path.mu_pps,
            "buffer_packets_waiting": path.waiting_places(bottleneck),
        },
        "result": {
            "sent": [{key: value for key, value in flow.items() if key != "samples"} for flow in run["sent"]],
            "received": run["received"],
        },
        "drops": drops,
        "tcpdump": run["tcpdump"],
        "truth": {
            "tracepoints": list(truth.EVENTS) if "unavailable" not in tracer else [],
            "unavailable": tracer.get("unavailable"),
            "events_lost": tracer.get("lost", 0),
            "rows": {ev: sum(row.ev == ev for row in rows) for ev in "ARCI"},
        },
        "emulator": {
            "scheduling": run["scheduling"],
            "delivery_lateness_us": {key: round(value / 1000, 1) for key, value in report["lateness_ns"].items()},
            "freezes": [[seconds(noticed), round(length / 1e6, 3)] for noticed, length in report["freezes"]],
            **{key: report[key] for key in ("forward", "reverse", "is_conserved", "write_errors", "clock_drift_ns")},
        },
        "measured": {
            str(port): asdict(truth.measure(rows, sport=port)) for port in ports if port and "unavailable" not in tracer
        },
    }
