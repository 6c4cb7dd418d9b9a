"""What a law that goes by delay heard while the tap captured nothing: round trips that no replay has.

The least round trip of a round, by which such a law takes the queue for short or long, may have passed in the silence:
what the law counts from there on is not known until losses have set it anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tcptrace_lab.classify.control.candidates.likelihood import Replay
from tcptrace_lab.reconstruct.distinct import distinct
from tcptrace_lab.reconstruct.given import MAJORITY
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Bools, Ints


def silences(seen: Reconstruction) -> Ints:
    """The ACKs that end a silence of most of a round trip in which data passed that was never captured."""
    timeline = seen.timeline
    jumps = np.flatnonzero(timeline.send_offset[1:] > timeline.snd_max[:-1]) + 1
    # What is missing passed between the ACKs known at the send before and at this one, or just before the next.
    ends = distinct(timeline.acks_before_send[np.concatenate((jumps - 1, jumps))])
    ends = ends[(ends > 0) & (ends < len(timeline.ack_ns))]
    silent_ns = timeline.ack_ns[ends] - timeline.ack_ns[ends - 1]
    found: Ints = ends[silent_ns > MAJORITY * seen.typical_rtt_ns]
    return found


def excused_behind(acks: Ints, replays: Sequence[Replay]) -> list[Replay]:
    """Each that goes by delay, as if from each of these ACKs on it were off nowhere until a loss sets it anew."""
    return [
        replace(each, sizes=np.where(_hangs_on(acks, each), 0.0, each.sizes))
        for each in replays
        if each.candidate.is_by_delay
    ]


def _hangs_on(acks: Ints, each: Replay) -> Bools:
    """Which pieces: up to the next cut, which goes by the delay before it; where rounds are counted, which a loss does
    not forget, up to the one behind."""
    pieces, parts = each.tape.compared.pieces, each.tape.compared.heard.parts
    own = np.searchsorted(parts.first, acks, side="right") - 1
    # The last silence before each piece lies in the latest stretch.
    last = np.searchsorted(acks, pieces.ack, side="right") - 1
    behind = np.where(last >= 0, pieces.stretch - own[last], np.iinfo(np.int64).max)
    found: Bools = (behind < 1) | ((behind == 1) & (pieces.places_of["reduction"] | each.candidate.counts_rounds))
    return found
