"""The `ns2` profile beside ns-2.35 itself, on paths that nobody has looked at: drops, what was sent, windows."""

from __future__ import annotations

import math
import random
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from tcptrace_lab.controls import WINDOWS
from tcptrace_lab.scenario import (
    CONTROLS,
    ConnectionSpec,
    ControlSpec,
    NodeSpec,
    PathSpec,
    ReceiverSpec,
    RtoSpec,
    Scenario,
)
from tcptrace_lab.simulate import simulate
from tests.conftest import needs

SCRIPT = Path(__file__).with_name("ns2_chain.tcl")
AGENTS = {
    "tahoe": "",
    "reno": "/Reno",
    "newreno": "/Newreno",
    "sack": "/Sack1",
    "fack": "/Fack",
    "compound": "/Linux compound",
}
# Modules of ns-2's Linux agent.
MODULES = ("bic", "highspeed", "htcp", "hybla", "illinois", "lp", "scalable", "vegas", "veno", "westwood", "yeah")
AGENTS |= {"cubic-linux": "/Linux cubic", "reno-linux": "/Linux reno"} | {name: f"/Linux {name}" for name in MODULES}
# Compound and YeAH grow beyond ns-2's `window_`, Hybla puts a bound of its own in its place: not with a small one here.
UNBOUNDED = ("compound", "hybla", "yeah")
# What ns draws first.
DRAWS = "set ns [new Simulator]\nfor {set n 0} {$n < 9} {incr n} { puts [$defaultRNG uniform 0 1] }\nexit 0\n"
# Of the trace: microseconds, rounded.
CLOSE_S = 1.5e-6
# A sender's state after a timeout.
LOSS = 4
# Of an agent's variables: ten microseconds and thousandths of a packet, rounded.
TRACE_S = 1e-5
TRACE_CWND = 6e-4

pytestmark = [
    pytest.mark.slow,
    needs("ns", "ns2"),
]


def test_every_module_that_profile_ns2_runs_is_held_beside_ns():
    assert {row.name for row in WINDOWS.values() if row.is_linux_module and "ns2" in row.profiles} <= set(AGENTS)


@pytest.fixture(scope="module")
def draws(tmp_path_factory) -> list[float]:
    """ns's random numbers. With n agents the phases of their clocks are the n+1st and the following."""
    script = tmp_path_factory.mktemp("draws") / "draws.tcl"
    script.write_text(DRAWS)
    return [float(line) for line in ns(str(script)).split()]


def ns(*words: str) -> str:
    return subprocess.run(["ns", *words], capture_output=True, text=True, check=True, timeout=120).stdout


def drawn(rng: random.Random, draws: list[float], names: list[str]) -> Scenario:
    """A path of two bottlenecks of 0.2 to 40 Mbit/s, buffers of 2 packets to some 1.5 pipes, and its senders."""
    mu = round(rng.choice([3e5, 1.5e6, 5e6, 10e6, 30e6]) * rng.uniform(0.7, 1.3))
    nodes = tuple(
        NodeSpec(
            rate_bps=round(mu * share),
            delay_s=delay_s,
            buffer=rng.randint(2, max(4, min(300, int(mu * delay_s / 4000 * rng.uniform(0.05, 1.5)) + 3))),
            counts_in_service=True,
        )
        for share, delay_s in (
            (1.0, round(rng.uniform(0.005, 0.2), 4)),
            (rng.uniform(0.7, 1.2), rng.choice([0, 0.013])),
        )
    )
    access_bps = mu * rng.choice([2, 10, 100])
    back = tuple(NodeSpec(rate_bps=node.rate_bps, delay_s=node.delay_s) for node in reversed(nodes))
    connections = []
    for number, name in enumerate(names):
        delayed_s = rng.choice([0, 0, 0.1, 0.2])
        control = ControlSpec(
            **{
                **CONTROLS[name],
                "initial_window": 2,
                "max_window": 100_000 if name in UNBOUNDED or rng.random() < 0.7 else rng.randint(5, 200),
                "delayed_ack_segments": 2 if delayed_s else 1,
                "rto": RtoSpec(
                    initial_s=3,
                    granularity_s=0.01 if AGENTS[name].startswith("/Linux") else rng.choice([0.01, 0.1, 0.5]),
                    tick_phase=draws[len(names) + number],
                ),
            }
        )
        start_s = round(rng.uniform(0, 5), 5) if number else 0.0
        receiver = ReceiverSpec(delayed_ack_timer_s=delayed_s or 0.1)
        connections.append(ConnectionSpec(control=control, receiver=receiver, start_s=start_s))
    path = PathSpec(
        nodes=nodes,
        reverse=(*back, NodeSpec(rate_bps=access_bps)),
        packet_bytes=rng.choice([512, 1000, 1500]),
        access_rate_bps=access_bps,
    )
    return Scenario(path=path, connections=tuple(connections), duration_s=30, profile="ns2", taps=())


