"""The path's round trip: the least that was measured, between what bounds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.numbers import seconds
from tcptrace_lab.reconstruct.estimate import Estimate, unknown
from tcptrace_lab.reconstruct.given import DELAYED_ACK_SEGMENTS, FEWEST_ALIKE, FEWEST_SAMPLES
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.tap.clock import FINE, Clock
from tcptrace_lab.reconstruct.tap.stalled import SHORTER_SHARE, held_back_ns, unread_ns
from tcptrace_lab.reconstruct.timeline import Floats, Ints

# Below this part of the bottleneck's rate the queue must have been empty.
IDLE_LOAD = 0.95
# Round trips that are the least, to what a host's own delay adds to them.
LEAST_FACTOR = 1.02
# Round trips across a step of the clock are a window's worth of ACKs at each: fewer than one in twenty.
STEPPED_PERCENTILE = 5
# Where this many were measured a late reading stands out (and a limit of memory).
MOST_SHORTER_SAMPLES = 65_536


def least_rtt(
    seen: Reconstruction,
    others: Sequence[Reconstruction],
    handshake_rtt_s: float | None,
    pps: Estimate,
    clock: Clock,
) -> Estimate:
    """The least, which bounds the path's from above by what stamps may err; from below where no queue stood then."""
    samples = seen.timeline.rtt[1]
    blur = clock.resolution_ns / 1e9
    if not len(samples):
        # Nor from above by the handshake: a full packet takes longer, at each node that it passes.
        return unknown("no ACK can be matched with the segment it answers")
    if clock.steps_back:
        # How long the clock really took at a step back is not known: round trips across one come out short.
        usual = _core.percentile(samples, STEPPED_PERCENTILE) / 1e9
        if usual <= 0:
            return unknown("the clock was set back by more than the round trips took")
        words = f"{STEPPED_PERCENTILE}th percentile of {len(samples)} round trips, the clock was set back"
        return Estimate(value=usual, method=words)
    least = float(samples.min()) / 1e9
    if least <= 0:
        # Nor its own tick, where too few stamps differ to show one; nor is it a tick by which they do not differ, where
        # SYNs took longer: what came in order was read late.
        high = clock.doubt_ns / 1e9 if clock.resolution_ns > FINE.resolution_ns else None
        if high is not None and handshake_rtt_s is not None:
            # A tick that a handshake took may have been nearly two.
            high = None if handshake_rtt_s > high else high + handshake_rtt_s
        if high is not None and int((samples + unread_ns(seen.timeline, np.nan)).min()) > clock.doubt_ns:
            # Each came behind a silence: what had waited to be read was stamped with what answers it.
            high = None
        return unknown("no time passes between a segment and its ACK: the clock does not tell a round trip", high=high)
    is_near = handshake_rtt_s is not None and SHORTER_SHARE * handshake_rtt_s <= least
    if clock.stalled_ns and len(samples) < FEWEST_SAMPLES and not is_near:
        high = least + clock.stalled_ns / 1e9
        return unknown("the tap read late, and too few round trips are left to tell by", high=high)
    method = f"least of {len(samples)} round trips of segments sent once"
    above = _above_ns(seen, handshake_rtt_s, pps, clock) / 1e9
    if _was_empty(seen, others, pps):
        # The handshake's packets are smaller: their round trip lacks the transmission times of a full segment.
        low = min(least, handshake_rtt_s or least - _behind_itself_s(seen, pps)) - blur
        return Estimate(value=least, low=max(low, 0.0), high=least + above, method=method)
    return Estimate(value=least, high=least + above, method=f"{method}; the queue may never have been empty")


def _above_ns(seen: Reconstruction, handshake_rtt_s: float | None, pps: Estimate, clock: Clock) -> float:
    """By how much more than the least the path's round trip may be: what stamps err by, or waited to be read."""
    samples = seen.timeline.rtt[1]
    least = int(samples.min())
    # A segment that was stamped late has a round trip that is short by that.
    late_ns = 0.0 if seen.timeline.stamp_clock is None else seen.timeline.stamp_clock.late_ns
    above = max(clock.doubt_ns, late_ns, _read_late_ns(seen, clock))
    handshake_ns = np.nan if handshake_rtt_s is None else handshake_rtt_s * 1e9
    is_shorter = len(samples) <= MOST_SHORTER_SAMPLES and least < SHORTER_SHARE * handshake_ns
    if handshake_rtt_s is None or clock.stalled_ns or is_shorter:
        # Nothing else says what the path takes at least, or not every segment that was read late shows it: where most
        # were none stands out, but small packets took longer.
        unread = unread_ns(seen.timeline, handshake_ns, clock.stalled_ns)
        above = max(above, int((samples + unread).min()) - least)
        # Of one turn alone the segments may have been read late.
        alike = least_alike_ns(seen, handshake_rtt_s) if clock.stalled_ns else _least_alike(_of_turns(seen))
        above = max(above, alike - least)
    if clock.stalled_ns and least < SHORTER_SHARE * handshake_ns:
        # By whole ticks turns are alike that are not: as good as a round trip that came sooner is the handshake's.
        above = max(above, int(handshake_ns + clock.doubt_ns) - least)
    if len(seen.timeline.fate) and pps.value and least < SHORTER_SHARE * (handshake_ns + 1e9 / pps.value):
        # Nor is one of an ACK that was read late: a full segment takes longer than a SYN by as long as the bottleneck
        # needs for it.
        above = max(above, int(handshake_ns + 1e9 / pps.value) - least)
    if handshake_rtt_s is None and len(seen.timeline.fate):
        # Elsewhere it is ACKs that were read late, each by up to a silence, and no handshake tells by how much.
        above = max(above, clock.stalled_ns, held_back_ns(seen.timeline, seen.held_back[0]))
    return above


