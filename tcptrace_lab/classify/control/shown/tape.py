"""A sender's life as its congestion control heard of it: the tape that candidates are replayed over.

What a capture shows leaves readings open: each is a tape of its own, over the same columns (`Heard`), with marks of its
own between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from tcptrace_lab import _core
from tcptrace_lab.classify.control.heard.ack_columns import AckColumns
from tcptrace_lab.classify.control.heard.heard import Heard
from tcptrace_lab.classify.control.heard.marks import ARRIVAL, Mark, Marks, When, opens_window
from tcptrace_lab.classify.control.shown.compared import Compared
from tcptrace_lab.classify.control.shown.epoch import Epoch, Ints32
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Ints, Timeline

# Controls count time from the boot of a machine, where zero means "never": no capture's first ACK is at zero. A whole
# number of these lies before it, so that a stamp stays where it is in its tick, down to the microsecond: an ACK comes a
# round trip to the tick behind the one that released its segment, and Westwood samples after more than one.
CLOCK_ZERO_NS = 1_000_000_000_000
# The reading of who does not open its window in a recovery, takes no handshake, and reduces once.
FIRST_READ: tuple[When, ...] = ("always", "ends as seen", "reduces once")


@dataclass(frozen=True, kw_only=True)
class Tape:
    """The rows for the core, and the epochs in which candidates are compared.

    A row for each ACK, and behind it one for each mark: `mark_ack` are the marks' ACKs in the order of the rows,
    `row_of_mark` the row of each mark (-1: not on this tape).
    """

    core: _core.Tape
    compared: Compared
    mark_ack: Ints
    row_of_mark: Ints
    # Which marks it has.
    when: tuple[When, ...]
    # The handshake's round trip (None: it does not tell it); whether it tells a past that is not in the capture.
    handshake_ns: int | None = None
    is_remembered: bool = False
    # Whether its round trips are shorter than their stamps say.
    is_sooner: bool = False

    @property
    def has_handshake(self) -> bool:
        return self.handshake_ns is not None

    @property
    def opens(self) -> bool:
        """Whether it is what Linux hears, which times what is SACKed too."""
        return opens_window(self.when)

    @property
    def smss(self) -> int:
        return self.compared.smss

    @property
    def epochs(self) -> tuple[Epoch, ...]:
        return self.compared.epochs

    @cached_property
    def reduction_rows(self) -> list[int]:
        """The row at which each reduction is judged."""
        found: list[int] = self.row_of_mark[self.compared.pieces.reductions.mark].tolist()
        return found

    def rows(self, acks: Ints32) -> Ints:
        """The rows of ACKs."""
        found: Ints = acks - self.compared.heard.first + np.searchsorted(self.mark_ack, acks, side="left")
        return found

    @cached_property
    def ack_of_row(self) -> Ints32:
        """The last ACK before or at each row; -1: none."""
        heard = self.compared.heard
        acks = np.arange(heard.first, len(heard.kind), dtype=np.int32)
        return np.sort(np.concatenate((acks, self.mark_ack.astype(np.int32))))

    @cached_property
    def round_of_row(self) -> npt.NDArray[np.int32]:
        """The round trip of each row."""
        found: npt.NDArray[np.int32] = self.compared.heard.round[np.maximum(self.ack_of_row, 0)]
        return found


@dataclass(frozen=True, kw_only=True)
class Before:
    """The marks of what a sender may have heard before the first ACK, and how many those are."""

    core: _core.Marks
    count: int


def tape(
    seen: Reconstruction,
    *,
    follows: bool = False,
    columns: AckColumns | None = None,
    handshake_rtt_ns: int | None = None,
    when: tuple[When, ...] = FIRST_READ,
) -> Tape:
    """Everything a control would have been told, in order of time; `handshake_rtt_ns`: that too, to who takes it.

    `follows`: the window observed is taken over wherever it shows, not only where an epoch begins. `columns`: of
    another reading of the same, not worked out again.
    """
    heard = Heard(seen, handshake_rtt_ns, follows=follows, columns=columns)
    return _tape(
        Compared(heard),
        _core_columns(heard, handshake_rtt_ns, opens=opens_window(when)),
        when=when,
        before=_ahead(_handshake(heard, handshake_rtt_ns)),
        handshake_ns=handshake_rtt_ns,
    )


class Tapes:
    """Every reading of what a control was told, worked out once; `handshake_rtt_ns`: if some take it for the first."""

    @classmethod
    def of(cls, seen: Reconstruction, handshake_rtt_ns: int | None, recovery: str | None = None) -> Self:
        """Of a sender whose window shows between its losses too; `recovery`: as far as it is known."""
        heard = Heard(seen, handshake_rtt_ns, is_reno=recovery == "reno")
        return cls(Compared(heard), handshake_rtt_ns)

    def __init__(self, compared: Compared, handshake_rtt_ns: int | None = None) -> None:
        self._compared = compared
        self._told = [None] if handshake_rtt_ns is None else [None, handshake_rtt_ns]
        self._read: dict[bool, list[Tape]] = {}
        self._columns: dict[tuple[int | None, bool, int], _core.Heard] = {}

    @property
    def shows_window(self) -> bool:
        """Whether there is anything that a candidate's window can be held against."""
        return len(self._compared.pieces) > 0

    def plain(self) -> Tape:
        """The first of `read`."""
        return _tape(self._compared, self._of(None, opens=False), when=FIRST_READ)

    def _of(self, told: int | None, *, opens: bool, sooner_ns: int = 0) -> _core.Heard:
        key = (told, opens, sooner_ns)
        if key not in self._columns:
            self._columns[key] = _core_columns(self._compared.heard, told, opens=opens, sooner_ns=sooner_ns)
        return self._columns[key]

    def read(self, *, ends_itself: bool = False) -> list[Tape]:
        """`ends_itself`: but not where its slow start ended.

        Some stacks open the window on the ACK that ends a recovery (Linux's), others do not. Some take the handshake
        for the first round trip, others do not: SYNs are shorter than segments. A timer that expires within a recovery
        reduces the window again (RFC 5681 equation (4)), or not (Linux).
        """
        if ends_itself not in self._read:
            ends: When = "ends itself" if ends_itself else "ends as seen"
            self._read[ends_itself] = [each for told in self._told for each in self._all(ends, told)]
        return self._read[ends_itself]

    def behind(self, before: Sequence[Mark]) -> list[Tape]:
        """The same with what the sender may have heard before the capture."""
        return self._all("ends as seen", None, before)

    def read_sooner(self, tick_ns: int) -> list[Tape]:
        """The same where each round trip took a tick of the tap's clock less than its stamps say, if no less than the
        least: a queue that is no longer than that may have been none."""
        return [each for told in self._told for each in self._all("ends as seen", told, sooner_ns=tick_ns)]

    def _all(self, ends: When, told: int | None, before: Sequence[Mark] = (), *, sooner_ns: int = 0) -> list[Tape]:
        heard = self._compared.heard
        ahead = _ahead(before or _handshake(heard, told))
        opens: tuple[tuple[When, ...], ...] = ((), ("new",), ("all",))
        if not len(heard.marks_of["all"]):
            # With SACK it is known what was new; where every loss was a restart, no recovery has ended by an ACK.
            opens = opens[:2]
        reduces: tuple[When, ...] = ("reduces once", "reduces again")
        return [
            _tape(
                self._compared,
                self._of(told, opens=bool(each), sooner_ns=sooner_ns),
                when=("always", ends, again, *each),
                before=ahead,
                handshake_ns=told,
                is_sooner=sooner_ns > 0,
            )
            for each in opens
            for again in reduces[: 1 + bool((heard.again_marks >= 0).any())]
        ]


