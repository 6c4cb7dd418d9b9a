"""Which oracle each control was held against, what was equal and how far off the rest is: writes docs/controls.md.

    PYTHONPATH=. python docs/make_controls.py

Runs ns-2.35 (`ns`) beside the simulator on random paths, and feeds the kernel's ACKs of the reference data (../shared)
to the core's own controls (cargo).
"""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import subprocess
import tempfile
from pathlib import Path

from tcptrace_lab.controls import SLOW_STARTS, WINDOWS, Window
from tcptrace_lab.scenario import RECOVERIES
from tcptrace_lab.simulate import simulate
from tests.simulate import test_beside_ns2 as beside

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "controls.md"
PATHS = 12
MIXES = 60

HEAD = """# The controls, and what they were held against

Written by `python docs/make_controls.py`; do not edit. The rows are those of the table in
`core/src/congestion/table.rs`.

**ns-2.35**: the control alone on {paths} random paths of 30 s beside `ns` itself (`tests/simulate/test_beside_ns2.py`
says how they are drawn). *equal* counts the paths on which every change of the window, and its time, and every drop,
are ns's to the last packet; *drops* counts the same packets lost at the same microsecond on all of them.
**Linux 6**: each control was fed the ACKs of recordings of the kernel, whose window after each ACK is known.
*slow start* and *avoidance*: the largest difference in segments, and how often the window was equal; *ssthresh*: the
largest difference after a loss.
"""

# What is not a number: tests by which a row is held besides.
PROOFS = {
    "reno": "RFC 5681 clause by clause (`tests/rfc/test_rfc5681.py`); ns-2's event traces (`core/tests/ns2.rs`)",
    "cubic": "RFC 9438, each MUST and SHOULD of sections 4 and 5 (`tests/rfc/test_rfc9438.py`). Not equal to it: "
    "an ACK at cwnd = ssthresh is avoidance's; one that acknowledges two segments opens the window twice (sections 4.4 "
    "and 4.5 say once); left out: of spurious losses (MAY) all but cwnd and ssthresh, ECN",
    "cubic-linux": "over the kernel's own paths: each loss at its window within a segment, the first cycle's losses "
    "equal, cycles 1.8 % apart, 9 % at a round trip of 16 ms (`core/tests/kernel.rs`). ns-2's module: its guesses of a "
    "cube root by a formula and 20 corrections by hand; its delay is that of the echoed timestamp",
    "reno-linux": "the sender of the kernel's own paths with RACK-TLP and a Linux receiver: overshoots, cycles and "
    "losses (`core/tests/kernel.rs`); the family's tests (`tests/simulate/test_beside_ns2.py`, `core/tests/family.rs`)",
    "compound": "ns-2's traces and all 75 oscillations of the oracle (`core/tests/ns2_compound.rs`)",
    "compound-draft": "the draft's equations at each update (`core/tests/compound_draft.rs`); the kernel runs' cycles "
    "(`core/tests/kernel.rs`)",
    "illinois": "alpha and beta the kernel's on 95 % of its ACKs, 1.6 % apart at the most (microseconds between the "
    "capture's clock and the kernel's); the rest are windows a step early or late; the family's tests "
    "(`tests/simulate/test_beside_ns2.py`, `core/tests/family.rs`)",
    "bbr": "the kernel's own run: phases in order, 118, 3 and 37 drops at the kernel, 118, 3 and 38 here "
    "(`core/tests/kernel_bbr.rs`); a recording made for it (`tests/simulate/test_kernel_bbr.py`)",
}
SLOW_START_PROOFS = {
    "standard": "RFC 5681 section 3.1 (`tests/rfc/test_rfc5681.py`), ns-2 and Linux 6 as above",
    "limited": "the equation (`core/src/congestion/slow_start.rs`)",
    "hystart": "the rounds after which it ends (`core/src/congestion/hystart.rs`)",
    "m-start": "the paper's tables 1 and 2, ACK for ACK (`core/tests/m_start.rs`); the kernel's overshoot to its end: "
    "ssthresh 1265, 632, 316 for 1264, 632, 316, 3559 drops for 3556 (`core/tests/kernel.rs`)",
}


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    kernel = fed_by_the_kernel()
    lines = [HEAD.format(paths=PATHS), "| window | source | ns-2.35: equal | drops | Linux 6 run | ACKs | slow start "]
    lines[-1] += "| ssthresh | avoidance | equal |"
    lines.append("|---|---|---:|---:|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        draws = draws_of_ns(Path(folder))
    for row in WINDOWS.values():
        equal, drops = beside_ns(row.name, draws)
        for number, told in enumerate(kernel.get(row.name, [("", "", "", "", "", "")])):
            first = (row.name, row.source, equal, drops) if number == 0 else ("", "", "", "")
            lines.append("| " + " | ".join((*first, *told)) + " |")
    lines += ["", "| recovery | ns-2.35: equal | drops |", "|---|---:|---:|"]
    lines += [f"| {name} | " + " | ".join(beside_ns(name, draws)) + " |" for name in RECOVERIES]
    lines += [
        "",
        f"**Two and three senders**, drawn from all of these, on {MIXES} more random paths: on {mixed(draws)} "
        "every drop, every change of",
        "each window, and what was sent, and again, are ns's to the last packet.",
    ]
    lines += ["", "What else each is held by:", ""]
    lines += [f"- `{row.name}`: {proof_of(row)}" for row in WINDOWS.values()]
    lines += ["", "| slow start | source | held by |", "|---|---|---|"]
    lines += [f"| {row.name} | {row.source} | {SLOW_START_PROOFS[row.name]} |" for row in SLOW_STARTS.values()]
    own = ", ".join(f"`{row.name}`" for row in WINDOWS.values() if row.has_slow_start)
    lines += [
        "",
        f"Every slow start goes with every window; {own} has one of its own and is refused with another.",
        "",
        "What is lost and sent again is recovery's: in profile ns2 each is that agent, event for event. One count",
        "differs: `fack`'s timeouts are counted here, while ns-2's agent leaves its `nrexmit_` at 0.",
    ]
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"wrote {PAGE}")


