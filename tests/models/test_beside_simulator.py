"""The models beside the simulator, which shares no code with them (more: benchmarks/models_vs_simulator.py)."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from tcptrace_lab.models.initial_window import InitialWindow
from tcptrace_lab.models.initial_window_transfer import RECOVERIES, transfer
from tcptrace_lab.models.several_nodes import SeveralNodes
from tcptrace_lab.models.small_buffers_packets import SmallBuffersPackets
from tcptrace_lab.models.textbook.pftk import Pftk

from tcptrace_lab.scenario_file import parse
from tcptrace_lab.simulate import simulate

MU = 366.2109375


def tahoe(nodes: list[dict[str, object]], pipe: float) -> dict[str, Any]:
    delay = pipe / MU
    return {
        "profile": "ns2",
        "duration_s": 5.5 * (pipe + 30) * delay,
        "taps": [],
        "path": {
            "packet_bytes": 512,
            "access_rate_bps": 20 * MU * 4096,
            "nodes": [*nodes[:-1], {**nodes[-1], "rate_bps": MU * 4096, "delay_s": delay / 2}],
            "return_delay_s": delay / 2,
        },
        "control": {"name": "tahoe", "rto": {"initial_s": 60, "min_s": 1, "granularity_s": 0.01}},
    }


@pytest.mark.parametrize("seed", range(4))
def test_counted_slow_starts_are_the_simulators(seed: int) -> None:
    """B and mu tau drawn at random: the number of slow starts per cycle, and throughput within 3 %."""
    draw = random.Random(seed)
    for _ in range(4):
        pipe = draw.uniform(40, 260)
        buffer = draw.randint(2, int(pipe / 3))
        run = simulate(parse(tahoe([{"buffer": buffer}], pipe)))
        model = SmallBuffersPackets()
        found = model.evaluate(**model.inputs(run.scenario.path, run.scenario.control))
        assert run.summary["slow_starts_per_cycle"] == str(int(found["slow_starts"].value)), (buffer, pipe)
        if run.summary["timeouts"] == 0:
            rate = float(str(run.summary["throughput_full_cycles_pps"]))
            assert found["throughput_cycle"].value == pytest.approx(rate, rel=0.03)


@pytest.mark.parametrize("seed", range(3))
def test_two_nodes_lose_in_slow_start_where_the_paper_says(seed: int) -> None:
    """mu', B and B' drawn at random, more than 10 % from W_th = W_B: one slow start or more."""
    draw = random.Random(seed)
    for _ in range(4):
        pipe, ratio = draw.uniform(60, 220), draw.uniform(1.05, 1.95)
        nodes: list[dict[str, object]] = [
            {"rate_bps": ratio * MU * 4096, "buffer": draw.randint(4, int(0.4 * pipe))},
            {"buffer": draw.randint(4, int(0.4 * pipe))},
        ]
        run = simulate(parse(tahoe(nodes, pipe)))
        answer = SeveralNodes().predict(run.scenario.path, run.scenario.control)
        assert answer.margin is not None
        if answer.margin > 0.1:
            assert (answer.regime == "single") == (run.summary["slow_starts_per_cycle"] == "1"), nodes


@pytest.mark.parametrize("name", ["tahoe", "reno", "sack", "fack"])
def test_starts_lose_what_the_simulator_loses(name: str) -> None:
    """k packets into b buffers before 9600 b/s: the first drop, and the first retransmission to a microsecond."""
    for k in (1, 2, 4, 7):
        for b in (2, 3, 5, 9):
            table = {
                "profile": "ns2",
                "duration_s": 60,
                "taps": [],
                "path": {
                    "packet_bytes": 1000,
                    "access_rate_bps": 100e6,
                    "nodes": [
                        {"rate_bps": 1.5e6, "buffer": 100, "delay_s": 0.025},
                        {"rate_bps": 9600, "buffer": b, "counts_in_service": True, "delay_s": 0.15},
                    ],
                    "reverse": [{"rate_bps": 9600, "delay_s": 0.15}, {"rate_bps": 1.5e6, "delay_s": 0.025}],
                },
                "control": {"name": name, "initial_window": k, "rto": {"initial_s": 59, "min_s": 58}},
            }
            run = simulate(parse(table))
            found = InitialWindow().predict(run.scenario.path, run.scenario.control).quantities
            first = run.drops.iloc[0]
            assert first["offset"] / run.windows["smss"].iloc[0] + 1 == found["first_lost"].value
            if not math.isnan(float(found["retransmitted_at"].value)):
                again = run.losses["time_ns"].iloc[0] / 1e9
                assert again == pytest.approx(float(found["retransmitted_at"].value), abs=1e-6)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("recovery", RECOVERIES)
def test_whole_transfers_send_what_the_simulator_sends(recovery: str, seed: int) -> None:
    """Network, start and buffer drawn at random: every send and ACK of a minute, timeouts included, within 20 us.

    Not b = 2: ACKs a service time apart put an arrival and a departure at one time, and ns-2's doubles choose.
    """
    draw = random.Random(seed)
    for _ in range(4):
        rate, delay = draw.uniform(5e3, 100e3), draw.uniform(0.02, 0.2)
        feed = {"rate_bps": draw.uniform(1e6, 1e7), "delay_s": draw.uniform(0.005, 0.05)}
        table = {
            "profile": "ns2",
            "duration_s": 60,
            "taps": ["sender"],
            "path": {
                "packet_bytes": 1000,
                "access_rate_bps": 100e6,
                "nodes": [
                    {**feed, "buffer": 10_000, "counts_in_service": True},
                    {"rate_bps": rate, "buffer": draw.randint(3, 20), "counts_in_service": True, "delay_s": delay},
                ],
                "reverse": [{"rate_bps": rate, "delay_s": delay}, feed, {"rate_bps": 100e6}],
            },
            "control": {
                "name": recovery,
                "initial_window": draw.randint(1, 10),
                "rto": {"initial_s": 3, "granularity_s": 0.01},
            },
        }
        run = simulate(parse(table))
        path, control = run.scenario.path, run.scenario.control
        model = transfer(path, recovery, control.initial_window, until=60)
        ours = sorted(
            (event.at, event.what in ("send", "retransmit")) for event in model.at_sender() if event.what != "timeout"
        )
        packets = run.packets(tap="sender")
        seen = sorted(zip(packets["time_ns"] / 1e9, packets["is_from_sender"], strict=True))
        assert [is_sent for _, is_sent in ours] == [bool(is_sent) for _, is_sent in seen], table
        assert [at for at, _ in ours] == pytest.approx([at for at, _ in seen], abs=2e-5)


@pytest.mark.parametrize("profile", ["ns2", "rfc"])
@pytest.mark.parametrize("loss", [0.003, 0.03, 0.1])
def test_random_loss_leaves_pftks_rate(profile: str, loss: float) -> None:
    """SACK under random loss, one in ten included: PFTK's approximation within 30 % (timers must not grow for ever)."""
    table = {
        "profile": profile,
        "duration_s": 400,
        "taps": [],
        "path": {
            "packet_bytes": 1000,
            "nodes": [{"rate_bps": 1e9, "buffer": 100_000, "delay_s": 0.01, "loss": loss}],
            "return_delay_s": 0.01,
        },
        "control": {"name": "sack", "delayed_ack_segments": 2, "rto": {"granularity_s": 0.01}},
    }
    run = simulate(parse(table))
    answer = Pftk().predict(run.scenario.path, run.scenario.control)
    sent = float(str(run.summary["packets_sent"])) / 400
    assert answer.quantities["throughput_approximate"].value == pytest.approx(sent, rel=0.3)
