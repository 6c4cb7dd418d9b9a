"""Every number that Barakat & Altman 1998 (RR-3574) prints and that can be computed, at the printed precision."""

from __future__ import annotations

import numpy as np
import pytest
from tcptrace_lab.models import small_buffers as model
from tcptrace_lab.models import small_buffers_packets as packets

from tcptrace_lab.scenario import ControlSpec, NodeSpec, PathSpec
from tests.conftest import ns2_rows

MU = 1.5e6 / (8 * 512)
TAU = 0.56
TAHOE = ControlSpec(recovery="tahoe")


def satellite(buffer: int) -> PathSpec:
    """Section 8's network."""
    node = NodeSpec(rate_bps=1.5e6, buffer=buffer, delay_s=0.28)
    return PathSpec(nodes=(node,), return_delay_s=0.28, packet_bytes=512, access_rate_bps=10e6)


def test_mu_is_366_packets_a_second_and_tau_560_ms() -> None:
    """Section 8: T1, 512-byte packets, 280 ms each way."""
    assert round(satellite(20).mu_pps) == 366
    assert satellite(20).propagation_rtt_s == pytest.approx(0.560)


def test_w_max_is_buffer_pipe_and_one() -> None:
    """Equation (1)."""
    # 20 + 366.21 * 0.56 + 1 = 226.08
    assert model.w_max(20, MU, TAU) == pytest.approx(226.078125)


def test_the_mini_cycle_of_the_loss_brackets_the_buffer() -> None:
    """Equation (6): 2^(n_B - 2) < B <= 2^(n_B - 1), at the powers of two too."""
    buffer = np.arange(1, 5000)
    cycle = model.n_b(buffer)
    assert np.all(2 ** (cycle - 2) < buffer)
    assert np.all(buffer <= 2 ** (cycle - 1))


def test_w_b_is_2b_where_b_is_a_power_of_two_and_less_than_3b_always() -> None:
    """Equations (2), (5): equal "if we approximate 2^(n_B - 1) by B"."""
    powers = 2.0 ** np.arange(12)
    np.testing.assert_array_equal(model.w_b(powers), model.w_b_approximate(powers))
    buffer = np.arange(2, 4000)
    assert np.all(model.w_b(buffer) < 3 * buffer)


def test_n_1_and_n_2_are_the_smallest_integers_of_their_inequalities() -> None:
    """Equations (7), (8), by search."""
    for buffer in range(1, 600):
        cycle = float(model.n_b(buffer))
        burst = 2 ** (cycle - 1) - buffer + 2
        first = next(n for n in range(200) if 4 + 1.5 * n * (n + 1) > 2**cycle - 2 * (buffer - 1))
        second = next(n for n in range(200) if burst * (1.5 ** (n + 1) - 1) > buffer - 1)
        assert model.n_1(buffer) == first
        assert model.n_2(buffer) == second


def test_equation_15_brackets_the_buffer() -> None:
    """Equation (15), the left side being attained where B lies on the edge."""
    low, middle, high = model.n_2_edges(np.arange(1, 3000))
    assert np.all(low <= middle * (1 + 1e-12))
    assert np.all(middle < high)


def test_condition_9_is_that_s_and_half_of_n_1_overflow() -> None:
    """Section 4: S + N_1^1 / 2 > B, where n_1 > 0, is equation (9)."""
    buffer = np.arange(1.0, 3000)
    buffer = buffer[model.n_1(buffer) > 0]
    _, in_i, in_ii = model.burst_n_1(buffer)
    assert np.all((model.burst_s(buffer) + in_i / 2 > buffer) == (model.condition_9(buffer) > 0))
    assert np.all(in_ii >= 0)


def test_condition_10_is_that_n_2_overflows() -> None:
    """Section 4: N_2 - N_2^3 / 2 > B is equation (10)."""
    buffer = np.arange(1.0, 3000)
    burst, in_iii = model.burst_n_2(buffer)
    surplus = burst - in_iii / 2 - buffer
    clear = np.abs(surplus) > 1e-6 * buffer
    assert np.all((surplus > 0)[clear] == (model.condition_10(buffer) > 0)[clear])


