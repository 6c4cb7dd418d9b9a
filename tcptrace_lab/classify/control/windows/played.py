"""The windows that candidates would have had at some rows of a capture: each replayed by itself, and all together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tcptrace_lab.classify.control.candidates.candidates import Candidate
from tcptrace_lab.classify.control.shown.tape import Tape
from tcptrace_lab.reconstruct.given import WITHIN_SEGMENTS
from tcptrace_lab.reconstruct.timeline import Floats, Ints, Places, parts


@dataclass(frozen=True)
class Player:
    """A candidate, the first window of its sender, the tape that it hears, and the rows that are asked for.

    `known`: what it had there, where it was played before.
    """

    candidate: Candidate
    initial_window: int
    written: Tape
    rows: Ints
    known: tuple[Floats, Floats] | None = None

    def play(self, *, at_most: bool = False) -> tuple[Floats, Floats]:
        """Window and threshold at these rows; `at_most`: used or not."""
        if self.known is not None and not at_most:
            return self.known
        candidate = self.candidate
        if at_most and "byte_counting" in candidate.parameters:
            # RFC 3465: the faster of the two ways to count.
            candidate = replace(candidate, parameters={**candidate.parameters, "byte_counting": 1.0})
        sender = candidate.sender(initial_window=self.initial_window, smss=self.written.smss)
        played: tuple[Floats, Floats] = self.written.core.play(sender, at_most=at_most, rows=self.rows)
        return played


def rows_of(written: Tape, acks: Places) -> Ints:
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


def had_by(players: Sequence[Player], reached: Floats, open_to: Ints | None, *, smss: int) -> Had:
    had: Had | None = None
    # One after the other: the windows of all together are many times the capture's.
    for each in players:
        cwnd, ssthresh = each.play()
        # What grows by its control's own rule alone, used or not (Vegas's), no stack stops.
        most, other = each.play(at_most=True)
        if open_to is None:
            np.minimum(most, reached, out=most)
        else:
            own = _last_step(most, each.rows)
            own += open_to
            np.minimum(most, np.maximum(own, reached, out=own), out=most)
            del own
        np.maximum(cwnd, most, out=most)
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
    steps = np.zeros(len(most))
    np.subtract(most[1:], most[:-1], out=steps[1:])
    for part in parts(len(rows) - 1):
        # Between two rows that are not next to each other more than one opened it.
        behind = slice(part.start + 1, part.stop + 1)
        steps[behind][(rows[behind] != rows[part] + 1) | ~np.isfinite(steps[behind])] = 0.0
    found: Floats = np.maximum.accumulate(np.maximum(steps, 0.0, out=steps), out=steps)
    return found
