"""Where a capture was taken, as seen from one sender: at it, at its receiver, midway, or not to be told.

How long a segment's ACK takes to come back past the tap, and how long after an ACK the data that echoes it passes, are
the two parts of the round trip at the tap: at a host its part is that host's own time. Both can be had of the handshake
and, with timestamps, of any segment. Routers count the time to live down, and losses lie before the tap or behind it.
Errs to "unknown": a wrong place is worse.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.numbers import duration
from tcptrace_lab.reconstruct.flights import Start
from tcptrace_lab.reconstruct.given import FEWEST_ALIKE, FEWEST_SAMPLES, MINORITY, NEAR_SHARE, ODD_SHARE
from tcptrace_lab.reconstruct.losses import told_lost
from tcptrace_lab.reconstruct.tap.tap import COARSE_NS
from tcptrace_lab.reconstruct.timeline import Bools, Ints, Timeline

Place = Literal["sender", "receiver", "middle", "unknown"]

# The values with which hosts begin to count down (RFC 1700 has 64; Windows 128, routers and some systems 255).
INITIAL_TTLS = (32, 64, 128, 255)
# Longer paths are not known: such a TTL began at another value.
MOST_HOPS = 31
# A bridge, a virtual switch or an emulator between a host and a tap may count as one or two.
FAR_HOPS = 3


@dataclass(frozen=True, kw_only=True)
class Vantage:
    """`to_sender_ns`, `to_receiver_ns`: from the tap there and back, host time included, at the least (None: unknown).

    `lost_before`: whether losses of the data lie between the sender and the tap (also when the tap is near the sender:
    behind the queue of its own host), `queued_before`: whether it waited there. `segment_turn_ns`: from an ACK to the
    full segment that it released, the least (None: no timestamps). `why`: one sentence.
    """

    place: Place
    to_sender_ns: int | None
    to_receiver_ns: int | None
    lost_before: bool
    why: str
    queued_before: bool = False
    segment_turn_ns: int | None = None

    @property
    def around_s(self) -> float | None:
        """The whole round trip, by its two parts; None: one is not known."""
        if self.to_sender_ns is None or self.to_receiver_ns is None:
            return None
        return (self.to_sender_ns + self.to_receiver_ns) / 1e9

    @property
    def is_at_sender(self) -> bool:
        """Whether segments passed the tap as they left; where that is not known it is taken to be so."""
        return self.place in ("sender", "unknown") and not (self.lost_before or self.queued_before)


@dataclass(frozen=True, kw_only=True)
class Echoes:
    """From an ACK to the data, and to the full segment, that echoes it, the least; the share that waited to pass."""

    turn_ns: int
    segment_turn_ns: int
    waited_share: float

    def shows_queue(self, timeline: Timeline, place: Place) -> bool:
        """Whether segments wait between the sender and the tap, near which it is or may be.

        Where that is not known a late segment may have been late to leave: one is only shown to wait by an ACK that
        passed the tap long before it, and that its sender had not heard.
        """
        if place == "sender":
            return self.is_behind_line(timeline)
        return place == "unknown" and self.waited_share > MINORITY

    def is_behind_line(self, timeline: Timeline) -> bool:
        """Whether segments wait between the sender and the tap: in a queue, or each for its own transmission.

        A full one takes a host microseconds. `bursts`: behind so many ACKs full ones left; of few each may have waited
        for its application.
        """
        # Asked when the rows are gone: what is observed needs their room.
        is_full = timeline.send_end - timeline.send_offset >= timeline.smss
        bursts = int(np.count_nonzero(np.diff(timeline.acks_before_send[is_full]))) + 1
        takes_time = bursts >= FEWEST_SAMPLES and self.segment_turn_ns > COARSE_NS
        return self.waited_share > MINORITY or takes_time


@dataclass(frozen=True, kw_only=True)
class Passing:
    """What the rows themselves tell of the tap's place: they need not be held any longer.

    `fills`: segments that filled a hole later (lost before the tap), `filled_at` and `filled_ns`: where and when. When
    each segment passed and where it ends is kept only where it must be told which had passed before.
    """

    echoes: Echoes | None
    fills: Bools
    filled_at: Ints
    filled_ns: Ints
    time_ns: Ints
    end: Ints


def passing(timeline: Timeline, rows: Any, *, from_start: bool, resolution_ns: int) -> Passing:
    """`rows`: columns of the segments sent and of the ACKs received; `resolution_ns`: the clock's."""
    segments = rows[0]
    fills = segments["cause"] == _core.CAUSES.index("lost_before_tap")
    kept = slice(0, None if fills.any() and not from_start else 0)
    return Passing(
        echoes=_echoes(timeline, rows, min(_core.HOST_NS + 2 * resolution_ns, sys.maxsize)),
        fills=fills,
        filled_at=segments["offset"][fills],
        filled_ns=segments["time_ns"][fills],
        time_ns=segments["time_ns"][kept],
        end=segments["offset"][kept] + segments["length"][kept],
    )


