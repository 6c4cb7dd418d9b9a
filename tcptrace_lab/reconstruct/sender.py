"""A connection's flow as a sender's timeline: what counts as sent, what as heard, and how large a segment is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tcptrace_lab.reconstruct.arrivals import COPIES
from tcptrace_lab.reconstruct.sender_view import SenderView, away_from_sender
from tcptrace_lab.reconstruct.tap import Fact, Tap, look, windows
from tcptrace_lab.reconstruct.timeline import Ints, Timeline
from tcptrace_lab.reconstruct.vantage import Vantage, vantage

if TYPE_CHECKING:
    from tcptrace_lab.capture import Capture, Connection

# Rows of `segments` that are no transmission of the sender's window: copies, probes, and what the tap put out of order.
NOT_SENT = (*COPIES, "out_of_order")
SIDES = ("client", "server")
# RFC 7323 appendix A: the timestamps option takes 12 bytes of every segment.
TIMESTAMP_BYTES = 12
ETHERNET_MSS = 1460


@dataclass(frozen=True, kw_only=True)
class Sender:
    """One sender of a capture: who, where the tap stood (sender, receiver, middle, unknown), and its timeline."""

    connection: int
    direction: int
    sender: str
    receiver: str
    vantage: str
    handshake_rtt_s: float | None
    lost_before_tap: int
    missing_bytes: int
    timeline: Timeline
    tap: Tap
    # The wire's number of offset 0.
    first_sequence: int | None = None
    where: Vantage | None = None
    view: SenderView | None = None


def senders(capture: Capture) -> Iterator[Sender]:
    """The main sender of every connection that carries data."""
    table = capture.connections
    for row in range(len(table)):
        if table["bytes"].iloc[row] > 0:
            yield sender(capture[row])


def sender(connection: Connection, *, direction: int | None = None) -> Sender:
    """The sender of one direction (0: the client), by default of the one with more data."""
    row = connection.summary
    if direction is None:
        direction = int(row["unique_bytes_server"] > row["unique_bytes_client"])
    side, other = SIDES[direction], SIDES[1 - direction]
    names = {"client": f"{row['client']}:{row['client_port']}", "server": f"{row['server']}:{row['port']}"}
    rtt = float(row["handshake_rtt_ns"])
    flow = connection.flows[direction]
    causes = flow.segments["cause"]
    tap, sent_ns, heard_ns = look(flow, row, direction)
    timeline = _timeline(flow, row, other, tap=tap, sent_ns=sent_ns, heard_ns=heard_ns)
    where, view = vantage(timeline, flow, row, side=side, other=other), None
    if not where.is_at_sender:
        timeline, view = away_from_sender(timeline, flow, where, has_start=tap.begins_whole)
    number = float(row[f"first_seq_{side}"])
    return Sender(
        connection=connection.id,
        direction=direction,
        sender=names[side],
        receiver=names[other],
        vantage=where.place,
        where=where,
        handshake_rtt_s=None if math.isnan(rtt) else rtt / 1e9,
        # What a view puts back is not unseen.
        lost_before_tap=int((causes == "lost_before_tap").sum()) if view is None else 0,
        missing_bytes=int(row[f"missing_bytes_{side}"]),
        timeline=timeline,
        tap=replace(tap, vantage=Fact(value=where.place, why=where.why)),
        first_sequence=None if math.isnan(number) else int(number),
        view=view,
    )


def _timeline(flow: Any, row: Any, other: str, *, tap: Tap, sent_ns: Ints, heard_ns: Ints) -> Timeline:
    segments, acks = flow.segments, flow.acks
    lengths = segments["length"].to_numpy()
    sent = (lengths > 0) & ~segments["cause"].isin(NOT_SENT).to_numpy()
    offsets = segments["offset"].to_numpy()[sent]
    ack_offset = acks["ack_offset"].to_numpy()
    blocks = acks["sack_blocks"].to_numpy()
    sack_high, sacked = _sacked(blocks, ack_offset)
    flags = acks["flags"].to_numpy()
    # SYN, FIN and RST bits: not an answer to data alone.
    bare = (acks["length"].to_numpy() == 0) & ((flags & 0x7) == 0)
    return Timeline(
        send_ns=sent_ns[sent],
        send_offset=offsets,
        send_end=offsets + lengths[sent],
        ack_ns=heard_ns,
        ack_offset=ack_offset,
        rwnd=windows(acks, tap, row, other),
        is_bare=bare,
        sack_high=sack_high,
        sacked=sacked,
        smss=_smss(lengths[sent], row),
        has_start=tap.begins_whole,
        has_sack=bool(row["sack"]) or bool(sacked.any()),
        header_bytes=(40 if ":" in str(row["client"]) else 20) + 20 + (TIMESTAMP_BYTES if row["timestamps"] else 0),
        dsacks=_twice(blocks, ack_offset),
        sack_first=np.cumsum([0, *(2 * len(found) for found in blocks)], dtype=np.int64),
        sack_edges=np.array([edge for found in blocks for block in found for edge in block], dtype=np.int64),
    )


def _sacked(blocks: Any, ack_offset: Ints) -> tuple[Ints, Ints]:
    """Highest SACKed byte and bytes SACKed above each ACK; a block at or below the ACK is a D-SACK (RFC 2883)."""
    high, total = np.zeros(len(blocks), dtype=np.int64), np.zeros(len(blocks), dtype=np.int64)
    for index in np.flatnonzero([len(found) > 0 for found in blocks]):
        ack = ack_offset[index]
        above = {block for block in blocks[index] if block[0] > ack}
        if above:
            high[index] = max(right for _, right in above)
            total[index] = sum(right - left for left, right in above)
    return high, total


def _twice(blocks: Any, ack_offset: Ints) -> tuple[tuple[int, int], ...]:
    """D-SACK (RFC 2883 section 4): a first block at or below the ACK, or within the second, was received twice."""
    found = []
    for index in np.flatnonzero([len(each) > 0 for each in blocks]):
        first, *others = blocks[index]
        inside = bool(others) and others[0][0] <= first[0] and first[1] <= others[0][1]
        if first[1] <= ack_offset[index] or inside:
            found.append((int(first[0]), int(first[1])))
    return tuple(found)


def _smss(lengths: Ints, row: Any) -> int:
    """The sender's segment: the largest seen, or what both MSS options allow where offload made larger ones."""
    largest = int(lengths.max(initial=1))
    options = [float(row[f"mss_{side}"]) for side in SIDES]
    known = [int(option) for option in options if not math.isnan(option)]
    stamp = TIMESTAMP_BYTES if row["timestamps"] else 0
    if known:
        return min(largest, max(min(known) - stamp, 1))
    if largest <= ETHERNET_MSS:
        return largest
    small = lengths[lengths <= ETHERNET_MSS]
    values, counts = np.unique(small, return_counts=True)
    return int(values[np.argmax(counts)]) if len(values) else ETHERNET_MSS - stamp
