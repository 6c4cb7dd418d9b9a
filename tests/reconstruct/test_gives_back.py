"""Whether ACKs release what they report, as a window at work has it (RFC 5681), by the ticks that segments echo."""

from __future__ import annotations

import numpy as np
import pytest

from tcptrace_lab.reconstruct.away.arrivals import NOTHING, Arrivals
from tcptrace_lab.reconstruct.away.echoes import gives_back, named
from tcptrace_lab.reconstruct.away.own_times import GIVES_BACK_SHARE

SMSS = 1448
TICKS, TICK_NS = 400, 1_000_000
# Segments that a path carries in a tick, and what a sender has in flight at first.
PER_TICK, PIPE = 4, 80


def share(sent: list[int], lost_at: int | None = None) -> float:
    """Of a sender that lets so many segments go behind the ACK of each tick, which tells of what a tick carries."""
    stamps = np.arange(len(sent) + 1)
    counts = np.array([PIPE, *sent])
    echo, ends = np.repeat(stamps, counts), SMSS * np.cumsum(np.ones(int(counts.sum()), dtype=np.int64))
    gone = SMSS * PER_TICK * stamps.astype(np.int64)
    una = gone.copy()
    if lost_at is not None:
        una[lost_at : lost_at + PIPE // PER_TICK] = gone[lost_at]
    seen = Arrivals(
        time_ns=np.zeros_like(ends),
        offset=ends - SMSS,
        end=ends,
        ip_id=np.zeros(len(ends), dtype=np.int32),
        stamp=None,
        echo=echo,
        beside=NOTHING,
    )
    return gives_back(named(echo, stamps), seen, stamps * TICK_NS, gone, una)


def in_bursts(segments: int) -> list[int]:
    """What is released goes as soon as so many may leave together (offload)."""
    owed, sent = 0, []
    for _ in range(TICKS):
        owed += PER_TICK
        sent.append(owed // segments * segments)
        owed -= sent[-1]
    return sent


def halved() -> list[int]:
    """Half a pipe is not sent again behind a loss."""
    behind = PIPE // PER_TICK
    return [PER_TICK] * 100 + [PER_TICK, 0] * behind + [PER_TICK] * (TICKS - 100 - 2 * behind)


@pytest.mark.parametrize(
    ("sent", "lost_at", "is_window"),
    [
        ([PER_TICK] * TICKS, None, True),
        (in_bursts(3), None, True),
        (in_bursts(5), None, True),
        # An application's writes: more than a millisecond's worth is held back, which is no burst's rest.
        ([12, 1, 1, 3, 3] * 80, None, False),
        # A pacer's round trips, a quarter faster and a quarter slower by turns.
        ([PER_TICK + 1] * 20 + ([PER_TICK - 1] * 20 + [PER_TICK + 1] * 20) * 9, None, False),
        (halved(), 101, True),
        # The same without a loss: less was written.
        (halved()[:200], None, False),
    ],
)
def test_a_window_owes_no_more_than_a_burst(sent: list[int], lost_at: int | None, *, is_window: bool) -> None:
    assert (share(sent, lost_at) <= GIVES_BACK_SHARE) == is_window
