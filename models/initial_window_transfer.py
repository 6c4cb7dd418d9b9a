"""RFC 2416's starts past the first retransmission: whole transfers with Tahoe's, Reno's, SACK's or FACK's recovery.

The RFC prints its traces up to the first fast retransmission ("And the trace continues...") and then compares: packet N
of the one-packet start at T is packet N - 3 of the four-packet start at T - 2.889 s, whichever of ns's senders is used.
This file continues the traces, packet by packet: `initial_window_chain` is the network, `initial_window_senders` has
the senders. Packets are numbered from 1, as in the RFC; seconds; one set of parameters at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tcptrace_lab.models.initial_window_chain import Chain, Event
from tcptrace_lab.models.initial_window_senders import SENDERS, Timer

from tcptrace_lab.scenario import PathSpec

RECOVERIES = tuple(SENDERS)


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """All events in order of time; `delivered` has the first delivery of each packet, s, by number."""

    events: tuple[Event, ...]
    delivered: dict[int, float]

    def at_sender(self) -> list[Event]:
        """Without what happens at the last queue and at the receiver."""
        return [event for event in self.events if event.what not in ("drop", "deliver")]

    def complete(self, packet: int) -> float:
        """When the receiver has everything up to `packet`, s; infinite if it never does."""
        return max(self.delivered.get(number, math.inf) for number in range(1, packet + 1))


def transfer(
    path: PathSpec, recovery: str, initial_window: int, *, until: float, timer: Timer | None = None
) -> Transfer:
    """A transfer without end over this path, as far as `until` s."""
    if recovery not in RECOVERIES:
        raise ValueError(f"recovery = {recovery!r}: must be one of {', '.join(RECOVERIES)}")
    if initial_window < 1:
        raise ValueError(f"initial_window = {initial_window}: must be >= 1 packets")
    chain = Chain(path, has_sack=recovery in ("sack", "fack"))
    SENDERS[recovery](chain, float(initial_window), timer or Timer()).run(until)
    events = sorted((event for event in chain.events if event.at <= until), key=lambda event: event.at)
    return Transfer(events=tuple(events), delivered={n: at for n, at in chain.delivered.items() if at <= until})
