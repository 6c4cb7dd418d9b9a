"""The bottleneck's rate: the fastest at which runs of segments are acknowledged again and again.

A run tells of the path only where the path pressed it: its segments left faster than they were acknowledged, or a queue
stood. What an application or a receiver doles out has a pace too, and that is no bottleneck: then the rate seen bounds
the path's from below. Nothing is taken from stamps closer than the clock tells, nor from one interrupt's batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tcptrace_lab import _core
from tcptrace_lab.numbers import duration
from tcptrace_lab.reconstruct.clock import FINE, Clock
from tcptrace_lab.reconstruct.estimate import Estimate, unknown
from tcptrace_lab.reconstruct.given import DELAYED_ACK_SEGMENTS, FEWEST_ALIKE, FEWEST_SAMPLES, MAJORITY
from tcptrace_lab.reconstruct.losses import Episode
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.self_clocking import delivered
from tcptrace_lab.reconstruct.timeline import Bools, Floats, Ints, Timeline, parts

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
# ACKs closer than this are one batch: a host's interrupt hands them over together. A full packet takes as long at
# 2.4 Gbit/s; beyond that a capture by a host's own kernel cannot pace its packets one by one.
BATCH_NS = 5_000
# A mode of the distribution of rates counts when it holds this share of the runs; bins of 2 % of the rate.
MODE_SHARE = 0.04
# ... and so many: neighbouring runs share most of their segments, one odd ACK is in three of them.
MODE_RUNS = 4
BIN = 0.02
# What belongs to a mode lies so many bins around its middle: half of one for the middle's place, two for the runs' own.
MODE_BINS = 2.5
# One ACK in a hundred stamped early (out of order, held back on its way) makes three runs too fast, by up to the third
# that one ACK of a run is. Beside a mode so many times as frequent they are its strays.
STRAY_FACTOR = 10
STRAY_SHARE = 0.3
# Pressed: acknowledged at least this much slower than sent (an ACK clock alone keeps the pace).
SLOWED = 1.25
# ... or met a queue, and was not pushed together on the way back (ACK compression).
COMPRESSED = 1 / SLOWED
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
# Faster than the whole second around it by rounding alone.
GOODPUT_SLACK = 1.02
SECOND_NS = 1_000_000_000


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Runs of ACKs without a loss in them: packets/s, how long, the queueing delay at the end, and whether pressed.

    `least_ns`: the shortest queueing delay met in each; `base_ns`: the least round trip. `uneven`: how much longer
    the slowest of its ACKs took for each packet than the whole run (1: no longer).
    """

    rates: Floats
    spans_ns: Floats
    delay_ns: Floats
    least_ns: Floats
    base_ns: int
    uneven: Floats
    slowed: np.ndarray[Any, np.dtype[np.bool_]]
    compressed: np.ndarray[Any, np.dtype[np.bool_]]
    # When segments left is not known: nor, of a run, whether they had waited.
    is_inferred: bool


def bottleneck_rate(
    seen: Reconstruction, clock: Clock = FINE, *, has_flight: bool = True, has_losses: bool = True
) -> Estimate:
    """Packets/s of this flow's size, by its own ACKs; `has_flight`: what they answer was captured; `has_losses`: also
    what was sent again. Where not, an ACK tells of what had come at any time before."""
    goodput = goodput_pps(seen, clock) if has_losses else None
    if not has_flight:
        words = "what was sent when is not known: nor whether the path set the ACKs' pace"
        return _not_below_goodput(unknown(words), goodput)
    segments = _segments_for(seen, clock)
    if segments is None:
        return unknown(f"stamps {duration(clock.resolution_ns)} apart: too coarse for the rate of these ACKs")
    own = _most_outstanding(seen)
    longest = min(seen.timeline.new_bytes / seen.timeline.smss / LONGEST_SHARE, MOST_ROUNDS * own)
    found = _mode(run_rates(seen, (), segments), f"runs of {segments} segments", clock, own=own)
    while found is None and segments * LONGER_FACTOR <= longest:
        segments *= LONGER_FACTOR
        is_last = segments * LONGER_FACTOR > longest
        runs, words = run_rates(seen, (), segments), f"runs of {segments} segments"
        found = _mode(runs, words, clock, own=own, is_longest=is_last)
    if found is None:
        found = unknown("ACKs come in bursts that are faster than the path, and at no one rate over longer runs")
    return _not_below_goodput(found, goodput)


