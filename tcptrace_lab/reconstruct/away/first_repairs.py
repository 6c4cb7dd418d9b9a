"""What was sent again away from the sender, and the ACK that asked for it (RFC 5681, RFC 6675): the third that tells of
data above a hole."""

from __future__ import annotations

import numpy as np

from tcptrace_lab.reconstruct.away.arrivals import Sends, reached
from tcptrace_lab.reconstruct.losses import DUP_THRESH
from tcptrace_lab.reconstruct.timeline import Bools, Ints, Timeline


def repairs_that_came(timeline: Timeline, left: Sends) -> tuple[Ints, Ints]:
    """The first retransmissions of recoveries that came, and the ACKs that asked for them."""
    again, asked = first_repairs(timeline, left, np.zeros(len(left.row), dtype=bool))
    came = left.row[again] >= 0
    return again[came], asked[came]


def first_repairs(timeline: Timeline, left: Sends, free: Bools) -> tuple[Ints, Ints]:
    """The first retransmission of each recovery, and the ACK that asked for it: the third that tells of data above.

    Where the first ACK of a capture tells of as much, one before the capture did too: which asked is not known.
    """
    top = reached(left.offset, left.end)
    again = np.flatnonzero((left.offset < top) & ~free)
    una, above = timeline.snd_una, timeline.delivered - timeline.snd_una
    told = np.flatnonzero(above >= DUP_THRESH * timeline.smss)
    places: list[int] = []
    acks: list[int] = []
    recover = np.iinfo(np.int64).min
    for place, offset in zip(again.tolist(), left.offset[again].tolist(), strict=True):
        if offset < recover:
            continue
        recover = int(top[place])
        first = int(np.searchsorted(una, offset, side="left"))
        number = int(np.searchsorted(told, first, side="left"))
        if number < len(told) and told[number] > 0 and una[told[number]] <= offset:
            places.append(place)
            acks.append(int(told[number]))
    return np.array(places, dtype=np.int64), np.array(acks, dtype=np.int64)
