"""The number of slow starts per loss cycle, and the regime they make (Barakat & Altman 1998)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from tcptrace_lab.classify.obstacles import Obstacles
from tcptrace_lab.reconstruct.cycles import Cycle
from tcptrace_lab.reconstruct.losses import DUP_THRESH
from tcptrace_lab.reconstruct.reconstruction import Reconstruction

REGIMES = {1: "single", 2: "double", 3: "triple"}
NONE = "none"
VARIED = "mixed"
UNDECIDED = "undecided"
# The steady state has one count, but for the odd cycle in which a retransmission was lost as well.
STEADY_SHARE = 0.8


@dataclass(frozen=True, kw_only=True)
class SlowStarts:
    """`per_cycle` counts whole cycles whose beginning was captured; `reasons` say what was left out and why.

    `initial` is the count of the cycle that the connection begins with (without a threshold), `steady` that of those
    after it, where they have one; `regime` is the steady state's, or the initial one where there is no other.
    """

    per_cycle: tuple[int, ...]
    initial: int | None
    steady: int | None
    regime: str
    cycles: tuple[Cycle, ...]
    reasons: tuple[str, ...]

    def as_dict(self, seen: Reconstruction) -> dict[str, Any]:
        timeline = seen.timeline
        return {
            "per_cycle": list(self.per_cycle),
            "initial": self.initial,
            "steady": self.steady,
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
        return SlowStarts(
            per_cycle=(), initial=None, steady=None, regime=UNDECIDED, cycles=(), reasons=obstacles.hides_window
        )
    reasons = list(obstacles.hides_cycles)
    captured = [cycle for cycle in seen.cycles if not cycle.begins_unseen]
    if len(captured) < len(seen.cycles):
        reasons.append("the capture starts in the middle of the connection: the cycle it starts in is not counted")
    # The number of slow starts of a cycle that the capture's end cuts short may still grow; without a loss it is one.
    is_lossless = not seen.episodes and not tells_of_loss(seen)
    is_over = is_lossless and _is_answered(seen)
    whole = [cycle for cycle in captured if is_over or (cycle.is_whole and (is_lossless or seen.episodes))]
    if len(whole) < len(captured):
        reasons.append("the last cycle ends with the capture before avoidance is reached: not counted")
    begins = bool(captured) and bool(seen.stretches) and seen.stretches[0].begin == "connection"
    if begins and whole and whole[0] is captured[0] and not whole[0].slow_starts:
        # RFC 5681 section 3.1: a connection begins in one, though it may send too little to show it.
        reasons.append("the first slow start was not seen to grow: its cycle is not counted")
        begins, whole = False, whole[1:]
    per_cycle = tuple(cycle.slow_starts for cycle in whole)
    initial = per_cycle[0] if begins and per_cycle else None
    later = per_cycle[1:] if begins else per_cycle
    steady = _steady(later)
    regime, why = _regime(initial, later, steady, len(seen.episodes))
    if captured and not whole:
        why = []
    if obstacles.hides_cycles:
        regime = UNDECIDED
    return SlowStarts(
        per_cycle=per_cycle,
        initial=initial,
        steady=steady,
        regime=regime,
        cycles=tuple(whole),
        reasons=(*reasons, *why),
    )


def tells_of_loss(seen: Reconstruction) -> bool:
    """Whether three segments lie above a hole at the end (RFC 5681 section 3.2): its repair was not captured."""
    timeline = seen.timeline
    beyond = timeline.delivered[-1:] - timeline.snd_una[-1:]
    return bool((beyond >= DUP_THRESH * timeline.smss).any())


def _is_answered(seen: Reconstruction) -> bool:
    """Whether no loss is on its way: what is unanswered at the end was sent to no more under way than what arrived."""
    timeline = seen.timeline
    if not len(timeline.ack_ns):
        return False
    under_way = timeline.snd_max - timeline.una_after(timeline.acks_before_send)
    answered = timeline.send_end <= int(timeline.snd_una[-1])
    return bool(under_way[~answered].max(initial=0) <= under_way[answered].max(initial=0))


def _steady(later: tuple[int, ...]) -> int | None:
    if not later:
        return None
    count, times = Counter(later).most_common(1)[0]
    return count if times >= STEADY_SHARE * len(later) else None


def _regime(initial: int | None, later: tuple[int, ...], steady: int | None, events: int) -> tuple[str, list[str]]:
    if initial is None and not later:
        return UNDECIDED, ["no slow start was seen to grow"]
    if not later:
        why = [] if events else ["no loss in the capture: one slow start, and no cycle that a loss would begin"]
        return (_name(initial), why) if initial else (UNDECIDED, ["no slow start was seen to grow"])
    if steady is None:
        return VARIED, [f"slow starts per cycle differ: {', '.join(map(str, later))}"]
    if steady == 0:
        begun = "" if initial is None else f" after the first, which has {initial}"
        return NONE, [
            f"no slow start in {later.count(0)} of {len(later)} cycles{begun}: the sender recovers without one"
        ]
    if initial is not None and initial != steady and len(later) == 1:
        # One cycle is no steady state.
        return VARIED, [f"slow starts per cycle differ: {initial}, {steady}"]
    if initial is not None and initial != steady:
        return _name(steady), [f"the first cycle, without a threshold, has {initial}; the later ones {steady}"]
    return _name(steady), []


def _name(count: int) -> str:
    return REGIMES.get(count, VARIED)
