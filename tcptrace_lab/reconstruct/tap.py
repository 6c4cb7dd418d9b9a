"""What a capture of one sender can show and what it cannot, each with its reason: decided once, asked by every view.

A fact is about the capture (where it was taken, what of each packet it kept, its clock, what it missed), never about
the sender. `Tap.refuses` turns facts into the claims that they rule out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tcptrace_lab.reconstruct.clock import Clock, clock_of, in_order
from tcptrace_lab.reconstruct.echoes import ahead_ns
from tcptrace_lab.reconstruct.losses import DUP_THRESH
from tcptrace_lab.reconstruct.set_forward import set_forward
from tcptrace_lab.reconstruct.unheard import unheard_by_echo

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Claim = Literal["window", "initial_window", "losses", "cycles", "recovery", "limits", "control"]
SIDES = ("client", "server")
# RFC 7323 section 2.3.
LARGEST_SHIFT = 14
SYN = 0x2
# RFC 3168 section 6.1.3: a receiver echoes a mark in every ACK until the sender says that it has reduced its window.
ECE = 0x40
# Coarser than this a clock does not tell which ACK released which segment: at 100 Mbit/s a full one takes 0.12 ms.
COARSE_NS = 100_000
# A sender keeps to the window offered (RFC 9293 section 3.8.6). So many sends beyond it, by more than a delayed ACK's
# segments, and the window was not what it seemed: an ACK that the tap lost explains a few.
BEYOND_SHARE = 0.05
BEYOND_SEGMENTS = 2
# Offload: a segment of two of the MSS was no single packet; without an MSS, one beyond jumbo frames (9000 bytes).
ONE_PACKET_BYTES = 9_000
# Without an MSS: many segments of one length that Ethernet carries (RFC 9293's default of 536 and more), and the larger
# ones most often a multiple of it.
LEAST_MSS, ETHERNET_MSS = 535, 1_460
WHOLE_SHARE = 0.5
# Of the data that the tap lost: with more than this a loss event has one of its packets missing, and one in ten tells
# another story (events of some ten retransmissions; a few in a thousand leave nine of ten whole).
LOST_SHARE = 0.003
# With more than one in ten missing, the flight itself is not known: neither window nor pauses.
FLIGHT_LOST_SHARE = 0.1
# Fewer ACKs with cut options are odd packets, not what the tap does; a retransmitted segment's report is in several.
CUT_SHARE = 0.01


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A value, and what it rests on (empty: nothing to explain)."""

    value: Any
    why: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {"value": self.value, "why": self.why}


