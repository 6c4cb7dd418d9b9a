"""What holds for every control on every path: conservation, the window, order, the same bytes for the same seed."""

import functools
import math
from dataclasses import replace

import numpy as np
import pytest

from tcptrace_lab.controls import WINDOWS
from tcptrace_lab.errors import ScenarioError
from tcptrace_lab.scenario import (
    CONTROLS,
    ApplicationSpec,
    ConnectionSpec,
    ControlSpec,
    NodeSpec,
    PathSpec,
    ReceiverSpec,
    Scenario,
)
from tcptrace_lab.scenario_file import load
from tcptrace_lab.simulate import RECOVERY, Run, simulate
from tests.conftest import ROOT

SHIPPED = sorted((ROOT / "captures" / "scenarios").glob("*.toml"))


def control(name: str, **more: object) -> ControlSpec:
    return ControlSpec(**{**CONTROLS[name], **more})  # type: ignore[arg-type]


def rows() -> list[tuple[str, str]]:
    """Every named control in the profiles that can run it."""
    return [(profile, name) for name in CONTROLS for profile in WINDOWS[control(name).window].profiles]


@functools.cache
def lossy(profile: str, name: str) -> Run:
    """A short, narrow path that loses: by overflow, at random and by schedule, data and ACKs."""
    path = PathSpec(
        nodes=(
            NodeSpec(rate_bps=4e6, buffer=12, delay_s=0.01, loss=0.02, drop_packets=(40, 41, 60)),
            NodeSpec(rate_bps=6e6),
        ),
        return_delay_s=0.01,
        packet_bytes=1000,
        ack_loss=0.01,
    )
    connection = ConnectionSpec(control=control(name), application=ApplicationSpec(kind="bytes", bytes=400_000))
    return simulate(Scenario(path=path, connections=(connection,), duration_s=60, profile=profile, seed=3))


@functools.cache
def shipped(name: str) -> Run:
    """A shipped scenario, ten seconds of it."""
    scenario = load(ROOT / "captures" / "scenarios" / f"{name}.toml")
    return simulate(replace(scenario, duration_s=min(scenario.duration_s, 10)))


def runs() -> list[object]:
    many = [pytest.param(functools.partial(lossy, *row), id="-".join(row)) for row in rows()]
    return many + [pytest.param(functools.partial(shipped, file.stem), id=file.stem) for file in SHIPPED]


@pytest.mark.parametrize("make", runs())
def test_packets_in_are_out_queued_or_dropped_at_each_node(make):
    run = make()
    assert run.nodes["is_conserved"].all()
    overflows = run.drops[run.drops["reason"] == "overflow"].groupby(["is_reverse", "node"]).size()
    for node in run.nodes.itertuples():
        assert node.packets_dropped == overflows.get((node.is_reverse, node.node), 0)
        assert 0 <= node.packets_in - node.packets_out - node.packets_dropped - node.waiting <= 1


@pytest.mark.parametrize("make", runs())
def test_what_is_sent_fits_the_congestion_and_the_receive_window(make):
    run = make()
    for number, rows in run.windows.groupby("connection"):
        sender = run.scenario.connections[number].control
        # RFC 3042 lets two more segments out; a window cut in recovery drains before it is filled again.
        extra = 2 * rows["smss"] if sender.limited_transmit else 0
        # When ns-2's Linux agent leaves recovery, what had been SACKed counts as outstanding again: nothing was sent.
        left_recovery = (rows["state"].shift() == RECOVERY) & (rows["state"] != RECOVERY)
        grew = (rows["flight_size"].diff() > 0) & ~left_recovery
        room = np.minimum(rows["usable_window"] + extra, rows["rwnd"])
        over = rows[grew & (rows["flight_size"] > room + 1e-6)]
        assert over.empty, over.head()


@pytest.mark.parametrize(("profile", "name"), rows())
def test_all_data_is_delivered_in_order_whatever_is_lost(profile, name):
    run = lossy(profile, name)
    assert set(run.drops["reason"]) >= {"random", "scheduled"}
    (totals,) = run.totals
    # ns-2 counts packets: 400 kB are 400 of 1000 bytes.
    wanted = 400 if profile == "ns2" else 400_000
    assert totals["delivered"] == wanted
    assert totals["acked"] == wanted


@pytest.mark.parametrize(("profile", "name"), rows())
def test_the_receiver_acknowledges_ever_more(profile, name):
    run = simulate(replace(lossy(profile, name).scenario, taps=("receiver",)))
    packets = run.packets()
    acks = packets.loc[~packets["is_from_sender"], "ack"].to_numpy()
    first = acks[0]
    assert (np.diff((acks - first) % 2**32) >= 0).all()


@pytest.mark.parametrize(("profile", "name"), rows())
def test_same_seed_same_packets_and_another_seed_others(profile, name):
    run = lossy(profile, name)
    again = simulate(run.scenario)
    assert again.packets().equals(run.packets())
    assert again.windows.equals(run.windows)
    other = simulate(replace(run.scenario, seed=4))
    assert not other.packets().equals(run.packets())


