"""BBR told by what only a sender paced by a model of the path does (draft-cardwell-iccrg-bbr-congestion-control-00).

Section 4.3.4: in ProbeBW its pace is 1.25 times the bottleneck's for a round trip, 0.75 times for the next, then even
for six: a cycle of eight, whether or not anything is lost. Section 4.3.5: every ten seconds without a smaller round
trip it holds four segments in flight for 200 ms and a round trip, and then goes on at the rate it had. No window-based
control does either; between them its segments leave by a rate, not by ACKs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.path.runs import touches
from tcptrace_lab.reconstruct.given import FEWEST_ALIKE, PAUSE_SHARE, WITHIN_SEGMENTS
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Floats, Timeline, parts

# A delayed ACK, and a round trip, more until a probe ends.
SLACK_NS = 45_000_000
# A flight of less than this much more is no flight to come down from.
LEAST_SHARE = 2.0
# The pace is taken in halves of the least round trip; what is usual is the median of two cycles around: so many on
# either side.
PER_ROUND = 2
USUAL_HALVES = _core.BBR_CYCLE_ROUNDS * PER_ROUND
# A quarter more of fewer segments than this in a half is lost in their size.
FEWEST_SEGMENTS = 6
# What a probe adds, and what the drain behind it takes back: a quarter of a round trip's worth, seen through halves.
GAIN = (0.15, 0.4)
# Before and behind it the pace is the usual one.
EVEN = (0.08, 0.12)
# Six even round trips, one up, one down: eight, and up to two more until what was sent has been drained.
CYCLE_HALVES = (15, 20)
# A sender that has not shown it by then will not.
MOST_HALVES = 100_000
# One probe of the round trip may be chance (an application's pause, a stall); two ten seconds apart are not.
CONFIDENCE = {0: 0.0, 1: 0.9}
SURE = 0.99


@dataclass(frozen=True, kw_only=True)
class ByRate:
    """When each probe of the round trip and each probe of a cycle began, in ns.

    `is_clocked`: ACKs release the segments, as a window lets them.
    """

    probes: tuple[int, ...]
    cycled: tuple[int, ...]
    is_clocked: bool

    @property
    def is_bbr(self) -> bool:
        return bool(self.probes or self.cycled) and not self.is_clocked

    @property
    def confidence(self) -> float:
        return SURE if self.cycled else CONFIDENCE.get(len(self.probes), SURE)


def probes_of(seen: Reconstruction) -> ByRate:
    """Every probe in a capture at the sender."""
    limits, timeline = seen.limits, seen.timeline
    # A recovery is clocked whoever sends: of the rest of the time.
    windows = limits.get("cwnd", 0.0) + limits.get("rwnd", 0.0)
    clocked = windows >= limits.get("application", 0.0)
    if not len(timeline.send_ns) or len(timeline.ack_ns) < 2:
        return ByRate(probes=(), cycled=(), is_clocked=clocked)
    return ByRate(probes=_of_round_trip(seen), cycled=_of_bandwidth(timeline, seen.base_rtt_ns), is_clocked=clocked)


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


def _of_bandwidth(timeline: Timeline, base_rtt_ns: int) -> tuple[int, ...]:
    """Probes that follow one another every eight round trips."""
    begin_ns = int(timeline.send_ns[0])
    half_ns = max(base_rtt_ns // PER_ROUND, 1)
    halves = min(int(timeline.send_ns[-1] - begin_ns) // half_ns, MOST_HALVES)
    if not base_rtt_ns or halves <= 2 * USUAL_HALVES:
        return ()
    pace = np.zeros(halves)
    upto = int(np.searchsorted(timeline.send_ns, begin_ns + halves * half_ns, side="left"))
    for part in parts(upto):
        sizes = timeline.send_end[part] - timeline.send_offset[part]
        pace += np.bincount((timeline.send_ns[part] - begin_ns) // half_ns, weights=sizes, minlength=halves)
    usual = _core.rolling_median(pace, USUAL_HALVES)
    is_fine = usual >= FEWEST_SEGMENTS * timeline.smss
    at = _gains(np.where(is_fine, pace / np.maximum(usual, 1.0), 0.0))
    at = [place for place in at if is_fine[place]]
    chain: list[int] = []
    found: list[int] = []
    for place in at:
        is_next = bool(chain) and CYCLE_HALVES[0] <= place - chain[-1] <= CYCLE_HALVES[1]
        chain = [*chain, place] if is_next else [place]
        if len(chain) == FEWEST_ALIKE:
            found += chain
        elif len(chain) > FEWEST_ALIKE:
            found.append(place)
    return tuple(begin_ns + place * half_ns for place in found)


def _gains(pace: Floats) -> list[int]:
    """Halves of a round trip at which three faster ones begin and three slower ones follow, as much below as above."""
    round_trips = np.concatenate(([0.0], np.cumsum(pace - 1.0))) / PER_ROUND
    at = np.arange(6, len(pace) - 9)
    more = round_trips[at + 3] - round_trips[at]
    less = round_trips[at + 3] - round_trips[at + 6]
    before = np.abs(round_trips[at - 1] - round_trips[at - 5]) / 2
    behind = np.abs(round_trips[at + 9] - round_trips[at + 7])
    is_gain = (more > GAIN[0]) & (more < GAIN[1]) & (less > GAIN[0]) & (less < GAIN[1])
    is_gain &= (before < EVEN[0]) & (behind < EVEN[1])
    chosen = np.flatnonzero(is_gain)
    is_taken = np.zeros(len(at), dtype=np.bool_)
    found: list[int] = []
    # Of neighbouring places the one at which most goes up and down.
    for place in chosen[np.argsort(-(more + less)[chosen], kind="stable")].tolist():
        if not is_taken[place]:
            is_taken[max(place - 5, 0) : place + 6] = True
            found.append(int(at[place]))
    return sorted(found)
