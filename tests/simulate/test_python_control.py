"""A congestion control written in Python, in the Rust engine."""

import sys
from dataclasses import replace

import pandas as pd
import pytest

from tcptrace_lab import _core
from tcptrace_lab.errors import LabError
from tcptrace_lab.scenario_file import load
from tcptrace_lab.simulate import simulate
from tests.conftest import ROOT

SCENARIOS = ROOT / "captures" / "scenarios"


class Reno:
    """RFC 5681: one segment more per ACK in slow start, per round trip in avoidance; half the flight at a loss."""

    def on_ack(self, state):
        if not state.is_cwnd_limited:
            return
        if state.cwnd < state.ssthresh:
            state.cwnd += min(state.newly_acked, state.smss)
        else:
            state.cwnd += state.smss * state.smss / state.cwnd

    def on_loss(self, state):
        state.ssthresh = state.flight_size / 2

    on_timeout = on_loss


@pytest.mark.parametrize("recovery", ["tahoe", "reno", "newreno", "sack"])
@pytest.mark.parametrize("profile", ["ns2", "rfc"])
def test_a_python_reno_sends_the_packets_of_the_built_in_one(profile, recovery):
    name = "small_buffers_B20" if profile == "ns2" else "reno_10M"
    overrides = ["duration_s=20", f"control.recovery={recovery}"]
    scenario = load(SCENARIOS / f"{name}.toml", overrides=overrides)
    built_in, ours = simulate(scenario), simulate(scenario, control=Reno())
    assert len(built_in.losses) > 0
    pd.testing.assert_frame_equal(ours.packets(), built_in.packets())
    # What a built-in control holds in mind is a column more.
    pd.testing.assert_frame_equal(ours.windows, built_in.windows[ours.windows.columns])


def test_each_method_is_told_what_happened():
    told = []

    class Listener(Reno):
        def start(self, state):
            told.append(("start", state.cwnd))

        def on_rtt(self, now_ns, rtt_ns):
            told.append(("rtt", rtt_ns))

        def on_ack(self, state):
            told.append(("ack", state.newly_acked, state.now_ns))
            super().on_ack(state)

        def on_loss(self, state):
            told.append(("loss", state.flight_size))
            super().on_loss(state)

    run = simulate(load(SCENARIOS / "reno_10M.toml", overrides=["duration_s=10"]), control=Listener())
    smss = run.windows["smss"].iloc[0]
    assert told[0] == ("start", 10 * smss)
    acked = [row[1] for row in told if row[0] == "ack"]
    assert min(acked) > 0
    assert sum(acked) <= run.totals[0]["acked"]
    losses = [row[1] for row in told if row[0] == "loss"]
    assert len(losses) == len(run.losses)
    # Equation (4) of RFC 5681: half of the flight it was told.
    assert list(run.losses["ssthresh_after"]) == pytest.approx([flight / 2 for flight in losses])
    # 40 ms of propagation and a full packet's 1.2 ms.
    assert min(row[1] for row in told if row[0] == "rtt") == pytest.approx(41.2e6, rel=0.01)


@pytest.mark.parametrize("timestamps", [False, True])
@pytest.mark.parametrize("recovery", ["tahoe", "reno", "newreno", "sack", "fack"])
@pytest.mark.parametrize("profile", ["ns2", "rfc"])
def test_start_comes_once_and_first_and_every_sample_is_told(profile, recovery, timestamps):
    told = []

    class Listener(Reno):
        def start(self, state):
            told.append(("start", state.cwnd / state.smss))

        def on_rtt(self, now_ns, rtt_ns):
            told.append(("rtt", now_ns, rtt_ns))

        def on_ack(self, state):
            told.append(("ack", state.now_ns))
            super().on_ack(state)

    name = "small_buffers_B20" if profile == "ns2" else "reno_10M"
    overrides = [
        "duration_s=20",
        f"control.recovery={recovery}",
        f"control.timestamps={str(timestamps).lower()}",
        "control.initial_window=3",
    ]
    run = simulate(load(SCENARIOS / f"{name}.toml", overrides=overrides), control=Listener())
    assert [row for row in told if row[0] == "start"] == [("start", 3)]
    assert told[0][0] == "start"
    assert run.windows["cwnd"].iloc[0] == 3 * run.windows["smss"].iloc[0]
    rtts = [row for row in told if row[0] == "rtt"]
    acks = [row for row in told if row[0] == "ack"]
    # The sample is told before the ACK that gives it opens the window.
    assert told.index(rtts[0]) < told.index(acks[0])
    assert rtts[0][1] == acks[0][1]
    # Propagation at least; what waited behind a hole or in the buffer took longer.
    base_s = 0.56 if profile == "ns2" else 0.04
    assert min(rtt_ns for _, _, rtt_ns in rtts) >= base_s * 1e9
    if profile == "ns2" and not timestamps:
        # One packet at a time: about one a round trip, fewer where a loss event cancels it.
        # ns-2's FACK also takes one of each duplicate ACK's timestamp.
        assert 0.5 * 20 / base_s < len(rtts)
        assert len(rtts) <= 20 / base_s or recovery == "fack"
    else:
        # Each ACK of new data, but for those of data sent twice (Karn) without timestamps.
        assert len(rtts) >= (1.0 if timestamps else 0.9) * len(acks)


