"""The runs of Compound TCP that RR-6778's figures need, as scenario tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tcptrace_lab.models.compound import Compound
from tcptrace_lab.models.compound_oscillation import Rule

if TYPE_CHECKING:
    from tcptrace_lab.simulate import Run

PACKET_BITS = 12_000
# Figures 6-11: Mb/s, ms, b, gamma, seconds to simulate.
CASES: dict[int, tuple[float, float, int, float, float]] = {
    1: (100, 50, 10, 30, 60),
    2: (100, 50, 25, 30, 60),
    3: (50, 20, 85, 90, 60),
    4: (100, 50, 80, 30, 100),
    5: (100, 50, 420, 30, 250),
    6: (100, 50, 500, 30, 250),
}
# Figures 14, 15: b = 100, 50 ms.
RATES = (20, 40, 60, 80, 100, 110, 120, 125, 130, 132, 134, 136, 138, 140, 150, 160, 180, 200, 220, 240, 260, 270, 275,
         280, 290, 300, 310, 315, 320, 325, 330, 340, 350, 360, 380, 400, 410, 450, 500, 550, 600, 700, 800,
         900)  # fmt: skip
# Figures 4, 5: mu tau in packets, 50 ms.
BDPS = (100, 140, 180, 220, 260, 300, 320, 340, 417, 480, 520, 530, 540, 550, 560, 570, 580, 600, 700, 800, 1000, 1200,
        1320, 1340, 1360, 1380, 1411, 1500, 1700, 2000, 3000, 4000)  # fmt: skip


def scenario(
    mbps: float, ms: float, b: int | None, gamma: float, duration_s: float, **control: object
) -> dict[str, Any]:
    """A 10 Gb/s access link and the bottleneck with b packets, as in the reference runs (b None: no limit)."""
    half, rate = ms / 2e3, mbps * 1e6
    places = {} if b is None else {"buffer": b, "counts_in_service": True}
    return {
        "title": "Compound",
        "profile": "ns2",
        "duration_s": duration_s,
        "taps": [],
        "path": {
            "access_rate_bps": 10e9,
            "nodes": [{"rate_bps": rate, "delay_s": half, **places}],
            "reverse": [{"rate_bps": rate, "delay_s": half}, {"rate_bps": 10e9}],
        },
        "control": {
            "name": "compound",
            "initial_window": 2,
            "gamma": gamma,
            "rto": {"initial_s": 3, "granularity_s": 0.01},
            **control,
        },
    }


def evaluate(mbps: float, ms: float, b: float, gamma: float, *, counts_cuts: bool = False) -> dict[str, float]:
    """The model of such a run, every quantity as a number: the paper's, or with ns-2's losses and second cuts."""
    mu = mbps * 1e6 / PACKET_BITS
    model = Compound(rule=ns2_rule(mu, ms / 1e3)) if counts_cuts else Compound()
    found = model.evaluate(buffer=b, mu=mu, tau=ms / 1e3, gamma=gamma, beta=0.5, per_ack=1)
    return {name: float(quantity.value) for name, quantity in found.items()}


def ns2_rule(mu: float, tau: float) -> Rule:
    """ns-2.35's module on `scenario`'s path: a packet and its ACK cross the bottleneck and the 10 Gb/s access link."""
    base = tau + (1 + 40 / 1500) / mu + 8 * 1540 / 10e9
    return Rule(arithmetic="ns2", round_trip=base, transmission=mu * (base - tau))


def window_of(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Seconds and w in packets of a simulated run."""
    rows = run.windows
    return rows["time_ns"].to_numpy() / 1e9, (rows["cwnd"] / rows["smss"]).to_numpy()


def simulated_utilization(summary: dict[str, Any], mbps: float) -> float:
    """New packets over the link's rate in full cycles, or over the whole run where there is no full cycle."""
    rate = summary["throughput_full_cycles_pps"] if summary["cycles"] else summary["throughput_pps"]
    return float(rate) * PACKET_BITS / (mbps * 1e6)
