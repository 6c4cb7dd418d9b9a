"""BBR told by its probes of the round trip (draft-cardwell-iccrg-bbr-congestion-control-00, section 4.3.5).

Every ten seconds without a smaller round trip it holds four segments in flight for 200 ms and a round trip, losses or
not, and then goes on at the rate it had: no window-based control does. Between the probes its segments leave by a rate,
not by ACKs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcptrace_lab.reconstruct.reconstruction import Reconstruction

# Section 4.3.5: BBRMinPipeCwnd, ProbeRTTDuration, MinRTTFilterLen.
MIN_PIPE_SEGMENTS = 4
PROBE_NS = 200_000_000
FILTER_NS = 10_000_000_000
# A segment more while an ACK is on its way to the tap; a delayed ACK and a round trip more until it ends.
SLACK_SEGMENTS = 1
SLACK_NS = 45_000_000
# A flight of less than this much more is no flight to come down from.
LEAST_SHARE = 2.0
# One probe may be chance (an application's pause, a stall); two ten seconds apart are not.
CONFIDENCE = {0: 0.0, 1: 0.9}
SURE = 0.99


@dataclass(frozen=True, kw_only=True)
class ByRate:
    """`probes`: when each began, in ns; `is_clocked`: ACKs release the segments, as a window lets them."""

    probes: tuple[int, ...]
    is_clocked: bool

    @property
    def confidence(self) -> float:
        return CONFIDENCE.get(len(self.probes), SURE)


def probes_of(seen: Reconstruction) -> ByRate:
    """Every probe of the round trip in a capture at the sender."""
    limits = seen.limits
    clocked = limits.get("cwnd", 0.0) + limits.get("recovery", 0.0) + limits.get("rwnd", 0.0) >= 0.5
    timeline = seen.timeline
    if not len(timeline.send_ns) or len(timeline.ack_ns) < 2:
        return ByRate(probes=(), is_clocked=clocked)
    sent = np.searchsorted(timeline.send_ns, timeline.ack_ns, side="left")
    top = np.where(sent > 0, timeline.snd_max[np.maximum(sent - 1, 0)], timeline.first_offset)
    flight = (top - timeline.snd_una) / timeline.smss
    usual = float(np.median(flight))
    # Where the flight was not captured but inferred, only as far as it is certain.
    low = flight <= MIN_PIPE_SEGMENTS + SLACK_SEGMENTS
    if len(timeline.slack):
        low &= timeline.slack < timeline.smss
    edges = np.flatnonzero(np.diff(np.concatenate(([False], low, [False])).astype(np.int8)))
    found: list[int] = []
    # The first filter runs from the first round trip measured.
    least_ns = int(timeline.ack_ns[0])
    last_send = int(timeline.send_ns[-1])
    for first, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        begin_ns, end_ns = int(timeline.ack_ns[first]), int(timeline.ack_ns[end - 1])
        lasted = end_ns - begin_ns
        sends = np.searchsorted(timeline.send_ns, [begin_ns, end_ns])
        is_probe = (
            PROBE_NS - SLACK_NS <= lasted <= PROBE_NS + 2 * seen.typical_rtt_ns + SLACK_NS
            and usual > LEAST_SHARE * MIN_PIPE_SEGMENTS
            and begin_ns - least_ns >= FILTER_NS - SLACK_NS
            # It goes on sending four at a time, and at its rate afterwards: no pause, no timeout, not the end.
            and sends[1] - sends[0] >= MIN_PIPE_SEGMENTS
            and end_ns < last_send
            and not any(episode.time_ns <= end_ns and episode.end_ns >= begin_ns for episode in seen.episodes)
        )
        if is_probe:
            found.append(begin_ns)
            least_ns = end_ns
    return ByRate(probes=tuple(found), is_clocked=clocked)
