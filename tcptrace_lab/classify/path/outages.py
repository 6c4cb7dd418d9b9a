"""Losses of a path that stood still: all that was sent for a while, which no full buffer loses.

A bottleneck goes on to send while it is full: each place that comes free takes in the next packet (drop tail). Errs
towards "no full buffer" where other flows' packets take every one of them.
"""

from __future__ import annotations

import numpy as np

from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Bools

# While so many packets leave a full buffer, one of as many of this sender's comes in: all are refused by chance in one
# of 65 000 cases where others' take every second place.
LET_IN_PACKETS = 16


def lost_in_a_row(seen: Reconstruction, pps: float) -> Bools:
    """Of each loss event: whether so much was lost from its first segment on, none between, and left over such a time.

    When what was put back left is not seen: then whether it was the end of a flight, behind which a timer restarted.
    """
    timeline, found = seen.timeline, np.zeros(len(seen.episodes), dtype=bool)
    rows = timeline.observed.lost()
    kept = np.flatnonzero(~rows["spurious"])
    order = kept[np.lexsort((rows["offset"][kept], rows["event"][kept]))]
    event, offset, sent_ns = (rows[name][order].astype(np.int64) for name in ("event", "offset", "time_ns"))
    if not len(event):
        return found
    end = offset + rows["length"][order]
    # Behind what arrived, or was sent before it, begins another run.
    is_first = np.diff(event, prepend=-1) > 0
    goes_on = ~is_first & (offset == np.roll(end, 1)) & (sent_ns >= np.roll(sent_ns, 1))
    firsts = np.flatnonzero(~goes_on)
    lasts = np.append(firsts[1:], len(event)) - 1
    many = (end[lasts] - offset[firsts]) / timeline.smss >= LET_IN_PACKETS
    if len(timeline.fate):
        is_still = np.array([each.restarts for each in seen.episodes], dtype=bool)[event[firsts]]
    else:
        is_still = (sent_ns[lasts] - sent_ns[firsts]) * pps / 1e9 >= LET_IN_PACKETS
    found[event[firsts[is_first[firsts] & many & is_still]]] = True
    return found
