"""Of the controls that go from loss to loss as a sender did, who lets its window come to the drop at the very ACK.

Where a sender's own data fills one queue, a segment is dropped when the window first comes to more than path and queue
hold: the last that this ACK released. Which segment that was is in the capture, whatever stood in the queue. A window
counted in segments may be off by a whole one at a loss; the ACK at which it has grown by that one is one among all of a
round trip or more. One kind of cycle over and over is one piece of evidence: an ACK that a law comes to by chance it
comes to each time.

Errs where a segment was lost by chance, or another's filled the queue: only chance follows such a cycle.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tcptrace_lab.classify.control.candidates.likelihood import REFUTED
from tcptrace_lab.classify.control.shown.tape import Tape
from tcptrace_lab.reconstruct.distinct import distinct
from tcptrace_lab.reconstruct.given import FEWEST_ALIKE, MAJORITY, MINORITY
from tcptrace_lab.reconstruct.losses import Episode
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Bools, Floats, Ints

# Where within a delayed ACK's pair the queue was full: the window at a drop is the largest, or one less.
PAIR_SEGMENTS = 1


@dataclass(frozen=True, kw_only=True)
class Drops:
    """Of each cycle the window at its loss, in whole segments, and its mark; whether the queue overflowed (`is_full`),
    and which are alike (`kind`). Of what may have been the first to find no room: the cycle, the ACK that released it
    and the window that let it leave. `among`: ACKs in a round trip at the losses."""

    at_loss: Ints
    mark: Ints
    is_full: Bools
    kind: Ints
    cycle: Ints
    ack: Ints
    window: Ints
    among: float

    @classmethod
    def of(
        cls,
        seen: Reconstruction,
        cycles: Sequence[tuple[Episode, Episode]],
        marks: Mapping[int, int],
        transmitted: int,
    ) -> Drops:
        """`marks`: by the identity of a loss where its window is read; `transmitted`: segments beyond it then."""
        smss, una = seen.timeline.smss, np.append(seen.timeline.snd_una, np.iinfo(np.int64).max)
        lost_of = _lost_of(seen)
        at_loss = np.array([loss.flight // smss - transmitted for _, loss in cycles], dtype=np.int64)
        least, released = at_loss.copy(), list[tuple[int, int, int]]()
        for place, (before, loss) in enumerate(cycles):
            # What limited transmit sent may be lost as well.
            dropped = np.count_nonzero(lost_of[id(loss)] < loss.una + at_loss[place] * smss)
            # Each segment by which the window has grown since is one more that finds no room.
            least[place] -= max(int(dropped) - 1, 0)
            windows = np.arange(least[place], at_loss[place] + 1)
            asked = loss.una + (1 - windows) * smss
            acks = np.searchsorted(una[:-1], asked, side="left")
            is_one = (acks > np.searchsorted(una, before.recover, side="left")) & (una[acks] == asked)
            pairs = zip(acks[is_one].tolist(), windows[is_one].tolist(), strict=True)
            released += [(place, *pair) for pair in pairs]
        cycle, ack, window = np.array(released, dtype=np.int64).reshape(-1, 3).T
        turns = [np.searchsorted(una, [loss.una - loss.flight, loss.una], side="left") for _, loss in cycles]
        like = [(loss.una - before.recover, before.flight, loss.flight) for before, loss in cycles]
        return cls(
            at_loss=at_loss,
            mark=np.array([marks[id(loss)] for _, loss in cycles], dtype=np.int64),
            is_full=least >= least.max(initial=0) - PAIR_SEGMENTS,
            kind=np.unique(np.array(like, dtype=np.int64).reshape(-1, 3), axis=0, return_inverse=True)[1].reshape(-1),
            cycle=cycle,
            ack=ack,
            window=window,
            among=float(np.median(np.diff(turns))) if turns else 0.0,
        )

    def follows(self, tape: Tape, cwnd: Floats) -> Bools:
        """Of each cycle, whether this window (after each row) came to what it had to be at that very ACK."""
        acks = self.ack.astype(np.int32)
        then, before = (np.floor(cwnd[tape.rows(each)] / tape.smss) for each in (acks, acks - 1))
        comes = np.bincount(self.cycle, (then == self.window) & (before < self.window), len(self.kind)) > 0
        found: Bools = comes & (np.floor(cwnd[tape.row_of_mark[self.mark]] / tape.smss) == self.at_loss) & self.is_full
        return found

    def kinds_of(self, follows: Bools) -> frozenset[int]:
        """The kinds of cycles most of which are followed."""
        own, count = np.bincount(self.kind, follows), np.bincount(self.kind, self.is_full)
        return frozenset(np.flatnonzero(own > MAJORITY * count).tolist())

    @property
    def can_tell(self) -> bool:
        """Whether a full queue ended most cycles, and enough kinds of them."""
        is_rule = np.count_nonzero(self.is_full) >= MAJORITY * len(self.kind)
        return bool(is_rule) and self.is_no_chance(len(distinct(self.kind[self.is_full])))

    def is_no_chance(self, kinds: int) -> bool:
        """Whether chance would hardly come to the ACKs of so many kinds, each one among those of a round trip."""
        return kinds * math.log(max(self.among, 1.0)) >= REFUTED

    def is_followed(self, follows: Bools) -> bool:
        """Whether all cycles that a full queue ended are, but for an odd one among more than a few, and not only one or
        two: a recovery that was disturbed has its echo in the next cycle of who goes by delay."""
        full, own = int(np.count_nonzero(self.is_full)), int(np.count_nonzero(follows))
        odd = 0 if full <= 2 * FEWEST_ALIKE else max(MINORITY * full, 1)
        return own >= FEWEST_ALIKE and full - own <= odd


def followed_alone(played: Mapping[str, Sequence[tuple[Drops, Bools]]]) -> str | None:
    """The only one of these that was followed to its drops, by any reading; nobody, if another may have been."""
    kinds = {name: [drops.kinds_of(follows) for drops, follows in every] for name, every in played.items()}
    for name, every in played.items():
        others = {each for other, theirs in kinds.items() if other != name for each in theirs}
        for (drops, follows), own in zip(every, kinds[name], strict=True):
            fewest = min(len(own - each) for each in (frozenset[int](), *others))
            if drops.is_followed(follows) and drops.is_no_chance(fewest):
                return name
    return None


def _lost_of(seen: Reconstruction) -> dict[int, Ints]:
    """By the identity of each loss event where its lost segments began."""
    lost = seen.timeline.observed.lost()
    event, offset = lost["event"][~lost["spurious"]], lost["offset"][~lost["spurious"]]
    order = np.argsort(event, kind="stable")
    ends = np.searchsorted(event[order], np.arange(1, len(seen.episodes)))
    return {id(each): own for each, own in zip(seen.episodes, np.split(offset[order], ends), strict=True)}