@dataclass(frozen=True, kw_only=True)
class Tap:
    """Of one direction. `shift`: by which the receiver's windows are scaled (None: unknown), `least_shift` at least.

    `sack`: used, not offered, or unknown. `tap_lost_bytes`: acknowledged, never captured. `offload_bytes`: the largest
    segment where it was no single packet, else 0. `tap_lost_acks`: heard by the sender, never captured; at the least.
    `ahead_ns`: by how much segments precede, on the tap's clock, what they answer (0: they follow).
    `ecn_cuts`: how often the receiver asked for a smaller window because the path had marked packets (RFC 3168).
    """

    vantage: Fact
    syns: Fact
    shift: Fact
    least_shift: int
    sack: Fact
    timestamps: Fact
    clock: Clock
    offload_bytes: int
    copies: int
    damaged: int
    tap_lost_bytes: int
    tap_lost_acks: int
    ahead_ns: int
    ecn_cuts: int
    begins: Fact
    ends: Fact
    bytes: int
    has_data: bool
    has_acks: bool
    cut_acks: int
    acks: int
    # Where the file is cut or damaged, and how.
    truncated: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The verdict's `tap`."""
        return {
            "vantage": self.vantage.as_dict(),
            "syns": self.syns.as_dict(),
            "window_scale": {**self.shift.as_dict(), "at_least": self.least_shift},
            "sack": self.sack.as_dict(),
            "timestamps": self.timestamps.as_dict(),
            "clock": {**self.clock.as_dict(), "ahead_s": self.ahead_ns / 1e9},
            "offload_bytes": self.offload_bytes or None,
            "copies": self.copies,
            "damaged": self.damaged,
            "lost_by_tap_bytes": self.tap_lost_bytes,
            "lost_by_tap_acks": self.tap_lost_acks,
            "options_cut_acks": self.cut_acks,
            "ecn_cuts": self.ecn_cuts,
            "begins": self.begins.as_dict(),
            "ends": self.ends.as_dict(),
            "truncated": self.truncated,
            "notes": list(self.notes),
        }

    @property
    def begins_whole(self) -> bool:
        """Whether the first flight is in the capture."""
        return bool(self.begins.value == "connection")

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know before believing a figure: empty for a whole capture with a good clock."""
        found = [] if self.truncated is None else [self.truncated]
        if not self.begins_whole:
            found.append(f"begins in the middle of the connection: {self.begins.why}")
        if self.shift.value is None and self.has_acks:
            found.append(f"window scale unknown ({self.shift.why}): at least {self.least_shift} by what was in flight")
        if self.sack.value == "unknown":
            found.append(f"whether SACK was used is unknown: {self.sack.why}")
        elif self.cut_acks:
            found.append(f"options cut in {self.cut_acks} of {self.acks} ACKs: not every SACK block is known")
        if self.ahead_ns:
            words = f"segments pass up to {self.ahead_ns / 1e6:.4g} ms before what they answer"
            found.append(f"{words} (two clocks, or not in the order in which they came): nothing finer is told by them")
        elif self.clock.is_coarse:
            found.append(_clock_words(self.clock))
        if self.tap_lost_bytes:
            found.append(f"{self.tap_lost_bytes} bytes were acknowledged and never captured: the tap lost packets")
        if self.tap_lost_acks:
            found.append(f"{self.tap_lost_acks} ACKs or more reached the sender and were never captured")
        if self.ecn_cuts:
            found.append(f"the path marks packets (ECN): {self.ecn_cuts} times the window was to fall without a loss")
        if self.copies:
            found.append(f"{self.copies} packets were captured twice: counted once")
        if self.damaged:
            found.append(
                f"{self.damaged} packets have a wrong checksum, as no other has: left out, as a receiver would"
            )
        if self.offload_bytes:
            found.append(f"segments of up to {self.offload_bytes} bytes (offload): several packets each on the wire")
        return tuple(found)

    @property
    def hides_blocks(self) -> bool:
        """Whether it is not told what arrived out of order: options cut, or nothing that says whether SACK was used."""
        return bool(self.sack.value == "unknown" or self.cut_acks > CUT_SHARE * self.acks)

    @property
    def hides_details(self) -> str | None:
        """Why what single packets do is not certain here, so that no candidate is refuted by it; None: it is."""
        if self.hides_blocks:
            return "SACK blocks are missing"
        if self.tap_lost_bytes or self.tap_lost_acks:
            return "the tap lost packets"
        if self.clock.jitter_ns or self.clock.resolution_ns > COARSE_NS:
            return "the clock is coarse"
        return "segments were merged (offload)" if self.offload_bytes else None

    def refuses(self, claim: Claim) -> str | None:
        """Why the capture cannot carry a claim; None: it can."""
        if not self.has_acks:
            return "only the sender's direction was captured: no ACK, so no window"
        if not self.has_data:
            return "only the receiver's direction was captured: no data segment"
        if self.ahead_ns and self.clock.jitter_ns and claim == "losses":
            return "packets are not in the order in which they came: what filled a hole was late, or sent again"
        if self.ahead_ns and claim in ("window", "initial_window", "cycles", "recovery"):
            return "causes are stamped after their effects: which ACK released which segment is not known"
        if self.ecn_cuts and claim in ("control", "cycles"):
            return "the window answers ECN marks as well as losses, and which of them is not looked into"
        if self.tap_lost_bytes > FLIGHT_LOST_SHARE * self.bytes and claim in ("window", "limits"):
            return f"the tap lost {self.tap_lost_bytes / self.bytes:.0%} of the data: what was outstanding is not known"
        if claim in ("losses", "cycles") and self.tap_lost_bytes > LOST_SHARE * self.bytes:
            return f"the tap lost {self.tap_lost_bytes / self.bytes:.1%} of the data: what was sent twice is not known"
        if claim == "initial_window" and (not self.begins_whole or self.syns.value == "none"):
            # A quiet start without a SYN may be any pause of the connection.
            return f"the capture does not hold the connection's beginning: {self.begins.why}"
        if claim in ("recovery", "cycles") and self.sack.value == "unknown":
            return f"whether the ACKs carried SACK blocks is unknown: {self.sack.why}"
        return None


def _clock_words(clock: Clock) -> str:
    if clock.jitter_ns:
        return f"stamps go back by up to {clock.jitter_ns / 1e6:.4g} ms: nothing finer is told by them"
    if clock.set_forward_ns:
        words = f"by up to {clock.set_forward_ns / 1e6:.4g} ms, while no time passed for the hosts: undone"
        return f"the clock was set forward, {words}"
    if clock.steps_back:
        return f"the clock was set back {clock.steps_back} times, by up to {clock.stepped_ns / 1e6:.4g} ms: undone"
    return f"stamps {clock.resolution_ns / 1e6:.4g} ms apart (clock or interrupts): nothing finer is told by them"


def look(rows: Any, row: Any, direction: int) -> tuple[Tap, Ints, Ints]:
    """The tap of one direction, and the times of its segments and ACKs as far as the clock can be trusted.

    `rows`: columns of the segments sent and of the ACKs received; `row`: the row of the table of connections.
    """
    segments, acks = rows
    side, other = SIDES[direction], SIDES[1 - direction]
    sent_ns, heard_ns, clock = _times(segments, acks)
    shift, least = _shift(segments, acks, row, other)
    ahead = max(ahead_ns(segments, acks, sent_ns, heard_ns), _syn_after_ack(row))
    clock = replace(clock, resolution_ns=max(clock.resolution_ns, ahead))
    lengths = segments["length"]
    largest = int(lengths.max(initial=0))
    options = [float(row[f"mss_{each}"]) for each in SIDES]
    most = max([*(option for option in options if not math.isnan(option)), 0.0])
    cut = int(row[f"options_cut_{other}"])
    tap = Tap(
        vantage=Fact(value=str(row["vantage"])),
        syns=_syns(row),
        shift=shift,
        least_shift=least,
        sack=_sack(row, acks, cut),
        timestamps=Fact(value=bool(row["timestamps"])),
        clock=clock,
        offload_bytes=largest if largest > (2 * most or _one_packet(lengths)) else 0,
        copies=int(row["duplicate_packets_client"] + row["duplicate_packets_server"]),
        damaged=int(row["damaged_packets_client"] + row["damaged_packets_server"]),
        tap_lost_bytes=_never_captured(segments, acks),
        tap_lost_acks=unheard_by_echo(segments, acks) or 0,
        ahead_ns=ahead,
        ecn_cuts=_ecn_cuts(acks),
        begins=_begins(segments, acks, row, side, other),
        ends=Fact(value=str(row["end"])),
        bytes=int(row[f"unique_bytes_{side}"]) + int(row[f"missing_bytes_{side}"]),
        has_data=bool((lengths > 0).any()),
        has_acks=len(acks["time_ns"]) > 0,
        cut_acks=cut,
        acks=len(acks["time_ns"]),
    )
    return tap, sent_ns, heard_ns


def _syn_after_ack(row: Any) -> int:
    """By how much a SYN was captured after its ACK; less than a coarse clock leaves open is a tap's own disorder."""
    found = [float(row[f"syn_after_ack_ns_{side}"]) for side in SIDES]
    late = max((each for each in found if not math.isnan(each)), default=0.0)
    return int(late) if late > COARSE_NS else 0


