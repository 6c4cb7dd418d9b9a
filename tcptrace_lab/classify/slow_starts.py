"""The number of slow starts per loss cycle, and the regime they make (Barakat & Altman 1998)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tcptrace_lab.classify.obstacles import Obstacles
from tcptrace_lab.reconstruct.cycles import Cycle
from tcptrace_lab.reconstruct.reconstruction import Reconstruction

REGIMES = {1: "single", 2: "double", 3: "triple"}
UNDECIDED = "undecided"


@dataclass(frozen=True, kw_only=True)
class SlowStarts:
    """`per_cycle` counts whole cycles whose beginning was captured; `reasons` say what was left out and why."""

    per_cycle: tuple[int, ...]
    regime: str
    cycles: tuple[Cycle, ...]
    reasons: tuple[str, ...]

    def as_dict(self, seen: Reconstruction) -> dict[str, Any]:
        timeline = seen.timeline
        return {
            "per_cycle": list(self.per_cycle),
            "regime": self.regime,
            "cycles": [
                {
                    "start_s": round(timeline.seconds(cycle.start_ns), 6),
                    "end_s": round(timeline.seconds(cycle.end_ns), 6),
                    "slow_starts": cycle.slow_starts,
                    "ssthresh": [None if at is None else round(at / timeline.smss, 2) for at in cycle.ssthresh],
                }
                for cycle in self.cycles
            ],
        }


def count_slow_starts(seen: Reconstruction, obstacles: Obstacles) -> SlowStarts:
    """Counts and regime, or undecided with the reasons."""
    if obstacles.hides_window:
        return SlowStarts(per_cycle=(), regime=UNDECIDED, cycles=(), reasons=obstacles.hides_window)
    reasons = list(obstacles.hides_cycles)
    captured = [cycle for cycle in seen.cycles if not cycle.begins_unseen]
    if len(captured) < len(seen.cycles):
        reasons.append("the capture starts in the middle of the connection: the cycle it starts in is not counted")
    # The number of slow starts of a cycle that the capture's end cuts short may still grow; alone it is all there is.
    whole = [cycle for cycle in captured if cycle.is_whole] or captured[:1]
    if len(whole) < len(captured):
        reasons.append("the last cycle ends with the capture before avoidance is reached: not counted")
    per_cycle = tuple(cycle.slow_starts for cycle in whole)
    regime, why = _regime(per_cycle, len(seen.episodes))
    if obstacles.hides_cycles:
        regime = UNDECIDED
    return SlowStarts(per_cycle=per_cycle, regime=regime, cycles=tuple(whole), reasons=(*reasons, *why))


def _regime(per_cycle: tuple[int, ...], events: int) -> tuple[str, list[str]]:
    starts = [count for count in per_cycle if count]
    if not starts:
        why = f"no slow start in any of {len(per_cycle)} cycles" if per_cycle else "no slow start was seen to grow"
        return UNDECIDED, [why]
    if events == 0:
        return _name(starts[0]), ["no loss in the capture: one slow start, and no cycle that a loss would begin"]
    later = list(per_cycle[1:])
    without = sum(count == 0 for count in later)
    if later and without == len(later):
        return _name(starts[0]), [f"slow starts in later cycles: none in {without} (the sender recovers without one)"]
    # The first cycle begins without a threshold: where it differs, those after it are the steady state.
    steady = [count for count in later if count]
    if len(steady) >= 2 and len(set(steady)) == 1 and per_cycle[0] != steady[0]:
        return _name(steady[0]), [
            f"the first cycle, without a threshold, has {per_cycle[0]}; every later one {steady[0]}"
        ]
    if len(set(starts)) == 1:
        return _name(starts[0]), []
    return "mixed", [f"slow starts per cycle differ: {', '.join(map(str, per_cycle))}"]


def _name(count: int) -> str:
    return REGIMES.get(count, "mixed")
