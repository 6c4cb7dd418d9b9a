"""What a capture says for and against one candidate: its replayed window beside what was outstanding, part by part.

A sender held back by its window has floor(cwnd) segments outstanding, so the candidate's window less the flight lies
between nothing and a segment; what lies outside is the candidate's error (core/src/infer/candidates/evidence.rs). A
reduction is off by what lies between the window it left and the candidate's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.control.shown.compared import Part
from tcptrace_lab.reconstruct.timeline import Floats

# Sixteenths of a segment with which an epoch may have begun, where no fraction explains every ACK of it.
FRACTIONS = np.array(_core.FRACTIONS)


@dataclass(frozen=True, kw_only=True)
class Misfits:
    """Everything that one replay is judged by, in order of time: a column entry per piece.

    `error`: segments by which the candidate is off (root mean square; signed where it is one number); `expected`: its
    own window, in segments, beside what was observed.
    """

    error: Floats
    expected: Floats


@dataclass(frozen=True, kw_only=True, slots=True)
class Misfit:
    """One of them: `ack` is where it was seen; `observed` and `expected` the two numbers behind it, in segments."""

    part: Part
    ack: int
    error: float
    observed: float
    expected: float


def outside(difference: Floats) -> Floats:
    """By how much flight less window lies outside of what a whole number of segments leaves open: (-1, 0]."""
    found: Floats = np.maximum(np.maximum(difference, -1.0 - difference), 0.0)
    return found
