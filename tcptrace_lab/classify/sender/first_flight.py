"""The initial window as far as a capture carries it: what its tap may have missed, or shown late, of a first flight."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from tcptrace_lab.classify.path.causes import first_flight_lost
from tcptrace_lab.classify.sender.initial_window import Captured, initial_window
from tcptrace_lab.reconstruct.given import SIDES
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import Sender


def captured_initial_window(seen: Reconstruction, who: Sender, *, is_bbr: bool = False) -> int | None:
    """Segments (RFC 6928); None where the capture leaves it open. `is_bbr`: as in `initial_window`."""
    tap = who.tap
    if tap.refuses("initial_window"):
        return None
    if tap.shift.value is None and tap.syns.value not in ("both", SIDES[1 - who.direction]):
        # The window offered in the receiver's SYN may have been all that was sent.
        return None
    if (who.view is not None or who.order is not None) and tap.is_holed:
        # When each segment left was inferred from ACKs, and some are missing.
        return None
    if (who.is_blurred and not _is_told_apart(seen)) or (who.put_back is not None and first_flight_lost(seen)):
        return None
    captured = Captured(
        is_unseen=who.order is not None,
        is_behind_line=who.view is None and who.before_tap_ns != 0,
        line_ns=0 if who.view is not None else who.before_tap_ns or 0,
        tick_ns=tap.clock.resolution_ns if tap.is_coarse else 0,
        misses_acks=tap.tap_lost_acks > 0,
    )
    ask = partial(initial_window, seen, who.handshake_rtt_s, is_bbr=is_bbr)
    found = ask(captured)
    if tap.is_holed:
        early = ask(replace(captured, is_holed=True))
        # What left late in the first round may have been released by an ACK that is missing.
        return found if found == early else None
    return found


def _is_told_apart(seen: Reconstruction) -> bool:
    """Whether, of flights whose ACKs do not tell what each let go, the first is known: nothing of what follows it can
    have left before the first ACK of data."""
    timeline = seen.timeline
    answered = timeline.newly_acked > 0
    first = int(np.argmax(answered)) if answered.any() else 0
    return first > 0 and not timeline.slack[:first].any()
