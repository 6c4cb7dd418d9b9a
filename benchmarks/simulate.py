"""The simulator beside ns-2.35: packets a second, cost as the window grows, the Figure 2 sweep.

    python benchmarks/simulate.py [--quick]

Whole processes, alternating, the best of several runs each, long enough that starting Python does not count; nothing is
traced or written by either side. Rates are per second of processor time, so that a busy machine does not decide. ns-2
is Debian's package ns2 (`ns`); without it its columns are empty.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SCENARIOS = HERE.parent / "captures" / "scenarios"

# Name, scenario, ns script with its queue limit and agent, simulated seconds.
PAIRS = (
    ("Tahoe, satellite", "small_buffers_B20.toml", ("tahoe_satellite.tcl", 21), 120_000),
    ("Compound, 100 Mbit/s", "compound_case4.toml", ("bottleneck_100M.tcl", 80, "/Linux compound"), 3_200),
)
WRITTEN = (
    ("run.pcap", "-o", ["--headers-only"], 600),
    ("run.pcapng", "-o", ["--headers-only"], 600),
    ("run.truth.csv", "--truth", [], 60),
    ("run.truth.parquet", "--truth", [], 60),
)
MEASURED = """
import json, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], check=True, capture_output=True, text=True)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps([json.loads(done.stdout)["packets_sent"], peak]))
"""
FLOWS = (1, 10, 100, 1_000)
# ns-2 needs so much longer for a packet that a part of the simulated time measures it as well.
NS_SHARE = 10
WINDOWS = (10, 100, 1_000, 10_000, 100_000)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the simulated time, one run each")
    quick = parser.parse_args().quick
    beside_ns(quick)
    growing_window()
    python_control(quick)
    streamed(quick)
    every_control(quick)
    many_flows(quick)
    figure_2_sweep(quick)
    return 0


class Reno:
    """RFC 5681 in Python: what a control of one's own costs beside the built-in one."""

    def on_ack(self, state: Any) -> None:
        if not state.is_cwnd_limited:
            return
        if state.cwnd < state.ssthresh:
            state.cwnd += min(state.newly_acked, state.smss)
        else:
            state.cwnd += state.smss * state.smss / state.cwnd

    def on_loss(self, state: Any) -> None:
        state.ssthresh = state.flight_size / 2

    on_timeout = on_loss


class Informed(Reno):
    """The same, told of every ACK what it delivered."""

    def on_delivery(self, state: Any) -> None:
        self.rate = state.delivery_rate


def python_control(quick: bool) -> None:
    """Nanoseconds per packet of Reno built in and in Python: the same packets, no tap, no truth."""
    from dataclasses import replace

    from tcptrace_lab.scenario_file import load
    from tcptrace_lab.simulate import simulate

    print(f"\n{'control':28}{'profile':>8}{'packets':>12}{'ns/packet':>12}{'ratio':>8}")
    for name, seconds in (("small_buffers_B20", 20_000), ("reno_10M", 600)):
        overrides = [f"duration_s={seconds // 10 if quick else seconds}"]
        scenario = replace(load(SCENARIOS / f"{name}.toml", overrides=overrides), taps=())
        least: dict[str, float] = {}
        for _ in range(1 if quick else 3):
            for label, control in (("built in", None), ("Python", Reno()), ("Python, on_delivery", Informed())):
                start = time.process_time()
                packets = simulate(scenario, control=control, truth=False).totals[0]["packets_sent"]
                cost = 1e9 * (time.process_time() - start) / packets
                least[label] = min(cost, least.get(label, cost))
        for label, cost in least.items():
            ratio = cost / least["built in"]
            print(f"{'Reno, ' + label:28}{scenario.profile:>8}{packets:12}{cost:12.0f}{ratio:8.1f}")


