"""The other flows in this one's queue: what they leave of the rate that its ACKs show, and of its least round trip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.path.base_rtt import LEAST_FACTOR
from tcptrace_lab.classify.path.rate import BUSY_PACKETS, rate_together
from tcptrace_lab.reconstruct.estimate import Estimate
from tcptrace_lab.reconstruct.given import DELAYED_ACK_SEGMENTS, MINORITY
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.tap.clock import BATCH_NS, Clock
from tcptrace_lab.reconstruct.timeline import Floats, Ints

# Two flows meet one queue when half of the differences of their round trips lie within this share of the swing.
SAME_QUEUE_SHARE = 0.25
ENOUGH_SAMPLES = 32

# Another flow of the capture, and whether it waits in this one's queue (`shares_queue`).
Other = tuple[Reconstruction, bool | None]


def shares_queue(seen: Reconstruction, other: Reconstruction, pps: Estimate) -> bool | None:
    """Whether two flows' round trips differ by a constant while both last: they wait in one queue. None: not told.

    Of a queue of a few packets which of two came first makes as much of a difference as what both met.
    """
    rows, samples = seen.timeline.rtt
    if len(samples) < ENOUGH_SAMPLES or len(other.timeline.rtt[1]) < ENOUGH_SAMPLES:
        return None
    found = _beside(other, seen.timeline.ack_ns[rows])
    both = ~np.isnan(found)
    if np.count_nonzero(both) < ENOUGH_SAMPLES:
        return None
    low, high = (_core.percentile(samples[both], percent) for percent in (10, 90))
    apart_ns = samples[both] - found[both]
    left, right = (_core.percentile(apart_ns, percent) for percent in (25, 75))
    if right - left < SAME_QUEUE_SHARE * (high - low):
        return True
    return None if pps.value is not None and high - low < BUSY_PACKETS / pps.value * 1e9 else False


def _beside(other: Reconstruction, times: Ints) -> Floats:
    """Another flow's round trips at these times; NaN where nothing of it that was timed was on the path."""
    places, found = other.timeline.rtt
    known = other.timeline.ack_ns[places]
    after = np.searchsorted(known, times)
    within = (after > 0) & (after < len(known))
    after = np.minimum(after, len(known) - 1)
    under_way = within & (known[after] - found[after] <= times)
    return np.where(under_way, np.interp(times, known, found), np.nan)


def rate_beside(seen: Reconstruction, flows: Sequence[Other], pps: Estimate, clock: Clock) -> Estimate:
    """The bottleneck's rate by the ACKs of all that share it."""
    others = [other for other, shares in flows if shares]
    if others and (pps.high is None or clock.resolution_ns > BATCH_NS):
        # In the longer runs that a coarse clock takes the others' packets stand between this flow's own.
        return rate_together(seen, others, clock) or replace(pps, high=None)
    if pps.high is not None and any(shares is None and _is_large(other, seen) for other, shares in flows):
        # What is acknowledged of one flow comes at its share of a bottleneck that others use.
        method = f"{pps.method}; another flow may have had a part of it"
        undecided = [other for other, shares in flows if shares is None]
        return rate_together(seen, undecided, clock) or replace(pps, high=None, method=method)
    return pps


def _is_large(other: Reconstruction, seen: Reconstruction) -> bool:
    return other.timeline.new_bytes > MINORITY * seen.timeline.new_bytes


def less_standing(seen: Reconstruction, flows: Sequence[Other], base: Estimate, pps: Estimate) -> tuple[Estimate, int]:
    """The least round trip without the queue that others kept standing, and that queue's length in time."""
    others = [other for other, shares in flows if shares]
    standing_ns = _standing_ns(seen, others) if others else 0
    if standing_ns and standing_ns >= int(seen.timeline.rtt[1].min()):
        # Longer than a whole round trip of this flow: it has not stood in that queue.
        standing_ns = 0
    if pps.value is not None and standing_ns > BUSY_PACKETS / pps.value * 1e9:
        least = float(seen.timeline.rtt[1].min())
        method = f"{base.method.partition(';')[0]}, less the queue that another flow met then"
        base = Estimate(value=(least - standing_ns) / 1e9, low=None, high=least / 1e9, method=method)
    elif others and pps.value is not None and base.low is not None:
        # So short a queue may be this flow's own, or another's.
        low = base.low - standing_ns / 1e9 - DELAYED_ACK_SEGMENTS / pps.value
        base, standing_ns = Estimate(value=base.value, low=max(low, 0.0), high=base.high, method=base.method), 0
    else:
        standing_ns = 0
    return base, standing_ns


def _standing_ns(seen: Reconstruction, others: Sequence[Reconstruction]) -> int:
    """The queue that stood at this flow's least round trip, by what the other flows met at the same time.

    Their way may be longer; what counts is by how much their round trips exceed their own least then. Errs low where
    they have never met an empty queue either, or had nothing on the path; high by a packet or two (their own).
    """
    rows, samples = seen.timeline.rtt
    times = seen.timeline.ack_ns[rows[samples <= LEAST_FACTOR * samples.min()]]
    met = np.zeros(len(times))
    for other in others:
        met = np.fmax(met, _beside(other, times) - other.timeline.rtt[1].min())
    return int(met.min())
