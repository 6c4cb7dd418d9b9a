"""CUBIC (RFC 9438): each MUST and SHOULD of sections 4 and 5 that concerns a sender without ECN.

Section 4.9.2's (a window grown beyond the one before a spurious loss stays) is held in undo_tests.rs of the core.

The windows wanted are worked out here from the document's equations. "The stage" is congestion avoidance between two
losses; its time t runs from its first ACK.
"""

import numpy as np
import pandas as pd
import pytest

from tcptrace_lab.scenario import ApplicationSpec, ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario
from tcptrace_lab.simulate import Run, simulate
from tests.timeline import timeline

C, BETA = 0.4, 0.7
ALPHA = 3 * (1 - BETA) / (1 + BETA)
RECOVERY, LOSS = 3, 4


def run_of(
    *,
    drops: tuple[int, ...] = (),
    seconds: float = 20,
    rtt_s: float = 0.1,
    application: ApplicationSpec | None = None,
    rate_bps: float = 80e6,
    **control: object,
) -> Run:
    """A path without a full buffer: what is lost is said, by number of the data packet."""
    fields = {"window": "cubic", "recovery": "sack", "prr": False, "timestamps": True, "initial_window": 10, **control}
    node = NodeSpec(rate_bps=rate_bps, delay_s=rtt_s / 2, drop_packets=drops)
    return simulate(
        Scenario(
            path=PathSpec(nodes=(node,), return_delay_s=rtt_s / 2, packet_bytes=1052),
            connections=(ConnectionSpec(control=ControlSpec(**fields), application=application or ApplicationSpec()),),  # type: ignore[arg-type]
            duration_s=seconds,
        )
    )


def in_segments(run: Run) -> pd.DataFrame:
    windows = run.windows
    at = windows.assign(t=windows["time_ns"] / 1e9, w=windows["cwnd"] / windows["smss"])
    return at.assign(threshold=windows["ssthresh"] / windows["smss"])


def stage(run: Run, number: int = -1) -> pd.DataFrame:
    """The rows of congestion avoidance after a loss (the last one), t from the first ACK that moved the window."""
    at = in_segments(run)
    begins = int(run.losses["time_ns"].iloc[number])
    rows = at[(at["time_ns"] > begins) & (at["state"] <= 1) & (at["w"] > at["threshold"])]
    return rows.assign(t=rows["t"] - rows["t"].iloc[0])


def w_cubic(t: np.ndarray, k: float, w_max: float) -> np.ndarray:
    """Equation (1), C being 0.4 (section 5.1: SHOULD)."""
    return C * (t - k) ** 3 + w_max


def test_the_window_runs_along_the_cubic_concave_to_w_max_and_convex_beyond():
    """Sections 4.2, 4.4 (MUST), 4.5 (MUST), 5.1: 100 segments at the loss, 70 after it, K = cbrt(30 / 0.4) = 4.22 s."""
    run = run_of(drops=(1200,), initial_ssthresh=100, max_window=100_000, seconds=14, rtt_s=0.2)
    lost = run.losses.iloc[-1]
    w_max = lost["cwnd_before"] / lost["smss"]
    rows = stage(run)
    k = ((w_max - rows["w"].iloc[0]) / C) ** (1 / 3)
    assert rows["t"].iloc[-1] > 1.5 * k
    # The rule steers at the window of one round trip later: what stands is W_cubic(t), 2 % and a segment apart.
    settled = rows[rows["t"] > 0.4]  # two round trips, until the window is full again
    wanted = w_cubic(settled["t"].to_numpy(), k, w_max)
    np.testing.assert_allclose(settled["w"], wanted, rtol=0.02, atol=1.0)
    # Concave before K, convex after it.
    slope = [np.ptp(rows["w"][rows["t"].between(a * k, b * k)]) for a, b in ((0, 0.3), (0.85, 1.15), (1.2, 1.5))]
    assert slope[0] > 3 * slope[1] < slope[2]


