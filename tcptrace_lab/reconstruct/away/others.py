"""What the other connections of a capture did meanwhile: numbers of the same host that they took, a path they shared.

The same ends and ports at the same time are the same packets, captured on another VLAN or outside of its tunnel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.away.arrivals import IP_ID_SPACE
from tcptrace_lab.reconstruct.away.numbered import counts_packets
from tcptrace_lab.reconstruct.given import MAJORITY, MINORITY, SIDES
from tcptrace_lab.reconstruct.timeline import Ints

if TYPE_CHECKING:
    from tcptrace_lab.capture import Connection

# With more connections than this in a capture a host's counter is taken to be shared: each is not compared with all.
MANY_CONNECTIONS = 1_000


def numbers_alone(connection: Connection, side: str, ip_id: Ints, sent_ns: Ints) -> bool:
    """Whether no other connection of the capture may have taken some of a host's IP identifications meanwhile.

    A host with one counter for all skips as many numbers here as it sends packets of others; one with a counter for
    each connection (Linux) skips those of its own that never reached the tap.
    """
    if not 1 < len(connection.capture) <= MANY_CONNECTIONS:
        return len(connection.capture) == 1
    steps = np.diff(ip_id) % IP_ID_SPACE
    skipped = (steps - 1)[(steps > 1) & (steps < IP_ID_SPACE // 2)].sum()
    if not skipped or not counts_packets(ip_id):
        return True
    table, hosts, row = connection.capture.columns, connection.capture.hosts, connection.row
    others = _meanwhile(connection)
    begin, length = int(row["start_ns"]), int(row["duration_ns"])
    starts, lasts = table["start_ns"][others], table["duration_ns"][others]
    shared = np.minimum(starts + lasts, begin + length) - np.maximum(starts, begin)
    share = np.clip(shared / np.maximum(lasts, 1), 0.0, 1.0)
    sent = [share * (table[f"packets_{own}"] - table[f"duplicate_packets_{own}"])[others] for own in SIDES]
    of_host = [hosts[own][others] == row[side] for own in SIDES]
    foreign = np.array([np.where(own, 0.0, count) for own, count in zip(of_host, sent, strict=True)])
    direction, most = np.unravel_index(np.argmax(foreign), foreign.shape) if foreign.size else (0, 0)
    if foreign.any() and _is_between(connection, int(others[most]), int(direction), (ip_id, sent_ns)):
        # One host by its numbers: a translator gave the two connections other addresses.
        name = hosts[SIDES[direction]][others[most]]
        of_host = [own | (hosts[each][others] == name) for own, each in zip(of_host, SIDES, strict=True)]
    taken = sum(float(count[own].sum()) for own, count in zip(of_host, sent, strict=True))
    return not taken or bool(skipped < MAJORITY * taken)


def _is_between(connection: Connection, number: int, direction: int, own: tuple[Ints, Ints]) -> bool:
    """Whether most of another's segments have numbers between those that passed before and after them."""
    if not connection.capture.holds(number, direction):
        return False
    ip_id, sent_ns = own
    segments, _ = connection.capture.rows(number, direction)
    before = _core.places(sent_ns, segments["time_ns"])
    after = _core.places(sent_ns, segments["time_ns"], or_equal=True)
    known = (before > 0) & (after < len(sent_ns))
    if not known.any():
        return False
    least = ip_id[before[known] - 1]
    step, most = ((each - least) % IP_ID_SPACE for each in (segments["ip_id"][known], ip_id[after[known]]))
    return bool(np.mean((step > 0) & (step < most)) > MAJORITY)


def shares_path(connection: Connection) -> bool:
    """Whether other connections carried so much past the tap meanwhile that this one's spacing is not its own."""
    if len(connection.capture) == 1:
        return False
    if len(connection.capture) > MANY_CONNECTIONS:
        return True
    sizes = connection.capture.columns["bytes"]
    return bool(sizes[_meanwhile(connection)].sum() > MINORITY * connection.row["bytes"])


def _meanwhile(connection: Connection) -> Ints:
    """The rows of the other connections that were seen beside this one, each once."""
    table, row = connection.capture.columns, connection.row
    begin, end = int(row["start_ns"]), int(row["start_ns"] + row["duration_ns"])
    beside = np.flatnonzero((table["start_ns"] <= end) & (table["start_ns"] + table["duration_ns"] >= begin))
    # Connections that share both ports, and not the hosts, are seldom.
    ports = (table["client_port"].astype(np.int64) << 16) + table["port"]
    _, first = np.unique(ports[beside], return_index=True)
    once = beside[first]
    found: Ints = once[ports[once] != ports[connection.id]]
    return found
