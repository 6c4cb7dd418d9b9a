"""A connection's flow as a sender's timeline: what counts as sent, what as heard, and how large a segment is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.numbers import end
from tcptrace_lab.reconstruct.away.arrivals import IS_COPY, arrivals
from tcptrace_lab.reconstruct.away.echoes import leaves_at_once
from tcptrace_lab.reconstruct.away.heard import as_heard
from tcptrace_lab.reconstruct.away.others import numbers_alone, shares_path
from tcptrace_lab.reconstruct.away.rhythm import is_behind_bottleneck
from tcptrace_lab.reconstruct.away.sender_view import MOST_OPEN, Known, SenderView, acks_of, away_from_sender
from tcptrace_lab.reconstruct.filled import filled_ns
from tcptrace_lab.reconstruct.flights import Offered, Passed, Start, shares_by_flights, start_by_flights
from tcptrace_lab.reconstruct.flow_rows import beside_of, flights_of, kept_of, reduced_ns_of, rows_of, with_handshakes
from tcptrace_lab.reconstruct.given import BURST_NS, FEWEST_SAMPLES, MAJORITY, MINORITY, SIDES
from tcptrace_lab.reconstruct.look import ecn_cuts, look
from tcptrace_lab.reconstruct.sent_and_heard import stamp_clock_of, timeline_of
from tcptrace_lab.reconstruct.tap.clock import read_apart_ns
from tcptrace_lab.reconstruct.tap.copies import without_copies_across
from tcptrace_lab.reconstruct.tap.let_go import window_turn_ns
from tcptrace_lab.reconstruct.tap.stalled import without_stalls
from tcptrace_lab.reconstruct.tap.tap import Fact, Tap
from tcptrace_lab.reconstruct.tap.unheard import (
    unheard_by_count,
    unheard_by_release,
    unheard_by_timers,
    unheard_by_window,
    with_unheard,
)
from tcptrace_lab.reconstruct.tap.vantage import Passing, Vantage, passing, vantage
from tcptrace_lab.reconstruct.timeline import LOST, Bools, Ints, Timeline

if TYPE_CHECKING:
    from tcptrace_lab.capture import Capture, Connection
    from tcptrace_lab.flow import Columns

# How late answers are at the most, but for one in a thousand: behind that a host had stood still.
LATEST_PERCENTILE = 99.9


@dataclass(frozen=True, kw_only=True)
class Sender:
    """One sender of a capture: who, where the tap stood (sender, receiver, middle, unknown), and its timeline."""

    connection: int
    direction: int
    sender: str
    receiver: str
    vantage: str
    handshake_rtt_s: float | None
    lost_before_tap: int
    missing_bytes: int
    timeline: Timeline
    tap: Tap
    # The wire's number of offset 0.
    first_sequence: int | None = None
    where: Vantage | None = None
    view: SenderView | None = None
    # Of a view that shows no window: what was lost, and in which order what was sent.
    order: SenderView | None = None
    # Lost before the tap and put back, also where the view shows no window; None: captured at the sender.
    put_back: int | None = None
    # What limited it by its data alone, where what was in flight is not in the capture.
    by_flights: dict[str, float] = field(default_factory=dict)
    # How long the receiver's window was full there, as far as a rhythm shows that.
    filled_ns: int = 0

    @property
    def place(self) -> str:
        """Where the timeline is taken from: "sender" also where it was rebuilt, "middle" behind a queue near it."""
        if self.view is not None:
            return "sender"
        is_at_end = self.vantage == "receiver" or self.where is None or self.where.is_at_sender
        return self.vantage if is_at_end else "middle"

    @property
    def is_blurred(self) -> bool:
        """Rebuilt, and the flight is open so often that neither windows nor queues nor restarts are certain."""
        return self.view is not None and self.view.is_inferred and self.view.unsure > MOST_OPEN

    @cached_property
    def before_tap_ns(self) -> int | None:
        """What a full segment takes to the tap beyond a host's own time; None: how long is not known.

        Without timestamps by what passes after the ACK whose window it needed, where that was the limit; else after any
        ACK: at a sender much follows at once, behind a slow line as it comes.
        """
        if self.where is None:
            return 0
        taken = self.where.segment_turn_ns
        if taken is None and self.tap.shift.value is not None:
            taken = window_turn_ns(self.timeline)
        if taken is not None:
            return taken if taken > BURST_NS else 0
        waits, _ = _waits(self.timeline)
        return None if len(waits) and _core.percentile(waits, 100 * MINORITY) > BURST_NS else 0

    @cached_property
    def near_ns(self) -> int:
        """What the way from a tap near the sender to it and back takes, its host included, at the most.

        The tap may have been late with what it stamps, and the least of all round trips is of the segment that was
        stamped latest: as late as an ACK's answer ever is where a host would take no longer.
        """
        if self.where is None or self.view is not None:
            return 0
        least = self.where.to_sender_ns or 0
        waits, is_last = _waits(self.timeline)
        soon, last = waits[waits < _core.HOST_NS], waits[is_last]
        if len(soon) <= FEWEST_SAMPLES or np.count_nonzero(last < _core.HOST_NS) <= MAJORITY * len(last):
            return least
        return max(int(_core.percentile(soon, LATEST_PERCENTILE)), least)

    @cached_property
    def answers_ns(self) -> int:
        """How long after an ACK what it releases passes a tap near the sender, but for the odd one, as far as a host
        would take as long: what lies between the two may have come in another order."""
        waits, _ = _waits(self.timeline)
        soon = waits[waits < _core.HOST_NS]
        return int(_core.percentile(soon, 95)) if len(soon) > max(MAJORITY * len(waits), FEWEST_SAMPLES) else 0


def _waits(timeline: Timeline) -> tuple[Ints, Bools]:
    """From each ACK of new data to the segment that follows, and whether that is behind no other ACK."""
    following = _core.places(timeline.send_ns, timeline.ack_ns)
    known = (timeline.newly_acked > 0) & (following < len(timeline.send_ns))
    is_last = np.diff(following, append=len(timeline.send_ns)) > 0
    return timeline.send_ns[following[known]] - timeline.ack_ns[known], is_last[known]


def senders(capture: Capture) -> Iterator[Sender]:
    """The main sender of every connection that carries data."""
    for id in np.flatnonzero(capture.columns["bytes"] > 0):
        yield sender(capture[int(id)])


def sender(connection: Connection, *, direction: int | None = None) -> Sender:
    """The sender of one direction (0: the client), by default of the one with more data."""
    row = with_handshakes(connection)
    if direction is None:
        direction = int(row["unique_bytes_server"] > row["unique_bytes_client"])
    found = _as_passed(connection, direction, row)
    _judge_tap(found)
    if not found.where.is_at_sender:
        _rebuild(found)
    side, tap, where = SIDES[direction], found.tap, found.where
    names = {"client": end(row["client"], row["client_port"]), "server": end(row["server"], row["port"])}
    is_rebuilt = found.view is not None and not found.view.is_inferred
    is_seen = tap.has_acks and (is_rebuilt or where.is_at_sender) and not tap.blurs_flight
    flights = None if is_seen else found.flights(found.kept)
    number = float(row[f"first_seq_{side}"])
    return Sender(
        connection=connection.id,
        direction=direction,
        sender=names[side],
        receiver=names[SIDES[1 - direction]],
        vantage=where.place,
        where=where,
        # Below zero: the clock was set back meanwhile.
        handshake_rtt_s=found.rtt_ns / 1e9 if found.rtt_ns >= 0 else None,
        # What was put back is not unseen.
        lost_before_tap=0 if len(found.timeline.fate) else int(found.passed.fills.sum()),
        missing_bytes=int(row[f"missing_bytes_{side}"]),
        timeline=found.timeline,
        tap=replace(tap, vantage=Fact(value=where.place, why=where.why), truncated=_truncated(connection)),
        first_sequence=None if math.isnan(number) else int(number),
        view=found.view,
        order=found.order,
        put_back=found.put_back,
        by_flights={} if flights is None else shares_by_flights(flights, found.offered),
        filled_ns=0 if flights is None else found.filled_ns(flights),
    )


@dataclass(kw_only=True)
class _Found:
    """A sender as far as it is known. What is as long as the capture is let go once nobody asks for it."""

    connection: Connection
    direction: int
    row: Any
    tap: Tap
    timeline: Timeline
    passed: Passing
    sent_ns: Ints
    # When ACKs passed that ask for a cut (ECN).
    marked_ns: Ints
    start: Start | None = None
    kept: Columns | None = None
    where: Vantage = field(init=False)
    view: SenderView | None = None
    order: SenderView | None = None
    put_back: int | None = None

    @property
    def rtt_ns(self) -> float:
        """The whole handshake's; NaN: it was not captured."""
        return float(self.row["handshake_rtt_ns"])

    def flights(self, rows: Columns | None) -> Passed:
        return flights_of(
            self.connection,
            self.direction,
            rows,
            self.sent_ns,
            smss=self.timeline.smss,
            rtt_ns=self.rtt_ns,
            resolution_ns=self.tap.clock.resolution_ns,
        )

    @property
    def offered(self) -> Offered | None:
        """The receiver's windows; None where their scale is not known, or no ACK was captured."""
        timeline, tap = self.timeline, self.tap
        if tap.shift.value is None or not tap.has_acks:
            return None
        return Offered(time_ns=timeline.ack_ns, ack=timeline.ack_offset, rwnd=timeline.rwnd)

    def filled_ns(self, flights: Passed) -> int:
        """How long the receiver's window was full."""
        view, offered = self.view or self.order, self.offered
        if view is None or offered is None or view.by_rhythm is None or not view.by_rhythm.near_ns:
            return 0
        return filled_ns(flights, offered, turn_ns=view.turn_ns, near_ns=view.by_rhythm.near_ns)

    def place(self) -> None:
        """Where the tap stands, by the timeline and the clock as they are."""
        side, other = SIDES[self.direction], SIDES[1 - self.direction]
        self.where = vantage(self.timeline, self.passed, self.row, side=side, other=other, start=self.start)


