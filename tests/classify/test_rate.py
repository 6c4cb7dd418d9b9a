"""The bottleneck's rate where something else than the bottleneck sets when its ACKs come back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tcptrace_lab.classify.rate import bottleneck_rate
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Ints
from tcptrace_lab.scenario import ConnectionSpec
from tests.classify.test_limits import SACK, verdicts

MS = 1_000_000
TRUE_PPS = 10e6 / 8 / 1500


def in_turns(times: Ints, *, turn_ms: float) -> Ints:
    """As a radio hands them over: all that came since its last turn, one right behind the other."""
    turn = -(-times // round(turn_ms * MS))
    place = np.arange(len(times)) - np.searchsorted(turn, turn)
    found: Ints = (turn * round(turn_ms * MS) + 20_000 * place).astype(np.int64)
    return found


def jittered(times: Ints, *, mean_ms: float) -> Ints:
    """Each held up by a random time, none overtaken."""
    late = np.random.default_rng(5).exponential(mean_ms * MS, len(times))
    found: Ints = np.maximum.accumulate(times + late.astype(np.int64))
    return found


@pytest.mark.parametrize("way_back", ["turns", "jitter"])
def test_bursts_that_the_way_back_made_are_no_bottleneck(way_back: str) -> None:
    """10 Mbit/s: the fastest runs of six segments are up to a half faster, and not evenly so."""
    found, _ = verdicts(ConnectionSpec(control=SACK), seconds=10.0)
    timeline = found.seen.timeline
    late = in_turns(timeline.ack_ns, turn_ms=5) if way_back == "turns" else jittered(timeline.ack_ns, mean_ms=4)
    rate = bottleneck_rate(Reconstruction(replace(timeline, ack_ns=late)))
    assert rate.low is not None
    assert rate.low <= 1.02 * TRUE_PPS
    assert rate.value is None or rate.value == pytest.approx(TRUE_PPS, rel=0.05)
    assert rate.high is None or rate.high >= TRUE_PPS
