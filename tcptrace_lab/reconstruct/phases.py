"""Phases of a sender: slow start, congestion avoidance, recovery, timeout, idle (RFC 5681 sections 3 and 4.1).

The run is cut where something sets the window back; in each part the core finds where growth like slow start's ended
(core/src/infer/stretches.rs).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.losses import Episode
from tcptrace_lab.reconstruct.timeline import Timeline

Kind = Literal["slow_start", "avoidance", "recovery", "timeout", "idle", "rwnd_limited", "app_limited"]
Begin = Literal["connection", "capture", "restart", "recovery", "lost", "idle"]


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """The ACKs between two things that set the window back: from `begin` to the next loss event, idle time or the end.

    `peak` is the ACK up to which the window grew as in slow start (None: it never did), `grown_from`, `grown_to`
    the bytes outstanding at its two ends; `has_threshold` whether avoidance followed, rather than the receiver's
    window, the end of the data or of the stretch. `episode` is the loss event that ends it, `started_by` the last.
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

    @property
    def is_slow_start(self) -> bool:
        return self.peak is not None


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One row of the table `phases`."""

    start_ns: int
    end_ns: int
    kind: Kind
    cwnd_start: int
    cwnd_end: int


def stretches(timeline: Timeline, episodes: Sequence[Episode]) -> tuple[Stretch, ...]:
    """The run cut at loss events and at idle times, each with the end of its slow start if it has one."""
    columns = timeline.observed.stretches()
    names = ("begin", "first", "last", "peak", "has_threshold", "grown_from", "grown_to", "started_by", "ended_by")
    rows = zip(*(columns[name].tolist() for name in names), strict=True)
    return tuple(
        Stretch(
            begin=_core.BEGINS[begin],
            first=first,
            last=last,
            peak=None if peak < 0 else peak,
            has_threshold=has_threshold,
            grown_from=grown_from,
            grown_to=grown_to,
            started_by=None if started_by < 0 else episodes[started_by],
            episode=None if ended_by < 0 else episodes[ended_by],
        )
        for begin, first, last, peak, has_threshold, grown_from, grown_to, started_by, ended_by in rows
    )
