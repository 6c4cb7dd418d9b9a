"""A tap that did not read for a while, and stamped what had come when it went on.

Order is kept, times are not: a segment that waited to be read seems to have left late, and its ACK to have come soon,
sooner than any path brings it. What was stamped within microseconds of each other behind a silence may have waited for
as long as the silence lasted; so each round trip bounds the path's by what it took and that wait together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.distinct import distinct, without
from tcptrace_lab.reconstruct.given import (
    DELAYED_ACK_SEGMENTS,
    FEWEST_ALIKE,
    FEWEST_SAMPLES,
    FULL_SHARE,
    MAJORITY,
    MINORITY,
)
from tcptrace_lab.reconstruct.tap.clock import AT_ONCE_NS, Clock
from tcptrace_lab.reconstruct.timeline import Bools, Ints, Timeline

# A round trip this much shorter than any other can have been was not the path's: what is told of a path is to be right
# to 5 %, and its own round trips differ by less where none waits.
SHORTER_SHARE = 0.97


@dataclass(frozen=True, kw_only=True)
class _Turns:
    """All stamps in order, whether each is of what asks, and the silence before it; of each turn how long it took, and
    which of the stamps are those of what asked and of what answered."""

    stamps: Ints
    is_asking: Bools
    silence: Ints
    taken: Ints
    asked: Ints
    answered: Ints


def stalls(timeline: Timeline, handshake_ns: float, resolution_ns: int) -> tuple[tuple[int, ...], int]:
    """The stamps of what a tap read late, in order, and the longest silence before any; nothing: none is seen.

    Seen are those that made some round trips shorter than the path's, which neither the handshake's (`handshake_ns`;
    NaN: not captured) nor others have, by more than the clock leaves open (`resolution_ns`). A sender that answers
    after pauses has such silences all along, and its round trips are short again and again.
    """
    samples = timeline.rtt[1]
    # A handshake's packets are small, and some hosts slow to answer it.
    full_ns = handshake_ns + _longer_ns(timeline)
    if len(samples) < FEWEST_SAMPLES or SHORTER_SHARE * full_ns <= int(samples.min()) + resolution_ns:
        return (), 0
    turns = _round_trips(timeline, handshake_ns)
    # The first flight waits for the other host, and may be the only one to meet no queue: a handshake tells.
    is_first = timeline.has_start and bool(np.isnan(handshake_ns))
    return _read_late(turns, handshake_ns, full_ns, resolution_ns, held_back(timeline), is_first=is_first)


def stalls_elsewhere(
    turns_ns: Ints, passed_ns: Ints, is_full: Bools, ack_ns: Ints, *, handshake_ns: float, resolution_ns: int
) -> tuple[tuple[int, ...], int]:
    """The same away from the sender: it is the ACK that was read late, and the segment that it released comes soon.

    `turns_ns`: from the ACK that each segment names to the segment, which passed at `passed_ns` (-1: none is named);
    `is_full`: it is a full one, which takes longer on the line than a handshake's packets; `handshake_ns`: the same
    way, there and back, in the handshake (NaN: not captured).
    """
    is_told = turns_ns >= 0
    if np.count_nonzero(is_told) < FEWEST_SAMPLES:
        return (), 0
    # Most often that is all, of columns as long as the capture.
    least = int(np.min(turns_ns, where=is_told, initial=np.iinfo(np.int64).max))
    if SHORTER_SHARE * handshake_ns <= least + resolution_ns:
        return (), 0
    told = np.flatnonzero(is_told)
    taken = turns_ns[told]
    # In one instant a segment comes before its ACK.
    stamps = np.concatenate((passed_ns, ack_ns))
    order = np.argsort(stamps, kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    stamps = stamps[order]
    named = np.searchsorted(ack_ns, passed_ns[told] - taken)
    turns = _Turns(
        stamps=stamps,
        is_asking=order >= len(passed_ns),
        silence=np.diff(stamps, prepend=stamps[:1]),
        taken=taken,
        asked=place[len(passed_ns) + named],
        answered=place[told],
    )
    held = ack_ns[:0], ack_ns[:0]
    is_first = bool(np.isnan(handshake_ns))
    found = _read_late(turns, handshake_ns, handshake_ns, resolution_ns, held, is_first=is_first)
    apart_ns = _apart_ns(passed_ns, is_full) if found[0] else 0
    if not apart_ns:
        return found
    # A tap that was late once was so where a turn is short of a full segment's, too.
    more = _read_late(turns, handshake_ns, handshake_ns + apart_ns, resolution_ns, held, is_first=is_first)
    return tuple(sorted({*found[0], *more[0]})), max(found[1], more[1])


def _read_late(
    turns: _Turns,
    handshake_ns: float,
    full_ns: float,
    resolution_ns: int,
    held: tuple[Ints, Ints],
    *,
    is_first: bool,
) -> tuple[tuple[int, ...], int]:
    """`full_ns`: what a full segment's turn takes at least, by the handshake's; `held`: from when to when ACKs
    were read that the tap had held back; `is_first`: what is read first tells nothing."""
    silence, taken, stamps = turns.silence, turns.taken, turns.stamps
    is_told = _is_told(taken, handshake_ns)
    late_ns = min(_core.HOST_NS + resolution_ns, int(MAJORITY * handshake_ns)) if is_told else 0
    begins = np.flatnonzero(_begins_run(stamps, silence, max(AT_ONCE_NS, resolution_ns), late_ns))
    read, answered = (np.searchsorted(begins, at, side="right") - 1 for at in (turns.asked, turns.answered))
    # Without a handshake's the first flights' may be the only ones without a queue.
    least, share = int((taken + silence[begins[read]]).min()), MAJORITY
    if not np.isnan(handshake_ns):
        # On a slow line each segment comes behind a silence.
        least, share = min(least, int(full_ns)), SHORTER_SHARE
    is_short = taken + resolution_ns < share * least
    # Shorter silences are a host's.
    is_short &= silence[begins[read]] > _core.HOST_NS
    # No path answers while what came together is read.
    at_once, alone = distinct(read[is_short & (read == answered)]), distinct(read[is_short & (read != answered)])
    is_unexplained = is_short & (taken + _waited(turns) < SHORTER_SHARE * full_ns)
    since = stamps[turns.asked] - (stamps - silence)[begins[read]]
    is_sooner = is_short & (taken + since < SHORTER_SHARE * full_ns)
    # What was read beside ACKs that were held back waited with them.
    is_beside = _is_within(stamps[turns.asked], held)
    is_unexplained &= ~is_beside
    is_sooner &= ~is_beside
    is_often = bool(np.count_nonzero(taken < SHORTER_SHARE * handshake_ns) > MINORITY * len(taken))
    if not len(at_once) and _is_path(read, is_short, is_unexplained, is_sooner, is_often=is_often):
        return (), 0
    every = len(distinct(read))
    if len(alone) > max(MINORITY * every, FEWEST_ALIKE):
        alone = alone[:0]
    late = without(distinct(at_once, alone), read[: int(is_first)])
    if not len(late) or len(late) > MAJORITY * every:
        return (), 0
    # Others as long made round trips longer, or lie where none was timed; what was answered as usual was read on time.
    others = np.flatnonzero(silence[begins] >= silence[begins[late]].min())
    others = without(others, answered[taken <= _core.percentile(taken, 100 * FULL_SHARE)])
    if len(others) <= MINORITY * len(begins):
        late = distinct(late, others)
    # A tap that was late once was whenever round trips are shorter than the handshake's; but where many are that were
    # read behind no silence the handshake itself was read late.
    shorter = distinct(read[taken + resolution_ns < SHORTER_SHARE * handshake_ns])
    at_their_time = np.count_nonzero(silence[begins[shorter]] <= _core.HOST_NS)
    if is_told and at_their_time > max(MINORITY * every, FEWEST_ALIKE):
        return _read_late(turns, np.nan, np.nan, resolution_ns, held, is_first=is_first)
    if is_told:
        late = distinct(late, shorter)
    ends = np.append(begins[1:], len(stamps))
    marks = distinct(np.concatenate([stamps[begins[at] : ends[at]] for at in late]))
    return tuple(marks.tolist()), int(silence[begins[late]].max())


def _is_path(read: Ints, is_short: Bools, is_unexplained: Bools, is_sooner: Bools, *, is_often: bool) -> bool:
    """Whether the path itself is shorter: by more than the silence before what was asked lasted (`is_sooner`), or,
    where a host may have sent of itself behind that, than the handshake's round trip often (`is_often`), or in many
    turns one behind the other. It does not become so for a few turns and is as long as before then."""
    turns, most = distinct(read[is_unexplained]), MAJORITY * np.count_nonzero(is_short)
    if np.count_nonzero(is_unexplained) <= most or np.count_nonzero(is_sooner) > most:
        return bool(np.count_nonzero(is_sooner) > most)
    if is_often or len(turns) > MINORITY * len(distinct(read)):
        return True
    meanwhile = (read >= turns[0]) & (read <= turns[-1])
    return len(turns) >= FEWEST_ALIKE and bool(
        np.count_nonzero(is_unexplained) > MAJORITY * np.count_nonzero(meanwhile)
    )


def _is_within(times: Ints, spans: tuple[Ints, Ints]) -> Bools:
    """Whether each lies in one of these, or so soon behind it as what one lot of packets prompts is read."""
    begins, ends = spans
    at = np.searchsorted(begins, times, side="right") - 1
    found: Bools = (at >= 0) & (times <= np.append(ends, 0)[at] + AT_ONCE_NS)
    return found


def _longer_ns(timeline: Timeline) -> int:
    """By how much a full segment's round trip is longer than a handshake's: its time on the line, by the ACKs that come
    soonest but for the odd one in ten. A sender that never had two on the line errs to more."""
    moving = np.flatnonzero(timeline.newly_acked > 0)
    apart, segments = np.diff(timeline.ack_ns[moving]), timeline.newly_acked[moving[1:]] / timeline.smss
    # One that jumps tells of what had come before.
    is_plain = segments <= DELAYED_ACK_SEGMENTS
    each = apart[is_plain] / np.maximum(segments[is_plain], 1.0)
    return int(_core.percentile(each, 100 * MINORITY)) if len(each) > FEWEST_SAMPLES else 0


def _apart_ns(passed_ns: Ints, is_full: Bools) -> int:
    """How long a full segment takes on the line before the tap, in ns: as most of the closest come."""
    apart = np.diff(passed_ns)[is_full[1:] & is_full[:-1]]
    return int(_core.percentile(apart, 100 * MINORITY)) if len(apart) > FEWEST_SAMPLES else 0


def _is_told(samples: Ints, handshake_ns: float) -> bool:
    """A handshake that most round trips agree with tells what no path answers within."""
    return bool(np.count_nonzero(samples >= SHORTER_SHARE * handshake_ns) >= MAJORITY * len(samples))


def unread_ns(timeline: Timeline, handshake_ns: float, stalled_ns: int = 0) -> Ints:
    """For each round trip how long its segment may have waited to be read, in ns; `stalled_ns`: for so long the tap did
    not read at times."""
    samples = timeline.rtt[1]
    if len(samples) < FEWEST_SAMPLES:
        return np.zeros(len(samples), dtype=np.int64)
    return _waited(_round_trips(timeline, handshake_ns), stalled_ns)


def _waited(turns: _Turns, stalled_ns: int = 0) -> Ints:
    """How long what asked may have waited to be read: since before a silence, if it came within a small part of that
    behind it, and something of the other side before it. What a host sends of itself came when it did, but for what a
    tap is known to stall (`stalled_ns`), and of the first that was captured nothing tells."""
    stamps, silence, read = turns.stamps, turns.silence, turns.asked
    until = stamps + (MINORITY * silence).astype(np.int64)
    # The silence that reaches furthest, its own or one before.
    behind = np.maximum.accumulate(np.where(until >= np.maximum.accumulate(until), np.arange(len(until)), 0))
    heard = np.cumsum(~turns.is_asking)
    is_answer = (heard[read] > (heard - ~turns.is_asking)[behind[read]]) | (behind[read] == 0)
    since = stamps[read] - (stamps - silence)[behind[read]]
    found: Ints = np.where(is_answer, since, np.minimum(since, stalled_ns))
    return found


def held_back_ns(timeline: Timeline, begins: Ints) -> int:
    """The longest silence behind which ACKs were read at once that would have come in it, from these times on: by so
    much more than its stamps say may a time have lasted that begins with them. 0: none."""
    if not len(begins):
        return 0
    times = timeline.ack_ns[timeline.newly_acked > 0]
    first = np.searchsorted(times, begins)
    return int((times[first] - times[first - 1]).max())


def held_back(timeline: Timeline) -> tuple[Ints, Ints]:
    """From when to when ACKs were read at once, behind a silence in which they would have come at the others' pace."""
    (begins, ends, more, before), (due, first) = _core.read_together(
        timeline.ack_ns,
        timeline.newly_acked,
        timeline.smss,
        at_once_ns=AT_ONCE_NS,
        share=MAJORITY,
        fewest=FEWEST_SAMPLES,
        segments=DELAYED_ACK_SEGMENTS,
    )
    # Fewer may follow as soon by chance, but not in a tenth of their time and behind all of it.
    is_soon = ends - begins <= MINORITY * (due - first)
    # Of a tap that was late once, also behind silences that began before it was.
    known = np.searchsorted(timeline.set_ns, (begins, ends + 1))
    is_known = known[1] > known[0]

    def are_held(before: Ints) -> Bools:
        is_held = (before > _core.HOST_NS) & (before >= MAJORITY * due)
        is_held &= (more >= FEWEST_ALIKE) | ((before >= due) & is_soon)
        found: Bools = is_held & ((before <= due / MAJORITY) | is_known).any(where=is_held)
        return found

    is_held = are_held(before)
    # What is read after them, behind another silence, may have come before them: nothing of it was read in either.
    silent = begins - before
    at = np.searchsorted(ends[is_held], silent)
    is_next = np.append(ends[is_held], -1)[at] == silent
    is_held |= is_next & are_held(np.where(is_next, begins - np.append(silent[is_held], 0)[at], before))
    return begins[is_held], ends[is_held]


