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
            flight[part] = _sent_since(timeline, episode, part)
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


def _sent_since(timeline: Timeline, episode: Episode, part: slice) -> Ints:
    """After a restart: what was sent since and has not arrived. All that was sent before counts as gone."""
    last = int(timeline.sends_before_next_ack[part].max(initial=episode.first_send))
    chosen = np.arange(episode.first_send, last)
    arrived = _acked_at(timeline, chosen)
    # New data on top (RFC 5682 sends some after the first answer) is known to have arrived when it is SACKed.
    known = np.maximum.accumulate(timeline.sack_high)
    sacked = np.searchsorted(known, timeline.send_end[chosen], side="left")
    is_new = timeline.send_offset[chosen] >= episode.recover
    return _in_flight(timeline, chosen, np.where(is_new, np.minimum(arrived, sacked), arrived), part)


def _acked_at(timeline: Timeline, chosen: Ints) -> Ints:
    """The ACK that covers each of these sends."""
    found: Ints = np.searchsorted(timeline.snd_una, timeline.send_end[chosen], side="left")
    return found


def _gone_at(timeline: Timeline, chosen: Ints) -> Ints:
    """The ACK that covers or SACKs each of these retransmissions, or after which it was given up and repeated."""
    offset, end = timeline.send_offset[chosen], timeline.send_end[chosen]
    gone = np.minimum(_acked_at(timeline, chosen), timeline.scoreboard.since(offset, end))
    order = np.lexsort((chosen, offset))
    repeated = np.flatnonzero(offset[order][1:] == offset[order][:-1])
    before, after = order[repeated], order[repeated + 1]
    gone[before] = np.minimum(gone[before], timeline.acks_before_send[chosen[after]] - 1)
    return gone


def _in_flight(timeline: Timeline, chosen: Ints, gone_at: Ints, part: slice) -> Ints:
    """Bytes of these sends between leaving and the ACK that says they are gone, after each ACK of `part`."""
    sizes = timeline.send_end[chosen] - timeline.send_offset[chosen]
    # A send is part of the flight from the ACK that released it on, and of none if it had arrived before.
    left_at = timeline.acks_before_send[chosen] - 1
    first, count = part.start, part.stop - part.start
    change = np.zeros(count + 1, dtype=np.int64)
    np.add.at(change, np.clip(left_at - first, 0, count), sizes)
    np.subtract.at(change, np.clip(np.maximum(gone_at, left_at) - first, 0, count), sizes)
    left: Ints = np.cumsum(change[:-1])
    return left


def _pipe(timeline: Timeline, episode: Episode, part: slice, flight: Ints) -> Ints:
    """In fast recovery: without what has reached the receiver, as the sender can know it (RFC 6675 `pipe`, 6582)."""
    una = timeline.snd_una[part]
    if timeline.has_sack:
        # Below the highest SACKed byte everything is received or lost, but for what was retransmitted since.
        first = _first_dupack(timeline, part.start)
        known = np.maximum.accumulate(timeline.sack_high[first : part.stop])[part.start - first :]
        above = np.maximum(una + flight - np.maximum(known, una), 0)
        last = int(timeline.sends_before_next_ack[part].max(initial=episode.first_send))
        again = np.flatnonzero(timeline.is_retransmission[episode.first_send : last]) + episode.first_send
        pipe = above + _in_flight(timeline, again, _gone_at(timeline, again), part)
        # Retransmissions that were lost too are counted until they are repeated: never more than before the loss.
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