@pytest.mark.parametrize("profile", ["ns2", "rfc"])
def test_two_connections_share_a_node_and_reverse_data_delays_acks(profile):
    path = PathSpec(
        nodes=(NodeSpec(rate_bps=4e6, buffer=20, delay_s=0.01),),
        reverse=(NodeSpec(rate_bps=1e6, buffer=20, delay_s=0.01),),
        packet_bytes=1000,
    )
    forward = ConnectionSpec(control=control("sack"))
    scenario = Scenario(path=path, connections=(forward, replace(forward, start_s=1)), duration_s=20, profile=profile)
    both = simulate(scenario)
    shares = [both.summary[f"throughput_pps_{n}"] for n in (0, 1)]
    assert min(shares) > 0.1 * sum(shares)
    assert sum(shares) == pytest.approx(both.summary["throughput_pps"])
    assert sum(shares) <= 4e6 / 8000
    against = replace(scenario, connections=(forward, replace(forward, reverse=True)))
    assert (
        simulate(against).summary["throughput_pps_0"]
        < simulate(replace(scenario, connections=(forward,))).summary["throughput_pps"]
    )


@pytest.mark.parametrize("profile", ["ns2", "rfc"])
def test_the_largest_flight_is_what_the_path_holds(profile):
    """Equation (1) of paper 000: W_max = B + mu * tau + 1, the one in service."""
    path = PathSpec(nodes=(NodeSpec(rate_bps=8e6, buffer=30, delay_s=0.02),), return_delay_s=0.02, packet_bytes=1000)
    scenario = Scenario(
        path=path,
        connections=(ConnectionSpec(control=control("sack", initial_ssthresh=40.0)),),
        duration_s=20,
        profile=profile,
    )
    run = simulate(scenario)
    before = run.drops["time_ns"].iloc[0]
    rows = run.windows[run.windows["time_ns"] <= before]
    largest = (rows["flight_size"] / rows["smss"]).max()
    # mu * tau = 1000 packets/s * 40 ms; one more is sent that finds no place.
    assert largest == pytest.approx(30 + 40 + 1 + 1, abs=1)


def test_a_receiver_with_a_small_window_is_never_overrun():
    receiver = ReceiverSpec(rwnd=10_000)
    path = PathSpec(nodes=(NodeSpec(rate_bps=8e6, delay_s=0.02),), return_delay_s=0.02, packet_bytes=1040)
    connection = ConnectionSpec(control=control("sack"), receiver=receiver)
    run = simulate(Scenario(path=path, connections=(connection,), duration_s=5))
    assert run.windows["flight_size"].max() <= 10_000
    assert run.windows["limited_by"].iloc[-1] == "rwnd"


def test_a_host_s_jitter_delays_acks_by_no_more_and_turns_none_round():
    path = PathSpec(nodes=(NodeSpec(rate_bps=8e6, buffer=20, delay_s=0.02),), return_delay_s=0.02, packet_bytes=1040)
    quiet = Scenario(path=path, connections=(ConnectionSpec(control=control("sack", max_window=10)),), duration_s=5)
    late = replace(quiet, connections=(replace(quiet.connections[0], jitter_s=1e-3),))
    rtts = []
    for scenario in (quiet, late):
        packets = simulate(scenario).packets()
        acks = packets[~packets["is_from_sender"] & (packets["ack"] > 0)]
        assert (np.diff((acks["ack"] - acks["ack"].iloc[0]) % 2**32) >= 0).all()
        first_data, first_ack = packets[packets["payload_len"] > 0]["time_ns"].iloc[0], acks["time_ns"].iloc[1]
        rtts.append(first_ack - first_data)
    assert rtts[0] < rtts[1] <= rtts[0] + 1_000_000
    assert simulate(late).packets().equals(simulate(late).packets())
    with pytest.raises(ScenarioError, match=r"jitter_s = 0\.001: must be absent in profile ns2"):
        replace(late, profile="ns2")


def test_a_host_that_stands_still_sends_at_its_end_what_the_acks_release():
    path = PathSpec(nodes=(NodeSpec(rate_bps=8e6, delay_s=0.02),), return_delay_s=0.02, packet_bytes=1040)
    connection = ConnectionSpec(control=control("sack", max_window=20), pauses=((1.0, 0.05), (2.0, 0.01)), start_s=0.5)
    still = Scenario(path=path, connections=(connection,), duration_s=5)
    sent = simulate(still).packets().query("is_from_sender")["time_ns"] / 1e9
    for begin, end in ((1.5, 1.55), (2.5, 2.51)):
        assert not sent.between(begin, end - 1e-9).any()
        assert sent.between(end, end).any()
    # A whole window of ACKs came in meanwhile, and leaves at once.
    assert sent.between(1.55, 1.55).sum() == 20
    for pauses in (((1.0, 0.0),), ((2.0, 0.1), (1.0, 0.1)), ((1.0, 0.2), (1.1, 0.2))):
        with pytest.raises(ScenarioError, match=r"pauses = .*: must be in order of time"):
            replace(connection, pauses=pauses)
    with pytest.raises(ScenarioError, match=r"connections.0.pauses = .*: must be absent in profile ns2"):
        replace(still, profile="ns2")


def test_an_engine_error_names_its_key():
    scenario = load(ROOT / "captures" / "scenarios" / "small_buffers_B20.toml")
    with pytest.raises(ScenarioError, match=r"duration_s = 0\.000000000001: must be >= 0\.000000001"):
        simulate(replace(scenario, duration_s=1e-12))
    assert math.isinf(scenario.control.initial_ssthresh)
