"""Loops through every part there is, of every kind: simulate, capture, infer, simulate; what does not come back.

$ python -m tests.random_loops 40 77          # so many runs from this seed
$ python -m tests.random_loops 1 77 --from 12 # one of them again
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from tcptrace_lab import read
from tcptrace_lab.errors import LabError
from tcptrace_lab.replay.closed_loop import ClosedLoop, again
from tcptrace_lab.scenario import (
    ApplicationSpec,
    ConnectionSpec,
    ControlSpec,
    NodeSpec,
    PathSpec,
    ReceiverSpec,
    Scenario,
)
from tcptrace_lab.simulate import simulate

MODERN = ControlSpec(
    recovery="sack", initial_window=10, timestamps=True, limited_transmit=True, byte_counting=True, rack=True
)
# Linux's modules, and the documents' senders.
SENDERS = ("reno", "cubic-linux", "compound", "westwood", "highspeed", "bbr")
PACKET_BITS = 12_000


def _bulk(rng: np.random.Generator, **changes: object) -> Scenario:
    """A transfer over one bottleneck, by a control drawn at random."""
    rate_bps = float(10 ** rng.uniform(6.3, 7.3))
    one_way_s = float(rng.uniform(0.008, 0.06))
    bdp = rate_bps * 2 * one_way_s / PACKET_BITS
    node = NodeSpec(rate_bps=rate_bps, buffer=max(8.0, round(bdp * rng.uniform(0.4, 1.6))), delay_s=one_way_s)
    control = replace(MODERN, window=str(rng.choice(SENDERS)), delayed_ack_segments=int(rng.integers(1, 3)))
    size = int(rate_bps / 8 * rng.uniform(4, 12))
    return Scenario(
        path=PathSpec(nodes=(node,), return_delay_s=one_way_s),
        connections=(
            ConnectionSpec(control=replace(control, **changes), application=ApplicationSpec(kind="bytes", bytes=size)),
        ),
        duration_s=90.0,
        seed=int(rng.integers(1 << 30)),
    )


def _with(scenario: Scenario, **changes: object) -> Scenario:
    """The same, its first connection changed."""
    first, *others = scenario.connections
    return replace(scenario, connections=(replace(first, **changes), *others))


def _with_node(scenario: Scenario, **changes: object) -> Scenario:
    (node,) = scenario.path.nodes
    return replace(scenario, path=replace(scenario.path, nodes=(replace(node, **changes),)))


def _random_loss(rng: np.random.Generator) -> Scenario:
    return _with_node(_bulk(rng), loss=float(10 ** rng.uniform(-3.3, -2)))


def _managed(rng: np.random.Generator) -> Scenario:
    return _with_node(_bulk(rng), queue="codel", buffer=400)


def _two_nodes(rng: np.random.Generator) -> Scenario:
    scenario = _bulk(rng)
    (node,) = scenario.path.nodes
    fast = NodeSpec(rate_bps=node.rate_bps * float(rng.uniform(2, 8)), buffer=1000, delay_s=0.004)
    nodes = (fast, node) if rng.random() < 0.5 else (node, fast)
    return replace(scenario, path=replace(scenario.path, nodes=nodes))


def _small_window(rng: np.random.Generator) -> Scenario:
    scenario = _bulk(rng)
    (node,) = scenario.path.nodes
    pipe = node.rate_bps * 2 * node.delay_s / 8
    return _with(scenario, receiver=ReceiverSpec(rwnd=int(max(pipe * rng.uniform(0.3, 0.9), 12_000))))


def _slow_reader(rng: np.random.Generator) -> Scenario:
    scenario = _bulk(rng)
    reader = ReceiverSpec(
        rwnd=int(rng.uniform(40_000, 120_000)),
        reader_bps=scenario.path.nodes[0].rate_bps * float(rng.uniform(0.3, 0.8)),
    )
    return _with(scenario, receiver=reader)


def _quick_at_first(rng: np.random.Generator) -> Scenario:
    scenario = _bulk(rng, delayed_ack_segments=2)
    return _with(scenario, receiver=ReceiverSpec(quickack_segments=int(rng.integers(20, 300))))


def _writes(rng: np.random.Generator) -> Scenario:
    scenario = _bulk(rng)
    at_s = np.cumsum(rng.exponential(0.4, 14))
    share = scenario.path.nodes[0].rate_bps / 8 * 0.4
    writes = tuple(
        (float(time), int(max(size, 1))) for time, size in zip(at_s, rng.exponential(share, 14), strict=True)
    )
    return _with(scenario, application=ApplicationSpec(kind="schedule", writes=writes))


def _turns(rng: np.random.Generator) -> Scenario:
    scenario = _bulk(rng)
    share = scenario.path.nodes[0].rate_bps / 8 * 0.7
    turns = tuple((float(rng.exponential(0.5)), int(rng.exponential(share)) + 1000) for _ in range(8))
    return _with(scenario, application=ApplicationSpec(kind="turns", turns=turns))


def _beside(rng: np.random.Generator) -> Scenario:
    scenario = _bulk(rng)
    (one,) = scenario.connections
    control = replace(one.control, window=str(rng.choice(("reno", "cubic-linux", "westwood"))))
    other = replace(one, control=control, start_s=float(rng.uniform(0.5, 2)))
    return replace(scenario, connections=(replace(one, control=replace(one.control, window="reno")), other))


def _still(rng: np.random.Generator) -> Scenario:
    pauses = tuple((float(at), float(rng.uniform(0.01, 0.06))) for at in np.cumsum(rng.uniform(1, 2, 3)))
    return _with(_bulk(rng), pauses=pauses)


# What is drawn, in turn.
KINDS: dict[str, Callable[[np.random.Generator], Scenario]] = {
    "bulk": _bulk,
    "no timestamps": lambda rng: _bulk(rng, timestamps=False),
    "no SACK": lambda rng: _bulk(rng, recovery="newreno", window=str(rng.choice(("reno", "cubic-linux", "westwood")))),
    "tahoe": lambda rng: _bulk(rng, recovery="tahoe", window="reno", initial_window=2),
    "random loss": _random_loss,
    "codel": _managed,
    "two nodes": _two_nodes,
    "small window": _small_window,
    "slow reader": _slow_reader,
    "quick at first": _quick_at_first,
    "writes": _writes,
    "turns": _turns,
    "beside": _beside,
    "pauses": _still,
}


def drawn(number: int, seed: int) -> tuple[str, Scenario]:
    """One of the runs, with its kind."""
    kind = list(KINDS)[number % len(KINDS)]
    return kind, KINDS[kind](np.random.default_rng([seed, number]))


def misses(run: ClosedLoop) -> list[str]:
    """In what each connection does not come back: time within 5 %, losses within 1 or 10 %, regime, case, control."""
    found = []
    for place, (one, (then, now), verdict) in enumerate(
        zip(run.found.connections, run.outcomes, run.verdicts, strict=True)
    ):
        told: list[str] = []
        if not abs(now.completion_s - then.completion_s) <= 0.05 * then.completion_s:
            told.append(f"time {then.completion_s:.3f}, {now.completion_s:.3f}")
        if abs(now.loss_events - then.loss_events) > max(1, 0.1 * then.loss_events):
            told.append(f"losses {then.loss_events}, {now.loss_events}")
        if "undecided" not in (then.regime, now.regime) and then.regime != now.regime:
            told.append(f"regime {then.regime}, {now.regime}")
        names = [each.as_dict()["sender_tcp"]["congestion_control"] for each in (one.verdict, verdict)]
        cases = [None if each.compound is None else each.compound.case for each in (one.verdict, verdict)]
        for before, after in (names, cases):
            if None not in (before, after) and before != after:
                told.append(f"{before}, {after}")
        found += [f"{place}: {each}" for each in told]
    return found


def loop(scenario: Scenario) -> ClosedLoop:
    """Captured at the sender, and sent again as found; nobody says which control it was."""
    with tempfile.TemporaryDirectory(prefix="tcptrace-lab-") as folder:
        file = Path(folder) / "run.pcap"
        simulate(scenario).write(file, payload=False)
        run = again(read(file))
        # What is asked for later is worked out while the file stands.
        assert run.outcomes
        return run


def told(number: int, seed: int) -> tuple[str, list[str]]:
    """A run's number, kind and controls, and in what it does not come back."""
    kind, scenario = drawn(number, seed)
    name = f"{number}, {kind} ({' beside '.join(one.control.window for one in scenario.connections)})"
    try:
        return name, misses(loop(scenario))
    except LabError as error:
        return name, [f"refused: {error}"]


def main() -> None:
    """Draw, send again, tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("--from", dest="first", type=int, default=0)
    arguments = parser.parse_args()
    back = 0
    for number in range(arguments.first, arguments.first + arguments.count):
        name, found = told(number, arguments.seed)
        back += not found
        print(f"{name}: {'; '.join(found) or 'comes back'}", flush=True)
    print(f"{back} of {arguments.count} come back")


if __name__ == "__main__":
    main()
