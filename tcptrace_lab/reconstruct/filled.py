"""How long a sender filled the receiver's window, where what it had in flight is not seen: by what came at once.

No segment leaves before an ACK has opened the window to its end (RFC 9293 section 3.8.6), so none passes sooner than a
turn, to the sender and back, behind that ACK. One that takes no longer waited for nothing else, in no queue either.
Between two such, with nothing lost and none that came much later, the window stayed as full.

Errs towards less: where a queue never runs empty what fills either window comes alike, and none of it counts.
"""

from __future__ import annotations

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.flights import Offered, Passed
from tcptrace_lab.reconstruct.given import MINORITY
from tcptrace_lab.reconstruct.losses import DUP_THRESH
from tcptrace_lab.reconstruct.timeline import Ints, parts


def filled_ns(passed: Passed, offered: Offered, *, turn_ns: int, near_ns: int) -> int:
    """`turn_ns`: from the tap to the sender and back, which what an ACK lets go takes within `near_ns`."""
    edges = np.maximum.accumulate(offered.ack + offered.rwnd)
    # What begins behind a hole, or came later than the window being full explains.
    is_broken = np.zeros(len(passed.offset), dtype=bool)
    soon, opened_ns, top = list[Ints](), list[Ints](), passed.offset[:1]
    for part in parts(len(is_broken)):
        begin, end = passed.offset[part], passed.offset[part] + passed.length[part]
        is_broken[part] = begin != np.append(top, end[:-1])
        top = end[-1:]
        opened = np.minimum(_core.places(edges, end), len(edges) - 1)
        waits = passed.time_ns[part] - offered.time_ns[opened]
        # A short one takes less time on its way.
        is_soon = (waits <= turn_ns + near_ns) & (passed.length[part] >= passed.smss)
        if (waits[is_soon] < turn_ns - near_ns).any():
            # Nothing is as fast: the turn is not known.
            return 0
        is_broken[part] |= waits > (1 + MINORITY) * turn_ns
        # In a recovery what comes waits for what is missing, and duplicates let it go.
        came = np.maximum(_core.places(passed.time_ns, offered.time_ns[opened]) - 1, 0)
        held = passed.offset[came] + passed.length[came] - offered.ack[opened]
        is_broken[part] |= held >= DUP_THRESH * passed.smss
        at_once = np.flatnonzero(~is_broken[part] & is_soon)
        soon.append(at_once + part.start)
        opened_ns.append(offered.time_ns[opened[at_once]])
    if not soon:
        return 0
    times = np.concatenate(opened_ns)
    runs = np.searchsorted(np.flatnonzero(is_broken), np.concatenate(soon))
    return int(np.diff(times)[runs[1:] == runs[:-1]].sum())
