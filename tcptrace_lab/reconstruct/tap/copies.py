"""How far apart the two captures of one packet lie: of a mirror of both ways, of two VLANs, of a router's cards."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.given import FULL_SHARE, MAJORITY, ODD_SHARE
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


def has_lost_copies(counts: list[tuple[int, int]]) -> bool:
    """Whether a tap takes packets twice, and has lost one of the two of many. `counts`: packets and copies each way."""
    shares = [copies / max(packets - copies, 1) for packets, copies in counts]
    return max(shares) > MAJORITY and ODD_SHARE < min(shares) < FULL_SHARE
