"""Whether what held a sender back is what was written, or a buffer of its own, and no window: how its flight stands."""

from __future__ import annotations

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.given import MAJORITY, MINORITY
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.tap.segment_size import LEAST_FULL_BYTES

# A short segment is the end of what there was to send where the next leaves this much later (as part of a round trip),
# and by no ACK; an application that is caught up once in so many round trips is what holds its sender back.
LATER_SHARE = 0.05
CAUGHT_UP_ROUNDS = 4
# A window that nothing bounds grows: over so many round trips, and by more than this share, also between two quarters
# of a run. A pacer (BBR) fills the pipe once in eight round trips: its round trips are longer then by up to a quarter.
STEADY_ROUNDS = 32
STEADY_SHARE = 0.1
UNQUEUED_PERCENTILE, UNQUEUED = 97, 1.12
# Nearer to the offered window it may be that.
WITHIN_RWND = 0.7


def is_written_or_buffered(seen: Reconstruction) -> bool:
    """Whether what held its sender back may as well be its send buffer: less was outstanding than any window allowed,
    all the time, in full segments as a buffer that always has more lets through, and no pause says that it had not."""
    timeline = seen.timeline
    fresh = ~timeline.is_retransmission
    is_full = (timeline.send_end - timeline.send_offset)[fresh] >= max(timeline.smss, LEAST_FULL_BYTES)
    if not len(is_full) or float(np.mean(is_full)) < 1 - MINORITY:
        return False
    is_paused = timeline.observed.starved >= MAJORITY * seen.limits.get("application", 0.0)
    return not is_paused and stays_below(seen) and not catches_up(seen)


def is_words(seen: Reconstruction) -> bool:
    """Whether hardly a segment is full, seen from anywhere: each is all that there was to send, or else it waits for
    the rest (RFC 1122 section 4.2.3.4)."""
    sizes, counts = seen.timeline.sizes
    short = int(counts[sizes < max(seen.timeline.smss, LEAST_FULL_BYTES)].sum())
    return bool(short > (1 - MINORITY) * int(counts.sum()))


def catches_up(seen: Reconstruction) -> bool:
    """Whether all that was written had been sent, again and again: segments short of full, and nothing behind them.

    A window at work, and a pacer, send full segments as long as there is more to send; what is smaller than any path's
    is a write.
    """
    timeline = seen.timeline
    is_fresh = ~timeline.is_retransmission
    if np.count_nonzero(is_fresh) < 2 or not seen.typical_rtt_ns:
        return False
    first, last = np.argmax(is_fresh), len(is_fresh) - 1 - np.argmax(is_fresh[::-1])
    rounds = max(float(timeline.send_ns[last] - timeline.send_ns[first]) / seen.typical_rtt_ns, 1.0)
    full = max(timeline.smss, LEAST_FULL_BYTES)
    sizes, counts = timeline.sizes
    if int(counts[sizes < full].sum()) * CAUGHT_UP_ROUNDS < rounds:
        return False
    # Of the segments short of full only: most are full.
    fresh, is_short = np.flatnonzero(is_fresh), timeline.send_end - timeline.send_offset < full
    short = np.flatnonzero(is_short[fresh[:-1]])
    left, following = timeline.send_ns[fresh[short]], fresh[short + 1]
    del fresh, is_short
    known, next_ns = timeline.acks_before_send[following], timeline.send_ns[following]
    heard = np.where(known > 0, timeline.ack_ns[np.maximum(known - 1, 0)], next_ns)
    is_end = next_ns - np.maximum(left, heard) > LATER_SHARE * seen.typical_rtt_ns
    return bool(np.count_nonzero(is_end) * CAUGHT_UP_ROUNDS >= rounds)


def stays_level(seen: Reconstruction) -> bool:
    """Whether the flight neither grew nor met a loss for long, with room left in the receiver's window."""
    timeline, flight = seen.timeline, seen.flight
    if not does_not_grow(seen):
        return False
    return _core.percentile(flight, UNQUEUED_PERCENTILE) <= WITHIN_RWND * _core.median(timeline.rwnd)


def does_not_grow(seen: Reconstruction) -> bool:
    """Whether the flight did not grow for long, though nothing was lost: no window that grows held it."""
    timeline = seen.timeline
    if seen.episodes or len(timeline.rtt[1]) < STEADY_ROUNDS:
        return False
    if float(timeline.ack_ns[-1] - timeline.ack_ns[0]) < STEADY_ROUNDS * seen.typical_rtt_ns:
        return False
    quarters = np.array_split(seen.flight, 4)
    return float(np.median(quarters[3])) <= (1 + STEADY_SHARE) * float(np.median(quarters[1]))


def stays_below(seen: Reconstruction) -> bool:
    """Whether it met no queue either: less was written than any window allowed."""
    _, samples = seen.timeline.rtt
    return stays_level(seen) and bool(_core.percentile(samples, UNQUEUED_PERCENTILE) <= UNQUEUED * samples.min())
