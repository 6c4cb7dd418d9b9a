"""What of its slow starts a capture carries: counts and regime, the regime alone, or neither, with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tcptrace_lab.classify.obstacles import TICKS_PER_ROUND, Obstacles, least_rtt_ns, obstacles_of_run
from tcptrace_lab.classify.path.causes import timeouts_unseen
from tcptrace_lab.classify.regime.by_order import regime_by_order, single_without_loss
from tcptrace_lab.classify.regime.counts import MIXED, Counts, mixes_restarts
from tcptrace_lab.classify.regime.slow_starts import UNDECIDED, SlowStarts, count_slow_starts
from tcptrace_lab.classify.sender.recovering import answers_missing
from tcptrace_lab.numbers import duration
from tcptrace_lab.reconstruct.given import FEWEST_ALIKE, MAJORITY, MINORITY
from tcptrace_lab.reconstruct.losses import DUP_THRESH, Episode
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import Sender


def told_slow_starts(
    seen: Reconstruction, obstacles: Obstacles, who: Sender, *, is_paced: bool, is_open: bool
) -> SlowStarts:
    """The count, unless what tells a restart from a recovery is not in the capture and there was a loss."""
    refused = who.tap.refuses("cycles") or _too_coarse(seen, who) or _hides_restarts(seen, who)
    has_lost = seen.episodes or who.tap.repairs[1]
    if who.order is not None and not ((refused and has_lost) or who.tap.refuses("window")):
        is_grown = who.by_flights.get("cwnd", 0.0) > 0
        run = obstacles_of_run(seen, who)
        return regime_by_order(seen, who.order, run, obstacles.hides_window, is_grown=is_grown)
    if who.place == "unknown" and obstacles.hides_flight and not has_lost and _shows_both_sides(who):
        # Wherever the tap stood: a loss on either side of it would show.
        found = single_without_loss(seen, obstacles.hides_window)
        if found is not None:
            return found
    if refused and has_lost and not obstacles.hides_window:
        return SlowStarts(per_cycle=(), initial=None, steady=None, regime=UNDECIDED, cycles=(), reasons=(refused,))
    return _as_carried(count_slow_starts(seen, obstacles), seen, who, is_paced=is_paced, is_open=is_open)


def _as_carried(starts: SlowStarts, seen: Reconstruction, who: Sender, *, is_paced: bool, is_open: bool) -> SlowStarts:
    """Without the counts, or the regime, that may be others."""
    # Without a loss there is one; whether there was none is told where each hole's repair was captured.
    if not starts.per_cycle or (not seen.episodes and starts.per_cycle[0] and not who.tap.repairs[1]):
        return starts
    counts = Counts(starts=starts, seen=seen, who=who, is_paced=is_paced, is_open=is_open)
    why = counts.why_not()
    if why is None:
        return starts
    regime = UNDECIDED if counts.is_blind else starts.regime
    return replace(starts, per_cycle=(), initial=None, cycles=(), regime=regime, reasons=(*starts.reasons, why))


def _shows_both_sides(who: Sender) -> bool:
    """Whether every packet that passed the tap is in the capture, in its order: SACK or not, where nothing was lost."""
    tap = who.tap
    is_blurred = tap.is_holed or tap.is_coarse or tap.ahead_ns or tap.unanswered_ns
    return not (is_blurred or tap.refuses("control"))


def _too_coarse(seen: Reconstruction, who: Sender) -> str | None:
    """Where neither clock nor segments are fine enough to tell a slow start from what goes on before or behind it."""
    resolution_ns = who.tap.clock.resolution_ns
    if not who.tap.clock.tells(least_rtt_ns(seen), ticks=TICKS_PER_ROUND):
        return f"stamps {duration(resolution_ns)} apart, round trips of {duration(seen.base_rtt_ns)}: too coarse"
    losses = sum(episode.is_loss for episode in seen.episodes)
    if mixes_restarts(seen, who) and sum(episode.restarts for episode in seen.episodes) > MINORITY * losses:
        return MIXED
    return None


def _hides_restarts(seen: Reconstruction, who: Sender) -> str | None:
    """Where what followed a loss was inferred, not captured, and not well enough to tell a restart."""
    # RFC 5681 section 3.2: a loss is repaired at the third duplicate ACK. Put so much later, it was not put right.
    if who.is_blurred and any(each.dupacks > FEWEST_ALIKE * DUP_THRESH for each in seen.episodes):
        return "without timestamps the ACK that released each segment is open: what followed a loss is not told"
    told = [each for each in seen.episodes if each.is_asked]
    sure = [each.restarts for each in told if each.sure]
    # A sender has one habit: some that show the same tell the others, of which too little was sent. So do two, or half
    # of them, where it restarts after each: by chance nobody sends one segment, waits for its answer and sends two.
    has_habit = len(sure) >= FEWEST_ALIKE and len(set(sure)) == 1
    if all(each.restarts for each in told):
        has_habit |= 2 * len(sure) >= len(told) or (who.tap.is_holed and len(sure) > 1)
    has_habit |= _never_restarts(told, who)
    if told and 2 * len(sure) <= len(told) and not has_habit:
        return (
            "whether the window restarted is not told: no data, or no room in the receiver's window, was left to send"
        )
    unasked = sum(each.is_unasked and not each.sure for each in seen.episodes)
    is_missing = 2 * unasked > len(seen.episodes) or answers_missing(seen)
    if who.view is None and who.order is None and is_missing:
        # By a sender that has its timer, or duplicates, to go by: the answers to what it sent are missing as well.
        return "what asked for most of what was sent again, or answered it, was not captured: nor is the window told"
    if who.tap.exceeds_scale and any(each.restarts and each.detected_by == "sack" for each in seen.episodes):
        # So little as one segment sends one that the receiver's window has shut, too.
        return "ACKs are missing, or windows larger than the SYNs say: whether one left room after a loss is not told"
    if who.put_back is not None and timeouts_unseen(seen):
        return "a pause may be a timeout: what was lost at its beginning was never asked for at the tap"
    if (who.view is not None or who.order is not None) and any(
        each.restarts and each.time_ns - each.lost_sent_ns < MAJORITY * seen.base_rtt_ns for each in seen.episodes
    ):
        # Nobody asks for what has just left: when it had is not known, nor what the sender had heard since.
        return "when what was lost had left is not told: nor whether a timer, or duplicate ACKs, asked for it again"
    if who.view is not None and any(
        each.detected_by == "rto" and each.is_loss and not each.restarts for each in seen.episodes
    ):
        # RFC 5681 section 3.1: a timer leaves its sender one segment. What was put back stands elsewhere.
        return "a timer went off, and the restart behind it is not seen where it was"
    return None


def _never_restarts(told: Sequence[Episode], who: Sender) -> bool:
    """Whether its losses show that a sender does not go back to one segment, where nothing is out of order.

    It has one algorithm: where nothing is missing one sure loss tells the others. So do several at which more was sent
    than the lost segment before that was answered, for which a window of one has no room (RFC 5681 section 3.1).
    """
    is_ordered = who.view is None and who.order is None and not (who.is_blurred or who.tap.is_coarse)
    if not is_ordered or who.tap.disordered or any(each.restarts for each in told):
        return False
    goes_on = [each.round_trip_sends > 1 for each in told]
    is_sure = not who.tap.is_holed and any(each.sure for each in told)
    return is_sure or (len(told) >= FEWEST_ALIKE and all(goes_on))
