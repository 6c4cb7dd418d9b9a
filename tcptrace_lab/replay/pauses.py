"""When a host stood still, as the sender's own tap shows: ACKs that came in and released nothing until a burst (its own
host), or one ACK late for so many segments that a receiver acknowledges one by one (the other's, or the way between).

A host that does something else for some milliseconds lets what comes in wait, and what all of it releases leaves at
once: a queue that takes one segment for each ACK may not take those. Such a loss is the host's as much as the path's,
and does not come back without the pause. Errs towards none: in a recovery, behind a receiver's window, and of a sender
that its application or a rate of its own holds back, silence has other reasons. ACKs that are late are so whatever the
sender: BBR's window keeps room for as much as ever came at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tcptrace_lab.classify.verdict import Verdict
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.replay.application import PROMPT_NS

# Fewer ACKs, or segments for one ACK, are a driver's batch.
LEAST_WAITING = 8
# Of what the waiting ACKs acknowledge so much leaves at the end: a window that stands or grows sends all of it.
RELEASED_SHARE = 0.9
# More of the ACKs late than this, and lateness is the receiver's habit: no pause, but how it always answers.
HABIT_SHARE = 0.05


def host_pauses(verdict: Verdict, *, is_paced: bool = False) -> tuple[tuple[int, int], ...]:
    """From when to when, on the capture's clock in nanoseconds; in order of time, none within another. Of a sender that
    leaves by a rate of its own (`is_paced`) the late ACKs only."""
    who, seen = verdict.who, verdict.seen
    is_seen = who.vantage == "sender" and who.view is None and who.tap.clock.resolution_ns < PROMPT_NS
    if not is_seen or not len(seen.timeline.ack_ns):
        return ()
    pps = verdict.path.bottleneck_pps.value
    found = [*(() if is_paced else _own(seen)), *(_late_acks(seen, pps) if pps else ())]
    outside = [
        (from_ns, to_ns)
        for from_ns, to_ns in sorted(found)
        if not any(one.time_ns <= to_ns and one.end_ns >= from_ns for one in seen.episodes)
    ]
    apart: list[tuple[int, int]] = []
    for from_ns, to_ns in outside:
        if not apart or from_ns >= apart[-1][1]:
            apart.append((from_ns, to_ns))
    return tuple(apart)


def _own(seen: Reconstruction) -> Iterator[tuple[int, int]]:
    timeline = seen.timeline
    sent, heard = timeline.send_ns, timeline.ack_ns
    moved = np.append(0, np.cumsum(timeline.newly_acked > 0))
    silent = np.flatnonzero(np.diff(sent) > PROMPT_NS)
    first = np.searchsorted(heard, sent[silent], side="right")
    behind = np.searchsorted(heard, sent[silent + 1], side="left")
    waiting = moved[behind] - moved[first] >= LEAST_WAITING
    for last, begin, end in zip(silent[waiting], first[waiting], behind[waiting], strict=True):
        from_ns, to_ns = int(heard[begin]), int(sent[last + 1])
        top = int(timeline.snd_max[last])
        has_room = timeline.snd_una[begin] + timeline.rwnd[begin] >= top + timeline.smss
        # What leaves before another ACK can have released it, or as long as a host takes over a burst.
        next_ns = int(heard[end]) if end < len(heard) else to_ns
        burst = int(np.searchsorted(sent, max(next_ns, to_ns + PROMPT_NS), side="left"))
        released = int(timeline.snd_max[burst - 1]) - top
        acked = int(timeline.newly_acked[begin:end].sum())
        if to_ns - from_ns > PROMPT_NS and has_room and released >= RELEASED_SHARE * acked:
            # Somewhere between what left last and the first ACK that waited.
            yield (int(sent[last]) + from_ns) // 2, to_ns


def _late_acks(seen: Reconstruction, pps: float) -> Iterator[tuple[int, int]]:
    timeline = seen.timeline
    segments = timeline.newly_acked / timeline.smss
    # They left the bottleneck one by one, the first of them so much earlier.
    took_ns = segments * 1e9 / pps
    gaps = np.diff(timeline.ack_ns, prepend=timeline.ack_ns[0])
    late = np.flatnonzero((segments >= LEAST_WAITING) & (np.minimum(took_ns, gaps) > PROMPT_NS))
    if len(late) > HABIT_SHARE * np.count_nonzero(segments > 0):
        return
    for row in late:
        to_ns = int(timeline.ack_ns[row])
        # Half a segment's service behind the ACK before it.
        begins = max(to_ns - took_ns[row], timeline.ack_ns[row - 1]) + 0.5e9 / pps
        yield int(begins), to_ns
