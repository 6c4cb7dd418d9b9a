"""What the tap missed of a sender's data: passed in its order, a repair of a loss that is seen, or a loss unseen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tcptrace_lab.reconstruct.tap.passed_over import missed, unseen_losses
from tcptrace_lab.reconstruct.timeline import ARRIVED, LOST

# Ten segments of ten bytes, of which those at 30 and 70 are not captured.
OFFSETS = (0, 10, 20, 40, 50, 60, 80, 90)


def timeline(acks: list[tuple[int, int, bool]], *, put_back: tuple[int, ...] = ()) -> Any:
    """`acks`: what each acknowledges, how much behind is SACKed, whether it is a duplicate."""
    una, sacked, dups = (np.array(column) for column in zip(*acks, strict=True))
    offsets = np.array((*OFFSETS, *put_back))
    fate = np.array([ARRIVED] * len(OFFSETS) + [LOST] * len(put_back), dtype=np.uint8)
    return SimpleNamespace(
        send_offset=offsets,
        send_end=offsets + 10,
        fate=fate if put_back else fate[:0],
        first_offset=0,
        snd_una=una,
        sacked=sacked,
        is_dupack=dups,
    )


def event(una: int, recover: int, *, sure: bool = True) -> Any:
    return SimpleNamespace(una=una, recover=recover, sure=sure)


IN_ORDER = [(20, 0, False), (40, 0, False), (70, 0, False), (100, 0, False)]
STANDS = [(20, 0, False), (40, 0, False), (70, 10, False), (70, 20, False), (100, 0, False)]
STANDS_WITHOUT_SACK = [(30, 0, False), (70, 0, False), (70, 0, True), (70, 0, True), (100, 0, False)]


@pytest.mark.parametrize("put_back", [(), (30, 70)])
def test_missed_is_what_was_acknowledged_and_never_came(put_back: tuple[int, ...]) -> None:
    begins, ends = missed(timeline(IN_ORDER, put_back=put_back))
    assert (begins.tolist(), ends.tolist()) == ([30, 70], [40, 80])


@pytest.mark.parametrize("at_once", [1, 3, 64])
def test_what_goes_back_fills_what_was_missed_in_any_order(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tcptrace_lab.reconstruct.timeline.AT_ONCE", at_once)
    drawn = np.random.default_rng(7)
    for _ in range(200):
        offset = np.sort(drawn.integers(0, 40, 20)) + drawn.integers(-6, 1, 20) * (drawn.random(20) < 0.3)
        end = np.maximum(offset, 0) + drawn.integers(1, 4, 20)
        fate = np.where(drawn.random(20) < 0.2, np.uint8(LOST), np.uint8(ARRIVED))
        timeline: Any = SimpleNamespace(
            fate=fate,
            send_ns=end,
            send_offset=np.maximum(offset, 0),
            send_end=end,
            first_offset=0,
            snd_una=np.array([44]),
        )
        begins, ends = missed(timeline)
        left_out = {byte for begin, behind in zip(begins, ends, strict=True) for byte in range(begin, behind)}
        rows = zip(timeline.send_offset, end, fate, strict=True)
        came = {byte for first, behind, is_lost in rows if is_lost != LOST for byte in range(first, behind)}
        assert left_out == set(range(44)) - came


def test_what_lies_behind_all_that_was_captured_was_missed_too() -> None:
    begins, ends = missed(timeline([*IN_ORDER, (130, 0, False)]))
    assert (begins.tolist()[-1], ends.tolist()[-1]) == (100, 130)


@pytest.mark.parametrize(
    ("acks", "events", "unseen"),
    [
        (IN_ORDER, [], []),
        (STANDS, [], [70]),
        (STANDS_WITHOUT_SACK, [], [70]),
        # One repair more of a recovery that others show.
        (STANDS, [event(60, 100)], []),
        (STANDS, [event(60, 70)], [70]),
        (STANDS, [event(60, 100, sure=False)], [70]),
    ],
)
def test_a_loss_is_unseen_where_acks_stood_still_at_what_was_missed(
    acks: list[tuple[int, int, bool]], events: list[Any], unseen: list[int]
) -> None:
    assert unseen_losses(timeline(acks), events).tolist() == unseen
