"""How much a sender has in the network after each ACK: FlightSize, or `pipe` while it recovers (RFC 5681, RFC 6675).

Just before the next ACK a sender limited by its congestion window has sent all that the last ACK released: what is then
outstanding is its cwnd, to within one segment. Errs low where something else held the sender back (see `windows`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tcptrace_lab.reconstruct.losses import Episode
from tcptrace_lab.reconstruct.timeline import Ints, Timeline


def outstanding(timeline: Timeline, episodes: Sequence[Episode]) -> Ints:
    """Bytes in the network after each ACK and after the segments it released."""
    if not len(timeline.ack_ns):
        return np.zeros(0, dtype=np.int64)
    sent = timeline.sends_before_next_ack
    top = np.where(sent > 0, timeline.snd_max[np.maximum(sent - 1, 0)] if len(timeline.snd_max) else 0, 0)
    flight = np.maximum(top - timeline.snd_una, 0)
    for number, episode in enumerate(episodes):
        following = episodes[number + 1].first_send if number + 1 < len(episodes) else len(timeline.send_ns)
        part = _acks_of(timeline, episode, following)
        if part.stop <= part.start:
            continue
        if episode.restarts:
            flight[part] = _sent_since(timeline, episode.first_send, part)
        else:
            flight[part] = _pipe(timeline, episode, part, flight[part])
    return flight


def _acks_of(timeline: Timeline, episode: Episode, following: int) -> slice:
    """The ACKs from an episode's first retransmission until it is over (or the next one begins)."""
    first = max(int(timeline.acks_before_send[episode.first_send]) - 1, 0)
    over = first + int(np.searchsorted(timeline.snd_una[first:], episode.recover, side="left"))
    if following < len(timeline.send_ns):
        over = min(over, max(int(timeline.acks_before_send[following]) - 1, first))
    return slice(first, over)


def _sent_since(timeline: Timeline, first_send: int, part: slice) -> Ints:
    """After a restart: what was sent since and is not acknowledged. All that was sent before counts as gone."""
    sends = timeline.sends_before_next_ack[part]
    last = int(sends.max(initial=first_send))
    offsets = timeline.send_offset[first_send:last]
    # Go-back-N: the sender walks upward from the hole; a step back (the timer again) begins another episode.
    ends = np.maximum.accumulate(timeline.send_end[first_send:last])
    fresh = np.minimum(ends - np.concatenate(([offsets[0]], ends[:-1])), timeline.send_end[first_send:last] - offsets)
    total = np.concatenate(([0], np.cumsum(np.maximum(fresh, 0))))
    count = np.clip(sends - first_send, 0, len(ends))
    acked = np.minimum(np.searchsorted(ends, timeline.snd_una[part], side="right"), count)
    left: Ints = total[count] - total[acked]
    return left


def _pipe(timeline: Timeline, episode: Episode, part: slice, flight: Ints) -> Ints:
    """In fast recovery: without what has reached the receiver, as the sender can know it (RFC 6675 `pipe`, 6582)."""
    una = timeline.snd_una[part]
    if timeline.has_sack:
        # Below the highest SACKed byte everything is received or lost, but for what was retransmitted since.
        # What was SACKed once stays so (RFC 2018 section 8 apart): an ACK has room for the latest blocks only.
        first = _first_dupack(timeline, part.start)
        known = np.maximum.accumulate(timeline.sack_high[first : part.stop])[part.start - first :]
        above = np.maximum(known, una)
        sends = timeline.sends_before_next_ack[part]
        top = una + flight
        last = int(sends.max(initial=episode.first_send))
        again = timeline.is_retransmission[episode.first_send : last]
        ends = np.maximum.accumulate(np.where(again, timeline.send_end[episode.first_send : last], 0))
        sizes = np.where(
            again, timeline.send_end[episode.first_send : last] - timeline.send_offset[episode.first_send : last], 0
        )
        total = np.concatenate(([0], np.cumsum(sizes)))
        count = np.clip(sends - episode.first_send, 0, len(ends))
        acked = np.minimum(np.searchsorted(ends, una, side="right"), count)
        pipe = np.maximum(top - above, 0) + total[count] - total[acked]
        # Retransmissions SACKed above a hole that is still open are counted: never more than before the loss.
        least: Ints = np.minimum(pipe, max(episode.flight, timeline.smss))
        return least
    # Without SACK each duplicate ACK is one segment that has left the network (RFC 5681 section 3.2).
    first = _first_dupack(timeline, part.start)
    gone = np.cumsum(timeline.is_dupack[first : part.stop])[part.start - first :] * timeline.smss
    jumps = np.maximum(timeline.newly_acked[part] - timeline.smss, 0)
    jumps[0] = 0
    left: Ints = np.maximum(flight - np.maximum(gone - np.cumsum(jumps), 0), 0)
    return left


def _first_dupack(timeline: Timeline, index: int) -> int:
    moved = np.flatnonzero(timeline.newly_acked[: index + 1] > 0)
    return int(moved[-1]) if len(moved) else 0