def _as_passed(connection: Connection, direction: int, row: Any) -> _Found:
    """As it passed the tap."""
    side, other = SIDES[direction], SIDES[1 - direction]
    segments, acks = rows_of(connection, direction)
    tap, sent_ns, heard_ns = look((segments, acks), row, direction)
    segments["time_ns"], acks["time_ns"] = sent_ns, heard_ns
    if tap.copies and tap.clock.set_at:
        without_copies_across(segments, tap.clock.set_at, row[f"rtt_min_ns_{side}"])
    marked_ns = heard_ns[ecn_cuts(acks)]
    del segments["packet"], acks["packet"], acks["dup_count"]
    rows = (segments, acks)
    timeline = timeline_of(rows, row, other, tap=tap)
    is_elsewhere = row["vantage"] not in (side, "unknown")
    if is_elsewhere:
        # Most often another is made of it, of which the rest is asked.
        timeline.follow()
    found = _Found(
        connection=connection,
        direction=direction,
        row=row,
        tap=tap,
        timeline=timeline,
        passed=passing(timeline, rows, from_start=bool(row["from_start"]), resolution_ns=tap.clock.resolution_ns),
        sent_ns=sent_ns,
        marked_ns=marked_ns,
    )
    if tap.begins_whole and found.passed.echoes is None and np.isnan(found.rtt_ns):
        found.start = start_by_flights(found.flights(kept_of(rows)), timeline.ack_ns, timeline.snd_una)
    # What they take is needed for what is observed; beside the sender, and most often where that is not known, nobody
    # asks again.
    found.kept = kept_of(rows) if is_elsewhere else None
    del rows, segments, acks
    found.place()
    return found


