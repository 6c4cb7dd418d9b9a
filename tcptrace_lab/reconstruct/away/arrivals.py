"""Segments as they passed a tap, and in the order in which they left, with those that never reached it put back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.tap.sender_clock import Ints, unwrapped
from tcptrace_lab.reconstruct.timeline import Bools, Places, parts

# Rows of `segments` that are no transmission of the sender's window: copies and probes.
COPIES = ("duplicate_capture", "keep_alive", "window_probe")
IS_COPY = np.isin(np.arange(256), [_core.CAUSES.index(cause) for cause in COPIES])
NEVER = np.iinfo(np.int64).max
IP_ID_SPACE = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Beside:
    """What else passed a tap: a sender's segments without data, and the other side's with data.

    `marked_ns`, `reduced_ns`: its ACKs that begin to echo a mark, and the sender's segments that say that its window
    was reduced for one (ECE and CWR, RFC 3168).
    """

    bare_ns: Ints
    asked_ns: Ints
    marked_ns: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    reduced_ns: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


@dataclass(frozen=True, kw_only=True)
class Arrivals:
    """Data segments as they passed the tap. `stamp`, `echo`: TSval (unwrapped, from 0) and TSecr, None without.

    `beside`: when the sender's segments without data passed, which are numbered like those with, and the other side's
    with data, which it answers.
    """

    time_ns: Ints
    offset: Ints
    end: Ints
    ip_id: Places
    stamp: Ints | None
    echo: Ints | None
    beside: Beside


@dataclass(frozen=True, kw_only=True)
class Sends:
    """Segments in the order in which they left; `row` is the place among the arrivals (-1: put back).

    `unplaced`: packets that left as well, as the numbers say that their host counts, of which it is not known what they
    carried. `is_counted`: its host counts its packets, and what was lost again is known by their numbers.
    """

    row: Places
    offset: Ints
    end: Ints
    unplaced: int = 0
    is_counted: bool = False

    @property
    def is_put_back(self) -> Bools:
        found: Bools = self.row < 0
        return found


NOTHING = Beside(bare_ns=np.zeros(0, dtype=np.int64), asked_ns=np.zeros(0, dtype=np.int64))


def arrivals(segments: Mapping[str, Any], smss: int, beside: Beside = NOTHING) -> Arrivals:
    """What passed the tap; segments merged before it (GRO asks for equal timestamps) are taken apart again."""
    kept: Any = (segments["length"] > 0) & ~IS_COPY[segments["cause"]]
    if kept.all():
        # Nothing is copied.
        kept = slice(None)
    names = ("time_ns", "offset", "length", "ts_val", "ts_ecr", "ip_id")
    data = {name: segments[name][kept] for name in names}
    pieces = np.maximum(-(-data["length"] // smss), 1)
    ends = data["offset"] + data["length"]
    if len(pieces) and pieces.max() > 1:
        number = np.arange(int(pieces.sum())) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        data = {name: np.repeat(column, pieces) for name, column in data.items()}
        data["offset"] = data["offset"] + number * smss
        data["ip_id"] = (data["ip_id"] + np.where(data["ip_id"] > 0, number, 0)) % IP_ID_SPACE
        ends = np.minimum(data["offset"] + smss, np.repeat(ends, pieces))
    has_stamps = bool(len(ends)) and bool((data["ts_val"] >= 0).all())
    return Arrivals(
        time_ns=data["time_ns"],
        offset=data["offset"],
        end=ends,
        ip_id=data["ip_id"],
        stamp=unwrapped(data["ts_val"]) if has_stamps else None,
        echo=data["ts_ecr"] if has_stamps else None,
        beside=beside,
    )


def reached(offset: Ints, end: Ints) -> Ints:
    """The highest byte seen before each segment."""
    if not len(end):
        return end
    found = np.empty_like(end)
    found[0] = offset[0]
    np.maximum.accumulate(end[:-1], out=found[1:])
    return found


def goes_back(offset: Ints, end: Ints) -> Bools:
    """Whether each segment begins below the highest byte seen before it."""
    found = np.empty(len(end), dtype=bool)
    top = offset[:1]
    for part in parts(len(end)):
        # Of so many the highest byte before each stays in the cache.
        before = np.maximum.accumulate(np.append(top, end[part]))
        found[part] = offset[part] < before[:-1]
        top = before[-1:]
    return found


def holes(whole: Sends) -> tuple[Ints, Ints]:
    """The places of the segments put back where they left first, and of the arrival that filled each (NEVER: none)."""
    is_again = goes_back(whole.offset, whole.end)
    lost = np.flatnonzero(whole.is_put_back & ~is_again)
    again = np.flatnonzero(is_again & (whole.row >= 0))
    if not len(lost) or not len(again):
        return lost[:0], lost[:0]
    # The first copy of each: in order of offset, then of time.
    again = again[np.lexsort((again, whole.offset[again]))]
    first = again[np.concatenate(([True], np.diff(whole.offset[again]) > 0))]
    at = np.maximum(np.searchsorted(whole.offset[first], whole.offset[lost], side="right") - 1, 0)
    holds = (whole.offset[first[at]] <= whole.offset[lost]) & (whole.end[first[at]] > whole.offset[lost])
    return lost, np.where(holds, first[at], NEVER)


def put_in(whole: Sends, places: Ints, copies: Ints) -> Sends:
    """Copies of some sends, not captured, before some places."""
    return Sends(
        row=np.insert(whole.row, places, -1),
        offset=np.insert(whole.offset, places, whole.offset[copies]),
        end=np.insert(whole.end, places, whole.end[copies]),
    )
