"""The path as a capture at the sender shows it: round trip, bottleneck rate, buffer (Barakat & Altman's T, mu, B).

Everything rests on one flow's own ACKs: a path that this flow never filled shows bounds, not values. Cross traffic
makes the rate found here the share this flow had, unless the capture has the other flows too: then the ACKs of all of
them together come at the bottleneck's. One pair of back-to-back ACKs proves nothing, so rates are of runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.path.base_rtt import later, least_alike_ns, least_rtt
from tcptrace_lab.classify.path.buffer import (
    AGREEING_LOSSES,
    answered_behind,
    buffer_of,
    carried_behind,
    grown_to,
    held_before,
    jitter_of,
    longest_queue,
    met_behind,
    once_a_flight,
    own_queue,
    queues,
)
from tcptrace_lab.classify.path.managed import NOT_MANAGED, Managed, losses_of_codel
from tcptrace_lab.classify.path.policed import Policed, losses_of_policer, not_policed
from tcptrace_lab.classify.path.rate import BUSY_PACKETS, bottleneck_rate
from tcptrace_lab.classify.path.shared import Other, less_standing, rate_beside, shares_queue
from tcptrace_lab.reconstruct.estimate import Estimate, unknown
from tcptrace_lab.reconstruct.given import FEWEST_ALIKE, FULL_SHARE, MINORITY, ODD_SHARE
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.tap.clock import FINE, Clock
from tcptrace_lab.reconstruct.timeline import Timeline

# Stamped before what they answer, segments err by as much as that usually, and the odd ones by some times as much.
AHEAD_FACTOR = 10.0


@dataclass(frozen=True, kw_only=True)
class PathEstimate:
    """The estimates of the verdict's `path`, and what the queue was at each loss event (packets; NaN unknown).

    `own_queue_max`: this flow's own packets in the longest queue, whatever the path's rate then was; `queue_jitter`: by
    how much jitter alone lengthens `queue_max`.
    """

    base_rtt_s: Estimate
    bottleneck_bps: Estimate
    bottleneck_pps: Estimate
    bdp_packets: Estimate
    buffer_packets: Estimate
    packet_bytes: int
    queue_at_loss: tuple[float, ...]
    queue_max: float
    own_queue_max: float
    queue_jitter: float
    # Of each loss event: whether a managed queue (CoDel) lost it, or may have.
    managed: Managed = NOT_MANAGED
    # And whether a policer did.
    policed: Policed = field(default_factory=partial(not_policed, "not captured at the sender: nor when each left"))

    @property
    def is_managed(self) -> bool:
        """Whether the bottleneck's queue is CoDel's, so that its losses say nothing of its length."""
        return any(self.managed.is_codel)

    def as_dict(self) -> dict[str, Any]:
        names = ("base_rtt_s", "bottleneck_bps", "bottleneck_pps", "bdp_packets", "buffer_packets")
        found = {name: getattr(self, name).as_dict() for name in names}
        found["policer_bps"] = _scaled(self.policed.pps, 8 * self.packet_bytes).as_dict()
        return found | {"policer_burst_packets": self.policed.burst.as_dict()}


def infer_path(
    seen: Reconstruction,
    *,
    handshake_rtt_s: float | None = None,
    around_s: float | None = None,
    vantage: str = "sender",
    clock: Clock = FINE,
    beside: Callable[[], Sequence[Reconstruction]] = tuple,
    by_rhythm: bool = False,
    by_reader: bool = False,
    before_ns: int | None = 0,
    near_ns: int = 0,
    is_ahead: bool = False,
    has_flight: bool = True,
    has_losses: bool = True,
    has_acks: bool = True,
) -> PathEstimate:
    """Every estimate that the flow's ACKs allow from where they were captured, none finer than the clock.

    `around_s`: from the tap to the sender and back, and to the receiver and back, the least of each (None: not seen).
    `before_ns`: what a full segment takes from the sender to a tap near it (None: not known); `near_ns`: what the way
    from there to the sender and back takes, its host included, at the most; `is_ahead`: segments are stamped before
    what they answer, so that none of these times bounds the path's. `has_flight`: what was sent when is known;
    `has_losses`: what was sent again is; `has_acks`: the tap missed no ACK; `by_rhythm`: it was inferred, so no round
    trip bounds the path's. `by_reader`: the receiver's window may have been the limit, its reader's pace the ACKs'.
    `beside` gives the capture's other flows. Those whose round trips rise and fall with this one's share its queue.
    """
    timeline = seen.timeline
    packet_bytes = timeline.smss + timeline.header_bytes
    pps = bottleneck_rate(seen, clock, has_flight=has_flight, has_losses=has_losses)
    pps = _without_bound(seen, pps, clock, handshake_rtt_s, by_reader=by_reader, is_ahead=is_ahead)
    if vantage in ("receiver", "middle"):
        return _elsewhere(seen, pps, packet_bytes, handshake_rtt_s, around_s)
    # Across a step back of the clock what another flow met at the same time is not told.
    is_told = len(timeline.rtt[0]) > 0 and not clock.steps_back
    flows = [(other, shares_queue(seen, other, pps)) for other in (beside() if is_told else ())]
    pps = rate_beside(seen, flows, pps, clock)
    base = _base(
        seen,
        flows,
        pps,
        clock,
        handshake_rtt_s,
        around_s=around_s,
        near_tap_ns=(before_ns, near_ns),
        has_flight=has_flight,
        by_rhythm=by_rhythm,
        is_ahead=is_ahead,
    )
    base, standing_ns = less_standing(seen, flows, base, pps)
    at_loss, free, queue = queues(seen, pps.value, standing_ns)
    managed = losses_of_codel(seen, pps.value)
    is_other = any(managed.is_codel) or not has_losses or not has_flight or by_rhythm
    policed = not_policed("when its losses left is not known", len(at_loss)) if is_other else losses_of_policer(seen)
    if not has_losses:
        buffer = unknown("what was sent again is not in the capture: nor which queue was full")
    elif len(timeline.rtt[1]) and timeline.rtt[1].min() <= 0:
        buffer = unknown("no time passes between a segment and its ACK: no round trip is told from a queue")
    elif any(managed.is_codel):
        met = [length for length in at_loss if not np.isnan(length)]
        words = "CoDel's losses, 100 ms after waits rose above 5 ms, met"
        words += f" queues of {min(met):.0f} to {max(met):.0f} packets" if met else " unknown queues"
        # One late ACK makes one of them long.
        buffer = unknown(f"{words}: it holds what half of them met", low=float(np.floor(np.median(met or [0.0]))))
    else:
        asked = once_a_flight(seen, at_loss, free)
        own, at_losses = queue, np.array(at_loss)[asked]
        elsewhere, grown = np.zeros((2, len(at_losses)))
        behind = carried_behind(seen, np.array(at_loss), _product(base, pps))
        if len(queue) and pps.value is not None:
            rows, samples = timeline.rtt
            lost_ns = np.array([episode.lost_sent_ns for episode in seen.episodes], dtype=np.int64)
            answered = answered_behind(seen, asked)
            left_ns = (timeline.ack_ns[rows] - samples, lost_ns[asked], timeline.send_ns[answered.send])
            grown = grown_to(seen, pps.value, queue)[asked]
            held, elsewhere, ahead = held_before(seen, pps.value, *left_ns)
            own = np.minimum(seen.under_way, queue - held)
            queued = met_behind(seen, answered, ahead, pps.value)
            behind = np.fmax(behind, queued)
            if not (has_acks or timeline.has_sack) and np.count_nonzero(~np.isnan(at_losses)) < AGREEING_LOSSES:
                # The duplicates that the tap missed may tell of a longer queue, and few losses agree by chance.
                behind = np.where(np.isnan(queued), np.inf, behind)
        buffer = buffer_of(
            at_losses,
            elsewhere,
            behind[asked],
            queue,
            own,
            grown=grown,
            base_rtt=base,
            pps=pps,
            resolution_ns=clock.resolution_ns,
            stalled_ns=clock.stalled_ns,
            is_rebuilt=len(timeline.fate) > 0,
        )
        if managed.is_open and buffer.value is not None:
            words = "each loss came 100 ms after waits rose above 5 ms: a full buffer's, or CoDel's"
            buffer = unknown(words, low=buffer.low)
        buffer = with_short(buffer, seen)
        if len(timeline.rtt[1]) and pps.value is not None and buffer.low is not None:
            # A queue is told by how much longer a round trip is than the least.
            more = (least_alike_ns(seen, handshake_rtt_s) - int(timeline.rtt[1].min())) / 1e9 * pps.value
            words = f"{buffer.method}; less what the least round trip is shorter than any of another turn"
            low = max(float(np.floor(buffer.low - more)), 0.0)
            buffer = replace(buffer, low=low, method=words) if more > 0 else buffer
        is_one = buffer.value is None or np.count_nonzero(~np.isnan(at_losses)) < FEWEST_ALIKE
        if by_rhythm and buffer.low is not None and is_one:
            # An error in the rhythm looks like a queue; it does not at two losses alike.
            buffer = unknown(f"{buffer.method}; their times inferred")
    return PathEstimate(
        base_rtt_s=base,
        bottleneck_bps=_scaled(pps, 8 * packet_bytes),
        bottleneck_pps=pps,
        bdp_packets=_product(base, pps),
        buffer_packets=buffer,
        packet_bytes=packet_bytes,
        queue_at_loss=at_loss,
        queue_max=longest_queue(queue),
        own_queue_max=longest_queue(own_queue(seen) if len(queue) else queue),
        queue_jitter=0.0 if pps.value is None or not len(queue) else jitter_of(seen, pps.value, queue),
        managed=managed,
        policed=policed,
    )


def _without_bound(
    seen: Reconstruction,
    pps: Estimate,
    clock: Clock,
    handshake_rtt_s: float | None,
    *,
    by_reader: bool,
    is_ahead: bool,
) -> Estimate:
    """The rate, without an upper bound where nothing shows that its packets waited in a queue."""
    if by_reader and pps.value is not None and pps.high is not None:
        method = f"{pps.method}; it may be the pace at which the receiver read"
        pps = Estimate(value=pps.value, low=pps.low, high=None, method=method)
    if pps.high is not None and not _is_timed(seen.timeline, handshake_rtt_s, clock):
        # By a least round trip of nothing every run met a queue, whoever set its pace.
        pps = replace(pps, high=None, method=f"{pps.method}; no time passes on the path: whether it waited is not told")
    if is_ahead and pps.high is not None and _swing_ns(seen) < AHEAD_FACTOR * clock.resolution_ns:
        pps = replace(pps, high=None, method=f"{pps.method}; a queue so short may be the stamps' error")
    if clock.stalled_ns and pps.value is not None and pps.high is not None:
        # By a least round trip that was read late every other met a queue.
        longest_ns = _core.percentile(seen.timeline.rtt[1], 100 * FULL_SHARE) - least_alike_ns(seen, handshake_rtt_s)
        if longest_ns <= BUSY_PACKETS / pps.value * 1e9 + clock.doubt_ns:
            pps = replace(pps, high=None, method=f"{pps.method}; a queue that late stamps may make")
    return pps


def _base(
    seen: Reconstruction,
    flows: Sequence[Other],
    pps: Estimate,
    clock: Clock,
    handshake_rtt_s: float | None,
    *,
    around_s: float | None,
    near_tap_ns: tuple[int | None, int],
    has_flight: bool,
    by_rhythm: bool,
    is_ahead: bool,
) -> Estimate:
    """The least round trip; `near_tap_ns`: `infer_path`'s `before_ns` and `near_ns`."""
    if has_flight or seen.timeline.has_start:
        # Where the others were met is not known of all: each that was not captured from its beginning, or whose round
        # trips do not tell, may have stood in the queue.
        unsure = [other for other, shares in flows if shares is None or (shares and not other.timeline.has_start)]
        base = later(least_rtt(seen, unsure, handshake_rtt_s, pps, clock), *near_tap_ns)
        if not has_flight and base.value is not None:
            # Of a segment that was sent again the first copy may be among what is missing, and its answer is soon.
            method = f"{base.method.partition(';')[0]}; much of the data was not captured: it may be more"
            base = Estimate(value=base.value, method=method)
    else:
        base = unknown("what was sent before the capture began is not known: nor which copy an ACK answers")
    if handshake_rtt_s is None and around_s is not None and base.low is not None:
        # Some answer came sooner than any that tells of a segment sent once: of ACKs that wait for their reader.
        base = replace(base, low=min(base.low, around_s))
    if is_ahead:
        base = replace(base, low=None, high=None)
    if by_rhythm:
        base = Estimate(value=base.value, method=f"{base.method.partition(';')[0]}, their times inferred")
    return base


