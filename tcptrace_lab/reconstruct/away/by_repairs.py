"""What repairs tell where a queue that never ran empty hides every rhythm: which ACK asked for each, how long before.

At a loss it is known what had left: the order says that, and the ACKs when the loss was told of.
"""

from __future__ import annotations

import numpy as np

from tcptrace_lab.reconstruct.away.arrivals import Arrivals, Sends
from tcptrace_lab.reconstruct.away.first_repairs import repairs_that_came
from tcptrace_lab.reconstruct.away.rhythm import spaced
from tcptrace_lab.reconstruct.given import FEWEST_SAMPLES, MAJORITY, ODD_SHARE
from tcptrace_lab.reconstruct.timeline import Ints, Timeline


def turn_by_repairs(timeline: Timeline, seen: Arrivals, left: Sends) -> int | None:
    """From what asked for a repair to the repair, usually, the queue that it met included; None: none tells it, or the
    queue ran empty.

    A sender that restarts at its losses leaves it empty for a round trip each time: what repairs here goes on sending,
    and nothing hangs on how short a turn would be without the queue.
    """
    found = spaced(timeline, seen)
    if found is None or len(found[1]) >= max(ODD_SHARE * len(found[0]), FEWEST_SAMPLES):
        return None
    again, asked = repairs_that_came(timeline, left)
    rows, asked_ns = left.row[again], timeline.ack_ns[asked]
    # Behind a silence a timer may have sent it.
    idle = np.append(0, np.cumsum(np.isin(np.arange(len(seen.time_ns)), found[1])))
    since = np.searchsorted(seen.time_ns, asked_ns, side="right")
    taken = (seen.time_ns[rows] - asked_ns)[(since < rows) & (idle[rows + 1] == idle[np.minimum(since, rows)])]
    return int(np.median(taken)) if len(taken) else None


def asked_when(timeline: Timeline, seen: Arrivals, left: Sends, times: Ints) -> tuple[Ints, Ints]:
    """These times, of each first repair that of the ACK that asked for it, with all before it before and all behind it
    no sooner; and those ACKs. A queue is as long at each loss: who took much longer than another was repaired twice."""
    again, asked = repairs_that_came(timeline, left)
    taken = seen.time_ns[left.row[again]] - timeline.ack_ns[asked]
    least = taken.min(initial=np.iinfo(np.int64).max, where=taken > 0)
    is_first = (again > 0) & (taken > 0) & (taken / (1 + MAJORITY) <= least)
    is_first &= asked > np.maximum.accumulate(np.append(-1, asked))[:-1]
    again, asked = again[is_first], asked[is_first]
    least, most = np.full(len(times), timeline.start_ns), np.full(len(times), np.iinfo(np.int64).max)
    least[again] = most[again] = timeline.ack_ns[asked]
    most[again - 1] = np.minimum(most[again - 1], timeline.ack_ns[asked] - 1)
    least, most = np.maximum.accumulate(least), np.minimum.accumulate(most[::-1])[::-1]
    return np.maximum.accumulate(np.clip(times, least, np.maximum(most, least))), asked
