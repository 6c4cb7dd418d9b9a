"""What reconstructing a sender costs per packet, and in memory: one command, one table.

    python -m benchmarks.infer [--million 1 4] [--folder DIR]

A process per capture; each step's processor time is that beyond the step before it. `read` follows the connections,
`sender` follows once more with rows, looks at the tap and observes, `tables` adds windows, phases, losses and cycles as
columns; `observe` is the observer once more, alone, and not part of the sum. Generated captures of one connection that
loses a segment in five hundred, or in a hundred.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from benchmarks.analyze import machine

STEPS = """
import json, resource, sys, time
import tcptrace_lab
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import sender

def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

rows = [("imports", time.process_time(), memory())]
def done(name):
    rows.append((name, time.process_time(), memory()))

capture = tcptrace_lab.read(sys.argv[1])
done("read")
seen = Reconstruction(sender(capture[0]).timeline)
seen.timeline.observed
done("sender")
for table in ("windows", "phases", "losses", "cycles"):
    seen.columns(table)
done("tables")
tcptrace_lab._core.observe(seen.timeline)
done("observe")
print(json.dumps({"packets": capture.packets, "events": len(seen.episodes), "rows": rows}))
"""
# Segments from one loss to the next.
CYCLES = {"0.2 % lost": 500, "1 % lost": 100}


def measure(capture: Path) -> None:
    """One block of the table."""
    done = subprocess.run([sys.executable, "-c", STEPS, str(capture)], check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    packets = found["packets"]
    print(f"  {packets / 1e6:.1f} million packets, {found['events']} loss events")
    rows = found["rows"]
    for (_, before, _), (name, after, memory) in pairwise(rows):
        spent = after - before
        rate = f"{packets / spent / 1e6:6.1f} million packets/s" if spent > 0 else ""
        print(f"    {name:10} {spent:8.3f} s {rate:26} {memory:6.0f} MB")
    spent = rows[-2][1] - rows[0][1]
    rate = packets / spent / 1e6
    print(f"    {'together':10} {spent:8.3f} s {rate:6.1f} million packets/s; imports take {rows[0][2]:.0f} MB")


def main() -> int:
    """Generate, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--million", type=int, nargs="+", default=[1, 4], help="millions of packets")
    parser.add_argument("--folder", type=Path, help="keep the captures here (default: a temporary folder)")
    arguments = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for title, cycle in CYCLES.items():
            print(title)
            for millions in arguments.million:
                capture = folder / f"infer_{millions}M_{cycle}.pcap"
                if not capture.exists():
                    size = (str(millions * 1_000_000), "1", "8", str(cycle))
                    subprocess.run([sys.executable, "-m", "benchmarks.bulk_capture", str(capture), *size], check=True)
                measure(capture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