def _judge_tap(found: _Found) -> None:
    """What follows from the tap's place: for its clock, for what it missed, and for the place itself."""
    tap, where = found.tap, found.where
    if tap.ahead_ns and where.place == "middle":
        # What follows an ACK by a whole round may have been released by the one before.
        where = replace(where, place="unknown", why=f"{where.why}, but segments are stamped before what they answer")
    if where.place != "sender" and not tap.timestamps.value:
        tap = replace(tap, tap_lost_acks=unheard_by_count(found.timeline))
    is_untimed = where.place == "sender" and not tap.timestamps.value
    if is_untimed and is_behind_bottleneck(found.timeline, where.to_sender_ns):
        where = replace(where, queued_before=True)
    if where.place == "receiver":
        timeline = found.timeline
        is_new = np.diff(timeline.snd_una, prepend=timeline.first_offset) > 0
        apart_ns = read_apart_ns(timeline.send_ns, timeline.ack_ns[is_new])
        tap = replace(tap, clock=replace(tap.clock, read_apart_ns=apart_ns))
    found.tap, found.where = tap, where
    if where.place in ("sender", "unknown") and where.is_at_sender:
        found.timeline, clock = without_stalls(found.timeline, tap.clock, found.rtt_ns)
        if clock.stalled_ns:
            # By a round trip of what was read late a receiver seems as near.
            found.tap = replace(tap, clock=clock)
            found.place()
    if found.where.place == "sender" and found.where.is_at_sender:
        found.tap = _with_unheard_at_sender(found)


