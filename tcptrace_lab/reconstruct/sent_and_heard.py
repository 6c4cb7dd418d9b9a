"""The timeline that the rows of a direction's segments and ACKs make: what was sent, what was heard, and how large a
segment is."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.away.arrivals import COPIES, IS_COPY
from tcptrace_lab.reconstruct.given import SYN, TIMESTAMP_BYTES
from tcptrace_lab.reconstruct.tap.segment_size import ETHERNET_MSS, smss_of
from tcptrace_lab.reconstruct.tap.sender_clock import PARTS, SenderClock, sender_clock, unwrapped
from tcptrace_lab.reconstruct.tap.tap import Tap
from tcptrace_lab.reconstruct.timeline import Ints, Timeline

if TYPE_CHECKING:
    from tcptrace_lab.flow import Columns

# Rows of `segments` that are no transmission of the sender's window: copies, probes, and what the tap put out of order.
NOT_SENT = (*COPIES, "out_of_order")
IS_SENT = ~(IS_COPY | (np.arange(256) == _core.CAUSES.index("out_of_order")))
# A clock is read off so many of its stamps.
CLOCK_STAMPS = 1 << 16


def timeline_of(rows: Columns, row: Any, other: str, *, tap: Tap) -> Timeline:
    segments, acks = rows
    sent: Any = (segments["length"] > 0) & IS_SENT[segments["cause"]]
    if sent.all():
        # Nothing is copied.
        sent = slice(None)
    ends = segments["offset"] + segments["length"]
    rwnd = _windows(acks, tap, row, other)
    return Timeline(
        send_ns=segments["time_ns"][sent],
        send_offset=segments["offset"][sent],
        send_end=ends[sent],
        ack_ns=acks["time_ns"],
        ack_offset=_acked(acks["ack_offset"], ends, rwnd),
        rwnd=rwnd,
        # SYN, FIN and RST bits: not an answer to data alone.
        is_bare=(acks["length"] == 0) & ((acks["flags"] & 0x7) == 0),
        sack_high=acks["sack_high"],
        sacked=acks["sacked"],
        smss=smss_of(segments["length"][sent], row),
        has_start=tap.begins_whole,
        has_sack=bool(row["sack"]) or bool(acks["sacked"].any()),
        hides_blocks=tap.hides_blocks,
        has_timestamps=bool(row["timestamps"]),
        has_scale=tap.shift.value is not None,
        header_bytes=(40 if ":" in str(row["client"]) else 20) + 20 + (TIMESTAMP_BYTES if row["timestamps"] else 0),
        dsacks=tuple(_core.dsacks(acks["ack_offset"], acks["sack_first"], acks["sack_edges"])),
        echoes_older=acks["echoes_older"],
        sack_first=acks["sack_first"],
        sack_edges=acks["sack_edges"],
        set_ns=tap.clock.set_at,
        stamp_clock=stamp_clock_of(segments["ts_val"][sent], segments["time_ns"][sent]) if row["timestamps"] else None,
    )


def _windows(acks: Any, tap: Tap, row: Any, other: str) -> Ints:
    """The windows offered, scaled by what is known, or by the least that fits."""
    rwnd: Ints = acks["rwnd"]
    known = float(row[f"wscale_{other}"])
    more = tap.least_shift - (0 if math.isnan(known) else int(known))
    if more <= 0:
        return rwnd
    return np.where((acks["flags"] & SYN) == 0, rwnd << more, rwnd)


def stamp_clock_of(stamps: Ints, times: Ints) -> SenderClock | None:
    """The clock of a host by its own TSvals (-1: not shown), captured beside it."""
    is_shown = stamps >= 0
    if not is_shown.all():
        # Cut, or stripped.
        stamps, times = stamps[is_shown], times[is_shown]
    every = -(-len(stamps) // CLOCK_STAMPS) or 1
    stamps, times = unwrapped(stamps[::every]), times[::every]
    clock = sender_clock(stamps, times)
    if clock is None:
        return None
    # Segments leave within their ticks: the first of a tick bounds its beginning as the last does its end.
    left_ns = clock.ends(stamps) - times
    room = clock.tick_ns - float(left_ns.max())
    # Where they are captured farther apart than by a tick and another, and not because a clock drifts, the tap is late.
    spread_ns = 0.0
    if len(left_ns) > PARTS:
        spread_ns = float(np.median([np.ptp(part) for part in np.array_split(left_ns, PARTS)]))
    late_ns = spread_ns if spread_ns > 2 * clock.tick_ns else 0.0
    return replace(clock, origin_ns=clock.origin_ns + max(room, 0.0) / 2, late_ns=late_ns)


def _acked(numbers: Ints, ends: Ints, rwnd: Ints) -> Ints:
    """The ACK numbers; one of what no window let be sent is not taken (RFC 9293 section 3.10.7.4). `ends`: where each
    segment does."""
    if not len(numbers) or not len(ends):
        return numbers
    is_taken = numbers <= int(ends.max()) + max(int(rwnd.max()), ETHERNET_MSS)
    if is_taken.all() or not is_taken[0]:
        return numbers
    before: Ints = numbers[np.maximum.accumulate(np.where(is_taken, np.arange(len(numbers)), 0))]
    return before
