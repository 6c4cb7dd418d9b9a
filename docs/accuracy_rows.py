"""Senders whose truth is known, each with its verdict and score: what docs/accuracy.md is made of."""

from __future__ import annotations

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
from tcptrace_lab.classify.control.windows.replayed import replayed
from tcptrace_lab.classify.verdict import Verdict, classify
from tcptrace_lab.errors import ScenarioError
from tcptrace_lab.reconstruct.truth.score import Score, score
from tcptrace_lab.reconstruct.truth.truth_file import read_truth
from tcptrace_lab.simulate_to_files import simulate_to_files

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs"))
from make_identification import draw  # noqa: E402

KERNEL = ROOT.parent / "shared" / "captures" / "kernel"
OWN = ROOT / "captures"
# The simulated runs' seed: no other script draws from it. Its rows were looked at once: the next time it is another.
SEED = 20261218
RUNS = 60
# A simulated window is a real number, of which a capture shows whole segments: on average half a segment too few.
PART_OF_SEGMENT = 0.75
# The reference kernel's controls that our table has under a name.
KERNEL_CONTROLS = {"reno": "reno", "cubic": "cubic", "bbr": "bbr"}


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
        unseen = plain["losses"]["possible_unseen"]
        if found.precision is not None and (found.precision < 1 or not 0 <= found.drops - found.losses <= unseen):
            yield (
                "losses",
                f"{found.losses} to {found.losses + unseen} for {found.drops}, precision {found.precision:.3f}",
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
        if found.within is not None and found.within < 0.99:
            yield "bounds", f"hold at {found.within:.1%} of the ACKs"


def _short(value: float | None) -> str:
    return "?" if value is None else f"{value:.5g}"


def judged_rows() -> Iterator[Row]:
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


def simulated_rows() -> Iterator[Row]:
    """Runs of the simulator from a seed of their own."""
    for number in range(RUNS):
        yield from rows_of_run(SEED, number)


def rows_of_run(seed: int, number: int) -> Iterator[Row]:
    """The first sender of one drawn run, from both ends; none where it carried nothing."""
    try:
        scenario, control = draw(np.random.default_rng([seed, number]))
    except ScenarioError:
        return
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
            rows = _rows(file, truth, f"simulated {number} ({control}), {tap}", lambda port, facts=facts: facts)
            yield from itertools.islice(rows, 1)


def kernel_rows() -> Iterator[Row]:
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


def own_rows() -> Iterator[Row]:
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
        result = score(replayed(verdict.who), read_truth(truth, port=port), first_sequence=verdict.who.first_sequence)
        yield Row(name=name, verdict=verdict, score=result, truth=facts(port))


def says(row: Row, claim: str) -> bool:
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
