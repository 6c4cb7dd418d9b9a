"""An isolated Compound TCP connection as a model (Blanc, Avrachenkov & Collange 2008).

INRIA RR-6778. The parts: `compound_phases` (equations 3-12), `compound_oscillation` (13, 14, Table 1, Figures 3-5),
`compound_cases` (Figures 6-15), `compound_rounds` (ns-2.35's module, round by round), `compound_cuts` (its losses),
`compound_steps` (cases 1 to 3 of the draft's senders).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tcptrace_lab.models import compound_cases as cases
from tcptrace_lab.models import compound_cuts as cuts
from tcptrace_lab.models import compound_steps as steps
from tcptrace_lab.models import conditions
from tcptrace_lab.models.compound_oscillation import GAMMA, Rule, oscillation
from tcptrace_lab.models.prediction import (
    Applicability,
    Parameter,
    Prediction,
    Quantity,
    checked,
    named,
    reason,
    require_applies,
)

from tcptrace_lab.scenario import ControlSpec, PathSpec

MU = Parameter(name="mu", unit="packets/s", meaning="the bottleneck's rate", example=100e6 / 12000)
TAU = Parameter(name="tau", unit="s", meaning="propagation delay there and back", example=0.05)
BUFFER = Parameter(name="buffer", unit="packets", meaning="b, packets in the bottleneck, the one in service counted",
                   example=80, low=1, low_open=False)  # fmt: skip
BETA = Parameter(name="beta", unit="1", meaning="the share of the window cut off after a loss", example=0.5, high=1)

PER_ACK = Parameter(name="per_ack", unit="1", meaning="m, packets an ACK acknowledges", example=1, low=1,
                    low_open=False)  # fmt: skip

# The arithmetic of each window of the family.
ARITHMETIC = {"compound": "ns2", "compound-packets": "packets", "compound-draft": "draft"}
# Below w = alpha^(-1/k) = 16 packets the superlinear increase is less than the Reno part's 1 packet a round trip.
SMALLEST_BDP = 16.0


def case_map(bdp: ArrayLike, buffer: ArrayLike, gamma: ArrayLike = 30, rule: Rule | None = None) -> NDArray[np.int8]:
    """Figure 12: the case for mu tau and b in packets, broadcast; the oscillations are solved once per mu tau."""
    pipe = np.asarray(bdp, dtype=np.float64)
    top = oscillation(pipe, gamma, rule).theta_max
    return cases.case(BUFFER.check(buffer), cases.thresholds(pipe, top, gamma, rule=rule))


@dataclass(frozen=True)
class Compound:
    """The paper as a model: the case, the oscillation of phase 3, throughput and backlog."""

    name: str = "compound"
    paper: str = "Blanc, Avrachenkov & Collange 2008, Modelling an isolated Compound TCP connection (INRIA RR-6778)"
    parameters: tuple[Parameter, ...] = (BUFFER, MU, TAU, GAMMA, BETA, PER_ACK)
    rule: Rule = field(default_factory=Rule)

    def applies_to(self, path: PathSpec, control: ControlSpec) -> Applicability:
        """Section 2's model: one Compound sender, one FIFO bottleneck, no other traffic or loss."""
        bdp, b = path.mu_pps * path.propagation_rtt_s, path.waiting_places(path.bottleneck) + 1
        return Applicability(
            (
                conditions.has_window(control, *ARITHMETIC),
                reason(
                    control.recovery not in ("tahoe",),
                    "a loss halves the window",
                    "Tahoe slow-starts after a loss; the paper's sender halves its window",
                ),
                conditions.has_finite_buffer(path, path.bottleneck),
                conditions.is_return_free(path),
                conditions.no_random_loss(path),
                conditions.has_delay(path),
                reason(
                    bdp >= SMALLEST_BDP,
                    f"mu tau is {SMALLEST_BDP:g} packets or more",
                    f"mu tau = {bdp:.3g} packets: below {SMALLEST_BDP:g} Compound grows as Reno does",
                ),
                conditions.window_is_free(control, bdp + b),
            )
        )

    def inputs(self, path: PathSpec, control: ControlSpec) -> dict[str, float]:
        """b (one more than the waiting places), mu, tau, gamma, m; beta is Reno's half.

        A sender that counts what an ACK acknowledges (RFC 3465, the draft) grows as if every packet had its ACK: m = 1.
        """
        counts_packets = control.byte_counting or control.window != "compound"
        return {
            "buffer": path.waiting_places(path.bottleneck) + 1,
            "mu": path.mu_pps,
            "tau": path.propagation_rtt_s,
            "gamma": control.gamma,
            "beta": 0.5,
            "per_ack": 1 if counts_packets else control.delayed_ack_segments,
        }

    def evaluate(self, **parameters: ArrayLike) -> dict[str, Quantity]:
        """Case, oscillation, the cycle's windows and times, throughput and backlog."""
        b, mu, tau, gamma, beta, per_ack = checked(self, parameters)
        pipe = mu * tau
        # What the draft's real numbers and ns-2.35's oscillate by is known from a start at half the pipe.
        reno = (1 - beta) * (pipe + b) if self.rule.arithmetic == "packets" else None
        found = oscillation(pipe, gamma, self.rule, reno=reno)
        limits = cases.thresholds(pipe, found.theta_max, gamma, beta, rule=self.rule)
        number = cases.case(b, limits)
        steady = {"mu": mu, "tau": tau, "buffer": b, "theta": found.theta, "beta": beta, "per_ack": per_ack}
        one = cases.cycle(number, **steady, rule=self.rule)
        derived: dict[str, tuple[ArrayLike, str]] = {}
        if self.rule.steps_rounds:
            on = network(self.rule, mu=mu, tau=tau, buffer=b, gamma=gamma, beta=beta)
            if self.rule.arithmetic != "ns2":
                one = steps.cycle(number, one, on, self.rule)
            else:
                one = cuts.cycle(number, one, on)
                derived = {"b_second_cut": (cuts.second_cut_buffer(number, on), "section 4.1")}
        numbers: dict[str, tuple[ArrayLike, str]] = {
            "case": (number, "figure 13"),
            "oscillation_m": (found.rises, "table 1, figure 3"),
            "oscillation_n": (found.falls, "table 1, figure 3"),
            "oscillation_margin": (found.margin, "table 1"),
            "utilization": (np.minimum(one.throughput / mu, 1), "figure 14"),
            "margin": (cases.margin(b, limits), "figure 13"),
            "cuts": (one.cuts, "section 4.1"),
        }
        packets = {
            "bdp": (pipe, "section 2"),
            "theta_max": (found.theta_max, "eqs. 13, 14"),
            "theta_min": (found.theta_min, "eqs. 13, 14"),
            "theta": (found.theta, "section 4.4"),
            "amplitude": (found.amplitude, "figure 5"),
            "w_f": (one.w_end, "section 4"),
            "w_after_loss": (one.w_start, "section 4"),
            "lost": (one.lost, "section 4.1"),
            "backlog": (one.backlog, "figure 15"),
            "b_burst": (limits.burst, "section 2.1"),
            "b_oscillation": (limits.oscillation, "section 4.2"),
            "b_emptying": (limits.emptying, "section 4.2"),
            "b_linear": (limits.linear, "section 4.6"),
        } | derived
        times = {f"t_{phase + 1}": (value, _DURATION[phase]) for phase, value in enumerate(one.time)}
        seconds = times | {"t_loss": (one.loss_time, "section 4"), "period": (one.period, "section 4")}
        rates = {"throughput": (one.throughput, "section 5.1")}
        groups: tuple[tuple[str, Mapping[str, tuple[ArrayLike, str]]], ...] = (
            ("1", numbers),
            ("packets", packets),
            ("s", seconds),
            ("packets/s", rates),
        )
        shape = np.broadcast_shapes(*(array.shape for array in (b, mu, tau, gamma, beta, per_ack)))
        return {
            name: Quantity(value=np.broadcast_to(value, shape), unit=unit, equation=equation)
            for unit, group in groups
            for name, (value, equation) in group.items()
        }

    def predict(self, path: PathSpec, control: ControlSpec) -> Prediction:
        """Case 1 to 6 and the oscillation, in the sender's arithmetic: the draft's, a kernel's or ns-2.35's."""
        require_applies(self, path, control)
        arithmetic = ARITHMETIC[control.window]
        inputs = self.inputs(path, control)
        more = inputs["mu"] * (path.base_rtt_s - path.propagation_rtt_s)
        # ns-2's module reckons its increase from what a recovery sent, and NewReno's may last: not followed.
        is_newreno = control.recovery == "newreno" and arithmetic != "ns2"
        rule = replace(
            self.rule,
            arithmetic=arithmetic,
            round_trip=path.base_rtt_s,
            transmission=more,
            is_newreno=is_newreno,
        )
        model = replace(self, rule=rule)
        found = model.evaluate(**inputs)
        number = int(found["case"].value)
        kind = f"{found['oscillation_m'].value:g}:{found['oscillation_n'].value:g}"
        follows = ", ".join(str(phase) for phase in cases.PHASES_OF_CASE[number])
        notes = [f"phases {follows}; oscillation {kind} in phase 3" if number in (4, 5) else f"phases {follows}"]
        if inputs["per_ack"] > 1 and number in (4, 5):
            notes.append("the type of oscillation is that of a receiver which acknowledges every packet")
        if number in (1, 2, 3):
            notes.append(_early_losses(arithmetic, control, found))
        return Prediction(
            model=self.name,
            paper=self.paper,
            inputs=named(self, inputs),
            quantities=found,
            equations=("eq. 13", "eq. 14", "table 1", "figure 3", "figure 13", *(_PHASE[number])),
            case=number,
            margin=float(found["margin"].value),
            notes=tuple(notes),
        )


