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

from tcptrace_lab.classify.tape import Epoch, Tape
from tcptrace_lab.reconstruct.timeline import Bools, Floats, Ints

Part = Literal["slow_start", "growth", "reduction"]
# Fewer ACKs than this are no growth.
FEWEST_ACKS = 8
# A slow start doubles its window several times over: each quarter of its ACKs is evidence of its own.
SLOW_START_PIECES = 4
FRACTIONS = (0.0, 0.25, 0.5, 0.75)
FEWEST_ACKS_EACH = 3


@dataclass(frozen=True, kw_only=True)
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
    # The fraction of a segment with which an epoch begins is not seen.
    errors = [share * outside(flight - window - begun, epoch.has_sent[rows]) for begun in FRACTIONS]
    return Misfit(
        part="slow_start" if epoch.is_slow_start else "growth",
        ack=int(epoch.acks[rows][-1]),
        error=min(float(np.sqrt(np.mean(error**2))) for error in errors),
        scale=scale,
        observed=float(flight[-1]),
        expected=float(window[-1]),
    )


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
    if epoch.recovered_row >= 0:
        expected = float(cwnd[epoch.recovered_row])
    elif epoch.begin == "restart":
        expected = float(ssthresh[epoch.loss_row])
    else:
        return
    observed = epoch.after / tape.smss
    yield Misfit(
        part="reduction",
        ack=int(tape.ack_of_row[epoch.loss_row]),
        error=observed - expected,
        scale=epoch.before / tape.smss,
        observed=observed,
        expected=expected,
    )
