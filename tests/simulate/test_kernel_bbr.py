"""BBR of this machine's kernel, recorded, beside the simulator's on the same path: phases, throughput, losses."""

from __future__ import annotations

import pandas as pd
import pytest

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
from tcptrace_lab.simulate import Run, simulate
from tcptrace_lab.testbed import Recording, missing, record
from tcptrace_lab.testbed.kernel import AVAILABLE

NEEDED = missing()
pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.skipif(NEEDED is not None, reason=str(NEEDED)),
    pytest.mark.skipif(
        NEEDED is None and "bbr" not in AVAILABLE.read_text().split(), reason="the kernel has no module bbr"
    ),
]
# 10 Mbit/s and 40 ms, a path of 33 packets, with 60 places: Startup overflows them. Two probes of the round trip.
SECONDS = 23.0
RATE_BPS, RTT_S = 10e6, 0.04
SCENARIO = Scenario(
    path=PathSpec(nodes=(NodeSpec(rate_bps=RATE_BPS, buffer=60, delay_s=RTT_S / 2),), return_delay_s=RTT_S / 2),
    connections=(
        ConnectionSpec(
            control=ControlSpec(
                **CONTROLS["bbr"], initial_window=10, delayed_ack_segments=2, rto=RtoSpec(granularity_s=0.2)
            ),
            receiver=ReceiverSpec(rwnd=4_194_304, delayed_ack_timer_s=0.04),
        ),
    ),
    duration_s=SECONDS,
)


@pytest.fixture(scope="module")
def recording(tmp_path_factory) -> Recording:
    recording = record(SCENARIO, output=tmp_path_factory.mktemp("bbr") / "bbr", attempts=2)
    if not recording.is_clean:
        pytest.skip("the machine stood still during the recording")
    return recording


@pytest.fixture(scope="module")
def run() -> Run:
    return simulate(SCENARIO)


def probes(seconds: pd.Series, cwnd: pd.Series) -> list[tuple[float, float]]:
    """When the window lay at four segments for 200 ms and more, and how long."""
    found, since = [], None
    for at, window in zip(seconds, cwnd, strict=True):
        if window <= 4:
            since = at if since is None else since
        elif since is not None:
            if at - since > 0.2:
                found.append((since, at - since))
            since = None
    return found


def test_bbr_of_this_kernel_does_what_the_simulator_s_does(recording, run) -> None:
    """ProbeRTT every ten seconds and as long; throughput 3 %, losses 10 %, the bottleneck 2 % apart at the most."""
    kernel = pd.read_csv(recording.truth, low_memory=False)
    kernel = kernel.dropna(subset=["cwnd", "snd_una"])
    begin = kernel["time"].iloc[0]
    theirs = probes(kernel["time"] - begin, kernel["cwnd"])
    windows = run.windows
    ours = probes(windows["time_ns"] / 1e9, windows["cwnd"] // windows["smss"])
    assert len(ours) == len(theirs) == 2
    for (at, lasts), (wanted, as_long) in zip(ours, theirs, strict=True):
        assert lasts == pytest.approx(as_long, abs=0.05)
        assert at == pytest.approx(wanted, abs=1.0)
    assert all(10 <= each[1][0] - each[0][0] < 11.5 for each in (ours, theirs))
    # Until the last whole second, as a recording ends with its connection.
    kernel, windows = kernel[kernel["time"] < begin + SECONDS - 1], windows[windows["time_ns"] < (SECONDS - 1) * 1e9]
    acked = (kernel["snd_una"].iloc[-1] - kernel["snd_una"].iloc[0]) % 2**32 / (kernel["time"].iloc[-1] - begin)
    mine = windows["snd_una"].iloc[-1] / (windows["time_ns"].iloc[-1] / 1e9)
    assert mine == pytest.approx(acked, rel=0.03)
    lost = len(pd.read_csv(recording.drops))
    assert abs(len(run.drops) - lost) <= max(1, 0.1 * lost)
    held = windows[windows["time_ns"] > 3e9]["bottleneck_bps"]
    assert (abs(held / (RATE_BPS * 1448 / 1500) - 1) < 0.02).mean() > 0.95
