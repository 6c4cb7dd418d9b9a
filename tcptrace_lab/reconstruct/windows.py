"""The table `windows`: the congestion window after each ACK, between bounds, and what limited the sender.

A sender limited by its congestion window has as much outstanding as the window allows: value, low and high lie within
a segment. Held back by the receiver's window or by its application it has less: then the flight is only the low bound,
nothing bounds the window from above, and the value is the last one seen at work (no loss and no long pause since). The
core works it out (core/src/infer/sender/limited_by/windows.rs, limits.rs).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.given import BLUR_SEGMENTS
from tcptrace_lab.reconstruct.timeline import Bools, Floats, Ints, Timeline

if TYPE_CHECKING:
    import pandas as pd

LIMITS = tuple(_core.LIMITS)
CWND, RWND, APPLICATION, RECOVERY = range(len(LIMITS))
UNKNOWN = -1


def window_columns(timeline: Timeline, stands: Bools) -> dict[str, Ints]:
    """A row per ACK and per restart: time_ns, cwnd, cwnd_low, cwnd_high, ssthresh (bytes; -1: unknown), limited_by as
    a place in LIMITS (-1: more than one fits). `stands`: at which ACKs the flight is held by no window that grows."""
    columns = dict(timeline.observed.windows())
    is_exhausted = columns.pop("is_exhausted")
    if len(timeline.slack):
        columns = _widened(columns, timeline, is_exhausted)
    return _opened(columns, timeline, stands) if stands.any() else columns


def in_64_bits(columns: dict[str, Ints]) -> dict[str, Ints]:
    """The same as a table's own."""
    return {
        name: column if name in ("time_ns", "limited_by") else column.astype(np.int64)
        for name, column in columns.items()
    }


def windows(columns: dict[str, Ints]) -> pd.DataFrame:
    """The same as a table: NA where a bound is unknown, limits by name."""
    import pandas as pd

    columns = in_64_bits(columns)
    return pd.DataFrame(
        {
            "time_ns": columns["time_ns"],
            "cwnd": columns["cwnd"],
            "cwnd_low": columns["cwnd_low"],
            "cwnd_high": nullable(columns["cwnd_high"]),
            "ssthresh": nullable(columns["ssthresh"]),
            "limited_by": pd.Categorical.from_codes(columns["limited_by"], categories=pd.Index(LIMITS)),
        },
        copy=False,
    )


def _widened(columns: dict[str, Ints], timeline: Timeline, is_exhausted: Bools) -> dict[str, Ints]:
    """The bounds, as far apart as the flight is uncertain."""
    at = np.maximum(np.searchsorted(timeline.ack_ns, columns["time_ns"], side="right") - 1, 0)
    slack, high = timeline.slack[at], columns["cwnd_high"]
    either = is_either(timeline, columns["limited_by"], at)
    is_idle = is_exhausted | (columns["limited_by"] == APPLICATION)
    is_open = (either & fills_rwnd(timeline)[at]) | _may_be_all(timeline, is_idle, at)
    return {
        **columns,
        "limited_by": np.where(either, UNKNOWN, columns["limited_by"]),
        "cwnd_low": lowered(columns["cwnd_low"], columns["cwnd_low"] - slack, timeline.smss),
        "cwnd_high": np.where((high == UNKNOWN) | is_open, UNKNOWN, high + slack),
    }


def _may_be_all(timeline: Timeline, is_idle: Bools, at: Ints) -> Bools:
    """Of rows of a rebuilt flight (`at`: the ACK of each; `is_idle`: nothing was left to send), where all may have left
    that there was to send: of what a queue held back it is not seen when the last did, and from then on nothing bounds
    the window."""
    top = np.append(timeline.snd_max, 0)[timeline.sends_before_next_ack[at] - 1]
    idle = np.flatnonzero(is_idle)
    # Behind the last ACK there is what was sent last.
    tops = np.append(top[idle], timeline.snd_max[-1:].max(initial=0))
    found: Bools = top + timeline.slack[at] >= tops[np.searchsorted(idle, np.arange(len(at)))]
    return found & (timeline.slack[at] > 0)


def lowered(low: Ints, least: Ints | Floats, smss: int) -> Ints:
    """The lower bounds `low` of a window that may be `least`: none is below a segment."""
    found: Ints = np.minimum(low, np.maximum(least, smss)).astype(low.dtype)
    return found


def _opened(columns: dict[str, Ints], timeline: Timeline, stands: Bools) -> dict[str, Ints]:
    """Where the flight stands it is the least that the window is."""
    at = np.maximum(np.searchsorted(timeline.ack_ns, columns["time_ns"], side="right") - 1, 0)
    is_open = stands[at] & (columns["limited_by"] == CWND)
    return {
        **columns,
        "limited_by": np.where(is_open, UNKNOWN, columns["limited_by"]),
        "cwnd_high": np.where(is_open, UNKNOWN, columns["cwnd_high"]),
    }


def limited_at(timeline: Timeline, acks: Ints | None = None) -> Ints:
    """What was the limit after each ACK, or each of these: the last row up to its time."""
    table = timeline.observed.windows()
    times = timeline.ack_ns if acks is None else timeline.ack_ns[acks]
    at = _core.places(table["time_ns"], times, or_equal=True)
    found: Ints = table["limited_by"][np.maximum(at - 1, 0)]
    return found


def fills_rwnd(timeline: Timeline) -> Bools:
    """After each ACK, whether a rebuilt flight may fill the offered window: it may hang on an ACK before or behind."""
    flight: Ints = timeline.observed.column("flight")
    found: Bools = flight + timeline.slack + BLUR_SEGMENTS * timeline.smss > timeline.rwnd
    return found


def is_either(timeline: Timeline, limited: Ints, at: Ints) -> Bools:
    """Of rows (`at`: the ACK of each), where a rebuilt flight does not tell which of the two windows it fills."""
    by_cwnd = limited == CWND
    found: Bools = (timeline.is_open[at] & (by_cwnd | (limited == RWND))) | (by_cwnd & fills_rwnd(timeline)[at])
    return found


def nullable(values: Ints) -> pd.arrays.IntegerArray:
    """A column of a table: NA where it is not known."""
    import pandas as pd

    return pd.arrays.IntegerArray(values, values == UNKNOWN)


def limits(timeline: Timeline) -> dict[str, float]:
    """Share of the time in which data was to be delivered, by what limited the sender; pauses count as application."""
    shares = timeline.observed.limits
    return {} if shares is None else {name: round(share, 4) for name, share in zip(LIMITS, shares, strict=True)}
