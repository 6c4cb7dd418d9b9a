"""A sender's life as its congestion control heard of it: the tape that candidates are replayed over.

Rows are ACKs, round trips, losses, timeouts, ends of recovery. At each loss, each end of a recovery and each end of a
slow start the window observed is taken over, so that what is compared within an epoch (the ACKs between a recovery and
the next loss) depends on that epoch and on what the control remembers. Assumes the sender's own view.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, pairwise
from typing import Literal

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.losses import Episode
from tcptrace_lab.reconstruct.phases import Stretch
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Bools, Floats, Ints, Timeline

# The events of core/src/infer/replay.rs, in its order.
ACK, ARRIVAL, LOSS, RESTART, TIMEOUT, RECOVERED, SET = range(7)
# Controls count time from the boot of a machine, where zero means "never": no capture's first ACK is at zero.
CLOCK_ZERO_NS = 1_000_000_000_000
SETTLES_ACKS = 6
# Less than this share of the least round trip of a segment sent once is none.
SHORTEST_SHARE = 0.5
# An avoidance longer than this is judged in pieces, each from the window observed at its beginning: what a delay
# changes once does not count against the round trips behind it. Long enough for a delay window to come round.
PIECE_ROUNDS = 16
# HyStart++ (RFC 9406) goes on at a quarter of the pace for five round trips where it has seen delay rise: no avoidance
# yet. The round trip in which that was seen is the sixth.
CONSERVATIVE_ROUNDS = 6
MOST_PIECES = 6
# Fewer ACKs than this are no growth.
FEWEST_ACKS = 8
# Within an epoch, so many ACKs in a row (or a tenth of those before) may find the sender not held back by its window;
# after more than that its window is not what was replayed.
UNLIMITED_ACKS = 8
UNLIMITED_SHARE = 0.1


# What the ACK that ends a recovery opens the window by, where it does: what it tells to be new, or all it covers.
Opens = Literal["new", "all"]


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """The ACKs of one stretch in which the window moved by the control's own rule.

    `rows` are rows of the tape, `flight` what was observed after each, in bytes; `is_limited` where it is the window,
    `has_sent` where the ACK released something: elsewhere more may be outstanding than the window allows.
    `loss_row` and `settled_row` (-1: none) are those of the loss event before it and of where the window it left is
    seen, `before` and `after` the windows observed there.
    """

    number: int
    is_initial: bool
    is_slow_start: bool
    had_slow_start: bool
    begin: str
    rows: Ints
    acks: Ints
    flight: Floats
    is_limited: Bools
    has_sent: Bools
    loss_row: int
    settled_row: int
    before: float
    after: float
    ends_in_loss: bool

    @cached_property
    def at_work(self) -> Ints:
        """Places of the ACKs at which the flight is the window, up to where something else has held the sender back
        for long."""
        idle = np.cumsum(~self.is_limited)
        over = np.flatnonzero(idle > UNLIMITED_ACKS + UNLIMITED_SHARE * np.arange(len(idle)))
        found = np.flatnonzero(self.is_limited)
        return found[found < over[0]] if len(over) else found


@dataclass(frozen=True, kw_only=True)
class Tape:
    """The rows for the core, and the epochs in which candidates are compared."""

    core: _core.Tape
    smss: int
    epochs: tuple[Epoch, ...]
    ack_of_row: Ints
    round_of_row: Ints
    # Whether it tells the handshake's round trip.
    has_handshake: bool = False

    @cached_property
    def blur(self) -> float:
        """Segments by which the flight jumps to and fro from one ACK to the next, root mean square: no window does."""
        found = []
        for epoch in self.epochs:
            chosen = epoch.at_work[epoch.has_sent[epoch.at_work]]
            if epoch.is_slow_start or len(chosen) < FEWEST_ACKS:
                continue
            flight = epoch.flight[chosen] / self.smss
            around = np.stack((flight[:-2], flight[1:-1], flight[2:]))
            found.append(around[1] - np.median(around, axis=0))
        return float(np.sqrt(np.mean(np.concatenate(found) ** 2))) if found else 0.0


def tape(seen: Reconstruction, *, handshake_rtt_ns: int | None = None, follows: bool = False) -> Tape:
    """Everything a control would have been told, in order of time; the handshake's round trip, if it heard of it.

    `follows`: the window observed is taken over wherever it shows, not only where an epoch begins.
    """
    return _Writer(seen, handshake_rtt_ns, follows=follows).write(handshake_rtt_ns)


def tapes(seen: Reconstruction, handshake_rtt_ns: int | None, *, ends_itself: bool = False) -> list[Tape]:
    """Every reading of what a control was told; `ends_itself`: but not where its slow start ended.

    Some stacks open the window on the ACK that ends a recovery (Linux's), others do not. Some take the handshake for
    the first round trip, others do not: SYNs are shorter than segments.
    """
    return [
        replace(
            _Writer(seen, handshake_rtt_ns, ends_itself=ends_itself, opens=opens).write(told),
            has_handshake=told is not None,
        )
        for told in ([None] if handshake_rtt_ns is None else [None, handshake_rtt_ns])
        for opens in ((None, "new") if seen.timeline.has_sack else (None, "new", "all"))
    ]


@dataclass
class _Columns:
    """What stands in a row besides its ACK's own numbers; `ack` is the last ACK before or at it."""

    order: list[tuple[int, int]] = field(default_factory=list)
    event: list[int] = field(default_factory=list)
    time_ns: list[int] = field(default_factory=list)
    rtt_ns: list[int] = field(default_factory=list)
    flight: list[float] = field(default_factory=list)
    cwnd: list[float] = field(default_factory=list)
    ssthresh: list[float] = field(default_factory=list)
    more: list[float] = field(default_factory=list)
    less: list[float] = field(default_factory=list)
    acked: list[float] = field(default_factory=list)

    def add(
        self,
        ack: int,
        event: int,
        *,
        time_ns: int,
        rtt_ns: int = -1,
        flight: float = 0.0,
        cwnd: float = np.nan,
        ssthresh: float = np.nan,
        more: float = 0.0,
        less: float = 0.0,
        acked: float = 0.0,
    ) -> None:
        self.order.append((ack, len(self.order)))
        self.event.append(event)
        self.time_ns.append(time_ns)
        self.rtt_ns.append(rtt_ns)
        self.flight.append(flight)
        self.cwnd.append(cwnd)
        self.ssthresh.append(ssthresh)
        self.more.append(more)
        self.less.append(less)
        self.acked.append(acked)


class _Writer:
    """Builds the columns: one row per ACK that counts, and rows for what happens between two ACKs."""

    def __init__(
        self,
        seen: Reconstruction,
        handshake_rtt_ns: int | None,
        *,
        follows: bool = False,
        ends_itself: bool = False,
        opens: Opens | None = None,
    ) -> None:
        self.ends_itself = ends_itself
        self.opens = opens
        self.seen = seen
        self.timeline = timeline = seen.timeline
        self.flight = seen.flight
        self.rtt = _round_trips(timeline, handshake_rtt_ns)
        sent = np.searchsorted(timeline.send_ns, timeline.ack_ns, side="left")
        first = timeline.first_offset
        top = np.where(sent > 0, timeline.snd_max[np.maximum(sent - 1, 0)] if len(timeline.snd_max) else 0, first)
        self.una = np.maximum(timeline.snd_una - first, 0)
        self.nxt = np.maximum(top - first, self.una)
        self.before = np.maximum(top - first - np.concatenate(([0], self.una[:-1])), 0)
        self.kind = np.where(timeline.newly_acked > 0, ACK, ARRIVAL)
        # SACKed for the first time: told where the ACK number stands still.
        grown = np.maximum(np.diff(timeline.sacked, prepend=0), 0)
        self.newly_sacked = np.where(timeline.newly_acked > 0, 0, grown)
        # With SACK blocks about, what is outstanding is not what is on the path.
        limited, is_bound = self._limited()
        self.limited = limited & (timeline.sacked == 0)
        self.has_sent = timeline.sends_before_next_ack > sent
        # Where an ACK released something and nothing is SACKed; and where it did and the window is the limit.
        self.sends_in_order = self.has_sent & (timeline.sacked == 0)
        self.sends_by_window = self.has_sent & self.limited
        self.follows = follows
        self.shown = self.sends_by_window & is_bound
        self.marks = _Columns()
        self.loss_mark: dict[int, int] = {}
        self.unsettled = {id(part.episode) for part in seen.stretches if self._is_unsettled(part)}
        self.settled_mark: dict[int, int] = {}
        self.most_after = np.full(len(timeline.ack_ns), np.inf)
        # What comes before any data, no control hears of.
        self.told = np.flatnonzero(sent > 0)
        self.round = _rounds(self.una, self.nxt)
        self.cuts = [self._cuts(part) for part in seen.stretches]

    def _limited(self) -> tuple[Bools, Bools]:
        """Whether the window was the limit at each ACK, and whether what is outstanding bounds it from above."""
        table = self.seen.window_columns
        # A row per ACK, and one per restart behind its ACK's.
        at = np.searchsorted(table["time_ns"], self.timeline.ack_ns, side="left")
        rows = np.minimum(at, len(table["time_ns"]) - 1)
        return table["limited_by"][rows] == 0, table["cwnd_high"][rows] >= 0

    def write(self, handshake_rtt_ns: int | None) -> Tape:
        if handshake_rtt_ns is not None:
            self.marks.add(-1, ARRIVAL, time_ns=self.timeline.start_ns, rtt_ns=handshake_rtt_ns)
        for number, episode in enumerate(self.seen.episodes):
            if episode.detected_by != "tlp":
                self._loss(number, episode)
        for number, part in enumerate(self.seen.stretches):
            self._begin(number, part)
        return self._merge()

    def _loss(self, number: int, episode: Episode) -> None:
        """The loss noticed, and the ACK that ends its recovery."""
        timeline, episodes = self.timeline, self.seen.episodes
        known = int(timeline.acks_before_send[episode.first_send])
        # What this ACK says has arrived behind the hole may have been made up for by new segments, or not.
        moved = _last_move(timeline, known)
        more = float(min(timeline.sacked[moved], episode.window_before))
        flight = episode.window_before - more
        # Where it released nothing, the window may have become smaller than what is outstanding.
        less = 0.0 if self.has_sent[moved] else flight
        before = np.nan if id(episode) in self.unsettled else flight
        event = (TIMEOUT if episode.detected_by == "rto" else RESTART) if episode.restarts else LOSS
        self.loss_mark[id(episode)] = len(self.marks.order)
        self.marks.add(known - 1, event, time_ns=episode.time_ns, cwnd=before, flight=flight, more=more, less=less)
        over = max(int(np.searchsorted(timeline.snd_una, episode.recover, side="left")), known)
        following = next((later for later in islice(episodes, number + 1, None) if later.detected_by != "tlp"), None)
        bound = len(timeline.ack_ns) if following is None else int(timeline.acks_before_send[following.first_send])
        if event == LOSS:
            upto = min(over, bound)
            self.kind[known:upto] = np.where(self.kind[known:upto] == ACK, ARRIVAL, self.kind[known:upto])
        if over < bound:
            if event == LOSS:
                self.kind[over] = RECOVERED
                self.most_after[over] = self._most_after(over)
                if self.opens is not None:
                    acked = self._delivered(over)
                    flight = float(self.before[over])
                    self.marks.add(over, ACK, time_ns=int(timeline.ack_ns[over]), flight=flight, acked=acked)
            else:
                self.marks.add(over, RECOVERED, time_ns=int(timeline.ack_ns[over]))

    def _delivered(self, over: int) -> float:
        """What the last ACK of a recovery tells to have arrived; without SACK all that it covers, or the hole alone."""
        timeline = self.timeline
        newly = int(timeline.newly_acked[over])
        if not timeline.has_sack:
            return float(newly if self.opens == "all" else timeline.smss)
        return float(max(newly - int(timeline.sacked[max(over - 1, 0)]), timeline.smss))

    def _most_after(self, over: int) -> float:
        """RFC 6582 section 3.2 (3), option 1, where that may be what was done: a segment above what is outstanding."""
        most = float(self.nxt[over] - self.una[over] + self.timeline.smss)
        return np.inf if self.timeline.has_sack or self.flight[over] > most else most

    def _begin(self, number: int, part: Stretch) -> None:
        """The windows that a stretch is seen to begin with and to end its slow start at."""
        if part.first >= len(self.timeline.ack_ns):
            return
        first_ns = int(self.timeline.ack_ns[part.first])
        threshold = float(part.grown_to) if part.has_threshold else np.nan
        if part.begin in ("restart", "lost") and part.started_by is not None:
            self.marks.ssthresh[self.loss_mark[id(part.started_by)]] = threshold
        elif part.begin == "recovery":
            at, after = self.settles(part), self.after(part)
            is_told = at is not None and (self.shown[at] or not self.follows)
            if at is not None and at != part.peak and is_told:
                self.settled_mark[id(part)] = len(self.marks.order)
                # Left with less than ssthresh, which is then not seen: slow start goes on up to it.
                kept = np.nan if np.isfinite(self.most_after[part.first : at + 1]).any() else after
                self.marks.add(at, SET, time_ns=int(self.timeline.ack_ns[at]), cwnd=after, ssthresh=kept)
        elif part.begin in ("idle", "capture"):
            flight = float(self.flight[part.first])
            begun = np.nan if self.follows else flight
            self.marks.add(
                part.first, SET, time_ns=first_ns, cwnd=flight, ssthresh=threshold if part.peak is not None else begun
            )
        begins = self._avoids_from(part)
        is_late = begins is not None and part.peak is not None and begins > part.peak
        own_end = self.ends_itself and part.begin == "connection"
        for at in ([begins] if begins is not None and is_late else []) + self.cuts[number]:
            cwnd = float(self.flight[at])
            ssthresh = cwnd if own_end and at == begins else np.nan
            self.marks.add(at, SET, time_ns=int(self.timeline.ack_ns[at]), cwnd=cwnd, ssthresh=ssthresh)
        if part.peak is not None and part.has_threshold and not own_end:
            peak_ns = int(self.timeline.ack_ns[part.peak])
            if part.begin == "recovery":
                self.settled_mark[id(part)] = len(self.marks.order)
            self.marks.add(part.peak, SET, time_ns=peak_ns, cwnd=threshold, ssthresh=threshold)

    def _is_unsettled(self, part: Stretch) -> bool:
        """Whether a recovery is followed by the next loss before the window it left is at work: half a round trip."""
        went = int(self.una[part.last] - self.una[part.first])
        return part.begin == "recovery" and part.episode is not None and 2 * went < int(self.flight[part.first])

    def settles(self, part: Stretch) -> int | None:
        """The ACK at which a recovered sender is seen to send by its window: before, more may be outstanding."""
        if part.peak is not None and part.has_threshold:
            return part.peak
        if self._is_unsettled(part):
            return None
        upto = min(part.last, part.first + max(int(self.flight[part.first]) // self.timeline.smss, SETTLES_ACKS)) + 1
        found = np.flatnonzero(self.sends_in_order[part.first : upto])
        return part.first + int(found[0]) if len(found) else None

    def after(self, part: Stretch) -> float:
        """The window with which a recovery was left; NaN where it is not seen."""
        at = self.settles(part)
        if at is None:
            return np.nan
        if at == part.peak:
            return float(part.grown_to)
        # The first ACK may release a burst, or find the sender short: then the ACKs behind it tell.
        first = float(self.flight[at])
        settled = float(np.median(self.flight[at : min(at + SETTLES_ACKS, part.last + 1)]))
        return first if abs(first - settled) <= 2 * self.timeline.smss else settled

    def _left(self, part: Stretch) -> float:
        """What a loss event left of the window: after a recovery, or as threshold after a restart; NaN if not seen."""
        if part.begin == "recovery":
            return self.after(part)
        # A timer that expires within a recovery, or again, keeps the threshold of the first loss; duplicate ACKs tell.
        by_acks = part.begin == "restart" and part.started_by is not None and part.started_by.detected_by != "rto"
        return float(part.grown_to) if by_acks and part.has_threshold else np.nan

    def _merge(self) -> Tape:
        """ACK rows and marks in one order: a mark stands behind its ACK."""
        timeline, marks = self.timeline, self.marks
        acks = self.told
        mark_ack = np.array([ack for ack, _ in marks.order], dtype=np.int64)
        order = np.lexsort(
            (
                np.concatenate((np.full(len(acks), -1), np.arange(len(mark_ack)))),
                np.concatenate((acks, mark_ack)),
            )
        )
        is_mark = np.concatenate((np.zeros(len(acks), dtype=bool), np.ones(len(mark_ack), dtype=bool)))[order]
        ack = np.concatenate((acks, mark_ack))[order]
        at = np.maximum(ack, 0)
        nan = np.full(len(acks), np.nan)
        shown = np.where(self.shown & (self.kind == ACK), self.flight, np.nan) if self.follows else nan
        time_ns = np.concatenate((timeline.ack_ns[acks], np.array(marks.time_ns, dtype=np.int64)))[order]
        event = np.concatenate((self.kind[acks], np.array(marks.event, dtype=np.int64)))[order]
        cwnd = np.concatenate((shown, np.array(marks.cwnd, dtype=float)))[order]
        core = _core.Tape(
            {
                "event": event.astype(np.uint8),
                "now_ns": time_ns - timeline.start_ns + CLOCK_ZERO_NS,
                "newly_acked": np.concatenate(
                    (timeline.newly_acked[acks].astype(float), np.array(marks.acked, dtype=float))
                )[order],
                "newly_sacked": np.where(is_mark, 0.0, self.newly_sacked[at].astype(float)),
                "rtt_ns": np.concatenate((self.rtt[acks], np.array(marks.rtt_ns, dtype=np.int64)))[order],
                # RFC 5681 section 3.2: what limited transmit sent is not part of FlightSize.
                "flight_size": np.concatenate((self.before[acks].astype(float), np.array(marks.flight, dtype=float)))[
                    order
                ],
                "snd_una": np.where(ack < 0, 0, self.una[at]) + 1,
                "snd_nxt": np.where(ack < 0, 0, self.nxt[at]) + 1,
                "is_cwnd_limited": self.limited[at],
                "cwnd": cwnd,
                "ssthresh": np.concatenate((nan, np.array(marks.ssthresh, dtype=float)))[order],
                "more": np.concatenate((np.zeros(len(acks)), np.array(marks.more, dtype=float)))[order],
                # Who opens its window on the last ACK of a recovery goes by cwnd at a loss, not by FlightSize.
                "more_flight": np.concatenate((np.zeros(len(acks)), np.array(marks.more, dtype=float)))[order]
                * (self.opens is not None),
                "less": np.concatenate((np.zeros(len(acks)), np.array(marks.less, dtype=float)))[order],
                "most_after": np.concatenate((self.most_after[acks], np.full(len(mark_ack), np.inf)))[order],
            }
        )
        row_of_ack = np.full(len(timeline.ack_ns), -1, dtype=np.int64)
        plain = np.flatnonzero(~is_mark)
        row_of_ack[ack[plain]] = plain
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        row_of_mark = place[len(acks) :]
        epochs = tuple(self._epochs(row_of_ack, row_of_mark))
        return Tape(core=core, smss=timeline.smss, epochs=epochs, ack_of_row=ack, round_of_row=self.round[at])

    def _spans(self, number: int, part: Stretch) -> list[tuple[bool, int, int]]:
        """Slow start, and the pieces of avoidance, each from the ACK at which the window is known to the last."""
        spans = [] if part.peak is None else [(True, part.first, part.peak)]
        begins = self._avoids_from(part)
        if begins is not None:
            edges = [begins, *self.cuts[number], part.last]
            spans += [(False, first, last) for first, last in pairwise(edges)]
        return spans

    def _avoids_from(self, part: Stretch) -> int | None:
        if part.peak is not None and part.begin == "connection" and part.has_threshold:
            begins = int(np.searchsorted(self.round, self.round[part.peak] + CONSERVATIVE_ROUNDS))
            told = np.flatnonzero((self.has_sent & self.limited)[begins : part.last])
            return begins + int(told[0]) if len(told) else None
        if part.peak is not None:
            return part.peak if part.has_threshold else None
        return self.settles(part) if part.begin == "recovery" else part.first

    def _cuts(self, part: Stretch) -> list[int]:
        """ACKs within a long avoidance at which the window observed is taken over again: some round trips apart."""
        begins = self._avoids_from(part)
        if begins is None:
            return []
        rounds = self.round[begins : part.last + 1] - self.round[begins]
        pieces = min(int(rounds[-1]) // PIECE_ROUNDS, MOST_PIECES)
        told = np.flatnonzero(self.sends_by_window[begins : part.last + 1])
        found: list[int] = []
        for number in range(1, pieces):
            at = int(np.searchsorted(rounds, number * int(rounds[-1]) // pieces, side="left"))
            behind = int(np.searchsorted(told, at, side="left"))
            if behind < len(told) and begins + int(told[behind]) > (found[-1] if found else begins):
                found.append(begins + int(told[behind]))
        return found

    def _epochs(self, row_of_ack: Ints, row_of_mark: Ints) -> Iterator[Epoch]:
        for number, part in enumerate(self.seen.stretches):
            loss = self.loss_mark.get(id(part.started_by), -1) if part.started_by is not None else -1
            settled = self.settled_mark.get(id(part), -1)
            for place, (is_slow_start, first, last) in enumerate(self._spans(number, part)):
                acks = np.arange(first + 1, last + 1)
                acks = acks[self.kind[acks] == ACK]
                yield Epoch(
                    number=number,
                    is_initial=part.begin == "connection",
                    is_slow_start=is_slow_start,
                    had_slow_start=part.peak is not None,
                    begin=part.begin,
                    rows=row_of_ack[acks],
                    acks=acks,
                    flight=self.flight[acks].astype(float),
                    is_limited=self.limited[acks],
                    has_sent=self.has_sent[acks],
                    loss_row=int(row_of_mark[loss]) if loss >= 0 and place == 0 else -1,
                    settled_row=int(row_of_mark[settled]) if settled >= 0 else -1,
                    before=self.marks.cwnd[loss] if loss >= 0 else np.nan,
                    after=self._left(part),
                    ends_in_loss=part.episode is not None,
                )


def _last_move(timeline: Timeline, known: int) -> int:
    """The last ACK that moved `snd_una` among the first `known`."""
    return max(int(timeline.last_moved[max(known, 1) - 1]), 0)


def _round_trips(timeline: Timeline, handshake_rtt_ns: int | None) -> Ints:
    """What each ACK told its sender of the round trip; -1: nothing.

    As senders read it: of the last segment covered; where anything covered was sent more than once, of the copy that
    filled the hole, which only timestamps tell (RFC 7323 section 4.3 echoes the one that moved the left edge).
    """
    before = np.concatenate(([timeline.first_offset], timeline.snd_una[:-1]))
    again = np.flatnonzero(timeline.is_retransmission)
    fresh = np.flatnonzero(~timeline.is_retransmission)
    last = np.searchsorted(timeline.send_end[fresh], timeline.snd_una, side="right") - 1
    newest = fresh[np.maximum(last, 0)]
    told = (timeline.newly_acked > 0) & (last >= 0) & (timeline.send_end[newest] > before)
    told &= timeline.send_ns[newest] <= timeline.ack_ns
    found = np.where(told, timeline.ack_ns - timeline.send_ns[newest], -1)
    covering = np.searchsorted(timeline.snd_una, timeline.send_offset[again], side="right")
    answered = covering < len(found)
    answered[answered] = timeline.ack_ns[covering[answered]] >= timeline.send_ns[again[answered]]
    again, covering = again[answered], covering[answered]
    found[covering] = -1
    if not timeline.has_timestamps:
        return found
    fills = timeline.send_offset[again] <= before[covering]
    # In order of time: the last copy stands, unless no round trip is that short: then an earlier one was answered. One
    # segment alone is answered sooner than the pairs of a delayed ACK, but no sooner than a SYN.
    least = SHORTEST_SHARE * timeline.observed.rtt_ns[0] if handshake_rtt_ns is None else handshake_rtt_ns
    for send, ack in zip(again[fills].tolist(), covering[fills].tolist(), strict=True):
        rtt_ns = int(timeline.ack_ns[ack] - timeline.send_ns[send])
        if rtt_ns >= least:
            found[ack] = rtt_ns
    return found


def _rounds(una: Ints, nxt: Ints) -> Ints:
    """The number of each ACK's round trip: a round is over when what was sent at its beginning is acknowledged."""
    found = np.zeros(len(una), dtype=np.int64)
    at, number = 0, 0
    while at < len(una):
        following = max(int(np.searchsorted(una, nxt[at], side="left")), at + 1)
        found[at:following] = number
        at, number = following, number + 1
    return found
