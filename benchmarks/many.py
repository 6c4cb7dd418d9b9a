"""What verdicts on many connections of one capture cost: one command, one table.

    python -m benchmarks.many [--connections 500 10000] [--folder DIR]

`classify --json` on captures as servers have them (benchmarks/many_capture.py): whole processes, seconds of the clock
and of the processor (of all its processes), the latter per connection beyond start-up, and the most memory that one of
them had. Beside it `analyze --json`, which judges nothing.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks.analyze import captures_in, machine, run
from benchmarks.infer import SMALLEST


def asked(name: str, capture: Path) -> list[str]:
    """One whole command."""
    return [sys.executable, "-m", "tcptrace_lab", name, str(capture), "--json"]


def main() -> int:
    """Generate, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, nargs="+", default=[500, 10_000])
    parser.add_argument("--folder", type=Path, help="keep the captures here (default: a temporary folder)")
    arguments = parser.parse_args()
    print(machine())
    with captures_in(arguments.folder) as folder:
        for connections in arguments.connections:
            capture = folder / f"many_{connections}.pcap"
            if not capture.exists():
                subprocess.run(
                    [sys.executable, "-m", "benchmarks.many_capture", str(capture), str(connections)], check=True
                )
            print(f"{connections} connections, {capture.stat().st_size / 1e6:.0f} MB")
            for name in ("analyze", "classify"):
                begun = min(run(asked(name, SMALLEST)).cpu_s for _ in range(2))
                done = run(asked(name, capture))
                each_ms = 1e3 * (done.cpu_s - begun) / connections
                print(
                    f"    {name:10} {done.wall_s:6.2f} s, processor {done.cpu_s:6.2f} s ({each_ms:.2f} ms each), "
                    f"{done.memory_mb:4.0f} MB"
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