def _most_outstanding(seen: Reconstruction) -> float:
    """Packets, but for the odd longest flights."""
    return float(np.percentile(seen.flight, 95)) / seen.timeline.smss if len(seen.flight) else 0.0


def rate_together(seen: Reconstruction, others: Sequence[Reconstruction], clock: Clock = FINE) -> Estimate | None:
    """The rate of all flows' ACKs, if it is one while this flow met a queue: one bottleneck, all its flows seen."""
    segments = TOGETHER_SEGMENTS * (1 + len(others))
    words = f"runs of {segments} segments of {1 + len(others)} flows together"
    own = sum(_most_outstanding(flow) for flow in (seen, *others))
    found = _mode(run_rates(seen, others, segments), words, clock, own=own)
    if found is None or found.value is None or found.high is None:
        return None
    return found


def goodput_pps(seen: Reconstruction, clock: Clock = FINE) -> float | None:
    """The most that was delivered in any second without a loss event in it; None: no such second.

    A second by stamps may have lasted as much longer as two of them can tell apart.

    Without the largest ACK of each: where SACK blocks are not seen it may fill a hole, and tell of seconds before.
    """
    timeline = seen.timeline
    moving = np.flatnonzero((timeline.newly_acked > 0) & (timeline.snd_una > _sent_unseen(seen)))
    # An ACK that jumps tells of what had come before: by what each says has arrived.
    times, una = timeline.ack_ns[moving], delivered(timeline)[moving]
    after = _core.places(times, times + SECOND_NS, or_equal=True) - 1
    begin = np.flatnonzero((after > np.arange(len(times))) & (times[-1:] - times >= SECOND_NS))
    if not len(begin):
        return None
    end = after[begin]
    calm = ~touches(times[begin], times[end], seen.episodes)
    if not calm.any():
        return None
    largest = -_core.least_within(-np.diff(una, prepend=una[0]), begin + 1, end + 1)
    lasted_s = 1.0 + clock.resolution_ns / SECOND_NS
    return float((una[end] - una[begin] - largest)[calm].max()) / timeline.smss / lasted_s


def _segments_for(seen: Reconstruction, clock: Clock) -> int | None:
    """Segments of a run long enough for the clock; None: that would be the whole transfer."""
    timeline = seen.timeline
    moving = timeline.newly_acked > 0
    total = int(timeline.newly_acked[moving].sum()) / timeline.smss
    if clock.resolution_ns <= BATCH_NS or not moving.any():
        return RUN_SEGMENTS
    spans = _chosen(acked_together(seen, ()), RUN_SEGMENTS, (seen,)).spans
    # Where many runs have no length, the mean pace stands for them.
    times = timeline.ack_ns[moving]
    per_segment = max(float(times[-1] - times[0]) / max(total, 1.0), 1.0)
    typical = max(min(float(np.median(spans)), RUN_SEGMENTS * per_segment) if len(spans) else 0.0, 1.0)
    wanted = SPAN_RESOLUTIONS * clock.resolution_ns
    segments = int(np.ceil(RUN_SEGMENTS * max(wanted / typical, 1.0)))
    return segments if segments * LONGEST_SHARE <= total else None


def _not_below_goodput(found: Estimate, goodput: float | None) -> Estimate:
    """The path carried that much in a second: it can carry it."""
    if goodput is None:
        return found
    if found.high is not None and goodput > GOODPUT_SLACK * found.high:
        words = "the ACKs' pace is slower than what was acknowledged in some second: no bottleneck's"
        return unknown(words, low=goodput)
    low = goodput if found.low is None else found.low
    if found.value is None:
        return Estimate(value=None, low=low, high=found.high, method=found.method)
    return found


