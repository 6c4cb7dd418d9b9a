"""Reno's throughput with timeouts and a limited window (Padhye, Firoiu, Towsley, Kurose 1998, "PFTK").

"Modeling TCP Throughput: A Simple Model and its Empirical Validation", SIGCOMM '98. Losses are independent between
rounds; once one packet of a round is lost, so is the rest of the round. Units: packets, packets/s, seconds. p is the
probability that a packet is lost given that the one before was not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from tcptrace_lab.models import conditions
from tcptrace_lab.models.prediction import (
    Applicability,
    FloatArray,
    Parameter,
    Prediction,
    Quantity,
    checked,
    named,
    require_applies,
)
from tcptrace_lab.models.textbook.law import (
    ACK_SEGMENTS,
    LOSS,
    ROUND_TRIP,
    UNLIMITED,
    W_MAX,
    is_below_link,
    shared_reasons,
)

from tcptrace_lab.scenario import ControlSpec, PathSpec

TIMEOUT = Parameter(name="timeout", unit="s", meaning="T_0, the first timeout of a series", example=1.0)


def expected_window(loss: ArrayLike, ack_segments: ArrayLike) -> FloatArray:
    """E[W_u], packets: the window at a loss, without the receiver's limit.

    (2 + b)/(3 b) + sqrt(8 (1 - p)/(3 b p) + ((2 + b)/(3 b))^2).
    """
    p, b = LOSS.check(loss), ACK_SEGMENTS.check(ack_segments)
    base = (2 + b) / (3 * b)
    return base + np.sqrt(8 * (1 - p) / (3 * b * p) + base**2)


def timeout_probability(loss: ArrayLike, window: ArrayLike) -> FloatArray:
    """Q(p, w): that a loss in a window of w packets is found by a timeout, not by three duplicate ACKs.

    min(1, (1 - (1-p)^3)(1 + (1-p)^3 (1 - (1-p)^(w-3))) / (1 - (1-p)^w)); near 3/w for small p. Certain below w = 3.
    """
    p, w = LOSS.check(loss), W_MAX.check(window)
    # log1p and expm1 keep the small p for which 1 - (1-p)^w is all cancellation.
    keep = np.log1p(-p)
    three, beyond, whole = -np.expm1(3 * keep), -np.expm1((w - 3) * keep), -np.expm1(w * keep)
    return np.where(w <= 3, 1.0, np.minimum(1.0, three * (1 + np.exp(3 * keep) * beyond) / whole))


def backoff(loss: ArrayLike) -> FloatArray:
    """f(p) = 1 + p + 2 p^2 + 4 p^3 + 8 p^4 + 16 p^5 + 32 p^6: a series of timeouts lasts T_0 f(p) / (1 - p)."""
    p = LOSS.check(loss)
    return 1 + p + 2 * p**2 + 4 * p**3 + 8 * p**4 + 16 * p**5 + 32 * p**6


def throughput(
    loss: ArrayLike,
    round_trip: ArrayLike,
    timeout: ArrayLike,
    ack_segments: ArrayLike = 1,
    w_max: ArrayLike = UNLIMITED,
) -> FloatArray:
    """The full model's B(p), packets/s sent (retransmissions count)."""
    p, rtt, t_0 = LOSS.check(loss), ROUND_TRIP.check(round_trip), TIMEOUT.check(timeout)
    b, limit = ACK_SEGMENTS.check(ack_segments), W_MAX.check(w_max)
    free = expected_window(p, b)
    is_limited = free >= limit
    window = np.where(is_limited, limit, free)
    q = timeout_probability(p, np.maximum(window, 1))
    rounds = np.where(is_limited, b / 8 * limit + (1 - p) / (p * limit) + 2, b / 2 * free + 1)
    packets = (1 - p) / p + window + q / (1 - p)
    return packets / (rtt * rounds + q * t_0 * backoff(p) / (1 - p))


