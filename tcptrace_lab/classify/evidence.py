"""What a capture says for and against one candidate: its replayed window beside what was outstanding, part by part.

A sender held back by its window has floor(cwnd) segments outstanding, so the candidate's window less the flight lies
between nothing and a segment; what lies outside is the candidate's error. Parts are judged apart: slow start, growth
(per loss cycle), reduction (per loss event). Each is a `Misfit` in units of what the capture itself leaves open.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tcptrace_lab.classify.tape import FEWEST_ACKS, Epoch, Tape
from tcptrace_lab.reconstruct.timeline import Bools, Floats, Ints

Part = Literal["slow_start", "growth", "reduction"]
# A slow start doubles its window several times over: each quarter of its ACKs is evidence of its own.
SLOW_START_PIECES = 4
# Sixteenths of a segment with which an epoch may have begun, where no fraction explains every ACK of it.
FRACTIONS = np.arange(16) / 16
FEWEST_ACKS_EACH = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Misfit:
    """`error`: segments by which the candidate is off (root mean square; signed where it is one number).

    `scale` is what the error is held against: the growth within the epoch, the window before the loss, the window
    reached. `ack` is where it was seen; `observed` and `expected` the two numbers behind it, in segments.
    """

    part: Part
    ack: int
    error: float
    scale: float
    observed: float
    expected: float


def misfits(tape: Tape, cwnd: Floats, ssthresh: Floats) -> tuple[Misfit, ...]:
    """Everything that one replay is judged by, in order of time."""
    return tuple(_each(tape, cwnd / tape.smss, ssthresh / tape.smss))


def _each(tape: Tape, cwnd: Floats, ssthresh: Floats) -> Iterator[Misfit]:
    for epoch in tape.epochs:
        if not epoch.is_slow_start or epoch.begin == "restart":
            yield from _reduction(tape, epoch, cwnd, ssthresh)
        if epoch.begin in ("idle", "lost") or (
            epoch.begin == "connection" and not (epoch.is_slow_start or epoch.had_slow_start)
        ):
            # The window with which it begins is not seen.
            continue
        if epoch.is_slow_start and epoch.begin != "connection":
            # After a restart the receiver still holds data from before: an ACK may cover any amount.
            continue
        if len(epoch.at_work) < FEWEST_ACKS:
            continue
        for rows in _pieces(epoch.at_work, epoch):
            yield _followed(tape, epoch, rows, cwnd)


def _pieces(rows: Ints, epoch: Epoch) -> list[Ints]:
    """A slow start is several pieces of evidence, an epoch of avoidance (one path of growth) is one."""
    parts = min(SLOW_START_PIECES, len(rows) // FEWEST_ACKS_EACH) if epoch.is_slow_start else 1
    return list(np.array_split(rows, parts))


def _followed(tape: Tape, epoch: Epoch, rows: Ints, cwnd: Floats) -> Misfit:
    flight = epoch.flight[rows] / tape.smss
    window = cwnd[epoch.rows[rows]]
    scale = float(flight.max()) if epoch.is_slow_start else float(flight.max() - flight.min())
    share = scale / np.maximum(flight, 1.0) if epoch.is_slow_start else 1.0
    has_sent = epoch.has_sent[rows]
    error = min(
        float(np.sqrt(np.mean((share * outside(flight - window - begun, has_sent)) ** 2)))
        for begun in _begun(flight - window, has_sent)
    )
    return Misfit(
        part="slow_start" if epoch.is_slow_start else "growth",
        ack=int(epoch.acks[rows][-1]),
        error=error,
        scale=scale,
        observed=float(flight[-1]),
        expected=float(window[-1]),
    )


def _begun(difference: Floats, has_sent: Bools) -> Floats:
    """The fraction of a segment with which an epoch began is not seen: the least that explains all, or any."""
    least = max(float(difference[has_sent].max(initial=0.0)), 0.0)
    excess = least - float(difference.min()) - 1.0
    if least < 1.0 and excess <= 0.0:
        return np.array([least])
    # Where it is off by more than a segment, a finer fraction helps nobody.
    return FRACTIONS if excess < 1.0 else FRACTIONS[::4]


def outside(difference: Floats, has_sent: Bools) -> Floats:
    """By how much flight less window lies outside of what a whole number of segments leaves open: (-1, 0].

    A sender that sends nothing may have more outstanding than its window allows, never a whole segment less.
    """
    found: Floats = np.maximum(np.where(has_sent, difference, 0.0), np.maximum(-1.0 - difference, 0.0))
    return found


def _reduction(tape: Tape, epoch: Epoch, cwnd: Floats, ssthresh: Floats) -> Iterator[Misfit]:
    """The window left by a recovery (or the threshold reached after a restart) beside the candidate's own."""
    if epoch.loss_row < 0 or not (np.isfinite(epoch.after) and np.isfinite(epoch.before)):
        return
    if epoch.settled_row >= 0:
        expected = float(cwnd[epoch.settled_row])
        room = (0.0, 1.0)
    elif epoch.begin == "restart":
        # Where slow start ended is seen to a segment either way.
        expected = float(ssthresh[epoch.loss_row])
        room = (-1.0, 1.0)
    else:
        return
    observed = epoch.after / tape.smss
    # Seen in whole segments: the window lies between this many and one more.
    error = float(np.clip(expected, observed + room[0], observed + room[1])) - expected
    yield Misfit(
        part="reduction",
        ack=int(tape.ack_of_row[epoch.loss_row]),
        error=error,
        scale=epoch.before / tape.smss,
        observed=observed,
        expected=expected,
    )
