"""Which ACK released each segment, without timestamps: from the rhythm of arrivals and ACKs at the tap.

A segment that reaches the bottleneck when nothing waits there passes the tap one turn (tap to sender and back) after
the ACK that released it. Arrivals further apart than the bottleneck's own spacing show such moments, and the turn
itself is the lag at which they follow ACKs. Where a queue stands, a retransmission tells: it left at the third
duplicate ACK (RFC 5681, RFC 6675), and all that arrives before it had left by then. Between two such anchors what is
in the network is taken to change evenly, which errs by a few percent for a window that grows by the round trip.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.away.arrivals import NOTHING, Arrivals, Sends, goes_back, reached
from tcptrace_lab.reconstruct.away.echoes import Bounds, in_order
from tcptrace_lab.reconstruct.given import (
    FEWEST_ALIKE,
    FEWEST_SAMPLES,
    FULL_SHARE,
    MAJORITY,
    MINORITY,
    NEAR_SHARE,
    PAUSE_SHARE,
)
from tcptrace_lab.reconstruct.losses import DUP_THRESH
from tcptrace_lab.reconstruct.timeline import Bools, Ints, Places, Timeline, parts, rows_from

# Arrivals this much further apart than the bottleneck puts them had nothing before them in its queue.
IDLE_FACTOR = 1.5
# The bottleneck's spacing: the lower quartile of all (pairs released by one delayed ACK stand one behind the other).
SPACING_PERCENTILE = 25
# A segment that an ACK released passes within this of one turn after it: a host's own time, a path's jitter.
NEAR_NS = 200_000
# It is no nearer than most captures' stamps are fine.
STAMP_NS = 1_000
# Among so many segments so many must be such: while nothing waits, every burst that an ACK releases begins with one.
AMONG = 32
FEW_TOGETHER = 4
# More segments are not looked at; the turn is at most this long where no handshake tells.
MOST_LOOKED_AT = 2000
LONGEST_TURN_NS = 1_000_000_000
# RFC 8985 section 6.2: a segment is lost once one that left this part of a round trip later has arrived, if sooner.
RACK_SHARE = 0.25
# A cubic from its beginning to its inflection lies at the most so much of its rise beside its chord.
MOST_BEND = 2 / (3 * 3**0.5)


@dataclass(frozen=True, kw_only=True)
class Rhythm:
    """The turn, the bottleneck's spacing of full segments, and whether ACKs release segments (not an application).

    `is_measured`: the turn is that of full segments, not of a handshake's small packets. `near_ns`: within this of a
    turn after an ACK passes what it released. `least_ns`: none is known to have passed sooner: behind the packets of
    others most come later than one turn. `is_written`: the turn may be from one write to the next.
    """

    turn_ns: int
    spacing_ns: int
    is_clocked: bool
    near_ns: int
    is_measured: bool = False
    least_ns: int = 0
    is_written: bool = False


def rhythm(timeline: Timeline, seen: Arrivals, hint_ns: int | None, *, resolution_ns: int = 1) -> Rhythm | None:
    """`hint_ns`: the turn in the handshake, whose packets are small; `resolution_ns`: the clock's. None: no rhythm is
    found."""
    found = spaced(timeline, seen)
    if found is None:
        return None
    full, leads, spacing, are_together = found
    # A lag is the difference of two stamps: within what they tell apart it may be any.
    near = max(_near(spacing), resolution_ns)
    # A full segment takes longer than the handshake's packets by the time in which the bottleneck sends it. Where some
    # share a stamp a tick does not tell that, but that it is less.
    longer = 0 if are_together and spacing <= resolution_ns else spacing
    if len(leads) < FEWEST_SAMPLES:
        # The queue never ran empty: only the order of what was sent, and the losses, can be told.
        if hint_ns is None:
            return None
        return Rhythm(turn_ns=hint_ns, spacing_ns=spacing, is_clocked=True, near_ns=near)
    sampled = leads[:: -(-len(leads) // MOST_LOOKED_AT)]
    times = seen.time_ns[sampled]
    low, high = (near, LONGEST_TURN_NS) if hint_ns is None else (hint_ns - near, hint_ns + 4 * longer + near)
    first = np.searchsorted(timeline.ack_ns, times - high, side="left")
    behind_each = np.searchsorted(timeline.ack_ns, times - low, side="right") - first
    rows = rows_from(first, behind_each)
    lags = np.repeat(times, behind_each) - timeline.ack_ns[rows]
    if not len(lags):
        return None
    # The lag that most of them share: bins of half the tolerance, two together.
    step = max(near // 2, 1)
    bins = np.bincount(((lags - low) // step).astype(np.int64))
    pairs = bins + np.append(bins[1:], 0)
    begin = low + step * int(np.argmax(pairs))
    if hint_ns is not None:
        # ACKs that are spaced as the data are give lags a spacing apart as often.
        begins = low + step * np.flatnonzero(pairs >= FULL_SHARE * pairs.max())
        begin = int(begins[np.argmin(np.abs(begins + step - hint_ns - longer))])
    chosen = lags[(lags >= begin) & (lags < begin + near)]
    share = len(chosen) / len(times)
    # Where ACKs release them, most segments that met no queue follow one by a turn.
    if share < MAJORITY:
        # A few among many were held up on their way (a path that stood still): the queue never ran empty otherwise.
        is_busy = len(leads) < MINORITY * len(full)
        if hint_ns is None:
            return None
        # More than that, each in order and later than an ACK of all before would have released it, were written late.
        last = np.searchsorted(timeline.ack_ns, times, side="left") - 1
        late = (last >= 0) & (times - timeline.ack_ns[np.maximum(last, 0)] > (1 + MAJORITY) * hint_ns)
        late &= timeline.snd_una[np.maximum(last, 0)] == seen.offset[sampled]
        is_busy = is_busy and int(np.count_nonzero(late)) < FEWEST_ALIKE
        return Rhythm(turn_ns=hint_ns, spacing_ns=spacing, is_clocked=is_busy, near_ns=near)
    turn = int(np.median(chosen))
    return Rhythm(
        turn_ns=turn,
        spacing_ns=spacing,
        is_clocked=True,
        near_ns=_measured(timeline, times - turn, near),
        is_measured=True,
        is_written=_is_written(timeline, seen, leads, turn),
    )


def _is_written(timeline: Timeline, seen: Arrivals, leads: Ints, turn_ns: int) -> bool:
    """Whether such a lag, again and again, is an application's: from when all was acknowledged, up to the short segment
    with which a write ends, to the next write."""
    before, times = leads - 1, seen.time_ns[leads]
    last = np.maximum(np.searchsorted(timeline.ack_ns, times, side="left") - 1, 0)
    is_write = (seen.end[before] == seen.offset[leads]) & (seen.end[before] - seen.offset[before] < timeline.smss)
    is_idle = is_write & (timeline.snd_una[last] >= seen.offset[leads])
    is_turn = np.abs(times - timeline.ack_ns[last] - turn_ns) <= NEAR_SHARE * turn_ns
    return int(np.count_nonzero(is_idle & is_turn)) >= FEWEST_ALIKE


def with_least(found: Rhythm, timeline: Timeline, seen: Arrivals, hint_ns: int | None) -> Rhythm:
    """The same with the least turn: the first segment followed the handshake."""
    return _taken(replace(found, least_ns=found.turn_ns), seen.time_ns[:1] - timeline.ack_ns[:1], hint_ns)


def with_repairs(found: Rhythm, timeline: Timeline, seen: Arrivals, hint_ns: int | None, left: Sends) -> Rhythm:
    """The same where what was sent again followed what asked for it sooner. With SACK a sender may not have waited to
    be asked (RFC 8985)."""
    if timeline.has_sack:
        return found
    again, asked = repairs_that_came(timeline, left)
    return _taken(found, seen.time_ns[left.row[again]] - timeline.ack_ns[asked], hint_ns)


def _taken(found: Rhythm, taken: Ints, hint_ns: int | None) -> Rhythm:
    """A turn is no longer than what took one, if that came no sooner than a handshake's packets."""
    if hint_ns is None or found.is_written:
        return found
    return replace(found, least_ns=int(taken.min(initial=found.least_ns, where=taken >= hint_ns)))


