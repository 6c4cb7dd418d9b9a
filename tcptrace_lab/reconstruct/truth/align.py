"""A truth's rows on the clock of a capture taken elsewhere: by ACK numbers, not by time.

The sender notes an ACK when it reads it, a tap when it passes. At the sender these differ by microseconds, elsewhere by
the way back, which may stall for a moment: each row is moved by the difference that its own ACK shows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tcptrace_lab.reconstruct.timeline import Bools, Ints, Timeline
from tcptrace_lab.reconstruct.truth.truth_file import SEQUENCE_SPACE, Truth


def aligned(truth: Truth, timeline: Timeline, first_sequence: int) -> Truth:
    """`first_sequence`: the wire's number of offset 0. Rows of ACKs that are not in the capture are left out."""
    ours = (timeline.ack_offset + first_sequence) % SEQUENCE_SPACE
    at = _matched(truth.acked, ours, whole=truth.before_ack)
    known = (at >= 0) & (truth.acked >= 0)
    if not known.any():
        return truth
    moved = timeline.ack_ns[np.maximum(at, 0)]
    first_time = _first_times(truth.acked, truth.time_ns)
    shift = np.where(known, np.where(truth.before_ack, truth.time_ns, first_time) - moved, 0)
    kept = known | ~truth.before_ack
    usual = int(np.median(shift[known]))
    shift[~known] = usual
    return replace(
        truth,
        time_ns=(truth.time_ns - shift)[kept],
        cwnd=truth.cwnd[kept],
        before_ack=truth.before_ack[kept],
        in_recovery=truth.in_recovery[kept],
        acked=truth.acked[kept],
        drop_ns=truth.drop_ns - usual,
    )


def _matched(theirs: Ints, ours: Ints, *, whole: Bools) -> Ints:
    """For each number of theirs the index of the same of ours, the n-th for the n-th (where rows stand for ACKs)."""
    own = _occurrence(ours)
    wanted = np.where(whole, _occurrence(theirs), 0)
    # One number per (ACK number, occurrence).
    keys = ours * len(ours) + own
    order = np.argsort(keys, kind="stable")
    asked = theirs * len(ours) + wanted
    place = np.minimum(np.searchsorted(keys[order], asked), len(keys) - 1)
    return np.where(keys[order][place] == asked, order[place], -1)


def _occurrence(numbers: Ints) -> Ints:
    """0 for the first time that a number comes, 1 for the second ..."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.concatenate(([True], ordered[1:] != ordered[:-1])) if len(ordered) else np.zeros(0, dtype=bool)
    first = np.maximum.accumulate(np.where(starts, np.arange(len(ordered)), 0))
    found = np.empty(len(numbers), dtype=np.int64)
    found[order] = np.arange(len(ordered)) - first
    return found


def _first_times(numbers: Ints, times: Ints) -> Ints:
    """When the number of each row came first."""
    _, first, place = np.unique(numbers, return_index=True, return_inverse=True)
    found: Ints = times[first][place]
    return found