def _handshake(heard: Heard, rtt_ns: int | None) -> list[Mark]:
    """What it told of the round trip, to who takes that."""
    return [] if rtt_ns is None else [Mark(ack=-1, event=ARRIVAL, now_ns=heard.timeline.start_ns, rtt_ns=rtt_ns)]


def _ahead(before: Sequence[Mark]) -> Before | None:
    return Before(core=_core.Marks(Marks(before).columns()), count=len(before)) if before else None


def clock_zero_ns(timeline: Timeline) -> int:
    """The time 0 of a control's clock, whose ticks are the capture's own."""
    return timeline.start_ns // CLOCK_ZERO_NS * CLOCK_ZERO_NS - CLOCK_ZERO_NS


def _core_columns(
    heard: Heard, handshake_rtt_ns: int | None = None, *, opens: bool = False, sooner_ns: int = 0
) -> _core.Heard:
    """The columns that the core reads, one entry per ACK; they are not copied.

    `opens`: for a sender that opens its window on the ACK that ends a recovery, and times and counts what is SACKed
    (Linux).
    """
    rtt_ns = heard.columns.round_trips[handshake_rtt_ns, opens]
    if sooner_ns:
        known = rtt_ns > 0
        least = int(rtt_ns[known].min(initial=np.iinfo(np.int64).max))
        rtt_ns = np.where(known, np.maximum(rtt_ns - sooner_ns, least), rtt_ns)
    return _core.Heard(
        {
            "now_ns": heard.timeline.ack_ns,
            "una": heard.una,
            "top": heard.top,
            "newly_acked": heard.columns.newly_acked,
            "sacked": heard.timeline.sacked,
            "rtt_ns": rtt_ns,
            "event": heard.events(to_linux=opens),
            "is_cwnd_limited": heard.limited,
            "most_after": np.zeros(0) if opens else heard.most_after,
            "flight": heard.flight,
            # Where the flight is taken for the window.
            "is_shown": heard.is_taken_over,
        },
        first=heard.first,
        zero_ns=clock_zero_ns(heard.timeline),
    )


def _tape(
    compared: Compared,
    columns: _core.Heard,
    *,
    when: tuple[When, ...],
    before: Before | None = None,
    handshake_ns: int | None = None,
    is_sooner: bool = False,
) -> Tape:
    """The tape of one reading; `before`: marks before its first ACK, `handshake_ns`: which are of a handshake."""
    heard = compared.heard
    first, ahead = (None, 0) if before is None else (before.core, before.count)
    ack = heard.mark_acks
    chosen = np.sort(np.concatenate([heard.marks_of[each] for each in when]))
    order = chosen[np.argsort(ack[chosen], kind="stable")]
    row_of_mark = np.full(len(ack), -1, dtype=np.int64)
    row_of_mark[order] = np.maximum(ack[order] + 1 - heard.first, 0) + np.arange(len(order)) + ahead
    return Tape(
        core=_core.Tape(columns, heard.core_marks, order.tolist(), before=first, opens=opens_window(when)),
        compared=compared,
        mark_ack=np.concatenate((np.full(ahead, -1), ack[order])),
        row_of_mark=row_of_mark,
        when=when,
        handshake_ns=handshake_ns,
        is_remembered=before is not None and handshake_ns is None,
        is_sooner=is_sooner,
    )
