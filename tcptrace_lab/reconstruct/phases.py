"""Phases of a sender: slow start, congestion avoidance, recovery, timeout, idle (RFC 5681 sections 3 and 4.1).

Slow start is recognised by what it does: each ACK adds at least one segment to what is outstanding, where avoidance
adds one per round trip. The end of slow start (the ssthresh reached, or HyStart's exit) is the change point of that
growth, found by a cumulative sum, so a late ACK or a burst does not move it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tcptrace_lab.reconstruct.losses import Episode
from tcptrace_lab.reconstruct.timeline import Floats, Ints, Timeline

Kind = Literal["slow_start", "avoidance", "recovery", "timeout", "idle", "rwnd_limited", "app_limited"]
Begin = Literal["connection", "capture", "restart", "recovery", "lost", "idle"]

# Growth of half a segment per ACK lies between slow start (one or more) and avoidance (ACKed segments / cwnd).
# ACKs of several segments: slow start adds one per ACK (RFC 5681) to one per segment (RFC 3465, Linux).
PER_ACK = 0.5
PER_SEGMENT = 0.25
# A flight this much below where slow start ended is not avoidance: the data ran out.
FALL = 0.2
# RFC 6298 section 2.4: the smallest RTO; a sender idle for longer may restart from its initial window (section 4.1).
IDLE_NS = 200_000_000


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """The ACKs between two things that set the window back: from `begin` to the next loss event, idle time or the end.

    `peak` is the ACK up to which the window grew as in slow start (None: it never did), `grown_from`, `grown_to`
    the bytes outstanding at its two ends; `has_threshold` whether avoidance followed, rather than the receiver's
    window, the end of the data or of the stretch. `episode` is the loss event that ends it, `started_by` the last.
    """

    begin: Begin
    first: int
    last: int
    peak: int | None
    has_threshold: bool
    grown_from: int
    grown_to: int
    started_by: Episode | None
    episode: Episode | None

    @property
    def is_slow_start(self) -> bool:
        return self.peak is not None


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One row of the table `phases`."""

    start_ns: int
    end_ns: int
    kind: Kind
    cwnd_start: int
    cwnd_end: int


@dataclass(frozen=True, kw_only=True)
class _Cut:
    """Where a stretch begins: at which ACK, why, and after which loss event."""

    first: int
    begin: Begin
    episode: Episode | None = None


def stretches(timeline: Timeline, episodes: Sequence[Episode], flight: Ints) -> tuple[Stretch, ...]:
    """The run cut at loss events and at idle times, each with the end of its slow start if it has one."""
    count = len(timeline.ack_ns)
    cuts = [cut for cut in _cuts(timeline, episodes) if cut.first < count]
    found = []
    for number, cut in enumerate(cuts):
        following = cuts[number + 1] if number + 1 < len(cuts) else None
        last = count - 1 if following is None else following.first - 1
        if following is not None and following.episode is not None:
            last = min(last + 1, _stall(timeline, following.episode))
        found.append(_stretch(timeline, flight, cut, following, last=max(last, cut.first)))
    return tuple(found)


def _cuts(timeline: Timeline, episodes: Sequence[Episode]) -> list[_Cut]:
    if not len(timeline.ack_ns) or not len(timeline.send_ns):
        return []
    cuts = [_Cut(first=0, begin="connection" if timeline.has_start else "capture")]
    for number, episode in enumerate(episodes):
        first = int(timeline.acks_before_send[episode.first_send])
        if episode.restarts:
            cuts.append(_Cut(first=max(first - 1, 0), begin="restart", episode=episode))
        elif episode.detected_by != "tlp":
            over = max(int(np.searchsorted(timeline.snd_una, episode.recover, side="left")), first)
            is_last = number + 1 == len(episodes)
            upto = len(timeline.ack_ns) if is_last else timeline.acks_before_send[episodes[number + 1].first_send]
            # Not over when the timer fires within the recovery.
            cuts.append(
                _Cut(first=over if over < upto else first, begin="recovery" if over < upto else "lost", episode=episode)
            )
    cuts.extend(_Cut(first=index, begin="idle") for index in _idle_ends(timeline))
    return sorted(cuts, key=lambda cut: cut.first)


