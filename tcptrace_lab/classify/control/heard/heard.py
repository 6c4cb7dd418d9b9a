"""What a sender's congestion control heard, ACK by ACK, and the marks between: the same for every reading of a capture.

Rows are ACKs, round trips, losses, timeouts, ends of recovery. At each loss, each end of a recovery and each end of a
slow start the window observed is taken over, so that what is compared within an epoch (the ACKs between a recovery and
the next loss) depends on that epoch and on what the control remembers. Assumes the sender's own view.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from tcptrace_lab import _core
from tcptrace_lab.classify.control.heard.ack_columns import AckColumns
from tcptrace_lab.classify.control.heard.marks import (
    ACK,
    ARRIVAL,
    EXPIRED,
    LOSS,
    OPENING,
    RECOVERED,
    SET,
    TIMEOUT,
    UNDONE,
    WHENS,
    Many,
    Mark,
    Marks,
    When,
)
from tcptrace_lab.classify.control.heard.parts import Losses, Parts
from tcptrace_lab.reconstruct.losses import Episode
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Bools, Floats, Ints, rows_from


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
        self.parts = Parts(seen, columns, self.most_after)
        self.marks = Marks()
        # By loss event; where a timer has expired within a recovery: the mark of those who reduce again.
        self.loss_marks: Ints = np.full(len(seen.episodes), -1)
        self.again_marks = self.loss_marks.copy()
        # By stretch: where the window that its recovery left is seen.
        self.settled_marks: Ints = np.full(len(self.parts), -1)
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
        each = np.array([WHENS.index(when) for when in self.marks.when], dtype=np.int8)
        return {when: np.flatnonzero(each == code) for code, when in enumerate(WHENS)}

    def _outstanding(self, acks: Ints) -> Floats:
        """Bytes after ACKs, whatever has arrived of them."""
        return np.maximum(self.top[acks] - self.una[acks], 0).astype(np.float64)

    def _before(self, acks: Ints) -> Floats:
        """The same before them."""
        una = np.where(acks > 0, self.una[acks - 1], 0)
        return np.maximum(self.top[acks] - una, 0).astype(np.float64)

    @cached_property
    def losses(self) -> Losses:
        return Losses.of(self.seen)

    def _mark(self) -> None:
        for episode in self.seen.episodes:
            if episode.detected_by == "undone":
                self._mark_undone(episode)
        losses = self.losses
        kinds = self._of_losses(losses)
        *_, numbers, again = self.marks.extend([*kinds, *self._of_ends(losses)])[: len(kinds)]
        self.loss_marks[losses.event], self.again_marks[losses.event[losses.is_within]] = numbers, again
        self._mark_parts()

    def _mark_undone(self, episode: Episode) -> None:
        """A timer that expired, and what it took from the window given back with the answer."""
        known = int(self.timeline.acks_before_send[episode.first_send])
        flight = float(episode.flight)
        self.marks.add(Mark(ack=known - 1, event=TIMEOUT, now_ns=episode.time_ns, flight_size=flight))
        self.marks.add(Mark(ack=known - 1, event=UNDONE, now_ns=episode.end_ns))

    def _of_losses(self, losses: Losses) -> list[Many]:
        """What a control is told of each loss, and again of each timer that has expired before a recovery was over."""
        told, within = self._told_of(losses), losses.is_within
        when: list[When] = ["reduces once" if each else "always" for each in within.tolist()]
        at = {"ack": losses.known - 1, "now_ns": losses.time_ns}
        # The window is what the recovery has made of it.
        again = {**at, "flight_size": losses.flight, "more": told["more"], "less": told["less"]}
        return [
            Many(place=losses.place, event=np.where(within, EXPIRED, losses.kind), when=when, columns={**at, **told}),
            Many(
                place=losses.place[within],
                event=losses.kind[within],
                when="reduces again",
                columns={name: column[within] for name, column in again.items()},
            ),
        ]

    def _told_of(self, losses: Losses) -> dict[str, Floats]:
        """The windows at each loss."""
        timeline, follows = self.timeline, losses.follows
        # What this ACK says has arrived behind the hole may have been made up for by new segments, or not.
        moved = np.maximum(timeline.last_moved[np.maximum(losses.known, 1) - 1], 0)
        sacked = np.minimum(timeline.sacked[moved], losses.window_before).astype(np.float64)
        window = losses.window_before - sacked
        # Where the receiver held the sender back, its window may have been any larger one. Not the application: it may
        # have written since.
        more = np.where(self.is_held_back[moved], np.inf, sacked)
        # Where it released nothing, the window may have become smaller than what is outstanding.
        less = np.where(self.has_sent[moved], 0.0, window)
        # RFC 6675 section 2: the first duplicate, though it moved the left edge. What it released is not counted.
        is_first = (sacked > 0) & (timeline.sacked[moved] > timeline.sacked[np.maximum(moved - 1, 0)])
        flight = np.where(is_first, np.minimum(window, self._outstanding(moved)), window)
        if len(self.parts) and self.parts.begins_with("capture")[0]:
            # What came before the capture is not known, so no control has a window of its own within what is open.
            more[(losses.event == self.parts.ended_by[0]) & np.isfinite(more)] = 0.0
        # FlightSize is all that is outstanding; the window is what the recovery before has left.
        flight = np.where(follows, self._outstanding(losses.known - 1), flight)
        more = np.where(follows, 0.0, more)
        return {
            "cwnd": np.where(follows | self.is_unsettled[losses.event], np.nan, window),
            "flight_size": flight,
            "more": more,
            "more_flight": np.where(follows, 0.0, np.maximum(window + more - flight, 0.0)),
            "less": less,
        }

    def _of_ends(self, losses: Losses) -> list[Many]:
        """The ACKs that end recoveries, where they come before the next loss; and what each ACK within is."""
        timeline, kind = self.timeline, self.kind
        is_over, is_restart = losses.over < losses.bound, losses.kind != LOSS
        first = losses.known[~is_restart]
        lengths = np.maximum(np.minimum(losses.over, losses.bound)[~is_restart] - first, 0)
        within = rows_from(first, lengths)
        kind[within[kind[within] == ACK]] = ARRIVAL
        mended = is_over & ~is_restart
        over = losses.over[mended]
        kind[over] = RECOVERED
        self._leaves(over)
        opening = self._ends_in_linux(over, losses.recover[mended], losses.bound[mended])
        # What the last ACK of a recovery tells to have arrived; without SACK all that it covers, or the hole alone.
        newly = timeline.newly_acked[opening].astype(np.float64)
        told = newly - timeline.sacked[np.maximum(opening - 1, 0)] if timeline.has_sack else timeline.smss
        columns = {"ack": opening, "now_ns": timeline.ack_ns[opening], "flight_size": self._before(opening)}
        new = {**columns, "newly_acked": np.maximum(told, timeline.smss)}
        restarted = losses.over[is_over & is_restart]
        found = [
            Many(place=losses.place[mended], event=OPENING, when="new", columns=new),
            Many(
                place=losses.place[is_over & is_restart],
                event=RECOVERED,
                columns={"ack": restarted, "now_ns": timeline.ack_ns[restarted]},
            ),
        ]
        if not timeline.has_sack:
            of_all = {**columns, "newly_acked": newly}
            found.append(Many(place=losses.place[mended], event=OPENING, when="all", columns=of_all))
        return found

    def _ends_in_linux(self, over: Ints, recover: Ints, bound: Ints) -> Ints:
        """The ACKs that end recoveries there: NewReno's is the first above `recover`, not the one of all up to it."""
        if self.timeline.has_sack or self.is_reno:
            return over
        beyond = np.searchsorted(self.timeline.snd_una, recover, side="right")
        is_later = (over < beyond) & (beyond < bound)
        for ack, later in zip(over[is_later].tolist(), beyond[is_later].tolist(), strict=True):
            self.to_linux[ack] = (ARRIVAL, RECOVERED)
            self.to_linux[later] = (RECOVERED, ACK)
        self.kind[beyond[is_later]] = RECOVERED
        return np.where(is_later, beyond, over)

    @cached_property
    def is_taken_over(self) -> Bools:
        """Where the flight is taken for the window, beside the marks: not where a rebuilt one is open itself."""
        found: Bools = self.shown & (self.kind == ACK) & self.follows
        return found & ~self.timeline.is_open if len(self.timeline.slack) else found

    def events(self, *, to_linux: bool) -> npt.NDArray[np.uint8]:
        """What each ACK is to a sender; one that tells of nothing new lets no window grow that counts what arrives."""
        if not to_linux and not self.to_linux:
            return self.kind
        is_empty = (self.kind == ACK) & ~self.columns.has_news & to_linux
        found = np.where(is_empty, np.uint8(ARRIVAL), self.kind)
        for ack, kinds in self.to_linux.items():
            found[ack] = kinds[0 if to_linux else 1]
        return found

    def _leaves(self, over: Ints) -> None:
        """RFC 6582 section 3.2 (3), option 1, where that may be what was done: a segment above what is outstanding.

        Linux takes option 2. Where its application has less to send nothing tells.
        """
        if self.timeline.has_sack:
            return
        smss, over = self.timeline.smss, over[self.limited[over]]
        most = np.maximum(self._outstanding(over), smss) + smss
        is_near = self.flight[over] <= most
        self.most_after[over[is_near]] = most[is_near]

    def _mark_parts(self) -> None:
        """The windows that stretches are seen to begin with and to end their slow starts at."""
        parts, flight = self.parts, self.flight
        cwnd, ssthresh = np.frombuffer(self.marks.cwnd), np.frombuffer(self.marks.ssthresh)
        self._set_thresholds(ssthresh)
        at, after, peaks = parts.settled, parts.after, parts.peak
        is_told = (at >= 0) & (at != peaks) & (self.shown[at] | (not self.follows))
        self._doubt_windows_before(cwnd, is_told)
        del cwnd, ssthresh
        settled = np.flatnonzero(is_told)
        # Left with less than ssthresh, which is then not seen: slow start goes on up to it.
        kept = np.where(parts.is_left_below, np.nan, after)
        begun = np.flatnonzero(parts.begins_with("idle", "capture"))
        first = parts.first[begun]
        seen = np.nan if self.follows else flight[first]
        threshold = np.where(peaks[begun] >= 0, parts.threshold[begun], seen)
        is_first = parts.begins_with("connection")
        late = np.flatnonzero((peaks >= 0) & (parts.begins > peaks))
        cuts = [(part, ack) for part, acks in parts.cuts.items() for ack in acks]
        more = np.array([*((part, int(parts.begins[part])) for part in late.tolist()), *cuts], dtype=np.int64)
        more_of, more_at = more.reshape(-1, 2).T
        is_end = is_first[more_of] & (more_at == parts.begins[more_of])
        ended, ended_at = more_of[is_end], more_at[is_end]
        grown = np.flatnonzero(parts.has_threshold)
        whens: list[When] = ["ends as seen" if each else "always" for each in is_first[grown].tolist()]

        def set_at(places: Ints, acks: Ints, when: When | list[When] = "always", **columns: Floats | Ints) -> Many:
            times = {"ack": acks, "now_ns": self.timeline.ack_ns[acks]}
            return Many(place=places, event=SET, when=when, columns={**times, **columns})

        own, _, _, _, _, own_grown = self.marks.extend(
            [
                set_at(settled, at[settled], cwnd=after[settled], ssthresh=kept[settled]),
                set_at(begun, first, cwnd=flight[first], ssthresh=threshold),
                set_at(ended, ended_at, "ends itself", cwnd=flight[ended_at], ssthresh=flight[ended_at]),
                set_at(ended, ended_at, "ends as seen", cwnd=flight[ended_at]),
                set_at(more_of[~is_end], more_at[~is_end], cwnd=flight[more_at[~is_end]]),
                set_at(grown, peaks[grown], whens, cwnd=parts.threshold[grown], ssthresh=parts.threshold[grown]),
            ]
        )
        is_recovered = parts.is_recovered[grown]
        self.settled_marks[settled], self.settled_marks[grown[is_recovered]] = own, own_grown[is_recovered]

    def _set_thresholds(self, ssthresh: Floats) -> None:
        """What the slow start behind a restart has grown to, at the loss."""
        parts = self.parts
        shown = parts.begins_with("restart", "lost") & (parts.started_by >= 0)
        for marks in (self.loss_marks, self.again_marks):
            mark = marks[parts.started_by[shown]]
            ssthresh[mark[mark >= 0]] = parts.threshold[shown][mark >= 0]

    def _doubt_windows_before(self, cwnd: Floats, is_told: Bools) -> None:
        """Nobody reduces to more than there was: then less was outstanding at the loss than the window allowed."""
        parts = self.parts
        marks = np.append(self.loss_marks, -1)[parts.started_by]
        known = is_told & (marks >= 0)
        above = parts.after[known] >= cwnd[marks[known]] + self.timeline.smss
        cwnd[marks[known][above]] = np.nan

    @cached_property
    def is_unsettled(self) -> Bools:
        """Of each loss event, whether the window that the recovery before it left was not at work yet."""
        found = np.zeros(len(self.seen.episodes), dtype=bool)
        found[self.parts.ended_by[self.parts.is_unsettled]] = True
        return found

    @cached_property
    def loss_mark_of(self) -> list[int]:
        """The mark of the loss before each stretch; -1: there is none."""
        found: list[int] = np.append(self.loss_marks, -1)[self.parts.started_by].tolist()
        return found

    def losses_before(self, number: int) -> list[int]:
        """The marks of the losses whose reductions a stretch shows, the last first: that before it, and the one before
        where what that left was not at work yet."""
        found: list[int] = []
        for part in range(number, max(number - 1, 0) - 1, -1):
            if self.loss_mark_of[part] < 0:
                break
            found.append(self.loss_mark_of[part])
            if not self.is_unsettled[self.parts.started_by[part]]:
                break
        return found
