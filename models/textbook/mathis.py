"""The square-root law (Mathis, Semke, Mahdavi, Ott 1997).

"The Macroscopic Behavior of the TCP Congestion Avoidance Algorithm", CCR 27(3). With one loss every 1/p packets the
window goes W/2 to W in a saw-tooth; no timeout, no limit by the receiver. Units: packets, packets/s, seconds.
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
from tcptrace_lab.models.textbook.law import ACK_SEGMENTS, LOSS, ROUND_TRIP, is_below_link, shared_reasons

from tcptrace_lab.scenario import ControlSpec, PathSpec


def constant(ack_segments: ArrayLike) -> FloatArray:
    """C of equation (3), a pure number: sqrt(3 / (2 b)), sqrt(3/2) with an ACK per packet and sqrt(3/4) with b = 2."""
    return np.sqrt(3 / (2 * ACK_SEGMENTS.check(ack_segments)))


def peak_window(loss: ArrayLike, ack_segments: ArrayLike) -> FloatArray:
    """W, packets, at which the saw-tooth breaks: 3/8 b W^2 = 1/p packets per tooth, so W = sqrt(8 / (3 b p))."""
    return np.sqrt(8 / (3 * ACK_SEGMENTS.check(ack_segments) * LOSS.check(loss)))


def throughput(loss: ArrayLike, round_trip: ArrayLike, ack_segments: ArrayLike = 1) -> FloatArray:
    """Equation (3) in packets/s: C / (RTT sqrt(p)). Times the segment size it is the paper's BW."""
    return constant(ack_segments) / (ROUND_TRIP.check(round_trip) * np.sqrt(LOSS.check(loss)))


@dataclass(frozen=True)
class Mathis:
    """The law as a model of paths that lose packets at random."""

    name: str = "mathis"
    paper: str = "Mathis, Semke, Mahdavi & Ott 1997, The macroscopic behavior of the TCP congestion avoidance algorithm"
    parameters: tuple[Parameter, ...] = (LOSS, ROUND_TRIP, ACK_SEGMENTS)

    def applies_to(self, path: PathSpec, control: ControlSpec) -> Applicability:
        """Random loss that keeps a Reno window below the path's and the receiver's limits."""
        reasons = shared_reasons(path, control, "reno")
        if conditions.has_random_loss(path).holds and path.base_rtt_s > 0:
            values = self.inputs(path, control)
            peak = float(peak_window(values["loss"], values["ack_segments"]))
            rate = float(throughput(values["loss"], values["round_trip"], values["ack_segments"]))
            reasons = (*reasons, is_below_link(path, rate), conditions.window_is_free(control, peak))
        return Applicability(reasons)

    def inputs(self, path: PathSpec, control: ControlSpec) -> dict[str, float]:
        """p of the path, its round trip without queueing, packets per ACK."""
        return {
            "loss": conditions.loss_probability(path),
            "round_trip": path.base_rtt_s,
            "ack_segments": float(control.delayed_ack_segments),
        }

    def evaluate(self, **parameters: ArrayLike) -> dict[str, Quantity]:
        """Windows and throughput."""
        loss, round_trip, segments = np.broadcast_arrays(*checked(self, parameters))
        rate = throughput(loss, round_trip, segments)
        return {
            "C": Quantity(value=constant(segments), unit="1", equation="eq. 3"),
            "peak_window": Quantity(value=peak_window(loss, segments), unit="packets", equation="section 2"),
            "mean_window": Quantity(value=rate * round_trip, unit="packets", equation="eq. 3"),
            "throughput": Quantity(value=rate, unit="packets/s", equation="eq. 3"),
        }

    def predict(self, path: PathSpec, control: ControlSpec) -> Prediction:
        """The throughput that the loss allows."""
        require_applies(self, path, control)
        inputs = self.inputs(path, control)
        return Prediction(
            model=self.name,
            paper=self.paper,
            inputs=named(self, inputs),
            quantities=self.evaluate(**inputs),
            equations=("eq. 3",),
        )