def spaced(timeline: Timeline, seen: Arrivals) -> tuple[Ints, Ints, int, bool] | None:
    """The full segments, those of them that came later than the bottleneck's spacing, and that, and whether some share
    a stamp; None: they are too few."""
    full = np.flatnonzero(seen.end - seen.offset >= timeline.smss)
    gaps = np.diff(seen.time_ns)
    behind = gaps[full[full > 0] - 1]
    are_together = bool(np.count_nonzero(behind == 0) > MINORITY * len(behind))
    behind = behind[behind > 0]
    if len(behind) < FEWEST_SAMPLES:
        return None
    spacing = int(_core.percentile(behind, SPACING_PERCENTILE))
    leads = np.flatnonzero(np.concatenate(([False], gaps > IDLE_FACTOR * spacing)))
    return full, leads[np.isin(leads, full)], spacing, are_together


def _measured(timeline: Timeline, left_ns: Ints, near: int) -> int:
    """How far from an ACK nearly all leads left (`left_ns`), up to `near`: on a path without jitter far less."""
    after = np.searchsorted(timeline.ack_ns, left_ns)
    last = len(timeline.ack_ns) - 1
    off = np.minimum(
        np.abs(left_ns - timeline.ack_ns[np.clip(after - 1, 0, last)]),
        np.abs(left_ns - timeline.ack_ns[np.minimum(after, last)]),
    )
    return min(max(int(2 * _core.percentile(off, 100 * (1 - MINORITY))), STAMP_NS), near)


