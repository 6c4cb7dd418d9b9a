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
from tcptrace_lab.reconstruct.distinct import distinct, is_among
from tcptrace_lab.reconstruct.given import DELAYED_ACK_SEGMENTS, FEWEST_ALIKE, FEWEST_SAMPLES, MAJORITY, MINORITY
from tcptrace_lab.reconstruct.tap.clock import AT_ONCE_NS
from tcptrace_lab.reconstruct.tap.sender_clock import RATE_TOLERANCE, RATES_HZ, WRAP, signed, unwrapped
from tcptrace_lab.reconstruct.timeline import Floats, Ints, Timeline, parts

# A window's marks stand out from so many ACKs on each side; a sender that sends at its own times makes them all along.
AROUND = 6
# Ticks that captured ACKs must span for the length of one, and how well it must fit a clock that hosts have.
FEWEST_TICKS = 100
# More ACKs show no habit that so many did not.
MOST_ACKS = 1 << 16
# An ACK is placed within the tick of its stamp: what came so many later is another's to answer. The first segments of a
# flight may be answered with those that come within this part of a round trip.
IDLE_TICKS = 2
IDLE_SHARE = 0.125
# Turns that spread over more than this part of the time may be those of a clock of another rate: the usual ones lie a
# factor of two and more apart, or are too near to be told by a few echoes.
DRIFT_SHARE = 0.25


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
    wide, found, others = 2 * AROUND + 1, 0, 0
    # In parts: around each ACK there are many.
    for part in parts(count - 2 * AROUND):
        near = slice(part.start, part.stop + 2 * AROUND)
        sides = sliding_window_view(flight[near], wide).copy()
        sides[:, AROUND] = 0
        stands_out = flight[near][AROUND:-AROUND] >= sides.max(axis=1) + timeline.smss
        usual = np.median(sliding_window_view(moved[near], wide), axis=1)
        is_double = moved[near][AROUND + 1 : len(usual) + AROUND + 1] >= 2 * np.maximum(usual, timeline.smss)
        # Beside a loss the window moves for other reasons.
        calm = ~(sliding_window_view(timeline.is_dupack[near], wide).any(axis=1))
        marks = int(np.count_nonzero(stands_out & is_double & calm))
        found += marks
        others += int(np.count_nonzero(stands_out & calm)) - marks
    return found if others <= MINORITY * count and found <= MINORITY * count else 0


