"""What a sender does, in numbers, where no control of the table does it: growth, reduction, delay response, pacing.

Read off the same epochs that candidates are compared in; nothing of it assumes a law.
"""

from __future__ import annotations

import math

import numpy as np

from tcptrace_lab.classify.control.shown.epoch import Epoch
from tcptrace_lab.classify.control.shown.tape import Tape
from tcptrace_lab.reconstruct.distinct import distinct
from tcptrace_lab.reconstruct.given import DELAYED_ACK_SEGMENTS

# Fewer round trips, or less growth, have no shape.
FEWEST_ROUNDS = 6
LEAST_GROWTH_SEGMENTS = 4.0


def traits(tape: Tape, *, is_clocked: bool) -> str:
    """One sentence: segments per round trip, the exponent of growth over time, what a loss leaves, and the pace."""
    epochs = [epoch for epoch in tape.epochs if not epoch.is_slow_start and len(epoch.acks)]
    words = [
        _growth(tape, epochs),
        _reduction(tape),
        _delay_response(tape, epochs),
        "its segments leave as ACKs arrive" if is_clocked else "its segments leave by a rate of their own",
    ]
    return "; ".join(word for word in words if word)


def _windows(tape: Tape, epoch: Epoch) -> tuple[list[int], list[float]]:
    """The round trips of an epoch in which the flight was the window, and the most outstanding in each."""
    is_limited = epoch.is_limited
    rounds, flight = epoch.rounds[is_limited], epoch.flight[is_limited]
    numbers = distinct(rounds)
    return numbers.tolist(), [float(flight[rounds == number].max()) / tape.smss for number in numbers]


def _growth(tape: Tape, epochs: list[Epoch]) -> str | None:
    increments, exponents = [], []
    for epoch in epochs:
        rounds, windows = _windows(tape, epoch)
        if len(rounds) < FEWEST_ROUNDS:
            continue
        increments.append((windows[-1] - windows[0]) / (rounds[-1] - rounds[0]))
        gained, halfway = windows[-1] - windows[0], windows[len(windows) // 2] - windows[0]
        if gained >= LEAST_GROWTH_SEGMENTS and halfway > 0:
            share = (len(windows) // 2) / (len(windows) - 1)
            exponents.append(math.log(halfway / gained) / math.log(share))
    if not increments:
        return None
    low, middle, high = np.quantile(increments, [0.25, 0.5, 0.75])
    words = f"in avoidance {middle:.2g} segments per round trip ({low:.2g} to {high:.2g})"
    return words + (f", as time to the power of {np.median(exponents):.1f}" if exponents else "")


def _reduction(tape: Tape) -> str | None:
    shares = [epoch.after / epoch.before for epoch in tape.epochs if epoch.loss >= 0 and epoch.before > 0]
    found = [share for share in shares if math.isfinite(share)]
    if not found:
        return None
    low, middle, high = np.quantile(found, [0.25, 0.5, 0.75])
    return f"a loss leaves {middle:.2f} of the window ({low:.2f} to {high:.2f}, {len(found)} losses)"


def _delay_response(tape: Tape, epochs: list[Epoch]) -> str | None:
    told = [windows for epoch in epochs if len(windows := _windows(tape, epoch)[1]) >= FEWEST_ROUNDS]
    if not told:
        return None
    down = sum(min(np.diff(windows)) <= -DELAYED_ACK_SEGMENTS for windows in told)
    if not down:
        return "the window never falls without a loss"
    return f"the window falls without a loss in {down} of {len(told)} stretches, as if delay moved it"