def _is_timed(timeline: Timeline, handshake_rtt_s: float | None, clock: Clock) -> bool:
    """Whether the least round trip may be a path's: the clock tells it from none, and it is no small part of the
    handshake's."""
    samples = timeline.rtt[1]
    least = max(clock.doubt_ns, MINORITY * (handshake_rtt_s or 0.0) * 1e9)
    return not len(samples) or int(samples.min()) > least


def _swing_ns(seen: Reconstruction) -> float:
    """By how much round trips swell, but for the longest."""
    samples = seen.timeline.rtt[1]
    return float(np.percentile(samples, 100 * FULL_SHARE) - samples.min()) if len(samples) else 0.0


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


def _elsewhere(
    seen: Reconstruction, pps: Estimate, packet_bytes: int, handshake_rtt_s: float | None, around_s: float | None
) -> PathEstimate:
    """Away from the sender a data segment's round trip at the tap is a part of the path's, and so is its queue."""
    base = unknown("not captured at the sender, and no handshake")
    if handshake_rtt_s is not None:
        # A handshake may have been slow (a host that slept, a queue): only what was measured twice bounds from below,
        # and what was inferred measures nothing.
        _, samples = seen.timeline.rtt
        is_measured = len(samples) and not len(seen.timeline.slack)
        base = Estimate(
            value=handshake_rtt_s,
            low=min(float(samples.min()) / 1e9, handshake_rtt_s) if is_measured else None,
            # A full packet takes longer, at each node that it passes.
            high=None,
            method="the handshake's whole round trip, both sides of the tap (its packets are small)",
        )
    elif around_s is not None:
        # A host may take its time, and a queue have stood on either side.
        base = Estimate(value=around_s, method="the least from the tap to the sender and back, and to the receiver")
    return PathEstimate(
        base_rtt_s=base,
        bottleneck_bps=_scaled(pps, 8 * packet_bytes),
        bottleneck_pps=pps,
        bdp_packets=_product(base, pps),
        buffer_packets=unknown("not captured at the sender: the queue's delay is not in the round trips seen"),
        packet_bytes=packet_bytes,
        queue_at_loss=tuple(float("nan") for _ in seen.episodes),
        queue_max=float("nan"),
        own_queue_max=float("nan"),
        queue_jitter=0.0,
    )


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    def times(number: float | None) -> float | None:
        return None if number is None else number * factor

    return Estimate(
        value=times(estimate.value),
        low=times(estimate.low),
        high=times(estimate.high),
        method=estimate.method,
        between=None if estimate.between is None else (factor * estimate.between[0], factor * estimate.between[1]),
    )


def _product(base: Estimate, pps: Estimate) -> Estimate:
    if base.value is None or pps.value is None:
        return unknown("needs both the round trip and the rate")
    low = None if base.low is None or pps.low is None else base.low * pps.low
    high = None if base.high is None or pps.high is None else base.high * pps.high
    return Estimate(value=base.value * pps.value, low=low, high=high, method="base_rtt_s x bottleneck_pps")
