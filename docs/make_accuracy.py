"""Scores of the reconstruction and the verdicts against the real kernel's own account: writes docs/accuracy.md.

    python docs/make_accuracy.py

Takes the recordings in captures/ and, where it is there, the reference data beside the checkout (../shared).
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import itertools
import json
import math
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tcptrace_lab import read
from tcptrace_lab.classify.verdict import Verdict, classify
from tcptrace_lab.errors import ScenarioError
from tcptrace_lab.reconstruct.score import Score, WindowError, score
from tcptrace_lab.reconstruct.truth_file import read_truth
from tcptrace_lab.simulate_to_files import simulate_to_files

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs"))
sys.path.insert(0, str(ROOT / "captures"))
from judged import SEED as JUDGED_SEED  # noqa: E402
from make_identification import draw  # noqa: E402

KERNEL = ROOT.parent / "shared" / "captures" / "kernel"
BOTH_ENDS = ROOT.parent / "shared" / "captures" / "identify"
OWN = ROOT / "captures"
PAGE = ROOT / "docs" / "accuracy.md"
# The simulated runs' seed: no other script draws from it. Its rows were looked at once: the next time it is another.
SEED = 20261124
RUNS = 30
# A simulated window is a real number, of which a capture shows whole segments: on average half a segment too few.
PART_OF_SEGMENT = 0.75
# The reference kernel's controls that our table has under a name.
KERNEL_CONTROLS = {"reno": "reno", "cubic": "cubic", "bbr": "bbr"}

HEAD = """# How accurate

Written by `python docs/make_accuracy.py`; do not edit. The truth is the sender's own window per ACK, the path's list of
dropped packets and its parameters, none of which the analysis sees. Captures on which nothing was chosen come first;
then those that were at hand while the analysis was written, ours before the reference data (`../shared`), without which
the script leaves its rows out. What is wrong is listed at the end, by rule.

**Window.** At each ACK, |estimate - cwnd| / cwnd. *limited* counts the ACKs at which the reconstruction says that cwnd
was the limit: there the flight is the window. Where the receiver's window, the application or a pacer was the limit,
cwnd is larger than anything a capture can show, and the reconstruction gives a lower bound only (*all* shows what
taking it for the value would cost). *recovery* is the time between a loss and its repair; there Linux's proportional
rate reduction moves cwnd, and `lab_tahoe` sets it to one segment long before it sends again. *in bounds* is the share
of ACKs outside recovery at which the truth lies between our bounds. **Losses** against the packets dropped. **Slow
starts** in the whole capture: the connection's own and every restart.
"""

JUDGED = """
# Judged only

Nothing was chosen on these: scenarios drawn from a seed ({recorded} for recordings, {simulated} for the simulator),
recorded and simulated when the rules stood, and scored by this script. Whoever mends something by looking at one of
them draws another.

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
truth, or the truth among those refuted; *slow starts*, *losses*: counts that differ; *rate*, *round trip*, *buffer*:
the truth outside our bounds, and by more than 1 % (a packet); *window*: half of the ACKs at which cwnd is said to be
the limit more than 1 % off, and by three quarters of a segment or more (a simulated window is a real number, of which
whole segments show); *bounds*: the truth outside them at more than one ACK in fifty. What is "undecided" or not said is
not wrong, and not listed.

"""

AWAY = """
## At the receiver

