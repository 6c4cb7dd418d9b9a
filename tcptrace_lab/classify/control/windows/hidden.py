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

from itertools import zip_longest
from typing import Any

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.control.answer.followed import is_followed
from tcptrace_lab.classify.control.answer.identified import Identified
from tcptrace_lab.classify.control.bbr.told import unbounded
from tcptrace_lab.classify.control.heard.marks import opens_window
from tcptrace_lab.classify.control.shown.tape import tape
from tcptrace_lab.classify.control.windows.played import Player, had_by, rows_of
from tcptrace_lab.classify.control.windows.unused import kept, opened, reached
from tcptrace_lab.reconstruct.given import BLUR_SEGMENTS, FEWEST_ALIKE
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Bools, Floats, Ints, Places
from tcptrace_lab.reconstruct.windows import CWND, RECOVERY, UNKNOWN

# RFC 7323 section 2.3: no receiver's window is larger, so no larger one is ever used.
LARGEST = 1 << 30


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
    acks, settled = acks_at(seen, shown), ~_backs_off(seen, shown)
    tapes = {
        (told, when): tape(seen, follows=True, columns=columns, handshake_rtt_ns=told, when=when)
        for told, when in readings
    }
    known = None
    if is_named:
        (candidate, first, read), *_ = left
        # Before the others' rows are held: there may be as many.
        own = Player(candidate, first, tapes[read], rows_of(tapes[read], acks))
        shown, known = _with_own(seen, shown, own, acks, settled, at=open_rows)
        del own
    rows = {each: rows_of(written, acks[open_rows]) for each, written in tapes.items()}
    players = [Player(candidate, first, tapes[read], rows[read], known) for candidate, first, read in left]
    open_to, grown = reached(seen, shown, acks, open_rows) if is_stack else (None, np.full(len(open_rows), np.inf))
    had = had_by(players, grown, open_to, smss=seen.timeline.smss)
    del open_to
    # Where more is outstanding than the window at work it was seen cut: that is no window which is not used.
    wanted = hidden & _is_anchored(seen, shown) & ~((shown["cwnd"] < seen.flight[acks]) & (shown["limited_by"] == CWND))
    del tapes, rows, players, columns, known
    most = _most(had.most, grown, opened(seen, shown, acks, open_rows))
    # A sender leaves less than a segment of its window unused, of what may have been outstanding.
    unused = seen.timeline.smss + (seen.timeline.slack[acks[open_rows]] if len(seen.timeline.slack) else 0)
    del acks, grown
    still, wanted = kept(shown, wanted, open_rows), wanted[open_rows]

    def as_shown(name: str) -> Ints:
        found: Ints = shown[name][open_rows].astype(np.int64)
        return found

    # One after the other: together they take more than what is replayed.
    high = _high(as_shown("cwnd_high"), as_shown("cwnd") + unused, most, wanted)
    low = _low(as_shown("cwnd_low"), had.least, still, seen.timeline.smss)
    del most, still, unused
    value = np.clip(np.round(had.value), low, np.where(high == UNKNOWN, LARGEST, high)).astype(np.int64)
    met = (unmet & settled)[open_rows]
    told = {
        "cwnd": np.where(wanted, value, as_shown("cwnd")),
        "cwnd_low": low,
        "cwnd_high": high,
        "ssthresh": _filled(as_shown("ssthresh"), had.ssthresh, met),
    }
    del had, value
    return _with_rows(shown, told, open_rows)


def _with_own(
    seen: Reconstruction, table: dict[str, Ints], player: Player, acks: Places, settled: Bools, *, at: Places
) -> tuple[dict[str, Ints], tuple[Floats, Floats]]:
    """The same once it is known who sets the threshold: theirs in every row (`player`'s are those of all). Some move it
    between losses (Vegas). And the window and the threshold `at` some of the rows."""
    cwnd, threshold = player.play()
    known = cwnd[at], threshold[at]
    if player.candidate.is_by_delay:
        filled = _filled(table["ssthresh"], threshold, settled)
        return _with_cuts(seen, {**table, "ssthresh": filled}, acks, cwnd), known
    # As long as the capture, and not asked for.
    del cwnd
    return {**table, "ssthresh": _filled(table["ssthresh"], threshold, settled)}, known


def _with_rows(table: dict[str, Ints], told: dict[str, Ints], rows: Places) -> dict[str, Ints]:
    """The same with what is told of some rows."""
    found = dict(table)
    for name, column in told.items():
        found[name] = table[name].astype(wide_enough(table[name], column.max(initial=0)))
        found[name][rows] = column
    return found


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


def _most(played: Floats, grown: Floats, opened_to: Floats) -> Floats:
    """The most of what candidates had and of what ACKs may have opened, as far as a stack lets an unused one grow."""
    largest = np.maximum(grown, played)
    most = np.maximum(played, opened_to, out=played)
    return np.minimum(most, largest, out=most)


def _high(before: Ints, least: Ints, most: Floats, wanted: Bools) -> Ints:
    is_known = wanted & (before == UNKNOWN) & (most < LARGEST)
    found: Ints = np.where(is_known, np.maximum(np.ceil(np.minimum(most, LARGEST)).astype(np.int64), least), before)
    return found


def _low(before: Ints, least: Floats, kept: Ints, smss: int) -> Ints:
    """Until it may have been taken back an unused window is not smaller than when it was last seen at work.

    Delay may have closed it since; that it grew on nobody can know: a threshold may have been met unseen.
    """
    least_kept = np.minimum(np.floor(np.minimum(least, LARGEST)).astype(np.int64) - smss, kept)
    found: Ints = np.where(kept >= 0, np.maximum(before, least_kept), before)
    return found


def _filled(before: Ints, values: Floats, wanted: Bools) -> Ints:
    known = wanted & np.isfinite(values)
    # In place: as long as the capture.
    met = np.where(known, values, 0.0)
    np.round(met, out=met)
    found: Ints = np.where(known, met.astype(wide_enough(before, float(met.max(initial=0)))), before)
    return found


def wide_enough(column: Ints, most: float) -> np.dtype[np.signedinteger[Any]]:
    """A column's type, or 64 bits where so much does not fit into it."""
    return column.dtype if most <= np.iinfo(column.dtype).max else np.dtype(np.int64)


def acks_at(seen: Reconstruction, table: dict[str, Ints]) -> Places:
    """The last ACK at the time of each row."""
    found: Places = np.maximum(_core.places(seen.timeline.ack_ns, table["time_ns"], or_equal=True) - 1, 0)
    return found
