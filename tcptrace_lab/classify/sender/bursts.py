"""Bursts behind ACKs that released nothing: of an application that writes, or of a host that read those ACKs late."""

from __future__ import annotations

import numpy as np

from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Ints, parts, rows_from

# RFC 5681 section 3.1: in slow start an ACK lets go what it acknowledges, and as much again.
MOST_RELEASED = 2


def before_bursts(seen: Reconstruction) -> Ints:
    """The ACKs behind which it is not told whether the window had room: they released nothing, and behind the last of
    them left a burst of more than that one lets go, and than a super-segment (offload) waits for.

    A host that stood still reads some ACKs at once; an application's write comes behind an ACK by chance. Behind a hole
    an ACK lets go something else than it acknowledges. What a burst leaves is as little known where another follows.
    """
    timeline = seen.timeline
    acks = len(timeline.ack_ns) if len(timeline.send_ns) else 0
    is_silent, is_burst = np.zeros(acks, dtype=bool), np.zeros(acks, dtype=bool)
    largest, before = int(timeline.sizes[0].max(initial=0)), timeline.first_offset
    for part in parts(acks):
        sent, newly_acked = timeline.sends_before_next_ack[part], timeline.newly_acked[part]
        top = np.where(sent > 0, timeline.snd_max[np.maximum(sent, 1) - 1], timeline.first_offset)
        released = np.diff(top, prepend=before)
        before = int(top[-1])
        is_silent[part] = (released <= 0) & (newly_acked > 0) & (timeline.sacked[part] == 0)
        is_burst[part] = (released > MOST_RELEASED * newly_acked + largest) & (newly_acked > 0)
    bursts = np.flatnonzero(is_burst[1:] & is_silent[:-1]) + 1
    first_silent = np.flatnonzero(np.diff(is_silent.view(np.int8), prepend=np.int8(0)) > 0)
    begins = first_silent[np.searchsorted(first_silent, bursts) - 1]
    return np.concatenate((rows_from(begins, bursts - begins), bursts[np.isin(bursts + 1, begins)]))
