"""A sender's clock as its TSvals show it at another place (RFC 7323 section 5.4: any unit from 1 ms to 1 s).

A segment that an ACK released leaves no earlier than that ACK arrived and carries the tick of then: over many, the ACK
times above their ticks fill the tick from its beginning to its end. The highest of them mark the end of a tick.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.given import FEWEST_SAMPLES

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

WRAP = 1 << 32
# A clock slower than this says nothing of when within a round trip a segment left.
SLOWEST_TICK_NS = 50_000_000
# The line through the ends of the ticks is found from the highest point of each of so many parts of the capture.
PARTS = 24
# Clocks run apart by up to 0.1 % (a quartz drifts by 100 ppm at the most); what fits no line so well is no clock.
RATES_HZ = (1e9, 1e6, 1e5, 1e4, 1000.0, 500.0, 250.0, 200.0, 128.0, 100.0, 64.0, 60.0, 50.0, 20.0, 10.0, 2.0, 1.0)
RATE_TOLERANCE = 0.02


@dataclass(frozen=True, kw_only=True)
class SenderClock:
    """Tick of the sender's clock, and when the tick `stamp` ends: `origin_ns + stamp * tick_ns` on the tap's clock.

    `late_ns`: by how much a segment may have been captured after its tick, at its sender.
    """

    tick_ns: float
    origin_ns: float
    late_ns: float = 0.0

    def ends(self, stamps: Ints) -> Ints:
        """When each tick was over."""
        found: Ints = (self.origin_ns + stamps * self.tick_ns).astype(np.int64)
        return found

    def elapsed(self, since_ns: Ints, until_ns: Ints) -> Ints:
        """The times between as two stamps tell them, in ns: the ticks begun meanwhile, one at least."""
        first, last = ((times - self.origin_ns) // self.tick_ns for times in (since_ns, until_ns))
        found: Ints = np.rint(np.maximum(last - first, 1.0) * self.tick_ns).astype(np.int64)
        return found


def unwrapped(stamps: Ints) -> Ints:
    """A 32-bit clock without its wraps, from 0 at the first stamp; it may step back by less than half its range."""
    found: Ints = _core.unwrapped(np.ascontiguousarray(stamps, dtype=np.int64))
    return found


def signed(difference: Ints) -> Ints:
    """A difference of 32-bit numbers, between minus and plus half the range."""
    found: Ints = difference.astype(np.int32).astype(np.int64)
    return found


def sender_clock(stamps: Ints, times: Ints) -> SenderClock | None:
    """From unwrapped TSvals and, for each, a time not after that of sending and often equal to it; None: no clock."""
    if len(stamps) < FEWEST_SAMPLES or stamps[-1] <= stamps[0] or times[-1] <= times[0]:
        return None
    rough = float(times[-1] - times[0]) / float(stamps[-1] - stamps[0])
    usual = min(RATES_HZ, key=lambda rate: abs(np.log(rate * rough / 1e9)))
    # A short capture's ends lie anywhere within their ticks.
    tolerance = RATE_TOLERANCE + 2 / float(stamps[-1] - stamps[0])
    if abs(usual * rough / 1e9 - 1) < tolerance:
        rough = 1e9 / usual
    if rough > SLOWEST_TICK_NS:
        return None
    zero = int(times[0])

    def above(rows: slice | Ints) -> Floats:
        found: Floats = (stamps[0] - stamps[rows]) * rough + (times[rows] - zero)
        return found

    tops = np.arange(len(stamps)) if len(stamps) <= PARTS else _tops(len(stamps), above)
    slope, height = _core.upper_line((stamps[tops] - stamps[0]).astype(np.float64), above(tops))
    tick = rough + slope
    if abs(slope) > rough / 2:
        # The tap's own clock was set, or these are no stamps of a clock: its tick may even come out as nothing.
        return None
    return SenderClock(tick_ns=tick, origin_ns=zero + height - float(stamps[0]) * tick)


def _tops(count: int, above: Callable[[slice], Floats]) -> Ints:
    """The place of the highest of each part: one after the other, for all are as long as the capture."""
    each, more = divmod(count, PARTS)
    ends = np.cumsum([each + 1] * more + [each] * (PARTS - more)).tolist()
    return np.array([begin + int(np.argmax(above(slice(begin, end)))) for begin, end in pairwise((0, *ends))])
