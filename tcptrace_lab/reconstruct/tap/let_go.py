"""What the receiver's window let go: a segment that ends beyond it left after the ACK that opened it (RFC 9293 section
3.8.6), so what passes between the two is at least the way from the tap to the sender and back to it.

Exact where that window was the limit and the sender had more to send; longer by what waited in a queue before the tap.
"""

from __future__ import annotations

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.given import BURST_NS, FEWEST_SAMPLES, MINORITY
from tcptrace_lab.reconstruct.timeline import Ints, Timeline, parts


def window_turn_ns(timeline: Timeline) -> int | None:
    """From an ACK to the full segment that its window let go, the least; None: the window was seldom the limit.

    It was where some take that long again and again: what waits for a congestion window takes any time.
    """
    edges = np.maximum.accumulate(timeline.snd_una + timeline.rwnd)
    waits = np.concatenate([_let_go(timeline, edges, part) for part in parts(len(timeline.send_ns))] or [edges[:0]])
    if len(waits) <= FEWEST_SAMPLES:
        return None
    least = int(waits.min())
    return least if _core.percentile(waits, 100 * MINORITY) - least <= BURST_NS else None


def _let_go(timeline: Timeline, edges: Ints, part: slice) -> Ints:
    """How long behind the ACK that opened the window to its end each full segment of these sends passed."""
    end, is_new = timeline.send_end[part], ~timeline.is_retransmission[part]
    is_full = is_new & (end - timeline.send_offset[part] >= timeline.smss)
    opened = np.searchsorted(edges, end[is_full], side="left")
    known = (opened > 0) & (opened < len(edges))
    found: Ints = timeline.send_ns[part][is_full][known] - timeline.ack_ns[opened[known]]
    return found
