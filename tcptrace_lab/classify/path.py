"""The path as a capture at the sender shows it: round trip, bottleneck rate, buffer (Barakat & Altman's T, mu, B).

Everything rests on one flow's own ACKs: a path that this flow never filled shows bounds, not values. Cross traffic
makes the rate found here the share this flow had, unless the capture has the other flows too: then the ACKs of all of
them together come at the bottleneck's. One pair of back-to-back ACKs proves nothing, so rates are of runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tcptrace_lab.reconstruct.estimate import Estimate, unknown
from tcptrace_lab.reconstruct.losses import Episode
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Floats, Ints

# Rates over runs of this many segments: three delayed ACKs, so that no single late one decides; short enough that the
# segments of a run still stand one behind the other when the sender fills only a part of the path.
RUN_SEGMENTS = 6
# The same for the ACKs of several flows, times their number: at both ends of a run each flow may have a segment that
# its delayed ACK has not told of yet, and that is to be a few percent of the run.
TOGETHER_SEGMENTS = 32
# A mode of the distribution of rates counts when it holds this share of the runs; bins of 2 % of the rate.
MODE_SHARE = 0.04
BIN = 0.02
# A queue this long (packets) keeps the bottleneck busy: then the ACKs come at its rate, or others share it.
BUSY_PACKETS = 4.0
STEADY_SHARE = 0.6
GROWTH_SLACK = 2.0
# A queue met by more than this share of the segments is not one at which the buffer overflows.
OFTEN = 0.5
# Two flows meet one queue when half of the differences of their round trips lie within this share of the swing.
SAME_QUEUE_SHARE = 0.25
ENOUGH_SAMPLES = 32
# Below this part of the bottleneck's rate the queue must have been empty.
IDLE_LOAD = 0.95
# Queue lengths met at losses that lie this close together are one buffer's (packets, or share of it).
SPREAD_PACKETS = 3.0
SPREAD_SHARE = 0.2


@dataclass(frozen=True, kw_only=True)
class PathEstimate:
    """The five estimates of the verdict's `path`, and what the queue was at each loss event (packets; NaN unknown)."""

    base_rtt_s: Estimate
    bottleneck_bps: Estimate
    bottleneck_pps: Estimate
    bdp_packets: Estimate
    buffer_packets: Estimate
    packet_bytes: int
    queue_at_loss: tuple[float, ...]
    queue_max: float

    def as_dict(self) -> dict[str, Any]:
        names = ("base_rtt_s", "bottleneck_bps", "bottleneck_pps", "bdp_packets", "buffer_packets")
        return {name: getattr(self, name).as_dict() for name in names}


def infer_path(
    seen: Reconstruction,
    *,
    handshake_rtt_s: float | None = None,
    vantage: str = "sender",
    beside: Callable[[], Sequence[Reconstruction]] = tuple,
) -> PathEstimate:
    """Every estimate that the flow's ACKs allow from where they were captured.

    `beside` gives the capture's other flows. Those whose round trips rise and fall with this one's share its queue.
    """
    timeline = seen.timeline
    packet_bytes = timeline.smss + timeline.header_bytes
    pps = _rate(seen)
    if vantage in ("receiver", "middle"):
        return _elsewhere(seen, pps, packet_bytes, handshake_rtt_s)
    others = [other for other in beside() if _shares_queue(seen, other)] if len(timeline.rtt[0]) else []
    if pps.value is not None and pps.high is None and others:
        pps = _rate_together(seen, others) or pps
    base = _base_rtt(seen, handshake_rtt_s, pps.value)
    standing_ns = _standing_ns(seen, others) if others else 0
    if pps.value is not None and standing_ns > BUSY_PACKETS / pps.value * 1e9:
        least = float(timeline.rtt[1].min())
        method = f"{base.method.partition(';')[0]}, less the queue that another flow met then"
        base = Estimate(value=(least - standing_ns) / 1e9, low=None, high=least / 1e9, method=method)
    else:
        standing_ns = 0
    bps = _scaled(pps, 8 * packet_bytes)
    at_loss, queue = _queues(seen, pps.value, standing_ns)
    longest = float(np.percentile(queue, 98)) if len(queue) else float("nan")
    return PathEstimate(
        base_rtt_s=base,
        bottleneck_bps=bps,
        bottleneck_pps=pps,
        bdp_packets=_product(base, pps),
        buffer_packets=_buffer(at_loss, queue, longest, base, pps),
        packet_bytes=packet_bytes,
        queue_at_loss=at_loss,
        queue_max=longest,
    )


