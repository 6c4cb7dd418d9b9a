"""What of a flow its tap carries, as far as the estimates of the path go by it."""

from __future__ import annotations

from dataclasses import dataclass

from tcptrace_lab.reconstruct.tap.clock import Clock


@dataclass(frozen=True, kw_only=True)
class Captured:
    """Where a flow was captured, by which clock, and what of it is missing or inferred.

    `vantage`: sender, receiver, middle or unknown. `around_s`: from the tap to the sender and back, and to the receiver
    and back, the least of each (None: not seen). `before_ns`: what a full segment takes from the sender to a tap near
    it (None: not known); `near_ns`: what the way from there to the sender and back takes, its host included, at the
    most; `is_ahead`: segments are stamped before what they answer, so that none of these times bounds the path's.
    `has_flight`: what was sent when is known; `has_losses`: what was sent again is; `has_acks`: the tap missed no ACK;
    `by_rhythm`: when segments left was inferred from the rhythm of the ACKs, so no round trip bounds the path's.
    `by_reader`: the receiver's window may have been the limit, its reader's pace the ACKs'.
    """

    vantage: str
    clock: Clock
    handshake_rtt_s: float | None
    around_s: float | None
    before_ns: int | None
    near_ns: int
    is_ahead: bool
    has_flight: bool
    has_losses: bool
    has_acks: bool
    by_rhythm: bool
    by_reader: bool
