"""The path of one sender, with what its tap tells and hides: the one way to it for verdicts, tables and replays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tcptrace_lab.classify.path.captured import Captured
from tcptrace_lab.classify.path.path import PathEstimate, infer_path
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import Sender


def path_of(
    seen: Reconstruction, who: Sender, *, beside: Callable[[], Sequence[Reconstruction]] = tuple
) -> PathEstimate:
    """`seen`: what was reconstructed of `who`; `beside` gives the other flows of its capture."""
    tap, rebuilt = who.tap, who.view
    before_ns: int | None = 0
    if who.place == "sender" and rebuilt is None:
        before_ns = who.before_tap_ns
    elif who.where is not None and who.place == "unknown" and who.where.to_sender_ns is None:
        # At the receiver, for all that is seen.
        before_ns = None
    captured = Captured(
        handshake_rtt_s=who.handshake_rtt_s,
        around_s=None if who.where is None else who.where.around_s,
        vantage="receiver" if who.is_blurred else who.place,
        clock=tap.ack_clock,
        by_rhythm=rebuilt is not None and rebuilt.is_inferred,
        before_ns=before_ns,
        near_ns=who.near_ns,
        is_ahead=tap.ahead_ns > 0,
        has_flight=not tap.hides_flight,
        has_losses=not tap.misses_repairs,
        has_acks=not tap.tap_lost_acks,
        # With the scale unknown, a flight that fits the least windows most of the time may be the receiver's.
        by_reader=tap.shift.value is None and seen.is_rwnd_limited,
    )
    found = infer_path(seen, captured, beside=beside)
    seen.let_go("under_way")
    # What had arrived is asked for again, what tells it is not.
    seen.timeline.let_go("scoreboard")
    return found
