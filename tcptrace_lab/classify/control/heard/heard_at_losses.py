"""What a control heard of a sender of which losses alone show the window: marks at them, and between where it shows."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tcptrace_lab.classify.control.heard.ack_columns import AckColumns
from tcptrace_lab.classify.control.heard.heard import Heard
from tcptrace_lab.classify.control.heard.marks import SET, TIMEOUT, Many, Mark
from tcptrace_lab.classify.control.heard.parts import Losses
from tcptrace_lab.reconstruct.given import FEWEST_ALIKE
from tcptrace_lab.reconstruct.losses import DUP_THRESH, Episode
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Floats


class HeardAtLosses(Heard):
    """What a control heard of a sender that nothing but its window held back, of which losses alone show the window.

    `transmitted`: of what was outstanding at a loss, so many segments were beyond it; None: up to as many as can be.
    `is_early`: also losses of what left within a recovery.
    """

    def __init__(
        self,
        seen: Reconstruction,
        transmitted: int | None,
        columns: AckColumns | None = None,
        *,
        handshake_rtt_ns: int | None = None,
        is_early: bool = False,
    ) -> None:
        self.is_early = is_early
        most = DUP_THRESH - 1
        self.transmitted = (most if transmitted is None else transmitted) * seen.timeline.smss
        self.open = most * seen.timeline.smss if transmitted is None else 0
        super().__init__(seen, handshake_rtt_ns, columns=columns)
        self.limited = np.ones_like(self.limited)

    @property
    def always_restarts(self) -> bool:
        """Whether its every loss made the sender go back to one segment (Tahoe), and not a timer alone."""
        events = [episode for episode in self.seen.episodes if episode.is_loss]
        return all(each.restarts for each in events) and any(each.detected_by != "rto" for each in events)

    def _mark_parts(self) -> None:
        return

    def within(self, before: Episode, loss: Episode) -> list[tuple[int, int]]:
        """ACKs between two losses behind which the flight is known and is the window, each with a mark of its own.

        The first, the last and the one in the middle: of a law they tell from where it goes on, how far and how bent.
        """
        timeline = self.timeline
        if not len(timeline.slack):
            return []
        over = int(np.searchsorted(timeline.snd_una, before.recover, side="left"))
        # Not what left before the first loss of the next cycle was noticed: from there on one lost may be missing.
        until = int(np.searchsorted(timeline.snd_una, loss.una - loss.flight, side="left"))
        if until <= over:
            return []
        acks = np.arange(over, until)
        # All that had left when the recovery was over is acknowledged: more than the window may have been outstanding.
        is_new = timeline.snd_una[acks] >= self.top[over] + timeline.slack[over]
        # RFC 5681 section 3.1: a window at work answers what is acknowledged. An ACK that released nothing found it
        # smaller than what was outstanding, or what it released came late behind other flows' segments.
        released = timeline.sends_before_next_ack[acks] > timeline.sends_before_next_ack[np.maximum(acks - 1, 0)]
        known = acks[is_new & released & (timeline.slack[acks] == 0) & (timeline.newly_acked[acks] > 0)]
        chosen = sorted({int(known[place]) for place in (0, len(known) // 2, -1)}) if len(known) else []
        return [(ack, self.marks.add(Mark(ack=ack, event=SET, now_ns=int(timeline.ack_ns[ack])))) for ack in chosen]

    def _of_losses(self, losses: Losses) -> list[Many]:
        at = {"ack": losses.known - 1, "now_ns": losses.time_ns}
        return [Many(place=losses.place, event=SET, columns=at), *super()._of_losses(losses)]

    @cached_property
    def is_offered_more(self) -> bool:
        """Whether the windows offered are larger than they seem: where no SYN tells their scale they are taken for the
        least that fit but for a few sends, and a sender keeps to the window offered (RFC 9293 section 3.8.6)."""
        timeline = self.timeline
        if timeline.has_scale:
            return False
        beyond = self.flight - (timeline.slack if len(timeline.slack) else 0) > timeline.rwnd
        return bool(np.count_nonzero(beyond) >= FEWEST_ALIKE)

    @cached_property
    def before_mark(self) -> dict[int, int]:
        """Where a candidate's own window is read before it hears of a loss."""
        marks = zip(self.seen.episodes, self.loss_marks.tolist(), strict=True)
        return {id(episode): mark - 1 for episode, mark in marks if mark >= 0}

    @cached_property
    def unsettled(self) -> set[int]:
        """The losses before which the window that a recovery had left was not at work yet."""
        return {id(self.seen.episodes[number]) for number in np.flatnonzero(self.is_unsettled).tolist()}

    def _told_of(self, losses: Losses) -> dict[str, Floats]:
        told = super()._told_of(losses)
        own = (losses.kind != TIMEOUT) & ~losses.follows & ~self.is_unsettled[losses.event]
        # RFC 5681 section 3.2 (2): what limited transmit added is no part of FlightSize either.
        told["cwnd"][own] = told["flight_size"][own] = np.maximum(
            losses.flight[own] - self.transmitted, self.timeline.smss
        )
        told["more"][own] = told["more_flight"][own] = self.open
        told["less"][own] = 0.0
        return told

    def window_before(self, episode: Episode) -> float:
        """The window at a loss, the least, in bytes."""
        return float(max(episode.flight - self.transmitted, self.timeline.smss))
