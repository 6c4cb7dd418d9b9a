"""Loss events: where a sender began to retransmit, why, and what it did to its window (RFC 5681, 6298, 6582, 6675).

An event is an episode: it lasts until everything that was outstanding at its first retransmission is acknowledged.
A timeout within an episode (a retransmission was lost too) begins a new one. Assumes a capture at the sender; at the
receiver's side the losses were never captured at all, and what is found here is too few.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np

from tcptrace_lab.reconstruct.timeline import Bools, Ints, Timeline

DetectedBy = Literal["dupack", "sack", "rto", "tlp", "reordering"]

# RFC 5681 section 3.2: the third duplicate ACK.
DUP_THRESH = 3
# A retransmission this long after the last ACK (as a part of the base round trip) was not released by that ACK.
# A capturing machine under load lets ACK and answer stand some milliseconds apart, never a part of the round trip.
SILENT_SHARE = 0.1
SILENT_FLOOR_NS = 2_000_000
# Outstanding after the first answer to a restart: two segments, or as many as a generous initial window allows.
AFTER_RESTART = 4


@dataclass(frozen=True, kw_only=True)
class Episode:
    """One loss event. Indices are those of the timeline's sends; times in ns; windows in bytes.

    `restarts`: the sender went back to a window of about one segment (Tahoe, or any sender after a timeout).
    `lost_sent_ns`: when the first lost segment had last been sent before. `sure`: nothing speaks for the other answer.
    """

    first_send: int
    time_ns: int
    end_ns: int
    una: int
    recover: int
    flight: int
    detected_by: DetectedBy
    dupacks: int
    restarts: bool
    sure: bool
    lost_sent_ns: int
    retransmitted: int
    round_trip_sends: int


def episodes(timeline: Timeline) -> tuple[Episode, ...]:
    """Every loss event in order of time."""
    again = np.flatnonzero(timeline.is_retransmission)
    if not len(again) or not len(timeline.ack_ns):
        return ()
    base = base_rtt_ns(timeline)
    silence = _silence_ns(timeline)
    silent = silence > max(SILENT_FLOOR_NS, SILENT_SHARE * base)
    found = _merged(timeline, again, silent, base=base, forced=frozenset())
    behind = [
        index for episode, bound in _bounded(timeline, found) for index in _steps_back(timeline, episode, bound, base)
    ]
    if behind:
        # RFC 6582 section 4: all that was sent before the timer expired belongs to its restart.
        found = _merged(timeline, again, silent, base=base, forced=frozenset(behind))
    return _by_habit(found)


def _merged(
    timeline: Timeline, again: Ints, silent: Bools, *, base: int, forced: frozenset[int]
) -> tuple[Episode, ...]:
    starts = _starts(timeline, again, silent, forced)
    found = _episodes(timeline, starts, silent, base=base, forced=forced)
    merged = {after.first_send for before, after in pairwise(found) if _carries_on(timeline, before, after)} - forced
    if not merged:
        return found
    kept = [start for start in starts if start not in merged]
    return _episodes(timeline, kept, silent, base=base, forced=forced)


def _episodes(
    timeline: Timeline, starts: list[int], silent: Bools, *, base: int, forced: frozenset[int]
) -> tuple[Episode, ...]:
    """`forced`: the starts at which a timer is known to have expired, silent or not."""
    bounds = [*starts[1:], len(timeline.send_ns)]
    found = []
    for start, bound in zip(starts, bounds, strict=True):
        episode = _episode(timeline, start, bound, silent=bool(silent[start]) or start in forced, base=base)
        found.append(replace(episode, restarts=True, detected_by="rto") if start in forced else episode)
    return tuple(found)


def _bounded(timeline: Timeline, found: tuple[Episode, ...]) -> Iterator[tuple[Episode, int]]:
    """Each episode with the send at which the next begins."""
    for number, episode in enumerate(found):
        yield episode, found[number + 1].first_send if number + 1 < len(found) else len(timeline.send_ns)


def _steps_back(timeline: Timeline, episode: Episode, bound: int, base: int) -> list[int]:
    """Sends of the segment at `snd_una` a second time: the retransmission was lost too, and the timer expired.

    A timer may expire while duplicate ACKs still come (RFC 6298 section 5.3 restarts it for new data only). With SACK a
    sender may notice by itself (RFC 8985 section 5) and go on: then more than one segment is sent in the round trip.
    """
    chosen = np.arange(episode.first_send, bound)
    chosen = chosen[timeline.send_ns[chosen] <= episode.end_ns]
    if len(chosen) < 2:
        return []
    _, first, place = np.unique(timeline.send_offset[chosen], return_index=True, return_inverse=True)
    repeated = chosen[np.arange(len(chosen)) > first[place]]
    repeated = repeated[timeline.send_offset[repeated] <= _una_at(timeline, repeated)]
    if not timeline.has_sack:
        # RFC 5681, 6582: by duplicate or partial ACKs a segment is retransmitted once.
        return [int(index) for index in repeated]
    few = 1 if episode.restarts else 2
    expired: list[int] = []
    for index in repeated.tolist():
        # Once the timer has expired the sender goes through what is lost from its window of one segment on: only what
        # has been sent again since then, and is sent once more, is a second expiry.
        goes_on = expired and timeline.send_offset[index] not in timeline.send_offset[expired[-1] : index]
        if not goes_on and _sends_until_answer(timeline, index, base) <= few:
            expired.append(index)
    return expired


def _carries_on(timeline: Timeline, before: Episode, episode: Episode) -> bool:
    """Whether a silent retransmission only goes on with a restart: its segment had not been sent again yet."""
    if not before.restarts or episode.una >= before.recover:
        return False
    since = timeline.send_offset[before.first_send : episode.first_send]
    return bool(timeline.send_offset[episode.first_send] not in since)


def _sends_until_answer(timeline: Timeline, index: int, base: int) -> int:
    """Segments sent from one on, until it is answered."""
    until = _ack_time(timeline, _answer(timeline, index, base))
    return int(np.searchsorted(timeline.send_ns, until, side="left")) - index


def _answer(timeline: Timeline, index: int, base: int) -> int:
    """The ACK that answers a send: the first to move `snd_una`, but not sooner than half a round trip."""
    known = int(timeline.acks_before_send[index])
    moved = known + int(np.searchsorted(timeline.snd_una[known:], int(_una_at(timeline, index)), side="right"))
    return max(moved, int(np.searchsorted(timeline.ack_ns, int(timeline.send_ns[index]) + base // 2, side="left")))


def _ack_time(timeline: Timeline, index: int) -> int:
    return int(timeline.ack_ns[index]) if index < len(timeline.ack_ns) else timeline.end_ns


def _goes_on(timeline: Timeline, answered: int, recover: int) -> bool:
    """Whether the ACK of everything released a window at once: a restarted sender has two segments to send then."""
    if answered >= len(timeline.ack_ns) or timeline.snd_una[answered] < recover:
        return False
    sent = int(timeline.sends_before_next_ack[answered])
    return int(timeline.snd_max[sent - 1] - timeline.snd_una[answered]) > AFTER_RESTART * timeline.smss


def _goes_back(timeline: Timeline, answered: int, recover: int, flight: int) -> bool:
    """Whether the first answer released what a window of one segment gives, too little or too much for fast recovery.

    RFC 6582: a partial ACK asks for one segment, Tahoe sends two of those sent before. RFC 5681: after the last hole
    half the window goes on, Tahoe has two segments to send.
    """
    if timeline.has_sack or answered >= len(timeline.ack_ns):
        return False
    sent = int(timeline.sends_before_next_ack[answered])
    before = int(np.searchsorted(timeline.send_ns, int(timeline.ack_ns[answered]), side="left"))
    if timeline.snd_una[answered] < recover:
        return int(np.count_nonzero(timeline.is_retransmission[before:sent])) >= 2
    outstanding = int(timeline.snd_max[sent - 1] - timeline.snd_una[answered])
    has_more = sent < len(timeline.send_ns)
    return has_more and 0 < outstanding <= 2 * timeline.smss and flight // 2 >= AFTER_RESTART * timeline.smss


def base_rtt_ns(timeline: Timeline) -> int:
    """The smallest round trip of a segment sent once; 0 where there is none."""
    _, samples = timeline.rtt
    return int(samples.min()) if len(samples) else 0


def _silence_ns(timeline: Timeline) -> Ints:
    """How long before each send nothing had been received."""
    known = timeline.acks_before_send
    last = timeline.ack_ns[np.maximum(known - 1, 0)] if len(timeline.ack_ns) else timeline.send_ns
    return np.where(known > 0, timeline.send_ns - last, np.iinfo(np.int64).max)


def _una_at(timeline: Timeline, sends: Ints | int) -> Ints:
    known = timeline.acks_before_send[sends]
    return np.where(known > 0, timeline.snd_una[np.maximum(known - 1, 0)], timeline.first_offset)


def _starts(timeline: Timeline, again: Ints, silent: Bools, forced: frozenset[int]) -> list[int]:
    """The sends at which episodes begin."""
    una = _una_at(timeline, again)
    starts: list[int] = []
    recover = np.iinfo(np.int64).min
    last_time = 0
    for index, una_now in zip(again.tolist(), una.tolist(), strict=True):
        if una_now >= recover or index in forced:
            starts.append(index)
        elif silent[index] and timeline.send_offset[index] <= una_now and timeline.send_ns[index] > last_time:
            # RFC 6298 section 5: the timer fired within the episode.
            starts.append(index)
        else:
            continue
        recover = int(timeline.snd_max[index - 1]) if index else 0
        last_time = int(timeline.send_ns[index])
    return starts


def _episode(timeline: Timeline, start: int, bound: int, *, silent: bool, base: int) -> Episode:
    time_ns = int(timeline.send_ns[start])
    una = int(_una_at(timeline, start))
    recover = int(timeline.snd_max[start - 1])
    known = int(timeline.acks_before_send[start])
    flight = recover - una
    ends_at = known + int(np.searchsorted(timeline.snd_una[known:], recover, side="left"))
    next_start_ns = int(timeline.send_ns[bound]) if bound < len(timeline.send_ns) else timeline.end_ns
    end_ns = min(_ack_time(timeline, ends_at), next_start_ns)
    answered = _answer(timeline, start, base)
    # What it sent until its first retransmission was answered: one segment after a restart, half a window otherwise.
    until = int(np.searchsorted(timeline.send_ns, min(_ack_time(timeline, answered), next_start_ns), side="left"))
    sends = len(np.unique(timeline.send_offset[start:until]))
    before = _dupacks_before(timeline, known)
    during = int(np.count_nonzero(timeline.is_dupack[known:answered]))
    has_sack = bool(timeline.sacked[known - 1] > 0) if known else False
    detected_by = _detected_by(
        timeline, start, silent=silent, dupacks=before, has_sack=has_sack, una=una, recover=recover
    )
    if detected_by == "tlp" and sends <= 2:
        # RFC 8985 section 7: a probe of the last segment; the window stays.
        restarts, sure = False, True
    else:
        restarts, sure = _restarts(flight // timeline.smss, sends, before, during, silent=silent)
        if restarts and not silent and _goes_on(timeline, answered, recover):
            restarts, sure = False, True
        if not sure and not silent and _goes_back(timeline, answered, recover, flight):
            restarts, sure = True, True
        if detected_by == "rto" and not restarts and before:
            # More was sent than a timeout allows: the ACKs had told of the loss (a reordering timer, a stalled host).
            detected_by = "sack" if has_sack else "dupack"
    in_episode = timeline.is_retransmission[start:bound] & (timeline.send_ns[start:bound] < end_ns + 1)
    return Episode(
        first_send=start,
        time_ns=time_ns,
        end_ns=end_ns,
        una=una,
        recover=recover,
        flight=flight,
        detected_by=detected_by,
        dupacks=before,
        restarts=restarts,
        sure=sure,
        lost_sent_ns=_sent_before(timeline, start, int(timeline.send_offset[start])),
        retransmitted=int(np.count_nonzero(in_episode)),
        round_trip_sends=sends,
    )


def _dupacks_before(timeline: Timeline, known: int) -> int:
    """Duplicate ACKs since the last ACK that moved `snd_una`, before ACK number `known`."""
    if not known:
        return 0
    moved = np.flatnonzero(timeline.newly_acked[:known] > 0)
    since = int(moved[-1]) + 1 if len(moved) else 0
    return int(np.count_nonzero(timeline.is_dupack[since:known]))


def _detected_by(
    timeline: Timeline, start: int, *, silent: bool, dupacks: int, has_sack: bool, una: int, recover: int
) -> DetectedBy:
    if silent:
        is_last = int(timeline.send_end[start]) == recover and int(timeline.send_offset[start]) > una
        return "tlp" if is_last else "rto"
    if has_sack:
        return "sack"
    return "dupack" if dupacks >= DUP_THRESH else "reordering" if dupacks else "rto"


def _restarts(window: int, sends: int, before: int, during: int, *, silent: bool) -> tuple[bool, bool]:
    """Whether the window fell to one segment, and whether that is sure.

    After a timeout one segment is sent and its answer awaited. In fast recovery each duplicate ACK beyond half the
    window releases one segment more (RFC 5681 section 3.2 step 4; with SACK or PRR earlier), unless there were too few.
    """
    if silent:
        return sends <= 3, sends <= 1 or sends > 3
    expected = before + during - (window + 1) // 2
    if sends <= 1:
        return (True, True) if expected >= 4 else (False, False)
    return False, sends > 2


def _by_habit(found: tuple[Episode, ...]) -> tuple[Episode, ...]:
    """A sender has one algorithm: an unsure episode (too few duplicate ACKs to tell) is taken as its sure ones are."""
    fast = [episode for episode in found if episode.detected_by in ("dupack", "sack")]
    votes = [episode.restarts for episode in fast if episode.sure]
    habit = bool(votes) and sum(votes) * 2 > len(votes)
    return tuple(
        replace(episode, restarts=habit) if episode in fast and not episode.sure else episode for episode in found
    )


def _sent_before(timeline: Timeline, index: int, offset: int) -> int:
    """When the data at `offset` was last sent before send `index`."""
    earlier = np.flatnonzero((timeline.send_offset[:index] <= offset) & (timeline.send_end[:index] > offset))
    return int(timeline.send_ns[earlier[-1]]) if len(earlier) else int(timeline.send_ns[index])
