"""The bottleneck's rate: the fastest at which runs of segments are acknowledged again and again.

A run tells of the path only where the path pressed it: its segments left faster than they were acknowledged, or a queue
stood. What an application or a receiver doles out has a pace too, and that is no bottleneck: then the rate seen bounds
the path's from below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.path.goodput import SECOND_NS, carries_data, goodput_pps
from tcptrace_lab.classify.path.modes import BIN, MODE_BINS, beside, highest_mode
from tcptrace_lab.classify.path.rate_step import step_of
from tcptrace_lab.classify.path.runs import Batches, Runs, acked_together, run_rates, uncertain_of
from tcptrace_lab.numbers import duration
from tcptrace_lab.reconstruct.estimate import Estimate, unknown
from tcptrace_lab.reconstruct.given import (
    DELAYED_ACK_SEGMENTS,
    FEWEST_ALIKE,
    FEWEST_SAMPLES,
    FULL_SHARE,
    MAJORITY,
    MINORITY,
    WITHIN_SEGMENTS,
)
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.tap.clock import BATCH_NS, FINE, Clock
from tcptrace_lab.reconstruct.timeline import Bools, Floats

# Rates over runs of this many segments: three delayed ACKs, so that no single late one decides; short enough that the
# segments of a run still stand one behind the other when the sender fills only a part of the path.
RUN_SEGMENTS = FEWEST_ALIKE * DELAYED_ACK_SEGMENTS
# Longer ones where the clock is coarse: a run must last so many times what two stamps can tell apart, for 2.5 %.
SPAN_RESOLUTIONS = 40
# ... and never more than this part of the run: a rate needs several runs.
LONGEST_SHARE = 8
# The same for the ACKs of several flows, times their number: at both ends of a run each flow may have a segment that
# its delayed ACK has not told of yet, and that is to be a few percent of the run.
TOGETHER_SEGMENTS = 32
# A queue this long (packets) keeps the bottleneck busy: then the ACKs come at its rate, or others share it.
BUSY_PACKETS = 4.0
# Then most of the runs have its rate: with a smaller share of them others took turns there.
STEADY_SHARE = 0.6
# The ACKs of a run that one queue sets the pace of come evenly, also where others' packets stand between the runs: one
# that takes half as long again for its packets was held up on the way (a radio's turns, jitter, data in front of it).
UNEVEN = 1.5
# A queue as long as the rate and the waits imply holds this flow's packets, and no more than so many times as many
# others.
OTHERS_FACTOR = 4.0
# Behind what comes in bursts the path's pace shows over longer runs: each time so many times as long, and no longer
# than so many round trips: over more of them ACKs come at the window's pace, whatever the path's.
LONGER_FACTOR = 4
MOST_ROUNDS = 2
# Round trips that swell by half again, all the time behind a queue, while the pace is the same or changes by itself: a
# window's pace would have fallen as they rose.
SWELLS = 1.5
# Faster than the whole second around it by rounding alone.
GOODPUT_SLACK = 1.02
RUN_WORDS = "runs of {} segments"


def bottleneck_rate(
    seen: Reconstruction, clock: Clock = FINE, *, has_flight: bool = True, has_losses: bool = True
) -> Estimate:
    """Packets/s of this flow's size, by its own ACKs; `has_flight`: what they answer was captured; `has_losses`: also
    what was sent again. Where not, an ACK tells of what had come at any time before."""
    uncertain = uncertain_of(seen)
    goodput = goodput_pps(seen, clock, uncertain, has_flight=has_flight) if has_losses else None
    if not has_flight:
        words = "what was sent when is not known: nor whether the path set the ACKs' pace"
        return _not_below_goodput(unknown(words), goodput)
    if clock.resolution_ns <= BATCH_NS and np.count_nonzero(seen.timeline.newly_acked > 0) < FEWEST_SAMPLES:
        # No more runs than ACKs begin them.
        return _not_below_goodput(_too_few(RUN_WORDS.format(RUN_SEGMENTS)), goodput)
    batches = acked_together(seen, (), clock, uncertain)
    segments = _segments_for(batches, seen, clock)
    if segments is None:
        words = f"times known to {duration(clock.resolution_ns)}: too coarse for the rate of these ACKs"
        return _not_below_goodput(unknown(words), goodput)
    own = _most_outstanding(seen)
    longest = min(seen.timeline.new_bytes / seen.timeline.smss / LONGEST_SHARE, MOST_ROUNDS * own)
    runs = run_rates(batches, seen, segments)
    found = _path_mode(runs, segments, clock, own=own)
    is_bunched = found is None
    while found is None and segments * LONGER_FACTOR <= longest:
        segments *= LONGER_FACTOR
        runs = run_rates(batches, seen, segments)
        found = _path_mode(runs, segments, clock, own=own, is_longest=segments * LONGER_FACTOR > longest)
    if found is None:
        found = unknown("ACKs come in bursts that are faster than the path, and at no one rate over longer runs")
    elif not has_losses and found.value is not None and found.high is None:
        # The pace of a part of the runs may be that of ACKs that told of what had come long before.
        found = Estimate(value=found.value, method=f"{found.method}; what filled holes is not in the capture")
    elif found.value is not None and found.low is not None and found.high is None:
        stood = _stood(runs, clock)
        # As long as the capture: not held beside what is asked next.
        del runs
        if carries_data(seen):
            found = unknown("data comes with the ACKs, which wait behind it: the way back sets their pace")
        elif _paced_back(seen):
            words = "ACKs come evenly, whatever they answer for: the way back sets their pace"
            found = unknown(words, low=found.low)
        else:
            stretched = _of_stretched(batches, seen, clock, (segments, longest), own=own)
            longer = stretched or _over_longer(batches, seen, stood, segments, int(longest), clock=clock)
            found = longer or _as_slow_as_longer(found, batches, seen, segments * LONGER_FACTOR, clock)
    elif len(runs.rates) < FEWEST_SAMPLES and not (carries_data(seen) or _paced_back(seen)):
        found = _of_stretched(batches, seen, clock, (segments, longest), own=own) or found
    elif (
        found.high is not None
        and not runs.is_inferred
        and (step := step_of(runs, _busy(runs, clock), seen)) is not None
    ):
        method = f"{found.method}; before some time, or after it, at another while a queue stands"
        found = Estimate(value=found.value, low=step[0], method=method, between=step)
    if is_bunched or found.low is None or _is_below(found, goodput):
        # Bunches: of no one rate, or of the pace at which they come.
        found = _while_queued(batches, seen, clock) or found
    return _not_below_goodput(found, goodput)


def _path_mode(runs: Runs, segments: int, clock: Clock, *, own: float, is_longest: bool = False) -> Estimate | None:
    """The mode of runs of so many segments; None too where so short runs at such a rate are what a host reads at once:
    it cannot pace its packets one by one."""
    found = _mode(runs, RUN_WORDS.format(segments), clock, own=own, is_longest=is_longest)
    fastest = SECOND_NS / BATCH_NS
    value = None if found is None else found.value or found.low
    is_hosts = value is not None and value > max(fastest, segments * fastest / SPAN_RESOLUTIONS)
    return None if is_hosts else found


def _while_queued(batches: Batches, seen: Reconstruction, clock: Clock) -> Estimate | None:
    """Of ACKs that come in bunches (a radio's turns, an interrupt's): their rate over runs so long that a bunch more or
    less is little, if it is one while a queue stood all along: the bottleneck was never idle then.

    A window's pace would change as that grows; others in the queue would leave this flow now more, now less.
    """
    segments = int(seen.timeline.new_bytes / seen.timeline.smss / LONGEST_SHARE)
    if segments <= RUN_SEGMENTS:
        return None
    runs = run_rates(batches, seen, segments)
    busy = _busy(runs, clock)
    if runs.is_inferred or np.count_nonzero(busy) < max(FEWEST_SAMPLES, MAJORITY * len(busy)):
        return None
    rates = runs.rates[busy]
    if not _in_bursts(runs.uneven[busy]) or np.mean(_about(rates)) < FULL_SHARE:
        return None
    low, value, high = (_core.percentile(rates, percent) for percent in (10, 50, 90))
    if _core.percentile(runs.delay_ns[busy], 95) / 1e9 * value > OTHERS_FACTOR * _most_outstanding(seen):
        return None
    # What a delayed ACK tells of at either end.
    blur = 1 + DELAYED_ACK_SEGMENTS / segments
    method = f"median of the rate at which runs of {segments} segments are acknowledged while a queue stands"
    method = f"{method}; within shorter ones ACKs come in bunches"
    return Estimate(value=value, low=low / blur, high=high * blur, method=method)


def _paced_back(seen: Reconstruction) -> bool:
    """Whether the queue is that of the ACKs: those that answer for more than most, or less, come as far apart."""
    timeline = seen.timeline
    moving = np.flatnonzero(timeline.newly_acked > 0)
    if len(moving) <= FEWEST_SAMPLES:
        return False
    apart, segments = np.diff(timeline.ack_ns[moving]), timeline.newly_acked[moving[1:]] / timeline.smss
    usual = _core.median(apart)
    is_even = np.abs(apart - usual) <= BIN * usual
    is_odd = np.abs(segments - _core.median(segments)) >= WITHIN_SEGMENTS
    if usual <= BATCH_NS or np.count_nonzero(is_odd) < max(FEWEST_SAMPLES, MINORITY * len(apart)):
        return False
    return bool(np.mean(is_even[is_odd]) > MAJORITY)


def _of_stretched(
    batches: Batches, seen: Reconstruction, clock: Clock, between: tuple[int, float], *, own: float
) -> Estimate | None:
    """Of ACKs each of which tells of more than a delayed one (a receiver's GRO): the mode of runs of as many ACKs, in
    which one more or less at either end is as little. None: no one rate, or they are not `between` these lengths."""
    told = seen.timeline.newly_acked
    segments = int(FEWEST_ALIKE * _core.median(told[told > 0]) / seen.timeline.smss) if (told > 0).any() else 0
    if not between[0] < segments <= between[1]:
        return None
    found = _path_mode(run_rates(batches, seen, segments), segments, clock, own=own)
    return None if found is None or found.high is None else found


def _over_longer(
    batches: Batches,
    seen: Reconstruction,
    stood: tuple[Floats, Floats] | None,
    segments: int,
    longest: int,
    *,
    clock: Clock,
) -> Estimate | None:
    """Of ACKs at many rates while a queue stood: whose rates those are; None: others' turns, or it is not told.

    Jitter evens out over longer runs, which then lie about one rate. A rate that changes (a radio's) is another in each
    run, long or short, and even within the short ones. With others in the queue longer runs lie further apart.
    `stood`: of the runs of so many segments.
    """
    if stood is None or longest < 2 * segments:
        return None
    rates, uneven = stood
    long = run_rates(batches, seen, longest)
    longer = _busy(long, clock)
    if min(len(rates), int(np.count_nonzero(longer))) < FEWEST_SAMPLES or not _swells(long, longer):
        return None
    evened = _about(long.rates[longer])
    near, at_once, at_length = long.rates[longer][evened], float(np.mean(_about(rates))), float(np.mean(evened))
    if at_length >= max(STEADY_SHARE, at_once):
        low, value, high = (_core.percentile(near, percent) for percent in (10, 50, 90))
        method = f"median of the rate at which runs of {longest} segments are acknowledged ({at_length:.0%} near it)"
        return Estimate(value=value, low=low, high=high, method=f"{method}; shorter ones jitter")
    if at_once >= STEADY_SHARE or _core.median(uneven) > 1 + MINORITY:
        return None
    slowest, value, fastest = (_core.percentile(rates, percent) for percent in (5, 50, 95))
    method = f"median of the rate at which runs of {segments} segments are acknowledged while a queue stands"
    return Estimate(value=value, low=slowest, method=f"{method}; it changes", between=(slowest, fastest))


def _as_slow_as_longer(
    found: Estimate, batches: Batches, seen: Reconstruction, segments: int, clock: Clock
) -> Estimate:
    """The same no faster, at the least, than a quarter of the longer runs: jitter, and which segments an ACK waits for,
    make short ones faster than any path, and even out."""
    runs = run_rates(batches, seen, segments)
    rates = runs.rates[_pressed(runs, clock)]
    if found.low is None or len(rates) < FEWEST_SAMPLES:
        return found
    return replace(found, low=min(found.low, _core.percentile(rates, 75)))


def _stood(runs: Runs, clock: Clock) -> tuple[Floats, Floats] | None:
    """The rates of those while a queue stood, and how uneven each was; None: when segments left is not known."""
    busy = _busy(runs, clock)
    return None if runs.is_inferred else (runs.rates[busy], runs.uneven[busy])


def _busy(runs: Runs, clock: Clock) -> Bools:
    """Runs through which a queue stood that keeps the bottleneck busy: a wait that stamps alone may make is none."""
    found: Bools = runs.least_ns > np.maximum(BUSY_PACKETS / runs.rates * 1e9, 2 * clock.doubt_ns)
    return found


def _swells(runs: Runs, at: Bools) -> bool:
    waited_ns = runs.base_ns + runs.delay_ns[at]
    shortest, longest = (_core.percentile(waited_ns, percent) for percent in (10, 90))
    return bool(longest >= SWELLS * shortest)


def _about(rates: Floats) -> Bools:
    """Those near the median, as near as a mode's to its middle."""
    return beside(rates, _core.median(rates), 0.0)


def _most_outstanding(seen: Reconstruction) -> float:
    """Packets, but for the odd longest flights."""
    return _core.percentile(seen.flight, 95) / seen.timeline.smss if len(seen.flight) else 0.0


def rate_together(seen: Reconstruction, others: Sequence[Reconstruction], clock: Clock = FINE) -> Estimate | None:
    """The rate of all flows' ACKs, if it is one while this flow met a queue: one bottleneck, all its flows seen."""
    segments = TOGETHER_SEGMENTS * (1 + len(others))
    words = f"runs of {segments} segments of {1 + len(others)} flows together"
    own = sum(_most_outstanding(flow) for flow in (seen, *others))
    runs = run_rates(acked_together(seen, others, clock, uncertain_of(seen)), seen, segments)
    found = _mode(runs, words, clock, own=own, is_together=True)
    return None if found is None or found.value is None or found.high is None else found


def _segments_for(batches: Batches, seen: Reconstruction, clock: Clock) -> int | None:
    """Segments of a run long enough for the clock; None: that would be the whole transfer."""
    timeline = seen.timeline
    moving = timeline.newly_acked > 0
    total = int(timeline.newly_acked[moving].sum()) / timeline.smss
    if clock.resolution_ns <= BATCH_NS or not moving.any():
        return RUN_SEGMENTS
    spans = run_rates(batches, seen, RUN_SEGMENTS).spans_ns
    # Where many runs have no length, the mean pace stands for them.
    times = timeline.ack_ns[moving]
    per_segment = max(float(times[-1] - times[0]) / max(total, 1.0), 1.0)
    typical = max(min(_core.median(spans), RUN_SEGMENTS * per_segment) if len(spans) else 0.0, 1.0)
    wanted = SPAN_RESOLUTIONS * clock.resolution_ns
    segments = int(np.ceil(RUN_SEGMENTS * max(wanted / typical, 1.0)))
    return segments if segments * LONGEST_SHARE <= total else None


def _is_below(found: Estimate, goodput: float | None) -> bool:
    """Whether more was delivered in some second than a path of that rate carries; one that changes is another then."""
    most = found.value if found.high is None and found.between is None else found.high
    return goodput is not None and most is not None and goodput > GOODPUT_SLACK * most


def _not_below_goodput(found: Estimate, goodput: float | None) -> Estimate:
    """The path carried that much in a second: it can carry it."""
    if goodput is None:
        return found
    if _is_below(found, goodput):
        words = "the ACKs' pace is slower than what was acknowledged in some second: no bottleneck's"
        return unknown(words, low=goodput)
    low = goodput if found.low is None else found.low
    if found.value is None:
        return Estimate(value=None, low=low, high=found.high, method=found.method)
    return found


def _too_few(words: str) -> Estimate:
    return unknown(f"fewer than {FEWEST_SAMPLES} {words} acknowledged without a loss")


def _mode(
    runs: Runs, words: str, clock: Clock, *, own: float, is_longest: bool = False, is_together: bool = False
) -> Estimate | None:
    """None: what is fastest are bursts that the way back made; of the longest runs (`is_longest`) they have little.

    `own`: packets outstanding at the most; `is_together`: of several flows, whose ACKs come by ways of their own.
    """
    if len(runs.rates) < FEWEST_SAMPLES:
        return _too_few(words)
    blur = clock.resolution_ns / _core.median(runs.spans_ns) if clock.resolution_ns > BATCH_NS else 0.0
    bins = np.floor(np.log(runs.rates) / BIN).astype(np.int32)
    peak = highest_mode(bins, blur)
    if peak is None:
        return unknown("the rate at which segments are acknowledged has no mode: nothing paces the ACKs")
    pressed = _pressed(runs, clock)
    if np.count_nonzero(pressed) < FEWEST_SAMPLES:
        return unknown("segments were acknowledged as they were sent, and met no queue: the path never set the pace")
    rates, delay, spans = runs.rates[pressed], runs.delay_ns[pressed], runs.spans_ns[pressed]
    uneven = runs.uneven[pressed]
    of_all, peak = peak, highest_mode(bins[pressed], blur)
    if peak is not None and peak > of_all and np.mean(pressed[beside(runs.rates, of_all, blur)]) > MAJORITY:
        # The strays of a mode are as many where some of its own runs are left out.
        peak = of_all
    if peak is None:
        return unknown("the rate at which segments are acknowledged has no mode: nothing paces the ACKs")
    near = beside(rates, peak, blur)
    of_mode = rates[near]
    low, value, high = (_core.percentile(of_mode, percent) for percent in (10, 50, 90))
    # Both ends of a run are known to what two stamps can tell apart.
    share = clock.resolution_ns / _core.median(spans[near])
    low, high = low / (1 + share), high * (1 + share)
    busy = delay > BUSY_PACKETS / value * 1e9
    steady = float(np.mean(near[busy])) if np.count_nonzero(busy) >= FEWEST_SAMPLES else None
    method = f"mode of the rate at which {words} are acknowledged ({np.mean(near):.0%} of the runs)"
    if steady is not None and steady < STEADY_SHARE:
        implied = _core.percentile(delay, 95) / 1e9 * value
        shared = Estimate(value=value, low=low, high=None, method=method)
        return None if implied > OTHERS_FACTOR * own else _at_others_too(runs, uneven[near], shared, is_longest)
    # Under a coarse clock runs are faster by its ticks alone.
    is_fine = not (blur or clock.stalled_ns or runs.is_inferred or runs.compressed.all())
    carried = highest_mode(bins[~runs.compressed], blur) if is_fine else None
    if carried is not None and carried > peak and not beside(rates, carried, blur).any():
        # What no queue held, and nothing pushed together on the way back, the path carried at that rate.
        return unknown(
            f"{method}; others faster than those, with no queue before them", low=carried / (1 + MODE_BINS * BIN)
        )
    are_few = np.count_nonzero(near) < MAJORITY * len(runs.rates)
    # Where times were inferred whether a run waited may be chance: of those at a bottleneck's pace most do, no others
    # are faster, and where a clock takes runs longer than a round trip the window's pauses do not show in them. A slow
    # reader opens its window at a pace, too.
    is_paced = runs.is_inferred and (
        runs.is_read_slowly
        or min(np.mean(near), np.mean(pressed[beside(runs.rates, peak, blur)])) < MAJORITY
        or not beside(np.array([of_all]), peak, blur).any()
        or _is_varied(uneven[near])
        or (blur > 0 and _core.median(spans[near]) > runs.base_ns)
    )
    # Nor does a queue that stands leave pauses: where it did so in few of all runs, those are as long as the window's
    # turns, or the application's.
    if is_paced or (are_few and not is_together and _in_bursts(uneven[near])):
        return Estimate(value=value, low=low, high=None, method=f"{method}; or the pace at which the sender sent")
    if np.mean(near) < MAJORITY:
        return Estimate(value=value, method=f"{method}; most were at others: no one pace")
    return Estimate(value=value, low=low, high=high, method=method)


def _pressed(runs: Runs, clock: Clock) -> Bools:
    """The runs of which the path, not the sender, set the pace: a queue stood before them."""
    queued = (runs.delay_ns > DELAYED_ACK_SEGMENTS / runs.rates * 1e9 + clock.doubt_ns) & ~runs.compressed
    # Known to the clock are the stamps of a round trip, and those of the least.
    stood = runs.least_ns > np.maximum(1 / runs.rates * 1e9, 2 * clock.doubt_ns)
    found: Bools = (runs.slowed | queued) & (stood | (runs.spans_ns < MAJORITY * runs.base_ns))
    return found


def _at_others_too(runs: Runs, uneven: Floats, found: Estimate, is_longest: bool) -> Estimate | None:
    """What a mode is worth, of runs as `uneven`, where a queue that stood emptied at other rates as well."""
    if _in_bursts(uneven):
        return (
            Estimate(value=found.value, method=f"{found.method}; in bursts, at other rates too") if is_longest else None
        )
    if runs.is_read_slowly and _is_varied(uneven):
        # Window updates carry ACK numbers: which ACK tells of an arrival, and which of a read, is not known.
        # Reads do not come as evenly as full packets out of one queue.
        return unknown(
            f"{found.method}; at other rates while a queue stood, to a receiver that acknowledges as it reads"
        )
    # A standing queue that empties at many rates: others use it too.
    return replace(found, method=f"{found.method}; at other rates while a queue stood: shared")


def _is_varied(uneven: Floats) -> bool:
    """Whether their ACKs come further apart, now and then, than full packets out of one queue."""
    return bool(_core.median(uneven) > 1 + MODE_BINS * BIN)


def _in_bursts(uneven: Floats) -> bool:
    return bool(_core.median(uneven) > UNEVEN)