def unheard_by_release(timeline: Timeline) -> int:
    """ACKs that report several times what most do, behind segments that none released; at the sender's tap only.

    What a sender sends at its own times (a pacer, an application) lies before ACKs of any size; and what a receiver, or
    the path, put into one ACK leaves with that ACK.
    """
    heard = np.flatnonzero(timeline.newly_acked > 0)
    if len(heard) < 4 * AROUND:
        return 0
    reports = np.rint(timeline.newly_acked[heard] / timeline.smss).astype(np.int32)
    sizes = np.bincount(np.maximum(reports, 0))
    usual = int(np.argmax(sizes[1:])) + 1 if len(sizes) > 1 else 0
    if not usual:
        return 0
    # Of each ACK but the first.
    is_calm = np.diff(np.cumsum(timeline.is_dupack, dtype=np.int32)[heard]) == 0
    # The smallest that are not rare are of one ACK each: what most report may be that of two.
    least = min(int(np.argmax(sizes[1:] >= MINORITY * len(heard))) + 1, usual)
    several, single = (np.flatnonzero(is_calm & which) for which in (reports[1:] >= 2 * usual, reports[1:] == least))
    if len(several) < AROUND:
        return 0
    fresh_ns = timeline.send_ns[~timeline.is_retransmission]

    def unasked(acks: Ints) -> Ints:
        """Those before which something left after the ACK before had had its time."""
        before, own = timeline.ack_ns[heard[acks]], timeline.ack_ns[heard[acks + 1]]
        since = before + np.maximum((own - before) // _core.PROMPT_PARTS, AT_ONCE_NS)
        left = _core.places(fresh_ns, own) > _core.places(fresh_ns, since, or_equal=True)
        found: Ints = acks[left]
        return found

    told = unasked(several)
    if len(told) <= MAJORITY * len(several) or len(told) < AROUND:
        return 0
    if len(unasked(single)) > MINORITY * len(single):
        return 0
    return int((reports[1:][told] // usual - 1).sum())


def unheard_by_timers(timeline: Timeline) -> int:
    """Loss events that no captured ACK tells of, and that were no timer's, which restarts any sender from one segment
    (RFC 5681 section 3.1); at the sender's tap. Few may be read otherwise."""
    events = timeline.observed.events()
    is_timer = events["detected_by"] == _core.DETECTED_BY.index("rto")
    found = int(np.count_nonzero(is_timer & ~events["restarts"] & (events["dupacks"] == 0)))
    return found if found >= FEWEST_ALIKE and found > MINORITY * len(is_timer) else 0


def unheard_behind(timeline: Timeline) -> Ints:
    """The ACKs behind which new data left later than any round trip, with some outstanding, and before the next
    captured one: what the sender heard meanwhile, and what it made of it, is not in the capture."""
    # Not kept: few ask, and those while much else is held.
    longest_ns = timeline.observed.column("rtt_ns").max(initial=0)
    if not longest_ns or len(timeline.ack_ns) < 2:
        return np.zeros(0, dtype=np.int64)

    def known(sends: slice | Ints) -> Ints:
        found: Ints = timeline.acks_before_send[sends].astype(np.int64) - 1
        return found

    def late_of(part: slice) -> Ints:
        own, is_new = known(part), ~timeline.is_retransmission[part]
        late = np.flatnonzero((own >= 0) & is_new & (timeline.send_ns[part] - timeline.ack_ns[own] > longest_ns))
        found: Ints = late + part.start
        return found

    late = np.concatenate([late_of(part) for part in parts(len(timeline.send_ns))] or [np.zeros(0, dtype=np.int64)])
    if not len(late):
        return late
    heard = known(late)
    # Behind an ACK of all that had been sent a sender waits for its application.
    begins = np.searchsorted(timeline.acks_before_send, heard, side="right")
    is_open = timeline.snd_max[np.maximum(begins - 1, 0)] > timeline.snd_una[heard]
    found: Ints = distinct(heard[is_open & (begins > 0)])
    return found[found < len(timeline.ack_ns) - 1]


def unheard_by_count(timeline: Timeline) -> int:
    """ACKs that a receiver owes (RFC 9293 section 3.8.6.3: one for every second full segment) and none captured is.

    Not at the sender's tap, which does not see those that the path lost. Of what lay in one burst it may merge the
    segments before it answers. What fills a hole answers for more, so ACKs behind others that moved nothing, and of
    what was sent again, tell nothing. Few may be a receiver's own habit.
    """
    moved = np.flatnonzero(timeline.newly_acked[:MOST_ACKS] > 0)
    if len(moved) < FEWEST_SAMPLES:
        return 0
    sends = slice(0, int(timeline.acks_before_send.searchsorted(moved[-1], side="right")))
    fresh = ~timeline.is_retransmission[sends]
    if not fresh.any():
        return 0
    una = timeline.snd_una[moved]
    before = np.append(timeline.first_offset, una[:-1])
    ends, times = timeline.snd_max[sends][fresh], timeline.send_ns[sends][fresh]
    is_full = (timeline.send_end[sends] - timeline.send_offset[sends])[fresh] >= timeline.smss
    bursts = np.append(0, np.cumsum(np.diff(times) > _core.BURST_NS))
    full = np.append(0, np.cumsum(is_full))
    first, upto = (np.searchsorted(ends, edges, side="right") for edges in (before, una))
    owed = np.maximum((full[upto] - full[first] - 1) // DELAYED_ACK_SEGMENTS, 0)
    apart = np.where(upto > first, bursts[np.maximum(upto, 1) - 1] - bursts[np.minimum(first, len(bursts) - 1)], 0)
    again = np.sort(timeline.send_offset[sends][~fresh])
    is_told = np.diff(moved, prepend=-1) == 1
    is_told &= np.searchsorted(again, before) == np.searchsorted(again, una)
    missing = int(np.minimum(owed, apart)[is_told].sum())
    return missing if missing > MINORITY * (len(moved) + missing) else 0


def with_unheard(timeline: Timeline, segments: Any, stamps: Ints) -> tuple[Timeline, Ints, int] | None:
    """The timeline with the ACKs that echoes name put back, the TSvals of all, and within how long each is placed; at
    the receiver's tap only.

    There an ACK acknowledges what had arrived when it was stamped, and the stamps of those captured tell when that was.
    None: when that was is not told.
    """
    arrived = segments["length"] > 0
    echoes, came_ns = segments["ts_ecr"][arrived], segments["time_ns"][arrived]
    if not len(stamps) or not len(echoes) or (stamps < 0).any() or (echoes < 0).any():
        return None
    known = np.maximum.accumulate(unwrapped(stamps))
    echoed = unwrapped(echoes) + int(signed(echoes[:1] - stamps[0])[0])
    tick_ns = _tick_by_stamps(known, timeline.ack_ns) or _tick_by_echoes(echoed, came_ns, known, timeline.ack_ns)
    if tick_ns is None:
        return None
    named = _ticks(np.sort(echoed))
    named = named[(named > known[0]) & ~is_among(named, known)]
    released = distinct(known, named)
    origin_ns = timeline.ack_ns[0] - known[0] * tick_ns
    turn_ns = float((came_ns - origin_ns - echoed * tick_ns).min())
    early_ns, late_ns = IDLE_TICKS * tick_ns, max(IDLE_TICKS * tick_ns, IDLE_SHARE * turn_ns)
    idle = _idle_arrivals(origin_ns + released * tick_ns, came_ns, early_ns, late_ns)
    silent = ((came_ns[idle] - origin_ns) / tick_ns).astype(np.int64)
    count, named = len(named), distinct(named, silent[~is_among(silent, released)])
    # On the tap's clock, from the nearest that was captured before.
    before = np.searchsorted(known, named, side="right") - 1
    times = timeline.ack_ns[before] + ((named - known[before]) * tick_ns).astype(np.int64)
    acked = timeline.una_after(np.searchsorted(timeline.ack_ns, came_ns, side="right"))
    top = in_order_top(segments["offset"][arrived], segments["length"][arrived], acked)
    # Of the ACKs of one tick the sender names the last.
    place = np.searchsorted(came_ns, times + int(tick_ns), side="right") - 1
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
        # Of a view from elsewhere nobody asks.
        echoes_older=timeline.echoes_older[:0],
        sack_first=np.concatenate(([0], np.cumsum(np.where(is_new, 0, edges)))) if len(edges) else timeline.sack_first,
        notes=(*timeline.notes, f"{count} ACKs that its segments echo and the tap did not capture are put back"),
    )
    # Where in their ticks lay neither one that was put back nor the one that it is counted from.
    return whole, (np.concatenate((known, named))[order] + stamps[0]) % WRAP, 2 * int(tick_ns)


def _idle_arrivals(acked_ns: Floats, came_ns: Ints, early_ns: float, late_ns: float) -> Ints:
    """Arrivals whose ACKs released nothing, so that no segment names them: every second one, as a receiver answers
    (RFC 9293 section 3.8.6.3), so long after the ACK before and before the one that follows."""
    before = np.searchsorted(acked_ns, came_ns, side="right") - 1
    edges = np.append(acked_ns, acked_ns[-1])
    is_clear = (came_ns - edges[before] > early_ns) & (edges[before + 1] - came_ns > late_ns)
    between = np.flatnonzero((before >= 0) & is_clear)
    # Counted from each of those ACKs on.
    first = np.searchsorted(before[between], before[between], side="left")
    is_second = (np.arange(len(between)) - first) % DELAYED_ACK_SEGMENTS == DELAYED_ACK_SEGMENTS - 1
    found: Ints = between[is_second]
    return found


def _tick_by_stamps(known: Ints, times: Ints) -> float | None:
    """The length of a tick of the receiver's clock, by its captured TSvals; None: they tell none."""
    if known[-1] - known[0] < FEWEST_TICKS or times[-1] <= times[0]:
        return None
    rough = float(times[-1] - times[0]) / float(known[-1] - known[0])
    usual = min(RATES_HZ, key=lambda rate: abs(np.log(rate * rough / 1e9)))
    return 1e9 / usual if abs(usual * rough / 1e9 - 1) <= RATE_TOLERANCE else None


def _tick_by_echoes(echoed: Ints, came_ns: Ints, known: Ints, times: Ints) -> float | None:
    """The same, where few ACKs were captured: what was stamped came back a turn later, and turns do not drift.

    A clock that ticks slower than taken has segments come before what they echo, a faster one ever later.
    """
    ticks = echoed - known[0]
    fits = []
    for rate in RATES_HZ if ticks.max() - ticks.min() >= FEWEST_TICKS else ():
        turns = came_ns - times[0] - ticks * (1e9 / rate)
        spent = float(came_ns[-1] - came_ns[0])
        if turns.min() > 0 and turns.max() - turns.min() < DRIFT_SHARE * spent:
            fits.append(1e9 / rate)
    return fits[0] if len(fits) == 1 else None


def in_order_top(offsets: Ints, lengths: Ints, acked: Ints) -> Ints:
    """The end of what had arrived without a hole after each segment; `acked`: of which ACKs tell by then. What they
    acknowledge has arrived, before the capture began or past the tap."""
    ends = offsets + lengths
    top = np.maximum.accumulate(ends) if len(ends) else ends
    if not len(ends) or not (offsets[1:] > top[:-1]).any():
        return top
    found = np.empty_like(ends)
    reached = int(offsets[0])
    waiting = _passed_by(offsets, ends, top)
    for place, (offset, end, told) in enumerate(zip(offsets.tolist(), ends.tolist(), acked.tolist(), strict=True)):
        heappush(waiting, (offset, end))
        reached = max(reached, told)
        while waiting and waiting[0][0] <= reached:
            reached = max(reached, heappop(waiting)[1])
        found[place] = reached
    return found


def _passed_by(offsets: Ints, ends: Ints, top: Ints) -> list[tuple[int, int]]:
    """The bytes that never came while what is above them was sent again: holes are filled from the lowest on (RFC 6582,
    RFC 6675), so these had come past the tap. Begins and ends, in order."""
    again = offsets[1:][offsets[1:] < top[:-1]]
    order = np.argsort(offsets, kind="stable")
    reach = np.maximum.accumulate(ends[order])[:-1]
    begins = offsets[order][1:]
    kept = (begins > reach) & (begins <= again.max(initial=-1))
    return list(zip(reach[kept].tolist(), begins[kept].tolist(), strict=True))
