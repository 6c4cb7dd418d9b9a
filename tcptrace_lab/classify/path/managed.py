"""Losses of a managed queue (CoDel, RFC 8289): not where the queue is longest, but where it was not short for long.

A full buffer loses at one length and carries nothing longer. CoDel loses its first packet one interval after waits rose
above the target, however long the queue is by then: it carries the burst of a slow start and loses from then on at a
fraction of that queue, or it loses at once from queues of several lengths. Errs towards "not managed": another target
or interval than the RFC's, and a queue that always takes as long to the same length. What CoDel may have lost is told
apart from what it cannot have lost: out of a queue that was short within the interval.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.path.buffer import SAME_PACKETS
from tcptrace_lab.reconstruct.given import DELAYED_ACK_SEGMENTS, FEWEST_ALIKE, MAJORITY
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Bools, Floats
from tcptrace_lab.scenario import NodeSpec

# RFC 8289 sections 4.2 and 4.3, and what CoDel and FQ-CoDel ship with: a scenario's defaults.
TARGET_NS = round(NodeSpec.target_s * 1e9)
INTERVAL_NS = round(NodeSpec.interval_s * 1e9)
# Waits are known where a segment was answered, of delayed ACKs every second one: so many packets' service after the
# interval the first loss comes at the latest.
NOTICED_PACKETS = 5.0
# The first loss met a queue so much longer than the usual one did: a drop-tail buffer of the usual length carries none.
LONGER = 1.5
# A queue that stands above the target for ever loses nothing by CoDel's law: it drains within some intervals.
MOST_INTERVALS = 10.0
# A segment sent within this part of the least round trip before a lost one met the same queue.
NEAR_SHARE = 0.25
# Where a packet's service is longer than the target only a queue of one packet is short, and the second that a delayed
# ACK releases behind it hides when it was: for how long it had not been is known to so many packets more.
BLURRED_PACKETS = SAME_PACKETS + DELAYED_ACK_SEGMENTS
# The others may be a lossy link's.
OWN_SHARE = 0.8


@dataclass(frozen=True, kw_only=True)
class Managed:
    """Of each loss event: whether CoDel's law lost it, and whether it may have (nothing speaks for another queue)."""

    is_codel: tuple[bool, ...] = ()
    may_be: tuple[bool, ...] = ()
    # Each comes an interval after waits rose, at one length: CoDel's, or a buffer that by chance takes as long to fill.
    is_open: bool = False


NOT_MANAGED = Managed()


def losses_of_codel(seen: Reconstruction, pps: float | None) -> Managed:
    """What the times of the losses tell of the queue that lost them."""
    count = len(seen.episodes)
    nothing = (False,) * count
    if pps is None or not count or not len(seen.timeline.rtt[0]):
        return Managed(is_codel=nothing, may_be=nothing)
    waits, least, most, is_first = _at_losses(seen, pps)
    known = ~np.isnan(waits)
    service_ns = 1e9 / pps
    # A stall moves a wait across the target: by that much earlier than an interval a loss may seem to come; by two
    # packets' service where that is longer, for a wait is known to a packet at its beginning and at its end.
    own = known & (most >= INTERVAL_NS - max(TARGET_NS, DELAYED_ACK_SEGMENTS * service_ns))
    prompt = own & (least <= INTERVAL_NS + _core.HOST_NS + NOTICED_PACKETS * service_ns)
    if not known.any() or np.mean(own[known]) < OWN_SHARE:
        return Managed(is_codel=nothing, may_be=nothing)
    is_enough = np.count_nonzero(known) >= FEWEST_ALIKE
    is_codel = is_enough and (
        _carries_slow_start(waits, most, prompt, pps) or loses_at_any_length(waits, prompt, known & is_first, pps)
    )
    if is_codel:
        return Managed(is_codel=_with_followers(own, known, is_first), may_be=nothing)
    # What comes later than when the interval is over follows another loss of the same standing queue.
    first = known & is_first
    met = waits[known]
    is_pair = len(met) == 2 and not _is_longer(float(met.max()), float(met.min()), pps, DELAYED_ACK_SEGMENTS)
    # Where the queue of no first one is known, nothing tells whether they were prompt.
    may_be = not first.any() or np.mean(prompt[first]) >= MAJORITY
    return Managed(
        is_codel=nothing,
        may_be=tuple(own.tolist()) if may_be else nothing,
        # A buffer that takes as long to fill in avoidance overflows sooner in the slow start.
        # Two that agree are a full buffer's, as almost all are.
        is_open=bool(not is_pair and prompt[known][0] and np.mean(prompt[known]) >= OWN_SHARE),
    )


