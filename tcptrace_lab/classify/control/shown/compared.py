"""Where candidates are compared with what was sent, the same on every tape: pieces of epochs, and reductions.

Slow start, growth (per loss cycle) and reduction (per loss event) are judged apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Literal, NamedTuple, get_args

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.control.heard.heard import Heard
from tcptrace_lab.classify.control.heard.marks import ACK
from tcptrace_lab.classify.control.shown.epoch import Epoch, Ints32, epochs
from tcptrace_lab.reconstruct.given import FEWEST_ALIKE, FEWEST_SAMPLES, MAJORITY
from tcptrace_lab.reconstruct.tap.unheard import unheard_behind
from tcptrace_lab.reconstruct.timeline import Bools, Ints

Part = Literal["slow_start", "growth", "reduction", "cycle"]
# A slow start doubles its window several times over: each quarter of its ACKs is evidence of its own.
SLOW_START_PIECES = 4
# Growth is followed over many ACKs, a cut is read at one: what is open at half of them, or at one in ten, is open.
MANY_PERCENTILE, ONE_PERCENTILE = 50, 90


@dataclass(frozen=True, kw_only=True)
class Reductions:
    """Per loss event whose answer is seen: its place, and the mark to read the candidate's own from."""

    place: Ints
    mark: Ints


class Piece(NamedTuple):
    """One piece of evidence: its part, the (last) ACK where it is seen, the number of its stretch.

    Either `acks`, at all of which the window is compared, or the `mark` at which a candidate's own is read, to be held
    against what was `observed` there (`is_threshold`: as a threshold), and the `scale` of an error. `open`: by how much
    what was observed may differ. In segments.
    """

    part: Part
    ack: int
    stretch: int
    open: float = 0.0
    acks: Ints32 | None = None
    mark: int = -1
    observed: float = 0.0
    scale: float = 0.0
    is_threshold: bool = False


