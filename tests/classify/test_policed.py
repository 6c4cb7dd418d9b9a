"""A policer told from a queue and from chance, by senders whose packets a token bucket drops."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tcptrace_lab.classify.verdict import Verdict, classify
from tcptrace_lab.reconstruct.sender import sender
from tcptrace_lab.reconstruct.timeline import Timeline
from tcptrace_lab.scenario import ConnectionSpec, NodeSpec, PathSpec, Scenario
from tcptrace_lab.simulate import Run, simulate
from tests.classify.test_limits import SACK

POLICED_BPS, BURST_PACKETS = 4e6, 60.0
LINK = NodeSpec(rate_bps=40e6, buffer=1000, delay_s=0.02)
RTT_NS = 40_000_000
TAPS = ("sender", "receiver")


def simulated(node: NodeSpec, seconds: float = 6.0) -> Run:
    path = PathSpec(nodes=(node,), return_delay_s=0.02)
    flow = ConnectionSpec(control=SACK)
    return simulate(Scenario(path=path, connections=(flow,), duration_s=seconds, profile="rfc", taps=TAPS), truth=False)


@cache
def policed() -> list[Verdict]:
    """What the bucket drops first is dropped, then what it drops of what is sent because of that, ..."""
    dropped: tuple[int, ...] = ()
    while True:
        run = simulated(replace(LINK, drop_packets=dropped))
        more = over(sender(run.capture(tap="sender")[0]).timeline, dropped)
        if not more:
            return verdicts(run)
        dropped = (*dropped, *more)


def verdicts(run: Run) -> list[Verdict]:
    return [next(iter(classify(run.capture(tap=tap)))) for tap in TAPS]


def over(timeline: Timeline, dropped: tuple[int, ...]) -> list[int]:
    """The numbers of the packets that find too few tokens, the first sent being 1: all before the first is known of."""
    full = timeline.smss + timeline.header_bytes
    sizes = (timeline.send_end - timeline.send_offset + timeline.header_bytes) / full
    left, last_ns, numbers, until_ns = BURST_PACKETS, int(timeline.send_ns[0]), [], None
    for number, (now_ns, size) in enumerate(zip(timeline.send_ns.tolist(), sizes.tolist(), strict=True), 1):
        if until_ns is not None and now_ns > until_ns:
            break
        left = min(left + POLICED_BPS / 8 / full * (now_ns - last_ns) / 1e9, BURST_PACKETS)
        last_ns = now_ns
        if left >= size:
            left -= size
        elif number not in dropped:
            numbers.append(number)
            until_ns = until_ns or now_ns + RTT_NS
    return numbers


@pytest.mark.slow
@pytest.mark.parametrize("tap", TAPS)
def test_a_policer_is_told_with_its_rate_and_its_burst(tap: str) -> None:
    found = policed()[TAPS.index(tap)].as_dict()
    rate, burst = found["path"]["policer_bps"], found["path"]["policer_burst_packets"]
    assert rate["value"] == pytest.approx(POLICED_BPS, rel=0.01)
    assert rate["low"] <= POLICED_BPS * 1.001
    assert rate["high"] >= POLICED_BPS * 0.999
    assert burst["low"] - 1 <= BURST_PACKETS <= burst["high"] + 1
    assert found["losses"]["by_cause"] == {"policed": found["losses"]["total"]}
    assert "limited by a policer that lets 4 Mbit/s pass" in found["diagnosis"]


@pytest.mark.parametrize("node", [replace(LINK, rate_bps=4e6, buffer=20), replace(LINK, loss=0.01)])
def test_a_full_queue_and_chance_are_no_policer(node: NodeSpec) -> None:
    """A queue loses as a bucket does, but round trips rise; what chance drops meets buckets of any level."""
    for found in verdicts(simulated(node, 10.0)):
        assert not np.any(found.path.policed.is_policed)
        assert found.as_dict()["path"]["policer_bps"]["value"] is None
