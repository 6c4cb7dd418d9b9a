"""How the first slow start grew: by one segment per ACK, by one per segment, or by M-Start's cycle of steps.

Rests on the initial slow start only, seen from its beginning: a restart after a loss is disturbed by what the receiver
still holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tcptrace_lab.reconstruct.given import MINORITY
from tcptrace_lab.reconstruct.phases import Stretch
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Floats

# Steps per ACK must repeat, at all but a few of the ACKs, over this many whole cycles before they are called a cycle.
WHOLE_CYCLES = 2
LONGEST_CYCLE = 64
# M-Start's steps run from P down to 1, on average 1.5 packets an ACK and more; slow start's are one.
STEEPER_FACTOR = 1.25
# Fewer ACKs show no growth: an initial window's are one round trip.
FEWEST_ACKS = 4


@dataclass(frozen=True, kw_only=True)
class Growth:
    """Segments by which the flight grew per ACK and per acknowledged segment; `cycle` the steps if they repeat."""

    per_ack: float
    per_segment: float
    acks: int
    cycle: tuple[int, ...] | None

    @property
    def is_m_start(self) -> bool:
        """More than a segment per acknowledged segment on average, in steps that come round again, downward."""
        return self.cycle is not None and self.per_segment > STEEPER_FACTOR and max(self.cycle) >= 2

    def as_dict(self) -> dict[str, Any]:
        """The verdict's `m_start`."""
        return {"detected": self.is_m_start, "step_cycle": list(self.cycle) if self.cycle and self.is_m_start else None}


def initial_slow_start(seen: Reconstruction) -> Stretch | None:
    """The connection's first slow start, if the capture has it."""
    first = seen.stretches[0] if seen.stretches else None
    return first if first is not None and first.begin == "connection" and first.is_slow_start else None


def initial_growth(seen: Reconstruction) -> Growth | None:
    """The growth of the initial slow start; None where too little of it is in the capture."""
    first = initial_slow_start(seen)
    if first is None or first.peak is None:
        return None
    timeline = seen.timeline
    rows = np.arange(first.first, first.peak + 1)
    rows = rows[timeline.newly_acked[rows] > 0]
    if len(rows) < FEWEST_ACKS:
        return None
    steps = np.diff(seen.flight[rows]) / timeline.smss
    acked = timeline.newly_acked[rows[1:]] / timeline.smss
    return Growth(
        per_ack=float(steps.sum() / len(steps)),
        per_segment=float(steps.sum() / acked.sum()),
        acks=len(steps),
        cycle=_cycle(steps),
    )


def _cycle(steps: Floats) -> tuple[int, ...] | None:
    """The shortest cycle of whole steps that the sequence repeats, rotated to begin with its largest."""
    whole = np.round(steps).astype(np.int64)
    # Only one step: not a cycle.
    if len(whole) < 2 * WHOLE_CYCLES or whole.max() == whole.min():
        return None
    for period in range(2, min(LONGEST_CYCLE, len(whole) // WHOLE_CYCLES) + 1):
        same = whole[period:] == whole[:-period]
        if np.mean(same) >= 1 - MINORITY:
            tail = whole[len(whole) - len(whole) // period * period :]
            cycle = np.median(tail.reshape(-1, period), axis=0).astype(np.int64)
            if len(set(cycle.tolist())) < 2:
                continue
            return tuple(int(step) for step in np.roll(cycle, -int(np.argmax(cycle))))
    return None