@pytest.mark.parametrize("segments", [1, 2])
def test_each_segment_acknowledged_is_its_part_of_the_way_to_the_target(segments):
    """Sections 4.2, 4.4 (MUST), 4.5 (MUST): (target - cwnd) / cwnd more, the target W_cubic(t + RTT).

    The document says it of an ACK. One that acknowledges two segments counts twice here, as in equation (4).
    """
    run = run_of(
        drops=(1200,),
        initial_ssthresh=100,
        max_window=100_000,
        seconds=14,
        rtt_s=0.2,
        delayed_ack_segments=segments,
    )
    lost = run.losses.iloc[-1]
    w_max = lost["cwnd_before"] / lost["smss"]
    rows = stage(run)
    k = ((w_max - rows["threshold"].iloc[0]) / C) ** (1 / 3)
    t, w, rtt_s = rows["t"].to_numpy(), rows["w"].to_numpy(), rows["srtt_ns"].to_numpy() / 1e9
    acked = np.diff(rows["snd_una"].to_numpy()) / rows["smss"].iloc[0]
    assert (acked == segments).mean() > 0.9
    wanted = (w_cubic(t[1:] + rtt_s[1:], k, w_max) - w[:-1]) / w[:-1] * acked
    # Before it the ACKs of the window that recovery sent in a burst: for them Reno's (section 4.3) is ahead.
    settled = t[1:] > 0.1
    np.testing.assert_allclose(np.diff(w)[settled], wanted[settled], atol=1e-6)
    assert min((t < k).sum(), (t > k).sum()) > 500
    # Section 4.2: the target is never below cwnd.
    assert (np.diff(w) >= 0).all()


def test_the_target_is_at_most_half_as_much_again_a_round_trip():
    """Section 4.2: over two seconds of round trip W_cubic more than doubles; the window does not."""
    run = run_of(drops=(30,), initial_ssthresh=12, seconds=40, rtt_s=2.0)
    rows = stage(run)
    ends = np.arange(2.0, rows["t"].iloc[-1], 2.0)
    windows = np.interp(ends, rows["t"], rows["w"])
    growth = windows[1:] / windows[:-1]
    assert (growth < 1.65).all()  # (1 + 0.5 / w)^w < e^0.5
    assert growth.max() > 1.4


@pytest.mark.parametrize("off_s", [3.0, 40.0])
def test_time_in_which_the_application_is_the_limit_does_not_count(off_s):
    """Sections 4.2 (MUST NOT) and 5.8: after 3 or 40 s of silence the window goes on where it stood."""
    writes = ((0.0, 3_000_000), (8.0 + off_s, 3_000_000))
    run = run_of(
        drops=(1200,),
        initial_ssthresh=100,
        seconds=11 + off_s,
        application=ApplicationSpec(kind="schedule", writes=writes),
        slow_start_after_idle=False,
    )
    at = in_segments(run)
    before = at[at["t"] < 8]["w"].iloc[-1]
    after = at[(at["t"] > 8 + off_s) & (at["t"] < 8.5 + off_s)]["w"]
    assert len(after) > 20
    # Half a second of growth at W_max: C * 0.5^3 on either side of the plateau, or Reno's 0.53 each round trip.
    assert after.max() - before < 4
    run_on = C * (8 + off_s - 4) ** 3
    assert run_on > 10 or off_s > 3


def test_a_receiver_or_application_that_limits_the_sender_keeps_the_window_where_it_is():
    """Section 5.8: CUBIC does not increase its window if a flow is application-limited."""
    writes = tuple((0.05 * i, 20_000) for i in range(300))
    run = run_of(
        seconds=15, application=ApplicationSpec(kind="schedule", writes=writes), initial_window=60, initial_ssthresh=60
    )
    # One full window waits for the handshake; after it 40 of 60 are in use.
    assert in_segments(run)["w"].max() < 61.1


