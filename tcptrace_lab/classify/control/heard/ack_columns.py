"""What stands beside each ACK whoever the sender was: the same in every reading of a capture."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from tcptrace_lab import _core
from tcptrace_lab.classify.control.heard.round_trips import covered, round_trips, round_trips_of_sacked
from tcptrace_lab.classify.path.runs import sent_unseen
from tcptrace_lab.reconstruct.given import BLUR_SEGMENTS, DELAYED_ACK_SEGMENTS
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Bools, Ints, Timeline
from tcptrace_lab.reconstruct.windows import CWND, RECOVERY, RWND, fills_rwnd

# Without a loss no control takes back more of its window than leaves it this part: an upper bound farther above what is
# outstanding is that of what came before.
KEPT_SHARE = 0.5


class AckColumns:
    """Columns with an entry per ACK; not to be changed."""

    def __init__(self, seen: Reconstruction, handshake_rtt_ns: int | None) -> None:
        timeline = seen.timeline
        sent = _core.places(timeline.send_ns, timeline.ack_ns)
        first, una = timeline.first_offset, timeline.snd_una
        top = np.where(sent > 0, timeline.snd_max[np.maximum(sent - 1, 0)] if len(timeline.snd_max) else 0, first)
        # What left before the capture is acknowledged in it, and counts (Westwood's bandwidth; what is outstanding).
        begin = first if timeline.has_start or not len(una) else min(first, int(una[0]))
        top -= begin
        self.top: Ints = top
        self.una = una if begin == 0 and una.min(initial=0) == 0 else np.maximum(una - begin, 0)
        self.newly_acked = timeline.newly_acked
        if not timeline.has_start:
            # How much of what left before the capture one ACK told of is not seen: it may have filled a hole.
            most = np.where(una <= sent_unseen(seen), DELAYED_ACK_SEGMENTS * timeline.smss, np.inf)
            self.newly_acked = np.minimum(timeline.newly_acked, most).astype(np.int64)
        # Something is told to have arrived.
        self.has_news: Bools = self.newly_acked + np.diff(timeline.sacked, prepend=0) > 0
        # With SACK blocks about, what is outstanding is not what is on the path.
        limited_by, is_bound, may_be_rwnd = _limited(timeline)
        self.limited: Bools = (limited_by == CWND) & (timeline.sacked == 0) & ~(seen.stands | may_be_rwnd)
        # Before a recovery: what held the sender back last.
        told = np.where(limited_by == RECOVERY, 0, np.arange(len(limited_by), dtype=np.int32))
        self.is_held_back: Bools = (may_be_rwnd | seen.stands)[np.maximum.accumulate(told)]
        self.fills_rwnd: Bools = limited_by == RWND
        self.has_sent: Bools = timeline.sends_before_next_ack > sent
        # Where an ACK released something and nothing is SACKed; and where it did and the window is the limit.
        self.sends_in_order = self.has_sent & (timeline.sacked == 0)
        self.sends_by_window = self.has_sent & self.limited
        self.shown = self.sends_by_window & is_bound
        self.tells_flight: Bools = ~(_holds_another(seen) | _lacks_next(timeline))
        # What comes before any data, no control hears of.
        self.first = int(np.searchsorted(sent, 0, side="right"))
        self.round: npt.NDArray[np.int32] = _core.rounds(self.una, np.maximum(top, self.una))

        self.round_trips = _round_trips(timeline, handshake_rtt_ns)
        # Few ask what had arrived again, and those of a few ACKs; all that is held from here on is held together.
        timeline.let_go("delivered")

    def keep(self, read: Collection[tuple[int | None, bool]]) -> None:
        """Lets the other round trips go (by the handshake's that was told, and whether of what is SACKed): nobody asks
        for them again."""
        self.round_trips = {each: self.round_trips[each] for each in read}


def _round_trips(timeline: Timeline, handshake_rtt_ns: int | None) -> dict[tuple[int | None, bool], Ints]:
    """What each ACK told of the round trip, to a sender that was told the handshake's or not.

    And, of each, to one that takes one of what is SACKed (Linux), at a hole too, and stamps as they are. One array for
    all that agree.
    """
    known, found = covered(timeline), dict[tuple[int | None, bool], Ints]()
    rows, sacked = round_trips_of_sacked(timeline)
    for told in dict.fromkeys((None, handshake_rtt_ns)):
        for of_sacked in (False, True):
            column = round_trips(timeline, known, told, by_stamps=of_sacked)
            if of_sacked and timeline.has_sack:
                column = column.copy()
                column[rows] = sacked
            equals = (each for each in found.values() if each is column or np.array_equal(each, column))
            found[told, of_sacked] = next(equals, column)
    return found


def _holds_another(seen: Reconstruction) -> Bools:
    """ACKs behind which the tap missed another: what that released seems to be theirs, until the next that is captured
    tells of what both do, and no more is outstanding than before."""
    flight, moved, smss = seen.flight, seen.timeline.newly_acked, seen.timeline.smss
    found = np.zeros(len(flight), dtype=bool)
    rises, falls = np.diff(flight)[:-1] >= smss, np.diff(flight)[1:] <= -smss
    found[1:-1] = rises & falls & (moved[1:-1] > 0) & (moved[2:] >= moved[1:-1] + smss)
    return found


def _lacks_next(timeline: Timeline) -> Bools:
    """ACKs that may have released what the tap missed: the next segment begins beyond all that was captured before."""
    sent = timeline.sends_before_next_ack
    known = np.flatnonzero((sent > 0) & (sent < len(timeline.send_ns)))
    found = np.zeros(len(sent), dtype=bool)
    found[known] = timeline.send_offset[sent[known]] > timeline.snd_max[sent[known] - 1]
    return found


def _limited(timeline: Timeline) -> tuple[Ints, Bools, Bools]:
    """What was the limit at each ACK, whether what is outstanding bounds the window from above, and whether it may fill
    the receiver's."""
    table = timeline.observed.windows()
    # A row per ACK, and one per restart behind its ACK's.
    at = _core.places(table["time_ns"], timeline.ack_ns)
    limited_by, high = table["limited_by"][at], table["cwnd_high"][at]
    low, blur = table["cwnd_low"][at], BLUR_SEGMENTS * timeline.smss
    is_bound = (high >= 0) & (np.minimum(KEPT_SHARE * high, high - blur) <= low)
    may_be_rwnd = limited_by == RWND
    if len(timeline.slack):
        may_be_rwnd |= (limited_by == CWND) & fills_rwnd(timeline)
    return limited_by, is_bound, may_be_rwnd
