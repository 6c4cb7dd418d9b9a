"""What each ACK told its sender of the round trip, as senders read it (RFC 6298 section 3, RFC 7323 section 4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.given import MAJORITY
from tcptrace_lab.reconstruct.timeline import Ints, Timeline


@dataclass(frozen=True, kw_only=True)
class Covered:
    """Of each ACK the round trip of the last packet that it covers, -1 where anything that it covers was sent again;
    and the sends again that may have filled a hole, with the ACK that covers each."""

    rtt_ns: Ints
    again: Ints
    ack: Ints


def covered(timeline: Timeline) -> Covered:
    """What every reading of the round trips begins with."""
    found: Ints = _core.covered_round_trips(
        (timeline.send_ns, timeline.send_offset, timeline.send_end, timeline.is_retransmission),
        (timeline.ack_ns, timeline.snd_una, timeline.newly_acked),
        timeline.first_offset,
        timeline.smss,
    )
    again = np.flatnonzero(timeline.is_retransmission)
    covering = np.searchsorted(timeline.snd_una, timeline.send_offset[again], side="right")
    answered = covering < len(found)
    answered[answered] = timeline.ack_ns[covering[answered]] >= timeline.send_ns[again[answered]]
    again, covering = again[answered], covering[answered]
    found[covering] = -1
    found[_filled_late(timeline)] = -1
    fills = timeline.send_offset[again] <= timeline.una_after(covering)
    return Covered(rtt_ns=found, again=again[fills], ack=covering[fills])


def _filled_late(timeline: Timeline) -> Ints:
    """ACKs of holes that were told of long before: what filled one had been sent again, captured or not.

    That leaves once enough behind it has arrived (RFC 6675 section 4), and is answered a round trip later; what came
    late on its way comes sooner.
    """
    una, delivered = timeline.snd_una, timeline.delivered
    told = np.where(delivered > una, una + timeline.smss, una)
    told = np.maximum.accumulate(np.maximum(told, timeline.sack_high))
    over = np.flatnonzero((timeline.newly_acked[1:] > 0) & (delivered[:-1] > una[:-1])) + 1
    waited = timeline.ack_ns[over] - timeline.ack_ns[np.searchsorted(told, una[over - 1], side="right")]
    found: Ints = over[waited >= MAJORITY * timeline.observed.rtt_ns[0]]
    return found


def round_trips(timeline: Timeline, known: Covered, handshake_rtt_ns: int | None, *, by_stamps: bool = False) -> Ints:
    """What each ACK told its sender of the round trip; -1: nothing.

    As senders read it: of the last segment covered; where anything covered was sent more than once, of the copy that
    filled the hole, which only timestamps tell (RFC 7323 section 4.3 echoes the one that moved the left edge).

    `by_stamps`: that one is read in whole ticks of its clock (Linux), which may make it the least of all.
    """
    if not timeline.has_timestamps or not len(known.again):
        return known.rtt_ns
    found = known.rtt_ns.copy()
    # In order of time: the last copy stands, unless no round trip is that short: then an earlier one was answered. One
    # segment alone is answered sooner than the pairs of a delayed ACK, but no sooner than a SYN.
    least = MAJORITY * timeline.observed.rtt_ns[0] if handshake_rtt_ns is None else handshake_rtt_ns
    clock = timeline.stamp_clock if by_stamps else None
    send_ns, ack_ns = timeline.send_ns[known.again], timeline.ack_ns[known.ack]
    rtt_ns = ack_ns - send_ns
    is_own = rtt_ns >= least
    found[known.ack[is_own]] = (rtt_ns if clock is None else clock.elapsed(send_ns, ack_ns))[is_own]
    return found


def round_trips_of_sacked(timeline: Timeline) -> tuple[Ints, Ints]:
    """Of the highest packet that an ACK SACKs for the first time and that was sent once: the ACKs, and of each."""
    high = timeline.sack_high
    before = np.maximum.accumulate(np.concatenate(([timeline.first_offset], high[:-1])))
    rows = np.flatnonzero((high > before) & (high > timeline.snd_una))
    if not (len(rows) and len(timeline.send_ns)):
        return rows[:0], rows[:0]
    # What first reaches so high is new, or what was sent again with new data behind it.
    newest = np.minimum(_core.places(timeline.snd_max, high[rows]), len(timeline.send_ns) - 1)
    # Of a super-segment any of its packets.
    length = high[rows] - timeline.send_offset[newest]
    is_packet = (timeline.send_end[newest] == high[rows]) | (length >= timeline.smss)
    told = is_packet & ~timeline.is_retransmission[newest]
    rows, newest, length = rows[told], newest[told], length[told]
    # The first copy of what has been sent again since.
    again = np.flatnonzero(timeline.is_retransmission)
    order = again[np.argsort(timeline.send_offset[again], kind="stable")]
    offsets = timeline.send_offset[newest] + np.maximum(length - 1, 0) // timeline.smss * timeline.smss
    at = np.searchsorted(timeline.send_offset[order], offsets, side="left")
    is_again = at < len(order)
    is_again[is_again] = timeline.send_offset[order[at[is_again]]] == offsets[is_again]
    is_again[is_again] = timeline.send_ns[order[at[is_again]]] <= timeline.ack_ns[rows[is_again]]
    rows, newest = rows[~is_again], newest[~is_again]
    found = timeline.ack_ns[rows] - timeline.send_ns[newest]
    # No segment is acknowledged before it left.
    return rows[found >= 0], found[found >= 0]
