"""Which of the phases follow each other, and what a cycle carries (Blanc et al. 2008, sections 4 and 5).

INRIA RR-6778. mu packets/s, tau seconds of propagation there and back, b packets in the bottleneck node (the one in
service counted), so that a packet is lost when the window reaches mu tau + b. Case 1: phase 1 only. 2: phases 1, 2.
3: phase 2. 4: phases 1-4. 5: phases 2-4. 6: phase 4. Every function takes scalars or arrays and broadcasts.

A cycle ends with a round trip of w_f / mu after a loss, in which the sender first waits for beta w_f - 3 ACKs and then
sends (1 - beta) w_f + 3 packets (section 4). One packet is lost at a time: where the window grows superlinearly into
the buffer (cases 1-3) several are, and the window is often cut twice: `compound_cuts`, `compound_steps`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tcptrace_lab.models import compound_phases as phases
from tcptrace_lab.models.compound_oscillation import TIE, Rule
from tcptrace_lab.models.prediction import FloatArray

PHASES_OF_CASE = {1: (1,), 2: (1, 2), 3: (2,), 4: (1, 2, 3, 4), 5: (2, 3, 4), 6: (4,)}
# Fast retransmit's three duplicate ACKs (RFC 2581): the window restarts at (1 - beta) w_f + 3.
DUPLICATE_ACKS = 3


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """The buffers (packets) at which Figure 13 changes its answer."""

    burst: FloatArray  # alpha (mu tau)^k: below it a burst of phase 1 overflows the buffer
    oscillation: FloatArray  # theta_max - mu tau: below it phase 2 or the first oscillations do
    emptying: FloatArray  # beta mu tau / (1 - beta): below it the buffer empties after each loss
    linear: FloatArray  # (beta mu tau + gamma) / (1 - beta): above it the backlog never falls below gamma
    settling: FloatArray  # above `oscillation` by so much the first oscillations, not yet at rest, fit as well


def thresholds(
    bdp: ArrayLike, theta_max: ArrayLike, gamma: ArrayLike = 30, beta: ArrayLike = 0.5, *, rule: Rule | None = None
) -> Thresholds:
    """Sections 4.1-4.6: the four buffers, in packets, between the cases."""
    pipe, top, limit, cut = (np.asarray(value, dtype=np.float64) for value in (bdp, theta_max, gamma, beta))
    grow = rule or Rule()
    return Thresholds(
        burst=grow.alpha * pipe**grow.k,
        oscillation=top - pipe - (grow.transmission if grow.steps_rounds else 0),
        emptying=cut * pipe / (1 - cut),
        linear=(cut * pipe + limit) / (1 - cut),
        # One update's increase: the oscillation may begin that much above where it comes to rest.
        settling=grow.alpha * top**grow.k,
    )


def case(buffer: ArrayLike, limits: Thresholds) -> NDArray[np.int8]:
    """Figure 13's flow chart: 1 to 6.

    A window of exactly mu tau + b fits. Differs: section 3 prints "phase 3 will take place only if mu tau + b <
    theta_max"; meant, and used in section 4, is >.
    """
    b = np.asarray(buffer, dtype=np.float64)
    empties = b < limits.emptying
    early = np.where(empties, np.int8(2), np.int8(3))
    late = np.where(empties, np.int8(4), np.where(b < limits.linear, np.int8(5), np.int8(6)))
    found: NDArray[np.int8] = np.where(
        b < limits.burst, np.int8(1), np.where(b < limits.oscillation - TIE * b, early, late)
    )
    return found


def margin(buffer: ArrayLike, limits: Thresholds) -> FloatArray:
    """How far, as a fraction of the threshold, the buffer is from the nearest one that would change the case.

    theta_max is the largest window of oscillations at rest (section 5.1). Before that they may overflow a buffer that
    holds theta_max, and the loss begins them anew: between theta_max - mu tau and an increase more the run may stay in
    case 2 or 3, and the margin is 0.
    """
    b = np.asarray(buffer, dtype=np.float64)
    number = case(b, limits)
    burst, top, empty, linear = (
        np.abs(b / edge - 1) for edge in (limits.burst, limits.oscillation, limits.emptying, limits.linear)
    )
    at_rest = np.maximum(b / (limits.oscillation + limits.settling) - 1, 0)
    top = np.where(number >= 4, at_rest, top)
    # Case 1 ends at the burst; 2 and 3 lie between burst and oscillation and differ by emptying; 4 to 6 lie above both.
    above = np.minimum(top, burst)
    return np.select(
        [number == 1, number <= 3, number == 4, number == 5],
        [burst, np.minimum(above, empty), np.minimum(above, empty), np.minimum(above, np.minimum(empty, linear))],
        np.minimum(above, linear),
    )


@dataclass(frozen=True, kw_only=True)
class Cycle:
    """One period between losses: windows (packets), durations of its parts (s), totals. `time[0]` is phase 1's.

    `cuts` of the window and packets `lost` are those of the loss that ends it.
    """

    w_end: FloatArray
    w_start: FloatArray
    starts: tuple[FloatArray, ...]
    ends: tuple[FloatArray, ...]
    time: tuple[FloatArray, ...]
    loss_time: FloatArray
    sent: FloatArray
    backlog_time: FloatArray
    # Section 4's assumption; `compound_cuts` knows more of cases 1 to 3.
    cuts: FloatArray = field(default_factory=lambda: np.array(1.0))
    lost: FloatArray = field(default_factory=lambda: np.array(1.0))

    @property
    def period(self) -> FloatArray:
        """Seconds from loss to loss."""
        return np.asarray(sum(self.time) + self.loss_time)

    @property
    def throughput(self) -> FloatArray:
        """Section 5.1: packets sent over the period, packets/s."""
        return self.sent / self.period

    @property
    def backlog(self) -> FloatArray:
        """Section 5.2: the queue's average over the period, packets."""
        return self.backlog_time / self.period


