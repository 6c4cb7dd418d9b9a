"""What a tap took and what it missed, from the rows of one direction: clock, scale, offload, what was not captured."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.away.arrivals import IS_COPY
from tcptrace_lab.reconstruct.away.echoes import Named, named_by
from tcptrace_lab.reconstruct.given import ECE, FULL_SHARE, ODD_SHARE, SIDES, SYN, TIMESTAMP_BYTES
from tcptrace_lab.reconstruct.losses import DUP_THRESH
from tcptrace_lab.reconstruct.tap.asked import asked_late_ns
from tcptrace_lab.reconstruct.tap.clock import Clock, clock_of, disorder_ns, in_order
from tcptrace_lab.reconstruct.tap.copies import copies_apart_ns, has_lost_copies
from tcptrace_lab.reconstruct.tap.foreign import take_out_foreign
from tcptrace_lab.reconstruct.tap.not_captured import first_new_of, never_captured, repairs, unanswered_ns
from tcptrace_lab.reconstruct.tap.segment_size import is_cut_to, one_packet
from tcptrace_lab.reconstruct.tap.set_forward import OUT_OF_ORDER, set_forward
from tcptrace_lab.reconstruct.tap.tap import COARSE_NS, Fact, Tap
from tcptrace_lab.reconstruct.tap.window_scale import shift_of
from tcptrace_lab.reconstruct.timeline import Ints


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
    longest_ns = _usual_longest(row, side)
    silent_ns = unanswered_ns(segments, acks, passed, (sent_ns, heard_ns), rtt_ns=longest_ns)
    shift, least = shift_of(segments, acks, passed, row, other, is_whole=not (lost_acks or silent_ns))
    ahead = max(
        _syn_after_ack(row), _ahead_ns(rows, (sent_ns, heard_ns), clock, named, is_near=row["vantage"] != other)
    )
    apart_ns = copies_apart_ns(segments, sent_ns)
    lengths, is_late = segments["length"], segments["cause"] == OUT_OF_ORDER
    late = disorder_ns(segments["offset"], lengths, is_late, sent_ns)
    # Of what passed twice and was captured once either capture may be the one that is left.
    clock = replace(clock, resolution_ns=max(clock.resolution_ns, ahead, late, (apart_ns or 0) * has_lost_copies(row)))
    largest = int(lengths.max(initial=0))
    most = _mss(row, lengths, largest)
    cut = max(_cut_acks(row, other, acks), foreign)
    from_start, rtt_ns = bool(row["from_start"]), _number(row[f"rtt_min_ns_{side}"])
    first_new = 0 if from_start else first_new_of(segments, acks, rtt_ns=rtt_ns, longest_ns=longest_ns)
    before_bytes, lost_bytes = never_captured(segments, acks, first_new, from_start=from_start)
    tap = Tap(
        vantage=Fact(value=str(row["vantage"])),
        syns=_syns(row),
        shift=shift,
        least_shift=least,
        exceeds_scale=shift.value is None and not math.isnan(float(row[f"wscale_{other}"])),
        sack=_sack(row, acks, cut),
        timestamps=Fact(value=bool(row["timestamps"])),
        clock=clock,
        offload_bytes=largest if largest > (2 * most or one_packet(lengths)) else 0,
        copies=int(row["duplicate_packets_client"] + row["duplicate_packets_server"]),
        copies_apart_ns=apart_ns,
        damaged=int(row["damaged_packets_client"] + row["damaged_packets_server"]),
        tap_lost_bytes=lost_bytes,
        sent_before_bytes=before_bytes,
        first_new=first_new,
        tap_lost_acks=lost_acks,
        unanswered_ns=silent_ns,
        ahead_ns=ahead,
        segments=len(lengths),
        disordered=int(np.count_nonzero(is_late)),
        ecn_cuts=len(ecn_cuts(acks)),
        repairs=repairs(segments, acks, IS_COPY, rtt_ns=rtt_ns, smss=int(most) or one_packet(lengths)),
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


def _ahead_ns(rows: Any, times: tuple[Ints, Ints], clock: Clock, named: Named | None, *, is_near: bool) -> int:
    """By how much segments are stamped before the ACKs that let them go, by the stamps that they echo, or, near the
    sender, by the repairs that were asked for."""
    segments, acks = rows
    if named is not None:
        return named.ahead_ns((segments["packet"], acks["packet"]), times, is_whole=not named.unheard)
    return asked_late_ns(segments, acks, times, clock.resolution_ns) if is_near else 0


def _mss(row: Any, lengths: Ints, largest: int) -> float:
    """The larger of the MSS options; 0: no SYN tells, or what was sent does not keep to it."""
    options = [float(row[f"mss_{each}"]) for each in SIDES]
    most = max([*(option for option in options if not math.isnan(option)), 0.0])
    is_kept = largest <= 2 * most or is_cut_to(lengths, int(most) - (TIMESTAMP_BYTES if row["timestamps"] else 0))
    return most if is_kept else 0.0


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


def _usual_longest(row: Any, side: str) -> int:
    """The longest round trips but for a few, which may have been answered after what the tap did not capture."""
    return max(_number(row[f"{name}_{side}"]) for name in ("rtt_p95_ns", "ts_rtt_p95_ns", "handshake_rtt_ns"))


def _number(value: float) -> int:
    """0 for what is not known."""
    return 0 if math.isnan(value) else int(value)


def _syns(row: Any) -> Fact:
    seen = [side for side in SIDES if int(row[f"syns_{side}"]) > 0]
    if len(seen) == 2:
        return Fact(value="both")
    if not seen:
        return Fact(value="none", why="no SYN in the capture")
    return Fact(value=seen[0], why=f"only the {seen[0]}'s SYN is in the capture")


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
