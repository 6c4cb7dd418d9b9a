"""Losses that met no full buffer, as the numbers of the packets that were lost: the same ones are lost again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tcptrace_lab.classify.path.causes import causes, with_causes
from tcptrace_lab.classify.verdict import Verdict
from tcptrace_lab.reconstruct.timeline import Ints, Timeline

# No host sends more at once (Linux's BIG TCP: 512 kB): what is longer is a gap that a broken sequence number claims.
MOST_AT_ONCE = 1000


def losses_by_number(verdicts: Sequence[Verdict], *, has_buffer: bool) -> tuple[int, ...]:
    """Lost data packets, by number from 1 among those that the node served; with a buffer those that it did not drop.

    Errs by a packet where several connections sent at one instant.
    """
    lost: list[int] = []
    overflowed: list[int] = []
    for verdict, before in zip(verdicts, _before([verdict.seen.timeline for verdict in verdicts]), strict=True):
        timeline = verdict.seen.timeline
        table = with_causes(verdict.seen, causes(verdict.seen, verdict.path, verdict.who))
        table = table[~table["spurious"].astype(bool)]
        columns = (table[name].tolist() for name in ("time_ns", "offset", "length", "cause"))
        for time_ns, offset, length, cause in zip(*columns, strict=True):
            at = _sent_at(timeline, time_ns, offset)
            first = int(before[at]) + max(offset - int(timeline.send_offset[at]), 0) // timeline.smss + 1
            # Where the queue is known, what speaks for nothing else will overflow it, or be CoDel's, again.
            of_kind = overflowed if has_buffer and cause != "random" else lost
            of_kind += range(first, first + min(max(round(length / timeline.smss), 1), MOST_AT_ONCE))
    numbers = np.unique(np.array(lost, dtype=np.int64))
    refused = np.searchsorted(np.unique(np.array(overflowed, dtype=np.int64)), numbers, side="left")
    return tuple(int(number) for number in np.unique(np.maximum(numbers - refused, 1)))


def packets(timeline: Timeline) -> Ints:
    """Packets on the wire of each send: a super-segment is as many as it is cut into."""
    found: Ints = np.minimum(-(-(timeline.send_end - timeline.send_offset) // timeline.smss), MOST_AT_ONCE)
    return found


def _before(timelines: Sequence[Timeline]) -> list[Ints]:
    """Of each sender's sends, how many packets of all senders had left before."""
    order = np.argsort(np.concatenate([timeline.send_ns for timeline in timelines]), kind="stable")
    sent = np.concatenate([packets(timeline) for timeline in timelines])
    before = np.empty_like(sent)
    before[order] = np.cumsum(sent[order]) - sent[order]
    return np.split(before, np.cumsum([len(timeline.send_ns) for timeline in timelines])[:-1])


def _sent_at(timeline: Timeline, time_ns: int, offset: int) -> int:
    """Which send was lost: of a burst at one instant the one that holds it."""
    low, high = (int(place) for place in np.searchsorted(timeline.send_ns, (time_ns, time_ns + 1)))
    if high == low:
        return max(low - 1, 0)
    holds = (timeline.send_offset[low:high] <= offset) & (offset < timeline.send_end[low:high])
    return low + int(np.argmax(holds))
