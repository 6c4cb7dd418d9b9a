"""ACKs that a sender heard and the tap did not capture: the least number of them, by what the sender did.

With timestamps a segment echoes the newest TSval its sender had (RFC 7323 section 4.3): one that no captured ACK
carries was in an ACK that the tap lost. Without, at the sender's tap, a window at work tells: it has for once more
outstanding than it had before and has afterwards, until one ACK reports what two of the others do; and of segments that
no captured ACK released at once the next ACK reports more than others do. An ACK lost on its
way releases nothing and leaves no such mark. Errs low: an ACK followed by another within a tick, or before the sender
sent anything, is not missed.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.clock import AT_ONCE_NS
from tcptrace_lab.reconstruct.given import MAJORITY, MINORITY
from tcptrace_lab.reconstruct.sender_clock import RATE_TOLERANCE, RATES_HZ, WRAP, signed, unwrapped
from tcptrace_lab.reconstruct.timeline import Ints, Timeline

# A window's marks stand out from so many ACKs on each side; a sender that sends at its own times makes them all along.
AROUND = 6
RARE_SHARE = 0.05
# Ticks that captured ACKs must span for the length of one, and how well it must fit a clock that hosts have.
FEWEST_TICKS = 100


def unheard_by_echo(segments: Any, acks: Any) -> int | None:
    """TSvals that segments echo and no captured ACK carries; None: the capture has no timestamps."""
    stamps, echoes = acks["ts_val"], segments["ts_ecr"][segments["length"] > 0]
    if not len(stamps) or not len(echoes) or (stamps < 0).any() or (echoes < 0).any():
        return None
    known = _ticks(unwrapped(stamps))
    named = _ticks(np.sort(_ticks(unwrapped(echoes)) + int(signed(echoes[:1] - stamps[0])[0])))
    # What was heard before the capture began is no loss.
    named = named[named > known[0]]
    return int(np.count_nonzero(~np.isin(named, known)))


def _ticks(clock: Ints) -> Ints:
    """Without what repeats the one before it."""
    return clock[np.concatenate(([True], clock[1:] != clock[:-1]))]


def unheard_by_window(timeline: Timeline) -> int:
    """Marks of a window at work, where that is what ACKs show; at the sender's tap only."""
    flight: Ints = timeline.observed.column("flight")
    moved = timeline.newly_acked
    count = len(flight)
    if count < 4 * AROUND:
        return 0
    wide = 2 * AROUND + 1
    sides = sliding_window_view(flight, wide).copy()
    middle = slice(AROUND, count - AROUND)
    sides[:, AROUND] = 0
    stands_out = flight[middle] >= sides.max(axis=1) + timeline.smss
    usual = np.median(sliding_window_view(moved, wide), axis=1)
    is_double = moved[AROUND + 1 : count - AROUND + 1] >= 2 * np.maximum(usual, timeline.smss)
    # Beside a loss the window moves for other reasons.
    calm = ~(sliding_window_view(timeline.is_dupack, wide).any(axis=1))
    found = int(np.count_nonzero(stands_out & is_double & calm))
    others = int(np.count_nonzero(stands_out & calm)) - found
    return found if others <= RARE_SHARE * count and found <= RARE_SHARE * count else 0