def _read_late_ns(seen: Reconstruction, clock: Clock) -> int:
    """By how much more than the least the path's round trip may be, where interrupts or polls stamp what came since the
    last: each bounds it with what its segment may have waited to be read."""
    if clock.jitter_ns or clock.resolution_ns <= clock.tick_ns:
        return 0
    timeline = seen.timeline
    rows, samples = timeline.rtt
    left = timeline.ack_ns[rows] - samples
    sent, heard = (_core.places(times, left) for times in (timeline.send_ns, timeline.ack_ns))
    since_sent = left - timeline.send_ns[np.maximum(sent - 1, 0)]
    since_heard = np.where(heard > 0, left - timeline.ack_ns[np.maximum(heard - 1, 0)], since_sent)
    # Of the first nothing tells.
    waited = np.where(sent > 0, np.minimum(since_sent, since_heard), int(clock.doubt_ns))
    return int((samples + waited).min() - samples.min())


def least_alike_ns(seen: Reconstruction, handshake_rtt_s: float | None) -> int:
    """The least round trip that others come near, in other turns, or the handshake does: of one turn alone the segments
    may have been stamped late."""
    least = int(seen.timeline.rtt[1].min())
    is_near = handshake_rtt_s is not None and SHORTER_SHARE * handshake_rtt_s * 1e9 <= least
    if is_near:
        return least
    each = _of_turns(seen)
    if len(each) < FEWEST_ALIKE:
        return least
    return _least_alike(each) or int(each[FEWEST_ALIKE - 1])


def _of_turns(seen: Reconstruction) -> Ints:
    """The least round trip of each turn, in order of length."""
    rows, samples = seen.timeline.rtt
    if seen.typical_rtt_ns <= 0:
        return samples[:0]
    times = seen.timeline.ack_ns[rows]
    begins = np.flatnonzero(np.diff((times - times[0]) // seen.typical_rtt_ns, prepend=-1))
    return np.sort(np.minimum.reduceat(samples, begins))


def _least_alike(each: Ints) -> int:
    """The least that others come near; 0: none does."""
    behind = FEWEST_ALIKE - 1
    alike = each[:-behind] >= SHORTER_SHARE * each[behind:]
    return int(each[np.argmax(alike)]) if alike.any() else 0


def _behind_itself_s(seen: Reconstruction, pps: Estimate) -> float:
    """What a least round trip may have of its own flight: of a super-segment (offload) the last packet waited behind
    the others, and of two segments that left together the first one's ACK for the second (RFC 9293 section 3.8.6.3)."""
    timeline, (rows, samples) = seen.timeline, seen.timeline.rtt
    if pps.value is None:
        return 0.0
    is_least = samples <= LEAST_FACTOR * samples.min()
    fewest = seen.under_way[is_least]
    if (timeline.send_end - timeline.send_offset).max() <= timeline.smss:
        # An ACK that stands for others as well, which a box leaves out, answers the last of its segments.
        told = timeline.newly_acked[rows[is_least]] / timeline.smss
        fewest = np.minimum(fewest, np.maximum(told, DELAYED_ACK_SEGMENTS))
    return max(float(fewest.min()) - 1.0, 0.0) / pps.value


def later(base: Estimate, before_ns: int | None, near_ns: int) -> Estimate:
    """With the way from the sender to the tap, which no round trip seen at the tap has in it."""
    if before_ns is None and (base.value is not None or base.high is not None):
        method = f"{base.method}; and what a full segment takes from the sender to the tap"
        return replace(base, high=None, method=method)
    if base.value is None or before_ns is None:
        return base
    before = before_ns / 1e9
    high = None if base.high is None else base.high + (before or near_ns / 1e9)
    if not before:
        return base if base.high == high else replace(base, high=high)
    method = f"{base.method}; and {seconds(before)} from the sender to the tap"
    return replace(base, value=base.value + before, high=high, method=method)


def _was_empty(seen: Reconstruction, others: Sequence[Reconstruction], pps: Estimate) -> bool:
    """Whether some of the least round trips were met at a load below the bottleneck's rate: then no queue stood.

    Where others use the bottleneck too a queue may stand at any load of this flow's. What they met then tells of it if
    they were captured from their beginning; if not, their load counts; unseen, they leave the rate no upper bound.
    """
    rows, samples = seen.timeline.rtt
    if pps.value is None or pps.high is None:
        return False
    least = samples <= LEAST_FACTOR * samples.min()
    sent_ns = (seen.timeline.ack_ns[rows] - samples)[least]
    packets = seen.under_way[least]
    packets += sum(_under_way(other, sent_ns) for other in others)
    load = np.maximum(packets, 1) / (np.maximum(samples[least], 1) / 1e9)
    return bool(np.count_nonzero(load < IDLE_LOAD * pps.value) >= min(FEWEST_ALIKE, len(load)))


def _under_way(other: Reconstruction, times: Ints) -> Floats:
    """Another flow's packets on the path at these times."""
    timeline = other.timeline
    sent = np.searchsorted(timeline.send_ns, times, side="right")
    top = np.where(sent > 0, timeline.snd_max[np.maximum(sent - 1, 0)], timeline.first_offset)
    found: Floats = np.maximum(top - other.una_at(times), 0.0) / timeline.smss
    return found
