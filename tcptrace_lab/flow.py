"""One direction of a connection: its columns, and pandas' tables over them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from tcptrace_lab import _core

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

# Of segments and ACKs as the core has them: numpy arrays, causes as codes (`_core.CAUSES`), SACK blocks flat
# (`sack_first`, `sack_edges`, and what they come to: `sack_high`, `sacked`).
Columns = tuple[dict[str, Any], dict[str, Any]]
# Of the ACKs' what follows from others, which the table shows.
BESIDE = ("sack_high", "sacked", "echoes_older")


class Flow:
    """One direction: `segments` are the data segments that its sender sent, `acks` the ACKs that came back to it."""

    def __init__(self, segments: Mapping[str, Any], acks: Mapping[str, Any], *, direction: int) -> None:
        self._segments = segments
        self._acks = acks
        # 0: client to server; 1: server to client.
        self.direction = direction

    @property
    def columns(self) -> Columns:
        """Both tables as arrays, without pandas."""
        return dict(self._segments), dict(self._acks)

    @cached_property
    def segments(self) -> pd.DataFrame:
        """One row per data segment: time_ns, offset, length, flags, is_retransmission, cause, confidence, flight_size,
        pipe, ts_val and ts_ecr (-1: none), ip_id, packet (the record's number)."""
        import pandas as pd

        columns = dict(self._segments)
        columns["cause"] = pd.Categorical.from_codes(columns["cause"].view("int8"), categories=pd.Index(_core.CAUSES))
        return pd.DataFrame(columns, copy=False)

    @cached_property
    def acks(self) -> pd.DataFrame:
        """One row per ACK: time_ns, ack_offset, rwnd, dup_count, sack_blocks (pairs of offsets), rtt_ns and ts_rtt_ns
        (-1: no sample), newly_acked, ts_val and ts_ecr (-1: none), length (data in the same segment), flags, packet."""
        import numpy as np
        import pandas as pd

        columns = {name: column for name, column in self._acks.items() if name not in BESIDE}
        first, edges = columns.pop("sack_first"), columns.pop("sack_edges").tolist()
        blocks = np.empty(len(first) - 1, dtype=object)
        blocks.fill(())
        for row in np.flatnonzero(np.diff(first)):
            flat = edges[first[row] : first[row + 1]]
            blocks[row] = tuple(zip(flat[::2], flat[1::2], strict=True))
        places = list(columns)
        columns["sack_blocks"] = blocks
        places.insert(places.index("dup_count") + 1, "sack_blocks")
        return pd.DataFrame({name: columns[name] for name in places}, copy=False)

    def __repr__(self) -> str:
        ends = ("client to server", "server to client")[self.direction]
        return f"<Flow {ends}: {len(self._segments['time_ns'])} segments, {len(self._acks['time_ns'])} ACKs>"
