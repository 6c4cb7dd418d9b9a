"""The rhythm of arrivals and ACKs at a tap away from the sender, without timestamps: the turn (tap to sender and back).

A segment that reaches the bottleneck when nothing waits there passes the tap one turn after the ACK that released it.
Arrivals further apart than the bottleneck's own spacing show such moments, and the turn itself is the lag at which
they follow ACKs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.away.arrivals import NOTHING, Arrivals, Sends
from tcptrace_lab.reconstruct.away.first_repairs import repairs_that_came
from tcptrace_lab.reconstruct.given import (
    FEWEST_ALIKE,
    FEWEST_SAMPLES,
    FULL_SHARE,
    MAJORITY,
    MINORITY,
    NEAR_SHARE,
    ODD_SHARE,
)
from tcptrace_lab.reconstruct.timeline import Bools, Ints, Timeline, rows_from

# Arrivals this much further apart than the bottleneck puts them had nothing before them in its queue.
IDLE_FACTOR = 1.5
# The bottleneck's spacing: the lower quartile of all (pairs released by one delayed ACK stand one behind the other).
SPACING_PERCENTILE = 25
# A segment that an ACK released passes within this of one turn after it: a host's own time, a path's jitter.
NEAR_NS = 200_000
# It is no nearer than most captures' stamps are fine.
STAMP_NS = 1_000
# More segments are not looked at; the turn is at most this long where no handshake tells.
MOST_LOOKED_AT = 2000
LONGEST_TURN_NS = 1_000_000_000


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


@dataclass(frozen=True, kw_only=True)
class ByRhythm:
    """What a rhythm tells of a view's sends: which came apart from the one before, as what an answer lets go does
    (`met_no_queue`), and of those a turn behind an ACK, within `near_ns` (0: the turn is not measured).

    `spacing_ns`: the bottleneck's, of full segments.
    """

    near_ns: int
    spacing_ns: int
    met_no_queue: Bools
    came_at_once: Bools


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
    chosen = _most_shared(lags, low, near, expected_ns=None if hint_ns is None else hint_ns + longer)
    share = len(chosen) / len(times)
    if hint_ns is None and is_chance(len(chosen), len(times), len(lags), near / (high - low)):
        return None
    if hint_ns is not None and share < MAJORITY:
        # A path's jitter lies on both sides of the turn that the handshake foretells. An application's pace is not
        # there, and where ACKs stand close together some are by chance.
        around = lags[np.abs(lags - hint_ns - longer) <= near]
        if not is_chance(len(around), len(times), len(lags), 2 * near / (high - low)):
            chosen, share = around, len(around) / len(times)
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
    is_written = _is_written(timeline, seen, leads, turn)
    if is_written and hint_ns is not None and turn + near < hint_ns + longer:
        # The application's pause alone: a full segment takes longer there and back than that.
        return Rhythm(turn_ns=hint_ns, spacing_ns=spacing, is_clocked=True, near_ns=near)
    return Rhythm(
        turn_ns=turn,
        spacing_ns=spacing,
        is_clocked=True,
        near_ns=_measured(timeline, times - turn, near),
        is_measured=True,
        is_written=is_written,
    )


def _most_shared(lags: Ints, low: int, near: int, *, expected_ns: int | None) -> Ints:
    """Those of the lags from `low` on that lie within `near` of each other where most do, or nearest to what is
    expected where as many do elsewhere."""
    # Bins of half the tolerance, two together.
    step = max(near // 2, 1)
    bins = np.bincount(((lags - low) // step).astype(np.int64))
    pairs = bins + np.append(bins[1:], 0)
    begin = low + step * int(np.argmax(pairs))
    if expected_ns is not None:
        # ACKs that are spaced as the data are give lags a spacing apart as often.
        begins = low + step * np.flatnonzero(pairs >= FULL_SHARE * pairs.max())
        begin = int(begins[np.argmin(np.abs(begins + step - expected_ns))])
    found: Ints = lags[(lags >= begin) & (lags < begin + near)]
    return found


def is_chance(alike: int, leads: int, lags: int, share: float) -> bool:
    """Whether so many leads come within one window's width of a lag by chance: of all that were looked among, each such
    window has this `share`. Where ACKs stand close together every lag is some ACK's."""
    by_chance = min(lags / leads * share, 1.0)
    alike_share = alike / leads
    if by_chance >= alike_share:
        return True
    # Chernoff's bound of a binomial's tail, for each of the windows.
    odds = alike_share * math.log(alike_share / by_chance)
    if alike < leads:
        odds += (1.0 - alike_share) * math.log((1.0 - alike_share) / (1.0 - by_chance))
    return leads * odds < math.log(1.0 / (share * ODD_SHARE))


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
    apart = _core.percentile((times[FEWEST_ALIKE:] - times[:-FEWEST_ALIKE]) / reported, 100 * MINORITY)
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


def _near(spacing_ns: int) -> int:
    return max(NEAR_NS, int(NEAR_SHARE * spacing_ns))
