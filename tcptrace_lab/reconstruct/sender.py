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
from tcptrace_lab.reconstruct.away.arrivals import IS_COPY, Beside, arrivals, reached
from tcptrace_lab.reconstruct.away.echoes import leaves_at_once, without_gaps
from tcptrace_lab.reconstruct.away.others import MANY_CONNECTIONS, numbers_alone, shares_path
from tcptrace_lab.reconstruct.away.self_clocking import is_behind_bottleneck
from tcptrace_lab.reconstruct.away.sender_view import MOST_OPEN, Known, SenderView, acks_of, away_from_sender
from tcptrace_lab.reconstruct.flights import Passed, shares_by_flights, start_by_flights
from tcptrace_lab.reconstruct.given import BURST_NS, FEWEST_SAMPLES, MAJORITY, MINORITY
from tcptrace_lab.reconstruct.look import CWR, SIDES, SYN, ecn_cuts, look
from tcptrace_lab.reconstruct.sent_and_heard import IS_SENT, stamp_clock_of, timeline_of
from tcptrace_lab.reconstruct.tap.copies import without_copies_across, without_merged
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
from tcptrace_lab.reconstruct.tap.vantage import Vantage, passing, vantage
from tcptrace_lab.reconstruct.timeline import LOST, Ints, Timeline

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
        waits = _waits(self.timeline)
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
        waits = _waits(self.timeline)
        soon, last = waits[waits < _core.HOST_NS], _waits(self.timeline, of_last=True)
        if len(soon) <= FEWEST_SAMPLES or np.count_nonzero(last < _core.HOST_NS) <= MAJORITY * len(last):
            return least
        return max(int(np.percentile(soon, LATEST_PERCENTILE)), least)

    @cached_property
    def answers_ns(self) -> int:
        """How long after an ACK what it releases passes a tap near the sender, but for the odd one, as far as a host
        would take as long: what lies between the two may have come in another order."""
        waits = _waits(self.timeline)
        soon = waits[waits < _core.HOST_NS]
        return int(np.percentile(soon, 95)) if len(soon) > max(MAJORITY * len(waits), FEWEST_SAMPLES) else 0


def _waits(timeline: Timeline, *, of_last: bool = False) -> Ints:
    """From each ACK of new data to the segment that follows; `of_last`: behind no other ACK."""
    following = _core.places(timeline.send_ns, timeline.ack_ns)
    known = (timeline.newly_acked > 0) & (following < len(timeline.send_ns))
    if of_last:
        known &= np.diff(following, append=len(timeline.send_ns)) > 0
    found: Ints = timeline.send_ns[following[known]] - timeline.ack_ns[known]
    return found


def senders(capture: Capture) -> Iterator[Sender]:
    """The main sender of every connection that carries data."""
    for id in np.flatnonzero(capture.columns["bytes"] > 0):
        yield sender(capture[int(id)])


