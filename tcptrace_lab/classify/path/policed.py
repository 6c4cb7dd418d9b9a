"""Losses of a policer: a token bucket that drops what exceeds a rate beyond a burst, and delays nothing.

A bucket that what passed fills, and that empties at the rate, is full at each loss and at nothing else (Flach et al.,
"An Internet-Wide Analysis of Traffic Policing", SIGCOMM 2016). A full queue's losses are the same, but round trips rise
with it: where they do not, nobody waited. Errs towards "not policed": other flows that fill the same bucket, and a
burst so small that many rates explain it, as they do the short buffer of a fast link.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.distinct import is_among
from tcptrace_lab.reconstruct.estimate import Estimate, unknown
from tcptrace_lab.reconstruct.given import DELAYED_ACK_SEGMENTS, FEWEST_ALIKE, FEWEST_SAMPLES, FULL_SHARE
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Bools, Floats, Ints

# Between two losses without an empty bucket as much passed as the rate allows, to a packet: of so many losses each pair
# proposes a rate.
MOST_LOSSES = 48
# ... of a part of the capture with at most so many packets; what it tells must hold of the whole.
MOST_PACKETS = 50_000
# Rates this near to each other are one, and so many of those that most pairs propose are tried.
ALIKE_SHARE = 1e-3
TRIED_RATES = 16
# Around the best of these, in so many steps.
FINER_STEPS = 40
# Another rate by this share must not explain the losses as well.
OTHER_SHARE = 0.1
# That the first losses of all events meet the bucket as full as few of those that passed do, by chance.
CHANCE_SHARE = 1e-5
# Nobody waited: round trips rise by less than this share of what the bucket takes to empty.
UNDELAYED_SHARE = 0.25
NOT_TOLD = "no token bucket is full at the losses, and at nothing else"


@dataclass(frozen=True, kw_only=True)
class Policed:
    """What a policer lets pass (packets/s), how many packets at once, and of each loss event whether it was its."""

    pps: Estimate
    burst: Estimate
    is_policed: tuple[bool, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Packets:
    """When each left, what had passed with it and before it, in full packets (one that was lost is 0), and how long
    after the first it left, in ns."""

    times: Ints
    passed: Floats
    before: Floats
    is_lost: Bools
    after_ns: Floats


@dataclass(frozen=True, kw_only=True)
class _Bucket:
    """At one rate: how full it has to be to lose a packet; how well that tells who was lost (1: wholly)."""

    rate: float
    depth: float
    told: float


def losses_of_policer(seen: Reconstruction) -> Policed:
    """What the times of the losses tell of a policer."""
    count = len(seen.episodes)
    events = [each for each in seen.episodes if each.is_loss]
    if len(events) < FEWEST_ALIKE or not len(seen.timeline.rtt[0]):
        return not_policed(f"fewer than {FEWEST_ALIKE} loss events", count)
    part = _packets(seen, MOST_PACKETS)
    tried = _proposed(part) if np.count_nonzero(part.is_lost) >= FEWEST_SAMPLES else []
    if not tried:
        return not_policed(NOT_TOLD, count)
    found = max((_bucket(part, rate) for rate in tried), key=lambda each: each.told)
    if found.told < FULL_SHARE - OTHER_SHARE or _waited(seen, part, found):
        return not_policed(NOT_TOLD, count)
    steps = found.rate * (1 + ALIKE_SHARE * np.linspace(-2, 2, FINER_STEPS + 1))
    packets = part if len(part.times) < MOST_PACKETS else _packets(seen, len(seen.timeline.send_ns))
    finer = [_bucket(packets, rate) for rate in (found.rate, *steps.tolist())]
    bucket = max(finer, key=lambda each: each.told)
    lost = np.flatnonzero(packets.is_lost)
    others = [_bucket(packets, bucket.rate * factor) for factor in (1 - OTHER_SHARE, 1 + OTHER_SHARE)]
    firsts = lost[np.searchsorted(packets.times[lost], [each.lost_sent_ns for each in events]).clip(max=len(lost) - 1)]
    meets_full = _levels(packets, bucket.rate) >= bucket.depth - DELAYED_ACK_SEGMENTS
    is_full, beside = meets_full[firsts], float(np.mean(meets_full[~packets.is_lost]))
    if (
        bucket.told < FULL_SHARE
        or max(each.told for each in others) >= FULL_SHARE
        or np.mean(is_full) < FULL_SHARE
        or beside ** int(np.count_nonzero(is_full)) > CHANCE_SHARE
        or _waited(seen, packets, bucket)
    ):
        return not_policed(NOT_TOLD, count)
    good = [each.rate for each in finer if each.told >= FULL_SHARE]
    by_event = iter(is_full.tolist())
    method = f"what passed between {len(lost)} losses, which alone met a token bucket full, and no round trip rose"
    return Policed(
        pps=Estimate(value=bucket.rate, low=min(good), high=max(good), method=method),
        burst=Estimate(value=bucket.depth + 1, low=bucket.depth, high=bucket.depth + 2, method=method),
        is_policed=tuple(each.is_loss and next(by_event) for each in seen.episodes),
    )


def not_policed(why: str, count: int = 0) -> Policed:
    return Policed(pps=unknown(why), burst=unknown(why), is_policed=(False,) * count)


def _packets(seen: Reconstruction, most: int) -> _Packets:
    """Of so many sends each packet: a super-segment has several."""
    timeline = seen.timeline
    begins, ends = timeline.send_offset[:most], timeline.send_end[:most]
    pieces = np.maximum(-(-(ends - begins) // timeline.smss), 1)
    place = np.arange(int(pieces.sum())) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    times = np.repeat(timeline.send_ns[:most], pieces)
    offsets = np.repeat(begins, pieces) + place * timeline.smss
    lengths = np.minimum(np.repeat(ends, pieces) - offsets, timeline.smss)
    table = timeline.observed.lost()
    is_gone = ~table["spurious"]
    gone = set(zip(table["time_ns"][is_gone].tolist(), table["offset"][is_gone].tolist(), strict=True))
    is_lost = is_among(times, table["time_ns"][is_gone])
    some = np.flatnonzero(is_lost)
    is_lost[some] = [pair in gone for pair in zip(times[some].tolist(), offsets[some].tolist(), strict=True)]
    full = timeline.smss + timeline.header_bytes
    weights = np.where(is_lost, 0.0, (lengths + timeline.header_bytes) / full)
    passed, after_ns = np.cumsum(weights), (times - times[0]).astype(np.float64)
    return _Packets(times=times, passed=passed, before=passed - weights, is_lost=is_lost, after_ns=after_ns)


def _proposed(packets: _Packets) -> list[float]:
    """The rates that most pairs of losses have between them."""
    lost = np.flatnonzero(packets.is_lost)
    few = lost[np.linspace(0, len(lost) - 1, min(len(lost), MOST_LOSSES)).astype(np.int64)]
    first, second = np.triu_indices(len(few), 1)
    apart = (packets.times[few[second]] - packets.times[few[first]]) / 1e9
    between = packets.passed[few[second]] - packets.passed[few[first]]
    is_long = (between >= FEWEST_SAMPLES) & (apart > 0)
    rates = np.sort(between[is_long] / apart[is_long])
    if not len(rates):
        return []
    bins = np.floor(np.log(rates) / ALIKE_SHARE).astype(np.int64)
    _, begins, counts = np.unique(bins, return_index=True, return_counts=True)
    most = np.argsort(-counts, kind="stable")[:TRIED_RATES]
    return [_core.median(rates[begins[at] : begins[at] + counts[at]]) for at in most.tolist()]


def _bucket(packets: _Packets, rate: float) -> _Bucket:
    """The level that parts best what passed from what was lost, of which there is something."""
    depth, told = _core.token_bucket((packets.before, packets.after_ns, packets.is_lost), rate) or (0.0, 0.0)
    return _Bucket(rate=rate, depth=depth, told=told)


def _levels(packets: _Packets, rate: float) -> Floats:
    """How full it was before each packet: Lindley's recursion of what passed."""
    over = packets.before - rate * packets.after_ns / 1e9
    found: Floats = over - np.minimum.accumulate(over)
    return found


def _waited(seen: Reconstruction, packets: _Packets, bucket: _Bucket) -> bool:
    """Whether round trips rise as what leaves into a fuller bucket would have to wait."""
    timeline, (rows, samples) = seen.timeline, seen.timeline.rtt
    # Of these packets only.
    upto = np.searchsorted(rows, np.searchsorted(timeline.ack_ns, packets.times[-1], side="right"))
    rows, samples = rows[:upto], samples[:upto]
    left = timeline.ack_ns[rows] - samples
    level = _levels(packets, bucket.rate)[np.minimum(np.searchsorted(packets.times, left), len(packets.times) - 1)]
    high = level >= bucket.depth / 2
    if np.count_nonzero(high) < FEWEST_SAMPLES:
        return True
    rise = _core.median(samples[high]) - float(samples.min())
    return rise > UNDELAYED_SHARE * _core.median(level[high]) / bucket.rate * 1e9
