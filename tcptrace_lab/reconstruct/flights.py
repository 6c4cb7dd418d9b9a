"""What limited a sender, read off its data alone: flights a round trip apart, where the ACKs were not captured.

A window that is not full of what the path holds is sent in a flight, and the next when its ACKs are back. Flights that
grow from each to the next by half and more are a slow start's, wherever they pass; a flight behind a pause, asked for
or after a write's end, is the application's, and so are those behind most of many as small as no window stays. All else
stays unknown: flights that run into each other, those that stay as they are or fill what the receiver offered (either
window may hold them), what was sent again.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.given import DELAYED_ACK_SEGMENTS, FEWEST_ALIKE, FEWEST_SAMPLES, MAJORITY
from tcptrace_lab.reconstruct.tap.sender_clock import Ints
from tcptrace_lab.reconstruct.windows import LIMITS

# The next flight begins about a round trip after this one: sooner it is the rest of this, later a pause was between.
# A delayed ACK, or a queue, makes a round trip half as long again.
SOONEST, LATEST = 0.7, 1.5
# Between two flights nothing passes for this part of a round trip: what lies closer may be one.
APART_SHARE = 0.125
# Slow start adds a segment for each ACK: with delayed ACKs half a window in a round trip, at most a whole one (RFC 5681
# section 3.1), and a few segments are counted here or there.
LEAST_GROWTH, MOST_GROWTH = 1.3, 2.3
# A row of a slow start grows by one factor, within this share; where it has one step only, by the most there is.
STEADY, DOUBLED = 0.9, 1.8
# Three flights in a row show it; two where a handshake has shown what a round trip takes.
FEWEST_KNOWN = 2
# Flights of fewer segments have no size to grow by a share of; and show no round trip, for delayed ACKs.
FEW_SEGMENTS = 3
# The bottleneck's spacing, by the gaps between segments; between two flights nothing passes for so many times as long.
SPACING_PERCENTILE, WIDER = 25, 4
# Round trips that agree: their flights' beginnings are as far apart, within this share.
ALIKE_SHARE = 0.25


@dataclass(frozen=True, kw_only=True)
class Passed:
    """The data of one direction as it passed the tap, each byte once; `asked_ns`: when the other side's did.

    `again_ns`: when the first was sent again (None: none was), `last_ns`: when the last of all passed; `rtt_ns`: a
    handshake's (None: not captured); `resolution_ns`: closer than this two stamps do not tell how far apart they were.
    """

    time_ns: Ints
    offset: Ints
    length: Ints
    asked_ns: Ints
    smss: int
    again_ns: int | None
    last_ns: int
    rtt_ns: int | None
    resolution_ns: int = 1


@dataclass(frozen=True, kw_only=True)
class Offered:
    """The receiver's windows as they passed the tap: when, and up to which offset each let its sender go."""

    time_ns: Ints
    ack: Ints
    rwnd: Ints

    def edge(self, until_ns: int) -> int | None:
        """The right edge by the last that had passed; None: none had."""
        last = int(np.searchsorted(self.time_ns, until_ns, side="right")) - 1
        return None if last < 0 else int(self.ack[last] + self.rwnd[last])


@dataclass(frozen=True, kw_only=True)
class Start:
    """`turn_ns`: from the tap to the sender and back, its host included: the first ACK of a flight released the next.

    `is_whole`: the first flight of all is of the row: nothing was outstanding before it.
    """

    turn_ns: int
    is_whole: bool


@dataclass(frozen=True, kw_only=True)
class _Flight:
    """`last`: its last segment is short of full; `is_joined`: it runs on where the next should begin."""

    offset: int
    top: int
    begin_ns: int
    end_ns: int
    segments: float
    is_short: bool
    is_joined: bool


def shares_by_flights(passed: Passed, offered: Offered | None = None) -> dict[str, float]:
    """The shares of the time by cause, `unknown` among them; empty: the flights tell nothing. `offered`: None where the
    receiver's windows are not known."""
    rtt_ns = passed.rtt_ns or _period(passed)
    if rtt_ns is None or len(passed.time_ns) < 2:
        return {}
    whole = passed.last_ns - int(passed.time_ns[0])
    # Over a path as short as a host takes flights are not told apart, pauses are.
    are_apart, rtt_ns = rtt_ns >= _core.HOST_NS, max(rtt_ns, _core.HOST_NS)
    found = _flights(passed, rtt_ns)
    grows = _growing(found, rtt_ns, is_known=passed.rtt_ns is not None)
    cwnd = application = 0
    # Pauses of which it is not seen what ended them.
    waited = list[int]()
    for place, (flight, after) in enumerate(pairwise([*found, None])):
        assert flight is not None
        next_ns = flight.end_ns if after is None else after.begin_ns
        is_pause = next_ns - flight.begin_ns > LATEST * rtt_ns and not flight.is_joined
        may_fill = _may_fill(flight, offered, passed.smss)
        if is_pause:
            if flight.is_short or _asked(passed, flight.end_ns, next_ns):
                application += next_ns - flight.end_ns
            elif flight.segments <= DELAYED_ACK_SEGMENTS and offered and not may_fill:
                waited.append(next_ns - flight.end_ns)
            next_ns = flight.end_ns
        is_windows = are_apart and grows[place] and not may_fill
        cwnd += next_ns - flight.begin_ns if is_windows else 0
    if passed.again_ns is None and len(waited) > max(FEWEST_SAMPLES, MAJORITY * len(found)):
        # A window as small would have grown; and for a timer to have ended each most first copies would have been lost.
        application += sum(waited)
    if whole <= 0 or not cwnd + application:
        return {}
    told = {**dict.fromkeys(LIMITS, 0.0), "cwnd": round(cwnd / whole, 4), "application": round(application / whole, 4)}
    return {**told, "unknown": round(max(1.0 - sum(told.values()), 0.0), 4)}


