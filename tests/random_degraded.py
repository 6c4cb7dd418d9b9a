"""Random runs (tests/random_runs.py), untouched, at every tap and made worse: every claim that is wrong, listed.

python -m tests.random_degraded --first 1000 --count 20 --kinds 4
python -m tests.random_degraded --first 1000 --count 60 --kinds 100 --pairs

Nothing here was chosen: a seed that nobody looked at says how often a verdict is wrong on what nobody has seen. Half of
the kinds drawn for a run are two at once; with `--pairs` all are, and none comes twice before all have: some two are
wrong together most of the time, and thousands of them are seldom drawn.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tcptrace_lab.classify.verdict import Verdict
from tests.claims import POINTS, Judged, judge_claims, main_verdict
from tests.degrade import ALONE, ONES, degrade, keeps_of, pairs_from, read_packets, sender_of, write_packets
from tests.random_runs import Tapped, at_place, one_by_one


def kinds_for(seed: int, count: int, only: str = "") -> list[str]:
    """So many of them, half of them two at once."""
    rng = random.Random(f"kinds {seed}")
    single = [kind for kind in ONES if only in kind]
    both = [kind for kind in ONES if kind not in ALONE]
    found = rng.sample(single, min(len(single), (count + 1) // 2))
    while len(found) < count:
        first, second = rng.choice([kind for kind in single if kind not in ALONE] or both), rng.choice(both)
        if first != second:
            found.append(f"{first} + {second}")
    return found


def against_truth(found: Tapped, verdict: Verdict) -> dict[str, str]:
    """What the untouched capture's verdict says that the simulator knows better."""
    told, wrong = verdict.as_dict(), {}
    connection = found.scenario.connections[0]
    first, most = told["initial_window"]["segments"], connection.control.initial_window
    # An application may write less.
    if first is not None and (first > most or (connection.application.kind == "bulk" and first != most)):
        wrong["initial window"] = f"{first}, is {most}"
    noticed, dropped = found.losses
    total, unseen = told["losses"]["total"], told["losses"]["possible_unseen"]
    if total is not None and not (total <= dropped and total + unseen >= noticed):
        wrong["drops"] = f"{total} (+ {unseen} unseen), is {noticed} to {dropped}"
    said = _limits(told["limits"], found.limits)
    return {**wrong, "sender's limits": said} if said else wrong


def _limits(told: dict[str, float], true: dict[str, float]) -> str:
    """Recovery and the congestion window are one here: when a recovery ends is the simulator's own affair."""
    if not told or not true:
        return ""

    def grouped(shares: dict[str, float]) -> dict[str, float]:
        path = shares.get("cwnd", 0.0) + shares.get("recovery", 0.0)
        return {"path": path, "rwnd": shares.get("rwnd", 0.0), "application": shares.get("application", 0.0)}

    said, known = grouped(told), grouped(true)
    over = max(said[name] - known[name] for name in known)
    under = max(known[name] - said[name] for name in known)
    if over <= POINTS and under <= POINTS + told.get("unknown", 0.0):
        return ""
    return f"{_short(said)}, is {_short(known)}"


def _short(shares: dict[str, float]) -> str:
    return ", ".join(f"{name} {share:.2f}" for name, share in shares.items() if share > 0.005)


def judged(found: Tapped, kinds: list[str], folder: Path, worse_at: str = "sender") -> Iterator[tuple[str, Judged]]:
    """(kind or place, what became of each claim) for every variant of one run; `worse_at`: whose is made worse."""
    whole = main_verdict(found.run.path, without=found.others)
    if whole is None or (len(found.scenario.connections) > 1 and sender_is_other(found)):
        # The degrader's sender is the one that sends most: not the one whose truth is known.
        return
    plain = judge_claims(found.run, whole, whole, keeps="whole")
    yield "untouched", replace(plain, wrong={**plain.wrong, **against_truth(found, whole)})
    for place in found.scenario.taps[1:]:
        verdict = main_verdict(found.places[place], without=found.others)
        here = judge_claims(at_place(found, place), whole, verdict, keeps="whole")
        yield place, _known_better(found, whole, verdict, here, keeps="whole")
    run = at_place(found, worse_at)
    link, packets = read_packets(run.path)
    for kind in kinds:
        path = folder / "degraded.pcap"
        write_packets(path, *degrade(link, packets, kind=kind, seed=found.scenario.seed))
        verdict = main_verdict(path, without=found.others)
        worse = judge_claims(run, whole, verdict, keeps=keeps_of(kind))
        yield kind, _known_better(found, whole, verdict, worse, keeps=keeps_of(kind))