def network(
    rule: Rule, *, mu: ArrayLike, tau: ArrayLike, buffer: ArrayLike, gamma: ArrayLike = 30, beta: ArrayLike = 0.5
) -> cuts.Network:
    """What `compound_cuts` asks of a path: as here, in packets and seconds."""
    rate, delay, b, limit, cut = (np.asarray(value, dtype=np.float64) for value in (mu, tau, buffer, gamma, beta))
    longer = delay + rule.transmission / rate
    return cuts.Network(
        rate=rate,
        round_trip=longer,
        buffer=b,
        gamma=limit,
        beta=cut,
        alpha=rule.alpha,
        k=rule.k,
    )


def _early_losses(arithmetic: str, control: ControlSpec, found: Mapping[str, Quantity]) -> str:
    """What a loss of cases 1 to 3 does beyond section 4's one packet."""
    if control.recovery == "newreno":
        lost = float(found["lost"].value)
        if lost > 1:
            return f"{lost:.0f} packets are lost at once, and NewReno mends one a round trip"
        return "several packets are lost at once and NewReno mends one a round trip: throughput is overestimated"
    if arithmetic != "ns2":
        return "several packets are lost at once, and the window is cut once"
    edge = f"b = {found['b_second_cut'].value:.1f}"
    if float(found["cuts"].value) > 1.5:
        return f"the window is cut twice, as up to {edge}; {found['lost'].value:.0f} packets are lost"
    return f"the window is cut once (twice up to {edge}); {found['lost'].value:.0f} packets are lost"


_DURATION = ("eq. 3", "eq. 8", "eq. 11", "eq. 12")
_PHASE = {number: tuple(_DURATION[phase - 1] for phase in follows) for number, follows in cases.PHASES_OF_CASE.items()}