def start_by_flights(passed: Passed, ack_ns: Ints, snd_una: Ints) -> Start | None:
    """The row of flights in which a slow start grows first; None: there is none.

    `ack_ns`, `snd_una`: when each ACK passed, and up to where all was acknowledged by then.
    """
    rtt_ns = _period(passed)
    if rtt_ns is None or rtt_ns < _core.HOST_NS:
        return None
    found = _flights(passed, rtt_ns)
    grows = _growing(found, rtt_ns, is_known=False)
    turns: list[int] = []
    for flight, after, is_row in zip(found, found[1:], grows[1:], strict=False):
        answer = int(np.searchsorted(snd_una, flight.offset, side="right"))
        is_alone = flight.end_ns - flight.begin_ns < rtt_ns / 2
        if is_row and is_alone and answer < len(ack_ns) and ack_ns[answer] <= after.begin_ns:
            turns.append(after.begin_ns - int(ack_ns[answer]))
    if not turns:
        return None
    # Those before the row have too few segments for a size to grow by a share of.
    before = pairwise(found[: grows.index(True) + 1])
    is_whole = all(
        each.segments <= after.segments and after.begin_ns - each.begin_ns <= LATEST * rtt_ns for each, after in before
    )
    return Start(turn_ns=min(turns), is_whole=is_whole)


def _period(passed: Passed) -> int | None:
    """The time between flights that follow each other evenly; None: there are none."""
    gaps = np.diff(passed.time_ns)
    if not len(gaps):
        return None
    least = max(_core.HOST_NS, WIDER * _core.percentile(gaps, SPACING_PERCENTILE))
    starts = np.append(0, np.flatnonzero(gaps > least) + 1)
    sizes = np.diff(np.append(starts, len(passed.time_ns)))
    begins, is_large = passed.time_ns[starts], sizes >= FEW_SEGMENTS
    apart = np.diff(begins)[is_large[1:] & is_large[:-1]]
    for first, second in pairwise(apart.tolist()):
        if abs(first - second) <= ALIKE_SHARE * min(first, second):
            return int((first + second) // 2)
    return None


def _flights(passed: Passed, rtt_ns: int) -> list[_Flight]:
    """In turn, up to the first retransmission."""
    times = passed.time_ns
    count = len(times) if passed.again_ns is None else int(np.searchsorted(times, passed.again_ns))
    # A place where one may begin: behind a gap, which stamps of neighbouring ticks do not show.
    apart_ns = max(APART_SHARE * rtt_ns, passed.resolution_ns)
    gaps = np.append(0, np.flatnonzero(np.diff(times[:count]) > apart_ns) + 1)
    begins = times[gaps]
    found: list[_Flight] = []
    first = 0
    while first < count:
        at = int(np.searchsorted(begins, times[first] + SOONEST * rtt_ns))
        upto = int(gaps[at]) if at < len(gaps) else count
        last = upto - 1
        found.append(
            _Flight(
                offset=int(passed.offset[first]),
                top=int((passed.offset[first:upto] + passed.length[first:upto]).max()),
                begin_ns=int(times[first]),
                end_ns=int(times[last]),
                segments=float(passed.length[first:upto].sum()) / passed.smss,
                is_short=bool(passed.length[last] % passed.smss),
                is_joined=bool(times[last] - times[first] > LATEST * rtt_ns),
            )
        )
        first = upto
    return found


def _growing(found: list[_Flight], rtt_ns: int, *, is_known: bool) -> list[bool]:
    """Whether each is of a row that grows as in slow start, and all that the window allowed.

    The last of a row was, if it has grown as the one before it had; after a single step, if it doubled: else the data
    may have ended, or another window begun to hold.
    """
    is_grown = [False] * len(found)
    growth = [1.0, *(_growth(before, after, rtt_ns) for before, after in pairwise(found)), 0.0]
    begin = 0
    for place in range(1, len(found) + 1):
        if growth[place] >= LEAST_GROWTH:
            continue
        count = place - begin
        steady = DOUBLED if count == 2 else STEADY * growth[place - 2]
        if count >= 2 and growth[place - 1] < steady:
            count -= 1
        if count >= (FEWEST_KNOWN if is_known else FEWEST_ALIKE):
            is_grown[begin : begin + count] = [True] * count
        begin = place
    return is_grown


def _growth(before: _Flight, after: _Flight, rtt_ns: int) -> float:
    """By what factor a flight is larger than the one a round trip before; 0: it is not the next."""
    is_next = after.begin_ns - before.begin_ns <= LATEST * rtt_ns
    is_whole = not (before.is_joined or before.is_short or after.is_joined)
    if not is_next or not is_whole or before.segments < FEW_SEGMENTS:
        return 0.0
    growth = after.segments / before.segments
    return growth if growth <= MOST_GROWTH else 0.0


def _may_fill(flight: _Flight, offered: Offered | None, smss: int) -> bool:
    """Whether it may have ended for the receiver's window: what that had room for grows with what is read of it, as a
    slow start does. By the ACKs before it: what came behind those may have opened more, or not in time."""
    edge = None if offered is None else offered.edge(flight.begin_ns)
    return edge is not None and flight.top + smss > edge


def _asked(passed: Passed, since_ns: int, until_ns: int) -> bool:
    first, last = np.searchsorted(passed.asked_ns, [since_ns, until_ns])
    return bool(last > first)
