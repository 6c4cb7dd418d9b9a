"""The textbook laws: printed constants and tables, and each other's limits."""

from __future__ import annotations

import numpy as np
import pytest
from tcptrace_lab.models.textbook import cubic_response, mathis, pftk


def test_mathis_constants_are_1_22_and_0_87() -> None:
    """Mathis et al. 1997: C = sqrt(3/2) with an ACK per packet, sqrt(3/4) with delayed ACKs."""
    assert round(float(mathis.constant(1)), 2) == 1.22
    assert round(float(mathis.constant(2)), 2) == 0.87


def test_mathis_is_the_saw_tooth() -> None:
    """1/p packets a tooth, from W/2 to W by 1/b a round trip: rate = (1/p) / (b W/2 RTT)."""
    for loss in (1e-5, 1e-3, 0.05):
        for segments in (1, 2):
            peak = mathis.peak_window(loss, segments)
            assert 3 / 8 * segments * peak**2 == pytest.approx(1 / loss)
            assert mathis.throughput(loss, 0.1, segments) == pytest.approx(1 / loss / (segments * peak / 2 * 0.1))


def test_pftk_expected_window_solves_its_equation() -> None:
    """Full model: a tooth of E[W] carries (1-p)/p + E[W] packets: 3 b/8 E[W]^2 + (2 - b)/4 ... by its own root."""
    loss, segments = np.meshgrid(np.geomspace(1e-6, 0.9, 40), [1.0, 2.0])
    window = pftk.expected_window(loss, segments)
    # E[Y] = (1 - p)/p + E[W], and E[Y] = E[X]/2 (W/2 + W - 1) + E[W]/2 with E[X] = b E[W] / 2.
    sent = segments * window / 4 * (1.5 * window - 1) + window / 2
    np.testing.assert_allclose((1 - loss) / loss + window, sent, rtol=1e-9)


def test_pftk_timeout_probability_is_the_sum_it_abbreviates() -> None:
    """Q(p, w): k of w arrive before the first loss; a timeout if k < 3, or if fewer than 3 of the next k arrive."""
    for loss in (1e-3, 0.02, 0.2, 0.5):
        for window in (4, 5, 8, 20):
            q = 1 - loss
            first = np.array([q**k * loss / (1 - q**window) for k in range(window)])
            # Of the k packets sent in the next round, m arrive in sequence: fewer than three of them means a timeout.
            few = [sum(q**m * loss for m in range(3)) for _ in range(window)]
            wanted = sum(first[:3]) + sum(first[k] * few[k] for k in range(3, window))
            assert pftk.timeout_probability(loss, window) == pytest.approx(min(1.0, wanted), rel=1e-9)
    assert pftk.timeout_probability(0.01, 3) == 1
    assert pftk.timeout_probability(1e-9, 100) == pytest.approx(3 / 100, rel=1e-3)


def test_pftk_backoff_doubles_to_64() -> None:
    """f(p): series of k timeouts have probability p^(k-1) (1 - p) and last T_0 (2^k - 1), or 64 T_0 more after six."""
    for loss in (0.01, 0.2, 0.5):
        lengths = [2**k - 1 if k <= 6 else 63 + 64 * (k - 6) for k in range(1, 400)]
        mean = sum(loss ** (k - 1) * (1 - loss) * length for k, length in enumerate(lengths, start=1))
        assert pftk.backoff(loss) / (1 - loss) == pytest.approx(mean)


def test_pftk_goes_to_mathis_where_timeouts_vanish() -> None:
    """p -> 0: B(p) = sqrt(3 / (2 b p)) / RTT (1 + o(1))."""
    for segments in (1, 2):
        ratio = pftk.throughput(1e-9, 0.1, 0.2, segments) / mathis.throughput(1e-9, 0.1, segments)
        assert ratio == pytest.approx(1, abs=1e-3)


