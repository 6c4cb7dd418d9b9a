"""What was SACKed, and since which ACK: against a table of every byte."""

import random

import numpy as np
import pytest

from tcptrace_lab.reconstruct.scoreboard import NEVER, Scoreboard
from tcptrace_lab.reconstruct.timeline import build


def scoreboard(blocks: list[list[tuple[int, int]]], acks: list[int]) -> Scoreboard:
    """Of a receiver that sent these blocks with these ACK numbers, a nanosecond apart."""
    sends = {"send_ns": [0], "send_offset": [0], "send_end": [1]}
    columns = {**sends, "ack_ns": list(range(len(acks))), "ack_offset": acks}
    return build(columns, smss=1, has_sack=True, blocks=blocks).scoreboard


@pytest.mark.parametrize("seed", range(20))
def test_each_byte_is_known_since_the_first_ack_that_reports_it(seed: int) -> None:
    rng = random.Random(seed)
    acks = [rng.randint(0, 8) for _ in range(30)]
    blocks = [[(left, left + rng.randint(0, 9)) for left in rng.choices(range(40), k=3)] for _ in acks]
    since = np.full(60, NEVER, dtype=np.int64)
    for index in reversed(range(len(acks))):
        for left, right in blocks[index]:
            if left >= acks[index]:
                since[left:right] = index
    offsets = np.arange(60)
    assert scoreboard(blocks, acks).since(offsets, offsets + 1).tolist() == since.tolist()


def test_a_block_that_grows_by_a_segment_per_ack_is_told_by_each() -> None:
    board = scoreboard([[(10, 20 + 10 * index)] for index in range(100)], [0] * 100)
    assert board.ack.tolist() == list(range(100))
    assert board.right.tolist() == [20 + 10 * index for index in range(100)]
