"""Which hosts of a capture stand before the path: those that send the data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from tcptrace_lab.errors import LabError

# Ethernet's, and what the network card of a capture without a handshake cut its segments to.
USUAL_MTU = 1500
# IP and TCP headers that the MSS option does not count (RFC 6691).
FIXED_HEADERS = 40
FIXED_HEADERS_V6 = 60


@dataclass(frozen=True, kw_only=True)
class Sides:
    """The near hosts (by address; by endpoint where both ends have one address), and the connections between two hosts
    on the same side, whose packets never cross the path."""

    near: tuple[str, ...]
    near_ends: tuple[tuple[str, int], ...]
    not_crossing: tuple[int, ...]


def find_sides(connections: pd.DataFrame, *, near: Sequence[str] = (), name: str = "capture") -> Sides:
    """The two sides of all conversations: hosts that talk stand on different sides, and the side that sends more data
    is near. `near` names hosts that are."""
    if not len(connections) or not int(connections["bytes"].sum()):
        raise LabError(f"{name}: no TCP connection carries data: nothing to replay")
    neighbours: dict[str, list[str]] = defaultdict(list)
    sent: dict[str, int] = defaultdict(int)
    ends = []
    columns = ["client", "client_port", "server", "port", "bytes_client", "bytes_server"]
    for client, client_port, server, port, from_client, from_server in connections[columns].to_numpy().tolist():
        sent[client] += from_client
        sent[server] += from_server
        if client == server:
            ends.append((client, client_port if from_client >= from_server else port))
        else:
            neighbours[client].append(server)
            neighbours[server].append(client)
    if near:
        unknown = set(near) - set(sent)
        if unknown:
            raise LabError(f"{name}: no host {sorted(unknown)[0]}; it has {', '.join(sorted(sent)[:8])}")
        chosen = set(near)
    else:
        chosen = _senders(neighbours, sent)
    crossing = (connections["client"].isin(chosen) != connections["server"].isin(chosen)) | (
        connections["client"] == connections["server"]
    )
    return Sides(
        near=tuple(sorted(chosen)),
        near_ends=tuple(sorted(set(ends))),
        not_crossing=tuple(int(id) for id in connections.loc[~crossing, "id"]),
    )


def _senders(neighbours: dict[str, list[str]], sent: dict[str, int]) -> set[str]:
    """Of each group of hosts that talk, the side that sends more."""
    side: dict[str, bool] = {}
    chosen: set[str] = set()
    # The busiest host of a group decides first: where hosts talk in a triangle, its conversations are the ones kept.
    for start in sorted(neighbours, key=lambda host: -sent[host]):
        if start in side:
            continue
        side[start] = True
        group, at = [start], 0
        while at < len(group):
            host = group[at]
            at += 1
            for other in neighbours[host]:
                if other not in side:
                    side[other] = not side[host]
                    group.append(other)
        totals = {which: sum(sent[host] for host in group if side[host] is which) for which in (True, False)}
        better = totals[True] >= totals[False]
        chosen |= {host for host in group if side[host] is better}
    return chosen


def wire_mtu(connections: pd.DataFrame) -> int:
    """The longest packet of the wire in bytes, from the handshakes' MSS: what is longer was joined by the host."""
    found = 0
    for side in ("client", "server"):
        # Not a number: its SYN was not captured.
        offered = connections[f"mss_{side}"].fillna(0).astype(int)
        for mss, address in zip(offered, connections["client"], strict=True):
            if mss > 0:
                found = max(found, mss + (FIXED_HEADERS_V6 if ":" in str(address) else FIXED_HEADERS))
    return found or USUAL_MTU
