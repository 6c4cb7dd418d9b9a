"""The `ns2` profile beside ns-2.35 itself, on paths that nobody has looked at: every drop, and what was sent."""

from __future__ import annotations

import math
import random
import re
import shutil
import subprocess
from pathlib import Path as FilePath

import pytest

from tcptrace_lab.scenario import Connection, Control, Node, Path, Receiver, Rto, Scenario
from tcptrace_lab.scenario_file import CONTROLS
from tcptrace_lab.simulate import simulate

SCRIPT = FilePath(__file__).with_name("ns2_chain.tcl")
AGENTS = {
    "tahoe": "",
    "reno": "/Reno",
    "newreno": "/Newreno",
    "sack": "/Sack1",
    "fack": "/Fack",
    "compound": "/Linux",
}
# Of the trace: microseconds, rounded.
CLOSE_S = 1.5e-6

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("ns") is None, reason="ns-2 is not installed (Debian's package ns2)"),
]


@pytest.fixture(scope="module")
def draws(tmp_path_factory) -> list[float]:
    """ns's random numbers. With n agents the phases of their clocks are the n+1st and the following."""
    script = tmp_path_factory.mktemp("draws") / "draws.tcl"
    script.write_text(
        "set ns [new Simulator]\nfor {set n 0} {$n < 9} {incr n} { puts [$defaultRNG uniform 0 1] }\nexit 0\n"
    )
    return [float(line) for line in ns(str(script)).split()]


def ns(*words: str) -> str:
    return subprocess.run(["ns", *words], capture_output=True, text=True, check=True, timeout=120).stdout


def drawn(rng: random.Random, draws: list[float], names: list[str]) -> Scenario:
    """A path of two bottlenecks of 0.2 to 40 Mbit/s, buffers of 2 packets to some 1.5 pipes, and its senders."""
    mu = round(rng.choice([3e5, 1.5e6, 5e6, 10e6, 30e6]) * rng.uniform(0.7, 1.3))
    nodes = tuple(
        Node(
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
    back = tuple(Node(rate_bps=node.rate_bps, delay_s=node.delay_s) for node in reversed(nodes))
    connections = []
    for number, name in enumerate(names):
        delayed_s = rng.choice([0, 0, 0.1, 0.2])
        control = Control(
            **{
                **CONTROLS[name],
                "initial_window": 2,
                "max_window": 100_000 if name == "compound" or rng.random() < 0.7 else rng.randint(5, 200),
                "delayed_ack_segments": 2 if delayed_s else 1,
                "rto": Rto(
                    initial_s=3,
                    granularity_s=0.01 if name == "compound" else rng.choice([0.01, 0.1, 0.5]),
                    tick_phase=draws[len(names) + number],
                ),
            }
        )
        start_s = round(rng.uniform(0, 5), 5) if number else 0.0
        receiver = Receiver(delayed_ack_timer_s=delayed_s or 0.1)
        connections.append(Connection(control=control, receiver=receiver, start_s=start_s))
    path = Path(
        nodes=nodes,
        reverse=(*back, Node(rate_bps=access_bps)),
        packet_bytes=rng.choice([512, 1000, 1500]),
        access_rate_bps=access_bps,
    )
    return Scenario(path=path, connections=tuple(connections), duration_s=30, profile="ns2", taps=())


def told_by_ns(scenario: Scenario, names: list[str], trace: FilePath) -> tuple[list[tuple], list[tuple]]:
    """Drops as (seconds, connection, packet), and per connection (sent, sent again)."""
    senders = []
    for name, connection in zip(names, scenario.connections, strict=True):
        control, receiver = connection.control, connection.receiver
        delayed_s = receiver.delayed_ack_timer_s if control.delayed_ack_segments > 1 else 0
        senders += [AGENTS[name] or "{}", connection.start_s, control.max_window, control.rto.granularity_s, delayed_s]
    words = [trace, scenario.path.access_rate_bps]
    for node in scenario.path.nodes:
        words += [node.rate_bps, node.delay_s, int(node.buffer)]
    words += [scenario.path.packet_bytes, scenario.duration_s, " ".join(map(str, senders))]
    sent = re.findall(r"^SENT (\d+) (\d+)$", ns(str(SCRIPT), *map(str, words)), re.MULTILINE)
    lines = (line.split() for line in trace.read_text().splitlines() if line.startswith("d"))
    drops = sorted((float(line[1]), int(line[7]), int(line[10])) for line in lines)
    return drops, [(int(packets), int(again)) for packets, again in sent]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "names",
    [*([name] for name in AGENTS), ["reno", "sack"], ["newreno", "tahoe"], ["fack", "reno", "sack"]],
    ids=" ".join,
)
def test_every_drop_is_that_of_ns2(names, seed, draws, tmp_path) -> None:
    scenario = drawn(random.Random(f"{names} {seed}"), draws, names)
    theirs, sent = told_by_ns(scenario, names, tmp_path / "queues.tr")
    run = simulate(scenario, truth=False)
    numbers = run.drops["offset"] // (scenario.path.packet_bytes - 40)
    ours = sorted(zip(run.drops["time_ns"] / 1e9, run.drops["connection"], numbers, strict=True))
    for mine, wanted in zip(ours, theirs, strict=False):
        assert mine[1:] == wanted[1:]
        assert math.isclose(mine[0], wanted[0], abs_tol=CLOSE_S)
    assert len(ours) == len(theirs)
    assert run.summary["packets_sent"] == sum(packets for packets, _ in sent)
    assert run.summary["retransmissions"] == sum(again for _, again in sent)
