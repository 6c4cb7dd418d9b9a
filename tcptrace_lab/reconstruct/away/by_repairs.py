"""What repairs tell where a queue that never ran empty hides every rhythm: which ACK asked for each, how long before.

At a loss it is known what had left: the order says that, and the ACKs when the loss was told of.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from tcptrace_lab.reconstruct.away.arrivals import Arrivals, Sends, put_in
from tcptrace_lab.reconstruct.away.first_repairs import first_repairs
from tcptrace_lab.reconstruct.away.numbered import behind_missing
from tcptrace_lab.reconstruct.away.rhythm import spaced
from tcptrace_lab.reconstruct.given import FEWEST_SAMPLES, MAJORITY, ODD_SHARE
from tcptrace_lab.reconstruct.timeline import Ints, Timeline


@dataclass(frozen=True, kw_only=True)
class _Repairs:
    """The first copies of what recoveries sent first, that came or, by the numbers of their host's packets, were lost.

    `asked`: the ACK that asked for each; `place`: its own among what was sent, or that of what came next behind one
    that is not put back, `row`: which arrival came then; `later`: in that case the place of the copy that came (-1).
    """

    asked: Ints
    place: Ints
    row: Ints
    later: Ints

    @classmethod
    def of(cls, timeline: Timeline, seen: Arrivals, left: Sends) -> Self:
        place, asked = first_repairs(timeline, left, np.zeros(len(left.row), dtype=bool))
        behind = _next_arrived(left, place)
        came = behind < len(left.row)
        place, asked, row = place[came], asked[came], left.row[behind[came]].astype(np.int64)
        later = np.full(len(place), -1)
        # A packet that is missing between what asked for a repair and that was the repair's first copy (RFC 6675: no
        # other hole is filled before).
        rows, places = behind_missing(left, seen)
        at = np.searchsorted(rows, np.searchsorted(seen.time_ns, timeline.ack_ns[asked], side="right"), side="right")
        is_lost = np.append(rows, len(seen.time_ns))[at] < row
        later[is_lost] = place[is_lost]
        place[is_lost], row[is_lost] = places[at[is_lost]], rows[at[is_lost]]
        return cls(asked=asked, place=place, row=row, later=later)


def with_lost_repairs(timeline: Timeline, seen: Arrivals, left: Sends) -> Sends:
    """The same with those copies put back that were lost."""
    repairs = _Repairs.of(timeline, seen, left)
    is_lost = repairs.later >= 0
    count = int(np.count_nonzero(is_lost))
    if not count:
        return left
    found = put_in(left, repairs.place[is_lost], repairs.later[is_lost])
    return replace(found, unplaced=left.unplaced - count, is_counted=left.is_counted)


def _next_arrived(left: Sends, places: Ints) -> Ints:
    """Each of these, or the next behind it that arrived (beyond all: none did)."""
    lost = np.flatnonzero(left.is_put_back)
    ends = np.append(lost[np.append(np.diff(lost) > 1, True)[: len(lost)]], len(left.row))
    found: Ints = np.where(left.row[places] < 0, ends[np.searchsorted(ends, places)] + 1, places)
    return found


def turn_by_repairs(timeline: Timeline, seen: Arrivals, left: Sends) -> int | None:
    """From what asked for a repair to the repair, usually, the queue that it met included; None: none tells it, or the
    queue ran empty.

    A sender that restarts at its losses leaves it empty for a round trip each time: what repairs here goes on sending,
    and nothing hangs on how short a turn would be without the queue.
    """
    found = spaced(timeline, seen)
    if found is None or len(found[1]) >= max(ODD_SHARE * len(found[0]), FEWEST_SAMPLES):
        return None
    repairs = _Repairs.of(timeline, seen, left)
    rows, asked_ns = repairs.row, timeline.ack_ns[repairs.asked]
    # Behind a silence a timer may have sent it.
    idle = np.append(0, np.cumsum(np.isin(np.arange(len(seen.time_ns)), found[1])))
    since = np.searchsorted(seen.time_ns, asked_ns, side="right")
    taken = (seen.time_ns[rows] - asked_ns)[(since < rows) & (idle[rows + 1] == idle[np.minimum(since, rows)])]
    return int(np.median(taken)) if len(taken) else None


def asked_when(timeline: Timeline, seen: Arrivals, left: Sends, times: Ints) -> tuple[Ints, Ints]:
    """These times, of each first repair that of the ACK that asked for it, with all before it before and all behind it
    no sooner; and those ACKs. A queue is as long at each loss: who took much longer than another was repaired twice."""
    repairs = _Repairs.of(timeline, seen, left)
    again, asked = repairs.place, repairs.asked
    taken = seen.time_ns[repairs.row] - timeline.ack_ns[asked]
    least = taken.min(initial=np.iinfo(np.int64).max, where=taken > 0)
    is_first = (again > 0) & (taken > 0) & (taken / (1 + MAJORITY) <= least)
    is_first &= asked > np.maximum.accumulate(np.append(-1, asked))[:-1]
    again, asked = again[is_first], asked[is_first]
    least, most = np.full(len(times), timeline.start_ns), np.full(len(times), np.iinfo(np.int64).max)
    least[again] = most[again] = timeline.ack_ns[asked]
    most[again - 1] = np.minimum(most[again - 1], timeline.ack_ns[asked] - 1)
    least, most = np.maximum.accumulate(least), np.minimum.accumulate(most[::-1])[::-1]
    return np.maximum.accumulate(np.clip(times, least, np.maximum(most, least))), asked
