"""CUBIC's response function (RFC 9438 section 5): the average window at a loss rate.

With a loss every 1/p packets CUBIC lives in its concave region. Units: packets, packets/s, seconds; C in packets/s^3.
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
from tcptrace_lab.models.textbook.law import LOSS, ROUND_TRIP, is_below_link, shared_reasons

from tcptrace_lab.scenario import ControlSpec, PathSpec

C = Parameter(name="c", unit="packets/s^3", meaning="C, the scale of the cubic function", example=0.4)
BETA = Parameter(name="beta_cubic", unit="1", meaning="what a loss leaves of the window", example=0.7, high=1.0)


def window_cubic(loss: ArrayLike, round_trip: ArrayLike, c: ArrayLike = 0.4, beta_cubic: ArrayLike = 0.7) -> FloatArray:
    """AVG_W_cubic, packets: (C (3 + beta) / (4 (1 - beta)))^(1/4) RTT^(3/4) / p^(3/4)."""
    beta = BETA.check(beta_cubic)
    scale = C.check(c) * (3 + beta) / (4 * (1 - beta))
    return scale**0.25 * (ROUND_TRIP.check(round_trip) / LOSS.check(loss)) ** 0.75


def window_reno(loss: ArrayLike) -> FloatArray:
    """Reno's average window, packets: 1.2 / sqrt(p), as the RFC's tables take it from RFC 3649."""
    return 1.2 / np.sqrt(LOSS.check(loss))


def window(loss: ArrayLike, round_trip: ArrayLike, c: ArrayLike = 0.4, beta_cubic: ArrayLike = 0.7) -> FloatArray:
    """The tables' CUBIC columns, packets: the larger of both, CUBIC being Reno-friendly (section 4.3)."""
    return np.maximum(window_cubic(loss, round_trip, c, beta_cubic), window_reno(loss))


@dataclass(frozen=True)
class CubicResponse:
    """The response function as a model of paths that lose packets at random."""

    name: str = "cubic_response"
    paper: str = "RFC 9438, CUBIC for fast and long-distance networks, section 5"
    parameters: tuple[Parameter, ...] = (LOSS, ROUND_TRIP, C, BETA)

    def applies_to(self, path: PathSpec, control: ControlSpec) -> Applicability:
        """Random loss and a CUBIC window."""
        reasons = shared_reasons(path, control, "cubic")
        if conditions.has_random_loss(path).holds and path.base_rtt_s > 0:
            values = self.inputs(path, control)
            size = float(window(**values))
            rate = size / values["round_trip"]
            # The window at a loss is at most 1 / beta times the average.
            reasons = (*reasons, is_below_link(path, rate), conditions.window_is_free(control, size / 0.7))
        return Applicability(reasons)

    def inputs(self, path: PathSpec, control: ControlSpec) -> dict[str, float]:
        """p and the round trip without queueing; the RFC's C and beta_cubic."""
        return {
            "loss": conditions.loss_probability(path),
            "round_trip": path.base_rtt_s,
            "c": 0.4,
            "beta_cubic": 0.7,
        }

    def evaluate(self, **parameters: ArrayLike) -> dict[str, Quantity]:
        """Average windows and throughput."""
        loss, round_trip, c, beta = np.broadcast_arrays(*checked(self, parameters))
        average = window(loss, round_trip, c, beta)
        rows: tuple[tuple[str, FloatArray, str], ...] = (
            ("window_cubic", window_cubic(loss, round_trip, c, beta), "packets"),
            ("window_reno", window_reno(loss), "packets"),
            ("mean_window", average, "packets"),
            ("throughput", average / round_trip, "packets/s"),
        )
        return {name: Quantity(value=value, unit=unit, equation="section 5") for name, value, unit in rows}

    def predict(self, path: PathSpec, control: ControlSpec) -> Prediction:
        """The throughput that the loss allows, and whether CUBIC is in its Reno-friendly region."""
        require_applies(self, path, control)
        inputs = self.inputs(path, control)
        found = self.evaluate(**inputs)
        ratio = float(found["window_cubic"].value / found["window_reno"].value)
        return Prediction(
            model=self.name,
            paper=self.paper,
            inputs=named(self, inputs),
            quantities=found,
            equations=("section 5, AVG_W_cubic",),
            regime="cubic" if ratio > 1 else "reno_friendly",
            margin=abs(ratio - 1),
        )
