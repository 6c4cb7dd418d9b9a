"""What limited a sender, with what is known of its control: one answer for verdicts and tables."""

from __future__ import annotations

import numpy as np

from tcptrace_lab.classify.control.answer.followed import is_followed
from tcptrace_lab.classify.control.answer.identified import Identified
from tcptrace_lab.classify.sender.by_losses import limits_by_losses
from tcptrace_lab.classify.sender.limits import Known, closed_only, limits_told, stood
from tcptrace_lab.classify.sender.shares import UNKNOWN as UNKNOWN_SHARE
from tcptrace_lab.classify.sender.shares import move, share_of
from tcptrace_lab.reconstruct.away.rhythm import is_spaced
from tcptrace_lab.reconstruct.given import MAJORITY
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import Sender
from tcptrace_lab.reconstruct.timeline import Ints
from tcptrace_lab.reconstruct.windows import APPLICATION, CWND, LIMITS, RWND, UNKNOWN


def held(seen: Reconstruction, identified: Identified) -> float:
    """Share of the time in which the flight stood, by no control that goes by delay."""
    by_delay = identified.control is not None and any(each.candidate.is_by_delay for each in identified.left)
    return 0.0 if by_delay else stood(seen)


def limits_of(seen: Reconstruction, who: Sender, identified: Identified, *, hides_flight: bool) -> dict[str, float]:
    """The shares of the time by cause; empty where the tap refuses them."""
    if hides_flight:
        limits = closed_only(seen, who.tap)
    else:
        known = Known(
            is_rebuilt=who.view is not None or who.before_tap_ns != 0,
            is_blurred=who.is_blurred or who.tap.blurs_flight,
            before_ns=0 if who.view is not None else who.before_tap_ns or 0,
            is_rhythm=who.view is not None and who.view.is_inferred,
            is_spaced=who.before_tap_ns is None and is_spaced(seen.timeline),
            is_paced=identified.control == "bbr",
            held=held(seen, identified),
            is_law=bool(identified.refuted) and any(map(is_followed, identified.left[:1])),
        )
        limits = limits_told(seen, who.tap, known)
    if limits.get(UNKNOWN_SHARE, 1.0) > MAJORITY:
        limits = _by_order(limits, seen, who)
    return limits


def _by_order(limits: dict[str, float], seen: Reconstruction, who: Sender) -> dict[str, float]:
    """The same where that leaves more open than the data alone, or the order of what was sent."""
    order = who.view if who.is_blurred else who.order
    if who.tap.is_holed or who.tap.is_coarse or who.tap.refuses("limits"):
        order = None
    if not limits.get("rwnd", 0.0):
        # Of several readings the one that leaves less open; the data alone does not show a closed window.
        told = [limits, who.by_flights]
        if order is not None:
            found = limits_by_losses(seen, order, unanswered_ns=who.tap.unanswered_ns, by_flights=who.by_flights)
            told.append(found)
        limits = min(told, key=lambda shares: shares.get(UNKNOWN_SHARE, 1.0))
    filled = 0.0 if order is None else share_of(seen.timeline, float(who.filled_ns))
    if filled > limits.get("rwnd", 0.0):
        limits = dict(limits) if limits else {**dict.fromkeys(LIMITS, 0.0), UNKNOWN_SHARE: 1.0}
        move(limits, UNKNOWN_SHARE, "rwnd", most=filled - limits["rwnd"])
    return limits


def as_told(table: dict[str, Ints], seen: Reconstruction, limits: dict[str, float]) -> dict[str, Ints]:
    """The columns of `windows` where most of what they put down to one cause may be another's: that is then open in
    each row, and so is what a window would be at most that was not at work."""
    limited = table["limited_by"]
    seems = {code: seen.limits.get(LIMITS[code], 0.0) for code in (CWND, RWND, APPLICATION)}
    opened = [code for code, share in seems.items() if share and limits.get(LIMITS[code], 0.0) < MAJORITY * share]
    if not opened:
        return table
    told = {**table, "limited_by": np.where(np.isin(limited, opened), UNKNOWN, limited).astype(limited.dtype)}
    if CWND in opened:
        # Nor where it may have been the receiver's instead.
        is_open = (limited == CWND) | (limited == UNKNOWN)
        told["cwnd_high"] = np.where(is_open, UNKNOWN, table["cwnd_high"]).astype(table["cwnd_high"].dtype)
    return told
