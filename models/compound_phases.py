"""The four phases of an isolated Compound TCP connection, as a fluid (Blanc et al. 2008, section 2).

INRIA RR-6778, equations (3)-(12). Phase 1: empty buffer, superlinear growth. 2: non-empty buffer, superlinear. 3: the
window rests at theta. 4: linear growth until the buffer overflows. Time is counted from the start of each phase.

Units: packets, packets/s, seconds; `w_start` is the paper's w_i^*, `theta` the window that ends a phase, `per_ack` its
m (packets acknowledged by an ACK; equations (5) and (6) have m = 1). Every function takes scalars or arrays. `sent_*`
is R_in(t_i) - R_in(0), what the sender puts into the network during the phase.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from tcptrace_lab.models.prediction import FloatArray

ALPHA, K = 0.125, 0.75


def _floats(*values: ArrayLike) -> tuple[FloatArray, ...]:
    return tuple(np.asarray(value, dtype=np.float64) for value in values)


def window_1(
    t: ArrayLike, w_start: ArrayLike, tau: ArrayLike, *, alpha: float | FloatArray = ALPHA, k: float = K
) -> FloatArray:
    """Equation (3): w(t) = ((1 - k) alpha t / tau + w_1*^(1-k))^(1/(1-k)), packets."""
    time, start, delay = _floats(t, w_start, tau)
    result: FloatArray = ((1 - k) * alpha / delay * time + start ** (1 - k)) ** (1 / (1 - k))
    return result


def duration_1(
    w_start: ArrayLike, theta: ArrayLike, tau: ArrayLike, *, alpha: float | FloatArray = ALPHA, k: float = K
) -> FloatArray:
    """t_1 in s: when w(t) of (3) reaches theta, which is mu tau, or (b / alpha)^(1/k) in equation (6)."""
    start, end, delay = _floats(w_start, theta, tau)
    result: FloatArray = delay * (end ** (1 - k) - start ** (1 - k)) / ((1 - k) * alpha)
    return result


def burst_overflow(buffer: ArrayLike, *, alpha: float = ALPHA, k: float = K) -> FloatArray:
    """Section 2.1: the window (b / alpha)^(1/k), packets, whose increase of alpha w^k arrives as a burst of b."""
    (places,) = _floats(buffer)
    result: FloatArray = (places / alpha) ** (1 / k)
    return result


def congestion_gain_1(w_start: ArrayLike, theta: ArrayLike, *, alpha: float = ALPHA, k: float = K) -> FloatArray:
    """Equations (5), (6): w_c(t_1) - w_c,1 = t_1 / tau, one packet per round trip."""
    return duration_1(w_start, theta, 1.0, alpha=alpha, k=k)


def sent_1_rounds(
    w_start: ArrayLike, theta: ArrayLike, tau: ArrayLike, *, alpha: float = ALPHA, k: float = K
) -> FloatArray:
    """Equation (4), first approach: R_in(t_1) = w_1* z / tau + sum over n = 0..N of w(t_1 - n tau), t_1 = N tau + z.

    Packets, R_in(0) = w_1* included, as the paper has it. Vectorised by summing up to the largest N.
    """
    start, end, delay = np.broadcast_arrays(*_floats(w_start, theta, tau))
    total_s = duration_1(start, end, delay, alpha=alpha, k=k)
    rounds = np.floor(total_s / delay + 1e-12)
    sent = start / delay * (total_s - rounds * delay)
    for n in range(int(rounds.max(initial=0)) + 1):
        inside = n <= rounds
        time = np.maximum(total_s - n * delay, 0)
        sent = sent + np.where(inside, window_1(time, start, delay, alpha=alpha, k=k), 0)
    return np.asarray(sent)


def sent_1(w_start: ArrayLike, theta: ArrayLike, *, alpha: float | FloatArray = ALPHA, k: float = K) -> FloatArray:
    """Second approach of section 2.1, the integral of w / tau: (theta^(2-k) - w_1*^(2-k)) / ((2-k) alpha), packets."""
    start, end = _floats(w_start, theta)
    result: FloatArray = (end ** (2 - k) - start ** (2 - k)) / ((2 - k) * alpha)
    return result


def rate_1(w_start: ArrayLike, bdp: ArrayLike, tau: ArrayLike, *, k: float = K) -> FloatArray:
    """Average sending rate of phase 1 by the second approach, packets/s, in the form printed (alpha drops out)."""
    w, pipe, delay = _floats(w_start, bdp, tau)
    above = (1 - k) * (w**k * pipe**2 - w**2 * pipe**k)
    result: FloatArray = above / ((2 - k) * delay * (w**k * pipe - w * pipe**k))
    return result


def window_2(
    t: ArrayLike, w_start: ArrayLike, mu: ArrayLike, *, alpha: float | FloatArray = ALPHA, k: float = K
) -> FloatArray:
    """Equation (8), from (7): w(t) = ((2 - k) alpha mu t + w_2*^(2-k))^(1/(2-k)), packets."""
    time, start, rate = _floats(t, w_start, mu)
    result: FloatArray = ((2 - k) * alpha * rate * time + start ** (2 - k)) ** (1 / (2 - k))
    return result


def duration_2(
    w_start: ArrayLike, theta: ArrayLike, mu: ArrayLike, *, alpha: float | FloatArray = ALPHA, k: float = K
) -> FloatArray:
    """t_2 = (theta^(2-k) - w_2*^(2-k)) / ((2 - k) alpha mu), s; theta = gamma + mu tau, or b + mu tau if gamma > b."""
    start, end, rate = _floats(w_start, theta, mu)
    result: FloatArray = (end ** (2 - k) - start ** (2 - k)) / ((2 - k) * alpha * rate)
    return result


def congestion_2(
    t: ArrayLike, w_start: ArrayLike, mu: ArrayLike, per_ack: ArrayLike = 1, *, alpha: float = ALPHA, k: float = K
) -> FloatArray:
    """Equation (10) as printed, without w_c,2: what the congestion window has gained by t in phase 2, packets."""
    time, w, rate, m = _floats(t, w_start, mu, per_ack)
    inner = (w ** (2 - k) - (k - 2) * time * alpha * rate) ** (1 / (k - 2))
    result: FloatArray = (inner * ((k - 2) * time * w**k * alpha * rate - w**2) + w) / ((k - 1) * m * alpha * w**k)
    return result


def congestion_gain_2(
    w_start: ArrayLike, theta: ArrayLike, per_ack: ArrayLike = 1, *, alpha: float = ALPHA, k: float = K
) -> FloatArray:
    """w_c(t_2) - w_c,2 = (w_2*^(1-k) - theta^(1-k)) / ((k - 1) m alpha), packets: equations (9), (10) at t_2."""
    w, end, m = _floats(w_start, theta, per_ack)
    result: FloatArray = (w ** (1 - k) - end ** (1 - k)) / ((k - 1) * m * alpha)
    return result


def sent_2(w_start: ArrayLike, theta: ArrayLike, *, alpha: float = ALPHA, k: float = K) -> FloatArray:
    """R_in(t_2) - R_in(0) = theta - w_2* + (theta^(2-k) - w_2*^(2-k)) / ((2 - k) alpha), packets."""
    start, end = _floats(w_start, theta)
    return end - start + sent_1(start, end, alpha=alpha, k=k)


def rate_2(w_start: ArrayLike, theta: ArrayLike, mu: ArrayLike, *, alpha: float = ALPHA, k: float = K) -> FloatArray:
    """Average sending rate of phase 2, packets/s, by the form printed last; above mu, since the queue grows."""
    w, end, rate = _floats(w_start, theta, mu)
    more = (2 - k) * alpha * (w - end) * (w * end) ** k * rate
    result: FloatArray = rate + more / (w**2 * end**k - w**k * end**2)
    return result


def rate_2_printed_first(
    w_start: ArrayLike, theta: ArrayLike, mu: ArrayLike, *, alpha: float = ALPHA, k: float = K
) -> FloatArray:
    """The form of the same rate printed first, misprints and all: w_2* for w_2*^2 and a minus for a plus."""
    w, end, rate = _floats(w_start, theta, mu)
    above = rate * end**k * (w - w**k * alpha * (end - w) * (k - 2)) - w**k * end**2 * rate
    result: FloatArray = above / (w**2 * end**k - w**k * end**2)
    return result


def congestion_3(t: ArrayLike, theta: ArrayLike, mu: ArrayLike, per_ack: ArrayLike = 1) -> FloatArray:
    """Equation (11) without w_c,3: mu t / (m theta), what the congestion window has gained by t in phase 3, packets."""
    time, end, rate, m = _floats(t, theta, mu, per_ack)
    result: FloatArray = rate * time / (m * end)
    return result


def duration_3(w_congestion: ArrayLike, theta: ArrayLike, mu: ArrayLike, per_ack: ArrayLike = 1) -> FloatArray:
    """t_3 = m theta (theta - w_c,3) / mu, s: when the congestion window alone is theta. The rate is mu throughout."""
    start, end, rate, m = _floats(w_congestion, theta, mu, per_ack)
    result: FloatArray = m * end * (end - start) / rate
    return result


def window_4(t: ArrayLike, w_start: ArrayLike, mu: ArrayLike, per_ack: ArrayLike = 1) -> FloatArray:
    """Equation (12): w(t) = sqrt(2 mu t / m + w_4*^2), packets."""
    time, start, rate, m = _floats(t, w_start, mu, per_ack)
    result: FloatArray = np.sqrt(2 * rate / m * time + start**2)
    return result


def duration_4(w_start: ArrayLike, theta: ArrayLike, mu: ArrayLike, per_ack: ArrayLike = 1) -> FloatArray:
    """t_4 = m (theta^2 - w_4*^2) / (2 mu), s, theta = b + mu tau."""
    start, end, rate, m = _floats(w_start, theta, mu, per_ack)
    result: FloatArray = m * (end**2 - start**2) / (2 * rate)
    return result


def sent_4(w_start: ArrayLike, theta: ArrayLike, per_ack: ArrayLike = 1) -> FloatArray:
    """R_in(t_4) - R_in(0) = theta - w_4* + m (theta^2 - w_4*^2) / 2, packets.

    Differs: the paper prints w_4 for the squared w_4*^2 here and throughout the average rate.
    """
    start, end, m = _floats(w_start, theta, per_ack)
    result: FloatArray = end - start + m * (end**2 - start**2) / 2
    return result


def rate_4(w_start: ArrayLike, theta: ArrayLike, mu: ArrayLike, per_ack: ArrayLike = 1) -> FloatArray:
    """Average sending rate of phase 4, packets/s: mu + (theta - w_4*) / t_4, with the squares the paper drops."""
    start, end, rate, m = _floats(w_start, theta, mu, per_ack)
    result: FloatArray = 2 * rate * (end - start + m / 2 * (end**2 - start**2)) / (m * (end**2 - start**2))
    return result


def rate_4_printed(w_start: ArrayLike, theta: ArrayLike, mu: ArrayLike, per_ack: ArrayLike = 1) -> FloatArray:
    """The same rate as printed, w_4* unsquared."""
    start, end, rate, m = _floats(w_start, theta, mu, per_ack)
    result: FloatArray = 2 * rate * (end - start + m / 2 * (end**2 - start)) / (m * (end**2 - start))
    return result