def _elsewhere(seen: Reconstruction, pps: Estimate, packet_bytes: int, handshake_rtt_s: float | None) -> PathEstimate:
    """Away from the sender a data segment's round trip at the tap is a part of the path's, and so is its queue."""
    base = Estimate(
        value=handshake_rtt_s,
        low=handshake_rtt_s,
        method="the handshake's whole round trip, both sides of the tap (its packets are small)",
    )
    return PathEstimate(
        base_rtt_s=base if handshake_rtt_s is not None else unknown("not captured at the sender, and no handshake"),
        bottleneck_bps=_scaled(pps, 8 * packet_bytes),
        bottleneck_pps=pps,
        bdp_packets=_product(base, pps),
        buffer_packets=unknown("not captured at the sender: the queue's delay is not in the round trips seen"),
        packet_bytes=packet_bytes,
        queue_at_loss=tuple(float("nan") for _ in seen.episodes),
        queue_max=float("nan"),
    )


def _base_rtt(seen: Reconstruction, handshake_rtt_s: float | None, pps: float | None) -> Estimate:
    _, samples = seen.timeline.rtt
    if not len(samples):
        return unknown("no ACK can be matched with the segment it answers", high=handshake_rtt_s)
    least = float(samples.min()) / 1e9
    method = f"least of {len(samples)} round trips of segments sent once"
    if _was_empty(seen, pps):
        # The handshake's packets are smaller: their round trip lacks the transmission times of a full segment.
        return Estimate(value=least, low=min(least, handshake_rtt_s or least), high=least, method=method)
    low = handshake_rtt_s if handshake_rtt_s is not None and handshake_rtt_s <= least else None
    return Estimate(value=least, low=low, high=least, method=f"{method}; the queue may never have been empty")


def _was_empty(seen: Reconstruction, pps: float | None) -> bool:
    """Whether some of the least round trips were met at a load below the bottleneck's rate: then no queue stood."""
    rows, samples = seen.timeline.rtt
    if pps is None:
        return False
    least = samples <= 1.02 * samples.min()
    load = seen.flight[np.maximum(rows[least] - 1, 0)] / seen.timeline.smss / (np.maximum(samples[least], 1) / 1e9)
    return bool(np.any(load < IDLE_LOAD * pps))


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    def times(number: float | None) -> float | None:
        return None if number is None else number * factor

    return Estimate(
        value=times(estimate.value), low=times(estimate.low), high=times(estimate.high), method=estimate.method
    )


def _product(base: Estimate, pps: Estimate) -> Estimate:
    if base.value is None or pps.value is None:
        return unknown("needs both the round trip and the rate")
    low = None if base.low is None or pps.low is None else base.low * pps.low
    high = None if base.high is None or pps.high is None else base.high * pps.high
    return Estimate(value=base.value * pps.value, low=low, high=high, method="base_rtt_s x bottleneck_pps")


def _rate(seen: Reconstruction) -> Estimate:
    """The fastest rate at which runs of segments are acknowledged again and again: the bottleneck's, in packets/s."""
    return _mode(*_run_rates(seen, (), RUN_SEGMENTS), f"runs of {RUN_SEGMENTS} segments")


def _rate_together(seen: Reconstruction, others: Sequence[Reconstruction]) -> Estimate | None:
    """The rate of all flows' ACKs, if it is one while this flow met a queue: one bottleneck, all its flows seen."""
    segments = TOGETHER_SEGMENTS * (1 + len(others))
    words = f"runs of {segments} segments of {1 + len(others)} flows together"
    found = _mode(*_run_rates(seen, others, segments), words)
    if found.value is None or found.high is None:
        return None
    return found


def _shares_queue(seen: Reconstruction, other: Reconstruction) -> bool:
    """Whether two flows' round trips differ by a constant while both last: they wait in one queue."""
    rows, samples = seen.timeline.rtt
    places, found = other.timeline.rtt
    if len(samples) < ENOUGH_SAMPLES or len(found) < ENOUGH_SAMPLES:
        return False
    times, known = seen.timeline.ack_ns[rows], other.timeline.ack_ns[places]
    both = (times >= known[0]) & (times <= known[-1])
    if np.count_nonzero(both) < ENOUGH_SAMPLES:
        return False
    low, high = np.percentile(samples[both], [10, 90])
    left, right = np.percentile(samples[both] - np.interp(times[both], known, found), [25, 75])
    return bool(right - left < SAME_QUEUE_SHARE * (high - low))


