"""Phases of a sender: slow start, congestion avoidance, recovery, timeout, idle (RFC 5681 sections 3 and 4.1).

The run is cut where something sets the window back; in each part the core finds where growth like slow start's ended
(core/src/infer/sender/slow_starts/stretches.rs).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.losses import Episode
from tcptrace_lab.reconstruct.timeline import Timeline

Kind = Literal["slow_start", "avoidance", "recovery", "timeout", "idle", "rwnd_limited", "app_limited"]
Begin = Literal["connection", "capture", "restart", "recovery", "lost", "idle"]


class Stretch(NamedTuple):
    """The ACKs between two things that set the window back: from `begin` to the next loss event, idle time or the end.

    `peak` is the ACK up to which the window grew as in slow start (None: it never did), `grown_from`, `grown_to`
    the bytes outstanding at its two ends; `has_threshold` whether avoidance followed, rather than the receiver's
    window, the end of the data or of the stretch. `episode` is the loss event that ends it, `started_by` the last.
    `cycle` is the number of its loss cycle, `is_counted` whether it is one of that cycle's slow starts, and
    `slow_start_end` the last ACK of it, seen or taken for granted (None: it has none).
    """

    begin: Begin
    first: int
    last: int
    peak: int | None
    has_threshold: bool
    grown_from: int
    grown_to: int
    started_by: Episode | None
    episode: Episode | None
    cycle: int
    is_counted: bool
    slow_start_end: int | None

    @property
    def is_slow_start(self) -> bool:
        return self.peak is not None


class Phase(NamedTuple):
    """One row of the table `phases`."""

    start_ns: int
    end_ns: int
    kind: Kind
    cwnd_start: int
    cwnd_end: int


def stretches(timeline: Timeline, episodes: Sequence[Episode]) -> tuple[Stretch, ...]:
    """The run cut at loss events and at idle times, each with the end of its slow start if it has one."""
    columns: dict[str, list[Any]] = {name: column.tolist() for name, column in timeline.observed.stretches().items()}
    columns["begin"] = [_core.BEGINS[code] for code in columns["begin"]]
    for name in ("peak", "slow_start_end"):
        columns[name] = [None if place < 0 else place for place in columns[name]]
    for name, source in (("started_by", "started_by"), ("episode", "ended_by")):
        columns[name] = [None if number < 0 else episodes[number] for number in columns[source]]
    return tuple(map(Stretch._make, zip(*(columns[name] for name in Stretch._fields), strict=True)))