def test_below_reno_s_window_it_is_reno_s():
    """Section 4.3: cwnd SHOULD be W_est, 0.53 segments a round trip up to cwnd_prior, then (SHOULD) one."""
    run = run_of(drops=(250,), initial_ssthresh=20, seconds=6, rtt_s=0.02)
    lost = run.losses.iloc[-1]
    prior = lost["cwnd_before"] / lost["smss"]
    rows = stage(run)
    # Round trips from the packets: a window of 1052 bytes at 80 Mbit/s takes less than the 20 ms.
    rtt_s = 0.02 + 8 * (1052 + 52) / 80e6
    first, last = rows["w"].iloc[0], rows["w"].iloc[-1]
    to_prior = rows[rows["w"] <= prior]
    slope = np.polyfit(to_prior["t"], to_prior["w"], 1)[0]
    assert first < prior < last
    assert slope * rtt_s == pytest.approx(ALPHA, rel=0.05)
    beyond = rows[(rows["w"] > prior) & (rows["t"] < to_prior["t"].iloc[-1] + 1.0)]
    assert np.polyfit(beyond["t"], beyond["w"], 1)[0] * rtt_s == pytest.approx(1.0, rel=0.05)


def test_two_segments_acknowledged_at_once_count_as_two():
    """Section 4.3: equation (4) SHOULD count what is acknowledged, so delayed ACKs are as fast."""
    each, second = (
        stage(run_of(drops=(250,), initial_ssthresh=20, seconds=6, rtt_s=0.02, delayed_ack_segments=n)) for n in (1, 2)
    )
    # Up to 28 of 30: before alpha becomes 1.
    slopes = [np.polyfit(rows["t"][rows["w"] < 28], rows["w"][rows["w"] < 28], 1)[0] for rows in (each, second)]
    assert slopes[1] == pytest.approx(slopes[0], rel=0.06)


def test_a_loss_found_by_acks_takes_three_tenths_at_once():
    """Section 4.6: upon entering recovery the sender MUST reduce cwnd and ssthresh, by 0.7 of flight_size (SHOULD):
    10 in flight leave 7."""
    timeline(
        """
        0.000 > S
        0.100 < S. ack 1
        0.100 > ack 1
        0.100 > 1:1001 x
        0.100 > 1001:2001
        0.100 > 2001:3001
        0.100 > 3001:4001
        0.100 > 4001:5001
        0.100 > 5001:6001
        0.100 > 6001:7001
        0.100 > 7001:8001
        0.100 > 8001:9001
        0.100 > 9001:10001
        0.202 < ack 1 sack 1001:2001
        0.203 < ack 1 sack 1001:3001
        0.204 < ack 1 sack 1001:4001 | cwnd 7 ssthresh 7 state recovery
        0.204 > 1:1001
        """,
        control=ControlSpec(window="cubic", recovery="sack", initial_window=10, prr=False),
    )


def test_a_loss_leaves_two_segments_at_the_least():
    """Section 4.6: 0.7 of two segments would be 1.4; cwnd and ssthresh are 2 at least. The timer finds it: ssthresh."""
    timeline(
        """
        0.000 > S
        0.100 < S. ack 1
        0.100 > ack 1
        0.100 > 1:1001 x
        0.100 > 1001:2001 x
        0.400 > 1:1001  | cwnd 1 ssthresh 2 state loss
        """,
        control=ControlSpec(window="cubic", recovery="sack", initial_window=2, prr=False),
    )


def test_ssthresh_is_of_what_is_in_flight_not_of_a_window_that_is_not_used():
    """Section 4.6: an application that has 10 segments out of a window of 60 leaves 0.7 of 10."""
    writes = ((0.0, 60_000), (2.0, 10_000))
    application = ApplicationSpec(kind="schedule", writes=writes)
    run = run_of(drops=(61,), initial_window=60, seconds=6, application=application, slow_start_after_idle=False)
    lost = run.losses.iloc[0]
    assert lost["cwnd_before"] / lost["smss"] >= 60
    assert lost["ssthresh_after"] / lost["smss"] == pytest.approx(7, abs=0.01)


