"""Loss cycles and the slow starts in each (Barakat & Altman 1998, section 1: one, two or three per cycle).

Where a cycle begins and which slow starts count is the core's (core/src/infer/sender/slow_starts/cycles.rs), for
simulator, recorder and captures alike. Here is what else a capture shows of each cycle.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.losses import Episode
from tcptrace_lab.reconstruct.phases import Stretch
from tcptrace_lab.reconstruct.timeline import Ints, Timeline

# After so many answers a restarted window of one segment has doubled twice, or it does not double.
ANSWERS = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Cycle:
    """One row of the table `cycles`. `ssthresh`: bytes at which each slow start ended (None: by a loss before it).

    `is_whole`: the number of slow starts cannot grow any more (avoidance was reached and lasted a round trip).
    `begins_unseen`: the capture starts within this cycle. `w_max` in bytes, `throughput` in bits a second (NaN: no time
    passed).
    """

    start_ns: int
    end_ns: int
    slow_starts: int
    restarts_after_idle: int
    ssthresh: tuple[int | None, ...]
    w_max: int
    throughput: float
    is_whole: bool
    begins_unseen: bool


def cycles(timeline: Timeline, parts: Sequence[Stretch], flight: Ints, rtt_ns: int) -> tuple[Cycle, ...]:
    """The run cut into loss cycles."""
    if not parts:
        return ()
    groups = [list(group) for _, group in groupby(parts, key=lambda part: part.cycle)]
    firsts = [group[0] for group in groups]
    starts = [first.started_by.time_ns if first.started_by else timeline.start_ns for first in firsts]
    ends = [first.started_by.time_ns if first.started_by else timeline.end_ns for first in firsts[1:]]
    ends.append(timeline.end_ns)
    acked = acked_between(timeline, np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64)).tolist()
    begins = np.array([first.first for first in firsts], dtype=np.int32)
    behind = np.array([group[-1].last + 1 for group in groups], dtype=np.int32)
    w_max = (-_core.least_within(-flight, begins, behind)).tolist()
    reached = [_reached(group) for group in groups]
    peaks = [part.first if part.peak is None else part.peak for part in reached]
    work_ns = _work_ns(timeline, flight, rtt_ns)
    # A stretch may begin behind the last ACK.
    turned, over = (work_ns[np.minimum(acks, len(work_ns) - 1)] for acks in (peaks, [part.last for part in reached]))
    has_turned = (over - turned > rtt_ns).tolist()
    seen = zip(starts, ends, acked, w_max, strict=True)
    rows = zip_longest(groups, reached, has_turned, seen, firsts[1:])
    return tuple(_cycle(timeline, *row[:3], rtt_ns, seen=row[3], following=row[4]) for row in rows)


def _reached(group: list[Stretch]) -> Stretch:
    """What follows a pause adds no slow start to the cycle: avoidance was reached before it or never."""
    return next((part for part in reversed(group) if part.begin != "idle"), group[-1])


def _cycle(
    timeline: Timeline,
    group: list[Stretch],
    reached: Stretch,
    is_over: bool,
    rtt_ns: int,
    *,
    seen: tuple[int, int, int, int],
    following: Stretch | None,
) -> Cycle:
    """`is_over`: its last slow start is, as far as its own ACKs tell. `seen`: from when to when, the bytes acknowledged
    between, and the most outstanding."""
    first = group[0]
    start_ns, end_ns, acked, w_max = seen
    begun = [part for part in group if part.is_counted]
    if following is None:
        is_over &= not _ends_in_recovery(timeline, first.started_by)
    if reached.peak is None and reached.begin == "restart":
        # An answer or two after a restart show no growth yet: the capture ended before it could.
        moved = timeline.newly_acked[reached.first + 1 : reached.last + 1] > 0
        is_over &= int(moved.sum()) >= ANSWERS and reached.slow_start_end is None
    is_whole = following is not None or is_over
    return Cycle(
        start_ns=start_ns,
        end_ns=end_ns,
        slow_starts=len(begun),
        restarts_after_idle=sum(part.begin == "idle" and part.is_slow_start for part in group),
        ssthresh=tuple(_ended_at(timeline, part, rtt_ns) for part in begun),
        w_max=w_max,
        throughput=8e9 * acked / (end_ns - start_ns) if end_ns > start_ns else math.nan,
        is_whole=is_whole,
        begins_unseen=first.begin == "capture",
    )


def _work_ns(timeline: Timeline, flight: Ints, rtt_ns: int) -> Ints:
    """How long, up to each ACK, something was outstanding and the receiver's window was open; but for silences as long
    as a timer's: no window is seen at work in them."""
    found: Ints = np.zeros_like(timeline.ack_ns)
    apart = np.subtract(timeline.ack_ns[1:], timeline.ack_ns[:-1], out=found[1:])
    apart *= (timeline.rwnd[:-1] >= timeline.smss) & (flight[:-1] > 0) & (apart <= rtt_ns + _core.LEAST_RTO_NS)
    np.cumsum(apart, out=apart)
    return found


def acked_between(timeline: Timeline, starts_ns: Ints, ends_ns: Ints) -> Ints:
    """Bytes acknowledged from each time to another."""
    una = timeline.snd_una
    before, upto = (np.searchsorted(timeline.ack_ns, times, side="right") for times in (starts_ns - 1, ends_ns))
    begun = np.where(before > 0, una[np.maximum(before, 1) - 1], min(timeline.first_offset, int(una[0])))
    found: Ints = una[np.maximum(upto, 1) - 1] - begun
    return found


def _ends_in_recovery(timeline: Timeline, begun_by: Episode | None) -> bool:
    """Whether the last retransmission was never answered, or what was outstanding at the loss that began the cycle
    still is, its sender not restarted: what the loss led to is not in the capture."""
    again, una = np.flatnonzero(timeline.is_retransmission), int(timeline.snd_una[-1])
    is_within = begun_by is not None and not begun_by.restarts and una < begun_by.recover
    return is_within or bool(len(again) and timeline.send_end[again[-1]] > una)


def _ended_at(timeline: Timeline, part: Stretch, rtt_ns: int) -> int | None:
    if part.peak is None:
        return None
    if part.episode is not None and part.episode.lost_sent_ns <= int(timeline.ack_ns[part.peak]) - rtt_ns // 2:
        # The growth went on until the loss was noticed.
        return None
    return part.grown_to if part.has_threshold else None