def _with_followers(own: Bools, known: Bools, is_first: Bools) -> tuple[bool, ...]:
    """With those of an unknown queue that had not been short since a loss of CoDel's: it goes on until it is."""
    found: list[bool] = []
    for number, is_own in enumerate(own.tolist()):
        follows = number > 0 and found[-1] and not known[number] and not is_first[number]
        found.append(is_own or follows)
    return tuple(found)


def _carries_slow_start(waits: Floats, above: Floats, prompt: Bools, pps: float) -> bool:
    """The first loss came when the interval was over, in a queue far longer than the later ones met."""
    others = np.flatnonzero(~np.isnan(waits))
    others = others[others > 0]
    if not prompt[0] or not len(others):
        return False
    usual = float(np.median(waits[others]))
    drains = float(np.median(above[others])) <= MOST_INTERVALS * INTERVAL_NS
    return drains and _is_longer(float(waits[0]), usual, pps, DELAYED_ACK_SEGMENTS if _is_fine(pps) else SAME_PACKETS)


def loses_at_any_length(waits: Floats, prompt: Bools, first: Bools, pps: float) -> bool:
    """Most of the first losses came when the interval was over, in queues of different lengths: what follows one in the
    same standing queue comes sooner or later."""
    met = waits[prompt & first]
    if len(met) < FEWEST_ALIKE or len(met) < MAJORITY * np.count_nonzero(first):
        return False
    # Half of them differ by as much, and half of all that are known: another flow, a delayed ACK or a stall moves what
    # the length of a full buffer seems to be now and then.
    apart = DELAYED_ACK_SEGMENTS if _is_fine(pps) else BLURRED_PACKETS
    quartiles = [[_core.percentile(some, percent) for percent in (75, 25)] for some in (met, waits[~np.isnan(waits)])]
    return all(_is_longer(longer, shorter, pps, apart) for longer, shorter in quartiles)


def _is_fine(pps: float) -> bool:
    """Whether a packet's service is shorter than the target: waits are told apart by it."""
    return 1e9 / pps <= TARGET_NS


def _is_longer(wait: float, other: float, pps: float, apart_packets: float) -> bool:
    return wait >= max(LONGER * other, other + apart_packets / pps * 1e9)


def _at_losses(seen: Reconstruction, pps: float) -> tuple[Floats, Floats, Floats, Bools]:
    """Of each loss event: the wait of the segment sent just before the lost one; for how long waits had been above the
    target when the lost one's turn came, at least and at the most (NaN where that is not known); whether none was lost
    before it meanwhile."""
    rows, samples = seen.timeline.rtt
    sent = seen.timeline.ack_ns[rows] - samples
    least_ns = samples.min()
    waits = samples - least_ns
    turn = sent + waits
    # RFC 8289 section 4.4: a queue of one packet is none, however long its service takes.
    short = np.flatnonzero(waits < max(TARGET_NS, SAME_PACKETS / pps * 1e9))
    blurred = short if _is_fine(pps) else np.flatnonzero(waits < BLURRED_PACKETS / pps * 1e9)
    met, least, most = np.full((3, len(seen.episodes)), np.nan)
    lost_ns = seen.lost_sent_ns
    before = np.searchsorted(sent, lost_ns, side="right")
    last, blur = np.searchsorted(short, before) - 1, np.searchsorted(blurred, before) - 1
    known = np.flatnonzero(last >= 0)
    is_first = np.zeros(len(lost_ns), dtype=bool)
    is_first[known] = np.concatenate(([-1], lost_ns[:-1]))[known] < sent[short[last[known]]]
    # In a recovery nothing is measured (Karn): what was before it is no neighbour.
    near = known[before[known] > 0]
    near = near[sent[before[near] - 1] >= lost_ns[near] - least_ns * NEAR_SHARE]
    met[near] = waits[before[near] - 1]
    now = lost_ns[near] + waits[before[near] - 1]
    most[near] = now - turn[short[last[near]]]
    least[near] = now - turn[np.minimum(blurred[blur[near]] + 1, before[near] - 1)]
    return met, least, most, is_first
