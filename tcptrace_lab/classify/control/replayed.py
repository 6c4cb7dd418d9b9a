"""The windows where the capture does not show them: what the controls left standing would have had.

A sender held back by the receiver's window or by its application shows only that its window is not smaller than what
is outstanding. Its control goes on from the window last seen: without growth, or with as much as every ACK allows.
Between the two lies what it had, whatever its stack makes of a window that is not used; the value is the first, which
is what Linux does (RFC 7661). The lower bound is the window last seen, for as long as no stack takes an unused one back
(RFC 2861, RFC 5681 section 4.1): after that it is what is outstanding. Where the threshold was never met,
it is the one that the control set at the last loss. Errs upwards: the upper bound of a long pause in slow start is far
away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import Any

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.control.candidates import Candidate
from tcptrace_lab.classify.control.followed import is_followed
from tcptrace_lab.classify.control.identified import HIDDEN, Identified
from tcptrace_lab.classify.control.limited import as_told, limits_of
from tcptrace_lab.classify.control.marks import opens_window
from tcptrace_lab.classify.control.of_sender import identify_sender
from tcptrace_lab.classify.control.tape import Tape, tape
from tcptrace_lab.classify.control.told import ByModel, of_bbr, or_bbr, unbounded, window_by_model
from tcptrace_lab.classify.obstacles import find_obstacles
from tcptrace_lab.classify.path.path_of import path_of
from tcptrace_lab.classify.sender.initial_window import initial_window
from tcptrace_lab.classify.sender.limits import RHYTHM_SHARE
from tcptrace_lab.classify.sender.recovery import identify_recovery
from tcptrace_lab.reconstruct.away.unrepaired import with_open_end
from tcptrace_lab.reconstruct.given import BLUR_SEGMENTS, DELAYED_ACK_SEGMENTS, FEWEST_ALIKE, WITHIN_SEGMENTS
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import Sender
from tcptrace_lab.reconstruct.tap.unordered import as_known
from tcptrace_lab.reconstruct.timeline import Bools, Floats, Ints, Places, parts
from tcptrace_lab.reconstruct.windows import APPLICATION, CWND, RECOVERY, UNKNOWN, lowered

# RFC 7323 section 2.3: no receiver's window is larger, so no larger one is ever used.
LARGEST = 1 << 30
# A window that is not used grows in no stack beyond twice what was (Linux, in slow start; not at all later), or the
# receiver's (FreeBSD). Programs that simulate one let it.
UNUSED_FACTOR = 2


@dataclass(frozen=True, repr=False)
class Replayed(Reconstruction):
    """A reconstruction whose windows carry what the replay of its sender's control adds, worked out if asked for."""

    who: Sender

    @cached_property
    def known_columns(self) -> dict[str, Ints]:
        table, view = self._replayed_columns(), self.who.view
        if view is None:
            return table
        table = _by_rhythm(table, self.timeline.smss) if view.is_inferred else table
        return with_open_end(table, self.timeline, is_closed=self.who.tap.ends.value != "open")

    def _replayed_columns(self) -> dict[str, Ints]:
        obstacles = find_obstacles(self, self.who)
        if obstacles.hides_window:
            limits = limits_of(self, self.who, HIDDEN, hides_flight=bool(obstacles.hides_flight))
            # From loss to loss, or flight to flight, it may be known to have been at work: in no row how large it was.
            table = as_told(self._seen_columns, self, {**limits, "cwnd": 0.0})
            return {**table, "ssthresh": np.full_like(table["ssthresh"], UNKNOWN)}
        tcp = identify_recovery(self, self.who.tap)
        # Whose SYNs are not there may be a simulator.
        is_stack = self.who.tap.syns.value != "none"
        path = None if self.timeline.has_start else path_of(self, self.who)
        found = [identify_sender(self, self.who, tcp, path)]
        is_bbr, may_be_bbr = found[0].control == "bbr", found[0].may_be_bbr
        if is_bbr:
            table = self._seen_columns
        else:
            limits = limits_of(self, self.who, found[0], hides_flight=bool(obstacles.hides_flight))
            # Handed over: what was replayed to identify them is larger than the capture.
            table = with_replay(self, as_told(self._seen_columns, self, limits), found.pop(), is_stack=is_stack)
        if not (is_bbr or may_be_bbr):
            return table
        acks = _acks(self, table)
        model = self._by_model(table, acks)
        if model is None:
            return unbounded(table) if is_bbr else table
        return of_bbr(table, model, self.flight[acks] <= 0) if is_bbr else or_bbr(table, model)

    @property
    def _seen_columns(self) -> dict[str, Ints]:
        """As the packets show them, as far as this tap sees all of them in order."""
        table, tap = self.shown_columns, self.who.tap
        is_known = self.who.view is not None or not (tap.is_holed or tap.is_coarse or self.is_stretched)
        return table if is_known else as_known(table, self.timeline, _acks(self, table))

    def _by_model(self, table: dict[str, Ints], acks: Places) -> ByModel | None:
        """The window that BBR would have had, where the capture shows when its sender sent and heard."""
        rtt_s, view = self.who.handshake_rtt_s, self.who.view
        first = initial_window(self, rtt_s, is_bbr=True)
        # Behind a line of its own, or put by a rule, is not when.
        is_seen = self.who.before_tap_ns == 0 if view is None else not view.is_inferred
        if first is None or not is_seen or self.who.tap.is_holed:
            return None
        return window_by_model(self, table["time_ns"], acks, initial_window=first, handshake_rtt_s=rtt_s)


