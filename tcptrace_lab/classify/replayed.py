"""The windows where the capture does not show them: what the controls left standing would have had.

A sender held back by the receiver's window or by its application shows only that its window is not smaller than what
is outstanding. Its control goes on from the window last seen: without growth, or with as much as every ACK allows.
Between the two lies what it had, whatever its stack makes of a window that is not used (RFC 2861, 5681 section 4.1,
7661): the lower bound stays what is outstanding, the upper one is finite. Where the threshold was never met, it is the
one that the control set at the last loss. Errs upwards: the upper bound of a long pause in slow start is far away.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from tcptrace_lab.classify.expectation import initial_window
from tcptrace_lab.classify.identify import Identified, identify
from tcptrace_lab.classify.likelihood import Replay
from tcptrace_lab.classify.obstacles import find_obstacles
from tcptrace_lab.classify.recovery import identify_recovery
from tcptrace_lab.classify.tape import Tape, tape
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import Sender
from tcptrace_lab.reconstruct.timeline import Bools, Floats, Ints
from tcptrace_lab.reconstruct.windows import nullable

if TYPE_CHECKING:
    import pandas as pd

# RFC 7323 section 2.3: no receiver's window is larger, so no larger one is ever used.
LARGEST = 1 << 30
# Thresholds that controls agree on: to within a segment, as the window itself is seen.
AGREED_SEGMENTS = 1.0


@dataclass(frozen=True, repr=False)
class Replayed(Reconstruction):
    """A reconstruction whose windows carry what the replay of its sender's control adds, worked out if asked for."""

    who: Sender

    @cached_property
    def windows(self) -> pd.DataFrame:
        if find_obstacles(self, self.who).hides_window:
            return self.envelope
        recovery = identify_recovery(self, self.who.tap).recovery
        return with_replay(self, identify_sender(self, self.who, recovery))


def replayed(who: Sender) -> Replayed:
    """The reconstruction of one sender."""
    return Replayed(who.timeline, who)


def identify_sender(seen: Reconstruction, who: Sender, recovery: str | None) -> Identified:
    """The controls left standing, with what the tap tells of the beginning."""
    rtt_s = who.handshake_rtt_s
    return identify(
        seen,
        initial_window=None if who.tap.refuses("initial_window") else initial_window(seen),
        recovery=recovery,
        handshake_rtt_ns=None if rtt_s is None else round(rtt_s * 1e9),
    )


def with_replay(seen: Reconstruction, identified: Identified) -> pd.DataFrame:
    """The table `windows` with what the replay of the candidates left adds to it; nothing that was seen is changed."""
    table = seen.envelope
    if not identified.left or not len(table):
        return table
    hidden = table["cwnd_high"].isna().to_numpy() & (table["limited_by"] != "recovery").to_numpy()
    unmet = table["ssthresh"].isna().to_numpy()
    if not (hidden.any() or unmet.any()):
        return table
    written = tape(seen, follows=True)
    rows = _rows(seen, written, table)
    high, ssthresh = _bounds(seen, identified, written, rows)
    return table.assign(
        cwnd_high=_high(table, high, hidden & _is_anchored(seen, table), seen.timeline.smss),
        ssthresh=_filled(table["ssthresh"], ssthresh, unmet & ~_backs_off(seen, table)),
    )


def _rows(seen: Reconstruction, written: Tape, table: pd.DataFrame) -> Ints:
    """The last row of the tape at the time of each row of the table."""
    acks = np.maximum(np.searchsorted(seen.timeline.ack_ns, table["time_ns"].to_numpy(), side="right") - 1, 0)
    # A tape has no row for what came before any data.
    found: Ints = np.maximum(np.searchsorted(written.ack_of_row, acks, side="right") - 1, 0)
    return found


def _bounds(seen: Reconstruction, identified: Identified, written: Tape, rows: Ints) -> tuple[Floats, Floats]:
    """The largest window of any candidate at each row, and the threshold where they agree (NaN: they do not)."""
    high = np.zeros(len(rows))
    least, most = np.full(len(rows), np.inf), np.full(len(rows), -np.inf)
    for each in identified.left:
        for at_most in (False, True):
            cwnd, ssthresh = _played(each, written, at_most=at_most)
            high = np.maximum(high, cwnd[rows])
            least, most = np.minimum(least, ssthresh[rows]), np.maximum(most, ssthresh[rows])
    smss = seen.timeline.smss
    agreed = np.isfinite(most) & (np.where(np.isfinite(most), most, 0.0) - least <= AGREED_SEGMENTS * smss)
    return high, np.where(agreed, least, np.nan)


def _played(each: Replay, written: Tape, *, at_most: bool) -> tuple[Floats, Floats]:
    candidate = each.candidate
    if at_most and "byte_counting" in candidate.parameters:
        # RFC 3465: the faster of the two ways to count.
        candidate = replace(candidate, parameters={**candidate.parameters, "byte_counting": 1.0})
    sender = candidate.sender(initial_window=each.initial_window, smss=written.smss)
    cwnd, ssthresh = written.core.play(sender, at_most=at_most)
    return cwnd, ssthresh


def _is_anchored(seen: Reconstruction, table: pd.DataFrame) -> Bools:
    """Not in what a capture begins with in the middle of a connection: that window may be anything."""
    first = seen.stretches[0] if seen.stretches else None
    if first is None or first.begin != "capture":
        return np.ones(len(table), dtype=bool)
    found: Bools = table["time_ns"].to_numpy() > int(seen.timeline.ack_ns[first.last])
    return found


def _backs_off(seen: Reconstruction, table: pd.DataFrame) -> Bools:
    """From a timer that expires again for the same segment to the next loss: stacks differ in what that leaves."""
    times = table["time_ns"].to_numpy()
    found = np.zeros(len(times), dtype=bool)
    events = [episode for episode in seen.episodes if episode.detected_by != "tlp"]
    for before, event, following in zip_longest(events, events[1:], events[2:]):
        if event is not None and event.restarts and before.restarts and event.una == before.una:
            until_ns = seen.timeline.end_ns if following is None else following.time_ns
            found[np.searchsorted(times, event.time_ns) : np.searchsorted(times, until_ns, side="right")] = True
    return found


def _high(table: pd.DataFrame, high: Floats, wanted: Bools, smss: int) -> pd.arrays.IntegerArray:
    before = table["cwnd_high"].to_numpy(dtype=np.int64, na_value=-1)
    # A sender leaves less than a segment of its window unused.
    least = table["cwnd"].to_numpy() + smss
    is_known = wanted & (high < LARGEST)
    values = np.where(is_known, np.maximum(np.ceil(np.minimum(high, LARGEST)).astype(np.int64), least), before)
    return nullable(values)


def _filled(column: pd.Series[int], values: Floats, wanted: Bools) -> pd.arrays.IntegerArray:
    before = column.to_numpy(dtype=np.int64, na_value=-1)
    known = wanted & np.isfinite(values)
    found = np.where(known, np.round(np.where(known, values, 0.0)).astype(np.int64), before)
    return nullable(found)
