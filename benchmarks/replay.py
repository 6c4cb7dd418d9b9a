"""Replaying: packets a second of watching a capture, and of sending one through another path, beside the simulator's.

    python -m benchmarks.replay [--packets 2000000]

Processor time of one thread's work beside reading alone; the capture is generated (headers only, 1,000 connections).
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchmarks.bulk_capture import write
from tcptrace_lab import read
from tcptrace_lab.replay.open_loop import sweep_through, through
from tcptrace_lab.replay.watch import Watch, watch_files
from tcptrace_lab.report.watch_view import JsonLines
from tcptrace_lab.scenario_file import load, table_of
from tcptrace_lab.simulate import simulate
from tcptrace_lab.sweep import over

SCENARIO = Path(__file__).resolve().parent.parent / "captures" / "scenarios" / "reno_10M.toml"
# Fast enough for what is sent, with room: most packets pass, some are dropped.
FAST = ("path.nodes.0.rate_bps=1e9", "path.nodes.0.buffer=200")
RUNS = 3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packets", type=int, default=2_000_000)
    packets = parser.parse_args().packets
    with tempfile.TemporaryDirectory(prefix="tcptrace-lab-") as folder:
        file = Path(folder) / "bulk.pcap"
        write(file, packets=packets, connections=1000)
        capture = read(file)
        scenario = load(SCENARIO, overrides=FAST)

        def watch(*, observes: bool) -> None:
            watcher = watch_files([str(file)])
            if observes:
                watcher.observe(keeps_recent=False)
            with open(os.devnull, "w", encoding="utf-8") as nowhere:
                Watch(watcher, "bulk").run(JsonLines(nowhere))

        def simulated() -> int:
            return int(simulate(replace(load(SCENARIO), duration_s=2000.0)).summary["packets_sent"])

        buffers = over("path.nodes.0.buffer=50:200:10")
        table = table_of(SCENARIO)
        rows: tuple[tuple[str, int, Callable[[], object]], ...] = (
            ("reading alone", capture.packets, lambda: read(file)),
            ("watching, no terminal", capture.packets, lambda: watch(observes=False)),
            ("watching, --json", capture.packets, lambda: watch(observes=True)),
            ("open loop, written out", capture.packets, lambda: through(capture, scenario)),
            ("open loop, 16 buffers", 16 * capture.packets, lambda: sweep_through(capture, table, [buffers])),
            # A data packet, and an ACK of every second one.
            ("simulating", simulated() * 3 // 2, simulated),
        )
        print(f"{'':28}{'packets':>12}{'seconds':>10}{'million/s':>11}{'CPU s':>8}{'million/CPU s':>15}")
        for name, count, work in rows:
            wall_s, cpu_s = min(timed(work) for _ in range(RUNS))
            print(
                f"{name:28}{count:12}{wall_s:10.3f}{count / wall_s / 1e6:11.2f}{cpu_s:8.3f}{count / cpu_s / 1e6:15.2f}"
            )
    return 0


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock, and of processors."""
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall_s, time.process_time() - cpu_s


if __name__ == "__main__":
    raise SystemExit(main())
