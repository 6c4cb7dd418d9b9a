"""What losses leave outstanding of a sender paced by a model of the path (draft-cardwell-iccrg-bbr 4.2.3.4)."""

from __future__ import annotations

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.given import FEWEST_ALIKE, MAJORITY, MINORITY, WITHIN_SEGMENTS
from tcptrace_lab.reconstruct.losses import NO_LOSS
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Bools, Ints

# Section 4.3.4.1: the slowest phase of its cycle sends three quarters of what arrives, for a round trip.
DRAINED_SHARE = 0.75


def gives_way(seen: Reconstruction) -> bool:
    """Whether most losses left less outstanding than BBR would have left, and nothing but a window held it back.

    In the first round trip of a recovery BBR sends a segment for each that is delivered, so that what is outstanding
    falls by what was lost; then its window is what it was, and its pace, but for a phase that drains. Where the
    application or the receiver's window lets less be sent, any sender leaves less. Errs towards False: a control that
    leaves as much is not told from BBR, and of a loss that the receiver's window was full at nothing is read.
    """
    if seen.limits.get("application", 0.0) >= MINORITY:
        return False
    less, told = _left_less(seen, within=WITHIN_SEGMENTS)
    return less >= FEWEST_ALIKE and less > MAJORITY * told


def leaves_as_much(seen: Reconstruction) -> bool:
    """Whether most losses left what BBR would have left, whatever held the sender back."""
    less, told = _left_less(seen, within=0.0)
    return less <= MAJORITY * told


def _left_less(seen: Reconstruction, *, within: float) -> tuple[int, int]:
    """At how many losses less was left, by more than so many segments, of how many that tell."""
    events = seen.timeline.observed.events()
    is_loss = ~np.isin(events["detected_by"], [_core.DETECTED_BY.index(name) for name in NO_LOSS])
    is_told = is_loss & (events["window_after"] >= 0) & ~events["restarts"].astype(bool)
    is_told &= ~_is_held(seen, events["time_ns"], events["end_ns"])
    least = DRAINED_SHARE * events["window_before"] - _lost(seen, len(is_told))
    is_less = events["window_after"] + within * seen.timeline.smss < least
    return int(np.count_nonzero(is_less & is_told)), int(np.count_nonzero(is_told))


def _lost(seen: Reconstruction, events: int) -> Ints:
    """At each loss event the bytes that were lost."""
    lost = seen.timeline.observed.lost()
    is_real = ~lost["spurious"].astype(bool)
    found: Ints = np.bincount(lost["event"][is_real], lost["length"][is_real], events).astype(np.int64)
    return found


def _is_held(seen: Reconstruction, begins_ns: Ints, ends_ns: Ints) -> Bools:
    """At which loss events the receiver's window had no room for another segment: the holes keep its edge where it
    is."""
    timeline = seen.timeline
    # What has arrived above a hole still takes of the receiver's window.
    sent = np.maximum(timeline.sends_before_next_ack - 1, 0)
    is_full = timeline.snd_max[sent] - timeline.snd_una + timeline.smss > timeline.rwnd
    full = np.concatenate(([0], np.cumsum(is_full)))
    first = np.maximum(_core.places(timeline.ack_ns, begins_ns, or_equal=True) - 1, 0)
    behind = np.maximum(_core.places(timeline.ack_ns, ends_ns, or_equal=True), first)
    found: Bools = full[behind] > full[first]
    return found
