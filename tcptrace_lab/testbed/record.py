"""Records a scenario with the real kernel: two namespaces, a path between them, tcpdump, and the kernel's own cwnd."""

from __future__ import annotations

import contextlib
import functools
import platform
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tcptrace_lab import _core
from tcptrace_lab.errors import LabError
from tcptrace_lab.scenario import Scenario, plain
from tcptrace_lab.scenario_file import scenario_table
from tcptrace_lab.tables import finite
from tcptrace_lab.testbed import kernel_truth
from tcptrace_lab.testbed.kernel import ADDRESSES, Settings, settings
from tcptrace_lab.testbed.namespaces import Dump, Namespace, Program
from tcptrace_lab.testbed.realtime import RealTime
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
from tcptrace_lab.testbed.requirements import require
from tcptrace_lab.testbed.senders import KernelSenders, OwnSender

# IPv6's header and TCP's with every option are 100 bytes, and a device may put its own in front.
SNAPLEN = 128
FIRST_PORT = 5001
# The last ACKs and FINs are on their way when the senders have ended.
SETTLE_S = 0.2


def record(
    scenario: Scenario, *, output: Path, sender: str = "kernel", snaplen: int = SNAPLEN, attempts: int = 1
) -> Recording:
    """Run a scenario on this machine's kernel; files are `output` with suffixes (.pcap.gz, .truth.csv.gz, ...).

    `sender` is "kernel", or "own": the simulator's sender, any row of the table, against the kernel's receiver.
    With `attempts` a run that the machine has disturbed (`Recording.is_clean`) is made again, so often at most, and
    the least disturbed is kept. Needs root and /dev/net/tun; LabError says in one line what is missing, ScenarioError
    what this kernel cannot do.
    """
    settings(scenario, first_port=FIRST_PORT, sender=sender)  # refused before anything is set up
    require()
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tcptrace-lab-") as folder:
        best = None
        for attempt in range(attempts):
            part = Path(folder) / str(attempt)
            part.mkdir()
            recording = _record(scenario, output=part / output.name, sender=sender, snaplen=snaplen)
            if best is None or _disturbance(recording) < _disturbance(best):
                best = recording
            if recording.is_clean:
                break
        if best is None:
            raise ValueError(f"attempts = {attempts}: must be >= 1")
        return best.moved_to(output.parent)


def _disturbance(recording: Recording) -> tuple[int, int, float]:
    return recording.missed, recording.late_acks, max(recording.longest_freeze_ms, recording.longest_stall_ms)


def _record(scenario: Scenario, *, output: Path, sender: str, snaplen: int) -> Recording:
    with tempfile.TemporaryDirectory(prefix="tcptrace-lab-") as folder, _ports(len(scenario.connections)) as port:
        plan = settings(scenario, first_port=port, sender=sender)
        with contextlib.ExitStack() as stack:
            run = _run(scenario, plan, snaplen=snaplen, folder=Path(folder), stack=stack)
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
    scenario: Scenario, plan: Settings, *, snaplen: int, folder: Path, stack: contextlib.ExitStack
) -> dict[str, Any]:
    """Everything between the first namespace and the end of the last program; the stack takes it down again."""
    path = scenario.path
    sender, receiver, prefix = ADDRESSES[scenario.ipv6]
    make = functools.partial(Namespace, prefix=prefix, mtu=path.packet_bytes, sysctls=plan.sysctls)
    near = stack.enter_context(make(address=sender, peer=receiver, route=plan.sender_route, forwards=plan.is_own))
    far = stack.enter_context(make(address=receiver, peer=sender, route=plan.receiver_route))
    senders = (
        OwnSender(scenario, plan, near, stack=stack)
        if plan.is_own
        else KernelSenders(scenario, plan, near, folder=folder, stack=stack)
    )
    emulator = _core.Emulator(plain(scenario), near.device_fd, far.device_fd)
    carrier = RealTime("path", emulator.run, emulator.stop, priority=50)
    stack.callback(carrier.close)
    dumps = {}
    for tap in scenario.taps:
        place = near if tap == "sender" else far
        dumps[tap] = dump = Dump(place, folder / f"{tap}.pcap", snaplen=snaplen)
        stack.callback(dump.close)
    receivers = Program("receivers", {"flows": plan.flows, "ipv6": scenario.ipv6}, prefix=far.prefix)
    stack.callback(receivers.close)
    receivers.answer()
    sent = senders.send()
    for number, flow in enumerate(sent):
        if "error" in flow:
            raise LabError(f"recording: connections.{number}: {flow['error']}")
    # A connection that has not come to its end in time has no count of bytes, and its receiver still waits.
    received = receivers.answer()["flows"] if all("bytes" in flow for flow in sent) else []
    time.sleep(SETTLE_S)
    counts = {tap: dump.finish() for tap, dump in dumps.items()}
    senders.finish()
    return {
        "sent": sent,
        "received": received,
        "tcpdump": counts,
        "rows": senders.rows(),
        "account": senders.account,
        "emulator": carrier.close(),
        "nodes_before": emulator.nodes_before,
        "scheduling": carrier.scheduling,
    }


