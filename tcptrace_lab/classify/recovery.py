"""Which loss recovery a sender showed, by what it did after duplicate ACKs (RFC 5681, 6582, 6675; Tahoe)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.tap import Tap


@dataclass(frozen=True, kw_only=True)
class SenderTcp:
    """`recovery` None: no loss event shows it. `decrease`: the window after recovery over the one before, a median."""

    recovery: str | None
    confidence: float
    decrease: float | None
    reasons: tuple[str, ...]


HIDDEN = SenderTcp(recovery=None, confidence=0.0, decrease=None, reasons=())


def identify_recovery(seen: Reconstruction, tap: Tap) -> SenderTcp:
    """Tahoe, SACK, NewReno or Reno, with the share of the loss events that speak for it."""
    told = [episode for episode in seen.episodes if episode.detected_by in ("dupack", "sack")]
    restarted = [episode for episode in seen.episodes if episode.restarts and episode.dupacks >= 3]
    reasons: list[str] = []
    if not told and not restarted:
        return SenderTcp(recovery=None, confidence=0.0, decrease=None, reasons=tuple(reasons))
    if len(restarted) * 2 > len({*map(id, told), *map(id, restarted)}):
        sure = sum(episode.sure for episode in restarted)
        reasons.append(f"{len(restarted)} loss events with duplicate ACKs, each followed by a restart from one segment")
        return SenderTcp(
            recovery="tahoe", confidence=sure / max(len(told), len(restarted)), decrease=None, reasons=tuple(reasons)
        )
    # Both SYNs permitted SACK: the sender repairs by it, whether or not the tap kept the blocks.
    refused = tap.refuses("recovery")
    if refused:
        reasons.append(f"the recovery is not named: {refused}")
        return SenderTcp(recovery=None, confidence=0.0, decrease=None, reasons=tuple(reasons))
    name = "sack" if tap.sack.value == "used" else _without_sack(seen)
    fast = [episode for episode in told if not episode.restarts]
    decrease = _decrease(seen)
    if decrease is not None:
        reasons.append(f"window after fast recovery / before: {decrease:.2f} (median of {len(fast)})")
    sure = sum(episode.sure for episode in fast)
    return SenderTcp(recovery=name, confidence=sure / len(told), decrease=decrease, reasons=tuple(reasons))


def _without_sack(seen: Reconstruction) -> str:
    """NewReno stays in recovery until all holes are filled; Reno leaves it with the first new ACK."""
    several = [episode for episode in seen.episodes if not episode.restarts and episode.retransmitted > 1]
    return "newreno" if several else "reno"


def _decrease(seen: Reconstruction) -> float | None:
    shares = []
    for part in seen.stretches:
        if part.begin == "recovery" and part.started_by is not None:
            before = part.started_by.window_before
            shares.append(seen.flight[part.first] / before if before else np.nan)
    shares = [share for share in shares if np.isfinite(share)]
    return float(np.median(shares)) if shares else None
