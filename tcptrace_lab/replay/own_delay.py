"""How much longer one connection's way is than that of another over the same queue.

The least round trips tell it where both have met the queue empty. One that begins over a standing queue never does:
there the two are compared while they meet the same queue. Errs by a part of a packet's service, the blur of each.
"""

from __future__ import annotations

import numpy as np

from tcptrace_lab.reconstruct.timeline import Floats, Ints, Timeline

# Between two round trips of the other further apart than this share of the least one, the queue may have been any;
# where windows leave in turns and nothing is so near, a whole one has to do.
NEAR_SHARES = (0.25, 1.0)
# Of the comparisons those over the shortest queues: the fewest packets whose services and waiting ACKs blur them.
SHORTEST_SHARE = 0.25
# Fewer agree by chance.
LEAST_SAMPLES = 30


def own_delay_s(own: Timeline, other: Timeline) -> float | None:
    """Seconds beyond the other's way; None: they were never over the queue together."""
    sent, samples = _by_sending(own)
    beside, others = _by_sending(other)
    if not len(sent) or len(beside) < 2:
        return None
    behind = np.clip(np.searchsorted(beside, sent), 1, len(beside) - 1)
    apart = beside[behind] - beside[behind - 1]
    beside_it = (sent >= beside[0]) & (sent <= beside[-1])
    near = (beside_it & (apart <= share * others.min()) for share in NEAR_SHARES)
    is_within = next((found for found in near if np.count_nonzero(found) >= LEAST_SAMPLES), None)
    if is_within is None:
        return None
    mine, its = samples[is_within], np.interp(sent[is_within], beside, others)
    shortest = np.argsort(mine + its)[: max(int(SHORTEST_SHARE * len(mine)), 1)]
    return float(np.median((mine - its)[shortest])) / 1e9


def _by_sending(timeline: Timeline) -> tuple[Ints, Floats]:
    """When the segments of the round-trip samples left, in order, and the samples."""
    rows, samples = timeline.rtt
    sent = timeline.ack_ns[rows] - samples
    order = np.argsort(sent, kind="stable")
    return sent[order], samples[order].astype(np.float64)
