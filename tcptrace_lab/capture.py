"""A capture read and followed: its connections, and per flow the segments sent and the ACKs received.

All times are integer nanoseconds, all offsets and lengths integer bytes. Offset 0 is a flow's first byte of data, or,
where the capture starts in the middle of a connection, the first byte seen. The numeric columns of `segments` and
`acks` are numpy arrays that the core filled; pandas wraps them without a copy.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tcptrace_lab import _core
from tcptrace_lab.errors import CaptureError
from tcptrace_lab.flow import Columns, Flow
from tcptrace_lab.source import Source, SourceFile

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from tcptrace_lab.classify.verdict import Verdict
    from tcptrace_lab.reconstruct.reconstruction import Reconstruction

# Name -> module with `follow_file(path, name, *, detail) -> _core.Capture`.
BACKENDS: dict[str, str] = {
    "native": "tcptrace_lab.capture",
    "tshark": "tcptrace_lab.backends.tshark",
    "scapy": "tcptrace_lab.backends.scapy",
}

# Of which connections rows are kept: none, all, these, what these ends of these sent, or what the first one's main
# sender sent.
Detail = bool | list[int] | list[tuple[int, int]] | Literal["first"] | None
# Detail of neighbours is read in one pass with that of the connection asked for, up to so many packets.
PACKETS_PER_PASS = 500_000


def read(
    source: Source, *, backend: str = "native", detail: bool | list[int] | Literal["first"] | None = None
) -> Capture:
    """Read a pcap or pcapng capture (gzip, zstd seen through): a path, `-` for standard input, or a binary file object.

    `detail` asks for the per-segment columns at once (True: of all connections); without it they are read when first
    looked at, in a second pass over the file. "first" keeps what the main sender's timeline of the first connection is
    made of.

    CaptureError where it cannot be read (a cut file can: `truncated` says where); ValueError for an unknown backend, or
    a source that is neither a path nor a binary file.
    """
    if backend not in BACKENDS:
        raise ValueError(f"unknown backend {backend!r}; known: {', '.join(BACKENDS)}")
    module = importlib.import_module(BACKENDS[backend])
    if backend == "scapy" and not isinstance(source, (str, os.PathLike)) and not hasattr(source, "read"):
        again: Reader = module.follower_of(source)
        return Capture(again(detail), reread=again)
    file = SourceFile(source)

    def reread(wanted: Detail) -> _core.Capture:
        followed: _core.Capture = module.follow_file(file.path, file.name, detail=wanted)
        return followed

    return Capture(reread(detail), reread=reread, file=file)


def follow_file(path: str, name: str, *, detail: Detail = None) -> _core.Capture:
    """The native backend: the core reads the file itself."""
    return _core.read_path(path, detail, None, name)


class Reader(Protocol):
    """Follows the capture again, with the detail wanted."""

    def __call__(self, wanted: Detail, /) -> _core.Capture: ...


class ConnectionColumns(Mapping[str, Any]):
    """Columns of a table of connections as arrays (text as lists), each made when first looked at: of a million
    connections all would be larger than what was read."""

    def __init__(self, core: _core.Capture) -> None:
        self._core = core
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = self._core.connection_column(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name, *_ in _core.COLUMNS)

    def __len__(self) -> int:
        return len(_core.COLUMNS)


class Capture:
    """All connections of a capture, in order of their first packet."""

    def __init__(self, core: _core.Capture, *, reread: Reader | None = None, file: SourceFile | None = None) -> None:
        self._core = core
        self._reread = reread
        self._file = file
        self._flows: dict[int, tuple[Flow, Flow]] = {}
        self._rows: dict[tuple[int, int], Columns] = {}

    @property
    def name(self) -> str:
        """The file, or what stands for it."""
        return self._core.name

    @property
    def path(self) -> str | None:
        """The file that it was read from (a copy, of a stream); None: it came from no file."""
        return None if self._file is None else self._file.path

    @property
    def packets(self) -> int:
        """Records in the capture, TCP or not."""
        return self._core.packets

    @property
    def segments(self) -> int:
        """Records that held a TCP segment."""
        return self._core.segments

    @property
    def undecoded(self) -> dict[str, int]:
        """Records without a TCP segment, by cause."""
        return self._core.undecoded

    @property
    def unknown_link_type(self) -> str | None:
        """The (first) link type in which no IP is looked for, by number and name, if the capture has such packets."""
        return self._core.unknown_link_type

    @property
    def truncated(self) -> tuple[int, str] | None:
        """Where the capture is cut or damaged: byte offset and reason; None: it is whole."""
        return self._core.truncated

    @cached_property
    def columns(self) -> ConnectionColumns:
        """The columns of `connections` without pandas."""
        return ConnectionColumns(self._core)

    @cached_property
    def hosts(self) -> dict[str, Any]:
        """The addresses of clients and servers as arrays, for a comparison with all."""
        import numpy as np

        return {side: np.array(self.columns[side], dtype=str) for side in ("client", "server")}

    @cached_property
    def connections(self) -> pd.DataFrame:
        """One row per connection."""
        import pandas as pd

        return pd.DataFrame(self.connection_columns())

    def connection_columns(self, first: int = 0, count: int | None = None) -> dict[str, Any]:
        """So many rows of `connections` from row `first` on as columns, without keeping them."""
        return self._core.connection_columns(first, count)

    def accepted(self, expression: str) -> list[int]:
        """Ids of the connections for which an expression over the table's columns holds: `port==443 and bytes>1e6`."""
        return self._core.accepted(expression)

    def __len__(self) -> int:
        return len(self._core)

    def __getitem__(self, id: int) -> Connection:
        if id < 0:
            id += len(self)
        if not 0 <= id < len(self):
            raise IndexError(f"no connection {id}: {self.name} has {len(self)}")
        return Connection(self, id)

    def __iter__(self) -> Iterator[Connection]:
        return (self[id] for id in range(len(self)))

    def __repr__(self) -> str:
        cut = f", truncated at byte {self.truncated[0]}" if self.truncated else ""
        return f"<Capture {self.name}: {self.packets} packets, {len(self)} connections{cut}>"

    def flows(self, id: int) -> tuple[Flow, Flow]:
        """Both flows of a connection, read on demand."""
        if id not in self._flows:
            core = self._core
            if not core.has_detail(id, 0):
                # What was read before and does not belong to this neighbourhood makes room.
                self._flows.clear()
                core = self._again(self._near(id))
            for near in range(len(core)):
                if near not in self._flows and core.has_detail(near, 0):
                    self._flows[near] = (_flow(core, near, 0), _flow(core, near, 1))
        return self._flows[id]

    def holds(self, id: int, direction: int) -> bool:
        """Whether `rows` are at hand, without another pass over the file."""
        return id in self._flows or (id, direction) in self._rows or bool(self._core.has_detail(id, 0))

    def rows(self, id: int, direction: int) -> Columns:
        """What one side of a connection (0: the client) sent and was told, without what only the tables show.

        As arrays, and less than half as large: what a sender's timeline is made of.
        """
        if id in self._flows:
            return self._flows[id][direction].columns
        if self._core.has_detail(id, 0):
            return self.flows(id)[direction].columns
        if (id, direction) not in self._rows:
            core, wanted = self._core, [(id, direction)]
            if core.has_detail(id, direction) is None:
                main = self.columns["unique_bytes_server"] > self.columns["unique_bytes_client"]
                wanted += ((near, int(main[near])) for near in self._near(id)[1:])
                core = self._again([(near, core.end_of(near, side)) for near, side in wanted])
            self._rows.clear()
            for near, side in wanted:
                taken = core.take_columns(near, side)
                if taken is not None:
                    self._rows[near, side] = taken
            if self.columns["packets"][id] > PACKETS_PER_PASS:
                # So many are not held beside what is made of them; asked for again, they are read again.
                return self._rows.pop((id, direction))
        return self._rows[id, direction]

    def read_ahead(self, id: int) -> list[int]:
        """Reads rows of the main sender of a connection and, while those fit, of those after it: which they are."""
        main = int(self.columns["unique_bytes_server"][id] > self.columns["unique_bytes_client"][id])
        near = self._near(id)
        if len(near) == 1 or self._core.has_detail(id, main) is not None:
            # Read when it is looked at.
            return [id]
        self.rows(id, main)
        return near

    def _near(self, id: int) -> list[int]:
        """A connection and, while that is cheap, those after it."""
        packets = self.columns["packets"]
        wanted, total = [id], int(packets[id])
        for near in range(id + 1, len(self)):
            total += int(packets[near])
            if total > PACKETS_PER_PASS:
                break
            wanted.append(near)
        return wanted

    def _again(self, wanted: list[int] | list[tuple[int, int]]) -> _core.Capture:
        """The capture followed again, with rows of these connections."""
        if self._reread is None:
            raise CaptureError(f"{self.name}: no per-segment detail was kept for connection {wanted[0]}")
        return self._reread(wanted)

    def replay(self, **how: Any) -> Any:
        """Replay it (tcptrace_lab/replay): a Run as the simulator's, for tables, plots and verdicts.

        `through=scenario` alone: every packet through that path, open loop. With `control=` (a name or a Control) or
        `as_found=True`: its data sent again by a simulated sender, over the path found or `through`'s.
        """
        # The replayer stands above this layer: it needs verdicts.
        return importlib.import_module("tcptrace_lab.replay").replay(self, **how)

    def to_scapy(self, *, connection: int | None = None) -> Any:
        """The packets as a scapy PacketList; only those of one connection if named."""
        if self._file is None:
            raise CaptureError(f"{self.name}: only a capture read from a file can be handed to scapy")
        from tcptrace_lab.backends.scapy import to_scapy

        if connection is None:
            return to_scapy(self._file.path)
        row = self[connection].summary
        ends = (row["client"], int(row["client_port"]), row["server"], int(row["port"]))
        during = (int(row["start_ns"]), int(row["start_ns"] + row["duration_ns"]))
        return to_scapy(self._file.path, endpoints=ends, during=during)

    def dissect(self, packet: int) -> Any:
        """Wireshark's full dissection of one packet (its number as in the `packet` column), as pyshark gives it."""
        if self._file is None:
            raise CaptureError(f"{self.name}: only a capture read from a file can be dissected")
        from tcptrace_lab.backends.pyshark import dissect

        return dissect(self._file.path, packet)