def _mode(runs: Runs, words: str, clock: Clock, *, own: float, is_longest: bool = False) -> Estimate | None:
    """None: what is fastest are bursts that the way back made; of the longest runs (`is_longest`) they have little.

    `own`: packets outstanding at the most.
    """
    if len(runs.rates) < FEWEST_SAMPLES:
        return unknown(f"fewer than {FEWEST_SAMPLES} {words} acknowledged without a loss")
    blur = clock.resolution_ns / float(np.median(runs.spans_ns)) if clock.resolution_ns > BATCH_NS else 0.0
    peak = _highest_mode(runs.rates, blur)
    if peak is None:
        return unknown("the rate at which segments are acknowledged has no mode: nothing paces the ACKs")
    # A queue of more shows that the path, not the sender, sets the pace.
    queued = (runs.delay_ns > DELAYED_ACK_SEGMENTS / runs.rates * 1e9 + clock.doubt_ns) & ~runs.compressed
    # Known to the clock are the stamps of a round trip, and those of the least.
    stood = runs.least_ns > np.maximum(1 / runs.rates * 1e9, 2 * clock.doubt_ns)
    pressed = (runs.slowed | queued) & (stood | (runs.spans_ns < MAJORITY * runs.base_ns))
    if np.count_nonzero(pressed) < FEWEST_SAMPLES:
        return unknown("segments were acknowledged as they were sent, and met no queue: the path never set the pace")
    rates, delay, spans = runs.rates[pressed], runs.delay_ns[pressed], runs.spans_ns[pressed]
    uneven = runs.uneven[pressed]
    peak = _highest_mode(rates, blur)
    if peak is None:
        return unknown("the rate at which segments are acknowledged has no mode: nothing paces the ACKs")
    near = np.abs(np.log(rates / peak)) <= MODE_BINS * BIN + 2 * blur
    low, value, high = (float(number) for number in np.percentile(rates[near], [10, 50, 90]))
    # Both ends of a run are known to what two stamps can tell apart.
    share = clock.resolution_ns / float(np.median(spans[near]))
    low, high = low / (1 + share), high * (1 + share)
    busy = delay > BUSY_PACKETS / value * 1e9
    steady = float(np.mean(near[busy])) if np.count_nonzero(busy) >= FEWEST_SAMPLES else None
    method = f"mode of the rate at which {words} are acknowledged ({np.mean(near):.0%} of the runs)"
    if steady is not None and steady < STEADY_SHARE:
        implied = float(np.percentile(delay, 95)) / 1e9 * value
        if implied > OTHERS_FACTOR * own:
            return None
        if float(np.median(uneven[near])) > UNEVEN:
            return Estimate(value=value, method=f"{method}; in bursts, at other rates too") if is_longest else None
        # A standing queue that empties at many rates: others use it too, or the receiver reads slowly.
        return Estimate(value=value, low=low, high=None, method=f"{method}; at other rates while a queue stood: shared")
    if runs.is_inferred and np.mean(near) < MAJORITY:
        return Estimate(value=value, low=low, high=None, method=f"{method}; or the pace at which the sender sent")
    return Estimate(value=value, low=low, high=high, method=method)


def _highest_mode(rates: Floats, blur: float) -> float | None:
    """Idle gaps between windows, other flows and slow readers make slower modes; none is faster than the path."""
    bins = np.floor(np.log(rates) / BIN).astype(np.int64)
    origin = int(bins.min())
    mass = np.bincount(bins - origin)
    # As wide as the clock blurs a run's rate, both ends of it.
    width = 3 + 2 * int(np.ceil(2 * blur / BIN))
    smooth = np.convolve(mass, np.ones(width), mode="same") if len(mass) >= width else np.full(len(mass), mass.sum())
    least = max(MODE_SHARE * len(rates), MODE_RUNS)
    peaks = np.flatnonzero((smooth >= np.roll(smooth, 1)) & (smooth >= np.roll(smooth, -1)) & (smooth >= least))
    if not len(peaks):
        return None
    beside = peaks[(peaks > peaks[-1] - STRAY_SHARE / BIN) & (smooth[peaks] >= STRAY_FACTOR * smooth[peaks[-1]])]
    peak = int(beside[-1]) if len(beside) else int(peaks[-1])
    return float(np.exp((origin + peak + 0.5) * BIN))


