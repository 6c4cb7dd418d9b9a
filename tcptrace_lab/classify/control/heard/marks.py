"""What stands between the ACKs of a sender's life: losses, timers, ends of recovery, and windows that were seen."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal, get_args

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.timeline import Ints

ACK, ARRIVAL, LOSS, RESTART, TIMEOUT, EXPIRED, RECOVERED, SET, OPENING, UNDONE = map(
    _core.TAPE_EVENTS.index,
    ("ack", "arrival", "loss", "restart", "timeout", "expired", "recovered", "set", "opening", "undone"),
)

# Of which readings a mark is: of all of them; of those in which the control opens its window on the ACK that ends a
# recovery (by what that ACK tells to be new, or by all it covers); in which it ends its slow start itself, or where it
# was seen to end; in which a timer that expires within a recovery leaves the threshold of that (Linux), or reduces the
# window again (RFC 5681 equation (4)).
When = Literal["always", "new", "all", "ends itself", "ends as seen", "reduces once", "reduces again"]


def opens_window(when: Iterable[When]) -> bool:
    """Whether these are the marks of a sender that opens its window on the ACK that ends a recovery, as Linux does."""
    return not {"new", "all"}.isdisjoint(when)


@dataclass(kw_only=True, slots=True)
class Mark:
    """`ack` is the last ACK before or at it, `when` the readings that have it; the rest is the core's, by these names.

    Bytes and nanoseconds; NaN and -1: not observed.
    """

    ack: int
    event: int
    now_ns: int
    when: When = "always"
    rtt_ns: int = -1
    # What the last ACK of a recovery told to have arrived.
    newly_acked: float = 0.0
    flight_size: float = 0.0
    cwnd: float = np.nan
    ssthresh: float = np.nan
    more: float = 0.0
    more_flight: float = 0.0
    less: float = 0.0


# What the core reads of each, and what it is where nothing was observed.
TYPES = {field.name: np.int64 if field.type == "int" else np.float64 for field in fields(Mark) if field.name != "when"}
UNSEEN = {field.name: field.default for field in fields(Mark) if field.default is not MISSING}
WHENS: tuple[When, ...] = get_args(When)


@dataclass(kw_only=True)
class Many:
    """Marks of one kind: their places among those of other kinds, and what they hold, by the names of a mark's."""

    place: Ints
    event: int | Ints
    when: When | list[When] = "always"
    columns: dict[str, Any]

    def column(self, name: str) -> Any:
        values: Any = self.event if name == "event" else self.columns.get(name, UNSEEN.get(name))
        return np.broadcast_to(values, len(self.place))


class Marks:
    """Marks as they come, in columns by the same names: an object of each would take more than a capture's column."""

    def __init__(self, marks: Iterable[Mark] = ()) -> None:
        self.when: list[When] = []
        self.ack, self.event, self.now_ns, self.rtt_ns = array("q"), array("q"), array("q"), array("q")
        self.newly_acked, self.flight_size = array("d"), array("d")
        self.cwnd, self.ssthresh = array("d"), array("d")
        self.more, self.more_flight, self.less = array("d"), array("d"), array("d")
        for mark in marks:
            self.add(mark)

    def add(self, mark: Mark) -> int:
        """Its number."""
        # One after the other: by their names it would take three times as long, and losses are many.
        self.when.append(mark.when)
        self.ack.append(mark.ack)
        self.event.append(mark.event)
        self.now_ns.append(mark.now_ns)
        self.rtt_ns.append(mark.rtt_ns)
        self.newly_acked.append(mark.newly_acked)
        self.flight_size.append(mark.flight_size)
        self.cwnd.append(mark.cwnd)
        self.ssthresh.append(mark.ssthresh)
        self.more.append(mark.more)
        self.more_flight.append(mark.more_flight)
        self.less.append(mark.less)
        return len(self.when) - 1

    def extend(self, kinds: Sequence[Many]) -> list[Ints]:
        """Adds them in the order of their places, of one place in the order of the kinds; the numbers of each kind."""
        order = np.argsort(np.concatenate([each.place for each in kinds]), kind="stable")
        numbers = np.empty(len(order), dtype=np.int64)
        numbers[order] = len(self.when) + np.arange(len(order))
        for name, kind in TYPES.items():
            column = np.concatenate([each.column(name) for each in kinds])
            getattr(self, name).frombytes(column.astype(kind)[order].tobytes())
        when = [
            one
            for each in kinds
            for one in (each.when if isinstance(each.when, list) else [each.when] * len(each.place))
        ]
        self.when.extend(when[at] for at in order.tolist())
        return np.split(numbers, np.cumsum([len(each.place) for each in kinds])[:-1])

    def columns(self) -> dict[str, np.ndarray[Any, Any]]:
        """A column for each of the core's names."""
        return {name: np.array(getattr(self, name), dtype=kind) for name, kind in TYPES.items()}
