"""When each segment left its sender, away from it: with the ACK that it names, or when the sender's clock says.

A segment that its ACK released left at once; what a pacer or an application sends leaves later, within the tick of its
own timestamp. Errs by a tick of the sender's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.away.arrivals import NEVER, Arrivals, Sends, holes
from tcptrace_lab.reconstruct.away.echoes import Bounds
from tcptrace_lab.reconstruct.away.first_repairs import repairs_that_came
from tcptrace_lab.reconstruct.away.rhythm import Rhythm
from tcptrace_lab.reconstruct.distinct import distinct
from tcptrace_lab.reconstruct.given import BURST_NS, MAJORITY
from tcptrace_lab.reconstruct.tap.sender_clock import SenderClock, sender_clock
from tcptrace_lab.reconstruct.timeline import Bools, Floats, Ints, Places, Timeline, parts

# Of the segments around one, the share that left at once when ACKs release them (the times of a pacer or an application
# meet an ACK's tick by chance only), and how many are looked at to each side.
PROMPT_SHARE = 0.75
AROUND = 64
# So many in a row show whether they are late by the same: of a pacer's, at random within a gap, few would be.
TOGETHER = 16
# How much later than its ACK a segment may leave and still be its answer: a busy host, an ACK held up on its way.
LATE_SHARE = 0.25
# ACKs that release less than they report, recoveries apart: at most 0.011 of those of windows at work (10 kernel runs),
# 0.065 to 0.31 of those of pacers and applications.
GIVES_BACK_SHARE = 0.03


@dataclass(frozen=True, kw_only=True)
class Pace:
    """When each arrival came and how long it was on its way at the least, full or short, and the share of ACKs that
    released less than they reported."""

    time_ns: Ints
    is_full: Bools
    least_ns: tuple[int, int]
    gives_back: float

    def latest(self, rows: Any = slice(None)) -> Ints:
        """When arrivals had left at the latest: worked out sooner than it is worth keeping."""
        of_full, of_short = self.least_ns
        found: Ints = self.time_ns[rows] - np.where(self.is_full[rows], of_full, of_short)
        return found


def own_times(
    timeline: Timeline, stamp: Ints, left: Sends, release: Bounds, pace: Pace
) -> tuple[Ints, SenderClock | None]:
    """When each segment left: with its ACK, or, where the sender's clock says later, then; and that clock.

    `release`: the ACK that released it, and the last that it may have known of.
    """
    ack_ns, arrived = timeline.ack_ns, np.flatnonzero(left.row >= 0).astype(np.int32)
    clock = _clock(timeline, stamp, left, release)
    # A tick that holds several ACKs does not tell which segments left at once: then the window's own habit has to.
    tick_ns = np.inf if clock is None else clock.tick_ns
    is_coarse = tick_ns > MAJORITY * _core.median(np.diff(ack_ns)) if len(ack_ns) > 1 else True
    goes_back = is_coarse and pace.gives_back > GIVES_BACK_SHARE
    total, bunched = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=bool)
    if clock is not None and not goes_back:
        total, bunched = _prompt(timeline, clock, stamp, left, release, arrived=arrived)
    found = np.empty(len(release.low), dtype=np.int64)
    for part in parts(len(found)):
        found[part] = _begins(timeline, release.low[part])
    for part in parts(len(arrived)):
        rows = arrived[part]
        since, latest, freed = found[rows], pace.latest(left.row[rows]), release.low[rows] >= 0
        told = np.where(freed, since, latest)
        if goes_back:
            told = latest
        elif clock is not None:
            over = clock.ends(stamp[left.row[rows]])
            is_soon = over - int(clock.tick_ns) - since <= np.maximum(BURST_NS, LATE_SHARE * (latest - since))
            answers = freed & (is_soon | bunched[part])
            answers &= _share_around(total, part) >= PROMPT_SHARE
            # It left within its tick.
            told = np.where(answers, since, np.where(freed, np.maximum(over, since), over))
        # And no later than what arrived without meeting a queue: where the ACK that it names came later than that, one
        # that was not captured had released it.
        found[rows] = np.minimum(told, latest)
    if len(arrived):
        # What no captured ACK released, and never came, left beside what did, which may be before the capture began.
        found[(left.row < 0) & (release.low < 0)] = found.min(where=left.row >= 0, initial=np.iinfo(np.int64).max)
    # Before it could hear of the next ACK that it does not echo yet.
    before = np.append(ack_ns, np.iinfo(np.int64).max) - 1
    for part in parts(len(found)):
        begins = _begins(timeline, release.low[part])
        found[part] = np.minimum(found[part], np.maximum(before[release.high[part] + 1], begins))
    return np.maximum.accumulate(found, out=found), clock


def _begins(timeline: Timeline, low: Places) -> Ints:
    """When the ACK came that released each; what none did begins with the capture."""
    return np.where(low >= 0, timeline.ack_ns[np.maximum(low, 0)], timeline.start_ns)


def _clock(timeline: Timeline, stamp: Ints, left: Sends, release: Bounds) -> SenderClock | None:
    """By the segments that an ACK released which the tap read on time: one that it read late tilts the line."""
    freed = (left.row >= 0) & (release.low >= 0)
    if timeline.set_ns:
        freed &= ~np.isin(timeline.ack_ns, timeline.set_ns)[np.maximum(release.low, 0)]
    return sender_clock(stamp[left.row[freed]], timeline.ack_ns[release.low[freed]])


def _prompt(
    timeline: Timeline, clock: SenderClock, stamp: Ints, left: Sends, release: Bounds, *, arrived: Places
) -> tuple[Places, Bools]:
    """How many of those that arrived, before each, may have left at once; and whether each was bunched."""
    total, bunched = np.zeros(len(arrived) + 1, dtype=np.int32), np.zeros(len(arrived), dtype=bool)
    for part in parts(len(arrived)):
        rows = arrived[part]
        stamps, begins = stamp[left.row[rows]], _begins(timeline, release.low[rows])
        late = clock.ends(stamps) - int(clock.tick_ns) - begins
        bunched[part] = _bunched(stamps, begins, clock.tick_ns)
        total[1:][part] = (late <= BURST_NS) | _held_up(late, clock.tick_ns) | bunched[part]
    return np.cumsum(total, dtype=np.int32, out=total), bunched


def _held_up(late: Ints, tick_ns: float) -> Bools:
    """Segments that are all late by the same, to the tick: their ACKs were held up on the way back (a stalled path)."""
    groups = -(-len(late) // TOGETHER)
    padded = np.append(late, np.repeat(late[-1:], groups * TOGETHER - len(late))).reshape(groups, TOGETHER)
    near = np.abs(padded - np.median(padded, axis=1, keepdims=True)) <= tick_ns / 2 + BURST_NS / 2
    found: Bools = np.repeat(near.mean(axis=1) >= PROMPT_SHARE, TOGETHER)[: len(late)]
    return found


def _bunched(stamps: Ints, begins: Ints, tick_ns: float) -> Bools:
    """Segments that left within one tick, behind one that names an older ACK, and name ACKs that had left more than two
    ticks apart: those were heard in that tick, all together (a radio's turn, an interrupt's), and released one after
    the other. What a write sends, or a pacer, names the newest."""
    if not len(stamps):
        return np.zeros(0, dtype=bool)
    firsts = np.flatnonzero(np.diff(stamps, prepend=stamps[0] - 1))
    counts = np.diff(firsts, append=len(stamps))
    is_newer = begins > np.repeat(begins[firsts], counts)
    newest = begins[firsts + counts - 1]
    oldest = np.minimum.reduceat(np.where(is_newer, begins, np.iinfo(np.int64).max), firsts)
    found: Bools = is_newer & np.repeat(newest - oldest > 2 * tick_ns, counts)
    return found


def _share_around(total: Places, part: slice) -> Floats:
    """The share among so many before and after each of a part; `total`: how many there are before each row."""
    index = np.arange(part.start, part.stop)
    low, high = np.maximum(index - AROUND, 0), np.minimum(index + AROUND + 1, len(total) - 1)
    share: Floats = (total[high] - total[low]) / (high - low)
    return share


def left_by(timeline: Timeline, left: Sends, seen_at: Ints) -> Ints:
    """When each send had left at the latest: what was asked for again left at once (RFC 5681 section 3.2), if no timer
    can have expired yet, however long a queue held it."""
    again, asked = repairs_that_came(timeline, left)
    moved_ns = timeline.ack_ns[np.maximum(timeline.last_moved[asked], 0)]
    soon = seen_at[again] - moved_ns < _core.LEAST_RTO_NS
    latest = np.full(len(left.row), np.iinfo(np.int64).max)
    latest[again[soon]] = timeline.ack_ns[asked[soon]]
    found: Ints = np.minimum.accumulate(latest[::-1])[::-1]
    return found


def by_timer(timeline: Timeline, seen: Arrivals, left: Sends, found: Rhythm, late_ns: Ints) -> Bools:
    """What fills a hole at `snd_una`, so long after any ACK that a timer sent it (RFC 6298), if it met no queue."""
    filled = holes(left)[1]
    places = distinct(filled[filled < NEVER])
    heard_ns = seen.time_ns[np.maximum(left.row[places], 0)] - found.turn_ns
    heard = np.searchsorted(timeline.ack_ns, heard_ns, side="right") - 1
    una = np.append(timeline.snd_una, timeline.first_offset)[heard]
    is_timed = (left.offset[places] <= una) & (una < left.end[places]) & (late_ns[places] >= _core.LEAST_RTO_NS)
    is_repair = np.zeros(len(left.row), dtype=bool)
    is_repair[places[is_timed]] = True
    return is_repair
