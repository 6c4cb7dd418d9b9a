"""A start of k packets into b buffers, packet by packet (RFC 2416): the recurrence of `initial_window`.

Links before the last queue space the packets, the queue drops what finds no place, the receiver answers, and an ACK of
new data lets the sender send. Parameters broadcast: one step follows a packet of every start at once, and once each has
a hole nothing more is allowed to be sent, so what is left is the queue alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy import count_nonzero
from numpy.typing import ArrayLike, NDArray
from tcptrace_lab.models.prediction import FloatArray, Parameter

INITIAL_WINDOW = Parameter(name="initial_window", unit="packets", meaning="k, sent at time 0", example=4, low=1,
                           low_open=False, high=512, high_open=False, integer=True)  # fmt: skip
PLACES = Parameter(name="places", unit="packets", meaning="b, the last queue's, in service included", example=3, low=1,
                   low_open=False, high=4096, high_open=False, integer=True)  # fmt: skip
LAST_RATE = Parameter(name="last_rate", unit="packets/s", meaning="rate behind the last queue", example=1.2)
FEED_RATE = Parameter(name="feed_rate", unit="packets/s", meaning="slowest rate before it", example=187.5)
FEED_TIME = Parameter(name="feed_time", unit="s", meaning="one packet's way to the last queue", example=0.03041333,
                      low_open=False)  # fmt: skip
RETURN_TIME = Parameter(name="return_time", unit="s", meaning="end of service to the ACK's return", example=0.35854987,
                        low_open=False)  # fmt: skip
ACK_TIMER = Parameter(name="ack_timer", unit="s", meaning="delayed-ACK timer, 0: every packet is acknowledged at once",
                      example=0.0, low_open=False)  # fmt: skip
BLOCK_TIME = Parameter(name="block_time", unit="s", meaning="what a SACK block adds to an ACK's return, 0: no SACK",
                       example=0.0, low_open=False)  # fmt: skip
FORWARD = Parameter(name="forward", unit="1", meaning="1: FACK's three packets above the hole, 0: three duplicates",
                    example=0, low=0, low_open=False, high=1, high_open=False, integer=True)  # fmt: skip

DUPLICATE_ACKS = 3
# ns's SACK option: at most three blocks of 8 bytes.
BLOCKS, BLOCK_BYTES = 3, 8
# More packets than this are not followed: nothing is then said of a loss.
HORIZON = 4096


@dataclass(frozen=True, kw_only=True)
class StartTimeline:
    """What happens to packets 1 ... P (last axis; packet p at index p - 1) until the third duplicate ACK.

    `sent`, `delivered` (at the receiver) and `ack_at` (the ACK its arrival caused, back at the sender) are seconds, NaN
    where it does not happen; `ack_number` is what that ACK covers. `first_lost` is a packet number, NaN if none is
    lost within the horizon; `retransmitted` the time of its fast retransmission, NaN if fewer than three duplicates
    come (`duplicates` counts all; FACK: if none comes from three above): then only the retransmission timer is left.
    """

    sent: FloatArray
    delivered: FloatArray
    ack_at: FloatArray
    ack_number: FloatArray
    is_lost: NDArray[np.bool_]
    is_duplicate: NDArray[np.bool_]
    first_lost: FloatArray
    duplicates: FloatArray
    retransmitted: FloatArray


@dataclass
class _Sender:
    """Windows, and when each packet is sent (a row per packet), for all parameters at once; changed in place."""

    sent: FloatArray
    cwnd: FloatArray
    highest_ack: FloatArray
    duplicates: FloatArray
    retransmitted: FloatArray
    is_forward: NDArray[np.bool_]
    # The last packet that each has been allowed to send, and has sent.
    allowed: FloatArray
    # Of all packets, a column.
    numbers: FloatArray

    def on_ack(
        self, happens: NDArray[np.bool_], number: FloatArray, now: FloatArray, cause: int | NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """An ACK for all up to `number`, caused by packet `cause`, arrives where `happens`; True where a duplicate."""
        is_new = happens & (number > self.highest_ack)
        if count_nonzero(is_new):
            np.copyto(self.highest_ack, number, where=is_new)
            # Slow start: one packet more per new ACK, however many packets it covers.
            self.cwnd += is_new
            before = self.allowed
            self.allowed = np.where(is_new, self.highest_ack + self.cwnd, before)
            # Only the packets that are allowed anew anywhere.
            first, end = int(before[is_new].min()), int(self.allowed[is_new].max())
            packet = self.numbers[first:end]
            np.copyto(self.sent[first:end], now, where=(packet > before) & (packet <= self.allowed))
        is_duplicate = happens & ~is_new
        if count_nonzero(is_duplicate):
            self.duplicates += is_duplicate
            # FACK (Mathis & Mahdavi 1996): more than three packets from the hole to the highest SACK, however many
            # arrived.
            passed = np.where(self.is_forward, cause - self.highest_ack - 1, self.duplicates)
            asks = is_duplicate & (passed >= DUPLICATE_ACKS) & np.isnan(self.retransmitted)
            np.copyto(self.retransmitted, now, where=asks)
        return is_duplicate


class _Start:
    """Everything between the sender and its ACKs, for all parameters at once; changed in place.

    A row per packet: what a step touches lies together.
    """

    def __init__(self, given: Sequence[FloatArray], count: int) -> None:
        k, places, self.rate, feed, self.there, self.back, self.timer, self.block, forward = given
        shape = k.shape
        nan = np.full(shape, np.nan)
        numbers = np.arange(1.0, count + 1)[:, None]
        self.count = count
        self.sender = _Sender(
            sent=np.where(numbers <= k, 0.0, np.nan),
            cwnd=k.astype(np.float64),
            highest_ack=np.zeros(shape),
            duplicates=np.zeros(shape),
            retransmitted=nan.copy(),
            is_forward=forward == 1,
            allowed=k.astype(np.float64),
            numbers=numbers,
        )
        self.delivered = np.full((count, *shape), np.nan)
        self.ack_at, self.ack_number = self.delivered.copy(), self.delivered.copy()
        self.is_lost = np.zeros(self.delivered.shape, dtype=np.bool_)
        self.is_duplicate = self.is_lost.copy()
        self.fed, self.idle_at = np.full(shape, -np.inf), np.full(shape, -np.inf)
        self.in_order, self.pending, self.deadline = np.zeros(shape), np.full(shape, -1), nan.copy()
        self.has_hole = np.zeros(shape, dtype=np.bool_)
        self.is_any_holed = self.are_holed = False
        # What has arrived above the first hole, in blocks without a hole.
        self.blocks, self.last_arrived = np.zeros(shape), np.full(shape, -1)
        self.has_timer, self.feed_gap, self.service = self.timer > 0, 1 / feed, 1 / self.rate
        # As many departures to come as leave one place.
        self.most_before = places - 1
        self.is_delayed, self.has_blocks = bool(self.has_timer.any()), bool(self.block.any())

    def follow(self) -> None:
        """Packet after packet, all the way."""
        for p in range(self.count):
            if self._is_all_allowed():
                return self._rest(p)
            if not self._step(p):
                return None
        return None

    def _is_all_allowed(self) -> bool:
        """Whether every receiver has a hole, and every sender the ACK of all before it: no window opens any more."""
        return self.are_holed and bool(((self.pending < 0) & (self.sender.highest_ack == self.in_order)).all())

    def _step(self, p: int) -> bool:
        """The packet at index p, and all that it causes; False: nobody sends it."""
        sent = self.sender.sent[p]
        # NaN: not yet.
        goes = sent >= 0
        if count_nonzero(goes) < len(goes):
            # A packet not yet allowed: the ACK held back must come by its timer, and may allow it.
            held = (self.pending >= 0) & ~goes
            if count_nonzero(held):
                self._acknowledge(held, self.pending, self.deadline)
                self.pending[held] = -1
                goes = sent >= 0
            if not count_nonzero(goes):
                return False
        passes = self._queue(p, goes)
        at = self.delivered[p]
        if self.is_delayed:
            # The timer of the packet before, if it runs out before this one comes.
            early = (self.pending >= 0) & (self.deadline < at)
            if count_nonzero(early):
                self._acknowledge(early, self.pending, self.deadline)
                self.pending[early] = -1
        expected = passes & (self.in_order == p)
        np.copyto(self.in_order, p + 1, where=expected)
        if self.is_any_holed:
            self.blocks += passes & ~expected & ((self.blocks == 0) | (self.last_arrived < p - 1))
        np.copyto(self.last_arrived, p, where=passes)
        answers = passes
        if self.is_delayed:
            # RFC 1122: an ACK for every second packet, at once for one out of order, else when the timer runs out.
            waits = expected & self.has_timer & (self.pending < 0)
            answers = passes & ~waits
            np.copyto(self.pending, -1, where=answers)
            np.copyto(self.pending, p, where=waits)
            np.add(at, self.timer, out=self.deadline, where=waits)
        if count_nonzero(answers):
            self._acknowledge(answers, p, at)
        return True

    def _queue(self, p: int, goes: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The packet's way where it is sent; True where it finds a place in the last queue."""
        # The slowest link before the last queue spaces the packets; the rest of the way is a constant.
        np.maximum(self.sender.sent[p], self.fed + self.feed_gap, out=self.fed, where=goes)
        arrival = self.fed + self.there
        # The link is busy until `idle_at`, so this many departures are still to come. One at the very time of the
        # arrival frees its place first; a billionth of a service time is rounding.
        lost = goes & ((self.idle_at - arrival) * self.rate - 1e-9 > self.most_before)
        passes = goes
        if count_nonzero(lost):
            passes = goes & ~lost
            self.is_lost[p] = lost
            self.has_hole |= lost
            self.is_any_holed, self.are_holed = True, bool(self.has_hole.all())
        np.add(np.maximum(arrival, self.idle_at), self.service, out=self.idle_at, where=passes)
        np.copyto(self.delivered[p], self.idle_at, where=passes)
        return passes

    def _acknowledge(self, happens: NDArray[np.bool_], index: int | NDArray[np.int64], at: FloatArray) -> None:
        """The receiver's ACK, caused by the packet at `index`, and what the sender does with it."""
        now = at + self.back
        if self.has_blocks:
            now += np.minimum(self.blocks, BLOCKS) * self.block
        duplicate = self.sender.on_ack(happens, self.in_order, now, index + 1)
        if isinstance(index, int):
            np.copyto(self.ack_at[index], now, where=happens)
            np.copyto(self.ack_number[index], self.in_order, where=happens)
            np.copyto(self.is_duplicate[index], duplicate, where=happens)
            return
        own = np.flatnonzero(happens)
        where = index[own], own
        self.ack_at[where], self.ack_number[where], self.is_duplicate[where] = (
            now[own],
            self.in_order[own],
            duplicate[own],
        )

    def _rest(self, p: int) -> None:
        """From the packet at index p on: no window opens, so each that arrives is answered by a duplicate ACK."""
        sender = self.sender
        goes = ~np.isnan(sender.sent[p : int(sender.allowed.max())])
        if not len(goes):
            return
        rest = slice(p, p + len(goes))
        for place, each in enumerate(goes, start=p):
            self._queue(place, each)
        passes = goes & ~self.is_lost[rest]
        behind_another = np.vstack((self.last_arrived == p - 1, passes[:-1]))
        blocks = self.blocks + np.cumsum(passes & ~behind_another, axis=0)
        now = self.delivered[rest] + self.back
        if self.has_blocks:
            now += np.minimum(blocks, BLOCKS) * self.block
        duplicates = sender.duplicates + np.cumsum(passes, axis=0)
        passed = np.where(sender.is_forward, sender.numbers[rest] - sender.highest_ack - 1, duplicates)
        asks = passes & (passed >= DUPLICATE_ACKS)
        first = np.where(asks.any(axis=0), now[asks.argmax(axis=0), np.arange(now.shape[1])], np.nan)
        np.copyto(sender.retransmitted, first, where=np.isnan(sender.retransmitted))
        np.copyto(self.ack_at[rest], now, where=passes)
        np.copyto(self.ack_number[rest], self.in_order, where=passes)
        self.is_duplicate[rest] = passes
        sender.duplicates = duplicates[-1]