def told_by_ns(scenario: Scenario, names: list[str], trace: Path) -> tuple[list[tuple], list[tuple]]:
    """Drops as (seconds, connection, packet), and per connection (sent, sent again)."""
    senders = []
    for name, connection in zip(names, scenario.connections, strict=True):
        control, receiver = connection.control, connection.receiver
        delayed_s = receiver.delayed_ack_timer_s if control.delayed_ack_segments > 1 else 0
        senders += [f"{{{AGENTS[name]}}}", connection.start_s, control.max_window, control.rto.granularity_s, delayed_s]
    words = [trace, scenario.path.access_rate_bps]
    for node in scenario.path.nodes:
        words += [node.rate_bps, node.delay_s, int(node.buffer)]
    words += [scenario.path.packet_bytes, scenario.duration_s, " ".join(map(str, senders))]
    # Not at the beginning of a line: ns's module of TCP-LP writes as well.
    sent = re.findall(r"SENT (\d+) (\d+)$", ns(str(SCRIPT), *map(str, words)), re.MULTILINE)
    lines = (line.split() for line in trace.read_text().splitlines() if line.startswith("d"))
    drops = sorted((float(line[1]), int(line[7]), int(line[10])) for line in lines)
    return drops, [(int(packets), int(again)) for packets, again in sent]


def changes(windows: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """(time, cwnd) of each change from the window of two with which every sender begins."""
    found, last = [], 2.0
    for time_s, cwnd in windows:
        if cwnd != last:
            found.append((time_s, cwnd))
            last = cwnd
    return found


def windows_of_ns(trace: Path, connection: int, max_window: float) -> list[tuple[float, float]]:
    """Every change of an agent's cwnd_, up to its window_; the agents' ports are their numbers.

    A window that NewReno deflates to less than a packet is one again before the event is over; both are traced.
    """
    lines = (line.split() for line in trace.with_name(f"{trace.name}.cwnd").read_text().splitlines())
    of_agent = (line for line in lines if int(line[2]) == connection)
    traced = ((float(line[0]), min(float(line[6]), max_window)) for line in of_agent)
    return changes((time_s, cwnd) for time_s, cwnd in traced if cwnd >= 1 or cwnd == 0)


def hold(scenario: Scenario, names: list[str], trace: Path) -> None:
    theirs, sent = told_by_ns(scenario, names, trace)
    run = simulate(scenario)
    numbers = run.drops["offset"] // (scenario.path.packet_bytes - 40)
    # By packet: of two lost within a microsecond ns's rounded times do not tell the order.
    ours = sorted(zip(run.drops["connection"], numbers, run.drops["time_ns"] / 1e9, strict=True))
    for mine, wanted in zip(ours, sorted((*drop[1:], drop[0]) for drop in theirs), strict=False):
        assert mine[:2] == wanted[:2]
        assert math.isclose(mine[2], wanted[2], abs_tol=CLOSE_S)
    assert len(ours) == len(theirs)
    assert run.summary["packets_sent"] == sum(packets for packets, _ in sent)
    assert run.summary["retransmissions"] == sum(again for _, again in sent)
    for connection, sender in enumerate(scenario.connections):
        rows = run.windows[run.windows["connection"] == connection]
        mine = changes(zip(rows["time_ns"] / 1e9, rows["cwnd"] / rows["smss"], strict=True))
        for got, wanted in zip(mine, windows_of_ns(trace, connection, sender.control.max_window), strict=True):
            assert math.isclose(got[1], wanted[1], abs_tol=TRACE_CWND), (got, wanted)
            assert math.isclose(got[0], wanted[0], abs_tol=TRACE_S)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "names",
    [
        *([name] for name in AGENTS if name not in (*MODULES, "cubic-linux")),
        ["reno", "sack"],
        ["newreno", "tahoe"],
        ["fack", "reno", "sack"],
    ],
    ids=" ".join,
)
def test_every_drop_is_that_of_ns2(names, seed, draws, tmp_path) -> None:
    hold(drawn(random.Random(f"{names} {seed}"), draws, names), names, tmp_path / "queues.tr")


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "names",
    [
        *([name] for name in (*MODULES, "cubic-linux")),
        ["cubic-linux", "veno"],
        ["vegas", "westwood"],
        ["htcp", "bic", "lp"],
        ["highspeed", "scalable", "reno"],
        ["veno", "yeah", "reno-linux"],
        # Hybla leaves others nothing but timeouts, again and again.
        ["yeah", "hybla"],
        ["htcp", "hybla"],
    ],
    ids=" ".join,
)
def test_every_module_of_linux_has_the_drops_and_windows_of_ns2(names, seed, draws, tmp_path) -> None:
    hold(drawn(random.Random(f"{names} {seed}"), draws, names), names, tmp_path / "queues.tr")


def test_a_module_forgets_a_timer_before_its_first_ack(draws, tmp_path) -> None:
    """It is set up with that ACK: Hybla is open, though its sender has not left the recovery of its first packet."""
    names = ["cubic-linux", "hybla"]
    scenario = drawn(random.Random(f"{names} 47"), draws, names)
    windows = simulate(scenario).windows
    assert ((windows["connection"] == 1) & (windows["state"] == LOSS) & (windows["snd_una"] == 0)).any()
    hold(scenario, names, tmp_path / "queues.tr")
