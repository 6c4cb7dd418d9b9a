"""Scores of the reconstruction and the verdicts against the real kernel's own account: writes docs/accuracy.md.

    python docs/make_accuracy.py

Takes the recordings in captures/ and, where it is there, the reference data beside the checkout (../shared).
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

from tcptrace_lab import read
from tcptrace_lab.classify.control.windows.replayed import replayed
from tcptrace_lab.classify.verdict import classify
from tcptrace_lab.reconstruct.truth.score import WindowError, score
from tcptrace_lab.reconstruct.truth.truth_file import read_truth

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs"))
sys.path.insert(0, str(ROOT / "captures"))
from accuracy_rows import RUNS, SEED, Row, judged_rows, kernel_rows, own_rows, says, simulated_rows  # noqa: E402
from judged import SEED as JUDGED_SEED  # noqa: E402

BOTH_ENDS = ROOT.parent / "shared" / "captures" / "identify"
PAGE = ROOT / "docs" / "accuracy.md"

HEAD = """# How accurate

Written by `python docs/make_accuracy.py`; do not edit. The truth is the sender's own window per ACK, the path's list of
dropped packets and its parameters, none of which the analysis sees. Captures on which nothing was chosen come first;
then those that were at hand while the analysis was written, ours before the reference data (`../shared`), without which
the script leaves its rows out. What is wrong is listed at the end, by rule.

**Window.** At each ACK, |estimate - cwnd| / cwnd. *limited* counts the ACKs at which the reconstruction says that cwnd
was the limit: there the flight is the window (of BBR, which paces itself below it, the window is the one that its own
code has when it is told of the packets). Where the receiver's window or the application was the limit, cwnd is larger
than anything a capture can show, and the reconstruction gives bounds (*all* shows what taking its value for the window
would cost). *recovery* is the time between a loss and its repair; there Linux's proportional
rate reduction moves cwnd, and `lab_tahoe` sets it to one segment long before it sends again. *in bounds* is the share
of ACKs outside recovery at which the truth lies between our bounds. **Losses** against the packets dropped. **Slow
starts** in the whole capture: the connection's own and every restart.
"""

JUDGED = """
# Judged only

Nothing was chosen on these: scenarios drawn from a seed ({recorded} for recordings, {simulated} for the simulator),
recorded and simulated when the rules stood, and scored by this script. A run that was looked at to
correct something is replaced by another one drawn.

## Recorded

The Linux kernel over an emulated path (`captures/judged.py`), captured at the sender and (`.receiver`) at the receiver.
"""

SIMULATED = """
## Simulated

{runs} runs by the distribution of `docs/make_identification.py` (control, path, receiver, loss, in a quarter of them a
competitor) from a seed of their own, each captured at both ends. *Said*: the claim was made at all. A number is right
when the truth lies within its bounds or within 1 % of it (a buffer: one packet), a window when half of the ACKs at
which cwnd is said to be the limit are within 1 % or three quarters of a segment, a control when the set has it.

"""

AT_HAND = """
# At hand while it was written

Every threshold, law and rule was written with these in view (and docs/thresholds.md tells which move their verdicts).

## Ours

Recordings in `captures/`: anyone can score them again, and record them again (`captures/record.py`).
"""

REFERENCE = """
## Reference data

Not part of the project (`../shared/captures`): the same kernel by another emulator, and a userspace Tahoe (`utahoe`).
"""

WRONG = """
# Where it is wrong

Listed by the script, of all captures above: a claim that the truth contradicts. *control*: another name than the
truth, or the truth among those refuted; *slow starts*: counts that differ; *losses*: one said that was none, or another
number than those said and `possible_unseen` leave open; *rate*, *round trip*, *buffer*: the truth outside our bounds,
and by more than 1 % (a packet); *window*: half of the ACKs at which cwnd is said to be the limit more than 1 % off, and
by three quarters of a segment or more (a simulated window is a real number, of which whole segments show); *bounds*:
the truth outside them at more than one ACK in a hundred. What is "undecided" or not said is not wrong, and not
listed.

