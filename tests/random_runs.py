"""Runs that nobody chose: random paths, senders, receivers and applications, captured at several places, truth at hand.

The scenario is the truth of path, control and first window, the simulator's own tables that of limits and losses.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tcptrace_lab import controls
from tcptrace_lab.scenario import (
    INFINITE,
    ApplicationSpec,
    ConnectionSpec,
    ControlSpec,
    NodeSpec,
    PathSpec,
    ReceiverSpec,
    Scenario,
)
from tcptrace_lab.simulate import Run as Simulated
from tcptrace_lab.simulate import simulate
from tests.claims import Run
from tests.limits_truth import limits_of

WINDOWS = (
    *("reno", "cubic-linux", "cubic", "compound-draft", "highspeed", "bic", "htcp", "scalable", "westwood"),
    *("vegas", "hybla", "illinois", "yeah", "veno"),
)
# So many packets are enough for some loss cycles, and few enough for hundreds of runs.
MOST_PACKETS = 8_000
LONGEST_S = 60.0
PACKET_BITS = 12_000


@dataclass(frozen=True, kw_only=True)
class Tapped:
    """One run's captures by place, and what is true of its main connection.

    `limits`: shares of the time (empty: not known); `losses`: how many of its segments were dropped and sent again, and
    how many dropped at all (the end of a run may leave some unnoticed); `others`: the other senders' ports.
    """

    run: Run
    scenario: Scenario
    places: dict[str, Path]
    others: frozenset[int]
    limits: dict[str, float]
    losses: tuple[int, int]


def _between(rng: random.Random, low: float, high: float) -> float:
    """Log-uniform."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def random_scenario(seed: int) -> Scenario:
    """One of the runs, by its number."""
    rng = random.Random(f"field {seed}")
    rate, rtt_s = _between(rng, 0.5e6, 200e6), _between(rng, 0.005, 0.8)
    pipe = max(rate * rtt_s / PACKET_BITS, 2.0)
    buffer = max(round(pipe * rng.uniform(0.2, 2.0)), 4)
    loss = 0.0 if rng.random() < 0.7 else _between(rng, 1e-4, 2e-2)
    nodes = [NodeSpec(rate_bps=rate, buffer=buffer, delay_s=rtt_s / 2, loss=loss)]
    if rng.random() < 0.25:
        other = NodeSpec(rate_bps=rate * _between(rng, 2, 10), buffer=10 * buffer + 1000, delay_s=rtt_s / 8)
        nodes = [other, *nodes] if rng.random() < 0.5 else [*nodes, other]
    path = PathSpec(nodes=tuple(nodes), return_delay_s=rtt_s / 2)
    seconds = min(LONGEST_S, max(MOST_PACKETS / (rate / PACKET_BITS), 20 * rtt_s))
    others = 0 if rng.random() < 0.8 else rng.choice((1, 2))
    connections = [_connection(rng, rate, pipe, rtt_s)]
    connections += [
        ConnectionSpec(control=_control(rng), start_s=rng.uniform(0, seconds / 3), jitter_s=2e-5) for _ in range(others)
    ]
    middle = ("node0.out",) if len(nodes) > 1 else ()
    return Scenario(
        path=path,
        connections=tuple(connections),
        duration_s=seconds,
        profile="rfc",
        seed=seed + 1,
        taps=("sender", "receiver", *middle),
    )


def _control(rng: random.Random) -> ControlSpec:
    recovery = rng.choices(("sack", "newreno", "reno", "tahoe"), (6, 2, 1, 1))[0]
    return ControlSpec(
        window="reno" if recovery == "tahoe" else rng.choice(WINDOWS),
        recovery=recovery,
        initial_window=rng.choice((1, 2, 3, 4, 10, 10, 10)),
        delayed_ack_segments=rng.choice((1, 2, 2)),
        timestamps=rng.random() < 0.5,
    )