def test_s_is_below_b_plus_2() -> None:
    """Section 5: "using equations (6) and (12), we have always S < B + 2"."""
    buffer = np.arange(1, 5000)
    assert np.all(model.burst_s(buffer) < buffer + 2)


def test_parts_i_and_iii_cannot_overflow_at_three_halves_of_mu() -> None:
    """Section 4: part (i) has fewer than 2 B packets and part (iii) fewer than 3 B, whole B."""
    buffer = np.arange(2.0, 5000)
    assert np.all(2 ** model.n_b(buffer) - 2 * (buffer - 1) < 2 * buffer)
    assert np.all(2 * (buffer - 1) < 3 * buffer)


def test_below_2_w_b_the_pipe_is_below_this() -> None:
    """Section 6: W_th < 2 W_B "leads to mu tau + 1 < 2^(n_B + 1) + 3 B"."""
    buffer, pipe = np.meshgrid(np.arange(1.0, 200), np.linspace(0.5, 3000, 500))
    below = model.w_threshold(buffer, 1, pipe) < 2 * model.w_b(buffer)
    np.testing.assert_array_equal(below, pipe + 1 < 2 ** (model.n_b(buffer) + 1) + 3 * buffer)


def test_condition_10_holds_on_left_edges_and_fails_on_right_ones() -> None:
    """Section 5: (10) reads 2 (B - 1) + S > 2 B - 1, so S > 1, on the left; S > 2 B + 1, never, on the right."""
    buffer = np.arange(2, 4000).astype(float)
    burst = model.burst_s(buffer)
    middle = (buffer - 1) / burst + 1
    left = burst * (2 * middle - 1) > 2 * buffer - 1
    right = burst * (2 * middle / 1.5 - 1) > 2 * buffer - 1
    np.testing.assert_array_equal(left, burst > 1)
    np.testing.assert_array_equal(right, burst > 2 * buffer + 1)
    assert left.all()
    assert not right.any()


def test_condition_16_is_that_the_window_at_the_overflow_is_below_the_threshold() -> None:
    """Section 6: W'_th = W_max / 4 > 2^(n_B - 1) + B - N_2^3 / 2 + 1."""
    buffer, tau = np.meshgrid(np.arange(5.0, 200), np.linspace(0.1, 3, 30))
    _, in_iii = model.burst_n_2(buffer)
    direct = model.w_max(buffer, MU, tau) / 4 > 2 ** (model.n_b(buffer) - 1) + buffer - in_iii / 2 + 1
    both = direct & (model.condition_10(buffer) > 0)
    np.testing.assert_array_equal(model.condition_16(buffer, MU, tau) > 0, both)


@pytest.mark.parametrize(("buffer", "regime"), [(19, "double"), (20, "triple"), (22, "double")])
def test_figures_3_4_5(buffer: int, regime: str) -> None:
    """Section 8: B = 19 overflows once per cycle in slow start, 20 twice, 22 once."""
    assert model.SmallBuffers().predict(satellite(buffer), TAHOE).regime == regime


def test_triple_slow_starts_need_fewer_than_26_packets() -> None:
    """Section 8: "smaller than 26 packets is needed to get W_th > 2 W_B", with the printed mu = 366."""
    buffer = np.arange(1, 100)
    above = model.w_threshold(buffer, 366, TAU) > 2 * model.w_b(buffer)
    assert buffer[above].max() == 25
    # With mu = 1.5e6 / 4096 the edge is 26 itself, by 0.04 packets: the other reading, "when B exceeds 26".
    above = model.w_threshold(buffer, MU, TAU) > 2 * model.w_b(buffer)
    assert buffer[above].max() == 26


def test_between_27_and_64_packets_there_are_two_slow_starts() -> None:
    """Section 8: "For B between 27 packets and 64, W_th is located between W_B and 2 W_B"."""
    buffer = np.arange(27, 65)
    threshold, overflow = model.w_threshold(buffer, MU, TAU), model.w_b(buffer)
    assert np.all((overflow < threshold) & (threshold < 2 * overflow))
    assert np.all(model.regime(buffer, MU, TAU) == 2)
    assert np.all(model.regime(np.arange(65, 200), MU, TAU) == 1)


