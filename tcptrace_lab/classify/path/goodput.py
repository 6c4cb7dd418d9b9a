"""What was delivered in some second: the path carried that much, whatever paced it."""

from __future__ import annotations

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.path.runs import sent_unseen
from tcptrace_lab.reconstruct.given import MINORITY
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.tap.clock import Clock
from tcptrace_lab.reconstruct.tap.stalled import held_back_ns
from tcptrace_lab.reconstruct.timeline import Ints

SECOND_NS = 1_000_000_000


def goodput_pps(
    seen: Reconstruction, clock: Clock, uncertain: tuple[Ints, Ints], *, has_flight: bool = True
) -> float | None:
    """The most that was delivered in any second without a loss event, or a step of the clock, in it; None: no such
    second. `uncertain`: those, from when to when.

    A second by stamps may have lasted as much longer as two of them can tell apart, as the tap was late to read, and as
    ACKs were held back before.

    Without the largest ACK of each: where SACK blocks are not seen it may fill a hole, and tell of seconds before. Of a
    sender that had losses, and no block, or of whose blocks many were cut, each that jumps may: duplicates may be
    missing. So may ACKs wherever much of the data is (not `has_flight`).
    """
    timeline = seen.timeline
    if not len(timeline.ack_ns) or int(timeline.ack_ns.max() - timeline.ack_ns.min()) < SECOND_NS:
        return None
    moving = np.flatnonzero((timeline.newly_acked > 0) & (timeline.snd_una > sent_unseen(seen)))
    if not timeline.has_start:
        # Of what had come above a hole before the capture began three blocks tell a part (RFC 2018): not until it is
        # filled.
        moving = moving[moving >= int(np.argmax(np.append(timeline.delivered == timeline.snd_una, True)))]
    # An ACK that jumps tells of what had come before: by what each says has arrived.
    times, una = timeline.ack_ns[moving], timeline.delivered[moving]
    if not has_flight or (seen.episodes and (timeline.hides_blocks or not len(timeline.sack_edges))):
        arrived = np.diff(una, prepend=una[:1])
        una = una - np.cumsum(np.where(arrived > seen.jump, arrived, 0))
    most = _core.busiest(times, una, SECOND_NS, uncertain)
    if not most:
        # A second of which the largest ACK was all bounds nothing.
        return None
    held_ns = held_back_ns(timeline, seen.held_back[0])
    if carries_data(seen):
        # Behind the other side's data ACKs wait for as long as its queue lasts: no longer than round trips swell.
        held_ns = max(held_ns, int(np.ptp(timeline.rtt[1])) if len(timeline.rtt[1]) else 0)
    lasted_s = 1.0 + max(clock.resolution_ns + held_ns, clock.stalled_ns) / SECOND_NS
    return float(most) / timeline.smss / lasted_s


def carries_data(seen: Reconstruction) -> bool:
    """Whether more than a few ACKs of new data are the other side's data: the others wait behind such."""
    timeline = seen.timeline
    moving = timeline.newly_acked > 0
    return bool(moving.any()) and float(np.mean(~timeline.is_bare[moving])) > MINORITY