def test_an_exception_in_a_control_ends_the_run_and_is_raised():
    class Broken(Reno):
        def on_loss(self, state):
            raise ZeroDivisionError("here")

    with pytest.raises(ZeroDivisionError, match="here"):
        simulate(load(SCENARIOS / "small_buffers_B20.toml"), control=Broken())


@pytest.mark.parametrize("value", [float("nan"), -1.0])
def test_a_window_that_is_no_window_is_refused(value):
    class Wild(Reno):
        def on_ack(self, state):
            state.cwnd = value

    with pytest.raises(ValueError, match="on_ack set cwnd"):
        simulate(load(SCENARIOS / "small_buffers_B20.toml"), control=Wild())


def test_a_control_without_a_method_is_refused_by_its_name():
    class Half:
        def on_ack(self, state):
            pass

    with pytest.raises(AttributeError, match="on_loss"):
        simulate(load(SCENARIOS / "small_buffers_B20.toml"), control=Half())


def test_only_the_first_connection_is_the_given_control():
    scenario = load(SCENARIOS / "small_buffers_B20.toml", overrides=["duration_s=20"])
    both = replace(scenario, connections=scenario.connections * 2)

    class Still(Reno):
        def on_ack(self, state):
            pass

    windows = simulate(both, control=Still()).windows
    largest = windows.groupby("connection")["cwnd"].max() / 472
    assert largest[0] == 1
    assert largest[1] > 50


def test_two_of_one_s_own_share_a_path_as_two_built_in_ones_do():
    """Each connection has a state of its own: fairness between two controls can be measured."""
    one = load(SCENARIOS / "reno_10M.toml", overrides=["duration_s=20"])
    scenario = replace(one, connections=(*one.connections, replace(one.connections[0], start_s=3.0)))
    built_in, ours = simulate(scenario), simulate(scenario, controls=[Reno(), Reno()])
    assert ours.totals == built_in.totals
    pd.testing.assert_frame_equal(ours.windows, built_in.windows[ours.windows.columns])


def test_any_connection_may_have_its_own():
    scenario = load(SCENARIOS / "small_buffers_B20.toml", overrides=["duration_s=20"])
    both = replace(scenario, connections=scenario.connections * 2)

    class Still(Reno):
        def on_ack(self, state):
            pass

    windows = simulate(both, controls=[None, Still()]).windows
    largest = windows.groupby("connection")["cwnd"].max() / 472
    assert largest[0] > 50
    assert largest[1] == 1
    with pytest.raises(LabError, match="3 controls for 2"):
        simulate(both, controls=[None, None, Still()])


class Counting(Reno):
    """Reno that writes down what every ACK delivers."""

    def __init__(self):
        self.told = []

    def on_delivery(self, state):
        self.told.append(
            {name: getattr(state, name) for name in ("newly_acked", "delivered", "delivery_rate", "rtt_ns", "srtt_ns")}
            | {name: getattr(state, name) for name in ("newly_lost", "lost", "is_in_recovery")}
        )


