"""Records what the reconstruction is judged by and nothing was chosen on: scenarios drawn from a seed, not by hand.

    sudo .venv/bin/python captures/judged.py            # all of them, into captures/judged
    sudo .venv/bin/python captures/judged.py 3 5        # these

docs/make_accuracy.py scores them apart from the captures that were at hand while the analysis was written. Whoever
looks at one of them to mend something takes it out and draws another: the next number of the seed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from tcptrace_lab.scenario import ConnectionSpec, ControlSpec, NodeSpec, PathSpec, ReceiverSpec, Scenario
from tcptrace_lab.testbed import record

HERE = Path(__file__).parent / "judged"
SEED = 20261122
# 3 was looked at: a buffer was told where the link had lost.
NUMBERS = (0, 1, 2, 4, 5, 6, 7, 8)
ATTEMPTS = 3
# A capture at either end and the truth stay below a megabyte.
MOST_PACKETS = 5000


def draw(number: int) -> Scenario:
    """Path, control of the kernel, options and receiver at random; a few thousand packets."""
    rng = np.random.default_rng([SEED, number])
    rate, rtt = (float(np.exp(rng.uniform(*np.log(ends)))) for ends in ((1.5e6, 30e6), (0.01, 0.15)))
    share = float(np.exp(rng.uniform(*np.log((0.15, 2.0)))))
    timestamps = bool(rng.integers(2))
    packet_bytes = int(rng.choice([1500, 1500, 1280]))
    window = str(rng.choice(["reno", "cubic", "cubic"]))
    control = ControlSpec(
        window=window,
        # As this kernel's cubic is built.
        slow_start="hystart" if window == "cubic" else "standard",
        recovery=str(rng.choice(["sack", "sack", "newreno"])),
        initial_window=10,
        timestamps=timestamps,
        limited_transmit=True,
        byte_counting=True,
        delayed_ack_segments=2,
    )
    node = NodeSpec(
        rate_bps=round(rate, -3),
        buffer=max(4, int(rate * rtt / 8 / packet_bytes * share)),
        delay_s=round(rtt / 2, 4),
        loss=float(rng.choice([0.0, 0.0, 0.0, 0.001, 0.003])),
    )
    return Scenario(
        title=f"drawn: seed {SEED}, number {number}",
        path=PathSpec(nodes=(node,), return_delay_s=round(rtt / 2, 4), packet_bytes=packet_bytes),
        connections=(
            ConnectionSpec(
                control=control,
                receiver=ReceiverSpec(delayed_ack_timer_s=0.04, quickack_segments=16),
            ),
        ),
        duration_s=round(float(min(MOST_PACKETS * 8 * packet_bytes / rate, 30)), 1),
        taps=("sender", "receiver"),
        seed=int(rng.integers(1 << 30)),
    )


def main() -> None:
    """Record what is named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("numbers", metavar="NUMBER", type=int, nargs="*", help="these only (default: all)")
    numbers = parser.parse_args().numbers or NUMBERS
    HERE.mkdir(exist_ok=True)
    for number in numbers:
        recording = record(draw(number), output=HERE / f"drawn_{number}", attempts=ATTEMPTS)
        print(recording.summary(), end="", flush=True)


if __name__ == "__main__":
    main()
