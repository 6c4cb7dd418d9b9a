"""Where what is in flight stands at its largest, as no window that grows does: a send buffer's, a fixed window or pace.

A window that loses nothing grows (RFC 5681 section 3.1; half a segment in a round trip under delayed ACKs): it comes to
its largest on the way to a loss, and has been a little smaller for as long. What fills the same place in round trip
after round trip, and hardly ever one a few segments below, is no window at work, though ACKs release its segments at
once. A control that keeps a few packets in the queue (Vegas) stands as well, but seldom at the most it ever sent; where
it does, its replay tells (classify.control.windows.replayed).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tcptrace_lab.reconstruct.given import DELAYED_ACK_SEGMENTS, FEWEST_ALIKE, WITHIN_SEGMENTS
from tcptrace_lab.reconstruct.timeline import Bools, Ints, Timeline
from tcptrace_lab.reconstruct.windows import CWND, limited_at

# So many round trips at its largest: Reno, half a segment at a time, has left in two.
STANDS_ROUNDS = 32
# Near its largest: where one that grows is on its way there.
NEAR_SEGMENTS = 4.0
# Of the round trips that come so near, no more than this share stays below: of a cubic's, which spends longest around
# its plateau, it is a third.
NEAR_SHARE = 0.2


def standing(timeline: Timeline, flight: Ints, rtt_ns: int, losses_ns: Sequence[int]) -> Bools:
    """Of each ACK, whether it came while the flight stood; no ACK, where it does not stand for long.

    `rtt_ns`: the median round trip; `losses_ns`: when its losses were found. Only where the congestion window seems to
    be the limit, outside of recoveries.
    """
    count = len(timeline.ack_ns)
    found = np.zeros(count, dtype=bool)
    if not count or rtt_ns <= 0 or timeline.ack_ns[-1] - timeline.ack_ns[0] < STANDS_ROUNDS * rtt_ns:
        return found
    rows = np.flatnonzero((limited_at(timeline) == CWND) & (timeline.sacked == 0))
    if not len(rows):
        return found
    turns = (timeline.ack_ns[rows] - timeline.ack_ns[0]) // rtt_ns
    begins = np.flatnonzero(np.diff(turns, prepend=-1))
    most = np.maximum.reduceat(flight[rows], begins)
    if len(most) < STANDS_ROUNDS:
        return found
    largest = _largest(most, WITHIN_SEGMENTS * timeline.smss)
    if largest <= NEAR_SEGMENTS * timeline.smss:
        # All there can be is near it: an application's few segments are no window.
        return found
    away = np.abs(largest - most) / timeline.smss
    # A mild cut takes a small window hardly below, and the next comes before a window that grows has passed through:
    # standing is told of what lies between two losses if that is longer.
    between = np.searchsorted(np.asarray(losses_ns), timeline.ack_ns[rows[begins]])
    stands = (away <= WITHIN_SEGMENTS) & (np.bincount(between)[between] > DELAYED_ACK_SEGMENTS * NEAR_SEGMENTS)
    near = np.count_nonzero(away <= NEAR_SEGMENTS)
    if np.count_nonzero(stands) < max(STANDS_ROUNDS, (1 - NEAR_SHARE) * near):
        return found
    found[rows] = np.repeat(stands, np.diff(begins, append=len(rows)))
    return found


def _largest(most: Ints, within: float) -> int:
    """Of the round trips', but for one or two that are odd: a late ACK, or one that the path merged, between two that
    stand. A start that went beyond where a window (Vegas') came to rest is none."""
    largest = int(np.sort(most)[-FEWEST_ALIKE])
    odd = np.flatnonzero(most > largest + within)
    beside = np.concatenate((odd - 1, odd + 1))
    is_beside = (beside >= 0) & (beside < len(most))
    stand = np.abs(most[beside[is_beside]] - largest) <= within
    return largest if is_beside.all() and stand.all() else int(most.max())
