"""The other flows of a capture that may share a flow's bottleneck."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tcptrace_lab.capture import PACKETS_PER_PASS
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import Sender, sender
from tcptrace_lab.reconstruct.timeline import Ints

if TYPE_CHECKING:
    from tcptrace_lab.capture import Capture

# A flow of fewer bytes than this share takes too little of the rate to be missed.
LEAST_SHARE = 0.02
# With more than this at the same time, one that was not captured would not be missed either: no claim from the sum.
MOST = 7
# Connections overlap with those that began shortly before: so many are not worked out again for each.
KEPT = 4 * MOST


class Neighbours:
    """Of every flow of one capture, asked for in turn."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._kept: dict[int, tuple[Sender, Reconstruction]] = {}

    def of(self, who: Sender) -> tuple[Reconstruction, ...]:
        """Every flow that sent beside this one for some time; none where they are too many to rest anything on.

        The same ends and ports at the same time are the same flow, captured on another VLAN or outside of its tunnel.
        """
        table, own = self._capture.columns, who.connection
        # Where not all flows are held at once, each would be another pass over the file.
        if len(self._capture) > MOST and self._is_long:
            return ()
        begins, ends = self._lasts
        beside = (begins < ends[own]) & (ends > begins[own]) & (table["bytes"] > LEAST_SHARE * table["bytes"][own])
        numbers = list(itertools.islice(_apart(table, own, np.flatnonzero(beside)), MOST + 1))
        if len(numbers) > MOST:
            return ()
        return tuple(seen for other, seen in map(self._seen, numbers) if _is_beside(other, who))

    @cached_property
    def _is_long(self) -> bool:
        return int(self._capture.columns["packets"].sum()) > PACKETS_PER_PASS

    @cached_property
    def _lasts(self) -> tuple[Ints, Ints]:
        begins = self._capture.columns["start_ns"]
        return begins, begins + self._capture.columns["duration_ns"]

    def _seen(self, number: int) -> tuple[Sender, Reconstruction]:
        found = self._kept.pop(number, None)
        if found is None:
            other = sender(self._capture[number])
            found = (other, Reconstruction(other.timeline))
        # The one not asked for longest makes room.
        self._kept[number] = found
        if len(self._kept) > KEPT or self._is_long:
            del self._kept[next(iter(self._kept))]
        return found


def _is_beside(other: Sender, who: Sender) -> bool:
    """Whether the tap sees both from the same place: so it does what goes from one host to one other."""
    hosts = [(each.sender.rpartition(":")[0], each.receiver.rpartition(":")[0]) for each in (other, who)]
    return other.vantage == who.vantage or hosts[0] == hosts[1]


def _apart(table: Mapping[str, Any], own: int, beside: Ints) -> Iterator[int]:
    """One of each ends, and none of its own."""
    names = {_ends(table, own)}
    for number in map(int, beside):
        ends = _ends(table, number)
        if ends not in names:
            names.add(ends)
            yield number


def _ends(table: Mapping[str, Any], number: int) -> tuple[Any, ...]:
    return tuple(table[name][number] for name in ("client", "client_port", "server", "port"))
