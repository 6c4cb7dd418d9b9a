"""From each loss to the next, where losses alone show the window: what a candidate that goes by itself must come to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np

from tcptrace_lab.classify.control.candidates.likelihood import FITS_SEGMENTS, FITS_SHARES
from tcptrace_lab.classify.control.heard.heard_at_losses import HeardAtLosses
from tcptrace_lab.classify.control.shown.compared import Compared, Piece
from tcptrace_lab.classify.control.shown.epoch import Epoch
from tcptrace_lab.classify.sender.by_losses import is_untold_behind
from tcptrace_lab.reconstruct.losses import DUP_THRESH, Episode
from tcptrace_lab.reconstruct.tap.passed_over import unseen_losses
from tcptrace_lab.reconstruct.timeline import Bools, Floats, Ints

# Cycles of so many kinds are told apart; each one beyond them is one of its own.
MOST_KINDS = 64
# A law is told by this many cycles, or those of so many ACKs: everybody is asked time and again, by every reading.
MOST_CYCLES = 16
MOST_ACKS = 16_384


class Cycles(Compared):
    """From loss to loss: what stands for each cycle is the window at its end, and where else it is known."""

    heard: HeardAtLosses

    def __init__(self, heard: HeardAtLosses, *, at_losses_alone: bool = False) -> None:
        super().__init__(heard)
        seen = heard.seen
        events = [episode for episode in seen.episodes if episode.is_loss]
        told = [is_told(self.heard, before, loss) for before, loss in zip([None, *events], events, strict=False)]
        # Of losses at which what was outstanding is known to the segment, and was the window.
        self.cycles = {
            number: (before, loss)
            for number, (before, loss) in enumerate(pairwise(events))
            if told[number] and told[number + 1] and not loss.follows
        }
        # Where it is not captured when a loss was repaired, that window is not known, nor what it left in mind for the
        # next.
        recover = np.maximum.accumulate(np.array([loss.recover for loss in events], dtype=np.int64))
        next_losses = np.searchsorted(recover, unseen_losses(heard.timeline, events), side="right")
        for number in next_losses[next_losses < len(events)].tolist():
            for beside in (number - 1, number, number + 1):
                self.cycles.pop(beside, None)
        self.cycles = self._first(self.cycles)
        # Of one of these is known what was outstanding; those before it are not replayed.
        self.first_loss_ns = min((before.time_ns for before, _ in self.cycles.values()), default=0)
        known = {number: self.heard.within(*ends) for number, ends in self.cycles.items()}
        self.stands = self._stands(known)
        self._within = {number: [] for number in known} if at_losses_alone else known

    def _first(self, cycles: Mapping[int, tuple[Episode, Episode]]) -> dict[int, tuple[Episode, Episode]]:
        """As many of them as are enough."""
        heard = self.heard.timeline.acks_before_send
        ranked = enumerate(cycles.items())
        return dict(each for rank, each in ranked if rank < MOST_CYCLES or heard[each[1][1].first_send] <= MOST_ACKS)

    def _stands(self, known: Mapping[int, Sequence[tuple[int, int]]]) -> bool:
        """Whether from the middle of most cycles to their ends no more is outstanding, as far as that is known.

        A window that loses nothing grows; what an application or a receiver lets be sent does not. One that delay holds
        does not either, and is not told from those.
        """
        heard, grown = self.heard, list[float]()
        for number, (_, loss) in self.cycles.items():
            flights = [float(heard.flight[ack]) for ack, _ in known[number]]
            if len(flights) > 1:
                grown.append(max(flights[-1], heard.window_before(loss)) - flights[len(flights) // 2])
        return bool(grown) and bool(np.median(grown) < self.smss)

    @cached_property
    def turn_ns(self) -> int:
        """A round trip over the queue that was met at a loss, usually: the time in which as much is acknowledged as was
        outstanding."""
        timeline = self.heard.timeline
        found = [
            np.diff(timeline.ack_ns[np.searchsorted(timeline.snd_una, [loss.una - loss.flight, loss.una])])[0]
            for _, loss in self.cycles.values()
        ]
        return int(np.median(found)) if found else 0

    @property
    def epochs(self) -> tuple[Epoch, ...]:
        """No ACK between two losses shows growth all along."""
        return ()

    def evidence(self) -> Iterator[Piece]:
        """Of each cycle, in order of time."""
        heard, timeline = self.heard, self.heard.timeline
        for number, (_, loss) in self.cycles.items():
            known = [(ack, mark, float(heard.flight[ack])) for ack, mark in self._within[number]]
            asked = int(timeline.acks_before_send[loss.first_send]) - 1
            for ack, mark, flight in (*known, (asked, heard.before_mark[id(loss)], heard.window_before(loss))):
                observed = flight / self.smss
                yield Piece(part="cycle", ack=ack, stretch=number, mark=mark, observed=observed, scale=observed)

    @cached_property
    def is_end(self) -> Bools:
        """Which of the pieces is the last of its cycle: at its loss."""
        return np.append(np.diff(self.pieces.stretch) > 0, True)

    @cached_property
    def begins(self) -> Floats:
        """The window at the loss that each piece's cycle begins with, in segments."""
        at_loss = {number: self.heard.window_before(before) for number, (before, _) in self.cycles.items()}
        return np.array([at_loss[number] for number in self.pieces.stretch.tolist()]) / self.smss

    def off(self, expected: Floats) -> Floats:
        """By how much windows, one a piece, are off; of the window whole segments are seen."""
        most = self.pieces.observed + self.is_end * (self.heard.open / self.smss) + 1.0
        found: Floats = expected - np.clip(expected, self.pieces.observed, most)
        return found

    @cached_property
    def kinds(self) -> Ints:
        """Which pieces are alike: at the same place of cycles that begin alike, and with as much."""
        pieces, begin = self.pieces, self.begins
        # How many of the cycle are still to come.
        last = np.flatnonzero(self.is_end)
        place = last[np.searchsorted(last, np.arange(len(pieces)))] - np.arange(len(pieces))
        near = FITS_SEGMENTS + FITS_SHARES["cycle"] * pieces.scale + pieces.slack
        found = np.full(len(pieces), -1, dtype=np.int64)
        for kind in range(MOST_KINDS):
            rest = np.flatnonzero(found < 0)
            if not len(rest):
                return found
            first = rest[0]
            is_like = np.abs(begin[rest] - begin[first]) <= near[first]
            is_like &= np.abs(pieces.observed[rest] - pieces.observed[first]) <= near[first]
            found[rest[is_like & (place[rest] == place[first])]] = kind
        rest = np.flatnonzero(found < 0)
        found[rest] = MOST_KINDS + np.arange(len(rest))
        return found


