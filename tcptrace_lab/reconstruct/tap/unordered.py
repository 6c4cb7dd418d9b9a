"""How far the flight after each ACK is known where the tap missed packets, or its stamps do not order the two ways.

What an ACK releases leaves at once. What leaves later, before the next captured one, may answer an ACK that is not in
the capture, or not where it belongs: the window was not as large yet. Data that was not captured may have left before
the ACKs that lie where it is missing. Errs low where the sender sends at its own times.
"""

from __future__ import annotations

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.tap.clock import AT_ONCE_NS
from tcptrace_lab.reconstruct.timeline import Ints, Places, Timeline
from tcptrace_lab.reconstruct.windows import CWND, RECOVERY, UNKNOWN, lowered


def as_known(columns: dict[str, Ints], timeline: Timeline, acks: Places) -> dict[str, Ints]:
    """The columns of `windows`, their bounds as far apart as that leaves the flight open; `acks`: of each row."""
    limited, low, high = columns["limited_by"], columns["cwnd_low"], columns["cwnd_high"]
    least = lowered(low, low - _left_later(timeline)[acks], timeline.smss)
    missed = _missed(timeline)[acks]
    flight: Ints = timeline.observed.column("flight")
    # Short of the offered window by what was not captured: either may be the limit.
    is_either = (missed > 0) & (limited == CWND) & (flight[acks] + missed + timeline.smss > timeline.rwnd[acks])
    return {
        **columns,
        "cwnd_low": np.where(limited == RECOVERY, low, least),
        "cwnd_high": np.where(is_either | (high == UNKNOWN), UNKNOWN, high + missed),
        "limited_by": np.where(is_either, UNKNOWN, limited).astype(limited.dtype),
    }


def _left_later(timeline: Timeline) -> Ints:
    """After each ACK, how many bytes of new data left later than an ACK's answer does, before the next one."""
    ack_ns, behind = timeline.ack_ns, timeline.sends_before_next_ack
    soon_ns = np.clip(np.diff(ack_ns, append=timeline.end_ns) // _core.PROMPT_PARTS, AT_ONCE_NS, _core.HOST_NS)
    at_once = np.minimum(_core.places(timeline.send_ns, ack_ns + soon_ns, or_equal=True), behind)
    top = np.append(timeline.first_offset, timeline.snd_max)
    later: Ints = np.maximum(top[behind] - np.maximum(top[at_once], timeline.snd_una), 0)
    return later


def _missed(timeline: Timeline) -> Ints:
    """After each ACK, how many bytes that were not captured are missing between what had left and what came next."""
    top = np.append(timeline.first_offset, timeline.snd_max)
    # Behind the last send nothing tells.
    missing = np.append(np.maximum(timeline.send_offset - top[:-1], 0), 0)
    behind = timeline.sends_before_next_ack
    # What is acknowledged by then is not outstanding.
    found: Ints = np.clip(top[behind] + missing[behind] - timeline.snd_una, 0, missing[behind])
    return found
