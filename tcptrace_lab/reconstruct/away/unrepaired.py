"""The end of a capture taken away from its sender: what the last ACKs released has not come by yet.

Nor has the repair of a loss that was told of: its sender has made it and reduced its window, or will at once.
"""

from __future__ import annotations

import numpy as np

from tcptrace_lab.reconstruct.losses import told_lost
from tcptrace_lab.reconstruct.timeline import Ints, Timeline
from tcptrace_lab.reconstruct.windows import RECOVERY, UNKNOWN, lowered


def with_open_end(columns: dict[str, Ints], timeline: Timeline, *, is_closed: bool) -> dict[str, Ints]:
    """The columns of `windows`, of which those are open that come after such a loss was told of, and all but the lower
    bound where what was released may be on its way; `is_closed`: the connection ended before the capture."""
    if not len(timeline.ack_ns):
        return columns
    times, low, limited = columns["time_ns"], columns["cwnd_low"], columns["limited_by"]
    is_told = times >= _told_ns(timeline)
    is_open = is_told if is_closed else is_told | ((times > _released_ns(timeline)) & (limited != RECOVERY))
    if not is_open.any():
        return columns
    least = lowered(low, np.zeros_like(low), timeline.smss)
    return {
        **columns,
        "cwnd_low": np.where(is_told, least, low),
        "cwnd_high": np.where(is_open, UNKNOWN, columns["cwnd_high"]),
        "limited_by": np.where(is_open, UNKNOWN, limited),
    }


def _told_ns(timeline: Timeline) -> int:
    """When a loss was told of whose repair did not come; never, where there is none."""
    una = int(timeline.snd_una[-1])
    (told,) = told_lost(timeline, np.array([una])).tolist()
    never = np.iinfo(np.int64).max
    if told == len(timeline.ack_ns):
        return never
    told_ns = int(timeline.ack_ns[told])
    behind = timeline.send_offset[np.searchsorted(timeline.send_ns, told_ns) :]
    return never if len(behind) and int(behind.min()) <= una else told_ns


def _released_ns(timeline: Timeline) -> int:
    """Until when all that ACKs released has come by: to the last that did, or, if that is sooner ago, until the longest
    round trip before the end."""
    samples = timeline.rtt[1]
    last = int(timeline.send_ns[-1]) if len(timeline.send_ns) else timeline.end_ns
    return max(last, timeline.end_ns - int(samples.max())) if len(samples) else timeline.end_ns
