"""What became of one connection: the same figures of a recording and of a simulation, from the packets of each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tcptrace_lab.classify.verdict import Verdict
from tcptrace_lab.reconstruct.reconstruction import Reconstruction


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one connection, then or now; times in seconds, windows in segments, NaN where not known."""

    completion_s: float
    goodput_bps: float
    loss_events: int
    lost_segments: int
    timeouts: int
    regime: str
    slow_starts: tuple[int, ...]
    rtt_median_s: float
    rtt_max_s: float
    window_max: float
    limits: Mapping[str, float]


def outcome(verdict: Verdict) -> Outcome:
    """The same figures of a recording and of a simulation, from the packets of each."""
    seen = verdict.seen
    timeline = seen.timeline
    _, samples = timeline.rtt
    done_s = completion_s(seen)
    sent = timeline.new_bytes
    events = [episode for episode in seen.episodes if episode.is_loss]
    lost = seen.losses
    return Outcome(
        completion_s=done_s,
        goodput_bps=8 * sent / done_s if done_s > 0 else math.nan,
        loss_events=len(events),
        lost_segments=int((~lost["spurious"].astype(bool)).sum()),
        timeouts=sum(episode.detected_by == "rto" for episode in events),
        regime=verdict.slow_starts.regime,
        slow_starts=tuple(verdict.as_dict()["slow_starts"]["per_cycle"]),
        rtt_median_s=float(np.median(samples)) / 1e9 if len(samples) else math.nan,
        rtt_max_s=float(samples.max()) / 1e9 if len(samples) else math.nan,
        window_max=float(seen.flight.max()) / timeline.smss if len(seen.flight) else math.nan,
        limits=seen.limits,
    )


def completion_s(seen: Reconstruction) -> float:
    """From the first byte's leaving to the ACK of the last one; NaN: it was never acknowledged."""
    timeline = seen.timeline
    if not len(timeline.send_ns) or not len(timeline.ack_ns):
        return math.nan
    all_acked = timeline.snd_una >= timeline.snd_max[-1]
    if not all_acked.any():
        return math.nan
    return float(timeline.ack_ns[int(np.argmax(all_acked))] - timeline.send_ns[0]) / 1e9
