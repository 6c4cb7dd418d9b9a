"""What a control heard of a sender of which losses alone show the window: marks at them, and between where it shows."""

from __future__ import annotations

import numpy as np

from tcptrace_lab.classify.control.ack_columns import AckColumns
from tcptrace_lab.classify.control.heard import Heard
from tcptrace_lab.classify.control.marks import LOSS, RESTART, SET, Mark
from tcptrace_lab.reconstruct.losses import DUP_THRESH, Episode
from tcptrace_lab.reconstruct.phases import Stretch
from tcptrace_lab.reconstruct.reconstruction import Reconstruction


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
        # Where a candidate's own window is read before it hears of a loss.
        self.before_mark: dict[int, int] = {}
        most = DUP_THRESH - 1
        self.transmitted = (most if transmitted is None else transmitted) * seen.timeline.smss
        self.open = most * seen.timeline.smss if transmitted is None else 0
        super().__init__(seen, handshake_rtt_ns, columns=columns)
        self.limited = np.ones_like(self.limited)

    @property
    def always_restarts(self) -> bool:
        """Whether its every loss made the sender go back to one segment (Tahoe)."""
        return all(episode.restarts for episode in self.seen.episodes if episode.is_loss)

    def _begin(self, number: int, part: Stretch) -> None:
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
        known = acks[is_new & (timeline.slack[acks] == 0) & (timeline.newly_acked[acks] > 0)]
        chosen = sorted({int(known[place]) for place in (0, len(known) // 2, -1)}) if len(known) else []
        return [(ack, self.marks.add(Mark(ack=ack, event=SET, now_ns=int(timeline.ack_ns[ack])))) for ack in chosen]

    def _mark_loss(self, episode: Episode, known: int, event: int, *, is_within: bool) -> None:
        self.before_mark[id(episode)] = self.marks.add(Mark(ack=known - 1, event=SET, now_ns=episode.time_ns))
        super()._mark_loss(episode, known, event, is_within=is_within)
        if event in (LOSS, RESTART) and not episode.follows and id(episode) not in self.unsettled:
            marks, mark = self.marks, self.loss_mark[id(episode)]
            # RFC 5681 section 3.2 (2): what limited transmit added is no part of FlightSize either.
            marks.cwnd[mark] = marks.flight_size[mark] = self.window_before(episode)
            marks.more[mark] = marks.more_flight[mark] = self.open
            marks.less[mark] = 0.0

    def window_before(self, episode: Episode) -> float:
        """The window at a loss, the least, in bytes."""
        return float(max(episode.flight - self.transmitted, self.timeline.smss))
