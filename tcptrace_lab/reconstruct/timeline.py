"""What a sender did and what it was told, as arrays in the order of time: the input of every reconstruction.

Assumes a capture point at the sender: an ACK is in the timeline when the sender has (almost) read it, a segment when
it left. At another point every conclusion drawn from "which ACK released which segment" errs by the delay between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcptrace_lab import _core
from tcptrace_lab.errors import LabError
from tcptrace_lab.reconstruct.scoreboard import Scoreboard
from tcptrace_lab.reconstruct.tap.sender_clock import SenderClock

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
# Of rows: as many as a capture has fit.
Places = NDArray[np.int32]
Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]

# A rebuilt flight that is open by more than this part, and a segment, does not tell a window.
OPEN_SHARE = 0.05
# Rows looked at in one go: what is held of each meanwhile stays small.
AT_ONCE = 1 << 16
# What a tap away from the sender knows of a send.
UNKNOWN, LOST, ARRIVED = range(len(_core.FATES))


def parts(rows: int) -> Iterator[slice]:
    """All rows of a table, some at a time."""
    return (slice(at, min(at + AT_ONCE, rows)) for at in range(0, rows, AT_ONCE))


def rows_from(begins: Ints, lengths: Ints) -> Ints:
    """So many rows from each of these on, one after the other."""
    found: Ints = np.repeat(begins + lengths - np.cumsum(lengths), lengths) + np.arange(lengths.sum())
    return found


@contextmanager
def _inferring() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise LabError(f"nothing can be inferred from this flow: {error}") from None


class WorkedOutOnce:
    """What follows from columns as long as a capture is kept (`cached_property`) until it is let go."""

    def let_go(self, *names: str) -> None:
        """What was worked out under these names is not asked for any more."""
        for name in names:
            self.__dict__.pop(name, None)


@dataclass(frozen=True, kw_only=True)
class Timeline(WorkedOutOnce):
    """One direction of a connection, seen from its sender. Bytes, unwrapped offsets, nanoseconds.

    `sends` are segments with payload (or FIN), `acks` the segments of the other side that carry an ACK number.
    `sack_high` is the highest byte SACKed above the ACK number (0 without), `sacked` how many bytes are SACKed there;
    `sack_edges` has the edges of all blocks in turn, `sack_first` where each ACK's begin (one entry more than ACKs, or
    none); `dsacks` are the ranges reported as received twice (RFC 2883), `echoes_older` whether an ACK answers what was
    sent again with an older stamp than that had (RFC 3522; empty: none does). What follows from the columns is the
    core's (core/src/infer), computed when first asked for.
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
    hides_blocks: bool = False
    has_timestamps: bool = False
    # Whether the windows offered are known, or the least that fit.
    has_scale: bool = True
    header_bytes: int = 40
    notes: tuple[str, ...] = field(default=())
    dsacks: tuple[tuple[int, int], ...] = field(default=())
    echoes_older: Bools = field(default_factory=lambda: np.zeros(0, dtype=bool))
    # When the tap's clock was set, in order: what passed across that is not known.
    set_ns: tuple[int, ...] = field(default=())
    sack_first: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    sack_edges: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    # Captured away from the sender: what became of each send (core/src/infer/sender/rows/trace.rs; empty: not known).
    fate: Bytes = field(default_factory=lambda: np.zeros(0, dtype=np.uint8))
    # By how many bytes the flight after each ACK may differ (empty: by none), where it was not captured but inferred.
    slack: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    # The clock behind the sender's timestamps, on the times of this timeline.
    stamp_clock: SenderClock | None = None

    @cached_property
    def observed(self) -> _core.Observed:
        """What the core makes of it; a LabError where they are no capture's (core/src/infer/sender/rows/trace.rs)."""
        with _inferring():
            return _core.observe(self)

    def follow(self) -> None:
        """Works out what follows row by row, and no loss or window: of a timeline that another is made of few ask."""
        with _inferring():
            first_offset, found = _core.followed(self)
        rtt = (found.pop("rtt_ack"), found.pop("rtt_ns"))
        vars(self).update(found, rtt=rtt, first_offset=first_offset)

    @cached_property
    def snd_max(self) -> Ints:
        """Highest byte sent, after each send."""
        return self._column("snd_max")

    @cached_property
    def snd_una(self) -> Ints:
        """Highest byte acknowledged, after each ACK. An ACK of data never seen (a hole in the capture) counts."""
        return self._column("snd_una")

    @cached_property
    def is_retransmission(self) -> Bools:
        """A send that begins below the highest byte sent before it."""
        found: Bools = self.observed.column("is_retransmission")
        return found

    @cached_property
    def acks_before_send(self) -> Ints:
        """How many ACKs were known at each send. An ACK of the same instant counts: it released the segment."""
        return self._column("acks_before_send")

    @cached_property
    def sends_before_next_ack(self) -> Ints:
        """How many segments had left just before the ACK after each ACK: what that ACK released is among them."""
        return self._column("sends_before_next_ack")

    @cached_property
    def newly_acked(self) -> Ints:
        """Bytes by which each ACK moves `snd_una`."""
        una = self.snd_una
        found = np.diff(una, prepend=una[:1])
        if len(una):
            found[0] = una[0] - min(self.first_offset, int(una[0]))
        return found

    @cached_property
    def last_moved(self) -> Ints:
        """The last ACK up to each that moved `snd_una`; -1: none yet."""
        return self._column("last_moved")

    @cached_property
    def is_open(self) -> Bools:
        """After each ACK, whether a rebuilt flight is open by so much that it does not tell which window it fills."""
        flight = self._column("flight")
        found: Bools = self.slack > np.maximum(self.smss, OPEN_SHARE * flight)
        return found

    @cached_property
    def first_offset(self) -> int:
        """The first byte of data."""
        return self.observed.first_offset

    def una_after(self, acks: Ints) -> Ints:
        """`snd_una` after so many ACKs: before the first, the first byte of data."""
        if not len(self.snd_una):
            return np.full(len(acks), self.first_offset, dtype=np.int64)
        found: Ints = self.snd_una[acks - 1]
        found[acks == 0] = self.first_offset
        return found

    @property
    def new_bytes(self) -> int:
        """Sent, each byte once."""
        return int(self.snd_max[-1]) - self.first_offset if len(self.snd_max) else 0

    @cached_property
    def answered_to_the_end(self) -> tuple[Ints, Ints]:
        """The ACKs after which nothing was outstanding until more was sent, and of each the send that came next."""
        following = _core.places(self.send_ns, self.ack_ns, or_equal=True)
        if not len(self.send_ns):
            return following[:0], following[:0]
        is_done = (following > 0) & (following < len(self.send_ns))
        for part in parts(len(following)):
            is_done[part] &= self.snd_max[following[part] - 1] <= self.snd_una[part]
        acks = np.flatnonzero(is_done)
        return acks, following[acks]

    @cached_property
    def sizes(self) -> tuple[Ints, Ints]:
        """The different numbers of bytes that were sent at once, in order, and how often each was."""
        found = Counter[int]()
        for part in parts(len(self.send_ns)):
            sizes, counts = _core.counts(self.send_end[part] - self.send_offset[part])
            found.update(dict(zip(sizes.tolist(), counts.tolist(), strict=True)))
        table = np.array(sorted(found.items()), dtype=np.int64).reshape(-1, 2)
        return table[:, 0], table[:, 1]

    @cached_property
    def is_dupack(self) -> Bools:
        """A bare ACK that moves nothing while data is outstanding and the window is unchanged (RFC 5681 section 2)."""
        found: Bools = self.observed.column("is_dupack")
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
        segment and ACK: the ACK may answer the segment that filled a hole, not the last one it covers. Nor across a
        step of the clock.
        """
        return self._column("rtt_ack"), self._column("rtt_ns")

    @cached_property
    def scoreboard(self) -> Scoreboard:
        """Since which ACK each byte is SACKed."""
        left, right, ack = _core.scoreboard(self.ack_offset, self.sack_first, self.sack_edges)
        return Scoreboard(left=left, right=right, ack=ack)

    @cached_property
    def delivered(self) -> Ints:
        """Bytes known to have arrived at each ACK: acknowledged, or SACKed above; without SACK one more MSS for each
        duplicate of a loss."""
        board, count = self.scoreboard, len(self.ack_ns)
        if self.has_sack and len(board.left):
            sizes = board.right - board.left
            covered = np.searchsorted(self.snd_una, board.right, side="left")
            change = np.bincount(board.ack, sizes, count + 1)[: count + 1]
            change -= np.bincount(np.minimum(covered, count), sizes, count + 1)
            return self.snd_una + np.cumsum(change[:count]).astype(np.int64)
        is_dup, _ = self._repairs
        dups = np.cumsum(is_dup)
        since = np.maximum.accumulate(np.where(self.newly_acked > 0, dups, 0))
        return np.maximum.accumulate(self.snd_una + (dups - since) * self.smss)

    @cached_property
    def arrived(self) -> Ints:
        """The same; without SACK by the duplicates of a whole recovery: a partial ACK tells of the one segment that
        filled its hole, of the rest duplicates had told."""
        if self.has_sack:
            return self.delivered
        is_dup, repairs = self._repairs
        told = np.cumsum(np.where(is_dup, self.smss, np.where(repairs, np.minimum(self.newly_acked, self.smss), 0)))
        begins = np.append(repairs[1:] & ~repairs[:-1], False)[: len(repairs)]
        ahead = self.snd_una - told
        # Those of one recovery do not reach into the next.
        apart = np.cumsum(begins) * (int(np.ptp(ahead)) + 1 if len(ahead) else 0)
        whole = np.maximum.accumulate(ahead + apart) - apart + told
        found: Ints = np.where(repairs, np.maximum(np.minimum(whole, self._sent_once), self.snd_una), self.snd_una)
        return np.maximum.accumulate(found)

    @property
    def _sent_once(self) -> Ints:
        """Up to where the data would reach that was sent before each ACK, without holes and what was sent twice."""
        firsts = np.unique(self.send_offset, return_index=True)[1]
        new = np.zeros(len(self.send_ns) + 1, dtype=np.int64)
        new[firsts + 1] = self.send_end[firsts] - self.send_offset[firsts]
        found: Ints = self.first_offset + np.cumsum(new)[np.searchsorted(self.send_ns, self.ack_ns, side="right")]
        return found

    @property
    def _repairs(self) -> tuple[Bools, Bools]:
        """Duplicate ACKs of losses: of three in a row, or before what was outstanding then is acknowledged. RFC 5681
        section 3.2: fewer may be copies of ACKs, which tell of no arrival. And all ACKs from the first of them until
        then."""
        moves = np.cumsum(self.newly_acked > 0)
        in_row = np.bincount(moves, self.is_dupack, minlength=1)
        is_lost = in_row[moves] >= _core.DUP_THRESH
        if not is_lost.any() or not len(self.snd_max):
            return self.is_dupack & is_lost, self.is_dupack & is_lost
        sent = self.snd_max[np.maximum(self.sends_before_next_ack - 1, 0)]
        is_within = self.snd_una < np.maximum.accumulate(np.where(is_lost, sent, 0))
        is_dup: Bools = self.is_dupack & (is_lost | is_within)
        return is_dup, is_dup | is_within

    def acks_alone(self, *names: str) -> Timeline:
        """The ACKs, and of what follows from all columns these: the sends are not held any longer."""
        nothing = np.zeros(0, dtype=np.int64)
        found = replace(self, send_ns=nothing, send_offset=nothing, send_end=nothing)
        vars(found).update({name: getattr(self, name) for name in names})
        return found

    def _column(self, name: str) -> Ints:
        found: Ints = self.observed.column(name)
        return found


def build(
    columns: dict[str, Any],
    *,
    smss: int,
    has_start: bool = True,
    has_sack: bool = False,
    dsacks: tuple[tuple[int, int], ...] = (),
    blocks: Sequence[Sequence[tuple[int, int]]] = (),
) -> Timeline:
    """A timeline from plain sequences (tests, synthetic cases); columns not given are filled with "nothing seen".

    `blocks`: the SACK blocks of each ACK, or nothing.
    """
    arrays: dict[str, Any] = {name: np.asarray(values, dtype=np.int64) for name, values in columns.items()}
    count = len(arrays["ack_ns"])
    arrays.setdefault("rwnd", np.full(count, 1 << 40, dtype=np.int64))
    arrays.setdefault("sack_high", np.zeros(count, dtype=np.int64))
    arrays.setdefault("sacked", np.zeros(count, dtype=np.int64))
    bare = np.asarray(arrays.pop("is_bare", np.ones(count)), dtype=bool)
    if len(blocks):
        arrays["sack_first"] = np.cumsum([0, *(2 * len(each) for each in blocks)], dtype=np.int64)
        arrays["sack_edges"] = np.array([edge for each in blocks for block in each for edge in block], dtype=np.int64)
    return Timeline(**arrays, is_bare=bare, smss=smss, has_start=has_start, has_sack=has_sack, dsacks=dsacks)
