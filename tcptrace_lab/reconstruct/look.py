"""What a tap took and what it missed, from the rows of one direction: clock, scale, offload, what was not captured."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.away.arrivals import IS_COPY
from tcptrace_lab.reconstruct.away.echoes import named_by
from tcptrace_lab.reconstruct.given import DELAYED_ACK_SEGMENTS, FEWEST_SAMPLES, FULL_SHARE, MAJORITY, ODD_SHARE
from tcptrace_lab.reconstruct.losses import DUP_THRESH
from tcptrace_lab.reconstruct.tap.asked import asked_late_ns
from tcptrace_lab.reconstruct.tap.clock import Clock, clock_of, disorder_ns, in_order
from tcptrace_lab.reconstruct.tap.copies import copies_apart_ns, has_lost_copies
from tcptrace_lab.reconstruct.tap.foreign import take_out_foreign
from tcptrace_lab.reconstruct.tap.set_forward import OUT_OF_ORDER, set_forward
from tcptrace_lab.reconstruct.tap.tap import COARSE_NS, Fact, Tap

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
SIDES = ("client", "server")
# RFC 7323 section 2.3.
LARGEST_SHIFT = 14
# RFC 7323 appendix A: the timestamps option takes 12 bytes of every segment.
TIMESTAMP_BYTES = 12
SYN = 0x2
# RFC 3168 section 6.1.3: a receiver echoes a mark in every ACK until the sender says that it has reduced its window.
ECE = 0x40
CWR = 0x80
# A sender keeps to the window offered (RFC 9293 section 3.8.6). So many sends beyond it, by more than a delayed ACK's
# segments, and the window was not what it seemed: an ACK that the tap lost explains a few.
BEYOND_SHARE = 0.05
# Offload: a segment of two of the MSS was no single packet; without an MSS, one beyond jumbo frames (9000 bytes).
ONE_PACKET_BYTES = 9_000
# Without an MSS: many segments of one length that Ethernet carries (RFC 9293's default of 536 and more), and the larger
# ones most often a multiple of it.
LEAST_MSS, ETHERNET_MSS = 535, 1_460
# What Ethernet carries in IPv6 with timestamps (RFC 8200, RFC 7323).
FULL_ETHERNET_MSS = 1_428
# Of a path with a smaller one (RFC 1191 section 7.1: 296 is the least in use) most segments are of one size, and all
# that are larger, but odd ones, are several of them.
SMALL_PATH_BYTES = 296 - 40
# The least that a full segment has, options in it.
LEAST_FULL_BYTES = SMALL_PATH_BYTES - TIMESTAMP_BYTES
# RFC 6298: without an ACK a sender's timer ends its sending, after a second or some round trips. One that goes on with
# new data was answered, and the answers were not captured.
TIMER_NS, TIMER_ROUNDS = 1_000_000_000, 4
# What one ACK lets go is at most a flight: twice the most that was ever outstanding at one was let go by others.
MOST_FLIGHTS = 2


def look(rows: Any, row: Any, direction: int) -> tuple[Tap, Ints, Ints]:
    """The tap of one direction, and the times of its segments and ACKs as far as the clock can be trusted.

    `rows`: columns of the segments sent and of the ACKs received, whose SACK blocks are taken out where they are of
    numbers that nobody sent; `row`: the row of the table of connections.
    """
    segments, acks = rows
    side, other = SIDES[direction], SIDES[1 - direction]
    foreign = take_out_foreign(segments, acks)
    # How many ACKs had passed before each segment.
    passed = _core.places(acks["packet"], segments["packet"])
    sent_ns, heard_ns, clock = _times(segments, acks, passed, rtt_ns=_number(row[f"rtt_median_ns_{side}"]))
    named = named_by(segments, acks)
    lost_acks = 0 if named is None else named.unheard
    shift, least = _shift(segments, acks, passed, row, other, is_whole=not lost_acks)
    ahead = _syn_after_ack(row)
    if named is not None:
        numbers = segments["packet"], acks["packet"]
        ahead = max(ahead, named.ahead_ns(numbers, (sent_ns, heard_ns), is_whole=not lost_acks))
    elif row["vantage"] != other:
        ahead = max(ahead, asked_late_ns(segments, acks, (sent_ns, heard_ns), clock.resolution_ns))
    apart_ns = copies_apart_ns(segments, sent_ns)
    lengths, is_late = segments["length"], segments["cause"] == OUT_OF_ORDER
    late = disorder_ns(segments["offset"], lengths, is_late, sent_ns)
    # Of what passed twice and was captured once either capture may be the one that is left.
    clock = replace(clock, resolution_ns=max(clock.resolution_ns, ahead, late, (apart_ns or 0) * has_lost_copies(row)))
    largest = int(lengths.max(initial=0))
    options = [float(row[f"mss_{each}"]) for each in SIDES]
    most = max([*(option for option in options if not math.isnan(option)), 0.0])
    if largest > 2 * most and not is_cut_to(lengths, int(most) - (TIMESTAMP_BYTES if row["timestamps"] else 0)):
        most = 0.0
    cut = max(_cut_acks(row, other, acks), foreign)
    from_start, rtt_ns = bool(row["from_start"]), _number(row[f"rtt_min_ns_{side}"])
    longest_ns = _usual_longest(row, side)
    first_new = 0 if from_start else _first_new(segments, acks, rtt_ns=rtt_ns, longest_ns=longest_ns)
    before_bytes, lost_bytes = _never_captured(segments, acks, first_new, from_start=from_start)
    tap = Tap(
        vantage=Fact(value=str(row["vantage"])),
        syns=_syns(row),
        shift=shift,
        least_shift=least,
        exceeds_scale=shift.value is None and not math.isnan(float(row[f"wscale_{other}"])),
        sack=_sack(row, acks, cut),
        timestamps=Fact(value=bool(row["timestamps"])),
        clock=clock,
        offload_bytes=largest if largest > (2 * most or _one_packet(lengths)) else 0,
        copies=int(row["duplicate_packets_client"] + row["duplicate_packets_server"]),
        copies_apart_ns=apart_ns,
        damaged=int(row["damaged_packets_client"] + row["damaged_packets_server"]),
        tap_lost_bytes=lost_bytes,
        sent_before_bytes=before_bytes,
        first_new=first_new,
        tap_lost_acks=lost_acks,
        unanswered_ns=_unanswered_ns(segments, acks, passed, (sent_ns, heard_ns), rtt_ns=longest_ns),
        ahead_ns=ahead,
        segments=len(lengths),
        disordered=int(np.count_nonzero(is_late)),
        ecn_cuts=len(ecn_cuts(acks)),
        repairs=_repairs(segments, acks, rtt_ns=rtt_ns, smss=int(most) or _one_packet(lengths)),
        begins=_begins(segments, acks, row, side, other),
        ends=Fact(value=str(row["end"])),
        bytes=int(row[f"unique_bytes_{side}"]) + int(row[f"missing_bytes_{side}"]),
        has_data=bool((lengths > 0).any()),
        has_acks=len(acks["time_ns"]) > 0,
        cut_acks=cut,
        acks=len(acks["time_ns"]),
        lasts_ns=int(row["duration_ns"]),
    )
    return tap, sent_ns, heard_ns


def _syn_after_ack(row: Any) -> int:
    """By how much a SYN was captured after its ACK; less than a coarse clock leaves open is a tap's own disorder."""
    found = [float(row[f"syn_after_ack_ns_{side}"]) for side in SIDES]
    late = max((each for each in found if not math.isnan(each)), default=0.0)
    return int(late) if late > COARSE_NS else 0


