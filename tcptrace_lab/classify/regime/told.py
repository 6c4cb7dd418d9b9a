"""What of its slow starts a capture carries: counts and regime, the regime alone, or neither, with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from tcptrace_lab.classify.obstacles import TICKS_PER_ROUND, Obstacles, empty_share, least_rtt_ns, obstacles_of_run
from tcptrace_lab.classify.path.causes import timeouts_unseen
from tcptrace_lab.classify.regime.by_order import regime_by_order, single_without_loss, tells_regime
from tcptrace_lab.classify.regime.slow_starts import UNDECIDED, VARIED, SlowStarts, count_slow_starts
from tcptrace_lab.classify.sender.by_losses import is_doubtful
from tcptrace_lab.classify.sender.recovering import answers_missing, has_no_block, waits_first
from tcptrace_lab.numbers import duration
from tcptrace_lab.reconstruct.away.sender_view import MOST_OPEN
from tcptrace_lab.reconstruct.given import DELAYED_ACK_SEGMENTS, FEWEST_ALIKE, MAJORITY, MINORITY
from tcptrace_lab.reconstruct.losses import DUP_THRESH, Episode
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import Sender
from tcptrace_lab.reconstruct.tap.tap import COARSE_NS
from tcptrace_lab.reconstruct.tap.unheard import unheard_behind

MIXED = "super-segments (offload) of a sender that restarts at some of its losses: at which is not seen"


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
    return _without_counts(count_slow_starts(seen, obstacles), seen, who, is_paced=is_paced, is_open=is_open)


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
    if _mixes_restarts(seen, who) and sum(episode.restarts for episode in seen.episodes) > MINORITY * losses:
        return MIXED
    return None


def _mixes_restarts(seen: Reconstruction, who: Sender) -> bool:
    """Whether offload hides at which losses it restarted: what was lost again is a part of a super-segment, and one
    restart more or less makes another cycle."""
    restarts = sum(episode.restarts for episode in seen.episodes)
    return bool(who.tap.offload_bytes) and 1 < restarts < sum(episode.is_loss for episode in seen.episodes)


def _hides_restarts(seen: Reconstruction, who: Sender) -> str | None:
    """Where what followed a loss was inferred, not captured, and not well enough to tell a restart."""
    # RFC 5681 section 3.2: a loss is repaired at the third duplicate ACK. Put so much later, it was not put right.
    if who.is_blurred and any(each.dupacks > FEWEST_ALIKE * DUP_THRESH for each in seen.episodes):
        return "without timestamps the ACK that released each segment is open: what followed a loss is not told"
    told = [each for each in seen.episodes if each.detected_by in ("dupack", "sack")]
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


def _without_counts(
    starts: SlowStarts, seen: Reconstruction, who: Sender, *, is_paced: bool, is_open: bool
) -> SlowStarts:
    """Where packets are missing the regime still stands, not how many cycles there were: one may be two, two one.

    `is_paced`: by a rate of the sender's own; `is_open`: what limited it is not told most of the time.
    """
    # Without a loss there is one; whether there was none is told where each hole's repair was captured.
    if not starts.per_cycle or (not seen.episodes and starts.per_cycle[0] and not who.tap.repairs[1]):
        return starts
    # Where times were inferred from ACKs, a segment that left a little sooner or later makes two recoveries of one, a
    # restart of a recovery, or a loss in avoidance of one in slow start.
    view, goes_on = who.view, 2 * sum(each.restarts for each in seen.episodes) <= len(seen.episodes)
    by_rhythm = view is not None and view.is_inferred
    # What the end of the capture cuts short is not counted.
    counted = (each for each in seen.episodes if each.time_ns < starts.cycles[-1].end_ns)
    # Nor is where a slow start ended: few cycles may agree by chance.
    are_few = max(Counter(starts.per_cycle).values()) < FEWEST_ALIKE
    is_inferred = view is not None and any(map(is_doubtful, counted))
    is_inferred |= by_rhythm and (goes_on or are_few)
    if view is not None and goes_on:
        is_inferred |= view.unsure > MOST_OPEN or seen.lost_again > MINORITY * (who.put_back or 0)
    clock = who.tap.clock
    blur_ns = max(clock.resolution_ns, clock.stalled_ns)
    joined = _joined(seen, blur_ns)
    # A restart goes on with the cycle of a slow start that lost, and begins one behind avoidance.
    is_unsure = view is not None and view.unsure > MINORITY and bool(seen.episodes) and seen.episodes[0].restarts
    first_opened = (who.tap.is_coarse or seen.is_stretched or is_unsure) and _ends_before_loss(seen)
    is_missing = who.tap.is_holed
    # Without any of the blocks two events are one where the second's losses were the first's, or filled in that.
    has_none = has_no_block(seen, who.tap) and goes_on and len(seen.episodes) > 0
    is_missing &= who.tap.blurs_flight or not (seen.episodes and _is_untouched(seen))
    # A hole that nothing captured has filled is an event that is not in the table; nor is one between captured ACKs.
    departs = who.tap.tap_lost_acks > 0 and _departs_once(seen)
    is_missing |= departs
    is_missing |= who.tap.repairs[1] > 0 or (who.tap.tap_lost_acks > 0 and len(unheard_behind(seen.timeline)) > 0)
    how = _hides_timers(who)
    is_untimed = how is not None and any(
        not each.sure and (each.restarts or each.detected_by == "rto") for each in seen.episodes
    )
    is_cut = who.tap.hides_blocks and any(map(_may_hide_block, seen.episodes))
    if is_inferred or has_none or is_missing:
        why = "packets are missing: where one loss cycle ends and the next begins is not told of each"
    elif _mixes_restarts(seen, who):
        why = MIXED
    elif joined:
        why = "a loss event begins within a tick of the last one's end: which loss is whose is not told"
    elif first_opened:
        why = "whether the first slow start had ended before its loss is not told: nor whether that begins a cycle"
    elif clock.is_coarse and _begins_as_one_ends(seen, clock.doubt_ns):
        why = "what was sent again as a recovery ended may have begun the next: where cycles begin is not told of each"
    elif is_untimed:
        why = f"{how}, and whether a timer made each restart is not told"
    elif is_cut:
        why = "options are cut: what a missing block told of a loss, or whether a timer did, is not told of each"
    elif who.tap.shift.value is None and _ends_at_window(seen):
        why = "a slow start ended at the least window that was offered (scale unknown): whether by it is not told"
    elif clock.stepped_ns > seen.base_rtt_ns:
        why = "the clock was set back by more than a round trip: what happened then is not told"
    elif (
        not is_paced
        and view is None
        and seen.limits.get("application", 0.0) >= MAJORITY
        and empty_share(seen) < MINORITY
    ):
        why = "most of the time no ACK released segments at once: what a loss made of the window is not told"
    elif clock.jitter_ns and is_open:
        why = "stamps jitter, and most of the time more than one limit fits: where a cycle ends is not told of each"
    elif clock.stalled_ns > seen.base_rtt_ns:
        why = "the tap did not read for longer than a round trip: what happened then is not told"
    else:
        return starts
    # Each of these may be the cycle before, gone on: of those behind the first none may be left.
    later = len(starts.per_cycle) - (starts.initial is not None)
    is_blind = 0 < later <= joined + first_opened or (by_rhythm and tells_regime(seen, starts) is None)
    # The first cycle tells the regime where no loss begins another, as one that restarts its sender does not.
    is_blind |= not later and goes_on and (has_none or len(seen.episodes) != 1)
    # Nor where a hole beside that event was filled by nothing captured: that one may begin a cycle.
    is_blind |= not later and who.tap.repairs[1] > 0
    # Nor where that count, which is the regime of the only cycle, rests on what asked for each repair.
    is_blind |= not later and (is_untimed or is_cut)
    # One restart more joins two cycles.
    is_blind |= departs
    # Nor what followed a loss, where something was sent again with nothing outstanding.
    is_blind |= any(each.is_unasked and each.una == each.recover for each in seen.episodes)
    is_blind |= seen.is_stretched and any(each.restarts and not each.sure for each in seen.episodes)
    # That counts differ is no more told than they are.
    is_blind |= starts.regime == VARIED
    regime = UNDECIDED if is_blind else starts.regime
    return replace(starts, per_cycle=(), initial=None, cycles=(), regime=regime, reasons=(*starts.reasons, why))


def _hides_timers(who: Sender) -> str | None:
    """Why what came just before a segment that was sent again may have come behind it; None: it has not."""
    if who.tap.is_coarse:
        return "the clock is coarse"
    return "packets are out of order" if who.tap.disordered else None


def _may_hide_block(each: Episode) -> bool:
    """Whether a block would have told of its loss sooner: of what fewer duplicates than three, or the end of another
    recovery, or a timer behind some, seems to have asked for."""
    is_timers = each.restarts and each.detected_by == "rto" and each.dupacks > 0
    return is_timers or each.follows or each.detected_by == "reordering"


def _ends_before_loss(seen: Reconstruction) -> bool:
    """Whether the slow start that the connection begins with seems to have ended before its loss.

    RFC 5681 section 3.1: its threshold is arbitrarily high. What ends it sooner (a delay that rises) is told by how
    much each ACK adds to the flight, as long as each is seen by itself.
    """
    first = seen.stretches[0]
    return first.begin == "connection" and first.has_threshold and first.episode is not None


def _joined(seen: Reconstruction, blur_ns: float) -> int:
    """How many loss events begin within what a clock tells of the end of the one before."""
    if blur_ns <= COARSE_NS:
        return 0
    # One segment behind a silence is a timer's, whatever the clock.
    return sum(
        after.detected_by != "rto" and after.time_ns - before.end_ns <= blur_ns
        for before, after in pairwise(seen.episodes)
    )


def _begins_as_one_ends(seen: Reconstruction, blur_ns: float) -> bool:
    """Whether something sent beyond what a recovery repairs was sent again so soon before the ACK that ended it that
    this may have released it: the next recovery's first."""
    timeline = seen.timeline
    again = np.flatnonzero(timeline.is_retransmission)
    for each in seen.episodes:
        soon = slice(*np.searchsorted(timeline.send_ns[again], [each.end_ns - blur_ns, each.end_ns]))
        if not each.restarts and (timeline.send_offset[again[soon]] >= each.recover).any():
            return True
    return False


