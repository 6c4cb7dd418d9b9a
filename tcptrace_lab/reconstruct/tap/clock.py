"""The clock that stamped a capture: how finely it tells, whether it stood still, jumped or went back.

Nothing said of times can be finer than this. Stamps that go back are put in the order of capture: a tap writes packets
as it sees them, a clock may be set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.distinct import distinct, is_among
from tcptrace_lab.reconstruct.given import (
    DELAYED_ACK_SEGMENTS,
    FEWEST_ALIKE,
    FEWEST_SAMPLES,
    MAJORITY,
    MINORITY,
    ODD_SHARE,
)

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# Decimal ticks, as the formats have them: what is told by the last digits alone, however few stamps there are.
TICKS_NS = tuple(10**digits for digits in range(10))
# A format of microseconds rounds a tick to one of them.
ROUNDING_NS = 1_000
# More steps back than one in so many packets are not a clock set back now and then, but stamps that jitter.
PACKETS_PER_STEP = 500
# Nor is a clock that is set more often one that is set.
MOST_STEPS = 16
# Fewer stamps show no tick: of so few some lie on one by chance.
ENOUGH_STAMPS = 16
# What answers at once has its cause's stamp, in one order; whoever reads both ways together also stamps what leaves
# with what came after it, and two of each way as one. Two may be within a tick by chance: then as many are within each
# of the ticks around it.
FEW_TOGETHER, TOGETHER_SHARE = 3, 0.002
AROUND_TICKS = 16
# An answer leaves so soon after what prompted it, and so large a share of what leaves is answers: what arrives comes at
# the path's times, a round trip or a bottleneck's spacing after what it answers.
AT_ONCE_NS = 20_000
# Packets closer than this are one batch: a host's interrupt hands them over together. A full packet takes as long at
# 2.4 Gbit/s; beyond that a capture by a host's own kernel cannot pace its packets one by one.
BATCH_NS = 5_000
# After a pause of so many ticks a clock goes on at one of them, a path's packets anywhere between: a path is idle for a
# part of each round trip of a slow start. By so much at most a clock runs faster or slower now than before, as crystals
# do; NTP slews by five times as much at the most.
PAUSE_TICKS = 16
SLEWED_SHARE = 1e-4
# NTP's fastest (RFC 5905: 500 millionths), one way and then the other.
FASTEST_SLEW_SHARE = 5e-4
# Interrupts and polls come at least so far apart as is seen of them, and some later: a round trip's segment may have
# been stamped late by that much more than its ACK.
LATEST_FACTOR = 2.0
# So many stamps, taken evenly, tell of a tick as well as millions.
TICK_SAMPLE = 20_000
AT_FIRST = TICK_SAMPLE // 16


@dataclass(frozen=True, kw_only=True)
class Clock:
    """`resolution_ns`: two stamps closer than this do not tell which came first, nor how far apart they were."""

    tick_ns: int
    resolution_ns: int
    jitter_ns: int
    steps_back: int
    # The largest step back.
    stepped_ns: int
    # The largest step forward: undone.
    set_forward_ns: int = 0
    # When each step was, forward or back, in order.
    set_at: tuple[int, ...] = ()
    # The longest silence behind which the tap stamped late what had come meanwhile.
    stalled_ns: int = 0
    # At a receiver, how far apart the interrupts are that hand over what it answers at its own pace (0: they do not).
    read_apart_ns: int = 0

    @property
    def is_coarse(self) -> bool:
        """Coarser than the microsecond of the usual format: worth a word."""
        return self.resolution_ns > 1_000 or self.steps_back > 0 or self.set_forward_ns > 0

    @property
    def doubt_ns(self) -> float:
        """By how much the time between two packets may be longer than their stamps say."""
        return self.resolution_ns * (LATEST_FACTOR if self.resolution_ns > self.tick_ns else 1.0)

    def tells(self, time_ns: int, *, ticks: int) -> bool:
        """Whether a time is so many of what two stamps can tell apart."""
        return time_ns >= ticks * self.resolution_ns

    def as_dict(self) -> dict[str, Any]:
        return {
            "resolution_s": self.resolution_ns / 1e9,
            "jitter_s": self.jitter_ns / 1e9,
            "steps_back": self.steps_back,
            "set_forward_s": self.set_forward_ns / 1e9,
            "stalled_s": self.stalled_ns / 1e9,
        }


# Steps back, neighbours of one stamp, those close by, and of each way how many are alike (infer/tap/stamped.rs).
Alike = tuple[tuple[int, int], list[list[int]], int, list[tuple[int, int, int]]]

FINE = Clock(tick_ns=1, resolution_ns=1, jitter_ns=0, steps_back=0, stepped_ns=0)


def clock_of(stamps: Ints, is_sent: Bools | None = None, ways: tuple[Ints, ...] | None = None) -> Clock:
    """From the stamps of one connection in the order of capture; `is_sent`: which of them go one of the two ways, and
    `ways`: those of this way and of the other, where they are at hand.

    An interrupt stamps what arrives; what leaves is stamped one by one in between.
    """
    if len(stamps) < 2:
        return FINE
    if is_sent is None:
        is_sent, ways = np.ones(len(stamps), dtype=bool), (stamps,)
    elif ways is None:
        ways = stamps[is_sent], stamps[~is_sent]
    tick = _tick(stamps, ways)
    if len(ways) > 1:
        tick = max(tick, *map(_own_tick, ways))
        # Asked first: there hardly ever is one.
        slewed = max(map(_slewed_tick, ways)) if tick <= ROUNDING_NS else 1
        if slewed > tick and not _are_of_one_clock(*ways):
            tick = slewed
    alike = _core.stamped_alike(stamps, is_sent, AROUND_TICKS * tick)
    back, most_back = alike[0]
    steps, jitter, stepped = 0, 0, 0
    if back * PACKETS_PER_STEP > len(stamps) and back > 2 and not _are_steps(stamps):
        jitter = most_back
    elif back:
        steps, stepped = back, most_back
    return Clock(
        tick_ns=tick,
        resolution_ns=max(tick, jitter, *_batches(stamps, is_sent, ways, alike)),
        jitter_ns=jitter,
        steps_back=steps,
        stepped_ns=stepped,
    )


def _own_tick(way: Ints) -> int:
    """Of two cards, or two files, each has its own clock; a coarse one's stamps are whole ticks of the day, where a
    path's pace is only that far apart. 1: none is told."""
    some = way[:: 1 + len(way) // TICK_SAMPLE]
    # The first of them mostly tell what all would: that there are enough, and that too many are no whole ticks.
    first = some[:AT_FIRST]
    if len(distinct(first)) < ENOUGH_STAMPS and len(distinct(some)) < ENOUGH_STAMPS:
        return 1
    most = ODD_SHARE * len(some)
    ticks = (tick for tick in reversed(TICKS_NS) if np.count_nonzero(first % tick) <= most)
    return next((tick for tick in ticks if np.mean(some % tick == 0) >= 1 - ODD_SHARE), 1)


def _are_of_one_clock(way: Ints, other: Ints) -> bool:
    """Whether some of each have the other's stamp: what answers at once leaves with it."""
    some = way[:TICK_SAMPLE]
    meanwhile = other[(other >= some.min()) & (other <= some.max())]
    return bool(np.mean(is_among(some, meanwhile)) > ODD_SHARE)


def _slewed_tick(way: Ints) -> int:
    """A tick of one way's own clock, which is slewed: so many share a stamp, as what comes one behind the other on a
    path does not, and the others come whole ticks later, but for what it ran faster or slower. 1: none is told."""
    gaps = np.diff(way[:TICK_SAMPLE])
    moves = gaps[gaps > 0]
    shared = np.count_nonzero(gaps == 0)
    if shared < max(ENOUGH_STAMPS, ODD_SHARE * len(gaps)) or len(moves) < ENOUGH_STAMPS:
        return 1
    tick = _core.percentile(moves, 100 * ODD_SHARE)
    if tick < 2 * ROUNDING_NS * ENOUGH_STAMPS:
        return 1
    off = np.abs(moves - np.round(moves / tick) * tick)
    is_on = off <= ROUNDING_NS + 2 * FASTEST_SLEW_SHARE * moves
    return round(tick) if np.mean(is_on) >= 1 - ODD_SHARE else 1


def _are_steps(stamps: Ints) -> bool:
    """Whether the clock went on from where it was set back to, each time: a late stamp stands alone among others."""
    places = np.flatnonzero(stamps[1:] < stamps[:-1])
    if len(places) > MOST_STEPS:
        return False
    behind = (stamps[at + 1 : at + 1 + FEWEST_SAMPLES] for at in places)
    return all(
        len(after) == FEWEST_SAMPLES and after.max() < stamps[at] and bool((np.diff(after) >= 0).all())
        for at, after in zip(places, behind, strict=True)
    )


def _tick(stamps: Ints, ways: tuple[Ints, ...]) -> int:
    since = np.abs(stamps[:: 1 + len(stamps) // TICK_SAMPLE] - stamps[0])
    is_paced = any(_is_even(way[:TICK_SAMPLE]) for way in ways)
    own = 0 if is_paced else _least_apart(stamps[:TICK_SAMPLE])
    if own and any(map(_never_shares, ways)):
        own = 0
    found, told, most = 0, since, int(since.max())
    for tick in TICKS_NS:
        if most <= 2 * tick:
            break
        # What is no multiple of ten of them is none of a hundred.
        on = since % tick == 0
        if np.mean(on) < 1 - ODD_SHARE:
            break
        found, told = tick, on
    if not found:
        return max(1, own)
    # A tick of several decimal ones (4 ms of a kernel's timer), whatever multiples of it the gaps are.
    several = 1 if is_paced or len(since) < ENOUGH_STAMPS else int(np.gcd.reduce(since[told] // found))
    return int(max(found * several, own))


def _is_even(way: Ints) -> bool:
    """Whether what goes one way is stamped at one distance throughout: what the path or a pacer makes of it. By a tick
    some would share a stamp or come one later, unless they come at its very pace."""
    gaps = np.diff(way)
    if len(gaps) < ENOUGH_STAMPS:
        return False
    usual = _core.median(gaps)
    return bool(usual > 0 and np.mean(np.abs(gaps - usual) <= ROUNDING_NS) >= 1 - ODD_SHARE)


def _never_shares(way: Ints) -> bool:
    """Whether no two that go one way have one stamp, though many come as close as any do: a queue sends them a packet's
    time apart, whoever else's are between, and a tick as long would hold two of them now and then."""
    gaps = np.diff(way[:TICK_SAMPLE])
    return bool(len(gaps) >= ENOUGH_STAMPS and gaps.min() > 0 and np.mean(np.round(gaps / gaps.min()) == 1) > ODD_SHARE)


def _least_apart(stamps: Ints) -> int:
    """The least distance of two stamps, where all others are whole multiples of it: a tick of any length; 0: none is.

    Stamps of a fine clock are no multiples of anything but its unit: what more there are than it takes to find the tick
    decide.
    """
    if len(stamps) < ENOUGH_STAMPS:
        return 0
    gaps: Ints = np.diff(np.sort(stamps)).astype(np.int64)
    gaps = gaps[gaps > 0]
    least = float(gaps.min()) if len(gaps) else 0.0
    if least < 2 * ROUNDING_NS * ENOUGH_STAMPS:
        return 0
    for _ in range(2):
        # Rounded once, the least distance errs by that in each multiple of it: their span tells the tick itself, those
        # apart that a path's own pauses would make no multiples.
        parts = np.round(gaps / least)
        told = parts < PAUSE_TICKS
        least = float(gaps[told].sum() / parts[told].sum())
    parts, span = np.round(gaps / least), parts[told].sum()
    off = np.abs(gaps - parts * least)
    if np.mean(off <= ROUNDING_NS) < 1 - ODD_SHARE:
        return 0
    doubt = ROUNDING_NS * (1 + parts / span) + SLEWED_SHARE * gaps
    pauses = (parts >= PAUSE_TICKS) & (doubt < least / 8)
    return 0 if np.count_nonzero(pauses & (off > doubt)) * 2 > np.count_nonzero(pauses) else round(least)


def _batches(stamps: Ints, is_sent: Bools, ways: tuple[Ints, ...], alike: Alike) -> list[int]:
    """The interrupts of each way; what shares its stamp with the other way's before it is its answer, however many."""
    _, pairs, by_chance, each = alike
    told = [place for place, way in enumerate(each) if _are_batches(*way)]
    if len(ways) < 2:
        return [_apart(stamps)] if told else [0]
    if _is_polled(pairs, by_chance, len(stamps)):
        return [_apart(stamps)]
    if not told:
        return [0]
    begins = np.flatnonzero(np.append(True, np.diff(stamps) != 0))
    answers = is_sent != np.repeat(is_sent[begins], np.diff(begins, append=len(stamps)))
    return [_of_way(ways[place], answers[is_sent ^ (place == 1)], ways[1 - place]) for place in told]


def _is_polled(pairs: list[list[int]], by_chance: int, count: int) -> bool:
    """Whether both ways were read together: of those with one stamp either way's is before the other's."""
    (both_sent, sent_heard), (heard_sent, both_heard) = pairs
    together = min(sent_heard, heard_sent) + min(both_sent, both_heard)
    return together > max(by_chance, FEW_TOGETHER - 1, TOGETHER_SHARE * count)


def _of_way(way: Ints, answers: Bools, other: Ints) -> int:
    """Where most of what is stamped follows the other way's at once it leaves here, and no interrupt has stamped it."""
    apart = _apart(way)
    return 0 if apart and _is_prompt(way, answers, other) else apart


def _is_prompt(way: Ints, answers: Bools, other: Ints) -> bool:
    if not len(other):
        return False
    every = 1 + len(way) // TICK_SAMPLE
    times, at = np.unique(way[::every], return_index=True)
    heard = np.sort(other)
    before = np.searchsorted(heard, times, side="left") - 1
    is_soon = (before >= 0) & (times - heard[np.maximum(before, 0)] <= AT_ONCE_NS)
    return bool(np.mean(is_soon | answers[::every][at]) > MAJORITY)


def _are_batches(stamps: int, unprompted: int, equal: int) -> bool:
    """Whether many are equal: an interrupt stamps what has come since the last one."""
    return unprompted > ENOUGH_STAMPS and equal >= MINORITY * (stamps - 1)


def _apart(stamps: Ints) -> int:
    """How far apart stamps are that differ, at least; 0: there are too few."""
    apart = np.diff(_core.counts(stamps)[0])
    return int(_core.percentile(apart, 5)) if len(apart) >= ENOUGH_STAMPS else 0


def disorder_ns(offsets: Ints, lengths: Ints, late: Bools, times: Ints) -> int:
    """How long after what lies beyond them segments out of order (`late`) were captured, but for a few; 0: few are.

    Written in another order than they came, or delayed on their way, each by its own time: what is as close is not told
    in order, nor how far apart. What comes later than a host takes fills a hole.
    """
    if not late.any():
        return 0
    tops = np.maximum.accumulate(offsets + lengths)
    waits = times[late] - times[np.searchsorted(tops, offsets[late], side="right")]
    waits = waits[waits <= _core.HOST_NS]
    if len(waits) <= MINORITY * len(late):
        return 0
    return max(int(_core.percentile(waits, 100 * (1 - MINORITY))), 0)


def in_order(stamps: Ints, clock: Clock) -> Ints:
    """The stamps without steps back: what a clock was set back by is added again, jitter is cut to its own width."""
    if not clock.steps_back and not clock.jitter_ns:
        return stamps
    if clock.steps_back:
        gaps = np.diff(stamps, prepend=stamps[0])
        # The true gap at a step is not known: none.
        stamps = stamps + np.cumsum(np.where(gaps < 0, -gaps, 0))
    if clock.jitter_ns:
        # A stamp is taken late, never early: it is at most any later one; and no finer than the jitter.
        stamps = np.minimum.accumulate(stamps[::-1])[::-1]
        stamps = stamps[0] + (stamps - stamps[0]) // clock.jitter_ns * clock.jitter_ns
    return stamps


def read_apart_ns(read_ns: Ints, answers_ns: Ints) -> int:
    """How far apart, at least, a receiver is interrupted that each time reads (`read_ns`) more packets than a rate is
    taken over, and writes their answers as fast as it can; 0: hardly any answer came of as many."""
    if not len(read_ns) or len(answers_ns) < FEWEST_SAMPLES:
        return 0
    begins = np.flatnonzero(np.diff(read_ns, prepend=read_ns[0] - BATCH_NS - 1) > BATCH_NS)
    are_many = np.diff(begins, append=len(read_ns)) > FEWEST_ALIKE * DELAYED_ACK_SEGMENTS
    last = _core.places(read_ns[begins], answers_ns, or_equal=True) - 1
    together = (np.diff(last) == 0) & (last[1:] >= 0) & are_many[last[1:]]
    # A timer's answer (RFC 1122 section 4.2.3.2) is not the host's pace.
    together &= np.diff(answers_ns) < _core.HOST_NS
    if len(begins) < FEWEST_SAMPLES or np.count_nonzero(together) <= max(FEWEST_SAMPLES, MINORITY * len(answers_ns)):
        return 0
    return int(_core.percentile(np.diff(read_ns[begins]), 5))
