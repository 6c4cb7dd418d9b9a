"""Repairs that a capture has before what asked for them: its order is not the one in which packets passed.

Without blocks a hole is filled when the third duplicate says so (RFC 5681 section 3.2), at once. One that was captured
between the second and the third, and nearer to the third, time and again, was stamped early, or the duplicate late.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tcptrace_lab.reconstruct.given import FEWEST_ALIKE, FEWEST_SAMPLES, MAJORITY, MINORITY
from tcptrace_lab.reconstruct.losses import DUP_THRESH
from tcptrace_lab.reconstruct.timeline import Ints


def asked_late_ns(segments: Any, acks: Any, times: tuple[Ints, Ints], resolution_ns: int) -> int:
    """By how much third duplicates were captured behind what they ask for, at the most; 0: they lead, or blocks tell.

    `times`: of segments, and of ACKs, which have no order within `resolution_ns`. A sender that waits for fewer
    duplicates, or for a time, fills its holes anywhere between two of them.
    """
    thirds = np.flatnonzero(acks["dup_count"] == DUP_THRESH)
    if len(thirds) < FEWEST_SAMPLES or len(acks["sack_edges"]):
        return 0
    sent_ns, heard_ns = times
    last = np.searchsorted(segments["packet"], acks["packet"][thirds]) - 1
    # What left last before the third fills the hole, and the second passed before it.
    is_before = (last >= 0) & (segments["packet"][last] > acks["packet"][thirds - 1])
    is_before &= segments["is_retransmission"][last] & (segments["offset"][last] == acks["ack_offset"][thirds])
    thirds, last, every = thirds[is_before], last[is_before], len(thirds)
    if len(thirds) < max(MINORITY * every, FEWEST_ALIKE):
        return 0
    late = heard_ns[thirds] - sent_ns[last]
    if np.count_nonzero(late > resolution_ns) < FEWEST_ALIKE:
        return 0
    is_near = late < MAJORITY * (heard_ns[thirds] - heard_ns[thirds - 1])
    return int(late[is_near].max()) if np.mean(is_near) >= 1 - MINORITY else 0
