"""The bottleneck's buffer, by the queue that the segments sent just before each loss had met (drop tail).

One stall of the path or one late ACK makes a round trip long without a queue: nothing here rests on a largest value,
and the claim "a full buffer" needs losses that agree with each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.path.queues import LONGEST_BUT_STALLS_PERCENTILE, LONGEST_PERCENTILE, spread_of
from tcptrace_lab.numbers import counted
from tcptrace_lab.reconstruct.estimate import Estimate, unknown
from tcptrace_lab.reconstruct.given import (
    BLUR_SEGMENTS,
    DELAYED_ACK_SEGMENTS,
    MAJORITY,
    MINORITY,
    ODD_SHARE,
    WITHIN_SEGMENTS,
)
from tcptrace_lab.reconstruct.timeline import Floats

# What is the same queue: one is in service, and a delayed ACK makes it one longer or shorter.
SAME_PACKETS = 1.5
# A buffer overflows at one length: so many of the losses met it, but for those of a lossy link beside it.
TOGETHER_SHARE = 0.7
# Of fewer losses than this none may differ by more than a delayed ACK and the clock leave open: two that a link took
# from two bursts of about one size lie near each other as well.
AGREEING_LOSSES = 4


@dataclass(frozen=True)
class Met:
    """The queues that losses met, in packets (NaN: not known), and those of all samples beside them.

    `at_loss`: what the segment before each first lost one met; `elsewhere`: how much of it may have been before a
    faster line (`held_before`); `behind`: the queue behind each loss (`carried_behind`); `grown`: by how much that
    before it had grown (`grown_to`). `queue`: what every sample met; `own`: what the sender had under way, that apart.
    """

    at_loss: Floats
    elsewhere: Floats
    behind: Floats
    grown: Floats
    queue: Floats
    own: Floats

    def known(self) -> Met:
        """Of the losses whose queue is known."""
        is_known = ~np.isnan(self.at_loss)
        columns = (self.at_loss, self.elsewhere, self.behind, self.grown)
        at_loss, elsewhere, behind, grown = (each[is_known] for each in columns)
        return replace(self, at_loss=at_loss, elsewhere=elsewhere, behind=behind, grown=grown)


def buffer_of(
    met: Met,
    base_rtt: Estimate,
    pps: Estimate,
    *,
    resolution_ns: int,
    stalled_ns: int = 0,
    is_rebuilt: bool = False,
) -> Estimate:
    """Packets that wait in a full buffer, or a lower bound. `stalled_ns`: for so long the tap did not read.
    `is_rebuilt`: when each segment left was inferred from ACKs.

    A path that stands still makes round trips long: no more is said to have queued than there was to queue.
    """
    if not len(met.queue) or pps.value is None:
        return unknown("no rate, so no queue length")
    # Both stamps of a round trip, and of the least one, are known to the clock only.
    blur = float(np.ceil(2 * resolution_ns / 1e9 * pps.value)) if resolution_ns > 1_000 else 0.0
    stalled, known = stalled_ns / 1e9 * pps.value, met.known()
    # What was read late seems to have waited in the path.
    late = float(np.ceil(max(stalled, blur)))
    waited = _core.percentile(np.minimum(met.queue, met.own), LONGEST_BUT_STALLS_PERCENTILE)
    carried = max(float(np.round(waited)) - late, 0.0)
    words = _not_met(known, asked=len(met.at_loss))
    if not words and len(known.at_loss) < AGREEING_LOSSES and stalled > spread_of(_core.median(known.at_loss)):
        # A loss is noticed in a stall as well as elsewhere: that one or two agree says nothing then.
        longest = float(known.at_loss.max())
        words = f"losses met a queue of {longest:.0f} packets, or of less: at times the tap did not read"
        return unknown(words, low=max(carried, float(np.floor(longest - stalled))))
    words = words or _not_one(known, blur)
    return unknown(words, low=carried) if words else _full(known, base_rtt, pps, pps.value, blur, is_rebuilt=is_rebuilt)


def _not_met(known: Met, *, asked: int) -> str:
    """Why losses tell of no buffer, of which so many are known; empty where they may."""
    length = known.at_loss
    if not len(length):
        return "no loss met a known queue: it holds at least what was carried without one"
    if len(length) < min(MAJORITY * asked, AGREEING_LOSSES):
        return f"the queue is known of {len(length)} of {counted(asked, 'loss event')} only"
    if np.mean(known.queue > _core.median(length) - SAME_PACKETS) > MAJORITY:
        # The same queue was carried without a loss most of the time: a window that does not grow, not a full buffer.
        return "losses met the queue that stood most of the time without a loss"
    return ""


def _not_one(known: Met, blur: float) -> str:
    """Why what the losses met is not one full buffer; empty where it is."""
    least, longest = float(known.at_loss.min()), float(known.at_loss.max())
    is_one = len(known.at_loss) >= AGREEING_LOSSES or longest - least <= BLUR_SEGMENTS + blur
    if is_one and are_overflows(known):
        return ""
    if round(least) == round(longest):
        return f"losses met a queue of {longest:.0f} packets: whether the buffer was full is not told"
    return f"losses met queues of {least:.0f} to {longest:.0f} packets: not one full buffer"


def _full(known: Met, base_rtt: Estimate, pps: Estimate, rate: float, blur: float, *, is_rebuilt: bool) -> Estimate:
    """The buffer that all these losses found full; `rate`: the value of `pps`."""
    length = known.at_loss
    middle = _core.median(length)
    # The last packet that got in found B - 1 waiting and one partly sent: it waited between B - 1 and B services, or
    # one more where the receiver delayed its ACK until the packet behind the lost one. The lower quartile avoids those.
    value = float(np.ceil(_core.percentile(length, 25) - 0.05))
    is_near = np.abs(length - middle) <= spread_of(middle)
    together = length[is_near]
    # Where the rate is a lower bound (shared), so is a queue counted in packets; likewise where the round trip is high.
    high = None
    if base_rtt.value is not None and base_rtt.low is not None and pps.high is not None:
        unseen = (base_rtt.value - base_rtt.low) * rate
        # As far as the rate may be higher, more packets make the same delay.
        high = float(np.ceil(together.max() * pps.high / rate) + 1 + np.ceil(unseen) + blur)
    faster = 1.0 if pps.low is None else pps.low / rate
    low = float(np.floor(together.min() * faster)) - blur
    method = f"queueing delay of the segments sent just before {counted(len(length), 'loss event')}, in packets waiting"
    # The buffer held what each of them met, less what may have waited elsewhere.
    surely = float((together - known.elsewhere[is_near]).max())
    if surely < middle - spread_of(middle):
        low = min(low, float(np.floor(surely * faster)) - blur)
        method += "; they left in bursts, part of which a faster line before it may have held"
        if is_rebuilt:
            # Nor is it seen which of a burst was the last that got in: those before it waited less.
            high, method = None, f"{method}, at times inferred"
    return Estimate(
        value=value,
        low=max(min(low, value), 0.0),
        # One event says how long the queue was once: the buffer holds that much, and the next may hold more.
        high=high if len(length) > 1 else None,
        method=method,
    )


def are_overflows(known: Met) -> bool:
    """Whether losses happen at one queue length, the longest there is, also behind them, and that any of them had grown
    to: a full buffer, not a lossy link."""
    met, behind, queue = known.at_loss, known.behind, known.queue
    middle = _core.median(met)
    spread = spread_of(middle)
    together = float(np.mean(np.abs(met - middle) <= spread))
    if (known.grown > middle + spread).any():
        return False
    # Both are known to as much.
    longer = np.where(behind > met + spread, behind, met) > middle + spread
    others = met[~longer]
    is_stall = (
        np.count_nonzero(longer) == 1
        and len(others) >= AGREEING_LOSSES
        and bool(np.all(np.abs(others - middle) <= WITHIN_SEGMENTS))
    )
    # It speaks for another buffer; a few may have met a stall of the path besides.
    if np.mean(longer) > MINORITY and not is_stall:
        return False
    if len(met) < AGREEING_LOSSES and len(met) <= MAJORITY * _times_near(queue, middle):
        # Bursts of one size fill the same places again and again: of some a packet is lost, wherever.
        return False
    share = float(np.mean(queue >= middle - spread))
    if together < 1 and _by_chance(round(together * len(met)), len(met), share) > ODD_SHARE:
        # A link loses as well, and may have lost all of them.
        return False
    percentile = LONGEST_BUT_STALLS_PERCENTILE if len(met) >= AGREEING_LOSSES else LONGEST_PERCENTILE
    return (
        together >= TOGETHER_SHARE
        and middle >= DELAYED_ACK_SEGMENTS
        and middle + spread >= _core.percentile(queue, percentile)
    )


def _by_chance(hits: int, of: int, share: float) -> float:
    """How probable it is that so many or more of several fall into this share of all there is."""
    if not 0 < share < 1:
        return share
    ways = (math.lgamma(of + 1) - math.lgamma(each + 1) - math.lgamma(of - each + 1) for each in range(hits, of + 1))
    logs = zip(range(hits, of + 1), ways, strict=True)
    return math.fsum(math.exp(way + each * math.log(share) + (of - each) * math.log(1 - share)) for each, way in logs)


def _times_near(queue: Floats, middle: float) -> int:
    """How often the queue grew to within a packet of this length, from half of it."""
    known = queue[np.isfinite(queue)]
    # What is longer is a stall's.
    is_near, is_low = np.abs(known - middle) <= WITHIN_SEGMENTS, known <= MAJORITY * middle
    told = is_near[is_near | is_low]
    return int(np.count_nonzero(told[1:] & ~told[:-1])) + int(told[:1].any())