"""

AWAY = """
## At the receiver

The same run captured at both its ends (Linux, one emulated bottleneck). At the receiver each segment is put at the ACK
that its timestamp echoes (`m_start_nots` has none: there the rhythm of arrivals and ACKs tells), and what was lost
before the tap is put back between its neighbours. Truth and capture are matched by ACK number. *limits differ by*: the
largest difference between the two captures' shares of time by what limited the sender.
"""


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    judged, simulated, own, kernel = list(judged_rows()), list(simulated_rows()), list(own_rows()), list(kernel_rows())
    lines = [HEAD, JUDGED.format(recorded=JUDGED_SEED, simulated=SEED).strip(), "", *_tables(judged)]
    lines += [SIMULATED.format(runs=RUNS).strip(), "", *_shares(simulated)]
    lines += [AT_HAND.strip(), "", *_tables(own)]
    if kernel:
        lines += [REFERENCE.strip(), "", *_tables(kernel)]
    lines += [*_away(), WRONG.strip(), "", *_wrong([*judged, *simulated, *own, *kernel]), ""]
    PAGE.write_text("\n".join(lines))
    print(
        f"{PAGE.relative_to(ROOT)}: {len(judged)} judged, {len(simulated)} simulated, {len(own) + len(kernel)} others"
    )


def _tables(rows: list[Row]) -> list[str]:
    return [*_windows(rows), *_verdicts(rows), *_paths(rows)]


def _wrong(rows: list[Row]) -> list[str]:
    """A line for each capture with a wrong claim, and how many have none."""
    lines, clean = [], 0
    for row in rows:
        said = "; ".join(f"*{word}* {how}" for word, how in row.wrong())
        clean += not said
        lines += [f"- `{row.name}`: {said}"] if said else []
    return [f"Of {len(rows)} senders {clean} have none.", "", *lines]


def _shares(rows: list[Row]) -> list[str]:
    """Of the simulated runs: how often each claim is made, and right."""
    lines = ["| at | claim | said | right | wrong |", "|---|---|---:|---:|---:|"]
    for tap in ("sender", "receiver"):
        here = [row for row in rows if row.name.endswith(f", {tap}")]
        for claim in ("control", "slow starts", "losses", "rate", "round trip", "buffer", "window", "bounds"):
            said = [row for row in here if says(row, claim)]
            wrong = sum(claim in {word for word, _ in row.wrong()} for row in said)
            right = len(said) - wrong
            lines.append(f"| {tap} | {claim} | {len(said)} of {len(here)} | {right} | {wrong} |")
    return [*lines, ""]


def _windows(rows: list[Row]) -> list[str]:
    head = (
        "| capture | ACKs | limited | limited: median | 90 % | all: median | 90 % | recovery: median | 90 % "
        "| in bounds |"
    )
    lines = ["### The window at each ACK", "", head, "|---|" + "---:|" * 9]
    for row in rows:
        found = row.score
        if row.verdict.obstacles.hides_window:
            lines.append(f"| {row.name} | {found.window.rows} | refused |" + " |" * 7)
            continue
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
    lines = ["### Losses and slow starts", "", head, "|---|" + "---:|" * 6 + "---|---|---|"]
    for row in rows:
        found, starts = row.score, row.verdict.slow_starts
        cells = [str(found.drops if found.drops is not None else ""), str(found.losses), _ratio(found.precision)]
        cells += [_ratio(found.recall), _count(found.slow_starts_truth), str(found.slow_starts)]
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
        scores = [score(replayed(end.who), truth, first_sequence=end.who.first_sequence) for end in ends]
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


def _count(value: int | None) -> str:
    return "" if value is None else str(value)


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
    lines = ["### The path", "", head, "|---|" + "---:|" * 7]
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
