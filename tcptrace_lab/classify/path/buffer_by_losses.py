"""The buffer of a path from all that its losses met: which of them are asked, and what the capture leaves open."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tcptrace_lab.classify.path.base_rtt import least_alike_ns
from tcptrace_lab.classify.path.buffer import (
    AGREEING_LOSSES,
    answered_behind,
    buffer_of,
    carried_behind,
    grown_to,
    held_before,
    met_behind,
    once_a_flight,
)
from tcptrace_lab.classify.path.captured import Captured
from tcptrace_lab.classify.path.managed import Managed
from tcptrace_lab.reconstruct.estimate import Estimate, unknown
from tcptrace_lab.reconstruct.given import FEWEST_ALIKE, ODD_SHARE
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Bools, Floats

# What `queues` tells: the queue that each loss event met, which of them may be asked, and the queue of every sample.
Met = tuple[tuple[float, ...], Bools, Floats]
# The base round trip, the bottleneck's rate, and the product of both.
Pipe = tuple[Estimate, Estimate, Estimate]


def buffer_by_losses(seen: Reconstruction, captured: Captured, pipe: Pipe, met: Met, managed: Managed) -> Estimate:
    """The buffer in packets; `managed`: which of its losses a managed queue made, or may have."""
    (_, pps, _), (at_loss, is_free, _), samples = pipe, met, seen.timeline.rtt[1]
    if not captured.has_losses:
        return unknown("what was sent again is not in the capture: nor which queue was full")
    if len(samples) and samples.min() <= 0:
        return unknown("no time passes between a segment and its ACK: no round trip is told from a queue")
    if any(managed.is_codel):
        return _of_codel(at_loss)
    asked = once_a_flight(seen, at_loss, is_free)
    buffer = _at_losses(seen, captured, pipe, met, asked)
    if managed.is_open and buffer.value is not None:
        words = "each loss came 100 ms after waits rose above 5 ms: a full buffer's, or CoDel's"
        buffer = unknown(words, low=buffer.low)
    buffer = with_short(buffer, seen)
    if len(samples) and pps.value is not None and buffer.low is not None:
        # A queue is told by how much longer a round trip is than the least.
        more = (least_alike_ns(seen, captured.handshake_rtt_s) - int(samples.min())) / 1e9 * pps.value
        words = f"{buffer.method}; less what the least round trip is shorter than any of another turn"
        low = max(float(np.floor(buffer.low - more)), 0.0)
        buffer = replace(buffer, low=low, method=words) if more > 0 else buffer
    is_one = buffer.value is None or np.count_nonzero(~np.isnan(np.array(at_loss)[asked])) < FEWEST_ALIKE
    if captured.by_rhythm and buffer.low is not None and is_one:
        # An error in the rhythm looks like a queue; it does not at two losses alike.
        return unknown(f"{buffer.method}; their times inferred")
    return buffer


def _of_codel(at_loss: tuple[float, ...]) -> Estimate:
    """It drops by how long packets wait (RFC 8289): what its losses met is no buffer's end."""
    met = [length for length in at_loss if not np.isnan(length)]
    words = "CoDel's losses, 100 ms after waits rose above 5 ms, met"
    words += f" queues of {min(met):.0f} to {max(met):.0f} packets" if met else " unknown queues"
    # One late ACK makes one of them long.
    return unknown(f"{words}: it holds what half of them met", low=float(np.floor(np.median(met or [0.0]))))


def _at_losses(seen: Reconstruction, captured: Captured, pipe: Pipe, met: Met, asked: Bools) -> Estimate:
    """The buffer by the queues that those losses met which are `asked`, and by what passed beside them."""
    timeline, (base, pps, bdp), (at_loss, _, queue) = seen.timeline, pipe, met
    own, at_losses = queue, np.array(at_loss)[asked]
    elsewhere, grown = np.zeros((2, len(at_losses)))
    behind = carried_behind(seen, np.array(at_loss), bdp)
    if len(queue) and pps.value is not None:
        rows, samples = timeline.rtt
        answered = answered_behind(seen, asked)
        left_ns = (timeline.ack_ns[rows] - samples, seen.lost_sent_ns[asked], timeline.send_ns[answered.send])
        grown = grown_to(seen, pps.value, queue, left_ns[:2])
        held, elsewhere, ahead = held_before(seen, pps.value, *left_ns)
        own = np.minimum(seen.under_way, queue - held)
        queued = met_behind(seen, answered, ahead, pps.value)
        behind = np.fmax(behind, queued)
        if not (captured.has_acks or timeline.has_sack) and np.count_nonzero(~np.isnan(at_losses)) < AGREEING_LOSSES:
            # The duplicates that the tap missed may tell of a longer queue, and few losses agree by chance.
            behind = np.where(np.isnan(queued), np.inf, behind)
    return buffer_of(
        at_losses,
        elsewhere,
        behind[asked],
        queue,
        own,
        grown=grown,
        base_rtt=base,
        pps=pps,
        resolution_ns=captured.clock.resolution_ns,
        stalled_ns=captured.clock.stalled_ns,
        is_rebuilt=len(timeline.fate) > 0,
    )


def with_short(buffer: Estimate, seen: Reconstruction) -> Estimate:
    """A delay tells of full packets; a queue that counts them holds as many more as some of them are short."""
    if buffer.high is None:
        return buffer
    lengths, counts = seen.timeline.sizes
    packets = (np.ceil(lengths / seen.timeline.smss) * counts).sum()
    more = float(packets * seen.timeline.smss / max(int((lengths * counts).sum()), 1))
    if more <= 1 + ODD_SHARE:
        return buffer
    method = f"{buffer.method}; short ones among them take less time"
    return replace(buffer, high=float(np.ceil(buffer.high * more)), method=method)
