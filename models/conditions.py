"""The assumptions the papers share, each as a `Reason` that says whether a path and a control meet it."""

from __future__ import annotations

import math

from tcptrace_lab.models.prediction import Reason, reason

from tcptrace_lab.scenario import ControlSpec, NodeSpec, PathSpec


def is_tahoe(control: ControlSpec) -> Reason:
    """Every loss, however detected, ends in a slow start."""
    return reason(
        control.recovery == "tahoe",
        "the sender is Tahoe",
        f"the sender recovers as {control.recovery}: only Tahoe slow-starts after every loss",
    )


def is_standard_slow_start(control: ControlSpec) -> Reason:
    """One segment more per ACK (RFC 5681)."""
    return reason(
        control.slow_start == "standard",
        "slow start is standard",
        f"slow start is {control.slow_start}, not one segment per ACK",
    )


def has_window(control: ControlSpec, *wanted: str) -> Reason:
    """The window grows by one of the named rules."""
    return reason(
        control.window in wanted,
        f"the window grows as {control.window}",
        f"the window grows as {control.window}, not as {' or '.join(wanted)}",
    )


def acks_every_packet(control: ControlSpec) -> Reason:
    """The papers' receivers do not delay ACKs."""
    return reason(
        control.delayed_ack_segments == 1,
        "every packet is acknowledged",
        f"one ACK answers {control.delayed_ack_segments} packets; the paper's receiver acknowledges each",
    )


def no_limited_transmit(control: ControlSpec) -> Reason:
    """RFC 3042 moves the window at which a loss is detected."""
    return reason(
        not control.limited_transmit,
        "no limited transmit",
        "limited transmit (RFC 3042) sends new packets on the first two duplicate ACKs; the paper has none",
    )


def no_random_loss(path: PathSpec) -> Reason:
    """Packets are lost in full queues only."""
    random = loss_probability(path)
    forced = any(node.drop_packets for node in path.nodes)
    managed = sorted({node.queue for node in path.nodes if node.queue != "drop_tail"})
    managed += ["a policer" for node in path.nodes if math.isfinite(node.policer_bps)]
    return reason(
        random == 0 and not forced and not managed and path.ack_loss == 0,
        "packets are lost in full queues only",
        f"{managed[0]} loses packets before a queue is full"
        if managed
        else f"packets are lost outside the queues (probability {random:g}{', some by number' if forced else ''})",
    )


def has_random_loss(path: PathSpec) -> Reason:
    """A law of the form rate(p) needs a loss probability that does not come from the sender's own queue."""
    random = loss_probability(path)
    return reason(
        random > 0,
        f"packets are lost with probability {random:g}",
        "the path loses no packet at random: p would be the sender's own doing",
    )


def loss_probability(path: PathSpec) -> float:
    """That a data packet is lost on some link behind a queue."""
    return 1 - math.prod(1 - node.loss for node in path.nodes)


def is_return_free(path: PathSpec, *, option_bytes: int = 0) -> Reason:
    """ACKs, their options included, never queue: each node of the way back is faster than ACKs can come."""
    acks_bps = 8 * (path.ack_bytes + option_bytes) * path.mu_pps
    slow = [node.rate_bps for node in path.reverse if node.rate_bps < acks_bps]
    return reason(
        not slow,
        "the return path does not queue ACKs",
        f"ACKs queue on the return path ({min(slow, default=0):g} bit/s for {acks_bps:g} bit/s of ACKs)",
    )


def has_finite_buffer(path: PathSpec, node: NodeSpec) -> Reason:
    """A buffer that overflows, of one waiting place or more."""
    places = path.waiting_places(node)
    finite = node.rate_bps < math.inf
    return reason(
        1 <= places < math.inf and finite,
        f"B = {places:g} packets wait at the bottleneck",
        "the bottleneck's buffer never overflows"
        if places == math.inf or not finite
        else f"B = {places:g} waiting places (< 1)",
    )


def has_delay(path: PathSpec) -> Reason:
    """A pipe to fill."""
    delay_s = path.propagation_rtt_s
    return reason(delay_s > 0, f"the pipe holds mu tau = {path.mu_pps * delay_s:.6g} packets", "no propagation delay")


def upstream(path: PathSpec) -> tuple[NodeSpec, ...]:
    """The nodes before the bottleneck, the access link first where it has a rate."""
    before = path.nodes[: path.nodes.index(path.bottleneck)]
    if path.access_rate_bps == math.inf:
        return before
    return (NodeSpec(rate_bps=path.access_rate_bps, delay_s=path.access_delay_s), *before)


def is_fed_by_bursts(path: PathSpec) -> Reason:
    """Every node before the bottleneck is at least twice as fast: slow start's pairs of packets cross it unchanged."""
    slow = [node.rate_bps for node in upstream(path) if node.rate_bps < 2 * path.bottleneck.rate_bps]
    return reason(
        not slow,
        "every node before the bottleneck is at least twice as fast",
        f"a node before the bottleneck is slower than 2 mu ({min(slow, default=0):g} bit/s) and holds part of a burst",
    )


def window_is_free(control: ControlSpec, w_max: float) -> Reason:
    """No limit on the window below the one at which the network loses a packet."""
    return reason(
        control.max_window > w_max,
        "the window is limited by the network only",
        f"the window is limited to {control.max_window:g} packets, below W_max = {w_max:g}: nothing is lost",
    )