def unheard_by_release(timeline: Timeline) -> int:
    """ACKs that report several times what most do, behind segments that none released; at the sender's tap only.

    What a sender sends at its own times (a pacer, an application) lies before ACKs of any size; and what a receiver, or
    the path, put into one ACK leaves with that ACK.
    """
    heard = np.flatnonzero(timeline.newly_acked > 0)
    if len(heard) < 4 * AROUND:
        return 0
    times, reports = timeline.ack_ns[heard], np.rint(timeline.newly_acked[heard] / timeline.smss).astype(np.int64)
    sizes = np.bincount(np.maximum(reports, 0))
    usual = int(np.argmax(sizes[1:])) + 1 if len(sizes) > 1 else 0
    if not usual:
        return 0
    fresh_ns = timeline.send_ns[~timeline.is_retransmission]
    # Of each ACK but the first: what left after the one before had had its time, and before this one.
    waits = np.diff(times)
    begin = np.searchsorted(fresh_ns, times[:-1] + np.maximum(waits // _core.PROMPT_PARTS, AT_ONCE_NS), side="right")
    is_unasked = np.searchsorted(fresh_ns, times[1:], side="left") > begin
    is_calm = np.diff(np.cumsum(timeline.is_dupack)[heard]) == 0
    more = reports[1:] // usual - 1
    # The smallest that are not rare are of one ACK each: what most report may be that of two.
    least = min(int(np.argmax(sizes[1:] >= MINORITY * len(heard))) + 1, usual)
    several, single = is_calm & (more > 0), is_calm & (reports[1:] == least)
    unasked = int(np.count_nonzero(several & is_unasked))
    if unasked <= MAJORITY * np.count_nonzero(several) or unasked < AROUND:
        return 0
    if np.count_nonzero(single & is_unasked) > MINORITY * np.count_nonzero(single):
        return 0
    return int(more[several & is_unasked].sum())


def with_unheard(timeline: Timeline, segments: Any, stamps: Ints) -> tuple[Timeline, Ints]:
    """The timeline with the ACKs that echoes name put back, and the TSvals of all; at the receiver's tap only.

    There an ACK acknowledges what had arrived when it was stamped, and the stamps of those captured tell when that was.
    """
    arrived = segments["length"] > 0
    echoes = segments["ts_ecr"][arrived]
    clock = _receivers_clock(stamps, timeline.ack_ns)
    if clock is None:
        return timeline, stamps
    known, tick_ns = clock
    named = _ticks(np.sort(unwrapped(echoes) + int(signed(echoes[:1] - stamps[0])[0])))
    named = named[(named > known[0]) & ~np.isin(named, known)]
    # On the tap's clock, from the nearest that was captured before.
    before = np.searchsorted(known, named, side="right") - 1
    times = timeline.ack_ns[before] + ((named - known[before]) * tick_ns).astype(np.int64)
    top = in_order_top(segments["offset"][arrived], segments["length"][arrived])
    place = np.searchsorted(segments["time_ns"][arrived], times, side="right") - 1
    offsets = np.where(place >= 0, top[np.maximum(place, 0)], timeline.ack_offset[0])
    order = np.argsort(np.concatenate((timeline.ack_ns, times)), kind="stable")
    rows = np.concatenate((np.arange(len(stamps)), before))[order]
    is_new = order >= len(stamps)
    raised = np.maximum.accumulate(np.concatenate((timeline.ack_offset, offsets))[order])
    edges = np.diff(timeline.sack_first, append=0)[rows] if len(timeline.sack_first) else np.zeros(0, dtype=np.int64)
    whole = replace(
        timeline,
        ack_ns=np.concatenate((timeline.ack_ns, times))[order],
        ack_offset=raised,
        rwnd=timeline.rwnd[rows],
        is_bare=np.where(is_new, True, timeline.is_bare[rows]),
        sack_high=np.where(is_new, 0, timeline.sack_high[rows]),
        sacked=np.where(is_new, 0, timeline.sacked[rows]),
        sack_first=np.concatenate(([0], np.cumsum(np.where(is_new, 0, edges)))) if len(edges) else timeline.sack_first,
        notes=(*timeline.notes, f"{len(named)} ACKs that its segments echo and the tap did not capture are put back"),
    )
    return whole, (np.concatenate((known, named))[order] + stamps[0]) % WRAP


def _receivers_clock(stamps: Ints, times: Ints) -> tuple[Ints, float] | None:
    """The captured TSvals without wraps, and the length of a tick; None: they tell none."""
    if len(stamps) < 2 or (stamps < 0).any():
        return None
    known = np.maximum.accumulate(unwrapped(stamps))
    if known[-1] - known[0] < FEWEST_TICKS or times[-1] <= times[0]:
        return None
    rough = float(times[-1] - times[0]) / float(known[-1] - known[0])
    usual = min(RATES_HZ, key=lambda rate: abs(np.log(rate * rough / 1e9)))
    if abs(usual * rough / 1e9 - 1) > RATE_TOLERANCE:
        return None
    return known, 1e9 / usual


def in_order_top(offsets: Ints, lengths: Ints) -> Ints:
    """The end of what had arrived without a hole after each segment."""
    ends = offsets + lengths
    top = np.maximum.accumulate(ends) if len(ends) else ends
    if not len(ends) or not (offsets[1:] > top[:-1]).any():
        return top
    found = np.empty_like(ends)
    reached = int(offsets[0])
    waiting: list[tuple[int, int]] = []
    for place, (offset, end) in enumerate(zip(offsets.tolist(), ends.tolist(), strict=True)):
        heappush(waiting, (offset, end))
        while waiting and waiting[0][0] <= reached:
            reached = max(reached, heappop(waiting)[1])
        found[place] = reached
    return found