def vantage(
    timeline: Timeline, passed: Passing, row: Any, *, side: str, other: str, start: Start | None = None
) -> Vantage:
    """`row`: the connection's; `side`: who sends, `other`: who answers (client, server). `start`: the flights of a
    slow start, where neither a handshake nor timestamps tell."""
    echoes = passed.echoes
    turn_ns = None if start is None else start.turn_ns
    to_sender = _least(_number(row[f"handshake_rtt_ns_{other}"]), turn_ns if echoes is None else echoes.turn_ns)
    _, samples = timeline.rtt
    handshake_ns = _number(row[f"handshake_rtt_ns_{side}"])
    to_receiver = _least(handshake_ns, int(samples.min()) if len(samples) else None)
    if to_sender is not None and to_sender < _core.HOST_NS and (handshake_ns or _core.HOST_NS) >= _core.HOST_NS:
        to_receiver = _least(handshake_ns, _usual_least(samples))
    holes = _holes(timeline, passed)
    repeats = int(row[f"retransmissions_{side}"])
    place, why = _by_time(to_sender, to_receiver)
    hop_place, hop_why = _by_hops(_hops(row[f"ttl_{side}"]), _hops(row[f"ttl_{other}"]))
    if place == "unknown":
        place, why = hop_place, hop_why or why
    elif place == "middle" and hop_place == "receiver":
        # A phone takes milliseconds to answer its own tap.
        place, why = "receiver", f"{why}, but {hop_why}"
    elif {place, hop_place} == {"sender", "receiver"}:
        place, why = "unknown", f"{why}, but {hop_why}"
    lost_before = holes >= FEWEST_ALIKE and holes > MINORITY * repeats
    if place == "unknown" and not repeats and to_receiver is not None and to_receiver < _core.HOST_NS:
        answered = f"data is answered {duration(to_receiver)} later"
        if lost_before:
            place = "receiver"
            why = f"{holes} segments were lost before the tap, none behind it, and {answered}"
        elif asked_ns := _asked_before_ns(timeline, passed):
            place, why = "receiver", f"what is asked for again comes {duration(asked_ns)} later, and {answered}"
    return Vantage(
        place=place,
        to_sender_ns=to_sender,
        to_receiver_ns=to_receiver,
        lost_before=lost_before,
        queued_before=echoes is not None and echoes.shows_queue(timeline, place),
        segment_turn_ns=None if echoes is None else echoes.segment_turn_ns,
        why=why,
    )


def _usual_least(samples: Ints) -> int | None:
    """The least round trip, of those that are no host's own time where most are not: a host answers its own tap as soon
    all along; a tap that read late stamps a few segments with what answers them."""
    is_long = samples >= _core.HOST_NS
    told = samples[is_long] if np.count_nonzero(is_long) > np.count_nonzero(~is_long) else samples
    return int(told.min()) if len(told) else None


