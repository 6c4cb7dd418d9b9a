"""How large a window that is not used may have become, and when a stack may have taken it back."""

from __future__ import annotations

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.distinct import distinct
from tcptrace_lab.reconstruct.given import DELAYED_ACK_SEGMENTS
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Bools, Floats, Ints, Places
from tcptrace_lab.reconstruct.windows import APPLICATION, CWND

# A window that is not used grows in no stack beyond twice what was (Linux, in slow start; not at all later), or the
# receiver's (FreeBSD). Programs that simulate one let it.
UNUSED_FACTOR = 2


def reached(seen: Reconstruction, table: dict[str, Ints], acks: Places, rows: Places) -> tuple[Ints, Floats]:
    """Up to where an unused window is opened by the next ACK, and the most that a stack lets its control's window grow
    to: what it was seen at, or what an unused one may reach."""
    timeline, smss = seen.timeline, seen.timeline.smss
    # A short segment counts as one; and the last ACK to open the window opens it by all that it acknowledges, which is
    # what a delayed one does, or more. In place: each is as long as the capture.
    used = seen.flight + smss
    used *= UNUSED_FACTOR
    np.maximum.accumulate(used, out=used)
    open_to = used[acks[rows]]
    used += np.maximum(timeline.newly_acked, DELAYED_ACK_SEGMENTS * smss)
    np.maximum(used, timeline.rwnd + smss, out=used)
    most = np.maximum.accumulate(used, out=used)[acks[rows]]
    del used
    shown = np.maximum(table["cwnd_high"], 0)
    found: Floats = np.maximum(most, np.maximum.accumulate(shown, out=shown)[rows])
    return open_to, found


def opened(seen: Reconstruction, table: dict[str, Ints], acks: Places, rows: Places) -> Floats:
    """Where the threshold that a replay goes by may not be the sender's, each ACK may have opened the window by what it
    acknowledged since that was last seen. Elsewhere 0.

    After a pause a stack may have begun anew, up to another threshold (RFC 2861). Where the application held the sender
    back, a slow start may only seem to have ended.
    """
    before, may_open = table["cwnd_high"], _has_paused(seen, table["time_ns"][rows]) | _may_double(seen, table)[rows]
    last = np.maximum.accumulate(np.where(before >= 0, np.arange(len(before), dtype=np.int32), -1))
    last = last[rows[may_open]]
    una, found = seen.timeline.snd_una, np.zeros(len(rows))
    since = una[acks[rows[may_open]]] - una[acks[last]]
    found[may_open] = np.where(last >= 0, before[last] + since, np.inf)
    return found


def _may_double(seen: Reconstruction, table: dict[str, Ints]) -> Bools:
    """From the end of a slow start on, if something else may have held the sender back before the next loss: the
    application, or, where a rebuilt flight may reach it, the receiver's window."""
    times = table["time_ns"]
    # As it seems: where that is not told, it may have all the same.
    limited = seen.shown_columns["limited_by"]
    is_idle = (limited == APPLICATION) | ((limited != CWND) & (len(seen.timeline.slack) > 0))
    found = np.zeros(len(times), dtype=bool)
    for part in seen.stretches:
        if part.peak is not None:
            edges = seen.timeline.ack_ns[[part.peak, part.last]]
            rows = slice(int(np.searchsorted(times, edges[0])), int(np.searchsorted(times, edges[1], side="right")))
            found[rows] = is_idle[rows].any()
    return found


def _has_paused(seen: Reconstruction, times: Ints) -> Bools:
    """Whether the sender has been idle since the last loss for so long that a stack may begin anew.

    RFC 2861 and 5681 section 4.1 take an unused window back after a retransmission timeout.
    """
    timeline = seen.timeline
    _, sends = timeline.answered_to_the_end
    sends = distinct(sends)
    sends = sends[sends > 0]
    idle = sends[timeline.send_ns[sends] - timeline.send_ns[sends - 1] >= _core.LEAST_RTO_NS]
    # Nanoseconds of the last of either kind, or from before everything.
    pauses = np.concatenate(([-2], timeline.send_ns[idle]))
    losses = np.array([-1, *(episode.time_ns for episode in seen.episodes if episode.is_loss)], dtype=np.int64)
    found: Bools = (
        pauses[_core.places(pauses, times, or_equal=True) - 1] > losses[_core.places(losses, times, or_equal=True) - 1]
    )
    return found


def kept(table: dict[str, Ints], wanted: Bools, rows: Places) -> Ints:
    """Of these rows the lower bound when the window was last seen at work, until it may have been taken back, or -1."""
    times = table["time_ns"]
    last = np.maximum.accumulate(np.where(wanted, -1, np.arange(len(times), dtype=np.int32)))[rows]
    by_window = table["limited_by"][last] == CWND
    # A row is in force up to the next.
    until = times[np.minimum(rows + 1, len(times) - 1)]
    is_kept = wanted[rows] & (last >= 0) & by_window & (until - times[last] < _core.LEAST_RTO_NS)
    return np.where(is_kept, table["cwnd_low"][last], -1)
