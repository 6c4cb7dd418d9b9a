"""Which ACKs that passed a receiver's tap reached its sender: one that is lost behind the tap lets nothing go.

With timestamps a segment echoes the newest TSval that its sender had (RFC 7323 section 4.3), and a window at work
answers each ACK of new data at once. Where nothing echoes the ACKs of a tick, and what echoes the next tick's is as
much as all of them let go, the first were lost. Errs to "heard", also beside losses, which move the window; but a
sender that waits until a few segments may leave together (offload) may have heard what nothing echoes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tcptrace_lab.numbers import counted
from tcptrace_lab.reconstruct.away.arrivals import Arrivals
from tcptrace_lab.reconstruct.away.echoes import unwrapped_both
from tcptrace_lab.reconstruct.given import FEWEST_ALIKE, MAJORITY
from tcptrace_lab.reconstruct.tap.sender_clock import sender_clock
from tcptrace_lab.reconstruct.timeline import Bools, Ints, Timeline, parts


def as_heard(timeline: Timeline, seen: Arrivals, stamps: Ints) -> tuple[Timeline, Ints]:
    """Without the ACKs that are told to have been lost, and the TSvals of the others; `stamps`: of all."""
    if seen.echo is None or seen.stamp is None or not len(seen.echo) or not len(stamps) or stamps.min() < 0:
        return timeline, stamps
    lost = unheard(timeline, seen, stamps)
    if np.count_nonzero(lost) < FEWEST_ALIKE:
        return timeline, stamps
    note = f"{counted(int(np.count_nonzero(lost)), 'ACK')} that nothing echoes did not reach the sender"
    return replace(without(timeline, lost), notes=(*timeline.notes, note)), stamps[~lost]


def without(timeline: Timeline, lost: Bools) -> Timeline:
    """The timeline of a sender that did not hear these ACKs; its sends stay."""
    kept = np.flatnonzero(~lost)
    edges = np.diff(timeline.sack_first)
    return replace(
        timeline,
        ack_ns=timeline.ack_ns[kept],
        ack_offset=timeline.ack_offset[kept],
        rwnd=timeline.rwnd[kept],
        is_bare=timeline.is_bare[kept],
        sack_high=timeline.sack_high[kept],
        sacked=timeline.sacked[kept],
        # Of a view from elsewhere nobody asks.
        echoes_older=timeline.echoes_older[:0],
        slack=timeline.slack[kept] if len(timeline.slack) else timeline.slack,
        sack_first=np.append(0, np.cumsum(edges[kept])) if len(edges) else timeline.sack_first,
        sack_edges=timeline.sack_edges[np.repeat(~lost, edges)] if len(edges) else timeline.sack_edges,
    )


@dataclass(frozen=True, kw_only=True)
class _Ticks:
    """The ticks of the receiver's clock in which there were ACKs: the first ACK of each and the last; whether anything
    echoes it, and how many bytes that left at once; how many were known to have arrived at its end, and whether nothing
    had out of order."""

    first: Ints
    last: Ints
    is_named: Bools
    sent: Ints
    gone: Ints
    is_calm: Bools


def unheard(timeline: Timeline, seen: Arrivals, stamps: Ints) -> Bools:
    """Of each ACK whether it was lost on its way to the sender."""
    assert seen.echo is not None
    assert seen.stamp is not None
    echo, clock = unwrapped_both(seen.echo, stamps)
    first = np.flatnonzero(np.diff(clock, prepend=clock[0] - 1))
    last = np.append(first[1:], len(clock)) - 1
    gone = timeline.delivered[last]
    is_named = np.zeros(len(first), dtype=bool)
    for tick, _ in _echoes(echo, clock[first]):
        is_named[tick] = True
    named = np.flatnonzero(is_named)
    found = np.zeros(len(clock), dtype=bool)
    if len(named) < FEWEST_ALIKE:
        return found
    # Of what was reordered the first that echoes it so late.
    leads = np.minimum(np.searchsorted(np.maximum.accumulate(echo), clock[first[named]]), len(echo) - 1)
    own = sender_clock(seen.stamp[leads], timeline.ack_ns[first[named]])
    if own is None:
        return found
    sent = np.zeros(len(first), dtype=np.int64)
    for tick, segments in _echoes(echo, clock[first]):
        # When its tick was over: that of the ACK, and one more. An application writes when it does.
        soon = own.ends(seen.stamp[segments]) - timeline.ack_ns[last[tick]] <= 2 * own.tick_ns
        np.add.at(sent, tick[soon], (seen.end[segments] - seen.offset[segments])[soon])
    at_once = sent[named] > 0
    if np.count_nonzero(at_once) < MAJORITY * len(named):
        return found
    ticks = _Ticks(
        first=first, last=last, is_named=is_named, sent=sent, gone=gone, is_calm=gone == timeline.snd_una[last]
    )
    answers = at_once & ticks.is_calm[named]
    unnamed, short = (_of(timeline, ticks, named, answers) for _of in (_unnamed, _last_of_named))
    # A window at work does not shrink without a loss: one that often lets go less than it was told does not answer each
    # ACK, and what it does not answer it may have heard.
    is_less = ticks.sent[named] + timeline.smss // 2 < np.diff(gone[named], prepend=timeline.first_offset)
    is_less &= ticks.is_calm[named]
    if np.count_nonzero(is_less) < np.count_nonzero(unnamed) + len(short):
        found |= np.repeat(unnamed, last - first + 1)
        found[short] = True
    return found


def _echoes(echo: Ints, ticks: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Of the segments that echo a tick, some at a time: which tick, and which segments."""
    for part in parts(len(echo)):
        tick = np.minimum(np.searchsorted(ticks, echo[part]), len(ticks) - 1)
        known = np.flatnonzero(ticks[tick] == echo[part])
        yield tick[known], part.start + known


def _unnamed(timeline: Timeline, ticks: _Ticks, named: Ints, answers: Bools) -> Bools:
    """Of each tick whether nothing echoes it, and what echoes the next that is echoed was let go by both."""
    owed = np.diff(ticks.gone[named], prepend=timeline.first_offset)
    half, sent = timeline.smss // 2, ticks.sent[named]
    answers = answers & (sent + half >= owed)
    following = np.searchsorted(named, np.arange(len(ticks.first)))
    tells = np.diff(ticks.gone, prepend=timeline.first_offset) > 0
    found: Bools = ~ticks.is_named & tells & ticks.is_calm & np.append(answers, False)[following]
    return found


def _last_of_named(timeline: Timeline, ticks: _Ticks, named: Ints, answers: Bools) -> Ints:
    """The last ACKs of ticks with several, where what it tells of is not let go then, but beside the next tick's."""
    owed = np.diff(ticks.gone[named], prepend=timeline.first_offset)
    half, sent, last = timeline.smss // 2, ticks.sent[named], ticks.last[named]
    own = np.where(last > ticks.first[named], timeline.newly_acked[last], 0)
    is_short = answers & (own > half) & (sent + half >= owed - own) & (sent < owed - half)
    makes_up = answers & (sent + half >= owed + np.append(0, own[:-1]))
    found: Ints = last[is_short & np.append(makes_up[1:], False)]
    return found
