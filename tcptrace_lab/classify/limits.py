"""What limited the sender, as shares of the time: the verdict's `limits`, no finer than the tap allows."""

from __future__ import annotations

from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.tap import Tap

UNKNOWN = "unknown"


def limits_told(seen: Reconstruction, tap: Tap) -> dict[str, float]:
    """The shares by cause; where two causes fit the same time it is `unknown`."""
    if tap.refuses("limits"):
        return {}
    shares = dict(seen.limits)
    if tap.shift.value is None and shares.get("rwnd", 0.0) > 0:
        # The windows are scaled by the least that fits, so a flight reaches one of them now and then whatever limits
        # it: it is the receiver's window if that is the scale, the congestion window if it is more.
        shares[UNKNOWN] = shares["rwnd"]
        shares["rwnd"] = 0.0
    return shares
