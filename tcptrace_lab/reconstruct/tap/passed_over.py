"""Whether what the tap missed of a sender's data reached the receiver in its order, as the ACKs tell.

A segment that was sent, arrived and was answered as any other, and only not captured, disturbs nothing: what was
outstanding, what was lost and what each ACK told is what it would have been. One at which the ACKs stood still while
more had arrived behind it was lost as well, and its repair was not captured: within a recovery that others show that is
one repair more; elsewhere the window fell unseen.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tcptrace_lab.reconstruct.losses import Episode
from tcptrace_lab.reconstruct.timeline import LOST, Bools, Ints, Timeline, parts


def missed(timeline: Timeline) -> tuple[Ints, Ints]:
    """Where what was acknowledged and never captured begins and ends, as offsets."""
    captured = timeline.fate != LOST if len(timeline.fate) else np.ones(len(timeline.send_offset), dtype=bool)
    least = timeline.send_offset.min(initial=0, where=captured)
    first = min(max(timeline.first_offset, 0), int(least))
    runs = _runs(timeline, captured, first)
    offsets, ends = runs[:, np.argsort(runs[0], kind="stable")]
    reached = np.maximum.accumulate(np.append(first, ends))
    begins = np.append(offsets, timeline.snd_una.max(initial=0))
    gaps = np.flatnonzero(begins > reached)
    return reached[gaps], begins[gaps]


def _runs(timeline: Timeline, captured: Bools, first: int) -> Ints:
    """Where what was captured without a gap begins and ends, as two rows: runs of sends that leave none, and each that
    goes back behind where its run begins."""
    found, begin, top = list[Ints](), first, first
    for part in parts(len(captured)):
        offset, end = timeline.send_offset[part][captured[part]], timeline.send_end[part][captured[part]]
        before = np.maximum.accumulate(np.append(top, end))
        leaves_gap = np.flatnonzero(offset > before[:-1])
        begins = np.append(begin, offset[leaves_gap])
        found.append(np.stack((begins, before[np.append(leaves_gap, len(offset))])))
        goes_back = offset < np.maximum.accumulate(np.where(offset > before[:-1], offset, begin))
        found.append(np.stack((offset[goes_back], end[goes_back])))
        begin, top = int(begins[-1]), int(before[-1])
    return np.concatenate(found, axis=1) if found else np.zeros((2, 0), dtype=np.int64)


def unseen_losses(timeline: Timeline, events: Sequence[Episode]) -> Ints:
    """The offsets of what was missed and at which an ACK stood still with news from behind it, in no recovery of these
    events."""
    una = timeline.snd_una
    begins, ends = missed(timeline)
    news = np.concatenate(([0], np.cumsum((timeline.sacked > 0) | timeline.is_dupack)))
    # Those that acknowledge all before it, or a part of it.
    at, over = np.searchsorted(una, begins, side="left"), np.searchsorted(una, ends, side="left")
    ends_of = sorted((event.una, event.recover) for event in events if event.sure)
    first, recover = np.array([(-1, -1), *ends_of], dtype=np.int64).T
    is_seen = np.maximum.accumulate(recover)[np.searchsorted(first, begins, side="right") - 1] > begins
    found: Ints = begins[(news[over] > news[at]) & ~is_seen]
    return found
