"""The ACKs of one stretch in which a window moved by its control's own rule, and where the flight was that window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tcptrace_lab.classify.marks import ACK
from tcptrace_lab.reconstruct.timeline import Bools, Floats, Ints

if TYPE_CHECKING:
    from tcptrace_lab.classify.heard import Heard

# Within an epoch, so many ACKs in a row (or a tenth of those before) may find the sender not held back by its window;
# after more than that its window is not what was replayed.
UNLIMITED_ACKS = 8
UNLIMITED_SHARE = 0.1


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """The ACKs of one stretch in which the window moved by the control's own rule.

    `flight` is what was observed after each of `acks`, in bytes; `is_limited` where it is the window, `has_sent` where
    the ACK released something: elsewhere more may be outstanding than the window allows. `loss` and `settled` (-1:
    none) are the marks of the loss event before it and of where the window it left is seen, `before` and `after` the
    windows observed there.
    """

    heard: Heard
    number: int
    first: int
    last: int
    is_slow_start: bool
    had_slow_start: bool
    begin: str
    loss: int
    settled: int
    before: float
    after: float
    ends_in_loss: bool

    @property
    def acks(self) -> Ints:
        return self.first + 1 + np.flatnonzero(self.heard.kind[self.first + 1 : self.last + 1] == ACK)

    @property
    def flight(self) -> Floats:
        return self.heard.flight[self.acks].astype(float)

    @property
    def is_limited(self) -> Bools:
        return self.heard.limited[self.acks]

    @property
    def has_sent(self) -> Bools:
        return self.heard.has_sent[self.acks]

    @property
    def rounds(self) -> npt.NDArray[np.int32]:
        """The number of the round trip of each."""
        return self.heard.round[self.acks]

    @property
    def at_work(self) -> Ints:
        """Places of the ACKs at which the flight is the window, up to where something else has held the sender back
        for long."""
        is_limited = self.is_limited
        idle = np.cumsum(~is_limited)
        over = np.flatnonzero(idle > UNLIMITED_ACKS + UNLIMITED_SHARE * np.arange(len(idle)))
        found = np.flatnonzero(is_limited)
        return found[found < over[0]] if len(over) else found
