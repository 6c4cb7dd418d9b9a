"""Runs of ACKs: at what rate so many segments were acknowledged, and what queue they met.

Nothing is taken from stamps closer than the clock tells, nor from one interrupt's batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.given import FEWEST_ALIKE, MAJORITY, MINORITY
from tcptrace_lab.reconstruct.losses import Episode
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.tap.clock import AT_ONCE_NS, BATCH_NS, Clock
from tcptrace_lab.reconstruct.timeline import Bools, Floats, Ints, Places, Timeline

# Pressed: acknowledged at least this much slower than sent (an ACK clock alone keeps the pace).
SLOWED = 1.25
# ... or met a queue, and was not pushed together on the way back (ACK compression).
COMPRESSED = 1 / SLOWED
# No timer of an ACK is shorter (Linux: TCP_DELACK_MIN; RFC 1122 section 4.2.3.2 allows up to 500 ms).
LEAST_DELAYED_NS = 40_000_000


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Runs of ACKs without a loss in them: packets/s, how long, the queueing delay at the end, and whether pressed.

    `least_ns`: the shortest queueing delay met in each; `base_ns`: the least round trip. `uneven`: how much longer
    the slowest of its ACKs took for each packet than the whole run (1: no longer).
    """

    rates: Floats
    spans_ns: Floats
    delay_ns: Floats
    least_ns: Floats
    base_ns: int
    uneven: Floats
    slowed: np.ndarray[Any, np.dtype[np.bool_]]
    compressed: np.ndarray[Any, np.dtype[np.bool_]]
    # When segments left is not known: nor, of a run, whether they had waited.
    is_inferred: bool
    # Offered after each ACK.
    rwnd: Ints

    @property
    def is_read_slowly(self) -> bool:
        """Whether most of the time less than half was offered of what had been offered before: what came waited for the
        receiver's application (RFC 9293 section 3.8.6), whose reads then let more go, and may have set their pace."""
        most = np.maximum.accumulate(self.rwnd)
        return len(most) > 0 and bool(np.mean(self.rwnd < MAJORITY * most) > MAJORITY)


@dataclass(frozen=True, kw_only=True)
class Batches:
    """The ends of batches of ACKs: when, packets acknowledged until then, ACKs that jumped.

    `uncertain`: of each flow, from when to when how much time passed is not known.
    """

    times: Ints
    acked: Floats
    jumps: npt.NDArray[np.int32]
    uncertain: tuple[tuple[Ints, Ints], ...]


def acked_together(
    seen: Reconstruction, others: Sequence[Reconstruction], clock: Clock, uncertain: tuple[Ints, Ints]
) -> Batches:
    """The ACKs of all these flows, counted in packets of the first one's size; `uncertain`: the first one's."""
    # What a tap that stalls reads in a row comes at its own pace.
    at_once_ns = AT_ONCE_NS if clock.stalled_ns else BATCH_NS
    packet_bytes = seen.timeline.smss + seen.timeline.header_bytes
    flows = [_moves(flow, packet_bytes) for flow in (seen, *others)]
    times, packets, jumped = flows[0]
    if others:
        order = np.argsort(np.concatenate([flow[0] for flow in flows]), kind="stable")
        times, packets, jumped = (np.concatenate(column)[order] for column in zip(*flows, strict=True))
    is_end = np.diff(times, append=times[-1:] + at_once_ns + 1) > at_once_ns
    # An ACK that jumps answers a filled hole: the run across it is no rate.
    return Batches(
        times=times[is_end],
        acked=np.cumsum(packets)[is_end],
        jumps=np.cumsum(jumped, dtype=np.int32)[is_end],
        uncertain=(uncertain, *map(uncertain_of, others)),
    )


def run_rates(batches: Batches, seen: Reconstruction, segments: int) -> Runs:
    """Every run of `segments` of all the flows' `batches`; what it met is what this flow's own segments met."""
    timeline = seen.timeline
    known_ns, samples = _first_answered(timeline)
    (rates, spans_ns, delay_ns, least_ns, uneven), (slowed, compressed) = _core.runs(
        (batches.times, batches.acked, batches.jumps),
        (known_ns, samples),
        list(batches.uncertain),
        segments=float(segments),
        fewest_batches=FEWEST_ALIKE,
        slowed=SLOWED,
        compressed=COMPRESSED,
    )
    return Runs(
        rates=rates,
        spans_ns=spans_ns,
        delay_ns=delay_ns,
        least_ns=least_ns,
        base_ns=int(samples.min()) if len(samples) else 0,
        uneven=uneven,
        slowed=slowed,
        compressed=compressed,
        is_inferred=len(timeline.slack) > 0 and bool(np.mean(timeline.is_open) > MAJORITY),
        rwnd=timeline.rwnd,
    )


def _first_answered(timeline: Timeline) -> tuple[Ints, Ints]:
    """When each round trip was known, and what it took: of a super-segment (offload) its first packet's, for the last
    one waits behind the others, in no queue that stood."""
    rows, samples = timeline.rtt
    sizes, _ = timeline.sizes
    if not len(rows) or int(sizes[-1]) <= timeline.smss:
        return timeline.ack_ns[rows], samples
    send = np.searchsorted(timeline.snd_max, timeline.snd_una[rows], side="right") - 1
    first = np.searchsorted(timeline.snd_una, timeline.send_offset[send] + timeline.smss)
    first = np.minimum(first, rows)
    return timeline.ack_ns[first], timeline.ack_ns[first] - timeline.ack_ns[rows] + samples


