"""A tap's clock that was set forward while it captured: time passes in the stamps, and for no host.

Data was outstanding, so a sender's timer would have ended a pause so long by sending again (RFC 6298). The receiver's
TSvals (RFC 7323 section 5.4) go on as though there had been none, to the end: what the path holds back comes with old
ones, and new ones follow. Without them the ACKs tell, which go on amid the flight as though there had been none.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.distinct import distinct
from tcptrace_lab.reconstruct.given import MAJORITY
from tcptrace_lab.reconstruct.tap.clock import TICK_SAMPLE
from tcptrace_lab.reconstruct.tap.sender_clock import PARTS, RATE_TOLERANCE, RATES_HZ, Floats, Ints, unwrapped

Bools = NDArray[np.bool_]

# Sent once, and captured behind later ones sooner than any answer could have asked for it: what fills a hole a round
# trip later was lost before the tap.
OUT_OF_ORDER = _core.CAUSES.index("out_of_order")
# RFC 6298 section 2.4: a timer waits for a second at the least, or for less, where round trips are shorter than that.
LEAST_NS = 1_000_000_000
# Gaps looked at, the longest: a clock that is set more often is no clock.
MOST_GAPS = 16
# ACKs on either side of a gap that tell how far the receiver's clock is behind; of so few in all nothing is told.
BESIDE, FEW = 16, 32
# Of the gap: passed on no host's clock. Less, and most of it was a pause.
JUMP_SHARE = 0.8
# A timer waits for some round trips besides (RFC 6298 section 2.3: one, and four times what they vary by).
TIMER_ROUNDS = 4


def set_forward(
    rows: tuple[Any, Any], times: Ints, is_sent: Bools, *, rtt_ns: int
) -> tuple[Ints, int, tuple[int, ...]]:
    """The times without what the clock was set forward by, the largest of these steps, and when each was.

    What passed meanwhile is known to some gaps between packets: so is a time across a step.

    `rows`: segments and ACKs; `times`: of both, in the order of capture; `is_sent`: which of them are segments.
    `rtt_ns`: the usual round trip.
    """
    segments, acks = rows
    long, lasts = _core.long_gaps(times, LEAST_NS)
    if not len(long) or len(acks["ts_val"]) < FEW:
        return times, 0, ()
    gaps = dict(zip(long.tolist(), lasts.tolist(), strict=True))
    # Of ACKs that were cut, or lost their options, the others tell as well.
    stamped = acks["ts_val"] >= 0
    has_stamps = bool(stamped.all()) or np.count_nonzero(stamped) > max(MAJORITY * len(stamped), FEW)
    calm = []
    for at in np.sort(long[np.argsort(-lasts)][:MOST_GAPS]):
        sent = int(np.count_nonzero(is_sent[: at + 1]))
        heard = int(at) + 1 - sent
        # By its stamps a host's timer that expired meanwhile is told from none.
        if _is_calm(segments, acks, sent, heard, is_sent=bool(is_sent[at + 1]) and not has_stamps):
            calm.append((int(at), sent, heard))
    if not calm:
        return times, 0, ()
    found = []
    heard_ns, clock = times[~is_sent][stamped], unwrapped(acks["ts_val"][stamped]) if has_stamps else times[:0]
    for at, sent, heard in calm:
        if has_stamps:
            step = _step(heard_ns, clock, int(np.count_nonzero(stamped[:heard])))
        else:
            is_late = gaps[at] > LEAST_NS + TIMER_ROUNDS * rtt_ns and _goes_on(segments, acks, sent, heard)
            step = int(gaps[at] - np.median(np.diff(times))) if is_late else 0
        if step > JUMP_SHARE * gaps[at]:
            found.append((at + 1, min(step, gaps[at])))
    if not found:
        return times, 0, ()
    moved = np.zeros(len(times), dtype=np.int64)
    for at, step in found:
        moved[at:] += step
    moved = times - moved
    return moved, max(step for _, step in found), tuple(int(moved[at]) for at, _ in found)


def _is_calm(segments: Any, acks: Any, sent: int, heard: int, *, is_sent: bool) -> bool:
    """Whether data was outstanding after so many segments and ACKs, and what comes next is none that a timer sends: the
    earliest that is not acknowledged (RFC 6298 section 5.4). A recovery goes on behind that.

    `is_sent`: it is a segment, and nothing else tells.
    """
    if not (0 < sent < len(segments["offset"]) and 0 < heard < len(acks["ack_offset"])):
        return False
    top, una = _top(segments, sent), int(acks["ack_offset"][:heard].max())
    is_timers = is_sent and int(segments["offset"][sent]) <= una and int(segments["cause"][sent]) != OUT_OF_ORDER
    return top > una and not is_timers


def _goes_on(segments: Any, acks: Any, sent: int, heard: int) -> bool:
    """Whether the next ACK leaves some of the flight outstanding, and no data is missing.

    An ACK of all of it may have been there before, and not been captured: then there was a pause.
    """
    top = _top(segments, sent)
    return int(acks["ack_offset"][heard]) < top and int(segments["offset"][sent]) <= top


def _top(segments: Any, sent: int) -> int:
    return int((segments["offset"][:sent] + segments["length"][:sent]).max())


def _step(times: Ints, clock: Ints, at: int) -> int:
    """How much longer a gap before an ACK was by the tap's clock than by the receiver's, and stayed so; 0: not told."""
    every = slice(None, None, 1 + len(times) // TICK_SAMPLE)
    tick = _tick(times[every], clock[every])
    if tick is None or at + BESIDE > len(times) or clock[-1] <= clock[at]:
        return 0
    rest = distinct(np.arange(at, min(at + BESIDE, len(times))), np.arange(at, len(times))[every])
    before = slice(max(at - BESIDE, 0), at)
    least = _least_behind(times[before], clock[before], tick)
    return max(int(_least_behind(times[rest], clock[rest], tick) - least), 0)


def _least_behind(times: Ints, clock: Ints, tick: float) -> float:
    """How far a host's clock is behind the tap's, of several packets the least: those that waited least."""
    return float((times - clock * tick).min())


def _tick(times: Ints, clock: Ints) -> float | None:
    """A host's tick, from most of the parts of a capture: in few of them the tap's clock was set."""
    slopes: Floats = np.array(list(_slopes(times, clock)))
    rough = float(np.median(slopes)) if len(slopes) else 0.0
    if rough <= 0:
        # Stamps that go nowhere, or back.
        return None
    usual = min(RATES_HZ, key=lambda rate: abs(np.log(rate * rough / 1e9)))
    return 1e9 / usual if abs(usual * rough / 1e9 - 1) < RATE_TOLERANCE else None


def _slopes(times: Ints, clock: Ints) -> Iterator[float]:
    places = np.linspace(0, len(times) - 1, min(PARTS, len(times) // 2) + 1).astype(int)
    for one, other in pairwise(places):
        if clock[other] > clock[one]:
            yield float(times[other] - times[one]) / float(clock[other] - clock[one])