def _connection(rng: random.Random, rate: float, pipe: float, rtt_s: float) -> ConnectionSpec:
    window = 1 << 30 if rng.random() < 0.7 else max(int(pipe * 1448 * rng.uniform(0.2, 1.5)), 8_000)
    reader = INFINITE if rng.random() < 0.9 else rate * rng.uniform(0.2, 0.9)
    if reader != INFINITE:
        window = max(int(pipe * 1448), 30_000)
    kind = rng.choices(("bulk", "bytes", "on_off", "turns", "schedule"), (65, 10, 10, 10, 5))[0]
    size = max(int(pipe * 1448 * _between(rng, 0.3, 10)), 20_000)
    application = {
        "bulk": ApplicationSpec(),
        "bytes": ApplicationSpec(kind="bytes", bytes=10 * size),
        "on_off": ApplicationSpec(kind="on_off", bytes=size, off_s=size * 8 / rate + rtt_s * rng.uniform(1, 10)),
        "turns": ApplicationSpec(
            kind="turns", turns=tuple((rtt_s * rng.uniform(0.2, 5), max(size // 4, 1)) for _ in range(40))
        ),
        "schedule": _periodic(rng, rate, rtt_s),
    }[kind]
    receiver = ReceiverSpec(rwnd=window, reader_bps=reader, quickack_segments=rng.choice((0, 0, 16)))
    return ConnectionSpec(
        control=_control(rng), receiver=receiver, application=application, jitter_s=rng.choice((0, 2e-5))
    )


def _periodic(rng: random.Random, rate: float, rtt_s: float) -> ApplicationSpec:
    """Writes of an odd size at a constant pace below the path's rate."""
    every_s = rtt_s * rng.uniform(0.05, 0.5)
    size = max(int(rate / 8 * every_s * rng.uniform(0.1, 0.6)), 500)
    return ApplicationSpec(kind="schedule", writes=tuple((count * every_s, size) for count in range(2000)))


def tapped(seed: int, folder: Path) -> Tapped | None:
    """The run, captured; None where its main connection sent too little to speak of."""
    scenario = random_scenario(seed)
    done = simulate(scenario)
    places = {}
    for place in scenario.taps:
        places[place] = folder / f"random{seed}.{place}.pcap"
        done.write(places[place], tap=place, payload=False)
    if places["sender"].stat().st_size < 30_000:
        return None
    control, path = scenario.connections[0].control, scenario.path
    family = {"m-start": "m_start"}.get(control.slow_start, controls.WINDOWS[control.window].family)
    bottleneck = path.bottleneck
    run = Run(
        name=f"random {seed}",
        path=places["sender"],
        controls=frozenset((family,)),
        base_rtt_s=path.base_rtt_s,
        bottleneck_bps=bottleneck.rate_bps,
        buffer_packets=bottleneck.buffer,
    )
    return Tapped(
        run=run,
        scenario=scenario,
        places=places,
        others=frozenset(sender for sender, _ in done.ports[1:]),
        limits=limits_of(done),
        losses=_losses(done),
    )


def _losses(done: Simulated) -> tuple[int, int]:
    drops = done.drops.query("connection == 0 and is_data and not is_reverse")
    sent = done.packets(tap="sender").query("connection == 0 and is_from_sender and payload_len > 0")
    last = sent.groupby("seq")["time_ns"].max()
    # A drop at the sender's own queue comes at the time of the sending itself.
    again = last.reindex(drops["tcp_seq"]).fillna(-1).to_numpy() > drops["time_ns"].to_numpy()
    return int(again.sum()), len(drops)


def random_runs(count: int, folder: Path, *, first: int = 0) -> Iterator[Tapped]:
    """So many of them."""
    for seed in range(first, first + count):
        found = tapped(seed, folder)
        if found is not None:
            yield found


def at_place(found: Tapped, place: str) -> Run:
    """The same run as captured elsewhere."""
    return replace(found.run, path=found.places[place])


def one_by_one(first: int, count: int, folder: Path) -> Iterator[tuple[int, Tapped]]:
    """So many with their seeds; the captures of each are there until the next is asked for."""
    for seed in range(first, first + count):
        found = tapped(seed, folder)
        if found is not None:
            yield seed, found
            for path in found.places.values():
                path.unlink()
