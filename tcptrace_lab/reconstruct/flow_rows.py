"""The rows of a connection, as the making of a sender's timeline asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tcptrace_lab.reconstruct.away.arrivals import IS_COPY, Beside, reached
from tcptrace_lab.reconstruct.away.echoes import without_gaps
from tcptrace_lab.reconstruct.away.others import MANY_CONNECTIONS
from tcptrace_lab.reconstruct.flights import Passed
from tcptrace_lab.reconstruct.given import BURST_NS, CWR, SIDES, SYN
from tcptrace_lab.reconstruct.sent_and_heard import IS_SENT
from tcptrace_lab.reconstruct.tap.copies import without_merged
from tcptrace_lab.reconstruct.timeline import Ints

if TYPE_CHECKING:
    from tcptrace_lab.capture import Connection
    from tcptrace_lab.flow import Columns


def with_handshakes(connection: Connection) -> Any:
    """The connection's row, with the shortest handshake of all from the one host to the other: its own may have waited
    in a queue that another filled, or for a SYN that was lost."""
    row = connection.row
    if not 1 < len(connection.capture) <= MANY_CONNECTIONS:
        return row
    table, hosts = connection.capture.columns, connection.capture.hosts
    of_pair = (hosts["client"] == row["client"]) & (hosts["server"] == row["server"])
    least = {name: np.fmin.reduce(table[name][of_pair]) for name in (f"handshake_rtt_ns_{side}" for side in SIDES)}
    return {**row, **least, "handshake_rtt_ns": sum(least.values())}


def rows_of(connection: Connection, direction: int) -> Columns:
    """The flow's own, to be changed."""
    segments, acks = (dict(columns) for columns in connection.rows(direction))
    if len(segments["ts_ecr"]):
        acks["ts_val"] = without_gaps(acks["ts_val"], acks["flags"], int(segments["ts_ecr"][0]))
    if connection.row[f"duplicate_packets_{SIDES[1 - direction]}"]:
        without_merged(segments, acks, is_at_receiver=connection.row["vantage"] == SIDES[1 - direction])
    return segments, acks


def kept_of(rows: Columns) -> Columns:
    """Of the rows what a tap away from the sender needs, and does not have of the timeline."""
    of_segments = ("offset", "length", "cause", "ts_val", "ts_ecr", "ip_id", "bare_ns")
    names = (of_segments, ("time_ns", "length", "ts_val"))
    segments, acks = (
        {name: columns[name] for name in some if name in columns} for columns, some in zip(rows, names, strict=True)
    )
    # Kept long beside what takes most.
    return _narrowed(segments), _narrowed(acks)


def _narrowed(columns: dict[str, Any]) -> dict[str, Any]:
    """Lengths and stamps are 32 bits on the wire, but for -1: not shown."""
    columns["length"] = columns["length"].astype(np.int32)
    for name in ("ts_val", "ts_ecr"):
        if name in columns and int(columns[name].min(initial=0)) >= 0:
            columns[name] = columns[name].astype(np.uint32)
    return columns


def beside_of(connection: Connection, direction: int, kept: Columns) -> Beside:
    """The sender's own ACKs without data, and the other side's segments with data."""
    segments, acks = kept
    if "bare_ns" in segments:
        bare_ns = segments["bare_ns"]
    else:
        _, told = connection.flows[1 - direction].columns
        bare_ns = told["time_ns"][told["length"] == 0]
    return Beside(bare_ns=bare_ns, asked_ns=acks["time_ns"][acks["length"] > 0])


def flights_of(
    connection: Connection,
    direction: int,
    rows: Columns | None,
    sent_ns: Ints,
    *,
    smss: int,
    rtt_ns: float,
    resolution_ns: int,
) -> Passed:
    """The data that was new, and what asked for it; `rows`: what was kept (None: it is read again)."""
    rows = rows or kept_of(connection.rows(direction))
    segments = rows[0]
    kept = (segments["length"] > 0) & ~IS_COPY[segments["cause"]]
    # A clock that was set back shows no time that passed.
    offsets, lengths, times = segments["offset"][kept], segments["length"][kept], np.maximum.accumulate(sent_ns[kept])
    tops = reached(offsets, offsets + lengths)
    fresh = offsets >= tops
    # What the tap put out of order comes at once; later than that it fills a hole of the path's.
    passed = times[np.maximum(np.searchsorted(tops, offsets, side="right") - 1, 0)]
    again = ~fresh & (IS_SENT[segments["cause"][kept]] | (times - passed > BURST_NS))
    return Passed(
        time_ns=times[fresh],
        offset=offsets[fresh],
        length=lengths[fresh],
        asked_ns=beside_of(connection, direction, rows).asked_ns,
        smss=smss,
        again_ns=int(times[np.argmax(again)]) if again.any() else None,
        last_ns=int(times[-1]) if len(times) else 0,
        rtt_ns=int(rtt_ns) if rtt_ns > 0 else None,
        resolution_ns=resolution_ns,
    )


def reduced_ns_of(connection: Connection, direction: int) -> Ints:
    """When the sender's segments passed that say that its window was reduced (CWR, RFC 3168 section 6.1.2)."""
    segments, _ = connection.flows[direction].columns
    found: Ints = segments["time_ns"][(segments["flags"] & (CWR | SYN)) == CWR]
    return found