def test_bounds_are_a_third_a_seventh_and_an_eleventh() -> None:
    """Equation (3); section 6: from W_th > 2 W_B with B at either end of equation (6)."""
    bounds = model.bounds()
    assert (bounds["slow_start_loss"], bounds["triple_upper"], bounds["triple_lower"]) == (1 / 3, 1 / 7, 1 / 11)
    pipe = np.linspace(50, 20000, 4000)
    for power in (4, 8, 32, 128):
        # B = 2^(n_B - 1): W_B = 2 B, so W_th > 2 W_B is B + pipe + 1 > 8 B. Differs: the paper prints <.
        np.testing.assert_array_equal(
            model.w_threshold(power, 1, pipe) > 2 * model.w_b(power), model.beta(power, 1, pipe) < 1 / 7
        )
        # B just above 2^(n_B - 2): W_B near 3 B, so W_th > 2 W_B is pipe + 1 > 11 B.
        just = power * (1 + 1e-9)
        clear = np.abs(model.beta(just, 1, pipe) * 11 - 1) > 1e-6
        np.testing.assert_array_equal(
            (model.w_threshold(just, 1, pipe) > 2 * model.w_b(just))[clear],
            (model.beta(just, 1, pipe) < 1 / 11)[clear],
        )


def test_no_triple_slow_start_at_or_above_a_seventh() -> None:
    """Section 6: beta < 1/7 is necessary."""
    buffer, pipe = np.meshgrid(np.arange(1, 400), np.geomspace(1, 1e5, 300))
    triple = model.regime(buffer, 1, pipe) == 3
    assert triple.any()
    assert model.beta(buffer, 1, pipe)[triple].max() < 1 / 7


def test_r_is_0_9_at_alpha_a_quarter_and_falls() -> None:
    """Section 7: R = (alpha + 2) / (2 alpha + 2); the largest loss is 10 %, at W_th = 2 W_B."""
    assert model.ratio_r(0.25) == pytest.approx(0.9)
    assert np.all(np.diff(model.ratio_r(np.linspace(0, 1, 50))) < 0)
    # It is the ratio of the throughputs: W_S = W_B / 2 over W_S = W_B.
    overflow, end = model.w_b(20), model.w_max(20, MU, TAU)
    assert (overflow / 2 + end) / (overflow + end) == pytest.approx(model.ratio_r(overflow / end))


def test_throughput_drops_by_about_a_tenth_near_26() -> None:
    """Section 8: "the throughput deterioration is about 10% when we approach B = 26"."""
    # B = 24 is double, 25 triple, 26 double again.
    before, triple, after = model.throughput([24, 25, 26], MU, TAU)
    assert 1 - triple / before == pytest.approx(0.10, abs=0.01)
    assert 1 - triple / after == pytest.approx(0.10, abs=0.01)


def test_theorem_1_taken_literally_gives_this_set() -> None:
    """Theorem 1 for the network of section 8; models/ERRATA.md says where single packets decide otherwise."""
    buffer = np.arange(1, 100)
    triple = buffer[model.regime(buffer, MU, TAU) == 3]
    assert triple.tolist() == [1, 2, 3, 5, 6, 9, 11, 13, 17, 18, 20, 21, 25]


def test_which_condition_fired_is_said() -> None:
    """Theorem 1: B = 17 by both, 18 by (9) alone, 20 by (10) alone, 19 by neither."""
    said = {buffer: model.SmallBuffers().predict(satellite(buffer), TAHOE).equations for buffer in (17, 18, 19, 20)}
    assert said[17][-2:] == ("eq. 9 holds", "eq. 10 holds")
    assert said[18][-1:] == ("eq. 9 holds",)
    assert said[19][-1:] == ("neither eq. 9 nor eq. 10 holds",)
    assert said[20][-1:] == ("eq. 10 holds",)


