"""Runs of ACKs: at what rate so many segments were acknowledged, and what queue they met.

Nothing is taken from stamps closer than the clock tells, nor from one interrupt's batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.given import FEWEST_ALIKE, MAJORITY
from tcptrace_lab.reconstruct.losses import Episode
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Bools, Floats, Ints, Places, Timeline, parts

# ACKs closer than this are one batch: a host's interrupt hands them over together. A full packet takes as long at
# 2.4 Gbit/s; beyond that a capture by a host's own kernel cannot pace its packets one by one.
BATCH_NS = 5_000
# Pressed: acknowledged at least this much slower than sent (an ACK clock alone keeps the pace).
SLOWED = 1.25
# ... or met a queue, and was not pushed together on the way back (ACK compression).
COMPRESSED = 1 / SLOWED


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

    opens: Places
    closes: Places
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


def chosen_runs(batches: Batches, segments: int, flows: Sequence[Reconstruction]) -> Chosen:
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
    chosen = chosen_runs(batches, segments, (seen, *others))
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


def _runs(reached: Floats, segments: int) -> tuple[Places, Places]:
    """From the end of each batch to that of the first by which so many segments more are acknowledged."""
    after = np.searchsorted(reached, reached + segments - 1e-6, side="left")
    # What is reached rises: so do these.
    valid = int(np.searchsorted(after, len(reached), side="left"))
    return np.arange(valid, dtype=np.int32), after[:valid].astype(np.int32)


def _slowest(times: Ints, reached: Floats, first: Places, last: Places) -> Floats:
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
    arrived = np.diff(timeline.delivered, prepend=timeline.first_offset)
    moving = np.flatnonzero((timeline.newly_acked > 0) & (arrived > 0))
    newly = arrived[moving]
    scale = (timeline.smss + timeline.header_bytes) / packet_bytes / timeline.smss
    jumped = newly > _jump(flow) if len(newly) else newly
    # One that was overtaken by its successor leaves that one too early.
    follows = np.minimum(moving + 1, len(timeline.ack_ns) - 1)
    jumped = jumped | (timeline.ack_offset[follows] < timeline.snd_una[moving]) if len(newly) else jumped
    jumped = jumped | (timeline.snd_una[moving] <= sent_unseen(flow)) if len(newly) else jumped
    return timeline.ack_ns[moving], np.asarray(newly * scale, dtype=np.float64), jumped.astype(bool)


def sent_unseen(seen: Reconstruction) -> int:
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
    index: Places = _core.places(np.maximum.accumulate(ends), begin)
    return (index < len(starts)) & (starts[np.minimum(index, len(starts) - 1)] <= end)