def _by_rhythm(table: dict[str, Ints], smss: int) -> dict[str, Ints]:
    """The same where the rhythm of the ACKs told which of them released a segment. Where the window is known to be at
    work its flights follow it."""
    low, high = table["cwnd_low"], table["cwnd_high"]
    is_open = table["limited_by"] == UNKNOWN
    most = np.where(is_open & (high != UNKNOWN), high / RHYTHM_SHARE, high)
    least = np.where(is_open, lowered(low, RHYTHM_SHARE * low.astype(np.float64), smss), low)
    return {
        **table,
        "cwnd_low": least,
        "cwnd_high": most.astype(_wide_enough(high, most.max(initial=0))),
    }


def replayed(who: Sender) -> Replayed:
    """The reconstruction of one sender."""
    return Replayed(who.timeline, who)


def with_replay(
    seen: Reconstruction, shown: dict[str, Ints], identified: Identified, *, is_stack: bool
) -> dict[str, Ints]:
    """The columns of `windows` (as `shown`) with what the replay of the candidates left adds to them, in
    no more bits than it takes.

    `is_stack`: the sender is known to be a stack in use, not a simulator's.
    """
    if not identified.left or not len(shown["time_ns"]):
        return shown
    if identified.hides_window:
        return unbounded(shown)
    hidden = _is_hidden(seen, shown)
    unmet = shown["ssthresh"] == UNKNOWN
    if not (hidden.any() or unmet.any()):
        return shown
    left = [(each.candidate, each.initial_window, (each.tape.handshake_ns, each.tape.when)) for each in identified.left]
    is_named = len(left) == 1 and identified.control is not None and is_followed(identified.left[0])
    columns = identified.left[0].tape.compared.heard.columns
    readings = {reading for *_, reading in left}
    columns.keep({(handshake_ns, opens_window(when)) for handshake_ns, when in readings})
    del identified
    # What is worked out of these alone is a small part of what all rows would take.
    open_rows = np.flatnonzero(hidden | unmet).astype(np.int32)
    acks, settled = _acks(seen, shown), ~_backs_off(seen, shown)
    tapes = {
        (told, when): tape(seen, follows=True, columns=columns, handshake_rtt_ns=told, when=when)
        for told, when in readings
    }
    rows = {each: _rows(written, acks[open_rows]) for each, written in tapes.items()}
    players = [_Player(candidate, first, tapes[read], rows[read]) for candidate, first, read in left]
    if is_named:
        # Once it is known who sets it, the threshold is theirs in every row: some move it between losses (Vegas).
        cwnd, threshold = replace(players[0], rows=_rows(players[0].written, acks)).play()
        shown = {**shown, "ssthresh": _filled(shown["ssthresh"], threshold, settled)}
        if players[0].candidate.is_by_delay:
            shown = _with_cuts(seen, shown, acks, cwnd)
        del cwnd, threshold
    open_to, reached = _reached(seen, shown, acks, open_rows) if is_stack else (None, np.full(len(open_rows), np.inf))
    had = _had(players, reached, open_to, smss=seen.timeline.smss)
    del open_to
    # Where more is outstanding than the window at work it was seen cut: that is no window which is not used.
    wanted = hidden & _is_anchored(seen, shown) & ~((shown["cwnd"] < seen.flight[acks]) & (shown["limited_by"] == CWND))
    del tapes, rows, players, columns
    largest = np.maximum(reached, had.most)
    most = np.maximum(had.most, _opened(seen, shown, acks, open_rows), out=had.most)
    np.minimum(most, largest, out=most)
    # A sender leaves less than a segment of its window unused, of what may have been outstanding.
    unused = seen.timeline.smss + (seen.timeline.slack[acks[open_rows]] if len(seen.timeline.slack) else 0)
    del acks, reached, largest
    kept, wanted = _kept(shown, wanted, open_rows), wanted[open_rows]

    def as_shown(name: str) -> Ints:
        found: Ints = shown[name][open_rows].astype(np.int64)
        return found

    # One after the other: together they take more than what is replayed.
    high = _high(as_shown("cwnd_high"), as_shown("cwnd") + unused, most, wanted)
    low = _low(as_shown("cwnd_low"), had.least, kept, seen.timeline.smss)
    del most, kept, unused
    value = np.clip(np.round(had.value), low, np.where(high == UNKNOWN, LARGEST, high)).astype(np.int64)
    met = (unmet & settled)[open_rows]
    told = {
        "cwnd": np.where(wanted, value, as_shown("cwnd")),
        "cwnd_low": low,
        "cwnd_high": high,
        "ssthresh": _filled(as_shown("ssthresh"), had.ssthresh, met),
    }
    del had, value
    table = dict(shown)
    for name, column in told.items():
        table[name] = shown[name].astype(_wide_enough(shown[name], column.max(initial=0)))
        table[name][open_rows] = column
    return table