@dataclass(frozen=True, kw_only=True)
class Batches:
    """The ends of batches of ACKs: when, packets acknowledged until then, ACKs that jumped.

    A run goes from the end of a batch to the end of another: within one, the host set the distances.
    """

    times: Ints
    acked: Floats
    jumps: npt.NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """Runs that tell a rate: the batch that each begins and ends with, and how long it takes."""

    opens: Ints
    closes: Ints
    spans: Floats


def acked_together(seen: Reconstruction, others: Sequence[Reconstruction]) -> Batches:
    """The ACKs of all these flows, counted in packets of the first one's size."""
    packet_bytes = seen.timeline.smss + seen.timeline.header_bytes
    flows = [_moves(flow, packet_bytes) for flow in (seen, *others)]
    times, packets, jumped = flows[0]
    if others:
        order = np.argsort(np.concatenate([flow[0] for flow in flows]), kind="stable")
        times, packets, jumped = (np.concatenate(column)[order] for column in zip(*flows, strict=True))
    is_end = np.diff(times, append=times[-1:] + BATCH_NS + 1) > BATCH_NS
    # An ACK that jumps answers a filled hole: the run across it is no rate.
    return Batches(
        times=times[is_end], acked=np.cumsum(packets)[is_end], jumps=np.cumsum(jumped, dtype=np.int32)[is_end]
    )


def _chosen(batches: Batches, segments: int, flows: Sequence[Reconstruction]) -> Chosen:
    times, jumps = batches.times, batches.jumps
    opens, closes = _runs(batches.acked, segments)
    spans = (times[closes] - times[opens]).astype(np.float64)
    calm = (jumps[closes] == jumps[opens]) & (spans > 0) & (closes - opens >= FEWEST_ALIKE)
    for flow in flows:
        calm &= ~touches(times[opens], times[closes], flow.episodes)
    return Chosen(opens=opens[calm], closes=closes[calm], spans=spans[calm])


def run_rates(seen: Reconstruction, others: Sequence[Reconstruction], segments: int) -> Runs:
    """Every run of `segments` of all these flows; what it met is what this flow's own segments met."""
    timeline = seen.timeline
    batches = acked_together(seen, others)
    chosen = _chosen(batches, segments, (seen, *others))
    times, acked = batches.times, batches.acked
    begin, end, spans = times[chosen.opens], times[chosen.closes], chosen.spans
    rates = (acked[chosen.closes] - acked[chosen.opens]) / (spans / 1e9)
    uneven = _slowest(times, acked, chosen.opens, chosen.closes) / 1e9 * rates
    # A long connection has megabytes of each of these: none is held longer than it is used.
    del batches, chosen, times, acked
    samples = timeline.rtt[1]
    delay, least = np.zeros(len(end)), np.zeros(len(end))
    slowed, compressed = np.zeros(len(end), dtype=bool), np.zeros(len(end), dtype=bool)
    for part in parts(len(end)):
        # Sent when acknowledged, less the round trip then.
        sent = spans[part]
        if len(samples):
            delay[part], least[part], longer = _met(timeline, begin[part], end[part])
            sent = sent - longer
        slowed[part] = spans[part] > SLOWED * np.maximum(sent, 0.0)
        compressed[part] = spans[part] < COMPRESSED * sent
    return Runs(
        rates=rates,
        spans_ns=spans,
        delay_ns=delay,
        least_ns=least,
        base_ns=int(samples.min()) if len(samples) else 0,
        uneven=uneven,
        slowed=slowed,
        compressed=compressed,
        is_inferred=len(timeline.slack) > 0 and bool(np.mean(timeline.is_open) > MAJORITY),
    )


