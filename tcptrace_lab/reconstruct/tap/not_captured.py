"""What passed a tap and is not in its capture: bytes, answers and repairs, as the rest of the capture shows.

Before the capture began, or in it: `first_new` parts the two. Errs downwards: what left no trace is not counted.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.given import MAJORITY, ODD_SHARE
from tcptrace_lab.reconstruct.losses import DUP_THRESH
from tcptrace_lab.reconstruct.timeline import Bools, Ints

# RFC 6298: without an ACK a sender's timer ends its sending, after a second or some round trips. One that goes on with
# new data was answered, and the answers were not captured.
TIMER_NS, TIMER_ROUNDS = 1_000_000_000, 4
# What one ACK lets go is at most a flight: twice the most that was ever outstanding at one was let go by others.
MOST_FLIGHTS = 2


def first_new_of(segments: Any, acks: Any, *, rtt_ns: int, longest_ns: int) -> int:
    """The first byte that was sent for the first time in the capture: nothing tells of it before an answer can come.

    What is below left before the capture began, whether or not it was sent again in it: so did what the first answer,
    within a round trip, acknowledges beyond all captured until then. `rtt_ns`: the least; `longest_ns`: the longest.
    """
    offsets = segments["offset"]
    if not len(offsets) or not len(acks["time_ns"]):
        return 0
    # A duplicate tells of something above what it acknowledges.
    told = np.maximum.accumulate(np.maximum(acks["ack_offset"] + (acks["dup_count"] > 0), acks["sack_high"]))
    heard = np.searchsorted(acks["time_ns"], segments["time_ns"] + int(MAJORITY * rtt_ns), side="right")
    is_new = (heard == 0) | (offsets >= told[np.maximum(heard - 1, 0)])
    answer = int(np.argmax(acks["ack_offset"] > offsets[0]))
    until = max(int(np.searchsorted(segments["packet"], acks["packet"][answer])), 1)
    is_soon = acks["time_ns"][answer] - segments["time_ns"][0] <= longest_ns
    if is_soon and acks["ack_offset"][answer] > (offsets[:until] + segments["length"][:until]).max():
        is_new &= offsets >= acks["ack_offset"][answer]
    return int(offsets[np.argmax(is_new)]) if is_new.any() else int(offsets.max())


def never_captured(segments: Any, acks: Any, first_new: int, *, from_start: bool) -> tuple[int, int]:
    """Bytes in holes of what was captured: of what was sent before the capture began, below `first_new`, and of what
    was sent in it and acknowledged; before the first segment, where the start was captured."""
    offsets = segments["offset"]
    if not len(offsets) or not len(acks["time_ns"]):
        return 0, 0
    most = max(int(acks["ack_offset"].max()), first_new)
    before, since = _core.never_captured(offsets, segments["length"], most, first_new)
    # Offset 0 is the first byte behind a SYN.
    begin = max(min(int(offsets.min()), most), 0) if from_start else 0
    return before, begin + since


def unanswered_ns(segments: Any, acks: Any, passed: Ints, times: tuple[Ints, Ints], *, rtt_ns: int) -> int:
    """How long new data left, later than any timer would have let it, after an ACK and before the next captured one."""
    sent_ns, heard_ns = times
    if not len(sent_ns) or not len(heard_ns):
        return 0
    # Stamps may be years apart.
    patience = min(TIMER_NS + TIMER_ROUNDS * rtt_ns, sys.maxsize)
    behind = _behind_last_ns(segments, acks, passed, times)
    if not _core.is_left_later(sent_ns, heard_ns, passed, patience):
        return behind
    before = passed - 1
    ends = segments["offset"] + segments["length"]
    top = np.maximum.accumulate(ends)
    # Something was outstanding after that ACK, or since what came first behind it: else this is an answer to a new
    # request after a pause.
    since = _core.places(segments["packet"], acks["packet"][np.maximum(before, 0)])
    una = np.maximum.accumulate(acks["ack_offset"])[np.maximum(before, 0)]
    is_open = (since > 0) & (top[np.maximum(since - 1, 0)] > una)
    begun_ns = np.where(is_open, heard_ns[np.maximum(before, 0)], sent_ns[np.minimum(since, len(sent_ns) - 1)])
    late = (before >= 0) & (sent_ns - begun_ns > patience)
    late &= np.append(False, segments["offset"][1:] >= top[:-1]) & (segments["length"] > 1)
    # Nor did its timer expire meanwhile, which lets one segment go each time: then it had not been answered.
    again = np.cumsum(segments["is_retransmission"])
    fresh = np.cumsum(late)
    late &= again - np.append(0, again)[since] < np.maximum(fresh - np.append(0, fresh)[since], 1)
    if not late.any():
        return behind
    first = begun_ns[late] + patience
    _, places = np.unique(before[late], return_index=True)
    lasts = np.append(places[1:], np.count_nonzero(late)) - 1
    return max(int((sent_ns[late][lasts] - first[places]).sum()), behind)


def _behind_last_ns(segments: Any, acks: Any, passed: Ints, times: tuple[Ints, Ints]) -> int:
    """How long data left behind the last ACK captured, where so much did that it was answered."""
    heard = len(acks["ack_offset"])
    if np.count_nonzero(passed == heard) <= ODD_SHARE * len(passed):
        return 0
    top = np.maximum.accumulate(segments["offset"] + segments["length"])
    una = np.maximum.accumulate(acks["ack_offset"])
    flight = top[np.maximum(np.searchsorted(segments["packet"], acks["packet"]) - 1, 0)] - una
    is_more = int(top[-1] - una[-1]) > MOST_FLIGHTS * max(int(flight.max()), int(top[0] - segments["offset"][0]))
    # RFC 6298: without an ACK each expiry of a timer sends one segment again; of others the first may be a probe's.
    waits = times[0][(passed == heard) & segments["is_retransmission"]] - times[1][-1]
    late = waits[waits > _core.LEAST_RTO_NS]
    is_more |= len(late) > 0 and len(late) > 1 + int(late[-1]) // _core.LEAST_RTO_NS
    return max(int(times[0][-1] - times[1][-1]), 0) if is_more else 0


def repairs(segments: Any, acks: Any, is_copy: Bools, *, rtt_ns: int, smss: int) -> tuple[int, int]:
    """Holes of which a third duplicate told, or a block as far beyond, a round trip after they were sent and before
    they were filled; and those of them that nothing captured behind later data has filled.

    `is_copy`: by cause, whether a segment is no transmission of the window; `rtt_ns`: the least, a flight of a few
    segments leaves no queue for what fills its hole.
    """
    una, offsets = np.maximum.accumulate(acks["ack_offset"]), segments["offset"]
    told, holes = _told_holes(acks, una, smss)
    if not len(told):
        return 0, 0
    top = offsets + segments["length"]
    np.maximum.accumulate(top, out=top)
    over, sent = np.searchsorted(una, holes, side="right"), np.searchsorted(top, holes, side="right")
    # Duplicates that what was sent twice has asked for come as soon as what is next has left.
    is_hole = (over < len(una)) & (sent < len(top))
    told, holes, over, sent = told[is_hole], holes[is_hole], over[is_hole], sent[is_hole]
    wait = MAJORITY * rtt_ns
    is_hole = acks["time_ns"][told] - segments["time_ns"][sent] >= wait
    is_hole &= acks["time_ns"][over] - acks["time_ns"][told] >= wait
    told, holes, over, sent = told[is_hole], holes[is_hole], over[is_hole], sent[is_hole]
    if not len(told):
        return 0, 0
    # A second copy of the tap's fills nothing.
    again = np.flatnonzero(offsets[1:] < top[:-1]) + 1
    again = again[~is_copy[segments["cause"][again]]]
    begins, upto = np.searchsorted(again, sent), np.searchsorted(segments["packet"][again], acks["packet"][over])
    first = offsets[again]
    return len(told), _core.unfilled(holes, begins, upto, first, first + segments["length"][again])


def _told_holes(acks: Any, una: Ints, smss: int) -> tuple[Ints, Ints]:
    """The ACKs that told of holes, and where each begins, in order: a third duplicate, or, while none comes, the
    first block of what is so many segments beyond (RFC 6675). A flight lost but for its end asks for few duplicates."""
    thirds, high = np.flatnonzero(acks["dup_count"] == DUP_THRESH), acks["sack_high"]
    stands = high > una
    events = np.cumsum(stands & ~np.append(False, stands[:-1]))
    is_asked = np.zeros(int(events.max(initial=0)) + 1, dtype=bool)
    is_asked[events[thirds[stands[thirds]]]] = True
    rows = np.flatnonzero((high > una + DUP_THRESH * smss) & ~is_asked[events])
    _, first = np.unique(events[rows], return_index=True)
    told = np.sort(np.append(thirds, rows[first]))
    return told, una[told]
