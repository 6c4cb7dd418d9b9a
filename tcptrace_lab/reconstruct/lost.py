"""The table `losses`: which segments were lost, told from those that a restarted sender merely sent again.

With SACK, and in NewReno's recovery, a sender retransmits holes only. After a restart it goes back over everything:
there a segment counts as lost when the cumulative ACK stopped in front of it, for an ACK jumps over what had arrived.
Errs low where a receiver delays ACKs while holes are being filled (RFC 5681 section 4.2 asks for an ACK at once).
`spurious` are retransmissions whose segment, or an earlier copy, the answer shows to have arrived.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tcptrace_lab.reconstruct.losses import Episode
from tcptrace_lab.reconstruct.timeline import Bools, Ints, Timeline

COLUMNS = ("time_ns", "offset", "detected_by", "cause", "cwnd_before", "ssthresh_after", "spurious", "event")


def losses(timeline: Timeline, episodes: Sequence[Episode], flight: Ints, base_rtt_ns: int) -> pd.DataFrame:
    """One row per lost segment; `time_ns` is when it was sent, `event` the number of its loss event."""
    found = [_rows(timeline, episodes, number, flight, base_rtt_ns) for number in range(len(episodes))]
    table = pd.concat(found, ignore_index=True) if found else pd.DataFrame({name: [] for name in COLUMNS})
    return table.astype({"time_ns": "int64", "offset": "int64", "event": "int64"})


def _rows(timeline: Timeline, episodes: Sequence[Episode], number: int, flight: Ints, base_rtt_ns: int) -> pd.DataFrame:
    episode = episodes[number]
    bound = episodes[number + 1].first_send if number + 1 < len(episodes) else len(timeline.send_ns)
    index = np.flatnonzero(timeline.is_retransmission[episode.first_send : bound]) + episode.first_send
    first = max(int(timeline.acks_before_send[episode.first_send]) - 1, 0)
    last = int(timeline.acks_before_send[bound]) if bound < len(timeline.send_ns) else len(timeline.ack_ns)
    if episode.restarts:
        stood = np.unique(timeline.snd_una[first : max(last, first + 1)])
        index = index[np.isin(timeline.send_offset[index], stood) | (timeline.send_offset[index] == episode.una)]
    answers = first + np.searchsorted(timeline.snd_una[first:], timeline.send_end[index], side="left")
    known = answers < len(timeline.ack_ns)
    answer_ns = timeline.ack_ns[np.minimum(answers, len(timeline.ack_ns) - 1)]
    # RFC 3522 by time alone: an answer sooner than any round trip is the first copy's.
    spurious = known & (answer_ns - timeline.send_ns[index] < base_rtt_ns // 2)
    spurious |= _received_twice(timeline, index) | _answered_before(timeline, index, answers)
    over = int(np.searchsorted(timeline.snd_una, episode.recover, side="left"))
    after = int(flight[over]) if not episode.restarts and over < len(flight) else None
    return pd.DataFrame(
        {
            "time_ns": _sent_before(timeline, index),
            "offset": timeline.send_offset[index],
            "detected_by": episode.detected_by,
            "cause": "unknown",
            "cwnd_before": window_before(timeline, episode, flight),
            "ssthresh_after": pd.array([after] * len(index), dtype="Int64"),
            "spurious": spurious,
            "event": number,
        }
    )


def _received_twice(timeline: Timeline, index: Ints) -> Bools:
    """RFC 3708: what a D-SACK reports had arrived before it was sent again (or both copies did)."""
    found = np.zeros(len(index), dtype=bool)
    for left, right in timeline.dsacks:
        found |= (timeline.send_offset[index] >= left) & (timeline.send_end[index] <= right)
    return found


def _answered_before(timeline: Timeline, index: Ints, answers: Ints) -> Bools:
    """Whether an earlier copy filled the hole: the answer lacks a segment that was sent before this copy and arrived.

    Segments stay in order on the path, and an ACK tells of all that arrived in order (RFC 9293 section 3.10.7.4). Errs
    to "not lost" where the path reorders.
    """
    again = np.flatnonzero(timeline.is_retransmission)
    fresh = np.flatnonzero(~timeline.is_retransmission)
    found = np.zeros(len(index), dtype=bool)
    known = np.flatnonzero(answers < len(timeline.ack_ns))
    if not len(known) or not len(fresh):
        return found
    missing = timeline.snd_una[answers[known]]
    held_by = fresh[np.maximum(np.searchsorted(timeline.send_offset[fresh], missing, side="right") - 1, 0)]
    arrives = (timeline.send_end[held_by] > missing) & (missing < timeline.snd_una[-1]) & (held_by < index[known])
    # Sent once: what was sent again may have been lost.
    by_offset = again[np.argsort(timeline.send_offset[again], kind="stable")]
    last = np.searchsorted(timeline.send_offset[by_offset], missing, side="right")
    covered = np.concatenate(([missing.min()], np.maximum.accumulate(timeline.send_end[by_offset])))
    found[known] = arrives & (covered[last] <= missing)
    return found


def window_before(timeline: Timeline, episode: Episode, flight: Ints) -> int:
    """What was outstanding after the last ACK that moved before the loss: limited transmit (RFC 3042) not counted."""
    known = int(timeline.acks_before_send[episode.first_send])
    moved = np.flatnonzero(timeline.newly_acked[: max(known, 1)] > 0)
    return int(flight[moved[-1]]) if len(moved) else episode.flight


def _sent_before(timeline: Timeline, index: Ints) -> Ints:
    """When the data of each retransmission had been sent last before it."""
    order = np.lexsort((np.arange(len(timeline.send_offset)), timeline.send_offset))
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    before = np.maximum(position[index] - 1, 0)
    same = timeline.send_offset[order[before]] == timeline.send_offset[index]
    # Other boundaries than before (a super-segment sent again in parts): the first send, found by its range.
    fresh = np.flatnonzero(~timeline.is_retransmission)
    holder = fresh[
        np.clip(np.searchsorted(timeline.send_offset[fresh], timeline.send_offset[index], side="right") - 1, 0, None)
    ]
    return np.where(same, timeline.send_ns[order[before]], timeline.send_ns[holder])
