"""Which ACK released each segment, without timestamps: from the rhythm of arrivals and ACKs at the tap (rhythm.py).

A segment that met no queue follows its ACK by one turn. Where a queue stands, a retransmission tells: it left at the
third duplicate ACK (RFC 5681, RFC 6675), and all that arrives before it had left by then. Between two such anchors what
is in the network is taken to change evenly, which errs by a few percent for a window that grows by the round trip.
"""

from __future__ import annotations

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.away.arrivals import Arrivals, Sends, goes_back
from tcptrace_lab.reconstruct.away.echoes import Bounds, in_order
from tcptrace_lab.reconstruct.away.first_repairs import first_repairs
from tcptrace_lab.reconstruct.away.rhythm import IDLE_FACTOR, Rhythm
from tcptrace_lab.reconstruct.given import (
    MAJORITY,
    NEAR_SHARE,
    PAUSE_SHARE,
)
from tcptrace_lab.reconstruct.losses import DUP_THRESH
from tcptrace_lab.reconstruct.timeline import Bools, Ints, Places, Timeline, parts

# Among so many segments so many must be such: while nothing waits, every burst that an ACK releases begins with one.
AMONG = 32
FEW_TOGETHER = 4
# RFC 8985 section 6.2: a segment is lost once one that left this part of a round trip later has arrived, if sooner.
RACK_SHARE = 0.25
# A cubic from its beginning to its inflection lies at the most so much of its rise beside its chord.
MOST_BEND = 2 / (3 * 3**0.5)


def released_between(timeline: Timeline, seen: Arrivals, left: Sends, found: Rhythm) -> Bounds:
    """For each send the ACKs between which its own lies: exact at the anchors, in order between them."""
    at = seen.time_ns[np.maximum(left.row, 0)]
    at += found.near_ns - found.least_ns
    latest = _core.places(timeline.ack_ns, at, or_equal=True) - 1
    del at
    high = np.where(left.is_put_back, np.int32(-1), latest)
    sends, acks = _anchors(timeline, seen, left, found, latest)
    low = np.full(len(left.row), -1, dtype=np.int32)
    low[sends] = acks
    bounds = in_order(low, high, left)
    low, high = bounds.low, bounds.high
    # What left before an anchor had left when the ACK before the anchor's own was read.
    before = sends[sends > 0] - 1
    high[sends] = np.minimum(high[sends], acks)
    high[before] = np.minimum(high[before], acks[sends > 0] - 1)
    high = np.maximum(np.minimum.accumulate(high[::-1])[::-1], low)
    return Bounds(low=low, high=high)