def _with_unheard_at_sender(found: _Found) -> Tap:
    """With what a tap at the sender missed. Nothing is lost before it: what is not acknowledged yet was not captured
    either."""
    tap, timeline = found.tap, found.timeline
    unheard = 0 if tap.timestamps.value else unheard_by_window(timeline)
    lost_acks = max(tap.tap_lost_acks, unheard, unheard_by_release(timeline), unheard_by_timers(timeline))
    missing = int(found.row[f"missing_bytes_{SIDES[found.direction]}"])
    return replace(
        tap, tap_lost_acks=lost_acks, tap_lost_bytes=max(tap.tap_lost_bytes, missing - tap.sent_before_bytes)
    )


def _rebuild(found: _Found) -> None:
    """Its own view, or the order of what it sent, from what passed elsewhere."""
    connection, direction, row, where = found.connection, found.direction, found.row, found.where
    side, other = SIDES[direction], SIDES[1 - direction]
    has_start = bool(row["from_start"])
    found.kept = kept = found.kept or kept_of(rows_of(connection, direction))
    # Stamps that can be subtracted, and from those of the segments.
    stamps = kept[1]["ts_val"] = kept[1]["ts_val"].astype(np.int64)
    segments = {**kept[0], "time_ns": found.sent_ns}
    beside = beside_of(connection, direction, kept)
    if len(found.marked_ns) and not found.tap.timestamps.value:
        beside = replace(beside, marked_ns=found.marked_ns, reduced_ns=reduced_ns_of(connection, direction))
    is_stripped = where.place == "receiver" and found.tap.tap_lost_acks > MINORITY * found.tap.acks
    if is_stripped and (whole := with_unheard(found.timeline, segments, stamps)) is not None:
        found.timeline, stamps, within_ns = whole
        del whole
        found.tap = replace(found.tap, acks_within_ns=within_ns)
    tap = found.tap
    # A copy takes no number of its own.
    once = ~IS_COPY[segments["cause"]] if tap.copies else slice(None)
    is_alone = numbers_alone(connection, side, segments["ip_id"][once].astype(np.int64), found.sent_ns[once])
    seen = arrivals(segments, found.timeline.smss, beside)
    del segments
    for name in ("ts_val", "ts_ecr", "ip_id"):
        # As long as the capture, and not asked for again.
        del kept[0][name]
    if len(seen.offset) and len(stamps):
        left_ns = None
        if found.start is not None and found.start.is_whole:
            has_start, left_ns = True, int(seen.time_ns[0]) - found.start.turn_ns
        elif not has_start and tap.begins_whole:
            has_start = leaves_at_once(seen, stamps, found.timeline.ack_offset)
        if where.place == "receiver" and not tap.is_holed:
            found.timeline, stamps = as_heard(found.timeline, seen, stamps)
        # Not held any longer: what arrived is asked instead.
        found.timeline = acks_of(found.timeline, has_start=has_start, left_ns=left_ns)
        known = Known(
            hint_ns=where.to_sender_ns,
            handshake_ns=float(row[f"handshake_rtt_ns_{other}"]),
            resolution_ns=tap.clock.resolution_ns,
            is_holed=tap.is_holed,
            sent_before=tap.first_new,
            late_ns=_stamped_late_ns(kept) if where.place == "receiver" and tap.timestamps.value else 0.0,
        )
        rebuilt = away_from_sender(
            found.timeline,
            seen,
            where.place,
            stamps,
            known=known,
            is_alone=is_alone,
            shares_path=shares_path(connection),
        )
        found.timeline = rebuilt.timeline
        if rebuilt.stalled_ns:
            found.tap = replace(tap, clock=replace(tap.clock, stalled_ns=rebuilt.stalled_ns))
            found.where = replace(where, to_sender_ns=rebuilt.turn_ns)
        found.view, found.order = (rebuilt, None) if rebuilt.shows_window else (None, rebuilt)
    found.put_back = int(np.count_nonzero(found.timeline.fate == LOST))


def _stamped_late_ns(kept: Columns) -> float:
    """By how much beside a receiver an ACK may have been stamped after it left, as its own TSvals show."""
    clock = stamp_clock_of(kept[1]["ts_val"], kept[1]["time_ns"])
    return 0.0 if clock is None else clock.late_ns


def _truncated(connection: Connection) -> str | None:
    cut = connection.capture.truncated
    return None if cut is None else f"the capture is cut or damaged at byte {cut[0]}: {cut[1]}"