def _stall(timeline: Timeline, episode: Episode) -> int:
    """The last ACK that moved `snd_una` before the loss was noticed: what came after is the loss, not the window."""
    known = max(int(timeline.acks_before_send[episode.first_send]), 1)
    moved = np.flatnonzero(timeline.newly_acked[:known] > 0)
    return int(moved[-1]) if len(moved) else 0


def _idle_ends(timeline: Timeline) -> list[int]:
    """The first ACK after each pause: all was acknowledged, and nothing was sent for longer than the least RTO."""
    at_arrival = np.searchsorted(timeline.send_ns, timeline.ack_ns, side="left")
    known = (at_arrival > 0) & (at_arrival < len(timeline.send_ns))
    index = np.flatnonzero(known)
    done = timeline.snd_max[at_arrival[index] - 1] <= timeline.snd_una[index]
    resumes = timeline.send_ns[at_arrival[index]]
    paused = done & (resumes - timeline.ack_ns[index] > IDLE_NS)
    return sorted({int(np.searchsorted(timeline.ack_ns, time, side="right")) for time in resumes[paused]})


def _stretch(timeline: Timeline, flight: Ints, cut: _Cut, following: _Cut | None, *, last: int) -> Stretch:
    first = cut.first
    peak = growth_end(timeline, flight, first, last)
    window = flight[first : last + 1]
    low = int(window[: 1 if peak is None else max(peak - first, 1)].min(initial=int(window[0])))
    high = int(flight[first : (last if peak is None else peak) + 1].max())
    return Stretch(
        begin=cut.begin,
        first=first,
        last=last,
        peak=peak,
        has_threshold=peak is not None and _turns(timeline, flight, peak, last),
        grown_from=low,
        grown_to=high,
        started_by=cut.episode,
        episode=None if following is None else following.episode,
    )


def growth_end(timeline: Timeline, flight: Ints, first: int, last: int) -> int | None:
    """The ACK at which growth like slow start's ends, None where there is none between `first` and `last`."""
    index = np.arange(first, last + 1)
    moving = index[timeline.newly_acked[first : last + 1] > 0]
    if len(moving) < 2:
        return None
    score = np.cumsum(_steps(timeline, flight, moving))
    best = int(np.argmax(score))
    # Two segments more than avoidance would have added: one can be a rounding or a delayed ACK.
    return int(moving[best + 1]) if score[best] >= 1.0 else None


def _turns(timeline: Timeline, flight: Ints, peak: int, last: int) -> bool:
    """Whether the flight stayed where slow start had ended, with room left in the receiver's window."""
    # A round trip of ACKs: as many as there were segments outstanding, or half as many.
    after = slice(peak + 1, min(last, peak + max(int(flight[peak]) // (2 * timeline.smss), 2)) + 1)
    rows = flight[after]
    if len(rows) < 2:
        return False
    is_free = rows + timeline.smss <= timeline.rwnd[after]
    stays = rows >= flight[peak] * (1 - FALL)
    return bool(np.mean(is_free & stays) > 0.5)


def _steps(timeline: Timeline, flight: Ints, moving: Ints) -> Floats:
    """Growth per ACK in segments, less what lies between slow start and avoidance."""
    grown = np.diff(flight[moving]) / timeline.smss
    # An ACK that jumps over data received earlier (a hole filled) releases no more than any other ACK.
    acked = np.minimum(timeline.newly_acked[moving[1:]], flight[moving[:-1]]) / timeline.smss
    ordinary = np.where(acked <= 2, PER_ACK, PER_SEGMENT * acked)
    score: Floats = np.minimum(grown, np.maximum(acked, 1.0) * 16) - ordinary
    return score
