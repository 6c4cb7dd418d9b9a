"""A start of k packets into b buffers, packet by packet (RFC 2416): the recurrence of `initial_window`.

Links before the last queue space the packets, the queue drops what finds no place, the receiver answers, and an ACK of
new data lets the sender send (core/src/models/start.rs). Parameters broadcast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tcptrace_lab.models.prediction import FloatArray, Parameter

from tcptrace_lab import _core

INITIAL_WINDOW = Parameter(name="initial_window", unit="packets", meaning="k, sent at time 0", example=4, low=1,
                           low_open=False, high=512, high_open=False, integer=True)  # fmt: skip
PLACES = Parameter(name="places", unit="packets", meaning="b, the last queue's, in service included", example=3, low=1,
                   low_open=False, high=4096, high_open=False, integer=True)  # fmt: skip
LAST_RATE = Parameter(name="last_rate", unit="packets/s", meaning="rate behind the last queue", example=1.2)
FEED_RATE = Parameter(name="feed_rate", unit="packets/s", meaning="slowest rate before it", example=187.5)
FEED_TIME = Parameter(name="feed_time", unit="s", meaning="one packet's way to the last queue", example=0.03041333,
                      low_open=False)  # fmt: skip
RETURN_TIME = Parameter(name="return_time", unit="s", meaning="end of service to the ACK's return", example=0.35854987,
                        low_open=False)  # fmt: skip
ACK_TIMER = Parameter(name="ack_timer", unit="s", meaning="delayed-ACK timer, 0: every packet is acknowledged at once",
                      example=0.0, low_open=False)  # fmt: skip
BLOCK_TIME = Parameter(name="block_time", unit="s", meaning="what a SACK block adds to an ACK's return, 0: no SACK",
                       example=0.0, low_open=False)  # fmt: skip
FORWARD = Parameter(name="forward", unit="1", meaning="1: FACK's three packets above the hole, 0: three duplicates",
                    example=0, low=0, low_open=False, high=1, high_open=False, integer=True)  # fmt: skip

DUPLICATE_ACKS = 3
# ns's SACK option: at most three blocks of 8 bytes.
BLOCKS, BLOCK_BYTES = 3, 8
# More packets than this are not followed: nothing is then said of a loss.
HORIZON = 4096


@dataclass(frozen=True, kw_only=True)
class StartTimeline:
    """What happens to packets 1 ... P (last axis; packet p at index p - 1) until the third duplicate ACK.

    `sent`, `delivered` (at the receiver) and `ack_at` (the ACK its arrival caused, back at the sender) are seconds, NaN
    where it does not happen; `ack_number` is what that ACK covers. `first_lost` is a packet number, NaN if none is
    lost within the horizon; `retransmitted` the time of its fast retransmission, NaN if fewer than three duplicates
    come (`duplicates` counts all; FACK: if none comes from three above): then only the retransmission timer is left.
    """

    sent: FloatArray
    delivered: FloatArray
    ack_at: FloatArray
    ack_number: FloatArray
    is_lost: NDArray[np.bool_]
    is_duplicate: NDArray[np.bool_]
    first_lost: FloatArray
    duplicates: FloatArray
    retransmitted: FloatArray


def timeline(
    *,
    initial_window: ArrayLike,
    places: ArrayLike,
    last_rate: ArrayLike,
    feed_rate: ArrayLike,
    feed_time: ArrayLike,
    return_time: ArrayLike,
    ack_timer: ArrayLike = 0.0,
    block_time: ArrayLike = 0.0,
    forward: ArrayLike = 0,
) -> StartTimeline:
    """The start, packet by packet; see `StartTimeline`. Parameters as in `InitialWindow.parameters`."""
    asked = {
        INITIAL_WINDOW: initial_window,
        PLACES: places,
        LAST_RATE: last_rate,
        FEED_RATE: feed_rate,
        FEED_TIME: feed_time,
        RETURN_TIME: return_time,
        ACK_TIMER: ack_timer,
        BLOCK_TIME: block_time,
        FORWARD: forward,
    }
    given = np.broadcast_arrays(*(parameter.check(value) for parameter, value in asked.items()))
    one = given[0].shape
    # One entry per combination; they get the parameters' shape at the end.
    rows = {
        parameter.name: np.ascontiguousarray(array.ravel(), dtype=np.float64)
        for parameter, array in zip(asked, given, strict=True)
    }
    count = int(np.max(packets_needed(rows), initial=1))
    found = _core.starts(**rows, most_blocks=BLOCKS, count=count)
    many = {
        name: found[name].reshape(*one, count)
        for name in ("sent", "delivered", "ack_at", "ack_number", "is_lost", "is_duplicate")
    }
    is_lost = many["is_lost"]
    return StartTimeline(
        **many,
        first_lost=np.where(is_lost.any(axis=-1), np.argmax(is_lost, axis=-1) + 1.0, np.nan),
        duplicates=found["duplicates"].reshape(one),
        retransmitted=found["retransmitted"].reshape(one),
    )


def packets_needed(row: Mapping[str, FloatArray]) -> FloatArray:
    """How many packets must be followed to see the first loss detected.

    Slow start can't pass the pipe and the queue by more than twice; the packets sent by then are twice as many again.
    """
    pipe = row["last_rate"] * (row["feed_time"] + row["return_time"] + row["ack_timer"]) + 1
    return np.asarray(np.minimum(4 * (row["places"] + pipe) + 2 * row["initial_window"] + 16, HORIZON))
