"""What a sender's congestion control heard, ACK by ACK, and the marks between: the same for every reading of a capture.

Rows are ACKs, round trips, losses, timeouts, ends of recovery. At each loss, each end of a recovery and each end of a
slow start the window observed is taken over, so that what is compared within an epoch (the ACKs between a recovery and
the next loss) depends on that epoch and on what the control remembers. Assumes the sender's own view.
"""

from __future__ import annotations

from functools import cached_property
from typing import get_args

import numpy as np
import numpy.typing as npt

from tcptrace_lab import _core
from tcptrace_lab.classify.control.ack_columns import AckColumns
from tcptrace_lab.classify.control.epoch import avoids_from, cuts_of
from tcptrace_lab.classify.control.marks import (
    ACK,
    ARRIVAL,
    LOSS,
    OPENING,
    RECOVERED,
    RESTART,
    SET,
    TIMEOUT,
    UNDONE,
    Mark,
    Marks,
    When,
)
from tcptrace_lab.reconstruct.losses import Episode
from tcptrace_lab.reconstruct.phases import Stretch
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Bools, Ints, Timeline

# The first ACKs behind a recovery by which its window is told: an ACK or two may release a burst, or nothing.
SETTLES_ACKS = 6


class Heard:
    """A column per ACK, and the marks; `follows`: the window observed is taken over wherever it shows, not only where
    an epoch begins; `is_reno`: the recovery is RFC 2581's; `columns`: of another reading, which has the same."""

    def __init__(
        self,
        seen: Reconstruction,
        handshake_rtt_ns: int | None,
        *,
        follows: bool = False,
        is_reno: bool = False,
        columns: AckColumns | None = None,
    ) -> None:
        self.seen = seen
        self.timeline = seen.timeline
        self.follows = follows
        self.is_reno = is_reno
        self.flight = seen.flight
        self.columns = columns = columns or AckColumns(seen, handshake_rtt_ns)
        self.una, self.top = columns.una, columns.top
        self.limited, self.shown = columns.limited, columns.shown
        self.is_held_back = columns.is_held_back
        self.has_sent, self.tells_flight = columns.has_sent, columns.tells_flight
        self.sends_in_order, self.sends_by_window = columns.sends_in_order, columns.sends_by_window
        self.first, self.round = columns.first, columns.round
        self.kind = np.where(self.timeline.newly_acked > 0, ACK, ARRIVAL).astype(np.uint8)
        # With SACK nothing bounds it.
        self.most_after = np.full(0 if self.timeline.has_sack else len(self.timeline.ack_ns), np.inf)
        # ACKs that are another event to Linux, and what; to everybody else they are what the second says.
        self.to_linux: dict[int, tuple[int, int]] = {}
        self.unsettled = {id(part.episode) for part in seen.stretches if self._is_unsettled(part)}
        self._settles: dict[int, int | None] = {}
        self._after: dict[int, float] = {}
        self.cuts = [cuts_of(self, part) for part in seen.stretches]
        self.marks = Marks()
        self.loss_mark: dict[int, int] = {}
        # Where a timer has expired within a recovery: the mark of those who reduce again.
        self.again_mark: dict[int, int] = {}
        self.settled_mark: dict[int, int] = {}
        self._mark()

    @cached_property
    def core_marks(self) -> _core.Marks:
        """The marks as the core reads them, one list for every reading."""
        return _core.Marks(self.marks.columns())

    @cached_property
    def mark_acks(self) -> Ints:
        """The ACK of each mark."""
        return np.array(self.marks.ack, dtype=np.int64)

    @cached_property
    def marks_of(self) -> dict[When, Ints]:
        """Which marks each kind of reading has."""
        each = np.array(self.marks.when, dtype=str)
        return {when: np.flatnonzero(each == when) for when in get_args(When)}

    def _outstanding(self, ack: int) -> float:
        """Bytes after an ACK, whatever has arrived of them."""
        return float(max(self.top[ack] - self.una[ack], 0))

    def _before(self, ack: int) -> float:
        """The same before it."""
        return float(max(self.top[ack] - (self.una[ack - 1] if ack else 0), 0))

    def _mark(self) -> None:
        # A tail loss probe is no loss that a control hears of.
        events = [episode for episode in self.seen.episodes if episode.is_loss]
        for episode in self.seen.episodes:
            if episode.detected_by == "undone":
                self._mark_undone(episode)
        timeline = self.timeline
        known = timeline.acks_before_send[np.array([episode.first_send for episode in events], dtype=np.int64)]
        recover = np.array([episode.recover for episode in events], dtype=np.int64)
        over = np.maximum(np.searchsorted(timeline.snd_una, recover, side="left"), known)
        bounds = np.append(known, len(timeline.ack_ns))[1:]
        places = zip(known.tolist(), over.tolist(), bounds.tolist(), strict=True)
        for before, episode, acks in zip([None, *events[:-1]], events, places, strict=False):
            self._loss(before, episode, *acks)
        for number, part in enumerate(self.seen.stretches):
            self._begin(number, part)

    def _loss(self, before: Episode | None, episode: Episode, known: int, over: int, bound: int) -> None:
        """The loss noticed, when so many ACKs were known, and the ACK that ends its recovery, if before the next."""
        event = (TIMEOUT if episode.detected_by == "rto" else RESTART) if episode.restarts else LOSS
        self._mark_loss(episode, known, event, is_within=_restarts_within(before, episode))
        if event == LOSS:
            kinds = self.kind[known : min(over, bound)]
            kinds[kinds == ACK] = ARRIVAL
        if over < bound:
            if event == LOSS:
                self.kind[over] = RECOVERED
                self._leaves(over)
                self._opens(self._ends_in_linux(over, episode.recover, bound))
            else:
                self.marks.add(Mark(ack=over, event=RECOVERED, now_ns=int(self.timeline.ack_ns[over])))

    def _mark_undone(self, episode: Episode) -> None:
        """A timer that expired, and what it took from the window given back with the answer."""
        known = int(self.timeline.acks_before_send[episode.first_send])
        flight = float(episode.flight)
        self.marks.add(Mark(ack=known - 1, event=TIMEOUT, now_ns=episode.time_ns, flight_size=flight))
        self.marks.add(Mark(ack=known - 1, event=UNDONE, now_ns=episode.end_ns))

    def _mark_loss(self, episode: Episode, known: int, event: int, *, is_within: bool) -> None:
        """What a control is told of a loss; `is_within`: a timer has expired before the recovery was over."""
        timeline = self.timeline
        # What this ACK says has arrived behind the hole may have been made up for by new segments, or not.
        moved = _last_move(timeline, known)
        sacked = float(min(timeline.sacked[moved], episode.window_before))
        window = flight = episode.window_before - sacked
        # Where the receiver held the sender back, its window may have been any larger one. Not the application: it may
        # have written since.
        more = np.inf if self.is_held_back[moved] else sacked
        # Where it released nothing, the window may have become smaller than what is outstanding.
        less = 0.0 if self.has_sent[moved] else window
        if sacked > 0.0 and timeline.sacked[moved] > timeline.sacked[max(moved - 1, 0)]:
            # RFC 6675 section 2: the first duplicate, though it moved the left edge. What it released is not counted.
            flight = min(flight, self._outstanding(moved))
        first = self.seen.stretches[0] if self.seen.stretches else None
        if first is not None and first.begin == "capture" and first.episode is episode and np.isfinite(more):
            # What came before the capture is not known, so no control has a window of its own within what is open.
            more = 0.0
        if episode.follows:
            # FlightSize is all that is outstanding; the window is what the recovery before has left.
            window, flight, more = np.nan, self._outstanding(known - 1), 0.0
        self.loss_mark[id(episode)] = self.marks.add(
            Mark(
                ack=known - 1,
                event=event,
                now_ns=episode.time_ns,
                when="reduces once" if is_within else "always",
                cwnd=np.nan if id(episode) in self.unsettled else window,
                flight_size=flight,
                more=more,
                more_flight=0.0 if episode.follows else max(window + more - flight, 0.0),
                less=less,
            )
        )
        if is_within:
            # The window is what the recovery has made of it.
            flight = float(episode.flight)
            self.again_mark[id(episode)] = self.marks.add(
                Mark(
                    ack=known - 1,
                    event=event,
                    now_ns=episode.time_ns,
                    when="reduces again",
                    flight_size=flight,
                    more=more,
                    less=less,
                )
            )

    def _ends_in_linux(self, over: int, recover: int, bound: int) -> int:
        """The ACK that ends a recovery there: NewReno's is the first above `recover`, not the one of all up to it."""
        timeline = self.timeline
        if timeline.has_sack or self.is_reno:
            return over
        beyond = int(timeline.snd_una.searchsorted(recover, side="right"))
        if not over < beyond < bound:
            return over
        self.to_linux[over] = (ARRIVAL, RECOVERED)
        self.to_linux[beyond] = (RECOVERED, ACK)
        self.kind[beyond] = RECOVERED
        return beyond

    @cached_property
    def is_taken_over(self) -> Bools:
        """Where the flight is taken for the window, beside the marks."""
        found: Bools = self.shown & (self.kind == ACK) & self.follows
        return found

    def events(self, *, to_linux: bool) -> npt.NDArray[np.uint8]:
        """What each ACK is to a sender; one that tells of nothing new lets no window grow that counts what arrives."""
        if not to_linux and not self.to_linux:
            return self.kind
        is_empty = (self.kind == ACK) & ~self.columns.has_news & to_linux
        found = np.where(is_empty, np.uint8(ARRIVAL), self.kind)
        for ack, kinds in self.to_linux.items():
            found[ack] = kinds[0 if to_linux else 1]
        return found

    def _opens(self, over: int) -> None:
        """What the last ACK of a recovery tells to have arrived; without SACK all that it covers, or the hole alone."""
        timeline = self.timeline
        newly, flight, time_ns = int(timeline.newly_acked[over]), self._before(over), int(timeline.ack_ns[over])
        told = timeline.smss if not timeline.has_sack else newly - int(timeline.sacked[max(over - 1, 0)])
        acked = float(max(told, timeline.smss))
        self.marks.add(Mark(ack=over, event=OPENING, now_ns=time_ns, when="new", flight_size=flight, newly_acked=acked))
        if not timeline.has_sack:
            self.marks.add(
                Mark(ack=over, event=OPENING, now_ns=time_ns, when="all", flight_size=flight, newly_acked=float(newly))
            )

    def _leaves(self, over: int) -> None:
        """RFC 6582 section 3.2 (3), option 1, where that may be what was done: a segment above what is outstanding.

        Linux takes option 2. Where its application has less to send nothing tells.
        """
        if self.timeline.has_sack or not self.limited[over]:
            return
        smss, flight = self.timeline.smss, self.flight[over]
        most = max(self._outstanding(over), smss) + smss
        if flight <= most:
            self.most_after[over] = most

    def _begin(self, number: int, part: Stretch) -> None:
        """The windows that a stretch is seen to begin with and to end its slow start at."""
        if part.first >= len(self.timeline.ack_ns):
            return
        first_ns = int(self.timeline.ack_ns[part.first])
        threshold = float(part.grown_to) if part.has_threshold else np.nan
        if part.begin in ("restart", "lost") and part.started_by is not None:
            for marks in (self.loss_mark, self.again_mark):
                if id(part.started_by) in marks:
                    self.marks.ssthresh[marks[id(part.started_by)]] = threshold
        elif part.begin == "recovery":
            at, after = self.settles(part), self.after(part)
            is_told = at is not None and (self.shown[at] or not self.follows)
            if at is not None and at != part.peak and is_told:
                # Left with less than ssthresh, which is then not seen: slow start goes on up to it.
                kept = np.nan if self.is_left_below(part, at) else after
                at_ns = int(self.timeline.ack_ns[at])
                self._doubt_window_before(part, after)
                self.settled_mark[id(part)] = self.marks.add(
                    Mark(ack=at, event=SET, now_ns=at_ns, cwnd=after, ssthresh=kept)
                )
        elif part.begin in ("idle", "capture"):
            flight = float(self.flight[part.first])
            begun = np.nan if self.follows else flight
            self.marks.add(
                Mark(
                    ack=part.first,
                    event=SET,
                    now_ns=first_ns,
                    cwnd=flight,
                    ssthresh=threshold if part.peak is not None else begun,
                )
            )
        begins = avoids_from(self, part)
        is_late = begins is not None and part.peak is not None and begins > part.peak
        for at in ([begins] if begins is not None and is_late else []) + self.cuts[number]:
            cwnd, at_ns = float(self.flight[at]), int(self.timeline.ack_ns[at])
            if part.begin == "connection" and at == begins:
                self.marks.add(Mark(ack=at, event=SET, now_ns=at_ns, when="ends itself", cwnd=cwnd, ssthresh=cwnd))
                self.marks.add(Mark(ack=at, event=SET, now_ns=at_ns, when="ends as seen", cwnd=cwnd))
            else:
                self.marks.add(Mark(ack=at, event=SET, now_ns=at_ns, cwnd=cwnd))
        if part.peak is not None and part.has_threshold:
            when: When = "ends as seen" if part.begin == "connection" else "always"
            peak_ns = int(self.timeline.ack_ns[part.peak])
            mark = self.marks.add(
                Mark(ack=part.peak, event=SET, now_ns=peak_ns, when=when, cwnd=threshold, ssthresh=threshold)
            )
            if part.begin == "recovery":
                self.settled_mark[id(part)] = mark

    def _doubt_window_before(self, part: Stretch, after: float) -> None:
        """Nobody reduces to more than there was: then less was outstanding at the loss than the window allowed."""
        loss = self.loss_mark.get(id(part.started_by), -1)
        if loss >= 0 and after >= self.marks.cwnd[loss] + self.timeline.smss:
            self.marks.cwnd[loss] = np.nan

    def _is_unsettled(self, part: Stretch) -> bool:
        """Whether a recovery is followed by the next loss before the window it left is at work: half a round trip."""
        went = int(self.una[part.last] - self.una[part.first])
        return part.begin == "recovery" and part.episode is not None and 2 * went < int(self.flight[part.first])

    def losses_before(self, number: int) -> list[int]:
        """The marks of the losses whose reductions a stretch shows, the last first: that before it, and the one before
        where what that left was not at work yet."""
        found: list[int] = []
        for part in self.seen.stretches[max(number - 1, 0) : number + 1][::-1]:
            if part.started_by is None or id(part.started_by) not in self.loss_mark:
                break
            found.append(self.loss_mark[id(part.started_by)])
            if id(part.started_by) not in self.unsettled:
                break
        return found

    def settles(self, part: Stretch) -> int | None:
        """The ACK at which a recovered sender is seen to send by its window: before, more may be outstanding."""
        if id(part) not in self._settles:
            self._settles[id(part)] = self._settles_at(part)
        return self._settles[id(part)]

    def _settles_at(self, part: Stretch) -> int | None:
        if part.peak is not None and part.has_threshold:
            return part.peak
        if self._is_unsettled(part):
            return None
        upto = min(part.last, part.first + max(int(self.flight[part.first]) // self.timeline.smss, SETTLES_ACKS)) + 1
        sends = self.sends_in_order[part.first : upto]
        first = int(sends.argmax()) if len(sends) else 0
        return part.first + first if len(sends) and sends[first] else None

    def after(self, part: Stretch) -> float:
        """The window with which a recovery was left; NaN where it is not seen."""
        if id(part) not in self._after:
            self._after[id(part)] = self._left_with(part)
        return self._after[id(part)]

    def _left_with(self, part: Stretch) -> float:
        at = self.settles(part)
        if at is None:
            return np.nan
        if at == part.peak:
            return float(part.grown_to)
        if self.columns.fills_rwnd[at]:
            # The receiver's window lets go no more.
            return np.nan
        first = float(self.flight[at])
        if self.is_left_below(part, at):
            # Slow start from here on.
            return first
        # The first ACK may release a burst, or find the sender short: then the ACKs behind it tell.
        behind = sorted(self.flight[at : min(at + SETTLES_ACKS, part.last + 1)].tolist())
        # Their median; numpy's costs more for so few.
        settled = (behind[len(behind) // 2] + behind[~(len(behind) // 2)]) / 2
        return first if abs(first - settled) <= 2 * self.timeline.smss else settled

    def is_left_below(self, part: Stretch, at: int) -> bool:
        """Whether a recovery may have been left with less than ssthresh."""
        return bool(len(self.most_after) and np.isfinite(self.most_after[part.first : at + 1]).any())

    def left(self, part: Stretch) -> float:
        """What a loss event left of the window: after a recovery, or as threshold after a restart; NaN if not seen."""
        if part.begin == "recovery":
            return self.after(part)
        # A timer that expires within a recovery, or again, keeps the threshold of the first loss; duplicate ACKs tell.
        by_acks = part.begin == "restart" and part.started_by is not None and part.started_by.detected_by != "rto"
        return float(part.grown_to) if by_acks and part.has_threshold else np.nan


def _restarts_within(before: Episode | None, episode: Episode) -> bool:
    """Whether a timer ends the recovery that the loss before began."""
    return before is not None and not before.restarts and episode.restarts and episode.expires_within(before)


def _last_move(timeline: Timeline, known: int) -> int:
    """The last ACK that moved `snd_una` among the first `known`."""
    return max(int(timeline.last_moved[max(known, 1) - 1]), 0)
