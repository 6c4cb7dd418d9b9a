"""The end of a capture taken away from its sender: a loss that was told of, and whose repair has not come by yet.

Its sender has repaired it and reduced its window, or it will at once: neither is in the capture.
"""

from __future__ import annotations

import numpy as np

from tcptrace_lab.reconstruct.losses import told_lost
from tcptrace_lab.reconstruct.timeline import Ints, Timeline
from tcptrace_lab.reconstruct.windows import UNKNOWN, lowered


def with_open_end(columns: dict[str, Ints], timeline: Timeline) -> dict[str, Ints]:
    """The columns of `windows`, of which those are open that come after it was told of."""
    if not len(timeline.ack_ns):
        return columns
    una = int(timeline.snd_una[-1])
    (told,) = told_lost(timeline, np.array([una])).tolist()
    if told == len(timeline.ack_ns):
        return columns
    told_ns = int(timeline.ack_ns[told])
    behind = timeline.send_offset[np.searchsorted(timeline.send_ns, told_ns) :]
    if len(behind) and int(behind.min()) <= una:
        return columns
    is_open, low = columns["time_ns"] >= told_ns, columns["cwnd_low"]
    least = lowered(low, np.zeros_like(low), timeline.smss)
    return {
        **columns,
        "cwnd_low": np.where(is_open, least, low),
        "cwnd_high": np.where(is_open, UNKNOWN, columns["cwnd_high"]),
        "limited_by": np.where(is_open, UNKNOWN, columns["limited_by"]),
    }