def sender(connection: Connection, *, direction: int | None = None) -> Sender:
    """The sender of one direction (0: the client), by default of the one with more data."""
    row = _with_handshakes(connection)
    if direction is None:
        direction = int(row["unique_bytes_server"] > row["unique_bytes_client"])
    side, other = SIDES[direction], SIDES[1 - direction]
    names = {"client": end(row["client"], row["client_port"]), "server": end(row["server"], row["port"])}
    rtt = float(row["handshake_rtt_ns"])
    segments, acks = _rows(connection, direction)
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
    passed = passing(timeline, rows, from_start=bool(row["from_start"]), resolution_ns=tap.clock.resolution_ns)
    start = None
    if tap.begins_whole and passed.echoes is None and np.isnan(rtt):
        at_tap = _passed(connection, direction, _kept(rows), sent_ns, smss=timeline.smss, rtt_ns=rtt)
        start = start_by_flights(at_tap, timeline.ack_ns, timeline.snd_una)
    # What they take is needed for what is observed; beside the sender, and most often where that is not known, nobody
    # asks again.
    kept = _kept(rows) if is_elsewhere else None
    del rows, segments, acks
    put_back = None
    where = vantage(timeline, passed, row, side=side, other=other, start=start)
    if tap.ahead_ns and where.place == "middle":
        # What follows an ACK by a whole round may have been released by the one before.
        where = replace(where, place="unknown", why=f"{where.why}, but segments are stamped before what they answer")
    view = order = None
    if where.place != "sender" and not tap.timestamps.value:
        tap = replace(tap, tap_lost_acks=unheard_by_count(timeline))
    if where.place == "sender" and not tap.timestamps.value and is_behind_bottleneck(timeline, where.to_sender_ns):
        where = replace(where, queued_before=True)
    if where.place in ("sender", "unknown") and where.is_at_sender:
        timeline, clock = without_stalls(timeline, tap.clock, rtt)
        if clock.stalled_ns:
            # By a round trip of what was read late a receiver seems as near.
            tap = replace(tap, clock=clock)
            where = vantage(timeline, passed, row, side=side, other=other, start=start)
    if where.place == "sender" and where.is_at_sender:
        unheard = 0 if tap.timestamps.value else unheard_by_window(timeline)
        lost_acks = max(tap.tap_lost_acks, unheard, unheard_by_release(timeline), unheard_by_timers(timeline))
        # Nothing is lost before a tap at the sender: what is not acknowledged yet was not captured either.
        lost_bytes = max(tap.tap_lost_bytes, int(row[f"missing_bytes_{side}"]) - tap.sent_before_bytes)
        if (lost_acks, lost_bytes) != (tap.tap_lost_acks, tap.tap_lost_bytes):
            tap = replace(tap, tap_lost_acks=lost_acks, tap_lost_bytes=lost_bytes)
    if not where.is_at_sender:
        has_start = bool(row["from_start"])
        kept = kept or _kept(_rows(connection, direction))
        # Stamps that can be subtracted, and from those of the segments.
        stamps = kept[1]["ts_val"] = kept[1]["ts_val"].astype(np.int64)
        segments = {**kept[0], "time_ns": sent_ns}
        beside = _beside(connection, direction, kept)
        if len(marked_ns) and not tap.timestamps.value:
            beside = replace(beside, marked_ns=marked_ns, reduced_ns=_reduced_ns(connection, direction))
        is_stripped = where.place == "receiver" and tap.tap_lost_acks > MINORITY * tap.acks
        if is_stripped and (whole := with_unheard(timeline, segments, stamps)) is not None:
            timeline, stamps, within_ns = whole
            tap = replace(tap, acks_within_ns=within_ns)
        # A copy takes no number of its own.
        once = ~IS_COPY[segments["cause"]] if tap.copies else slice(None)
        is_alone = numbers_alone(connection, side, segments["ip_id"][once].astype(np.int64), sent_ns[once])
        seen = arrivals(segments, timeline.smss, beside)
        del segments
        for name in ("ts_val", "ts_ecr", "ip_id"):
            # As long as the capture, and not asked for again.
            del kept[0][name]
        if len(seen.offset) and len(stamps):
            left_ns = None
            if start is not None and start.is_whole:
                has_start, left_ns = True, int(seen.time_ns[0]) - start.turn_ns
            elif not has_start and tap.begins_whole:
                has_start = leaves_at_once(seen, stamps, timeline.ack_offset)
            # Not held any longer: what arrived is asked instead.
            timeline = acks_of(timeline, has_start=has_start, left_ns=left_ns)
            known = Known(
                hint_ns=where.to_sender_ns,
                handshake_ns=float(row[f"handshake_rtt_ns_{other}"]),
                resolution_ns=tap.clock.resolution_ns,
                is_holed=tap.is_holed,
                late_ns=_stamped_late_ns(kept) if where.place == "receiver" and tap.timestamps.value else 0.0,
            )
            rebuilt = away_from_sender(
                timeline,
                seen,
                where.place,
                stamps,
                known=known,
                is_alone=is_alone,
                shares_path=shares_path(connection),
            )
            timeline = rebuilt.timeline
            if rebuilt.stalled_ns:
                tap = replace(tap, clock=replace(tap.clock, stalled_ns=rebuilt.stalled_ns))
                where = replace(where, to_sender_ns=rebuilt.turn_ns)
            view, order = (rebuilt, None) if rebuilt.shows_window else (None, rebuilt)
        put_back = int(np.count_nonzero(timeline.fate == LOST))
        del seen
    is_seen = tap.has_acks and (view is not None or where.is_at_sender) and not tap.blurs_flight
    number = float(row[f"first_seq_{side}"])
    return Sender(
        connection=connection.id,
        direction=direction,
        sender=names[side],
        receiver=names[other],
        vantage=where.place,
        where=where,
        # Below zero: the clock was set back meanwhile.
        handshake_rtt_s=rtt / 1e9 if rtt >= 0 else None,
        # What was put back is not unseen.
        lost_before_tap=0 if len(timeline.fate) else int(passed.fills.sum()),
        missing_bytes=int(row[f"missing_bytes_{side}"]),
        timeline=timeline,
        tap=replace(tap, vantage=Fact(value=where.place, why=where.why), truncated=_truncated(connection)),
        first_sequence=None if math.isnan(number) else int(number),
        view=view,
        order=order,
        put_back=put_back,
        by_flights={}
        if is_seen
        else shares_by_flights(_passed(connection, direction, kept, sent_ns, smss=timeline.smss, rtt_ns=rtt)),
    )