def uncertain_of(flow: Reconstruction) -> tuple[Ints, Ints]:
    """From when to when a loss event lasts, the clock is set, ACKs were read that the tap had held back, or tell of
    what those that are missing did: how much time passed then is not known."""
    starts, ends = _spans(flow.episodes)
    if flow.timeline.hides_blocks:
        ends = _all_answered(flow.timeline, ends)
    set_ns = np.array(flow.timeline.set_ns, dtype=np.int64)
    held = flow.held_back
    if len(held[0]) and len(held[0]) > MINORITY * np.count_nonzero(np.diff(flow.timeline.ack_ns) > AT_ONCE_NS):
        # So often it is the path, or its radio, that holds them back, and their pace over longer runs is its.
        held = held[0][:0], held[1][:0]
    behind_ns = _behind_missing(flow)
    answered = _all_answered(flow.timeline, behind_ns)
    starts = np.concatenate((starts, set_ns, held[0], behind_ns))
    ends = np.concatenate((ends, set_ns, held[1], answered))
    order = np.argsort(starts, kind="stable")
    return starts[order], ends[order]


def _behind_missing(flow: Reconstruction) -> Ints:
    """When an ACK jumped below a hole: where those before it are missing so are their blocks, and what fills a hole
    tells of what had come beyond it long before."""
    timeline = flow.timeline
    if not len(timeline.sack_edges):
        return timeline.ack_ns[:0]
    is_jump = np.diff(timeline.delivered, prepend=timeline.first_offset) > flow.jump
    found: Ints = timeline.ack_ns[is_jump & (timeline.sack_high > timeline.snd_una)]
    return found


def _all_answered(timeline: Timeline, times: Ints) -> Ints:
    """When all that had left by then was acknowledged: up to there ACKs may tell of what had come behind a hole that no
    block tells of."""
    sent = np.maximum(np.searchsorted(timeline.send_ns, times, side="right") - 1, 0)
    answers = np.searchsorted(timeline.snd_una, timeline.snd_max[sent])
    found: Ints = np.maximum(timeline.ack_ns[np.minimum(answers, len(timeline.ack_ns) - 1)], times)
    return found


def _spans(episodes: Sequence[Episode]) -> tuple[Ints, Ints]:
    """From when to when each lasts."""
    starts = np.array([episode.time_ns for episode in episodes], dtype=np.int64)
    return starts, np.array([episode.end_ns for episode in episodes], dtype=np.int64)


def _moves(flow: Reconstruction, packet_bytes: int) -> tuple[Ints, Floats, Bools]:
    """Each ACK of new data: when, of how many packets of the given size, and whether it jumps.

    One that fills a hole acknowledges what had come before as well: counted is what each says has arrived.
    """
    timeline = flow.timeline
    arrived = np.diff(timeline.delivered, prepend=timeline.first_offset)
    moving = np.flatnonzero((timeline.newly_acked > 0) & (arrived > 0))
    newly = arrived[moving]
    scale = (timeline.smss + timeline.header_bytes) / packet_bytes / timeline.smss
    jumped = np.zeros(len(moving), dtype=bool)
    if len(moving):
        # One that was overtaken by its successor leaves that one too early.
        follows = np.minimum(moving + 1, len(timeline.ack_ns) - 1)
        jumped = (newly > flow.jump) | (timeline.ack_offset[follows] < timeline.snd_una[moving])
        jumped |= timeline.snd_una[moving] <= sent_unseen(flow)
        jumped[1:] |= _waited(flow, moving)[:-1]
    return timeline.ack_ns[moving], np.asarray(newly * scale, dtype=np.float64), jumped


def _waited(flow: Reconstruction, moving: Ints) -> Bools:
    """Whether an ACK waited for a timer (RFC 1122 section 4.2.3.2): of one segment behind a silence, where most tell of
    more. What it answers came long before, so that the next ACK is too soon behind it."""
    timeline = flow.timeline
    found: Bools = timeline.newly_acked[moving] <= timeline.smss
    if np.mean(found) >= MAJORITY:
        return np.zeros(len(moving), dtype=bool)
    apart = np.diff(timeline.ack_ns[moving], prepend=timeline.ack_ns[moving[:1]])
    return found & (apart > max(flow.base_rtt_ns, LEAST_DELAYED_NS))


def sent_unseen(seen: Reconstruction) -> int:
    """The end of what may have been sent, or sent again, before the capture began: which ACK of it fills a hole is not
    known. It is acknowledged a round trip later at the latest."""
    timeline = seen.timeline
    if timeline.has_start or not len(timeline.send_ns):
        return timeline.first_offset
    begun = np.searchsorted(timeline.send_ns, timeline.send_ns[0] + seen.base_rtt_ns, side="right")
    return int(timeline.snd_max[begun - 1])


def touches(begin: Ints, end: Ints, episodes: tuple[Episode, ...]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether each time from begin to end has a loss event in it."""
    starts, ends = _spans(episodes)
    if not len(starts):
        return np.zeros(len(begin), dtype=bool)
    # Episodes are in order: the first that ends at or after the run's begin must start after the run's end.
    index: Places = _core.places(np.maximum.accumulate(ends), begin)
    return (index < len(starts)) & (starts[np.minimum(index, len(starts) - 1)] <= end)
