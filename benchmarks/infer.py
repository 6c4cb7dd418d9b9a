"""What reconstructing a sender and naming its control costs per packet, and in memory: one command, one table.

    python -m benchmarks.infer [--million 1 4] [--folder DIR]

A process per capture; each step's processor time is that beyond the step before it. `read` follows the connections and
keeps the rows of the first one's sender, `sender` looks at the tap and observes, `tables` adds windows, phases, losses
and cycles as columns; `observe` is the observer once more, alone, and not part of the sum. Then whole commands, each a
process of its own: seconds of the clock (two cores are used), of the processor, packets per second of the processor's
time beyond the start-up (that of the same command on the smallest capture), and the most memory. Captures of one
connection: generated ones that lose a segment in five hundred, or in a hundred, which no control has sent; simulated
ones of Tahoe, of CUBIC (also at the receiver, with timestamps and without, and with many losses), of Compound under
random loss, and of a control that no candidate is.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from functools import cache
from itertools import pairwise, product
from pathlib import Path

from benchmarks.analyze import captures_in, machine, run

STEPS = """
import json, os, resource, sys, time
# As the command line has it.
os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")
import tcptrace_lab
from tcptrace_lab.commands.inputs import opened
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import sender

def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

rows = [("imports", time.process_time(), memory())]
def done(name):
    rows.append((name, time.process_time(), memory()))

# As `reconstruct` and `classify` read it.
capture = opened(sys.argv[1])
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
# By benchmarks/sender_capture.py.
SENDERS = (
    "CUBIC",
    "CUBIC at the receiver",
    "CUBIC at the receiver, no timestamps",
    "CUBIC, 1 % lost",
    "Tahoe",
    "Compound, 0.1 % lost",
    "no candidate fits",
)
SMALLEST = Path(__file__).resolve().parent.parent / "captures" / "short_reno.pcap.gz"
COMMANDS = ("analyze", "reconstruct", "classify", "plot")


def asked(name: str, capture: Path, folder: Path) -> list[str]:
    """One whole command."""
    output = ["-o", str(folder / "figure.png")] if name == "plot" else ["--json"]
    return [sys.executable, "-m", "tcptrace_lab", name, str(capture), *output]


@cache
def start_up(name: str, folder: Path) -> float:
    """Seconds of the processor that a command takes before it has read much."""
    return min(run(asked(name, SMALLEST, folder)).cpu_s for _ in range(3))


def commands(capture: Path, packets: int) -> None:
    """Whole processes."""
    for name in COMMANDS:
        done, begun = run(asked(name, capture, capture.parent)), start_up(name, capture.parent)
        rate = packets / max(done.cpu_s - begun, 1e-3) / 1e6
        print(
            f"    {name:12} {done.wall_s:6.2f} s, processor {done.cpu_s:6.2f} s (start-up {begun:.2f} s; beyond it "
            f"{rate:.1f} million packets/s), {done.memory_mb:4.0f} MB"
        )


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
    commands(capture, packets)


def main() -> int:
    """Generate, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--million", type=int, nargs="+", default=[1, 4], help="millions of packets")
    parser.add_argument("--folder", type=Path, help="keep the captures here (default: a temporary folder)")
    arguments = parser.parse_args()
    print(machine())
    with captures_in(arguments.folder) as folder:
        for millions, title in product(arguments.million, (*CYCLES, *SENDERS)):
            print(f"{title}, {millions} million packets")
            capture = folder / f"infer_{millions}M_{re.sub('[^a-z0-9]+', '_', title.lower())}.pcap"
            if not capture.exists():
                maker, *size = (
                    ("bulk_capture", str(millions * 1_000_000), "1", "8", str(CYCLES[title]))
                    if title in CYCLES
                    else ("sender_capture", title, str(millions))
                )
                subprocess.run([sys.executable, "-m", f"benchmarks.{maker}", str(capture), *size], check=True)
            measure(capture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
