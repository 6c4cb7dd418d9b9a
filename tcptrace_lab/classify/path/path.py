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

from tcptrace_lab import _core
from tcptrace_lab.classify.path.base_rtt import later, least_alike_ns, least_rtt
from tcptrace_lab.classify.path.buffer_by_losses import buffer_by_losses
from tcptrace_lab.classify.path.captured import Captured
from tcptrace_lab.classify.path.managed import NOT_MANAGED, Managed, losses_of_codel
from tcptrace_lab.classify.path.policed import Policed, losses_of_policer, not_policed
from tcptrace_lab.classify.path.queues import jitter_of, longest_queue, own_queue, queues
from tcptrace_lab.classify.path.rate import BUSY_PACKETS, bottleneck_rate
from tcptrace_lab.classify.path.shared import Other, less_standing, rate_beside, shares_queue
from tcptrace_lab.reconstruct.estimate import Estimate, unknown
from tcptrace_lab.reconstruct.given import FULL_SHARE, MINORITY
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.tap.clock import Clock
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
    seen: Reconstruction, captured: Captured, *, beside: Callable[[], Sequence[Reconstruction]] = tuple
) -> PathEstimate:
    """Every estimate that the flow's ACKs allow from where they were captured, none finer than the clock.

    `beside` gives the capture's other flows. Those whose round trips rise and fall with this one's share its queue.
    """
    timeline, clock = seen.timeline, captured.clock
    packet_bytes = timeline.smss + timeline.header_bytes
    pps = bottleneck_rate(seen, clock, has_flight=captured.has_flight, has_losses=captured.has_losses)
    pps = _without_bound(seen, pps, captured)
    if captured.vantage in ("receiver", "middle"):
        return _elsewhere(seen, pps, packet_bytes, captured)
    # Across a step back of the clock what another flow met at the same time is not told.
    is_told = len(timeline.rtt[0]) > 0 and not clock.steps_back
    flows = [(other, shares_queue(seen, other, pps)) for other in (beside() if is_told else ())]
    pps = rate_beside(seen, flows, pps, clock)
    base, standing_ns = less_standing(seen, flows, _base(seen, flows, pps, captured), pps)
    met = queues(seen, pps.value, standing_ns)
    at_loss, _, queue = met
    managed = losses_of_codel(seen, pps.value)
    is_other = any(managed.is_codel) or not (captured.has_losses and captured.has_flight) or captured.by_rhythm
    policed = not_policed("when its losses left is not known", len(at_loss)) if is_other else losses_of_policer(seen)
    bdp = _product(base, pps)
    return PathEstimate(
        base_rtt_s=base,
        bottleneck_bps=_scaled(pps, 8 * packet_bytes),
        bottleneck_pps=pps,
        bdp_packets=bdp,
        buffer_packets=buffer_by_losses(seen, captured, (base, pps, bdp), met, managed),
        packet_bytes=packet_bytes,
        queue_at_loss=at_loss,
        queue_max=longest_queue(queue),
        own_queue_max=longest_queue(own_queue(seen) if len(queue) else queue),
        queue_jitter=0.0 if pps.value is None or not len(queue) else jitter_of(seen, pps.value, queue),
        managed=managed,
        policed=policed,
    )


def _without_bound(seen: Reconstruction, pps: Estimate, captured: Captured) -> Estimate:
    """The rate, without an upper bound where nothing shows that its packets waited in a queue."""
    clock, handshake_rtt_s = captured.clock, captured.handshake_rtt_s
    if captured.by_reader and pps.value is not None and pps.high is not None:
        method = f"{pps.method}; it may be the pace at which the receiver read"
        pps = Estimate(value=pps.value, low=pps.low, high=None, method=method)
    if pps.high is not None and not _is_timed(seen.timeline, handshake_rtt_s, clock):
        # By a least round trip of nothing every run met a queue, whoever set its pace.
        pps = replace(pps, high=None, method=f"{pps.method}; no time passes on the path: whether it waited is not told")
    if captured.is_ahead and pps.high is not None and _swing_ns(seen) < AHEAD_FACTOR * clock.resolution_ns:
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
    captured: Captured,
) -> Estimate:
    """The least round trip."""
    handshake_rtt_s, has_flight = captured.handshake_rtt_s, captured.has_flight
    if has_flight or seen.timeline.has_start:
        # Where the others were met is not known of all: each that was not captured from its beginning, or whose round
        # trips do not tell, may have stood in the queue.
        unsure = [other for other, shares in flows if shares is None or (shares and not other.timeline.has_start)]
        base = least_rtt(seen, unsure, handshake_rtt_s, pps, captured.clock)
        base = later(base, captured.before_ns, captured.near_ns)
        if not has_flight and base.value is not None:
            # Of a segment that was sent again the first copy may be among what is missing, and its answer is soon.
            method = f"{base.method.partition(';')[0]}; much of the data was not captured: it may be more"
            base = Estimate(value=base.value, method=method)
    else:
        base = unknown("what was sent before the capture began is not known: nor which copy an ACK answers")
    if handshake_rtt_s is None and captured.around_s is not None and base.low is not None:
        # Some answer came sooner than any that tells of a segment sent once: of ACKs that wait for their reader.
        base = replace(base, low=min(base.low, captured.around_s))
    if captured.is_ahead:
        base = replace(base, low=None, high=None)
    if captured.by_rhythm:
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
    return float(_core.percentile(samples, 100 * FULL_SHARE) - samples.min()) if len(samples) else 0.0


def _elsewhere(seen: Reconstruction, pps: Estimate, packet_bytes: int, captured: Captured) -> PathEstimate:
    """Away from the sender a data segment's round trip at the tap is a part of the path's, and so is its queue."""
    handshake_rtt_s, around_s = captured.handshake_rtt_s, captured.around_s
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