def _wide_enough(column: Ints, most: float) -> np.dtype[np.signedinteger[Any]]:
    """A column's type, or 64 bits where so much does not fit into it."""
    return column.dtype if most <= np.iinfo(column.dtype).max else np.dtype(np.int64)


def _with_cuts(seen: Reconstruction, table: dict[str, Ints], acks: Places, cwnd: Floats) -> dict[str, Ints]:
    """The same where the control that was followed closed its window by delay: while ACKs release nothing what is
    outstanding drains until it fits, and shows no window."""
    released, smss = seen.timeline.sends_before_next_ack, seen.timeline.smss
    drains = released[acks] == released[np.maximum(acks - FEWEST_ALIKE, 0)]
    over = np.flatnonzero(drains & (table["limited_by"] != RECOVERY) & (table["cwnd_low"] > cwnd + smss))
    if not len(over):
        return table
    own = np.round(cwnd[over]).astype(np.int64)
    cut = {name: table[name].copy() for name in ("cwnd", "cwnd_low")}
    cut["cwnd"][over], cut["cwnd_low"][over] = own, np.maximum(own - smss, 0)
    return {**table, **cut}


def _is_hidden(seen: Reconstruction, table: dict[str, Ints]) -> Bools:
    """Outside recoveries, where the bounds are not those of a window at work."""
    high = table["cwnd_high"]
    is_apart = (high == UNKNOWN) | (high - table["cwnd_low"] > BLUR_SEGMENTS * seen.timeline.smss)
    found: Bools = is_apart & (table["limited_by"] != RECOVERY)
    return found


@dataclass(frozen=True)
class _Player:
    """A candidate, the first window of its sender, the tape that it hears, and the rows that are asked for."""

    candidate: Candidate
    initial_window: int
    written: Tape
    rows: Ints

    def play(self, *, at_most: bool = False) -> tuple[Floats, Floats]:
        """Window and threshold at these rows; `at_most`: used or not."""
        candidate = self.candidate
        if at_most and "byte_counting" in candidate.parameters:
            # RFC 3465: the faster of the two ways to count.
            candidate = replace(candidate, parameters={**candidate.parameters, "byte_counting": 1.0})
        sender = candidate.sender(initial_window=self.initial_window, smss=self.written.smss)
        played: tuple[Floats, Floats] = self.written.core.play(sender, at_most=at_most, rows=self.rows)
        return played


def _rows(written: Tape, acks: Places) -> Ints:
    """The last row of the tape at each of these ACKs."""
    # A tape has no row for what came before any data.
    found: Ints = np.maximum(np.searchsorted(written.ack_of_row, acks, side="right") - 1, 0)
    return found


@dataclass(frozen=True, kw_only=True)
class Had:
    """At each row: the windows of all candidates that do not grow unused, `least` of them and the likeliest's `value`;
    the `most` of any; the least threshold, and the one where they agree (NaN: they do not)."""

    value: Floats
    least: Floats
    most: Floats
    least_ssthresh: Floats
    ssthresh: Floats


