"""Every kind of degradation over the runs with known truth: what is silently wrong, and what falls silent.

python -m tests.degraded                 # writes docs/degraded.md
python -m tests.degraded --runs 6 --kinds "tap lost" --list
python -m tests.degraded --at receiver --pairs 40 --list
"""

from __future__ import annotations

import argparse
import itertools
import random
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from tests.claims import Judged, Run, judge_claims, main_verdict, runs
from tests.conftest import ROOT
from tests.degrade import KINDS, degrade, keeps_of, pairs_from, read_packets, write_packets

PAGE = ROOT / "docs" / "degraded.md"


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One run by one kind, and what became of each claim; `has_steady`: its regime is that of loss cycles."""

    run: str
    kind: str
    judged: Judged
    has_steady: bool


def variants(
    chosen: list[Run], kinds: list[str], *, seed: int, folder: Path, each: int | None = None, at: str = "sender"
) -> list[Variant]:
    """Every kind over every run; `each`: over so many of them, drawn for each kind; `at`: whose capture is made worse.

    What happened in the run is told by the sender's capture, wherever the other was taken.
    """
    wanted: dict[str, set[str]] = defaultdict(set)
    for kind in kinds:
        few = chosen if each is None else random.Random(f"{kind} {seed}").sample(chosen, min(each, len(chosen)))
        for run in few:
            wanted[run.name].add(kind)
    found = []
    for run in chosen:
        if not wanted[run.name]:
            continue
        whole = main_verdict(run.path)
        assert whole is not None
        here = run.path if at == "sender" else run.receiver
        assert here is not None
        plain = whole if at == "sender" else main_verdict(here)
        good, has_steady = judge_claims(run, whole, plain, keeps="whole"), whole.slow_starts.steady is not None
        link, packets = read_packets(here)
        for kind in kinds:
            if kind not in wanted[run.name]:
                continue
            path = folder / "degraded.pcap"
            write_packets(path, *degrade(link, packets, kind=kind, seed=seed))
            judged = judge_claims(run, whole, main_verdict(path), keeps=keeps_of(kind))
            found.append(Variant(run=run.name, kind=kind, judged=judged, has_steady=has_steady))
        found.append(Variant(run=run.name, kind="untouched", judged=good, has_steady=has_steady))
    return found


def table(found: list[Variant]) -> list[str]:
    """Markdown: by kind, how many variants, wrong claims by name, and the share of regimes and controls still given."""
    lines = [
        "| kind | variants | wrong claims | which | silent: regime | control | recovery | limits | rate | buffer |",
        "|---|---:|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    for kind in dict.fromkeys(("untouched", *KINDS, *(variant.kind for variant in found))):
        rows = [variant for variant in found if variant.kind == kind]
        if not rows:
            continue
        wrong = Counter(name for variant in rows for name in variant.judged.wrong)
        which = ", ".join(f"{count} {name}" for name, count in sorted(wrong.items()))
        silent = Counter(name for variant in rows for name in variant.judged.silent)
        names = ("regime", "control", "recovery", "limits", "bottleneck_bps", "buffer_packets")
        counts = " | ".join(str(silent[name] or "") for name in names)
        lines.append(f"| {kind} | {len(rows)} | {wrong.total() or ''} | {which} | {counts} |")
    wrong = sum(len(variant.judged.wrong) for variant in found if variant.kind != "untouched")
    lines += ["", f"{wrong} wrong claims over {sum(variant.kind != 'untouched' for variant in found)} variants."]
    return [*lines, *still_told(found)]


def still_told(found: list[Variant]) -> list[str]:
    """Markdown: of the kinds that leave what regime and control need, how many are still given.

    A piece of a run without its beginning has no regime but the steady state's.
    """
    known = {variant.run: variant.judged.told for variant in found if variant.kind == "untouched"}
    lines = ["", TOLD, "| kind | regime | control |", "|---|---:|---:|"]
    total: Counter[str] = Counter()
    for kind in (name for name, each in KINDS.items() if each.tells):
        counts: Counter[str] = Counter()
        for variant in (each for each in found if each.kind == kind):
            is_there = known[variant.run] - (
                {"regime"} if "piece" in KINDS[kind].keeps and not variant.has_steady else set()
            )
            counts.update(name for name in ASKED if name in is_there)
            counts.update(f"{name} told" for name in ASKED if name in is_there & variant.judged.told)
        if counts.total():
            lines.append(f"| {kind} | {' | '.join(share(counts[f'{name} told'], counts[name]) for name in ASKED)} |")
        total += counts
    return [*lines, f"| all of these | {' | '.join(share(total[f'{name} told'], total[name]) for name in ASKED)} |"]


def share(told: int, known: int) -> str:
    """How many of those that were known are told."""
    return f"{told} of {known}" + (f" ({told / known:.0%})" if known else "")


HEAD = """# Captures made worse

Written by `python -m tests.degraded`; do not edit. Each kind of degradation (tests/degrade, seeded) is applied to
runs whose truth is known: the emulator's rate, round trip and buffer, the sender's control, and for what happened in
the run the verdict on the untouched capture. A claim is *wrong* when the degraded capture's verdict states something
else: regime, counts per cycle, recovery, control, initial window, losses (the total, and with `possible_unseen`, around
the truth), limits by more than 10 points, rate or round trip outside the interval by 5 %, buffer by 2 packets or 10 %.
It is *silent* where the untouched capture's verdict says something and the degraded one's does not.
"""

ASKED = ("regime", "control")
TOLD = """Where what regime and control need is still there, so many of those told of the untouched captures are told:
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=10, help="runs per kind (default 10)")
    parser.add_argument("--kinds", default="", help="only kinds whose name holds this")
    parser.add_argument("--runs", default="", help="only runs whose name holds this")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at", choices=("sender", "receiver"), default="sender", help="whose capture is made worse")
    parser.add_argument("--pairs", type=int, default=0, help="instead: so many kinds of two at once")
    parser.add_argument("--list", action="store_true", help="print every wrong claim, and do not write the page")
    arguments = parser.parse_args()
    chosen = [run for run in runs() if arguments.runs in run.name and (run.receiver or arguments.at == "sender")]
    kinds = [kind for kind in KINDS if arguments.kinds in kind]
    if arguments.pairs:
        kinds = list(itertools.islice(pairs_from(arguments.seed), arguments.pairs))
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = variants(chosen, kinds, seed=arguments.seed, folder=Path(folder), each=arguments.each, at=arguments.at)
    if arguments.list:
        for variant in sorted(found, key=lambda variant: variant.kind):
            for name, why in variant.judged.wrong.items():
                print(f"{variant.kind:40} {variant.run:20} {name:16} {why}")
    lines = table(found)
    print("\n".join(lines))
    print(f"{time.monotonic() - begun:.0f} s")
    if not arguments.list and arguments.at == "sender" and not arguments.pairs:
        PAGE.write_text("\n".join([HEAD, *lines, ""]))


if __name__ == "__main__":
    main()
