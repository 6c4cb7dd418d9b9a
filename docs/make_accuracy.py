"""Scores of the reconstruction and the verdicts against the real kernel's own account: writes docs/accuracy.md.

    python docs/make_accuracy.py

Takes the recordings in captures/ and, where it is there, the reference data beside the checkout (../shared).
"""

from __future__ import annotations

import csv
import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcptrace_lab import read
from tcptrace_lab.classify.verdict import Verdict, classify
from tcptrace_lab.reconstruct.score import Score, WindowError, score
from tcptrace_lab.reconstruct.truth import read_truth

ROOT = Path(__file__).resolve().parent.parent
KERNEL = ROOT.parent / "shared" / "captures" / "kernel"
BOTH_ENDS = ROOT.parent / "shared" / "captures" / "identify"
OWN = ROOT / "captures"
PAGE = ROOT / "docs" / "accuracy.md"

HEAD = """# How accurate

Written by `python docs/make_accuracy.py`; do not edit. Every capture below was taken from a real Linux kernel (or, the
`utahoe` runs, a userspace Tahoe sender) over an emulated path; the truth is the sender's own window per ACK, the
emulator's list of dropped packets and its parameters, none of which the analysis sees.

**Window.** At each ACK, |estimate - cwnd| / cwnd. *limited* counts the ACKs at which the reconstruction says that cwnd
was the limit: there the flight is the window. Where the receiver's window, the application or a pacer was the limit,
cwnd is larger than anything a capture can show, and the reconstruction gives a lower bound only (*all* shows what
taking it for the value would cost). *recovery* is the time between a loss and its repair; there Linux's proportional
rate reduction moves cwnd, and `lab_tahoe` sets it to one segment long before it sends again. *in bounds* is the share
of ACKs outside recovery at which the truth lies between our bounds. **Losses** against the packets dropped. **Slow
starts** in the whole capture: the connection's own and every restart.
"""

AWAY = """
## At the receiver

The same run captured at both its ends (Linux, one emulated bottleneck). At the receiver each segment is put at the ACK
that its timestamp echoes (`m_start_nots` has none: there the rhythm of arrivals and ACKs tells), and what was lost
before the tap is put back between its neighbours. Truth and capture are matched by ACK number. *limits differ by*: the
largest difference between the two captures' shares of time by what limited the sender.
"""

LIMITS = """
## Where it is wrong, and why

- `bbr_20M`: the window is not what limits a rate-based sender; all that is said is a lower bound, and "undecided".
- `reno_nots_rcvcap.rcv`: captured at the receiver, without timestamps, and the queue never runs empty: which ACK
  released what cannot be told. The losses are counted; of the window the verdict says nothing, and its scores above
  show why.
- `cubic_gso_50M`: the capture has super-segments of the sender's offload: the window is known to one or two segments.
- `tahoe_sat_*`, recovery: `lab_tahoe` sets cwnd to one segment at the third duplicate ACK and then waits for its timer;
  a silent sender shows no window.
- Buffers: one packet too many where the receiver delays the ACK of the last packet that got in (`ctcp_case5`, `case6`).
- `two_reno_cubic`: with both flows in the capture the sum of their ACKs gives the rate, to a few percent; alone
  the second flow, which never has the bottleneck for itself, would show its share.
- `midstart_cubic`: the queue is never empty in the part captured: round trip and buffer are bounds on one side.
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One sender of one capture."""

    name: str
    verdict: Verdict
    score: Score
    truth: dict[str, Any]


def main() -> None:
    rows = [*_kernel(), *_own()]
    away = _away()
    PAGE.write_text("\n".join([HEAD, *_windows(rows), *_verdicts(rows), *_paths(rows), *away, LIMITS.strip(), ""]))
    print(f"{PAGE.relative_to(ROOT)}: {len(rows)} senders")


def _kernel() -> Iterator[Row]:
    for path in sorted(KERNEL.glob("*.pcap.gz")):
        name = path.name.removesuffix(".pcap.gz")
        run = name.removesuffix(".rcv")
        facts = json.loads((KERNEL / f"{run}.json").read_text())
        yield from _rows(
            path, KERNEL / f"{run}.truth.csv.gz", name, lambda port, facts=facts: _kernel_truth(facts, port)
        )


def _kernel_truth(facts: dict[str, Any], port: int) -> dict[str, Any]:
    measured, derived = facts["measured"][str(port)], facts["derived"]
    flows = facts["params"]["flows"]
    flow = flows[facts["addresses"]["client_ports"].index(port)] if flows else {}
    cycles = measured.get("cycles_from_truth")
    return {
        "per_cycle": None if cycles is None else [cycle["slow_starts"] for cycle in cycles],
        "rate_bps": derived["bottleneck_rate_bps"],
        "rtt_s": (derived["rtt_min_us"] + flow.get("extra_rtt_us", 0)) / 1e6,
        "buffer": derived["buffer_pkts_excl_in_service"],
    }


def _own() -> Iterator[Row]:
    for entry in tomllib.loads((OWN / "index.toml").read_text())["captures"]:
        about = json.loads((OWN / f"{entry['name']}.json").read_text())
        rate = min(node["rate_bps"] for node in about["scenario"]["path"]["nodes"])
        for file in (entry["file"], *(other["file"] for other in entry.get("also", []))):
            expected = {facts["client_port"]: facts for facts in entry["expected"]}

            def truth(
                port: int, *, facts: Any = expected, path: Any = entry["path"], rate: float = rate
            ) -> dict[str, Any]:
                return {
                    "per_cycle": facts[port]["slow_starts_per_cycle"],
                    "rate_bps": rate,
                    "rtt_s": path["base_rtt_s"],
                    "buffer": path["buffer_packets"],
                }

            name = "own: " + file.removesuffix(".pcap.gz")
            yield from _rows(OWN / file, OWN / entry["truth"], name, truth)