def _known_better(found: Tapped, whole: Verdict, verdict: Verdict | None, judged: Judged, *, keeps: str) -> Judged:
    """Without claims that the simulator knows to be right, whatever the untouched capture's verdict says."""
    if verdict is None:
        return judged
    right = set() if "drops" in against_truth(found, verdict) else {"losses"}
    if verdict.sender_tcp.recovery == found.scenario.connections[0].control.recovery:
        right.add("recovery")
    if verdict.as_dict()["initial_window"]["segments"] == found.scenario.connections[0].control.initial_window:
        right.add("initial_window")
    # When a recovery ends the sender's verdict tells, and the simulator does not.
    recovers, here = (each.limits.get("recovery", 0.0) for each in (whole, verdict))
    if keeps == "whole" and abs(recovers - here) <= POINTS and found.limits:
        right.update(() if _limits(verdict.limits, found.limits) else {"limits"})
    return replace(judged, wrong={name: why for name, why in judged.wrong.items() if name not in right})


def sender_is_other(found: Tapped) -> bool:
    """Whether another connection of the run sent more."""
    _, packets = read_packets(found.run.path)
    return int.from_bytes(sender_of(packets)[-2:]) in found.others


def words(found: Tapped) -> str:
    """The run in a line."""
    scenario, first = found.scenario, found.scenario.connections[0]
    control, receiver, node = first.control, first.receiver, scenario.path.bottleneck
    rwnd: Any = receiver.rwnd if receiver.rwnd < 1 << 30 else "-"
    return (
        f"{control.window}/{control.recovery} iw={control.initial_window} ts={int(control.timestamps)} "
        f"{node.rate_bps / 1e6:.2f}M {scenario.path.base_rtt_s * 1e3:.0f} ms B={node.buffer} p={node.loss:.4f} "
        f"{first.application.kind} rwnd={rwnd} reader={receiver.reader_bps:.3g} n={len(scenario.connections)} "
        f"nodes={len(scenario.path.nodes)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first run's number")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--kinds", type=int, default=4, help="kinds drawn for each run (default 4)")
    parser.add_argument("--only", default="", help="only kinds whose name holds this")
    parser.add_argument("--at", choices=("sender", "receiver"), default="sender", help="whose capture is made worse")
    parser.add_argument("--pairs", action="store_true", help="two kinds at once, every two in turn")
    arguments = parser.parse_args()
    pairs = pairs_from(arguments.first)
    begun, variants, wrong, silent, told = time.monotonic(), Counter[str](), Counter[str](), Counter[str](), 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for seed, found in one_by_one(arguments.first, arguments.count, folder):
            kinds = (
                [next(pairs) for _ in range(arguments.kinds)]
                if arguments.pairs
                else kinds_for(seed, arguments.kinds, arguments.only)
            )
            for kind, one in judged(found, kinds, folder, arguments.at):
                variants["untouched" if kind == "untouched" else "tap" if kind in found.places else "degraded"] += 1
                silent.update(one.silent)
                told += len(one.told)
                for claim, why in one.wrong.items():
                    wrong[claim] += 1
                    print(f"{seed:6} {kind:28} {claim:15} {why[:170]}   | {words(found)}", flush=True)
    print(f"{wrong.total()} wrong claims of {variants.total()} variants {dict(variants)}: {dict(wrong)}")
    print(f"{told} claims told; silent: {dict(silent)}; {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