def _times(segments: Any, acks: Any) -> tuple[Ints, Ints, Clock]:
    """When segments and ACKs passed, and the clock: the columns themselves where nothing has to be put in order."""
    sent_ns, heard_ns = segments["time_ns"], acks["time_ns"]
    is_sent = np.zeros(len(sent_ns) + len(heard_ns), dtype=bool)
    # Both rise, and no packet is in both.
    is_sent[np.searchsorted(acks["packet"], segments["packet"]) + np.arange(len(sent_ns))] = True
    stamps = np.empty(len(is_sent), dtype=np.int64)
    stamps[is_sent], stamps[~is_sent] = sent_ns, heard_ns
    clock = clock_of(stamps, is_sent)
    times = in_order(stamps, clock)
    times, step = set_forward((segments, acks), times, is_sent)
    if step:
        clock = replace(clock, set_forward_ns=step)
    return (sent_ns, heard_ns, clock) if times is stamps else (times[is_sent], times[~is_sent], clock)


def _ecn_cuts(acks: Any) -> int:
    """Runs of ACKs that echo a mark; a SYN's bit offers it."""
    echoes = (acks["flags"] & (ECE | SYN)) == ECE
    return int(np.count_nonzero(echoes[1:] & ~echoes[:-1]))


def _one_packet(lengths: Ints) -> int:
    """The largest segment that may have been a single packet, where no SYN tells."""
    small = lengths[(lengths > LEAST_MSS) & (lengths <= ETHERNET_MSS)]
    large = lengths[lengths > ETHERNET_MSS]
    if not len(small) or not len(large):
        return ONE_PACKET_BYTES
    values, counts = np.unique(small, return_counts=True)
    usual = int(values[np.argmax(counts)])
    is_whole = np.mean(large % usual == 0) > WHOLE_SHARE
    return usual if is_whole and counts.max() > CUT_SHARE * len(lengths) else ONE_PACKET_BYTES