def _write(
    scenario: Scenario, plan: Settings, run: Mapping[str, Any], *, output: Path, snaplen: int, folder: Path
) -> Recording:
    """The files of a recording."""
    captures = {}
    for number, tap in enumerate(scenario.taps):
        suffix = ".pcap.gz" if number == 0 else f".{tap}.pcap.gz"
        captures[tap] = output.with_name(output.name + suffix)
        compress(folder / f"{tap}.pcap", captures[tap])
    rows = run["rows"]
    before = run["nodes_before"]
    report = run["emulator"]
    files = {
        "truth": output.with_name(output.name + ".truth.csv.gz"),
        "drops": output.with_name(output.name + ".drops.csv"),
        "queue": output.with_name(output.name + ".queue.csv.gz"),
    }
    write_csv(files["truth"], kernel_truth.COLUMNS, [row.text() for row in rows])
    write_csv(files["drops"], DROP_COLUMNS, drop_rows(report["drops"], nodes_before=before))
    write_csv(files["queue"], QUEUE_COLUMNS, queue_rows(report["queue"], nodes_before=before))
    metadata = _metadata(scenario, plan, run, snaplen=snaplen)
    description = output.with_name(output.name + ".json")
    write_json(description, metadata)
    return Recording(captures=captures, description=description, metadata=metadata, **files)


def _metadata(scenario: Scenario, plan: Settings, run: Mapping[str, Any], *, snaplen: int) -> dict[str, Any]:
    report, rows, path = run["emulator"], run["rows"], scenario.path
    ports = [flow.get("client_port") for flow in run["sent"]]
    bottleneck = path.bottleneck
    drops: dict[str, int] = {}
    for reason in report["drops"]["reason"]:
        drops[reason] = drops.get(reason, 0) + 1
    sender, receiver, _ = ADDRESSES[scenario.ipv6]
    return {
        "title": scenario.title,
        "sender": "own" if plan.is_own else "kernel",
        "kernel": f"{platform.system()} {platform.release()}",
        "scenario": finite(scenario_table(scenario)),
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
            "sent": run["sent"],
            "received": run["received"],
        },
        "drops": drops,
        "tcpdump": run["tcpdump"],
        "truth": {
            **run["account"],
            "late_acks": [
                [seconds(time_ns), segments]
                for time_ns, segments in kernel_truth.late_acks(rows, packet_bytes=scenario.path.packet_bytes)
            ],
            "rows": {ev: sum(row.ev == ev for row in rows) for ev in "ASRCI"},
        },
        "emulator": {
            "scheduling": run["scheduling"],
            "delivery_lateness_us": {key: round(value / 1000, 1) for key, value in report["lateness_ns"].items()},
            "freezes": [[seconds(noticed), round(length / 1e6, 3)] for noticed, length in report["freezes"]],
            **{key: report[key] for key in ("forward", "reverse", "is_conserved", "write_errors", "clock_drift_ns")},
        },
        "measured": {
            str(port): asdict(kernel_truth.measure(rows, sport=port, restarts=scenario.control.recovery == "tahoe"))
            for port in ports
            if port and run["account"]["unavailable"] is None
        },
    }