def timeline(
    *,
    initial_window: ArrayLike,
    places: ArrayLike,
    last_rate: ArrayLike,
    feed_rate: ArrayLike,
    feed_time: ArrayLike,
    return_time: ArrayLike,
    ack_timer: ArrayLike = 0.0,
    block_time: ArrayLike = 0.0,
    forward: ArrayLike = 0,
) -> StartTimeline:
    """The start, packet by packet; see `StartTimeline`. Parameters as in `InitialWindow.parameters`."""
    given = np.broadcast_arrays(
        INITIAL_WINDOW.check(initial_window),
        PLACES.check(places),
        LAST_RATE.check(last_rate),
        FEED_RATE.check(feed_rate),
        FEED_TIME.check(feed_time),
        RETURN_TIME.check(return_time),
        ACK_TIMER.check(ack_timer),
        BLOCK_TIME.check(block_time),
        FORWARD.check(forward),
    )
    # One entry per combination; they get the parameters' shape at the end.
    k, b, mu, _, there, back, timer, *_ = rows = [array.ravel() for array in given]
    needed = packets_needed(
        {"initial_window": k, "places": b, "last_rate": mu, "feed_time": there, "return_time": back, "ack_timer": timer}
    )
    count = int(np.max(needed, initial=1))
    start = _Start(rows, count)
    start.follow()
    many, one = (*given[0].shape, count), given[0].shape
    first_lost = np.where(start.has_hole, np.argmax(start.is_lost, axis=0) + 1.0, np.nan)
    return StartTimeline(
        sent=start.sender.sent.T.reshape(many),
        delivered=start.delivered.T.reshape(many),
        ack_at=start.ack_at.T.reshape(many),
        ack_number=start.ack_number.T.reshape(many),
        is_lost=start.is_lost.T.reshape(many),
        is_duplicate=start.is_duplicate.T.reshape(many),
        first_lost=first_lost.reshape(one),
        duplicates=start.sender.duplicates.reshape(one),
        retransmitted=start.sender.retransmitted.reshape(one),
    )


def packets_needed(row: Mapping[str, FloatArray]) -> FloatArray:
    """How many packets must be followed to see the first loss detected.

    Slow start can't pass the pipe and the queue by more than twice; the packets sent by then are twice as many again.
    """
    pipe = row["last_rate"] * (row["feed_time"] + row["return_time"] + row["ack_timer"]) + 1
    return np.asarray(np.minimum(4 * (row["places"] + pipe) + 2 * row["initial_window"] + 16, HORIZON))
