"""BBR told by what only a sender paced by a model of the path does (draft-cardwell-iccrg-bbr-congestion-control-00).

Section 4.3.4: in ProbeBW its pace is 1.25 times the bottleneck's for a round trip, 0.75 times for the next, then even
for six: a cycle of eight, whether or not anything is lost. Section 4.3.5: every ten seconds without a smaller round
trip it holds four segments in flight for 200 ms and a round trip, and then goes on at the rate it had. No window-based
control does either; between them its segments leave by a rate, not by ACKs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.control.bbr.kept import DRAINED_SHARE
from tcptrace_lab.classify.path.runs import touches
from tcptrace_lab.reconstruct.given import FEWEST_ALIKE, MAJORITY, PAUSE_SHARE, WITHIN_SEGMENTS
from tcptrace_lab.reconstruct.losses import Episode
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Bools, Floats, Ints, Places, Timeline

# A delayed ACK, and a round trip, more until a probe ends.
SLACK_NS = 45_000_000
# A flight of less than this much more is no flight to come down from.
LEAST_SHARE = 2.0
# The pace is taken in halves of the least round trip; what is usual is the median of two cycles around: so many on
# either side.
PER_ROUND = 2
USUAL_HALVES = _core.BBR_CYCLE_ROUNDS * PER_ROUND
# A quarter more of fewer segments than the first in a half is lost in their size, but for a pattern that is there most
# of the time, or most times at which more is sent; of fewer than the second in the times at which they leave.
FEWEST_SEGMENTS, FEWEST_THROUGHOUT = 6, 1
# Of the usual pace: a probe's is a quarter more, the others', but for one that drains, are even. What a boundary of
# halves cuts in two lies between.
PROBE, EVEN = (1.15, 1.35), (0.95, 1.05)
LEAST_MORE_SHARE = 1.1
# Behind a probe a drain sends less, and no less than that of what is even.
LEAST_DRAINED_SHARE = DRAINED_SHARE * EVEN[0]
# A quarter more for two halves is half of one, some of which a drain behind it takes back before its half is over.
LEAST_SURPLUS_HALVES = 0.3
# A probe lasts a round trip, and until a quarter more is outstanding or something is lost: so many halves at most.
LONGEST_HALVES = 8
# Of six even round trips between two probes so many halves, but for what a boundary cuts and a loss makes uneven.
EVEN_HALVES = 8
# From one to the next: eight round trips, less a drain that is soon over, more for a probe that lasts.
CYCLE_HALVES = (14, 24)
# A sender that has not shown it by then will not.
MOST_HALVES = 100_000
# One probe of the round trip may be chance (an application's pause, a stall); two ten seconds apart are not.
CONFIDENCE = {0: 0.0, 1: 0.9}
SURE = 0.99


@dataclass(frozen=True, kw_only=True)
class ByRate:
    """When each probe of the round trip and each probe of a cycle began, in ns.

    `is_clocked`: ACKs release the segments, as a window lets them; `is_throughout`: the cycles follow one another most
    of the time, or most times at which more is sent are probes, which where ACKs come closer than a host answers them
    says more than what seems to release whom.
    """

    probes: tuple[int, ...]
    cycled: tuple[int, ...]
    is_clocked: bool
    is_throughout: bool = False

    @property
    def is_bbr(self) -> bool:
        return bool(self.probes or self.cycled) and (self.is_throughout or not self.is_clocked)

    @property
    def confidence(self) -> float:
        return SURE if self.cycled else CONFIDENCE.get(len(self.probes), SURE)


def probes_of(seen: Reconstruction) -> ByRate:
    """Every probe in a capture at the sender."""
    timeline, clocked = seen.timeline, is_clocked(seen)
    if not len(timeline.send_ns) or len(timeline.ack_ns) < 2:
        return ByRate(probes=(), cycled=(), is_clocked=clocked)
    cycled, is_throughout = _of_bandwidth(timeline, seen.base_rtt_ns, seen.episodes)
    return ByRate(probes=_of_round_trip(seen), cycled=cycled, is_clocked=clocked, is_throughout=is_throughout)


def is_clocked(seen: Reconstruction) -> bool:
    """Whether ACKs release the segments most of the time but for recoveries, which are clocked whoever sends."""
    limits = seen.limits
    return limits.get("cwnd", 0.0) + limits.get("rwnd", 0.0) >= limits.get("application", 0.0)


def _of_round_trip(seen: Reconstruction) -> tuple[int, ...]:
    timeline = seen.timeline
    sent = _core.places(timeline.send_ns, timeline.ack_ns)
    flight = np.where(sent > 0, timeline.snd_max[np.maximum(sent - 1, 0)], timeline.first_offset)
    del sent
    flight -= timeline.snd_una
    usual = _core.median(flight) / timeline.smss
    # Where the flight was not captured but inferred, only as far as it is certain.
    low = flight <= (_core.BBR_MIN_CWND_SEGMENTS + WITHIN_SEGMENTS) * timeline.smss
    del flight
    if len(timeline.slack):
        low &= timeline.slack < timeline.smss
    edges = np.flatnonzero(np.diff(np.concatenate(([False], low, [False])).astype(np.int8)))
    found: list[int] = []
    # The first filter runs from the first round trip measured.
    least_ns = int(timeline.ack_ns[0])
    last_send = int(timeline.send_ns[-1])
    emptied, following = timeline.answered_to_the_end
    waits = timeline.send_ns[following] - timeline.ack_ns[emptied]
    pauses = timeline.send_ns[following[waits > PAUSE_SHARE * seen.typical_rtt_ns]]
    begins, ends = timeline.ack_ns[edges[::2]], timeline.ack_ns[edges[1::2] - 1]
    is_long = np.abs(ends - begins - _core.BBR_PROBE_RTT_NS - seen.typical_rtt_ns) <= seen.typical_rtt_ns + SLACK_NS
    # It goes on sending four at a time, and at its rate afterwards: no pause, no timeout, not the end.
    sends = _core.places(timeline.send_ns, ends) - _core.places(timeline.send_ns, begins)
    paused = np.searchsorted(pauses, ends, side="right") > np.searchsorted(pauses, begins, side="right")
    goes_on = (sends >= _core.BBR_MIN_CWND_SEGMENTS) & ~paused & (ends < last_send)
    goes_on &= ~touches(begins, ends, seen.episodes)
    is_like = is_long & goes_on & (usual > LEAST_SHARE * _core.BBR_MIN_CWND_SEGMENTS)
    for begin_ns, end_ns in zip(begins[is_like].tolist(), ends[is_like].tolist(), strict=True):
        if begin_ns - least_ns >= _core.BBR_MIN_RTT_WINDOW_NS - SLACK_NS:
            found.append(begin_ns)
            least_ns = end_ns
    return tuple(found)


def _of_bandwidth(timeline: Timeline, base_rtt_ns: int, episodes: Sequence[Episode]) -> tuple[tuple[int, ...], bool]:
    """Probes that follow one another every eight round trips, and whether they do throughout."""
    begin_ns = int(timeline.send_ns[0])
    half_ns = max(base_rtt_ns // PER_ROUND, 1)
    halves = min(int(timeline.send_ns[-1] - begin_ns) // half_ns, MOST_HALVES)
    if not base_rtt_ns or halves <= 2 * USUAL_HALVES:
        return (), False
    # A segment is spread over the time since the one before it: of a rate a half shows parts of segments.
    edges = begin_ns + half_ns * np.arange(halves + 1)
    behind = np.clip(_core.places(timeline.send_ns, edges, or_equal=True), 1, len(timeline.send_ns) - 1)
    sent = np.cumsum(timeline.send_end - timeline.send_offset)
    since, gap = edges - timeline.send_ns[behind - 1], timeline.send_ns[behind] - timeline.send_ns[behind - 1]
    pace = np.diff(sent[behind - 1] + np.minimum(since / np.maximum(gap, 1), 1.0) * (sent[behind] - sent[behind - 1]))
    del sent
    usual = _core.rolling_median(pace, USUAL_HALVES)
    pace = np.where(usual > 0, pace / np.maximum(usual, 1.0), 0.0)
    lost_ns = np.array([episode.lost_sent_ns for episode in episodes if episode.is_loss], dtype=np.int64)
    begins, is_probe = _faster(pace, np.sort((lost_ns - begin_ns) // half_ns))
    found = _chained(begins, is_probe & (usual[begins] >= FEWEST_THROUGHOUT * timeline.smss), pace)
    is_throughout = _is_most(len(found), PER_ROUND * half_ns, halves * half_ns)
    is_throughout |= bool(np.count_nonzero(is_probe) > MAJORITY * len(begins)) and len(found) > 0
    if not is_throughout:
        found = _chained(begins, is_probe & (usual[begins] >= FEWEST_SEGMENTS * timeline.smss), pace)
    return tuple(begin_ns + place * half_ns for place in found), is_throughout


def _is_most(cycles: int, round_trip_ns: int, lasts_ns: int) -> bool:
    """Whether so many cycles take most of that time."""
    return cycles * _core.BBR_CYCLE_ROUNDS * round_trip_ns > MAJORITY * lasts_ns


def _faster(pace: Floats, lost: Ints) -> tuple[Places, Bools]:
    """Halves of a round trip at which more begins to be sent than usual, and which are a probe's: a quarter more, for a
    round trip and no longer than probes last, until it is drained or something is lost (`lost`: halves in which what
    was lost had left)."""
    edges = np.flatnonzero(np.diff((pace > LEAST_MORE_SHARE).astype(np.int8), prepend=0, append=0))
    begins, ends = edges[::2], edges[1::2]
    sums, lasts = np.concatenate(([0.0], np.cumsum(pace))), ends - begins
    # With what is cut off at either end: a burst that others make up for is none.
    beside = np.append(pace, 1.0)
    before, after = beside[np.maximum(begins - 1, 0)], beside[ends]
    surplus = sums[ends] - sums[begins] - lasts + (before - 1.0) + (after - 1.0)
    means = (sums[ends] - sums[begins]) / lasts
    is_probe = (means >= PROBE[0]) & (means <= PROBE[1]) & (lasts <= LONGEST_HALVES)
    # What a drain sends less is none of its probe's to make up for.
    drained = np.where(after >= LEAST_DRAINED_SHARE, np.maximum(1.0 - after, 0.0), 0.0)
    is_probe &= surplus + drained >= LEAST_SURPLUS_HALVES
    # Boundaries may cut its two halves in three, of which one is whole.
    is_probe &= lasts + (before > EVEN[1]) + (after > EVEN[1]) >= PER_ROUND
    slower = np.concatenate(([0], np.cumsum(pace < EVEN[0])))
    behind = np.minimum(ends + PER_ROUND, len(pace))
    is_drained = slower[behind] > slower[ends]
    is_lost = np.searchsorted(lost, behind) > np.searchsorted(lost, begins)
    is_probe &= is_drained | is_lost
    # What a loss takes of a probe's middle is made up for at once: the same goes on.
    goes_on = np.zeros(len(begins), dtype=bool)
    goes_on[1:] = is_probe[:-1] & (begins[1:] - ends[:-1] == 1)
    is_more = (is_probe | (surplus >= LEAST_SURPLUS_HALVES)) & ~goes_on
    return begins[is_more], is_probe[is_more]


def _chained(begins: Places, is_probe: Bools, pace: Floats) -> list[int]:
    """Probes that follow one another as a cycle does, most of it even, three or more."""
    if len(begins) < FEWEST_ALIKE:
        return []
    gaps = np.diff(begins)
    even = np.concatenate(([0], np.cumsum((pace >= EVEN[0]) & (pace <= EVEN[1]))))
    is_next = is_probe[1:] & is_probe[:-1] & (gaps >= CYCLE_HALVES[0]) & (gaps <= CYCLE_HALVES[1])
    is_next &= np.diff(even[begins]) >= EVEN_HALVES
    lasts = np.diff(np.concatenate(([0], np.flatnonzero(~is_next) + 1, [len(begins)])))
    found: list[int] = begins[np.repeat(lasts >= FEWEST_ALIKE, lasts)].tolist()
    return found
