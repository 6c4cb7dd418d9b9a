"""One, two or three slow starts per cycle: small buffers, large bandwidth-delay product (Barakat & Altman 1998).

C. Barakat, E. Altman, "Analysis of TCP in Networks with Small Buffering Capacity and Large Bandwidth-Delay Product",
INRIA RR-3574. One Tahoe connection, one drop-tail bottleneck of mu packets/s with B waiting places, tau seconds of
propagation there and back, an ACK for every packet.

Units: packets, packets/s, seconds. Every function takes scalars or arrays and broadcasts. Equation numbers are the
paper's. B may be real (the analysis is a fluid one), but not below 1.
"""

from __future__ import annotations

from collections.abc import Callable
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
    require_applies,
)

from tcptrace_lab.scenario import ControlSpec, PathSpec

BUFFER = Parameter(name="buffer", unit="packets", meaning="B, waiting places at the bottleneck", example=20, low=1,
                   low_open=False)  # fmt: skip
MU = Parameter(name="mu", unit="packets/s", meaning="the bottleneck's rate", example=1.5e6 / 4096)
TAU = Parameter(name="tau", unit="s", meaning="propagation delay there and back", example=0.56)

REGIMES = {1: "single", 2: "double", 3: "triple"}


def w_max(buffer: ArrayLike, mu: ArrayLike, tau: ArrayLike) -> FloatArray:
    """Equation (1): the window, in packets, at which congestion avoidance loses a packet: B + mu tau + 1."""
    return BUFFER.check(buffer) + MU.check(mu) * TAU.check(tau) + 1


def w_threshold(buffer: ArrayLike, mu: ArrayLike, tau: ArrayLike) -> FloatArray:
    """W_th = W_max / 2, the first slow start's threshold (section 2), packets."""
    return w_max(buffer, mu, tau) / 2


def w_b_approximate(buffer: ArrayLike) -> FloatArray:
    """Equation (2): the window at which a slow start overflows the buffer, as in the paper's [1] and [5]: 2 B."""
    return 2 * BUFFER.check(buffer)


def beta(buffer: ArrayLike, mu: ArrayLike, tau: ArrayLike) -> FloatArray:
    """Equation (3)'s normalised buffer B / (mu tau + 1), a pure number: a slow start loses packets if beta <= 1/3."""
    return BUFFER.check(buffer) / (MU.check(mu) * TAU.check(tau) + 1)


def n_b(buffer: ArrayLike) -> FloatArray:
    """Equation (6): the mini-cycle of the first loss in a slow start, 2^(n_B - 2) < B <= 2^(n_B - 1)."""
    # B = m 2^e with 1/2 <= m < 1, exactly: no logarithm to be rounded at the powers of two.
    mantissa, exponent = np.frexp(BUFFER.check(buffer))
    return np.where(mantissa == 0.5, exponent, exponent + 1).astype(np.float64)


def w_b(buffer: ArrayLike) -> FloatArray:
    """Equation (5): the window at which a slow start overflows the buffer, 2^(n_B - 1) + B packets."""
    return 2 ** (n_b(buffer) - 1) + BUFFER.check(buffer)


def w_detected(buffer: ArrayLike, mu: ArrayLike, tau: ArrayLike) -> FloatArray:
    """Equation (4): the window when that loss is detected, one round trip later: W_D = min(W_th, 2 W_B), packets."""
    return np.minimum(w_threshold(buffer, mu, tau), 2 * w_b(buffer))


def burst_s(buffer: ArrayLike) -> FloatArray:
    """Equation (12): S = 2^(n_B - 1) - B + 2, the burst sent when the second slow start reaches part (iii), packets."""
    return 2 ** (n_b(buffer) - 1) - BUFFER.check(buffer) + 2


def _after_overflow(buffer: FloatArray) -> FloatArray:
    """The packets of part (i), sent between the overflow and the end of mini-cycle n_B: 2^n_B - 2 (B - 1)."""
    result: FloatArray = 2 ** n_b(buffer) - 2 * (buffer - 1)
    return result


def n_1(buffer: ArrayLike) -> FloatArray:
    """Equation (7): the smallest n_1 >= 0 with 4 + 3/2 n_1 (n_1 + 1) > 2^n_B - 2 (B - 1)."""
    wanted = _after_overflow(BUFFER.check(buffer))
    guess = np.floor((np.sqrt(np.maximum(1 + 8 / 3 * (wanted - 4), 0)) - 1) / 2)
    return _smallest(guess, lambda n: 4 + 1.5 * n * (n + 1) > wanted)


