"""What a sender may remember from before a capture that begins in the middle of its connection.

A law that goes by delay holds every round trip against the least it ever had: one that is not in the capture, if the
queue never emptied in it. One that goes back to the window of its last loss cuts and grows otherwise after a loss at a
smaller one (fast convergence). Each past that differs is a reading of its own: what the sender heard before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcptrace_lab.classify.control.candidates import Candidate
from tcptrace_lab.classify.control.likelihood import Replay, replays
from tcptrace_lab.classify.control.marks import ARRIVAL, LOSS, RECOVERED, Mark
from tcptrace_lab.classify.control.tape import Tapes
from tcptrace_lab.reconstruct.reconstruction import Reconstruction

# From one reading to the next the remembered round trip is so much shorter, down to this part of the least seen: there
# the queue at its emptiest would hold half as much again as the path.
STEP_SHARE = 0.95
LEAST_SHARE = 0.4
# Round trips rose to the first that is seen in steps that no law takes for another path's (H-TCP: 20 ms).
RISES_NS = 10_000_000
# A window at a loss that none in the capture reaches.
LARGER_FACTOR = 2


def remembering(
    seen: Reconstruction, asked: Sequence[Candidate], known: Sequence[Replay], written: Tapes, *, is_emptied: bool
) -> list[Replay]:
    """Those of a capture without its start, over every past that they would have remembered; `is_emptied`: the least
    round trip that it has is the path's."""
    if seen.timeline.has_start or not known or not len(known[0].sizes):
        return []
    found = list(known)
    for those, pasts in (
        ([each for each in asked if each.is_by_delay], _round_trips(seen, 1.0 if is_emptied else LEAST_SHARE)),
        ([each for each in asked if each.is_by_last_loss], [_loss(seen)]),
    ):
        tapes = [tape for past in pasts for tape in written.behind(past)]
        found += replays(those, tapes, known[0].initial_window, found)
    return found[len(known) :]


def _round_trips(seen: Reconstruction, least_share: float) -> Iterator[list[Mark]]:
    """From the least round trip in the capture, or a shorter one, up to the first in it."""
    samples = seen.timeline.rtt[1]
    if not len(samples):
        return
    least, share = float(seen.base_rtt_ns), 1.0
    while share >= least_share and share * least >= 1:
        begin, end = int(share * least), int(samples[0])
        yield [_arrival(seen, rtt_ns) for rtt_ns in range(begin, max(end, begin + 1), RISES_NS)]
        share *= STEP_SHARE


def _arrival(seen: Reconstruction, rtt_ns: int) -> Mark:
    timeline = seen.timeline
    return Mark(ack=-1, event=ARRIVAL, now_ns=timeline.start_ns, rtt_ns=rtt_ns, newly_acked=float(timeline.smss))


def _loss(seen: Reconstruction) -> list[Mark]:
    """A loss at a window larger than any in the capture, and the end of its recovery."""
    window, now_ns = float(LARGER_FACTOR * seen.flight.max()), seen.timeline.start_ns
    return [
        Mark(ack=-1, event=LOSS, now_ns=now_ns, cwnd=window, flight_size=window),
        Mark(ack=-1, event=RECOVERED, now_ns=now_ns),
    ]
