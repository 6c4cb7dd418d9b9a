"""Since which ACK each byte is known to have arrived out of order (RFC 2018, 6675): infer/sender/rows/scoreboard.rs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, kw_only=True)
class Scoreboard:
    """Disjoint ranges in order of offset, and the index of the ACK that first reported each."""

    left: Ints
    right: Ints
    ack: Ints

    def since(self, offset: Ints, end: Ints) -> Ints:
        """For each segment the ACK that reported it; NEVER where none did, or only a part of it."""
        if not len(self.left):
            return np.full(len(offset), NEVER, dtype=np.int64)
        at = np.searchsorted(self.left, offset, side="right") - 1
        holds = (at >= 0) & (self.right[np.maximum(at, 0)] >= end)
        return np.where(holds, self.ack[np.maximum(at, 0)], NEVER)