def throughput_approximate(
    loss: ArrayLike,
    round_trip: ArrayLike,
    timeout: ArrayLike,
    ack_segments: ArrayLike = 1,
    w_max: ArrayLike = UNLIMITED,
) -> FloatArray:
    """The approximate model, packets/s (RFC 5348 uses it): the smaller of W_m / RTT and

    1 / (RTT sqrt(2 b p / 3) + T_0 min(1, 3 sqrt(3 b p / 8)) p (1 + 32 p^2)).
    """
    p, rtt, t_0 = LOSS.check(loss), ROUND_TRIP.check(round_trip), TIMEOUT.check(timeout)
    b, limit = ACK_SEGMENTS.check(ack_segments), W_MAX.check(w_max)
    waits = t_0 * np.minimum(1, 3 * np.sqrt(3 * b * p / 8)) * p * (1 + 32 * p**2)
    result: FloatArray = np.minimum(limit / rtt, 1 / (rtt * np.sqrt(2 * b * p / 3) + waits))
    return result


@dataclass(frozen=True)
class Pftk:
    """PFTK as a model of paths that lose packets at random."""

    name: str = "pftk"
    paper: str = "Padhye, Firoiu, Towsley & Kurose 1998, Modeling TCP throughput (SIGCOMM)"
    parameters: tuple[Parameter, ...] = (LOSS, ROUND_TRIP, TIMEOUT, ACK_SEGMENTS, W_MAX)

    def applies_to(self, path: PathSpec, control: ControlSpec) -> Applicability:
        """Random loss and a Reno window."""
        reasons = shared_reasons(path, control, "reno")
        if conditions.has_random_loss(path).holds and path.base_rtt_s > 0:
            rate = float(throughput(**self.inputs(path, control)))
            reasons = (*reasons, is_below_link(path, rate))
        return Applicability(reasons)

    def inputs(self, path: PathSpec, control: ControlSpec) -> dict[str, float]:
        """p, the round trip without queueing, the RTO on it, packets per ACK, the window's limit."""
        return {
            "loss": conditions.loss_probability(path),
            "round_trip": path.base_rtt_s,
            # RFC 6298 (2.3) on a steady round trip: RTTVAR goes to 0 and the granularity stays.
            "timeout": max(control.rto.min_s, path.base_rtt_s + control.rto.granularity_s),
            "ack_segments": float(control.delayed_ack_segments),
            "w_max": min(control.max_window, UNLIMITED),
        }

    def evaluate(self, **parameters: ArrayLike) -> dict[str, Quantity]:
        """Window at a loss, share of timeouts, throughput by both models."""
        loss, round_trip, timeout, segments, limit = np.broadcast_arrays(*checked(self, parameters))
        free = expected_window(loss, segments)
        rows: tuple[tuple[str, FloatArray, str, str], ...] = (
            ("E_W_u", free, "packets", "full model, E[W_u]"),
            ("Q", timeout_probability(loss, np.maximum(np.minimum(free, limit), 1)), "1", "full model, Q(p, w)"),
            ("f", backoff(loss), "1", "full model, f(p)"),
            ("is_window_limited", (free >= limit).astype(np.float64), "1", "full model"),
            ("throughput", throughput(loss, round_trip, timeout, segments, limit), "packets/s", "full model, B(p)"),
            (
                "throughput_approximate",
                throughput_approximate(loss, round_trip, timeout, segments, limit),
                "packets/s",
                "approximate model",
            ),
        )
        return {name: Quantity(value=value, unit=unit, equation=equation) for name, value, unit, equation in rows}

    def predict(self, path: PathSpec, control: ControlSpec) -> Prediction:
        """The throughput that losses, timeouts and the window's limit allow."""
        require_applies(self, path, control)
        inputs = self.inputs(path, control)
        found = self.evaluate(**inputs)
        is_limited = bool(found["is_window_limited"].value)
        return Prediction(
            model=self.name,
            paper=self.paper,
            inputs=named(self, inputs),
            quantities=found,
            equations=("full model, B(p)",),
            regime="window_limited" if is_limited else "loss_limited",
            margin=abs(float(found["E_W_u"].value) / inputs["w_max"] - 1),
        )
