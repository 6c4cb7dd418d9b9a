"""What limited the sender, as shares of the time: the verdict's `limits`, no finer than the tap allows."""

from __future__ import annotations

from tcptrace_lab.classify.obstacles import empty_share
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.tap import Tap

UNKNOWN = "unknown"
# Prompt is within an eighth of the time to the next ACK (core/src/infer/limits.rs); a clock must tell half of that.
PROMPT_PARTS = 4
FINE_NS = 1_000


def limits_told(seen: Reconstruction, tap: Tap, *, is_rebuilt: bool = False) -> dict[str, float]:
    """The shares by cause; where two causes fit the same time it is `unknown`.

    `is_rebuilt`: captured elsewhere. How promptly ACKs released segments is then not seen, pauses are.
    """
    if tap.refuses("limits"):
        return {}
    shares = dict(seen.limits)
    if is_rebuilt:
        pauses = round(min(shares.get("application", 0.0), empty_share(seen)), 4)
        if shares.get("application", 0.0) > pauses:
            shares[UNKNOWN] = round(shares["application"] - pauses, 4)
            shares["application"] = pauses
    if tap.shift.value is None and shares.get("rwnd", 0.0) > 0:
        # The windows are scaled by the least that fits, so a flight reaches one of them now and then whatever limits
        # it: it is the receiver's window if that is the scale, the congestion window if it is more.
        shares[UNKNOWN] = round(shares.get(UNKNOWN, 0.0) + shares["rwnd"], 4)
        shares["rwnd"] = 0.0
    if _blurs(seen, tap):
        # That ACKs release segments is seen by what follows at once; with these stamps everything does.
        shares[UNKNOWN] = round(shares.get(UNKNOWN, 0.0) + shares.get("cwnd", 0.0), 4)
        shares["cwnd"] = 0.0
    return shares


def _blurs(seen: Reconstruction, tap: Tap) -> bool:
    """Whether the clock does not tell an answer at once from one some time before the next ACK."""
    times = seen.timeline.ack_ns
    if len(times) < 2 or tap.clock.resolution_ns <= FINE_NS:
        return False
    return tap.clock.resolution_ns > float(times[-1] - times[0]) / len(times) / PROMPT_PARTS
