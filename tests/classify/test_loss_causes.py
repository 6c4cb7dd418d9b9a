"""What a loss is put down to, by the queues that the losses around it met."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tcptrace_lab.classify.path.causes import _at_one_level, _cause
from tcptrace_lab.reconstruct.estimate import unknown


@pytest.mark.parametrize(
    ("causes", "queues", "is_level"),
    [
        # A full buffer, seen on a path that has become shorter by 23 packets' time.
        (["overflow", "overflow", "random", "random"], (51.4, 52.4, 27.9, 28.4), True),
        (["unknown", "random", "random", "random"], (50.0, 20.0, 21.0, 20.5), True),
        # Chance meets any queue, and it goes on beside a buffer that overflows.
        (["overflow", "random", "random"], (50.0, 20.0, 31.0), False),
        (["overflow", "random", "overflow", "random"], (50.0, 20.0, 51.0, 20.5), False),
        # Once says nothing; nor does what was so from the beginning.
        (["overflow", "random"], (50.0, 20.0), False),
        (["random", "random"], (20.0, 20.5), False),
    ],
)
def test_losses_at_one_shorter_queue_may_be_a_full_buffers(
    causes: list[str], queues: tuple[float, ...], *, is_level: bool
) -> None:
    assert _at_one_level(causes, queues) is is_level


@pytest.mark.parametrize(("jitter", "cause"), [(0.0, "random"), (20.0, "random"), (43.4, "unknown")])
def test_a_queue_that_jitter_makes_half_as_long_is_not_known_to_have_been_short(jitter: float, cause: str) -> None:
    """Of queues up to 56 packets, one of none at a loss."""
    path: Any = SimpleNamespace(
        buffer_packets=unknown("not one full buffer"), queue_max=80.0, own_queue_max=56.5, queue_jitter=jitter
    )
    assert _cause(0.1, path, may_be_codel=False) == cause