def _had(players: Sequence[_Player], reached: Floats, open_to: Floats | None, *, smss: int) -> Had:
    had: Had | None = None
    # One after the other: the windows of all together are many times the capture's.
    for each in players:
        cwnd, ssthresh = each.play()
        # What grows by its control's own rule alone, used or not (Vegas's), no stack stops.
        most, other = each.play(at_most=True)
        if open_to is not None:
            reached = np.maximum(reached, open_to + _last_step(most, each.rows))
        np.maximum(cwnd, np.minimum(most, reached, out=most), out=most)
        least_ssthresh, ssthresh = np.minimum(ssthresh, other), np.maximum(ssthresh, other, out=ssthresh)
        if had is None:
            had = Had(value=cwnd, least=cwnd, most=most, least_ssthresh=least_ssthresh, ssthresh=ssthresh)
            continue
        if had.least is had.value:
            had = replace(had, least=had.value.copy())
        np.minimum(had.least, cwnd, out=had.least)
        np.maximum(had.most, most, out=had.most)
        np.minimum(had.least_ssthresh, least_ssthresh, out=had.least_ssthresh)
        np.maximum(had.ssthresh, ssthresh, out=had.ssthresh)
    assert had is not None
    for part in parts(len(reached)):
        least, known = had.least_ssthresh[part], np.isfinite(had.ssthresh[part])
        apart = np.where(known, had.ssthresh[part], 0.0) - least
        had.ssthresh[part] = np.where(known & (apart <= WITHIN_SEGMENTS * smss), least, np.nan)
    return had


def _last_step(most: Floats, rows: Ints) -> Floats:
    """By how much one ACK has opened a window at the most so far, of these windows at rows of a tape: the last ACK that
    finds room opens it by its control's own rule, be it by a window's worth (Hybla's slow start)."""
    steps = np.diff(most, prepend=most[:1])
    # Between two rows that are not next to each other more than one opened it.
    steps[(np.diff(rows, prepend=rows[:1]) != 1) | ~np.isfinite(steps)] = 0.0
    found: Floats = np.maximum.accumulate(np.maximum(steps, 0.0, out=steps), out=steps)
    return found


def _is_anchored(seen: Reconstruction, table: dict[str, Ints]) -> Bools:
    """Not in what a capture begins with in the middle of a connection: that window may be anything."""
    first = seen.stretches[0] if seen.stretches else None
    if first is None or first.begin != "capture":
        return np.ones(len(table["time_ns"]), dtype=bool)
    found: Bools = table["time_ns"] > int(seen.timeline.ack_ns[first.last])
    return found


def _backs_off(seen: Reconstruction, table: dict[str, Ints]) -> Bools:
    """From a timer that expires again for the same segment to the next loss: stacks differ in what that leaves."""
    times = table["time_ns"]
    found = np.zeros(len(times), dtype=bool)
    events = [episode for episode in seen.episodes if episode.is_loss]
    for before, event, following in zip_longest(events, events[1:], events[2:]):
        if event is not None and event.restarts and before.restarts and event.una == before.una:
            until_ns = seen.timeline.end_ns if following is None else following.time_ns
            found[np.searchsorted(times, event.time_ns) : np.searchsorted(times, until_ns, side="right")] = True
    return found


def _reached(seen: Reconstruction, table: dict[str, Ints], acks: Places, rows: Places) -> tuple[Floats, Floats]:
    """Up to where an unused window is opened by the next ACK, and the most that a stack lets its control's window grow
    to: what it was seen at, or what an unused one may reach."""
    timeline, smss = seen.timeline, seen.timeline.smss
    # A short segment counts as one; and the last ACK to open the window opens it by all that it acknowledges, which is
    # what a delayed one does, or more. In place: each is as long as the capture.
    used = seen.flight + smss
    used *= UNUSED_FACTOR
    np.maximum.accumulate(used, out=used)
    open_to = used[acks[rows]]
    used += np.maximum(timeline.newly_acked, DELAYED_ACK_SEGMENTS * smss)
    np.maximum(used, timeline.rwnd + smss, out=used)
    reached = np.maximum.accumulate(used, out=used)[acks[rows]]
    del used
    shown = np.maximum(table["cwnd_high"], 0)
    return open_to, np.maximum(reached, np.maximum.accumulate(shown, out=shown)[rows])


