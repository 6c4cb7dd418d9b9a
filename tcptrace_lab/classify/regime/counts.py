"""Why the loss cycles of a capture are not counted, and when its regime is not told either.

Where packets are missing the regime still stands, not how many cycles there were: one may be two, two one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from tcptrace_lab.classify.obstacles import empty_share
from tcptrace_lab.classify.regime.by_order import tells_regime
from tcptrace_lab.classify.regime.slow_starts import VARIED, SlowStarts
from tcptrace_lab.classify.sender.by_losses import is_doubtful
from tcptrace_lab.classify.sender.recovering import has_no_block, waits_first
from tcptrace_lab.reconstruct.away.sender_view import MOST_OPEN
from tcptrace_lab.reconstruct.given import DELAYED_ACK_SEGMENTS, FEWEST_ALIKE, MAJORITY, MINORITY
from tcptrace_lab.reconstruct.losses import DUP_THRESH, Episode
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import Sender
from tcptrace_lab.reconstruct.tap.tap import COARSE_NS
from tcptrace_lab.reconstruct.tap.unheard import unheard_behind

MIXED = "super-segments (offload) of a sender that restarts at some of its losses: at which is not seen"
AS_ONE_ENDS = "what was sent again as a recovery ended may have begun the next: where cycles begin is not told of each"


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What the cycles that were counted, as `starts`, rest on.

    `is_paced`: by a rate of the sender's own; `is_open`: what limited it is not told most of the time.
    """

    starts: SlowStarts
    seen: Reconstruction
    who: Sender
    is_paced: bool
    is_open: bool

    def why_not(self) -> str | None:
        """Why there may be more or fewer; None: they are as many."""
        seen, tap, clock = self.seen, self.who.tap, self.who.tap.clock
        if self._is_inferred or self._has_no_block or self._is_missing:
            return "packets are missing: where one loss cycle ends and the next begins is not told of each"
        if mixes_restarts(seen, self.who):
            return MIXED
        if self._joined:
            return "a loss event begins within a tick of the last one's end: which loss is whose is not told"
        if self._first_opened:
            return "whether the first slow start had ended before its loss is not told: nor whether that begins a cycle"
        if clock.is_coarse and _begins_as_one_ends(seen, clock.doubt_ns):
            return AS_ONE_ENDS
        if self._is_untimed:
            return f"{_hides_timers(self.who)}, and whether a timer made each restart is not told"
        if self._is_cut:
            return "options are cut: what a missing block told of a loss, or whether a timer did, is not told of each"
        if tap.shift.value is None and _ends_at_window(seen):
            return "a slow start ended at the least window that was offered (scale unknown): whether by it is not told"
        if clock.stepped_ns > seen.base_rtt_ns:
            return "the clock was set back by more than a round trip: what happened then is not told"
        is_written = self.who.view is None and seen.limits.get("application", 0.0) >= MAJORITY
        if not self.is_paced and is_written and empty_share(seen) < MINORITY:
            return "most of the time no ACK released segments at once: what a loss made of the window is not told"
        if clock.jitter_ns and self.is_open:
            return (
                "stamps jitter, and most of the time more than one limit fits: where a cycle ends is not told of each"
            )
        if clock.stalled_ns > seen.base_rtt_ns:
            return "the tap did not read for longer than a round trip: what happened then is not told"
        return None

    @property
    def is_blind(self) -> bool:
        """Whether the regime is not told either, where the counts are not."""
        episodes = self.seen.episodes
        # Each of these may be the cycle before, gone on: of those behind the first none may be left.
        later = len(self.starts.per_cycle) - (self.starts.initial is not None)
        is_last = not later and (
            # The first cycle tells the regime where no loss begins another, as one that restarts its sender does not.
            (self._goes_on and (self._has_no_block or len(episodes) != 1))
            # Nor where that event may be two, as what ended the first of them was not captured.
            or _goes_beyond(self.seen)
            # Nor where a hole beside that event was filled by nothing captured: that one may begin a cycle.
            or self.who.tap.repairs[1] > 0
            # Nor where that count, which is the regime of the only cycle, rests on what asked for each repair.
            or self._is_untimed
            or self._is_cut
        )
        return (
            is_last
            or 0 < later <= self._joined + self._first_opened
            or 0 < later <= self._restarts_inferred
            or (self._by_rhythm and tells_regime(self.seen, self.starts) is None)
            # One restart more joins two cycles.
            or self._departs
            # Nor what followed a loss, where something was sent again with nothing outstanding.
            or any(each.is_unasked and each.una == each.recover for each in episodes)
            or (self.seen.is_stretched and any(each.restarts and not each.sure for each in episodes))
            # That counts differ is no more told than they are.
            or self.starts.regime == VARIED
        )

    @property
    def _goes_on(self) -> bool:
        """Whether it restarts at no more than half of its losses."""
        return 2 * sum(each.restarts for each in self.seen.episodes) <= len(self.seen.episodes)

    @property
    def _restarts_inferred(self) -> int:
        """How many restarts behind the first loss rest on times that were inferred, where none of all is sure."""
        restarts = [each.restarts for each in self.seen.episodes]
        is_shown = any(each.restarts and each.sure for each in self.seen.episodes)
        return 0 if self.who.view is None or is_shown else sum(restarts[1:])

    @property
    def _by_rhythm(self) -> bool:
        return self.who.view is not None and self.who.view.is_inferred

    @property
    def _is_inferred(self) -> bool:
        """Where times were inferred from ACKs, a segment that left a little sooner or later makes two recoveries of
        one, a restart of a recovery, or a loss in avoidance of one in slow start."""
        seen, view = self.seen, self.who.view
        if view is None:
            return False
        # What the end of the capture cuts short is not counted.
        counted = (each for each in seen.episodes if each.time_ns < self.starts.cycles[-1].end_ns)
        # Nor is where a slow start ended: few cycles may agree by chance.
        are_few = max(Counter(self.starts.per_cycle).values()) < FEWEST_ALIKE
        lost_more = seen.lost_again > MINORITY * (self.who.put_back or 0)
        return (
            any(map(is_doubtful, counted))
            or (self._by_rhythm and (self._goes_on or are_few))
            or (self._goes_on and (view.unsure > MOST_OPEN or lost_more))
        )

    @cached_property
    def _has_no_block(self) -> bool:
        """Without any block two events are one where the second's losses were the first's, or filled in that."""
        return has_no_block(self.seen, self.who.tap) and self._goes_on and len(self.seen.episodes) > 0

    @property
    def _is_missing(self) -> bool:
        """Whether packets are missing beside its loss events, or events of which nothing captured tells."""
        seen, tap = self.seen, self.who.tap
        is_beside = tap.blurs_flight or not (seen.episodes and _is_untouched(seen))
        return (
            (tap.is_holed and is_beside)
            or self._departs
            # A hole that nothing captured has filled is an event that is not in the table; nor is one between captured
            # ACKs.
            or tap.repairs[1] > 0
            or (tap.may_miss_acks and len(unheard_behind(seen.timeline)) > 0)
        )

    @cached_property
    def _departs(self) -> bool:
        return self.who.tap.tap_lost_acks > 0 and _departs_once(self.seen)

    @cached_property
    def _joined(self) -> int:
        clock = self.who.tap.clock
        return _joined(self.seen, max(clock.resolution_ns, clock.stalled_ns))

    @property
    def _first_opened(self) -> bool:
        """A restart goes on with the cycle of a slow start that lost, and begins one behind avoidance."""
        seen, view = self.seen, self.who.view
        is_unsure = view is not None and view.unsure > MINORITY and bool(seen.episodes) and seen.episodes[0].restarts
        return (self.who.tap.is_coarse or seen.is_stretched or is_unsure) and _ends_before_loss(seen)

    @property
    def _is_untimed(self) -> bool:
        """Whether a timer's restart may be another's, as what came just before may have come behind it."""
        return _hides_timers(self.who) is not None and any(
            not each.sure and (each.restarts or each.detected_by == "rto") for each in self.seen.episodes
        )

    @property
    def _is_cut(self) -> bool:
        return self.who.tap.hides_blocks and any(map(_may_hide_block, self.seen.episodes))


def mixes_restarts(seen: Reconstruction, who: Sender) -> bool:
    """Whether offload hides at which losses it restarted: what was lost again is a part of a super-segment, and one
    restart more or less makes another cycle."""
    restarts = sum(episode.restarts for episode in seen.episodes)
    return bool(who.tap.offload_bytes) and 1 < restarts < sum(episode.is_loss for episode in seen.episodes)


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


def _goes_beyond(seen: Reconstruction) -> bool:
    """Whether in a recovery something was sent again of which nothing had left as it began: without SACK no sender asks
    for that before the recovery is over (RFC 6582), and the ACK that ended it is missing."""
    timeline = seen.timeline
    if timeline.has_sack:
        return False
    again = np.flatnonzero(timeline.is_retransmission)
    offsets = timeline.send_offset[again]
    bounds = [*(each.first_send for each in seen.episodes), len(timeline.send_ns)]
    within = np.searchsorted(again, bounds)
    return any(
        not each.restarts and (offsets[first:behind] >= each.recover).any()
        for each, first, behind in zip(seen.episodes, within[:-1], within[1:], strict=True)
    )


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
    told = [each for each in seen.episodes if each.is_asked]
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
