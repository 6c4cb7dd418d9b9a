"""Losses that no full buffer makes: all that is sent while a bottleneck would have taken in some (drop tail)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tcptrace_lab.classify.path.outages import LET_IN_PACKETS, lost_in_a_row

SMSS = 1000
PPS = 1000.0
EVERY_MS = np.arange(100)


def lost_of(numbers: Any, sent_ms: Any, *, restarts: bool = False, is_rebuilt: bool = False) -> bool:
    """One loss event of these segments."""
    numbers = np.asarray(numbers)
    rows = {
        "event": np.zeros(len(numbers), dtype=np.int64),
        "offset": SMSS * numbers,
        "length": np.full(len(numbers), SMSS),
        "time_ns": 1_000_000 * np.asarray(sent_ms, dtype=np.int64),
        "spurious": np.zeros(len(numbers), dtype=bool),
    }
    timeline = SimpleNamespace(
        observed=SimpleNamespace(lost=lambda: rows), smss=SMSS, fate=np.zeros(len(numbers) * is_rebuilt)
    )
    seen: Any = SimpleNamespace(timeline=timeline, episodes=(SimpleNamespace(restarts=restarts),))
    return bool(lost_in_a_row(seen, PPS)[0])


@pytest.mark.parametrize(
    ("numbers", "sent_ms", "expected"),
    [
        # One that left each millisecond, of which the bottleneck passes one: a place was free for each.
        (EVERY_MS, EVERY_MS, True),
        (EVERY_MS[:LET_IN_PACKETS], EVERY_MS[:LET_IN_PACKETS], False),
        # A burst, however long.
        (EVERY_MS, 0 * EVERY_MS, False),
        # Every second one, as a slow start overflows a buffer.
        (EVERY_MS[::2], EVERY_MS[::2], False),
        # A few that came late: others' took the places.
        (range(8), range(0, 800, 100), False),
        # A burst's end, and the end of the next.
        ([1, 2, 3, *range(8, 20)], [0] * 3 + [90] * 12, False),
    ],
)
def test_a_full_buffer_lets_in_what_it_has_sent(numbers: Any, sent_ms: Any, *, expected: bool) -> None:
    assert lost_of(numbers, sent_ms) == expected


@pytest.mark.parametrize(("restarts", "expected"), [(True, True), (False, False)])
def test_elsewhere_only_a_flight_lost_to_its_end_tells(*, restarts: bool, expected: bool) -> None:
    """When what never came left is not seen: what a burst loses is followed by what comes, and asks for it."""
    assert lost_of(EVERY_MS, 0 * EVERY_MS, restarts=restarts, is_rebuilt=True) == expected