def _is_untouched(seen: Reconstruction) -> bool:
    """Whether what the tap lost lies beside every loss event, and each that duplicate ACKs tell of was seen."""
    timeline = seen.timeline
    told, counts = np.unique(timeline.snd_una[timeline.is_dupack], return_counts=True)
    begun = np.array([each.una for each in seen.episodes], dtype=np.int64)
    over = np.array([each.recover for each in seen.episodes], dtype=np.int64)
    asked = told[counts >= DUP_THRESH]
    at = np.searchsorted(begun, asked, side="right") - 1
    is_seen = (at >= 0) & (asked < np.maximum.accumulate(over)[at]) if len(begun) else asked < 0
    # A timer restarts its sender: what goes on was asked for.
    is_told = all(each.dupacks or each.restarts or each.detected_by != "rto" for each in seen.episodes)
    return bool(is_seen.all()) and is_told and all(each.sure for each in seen.episodes)


def _departs_once(seen: Reconstruction) -> bool:
    """Whether a sender that restarts at its losses seems to go on at one, but waited for a round trip, or sent no more
    than what an ACK releases at a window of one: so it is where that ACK is missing."""
    told = [each for each in seen.episodes if each.detected_by in ("dupack", "sack")]
    few = [not each.restarts and each.round_trip_sends <= 1 + DELAYED_ACK_SEGMENTS for each in told]
    is_one = any(few) or any(waits_first(seen, each) for each in told)
    return is_one and 2 * sum(each.restarts for each in told) > len(told)


def _ends_at_window(seen: Reconstruction) -> bool:
    """Whether the receiver's window, as it is taken to be, is why a slow start's end is no threshold's.

    Nothing but the loss ended one that grew up to it.
    """
    parts = [part for part in seen.stretches if part.episode is None or part.peak != part.last]
    peaks = [part.peak for part in parts if part.peak is not None and not part.has_threshold]
    return bool((seen.flight[peaks] + seen.timeline.smss > seen.timeline.rwnd[peaks]).any())