def test_the_margin_is_what_flips_the_regime() -> None:
    """At a triple near the edge W_th = 2 W_B, lowering W_th by a little more than the margin gives a double."""
    answer = model.SmallBuffers().predict(satellite(25), TAHOE)
    assert answer.regime == "triple"
    assert answer.margin is not None
    threshold = float(model.w_threshold(25, MU, TAU))
    for factor, regime in ((0.99, 3), (1.01, 2)):
        # W_th = (B + mu tau + 1) / 2, solved for tau.
        tau = (2 * threshold / (1 + factor * answer.margin) - 26) / MU
        assert model.regime(25, MU, tau) == regime


def test_regimes_agree_with_ns2_from_27_packets_on() -> None:
    """Outside Theorem 1, ns-2 has the paper's regimes, but for B = 64 (a burst of 2 B packets still fits)."""
    rows = ns2_rows("tahoe_sweep", config="paper")
    ns2 = {int(row["B_pkts"]): row["slow_starts_per_cycle"] for row in rows}
    differ = [b for b in ns2 if b >= 27 and str(int(model.regime(b, MU, TAU))) != ns2[b]]
    assert differ == [64]


def test_throughput_with_the_queue_counted_is_near_ns2() -> None:
    """avoidance.py against ns-2 where the regimes agree: within 3.5 %; the paper's formula within 13.5 %."""
    rows = ns2_rows("tahoe_sweep", config="paper")
    found = model.SmallBuffers().evaluate(buffer=[float(r["B_pkts"]) for r in rows], mu=MU, tau=TAU)
    same = np.array([r["slow_starts_per_cycle"] for r in rows]) == found["slow_starts"].value.astype(str)
    ns2 = np.array([float(r["throughput_full_cycles_pkt_per_s"]) for r in rows])
    assert same.sum() > 45
    assert np.max(np.abs(found["throughput_cycle"].value / ns2 - 1)[same]) < 0.035
    assert np.max(np.abs(found["throughput"].value / ns2 - 1)[same]) < 0.135


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"recovery": "sack"}, "sack"),
        ({"delayed_ack_segments": 2}, "acknowledges each"),
        ({"limited_transmit": True}, "limited transmit"),
        ({"max_window": 100.0}, "limited to 100"),
        ({"window": "cubic"}, "cubic"),
    ],
)
def test_another_sender_is_refused(change: dict[str, object], word: str) -> None:
    """Section 2's assumptions on TCP."""
    control = ControlSpec(**{"recovery": "tahoe", **change})  # type: ignore[arg-type]
    assert word in model.SmallBuffers().applies_to(satellite(20), control).text


def test_another_network_is_refused() -> None:
    """Section 2's assumptions on the network."""
    small = model.SmallBuffers()
    node = NodeSpec(rate_bps=1.5e6, buffer=20, delay_s=0.28)
    slow_access = PathSpec(nodes=(node,), packet_bytes=512, access_rate_bps=2e6)
    assert "slower than 2 mu" in small.applies_to(slow_access, TAHOE).text
    lossy = PathSpec(nodes=(NodeSpec(rate_bps=1.5e6, buffer=20, delay_s=0.28, loss=0.01),))
    assert "outside the queues" in small.applies_to(lossy, TAHOE).text
    policed = PathSpec(nodes=(NodeSpec(rate_bps=1.5e6, buffer=20, delay_s=0.28, policer_bps=1e6),))
    assert "a policer loses packets" in small.applies_to(policed, TAHOE).text
    endless = PathSpec(nodes=(NodeSpec(rate_bps=1.5e6, delay_s=0.28),))
    assert "never overflows" in small.applies_to(endless, TAHOE).text
    slow_return = PathSpec(nodes=(node,), packet_bytes=512, reverse=(NodeSpec(rate_bps=1e5),))
    assert "return path" in small.applies_to(slow_return, TAHOE).text


NETWORKS = {
    # mu, T (propagation, service, access link, ACKs), rate that feeds the bottleneck; packets a second and seconds.
    "paper": (MU, TAU + 1 / MU + 4096 / 10e6 + 320 / 1.5e6 + 320 / 10e6, 10e6 / 4096),
    "grid": (64.0, 3.125 + 1 / 64 + 1 / 512 + 2 * 320 / 163840, 512.0),
}