def _times(segments: Any, acks: Any, passed: Ints, *, rtt_ns: int) -> tuple[Ints, Ints, Clock]:
    """When segments and ACKs passed, and the clock: the columns themselves where nothing has to be put in order."""
    sent_ns, heard_ns = segments["time_ns"], acks["time_ns"]
    stamps, is_sent = _core.merged(sent_ns, heard_ns, passed)
    clock = clock_of(stamps, is_sent, (sent_ns, heard_ns))
    times = in_order(stamps, clock)
    back = np.flatnonzero(stamps[1:] < stamps[:-1]) + 1 if clock.steps_back else np.zeros(0, dtype=np.int64)
    times, step, at = set_forward((segments, acks), times, is_sent, rtt_ns=rtt_ns)
    if step or len(back):
        clock = replace(clock, set_forward_ns=step, set_at=tuple(sorted((*at, *times[back].tolist()))))
    return (sent_ns, heard_ns, clock) if times is stamps else (times[is_sent], times[~is_sent], clock)


def ecn_cuts(acks: Any) -> Ints:
    """The first of each run of ACKs that echo a mark; a SYN's bit offers it."""
    echoes = (acks["flags"] & (ECE | SYN)) == ECE
    return np.flatnonzero(echoes[1:] & ~echoes[:-1]) + 1