def _standing_ns(seen: Reconstruction, others: Sequence[Reconstruction]) -> int:
    """The queue that stood at this flow's least round trip, by what the other flows met at the same time.

    Their way may be longer; what counts is by how much their round trips exceed their own least then. Errs low where
    they have never met an empty queue either, high by a packet or two (their own).
    """
    rows, samples = seen.timeline.rtt
    times = seen.timeline.ack_ns[rows[samples <= 1.02 * samples.min()]]
    met = np.zeros(len(times))
    for other in others:
        places, found = other.timeline.rtt
        if len(found):
            known = other.timeline.ack_ns[places]
            met = np.maximum(met, np.interp(times, known, found - found.min(), left=0.0, right=0.0))
    return int(met.min())


def _mode(rates: Floats, queue: Floats, runs: str) -> Estimate:
    if len(rates) < 8:
        return unknown(f"fewer than 8 {runs} acknowledged without a loss")
    bins = np.floor(np.log(rates) / BIN).astype(np.int64)
    origin = int(bins.min())
    mass = np.bincount(bins - origin)
    mass = mass / mass.sum()
    smooth = np.convolve(mass, np.ones(3), mode="same")
    peaks = np.flatnonzero((smooth >= np.roll(smooth, 1)) & (smooth >= np.roll(smooth, -1)) & (smooth >= MODE_SHARE))
    if not len(peaks):
        return unknown("the rate at which segments are acknowledged has no mode: nothing paces the ACKs")
    # The highest mode: idle gaps between windows, other flows and slow readers make slower ones.
    best = int(peaks[-1])
    near = np.abs(bins - origin - best) <= 2
    low, value, high = (float(number) for number in np.percentile(rates[near], [10, 50, 90]))
    busy = queue > BUSY_PACKETS / value * 1e9
    steady = float(np.mean(near[busy])) if np.count_nonzero(busy) >= 8 else None
    method = f"mode of the rate at which {runs} are acknowledged ({np.mean(near):.0%} of the runs)"
    if steady is not None and steady < STEADY_SHARE:
        # A standing queue that empties at many rates: others use it too, or the receiver reads slowly.
        return Estimate(value=value, low=low, high=None, method=f"{method}; at other rates while a queue stood: shared")
    return Estimate(value=value, low=low, high=high, method=method)


def _run_rates(seen: Reconstruction, others: Sequence[Reconstruction], segments: int) -> tuple[Floats, Floats]:
    """Packets/s (of this flow's size) of every run of ACKs without a loss in it, and the queueing delay (ns) that this
    flow met at its end."""
    timeline = seen.timeline
    packet_bytes = timeline.smss + timeline.header_bytes
    flows = [_moves(flow, packet_bytes) for flow in (seen, *others)]
    order = np.argsort(np.concatenate([flow[0] for flow in flows]), kind="stable")
    times, packets, jumped = (np.concatenate(column)[order] for column in zip(*flows, strict=True))
    if not len(times):
        return np.zeros(0), np.zeros(0)
    acked = np.cumsum(packets)
    after = np.searchsorted(acked, acked + segments - 1e-6, side="left")
    valid = after < len(acked)
    # An ACK that jumps answers a filled hole: the run across it is no rate.
    jumps = np.concatenate(([0], np.cumsum(jumped)))
    begin = np.flatnonzero(valid)
    end = after[valid]
    calm = jumps[end + 1] == jumps[begin + 1]
    spans = (times[end] - times[begin]).astype(np.float64)
    calm &= spans > 0
    for flow in (seen, *others):
        calm &= ~_touches(times[begin], times[end], flow.episodes)
    amounts = acked[end] - acked[begin]
    rows, samples = timeline.rtt
    delay = (
        np.interp(times[end], timeline.ack_ns[rows], samples - samples.min()) if len(samples) else np.zeros(len(end))
    )
    return amounts[calm] / (spans[calm] / 1e9), delay[calm]


def _moves(flow: Reconstruction, packet_bytes: int) -> tuple[Ints, Floats, Ints]:
    """Each ACK of new data: when, of how many packets of the given size, and whether it jumps."""
    timeline = flow.timeline
    moving = np.flatnonzero(timeline.newly_acked > 0)
    newly = timeline.newly_acked[moving]
    scale = (timeline.smss + timeline.header_bytes) / packet_bytes / timeline.smss
    jumped = newly > _jump(flow) if len(newly) else newly
    return timeline.ack_ns[moving], np.asarray(newly * scale, dtype=np.float64), jumped.astype(np.int64)