def _opened(seen: Reconstruction, table: dict[str, Ints], acks: Places, rows: Places) -> Floats:
    """Where the threshold that a replay goes by may not be the sender's, each ACK may have opened the window by what it
    acknowledged since that was last seen. Elsewhere 0.

    After a pause a stack may have begun anew, up to another threshold (RFC 2861). Where the application held the sender
    back, a slow start may only seem to have ended.
    """
    before, may_open = table["cwnd_high"], _has_paused(seen, table["time_ns"][rows]) | _may_double(seen, table)[rows]
    last = np.maximum.accumulate(np.where(before >= 0, np.arange(len(before), dtype=np.int32), -1))
    last = last[rows[may_open]]
    una, found = seen.timeline.snd_una, np.zeros(len(rows))
    since = una[acks[rows[may_open]]] - una[acks[last]]
    found[may_open] = np.where(last >= 0, before[last] + since, np.inf)
    return found


def _acks(seen: Reconstruction, table: dict[str, Ints]) -> Places:
    """The last ACK at the time of each row."""
    found: Places = np.maximum(_core.places(seen.timeline.ack_ns, table["time_ns"], or_equal=True) - 1, 0)
    return found


def _may_double(seen: Reconstruction, table: dict[str, Ints]) -> Bools:
    """From the end of a slow start on, if something else may have held the sender back before the next loss: the
    application, or, where a rebuilt flight may reach it, the receiver's window."""
    times = table["time_ns"]
    # As it seems: where that is not told, it may have all the same.
    limited = seen.shown_columns["limited_by"]
    is_idle = (limited == APPLICATION) | ((limited != CWND) & (len(seen.timeline.slack) > 0))
    found = np.zeros(len(times), dtype=bool)
    for part in seen.stretches:
        if part.peak is not None:
            edges = seen.timeline.ack_ns[[part.peak, part.last]]
            rows = slice(int(np.searchsorted(times, edges[0])), int(np.searchsorted(times, edges[1], side="right")))
            found[rows] = is_idle[rows].any()
    return found


def _has_paused(seen: Reconstruction, times: Ints) -> Bools:
    """Whether the sender has been idle since the last loss for so long that a stack may begin anew.

    RFC 2861 and 5681 section 4.1 take an unused window back after a retransmission timeout.
    """
    timeline = seen.timeline
    _, sends = timeline.answered_to_the_end
    sends = np.unique(sends)
    sends = sends[sends > 0]
    idle = sends[timeline.send_ns[sends] - timeline.send_ns[sends - 1] >= _core.LEAST_RTO_NS]
    # Nanoseconds of the last of either kind, or from before everything.
    pauses = np.concatenate(([-2], timeline.send_ns[idle]))
    losses = np.array([-1, *(episode.time_ns for episode in seen.episodes if episode.is_loss)], dtype=np.int64)
    found: Bools = (
        pauses[_core.places(pauses, times, or_equal=True) - 1] > losses[_core.places(losses, times, or_equal=True) - 1]
    )
    return found


def _high(before: Ints, least: Ints, most: Floats, wanted: Bools) -> Ints:
    is_known = wanted & (before == UNKNOWN) & (most < LARGEST)
    found: Ints = np.where(is_known, np.maximum(np.ceil(np.minimum(most, LARGEST)).astype(np.int64), least), before)
    return found


def _kept(table: dict[str, Ints], wanted: Bools, rows: Places) -> Ints:
    """Of these rows the lower bound when the window was last seen at work, until it may have been taken back, or -1."""
    times = table["time_ns"]
    last = np.maximum.accumulate(np.where(wanted, -1, np.arange(len(times), dtype=np.int32)))[rows]
    by_window = table["limited_by"][last] == CWND
    # A row is in force up to the next.
    until = times[np.minimum(rows + 1, len(times) - 1)]
    is_kept = wanted[rows] & (last >= 0) & by_window & (until - times[last] < _core.LEAST_RTO_NS)
    return np.where(is_kept, table["cwnd_low"][last], -1)


def _low(before: Ints, least: Floats, kept: Ints, smss: int) -> Ints:
    """Until it may have been taken back an unused window is not smaller than when it was last seen at work.

    Delay may have closed it since; that it grew on nobody can know: a threshold may have been met unseen.
    """
    least_kept = np.minimum(np.floor(np.minimum(least, LARGEST)).astype(np.int64) - smss, kept)
    found: Ints = np.where(kept >= 0, np.maximum(before, least_kept), before)
    return found


def _filled(before: Ints, values: Floats, wanted: Bools) -> Ints:
    known = wanted & np.isfinite(values)
    met = np.round(np.where(known, values, 0.0))
    found: Ints = np.where(known, met.astype(_wide_enough(before, float(met.max(initial=0)))), before)
    return found