@pytest.mark.parametrize(("fast_convergence", "share"), [(1.0, (1 + BETA) / 2), (0.0, 1.0)])
def test_a_second_loss_below_the_plateau_gives_up_more_of_it(fast_convergence, share):
    """Section 4.7 (SHOULD): W_max is 0.85 of cwnd; on a path of its own (SHOULD be disabled) it is cwnd."""
    run = run_of(
        drops=(1200, 2000),
        initial_ssthresh=100,
        seconds=8,
        parameters=(("fast_convergence", fast_convergence),),
    )
    first, second = run.losses["cwnd_before"] / run.losses["smss"]
    assert second < first
    assert stage(run)["w_max"].iloc[-1] == pytest.approx(share * second)


def after_a_timeout() -> Run:
    """A whole window of 20 is lost: nothing comes back but the timer."""
    return run_of(drops=tuple(range(100, 130)), initial_ssthresh=20, max_window=30, seconds=20, rtt_s=0.2)


def test_a_timeout_leaves_one_segment_and_seven_tenths_for_ssthresh():
    """Section 4.8: cwnd as Reno's, ssthresh by 0.7."""
    run = after_a_timeout()
    lost = run.losses[run.losses["detected_by"] == "rto"].iloc[0]
    at = in_segments(run)
    then = at[at["time_ns"] >= lost["time_ns"]].iloc[0]
    assert then["w"] == 1
    in_flight = at[at["time_ns"] < lost["time_ns"]].iloc[-1]
    assert lost["ssthresh_after"] == pytest.approx(BETA * (in_flight["snd_nxt"] - in_flight["snd_una"]))


def test_the_stage_after_a_timeout_begins_at_its_own_plateau():
    """Section 4.8: K = 0, W_max (and W_est, SHOULD) the window at the beginning, t from there."""
    run = run_of(drops=tuple(range(100, 141)), initial_ssthresh=40, seconds=20, rtt_s=0.2)
    assert "rto" in set(run.losses["detected_by"])
    rows = stage(run)
    start = rows["threshold"].iloc[0]
    assert rows["k_s"].iloc[0] == 0
    assert rows["w_max"].iloc[0] == pytest.approx(start, abs=1)
    assert rows["w_est"].iloc[0] == pytest.approx(start, abs=1)
    # Reno's share may be ahead of the cubic's flat beginning, never behind it.
    wanted = np.maximum(w_cubic(rows["t"].to_numpy(), 0, start), start)
    assert (rows["w"] >= wanted * 0.98 - 1).all()
    assert rows["w"].iloc[-1] == pytest.approx(wanted[-1], rel=0.05)


def test_below_ssthresh_it_is_slow_start():
    """Section 4.10 (MUST): one segment more for each ACK up to ssthresh."""
    run = run_of(initial_ssthresh=64, seconds=1, initial_window=4)
    at = in_segments(run)
    rising = at[at["w"] < 64]["w"].to_numpy()
    assert (np.diff(rising) == 1).all()
    assert at["w"].iloc[-1] < 80


def test_hystart_ends_slow_start_without_a_loss_and_the_window_is_its_own_plateau():
    """Section 4.10 (SHOULD use HyStart++; then K = 0 and W_max the window at the beginning)."""
    run = run_of(slow_start="hystart", rate_bps=8e6, seconds=6, rtt_s=0.06)
    at = in_segments(run)
    assert len(run.losses) == 0
    rows = at[at["k_s"].notna()]
    assert rows["k_s"].iloc[0] == 0
    assert rows["w_max"].iloc[0] == pytest.approx(rows["threshold"].iloc[0], abs=1)