@pytest.mark.parametrize("recovery", ["newreno", "sack"])
@pytest.mark.parametrize("profile", ["ns2", "rfc"])
def test_every_ack_is_told_with_what_it_delivers(profile, recovery):
    """Also in recovery: a rate computed from what is told has no gaps."""
    name = "small_buffers_B20" if profile == "ns2" else "reno_10M"
    scenario = load(SCENARIOS / f"{name}.toml", overrides=["duration_s=20", f"control.recovery={recovery}"])
    control = Counting()
    run = simulate(scenario, control=control)
    pd.testing.assert_frame_equal(run.windows, simulate(scenario, control=Reno()).windows)
    told = pd.DataFrame(control.told)
    packets = run.packets(tap=scenario.taps[0])
    acks = packets[~packets["is_from_sender"] & (packets["flags"] & 2 == 0)]
    assert len(told) == len(acks)
    assert told["is_in_recovery"].any()
    assert (told["newly_acked"].cumsum() == told["delivered"]).all()
    assert (told["newly_lost"].cumsum() == told["lost"]).all()
    # What has been delivered is what was acknowledged and what is known to wait behind a hole at the end.
    unit = 1 if profile == "rfc" else run.windows["smss"].iloc[0]
    assert 0 <= told["delivered"].iloc[-1] - run.totals[0]["acked"] <= run.windows["cwnd"].max() / unit
    assert told["lost"].iloc[-1] >= len(run.losses) > 0
    # No rate is beyond the bottleneck's, but for what waits behind a hole and is told of at once. The path of profile
    # ns2 is a satellite's, which twenty seconds do not fill.
    bottleneck = scenario.path.nodes[0].rate_bps / 8 / (1 if profile == "rfc" else scenario.path.packet_bytes)
    if recovery == "sack":
        assert told["delivery_rate"].max() <= 1.01 * bottleneck
    if profile == "rfc":
        assert told["delivery_rate"].quantile(0.9) == pytest.approx(bottleneck, rel=0.05)
    # A duplicate ACK without SACK does not say which segment came.
    assert recovery == "newreno" or told["rtt_ns"].notna().mean() > 0.9
    assert told["srtt_ns"].iloc[-1] > 0


def test_samples_of_the_timer_are_told_with_an_ack_in_profile_ns2_too():
    told = []

    class Listener(Reno):
        def on_ack(self, state):
            told.append((state.rtt_ns, state.srtt_ns))
            super().on_ack(state)

    simulate(load(SCENARIOS / "small_buffers_B20.toml", overrides=["duration_s=20"]), control=Listener())
    samples = [rtt_ns for rtt_ns, _ in told if rtt_ns is not None]
    assert len(samples) > 10
    assert min(samples) >= 0.56e9
    assert sum(srtt_ns is not None for _, srtt_ns in told) > 0.9 * len(told)


def test_a_rate_that_is_set_spaces_the_segments():
    """1448 bytes at 500 kB/s: 2.896 ms between two departures."""

    class Paced(Reno):
        def on_ack(self, state):
            state.cwnd, state.pacing_rate = 100 * state.smss, 500_000.0

    run = simulate(load(SCENARIOS / "reno_10M.toml", overrides=["duration_s=5"]), control=Paced())
    packets = run.packets(tap="sender")
    sent = packets[packets["is_from_sender"] & (packets["payload_len"] > 0) & (packets["time_ns"] > 10**9)]
    gap_ns = sent["payload_len"].iloc[0] / 500_000 * 1e9
    assert sent["time_ns"].diff().median() == pytest.approx(gap_ns, rel=1e-6)
    assert sent["time_ns"].diff().min() >= 0.99 * gap_ns


def test_profile_ns2_refuses_a_rate():
    class Paced(Reno):
        def on_ack(self, state):
            state.pacing_rate = 1.0

    with pytest.raises(ValueError, match="do not pace"):
        simulate(load(SCENARIOS / "small_buffers_B20.toml"), control=Paced())


def test_every_field_is_in_the_table():
    fields = [name for name in dir(_core.ControlState) if not name.startswith("_")]
    docstring = sys.modules["tcptrace_lab.simulate"].__doc__ or ""
    page = (ROOT / "docs" / "python_controls.md").read_text()
    for name in fields:
        assert f"| `{name}`" in page, name
        assert f"{name} " in docstring, name
    for method in ("on_ack", "on_loss", "on_timeout", "start", "on_rtt", "on_delivery", "on_recovered"):
        assert f"| `{method}(" in page, method
