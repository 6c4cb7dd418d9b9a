"""Losses of a managed queue (CoDel, RFC 8289): not where the queue is longest, but where it was not short for long.

A full buffer loses at one length and carries nothing longer; CoDel carries the burst of a slow start, loses its first
packet one interval after waits rose above the target, and from then on at a fraction of that queue. Errs towards
"not managed": another target or interval than the RFC's, a connection joined midway, a first loss that the tap missed.
"""

from __future__ import annotations

import numpy as np

from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Floats

# RFC 8289 sections 4.2 and 4.3, and what CoDel and FQ-CoDel ship with.
TARGET_NS = 5_000_000
INTERVAL_NS = 100_000_000
# Waits are known where a segment was answered, of delayed ACKs every second one: so many packets' service after the
# interval the first loss comes at the latest.
NOTICED_PACKETS = 5.0
NOTICED_NS = 3_000_000
# A stall or a host's delay moves a wait across the target: so much earlier than an interval a loss may seem to come.
EARLY_NS = 5_000_000
# The first loss met a queue so much longer than the usual one did: a drop-tail buffer of the usual length carries none.
LONGER = 1.5
LONGER_PACKETS = 2.0
# A queue that stands above the target for ever loses nothing by CoDel's law: it drains within some intervals.
MOST_INTERVALS = 10.0
# Fewer agree by chance.
LEAST_LOSSES = 3
# The others may be a lossy link's.
OWN_SHARE = 0.8


def losses_of_codel(seen: Reconstruction, pps: float | None) -> tuple[bool, ...]:
    """Of each loss event, whether CoDel's law lost it; all false where the events together do not show that law."""
    nothing = (False,) * len(seen.episodes)
    if pps is None or len(seen.episodes) < LEAST_LOSSES or not len(seen.timeline.rtt[0]):
        return nothing
    waits, above = _at_losses(seen)
    known = ~np.isnan(above)
    if np.count_nonzero(known) < LEAST_LOSSES or not known[0]:
        return nothing
    others = np.flatnonzero(known)[1:]
    usual = float(np.median(waits[others]))
    carried = waits[0] >= max(LONGER * usual, usual + LONGER_PACKETS / pps * 1e9)
    least = INTERVAL_NS - EARLY_NS
    comes_first = least <= above[0] <= INTERVAL_NS + NOTICED_NS + NOTICED_PACKETS / pps * 1e9
    own = above >= least
    drains = float(np.median(above[others])) <= MOST_INTERVALS * INTERVAL_NS
    if not (carried and comes_first and drains) or np.mean(own[others]) < OWN_SHARE:
        return nothing
    return tuple(own.tolist())


def _at_losses(seen: Reconstruction) -> tuple[Floats, Floats]:
    """Of each loss event: the wait of the segment sent just before the lost one, and for how long waits had been above
    the target when the lost one's turn came; NaN where that is not known."""
    rows, samples = seen.timeline.rtt
    sent = seen.timeline.ack_ns[rows] - samples
    waits = samples - samples.min()
    turn = sent + waits
    short = np.flatnonzero(waits < TARGET_NS)
    met, above = np.full(len(seen.episodes), np.nan), np.full(len(seen.episodes), np.nan)
    for number, episode in enumerate(seen.episodes):
        before = int(np.searchsorted(sent, episode.lost_sent_ns, side="right"))
        last = int(np.searchsorted(short, before)) - 1
        if before and last >= 0:
            met[number] = waits[before - 1]
            above[number] = episode.lost_sent_ns + waits[before - 1] - turn[short[last]]
    return met, above
