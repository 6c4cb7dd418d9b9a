"""SACK blocks of numbers that nobody sent: a box that changes sequence numbers, and leaves the blocks as they were.

A receiver tells only of what came (RFC 2018 section 3), and that had left. What such blocks say is known to no sender
either: one that checks them takes them for damaged.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tcptrace_lab.reconstruct.given import MAJORITY


def take_out_foreign(segments: Any, acks: Any) -> int:
    """Takes the blocks out of all ACKs, where most are of other numbers than the data's; returns how many had any."""
    first, edges, offsets = acks["sack_first"], acks["sack_edges"], segments["offset"]
    if not len(edges) or not len(offsets):
        return 0
    has_blocks = first[1:] > first[:-1]
    right = edges[first[:-1][has_blocks] + 1]
    low, high = min(int(offsets.min()), int(acks["ack_offset"].min())), int((offsets + segments["length"]).max())
    if np.mean((right <= low) | (right > high)) <= MAJORITY:
        return 0
    nothing = {name: np.zeros_like(acks[name]) for name in ("sack_first", "sack_high", "sacked")}
    acks.update(nothing, sack_edges=edges[:0])
    return int(np.count_nonzero(has_blocks))
