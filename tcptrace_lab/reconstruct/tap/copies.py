"""How far apart the two captures of one packet lie: of a mirror of both ways, of two VLANs, of a router's cards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.given import BURST_NS, FULL_SHARE, MAJORITY, MINORITY, ODD_SHARE
from tcptrace_lab.reconstruct.timeline import Ints

SECOND_CAPTURE = _core.CAUSES.index("duplicate_capture")


def copies_apart_ns(segments: Any, times: Ints) -> int | None:
    """The most, of those with data; None: not known, as where no number of its host tells a packet from another."""
    copies = np.flatnonzero((segments["cause"] == SECOND_CAPTURE) & (segments["length"] > 0))
    if not len(copies) or not segments["ip_id"][copies].any():
        return None
    by_offset = np.argsort(segments["offset"], kind="stable")
    rank = np.empty_like(by_offset)
    rank[by_offset] = np.arange(len(by_offset))
    before = by_offset[np.maximum(rank[copies] - 1, 0)]
    # Of a part of a longer one that was captured elsewhere in pieces nothing is told.
    is_same = (segments["offset"][before] == segments["offset"][copies]) & (before != copies)
    return int((times[copies] - times[before])[is_same].max()) if is_same.any() else None


def has_lost_copies(row: Any) -> bool:
    """Whether a tap takes packets twice, and has lost one of the two of many."""
    sides = ("client", "server")
    counts = [(int(row[f"packets_{side}"]), int(row[f"duplicate_packets_{side}"])) for side in sides]
    shares = [copies / max(packets - copies, 1) for packets, copies in counts]
    return max(shares) > MAJORITY and ODD_SHARE < min(shares) < FULL_SHARE


def without_merged(segments: Any, acks: Any, *, is_at_receiver: bool) -> None:
    """Takes what passed twice out of longer segments, in place: a card that merges what follows on one another (GRO)
    takes the second capture of a packet for the begin of the next. Nobody sends again what has just left.

    `segments`: where few are such, only those are changed before which no ACK was captured that could have asked for
    what had just passed (`is_at_receiver`: there what was sent again may come up with it).
    """
    offsets, times = segments["offset"], segments["time_ns"]
    ends = offsets + segments["length"]
    tops = np.maximum.accumulate(ends)
    before = np.append(offsets[:1], tops[:-1])
    again = np.flatnonzero((offsets < before) & (segments["length"] > 0) & (segments["cause"] != SECOND_CAPTURE))
    passed = np.searchsorted(tops, offsets[again], side="right")
    is_soon = times[again] - times[passed] <= BURST_NS
    again, passed = again[is_soon], passed[is_soon]
    goes_on = again[ends[again] > before[again]]
    if len(goes_on) <= MINORITY * len(offsets):
        heard = [np.searchsorted(acks["packet"], segments["packet"][at]) for at in (passed, again)]
        again = again[(heard[0] == heard[1]) & (not is_at_receiver)]
        goes_on = again[ends[again] > before[again]]
    if not len(again):
        return
    changed = {name: segments[name].copy() for name in ("offset", "length", "cause", "is_retransmission")}
    changed["offset"][goes_on] = before[goes_on]
    changed["length"][goes_on] = ends[goes_on] - before[goes_on]
    changed["cause"][again[ends[again] <= before[again]]] = SECOND_CAPTURE
    changed["is_retransmission"][again] = False
    segments.update(changed)


def without_copies_across(segments: Any, set_ns: Sequence[int], rtt_ns: float) -> None:
    """Takes out, in place, what was captured on both sides of a clock's step (`set_ns`, undone): copies lie too far
    apart there to be known as such. Nobody hears of a loss within a round trip (`rtt_ns`: the least; NaN: not known).
    """
    offsets, times = segments["offset"], segments["time_ns"]
    ends = offsets + segments["length"]
    tops = np.maximum.accumulate(ends)
    again = np.flatnonzero((ends <= np.append(offsets[:1], tops[:-1])) & (segments["length"] > 0))
    passed = np.searchsorted(tops, offsets[again], side="right")
    steps = np.searchsorted(set_ns, times, side="right")
    within_ns = BURST_NS if np.isnan(rtt_ns) else max(BURST_NS, MAJORITY * rtt_ns)
    again = again[(steps[passed] < steps[again]) & (times[again] - times[passed] <= within_ns)]
    if len(again):
        for name, value in (("cause", SECOND_CAPTURE), ("is_retransmission", False)):
            segments[name] = segments[name].copy()
            segments[name][again] = value