def _jump(seen: Reconstruction) -> int:
    moved = seen.timeline.newly_acked[seen.timeline.newly_acked > 0]
    return int(max(4 * seen.timeline.smss, 4 * np.median(moved)))


def _touches(begin: Ints, end: Ints, episodes: tuple[Episode, ...]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    starts = np.array([episode.time_ns for episode in episodes], dtype=np.int64)
    ends = np.array([episode.end_ns for episode in episodes], dtype=np.int64)
    if not len(starts):
        return np.zeros(len(begin), dtype=bool)
    # Episodes are in order: the first that ends at or after the run's begin must start after the run's end.
    index = np.searchsorted(np.maximum.accumulate(ends), begin, side="left")
    return (index < len(starts)) & (starts[np.minimum(index, len(starts) - 1)] <= end)


def _queues(seen: Reconstruction, pps: float | None, standing_ns: int) -> tuple[tuple[float, ...], Floats]:
    """The queue in packets met by the segment sent just before each first lost one; and that of every sample.

    `standing_ns`: the queue at the least round trip.
    """
    rows, samples = seen.timeline.rtt
    if pps is None or not len(samples):
        return tuple(float("nan") for _ in seen.episodes), np.zeros(0)
    sent = seen.timeline.ack_ns[rows] - samples
    queue = (samples - samples.min() + standing_ns) * pps / 1e9
    # A queue grows by no more than what is sent: a sample beyond that waited for something else (a delayed ACK's timer,
    # a host that stood still).
    sent_between = np.diff(seen.timeline.snd_una[rows], prepend=0) / seen.timeline.smss
    is_queue = np.diff(queue, prepend=0.0) <= sent_between + GROWTH_SLACK
    found = []
    for episode in seen.episodes:
        # The round trip before the loss: the last segments that still got in.
        upto = int(np.searchsorted(sent, episode.lost_sent_ns, side="right"))
        since = int(np.searchsorted(sent, episode.lost_sent_ns - samples.min() // 4, side="left"))
        near = slice(max(since, upto - 3), upto)
        met = queue[near][is_queue[near]]
        found.append(float(met.max()) if len(met) else float("nan"))
    return tuple(found), queue


def _buffer(at_loss: tuple[float, ...], queue: Floats, longest: float, base_rtt: Estimate, pps: Estimate) -> Estimate:
    met = np.array([length for length in at_loss if not np.isnan(length)])
    if np.isnan(longest):
        return unknown("no rate, so no queue length")
    if not len(met):
        return unknown(
            "no loss met a known queue: it holds at least the longest one seen", low=float(np.round(longest))
        )
    middle = float(np.median(met))
    if np.mean(queue > middle - 1.5) > OFTEN:
        # The same queue was carried without a loss most of the time: a window that does not grow, not a full buffer.
        return unknown("losses met the queue that stood most of the time without a loss", low=float(np.round(longest)))
    if not are_overflows(met, longest):
        return unknown(
            f"losses met queues of {met.min():.0f} to {met.max():.0f} packets: not one full buffer",
            low=float(np.round(longest)),
        )
    # The last packet that got in found B - 1 waiting and one partly sent: it waited between B - 1 and B services, or
    # one more where the receiver delayed its ACK until the packet behind the lost one. The lower quartile avoids those.
    value = float(np.ceil(np.percentile(met, 25) - 0.05))
    together = met[np.abs(met - np.median(met)) <= max(SPREAD_PACKETS, SPREAD_SHARE * float(np.median(met)))]
    # Where the rate is a lower bound (shared), so is a queue counted in packets; likewise where the round trip is high.
    high = None
    if base_rtt.value is not None and base_rtt.low is not None and pps.value is not None and pps.high is not None:
        unseen = (base_rtt.value - base_rtt.low) * pps.value
        high = float(np.ceil(together.max()) + 1 + np.ceil(unseen))
    return Estimate(
        value=value,
        low=min(float(np.floor(together.min())), value),
        high=high,
        method=f"queueing delay of the segments sent just before {len(met)} loss events, in packets waiting",
    )


def are_overflows(met: Floats, longest: float) -> bool:
    """Whether losses happen at one queue length, the longest there is: a full buffer, not a lossy link."""
    middle = float(np.median(met))
    spread = max(SPREAD_PACKETS, SPREAD_SHARE * middle)
    together = float(np.mean(np.abs(met - middle) <= spread))
    return together >= 0.7 and middle >= 2.0 and middle + spread >= longest
