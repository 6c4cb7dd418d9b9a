"""Which ACKs a sender had when it sent: what the TSecr of its segments names (RFC 7323 section 4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.away.arrivals import Arrivals, Sends
from tcptrace_lab.reconstruct.given import DELAYED_ACK_SEGMENTS, MINORITY, ODD_SHARE
from tcptrace_lab.reconstruct.tap.sender_clock import Ints, signed, unwrapped
from tcptrace_lab.reconstruct.timeline import Bools, Places, Timeline, parts

SYN, RST = 0x2, 0x4
# Fewer groups than this show no habit.
FEW_GROUPS = 16
# In fewer ticks of a clock than this a window at work may have been released by what seems one ACK.
FEWEST_TICKS = 8
# With offload a sender lets as much leave together as it sends in a millisecond, at a pace that is a fifth above its
# window's (Linux: tcp_tso_autosize, tcp_pacing_ca_ratio): until then it owes what ACKs released.
TOGETHER_NS = 1_200_000
# An ACK that the tap lost is echoed before the next of its tick is captured. Where more than a few are echoed before
# they pass, the tap's stamps are not in the order in which its host saw them; by how much, but for the odd one.
AHEAD_PERCENTILE = 95


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """For each segment, between which ACKs the one lies that released it (-1: none before it)."""

    low: Places
    high: Places

    def by_none(self, acks: int) -> Bools:
        """Of so many ACKs those of which no segment echoes the stamp."""
        known = self.high >= 0
        edges = np.bincount(self.low[known], minlength=acks + 1)
        edges -= np.bincount(self.high[known] + 1, minlength=acks + 1)
        found: Bools = np.cumsum(edges[:acks]) <= 0
        return found


def named(echoes: Ints, stamps: Ints) -> Bounds:
    """The first and the last of the ACKs (`stamps`: their TSvals) that carry what each segment echoes."""
    return among(*unwrapped_both(echoes, stamps))


def without_gaps(stamps: Ints, flags: Ints, first_echo: int) -> Ints:
    """TSvals with those that a SYN with its options cut, or a reset (RFC 7323 section 5.2), does not show (-1).

    They are taken to be as the one before; before the first that is shown, what the first segment echoes, if older.
    """
    is_shown = stamps >= 0
    if is_shown.all() or not is_shown.any() or ((flags[~is_shown] & (SYN | RST)) == 0).any():
        return stamps
    first = stamps[np.argmax(is_shown)]
    begin = first_echo if first_echo >= 0 and int(signed(first - first_echo)) > 0 else first
    last = np.maximum.accumulate(np.where(is_shown, np.arange(len(stamps)), -1))
    found: Ints = np.where(last >= 0, stamps[last], begin)
    return found


def unwrapped_both(echoes: Ints, stamps: Ints) -> tuple[Ints, Ints]:
    """Echoes and the stamps that they name on one clock; a stamp is no less than one before it."""
    clock, echo = unwrapped(stamps), unwrapped(echoes)
    echo += int(signed(echoes[:1] - stamps[0])[0])
    return echo, np.maximum.accumulate(clock, out=clock)


def among(echo: Ints, clock: Ints) -> Bounds:
    """As `named`, of any part of the segments."""
    low, high = np.empty(len(echo), dtype=np.int32), np.empty(len(echo), dtype=np.int32)
    for part in parts(len(echo)):
        high[part] = last = _core.places(clock, echo[part], or_equal=True) - 1
        low[part] = np.where(last >= 0, _core.places(clock, clock[np.maximum(last, 0)]), -1)
    return Bounds(low=low, high=high)


def leaves_at_once(seen: Arrivals, stamps: Ints, ack_offset: Ints) -> bool:
    """Whether all that left before its sender heard an answer to the first segment was released by one ACK, within a
    tick of its clock, a round trip before the next: nothing was outstanding when the capture began.

    Where the window is at work each ACK of what passed before the capture names itself. `stamps`, `ack_offset`: TSvals
    and numbers of the ACKs.
    """
    if seen.echo is None or seen.stamp is None or not len(stamps) or stamps.min() < 0:
        return False
    answers = ack_offset > seen.offset[0]
    is_heard = signed(seen.echo - stamps[np.argmax(answers)]) >= 0
    if not (answers.any() and is_heard.any()):
        return False
    first = slice(0, int(np.argmax(is_heard)))
    left = seen.stamp[first]
    is_one = len(left) > 0 and bool((seen.echo[first] == seen.echo[0]).all() and np.ptp(left) <= 1)
    return is_one and bool(seen.stamp[first.stop] - left[-1] >= FEWEST_TICKS)


def are_stale(timeline: Timeline, echoed: Bounds, ends: Ints) -> bool:
    """Whether segments lie above the right edge of the newest ACK that they name: their sender had heard a newer one.

    Some stacks take the TSval of data only (RFC 1323, whose test of what to echo no bare ACK passes): theirs stands
    still. `ends`: of the segments. Errs to "no" where the scale of the windows is not known.
    """
    known = echoed.high >= 0
    if not (timeline.has_scale and known.any()):
        return False
    offered = np.maximum.accumulate(timeline.ack_offset + timeline.rwnd)[echoed.high[known]]
    return bool(np.mean(ends[known] > offered + timeline.smss) > ODD_SHARE)


def turns(time_ns: Ints, ack_ns: Ints, echoed: Bounds) -> Ints:
    """How long after the ACK it echoes each segment passed the tap: at least the way to the sender and back; -1: none.

    Of several ACKs with one TSval the first counts, so that none is too short.
    """
    found = time_ns - ack_ns[np.maximum(echoed.low, 0)]
    # A clock that jumped may name an ACK of later.
    found[(echoed.low < 0) | (found < 0)] = -1
    return found


def may_lack_first(timeline: Timeline, echoed: Bounds) -> Bools:
    """Whether of the ACKs that a segment names the first may not have been captured: the first that was tells of more
    arrivals than most do. Then it passed the tap earlier, and its segment took longer than it seems, by up to a tick.
    """
    steps = np.diff(timeline.delivered, prepend=timeline.first_offset)
    moved = steps[steps > 0]
    if not len(moved):
        return np.zeros(len(echoed.low), dtype=bool)
    found: Bools = (echoed.low >= 0) & (steps > _core.median(moved))[np.maximum(echoed.low, 0)]
    return found


@dataclass(frozen=True, kw_only=True)
class Named:
    """TSvals that segments echo: how many no captured ACK carries (the tap lost those, each with one ACK at least); of
    the others, in order, the first ACK that does and the first segment that names it. `ticks`: of the receiver's clock,
    from the first ACK to the last."""

    unheard: int
    ack: Ints
    segment: Ints
    ticks: int

    def ahead_ns(self, packets: tuple[Ints, Ints], times: tuple[Ints, Ints], *, is_whole: bool = True) -> int:
        """By how much segments were captured before the ACK that they echo, usually; 0: they were captured after it.

        An effect before its cause: two cards stamp the two directions, packets were stamped while they waited, or were
        written in another order than they came. Where ACKs are missing (not `is_whole`) what a segment echoes may have
        been one of those, and the one captured the next of the same tick. `packets`, `times`: of segments, and of ACKs.
        """
        is_ahead = packets[1][self.ack] > packets[0][self.segment]
        (sent_ns, heard_ns) = times
        apart = np.abs(heard_ns[self.ack] - sent_ns[self.segment])
        if not is_whole and self.ticks > 0:
            is_ahead &= apart > (heard_ns[-1] - heard_ns[0]) / self.ticks
        if len(self.ack) < FEW_GROUPS or np.count_nonzero(is_ahead) < MINORITY * len(self.ack):
            return 0
        return max(int(_core.percentile(apart[is_ahead], AHEAD_PERCENTILE)), 1)


def named_by(segments: Any, acks: Any) -> Named | None:
    """None: the capture has no timestamps."""
    found = _core.echoes_named(segments["length"], segments["ts_ecr"], acks["ts_val"])
    return None if found is None else Named(**dict(zip(("unheard", "ack", "segment", "ticks"), found, strict=True)))


def gives_back(echoed: Bounds, seen: Arrivals, ack_ns: Ints, gone: Ints, una: Ints) -> float:
    """The share of the groups of ACKs (of one TSval) that released less than they tell has left, recoveries apart.

    A window at work never shrinks without a loss: what an ACK reports is sent again at once, and that names the same
    TSval; with offload once a burst may leave together. A pacer or an application sends at its own times, now less, now
    more. `ack_ns`: when each ACK came; `gone`: bytes known to have arrived then, `una`: those acknowledged.
    """
    is_named = echoed.high >= 0
    high = echoed.high[is_named]
    named = np.bincount(high)
    ends = np.flatnonzero(named)
    if len(ends) < FEW_GROUPS:
        return 0.0
    tops = seen.end[is_named]
    top = np.maximum.accumulate(tops, out=tops)[np.cumsum(named[ends]) - 1]
    # As long as the capture: not held beside what is made next.
    del tops, named
    sizes = (seen.end - seen.offset)[is_named]
    sent, smss = np.bincount(high, sizes)[ends], sizes.max()
    del sizes, high, is_named
    told = np.diff(gone[ends], prepend=gone[ends[0]])
    # Where something is reported out of order, or was or will be, losses move the window; and from then on until what
    # was outstanding is acknowledged.
    is_whole = gone[ends] == una[ends]
    calm = np.concatenate(([False], is_whole, [False]))
    kept = calm[:-2] & calm[1:-1] & calm[2:]
    odd = np.maximum.accumulate(np.where(is_whole, -1, np.arange(len(ends))))
    kept &= (odd < 0) | (una[ends] >= top[np.maximum(odd, 0)])
    if np.count_nonzero(kept) < FEW_GROUPS:
        return 0.0
    pace = _core.median((told / np.maximum(np.diff(ack_ns[ends], prepend=ack_ns[0]), 1))[kept])
    burst = max(DELAYED_ACK_SEGMENTS * smss, TOGETHER_NS * pace)
    owes = np.zeros(len(ends), dtype=bool)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], kept, [False])).astype(np.int8)))
    owed = np.cumsum(told - sent)
    for first, over in zip(edges[::2], edges[1::2], strict=True):
        part = owed[first:over]
        owes[first:over] = part - np.minimum.accumulate(part) > burst + smss / 2
    less = owes & (told - sent > smss / 2)
    return float(np.mean(less[kept]))


def in_order(low: Places, high: Places, left: Sends) -> Bounds:
    """Bounds of sends in the order of leaving (core/src/infer/tap/leaving.rs)."""
    low, high = _core.in_order(left.row, left.offset, left.end, low, high)
    return Bounds(low=low, high=high)