def _met(timeline: Timeline, begin: Ints, end: Ints) -> tuple[Floats, Floats, Floats]:
    """Of runs: the queueing delay at the end, the shortest within, and by how much the round trip grew."""
    rows, samples = timeline.rtt
    # From the last one before the first run to the first behind the last.
    heard = timeline.ack_ns[rows]
    around = slice(
        max(int(np.searchsorted(heard, begin.min(), side="left")) - 1, 0),
        int(np.searchsorted(heard, end.max(), side="right")) + 1,
    )
    base, heard, samples = int(samples.min()), heard[around], samples[around]
    delay = np.interp(end, heard, samples - base)
    longer = np.interp(end, heard, samples) - np.interp(begin, heard, samples)
    return delay, np.minimum(delay, _least_between(heard, samples - base, begin, end)), longer


def _runs(reached: Floats, segments: int) -> tuple[Ints, Ints]:
    """From the end of each batch to that of the first by which so many segments more are acknowledged."""
    after = np.searchsorted(reached, reached + segments - 1e-6, side="left")
    # What is reached rises: so do these.
    valid = int(np.searchsorted(after, len(reached), side="left"))
    return np.arange(valid), after[:valid]


def _slowest(times: Ints, reached: Floats, first: Ints, last: Ints) -> Floats:
    """Of runs from one batch to another: the longest that a batch in it took for each of its packets."""
    # Between batches `first` and `last`.
    found: Floats = _core.most_within(np.diff(times) / np.diff(reached), first, last)
    return found


def _least_between(times: Ints, values: Ints, begin: Ints, end: Ints) -> Floats:
    """The least of the values at times from begin to end; where there is none, that of the next."""
    first = np.minimum(_core.places(times, begin), len(times) - 1)
    behind = np.clip(_core.places(times, end, or_equal=True), first + 1, len(times))
    found: Floats = _core.least_within(values, first, behind).astype(np.float64)
    return found


def _moves(flow: Reconstruction, packet_bytes: int) -> tuple[Ints, Floats, Bools]:
    """Each ACK of new data: when, of how many packets of the given size, and whether it jumps.

    One that fills a hole acknowledges what had come before as well: counted is what each says has arrived.
    """
    timeline = flow.timeline
    arrived = np.diff(delivered(timeline), prepend=timeline.first_offset)
    moving = np.flatnonzero((timeline.newly_acked > 0) & (arrived > 0))
    newly = arrived[moving]
    scale = (timeline.smss + timeline.header_bytes) / packet_bytes / timeline.smss
    jumped = newly > _jump(flow) if len(newly) else newly
    # One that was overtaken by its successor leaves that one too early.
    follows = np.minimum(moving + 1, len(timeline.ack_ns) - 1)
    jumped = jumped | (timeline.ack_offset[follows] < timeline.snd_una[moving]) if len(newly) else jumped
    jumped = jumped | (timeline.snd_una[moving] <= _sent_unseen(flow)) if len(newly) else jumped
    return timeline.ack_ns[moving], np.asarray(newly * scale, dtype=np.float64), jumped.astype(bool)


def _sent_unseen(seen: Reconstruction) -> int:
    """The end of what may have been sent, or sent again, before the capture began: which ACK of it fills a hole is not
    known. It is acknowledged a round trip later at the latest."""
    timeline = seen.timeline
    if timeline.has_start or not len(timeline.send_ns):
        return timeline.first_offset
    begun = np.searchsorted(timeline.send_ns, timeline.send_ns[0] + seen.base_rtt_ns, side="right")
    return int(timeline.snd_max[begun - 1])


def _jump(seen: Reconstruction) -> int:
    moved = seen.timeline.newly_acked[seen.timeline.newly_acked > 0]
    return int(max(4 * seen.timeline.smss, 4 * np.median(moved)))


def touches(begin: Ints, end: Ints, episodes: tuple[Episode, ...]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether each time from begin to end has a loss event in it."""
    starts = np.array([episode.time_ns for episode in episodes], dtype=np.int64)
    ends = np.array([episode.end_ns for episode in episodes], dtype=np.int64)
    if not len(starts):
        return np.zeros(len(begin), dtype=bool)
    # Episodes are in order: the first that ends at or after the run's begin must start after the run's end.
    index = np.searchsorted(np.maximum.accumulate(ends), begin, side="left")
    return (index < len(starts)) & (starts[np.minimum(index, len(starts) - 1)] <= end)
