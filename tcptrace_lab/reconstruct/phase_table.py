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
    grown = [part for part in parts if part.begin != "lost"]
    # A restart may come behind the last ACK.
    firsts = np.minimum(_column([part.first for part in grown]), len(flight) - 1)
    turns = np.minimum(_column([part.first if part.peak is None else part.peak for part in grown]), len(flight) - 1)
    lasts = _column([part.last for part in grown])
    limits = _usual_limits(codes, turns, lasts)
    at = firsts, turns, lasts
    first_ns, turn_ns, last_ns = (timeline.ack_ns[acks].tolist() for acks in at)
    windows = (flight[acks].tolist() for acks in (firsts, turns, _released_last(timeline, turns, lasts)))
    rows = zip(grown, limits, (lasts > turns).tolist(), first_ns, turn_ns, last_ns, *windows, strict=True)
    for part, limit, is_longer, first, turn, last, begun, turned, left in rows:
        begin = _begin_ns(timeline, part, first)
        if part.peak is not None:
            yield Phase(begin, turn, "slow_start", begun, turned)
            begin = turn
        if is_longer:
            yield Phase(begin, last, OF_LIMIT.get(LIMITS[limit], "avoidance"), turned, left)


def _column(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _usual_limits(codes: Ints, turns: Ints, lasts: Ints) -> list[int]:
    """What limited the sender at most rows from each to another."""
    edges = np.stack((turns, lasts + 1), axis=1).ravel()
    # One row more: a range may end with the last.
    counts = [
        np.add.reduceat(np.append(codes == code, False), edges, dtype=np.int32)[::2] for code in range(len(LIMITS))
    ]
    usual: list[int] = np.argmax(counts, axis=0).tolist()
    return usual


def _released_last(timeline: Timeline, turns: Ints, lasts: Ints) -> Ints:
    """The last ACK from each to another that released something: what drains when there is nothing more to send is no
    window."""
    released = np.append(0, np.flatnonzero(np.diff(timeline.sends_before_next_ack)) + 1)
    found: Ints = np.maximum(released[np.searchsorted(released, lasts, side="right") - 1], turns)
    return found


def _begin_ns(timeline: Timeline, part: Stretch, first_ns: int) -> int:
    """`first_ns`: when its first ACK came."""
    if part.begin == "restart" and part.started_by is not None:
        return part.started_by.time_ns
    if part.begin == "connection":
        return int(timeline.send_ns[0])
    if part.begin == "idle":
        # The first segment after the pause, not its ACK.
        known = int(np.searchsorted(timeline.acks_before_send, part.first, side="left"))
        return int(timeline.send_ns[min(known, len(timeline.send_ns) - 1)])
    return first_ns


def _after_losses(
    timeline: Timeline, parts: Sequence[Stretch], episodes: Sequence[Episode], flight: Ints
) -> Iterator[Phase]:
    ended = {part.episode.first_send: part.last for part in parts if part.episode is not None}
    lasts = [ended.get(episode.first_send, -1) for episode in episodes]
    since_ns, held = (column[_column(lasts)].tolist() for column in (timeline.ack_ns, flight))
    over = np.searchsorted(timeline.ack_ns, _column([episode.end_ns for episode in episodes]), side="left")
    after = flight[np.minimum(over, len(flight) - 1)].tolist()
    noticed = 0
    for episode, last, last_ns, before, left in zip(episodes, lasts, since_ns, held, after, strict=True):
        since = max(last_ns if last >= 0 else episode.time_ns, noticed)
        noticed = episode.time_ns
        window = before if last >= 0 else episode.flight
        if episode.restarts:
            yield Phase(since, noticed, "timeout" if episode.detected_by == "rto" else "recovery", window, window)
        elif episode.is_loss:
            yield Phase(since, episode.end_ns, "recovery", window, left)


def _idle(timeline: Timeline, parts: Sequence[Stretch]) -> Iterator[Phase]:
    for before, part in pairwise(parts):
        if part.begin == "idle":
            first_ns = int(timeline.ack_ns[part.first])
            yield Phase(int(timeline.ack_ns[before.last]), _begin_ns(timeline, part, first_ns), "idle", 0, 0)


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
