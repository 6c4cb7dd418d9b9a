"""Bursts behind ACKs that released nothing: of an application that writes, or of a host that read those ACKs late."""

from __future__ import annotations

import numpy as np

from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Bools

# RFC 5681 section 3.1: in slow start an ACK lets go what it acknowledges, and as much again.
MOST_RELEASED = 2


def before_bursts(seen: Reconstruction) -> Bools:
    """The ACKs behind which it is not told whether the window had room: they released nothing, and behind the last of
    them left a burst of more than that one lets go, and than a super-segment (offload) waits for.

    A host that stood still reads some ACKs at once; an application's write comes behind an ACK by chance. Behind a hole
    an ACK lets go something else than it acknowledges.
    """
    timeline = seen.timeline
    found = np.zeros(len(timeline.ack_ns), dtype=bool)
    if not len(found) or not len(timeline.send_ns):
        return found
    behind = timeline.sends_before_next_ack
    top = np.append(timeline.first_offset, timeline.snd_max)[behind]
    released = np.diff(top, prepend=timeline.first_offset)
    largest = int(timeline.sizes[0].max())
    is_silent = (released <= 0) & (timeline.newly_acked > 0) & (timeline.sacked == 0)
    is_burst = released > MOST_RELEASED * timeline.newly_acked + largest
    is_burst &= (timeline.newly_acked > 0) & np.append(False, is_silent[:-1])
    # The silent ones in a row up to each burst: those whose next that is not silent is a burst.
    others = np.flatnonzero(~is_silent)
    following = np.searchsorted(others, np.arange(len(found)))
    has_next = is_silent & (following < len(others))
    found[has_next] = is_burst[others[following[has_next]]]
    # What a burst leaves is as little known as what follows.
    found[:-1] |= is_burst[:-1] & found[1:]
    return found
