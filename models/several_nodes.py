"""Several bottleneck nodes: which queue overflows in slow start, and the two-node model (Barakat & Altman 2000).

C. Barakat, E. Altman, "Analysis of TCP with Several Bottleneck Nodes". Before the main bottleneck (mu packets/s, B
waiting places) stand n nodes of rates 2 mu > mu_1 > ... > mu_n > mu with B_1 ... B_n places; T seconds are the round
trip without queueing, propagation and service. One Tahoe connection, an ACK for every packet.

Units: packets, packets/s, seconds. The nodes are the last axis of `rates` and `buffers`, in the order in which a packet
meets them; other axes are the user's and broadcast. The paper does not number its equations: sections are cited.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tcptrace_lab.models import conditions
from tcptrace_lab.models.avoidance import cycle_throughput
from tcptrace_lab.models.prediction import (
    Applicability,
    FloatArray,
    Parameter,
    Prediction,
    Quantity,
    Reason,
    checked,
    named,
    reason,
    require_applies,
)

from tcptrace_lab.scenario import ControlSpec, NodeSpec, PathSpec

BUFFER = Parameter(name="buffer", unit="packets", meaning="B, waiting places at the main bottleneck", example=50)
MU = Parameter(name="mu", unit="packets/s", meaning="the main bottleneck's rate", example=1.5e6 / 4096)
ROUND_TRIP = Parameter(name="round_trip", unit="s", meaning="T, propagation and service, no queue", example=0.56)
UPSTREAM_BUFFER = Parameter(name="upstream_buffer", unit="packets", meaning="B', places before N_mu", example=80)
UPSTREAM_RATE = Parameter(name="upstream_rate", unit="packets/s", meaning="mu', rate before N_mu", example=500.0)
WINDOW = Parameter(name="window", unit="packets", meaning="W", example=250.0)


def burst_sizes(
    rates: ArrayLike, buffers: ArrayLike, mu: ArrayLike, buffer: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """S_1 ... S_n and S: the packets of a burst at 2 mu that overflow each node ("The behavior of TCP during SS").

    S_1 = 2 mu B_1 / (2 mu - mu_1), S_i = mu_(i-1) B_i / (mu_(i-1) - mu_i), S = mu_n B / (mu_n - mu). A node no slower
    than what feeds it has no queue: its S is infinite. `rates`, `buffers`: nodes on the last axis.
    """
    mu_i, b_i = UPSTREAM_RATE.check(rates), UPSTREAM_BUFFER.check(buffers)
    main, places = MU.check(mu), BUFFER.check(buffer)
    feeding = np.concatenate([2 * main[..., None] * np.ones_like(mu_i[..., :1]), mu_i[..., :-1]], axis=-1)
    # The paper orders the nodes so that each is slower than the one before; a faster one passes on what it gets.
    feeding = np.minimum.accumulate(feeding, axis=-1)
    last = np.minimum(feeding[..., -1], mu_i[..., -1]) if mu_i.shape[-1] else 2 * main
    return _fill(feeding, b_i, mu_i), _fill(last, places, main)


def _fill(feeding: FloatArray, places: FloatArray, rate: FloatArray) -> FloatArray:
    """A burst arriving at `feeding` that fills `places` while `rate` leaves; infinite if it leaves as fast."""
    surplus = feeding - rate
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(surplus > 0, feeding * places / surplus, np.inf)


def n_b(burst: ArrayLike) -> FloatArray:
    """The mini-cycle of the first loss: 2^(n_B - 1) < S_B <= 2^n_B. Infinite where S_B is."""
    size = np.asarray(burst, dtype=np.float64)
    mantissa, exponent = np.frexp(size)
    cycle = np.where(mantissa == 0.5, exponent - 1, exponent).astype(np.float64)
    return np.where(np.isinf(size), np.inf, cycle)


def w_b(burst: ArrayLike) -> FloatArray:
    """The window, packets, at which a slow start overflows a node filled by a burst S_B: 2^(n_B - 1) + S_B / 2."""
    result: FloatArray = 2 ** (n_b(burst) - 1) + np.asarray(burst, dtype=np.float64) / 2
    return result


def w_max(buffer: ArrayLike, mu: ArrayLike, round_trip: ArrayLike) -> FloatArray:
    """W_max = B + mu T, packets. B belongs to the node of rate mu that is closest to the source."""
    return BUFFER.check(buffer) + MU.check(mu) * ROUND_TRIP.check(round_trip)


def w_threshold(buffer: ArrayLike, mu: ArrayLike, round_trip: ArrayLike) -> FloatArray:
    """W_th = W_max / 2 = (mu T + B) / 2, packets."""
    return w_max(buffer, mu, round_trip) / 2


def r_ca(window: ArrayLike, mu: ArrayLike) -> FloatArray:
    """R_CA = (W + 1) mu / W: the average rate, packets/s, at which congestion avoidance sends once W > mu T."""
    packets = WINDOW.check(window)
    return (packets + 1) * MU.check(mu) / packets


def equivalent_node(
    rates: ArrayLike, buffers: ArrayLike, mu: ArrayLike, buffer: ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """mu', B', S' of the one node that stands for N_1 ... N_n ("A simplified model with two bottleneck nodes").

    mu' = mu_n, S' = min S_i, B' = S' (2 mu - mu') / (2 mu). Units: packets/s, packets, packets.
    """
    mu_i, main = UPSTREAM_RATE.check(rates), MU.check(mu)
    if mu_i.shape[-1:] in ((), (0,)):
        raise ValueError("rates: must hold one node or more")
    # The rate at which the bottleneck is fed: mu_n in the paper's order.
    rate = np.minimum(mu_i.min(axis=-1), 2 * main)
    burst = burst_sizes(mu_i, buffers, main, buffer)[0].min(axis=-1)
    return rate, burst * (2 * main - rate) / (2 * main), burst


def required_buffers(mu: ArrayLike, round_trip: ArrayLike, buffer: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """The guideline: B > mu T / 3 and B' > (mu T + B) / 4, packets; the two right sides."""
    pipe = MU.check(mu) * ROUND_TRIP.check(round_trip)
    return pipe / 3, (pipe + BUFFER.check(buffer)) / 4


def required_buffers_exact(
    mu: ArrayLike, round_trip: ArrayLike, buffer: ArrayLike, upstream_buffer: ArrayLike
) -> NDArray[np.bool_]:
    """Whether mu T + B < 2^n_B + 2 B and mu T + B < 2^n'_B + 2 B' (n'_B from 2 B'): no loss in slow start for any mu'.

    What the guideline approximates with 2^n_B = 2 B.
    """
    places, before = BUFFER.check(buffer), UPSTREAM_BUFFER.check(upstream_buffer)
    wanted = w_max(places, mu, round_trip)
    result: NDArray[np.bool_] = (wanted < 2 * w_b(2 * places)) & (wanted < 2 * w_b(2 * before))
    return result


def slow_starts(burst: ArrayLike, buffer: ArrayLike, mu: ArrayLike, round_trip: ArrayLike) -> NDArray[np.int64]:
    """1 where W_th < W_B (no loss in slow start), else 2 (the paper does not ask for a third)."""
    return np.where(w_threshold(buffer, mu, round_trip) < w_b(burst), 1, 2)


def throughput(burst: ArrayLike, buffer: ArrayLike, mu: ArrayLike, round_trip: ArrayLike) -> FloatArray:
    """Packets/s over a cycle: one slow start to W_th, or two (to min(W_th, 2 W_B), then half), then up to W_max.

    Differs: the paper simulates its throughputs; this is its description of the window, integrated (avoidance.py).
    """
    end, threshold = w_max(buffer, mu, round_trip), w_threshold(buffer, mu, round_trip)
    is_double = slow_starts(burst, buffer, mu, round_trip) == 2
    detected = np.minimum(threshold, 2 * w_b(burst))
    start = np.where(is_double, detected / 2, threshold)
    return cycle_throughput(start, end, mu, round_trip, [np.where(is_double, detected, 0), start])


@dataclass(frozen=True)
class SeveralNodes:
    """The two-node model: `evaluate` takes mu', B' of the equivalent node; `inputs` reduces a path to it."""

    name: str = "several_nodes"
    paper: str = "Barakat & Altman 2000, Analysis of TCP with several bottleneck nodes"
    parameters: tuple[Parameter, ...] = (BUFFER, MU, ROUND_TRIP, UPSTREAM_RATE, UPSTREAM_BUFFER)

    def applies_to(self, path: PathSpec, control: ControlSpec) -> Applicability:
        """Figure 1's model: a Tahoe sender, nodes between mu and 2 mu before the main bottleneck, no other loss."""
        return Applicability(
            (
                conditions.is_tahoe(control),
                conditions.is_standard_slow_start(control),
                conditions.has_window(control, "reno"),
                conditions.acks_every_packet(control),
                conditions.has_finite_buffer(path, path.bottleneck),
                _has_upstream_node(path),
                conditions.is_return_free(path),
                conditions.no_random_loss(path),
                conditions.has_delay(path),
                _is_above_r_ca(path),
                conditions.window_is_free(control, _pipe(path) + path.waiting_places(path.bottleneck)),
            )
        )

    def inputs(self, path: PathSpec, control: ControlSpec) -> dict[str, float]:
        """B, mu, T, and the node equivalent to those that are slower than 2 mu."""
        nodes = _slow_upstream(path)
        places = path.waiting_places(path.bottleneck)
        # A queue that never fills asks for no more than a number larger than any burst.
        held = [min(path.waiting_places(node), 1e12) for node in nodes]
        rates = [node.rate_bps / (8 * path.packet_bytes) for node in nodes]
        rate, before, _ = equivalent_node(rates, held, path.mu_pps, places)
        return {
            "buffer": places,
            "mu": path.mu_pps,
            "round_trip": path.base_rtt_s,
            "upstream_rate": float(rate),
            "upstream_buffer": float(before),
        }

    def evaluate(self, **parameters: ArrayLike) -> dict[str, Quantity]:
        """Every symbol of the paper for the two-node model."""
        b, mu, round_trip, rate, before = np.broadcast_arrays(*checked(self, parameters))
        upstream_burst, main_burst = burst_sizes(rate[..., None], before[..., None], mu, b)
        upstream_burst = upstream_burst[..., 0]
        burst = np.minimum(upstream_burst, main_burst)
        overflow, threshold = w_b(burst), w_threshold(b, mu, round_trip)
        need, need_before = required_buffers(mu, round_trip, b)
        packets = {
            "S": main_burst,
            "S_upstream": upstream_burst,
            "S_B": burst,
            "W_B": overflow,
            "W_th": threshold,
            "W_max": w_max(b, mu, round_trip),
            "B_required": need,
            "B_upstream_required": need_before,
        }
        numbers = {
            "slow_starts": slow_starts(burst, b, mu, round_trip),
            "n_B": n_b(burst),
            "overflows_upstream": (upstream_burst < main_burst).astype(np.int64),
            "margin": np.abs(threshold / overflow - 1),
        }
        rates = {
            "R_CA": r_ca(np.maximum(mu * round_trip, 1), mu),
            "throughput": throughput(burst, b, mu, round_trip),
        }
        return {
            name: Quantity(value=value, unit=unit, equation=_SECTIONS[name])
            for unit, group in (("packets", packets), ("1", numbers), ("packets/s", rates))
            for name, value in group.items()
        }

    def predict(self, path: PathSpec, control: ControlSpec) -> Prediction:
        """One slow start or two, and which node overflows."""
        require_applies(self, path, control)
        inputs = self.inputs(path, control)
        found = self.evaluate(**inputs)
        is_single = int(found["slow_starts"].value) == 1
        where = "a node before the main bottleneck" if found["overflows_upstream"].value else "the main bottleneck"
        note = "no loss in slow start" if is_single else f"{where} overflows in slow start"
        return Prediction(
            model=self.name,
            paper=self.paper,
            inputs=named(self, inputs),
            quantities=found,
            equations=("S_i, S", "S_B = min", "2^(n_B-1) < S_B <= 2^n_B", "W_th < W_B" if is_single else "W_th >= W_B"),
            regime="single" if is_single else "double",
            margin=float(found["margin"].value),
            notes=(note,),
        )


_SECTIONS = dict.fromkeys(("S", "S_upstream", "S_B", "W_B", "n_B", "slow_starts", "margin"), "behavior during SS") | {
    "W_th": "behavior during SS",
    "W_max": "behavior during CA",
    "R_CA": "behavior during CA",
    "overflows_upstream": "two bottleneck nodes",
    "B_required": "TCP performance with the simplified model",
    "B_upstream_required": "TCP performance with the simplified model",
    "throughput": "not in the paper",
}


def _slow_upstream(path: PathSpec) -> tuple[NodeSpec, ...]:
    """The nodes before the bottleneck at which a burst at 2 mu can queue."""
    return tuple(node for node in conditions.upstream(path) if node.rate_bps < 2 * path.bottleneck.rate_bps)


def _pipe(path: PathSpec) -> float:
    return path.mu_pps * path.base_rtt_s


def _has_upstream_node(path: PathSpec) -> Reason:
    count = len(_slow_upstream(path))
    return reason(
        count > 0,
        f"{count} node(s) before the main bottleneck are slower than 2 mu",
        "no node before the main bottleneck is slower than 2 mu: a single bottleneck (small_buffers)",
    )


def _is_above_r_ca(path: PathSpec) -> Reason:
    rates = [node.rate_bps / (8 * path.packet_bytes) for node in _slow_upstream(path)]
    pipe = _pipe(path)
    if not np.isfinite(pipe) or path.mu_pps == np.inf:
        return Reason(holds=False, text="the bottleneck has no rate")
    limit = float(r_ca(max(pipe, 1.0), path.mu_pps))
    return reason(
        min(rates, default=limit) >= limit,
        f"every node before the bottleneck is faster than R_CA = {limit:.6g} packets/s",
        f"a node before the bottleneck is slower than R_CA = {limit:.6g} packets/s: it queues in avoidance too",
    )
