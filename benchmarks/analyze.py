"""How fast `tcptrace-lab analyze --json` is, beside tcptrace and tshark: one command, one table.

    python -m benchmarks.analyze [--runs 5] [--folder DIR] [--million 2 10] [--no-tshark]

Whole processes in turn (ours, tcptrace, ours, tcptrace, ...), each reading the same generated capture from the page
cache: start of the interpreter, reading, following and printing included. tshark is run over the small captures only:
at its pace the large ones would take ten minutes each.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Connections, and how many packets of one come in a row: bursts, and packet by packet as on a busy link.
KINDS = ((1, 8), (1_000, 8), (1_000, 1), (100_000, 1))
TSHARK_FIELDS = (
    "tcp.stream",
    "tcp.analysis.retransmission",
    "tcp.analysis.duplicate_ack",
    "tcp.analysis.ack_rtt",
    "tcp.analysis.bytes_in_flight",
)


@dataclass(frozen=True)
class Run:
    """One process: wall seconds, processor seconds, peak memory in MB."""

    wall_s: float
    cpu_s: float
    memory_mb: float


def commands(capture: Path) -> dict[str, list[str]]:
    """What is compared."""
    fields = [word for field in TSHARK_FIELDS for word in ("-e", field)]
    ours = shutil.which("tcptrace-lab", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    return {
        "tcptrace-lab": [ours or "tcptrace-lab", "analyze", "--json", str(capture)],
        "tcptrace": ["tcptrace", "-l", "-r", str(capture)],
        "tshark": ["tshark", "-n", "-r", str(capture), "-T", "fields", *fields],
    }


def run(command: list[str]) -> Run:
    """Run to the end, output thrown away."""
    # An installed program is not compiled anew each time.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command[0]} ended with {process.returncode}: {' '.join(command)}")
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


@contextlib.contextmanager
def captures_in(kept: Path | None) -> Iterator[Path]:
    """Where a benchmark's captures lie: a folder that stays, or a temporary one."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = kept or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        yield folder


def machine() -> str:
    """Processor, cores, memory, kernel."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        model = next((line.split(": ")[1] for line in cpuinfo.read_text().splitlines() if "model name" in line), model)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    load = os.getloadavg()[0]
    return (
        f"{model}, {os.cpu_count()} cores, {memory:.0f} GB, {platform.system()} {platform.release()}, load {load:.1f}"
    )


def compare(capture: Path, names: list[str], runs: int) -> dict[str, list[Run]]:
    """Processes in turn, after one of each that warms the page cache."""
    chosen = {name: command for name, command in commands(capture).items() if name in names}
    results: dict[str, list[Run]] = {name: [] for name in chosen}
    for number in range(runs + 1):
        for name, command in chosen.items():
            # One run of a minute-long program is enough, and needs no warming.
            if name == "tshark" and number != 1:
                continue
            done = run(command)
            if number > 0:
                results[name].append(done)
    return results


def report(title: str, results: dict[str, list[Run]]) -> None:
    """One block of the table."""
    print(f"\n{title}")
    print(f"{'':14} {'min':>9} {'median':>9} {'cpu':>9} {'memory':>9}   ratio of minima, medians, cpu")
    ours = results["tcptrace-lab"]
    for name, runs in results.items():
        walls = [run.wall_s for run in runs]
        cpu = min(run.cpu_s for run in runs)
        memory = max(run.memory_mb for run in runs)
        line = f"{name:14} {min(walls):8.3f}s {statistics.median(walls):8.3f}s {cpu:8.3f}s {memory:6.0f} MB"
        if name != "tcptrace-lab":
            of_minima = min(walls) / min(run.wall_s for run in ours)
            of_medians = statistics.median(walls) / statistics.median([run.wall_s for run in ours])
            of_cpu = cpu / min(run.cpu_s for run in ours)
            line += f"   {of_minima:.1f}x, {of_medians:.1f}x, {of_cpu:.1f}x"
        print(line)


def main() -> int:
    """Generate, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="keep the captures here (default: a temporary folder)")
    parser.add_argument("--million", type=int, nargs="+", default=[2, 10], help="millions of packets")
    parser.add_argument("--no-tshark", action="store_true")
    arguments = parser.parse_args()
    missing = [tool for tool in ("tcptrace", "tshark") if shutil.which(tool) is None]
    print(machine())
    if missing:
        print(f"not installed, left out: {', '.join(missing)}")
    with captures_in(arguments.folder) as folder:
        for millions in arguments.million:
            for connections, turn in KINDS:
                capture = folder / f"bulk_{millions}M_{connections}_{turn}.pcap"
                if not capture.exists():
                    # In a process of its own: a child's peak memory counts that of the parent it was forked from.
                    size = (str(millions * 1_000_000), str(connections), str(turn))
                    subprocess.run([sys.executable, "-m", "benchmarks.bulk_capture", str(capture), *size], check=True)
                names = ["tcptrace-lab", "tcptrace"]
                if millions == min(arguments.million) and turn > 1 and not arguments.no_tshark:
                    names.append("tshark")
                results = compare(capture, [name for name in names if name not in missing], arguments.runs)
                megabytes = capture.stat().st_size / 1e6
                turns = f" in turns of {turn}" if connections > 1 else ""
                report(f"{millions} million packets, {connections} connections{turns}, {megabytes:.0f} MB", results)
                if arguments.folder is None:
                    capture.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
