"""Captures of one simulated sender, headers only: Tahoe, CUBIC, Compound under random loss, one that is in no table.

    python -m benchmarks.sender_capture FILE TITLE MILLIONS

About so many millions of packets over 100 Mbit/s and 40 ms, 300 packets of buffer.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tcptrace_lab import simulate
from tcptrace_lab.scenario import ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario

# Window, recovery, loss rate beside the queue's, about how many packets pass in a second, where the tap is, and whether
# segments have timestamps.
SENDERS = {
    "CUBIC": ("cubic", "sack", 0.0, 12_500, "sender", True),
    "CUBIC at the receiver": ("cubic", "sack", 0.0, 12_500, "receiver", True),
    "CUBIC at the receiver, no timestamps": ("cubic", "sack", 0.0, 12_500, "receiver", False),
    "CUBIC, 1 % lost": ("cubic", "sack", 1e-2, 440, "sender", True),
    "Tahoe": ("reno", "tahoe", 0.0, 12_500, "sender", True),
    "Compound, 0.1 % lost": ("compound", "sack", 1e-3, 1_350, "sender", True),
    "no candidate fits": (None, "sack", 0.0, 12_500, "sender", True),
}


class Odd:
    """A control of none: it grows by a segment and 6 % of its window in a round trip, and a loss leaves it 38 %."""

    def on_ack(self, state: Any) -> None:
        if state.cwnd < state.ssthresh:
            state.cwnd += state.newly_acked
        else:
            state.cwnd += (state.smss + 0.06 * state.cwnd) * state.newly_acked / state.cwnd

    def on_loss(self, state: Any) -> None:
        state.ssthresh = max(0.38 * state.cwnd, 2 * state.smss)

    on_timeout = on_loss


def simulated(capture: Path, title: str, millions: int) -> None:
    """A run long enough for so many."""
    window, recovery, loss, packets_per_s, tap, timestamps = SENDERS[title]
    node = NodeSpec(rate_bps=100e6, buffer=300, delay_s=0.02, loss=loss)
    control = ControlSpec(
        window=window or "reno", recovery=recovery, initial_window=10, delayed_ack_segments=2, timestamps=timestamps
    )
    scenario = Scenario(
        path=PathSpec(nodes=(node,), return_delay_s=0.02),
        connections=(ConnectionSpec(control=control),),
        duration_s=millions * 1e6 / packets_per_s,
        profile="rfc",
        seed=5,
        taps=(tap,),
    )
    done = simulate(scenario, control=None if window else Odd(), truth=False)
    done.write(capture, payload=False)


def main() -> None:
    """Writes one as the words say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE", type=Path)
    parser.add_argument("title", metavar="TITLE", choices=SENDERS, help=", ".join(SENDERS).replace("%", "%%"))
    parser.add_argument("millions", metavar="MILLIONS", type=int)
    arguments = parser.parse_args()
    simulated(arguments.file, arguments.title, arguments.millions)


if __name__ == "__main__":
    main()
