"""Compound's four phases (Blanc et al. 2008, section 2): equations (3)-(12) against their differential equations."""

import numpy as np
import pytest
from tcptrace_lab.models import compound_phases as phases

MU, TAU = 100e6 / 12000, 0.05
BDP = MU * TAU
W_1, THETA, FULL = 248.0, 458.0, 496.7
ALPHA, K = 0.125, 0.75


def slope(window: np.ndarray, t: np.ndarray) -> np.ndarray:
    return np.gradient(window, t, edge_order=2)


def test_window_1_solves_its_differential_equation() -> None:
    """Equation (3): dw/dt = alpha w^k / tau, w(0) = w_1*, w(t_1) = mu tau."""
    t = np.linspace(0, float(phases.duration_1(W_1, BDP, TAU)), 2001)
    w = phases.window_1(t, W_1, TAU)
    assert w[0] == pytest.approx(W_1)
    assert w[-1] == pytest.approx(BDP)
    assert slope(w, t) == pytest.approx(ALPHA * w**K / TAU, rel=1e-5)


def test_end_of_phase_1_as_printed() -> None:
    """t_1 = (mu^(1-k) tau^(2-k) - tau w_1*^(1-k)) / ((1-k) alpha); equation (6) with (b / alpha)^(1/k) for mu tau."""
    printed = (MU ** (1 - K) * TAU ** (2 - K) - TAU * W_1 ** (1 - K)) / ((1 - K) * ALPHA)
    assert phases.duration_1(W_1, BDP, TAU) == pytest.approx(printed)
    b, start = 10.0, 172.0
    printed_6 = TAU / ((1 - K) * ALPHA) * ((b / ALPHA) ** ((1 - K) / K) - start ** (1 - K))
    assert phases.duration_1(start, phases.burst_overflow(b), TAU) == pytest.approx(printed_6)
    gained = 1 / ((1 - K) * ALPHA) * ((b / ALPHA) ** ((1 - K) / K) - start ** (1 - K))
    assert phases.congestion_gain_1(start, phases.burst_overflow(b)) == pytest.approx(gained)


def test_a_burst_overflows_where_an_increase_is_the_buffer() -> None:
    """Section 2.1: alpha w^k = b at w = (b / alpha)^(1/k), 344.7 packets for b = 10."""
    w = phases.burst_overflow(10.0)
    assert ALPHA * w**K == pytest.approx(10)
    assert float(w) == pytest.approx(344.7, abs=0.05)


def test_the_two_approaches_to_phase_1_differ_by_the_windows_ends() -> None:
    """Equation (4) counts rounds, the integral time: without w_1* it is more by half of what the window gained."""
    rounds, integral = phases.sent_1_rounds(W_1, BDP, TAU), phases.sent_1(W_1, BDP)
    assert float(rounds - W_1 - integral) == pytest.approx((BDP - W_1) / 2, rel=0.02)
    t = np.linspace(0, float(phases.duration_1(W_1, BDP, TAU)), 4001)
    assert float(integral) == pytest.approx(np.trapezoid(phases.window_1(t, W_1, TAU) / TAU, t), rel=1e-6)


def test_equation_4_written_out() -> None:
    """Equation (4): w_1* z / tau + w(t_1) + w(t_1 - tau) + ... + w(t_1 - N tau), t_1 = N tau + z."""
    total = float(phases.duration_1(W_1, BDP, TAU))
    rounds = int(total / TAU)
    sent = W_1 / TAU * (total - rounds * TAU)
    sent += sum(float(phases.window_1(total - n * TAU, W_1, TAU)) for n in range(rounds + 1))
    assert float(phases.sent_1_rounds(W_1, BDP, TAU)) == pytest.approx(sent)


def test_average_rate_of_phase_1_as_printed() -> None:
    """Section 2.1: the closed form is the integral over t_1."""
    assert phases.rate_1(W_1, BDP, TAU) == pytest.approx(phases.sent_1(W_1, BDP) / phases.duration_1(W_1, BDP, TAU))