def _round_trips(timeline: Timeline, handshake_ns: float) -> _Turns:
    """From each segment to its ACK, at the sender's tap; segments and ACKs in the order captured."""
    rows, samples = timeline.rtt
    stamps = np.empty(len(timeline.send_ns) + len(timeline.ack_ns), dtype=np.int64)
    is_sent = np.zeros(len(stamps), dtype=bool)
    is_sent[timeline.acks_before_send + np.arange(len(timeline.send_ns))] = True
    stamps[is_sent], stamps[~is_sent] = timeline.send_ns, timeline.ack_ns
    silence = np.diff(stamps, prepend=stamps[:1])
    if samples[0] < SHORTER_SHARE * handshake_ns:
        # The first flight's round trip is less: both may have been read late.
        silence[0] = int(handshake_ns)
    sent = np.searchsorted(timeline.send_ns, timeline.ack_ns[rows] - samples)
    asked, answered = sent + timeline.acks_before_send[sent], np.flatnonzero(~is_sent)[rows]
    return _Turns(stamps=stamps, is_asking=is_sent, silence=silence, taken=samples, asked=asked, answered=answered)


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
    return marked(timeline, marks), replace(clock, stalled_ns=longest)


def marked(timeline: Timeline, marks: tuple[int, ...]) -> Timeline:
    """The timeline with what was read late known as such."""
    return replace(timeline, set_ns=tuple(sorted({*timeline.set_ns, *marks})))
