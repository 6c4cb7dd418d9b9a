"""Since which ACK each byte is known to have arrived out of order: a sender's scoreboard (RFC 2018, RFC 6675).

What was SACKed once stays so (RFC 2018 section 8 apart): an ACK has room for the latest blocks only.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
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
    starts: list[int] = []
    ends: list[int] = []
    rows: list[tuple[int, int, int]] = []
    for index in np.flatnonzero([len(found) > 0 for found in blocks]).tolist():
        for left, right in blocks[index]:
            if left >= ack_offset[index]:
                rows += [(*part, index) for part in _add(starts, ends, int(left), int(right))]
    if not rows:
        return Scoreboard()
    table = np.array(sorted(rows), dtype=np.int64)
    return Scoreboard(left=table[:, 0], right=table[:, 1], ack=table[:, 2])


def _add(starts: list[int], ends: list[int], left: int, right: int) -> list[tuple[int, int]]:
    """The parts of a block that are not yet known; then they are.

    What is known is kept as joined ranges: a block that grows by a segment per ACK meets one, however long it is.
    """
    if left >= right:
        return []
    first, behind = bisect_left(ends, left), bisect_right(starts, right)
    parts, at = [], left
    for place in range(first, behind):
        if at < starts[place]:
            parts.append((at, starts[place]))
        at = max(at, ends[place])
    if at < right:
        parts.append((at, right))
    if first < behind:
        left, right = min(left, starts[first]), max(right, ends[behind - 1])
    starts[first:behind], ends[first:behind] = [left], [right]
    return parts
