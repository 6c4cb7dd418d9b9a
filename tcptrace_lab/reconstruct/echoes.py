"""Which ACKs a sender had when it sent: what the TSecr of its segments names (RFC 7323 section 4.3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcptrace_lab.reconstruct.arrivals import Sends
from tcptrace_lab.reconstruct.sender_clock import Ints, signed, unwrapped


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """For each segment, between which ACKs the one lies that released it (-1: none before it)."""

    low: Ints
    high: Ints


def named(echoes: Ints, stamps: Ints) -> Bounds:
    """The first and the last of the ACKs (`stamps`: their TSvals) that carry what each segment echoes."""
    clock = np.maximum.accumulate(unwrapped(stamps))
    echo = unwrapped(echoes) + int(signed(echoes[:1] - stamps[0])[0])
    last = np.searchsorted(clock, echo, side="right") - 1
    first = np.searchsorted(clock, clock[np.maximum(last, 0)], side="left")
    return Bounds(low=np.where(last >= 0, first, -1), high=last)


def turns(time_ns: Ints, ack_ns: Ints, echoed: Bounds) -> Ints:
    """How long after the ACK it echoes each segment passed the tap: at least the way to the sender and back; -1: none.

    Of several ACKs with one TSval the first counts, so that none is too short.
    """
    found = time_ns - ack_ns[np.maximum(echoed.low, 0)]
    # A clock that jumped may name an ACK of later.
    return np.where((echoed.low >= 0) & (found >= 0), found, -1)


def in_order(low: Ints, high: Ints, left: Sends) -> Bounds:
    """Bounds of sends in the order of leaving; what was put back left with the segment before it.

    The segment before took the last place in the queue; what came with it was lost; the next found a place again.
    """
    before = np.maximum.accumulate(np.where(left.is_put_back, -1, np.arange(len(high))))
    low = np.maximum.accumulate(low)
    high = np.where(before >= 0, high[np.maximum(before, 0)], low)
    return Bounds(low=low, high=np.maximum(np.minimum.accumulate(high[::-1])[::-1], low))
