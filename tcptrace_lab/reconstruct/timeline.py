"""What a sender did and what it was told, as arrays in the order of time: the input of every reconstruction.

Assumes a capture point at the sender: an ACK is in the timeline when the sender has (almost) read it, a segment when
it left. At another point every conclusion drawn from "which ACK released which segment" errs by the delay between.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcptrace_lab.reconstruct.scoreboard import Scoreboard

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


# So many round trips of full segments make those of shorter ones unnecessary.
ENOUGH_FULL = 8


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """One direction of a connection, seen from its sender. Bytes, unwrapped offsets, nanoseconds.

    `sends` are segments with payload (or FIN), `acks` the segments of the other side that carry an ACK number.
    `sack_high` is the highest byte SACKed above the ACK number (0 without), `sacked` how many bytes are SACKed there;
    `dsacks` are the ranges reported as received twice (RFC 2883), `scoreboard` says since when each byte is SACKed.
    """

    send_ns: Ints
    send_offset: Ints
    send_end: Ints
    ack_ns: Ints
    ack_offset: Ints
    rwnd: Ints
    is_bare: Bools
    sack_high: Ints
    sacked: Ints
    smss: int
    has_start: bool
    has_sack: bool = False
    header_bytes: int = 40
    notes: tuple[str, ...] = field(default=())
    dsacks: tuple[tuple[int, int], ...] = field(default=())
    scoreboard: Scoreboard = field(default_factory=Scoreboard)

    @cached_property
    def snd_max(self) -> Ints:
        """Highest byte sent, after each send."""
        return np.maximum.accumulate(self.send_end) if len(self.send_end) else self.send_end

    @cached_property
    def snd_una(self) -> Ints:
        """Highest byte acknowledged, after each ACK. An ACK of data never seen (a hole in the capture) counts."""
        return np.maximum.accumulate(self.ack_offset) if len(self.ack_offset) else self.ack_offset

    @cached_property
    def is_retransmission(self) -> Bools:
        """A send that begins below the highest byte sent before it."""
        before = np.concatenate(([np.iinfo(np.int64).min], self.snd_max[:-1]))
        return self.send_offset < before if len(self.send_end) else np.zeros(0, dtype=bool)

    @cached_property
    def acks_before_send(self) -> Ints:
        """How many ACKs were known at each send. An ACK of the same instant counts: it released the segment."""
        return np.searchsorted(self.ack_ns, self.send_ns, side="right")

    @cached_property
    def sends_before_next_ack(self) -> Ints:
        """How many segments had left just before the ACK after each ACK: what that ACK released is among them."""
        following = np.concatenate((self.ack_ns[1:], [np.iinfo(np.int64).max]))
        return np.searchsorted(self.send_ns, following, side="left")

    @cached_property
    def newly_acked(self) -> Ints:
        """Bytes by which each ACK moves `snd_una`."""
        if not len(self.ack_offset):
            return self.ack_offset
        return np.diff(self.snd_una, prepend=min(self.first_offset, int(self.snd_una[0])))

    @cached_property
    def first_offset(self) -> int:
        """The first byte of data."""
        return int(self.send_offset.min()) if len(self.send_offset) else 0

    @cached_property
    def is_dupack(self) -> Bools:
        """A bare ACK that moves nothing while data is outstanding and the window is unchanged (RFC 5681 section 2)."""
        if not len(self.ack_ns):
            return np.zeros(0, dtype=bool)
        sent = np.searchsorted(self.send_ns, self.ack_ns, side="left")
        top = np.where(sent > 0, self.snd_max[np.maximum(sent - 1, 0)] if len(self.snd_max) else 0, 0)
        same_window = np.concatenate(([False], self.rwnd[1:] == self.rwnd[:-1]))
        new_sack = np.concatenate(
            ([False], (self.sacked[1:] > self.sacked[:-1]) | (self.sack_high[1:] > self.sack_high[:-1]))
        )
        same_ack = self.ack_offset == self.snd_una
        still = (self.newly_acked == 0) & same_ack & self.is_bare
        found: Bools = still & (top > self.snd_una) & (same_window | new_sack)
        return found

    @cached_property
    def start_ns(self) -> int:
        """Time of the first row: zero of every time in a report."""
        firsts = [int(column[0]) for column in (self.send_ns, self.ack_ns) if len(column)]
        return min(firsts) if firsts else 0

    @cached_property
    def end_ns(self) -> int:
        """Time of the last row."""
        lasts = [int(column[-1]) for column in (self.send_ns, self.ack_ns) if len(column)]
        return max(lasts) if lasts else 0

    def seconds(self, time_ns: float) -> float:
        """Seconds since the first row."""
        return float(time_ns - self.start_ns) / 1e9

    @cached_property
    def rtt(self) -> tuple[Ints, Ints]:
        """(index of the ACK, round-trip time in ns) of each ACK of new data, from the last segment it covers.

        Karn: none where that segment was sent more than once. None either where anything was retransmitted between
        segment and ACK: the ACK may answer the segment that filled a hole, not the last one it covers.
        """
        return _rtt_samples(self)


def _rtt_samples(timeline: Timeline) -> tuple[Ints, Ints]:
    empty = np.zeros(0, dtype=np.int64)
    if not len(timeline.send_ns) or not len(timeline.ack_ns):
        return empty, empty
    fresh = ~timeline.is_retransmission
    ends, sent = timeline.send_end[fresh], timeline.send_ns[fresh]
    moves = np.flatnonzero(timeline.newly_acked > 0)
    target = timeline.snd_una[moves]
    at = np.searchsorted(ends, target, side="left")
    at = np.minimum(at, len(ends) - 1)
    exact = ends[at] == target
    sample = timeline.ack_ns[moves] - sent[at]
    # An ACK that waited for a hole below it to be filled tells of the recovery, not of the path.
    again_ns = timeline.send_ns[~fresh]
    filled = np.searchsorted(again_ns, timeline.ack_ns[moves], side="right") > np.searchsorted(again_ns, sent[at])
    exact &= (sample >= 0) & ~filled
    # A short segment is sent faster than a full one: it would make the path look shorter.
    full = (timeline.send_end[fresh] - timeline.send_offset[fresh])[at] >= timeline.smss
    if np.count_nonzero(exact & full) >= ENOUGH_FULL:
        exact &= full
    return moves[exact], sample[exact]


def build(
    columns: dict[str, Any],
    *,
    smss: int,
    has_start: bool = True,
    has_sack: bool = False,
    dsacks: tuple[tuple[int, int], ...] = (),
    scoreboard: Scoreboard | None = None,
) -> Timeline:
    """A timeline from plain sequences (tests, synthetic cases); columns not given are filled with "nothing seen"."""
    arrays = {name: np.asarray(values, dtype=np.int64) for name, values in columns.items()}
    count = len(arrays["ack_ns"])
    arrays.setdefault("rwnd", np.full(count, 1 << 40, dtype=np.int64))
    arrays.setdefault("sack_high", np.zeros(count, dtype=np.int64))
    arrays.setdefault("sacked", np.zeros(count, dtype=np.int64))
    bare = np.asarray(arrays.pop("is_bare", np.ones(count)), dtype=bool)
    return Timeline(
        send_ns=arrays["send_ns"],
        send_offset=arrays["send_offset"],
        send_end=arrays["send_end"],
        ack_ns=arrays["ack_ns"],
        ack_offset=arrays["ack_offset"],
        rwnd=arrays["rwnd"],
        is_bare=bare,
        sack_high=arrays["sack_high"],
        sacked=arrays["sacked"],
        smss=smss,
        has_start=has_start,
        has_sack=has_sack,
        dsacks=dsacks,
        scoreboard=scoreboard or Scoreboard(),
    )