def _holes(timeline: Timeline, passed: Passing) -> int:
    """Segments that filled a hole later: lost before the tap.

    Where a capture begins amid a recovery, what is sent again then was first sent before: no loss before the tap.
    """
    if not len(passed.end):
        return int(passed.fills.sum())
    _, samples = timeline.rtt
    begun = timeline.start_ns + (int(samples.max()) if len(samples) else _core.HOST_NS)
    early = passed.time_ns <= begun
    return int((passed.fills & (passed.end > passed.end[early].max(initial=0))).sum())


def _asked_before_ns(timeline: Timeline, passed: Passing) -> int:
    """How long after the third duplicate ACK what it asks for comes, at the least: beside its sender at once (RFC 5681
    section 3.2); 0: it does, or nothing was asked for."""
    told = told_lost(timeline, passed.filled_at)
    asked = told < len(timeline.ack_ns)
    waits = passed.filled_ns[asked] - timeline.ack_ns[told[asked]]
    least = int(waits.min()) if len(waits) else 0
    return least if least > _core.HOST_NS else 0


def _by_time(to_sender: int | None, to_receiver: int | None) -> tuple[Place, str]:
    if to_sender is None or to_receiver is None:
        return "unknown", "how the round trip falls into two parts at the tap is not seen"
    whole = to_sender + to_receiver
    if not whole:
        return "unknown", "no time passes between segments and their ACKs: the clock does not tell where the tap stood"
    why = f"from the tap to the sender and back {duration(to_sender)}, to the receiver and back {duration(to_receiver)}"
    if to_sender <= NEAR_SHARE * whole and to_sender < _core.HOST_NS:
        return "sender", why
    if to_receiver <= NEAR_SHARE * whole and to_receiver < _core.HOST_NS:
        return "receiver", why
    if min(to_sender, to_receiver) >= _core.HOST_NS:
        return "middle", why
    return "unknown", f"{why}: either may be a host's own time"


def _by_hops(sender: int | None, receiver: int | None) -> tuple[Place, str]:
    """One end no router away and the other some: the tap is in the network of the first."""
    if sender is None or receiver is None or min(sender, receiver) > 0 or max(sender, receiver) < FAR_HOPS:
        return "unknown", ""
    if sender == 0:
        return "sender", f"no router between the sender and the tap, {receiver} between the receiver and the tap"
    return "receiver", f"no router between the receiver and the tap, {sender} between the sender and the tap"


def _hops(ttl: float) -> int | None:
    """How many routers counted a time to live down."""
    if math.isnan(ttl):
        return None
    hops = min((initial - int(ttl) for initial in INITIAL_TTLS if initial >= ttl), default=MOST_HOPS + 1)
    return hops if hops <= MOST_HOPS else None


def _echoes(timeline: Timeline, rows: Any, long_ns: int) -> Echoes | None:
    """What the timestamps of the segments tell of the way from the sender to the tap; None without them."""
    segments, acks = rows
    offered = timeline.ack_offset + timeline.rwnd
    np.maximum.accumulate(offered, out=offered)
    found = _core.echoed(
        [segments[name] for name in ("time_ns", "offset", "length", "ts_ecr")],
        [timeline.ack_ns, acks["ts_val"], offered if timeline.has_scale else offered[:0]],
        smss=timeline.smss,
        long_ns=long_ns,
        most_stale=ODD_SHARE,
    )
    if found is None:
        return None
    turn_ns, full_ns, waited, of = found
    if turn_ns is None:
        return None
    full_ns = turn_ns if full_ns is None else full_ns
    return Echoes(turn_ns=turn_ns, segment_turn_ns=full_ns, waited_share=waited / of)


def _least(*values: int | None) -> int | None:
    """None takes less than no time, whatever the stamps say."""
    known = [value for value in values if value is not None]
    return max(min(known), 0) if known else None


def _number(value: float) -> int | None:
    return None if math.isnan(value) else int(value)