def _anchors(timeline: Timeline, seen: Arrivals, left: Sends, found: Rhythm, latest: Places) -> tuple[Ints, Ints]:
    """Sends whose ACK is known, and that ACK; `latest`: the last that each can have followed."""
    free = met_no_queue(seen, left, found)
    lead = np.flatnonzero(free)
    near, at = found.near_ns, seen.time_ns[left.row[lead]] - found.turn_ns
    heard: Ints = np.searchsorted(timeline.ack_ns, at + near, side="right") - 1
    lag = at - timeline.ack_ns[np.maximum(heard, 0)]
    if found.is_clocked:
        # After a long silence the queue was empty, whatever follows: it may pass a little later than others behind an
        # ACK that none follows for most of a turn.
        paused = seen.time_ns[left.row[lead]] - seen.time_ns[left.row[lead - 1]] > PAUSE_SHARE * found.turn_ns
        # One that follows no ACK was held up on its way (a path that stood still), and says nothing.
        last = np.diff(timeline.ack_ns, append=np.iinfo(np.int64).max)[heard] > MAJORITY * found.turn_ns
        within = np.where(paused & last, max(near, NEAR_SHARE * found.turn_ns), near)
        kept = (heard >= 0) & (np.abs(lag) <= within)
        lead, heard, paused = lead[kept], heard[kept], paused[kept]
        # One that is alone among arrivals back to back followed an ACK by chance.
        first = np.searchsorted(lead, lead - AMONG // 2, side="left")
        together = np.searchsorted(lead, lead + AMONG // 2, side="right") - first >= FEW_TOGETHER
        chosen = (together & _tells_apart(timeline, heard, near)) | paused
        lead, heard = lead[chosen], heard[chosen]
    again, asked = first_repairs(timeline, left, free)
    # One that was put back had left before the next that arrived.
    kept = asked <= _next_latest(left, latest)[again]
    # What arrives when all before it has been acknowledged met an empty network, whatever made it leave.
    is_alone = into_empty(timeline, seen, left, latest, found)
    alone = np.flatnonzero(~left.is_put_back & is_alone & found.is_measured)
    reduced, marked = _reduced(timeline, seen, left, found)
    places = np.concatenate((lead, again[kept], alone, reduced))
    acks: Ints = np.concatenate((heard, asked[kept], latest[alone], marked), dtype=np.int64)
    order = np.argsort(places, kind="stable")
    places, acks = places[order], acks[order]
    # In order of leaving the ACKs come in order too: one that goes back is no anchor.
    kept = (acks >= 0) & (acks >= np.maximum.accumulate(acks))
    return places[kept], acks[kept]


def _reduced(timeline: Timeline, seen: Arrivals, left: Sends, found: Rhythm) -> tuple[Ints, Ints]:
    """The first segment behind each cut that a mark asked for, which says so (RFC 3168 section 6.1.2), and the ACK that
    echoed the mark: all before it had left by then."""
    marked_ns, reduced_ns = seen.beside.marked_ns, seen.beside.reduced_ns
    which = np.searchsorted(marked_ns, reduced_ns - found.least_ns, side="right") - 1
    # One for each mark, the first.
    which, first = np.unique(which, return_index=True)
    rows = np.searchsorted(seen.time_ns, reduced_ns[first[which >= 0]])
    which, rows = which[which >= 0][rows < len(seen.time_ns)], rows[rows < len(seen.time_ns)]
    if not len(rows):
        return rows, which
    arrived = np.flatnonzero(~left.is_put_back)
    return arrived[np.argsort(left.row[arrived])][rows], np.searchsorted(timeline.ack_ns, marked_ns[which])


def _next_latest(left: Sends, latest: Places) -> Places:
    """Of each send the last ACK that it, or what arrived next behind it, can have followed."""
    bound = np.where(left.is_put_back, np.iinfo(np.int32).max, latest)
    found: Places = np.minimum.accumulate(bound[::-1])[::-1]
    return found


def _tells_apart(timeline: Timeline, heard: Ints, near: int) -> Bools:
    """Whether the ACKs around these stand so far apart that most times lie near none of them.

    On a fast path they do not: what a queue spaces follows one ACK or another by a turn, whichever released it.
    """
    times = timeline.ack_ns
    around = (np.diff(times, prepend=times[:1]) + np.diff(times, append=times[-1:])) / 2
    found: Bools = MAJORITY * around[heard] > 2 * near
    return found


def met_no_queue(seen: Arrivals, left: Sends, found: Rhythm) -> Bools:
    """Arrivals further from the one before than the bottleneck puts them, with nothing lost between."""
    free = np.zeros(len(left.row), dtype=bool)
    for part in parts(len(free)):
        # Each with the one before.
        row = left.row[max(part.start - 1, 0) : part.stop]
        gaps = np.diff(seen.time_ns[np.maximum(row, 0)])
        free[part.stop - len(gaps) : part.stop] = (
            (row[1:] >= 0) & (row[:-1] >= 0) & (gaps > IDLE_FACTOR * found.spacing_ns)
        )
    return free


def came_at_once(timeline: Timeline, left_ns: Ints, near_ns: int) -> Bools:
    """Which of these left within so much of an ACK; none, where it is not known how much that is (0)."""
    heard = _core.places(timeline.ack_ns, left_ns + near_ns, or_equal=True) - 1
    found: Bools = (heard >= 0) & (np.abs(left_ns - timeline.ack_ns[np.maximum(heard, 0)]) <= near_ns) & (near_ns > 0)
    return found


def into_empty(timeline: Timeline, seen: Arrivals, left: Sends, acks: Places, found: Rhythm) -> Bools:
    """Whether each left into an empty network: all that had been sent before was acknowledged (`acks`: the last ACK
    heard, -1: none), but for what a receiver leaves waiting (RFC 9293 section 3.8.6.3), if that had come by then."""
    result = all_before_acked(timeline, left, acks)
    waits = np.flatnonzero(all_before_acked(timeline, left, acks, waiting=timeline.smss) & ~result)
    waits = waits[(waits > 0) & ~left.is_put_back[waits] & ~left.is_put_back[waits - 1]]
    # New data: a copy of that one is a timer's, or was asked for.
    waits = waits[left.offset[waits] >= left.end[waits - 1]]
    apart = seen.time_ns[left.row[waits]] - seen.time_ns[left.row[waits - 1]]
    result[waits[apart >= found.turn_ns]] = True
    return result


def all_before_acked(timeline: Timeline, left: Sends, acks: Places, *, waiting: int = 0) -> Bools:
    """Whether of all that had been sent before each no more than so many bytes were not acknowledged by then: by
    `acks`, the last ACK heard (-1: none)."""
    una = np.append(timeline.snd_una, timeline.first_offset)
    una += waiting
    found, top = np.empty(len(acks), dtype=bool), left.offset[:1]
    for part in parts(len(acks)):
        before = np.maximum.accumulate(np.append(top, left.end[part]))
        found[part] = before[:-1] <= una[acks[part]]
        top = before[-1:]
    return found


def between_anchors(
    timeline: Timeline, left: Sends, release: Places, open_bytes: Ints, found: Rhythm, *, marked_ns: Ints
) -> Ints:
    """By how much the flight may differ after each ACK; `open_bytes`: what may belong to other ACKs by order alone.

    A window that grows between two anchors lies between them; from the straight line a cubic one departs by 0.385 of
    the growth, one that grows by the round trip by far less. Where a whole recovery lies between them, or a cut that a
    mark asks for (`marked_ns`), anything is possible; before the first, where a slow start may end at any time, and
    behind the last segment sent, too.
    """
    # As narrow as the sends' own: a search in columns of other types would copy them.
    certain = np.flatnonzero(open_bytes == 0).astype(np.int32)
    if not len(certain):
        return open_bytes
    between = _BetweenAnchors(timeline, left, release, found, certain=certain, marked_ns=marked_ns)
    slack = open_bytes.copy()
    for part in parts(len(slack)):
        slack[part] = np.minimum(slack[part], between.most(np.arange(part.start, part.stop, dtype=np.int32)))
    return slack


class _BetweenAnchors:
    """How far the flight departs from its anchors': some ACKs at a time, as each looks at a few columns of all."""

    def __init__(
        self, timeline: Timeline, left: Sends, release: Places, found: Rhythm, *, certain: Places, marked_ns: Ints
    ) -> None:
        self._timeline, self._release, self._certain, self._found = timeline, release, certain, found
        self._marked_ns = marked_ns
        # Of so many sends the bytes, and how many went back.
        self._bytes = np.zeros(len(release) + 1, dtype=np.int64)
        np.cumsum(left.end - left.offset, out=self._bytes[1:])
        self._again = np.zeros(len(release) + 1, dtype=np.int32)
        np.cumsum(goes_back(left.offset, left.end), out=self._again[1:])

    def most(self, acks: Places) -> Ints:
        """Of each of these the most; a bound beyond all others where anything is possible."""
        timeline, certain = self._timeline, self._certain
        after = np.searchsorted(certain, acks, side="left")
        before, following = certain[np.maximum(after - 1, 0)], certain[np.minimum(after, len(certain) - 1)]
        sent, sent_then = self._sent(before), self._sent(following)
        grows = (after > 0) & (after < len(certain)) & (self._again[sent_then] == self._again[sent])
        grows &= (self._again[sent] > 0) & (sent_then < len(self._release))
        cuts = [np.searchsorted(self._marked_ns, timeline.ack_ns[each]) for each in (before, following)]
        grows &= cuts[0] == cuts[1]
        own, first, last = (self._flight(each) for each in (acks, before, following))
        even = (MOST_BEND * np.abs(last - first)).astype(np.int64)
        # Behind a recovery, which may end with a burst, anything between the two and what duplicates tell of.
        arrived = timeline.arrived
        is_mending = arrived[before] > timeline.snd_una[before]
        ends = np.maximum(np.abs(own - first), np.abs(own - last))
        even = np.where(is_mending, np.maximum(even, ends + DUP_THRESH * timeline.smss), even)
        if (DUP_THRESH - 1) * self._found.spacing_ns >= RACK_SHARE * self._found.turn_ns:
            # Before the third duplicate ACK its time may have told of the loss. Then those before released nothing, and
            # the window has grown by the segments that are taken for theirs (limited transmit, RFC 3042).
            moved = np.maximum(timeline.last_moved[following], 0)
            share = (acks - before) / np.maximum(following - before, 1)
            even += (share * (arrived[following] - arrived[moved])).astype(np.int64)
        return np.where(grows, even, np.iinfo(np.int64).max)

    def _sent(self, acks: Places) -> Ints:
        """How many had left behind each."""
        found: Ints = np.searchsorted(self._release, acks, side="right")
        return found

    def _flight(self, acks: Places) -> Ints:
        found: Ints = self._bytes[self._sent(acks)] - self._timeline.arrived[acks]
        return found
