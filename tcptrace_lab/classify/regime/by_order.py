"""The regime where the window is not seen: by the order of what was sent, and by when losses were repaired.

Away from the sender, behind a queue that never runs empty and without timestamps, a loss is a hole, and its repair a
segment that fills it. What passes behind the repair before its answer can have come back left before its sender heard
of it: nothing, of a sender that restarted (RFC 5681 section 3.1, RFC 6298 section 5), and half a window of one that
recovers. A loss that follows a recovery begins a cycle, in which no slow start has been; that takes no window.

Each time is the latest at which a segment can have left. So it errs by taking what a deep queue held for sent behind
the answer, a recovery for a restart: a restart in a few of many losses is believed as little as it is looked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.obstacles import Obstacles
from tcptrace_lab.classify.regime.slow_starts import (
    NONE,
    REGIMES,
    UNDECIDED,
    SlowStarts,
    count_slow_starts,
    tells_of_loss,
)
from tcptrace_lab.classify.sender.by_losses import is_doubtful, is_untold_behind, opens_at_each_ack
from tcptrace_lab.reconstruct.away.sender_view import SenderView
from tcptrace_lab.reconstruct.given import FEWEST_ALIKE, MAJORITY, MINORITY
from tcptrace_lab.reconstruct.losses import Episode
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Timeline

# One cycle is no steady state, unless each loss is sure, and nothing but the window held the sender back between. The
# first loss may be that of the slow start that a connection begins with: of its cycle, though a loss ends it.
FEWEST_CYCLES = 2
# Behind a flight nothing comes for so many times as long as between its segments.
PAUSE_FACTOR = 4


def regime_by_order(
    seen: Reconstruction, order: SenderView, run: Obstacles, hidden: Sequence[str], *, is_grown: bool
) -> SlowStarts:
    """The regime where the order tells it; the counts only without a loss. `run`: what the run itself hides, `hidden`:
    why the window is; `is_grown`: whether flights a round trip apart grew as in slow start."""
    starts = count_slow_starts(seen, run)
    if starts.regime == UNDECIDED and is_grown and seen.timeline.has_start and not (seen.episodes or run.all):
        grown = "no loss in the capture: one slow start, whose flights a round trip apart were seen to grow"
        starts = replace(starts, per_cycle=(1,), initial=1, regime=REGIMES[1], reasons=(grown,))
    why = tells_regime(seen, starts) if order.turn_ns else None
    reasons = (*starts.reasons, *hidden)
    if starts.regime == UNDECIDED or why is None:
        return SlowStarts(per_cycle=(), initial=None, steady=None, regime=UNDECIDED, cycles=(), reasons=reasons)
    # Which thresholds ended them takes a window.
    told = replace(starts, cycles=(), reasons=reasons)
    return replace(told, per_cycle=(), initial=None, reasons=(*starts.reasons, why, *hidden)) if seen.episodes else told


def single_without_loss(seen: Reconstruction, why: Sequence[str]) -> SlowStarts | None:
    """One slow start, wherever the tap stood: the connection's beginning, nothing lost on either side, and flights that
    grew; None: not told. `why`: the window is hidden.

    A window that is smaller than the path holds is sent in a flight, and a pause until its answers are back shows it.
    One that grows makes a larger flight next. An application's pause is longer than that round trip, or behind the end
    of what it wrote, a segment that is not full.
    """
    timeline = seen.timeline
    if not timeline.has_start or seen.episodes or timeline.is_retransmission.any() or tells_of_loss(seen):
        return None
    acks, sends = timeline.answered_to_the_end
    waits = timeline.send_ns[sends] - timeline.ack_ns[acks]
    is_pause = waits > PAUSE_FACTOR * _core.percentile(waits, 100 * MAJORITY) if len(waits) else waits > 0
    begins = np.append(0, sends[is_pause])
    if len(begins) < 2:
        return None
    sizes = np.diff(np.append(begins, len(timeline.send_ns)))
    round_ns = int(timeline.send_ns[begins[1]] - timeline.send_ns[0])
    is_full = (timeline.send_end - timeline.send_offset)[: begins[1] + sizes[0] + 1] >= timeline.smss
    if sizes[1] <= sizes[0] or not is_full.all() or waits.max() > (1 + MINORITY) * round_ns or round_ns < _core.HOST_NS:
        return None
    grown = "no loss in the capture: one slow start, whose flights a round trip apart were seen to grow"
    return SlowStarts(per_cycle=(1,), initial=1, steady=None, regime=REGIMES[1], cycles=(), reasons=(grown, *why))


def tells_regime(seen: Reconstruction, starts: SlowStarts) -> str | None:
    """What tells the regime without a time of sending; None: nothing does."""
    losses = [each for each in seen.episodes if each.is_loss]
    if not losses:
        return "no loss: the slow start that the connection begins with"
    # Nor is what neither a duplicate nor a timer asked for a recovery: it came in another order (RFC 5681 section 3.2).
    if sum(is_doubtful(each) or each.is_unasked for each in losses) > MAJORITY * len(losses):
        return None
    restarts = sum(each.restarts for each in losses)
    goes_on, few = len(losses) - restarts, MINORITY * len(losses)
    if starts.steady is None:
        # Which of two restarts ended the cycle takes the window between them.
        is_counted = starts.initial == 1 + restarts and (not restarts or len(losses) == 1)
        is_sure = restarts > 0 or not _may_hold_timeout(seen, losses[0])
        is_told = is_counted and is_sure and opens_at_each_ack(seen.timeline, losses[0])
        return "each ACK up to the first loss added a segment to what was outstanding" if is_told else None
    if goes_on <= few:
        alike = max(Counter(starts.per_cycle).values())
        why = f"nothing left from {restarts} of {len(losses)} repairs to their answers: the window restarted"
        return why if alike >= FEWEST_ALIKE else None
    # A silence tells those of timers, which restart any sender; beside as many no recovery is its habit.
    by_timer = sum(each.restarts and each.detected_by == "rto" for each in losses)
    recovers = sum(not (each.restarts or is_doubtful(each)) for each in losses)
    if (
        starts.regime != NONE
        or restarts - by_timer > few
        or by_timer > MAJORITY * recovers
        or _cycles_apart(seen.timeline, losses) < (1 if recovers == len(losses) and _runs_on(seen) else FEWEST_CYCLES)
    ):
        return None
    return f"more left from {goes_on} of {len(losses)} repairs to their answers than a restarted sender sends"


def _may_hold_timeout(seen: Reconstruction, loss: Episode) -> bool:
    """Whether a recovery stood for as long as a timer takes behind an ACK of new data, and its repair, and was silent.

    A timer leaves its sender one segment (RFC 5681 section 3.1): behind that one nothing comes until its ACK is back.
    What comes meanwhile is answered at once (section 4.2).
    """
    timeline = seen.timeline
    within = (timeline.ack_ns > loss.time_ns) & (timeline.ack_ns <= loss.end_ns)
    moved_ns = timeline.ack_ns[within & (timeline.newly_acked > 0)]
    stood_ns = int(np.diff(moved_ns, prepend=loss.time_ns).max(initial=0))
    # One that the capture's end cuts may still come to it.
    is_cut = loss.recover > int(timeline.snd_una[-1])
    is_silent = bool((np.diff(timeline.ack_ns[within]) > MAJORITY * seen.base_rtt_ns).any())
    return stood_ns >= seen.base_rtt_ns + _core.LEAST_RTO_NS and (is_silent or is_cut)


def _runs_on(seen: Reconstruction) -> bool:
    """Whether, of a connection under way, duplicate ACKs asked for each repair, and nothing but losses ended what was
    outstanding: no application's pause, from which a window restarts too (RFC 5681 section 4.1)."""
    if seen.timeline.has_start or not all(each.dupacks for each in seen.episodes):
        # No duplicate asked for it: a timer may have.
        return False
    acks, sends = seen.timeline.answered_to_the_end
    waits = seen.timeline.send_ns[sends] - seen.timeline.ack_ns[acks]
    return not (waits > MAJORITY * seen.base_rtt_ns).any()


def _cycles_apart(timeline: Timeline, losses: Sequence[Episode]) -> int:
    """How many losses are no part of the recovery before."""
    over = np.array([each.recover for each in losses[:-1]], dtype=np.int64)
    return int(np.count_nonzero(is_untold_behind(timeline, over)))
