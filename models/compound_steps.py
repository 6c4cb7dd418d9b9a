"""Compound's cases 1 to 3 increase by increase, for senders of the draft (draft-sridharan-tcpm-ctcp-02).

Equations (3) and (8) of Blanc et al. 2008 (INRIA RR-6778) are a fluid's, and end as the buffer is full. Three things
make a sender's cycle longer, and all are counted here:

1. A kernel's increases are whole packets (`Rule.increase`): half a packet less each on average, a sixth of three.
2. The loss is seen a round trip after the overflow. The window goes on meanwhile, by another increase unless equation
   (14) knows of gamma packets in the queue by then (`compound_cuts`, which has the module of ns-2.35).
3. What that increase sends is lost whole: SACK recovery mends it in a second round trip. NewReno (RFC 6582) mends one
   loss a round trip.

A cycle begins with 1 - beta of the window at which the one before ended, and its increases are steps: so it comes to
rest, or two neighbours take turns. Given are the means over the cycles after the first ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from tcptrace_lab.models.compound_cases import Cycle, loss_round
from tcptrace_lab.models.compound_cuts import Network
from tcptrace_lab.models.compound_oscillation import Rule
from tcptrace_lab.models.prediction import FloatArray

# Cycles followed, and those of them that count.
CYCLES, COUNTED = 8, 4


def cycle(number: ArrayLike, one: Cycle, on: Network, rule: Rule) -> Cycle:
    """`one` with the growth, the losses and the recovery of cases 1 to 3; the others are as they were."""
    which = np.asarray(number) <= 3
    if not which.any():
        return one
    # Case 1: a burst alone does not fit, by about a packet; all the rest of the window does.
    is_burst = np.asarray(number) == 1
    filled = np.where(which, np.where(is_burst, one.w_end, on.full), 0.0)
    share = on.second_burst_share()
    steps = [_Steps(window=(1 - on.beta) * filled)]
    for _ in range(CYCLES):
        steps.append(_climb((1 - on.beta) * steps[-1].window, filled, share, on, rule))
    counted = steps[-COUNTED:]

    def mean(name: str, otherwise: FloatArray) -> FloatArray:
        return np.where(which, np.mean([getattr(each, name) for each in counted], axis=0), otherwise)

    w_end = mean("window", one.w_end)
    w_start = np.where(which, (1 - on.beta) * w_end, one.w_start)
    lost = mean("lost", one.lost)
    rounds = np.maximum(lost, 1) if rule.is_newreno else 1 + share
    loss_time, loss_backlog = loss_round(np.minimum(w_end, on.full), on.pipe, on.rate, on.beta)
    loss_time = np.where(is_burst, on.round_trip, loss_time)
    loss_time = loss_time + (rounds - 1) * on.seconds(w_start)
    top = np.clip(on.pipe, w_start, w_end)
    zero = np.zeros_like(w_end)
    return replace(
        one,
        w_end=w_end,
        w_start=w_start,
        starts=tuple(
            np.where(which, new, old) for new, old in zip((w_start, top, w_end, w_end), one.starts, strict=True)
        ),
        ends=tuple(np.where(which, new, old) for new, old in zip((top, w_end, w_end, w_end), one.ends, strict=True)),
        time=(
            mean("unqueued", one.time[0]),
            mean("queued", one.time[1]),
            *(np.where(which, zero, t) for t in one.time[2:]),
        ),
        loss_time=np.where(which, loss_time, one.loss_time),
        # Throughput is of packets that arrive.
        sent=np.where(which, mean("sent", zero) + rounds * w_start, one.sent),
        backlog_time=np.where(which, mean("backlog_time", zero) + loss_backlog, one.backlog_time),
        lost=lost,
    )


@dataclass(frozen=True, kw_only=True)
class _Steps:
    """From a recovery to the next loss seen: the window then, seconds without and with a queue, packets, packets s."""

    window: FloatArray
    unqueued: FloatArray | float = 0.0
    queued: FloatArray | float = 0.0
    sent: FloatArray | float = 0.0
    lost: FloatArray | float = 0.0
    backlog_time: FloatArray | float = 0.0


def _climb(first: FloatArray, filled: FloatArray, share: FloatArray, on: Network, rule: Rule) -> _Steps:
    """From a window to the next loss seen; `share`: of the overflows that another increase follows."""
    window = np.floor(first) if rule.arithmetic == "packets" else first
    unqueued, queued, sent, backlog = (np.zeros_like(window) for _ in range(4))
    before, is_seen = window, np.zeros(window.shape, dtype=np.bool_)
    while not is_seen.all():
        overflowed = window > filled
        # The ACKs of the window before bring what is sent now, the increase first: what does not fit is lost.
        seconds = np.where(is_seen, 0, on.seconds(before))
        is_queued = window > on.pipe
        unqueued += np.where(is_queued, 0, seconds)
        queued += np.where(is_queued, seconds, 0)
        sent += np.where(is_seen, 0, np.minimum(window, on.full))
        backlog += np.clip(window - on.pipe, 0, on.buffer) * seconds
        # A kernel reckons from the window that its last round began with. Where gamma is reached nothing is added.
        step = rule.increase(before if rule.arithmetic == "packets" else window)
        grown = window + step * np.where(overflowed, share, 1.0)
        before, window = window, np.where(is_seen, window, grown)
        is_seen = is_seen | overflowed
    return _Steps(
        window=window,
        unqueued=unqueued,
        queued=queued,
        sent=sent,
        lost=np.where(filled < on.full, 1 + share, window - filled),
        backlog_time=backlog,
    )
