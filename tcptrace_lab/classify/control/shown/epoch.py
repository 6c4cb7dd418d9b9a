"""The ACKs of one stretch in which a window moved by its control's own rule, and where the flight was that window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from tcptrace_lab import _core
from tcptrace_lab.classify.control.heard.marks import ACK
from tcptrace_lab.reconstruct.given import DELAYED_ACK_SEGMENTS, MINORITY
from tcptrace_lab.reconstruct.timeline import Bools, Floats

if TYPE_CHECKING:
    from tcptrace_lab.classify.control.heard.heard import Heard

Ints32 = npt.NDArray[np.int32]

# Within an epoch, so many ACKs in a row (or a tenth of those before) may find the sender not held back by its window;
# after more than that its window is not what was replayed.
UNLIMITED_ACKS = 8


class Epoch(NamedTuple):
    """The ACKs of one stretch in which the window moved by the control's own rule.

    `flight` is what was observed after each of `acks`, in bytes; `is_limited` where it is the window. `released` are
    the ACKs at which it is, and that released something (elsewhere more may be outstanding than the window allows), up
    to where something else has held the sender back for long. `loss` and `settled` (-1: none) are the marks of the loss
    event before it and of where the window it left is seen, `before` and `after` the windows observed there.
    """

    heard: Heard
    number: int
    first: int
    last: int
    released: Ints32
    is_slow_start: bool
    had_slow_start: bool
    begin: str
    loss: int
    settled: int
    before: float
    after: float
    ends_in_loss: bool

    @property
    def acks(self) -> Ints32:
        found = np.flatnonzero(self.heard.kind[self.first + 1 : self.last + 1] == ACK).astype(np.int32)
        found += self.first + 1
        return found

    @property
    def flight(self) -> Floats:
        return self.heard.flight[self.acks].astype(float)

    @property
    def is_limited(self) -> Bools:
        return self.heard.limited[self.acks]

    @property
    def rounds(self) -> Ints32:
        """The number of the round trip of each."""
        return self.heard.round[self.acks]


def _spans(heard: Heard) -> Iterator[list[tuple[bool, int, int]]]:
    """Of each stretch its slow start, and the pieces of avoidance: each from the ACK at which a window is known to the
    last."""
    cuts = heard.parts.cuts
    for number, (part, begins) in enumerate(zip(heard.seen.stretches, heard.parts.begins.tolist(), strict=True)):
        spans = [] if part.peak is None else [(True, part.first, part.peak)]
        if begins >= 0:
            edges = [begins, *cuts.get(number, ()), part.last]
            spans += [(False, first, last) for first, last in pairwise(edges)]
        yield spans


def _released(heard: Heard, spans: Sequence[tuple[int, int]]) -> list[Ints32]:
    first, last = np.array(spans, dtype=np.int64).reshape(-1, 2).T
    acks, ends = _core.released(
        heard.kind == ACK,
        heard.limited & heard.tells_flight,
        heard.has_sent,
        heard.flight,
        np.ascontiguousarray(first),
        np.ascontiguousarray(last),
        slack=DELAYED_ACK_SEGMENTS * heard.timeline.smss,
        patience=(UNLIMITED_ACKS, MINORITY),
    )
    return [acks[begin:end] for begin, end in pairwise([0, *ends.tolist()])]


def epochs(heard: Heard) -> Iterator[Epoch]:
    """The stretches in which the window moved by the control's own rule, in order of time."""
    spans = list(_spans(heard))
    released = iter(_released(heard, [span[1:] for own in spans for span in own]))
    before = np.append(np.array(heard.marks.cwnd), np.nan)[heard.loss_mark_of].tolist()
    columns = (
        heard.seen.stretches,
        spans,
        heard.loss_mark_of,
        heard.settled_marks.tolist(),
        before,
        heard.parts.left.tolist(),
    )
    for number, (part, own, loss, settled, window, left) in enumerate(zip(*columns, strict=True)):
        for place, (is_slow_start, first, last) in enumerate(own):
            yield Epoch(
                heard=heard,
                number=number,
                first=first,
                last=last,
                released=next(released),
                is_slow_start=is_slow_start,
                had_slow_start=part.peak is not None,
                begin=part.begin,
                loss=loss if place == 0 else -1,
                settled=settled,
                before=window,
                after=left,
                ends_in_loss=part.episode is not None,
            )
