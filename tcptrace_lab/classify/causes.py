"""Why segments were lost: a full buffer, or something else, by the queue that their neighbours met."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from tcptrace_lab.classify.path import PathEstimate
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import Sender

# A loss in a queue below this share of one that was carried without a loss was no overflow.
SHORT_SHARE = 0.7
# Where more of the flights than this are uncertain, so is the queue.
MOST_UNSURE = 0.5


def losses_by_cause(seen: Reconstruction, path: PathEstimate, who: Sender) -> dict[str, Any]:
    """The verdict's `losses`: total, by_cause (overflow, random, unknown), possible_unseen."""
    table = seen.losses
    table = table[~table["spurious"].astype(bool)]
    by_event = [_cause(queue, path) for queue in path.queue_at_loss]
    causes = [by_event[event] for event in table["event"]]
    if who.view is not None and who.view.unsure > MOST_UNSURE:
        # A queue that was not measured may have been longer.
        causes = ["unknown" if cause == "random" else cause for cause in causes]
    return {
        "total": None if who.tap.refuses("losses") else len(table),
        "by_cause": {name: causes.count(name) for name in sorted(set(causes))},
        "possible_unseen": who.lost_before_tap + -(-who.missing_bytes // seen.timeline.smss),
    }


def with_causes(seen: Reconstruction, path: PathEstimate) -> pd.DataFrame:
    """The table `losses` with each segment's cause filled in."""
    by_event = [_cause(queue, path) for queue in path.queue_at_loss]
    table = seen.losses
    return table.assign(cause=[by_event[event] for event in table["event"]]).drop(columns="event")


def _cause(queue: float, path: PathEstimate) -> str:
    if np.isnan(queue):
        return "unknown"
    buffer = path.buffer_packets
    if buffer.value is not None and buffer.low is not None:
        return "overflow" if queue >= SHORT_SHARE * buffer.low else "random"
    return "random" if queue < SHORT_SHARE * path.queue_max or path.queue_max < 2.0 else "unknown"