def beside_ns(quick: bool) -> None:
    """Simulated data packets per second of processor time."""
    print(f"{'run':22}{'simulated s':>12}{'packets':>12}{'ours pkt/s':>13}{'ns-2 pkt/s':>13}{'ratio':>8}")
    for name, scenario, (script, *words), seconds in PAIRS:
        span = seconds // 10 if quick else seconds
        ours = [sys.executable, "-m", "tcptrace_lab", "simulate", str(SCENARIOS / scenario), "--json"]
        ours += ["--set", f"duration_s={span}"]
        theirs = ["ns", str(HERE / script), str(span), *map(str, words)]
        best_ours = best_theirs = float("inf")
        packets = 0
        for _ in range(1 if quick else 3):
            spent, output = timed(ours)
            best_ours = min(best_ours, spent)
            packets = json.loads(output)["packets_sent"]
            if shutil.which("ns"):
                spent, output = timed(theirs)
                best_theirs = min(best_theirs, spent)
                # Among what the Linux agent says of its tables, the script's line: packets sent, highest number.
                their_packets = int(re.findall(r"^(\d+) \d+$", output, re.MULTILINE)[0])
                assert their_packets == packets, (their_packets, packets)
        rate, their_rate = packets / best_ours, packets / best_theirs
        beside = f"{their_rate:13.0f}{rate / their_rate:8.1f}" if their_rate else ""
        print(f"{name:22}{span:12}{packets:12}{rate:13.0f}{beside}")


def growing_window() -> None:
    """Nanoseconds per packet on a path that holds the whole window: constant, if no ACK costs O(window)."""
    from tcptrace_lab.scenario import ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario
    from tcptrace_lab.simulate import simulate

    print(f"\n{'window':>8}{'packets':>12}{'ns/packet':>12}")
    for window in WINDOWS:
        # One window per 100 ms, and a million packets or ten windows of them.
        path = PathSpec(nodes=(NodeSpec(rate_bps=window * 12e4, delay_s=0.05),), return_delay_s=0.05)
        control = ControlSpec(recovery="sack", initial_window=window, max_window=window)
        span = max(1_000_000 / (window * 10), 1.0)
        connections = (ConnectionSpec(control=control),)
        scenario = Scenario(path=path, connections=connections, duration_s=span, profile="ns2", taps=())
        start = time.process_time()
        packets = simulate(scenario, truth=False).summary["packets_sent"]
        print(f"{window:8}{packets:12}{1e9 * (time.process_time() - start) / packets:12.0f}")


def streamed(quick: bool) -> None:
    """Packets a second of processor time and the most memory of a run into each kind of file, the interpreter's too."""
    scenario = str(SCENARIOS / "compound_case4.toml")
    print(f"\n{'written':22}{'packets':>12}{'packets/s':>12}{'MB held':>10}")
    for name, option, headers, seconds in WRITTEN:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "tcptrace_lab", "simulate", scenario, "--json", option, f"{folder}/{name}"]
            command += ["--set", f"duration_s={seconds // 10 if quick else seconds}", *headers]
            # A process of its own that waits for it: ru_maxrss is that of the largest child.
            spent, output = timed([sys.executable, "-c", MEASURED, *command])
        sent, kilobytes = json.loads(output)
        # A capture at the sender has an ACK for each.
        packets = sent * (2 if headers else 1)
        print(f"{name:22}{packets:12}{packets / spent:12.0f}{kilobytes / 1024:10.0f}")


def every_control(quick: bool) -> None:
    """Nanoseconds per packet of each window and recovery, one flow, no tap, no truth: by the documents or Linux 6 over
    10 Mbit/s, and where ns-2 has it over 100 Mbit/s beside ns, the same packets, to the last one."""
    from tcptrace_lab import controls
    from tests.simulate.test_beside_ns2 import AGENTS

    print(f"\n{'control':18}{'packets':>10}{'ns/packet':>11}{'as ns-2':>12}{'ns/packet':>11}{'ns-2':>8}{'ratio':>7}")
    spans = [20, 60] if quick else [100, 1_000]
    for name in dict.fromkeys([*AGENTS, *controls.WINDOWS]):
        line = f"{name:18}"
        # A window that only ns-2 has runs in its profile only.
        if name not in controls.WINDOWS or "rfc" in controls.WINDOWS[name].profiles:
            packets, spent = cost(sent_by(name, "reno_10M", 6 * spans[0]))
            line += f"{packets:10}{1e9 * spent / packets:11.0f}"
        if name in AGENTS and shutil.which("ns"):
            ours, theirs = [], []
            for span in spans:
                scenario = sent_by(name, "compound_case4", span)
                ours.append(least(lambda scenario=scenario: cost(scenario), quick))
                command = ["ns", str(HERE / "bottleneck_100M.tcl"), str(span), "80", AGENTS[name]]
                theirs.append(least(lambda command=command: counted(command), quick))
                assert ours[-1][0] == theirs[-1][0], (name, ours, theirs)
            line = f"{line:39}{ours[1][0]:12}{each(ours):11.0f}{each(theirs):8.0f}{each(theirs) / each(ours):7.1f}"
        print(line)