def _rows(capture: Path, truth: Path, name: str, facts: Any) -> Iterator[Row]:
    for verdict in classify(read(capture)):
        port = int(verdict.who.sender.rpartition(":")[2])
        result = score(verdict.seen, read_truth(truth, port=port), first_sequence=verdict.who.first_sequence)
        yield Row(name=name, verdict=verdict, score=result, truth=facts(port))


def _windows(rows: list[Row]) -> list[str]:
    head = (
        "| capture | ACKs | limited | limited: median | 90 % | all: median | 90 % | recovery: median | 90 % "
        "| in bounds |"
    )
    lines = ["## The window at each ACK", "", head, "|---|" + "---:|" * 9]
    for row in rows:
        found = row.score
        cells = [str(found.window.rows), str(found.limited.rows), *_error(found.limited), *_error(found.window)]
        cells += [*_error(found.recovery), "" if found.within is None else f"{found.within:.1%}"]
        lines.append(f"| {row.name} | {' | '.join(cells)} |")
    return [*lines, ""]


def _error(error: WindowError) -> list[str]:
    return ["", ""] if error.median is None or error.p90 is None else [f"{error.median:.1%}", f"{error.p90:.1%}"]


def _verdicts(rows: list[Row]) -> list[str]:
    head = (
        "| capture | lost: dropped | found | precision | recall | slow starts: truth | found "
        "| per cycle: truth | found | regime |"
    )
    lines = ["## Losses and slow starts", "", head, "|---|" + "---:|" * 6 + "---|---|---|"]
    for row in rows:
        found, starts = row.score, row.verdict.slow_starts
        cells = [str(found.drops if found.drops is not None else ""), str(found.losses), _ratio(found.precision)]
        cells += [_ratio(found.recall), str(found.slow_starts_truth), str(found.slow_starts)]
        cells += [_counts(row.truth["per_cycle"]), _counts(list(starts.per_cycle)), starts.regime]
        lines.append(f"| {row.name} | {' | '.join(cells)} |")
    return [*lines, ""]


def _away() -> list[str]:
    """Runs captured at both ends: what the receiver's capture tells beside the sender's."""
    if not BOTH_ENDS.exists():
        return []
    head = (
        "| capture | median: sender | receiver | 90 % | in bounds | dropped | precision | recall | slow starts: sender "
        "| receiver | regime | control | limits differ by |"
    )
    lines = [AWAY.rstrip(), "", head, "|---|" + "---:|" * 9 + "---|---|---:|"]
    with (BOTH_ENDS / "index.csv").open() as table:
        runs = list(csv.DictReader(table))
    for run in runs:
        port = int(run["client_port"])
        truth = read_truth(BOTH_ENDS / f"{run['name']}.truth.csv.gz", port=port)
        ends = [
            next(
                found
                for found in classify(read(BOTH_ENDS / run[f"{end}_capture"]))
                if found.who.sender.endswith(f":{port}")
            )
            for end in ("sender", "receiver")
        ]
        scores = [score(end.seen, truth, first_sequence=end.who.first_sequence) for end in ends]
        near, far = scores
        cells = [_error(near.limited)[0], *_error(far.limited), "" if far.within is None else f"{far.within:.1%}"]
        cells += [
            str(far.drops),
            _ratio(far.precision),
            _ratio(far.recall),
            str(near.slow_starts),
            str(far.slow_starts),
        ]
        regimes = [end.slow_starts.regime for end in ends]
        controls = [end.as_dict()["sender_tcp"]["congestion_control"] or "a set" for end in ends]
        cells += [_beside(regimes), _beside(controls)]
        limits = [end.as_dict()["limits"] for end in ends]
        differences = [abs(limits[0].get(name, 0.0) - limits[1].get(name, 0.0)) for name in limits[0]]
        cells.append(f"{max(differences, default=0.0):.1%}")
        lines.append(f"| {run['name']} | {' | '.join(cells)} |")
    return [*lines, ""]


def _beside(both: list[str]) -> str:
    return both[0] if both[0] == both[1] else f"{both[0]} / {both[1]}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _counts(counts: list[int] | None) -> str:
    """`1, 9 x 0` for a one and nine noughts."""
    if counts is None:
        return ""
    runs: list[list[int]] = []
    for count in counts:
        if runs and runs[-1][0] == count:
            runs[-1][1] += 1
        else:
            runs.append([count, 1])
    return ", ".join(
        f"{length} x {count}" if length > 3 else ", ".join([str(count)] * length) for count, length in runs
    )


def _paths(rows: list[Row]) -> list[str]:
    head = "| capture | Mbit/s: truth | found | RTT ms: truth | found | buffer: truth | found | bounds |"
    lines = ["## The path", "", head, "|---|" + "---:|" * 7]
    for row in rows:
        path, truth = row.verdict.path, row.truth
        buffer = path.buffer_packets
        cells = [
            f"{truth['rate_bps'] / 1e6:g}",
            _scaled(path.bottleneck_bps.value, 1e-6),
            f"{truth['rtt_s'] * 1e3:.2f}",
        ]
        cells += [_scaled(path.base_rtt_s.value, 1e3), f"{truth['buffer']}", _scaled(buffer.value, 1)]
        bounds = f"{_scaled(buffer.low, 1) or '?'} to {_scaled(buffer.high, 1) or '?'}"
        lines.append(f"| {row.name} | {' | '.join([*cells, bounds])} |")
    return [*lines, ""]


def _scaled(value: float | None, factor: float) -> str:
    return "" if value is None else f"{value * factor:.4g}"


if __name__ == "__main__":
    main()