def _never_captured(segments: Any, acks: Any) -> int:
    """Bytes that were acknowledged and lie in holes of what was captured."""
    offsets = segments["offset"]
    if not len(offsets) or not len(acks["time_ns"]):
        return 0
    order = np.argsort(offsets, kind="stable")
    ends = (offsets + segments["length"])[order]
    starts = offsets[order]
    del order
    # In place: of each of these a long connection has some megabytes.
    covered = np.minimum(np.maximum.accumulate(ends, out=ends), int(acks["ack_offset"].max()), out=ends)
    starts = np.minimum(starts, int(acks["ack_offset"].max()), out=starts)
    holes = np.subtract(starts[1:], covered[:-1], out=starts[1:])
    return int(np.maximum(holes, 0, out=holes).sum())


def _syns(row: Any) -> Fact:
    seen = [side for side in SIDES if int(row[f"syns_{side}"]) > 0]
    if len(seen) == 2:
        return Fact(value="both")
    if not seen:
        return Fact(value="none", why="no SYN in the capture")
    return Fact(value=seen[0], why=f"only the {seen[0]}'s SYN is in the capture")


def _shift(segments: Any, acks: Any, row: Any, other: str) -> tuple[Fact, int]:
    """The shift of the windows that the receiver offered: known from both SYNs, or at least what was in flight."""
    known = float(row[f"wscale_{other}"])
    least = _least_shift(segments, acks)
    if math.isnan(known):
        if not int(row[f"syns_{other}"]):
            return Fact(value=None, why="the receiver's SYN is not in the capture"), least
        return Fact(value=None, why="a SYN's options are cut, or only one SYN was captured"), least
    if least > 0:
        # RFC 9293: what was sent fits the window offered, so the windows are larger than the SYNs say.
        why = "more was in flight than the SYNs' window scale allows"
        return Fact(value=None, why=why), int(known) + least
    return Fact(value=int(known)), int(known)


def _least_shift(segments: Any, acks: Any) -> int:
    """By how much the windows in the table must at least be scaled for what was sent to fit."""
    lengths = segments["length"]
    heard = np.searchsorted(acks["packet"], segments["packet"])
    fresh = (lengths > 1) & ~segments["is_retransmission"] & (heard > 0)
    heard = heard[fresh]
    ends = (segments["offset"] + lengths)[fresh]
    if not len(ends):
        return 0
    # Merged segments are cut to fit a window like any other.
    slack = BEYOND_SEGMENTS * min(int(lengths.max(initial=0)), _one_packet(lengths))
    edge, rwnd = acks["ack_offset"], acks["rwnd"]
    scaled = (acks["flags"] & SYN) == 0
    for shift in range(LARGEST_SHIFT):
        offered = np.maximum.accumulate(edge + np.where(scaled, rwnd << shift, rwnd))
        offered += slack
        if np.mean(ends > offered[heard - 1]) <= BEYOND_SHARE:
            return shift
    return LARGEST_SHIFT


def windows(acks: Any, tap: Tap, row: Any, other: str) -> Ints:
    """The windows offered, scaled by what is known, or by the least that fits."""
    rwnd: Ints = acks["rwnd"]
    known = float(row[f"wscale_{other}"])
    more = tap.least_shift - (0 if math.isnan(known) else int(known))
    if more <= 0:
        return rwnd
    return np.where((acks["flags"] & SYN) == 0, rwnd << more, rwnd)


def _sack(row: Any, acks: Any, cut: int) -> Fact:
    """RFC 2018 section 2: used where both SYNs permit it, seen where an ACK carries a block."""
    if bool(row["sack"]) or len(acks["sack_edges"]):
        return Fact(value="used")
    count = len(acks["time_ns"])
    if cut > CUT_SHARE * count:
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
