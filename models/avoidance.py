"""Packets and time of a cycle with the queueing delay counted: what the papers' throughput formulas leave out.

The papers take the round trip as constant and ignore slow starts (RR-3574, section 7), which holds for buffers much
smaller than the pipe. Here the round trip is T until the pipe is full and W / mu above.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from tcptrace_lab.models.prediction import FloatArray


def avoidance(
    w_start: ArrayLike, w_end: ArrayLike, mu: ArrayLike, round_trip: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Packets and seconds of congestion avoidance from one window to another, one packet more per round trip.

    dW/dt = 1 / RTT and rate = W / RTT with RTT = max(T, W / mu): packets are the integral of W dW, seconds of RTT dW.
    `w_start`, `w_end` in packets, `mu` packets/s, `round_trip` T in s (propagation and service, no queue).
    """
    start, end = np.asarray(w_start, dtype=np.float64), np.asarray(w_end, dtype=np.float64)
    pipe = np.asarray(mu) * np.asarray(round_trip)
    empty = np.maximum(np.minimum(end, pipe) - start, 0) * round_trip
    queued = np.maximum(end**2 - np.maximum(start, pipe) ** 2, 0) / (2 * np.asarray(mu))
    return (end**2 - start**2) / 2, empty + queued


def cycle_throughput(
    w_start: ArrayLike, w_end: ArrayLike, mu: ArrayLike, round_trip: ArrayLike, slow_start_ends: Sequence[ArrayLike]
) -> FloatArray:
    """New packets per second over a Tahoe cycle: slow starts, congestion avoidance, and the detection of its loss.

    Each slow start that ends at window w acknowledges w packets in log2(w) round trips T (w = 0: no such slow start).
    Omitted: a slow start that repeats half-received packets grows by 3/2 a round trip, not 2 (RR-3574, section 4).
    """
    packets, seconds = avoidance(w_start, w_end, mu, round_trip)
    # The packet lost at W_E is found out when the W_E packets before it have been acknowledged.
    packets = packets + np.asarray(w_end)
    seconds = seconds + np.maximum(np.asarray(w_end) / np.asarray(mu), round_trip)
    for end in slow_start_ends:
        w = np.asarray(end, dtype=np.float64)
        packets = packets + w
        seconds = seconds + np.asarray(round_trip) * np.log2(np.maximum(w, 1))
    result: FloatArray = packets / seconds
    return result