@pytest.mark.parametrize("config", NETWORKS)
def test_counting_packets_gives_ns2s_thresholds_at_every_buffer(config: str) -> None:
    """68 buffers on two networks: number of slow starts and every threshold of a cycle."""
    rows = ns2_rows("tahoe_sweep", config=config)
    mu, round_trip, feed = NETWORKS[config]
    assert len(rows) == 68
    for row in rows:
        first, *others = map(int, row["ssthresh_full_cycles_pkts"].split(";")[-1].split("/"))
        buffer = int(row["B_pkts"])
        assert packets.first_threshold(buffer, mu, round_trip, feed) == first
        found = packets.cycle(buffer, first, ((mu / feed, np.inf),))
        assert list(found.thresholds) == others
        assert str(found.slow_starts) == row["slow_starts_per_cycle"]


@pytest.mark.parametrize("config", NETWORKS)
def test_counting_packets_gives_ns2s_throughput_within_0_7_percent(config: str) -> None:
    rows = ns2_rows("tahoe_sweep", config=config)
    mu, round_trip, feed = NETWORKS[config]
    found = packets.SmallBuffersPackets().evaluate(
        buffer=[float(row["B_pkts"]) for row in rows], mu=mu, round_trip=round_trip, feed_rate=feed
    )
    ns2 = np.array([float(row["throughput_full_cycles_pkt_per_s"]) for row in rows])
    np.testing.assert_allclose(found["throughput_cycle"].value, ns2, rtol=0.007)


def test_counted_packets_are_conserved() -> None:
    """Congestion avoidance begins with as many packets acknowledged as the receiver has in order; thresholds fall."""
    for buffer in (1, 2, 7, 16, 20, 33, 64, 100):
        for threshold in (10, 60, 113, 400):
            found = packets.cycle(buffer, threshold)
            assert found.packets >= (found.thresholds[-1] if found.thresholds else threshold) - 1
            assert all(a >= b for a, b in zip((threshold, *found.thresholds), found.thresholds, strict=False))
            assert found.timeouts <= len(found.thresholds)


def test_theorem_2_holds_for_packets_too_but_for_a_burst_that_just_fits() -> None:
    """No three slow starts where W_B < W_th < 2 W_B: B = 27 to 63 of section 8's network."""
    for buffer in range(27, 64):
        assert packets.cycle(buffer, int(packets.first_threshold(buffer, MU, TAU + 1 / MU, 1e9))).slow_starts == 2


def test_a_verdict_that_hangs_on_one_packet_says_so() -> None:
    """B = 20 is triple, 19 and 21 double."""
    answer = packets.SmallBuffersPackets().predict(satellite(20), TAHOE)
    assert answer.regime == "triple"
    assert "one packet more or less" in answer.notes[0]
    assert packets.SmallBuffersPackets().predict(satellite(40), TAHOE).notes == ()
    assert "more than a third" in packets.SmallBuffersPackets().applies_to(satellite(80), TAHOE).text


def test_one_count_stands_for_all_thresholds_out_of_reach() -> None:
    """What `cycles` saves on a map changes no answer: buffers, nodes before and thresholds drawn at random."""
    rng = np.random.default_rng(4)
    points = []
    for _ in range(25):
        before = ((0.15, np.inf), *([(float(rng.uniform(0.5, 0.98)), int(rng.integers(1, 60)))] * int(rng.integers(2))))
        buffer = int(rng.integers(1, 60))
        points += [(buffer, int(threshold), before) for threshold in rng.integers(2, 400, 6)]
    found = packets.cycles(points)
    wanted = [packets.cycle(*point) for point in points]
    assert [(one.thresholds, one.timeouts, one.rounds, one.packets) for one in found] == [
        (one.thresholds, one.timeouts, one.rounds, one.packets) for one in wanted
    ]
    # Most thresholds up to 400 are out of reach of buffers up to 60: far fewer counts than points.
    assert len({id(one) for one in found}) < 0.6 * len(points)
