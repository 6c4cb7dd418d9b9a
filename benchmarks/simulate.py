"""The simulator beside ns-2.35: packets a second, cost as the window grows, the Figure 2 sweep.

    python benchmarks/simulate.py [--quick]

Whole processes, alternating, the best of several runs each; nothing is traced or written by either side. ns-2 is
Debian's package ns2 (`ns`); without it its columns are empty.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCENARIOS = HERE.parent / "captures" / "scenarios"

# Name, scenario, ns script with its queue limit, simulated seconds.
PAIRS = (
    ("Tahoe, satellite", "small_buffers_B20.toml", "tahoe_satellite.tcl", 21, 30_000),
    ("Compound, 100 Mbit/s", "compound_case4.toml", "compound_100M.tcl", 80, 400),
)
WINDOWS = (10, 100, 1_000, 10_000, 100_000)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the simulated time, one run each")
    quick = parser.parse_args().quick
    beside_ns(quick)
    growing_window()
    figure_2_sweep(quick)
    return 0


def beside_ns(quick: bool) -> None:
    """Simulated data packets per second of wall time."""
    print(f"{'run':22}{'simulated s':>12}{'packets':>12}{'ours pkt/s':>13}{'ns-2 pkt/s':>13}{'ratio':>8}")
    for name, scenario, script, queue, seconds in PAIRS:
        span = seconds // 10 if quick else seconds
        ours = [sys.executable, "-m", "tcptrace_lab", "simulate", str(SCENARIOS / scenario), "--json"]
        ours += ["--set", f"duration_s={span}"]
        theirs = ["ns", str(HERE / script), str(span), str(queue)]
        best_ours = best_theirs = float("inf")
        packets = 0
        for _ in range(1 if quick else 3):
            elapsed, output = timed(ours)
            best_ours = min(best_ours, elapsed)
            packets = json.loads(output)["packets_sent"]
            if shutil.which("ns"):
                elapsed, output = timed(theirs)
                best_theirs = min(best_theirs, elapsed)
                their_packets = int(output.strip().splitlines()[-1].split()[0])
                assert abs(their_packets - packets) < packets / 100, (their_packets, packets)
        rate, their_rate = packets / best_ours, packets / best_theirs
        print(f"{name:22}{span:12}{packets:12}{rate:13.0f}{their_rate:13.0f}{rate / max(their_rate, 1):8.1f}")


def growing_window() -> None:
    """Nanoseconds per packet on a path that holds the whole window: constant, if no ACK costs O(window)."""
    from tcptrace_lab.scenario import Connection, Control, Node, Path, Scenario
    from tcptrace_lab.simulate import simulate

    print(f"\n{'window':>8}{'packets':>12}{'ns/packet':>12}")
    for window in WINDOWS:
        # One window per 100 ms, and a million packets or ten windows of them.
        path = Path(nodes=(Node(rate_bps=window * 12e4, delay_s=0.05),), return_delay_s=0.05)
        control = Control(recovery="sack", initial_window=window, max_window=window)
        span = max(1_000_000 / (window * 10), 1.0)
        connections = (Connection(control=control),)
        scenario = Scenario(path=path, connections=connections, duration_s=span, profile="ns2", taps=())
        elapsed, run = clocked(lambda scenario=scenario: simulate(scenario))
        packets = run.summary["packets_sent"]
        print(f"{window:8}{packets:12}{1e9 * elapsed / packets:12.0f}")


def figure_2_sweep(quick: bool) -> None:
    """Paper 000, Figure 2: 64 buffers of 600 s each, one process."""
    command = [sys.executable, "-m", "tcptrace_lab", "sweep", str(SCENARIOS / "small_buffers_B20.toml"), "--json"]
    command += ["--over", "path.nodes.0.buffer=5:68"]
    elapsed = min(timed(command)[0] for _ in range(1 if quick else 3))
    print(f"\nFigure 2 sweep, 64 buffers x 600 s: {elapsed:.2f} s")


def timed(command: list[str]) -> tuple[float, str]:
    start = time.perf_counter()
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return time.perf_counter() - start, output


def clocked(function: Callable[[], object]) -> tuple[float, object]:
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


if __name__ == "__main__":
    sys.exit(main())
