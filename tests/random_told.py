"""Random runs (tests/random_runs.py) by the kinds that leave what regime and control need: what is still told.

python -m tests.random_told --first 1000 --count 20            # --write: docs/still_told.md

Silence is no way out: of the runs whose untouched verdict tells a regime, and of those whose verdict names a control,
in how many does the capture made worse give the same? At the sender, and at the receiver beside the receiver's own.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs.make_identification import is_alike
from tcptrace_lab.classify.control.answer.identified import Identified
from tcptrace_lab.classify.control.candidates.candidates import TOLD_BY_THEIR_START
from tcptrace_lab.classify.verdict import Verdict
from tcptrace_lab.reconstruct.given import FEWEST_ALIKE
from tests.claims import Judged, judge_claims, main_verdict
from tests.conftest import ROOT
from tests.degrade import KINDS, degrade, read_packets, write_packets
from tests.degraded import share
from tests.random_degraded import sender_is_other, words
from tests.random_runs import Tapped, at_place, one_by_one

ASKED = ("regime", "control")
PLACES = ("sender", "receiver")
PAGE = ROOT / "docs" / "still_told.md"
HEAD = """# What a worse capture still tells

Written by `python -m tests.random_told --write`; do not edit. Random runs (tests/random_runs.py, seeds {first} to
{last}) were made worse in those ways that still leave what regime and control are told by. A cell says in how many of
the runs whose untouched capture tells a regime, or names a control, the worse capture tells the same one. The columns
*receiver* compare with the untouched capture made at the receiver. Where only a piece of a run is left, its regime is
asked for if the whole run has the same one all along, and its control if three losses or more are left in it (Reno and
M-Start differ in the first slow start alone: those are not told apart then) and not all others of its set would have
sent the same (docs/identification.md says what that is): {alike} times they would. Something else was told: {wrong}.
"""


def told_by(
    found: Tapped, place: str, kinds: list[str], folder: Path
) -> Iterator[tuple[str, str, str, Verdict | None]]:
    """(kind, what is asked, "same", "silent", "alike" (not told, and others would have sent it too) or "wrong",
    the verdict), where the untouched capture's tells it."""
    run = at_place(found, place)
    whole = main_verdict(run.path, without=found.others)
    if whole is None or (len(found.scenario.connections) > 1 and sender_is_other(found)):
        return
    known = judge_claims(run, whole, whole, keeps="whole").told & frozenset(ASKED)
    link, packets = read_packets(run.path)
    for kind in kinds if known else ():
        keeps = KINDS[kind].keeps
        path = folder / "told.pcap"
        write_packets(path, *degrade(link, packets, kind=kind, seed=found.scenario.seed))
        verdict = main_verdict(path, without=found.others)
        judged = judge_claims(run, whole, verdict, keeps=keeps)
        for name in sorted(known - (_not_in_piece(whole, verdict) if "piece" in keeps else set())):
            yield kind, name, _outcome(name, judged, whole, verdict, is_piece="piece" in keeps), verdict


def _outcome(name: str, judged: Judged, whole: Verdict, verdict: Verdict | None, *, is_piece: bool) -> str:
    if name in judged.told:
        return "wrong" if name in judged.wrong else "same"
    if not is_piece or name != "control" or verdict is None:
        return "silent"
    return "alike" if _sent_the_same(whole.identified.control, verdict.identified) else "silent"


def _sent_the_same(control: str | None, found: Identified) -> bool:
    """Whether all others that a set leaves would have sent what the piece has, ACK by ACK: nothing in it tells."""
    own = [each for each in found.left if each.candidate.name == control and len(each.sizes)]
    others = [each for each in found.left if each.candidate.name != control]
    return bool(own and others and not found.may_be_bbr) and all(is_alike(own[0], each) for each in others)


def _not_in_piece(whole: Verdict, piece: Verdict | None) -> set[str]:
    """What a piece of a run without its beginning does not have: a regime but the steady state's, losses enough to tell
    a control by, and the first slow start, by which alone M-Start differs from Reno."""
    events = 0 if piece is None else sum(episode.is_loss for episode in piece.seen.episodes)
    is_steady, has_losses = whole.slow_starts.steady is not None, events >= FEWEST_ALIKE
    if piece is not None and whole.identified.control in TOLD_BY_THEIR_START:
        has_losses &= not {each.candidate.name for each in piece.identified.left}.issuperset(TOLD_BY_THEIR_START)
    return {name for name, is_there in (("regime", is_steady), ("control", has_losses)) if not is_there}


def table(counts: Counter[tuple[str, str, str, str]], kinds: list[str]) -> list[str]:
    """Markdown: by kind and place, of how many that were told how many are told the same."""
    columns = [(place, name) for place in PLACES for name in ASKED]
    lines = [
        f"| kind | {' | '.join(f'{name}, {place}' for place, name in columns)} |",
        f"|---|{'---:|' * len(columns)}",
    ]
    for kind in kinds:
        lines.append(f"| {kind} | {' | '.join(_share(counts, (kind,), *column) for column in columns)} |")
    return [*lines, f"| all of these | {' | '.join(_share(counts, tuple(kinds), *column) for column in columns)} |"]


def _share(counts: Counter[tuple[str, str, str, str]], kinds: tuple[str, ...], place: str, name: str) -> str:
    same, silent, wrong = (
        sum(counts[kind, place, name, outcome] for kind in kinds) for outcome in ("same", "silent", "wrong")
    )
    return share(same, same + silent + wrong)


def _why(verdict: Verdict | None, name: str) -> str:
    """What the silent verdict says instead."""
    if verdict is None:
        return "no connection"
    told: dict[str, Any] = verdict.as_dict()
    if name == "regime":
        return f"{told['slow_starts']['regime']} {told['slow_starts']['per_cycle']}"
    left = [each["name"] for each in told["sender_tcp"]["candidates"] if not each["against"]]
    return f"{told['sender_tcp']['congestion_control']} of {', '.join(left) or 'none'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first run's number")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--places", nargs="+", default=PLACES, choices=PLACES)
    parser.add_argument("--only", default="", help="only kinds whose name holds this")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    arguments = parser.parse_args()
    kinds = [name for name, each in KINDS.items() if each.tells and arguments.only in name]
    begun, counts = time.monotonic(), Counter[tuple[str, str, str, str]]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for seed, found in one_by_one(arguments.first, arguments.count, folder):
            for place in arguments.places:
                for kind, asked, outcome, verdict in told_by(found, place, kinds, folder):
                    counts[kind, place, asked, outcome] += 1
                    if outcome != "same":
                        why = _why(verdict, asked)
                        print(
                            f"{seed:6} {place:8} {kind:24} {asked:8} {outcome}: {why[:90]}   | {words(found)}",
                            flush=True,
                        )
    lines = table(counts, kinds)
    print("\n".join(lines))
    if arguments.write:
        wrong, alike = (
            sum(count for (*_, outcome), count in counts.items() if outcome == word) for word in ("wrong", "alike")
        )
        last = arguments.first + arguments.count - 1
        head = HEAD.format(first=arguments.first, last=last, wrong=wrong, alike=alike)
        PAGE.write_text("\n".join([head, *lines, ""]))
    print(f"{time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