class Compared:
    """The epochs, and everything in them that one replay is judged by, in order of time.

    Of each: its part, the (last) ACK where it is seen, what was observed there, and the `scale` that an error is held
    against: the window reached, the growth within the epoch, the window before the loss; in segments.
    """

    def __init__(self, heard: Heard) -> None:
        self.heard = heard
        self.smss = heard.timeline.smss

    @cached_property
    def epochs(self) -> tuple[Epoch, ...]:
        return tuple(epochs(self.heard))

    @cached_property
    def pieces(self) -> Pieces:
        return Pieces(self)

    def evidence(self) -> Iterator[Piece]:
        """Every piece, in order of time."""
        for epoch in self.epochs:
            if not epoch.is_slow_start or epoch.begin == "restart":
                yield from self._reduction(epoch)
            for rows in [] if self._hides_threshold(epoch) else _pieces(epoch):
                part: Part = "slow_start" if epoch.is_slow_start else "growth"
                # Where as much is open as was seen, nothing was, nor what held it back; a slow start doubles.
                most = MAJORITY if epoch.is_slow_start else 1.0
                least = (is_open := self._open(rows)) * self.smss / most
                # The last mostly tells what the largest would.
                if least < self.heard.flight[rows[-1]] or least < self.heard.flight[rows].max():
                    yield Piece(part=part, ack=int(rows[-1]), stretch=epoch.number, open=is_open, acks=rows)

    def _reduction(self, epoch: Epoch) -> Iterator[Piece]:
        """By the loss before an epoch, or, where none is seen by itself, by the two before it."""
        losses = self._losses(epoch)
        mark, before = _seen_at(epoch), self.heard.marks.cwnd[losses[-1]] if losses else np.nan
        if mark is None or not isfinite(before) or self._was_under_way(losses[-1]):
            return
        acks = [self.heard.marks.ack[each] for each in (losses[-1], mark)]
        # What else the sender was told between the two, and how often it reduced, is not in the capture.
        if self._unheard_before[losses[-1]] < self._unheard_before[mark]:
            return
        yield Piece(
            part="reduction",
            ack=self.heard.marks.ack[epoch.loss],
            stretch=epoch.number,
            # Each of two cuts is rounded by itself.
            open=sum(map(self._open, acks)) + len(losses) - 1,
            mark=mark,
            observed=epoch.after / self.smss,
            scale=before / self.smss,
            is_threshold=epoch.settled < 0,
        )

    def _was_under_way(self, loss: int) -> bool:
        """Whether nothing of what a capture begun in the middle has of data was acknowledged before a loss: what it was
        lost from, and how far its recovery had come, may lie before (a partial ACK asks as the first loss does)."""
        if self.heard.timeline.has_start:
            return False
        return bool(self.heard.timeline.snd_una[max(self.heard.marks.ack[loss], 0)] <= self._first_sent)

    @cached_property
    def _unheard_before(self) -> list[int]:
        """Of each mark: before how many of the captured ACKs the sender heard others, up to the mark's own."""
        # Of all at once: reductions are many, and each search alone would convert what it searches.
        found: list[int] = unheard_behind(self.heard.timeline).searchsorted(self.heard.marks.ack).tolist()
        return found

    @cached_property
    def _first_sent(self) -> int:
        """Where the new data of the capture begins: what is sent again may have been sent long before."""
        timeline = self.heard.timeline
        new = timeline.send_offset[~timeline.is_retransmission]
        return max(int(new[0]) if len(new) else timeline.first_offset, timeline.first_offset)

    def _hides_threshold(self, epoch: Epoch) -> bool:
        """Whether a recovery may have been left for a slow start, up to a threshold set before the capture began."""
        parts, loss = self.heard.parts, self.heard.loss_mark_of[epoch.number]
        if epoch.begin != "recovery" or loss < 0 or not self._was_under_way(loss):
            return False
        return bool(parts.settled[epoch.number] < 0 or parts.is_left_below[epoch.number])

    def _losses(self, epoch: Epoch) -> list[int]:
        """The marks of the losses whose reductions are judged behind an epoch's begin, the last first."""
        if epoch.loss < 0 or self._sees_one_cut:
            return [epoch.loss] * (epoch.loss >= 0)
        return self.heard.losses_before(epoch.number)

    @cached_property
    def _sees_one_cut(self) -> bool:
        """Whether what one loss made of the window is seen anywhere: two together tell less."""
        return any(_seen_at(epoch) is not None and isfinite(epoch.before) for epoch in self.epochs)

    def _open(self, acks: Ints32 | int) -> float:
        """By how many segments the flight after an ACK, or after any of these, may differ."""
        slack = self.heard.timeline.slack
        return float(np.max(slack[acks])) / self.smss if len(slack) else 0.0

    @cached_property
    def unused(self) -> float:
        """Segments of its window that a sender leaves open because it waits until a super-segment (offload) fits: less
        than a usual one, and no more than what ACKs open without releasing it at once."""
        sizes, counts = self.heard.timeline.sizes
        count = int(counts.sum())
        # Their median, without sorting what is repeated.
        middle = np.searchsorted(np.cumsum(counts), [(count - 1) // 2, count // 2], side="right")
        usual = float(sizes[middle].mean()) if count else 0.0
        if usual <= self.smss:
            return 0.0
        return min(usual / self.smss - 1.0, self._held_open)

    @cached_property
    def _held_open(self) -> float:
        """Segments that ACKs have opened and the next finds still unsent, but at one in ten."""
        heard = self.heard
        moves = np.flatnonzero(heard.kind[:-1] == ACK)
        if not len(moves):
            return np.inf
        held = heard.timeline.newly_acked[moves] - (heard.top[moves + 1] - heard.top[moves])
        return max(_core.percentile(held, ONE_PERCENTILE) / self.smss, 0.0)

    @cached_property
    def at_once(self) -> tuple[float, float]:
        """Segments acknowledged by other ACKs of the same stamp, at most ACKs and at one: which of them released what
        is not told."""
        timeline = self.heard.timeline
        # Each that shares its stamp with the one before makes two with company: of few of them neither share tells.
        together = 2 * np.count_nonzero(timeline.ack_ns[1:] == timeline.ack_ns[:-1])
        moving = np.count_nonzero(timeline.newly_acked > 0)
        if not moving or together < (1 - ONE_PERCENTILE / 100) * moving:
            return 0.0, 0.0
        acked = np.maximum(timeline.newly_acked, 0)
        stamp = np.cumsum(np.diff(timeline.ack_ns, prepend=timeline.ack_ns[:1]) != 0)
        others = np.bincount(stamp, weights=acked)[stamp] - acked
        others = others[acked > 0]
        many, one = (_core.percentile(others, percent) / self.smss for percent in (MANY_PERCENTILE, ONE_PERCENTILE))
        return many, one

    @cached_property
    def blur(self) -> float:
        """Segments by which the flight jumps to and fro from one ACK to the next, root mean square: no window does."""
        avoidance = (epoch.released for epoch in self.epochs if not epoch.is_slow_start)
        chosen = [acks for acks in avoidance if len(acks) >= FEWEST_SAMPLES]
        if not chosen:
            return 0.0
        ends = np.cumsum([len(acks) for acks in chosen], dtype=np.int64)
        return _core.unsteady(self.heard.flight, np.concatenate(chosen), ends) / self.smss


class Pieces:
    """The pieces and reductions as columns; `core` has the ACKs of the pieces, `followed` their places among all.

    `stretch`: the number of the one that each is a piece of, from one loss to the next. `slack`: by how many segments
    what was observed may differ (0 at the sender of single segments), `inferred` of it because it was put by a rule.
    `cycle`: which of the loss cycles with evidence it is a piece of; `has_start`: nothing came before the first.
    """

    def __init__(self, compared: Compared) -> None:
        heard, smss = compared.heard, compared.smss
        every = list(compared.evidence())
        acks = [each.acks for each in every if each.acks is not None]
        marked = [(place, each) for place, each in enumerate(every) if each.acks is None]
        self.parts = np.array([each.part for each in every], dtype="U10")
        self.ack = np.array([each.ack for each in every], dtype=np.int64)
        self.stretch = np.array([each.stretch for each in every], dtype=np.int64)
        self.followed = np.flatnonzero([each.acks is not None for each in every])
        self.core = _core.Evidence(
            acks=np.concatenate(acks, dtype=np.int64) if acks else np.zeros(0, dtype=np.int64),
            ends=np.cumsum([len(each) for each in acks], dtype=np.int64),
            is_slow_start=self.parts[self.followed] == "slow_start",
            followed=self.followed.tolist(),
            flight=heard.flight,
            reductions=[(place, each.observed, each.is_threshold) for place, each in marked],
            smss=float(smss),
        )
        self.reductions = Reductions(
            place=np.array([place for place, _ in marked], dtype=np.int64),
            mark=np.array([each.mark for _, each in marked], dtype=np.int64),
        )
        self.scale = np.array([each.scale for each in every], dtype=np.float64)
        self.observed = np.array([each.observed for each in every], dtype=np.float64)
        self.scale[self.followed], self.observed[self.followed] = self.core.scale, self.core.observed
        many, one = compared.at_once
        self.inferred = np.where(self.parts == "reduction", one, many) + [each.open for each in every]
        self.slack = compared.unused + self.inferred
        self.cycle = np.unique(self.stretch, return_inverse=True)[1]
        self.has_start = heard.timeline.has_start

    def __len__(self) -> int:
        return len(self.parts)

    @cached_property
    def places_of(self) -> dict[Part, Bools]:
        """Which are of each part: strings compare slowly, and every candidate is asked."""
        return {part: self.parts == part for part in get_args(Part)}


def _seen_at(epoch: Epoch) -> int | None:
    """The mark at which the window left by a recovery is seen, or the loss that set the threshold of a restart."""
    if epoch.loss < 0 or not isfinite(epoch.after):
        return None
    if epoch.settled >= 0:
        return epoch.settled
    return epoch.loss if epoch.begin == "restart" else None


def _pieces(epoch: Epoch) -> list[Ints32]:
    """The ACKs that released something: a slow start is several pieces of evidence, an epoch of avoidance (a path of
    growth) is one."""
    if epoch.begin in ("idle", "lost", "capture") or (
        epoch.begin == "connection" and not (epoch.is_slow_start or epoch.had_slow_start)
    ):
        # The window with which it begins is not seen; or what the control remembers then (w_max, the last loss) is not.
        return []
    if epoch.is_slow_start and epoch.begin != "connection":
        # After a restart the receiver still holds data from before: an ACK may cover any amount.
        return []
    acks = epoch.released
    if len(acks) < FEWEST_SAMPLES:
        return []
    parts = min(SLOW_START_PIECES, len(acks) // FEWEST_ALIKE) if epoch.is_slow_start else 1
    return list(np.array_split(acks, parts)) if parts > 1 else [acks]
