"""Traffic that shared the bottleneck and is not in the capture: what passed while a queue stood, and not of its flows.

A link with a queue serves at its rate: what the capture's own ACKs tell of less was somebody else's. Errs towards none:
a rate that was taken for the path's is no more than the path's, and a queue is one only where the quickest of several
round trips in a row stand well above the least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tcptrace_lab.classify.verdict import Verdict
from tcptrace_lab.reconstruct.timeline import Floats, Ints, Timeline

# The quickest of so many: an ACK that waited for a second segment is no queue.
QUICKEST_OF = 4
# A queue stands where so many packets wait at least, and so much of the least round trip.
LEAST_WAITING = 4
LEAST_SHARE = 0.1
# Of a queue that stood for less of the time nothing is said; what passed of these flows alone, by the blur of the rate.
STOOD_SHARE = 0.25
OWN_SHARE = 0.75


@dataclass(frozen=True, kw_only=True)
class Unseen:
    """Others at the bottleneck: at least so many bit/s while a queue stood, which it did for this share of the time."""

    rate_bps: float
    stood_share: float


def unseen_traffic(leader: Verdict, verdicts: Sequence[Verdict]) -> Unseen | None:
    """What the busiest connection's queue served besides all of the capture's; None: nothing that shows."""
    base_s, pps = leader.path.base_rtt_s.value, leader.path.bottleneck_pps.value
    timeline = leader.seen.timeline
    rows, samples = timeline.rtt
    if not base_s or not pps or len(samples) <= QUICKEST_OF:
        return None
    times = timeline.ack_ns[rows]
    quickest = np.lib.stride_tricks.sliding_window_view(samples, QUICKEST_OF).min(axis=1)
    times = times[QUICKEST_OF - 1 :]
    stands = quickest / 1e9 - base_s > max(LEAST_WAITING / pps, LEAST_SHARE * base_s)
    apart = np.diff(times)
    busy = stands[1:] & stands[:-1] & (apart < base_s * 1e9)
    stood_ns = int(apart[busy].sum())
    span_ns = timeline.end_ns - int(timeline.send_ns[0])
    if span_ns <= 0 or stood_ns < STOOD_SHARE * span_ns:
        return None
    passed: Floats = sum((_delivered(each.seen.timeline, times) for each in verdicts), np.zeros(len(times)))
    payload_bps = 8 * pps * timeline.smss
    own_bps = float(np.diff(passed)[busy].sum()) * 8e9 / stood_ns
    if own_bps >= OWN_SHARE * payload_bps:
        return None
    whole = leader.path.packet_bytes / timeline.smss
    return Unseen(rate_bps=(payload_bps - own_bps) * whole, stood_share=stood_ns / span_ns)


def _delivered(timeline: Timeline, times: Ints) -> Floats:
    """Bytes that had arrived by these times, those behind a hole too."""
    if not len(timeline.ack_ns):
        return np.zeros(len(times))
    arrived = np.maximum.accumulate(timeline.snd_una + timeline.sacked)
    place = np.searchsorted(timeline.ack_ns, times, side="right")
    return np.where(place > 0, arrived[np.maximum(place - 1, 0)], arrived[0]).astype(np.float64)
