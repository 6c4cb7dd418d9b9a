"""Since which ACK each byte is known to have arrived out of order: a sender's scoreboard (RFC 2018, RFC 6675).

What was SACKed once stays so (RFC 2018 section 8 apart): an ACK has room for the latest blocks only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, kw_only=True)
class Scoreboard:
    """Disjoint ranges in order of offset, and the index of the ACK that first reported each."""

    left: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    right: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    ack: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def since(self, offset: Ints, end: Ints) -> Ints:
        """For each segment the ACK that reported it; NEVER where none did, or only a part of it."""
        if not len(self.left):
            return np.full(len(offset), NEVER, dtype=np.int64)
        at = np.searchsorted(self.left, offset, side="right") - 1
        holds = (at >= 0) & (self.right[np.maximum(at, 0)] >= end)
        return np.where(holds, self.ack[np.maximum(at, 0)], NEVER)


def scoreboard(blocks: Sequence[Sequence[tuple[int, int]]], ack_offset: Ints) -> Scoreboard:
    """From each ACK's SACK blocks; what lies at or below its ACK number is a D-SACK (RFC 2883) and no news."""
    lefts: list[int] = []
    rows: list[tuple[int, int]] = []
    for index in np.flatnonzero([len(found) > 0 for found in blocks]).tolist():
        for left, right in blocks[index]:
            if left >= ack_offset[index]:
                _add(lefts, rows, int(left), int(right), index)
    if not lefts:
        return Scoreboard()
    ends, acks = zip(*rows, strict=True)
    return Scoreboard(left=np.array(lefts, dtype=np.int64), right=np.array(ends), ack=np.array(acks))


def _add(lefts: list[int], rows: list[tuple[int, int]], left: int, right: int, index: int) -> None:
    """The parts of a block that are not yet known."""
    at = bisect_right(lefts, left)
    if at:
        left = max(left, rows[at - 1][0])
    while left < right:
        until = min(right, lefts[at]) if at < len(lefts) else right
        if left < until:
            lefts.insert(at, left)
            rows.insert(at, (until, index))
            at += 1
        if at >= len(lefts):
            return
        left = max(left, rows[at][0])
        at += 1