def cycle(
    number: ArrayLike,
    *,
    mu: ArrayLike,
    tau: ArrayLike,
    buffer: ArrayLike,
    theta: ArrayLike,
    beta: ArrayLike = 0.5,
    per_ack: ArrayLike = 1,
    rule: Rule | None = None,
) -> Cycle:
    """The steady state of each case: phases 1 to 4 (empty ones last 0 s), then the round trip of the loss.

    `theta` is the window of phase 3, `per_ack` the paper's m, packets per ACK (equations 9-12; (5) has m = 1, here the
    congestion window gains 1/m a round trip in phase 1 too). The phases are the fluid's, equations (3)-(12), in either
    arithmetic. Phase 1 is counted by the second approach (the integral of w / tau); the first differs by about half
    the window's growth.
    """
    grow = rule or Rule()
    a, k = grow.alpha, grow.k
    which = np.asarray(number)
    given = (mu, tau, buffer, theta, beta, per_ack)
    rate, delay, b, rest, cut, m = (np.asarray(value, dtype=np.float64) for value in given)
    pipe = rate * delay
    full = np.where(which == 1, phases.burst_overflow(b, alpha=a, k=k), pipe + b)
    first = (1 - cut) * full

    end_1 = np.where(which == 1, full, np.where(np.isin(which, (2, 4)), np.maximum(pipe, first), first))
    end_2 = np.where(np.isin(which, (2, 3)), full, np.where(np.isin(which, (4, 5)), np.maximum(rest, end_1), end_1))
    end_4 = np.where(which >= 4, full, end_2)
    # At the end of phase 4 the delay window is 0, so after the loss too: the congestion window starts at w_start.
    gained = phases.congestion_gain_1(first, end_1, alpha=a, k=k) / m
    gained = gained + phases.congestion_gain_2(end_1, end_2, m, alpha=a, k=k)
    has_3 = np.isin(which, (4, 5))
    time = (
        phases.duration_1(first, end_1, delay, alpha=a, k=k),
        phases.duration_2(end_1, end_2, rate, alpha=a, k=k),
        np.where(has_3, np.maximum(phases.duration_3(first + gained, end_2, rate, m), 0), 0),
        phases.duration_4(end_2, end_4, rate, m),
    )
    sent = (
        phases.sent_1(first, end_1, alpha=a, k=k)
        + phases.sent_2(end_1, end_2, alpha=a, k=k)
        + rate * time[2]
        + phases.sent_4(end_2, end_4, m)
    )
    loss_time, loss_backlog = loss_round(full, pipe, rate, cut)
    backlog_time = (
        (end_2 ** (3 - k) - end_1 ** (3 - k)) / ((3 - k) * a * rate)
        - pipe * time[1]
        + (rest - pipe) * time[2]
        + m * (end_4**3 - end_2**3) / (3 * rate)
        - pipe * time[3]
        + loss_backlog
    )
    return Cycle(
        w_end=full,
        w_start=first,
        starts=(first, end_1, end_2, end_2),
        ends=(end_1, end_2, end_2, end_4),
        time=time,
        loss_time=loss_time,
        sent=sent + (1 - cut) * full + DUPLICATE_ACKS,
        backlog_time=backlog_time,
    )


def loss_round(full: FloatArray, pipe: FloatArray, rate: FloatArray, cut: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Length of the round trip after a loss (s) and the integral of the queue over it (packets s): section 4.

    The queue drains at mu while the sender waits, (beta w_f - 3) / mu, and stays as it is afterwards.
    """
    length = full / rate
    pause = np.maximum(cut * full - DUPLICATE_ACKS, 0) / rate
    queue = np.maximum(full - pipe, 0)
    left = np.maximum(queue - rate * pause, 0)
    draining = (queue**2 - left**2) / (2 * rate)
    return length, draining + left * (length - pause)


def trajectory(
    one: Cycle, *, mu: float, tau: float, per_ack: float = 1, rule: Rule | None = None, points: int = 60
) -> FloatArray:
    """Figures 6-11: (t, w) of one period for scalar parameters, a row per point; w is held during the loss's round."""
    grow = rule or Rule()
    rows: list[tuple[float, float]] = []
    now = 0.0
    for phase, lasts in enumerate(float(value) for value in one.time):
        if lasts <= 0:
            continue
        start = float(one.starts[phase])
        t = np.linspace(0, lasts, points)
        w = (
            phases.window_1(t, start, tau, alpha=grow.alpha, k=grow.k),
            phases.window_2(t, start, mu, alpha=grow.alpha, k=grow.k),
            np.full(points, start),
            phases.window_4(t, start, mu, per_ack),
        )[phase]
        rows += [(now + float(x), float(y)) for x, y in zip(t, w, strict=True)]
        now += lasts
    rows += [(now, float(one.w_start)), (now + float(one.loss_time), float(one.w_start))]
    return np.array(rows)
