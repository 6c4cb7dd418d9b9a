"""What a capture shows of the numbers that models predict: over whole loss cycles of the steady state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.regime.compound import CompoundRegime
from tcptrace_lab.reconstruct.cycles import acked_between
from tcptrace_lab.reconstruct.distinct import distinct
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Ints, Timeline


@dataclass(frozen=True, kw_only=True)
class Steady:
    """Means over the whole cycles from the first loss in avoidance on. Packets (of smss), packets/s, seconds.

    `loss_rate`: loss events per packet sent; `loss_rate_error`: its standard error as a share, from the scatter of the
    cycles' lengths; `timeouts`: the share of the events that a timer noticed.
    """

    cycles: int
    throughput: float
    period_s: float
    w_max: float
    loss_rate: float
    loss_rate_error: float
    round_trip_s: float
    timeouts: float


def steady(seen: Reconstruction) -> Steady | None:
    """The steady state's means; None where fewer than two whole cycles of it were captured."""
    timeline = seen.timeline
    captured = [cycle for cycle in seen.cycles if not cycle.begins_unseen]
    begins = bool(seen.stretches) and seen.stretches[0].begin == "connection"
    # The connection's first cycle has no threshold; the last ends with the capture, not with a loss.
    whole = captured[1:-1] if begins else captured[:-1]
    if len(whole) < 2:
        # One has no scatter.
        return None
    start, end = whole[0].start_ns, whole[-1].end_ns
    edges = np.asarray([whole[0].start_ns, *(cycle.end_ns for cycle in whole)])
    per_cycle = sent_between(timeline, np.searchsorted(timeline.send_ns, edges)) / timeline.smss
    # Nor is a reordering a loss that a window was cut for.
    events = [
        each
        for each in seen.episodes
        if start <= each.time_ns < end and each.is_loss and each.detected_by != "reordering"
    ]
    rows, samples = timeline.rtt
    within = slice(*np.searchsorted(rows, np.searchsorted(timeline.ack_ns, [start, end])))
    rows, samples = rows[within], samples[within]
    packets = float(per_cycle.sum())
    if end <= start or packets <= 0 or not events or not len(rows):
        return None
    (acked,) = acked_between(timeline, np.array([start]), np.array([end])).tolist()
    # A mean over time, not over ACKs: of those there are more while the window is large.
    at, times = np.linspace(start, end, 1024), timeline.ack_ns[rows]
    # Of hundreds of thousands those beside these moments are enough.
    behind = np.searchsorted(times, at, side="right")
    near = distinct(np.clip(np.concatenate((behind - 1, behind)), 0, len(times) - 1))
    return Steady(
        cycles=len(whole),
        throughput=acked / timeline.smss / ((end - start) / 1e9),
        period_s=(end - start) / 1e9 / len(whole),
        w_max=_core.median(np.array([cycle.w_max for cycle in whole])) / timeline.smss,
        loss_rate=len(events) / packets,
        loss_rate_error=float(per_cycle.std(ddof=1) / per_cycle.mean() / np.sqrt(len(per_cycle))),
        round_trip_s=float(np.interp(at, times[near], samples[near]).mean()) / 1e9,
        timeouts=sum(each.detected_by == "rto" for each in events) / len(events),
    )


def sent_between(timeline: Timeline, places: Ints) -> Ints:
    """Bytes sent from each of these places on, up to the next."""
    found = np.zeros(len(places) - 1, dtype=np.int64)
    begins, last = places[:-1], places[-1]
    is_any = begins < places[1:]
    if is_any.any():
        # What is as long as the capture is not made anew.
        ends, offsets = (
            np.add.reduceat(column[:last], begins[is_any]) for column in (timeline.send_end, timeline.send_offset)
        )
        found[is_any] = ends - offsets
    return found


def observed(means: Steady | None, slow_starts: int | None, compound: CompoundRegime | None) -> dict[str, float | None]:
    """What was seen, by the names that models give to it."""
    found: dict[str, float | None] = {"slow_starts": slow_starts}
    if means is not None:
        found |= dict.fromkeys(("throughput", "throughput_cycle", "throughput_approximate"), means.throughput)
        found |= dict.fromkeys(("W_max", "w_f", "peak_window", "E_W_u"), means.w_max)
        found |= dict.fromkeys(("period", "cycle"), means.period_s)
        found |= {"mean_window": means.throughput * means.round_trip_s, "Q": means.timeouts}
    if compound is not None:
        found |= {"theta_max": compound.theta_max, "theta_min": compound.theta_min, "case": compound.case}
        if compound.oscillation is not None:
            rises, falls = compound.oscillation.split(":")
            found |= {"oscillation_m": float(rises), "oscillation_n": float(falls)}
    return found
