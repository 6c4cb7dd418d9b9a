"""A reconstruction against the truth: error of the window, precision and recall of losses, slow starts counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Bools, Floats, Ints
from tcptrace_lab.reconstruct.truth.align import aligned
from tcptrace_lab.reconstruct.truth.truth_file import SEQUENCE_SPACE, Truth
from tcptrace_lab.reconstruct.windows import CWND, RECOVERY


@dataclass(frozen=True, kw_only=True)
class WindowError:
    """|estimate - truth| / truth over some rows: how many, median, ninth decile (None without rows)."""

    rows: int
    median: float | None
    p90: float | None
    bias: float | None

    def as_dict(self) -> dict[str, Any]:
        return {"rows": self.rows, "median": self.median, "p90": self.p90, "bias_segments": self.bias}


@dataclass(frozen=True, kw_only=True)
class Score:
    """`limited` counts only rows at which we say that cwnd was the limit, `within` the share of all rows whose truth
    lies between our bounds (a bound not claimed holds). `unmended`: packets dropped that the sender had not sent again
    when the capture ended; no capture shows them, and `drops` is without them."""

    window: WindowError
    limited: WindowError
    recovery: WindowError
    within: float | None
    losses: int
    drops: int | None
    unmended: int | None
    precision: float | None
    recall: float | None
    slow_starts: int
    slow_starts_truth: int | None

    def as_dict(self) -> dict[str, Any]:
        return {
            "window": self.window.as_dict(),
            "window_cwnd_limited": self.limited.as_dict(),
            "window_recovery": self.recovery.as_dict(),
            "within_bounds": self.within,
            "losses": {
                "found": self.losses,
                "dropped": self.drops,
                "unmended": self.unmended,
                "precision": self.precision,
                "recall": self.recall,
            },
            "slow_starts": {"found": self.slow_starts, "truth": self.slow_starts_truth},
        }


def score(seen: Reconstruction, truth: Truth, *, first_sequence: int | None = None) -> Score:
    """Compare row by row: the truth's state against our row in force then, or ours against the truth's where that is a
    log of changes.

    With the wire's number of offset 0 rows are matched by ACK number, wherever the capture was taken; without, by time.
    """
    if first_sequence is not None:
        truth = aligned(truth, seen.timeline, first_sequence)
    table = seen.windows
    times = table["time_ns"].to_numpy()
    rows, at = _log_in_force(truth, times) if truth.is_log else _row_in_force(seen, times, truth)
    usable = (rows >= 0) & (truth.time_ns[at] <= seen.timeline.end_ns + _core.HOST_NS)
    rows, at = rows[usable], at[usable]
    cwnd = truth.cwnd[at]
    smss = seen.timeline.smss
    estimate = table["cwnd"].to_numpy()[rows] / smss
    limit = table["limited_by"].cat.codes.to_numpy()[rows]
    low = table["cwnd_low"].to_numpy()[rows] / smss
    high = table["cwnd_high"].to_numpy(dtype=np.float64, na_value=np.inf)[rows] / smss
    recovering = truth.in_recovery[at] | (limit == RECOVERY)
    found, precision, recall, dropped, unmended = _losses(seen, truth, first_sequence)
    # Bounds are whole segments around what was outstanding: half a segment more for the window's own rounding.
    inside = (cwnd >= low - 1.5) & (cwnd <= high + 0.5)
    return Score(
        window=_error(estimate, cwnd, np.ones(len(cwnd), dtype=bool)),
        limited=_error(estimate, cwnd, (limit == CWND) & ~recovering),
        recovery=_error(estimate, cwnd, recovering),
        within=float(np.mean(inside[~recovering])) if (~recovering).any() else None,
        losses=found,
        drops=dropped,
        unmended=unmended,
        precision=precision,
        recall=recall,
        slow_starts=sum(cycle.slow_starts for cycle in seen.cycles),
        slow_starts_truth=None if truth.slow_starts is None else sum(truth.slow_starts),
    )


def _log_in_force(truth: Truth, times: Ints) -> tuple[Ints, Ints]:
    """Our rows from the log's first on, of those of one moment the last, and the row of the log in force at each."""
    rows = np.flatnonzero(np.diff(times, append=times[-1:] + 1))
    order = np.argsort(truth.time_ns, kind="stable")
    # A duplicate ACK may have reached its sender later than the first of its number, by which the log was moved.
    spans = np.minimum(np.diff(times[rows], append=np.iinfo(np.int64).max), _core.HOST_NS)
    at = np.searchsorted(truth.time_ns[order], times[rows] + spans // 2, side="right") - 1
    return rows[at >= 0], order[at[at >= 0]]


def _row_in_force(seen: Reconstruction, times: Ints, truth: Truth) -> tuple[Ints, Ints]:
    """Our row in force at each row of the truth (-1: none yet), and that row."""
    # Before an ACK is processed our row for the ACK before it holds.
    rows = np.searchsorted(times, truth.time_ns - np.where(truth.before_ack, 0, -1), side="left") - 1
    if truth.before_ack.any():
        rows = _row_before(seen, times, truth)
    return rows, np.arange(len(rows))


def _row_before(seen: Reconstruction, times: Ints, truth: Truth) -> Ints:
    """Our row in force before the ACK of each row of the truth."""
    acks = seen.timeline.ack_ns
    at = np.searchsorted(acks, truth.time_ns, side="right") - 1
    matched = (at >= 0) & (truth.time_ns - acks[np.maximum(at, 0)] <= _core.HOST_NS)
    rows = np.searchsorted(times, acks[np.maximum(at, 0)], side="left") - 1
    return np.where(matched, rows, -1)


def _error(estimate: Floats, truth: Floats, chosen: Bools) -> WindowError:
    if not chosen.any():
        return WindowError(rows=0, median=None, p90=None, bias=None)
    error = np.abs(estimate - truth)[chosen] / np.maximum(truth[chosen], 1)
    return WindowError(
        rows=int(chosen.sum()),
        median=round(float(np.median(error)), 5),
        p90=round(float(np.percentile(error, 90)), 5),
        bias=round(float(np.median((estimate - truth)[chosen])), 3),
    )


def _losses(
    seen: Reconstruction, truth: Truth, first_sequence: int | None
) -> tuple[int, float | None, float | None, int | None, int | None]:
    table = seen.losses
    ours = table["offset"].to_numpy()[~table["spurious"].to_numpy(dtype=bool)]
    base = _first_sequence(seen, truth) if first_sequence is None else first_sequence
    if truth.drops is None or base is None:
        return len(ours), None, None, None, None
    timeline = seen.timeline
    # Lost between the tap and the queue's end: matched by its ACKs the truth's clock is off by up to a round trip.
    within = (truth.drop_ns >= timeline.start_ns - seen.base_rtt_ns) & (truth.drop_ns <= timeline.end_ns)
    dropped = Counter(((truth.drops[within] - base) % SEQUENCE_SPACE).tolist())
    found = Counter((ours % SEQUENCE_SPACE).tolist())
    # Not acknowledged and not sent again by the end.
    reached = int(timeline.ack_offset.max(initial=0)) % SEQUENCE_SPACE
    unmended = Counter(
        {
            offset: count - found[offset]
            for offset, count in dropped.items()
            if (offset - reached) % SEQUENCE_SPACE < SEQUENCE_SPACE // 2
        }
    )
    dropped -= unmended
    both = (dropped & found).total()
    precision = both / found.total() if found else None
    recall = both / dropped.total() if dropped else None
    return found.total(), precision, recall, dropped.total(), (+unmended).total()


def _first_sequence(seen: Reconstruction, truth: Truth) -> int | None:
    """The wire's number of offset 0: what most ACKs agree on."""
    acks = seen.timeline.ack_ns
    known = np.flatnonzero(truth.acked >= 0)
    if not len(known) or not len(acks):
        return None
    at = np.searchsorted(acks, truth.time_ns[known], side="right") - 1
    near = (at >= 0) & (truth.time_ns[known] - acks[np.maximum(at, 0)] <= _core.HOST_NS)
    if not near.any():
        return None
    numbers = (truth.acked[known[near]] - seen.timeline.ack_offset[at[near]]) % SEQUENCE_SPACE
    values, counts = np.unique(numbers, return_counts=True)
    return int(values[np.argmax(counts)])
