"""The tables `phases` and `cycles`: one row per phase and per loss cycle, in order of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tcptrace_lab.reconstruct.cycles import Cycle
from tcptrace_lab.reconstruct.losses import Episode
from tcptrace_lab.reconstruct.phases import Kind, Phase, Stretch
from tcptrace_lab.reconstruct.timeline import Ints, Timeline
from tcptrace_lab.reconstruct.windows import LIMITS

OF_LIMIT: dict[str, Kind] = {"rwnd": "rwnd_limited", "application": "app_limited"}


def phases(
    timeline: Timeline, parts: Sequence[Stretch], episodes: Sequence[Episode], flight: Ints, codes: Ints
) -> tuple[Phase, ...]:
    """Every phase that lasted: slow start, what followed it, silence before a timeout, recovery, idle time.

    `codes`: what limited the sender, by row of the windows.
    """
    found = [*_growth(timeline, parts, flight, codes), *_after_losses(timeline, parts, episodes, flight)]
    found.extend(_idle(timeline, parts))
    return tuple(sorted((phase for phase in found if phase.end_ns > phase.start_ns), key=lambda phase: phase.start_ns))


def _growth(timeline: Timeline, parts: Sequence[Stretch], flight: Ints, codes: Ints) -> Iterator[Phase]:
    times = timeline.ack_ns
    for part in parts:
        if part.begin == "lost":
            continue
        begin = _begin_ns(timeline, part)
        turn = part.first if part.peak is None else part.peak
        if part.peak is not None:
            yield _phase(begin, int(times[part.peak]), "slow_start", (int(flight[part.first]), int(flight[part.peak])))
            begin = int(times[part.peak])
        if part.last > turn:
            counts = np.bincount(codes[turn : part.last + 1], minlength=len(LIMITS))
            limit = LIMITS[int(np.argmax(counts))]
            # What drains when there is nothing more to send is no window.
            released = np.flatnonzero(np.diff(timeline.sends_before_next_ack[turn : part.last + 1]))
            ends = (int(flight[turn]), int(flight[turn + released[-1] + 1 if len(released) else turn]))
            yield _phase(begin, int(times[part.last]), OF_LIMIT.get(limit, "avoidance"), ends)


def _begin_ns(timeline: Timeline, part: Stretch) -> int:
    if part.begin == "restart" and part.started_by is not None:
        return part.started_by.time_ns
    if part.begin == "connection":
        return int(timeline.send_ns[0])
    if part.begin == "idle":
        # The first segment after the pause, not its ACK.
        known = int(np.searchsorted(timeline.acks_before_send, part.first, side="left"))
        return int(timeline.send_ns[min(known, len(timeline.send_ns) - 1)])
    return int(timeline.ack_ns[part.first])


def _after_losses(
    timeline: Timeline, parts: Sequence[Stretch], episodes: Sequence[Episode], flight: Ints
) -> Iterator[Phase]:
    ended = {part.episode.first_send: part for part in parts if part.episode is not None}
    noticed = 0
    for episode in episodes:
        before = ended.get(episode.first_send)
        since = max(int(timeline.ack_ns[before.last]) if before is not None else episode.time_ns, noticed)
        noticed = episode.time_ns
        held = int(flight[before.last]) if before is not None else episode.flight
        if episode.restarts:
            yield _phase(
                since, episode.time_ns, "timeout" if episode.detected_by == "rto" else "recovery", (held, held)
            )
        elif episode.is_loss:
            over = min(int(np.searchsorted(timeline.ack_ns, episode.end_ns, side="left")), len(flight) - 1)
            yield _phase(since, episode.end_ns, "recovery", (held, int(flight[over])))


def _idle(timeline: Timeline, parts: Sequence[Stretch]) -> Iterator[Phase]:
    for before, part in pairwise(parts):
        if part.begin == "idle":
            yield _phase(int(timeline.ack_ns[before.last]), _begin_ns(timeline, part), "idle", (0, 0))


def _phase(start_ns: int, end_ns: int, kind: Kind, cwnd: tuple[int, int]) -> Phase:
    return Phase(start_ns=start_ns, end_ns=end_ns, kind=kind, cwnd_start=cwnd[0], cwnd_end=cwnd[1])


def phase_columns(found: Sequence[Phase]) -> dict[str, list[Any]]:
    """start_ns, end_ns, kind, cwnd_start, cwnd_end (bytes; not known where nothing was outstanding)."""
    columns = {name: [getattr(phase, name) for phase in found] for name in ("start_ns", "end_ns", "kind")}
    windows = {name: [getattr(phase, name) or np.nan for phase in found] for name in ("cwnd_start", "cwnd_end")}
    return {**columns, **windows}


def cycle_columns(found: Sequence[Cycle], in_order: Sequence[Phase]) -> dict[str, list[Any]]:
    """start_ns, end_ns, slow_starts, phases (how many begin within), w_max (bytes), throughput (bit/s)."""
    begins = np.sort(np.array([phase.start_ns for phase in in_order], dtype=np.int64))
    before = np.searchsorted(begins, [[cycle.start_ns, cycle.end_ns] for cycle in found], side="left").reshape(-1, 2)
    return {
        "start_ns": [cycle.start_ns for cycle in found],
        "end_ns": [cycle.end_ns for cycle in found],
        "slow_starts": [cycle.slow_starts for cycle in found],
        "phases": np.maximum(before[:, 1] - before[:, 0], 0).tolist(),
        "w_max": [cycle.w_max for cycle in found],
        "throughput": [cycle.throughput for cycle in found],
    }