def is_cut_to(lengths: Ints, smss: int) -> bool:
    """Whether super-segments are whole ones of this size; where few are, a middlebox changed the option on one side."""
    large = lengths[lengths > smss]
    return smss > 0 and bool(np.mean(large % smss == 0) >= MAJORITY or np.mean(lengths == smss) >= MAJORITY)


def few_merged(lengths: Ints) -> int | None:
    """The size of most segments, where the larger ones are whole multiples of it: a path's, whatever its MSS was."""
    values, counts = _core.counts(lengths)
    values, counts = values[values >= SMALL_PATH_BYTES], counts[values >= SMALL_PATH_BYTES]
    if not len(values) or counts.max() < MAJORITY * len(lengths):
        return None
    usual = int(values[np.argmax(counts)])
    parts = -(-usual // ETHERNET_MSS)
    if parts > 1 and usual % parts == 0 and usual // parts >= FULL_ETHERNET_MSS:
        # So many full frames of Ethernet are merged all along: no path carries just that.
        return usual // parts
    large = lengths[lengths > usual]
    is_path = len(large) >= DUP_THRESH and np.mean(large % usual == 0) >= 1 - ODD_SHARE
    return usual if is_path else None


def _one_packet(lengths: Ints) -> int:
    """The largest segment that may have been a single packet, where no SYN tells."""
    if usual := few_merged(lengths):
        return usual
    small = lengths[(lengths > LEAST_MSS) & (lengths <= ETHERNET_MSS)]
    large = lengths[lengths > ETHERNET_MSS]
    if not len(small) or not len(large):
        return ONE_PACKET_BYTES
    values, counts = _core.counts(small)
    usual = int(values[np.argmax(counts)])
    is_whole = np.mean(large % usual == 0) > MAJORITY
    return usual if is_whole and counts.max() > ODD_SHARE * len(lengths) else ONE_PACKET_BYTES


def _usual_longest(row: Any, side: str) -> int:
    """The longest round trips but for a few, which may have been answered after what the tap did not capture."""
    return max(_number(row[f"{name}_{side}"]) for name in ("rtt_p95_ns", "ts_rtt_p95_ns", "handshake_rtt_ns"))


def _number(value: float) -> int:
    """0 for what is not known."""
    return 0 if math.isnan(value) else int(value)


def _unanswered_ns(segments: Any, acks: Any, passed: Ints, times: tuple[Ints, Ints], *, rtt_ns: int) -> int:
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


def _first_new(segments: Any, acks: Any, *, rtt_ns: int, longest_ns: int) -> int:
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


def _never_captured(segments: Any, acks: Any, first_new: int, *, from_start: bool) -> tuple[int, int]:
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


def _repairs(segments: Any, acks: Any, *, rtt_ns: int, smss: int) -> tuple[int, int]:
    """Holes of which a third duplicate told, or a block as far beyond, a round trip after they were sent and before
    they were filled; and those of them that nothing captured behind later data has filled. `rtt_ns`: the least, a
    flight of a few segments leaves no queue for what fills its hole."""
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
    again = again[~IS_COPY[segments["cause"][again]]]
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


def _syns(row: Any) -> Fact:
    seen = [side for side in SIDES if int(row[f"syns_{side}"]) > 0]
    if len(seen) == 2:
        return Fact(value="both")
    if not seen:
        return Fact(value="none", why="no SYN in the capture")
    return Fact(value=seen[0], why=f"only the {seen[0]}'s SYN is in the capture")


def _shift(segments: Any, acks: Any, passed: Ints, row: Any, other: str, *, is_whole: bool) -> tuple[Fact, int]:
    """The shift of the windows that the receiver offered: known from both SYNs, or at least what was in flight.

    `is_whole`: no ACK is missing; where some are, more seems to be in flight than was.
    """
    known = float(row[f"wscale_{other}"])
    least = _least_shift(segments, acks, passed, is_open=math.isnan(known))
    if math.isnan(known):
        if not int(row[f"syns_{other}"]):
            return Fact(value=None, why="the receiver's SYN is not in the capture"), least
        return Fact(value=None, why="a SYN's options are cut, or only one SYN was captured"), least
    if least > 0 and is_whole:
        # RFC 9293: what was sent fits the window offered, so the windows are larger than the SYNs say.
        why = "more was in flight than the SYNs' window scale allows"
        return Fact(value=None, why=why), int(known) + least
    return Fact(value=int(known)), int(known)


def _least_shift(segments: Any, acks: Any, passed: Ints, *, is_open: bool) -> int:
    """By how much the windows in the table must at least be scaled for what was sent to fit.

    `is_open`: nothing tells the scale, so that a single flight may.
    """
    lengths = segments["length"]
    # Merged segments are cut to fit a window like any other.
    slack = DELAYED_ACK_SEGMENTS * min(int(lengths.max(initial=0)), _one_packet(lengths))
    sent = (segments["offset"], lengths, segments["is_retransmission"], passed)
    offered = (acks["ack_offset"], acks["rwnd"], (acks["flags"] & SYN) == 0)
    for shift in range(LARGEST_SHIFT):
        # What a missing ACK offered the next one does as well.
        count, beyond, beyond_next = _core.beyond_offered(sent, offered, shift, slack)
        if beyond <= BEYOND_SHARE * count and (not is_open or beyond_next < FEWEST_SAMPLES):
            return shift
    return LARGEST_SHIFT


def _cut_acks(row: Any, other: str, acks: Any) -> int:
    """ACKs of which not every option is known, so that a SACK block may be missing: not where another option is lacking
    in all of them, and blocks are seen, or duplicates are no longer than ACKs that need none (RFC 2018 section 3)."""
    cut = int(row[f"options_cut_{other}"])
    tells_none = bool(row[f"options_cut_alike_{other}"]) and int(acks["dup_count"].max(initial=0)) >= DUP_THRESH
    is_another = cut >= FULL_SHARE * len(acks["time_ns"]) and (len(acks["sack_edges"]) > 0 or tells_none)
    return 0 if is_another else int(row[f"blocks_cut_{other}"])


def _sack(row: Any, acks: Any, cut: int) -> Fact:
    """RFC 2018 section 2: used where both SYNs permit it, seen where an ACK carries a block."""
    if bool(row["sack"]) or len(acks["sack_edges"]):
        return Fact(value="used")
    count, dups = len(acks["time_ns"]), int(np.count_nonzero(acks["dup_count"]))
    # Blocks come with duplicates alone: each of these may be one that is cut.
    if cut > ODD_SHARE * count or 0 < dups <= cut:
        return Fact(value="unknown", why=f"options are cut or overwritten in {cut} of {count} ACKs")
    if count and int(acks["dup_count"].max()) >= DUP_THRESH:
        # RFC 2018 section 4: a receiver that may tells of every segment above a hole.
        return Fact(value="not offered", why="duplicate ACKs carry no block")
    seen = [int(row[f"syns_{side}"]) > 0 for side in SIDES]
    syn_cut = any(int(row[f"options_cut_{side}"]) > 0 and math.isnan(float(row[f"mss_{side}"])) for side in SIDES)
    # One SYN without the option settles it; one with it, alone, does not.
    refused = any(int(row[f"syns_{side}"]) > 0 and not bool(row[f"sack_permitted_{side}"]) for side in SIDES)
    if syn_cut or (not all(seen) and not refused):
        return Fact(value="unknown", why="no SYN tells, and no ACK needed it")
    return Fact(value="not offered")


def _begins(segments: Any, acks: Any, row: Any, side: str, other: str) -> Fact:
    """Whether the capture holds the sender's first flight: from a SYN, or from a quiet start."""
    offsets = segments["offset"]
    if bool(row["from_start"]):
        return Fact(value="connection")
    if not len(offsets) or not len(acks["time_ns"]):
        return Fact(value="middle", why="no SYN, and one direction only")
    ends = offsets + segments["length"]
    ack_offset = acks["ack_offset"]
    if int(ack_offset.min()) < int(offsets[0]):
        return Fact(value="middle", why="no SYN, and ACKs of data sent before the capture began")
    # What the first answers say of data that was never seen: a hole at the beginning is no first flight.
    moved = np.flatnonzero(ack_offset > ack_offset[0])
    upto = int(moved[0]) + 1 if len(moved) else len(acks["time_ns"])
    seen = np.searchsorted(segments["packet"], acks["packet"][:upto])
    top = np.maximum.accumulate(ends)[np.maximum(seen - 1, 0)]
    if np.any((seen > 0) & (np.maximum(ack_offset[:upto], acks["sack_high"][:upto]) > top)):
        return Fact(value="middle", why="no SYN, and the first ACKs are of data sent before the capture began")
    first = int(seen[upto - 1]) if upto else len(offsets)
    begun = slice(0, max(first, 1))
    if np.any(offsets[begun][1:] > np.maximum.accumulate(ends[begun])[:-1]):
        return Fact(value="middle", why="no SYN, and the first segments leave holes: it begins in a recovery")
    return Fact(value="connection", why="no SYN, but nothing was outstanding when the capture began")