def sent_by(name: str, scenario: str, seconds: float) -> Any:
    """A scenario's path under another control."""
    from dataclasses import replace

    from tcptrace_lab.scenario import CONTROLS, ControlSpec
    from tcptrace_lab.scenario_file import load

    found = load(SCENARIOS / f"{scenario}.toml", overrides=[f"duration_s={seconds}"])
    (connection,) = found.connections
    kept = {key: getattr(connection.control, key) for key in ("initial_window", "rto", "delayed_ack_segments")}
    control = ControlSpec(**{**CONTROLS[name], **kept})
    return replace(found, connections=(replace(connection, control=control),))


def many_flows(quick: bool) -> None:
    """Nanoseconds per packet as flows share one bottleneck that gives each 0.1 Mbit/s and 20 waiting places.

    The difference of a long run and a short one, on both sides: setting up a thousand connections is no packet's cost.
    ns-2's clocks tick at other phases, so its packets are not the same ones.
    """
    from tcptrace_lab.scenario import ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario

    print(f"\n{'flows':>8}{'packets':>12}{'ns/packet':>12}{'ns-2':>12}{'ratio':>8}")
    spans = [50_000, 500_000] if quick else [100_000, 2_000_000]
    for flows in FLOWS:
        node = NodeSpec(rate_bps=flows * 1e5, delay_s=0.05, buffer=20 * flows)
        sender = ConnectionSpec(control=ControlSpec(recovery="sack"))
        path = PathSpec(nodes=(node,), return_delay_s=0.05)
        ours, theirs = [], []
        for span in spans:
            seconds = span / flows
            scenario = Scenario(path=path, connections=(sender,) * flows, duration_s=seconds, profile="ns2")
            ours.append(least(lambda scenario=scenario: cost(scenario), quick))
            if shutil.which("ns"):
                command = ["ns", str(HERE / "many_flows.tcl"), str(seconds / NS_SHARE), str(flows)]
                theirs.append(least(lambda command=command: counted(command), quick))
        line = f"{flows:8}{ours[1][0]:12}{each(ours):12.0f}"
        print(line + (f"{each(theirs):12.0f}{each(theirs) / each(ours):8.1f}" if theirs else ""))


def each(runs: list[tuple[int, float]]) -> float:
    """Nanoseconds for each packet that the longer of two runs has more."""
    (few, short), (many, long) = runs
    return 1e9 * (long - short) / (many - few)


def least(run: Callable[[], tuple[int, float]], quick: bool) -> tuple[int, float]:
    """The cheapest of several runs."""
    return min((run() for _ in range(1 if quick else 3)), key=lambda found: found[1])


def counted(command: list[str]) -> tuple[int, float]:
    """Packets that ns-2 sent, and its processor seconds."""
    spent, output = timed(command)
    return int(re.findall(r"^(\d+) \d+$", output, re.MULTILINE)[0]), spent


def cost(scenario: Any) -> tuple[int, float]:
    """Data packets of a scenario, and processor seconds."""
    from dataclasses import replace

    from tcptrace_lab.simulate import simulate

    start = time.process_time()
    packets = int(simulate(replace(scenario, taps=()), truth=False).summary["packets_sent"])
    return packets, time.process_time() - start


def figure_2_sweep(quick: bool) -> None:
    """Paper 000, Figure 2: 64 buffers of 600 s each, one process."""
    command = [sys.executable, "-m", "tcptrace_lab", "sweep", str(SCENARIOS / "small_buffers_B20.toml"), "--json"]
    command += ["--over", "path.nodes.0.buffer=5:68"]
    walls = []
    spent = float("inf")
    for _ in range(1 if quick else 3):
        start = time.perf_counter()
        spent = min(spent, timed(command)[0])
        walls.append(time.perf_counter() - start)
    print(f"\nFigure 2 sweep, 64 buffers x 600 s: {min(walls):.2f} s ({spent:.2f} s of processor time)")


def timed(command: list[str]) -> tuple[float, str]:
    """Processor seconds of a process, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, output


if __name__ == "__main__":
    sys.exit(main())