def is_told(heard: HeardAtLosses, before: Episode | None, loss: Episode) -> bool:
    """Whether what was outstanding at a loss is known to the segment, and was the window: the ACK that asked for its
    first retransmission is the one that tells of three segments above the hole; what was lost left after the recovery
    before was over, so that a whole window has, or, if early, nothing had told of it then."""
    timeline = heard.timeline
    asked = int(timeline.acks_before_send[loss.first_send]) - 1
    # ACKs of other numbers than the data's leave less than nothing outstanding.
    # Nor is it known what a timer's window was.
    is_by_timer = loss.restarts and loss.detected_by == "rto"
    if asked < 1 or loss.flight <= 0 or is_by_timer or id(loss) in heard.unsettled:
        return False
    if timeline.slack[asked - 1] >= timeline.smss:
        return False
    if before is not None and not (
        is_untold_behind(timeline, np.array([before.recover]))[0]
        if heard.is_early
        else loss.una - before.recover >= loss.flight
    ):
        return False
    above = timeline.delivered[asked - 1 : asked + 1] - timeline.snd_una[asked - 1 : asked + 1]
    is_third = above[1] >= DUP_THRESH * timeline.smss > above[0]
    return bool(is_third) and not _is_held(heard, before, asked)


def _is_held(heard: HeardAtLosses, before: Episode | None, asked: int) -> bool:
    """Whether since the loss before the receiver's window had no room for another segment: what is outstanding at a
    loss is a window that did not grow meanwhile (RFC 5681 section 3.1, RFC 7661)."""
    if heard.is_offered_more:
        return False
    timeline = heard.timeline
    since = 0 if before is None else int(np.searchsorted(timeline.snd_una, before.recover, side="left"))
    span = slice(min(since, asked), asked + 1)
    # The least that was, where it is not known which ACK released what.
    least = heard.flight[span] - timeline.slack[span]
    return bool((least + timeline.smss > timeline.rwnd[span]).any())