The same run captured at both its ends (Linux, one emulated bottleneck). At the receiver each segment is put at the ACK
that its timestamp echoes (`m_start_nots` has none: there the rhythm of arrivals and ACKs tells), and what was lost
before the tap is put back between its neighbours. Truth and capture are matched by ACK number. *limits differ by*: the
largest difference between the two captures' shares of time by what limited the sender.
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One sender of one capture; `truth`: control, rate_bps, rtt_s, buffer, per_cycle (None: not known)."""

    name: str
    verdict: Verdict
    score: Score
    truth: dict[str, Any]

    def wrong(self) -> Iterator[tuple[str, str]]:
        """Claims that the truth contradicts: which, and how."""
        plain, found, truth = self.verdict.as_dict(), self.score, self.truth
        tcp = plain["sender_tcp"]
        refuted = {one["name"]: one["against"] for one in tcp["candidates"] if one["against"]}
        if truth.get("control") in refuted:
            yield "control", f"{truth['control']} is refuted: {refuted[truth['control']]}"
        elif truth.get("control") and tcp["congestion_control"] not in (None, truth["control"]):
            yield "control", f"{tcp['congestion_control']} for {truth['control']}"
        is_counted = bool(self.verdict.slow_starts.per_cycle)
        if is_counted and found.slow_starts_truth not in (None, found.slow_starts):
            yield "slow starts", f"{found.slow_starts} for {found.slow_starts_truth}"
        if found.precision is not None and found.recall is not None and min(found.precision, found.recall) < 1:
            yield (
                "losses",
                f"{found.losses} for {found.drops}, precision {found.precision:.3f}, recall {found.recall:.3f}",
            )
        for word, name, key, slack in (
            ("rate", "bottleneck_bps", "rate_bps", 0.01 * truth["rate_bps"]),
            ("round trip", "base_rtt_s", "rtt_s", 0.01 * truth["rtt_s"]),
            ("buffer", "buffer_packets", "buffer", 1.0),
        ):
            value, low, high = (plain["path"][name][part] for part in ("value", "low", "high"))
            least, most = (math.inf if low is None else low), (-math.inf if high is None else high)
            is_outside = (low is not None and truth[key] < least - slack) or (
                high is not None and truth[key] > most + slack
            )
            if is_outside and (value is None or abs(value - truth[key]) > slack):
                yield word, f"{_short(low)} to {_short(high)} for {truth[key]:.5g}"
        if self.verdict.obstacles.hides_window:
            return
        if (found.limited.median or 0) > 0.01 and abs(found.limited.bias or 0) > PART_OF_SEGMENT:
            yield "window", f"half of {found.limited.rows} ACKs more than {found.limited.median:.1%} off"
        if found.within is not None and found.within < 0.98:
            yield "bounds", f"hold at {found.within:.1%} of the ACKs"


def _short(value: float | None) -> str:
    return "?" if value is None else f"{value:.5g}"


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    judged, simulated, own, kernel = list(_judged()), list(_simulated()), list(_own()), list(_kernel())
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


def _judged() -> Iterator[Row]:
    """Recordings drawn from a seed."""
    for described in sorted((OWN / "judged").glob("*.json")):
        about = json.loads(described.read_text())
        path = _drawn(about)
        measured = {int(port): facts for port, facts in about["measured"].items()}
        for tap in about["tcpdump"]:
            suffix = ".pcap.gz" if tap == next(iter(about["tcpdump"])) else f".{tap}.pcap.gz"
            capture = described.with_name(described.stem + suffix)

            def truth(
                port: int, *, facts: Any = measured, path: Any = path, control: str = about["congestion_control"][0]
            ) -> dict[str, Any]:
                return {**path, "per_cycle": list(facts[port]["slow_starts_per_cycle"]), "control": control}

            name = capture.name.removesuffix(".pcap.gz")
            yield from _rows(capture, described.with_name(f"{described.stem}.truth.csv.gz"), name, truth)


def _drawn(about: dict[str, Any]) -> dict[str, Any]:
    """What a recording's path is."""
    rate = min(node["rate_bps"] for node in about["scenario"]["path"]["nodes"])
    derived = about["derived"]
    return {"rate_bps": rate, "rtt_s": derived["base_rtt_s"], "buffer": int(derived["buffer_packets_waiting"])}


def _simulated() -> Iterator[Row]:
    """Runs of the simulator from a seed of their own; without those in which the first sender carried nothing."""
    for number in range(RUNS):
        try:
            scenario, control = draw(np.random.default_rng([SEED, number]))
        except ScenarioError:
            continue
        scenario = dataclasses.replace(scenario, taps=("sender", "receiver"))
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / f"{tap}.pcap" for tap in scenario.taps]
            truth = Path(folder) / "run.truth.csv"
            simulate_to_files(scenario, captures=files, truth=truth, payload=False)
            path = scenario.path
            facts = {
                "rate_bps": path.bottleneck.rate_bps,
                "rtt_s": path.base_rtt_s,
                "buffer": path.waiting_places(path.bottleneck),
                "per_cycle": None,
                "control": control,
            }
            for tap, file in zip(scenario.taps, files, strict=True):
                yield from itertools.islice(
                    _rows(file, truth, f"simulated {number} ({control}), {tap}", lambda port, facts=facts: facts), 1
                )


def _shares(rows: list[Row]) -> list[str]:
    """Of the simulated runs: how often each claim is made, and right."""
    lines = ["| at | claim | said | right | wrong |", "|---|---|---:|---:|---:|"]
    for tap in ("sender", "receiver"):
        here = [row for row in rows if row.name.endswith(f", {tap}")]
        for claim in ("control", "slow starts", "losses", "rate", "round trip", "buffer", "window", "bounds"):
            said = [row for row in here if _says(row, claim)]
            wrong = sum(claim in {word for word, _ in row.wrong()} for row in said)
            right = len(said) - wrong
            lines.append(f"| {tap} | {claim} | {len(said)} of {len(here)} | {right} | {wrong} |")
    return [*lines, ""]


def _says(row: Row, claim: str) -> bool:
    """Whether a verdict makes a claim that can be right or wrong; a set is right where the truth is in it."""
    path = row.verdict.as_dict()["path"]
    names = {"rate": "bottleneck_bps", "round trip": "base_rtt_s", "buffer": "buffer_packets"}
    if claim in names:
        return path[names[claim]]["value"] is not None
    if claim == "losses":
        return row.score.precision is not None
    is_seen = not row.verdict.obstacles.hides_window
    if claim == "window":
        return is_seen and row.score.limited.median is not None
    return is_seen and row.score.within is not None if claim == "bounds" else True


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
        "control": KERNEL_CONTROLS.get(flow.get("cc", facts.get("cc"))),
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
                    "control": facts[port]["congestion_control"].removesuffix("-tahoe"),
                }

            name = file.removesuffix(".pcap.gz")
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