class Connection:
    """One connection: `summary` (its row), and `flows`: client to server, server to client."""

    def __init__(self, capture: Capture, id: int) -> None:
        self.capture = capture
        self.id = id

    @cached_property
    def summary(self) -> pd.Series[Any]:
        """The connection's row of the connections table."""
        return self.capture.connections.iloc[self.id]

    @cached_property
    def row(self) -> dict[str, Any]:
        """The same without pandas."""
        return {name: column[0] for name, column in self.capture.connection_columns(self.id, 1).items()}

    def rows(self, direction: int) -> Columns:
        """What one side sent and was told (0: the client), as arrays."""
        return self.capture.rows(self.id, direction)

    @property
    def flows(self) -> tuple[Flow, Flow]:
        """Client to server, and server to client."""
        return self.capture.flows(self.id)

    @property
    def data_flow(self) -> Flow:
        """The flow that carries more payload."""
        forward, back = self.flows
        return back if back.segments["length"].sum() > forward.segments["length"].sum() else forward

    def verdict(self) -> Verdict:
        """What the main sender's congestion control did, which regime it was in, and whether theory agrees."""
        from tcptrace_lab import face

        return face.verdict(self)

    def reconstruct(self, *, direction: int | None = None) -> Reconstruction:
        """Windows, phases, losses and cycles of one direction (0: client to server; default: the one with more data).

        Times in nanoseconds since the epoch, windows in bytes; ValueError where there is no such direction.
        """
        from tcptrace_lab import face

        return face.reconstruct(self, direction=direction)

    def plot(self, *, start_s: float | None = None, end_s: float | None = None) -> Figure:
        """Time-sequence graph, window and round trip as a figure; the part between two times in seconds."""
        from tcptrace_lab import face

        return face.plot(self, start_s=start_s, end_s=end_s)

    def __repr__(self) -> str:
        row = self.row
        ends = f"{row['client']}:{row['client_port']} -> {row['server']}:{row['port']}"
        return f"<Connection {self.id}: {ends}, {row['packets']} packets, {row['bytes']} bytes>"


def _flow(core: _core.Capture, id: int, direction: int) -> Flow:
    columns = core.take_columns(id, direction)
    if columns is None:
        raise CaptureError(f"{core.name}: the detail of connection {id} has been taken before")
    return Flow(*columns, direction=direction)