def test_pftk_goes_to_the_window_limit() -> None:
    """p -> 0 with a small W_m: W_m / RTT, in both models."""
    assert pftk.throughput(1e-9, 0.1, 1.0, 2, 12) == pytest.approx(120, rel=1e-5)
    assert pftk.throughput_approximate(1e-9, 0.1, 1.0, 2, 12) == pytest.approx(120)


def test_pftk_approximation_is_rfc_5348s_equation() -> None:
    """RFC 5348 section 3.1 with s = 1, b = 1: 1 / (R sqrt(2p/3) + t_RTO (3 sqrt(3p/8) p (1 + 32 p^2)))."""
    loss, rtt, rto = 0.04, 0.12, 0.48
    # sqrt(0.08/3) = 0.163299; 3 sqrt(0.015) = 0.367423; 0.367423 * 0.04 * 1.0512 = 0.0154494
    # 0.12 * 0.163299 + 0.48 * 0.0154494 = 0.0195959 + 0.0074157 = 0.0270116
    assert pftk.throughput_approximate(loss, rtt, rto) == pytest.approx(1 / 0.0270116, rel=1e-5)


def test_pftk_models_are_near_each_other() -> None:
    """The approximation is within a quarter of the full model for p <= 0.1 and T_0 of a few RTT."""
    loss = np.geomspace(1e-4, 0.1, 30)
    ratio = pftk.throughput_approximate(loss, 0.1, 0.4, 2) / pftk.throughput(loss, 0.1, 0.4, 2)
    assert np.all(np.abs(ratio - 1) < 0.25)


# RFC 9438 section 5.1: loss rate, Reno, CUBIC with C = 0.04, 0.4, 4.
TABLE_RTT_100_MS = [
    (1e-2, 12, 12, 12, 12),
    (1e-3, 38, 38, 38, 59),
    (1e-4, 120, 120, 187, 333),
    (1e-5, 379, 593, 1054, 1874),
    (1e-6, 1200, 3332, 5926, 10538),
    (1e-7, 3795, 18740, 33325, 59261),
    (1e-8, 12000, 105383, 187400, 333250),
]
TABLE_RTT_10_MS = [
    (1e-2, 12, 12, 12, 12),
    (1e-3, 38, 38, 38, 38),
    (1e-4, 120, 120, 120, 120),
    (1e-5, 379, 379, 379, 379),
    (1e-6, 1200, 1200, 1200, 1874),
    (1e-7, 3795, 3795, 5926, 10538),
    (1e-8, 12000, 18740, 33325, 59261),
]


@pytest.mark.parametrize(("round_trip", "table"), [(0.1, TABLE_RTT_100_MS), (0.01, TABLE_RTT_10_MS)])
def test_rfc_9438_tables(round_trip: float, table: list[tuple[float, int, int, int, int]]) -> None:
    """Section 5.1's two tables of average windows, to the packet."""
    for loss, reno, *cubic in table:
        assert round(float(cubic_response.window_reno(loss))) == reno
        found = cubic_response.window(loss, round_trip, [0.04, 0.4, 4.0])
        assert [round(float(value)) for value in found] == cubic


def test_cubic_window_is_the_cubic_function_averaged() -> None:
    """Section 5: a loss every 1/p packets; K = cbrt(W_max (1 - beta) / C); the mean of W_cubic over an epoch of K."""
    for loss, round_trip, c, beta in ((1e-5, 0.1, 0.4, 0.7), (1e-6, 0.05, 0.04, 0.8)):
        mean = float(cubic_response.window_cubic(loss, round_trip, c, beta))
        w_max = mean * 4 / (3 + beta)
        k = (w_max * (1 - beta) / c) ** (1 / 3)
        at = np.linspace(0, k, 200_001)
        w_cubic = c * (at - k) ** 3 + w_max
        assert w_cubic[0] == pytest.approx(beta * w_max)
        assert np.mean(w_cubic) == pytest.approx(mean, rel=1e-4)
        # The epoch's packets: K / RTT round trips of the mean window are 1 / p.
        assert mean * k / round_trip == pytest.approx(1 / loss, rel=1e-9)
