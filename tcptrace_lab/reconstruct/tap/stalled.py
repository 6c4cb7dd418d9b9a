"""A tap that did not read for a while, and stamped what had come when it went on.

Order is kept, times are not: a segment that waited to be read seems to have left late, and its ACK to have come soon,
sooner than any path brings it. What was stamped within microseconds of each other behind a silence may have waited for
as long as the silence lasted; so each round trip bounds the path's by what it took and that wait together.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.given import (
    DELAYED_ACK_SEGMENTS,
    FEWEST_ALIKE,
    FEWEST_SAMPLES,
    MAJORITY,
    MINORITY,
)
from tcptrace_lab.reconstruct.tap.clock import AT_ONCE_NS, Clock
from tcptrace_lab.reconstruct.timeline import Bools, Ints, Timeline

# A round trip this much shorter than any other can have been was not the path's: what is told of a path is to be right
# to 5 %, and its own round trips differ by less where none waits.
SHORTER_SHARE = 0.97


def stalls(timeline: Timeline, handshake_ns: float, resolution_ns: int) -> tuple[tuple[int, ...], int]:
    """The stamps of what a tap read late, in order, and the longest silence before any; nothing: none is seen.

    Seen are those that made some round trips shorter than the path's, which neither the handshake's (`handshake_ns`;
    NaN: not captured) nor others have, by more than the clock leaves open (`resolution_ns`). A sender that answers
    after pauses has such silences all along, and its round trips are short again and again.
    """
    samples = timeline.rtt[1]
    nothing: tuple[tuple[int, ...], int] = ((), 0)
    # A handshake's packets are small, and some hosts slow to answer it.
    full_ns = handshake_ns + _longer_ns(timeline)
    if len(samples) < FEWEST_SAMPLES or SHORTER_SHARE * full_ns <= int(samples.min()) + resolution_ns:
        return nothing
    stamps, silence, begins, read, answered = _read(timeline, handshake_ns, resolution_ns)
    is_told = _is_told(samples, handshake_ns)
    # Without a handshake's the first flights' may be the only ones without a queue.
    least, share = int((samples + silence[begins[read]]).min()), MAJORITY
    if not np.isnan(handshake_ns):
        # On a slow line each segment comes behind a silence.
        least, share = min(least, int(full_ns)), SHORTER_SHARE
    is_short = samples + resolution_ns < share * least
    # Shorter silences are a host's.
    is_short &= silence[begins[read]] > _core.HOST_NS
    # No path answers while what came together is read.
    at_once, alone = np.unique(read[is_short & (read == answered)]), np.unique(read[is_short & (read != answered)])
    is_unexplained = is_short & (samples + unread_ns(timeline, handshake_ns) < SHORTER_SHARE * full_ns)
    if not len(at_once) and np.count_nonzero(is_unexplained) > MAJORITY * np.count_nonzero(is_short):
        # Shorter by more than any silence before them lasted: the path itself has become shorter.
        return nothing
    every = len(np.unique(read))
    if len(alone) > max(MINORITY * every, FEWEST_ALIKE):
        alone = alone[:0]
    # The first flight waits for the other host, and may be the only one to meet no queue: a handshake tells.
    is_first = timeline.has_start and bool(np.isnan(handshake_ns))
    late = np.setdiff1d(np.union1d(at_once, alone), read[: int(is_first)])
    if not len(late) or len(late) > MAJORITY * every:
        return nothing
    # Others as long made round trips longer, or lie where none was timed.
    others = np.flatnonzero(silence[begins] >= silence[begins[late]].min())
    if len(others) <= MINORITY * len(begins):
        late = np.union1d(late, others)
    # A tap that was late once was whenever round trips are shorter than the handshake's.
    if is_told:
        late = np.union1d(late, read[samples + resolution_ns < SHORTER_SHARE * handshake_ns])
    ends = np.append(begins[1:], len(stamps))
    marks = np.unique(np.concatenate([stamps[begins[at] : ends[at]] for at in late]))
    return tuple(marks.tolist()), int(silence[begins[late]].max())


def _longer_ns(timeline: Timeline) -> int:
    """By how much a full segment's round trip is longer than a handshake's: its time on the line, by the ACKs that come
    soonest but for the odd one in ten. A sender that never had two on the line errs to more."""
    moving = np.flatnonzero(timeline.newly_acked > 0)
    apart, segments = np.diff(timeline.ack_ns[moving]), timeline.newly_acked[moving[1:]] / timeline.smss
    # One that jumps tells of what had come before.
    each = apart[segments <= DELAYED_ACK_SEGMENTS] / np.maximum(segments[segments <= DELAYED_ACK_SEGMENTS], 1.0)
    return int(np.percentile(each, 100 * MINORITY)) if len(each) > FEWEST_SAMPLES else 0


def _is_told(samples: Ints, handshake_ns: float) -> bool:
    """A handshake that most round trips agree with tells what no path answers within."""
    return bool(np.count_nonzero(samples >= SHORTER_SHARE * handshake_ns) >= MAJORITY * len(samples))


def _read(timeline: Timeline, handshake_ns: float, resolution_ns: int) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """All stamps in order, the silence before each, where what was read in a row begins, and of each round trip in
    which of these its segment was read, and its ACK."""
    rows, samples = timeline.rtt
    stamps, is_sent, silence = _silences(timeline, handshake_ns)
    is_told = _is_told(samples, handshake_ns)
    late_ns = min(_core.HOST_NS + resolution_ns, int(MAJORITY * handshake_ns)) if is_told else 0
    begins = np.flatnonzero(_begins_run(stamps, silence, max(AT_ONCE_NS, resolution_ns), late_ns))
    sent = np.searchsorted(timeline.send_ns, timeline.ack_ns[rows] - samples)
    read, answered = (
        np.searchsorted(begins, places, side="right") - 1
        for places in (sent + timeline.acks_before_send[sent], np.flatnonzero(~is_sent)[rows])
    )
    return stamps, silence, begins, read, answered


def unread_ns(timeline: Timeline, handshake_ns: float) -> Ints:
    """For each round trip how long its segment may have waited to be read, in ns: since before a silence, if it came
    within a small part of that behind it, and an ACK before it. What a sender sends of itself came when it did, and of
    the first that was captured nothing tells."""
    rows, samples = timeline.rtt
    if len(samples) < FEWEST_SAMPLES:
        return np.zeros(len(samples), dtype=np.int64)
    stamps, is_sent, silence = _silences(timeline, handshake_ns)
    until = stamps + (MINORITY * silence).astype(np.int64)
    # The silence that reaches furthest, its own or one before.
    behind = np.maximum.accumulate(np.where(until >= np.maximum.accumulate(until), np.arange(len(until)), 0))
    sent = np.searchsorted(timeline.send_ns, timeline.ack_ns[rows] - samples)
    read = sent + timeline.acks_before_send[sent]
    heard = np.cumsum(~is_sent)
    is_answer = (heard[read] > (heard - ~is_sent)[behind[read]]) | (behind[read] == 0)
    found: Ints = np.where(is_answer, stamps[read] - (stamps - silence)[behind[read]], 0)
    return found


def held_back_ns(timeline: Timeline) -> int:
    """The longest silence behind which ACKs were read at once that would have come in it, at the pace of the others: by
    so much more than its stamps say may a time have lasted that begins with them. 0: none."""
    times = timeline.ack_ns[timeline.newly_acked > 0]
    gaps = np.diff(times)
    if len(gaps) < FEWEST_SAMPLES:
        return 0
    usual = _core.median(gaps)
    edges = np.flatnonzero(np.diff((gaps <= min(AT_ONCE_NS, MINORITY * usual)).astype(np.int8), prepend=0, append=0))
    begins, ends = edges[::2], edges[1::2]
    begins, ends = begins[begins > 0], ends[begins > 0]
    before, due = gaps[begins - 1], (ends - begins + 1) * usual
    is_held = (before > _core.HOST_NS) & (before >= MAJORITY * due) & (before <= due / MAJORITY)
    return int(before[is_held].max(initial=0))


def _silences(timeline: Timeline, handshake_ns: float) -> tuple[Ints, Bools, Ints]:
    """Of segments and ACKs in the order captured: stamps, which are segments, and the time since the one before."""
    stamps = np.empty(len(timeline.send_ns) + len(timeline.ack_ns), dtype=np.int64)
    is_sent = np.zeros(len(stamps), dtype=bool)
    is_sent[timeline.acks_before_send + np.arange(len(timeline.send_ns))] = True
    stamps[is_sent], stamps[~is_sent] = timeline.send_ns, timeline.ack_ns
    silence = np.diff(stamps, prepend=stamps[:1])
    if timeline.rtt[1][0] < SHORTER_SHARE * handshake_ns:
        # The first flight's round trip is less: both may have been read late.
        silence[0] = int(handshake_ns)
    return stamps, is_sent, silence


def _begins_run(stamps: Ints, silence: Ints, at_once_ns: int, late_ns: int) -> Bools:
    """Where what is read in a row begins: a host that wakes reads at once, or for so long by turns."""
    wakes = np.maximum.accumulate(np.where(silence > _core.HOST_NS, stamps, stamps[0]))
    goes_on = (stamps > wakes) & (stamps - wakes <= late_ns)
    found: Bools = (silence >= at_once_ns) & ~goes_on
    found[0] = True
    return found


def without_stalls(timeline: Timeline, clock: Clock, handshake_ns: float) -> tuple[Timeline, Clock]:
    """Both, with what was read late known as such: no round trip and no rate is taken across it."""
    marks, longest = stalls(timeline, handshake_ns, clock.resolution_ns)
    if not marks:
        return timeline, clock
    return replace(timeline, set_ns=tuple(sorted({*timeline.set_ns, *marks}))), replace(clock, stalled_ns=longest)