def _stamped_late_ns(kept: Columns) -> float:
    """By how much beside a receiver an ACK may have been stamped after it left, as its own TSvals show."""
    clock = stamp_clock_of(kept[1]["ts_val"], kept[1]["time_ns"])
    return 0.0 if clock is None else clock.late_ns


def _rows(connection: Connection, direction: int) -> Columns:
    """The flow's own, to be changed."""
    segments, acks = (dict(columns) for columns in connection.rows(direction))
    if len(segments["ts_ecr"]):
        acks["ts_val"] = without_gaps(acks["ts_val"], acks["flags"], int(segments["ts_ecr"][0]))
    if connection.row[f"duplicate_packets_{SIDES[1 - direction]}"]:
        without_merged(segments, acks, is_at_receiver=connection.row["vantage"] == SIDES[1 - direction])
    return segments, acks


def _kept(rows: Columns) -> Columns:
    """Of the rows what a tap away from the sender needs, and does not have of the timeline."""
    of_segments = ("offset", "length", "cause", "ts_val", "ts_ecr", "ip_id", "bare_ns")
    names = (of_segments, ("time_ns", "length", "ts_val"))
    segments, acks = (
        {name: columns[name] for name in some if name in columns} for columns, some in zip(rows, names, strict=True)
    )
    # Kept long beside what takes most.
    return _narrowed(segments), _narrowed(acks)


def _narrowed(columns: dict[str, Any]) -> dict[str, Any]:
    """Lengths and stamps are 32 bits on the wire, but for -1: not shown."""
    columns["length"] = columns["length"].astype(np.int32)
    for name in ("ts_val", "ts_ecr"):
        if name in columns and int(columns[name].min(initial=0)) >= 0:
            columns[name] = columns[name].astype(np.uint32)
    return columns


def _passed(
    connection: Connection, direction: int, rows: Columns | None, sent_ns: Ints, *, smss: int, rtt_ns: float
) -> Passed:
    rows = rows or _kept(connection.rows(direction))
    segments = rows[0]
    kept = (segments["length"] > 0) & ~IS_COPY[segments["cause"]]
    # A clock that was set back shows no time that passed.
    offsets, lengths, times = segments["offset"][kept], segments["length"][kept], np.maximum.accumulate(sent_ns[kept])
    tops = reached(offsets, offsets + lengths)
    fresh = offsets >= tops
    # What the tap put out of order comes at once; later than that it fills a hole of the path's.
    passed = times[np.maximum(np.searchsorted(tops, offsets, side="right") - 1, 0)]
    again = ~fresh & (IS_SENT[segments["cause"][kept]] | (times - passed > BURST_NS))
    return Passed(
        time_ns=times[fresh],
        offset=offsets[fresh],
        length=lengths[fresh],
        asked_ns=_beside(connection, direction, rows).asked_ns,
        smss=smss,
        again_ns=int(times[np.argmax(again)]) if again.any() else None,
        last_ns=int(times[-1]) if len(times) else 0,
        rtt_ns=int(rtt_ns) if rtt_ns > 0 else None,
    )


def _with_handshakes(connection: Connection) -> Any:
    """The connection's row, with the shortest handshake of all from the one host to the other: its own may have waited
    in a queue that another filled, or for a SYN that was lost."""
    row = connection.row
    if not 1 < len(connection.capture) <= MANY_CONNECTIONS:
        return row
    table, hosts = connection.capture.columns, connection.capture.hosts
    of_pair = (hosts["client"] == row["client"]) & (hosts["server"] == row["server"])
    least = {name: np.fmin.reduce(table[name][of_pair]) for name in (f"handshake_rtt_ns_{side}" for side in SIDES)}
    return {**row, **least, "handshake_rtt_ns": sum(least.values())}


def _beside(connection: Connection, direction: int, kept: Columns) -> Beside:
    """The sender's own ACKs without data, and the other side's segments with data."""
    segments, acks = kept
    if "bare_ns" in segments:
        bare_ns = segments["bare_ns"]
    else:
        _, told = connection.flows[1 - direction].columns
        bare_ns = told["time_ns"][told["length"] == 0]
    return Beside(bare_ns=bare_ns, asked_ns=acks["time_ns"][acks["length"] > 0])


def _reduced_ns(connection: Connection, direction: int) -> Ints:
    """When the sender's segments passed that say that its window was reduced (CWR, RFC 3168 section 6.1.2)."""
    segments, _ = connection.flows[direction].columns
    found: Ints = segments["time_ns"][(segments["flags"] & (CWR | SYN)) == CWR]
    return found


def _truncated(connection: Connection) -> str | None:
    cut = connection.capture.truncated
    return None if cut is None else f"the capture is cut or damaged at byte {cut[0]}: {cut[1]}"