def is_spaced(timeline: Timeline) -> bool:
    """Whether no two full segments came closer than the ACKs report them: as a bottleneck before the tap puts them.

    A sender's own leave together, at its start, in a slow start, and two for the ACK that opens its window.
    """
    lengths = timeline.send_end - timeline.send_offset
    is_full = lengths == timeline.smss
    gaps = np.diff(timeline.send_ns)[is_full[1:] & is_full[:-1]]
    heard = np.flatnonzero(timeline.newly_acked > 0)
    if len(gaps) < FEWEST_SAMPLES or len(heard) < FEWEST_SAMPLES + FEWEST_ALIKE or lengths.max() > timeline.smss:
        return False
    times, una = timeline.ack_ns[heard], timeline.snd_una[heard]
    reported = (una[FEWEST_ALIKE:] - una[:-FEWEST_ALIKE]) / timeline.smss
    apart = np.percentile((times[FEWEST_ALIKE:] - times[:-FEWEST_ALIKE]) / reported, 100 * MINORITY)
    return bool(gaps.min() > FULL_SHARE * apart > 0)


def is_behind_bottleneck(timeline: Timeline, hint_ns: int | None) -> bool:
    """Whether a tap that the handshake puts at the sender has the bottleneck's queue before it, without timestamps.

    What it sees is spaced, and where nothing waits it comes one turn after an ACK: an application's pace does not.
    """
    if not is_spaced(timeline):
        return False
    seen = Arrivals(
        time_ns=timeline.send_ns,
        offset=timeline.send_offset,
        end=timeline.send_end,
        ip_id=np.zeros(len(timeline.send_ns), dtype=np.int32),
        stamp=None,
        echo=None,
        beside=NOTHING,
    )
    found = rhythm(timeline, seen, hint_ns)
    return found is not None and found.is_clocked and found.is_measured


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
    alone = np.flatnonzero(~left.is_put_back & all_before_acked(timeline, left, latest) & found.is_measured)
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


def repairs_that_came(timeline: Timeline, left: Sends) -> tuple[Ints, Ints]:
    """The first retransmissions of recoveries that came, and the ACKs that asked for them."""
    again, asked = first_repairs(timeline, left, np.zeros(len(left.row), dtype=bool))
    came = left.row[again] >= 0
    return again[came], asked[came]


def all_before_acked(timeline: Timeline, left: Sends, acks: Places) -> Bools:
    """Whether all that had been sent before each was acknowledged by then: `acks`, the last ACK heard (-1: none)."""
    una = np.append(timeline.snd_una, timeline.first_offset)
    found, top = np.empty(len(acks), dtype=bool), left.offset[:1]
    for part in parts(len(acks)):
        before = np.maximum.accumulate(np.append(top, left.end[part]))
        found[part] = before[:-1] <= una[acks[part]]
        top = before[-1:]
    return found


def first_repairs(timeline: Timeline, left: Sends, free: Bools) -> tuple[Ints, Ints]:
    """The first retransmission of each recovery, and the ACK that asked for it: the third that tells of data above."""
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
        if number < len(told) and una[told[number]] <= offset:
            places.append(place)
            acks.append(int(told[number]))
    return np.array(places, dtype=np.int64), np.array(acks, dtype=np.int64)


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


def _near(spacing_ns: int) -> int:
    return max(NEAR_NS, int(NEAR_SHARE * spacing_ns))