def n_2(buffer: ArrayLike) -> FloatArray:
    """Equation (8): the smallest n_2 >= 0 with S ((3/2)^(n_2 + 1) - 1) > B - 1."""
    places, burst = BUFFER.check(buffer), burst_s(buffer)
    guess = np.floor(np.log((places - 1) / burst + 1) / np.log(1.5))
    return _smallest(guess, lambda n: burst * (1.5 ** (n + 1) - 1) > places - 1)


def burst_n_1(buffer: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    """N_1 = 3 n_1 and its shares N_1^1 of part (i) and N_1^2 of part (ii), packets (section 4, equation 11)."""
    places, n = BUFFER.check(buffer), n_1(buffer)
    part_i = _after_overflow(places)
    # Right side of (7) minus the total of the bursts before, equation (11). With n_1 = 0 (B a power of two, part (i)
    # of 2 packets: done within the first two bursts) nothing of N_1 is in part (i).
    in_i = np.where(n > 0, part_i - (4 + 1.5 * n * (n - 1)), 0.0)
    return 3 * n, in_i, 3 * n - in_i


def burst_n_2(buffer: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Equations (13), (14): N_2 = (3/2)^n_2 S and N_2^3, its share of part (iii), packets."""
    places, burst, growth = BUFFER.check(buffer), burst_s(buffer), 1.5 ** n_2(buffer)
    return growth * burst, 2 * (places - 1) - 2 * burst * (growth - 1)


def n_2_edges(buffer: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Equation (15): (3/2)^n_2, (B - 1)/S + 1 and (3/2)^(n_2 + 1), pure numbers; the middle lies between the others."""
    growth = 1.5 ** n_2(buffer)
    return growth, (BUFFER.check(buffer) - 1) / burst_s(buffer) + 1, 1.5 * growth


def condition_9(buffer: ArrayLike) -> FloatArray:
    """Equation (9) as a signed margin, left / right - 1: positive if 2^n_B - 3/4 n_1 (n_1 - 1) > 3 B - 1.

    The burst S overflows what N_1^1 / 2 packets have left of the buffer: a loss at the start of part (iii).
    """
    places, n = BUFFER.check(buffer), n_1(buffer)
    return (2 ** n_b(places) - 0.75 * n * (n - 1)) / (3 * places - 1) - 1


def condition_10(buffer: ArrayLike) -> FloatArray:
    """Equation (10) as a signed margin: positive if (2^(n_B - 1) - B + 2) (2 (3/2)^n_2 - 1) > 2 B - 1.

    The ACKs of the burst N_2 (the first with new packets) overflow the buffer.
    """
    places = BUFFER.check(buffer)
    return burst_s(places) * (2 * 1.5 ** n_2(places) - 1) / (2 * places - 1) - 1


def condition_16(buffer: ArrayLike, mu: ArrayLike, tau: ArrayLike) -> FloatArray:
    """Equation (16) as a signed margin: positive if (10) holds and 4 S (3/2)^n_2 < mu tau - 3 B + 1.

    What three slow starts would need where W_B < W_th < 2 W_B; section 6 argues that it "can be ignored" (Theorem 2).
    """
    places = BUFFER.check(buffer)
    room = MU.check(mu) * TAU.check(tau) - 3 * places + 1
    return np.minimum(condition_10(places), room / (4 * burst_n_2(places)[0]) - 1)


def regime(buffer: ArrayLike, mu: ArrayLike, tau: ArrayLike) -> NDArray[np.int64]:
    """Slow starts per cycle, 1, 2 or 3, by Theorems 1 and 2.

    One if W_th < W_B; three if W_th > 2 W_B and (9) or (10) holds; else two. W_th = 2 W_B exactly, which neither
    theorem covers, counts as two.
    """
    threshold, overflow = w_threshold(buffer, mu, tau), w_b(buffer)
    is_triple = (threshold > 2 * overflow) & ((condition_9(buffer) > 0) | (condition_10(buffer) > 0))
    return np.where(threshold < overflow, 1, np.where(is_triple, 3, 2))


def margin(buffer: ArrayLike, mu: ArrayLike, tau: ArrayLike) -> FloatArray:
    """How far, as a fraction of the deciding inequality's right side, the nearest change of regime is."""
    threshold, overflow = w_threshold(buffer, mu, tau), w_b(buffer)
    to_single = np.abs(threshold / overflow - 1)
    to_theorem_1 = np.abs(threshold / (2 * overflow) - 1)
    # Either of (9), (10) is enough: the better one decides, whether it holds or fails.
    best = np.maximum(condition_9(buffer), condition_10(buffer))
    # Below 2 W_B a third slow start needs W_th to rise, and (9) or (10) as well where neither holds.
    to_triple = np.where(best > 0, to_theorem_1, np.maximum(to_theorem_1, -best))
    double = np.minimum(np.where(threshold > 2 * overflow, np.abs(best), to_triple), to_single)
    count = regime(buffer, mu, tau)
    return np.where(count == 1, to_single, np.where(count == 3, np.minimum(to_theorem_1, best), double))


def avoidance_start(buffer: ArrayLike, mu: ArrayLike, tau: ArrayLike) -> FloatArray:
    """W_S, the window at which congestion avoidance begins (section 7), packets.

    Single: W_max / 2. Double: W_D / 2, which is W_B above Theorem 1's edge. Triple: W_B / 2, since the second slow
    start's loss is detected at W_B.
    """
    count = regime(buffer, mu, tau)
    double = w_detected(buffer, mu, tau) / 2
    return np.where(count == 1, w_threshold(buffer, mu, tau), np.where(count == 2, double, w_b(buffer) / 2))


def throughput(buffer: ArrayLike, mu: ArrayLike, tau: ArrayLike) -> FloatArray:
    """Section 7: (W_S + W_E) / (2 RTT), packets/s, with W_E = W_max and RTT = tau + 1/mu.

    Waiting time and slow starts are left out, so it overestimates, and more so as the buffer grows.
    """
    round_trip = TAU.check(tau) + 1 / MU.check(mu)
    return (avoidance_start(buffer, mu, tau) + w_max(buffer, mu, tau)) / (2 * round_trip)


def ratio_r(alpha: ArrayLike) -> FloatArray:
    """Section 7: R = (alpha + 2) / (2 alpha + 2), triple over double throughput at alpha = W_B / W_max."""
    ratio = Parameter(name="alpha", unit="1", meaning="W_B / W_max", example=0.25, low_open=False).check(alpha)
    return (ratio + 2) / (2 * ratio + 2)


def bounds() -> dict[str, float]:
    """Limits on beta = B / (mu tau + 1), pure numbers.

    Slow starts lose packets up to 1/3 (equation 3). Three slow starts need W_th > 2 W_B: possible below 1/7 (B just a
    power of two), within Theorem 1 whatever B below 1/11 (section 6).

    Differs: section 6 prints mu tau + 1 < 7 B and < 11 B; from W_th > 2 W_B it is >, as its own "=> beta < 1/7" needs.
    """
    return {"slow_start_loss": 1 / 3, "triple_upper": 1 / 7, "triple_lower": 1 / 11}


def _smallest(guess: FloatArray, holds: Callable[[FloatArray], NDArray[np.bool_]]) -> FloatArray:
    """The smallest whole number >= 0 at which `holds`, near a guess that rounding may have put one off."""
    n = np.maximum(guess - 2, 0)
    for _ in range(4):
        n = np.where(holds(n), n, n + 1)
    return n


def section_2(path: PathSpec, control: ControlSpec) -> tuple[Reason, ...]:
    """Section 2's model: one Tahoe sender, one bottleneck fed by bursts at 2 mu or faster, no other loss."""
    return (
        conditions.is_tahoe(control),
        conditions.is_standard_slow_start(control),
        conditions.has_window(control, "reno"),
        conditions.acks_every_packet(control),
        conditions.no_limited_transmit(control),
        conditions.has_finite_buffer(path, path.bottleneck),
        conditions.is_fed_by_bursts(path),
        conditions.is_return_free(path),
        conditions.no_random_loss(path),
        conditions.has_delay(path),
    )


@dataclass(frozen=True)
class SmallBuffers:
    """The paper as a model: slow starts per cycle, their windows, and the throughput."""

    name: str = "small_buffers"
    paper: str = "Barakat & Altman 1998, Analysis of TCP in networks with small buffering capacity (INRIA RR-3574)"
    parameters: tuple[Parameter, ...] = (BUFFER, MU, TAU)

    def applies_to(self, path: PathSpec, control: ControlSpec) -> Applicability:
        """Section 2's model, with a window that nothing else limits."""
        places = path.waiting_places(path.bottleneck)
        return Applicability(
            (
                *section_2(path, control),
                conditions.window_is_free(control, places + path.mu_pps * path.propagation_rtt_s + 1),
            )
        )

    def inputs(self, path: PathSpec, control: ControlSpec) -> dict[str, float]:
        """B, mu and tau of the slowest node and the path."""
        return {
            "buffer": path.waiting_places(path.bottleneck),
            "mu": path.mu_pps,
            "tau": path.propagation_rtt_s,
        }

    def evaluate(self, **parameters: ArrayLike) -> dict[str, Quantity]:
        """Every symbol of the paper for B, mu, tau."""
        b, mu, tau = checked(self, parameters)
        start, end, round_trip = avoidance_start(b, mu, tau), w_max(b, mu, tau), tau + 1 / mu
        count = regime(b, mu, tau)
        # What each slow start reaches: the last one the threshold W_S, the ones before twice what they leave as W_th.
        ends = [np.where(count > 1, w_detected(b, mu, tau), 0.0), np.where(count > 2, w_b(b), 0.0), start]
        total_1, in_i, in_ii = burst_n_1(b)
        total_2, in_iii = burst_n_2(b)
        packets = {
            "W_max": (end, "eq. 1"),
            "W_th": (w_threshold(b, mu, tau), "section 2"),
            "W_B_2B": (w_b_approximate(b), "eq. 2"),
            "W_B": (w_b(b), "eq. 5"),
            "W_D": (w_detected(b, mu, tau), "eq. 4"),
            "W_S": (start, "section 7"),
            "S": (burst_s(b), "eq. 12"),
            "N_1": (total_1, "section 4"),
            "N_1_i": (in_i, "eqs. 7, 11"),
            "N_1_ii": (in_ii, "eqs. 7, 11"),
            "N_2": (total_2, "eq. 13"),
            "N_2_iii": (in_iii, "eq. 14"),
        }
        numbers = {
            "slow_starts": (count, "theorems 1, 2"),
            "beta": (beta(b, mu, tau), "eq. 3"),
            "n_B": (n_b(b), "eq. 6"),
            "n_1": (n_1(b), "eq. 7"),
            "n_2": (n_2(b), "eq. 8"),
            "condition_9": (condition_9(b), "eq. 9"),
            "condition_10": (condition_10(b), "eq. 10"),
            "condition_16": (condition_16(b, mu, tau), "eq. 16"),
            "margin": (margin(b, mu, tau), "theorems 1, 2"),
            "R": (ratio_r(w_b(b) / end), "section 7"),
        }
        rates = {
            "throughput": (throughput(b, mu, tau), "section 7"),
            "throughput_cycle": (cycle_throughput(start, end, mu, round_trip, ends), "not in the paper"),
        }
        shape = np.broadcast_shapes(b.shape, mu.shape, tau.shape)
        return {
            name: Quantity(value=np.broadcast_to(value, shape), unit=unit, equation=equation)
            for unit, group in (("packets", packets), ("1", numbers), ("packets/s", rates))
            for name, (value, equation) in group.items()
        }

    def predict(self, path: PathSpec, control: ControlSpec) -> Prediction:
        """Single, double or triple, and by how much."""
        require_applies(self, path, control)
        inputs = self.inputs(path, control)
        found = self.evaluate(**inputs)
        count = int(found["slow_starts"].value)
        return Prediction(
            model=self.name,
            paper=self.paper,
            inputs=named(self, inputs),
            quantities=found,
            equations=_equations(found, count),
            regime=REGIMES[count],
            margin=float(found["margin"].value),
            notes=_notes(found, count),
        )


def _equations(found: dict[str, Quantity], count: int) -> tuple[str, ...]:
    """What decided, in order."""
    if count == 1:
        return ("eq. 1", "eq. 5", "eq. 6", "W_th < W_B")
    if found["W_th"].value <= 2 * found["W_B"].value:
        return ("eq. 1", "eq. 5", "eq. 6", "W_B <= W_th <= 2 W_B", "theorem 2")
    fired = tuple(f"eq. {n} holds" for n in (9, 10) if found[f"condition_{n}"].value > 0)
    return ("eq. 1", "eq. 5", "eq. 6", "W_th > 2 W_B", "theorem 1", *(fired or ("neither eq. 9 nor eq. 10 holds",)))


def _notes(found: dict[str, Quantity], count: int) -> tuple[str, ...]:
    """What a reader must know before trusting the verdict."""
    notes: list[str] = []
    if found["W_th"].value > 2 * found["W_B"].value:
        notes.append("theorem 1 treats bursts as a fluid: whole packets shift its edges (models/ERRATA.md)")
    if count == 2 and found["condition_16"].value > 0 and found["W_th"].value < 2 * found["W_B"].value:
        notes.append("condition 16 holds: theorem 2 neglects a third slow start here")
    return tuple(notes)