def proof_of(row: Window) -> str:
    """A module without a proof of its own is one of the family."""
    return PROOFS.get(row.name, "the family's tests (`tests/simulate/test_beside_ns2.py`, `core/tests/family.rs`)")


def draws_of_ns(folder: Path) -> list[float]:
    script = folder / "draws.tcl"
    script.write_text(beside.DRAWS)
    return [float(line) for line in beside.ns(str(script)).split()]


def mixed(draws: list[float]) -> int:
    """How many runs with several senders are ns's."""
    equal = 0
    for seed in range(MIXES):
        rng = random.Random(f"mixed {seed}")
        names = [rng.choice(list(beside.AGENTS)) for _ in range(rng.choice((2, 3)))]
        with tempfile.TemporaryDirectory() as folder, contextlib.suppress(AssertionError, ValueError):
            beside.hold(beside.drawn(rng, draws, names), names, Path(folder) / "queues.tr")
            equal += 1
    return equal


def beside_ns(name: str, draws: list[float]) -> tuple[str, str]:
    """Paths equal to the last packet, and drops equal, of all."""
    if name not in beside.AGENTS:
        return "no agent of its own", ""
    equal = same = lost = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(PATHS):
            scenario = beside.drawn(random.Random(f"{name} {seed}"), draws, [name])
            trace = Path(folder) / f"{seed}.tr"
            theirs, _ = beside.told_by_ns(scenario, [name], trace)
            run = simulate(scenario)
            numbers = run.drops["offset"] // (scenario.path.packet_bytes - 40)
            # By packet: of two lost within a microsecond ns's rounded times do not tell the order.
            ours = sorted(zip(numbers, run.drops["time_ns"] / 1e9, strict=True))
            pairs = zip(ours, sorted((drop[2], drop[0]) for drop in theirs), strict=False)
            here = sum(a[0] == b[0] and abs(a[1] - b[1]) <= beside.CLOSE_S for a, b in pairs)
            is_equal = here == len(ours) == len(theirs)
            rows = run.windows
            mine = beside.changes(zip(rows["time_ns"] / 1e9, rows["cwnd"] / rows["smss"], strict=True))
            wanted = beside.windows_of_ns(trace, 0, scenario.connections[0].control.max_window)
            is_equal &= len(mine) == len(wanted) and all(
                abs(a[1] - b[1]) <= beside.TRACE_CWND and abs(a[0] - b[0]) <= beside.TRACE_S
                for a, b in zip(mine, wanted, strict=True)
            )
            equal, same, lost = equal + is_equal, same + here, lost + len(theirs)
    return f"{equal} of {PATHS}", f"{same} of {lost}"


def fed_by_the_kernel() -> dict[str, list[tuple[str, ...]]]:
    """What the Rust tests print of each run: counts and largest differences."""
    words = ["cargo", "test", "-q", "--locked", "--test", "kernel_cubic", "--test", "family"]
    words += ["--", "--ignored", "--nocapture", "--test-threads=1"]
    found = subprocess.run(words, check=True, cwd=ROOT / "core", capture_output=True, text=True)
    rows: dict[str, list[tuple[str, ...]]] = {}
    # A run may have more than one test.
    for line in dict.fromkeys(re.findall(r"TOLD (.*)$", found.stdout, re.MULTILINE)):
        window, run, _, slow_start, _, ssthresh, acks, share, avoidance = line.split()
        rows.setdefault(window, []).append((run, acks, slow_start, ssthresh, avoidance, f"{float(share):.1%}"))
    return rows


if __name__ == "__main__":
    main()
