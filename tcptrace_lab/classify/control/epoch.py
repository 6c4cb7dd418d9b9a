"""The ACKs of one stretch in which a window moved by its control's own rule, and where the flight was that window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from tcptrace_lab import _core
from tcptrace_lab.classify.control.marks import ACK
from tcptrace_lab.reconstruct.given import DELAYED_ACK_SEGMENTS, MINORITY
from tcptrace_lab.reconstruct.phases import Stretch
from tcptrace_lab.reconstruct.timeline import Bools, Floats

if TYPE_CHECKING:
    from tcptrace_lab.classify.control.heard import Heard

Ints32 = npt.NDArray[np.int32]

# An avoidance longer than this is judged in pieces, each from the window observed at its beginning: what a delay
# changes once does not count against the round trips behind it. Long enough for a delay window to come round.
PIECE_ROUNDS = 16
# HyStart++ (RFC 9406) goes on at a quarter of the pace for five round trips where it has seen delay rise: no avoidance
# yet. The round trip in which that was seen is the sixth.
CONSERVATIVE_ROUNDS = 6
MOST_PIECES = 6
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


def avoids_from(heard: Heard, part: Stretch) -> int | None:
    if part.peak is not None and part.begin == "connection" and part.has_threshold:
        begins = int(np.searchsorted(heard.round, heard.round[part.peak] + CONSERVATIVE_ROUNDS))
        told = np.flatnonzero((heard.has_sent & heard.limited)[begins : part.last])
        return begins + int(told[0]) if len(told) else None
    if part.peak is not None:
        return part.peak if part.has_threshold else None
    return heard.settles(part) if part.begin == "recovery" else part.first


def cuts_of(heard: Heard, part: Stretch) -> list[int]:
    """ACKs within a long avoidance at which the window observed is taken over again: some round trips apart."""
    begins = avoids_from(heard, part)
    if begins is None:
        return []
    pieces = min(int(heard.round[part.last] - heard.round[begins]) // PIECE_ROUNDS, MOST_PIECES)
    if pieces < 2:
        # As of most: of thousands of short ones no column is worked out.
        return []
    rounds = heard.round[begins : part.last + 1] - heard.round[begins]
    told = np.flatnonzero(heard.sends_by_window[begins : part.last + 1])
    found: list[int] = []
    for number in range(1, pieces):
        at = int(np.searchsorted(rounds, number * int(rounds[-1]) // pieces, side="left"))
        behind = int(np.searchsorted(told, at, side="left"))
        if behind < len(told) and begins + int(told[behind]) > (found[-1] if found else begins):
            found.append(begins + int(told[behind]))
    return found


def _spans(heard: Heard, number: int, part: Stretch) -> list[tuple[bool, int, int]]:
    """Slow start, and the pieces of avoidance, each from the ACK at which the window is known to the last."""
    spans = [] if part.peak is None else [(True, part.first, part.peak)]
    begins = avoids_from(heard, part)
    if begins is not None:
        edges = [begins, *heard.cuts[number], part.last]
        spans += [(False, first, last) for first, last in pairwise(edges)]
    return spans


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
    spans = [_spans(heard, number, part) for number, part in enumerate(heard.seen.stretches)]
    released = iter(_released(heard, [span[1:] for own in spans for span in own]))
    for number, (part, own) in enumerate(zip(heard.seen.stretches, spans, strict=True)):
        loss = heard.loss_mark.get(id(part.started_by), -1) if part.started_by is not None else -1
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
                settled=heard.settled_mark.get(id(part), -1),
                before=heard.marks.cwnd[loss] if loss >= 0 else np.nan,
                after=heard.left(part),
                ends_in_loss=part.episode is not None,
            )
