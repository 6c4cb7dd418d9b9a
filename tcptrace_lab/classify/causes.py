"""Why segments were lost: a full buffer, or something else, by the queue that their neighbours met."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from tcptrace_lab.classify.path import PathEstimate
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import Sender

if TYPE_CHECKING:
    import pandas as pd

# A loss in a queue below this share of one that was carried without a loss was no overflow.
SHORT_SHARE = 0.7
# Where more of the flights than this are uncertain, so is the queue.
MOST_UNSURE = 0.5


def losses_by_cause(seen: Reconstruction, path: PathEstimate, who: Sender) -> dict[str, Any]:
    """The verdict's `losses`: total, by_cause (overflow, random, unknown), possible_unseen."""
    lost = seen.timeline.observed.lost()
    is_lost = ~lost["spurious"]
    events, lengths = lost["event"][is_lost], lost["length"][is_lost]
    by_event = [_cause(queue, path) for queue in path.queue_at_loss]
    # Packets on the wire: a super-segment sent again is as many as it was cut into. After a restart it goes over what
    # had arrived too: there at least one of its packets was lost.
    packets = np.maximum(np.round(lengths / seen.timeline.smss).astype(np.int64), 1)
    restarts = np.array([seen.episodes[event].restarts for event in events.tolist()], dtype=bool)
    merged = int((packets - 1)[restarts].sum())
    packets[restarts] = 1
    if who.view is not None and who.view.unsure > MOST_UNSURE:
        # A queue that was not measured may have been longer.
        by_event = ["unknown" if cause == "random" else cause for cause in by_event]
    causes: Counter[str] = Counter()
    for event, count in zip(events.tolist(), packets, strict=True):
        causes[by_event[event]] += int(count)
    if who.tap.sack.value == "unknown":
        # How many of those sent again had been lost rests on the blocks that the capture has not.
        merged += max(int(seen.timeline.is_retransmission.sum()) - int(packets.sum()), 0)
    return {
        "total": None if who.tap.refuses("losses") else int(packets.sum()),
        "by_cause": dict(sorted(causes.items())),
        "possible_unseen": merged
        + who.lost_before_tap
        + -(-who.missing_bytes // seen.timeline.smss)
        + seen.timeline.observed.possible_losses,
    }


def with_causes(seen: Reconstruction, path: PathEstimate) -> pd.DataFrame:
    """The table `losses` with each segment's cause filled in."""
    table = seen.losses
    return table.assign(cause=causes(path, table["event"].tolist())).drop(columns="event")


def causes(path: PathEstimate, events: list[int]) -> list[str]:
    """The cause of each of some loss events, by their numbers."""
    by_event = [_cause(queue, path) for queue in path.queue_at_loss]
    return [by_event[event] for event in events]


def _cause(queue: float, path: PathEstimate) -> str:
    if np.isnan(queue):
        return "unknown"
    buffer = path.buffer_packets
    if buffer.value is not None and buffer.low is not None:
        return "overflow" if queue >= SHORT_SHARE * buffer.low else "random"
    return "random" if queue < SHORT_SHARE * path.queue_max or path.queue_max < 2.0 else "unknown"