def test_window_2_solves_its_differential_equation() -> None:
    """Equations (7), (8): dw/dt = mu alpha w^(k-1), w(0) = w_2*, w(t_2) = theta."""
    t = np.linspace(0, float(phases.duration_2(BDP, THETA, MU)), 2001)
    w = phases.window_2(t, BDP, MU)
    assert w[[0, -1]] == pytest.approx([BDP, THETA])
    assert slope(w, t) == pytest.approx(MU * ALPHA * w ** (K - 1), rel=1e-5)


@pytest.mark.parametrize("per_ack", [1, 2])
def test_congestion_window_of_phase_2(per_ack: int) -> None:
    """Equations (9), (10): dw_c/dt = mu / (m w); at t_2 the short form."""
    t = np.linspace(0, float(phases.duration_2(BDP, THETA, MU)), 2001)
    w_c = phases.congestion_2(t, BDP, MU, per_ack)
    assert w_c[0] == pytest.approx(0, abs=1e-9)
    assert slope(w_c, t) == pytest.approx(MU / (per_ack * phases.window_2(t, BDP, MU)), rel=1e-5)
    assert w_c[-1] == pytest.approx(phases.congestion_gain_2(BDP, THETA, per_ack))


def test_average_rate_of_phase_2_last_form_is_right_and_first_is_not() -> None:
    """Section 2.2 prints three forms: the last two equal sent / t_2, the first has w_2* for w_2*^2 and a wrong sign."""
    meant = phases.sent_2(BDP, THETA) / phases.duration_2(BDP, THETA, MU)
    assert phases.rate_2(BDP, THETA, MU) == pytest.approx(meant)
    assert abs(float(phases.rate_2_printed_first(BDP, THETA, MU)) / float(meant) - 1) > 0.1
    corrected = MU * THETA**K * (BDP**2 + BDP**K * ALPHA * (THETA - BDP) * (K - 2)) - BDP**K * THETA**2 * MU
    assert corrected / (BDP**2 * THETA**K - BDP**K * THETA**2) == pytest.approx(meant)


def test_phase_3_ends_when_the_congestion_window_is_all() -> None:
    """Equation (11): w_c(t_3) = theta; the rate is mu, so m theta (theta - w_c,3) packets are sent."""
    t_3 = phases.duration_3(260.0, THETA, MU)
    assert phases.congestion_3(t_3, THETA, MU) + 260 == pytest.approx(THETA)
    assert MU * t_3 == pytest.approx(THETA * (THETA - 260))


@pytest.mark.parametrize("per_ack", [1, 2])
def test_window_4_solves_its_differential_equation(per_ack: int) -> None:
    """Equation (12): dw/dt = mu / (m w), w(t_4) = b + mu tau."""
    t = np.linspace(0, float(phases.duration_4(THETA, FULL, MU, per_ack)), 2001)
    w = phases.window_4(t, THETA, MU, per_ack)
    assert w[[0, -1]] == pytest.approx([THETA, FULL])
    assert slope(w, t) == pytest.approx(MU / (per_ack * w), rel=1e-5)


def test_phase_4_needs_squares_where_the_paper_prints_none() -> None:
    """Section 2.4: R_in(t_4) - R_in(0) = mu t_4 + b + mu tau - w_4, which its printed form (w_4 unsquared) misses."""
    t_4 = phases.duration_4(THETA, FULL, MU)
    assert phases.sent_4(THETA, FULL) == pytest.approx(MU * t_4 + FULL - THETA)
    assert phases.rate_4(THETA, FULL, MU) == pytest.approx(phases.sent_4(THETA, FULL) / t_4)
    above = [float(rate(THETA, FULL, MU)) - MU for rate in (phases.rate_4_printed, phases.rate_4)]
    assert above[0] < 0.2 * above[1]


def test_superlinear_growth_outruns_slow_start_only_above_k_1() -> None:
    """Section 2.1.1: with k < 1 an increase is less than the window itself once w > alpha^(1/(1-k))."""
    w = np.logspace(0, 6, 50)
    assert (ALPHA * w**K < w).all()
    assert (ALPHA * w**1.2 > w).any()
