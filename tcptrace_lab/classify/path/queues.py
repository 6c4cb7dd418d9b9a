"""The queue in packets that the segments sent around each loss had met, by how much longer their round trips were.

One stall of the path or one late ACK makes a round trip long without a queue: what asks these weighs several.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.path.outages import lost_in_a_row
from tcptrace_lab.reconstruct.estimate import Estimate
from tcptrace_lab.reconstruct.given import BLUR_SEGMENTS, DELAYED_ACK_SEGMENTS, FULL_SHARE, MAJORITY, MINORITY
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Bools, Floats, Ints, Places, rows_from
from tcptrace_lab.reconstruct.windows import RWND, limited_at

# Queue lengths met at losses that lie this close together are one buffer's: packets, or share of it. Half of a queue of
# few packets: any two lengths of such a queue lie within three packets.
SPREAD_SHARE = 0.2
# Longest: met by the top 2 % of the segments. A stall delays a round trip's segments, more than that of a short run:
# where several losses agree, the top tenth may be longer than they say.
LONGEST_PERCENTILE = 98
LONGEST_BUT_STALLS_PERCENTILE = 100 * (1 - MINORITY)
# A line before the bottleneck, the sender's own or the first of its network, is at least so many times as fast: what a
# slow start sends (two segments for each acknowledged) passes it, and the rest of a burst waits there first.
FASTER_FACTOR = 2.0
# Fewer samples of an empty queue show no jitter: the longest of them is their 98th percentile.
FEWEST_CALM = 50
EVERY = slice(None)


def queues(seen: Reconstruction, pps: float | None, standing_ns: int) -> tuple[tuple[float, ...], Bools, Floats]:
    """The queue in packets met by the segment sent just before each first lost one; and that of every sample.

    Between them which of the former no window of the receiver's kept at that length: those may have been lost
    elsewhere, and where most were, or met another queue than the others, so may all have been. `standing_ns`: the queue
    at the least round trip.
    """
    rows, samples = seen.timeline.rtt
    if pps is None or not len(samples):
        nothing = (float("nan"),) * len(seen.episodes)
        return nothing, np.zeros(len(nothing), dtype=bool), np.zeros(0)
    sent = seen.timeline.ack_ns[rows] - samples
    queue = (samples - samples.min() + standing_ns) * pps / 1e9
    is_queue = _grows(seen, queue)
    lost_ns = seen.lost_sent_ns
    # The round trip before the loss: the last segments that still got in.
    uptos = np.searchsorted(sent, lost_ns, side="right")
    sinces = np.searchsorted(sent, lost_ns - samples.min() // 4, side="left")
    knowns = np.searchsorted(seen.timeline.ack_ns, lost_ns, side="right")
    free = (knowns == 0) | (limited_at(seen.timeline, np.maximum(knowns - 1, 0)) != RWND)
    ahead = _ahead_within(seen)[:, None]
    near = uptos[:, None] - np.arange(1, 4)
    # Ahead of a packet of a super-segment is the rest of that, and of what was met before it some had left again.
    gone = (lost_ns[:, None] - sent[near]) * pps / 1e9
    waited = np.where(ahead, np.maximum(queue[near] - gone, 0.0) + ahead, queue[near])
    met = np.where((near >= sinces[:, None]) & is_queue[near], waited, -np.inf).max(axis=1)
    found = np.where(np.isfinite(met), met, np.nan)
    held, others = found[~free], found[free]
    middle = _core.median(others) if len(others) and not np.isnan(others).any() else float("nan")
    if len(held) and not (len(held) <= len(others) and np.all(np.abs(held - middle) <= spread_of(middle))):
        return (float("nan"),) * len(found), np.zeros(len(found), dtype=bool), queue
    # What the path lost while it stood still tells of no buffer.
    elsewhere = lost_in_a_row(seen, pps)
    return tuple(np.where(elsewhere, np.nan, found).tolist()), free & ~elsewhere, queue


def _grows(seen: Reconstruction, queue: Floats) -> Bools:
    """Of each sample, whether its queue grew by no more than what was sent: one beyond that waited for something else
    (a delayed ACK's timer, a host that stood still)."""
    sent_between = np.diff(seen.timeline.snd_una[seen.timeline.rtt[0]], prepend=0) / seen.timeline.smss
    found: Bools = np.diff(queue, prepend=0.0) <= sent_between + DELAYED_ACK_SEGMENTS
    return found


def grown_to(seen: Reconstruction, pps: float, queue: Floats, left_ns: tuple[Ints, Ints]) -> Floats:
    """By how many packets the queue had grown that the segment before each lost one met; 0: not known. `left_ns`: when
    the segments of all round trips left, and the lost ones.

    By what was sent alone, sample by sample, and to as many of this sender's own packets (Little's law): the path did
    not stand still, nor go more slowly.
    """
    samples, (sent, lost_ns) = seen.timeline.rtt[1], left_ns
    found = np.zeros(len(lost_ns))
    last = np.searchsorted(sent, lost_ns, side="right").astype(np.int32) - 1
    is_known = last >= 0
    last = last[is_known]
    jumped = np.maximum.accumulate(np.where(_grows(seen, queue), 0, np.arange(len(queue), dtype=np.int32)))
    least = _core.least_within(samples, jumped[last], last + 1)
    found[is_known] = np.minimum((samples[last] - least) * pps / 1e9, own_queue(seen, last))
    return found


def once_a_flight(seen: Reconstruction, at_loss: tuple[float, ...], is_free: Bools) -> Bools:
    """Of `is_free`, one loss event with a known queue for each flight.

    What left before the last event was noticed was of the same flight (RFC 6582 section 1: losses from one window of
    data): it met much the same queue, whoever lost it, so that the two agree says nothing.
    """
    found, noticed_ns = is_free.copy(), -1
    for place, each in enumerate(seen.episodes):
        if not is_free[place] or math.isnan(at_loss[place]):
            continue
        found[place] = each.lost_sent_ns > noticed_ns
        noticed_ns = each.time_ns if found[place] else noticed_ns
    return found


def _ahead_within(seen: Reconstruction) -> Ints:
    """Of each loss event: how many packets of the first lost one's own super-segment (offload) were ahead of it."""
    timeline = seen.timeline
    found = np.zeros(len(seen.episodes), dtype=np.int64)
    if not len(found) or (timeline.send_end - timeline.send_offset).max() <= timeline.smss:
        return found
    for number, each in enumerate(seen.episodes):
        first, behind = np.searchsorted(timeline.send_ns, [each.lost_sent_ns, each.lost_sent_ns + 1])
        within = each.una - timeline.send_offset[first:behind]
        sizes = timeline.send_end[first:behind] - timeline.send_offset[first:behind]
        inside = within[(within >= 0) & (within < sizes)]
        found[number] = int(inside[0]) // timeline.smss if len(inside) else 0
    return found


def carried_behind(seen: Reconstruction, at_loss: Floats, bdp: Estimate) -> Floats:
    """The queue in packets that the path held while each loss was not noticed yet, at least; NaN: not known.

    A full buffer drops whatever more is sent than drains: what was outstanding at the end of the lost segment's round
    trip, beyond what was lost, was on the path, and what the pipe does not hold of it waited. No more of it is said to
    have, beyond what that segment met (`at_loss`), than by how much the flight had grown since it left.
    """
    timeline, pipe = seen.timeline, bdp.value if bdp.high is None else bdp.high
    found = np.full(len(seen.episodes), np.nan)
    if pipe is None or not len(found):
        return found
    lost_ns = seen.lost_sent_ns
    at = np.searchsorted(timeline.send_ns, lost_ns, side="right") - 1
    known = np.maximum(timeline.acks_before_send[at] - 1, 0)
    then = (timeline.snd_max[at] - timeline.snd_una[known]) / timeline.smss
    noticed = np.array([each.window_before / timeline.smss - each.retransmitted for each in seen.episodes])
    found[at >= 0] = np.minimum(noticed - pipe, at_loss + noticed - then)[at >= 0]
    return found


@dataclass(frozen=True)
class AnsweredBehind:
    """Segments that left behind first lost ones before that was noticed, and the ACKs that tell that each had come."""

    number: Ints
    send: Ints
    ack: Ints


def answered_behind(seen: Reconstruction, asked: Bools) -> AnsweredBehind:
    """Those of the loss events `asked` about, in order of their `number`, as far as duplicate ACKs tell.

    A receiver answers each segment behind a hole at once (RFC 5681 section 4.2): the first SACK of a byte tells when
    its segment came. Without SACK a duplicate tells that one more did: as many more as were sent again may have been
    lost before it, and where fewer duplicates came than segments left, some of them are missing.
    """
    timeline, numbers = seen.timeline, np.flatnonzero(asked)
    rows = [seen.episodes[number] for number in numbers.tolist()]
    first, una, lost_ns, dupacks, again = (
        np.array([getattr(each, name) for each in rows], dtype=np.int64)
        for name in ("first_send", "una", "lost_sent_ns", "dupacks", "retransmitted")
    )
    heard = timeline.acks_before_send[first].astype(np.int64)
    begin = np.searchsorted(timeline.send_ns, lost_ns, side="right")
    over = np.searchsorted(timeline.snd_una, una, side="right")
    sent_again = np.append(0, np.cumsum(timeline.is_retransmission))
    # Of more than one at the same place the first alone: the work goes by the ACKs.
    is_told = (np.diff(una, prepend=-1) != 0) & (dupacks > 0) & (begin < first)
    is_told &= sent_again[first] == sent_again[np.minimum(begin, first)]
    since = np.maximum(heard - dupacks, 0)
    length = np.where(is_told, np.maximum(over - since, 0), 0)
    # The ACKs of all of them in one column, and whose each is.
    of = np.repeat(np.arange(len(rows)), length)
    ack = rows_from(since, length)
    is_dup = timeline.is_dupack[ack]
    of, ack = of[is_dup], ack[is_dup]
    if timeline.has_sack:
        high = timeline.sack_high[ack].astype(np.int64)
        above = of * (int(high.max(initial=0)) + 1) + high
        is_news = np.diff(np.maximum.accumulate(above), prepend=-1) > 0
        of, ack = of[is_news], ack[is_news]
        send = np.searchsorted(timeline.snd_max, timeline.sack_high[ack])
    else:
        count = np.bincount(of, minlength=len(rows))
        is_whole = (count + again) * timeline.smss >= timeline.snd_max[np.maximum(first - 1, 0)] - una
        rank = np.arange(len(of)) - np.searchsorted(of, of)
        of, ack, rank = (column[is_whole[of]] for column in (of, ack, rank))
        send = np.searchsorted(timeline.snd_max, una[of] + (rank + again[of]) * timeline.smss) + 1
    send = np.maximum(send, begin[of])
    is_within = send < first[of]
    return AnsweredBehind(number=numbers[of[is_within]], send=send[is_within], ack=ack[is_within])


def met_behind(seen: Reconstruction, answered: AnsweredBehind, ahead: Floats, pps: float) -> Floats:
    """The longest queue in packets, but for a tenth, that what left behind each first lost segment met; NaN: not known.
    Without what a faster line before the bottleneck may have held (`ahead`)."""
    timeline, found = seen.timeline, np.full(len(seen.episodes), np.nan)
    least_ns = timeline.rtt[1].min()
    waited = (timeline.ack_ns[answered.ack] - timeline.send_ns[answered.send] - least_ns) * pps / 1e9 - ahead
    waited = waited[np.lexsort((waited, answered.number))]
    numbers, begins, counts = np.unique(answered.number, return_index=True, return_counts=True)
    place = (counts - 1) * LONGEST_BUT_STALLS_PERCENTILE / 100
    below = begins + place.astype(np.int64)
    above = np.minimum(below + 1, begins + counts - 1)
    found[numbers] = waited[below] + (waited[above] - waited[below]) * (place % 1)
    return found


def jitter_of(seen: Reconstruction, pps: float, queue: Floats) -> float:
    """How long a queue the path's and the hosts' own jitter feigns, in packets: met where none can stand.

    That is where less than the pipe holds was outstanding, and no slow start sends in bursts. 0: not known.
    """
    timeline = seen.timeline
    rows, samples = timeline.rtt
    calm = seen.under_way < FULL_SHARE * float(samples.min()) / 1e9 * pps
    starts = [(part.first, part.peak) for part in seen.stretches if part.peak is not None]
    firsts, peaks = np.array(starts, dtype=np.int64).reshape(-1, 2).T
    begins, ends = np.searchsorted(rows, firsts), np.searchsorted(rows, peaks, side="right")
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        calm[begin:end] = False
    return _core.percentile(queue[calm], LONGEST_PERCENTILE) if np.count_nonzero(calm) >= FEWEST_CALM else 0.0


def held_before(seen: Reconstruction, pps: float, *sent_ns: Ints) -> tuple[Floats, ...]:
    """Of what left at these times: how many packets' time of its wait a faster line may have had before the bottleneck.

    Assumes that there is such a line: a path with one queue has all of the wait there.
    """
    timeline = seen.timeline
    waited = _core.waits(timeline.send_ns, timeline.send_offset, timeline.send_end, timeline.smss, FASTER_FACTOR * pps)
    at = (np.maximum(_core.places(timeline.send_ns, times, or_equal=True) - 1, 0) for times in sent_ns)
    return tuple(waited[places] * pps / 1e9 for places in at)


def own_queue(seen: Reconstruction, at: Places | slice = EVERY) -> Floats:
    """Of round trips: how many of the packets under way waited, by Little's law: whatever the path's rate then was.

    Where others' packets wait among them, these are this flow's own only.
    """
    _, samples = seen.timeline.rtt
    share = 1 - samples.min() / np.maximum(samples[at], 1)
    found: Floats = np.where(share > 0, seen.under_way[at], 0.0) * share
    return found


def longest_queue(queue: Floats) -> float:
    """NaN where none is known."""
    known = queue[np.isfinite(queue)]
    return _core.percentile(known, LONGEST_PERCENTILE) if len(known) else float("nan")


def spread_of(middle: float) -> float:
    """How far two lengths of one full buffer lie apart at most: packets."""
    return min(max(BLUR_SEGMENTS, SPREAD_SHARE * middle), MAJORITY * middle)
