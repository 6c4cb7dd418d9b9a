"""Losses that leave no hole away from a sender: lost before anything behind them came, or sent again in vain."""

from __future__ import annotations

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.given import DELAYED_ACK_SEGMENTS
from tcptrace_lab.reconstruct.losses import DUP_THRESH, Episode, told_lost
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Ints, Timeline


def largest_flight(seen: Reconstruction) -> int:
    """The most segments that one loss event whose repair was not captured may have taken: a flight."""
    return max(int(seen.flight.max(initial=0)) // seen.timeline.smss, 1)


def limited_unseen(seen: Reconstruction, events: Ints, ends: Ints) -> int:
    """Segments that the first duplicate ACKs of a recovery let go (RFC 3042) behind a slow start, whose queue had lost
    one of two up to what left just before, where none of them came before the holes were filled: sent again before
    anything behind them they leave no hole."""
    timeline = seen.timeline
    begun = [each.time_ns for each in seen.episodes]
    grown = [int(timeline.ack_ns[part.last]) for part in seen.stretches if part.peak is not None]
    again = np.flatnonzero(timeline.is_retransmission)
    # The least that is sent again from each on: the last of them below a number is the last where this lies below it.
    least = np.minimum.accumulate(timeline.send_offset[again][::-1])[::-1]
    lost, highest = np.bincount(events, minlength=len(begun)), np.zeros(len(begun), dtype=np.int64)
    np.maximum.at(highest, events, ends)
    found = 0
    for number in {int(place) for place in np.searchsorted(begun, grown)} - {len(begun)}:
        each = seen.episodes[number]
        is_near = lost[number] > 1 and highest[number] >= each.recover - DELAYED_ACK_SEGMENTS * timeline.smss
        beyond = int(np.searchsorted(timeline.snd_max, each.recover, side="right"))
        last = int(np.searchsorted(least, each.recover)) - 1
        is_behind = last >= 0 and each.first_send <= again[last] < beyond
        found += DUP_THRESH - 1 if is_near and is_behind and not each.restarts else 0
    return found


def tails_unseen(seen: Reconstruction, *, is_counted: bool) -> int:
    """Segments that may have been lost behind all that came in a recovery: sent again they leave no hole at a receiver.

    Each duplicate ACK lets one go (RFC 3042, RFC 6675); of a sender that had enough to send some of them follow what
    ends the recovery. A timer's restart may have gone back over all of a flight's end. `is_counted`: its host's numbers
    tell of the others.
    """
    timeline = seen.timeline
    ends = np.searchsorted(timeline.ack_ns, [episode.end_ns for episode in seen.episodes])
    ends = np.minimum(ends, len(timeline.ack_ns) - 1)
    before = np.searchsorted(timeline.acks_before_send, ends, side="right")
    is_done = timeline.snd_max[np.maximum(before - 1, 0)] <= timeline.snd_una[ends]
    found = 0
    for each, done in zip(seen.episodes, is_done.tolist(), strict=True):
        if not each.is_loss:
            continue
        if each.restarts:
            found += largest_flight(seen) if done else _ends_unseen(timeline, each)
        else:
            outrun = 0 if is_counted else _outrun_unseen(timeline, each)
            found += max(each.dupacks, 1, outrun) if done else outrun
    return found


def _ends_unseen(timeline: Timeline, each: Episode) -> int:
    """Segments that the last ACKs before a restart may have released beyond what came: lost, and gone back over, they
    come as new ones. Each releases what it acknowledges, and at most a segment more (RFC 5681 section 3.1)."""
    sent, until = each.first_send, int(timeline.acks_before_send[each.first_send])
    since = max(int(timeline.acks_before_send[sent - 1]) - 1, 0) if sent else until
    moved = timeline.newly_acked[since:until]
    came = slice(int(np.searchsorted(timeline.acks_before_send, since, side="right")), sent)
    opened = int(moved.sum()) + timeline.smss * int(np.count_nonzero(moved))
    unseen = opened - int((timeline.send_end[came] - timeline.send_offset[came]).sum())
    return max(unseen // timeline.smss, 0)


def _outrun_unseen(timeline: Timeline, each: Episode) -> int:
    """Segments at the end of a flight that were lost above all that came, where the answer of a repair shows them
    outrun (RFC 8985): they leave again with it or behind it, in order, and leave no hole.

    Had anything new left between the repair and its answer, and come, it would have shown them.
    """
    sent, una = each.first_send, timeline.snd_una
    if not sent:
        return 0
    top = timeline.snd_max[sent - 1]
    fresh = int(np.searchsorted(timeline.snd_max, top, side="right"))
    answer = int(np.searchsorted(una, each.una, side="right"))
    if fresh == len(timeline.snd_max) or timeline.acks_before_send[fresh] <= answer:
        return 0
    released, lengths = timeline.acks_before_send, timeline.send_end - timeline.send_offset
    last = int(np.searchsorted(timeline.snd_max, top))
    since, until = max(int(released[last]) - 1, 0), int(released[sent])
    came = int(np.searchsorted(released, since, side="right"))
    if not 0 < since < until:
        return max(timeline.smss * (until - since) - int(lengths[came:sent].sum()), 0) // timeline.smss
    # Each ACK releases what it delivers, and at most a segment more; or as much more as another of them did (M-Start).
    delivered = np.diff(timeline.delivered[since - 1 : until])
    let_go = np.bincount(released[came:sent] - since - 1, lengths[came:sent], until - since).astype(np.int64)
    more = max(int((let_go - delivered).max()), timeline.smss)
    opened = int(delivered.sum()) + more * (until - since)
    return max(opened - int(let_go.sum()), 0) // timeline.smss


def gone_over_unseen(seen: Reconstruction) -> int:
    """Segments that had arrived, and that a sender without SACK may have sent again in vain: behind a timer it goes
    back over all that was outstanding (RFC 5681 section 3.1), as far as its window reaches: what is lost of that again
    leaves no hole. The window begins with a segment, and no ACK opens it by more than two (RFC 3465)."""
    timeline = seen.timeline
    if timeline.has_sack:
        return 0
    found = 0
    for each in seen.episodes:
        if not each.restarts:
            continue
        first, end = np.searchsorted(timeline.ack_ns, (each.time_ns, each.end_ns), side="right")
        una = np.append(each.una, timeline.snd_una[first:end])
        reach = una + timeline.smss * (1 + DELAYED_ACK_SEGMENTS * np.arange(len(una)))
        reach = np.minimum(np.maximum.accumulate(reach), each.recover)
        # What it reaches beyond what it had, of which what came again is no loss.
        begins = np.maximum(una, np.append(una[:1], reach[:-1]))
        gone_over = int(np.maximum(reach - begins, 0).sum())
        behind = int(np.searchsorted(timeline.send_ns, each.end_ns, side="right"))
        again = slice(each.first_send, behind)
        below = timeline.send_offset[again] < each.recover
        came = int((timeline.send_end[again] - timeline.send_offset[again])[below].sum())
        found += max(gone_over - came, 0) // timeline.smss
    return found


def timed_unseen(seen: Reconstruction) -> int:
    """Copies that may have been lost before one that a timer sent: what three duplicates had asked for before, and what
    the timer sent before it backed off (RFC 6298 section 5.5)."""
    timeline = seen.timeline
    sends = np.flatnonzero(timeline.is_retransmission)
    heard = timeline.acks_before_send[sends] - 1
    silence = timeline.send_ns[sends] - timeline.ack_ns[np.maximum(heard, 0)]
    left = np.maximum(sends - 1, 0)
    silence = np.minimum(silence, timeline.send_ns[sends] - timeline.send_ns[left])
    late = (heard >= 0) & (silence >= _core.LEAST_RTO_NS)
    sends, heard, silence = sends[late], heard[late], silence[late]
    is_told = told_lost(timeline, timeline.send_offset[sends]) <= heard
    backed_off = np.floor(np.log2(1 + silence / _core.LEAST_RTO_NS)).astype(np.int64) - 1
    return int(np.count_nonzero(is_told) + backed_off.sum())
