"""By how much the windows that a receiver offered are scaled (RFC 7323 section 2): what the SYNs say, held against what
was sent."""

from __future__ import annotations

import math
from typing import Any

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.given import DELAYED_ACK_SEGMENTS, FEWEST_SAMPLES, SYN
from tcptrace_lab.reconstruct.tap.segment_size import one_packet
from tcptrace_lab.reconstruct.tap.tap import Fact
from tcptrace_lab.reconstruct.timeline import Ints

# RFC 7323 section 2.3.
LARGEST_SHIFT = 14
# A sender keeps to the window offered (RFC 9293 section 3.8.6). So many sends beyond it, by more than a delayed ACK's
# segments, and the window was not what it seemed: an ACK that the tap lost explains a few.
BEYOND_SHARE = 0.05


def shift_of(segments: Any, acks: Any, passed: Ints, row: Any, other: str, *, is_whole: bool) -> tuple[Fact, int]:
    """The shift of the windows that the receiver offered: known from both SYNs, or at least what was in flight.

    `is_whole`: no ACK is missing; where some are, more seems to be in flight than was.
    """
    known = float(row[f"wscale_{other}"])
    least = _least_shift(segments, acks, passed, is_open=math.isnan(known))
    if math.isnan(known):
        if not int(row[f"syns_{other}"]):
            return Fact(value=None, why="the receiver's SYN is not in the capture"), least
        return Fact(value=None, why="a SYN's options are cut, or only one SYN was captured"), least
    if least > 0 and is_whole:
        # RFC 9293: what was sent fits the window offered, so the windows are larger than the SYNs say.
        why = "more was in flight than the SYNs' window scale allows"
        return Fact(value=None, why=why), int(known) + least
    return Fact(value=int(known)), int(known)


def _least_shift(segments: Any, acks: Any, passed: Ints, *, is_open: bool) -> int:
    """By how much the windows in the table must at least be scaled for what was sent to fit.

    `is_open`: nothing tells the scale, so that a single flight may.
    """
    lengths = segments["length"]
    # Merged segments are cut to fit a window like any other.
    slack = DELAYED_ACK_SEGMENTS * min(int(lengths.max(initial=0)), one_packet(lengths))
    sent = (segments["offset"], lengths, segments["is_retransmission"], passed)
    offered = (acks["ack_offset"], acks["rwnd"], (acks["flags"] & SYN) == 0)
    for shift in range(LARGEST_SHIFT):
        # What a missing ACK offered the next one does as well.
        count, beyond, beyond_next = _core.beyond_offered(sent, offered, shift, slack)
        if beyond <= BEYOND_SHARE * count and (not is_open or beyond_next < FEWEST_SAMPLES):
            return shift
    return LARGEST_SHIFT
