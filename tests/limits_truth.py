"""What limited a simulated sender, by its own variables: asked at every ACK and at every sending.

An application did where a segment more would have fitted into both windows, and none left.

Its table of windows has a row where window, threshold or state change; what is outstanding and offered changes between.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from tcptrace_lab._core import SENDER_STATES
from tcptrace_lab.reconstruct.timeline import Bools, Ints
from tcptrace_lab.simulate import Run as Simulated

SYN = 2
NUMBERS = 1 << 32
# These have data at any time: no application limits them.
ALWAYS_WRITTEN = ("bulk", "bytes")


def limits_of(done: Simulated) -> dict[str, float]:
    """Shares of the time from the first data segment to the last; empty where nothing was sent or answered."""
    table = done.windows.query("connection == 0")
    packets = done.packets(tap="sender").query("connection == 0")
    packets = packets[(packets["flags"] & SYN) == 0]
    is_data = (packets["is_from_sender"] & (packets["payload_len"] > 0)).to_numpy()
    is_ack = ~packets["is_from_sender"].to_numpy()
    if not is_data.any() or not is_ack.any():
        return {}
    first = done.first_seqs[0]
    ends = ((packets["seq"] + packets["payload_len"] - first) % NUMBERS).to_numpy()
    snd_una = np.maximum.accumulate(np.where(is_ack, (packets["ack"].to_numpy() - first) % NUMBERS, 0))
    times = packets["time_ns"].to_numpy()
    row = np.maximum(np.searchsorted(table["time_ns"].to_numpy(), times, side="right") - 1, 0)
    state = table["state"].to_numpy()[row]
    has_expired = state == SENDER_STATES["loss"]
    # After a timeout snd_nxt goes back, and comes forward with what is sent again.
    snd_nxt = np.where(has_expired, ends[_last(is_data)], np.maximum.accumulate(np.where(is_data, ends, 0)))
    # Where all is acknowledged nothing is left to recover, whatever the sender's own state: a probe of a closed window
    # leaves by its timer, too (RFC 9293 section 3.8.6.1).
    recovers = (_repairs(state, snd_una, snd_nxt) | _waits(has_expired, snd_una)) & (snd_nxt > snd_una)
    smss = int(table["smss"].iloc[0])
    is_full = snd_nxt - snd_una + smss > _offered(done, packets, is_ack)
    has_room = snd_nxt - snd_una + smss <= table["cwnd"].to_numpy()[row]
    is_idle = has_room & ~is_full & (done.scenario.connections[0].application.kind not in ALWAYS_WRITTEN)
    # What stands until the next packet counts; nothing does between packets of one instant.
    spans = np.diff(np.append(times, times[-1])).astype(np.float64)
    sendings = np.flatnonzero(is_data)
    spans[: sendings[0]] = spans[sendings[-1] :] = 0.0
    by = {
        "application": is_idle & ~recovers,
        "cwnd": ~is_full & ~is_idle & ~recovers,
        "rwnd": is_full & ~recovers,
        "recovery": recovers,
    }
    total = max(float(spans.sum()), 1.0)
    return {name: float(spans[which].sum()) / total for name, which in by.items()}


def _repairs(state: Ints, snd_una: Ints, snd_nxt: Ints) -> Bools:
    """Until all is acknowledged that had left as a recovery began (RFC 6582 section 3.2): what Linux waits for without
    SACK, that more is, holds nothing back."""
    within = state == SENDER_STATES["recovery"]
    begun = _last(within & ~np.append(False, within[:-1]))
    found: Bools = within & (snd_una < snd_nxt[np.maximum(begun, 0)])
    return found


def _waits(has_expired: Bools, snd_una: Ints) -> Bools:
    """From the ACK that set a timer which expires (RFC 6298 section 5.3): for what was lost, whatever the windows."""
    expires = np.flatnonzero(has_expired & ~np.append(False, has_expired[:-1]))
    begins, each = np.searchsorted(snd_una, snd_una[expires]), np.arange(len(snd_una))
    found: Bools = np.searchsorted(begins, each, side="right") > np.searchsorted(expires, each, side="right")
    return found


def _offered(done: Simulated, packets: pd.DataFrame, is_ack: Bools) -> Ints:
    """The receiver's window as it was last heard; before the first ACK all that it has."""
    most, heard = done.scenario.connections[0].receiver.rwnd, _last(is_ack)
    # RFC 7323 section 2.3: the receiver takes the smallest shift that lets 16 bits say its window, and 14 at most.
    shift = next(shift for shift in range(15) if most >> shift <= 65_535 or shift == 14)
    found: Ints = np.where(heard < 0, most, packets["window"].to_numpy()[heard] << shift)
    return found


def _last(which: Bools) -> Ints:
    """At each place the last one of these up to it, -1 before the first."""
    found: Ints = np.maximum.accumulate(np.where(which, np.arange(len(which)), -1))
    return found
