"""How large one full segment of a sender is: where offload captures several as one, or the path carries less than the
SYNs say.

Assumes that most of what is long is full. Without a SYN the largest segment is taken for full: errs downwards.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.given import FEWEST_SAMPLES, MAJORITY, MINORITY, ODD_SHARE, SIDES, TIMESTAMP_BYTES
from tcptrace_lab.reconstruct.losses import DUP_THRESH
from tcptrace_lab.reconstruct.timeline import Ints

# Offload: a segment of two of the MSS was no single packet; without an MSS, one beyond jumbo frames (9000 bytes).
ONE_PACKET_BYTES = 9_000
# Without an MSS: many segments of one length that Ethernet carries (RFC 9293's default of 536 and more), and the larger
# ones most often a multiple of it.
LEAST_MSS, ETHERNET_MSS = 535, 1_460
# What Ethernet carries in IPv6 with timestamps (RFC 8200, RFC 7323).
FULL_ETHERNET_MSS = 1_428
# Of a path with a smaller one (RFC 1191 section 7.1: 296 is the least in use) most segments are of one size, and all
# that are larger, but odd ones, are several of them.
SMALL_PATH_BYTES = 296 - 40
# The least that a full segment has, options in it.
LEAST_FULL_BYTES = SMALL_PATH_BYTES - TIMESTAMP_BYTES


def smss_of(lengths: Ints, row: Any) -> int:
    """The sender's segment: the largest seen, or what both MSS options allow where offload made larger ones, and where
    none was full."""
    stamp = TIMESTAMP_BYTES if row["timestamps"] else 0
    if not len(lengths):
        return ETHERNET_MSS - stamp
    largest = int(lengths.max())
    options = [float(row[f"mss_{side}"]) for side in SIDES]
    known = [int(option) for option in options if not math.isnan(option)]
    allowed = max(min(known, default=0) - stamp, 1)
    # No host offloads what no path in use would need: everything is a multiple of a size of one.
    may_merge = allowed >= LEAST_FULL_BYTES
    if known and (largest <= allowed or (may_merge and is_cut_to(lengths, allowed))):
        # A path that carries less than the options allow shows as the length of most: an application's words as many.
        is_full = len(lengths) < FEWEST_SAMPLES or np.mean(lengths == largest) >= MINORITY
        return largest if largest >= LEAST_FULL_BYTES and largest < allowed and is_full else allowed
    if usual := few_merged(lengths):
        return usual
    if largest <= ETHERNET_MSS:
        return largest
    # The rest of a write is no segment's size (RFC 9293 section 3.7.1: 536 bytes are the least that all must take).
    small = lengths[(lengths > LEAST_MSS) & (lengths <= ETHERNET_MSS)]
    values, counts = _core.counts(small)
    large = lengths[lengths > ETHERNET_MSS]
    usual = int(values[np.argmax(counts)]) if len(values) else ETHERNET_MSS - stamp
    likely = _part_of(large) or usual
    # What a box cut has sizes of its own: nobody makes whole multiples of the options' size by chance.
    is_allowed = known and may_merge and np.mean(large % allowed == 0) > MAJORITY * np.mean(large % likely == 0)
    return allowed if is_allowed else likely


def _part_of(large: Ints) -> int | None:
    """The largest size that Ethernet carries of which most super-segments are multiples; None: there is none."""
    values, counts = _core.counts(large)
    usual = int(values[np.argmax(counts)])
    parts = range(-(-usual // ETHERNET_MSS), usual // LEAST_MSS + 1)
    return next((usual // part for part in parts if usual % part == 0 and is_cut_to(large, usual // part)), None)


def is_cut_to(lengths: Ints, smss: int) -> bool:
    """Whether super-segments are whole ones of this size; where few are, a middlebox changed the option on one side."""
    large = lengths[lengths > smss]
    return smss > 0 and bool(np.mean(large % smss == 0) >= MAJORITY or np.mean(lengths == smss) >= MAJORITY)


def few_merged(lengths: Ints) -> int | None:
    """The size of most segments, where the larger ones are whole multiples of it: a path's, whatever its MSS was."""
    values, counts = _core.counts(lengths)
    values, counts = values[values >= SMALL_PATH_BYTES], counts[values >= SMALL_PATH_BYTES]
    if not len(values) or counts.max() < MAJORITY * len(lengths):
        return None
    usual = int(values[np.argmax(counts)])
    parts = -(-usual // ETHERNET_MSS)
    if parts > 1 and usual % parts == 0 and usual // parts >= FULL_ETHERNET_MSS:
        # So many full frames of Ethernet are merged all along: no path carries just that.
        return usual // parts
    large = lengths[lengths > usual]
    is_path = len(large) >= DUP_THRESH and np.mean(large % usual == 0) >= 1 - ODD_SHARE
    return usual if is_path else None


def one_packet(lengths: Ints) -> int:
    """The largest segment that may have been a single packet, where no SYN tells."""
    if usual := few_merged(lengths):
        return usual
    small = lengths[(lengths > LEAST_MSS) & (lengths <= ETHERNET_MSS)]
    large = lengths[lengths > ETHERNET_MSS]
    if not len(small) or not len(large):
        return ONE_PACKET_BYTES
    values, counts = _core.counts(small)
    usual = int(values[np.argmax(counts)])
    is_whole = np.mean(large % usual == 0) > MAJORITY
    return usual if is_whole and counts.max() > ODD_SHARE * len(lengths) else ONE_PACKET_BYTES
