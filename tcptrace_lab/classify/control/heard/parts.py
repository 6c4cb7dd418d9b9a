"""The losses and the stretches of a sender as columns: when a control heard of each, from which ACK on a stretch shows
its window, and what the recovery before has left of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.control.heard.ack_columns import AckColumns
from tcptrace_lab.classify.control.heard.marks import LOSS, RESTART, TIMEOUT
from tcptrace_lab.reconstruct.losses import NO_LOSS
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Bools, Floats, Ints

# The first ACKs behind a recovery by which its window is told: an ACK or two may release a burst, or nothing.
SETTLES_ACKS = 6
# An avoidance longer than this is judged in pieces, each from the window observed at its beginning: what a delay
# changes once does not count against the round trips behind it. Long enough for a delay window to come round.
PIECE_ROUNDS = 16
# HyStart++ (RFC 9406) goes on at a quarter of the pace for five round trips where it has seen delay rise: no avoidance
# yet. The round trip in which that was seen is the sixth.
CONSERVATIVE_ROUNDS = 6
# Of a longer avoidance the pieces are longer, not more: each is one more window that is taken over, not followed.
MOST_PIECES = 6


@dataclass(frozen=True, kw_only=True)
class Losses:
    """A row per loss event that a control hears of: the number of the event, what it is to a sender, how many ACKs were
    `known` to it then, which ends its recovery (`over`), and how many were known at the next loss (`bound`).

    `is_within`: a timer has expired before the recovery that the loss before began was over.
    """

    event: Ints
    kind: Ints
    time_ns: Ints
    known: Ints
    recover: Ints
    over: Ints
    bound: Ints
    flight: Ints
    window_before: Ints
    follows: Bools
    is_within: Bools

    @classmethod
    def of(cls, seen: Reconstruction) -> Self:
        timeline, events = seen.timeline, seen.timeline.observed.events()
        # A tail loss probe is no loss that a control hears of.
        is_loss = ~np.isin(events["detected_by"], [_core.DETECTED_BY.index(word) for word in NO_LOSS])
        rows = {name: column[is_loss] for name, column in events.items()}
        known = timeline.acks_before_send[rows["first_send"]].astype(np.int64)
        restarts, recover = rows["restarts"], rows["recover"]
        by_timer = rows["detected_by"] == _core.DETECTED_BY.index("rto")
        within = restarts[1:] & by_timer[1:] & ~restarts[:-1] & (rows["una"][1:] < recover[:-1])
        return cls(
            event=np.flatnonzero(is_loss),
            kind=np.where(restarts, np.where(by_timer, TIMEOUT, RESTART), LOSS),
            time_ns=rows["time_ns"],
            known=known,
            recover=recover,
            over=np.maximum(np.searchsorted(timeline.snd_una, recover, side="left"), known),
            bound=np.append(known, len(timeline.ack_ns))[1:],
            flight=rows["flight"],
            window_before=rows["window_before"],
            follows=rows["follows"],
            is_within=np.append(False, within)[: len(known)],
        )

    @property
    def place(self) -> Ints:
        return np.arange(len(self.event))


class Parts:
    """A row per stretch; -1: no such ACK or loss event, NaN: not seen.

    `most_after`: bytes that the ACK at the end of a recovery may have left its window at, below ssthresh; empty with
    SACK.
    """

    def __init__(self, seen: Reconstruction, columns: AckColumns, most_after: Floats) -> None:
        rows = seen.timeline.observed.stretches()
        self.seen, self.columns, self.most_after = seen, columns, most_after
        self.begin: Ints = rows["begin"]
        self.first: Ints = rows["first"]
        self.last: Ints = rows["last"]
        self.peak: Ints = rows["peak"]
        self.started_by: Ints = rows["started_by"]
        self.ended_by: Ints = rows["ended_by"]
        self.has_threshold: Bools = rows["has_threshold"] & (self.peak >= 0)
        self.grown_to: Ints = rows["grown_to"]
        self.threshold: Floats = np.where(rows["has_threshold"], self.grown_to, np.nan)

    def __len__(self) -> int:
        return len(self.begin)

    def begins_with(self, *words: str) -> Bools:
        """Which begin so."""
        found: Bools = np.isin(self.begin, [_core.BEGINS.index(word) for word in words])
        return found

    @cached_property
    def is_recovered(self) -> Bools:
        return self.begins_with("recovery")

    @cached_property
    def is_unsettled(self) -> Bools:
        """Whether a recovery is followed by the next loss before the window it left is at work: half a round trip."""
        una = self.columns.una
        is_short = 2 * (una[self.last] - una[self.first]) < self.seen.flight[self.first]
        return self.is_recovered & (self.ended_by >= 0) & is_short

    @cached_property
    def settled(self) -> Ints:
        """The ACK at which a recovered sender is seen to send by its window: before, more may be outstanding."""
        sends = np.flatnonzero(self.columns.sends_in_order)
        window = self.seen.flight[self.first] // self.seen.timeline.smss
        upto = np.minimum(self.last, self.first + np.maximum(window, SETTLES_ACKS))
        at = np.searchsorted(sends, self.first)
        later = np.append(sends, [np.iinfo(np.int64).max] * 2)
        sent = np.where(self._goes_on_to_drain(later[at], later[at + 1]), later[at + 1], later[at])
        is_shown = (sent <= upto) & ~self.is_unsettled
        # No window is less than a segment: a shorter one that leaves alone is the end of the data.
        is_shown[is_shown] = self.seen.flight[sent[is_shown]] >= self.seen.timeline.smss
        shown = np.where(is_shown, sent, -1)
        found: Ints = np.where(self.is_recovered, np.where(self.has_threshold, self.peak, shown), -1)
        return found

    def _goes_on_to_drain(self, sent: Ints, again: Ints) -> Bools:
        """Whether a recovery without SACK that the ACK of all before it seems to end is over with the next (Linux), and
        leaves a smaller window then (Westwood's): nothing is sent from there until the network has drained."""
        timeline, flight, most = self.seen.timeline, self.seen.flight, len(self.seen.flight) - 1
        recover = timeline.observed.events()["recover"]
        if timeline.has_sack or not len(recover):
            return np.zeros(len(self), dtype=bool)
        is_open = self.is_recovered & (self.started_by >= 0) & (sent == self.first)
        is_open &= timeline.snd_una[self.first] == recover[self.started_by]
        falls = flight[self.first] - flight[np.minimum(again, most)] > 2 * timeline.smss
        found: Bools = is_open & (again > sent + 1) & (again <= self.last) & falls
        return found

    @cached_property
    def begins(self) -> Ints:
        """The ACK from which on a window is seen in avoidance."""
        seen = np.where(self.is_recovered, self.settled, self.first)
        found: Ints = np.where(self.peak < 0, seen, np.where(self.has_threshold, self.peak, -1))
        rounds, columns = self.columns.round, self.columns
        for part in np.flatnonzero(self.has_threshold & self.begins_with("connection")).tolist():
            begins = int(np.searchsorted(rounds, rounds[self.peak[part]] + CONSERVATIVE_ROUNDS))
            told = np.flatnonzero((columns.has_sent & columns.limited)[begins : self.last[part]])
            found[part] = begins + int(told[0]) if len(told) else -1
        return found

    @cached_property
    def cuts(self) -> dict[int, list[int]]:
        """ACKs within a long avoidance at which the window observed is taken over again: some round trips apart."""
        rounds = self.columns.round
        pieces = np.minimum((rounds[self.last] - rounds[self.begins]) // PIECE_ROUNDS, MOST_PIECES)
        long = np.flatnonzero((self.begins >= 0) & (pieces > 1)).tolist()
        return {part: self._cut(int(self.begins[part]), int(self.last[part]), int(pieces[part])) for part in long}

    def _cut(self, begins: int, last: int, pieces: int) -> list[int]:
        rounds = self.columns.round[begins : last + 1] - self.columns.round[begins]
        told = np.flatnonzero(self.columns.sends_by_window[begins : last + 1])
        found: list[int] = []
        for number in range(1, pieces):
            at = int(np.searchsorted(rounds, number * int(rounds[-1]) // pieces, side="left"))
            behind = int(np.searchsorted(told, at, side="left"))
            if behind < len(told) and begins + int(told[behind]) > (found[-1] if found else begins):
                found.append(begins + int(told[behind]))
        return found

    @cached_property
    def is_left_below(self) -> Bools:
        """Whether a recovery may have been left with less than ssthresh, which is then not seen."""
        if not len(self.most_after):
            return np.zeros(len(self), dtype=bool)
        before = np.append(0, np.cumsum(np.isfinite(self.most_after)))
        found: Bools = (self.settled >= 0) & (before[self.settled + 1] > before[self.first])
        return found

    @cached_property
    def after(self) -> Floats:
        """The window with which a recovery was left."""
        at, flight = self.settled, self.seen.flight
        first = flight[at].astype(np.float64)
        # The first ACK may release a burst, or find the sender short: then the ACKs behind it tell, by their median.
        behind = at[:, np.newaxis] + np.arange(SETTLES_ACKS)
        is_behind = behind <= self.last[:, np.newaxis]
        values = np.where(is_behind, flight[np.minimum(behind, len(flight) - 1)], np.inf)
        values.sort(axis=1)
        count, rows = is_behind.sum(axis=1), np.arange(len(self))
        settled = (values[rows, count // 2] + values[rows, np.maximum(count - 1 - count // 2, 0)]) / 2
        is_alone = self.is_left_below | (np.abs(first - settled) <= 2 * self.seen.timeline.smss)
        # The receiver's window lets go no more than it has room for.
        seen = np.where(self.columns.fills_rwnd[at], np.nan, np.where(is_alone, first, settled))
        found = np.where((self.peak >= 0) & (at == self.peak), self.grown_to, seen)
        return np.where(at >= 0, found, np.nan)

    @cached_property
    def left(self) -> Floats:
        """What a loss event left of the window: after a recovery, or as threshold after a restart."""
        # A timer that expires within a recovery, or again, keeps the threshold of the first loss; duplicate ACKs tell.
        by_timer = self.seen.timeline.observed.events()["detected_by"] == _core.DETECTED_BY.index("rto")
        is_told = self.begins_with("restart") & (self.started_by >= 0)
        is_told &= ~np.append(by_timer, True)[self.started_by]
        return np.where(self.is_recovered, self.after, np.where(is_told, self.threshold, np.nan))
