"""What a capture away from the sender tells of it: the sender's own timeline, on a clock shifted by the way back.

With timestamps a data segment's TSecr names the newest ACK its sender had (RFC 7323 section 4.3), so each segment is
put at the moment at which that ACK passed the tap. Every ACK reaches the sender later by the time of the way back, and
so does all that it causes: on the shifted clock a round trip is the whole path's, the queue before the tap included,
and flights are the sender's. What was lost before the tap is put back where its neighbours stand; the segment that
fills the hole is then its retransmission.

Assumes that the way back does not queue. Errs by the ACKs that carry one TSval (a tick of the receiver's clock); what
was lost and never asked for again (the end of the data) stays unseen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.numbers import counted
from tcptrace_lab.reconstruct.away.arrivals import Arrivals, Sends
from tcptrace_lab.reconstruct.away.asked_for import as_asked, least_turn
from tcptrace_lab.reconstruct.away.by_repairs import asked_when, turn_by_repairs, with_lost_repairs
from tcptrace_lab.reconstruct.away.echoes import Bounds, are_stale, gives_back, in_order, may_lack_first, named, turns
from tcptrace_lab.reconstruct.away.own_times import Pace, by_timer, left_by, own_times
from tcptrace_lab.reconstruct.away.rhythm import ByRhythm, rhythm, with_least, with_repairs
from tcptrace_lab.reconstruct.away.self_clocking import (
    all_before_acked,
    between_anchors,
    came_at_once,
    into_empty,
    met_no_queue,
    released_between,
)
from tcptrace_lab.reconstruct.away.sent_order import in_sent_order
from tcptrace_lab.reconstruct.given import FEWEST_ALIKE, FEWEST_SAMPLES, MINORITY
from tcptrace_lab.reconstruct.tap.sender_clock import SenderClock
from tcptrace_lab.reconstruct.tap.stalled import marked, stalls_elsewhere
from tcptrace_lab.reconstruct.tap.vantage import Place
from tcptrace_lab.reconstruct.timeline import (
    ARRIVED,
    LOST,
    OPEN_SHARE,
    UNKNOWN,
    Bools,
    Floats,
    Ints,
    Places,
    Timeline,
    parts,
)

# A view in which half of the flights are open by more than this share shows losses, and no window.
MOST_OPEN = 0.25
# What a view asks of what was observed at the tap, the sends themselves apart.
ASKED = ("snd_una", "delivered", "first_offset", "start_ns", "last_moved")

WORDS = {
    "receiver": "captured at the receiver",
    "middle": "captured midway",
    "sender": "captured near the sender, but behind the queue",
    "unknown": "captured behind a queue, or where losses had already happened",
}


@dataclass(frozen=True, kw_only=True)
class SenderView:
    """A timeline rebuilt away from its sender. Its `fate` tells the sends that the tap never saw.

    `slack`: by how many bytes the flight after each ACK may differ; `unsure`: the share of the ACKs where that is more
    than a segment and 5 %; `turn_ns`: from the tap to the sender and back, the least seen. `shows_window`: not where
    so much is open that only the order of what was sent, and so the losses, are known. `unplaced`: packets that are
    missing by their host's numbers, and not put back; `is_counted`: those numbers tell how many there are.
    """

    timeline: Timeline
    slack: Ints
    unsure: float
    turn_ns: int
    how: str
    shows_window: bool
    is_paused: bool
    unplaced: int = 0
    is_counted: bool = False
    # The longest silence behind which the tap stamped late what had come meanwhile.
    stalled_ns: int = 0
    by_rhythm: ByRhythm | None = None
    # By timestamps, the ACKs of which no segment echoes one of their tick: lost, or with no segment to echo them.
    unechoed: Bools | None = None

    @property
    def is_inferred(self) -> bool:
        """No timestamps name the ACK that released a segment."""
        return self.how != "timestamps"


@dataclass(frozen=True, kw_only=True)
class Known:
    """The way to the sender and back: `hint_ns` as the handshake shows it, or whatever else (None: nothing does),
    `handshake_ns` by the handshake alone (NaN: not captured). `resolution_ns`: the tap's clock's; `is_holed`: it lost
    packets; `late_ns`: by how much ACKs may have been stamped late, and turns be longer than they seem; `sent_before`:
    what is below had left before the capture began."""

    hint_ns: int | None = None
    handshake_ns: float = float("nan")
    resolution_ns: int = 1
    is_holed: bool = False
    late_ns: float = 0.0
    sent_before: int = 0


def acks_of(timeline: Timeline, *, has_start: bool, left_ns: int | None = None) -> Timeline:
    """What a view is made of beside the arrivals; `has_start`: whether the capture has the connection's beginning, for
    which it takes more elsewhere than at the sender. `left_ns`: when the first flight left, where no SYN is older."""
    whole = timeline
    if timeline.has_start != has_start:
        whole = replace(timeline, has_start=has_start)
        whole.follow()
    found = whole.acks_alone(*ASKED)
    if left_ns is not None:
        vars(found)["start_ns"] = min(found.start_ns, left_ns)
    if not timeline.has_sack:
        # Beside a receiver what an ACK answers has passed before it, if in one instant: the first duplicate counts too.
        before = replace(timeline, send_ns=timeline.send_ns - 1)
        before.follow()
        vars(found).update(delivered=before.delivered, arrived=before.arrived)
    return found


def away_from_sender(
    timeline: Timeline,
    seen: Arrivals,
    place: Place,
    stamps: Ints,
    *,
    known: Known,
    is_alone: bool = True,
    shares_path: bool = False,
) -> SenderView:
    """The view to work with where the tap was not at the sender.

    Where it shows no window its timeline tells what was lost, and in which order what was sent, and nothing else.
    `timeline`: of `acks_of`; `seen`: at times as the timeline's, without the steps of the tap's clock. `stamps`: the
    ACKs' TSvals. `is_alone`: no other connection of the sender's host took some of its IP identifications;
    `shares_path`: others' segments stand between its own.
    """
    if not is_alone:
        seen = replace(seen, ip_id=np.zeros_like(seen.ip_id))
    # In a handshake the turn is that of small packets; without one it has to be found.
    view = sender_view(timeline, seen, stamps, place=place, known=known)
    return replace(view, shows_window=False) if shares_path and view.is_inferred else view


def sender_view(
    timeline: Timeline, seen: Arrivals, stamps: Ints, *, place: Place, known: Known | None = None
) -> SenderView:
    """The sender's timeline from what passed elsewhere, of which there is some in both directions.

    `timeline` is the flow's as if the tap were the sender's: its ACKs stay, its sends are not looked at.
    """
    known = known or Known()
    view = None
    if len(seen.offset) >= FEWEST_SAMPLES:
        view = _by_timestamps(timeline, seen, stamps, place, known)
    return view or _by_order(timeline, seen, place, known)


def _echoed(timeline: Timeline, seen: Arrivals, stamps: Ints) -> Bounds | None:
    """Which ACKs each segment names; None: without timestamps, or where what they name is stale."""
    if seen.echo is None or not (stamps >= 0).all():
        return None
    found = named(seen.echo, stamps)
    return None if are_stale(timeline, found, seen.end) else found


def _by_order(timeline: Timeline, seen: Arrivals, place: Place, known: Known) -> SenderView:
    """What was sent, and lost, in which order; when is open between what had come before and what came."""
    turn_ns = known.hint_ns
    left = in_sent_order(timeline, seen, turn_ns, sent_before=known.sent_before)
    is_busy = False
    if turn_ns is None and seen.stamp is None:
        # Neither a handshake nor the rhythm tells it: with a queue that never ran empty it is longer at each loss.
        turn_ns = turn_by_repairs(timeline, seen, left)
        is_busy = turn_ns is not None
        if turn_ns is not None:
            left = in_sent_order(timeline, seen, turn_ns, sent_before=known.sent_before)
            left = with_lost_repairs(timeline, seen, left)
    times = np.where(left.is_put_back, timeline.start_ns, seen.time_ns[left.row] - (turn_ns or 0))
    times = np.maximum.accumulate(np.maximum(times, timeline.start_ns))
    whole = int((left.end - left.offset).sum())
    slack = np.full(len(timeline.ack_ns), whole, dtype=np.int64)
    if is_busy:
        # A queue that never ran empty had no pause behind it: what had left at each loss is known by the order.
        times, asked = asked_when(timeline, seen, left, times)
        slack[asked] = slack[np.maximum(asked - 1, 0)] = 0
    release = np.searchsorted(timeline.ack_ns, times, side="right").astype(np.int32) - 1
    written = 0.0 if is_busy else 1.0
    kind = _Kind(place=place, how="the order of its segments", turn_ns=turn_ns or 0, slack=slack, written=written)
    return replace(_view(timeline, left, release, times, kind), shows_window=False)


def _by_timestamps(timeline: Timeline, seen: Arrivals, stamps: Ints, place: Place, known: Known) -> SenderView | None:
    """By what its segments name, or, where that tells nothing, by their rhythm."""
    echoed = _echoed(timeline, seen, stamps)
    if echoed is None or seen.stamp is None:
        return _by_rhythm(timeline, seen, place, known)
    # A short segment is on its way for less time than a full one.
    is_full = seen.end - seen.offset >= timeline.smss
    taken = turns(seen.time_ns, timeline.ack_ns, echoed)
    marks, stalled_ns = stalls_elsewhere(
        taken,
        seen.time_ns,
        is_full,
        timeline.ack_ns,
        handshake_ns=known.handshake_ns,
        resolution_ns=known.resolution_ns,
    )
    if marks:
        timeline = marked(timeline, marks)
        late = np.array(marks, dtype=np.int64)
        # Those from whose ACK to which something was read late.
        first, over = np.searchsorted(late, seen.time_ns - taken), np.searchsorted(late, seen.time_ns, side="right")
        taken[first < over] = -1
    if known.is_holed:
        taken[may_lack_first(timeline, echoed)] = -1
    if not timeline.has_start or (echoed.high < 0).any():
        # Of the tick in which the capture began an ACK before it may have released what names it.
        is_first = (echoed.low == 0) & (taken >= 0)
        if np.count_nonzero(taken >= 0) - np.count_nonzero(is_first) >= FEWEST_SAMPLES:
            taken[is_first] = -1
    turn = _least_turns(taken, is_full)
    if turn is None:
        return None
    turn_ns, full_turn_ns = turn
    left = in_sent_order(timeline, seen, turn_ns, sent_before=known.sent_before)
    # Where the tap lost ACKs an earlier one may have asked.
    asked_ns = None if known.is_holed else least_turn(timeline, left, echoed, taken)
    full_turn_ns = full_turn_ns if asked_ns is None else min(full_turn_ns, asked_ns)
    turn_ns = min(turn_ns, full_turn_ns)
    # What is as long as the capture is not held beside what is made of it.
    del taken
    owed = gives_back(echoed, seen, timeline.ack_ns, timeline.delivered, timeline.snd_una)
    pace = Pace(time_ns=seen.time_ns, is_full=is_full, least_ns=(full_turn_ns, turn_ns), gives_back=owed)
    bounds = _bounds(timeline, left, echoed, pace.latest())
    unechoed = echoed.by_none(len(timeline.ack_ns))
    del echoed, is_full
    release, slack = released_by(timeline, left, as_asked(timeline, left, bounds), by_echo=True)
    bounds = Bounds(low=release, high=bounds.high)
    times, clock = own_times(timeline, seen.stamp, left, bounds, pace)
    clock = None if clock is None else replace(clock, late_ns=known.late_ns)
    del bounds, pace
    kind = _Kind(place=place, how="timestamps", turn_ns=turn_ns, slack=slack, stamp_clock=clock)
    return replace(_view(timeline, left, release, times, kind), stalled_ns=stalled_ns, unechoed=unechoed)


def _least_turns(taken: Ints, is_full: Bools) -> tuple[int, int] | None:
    """Of any segment, and of a full one; None: of too few."""
    known = taken >= 0
    if np.count_nonzero(known) < FEWEST_SAMPLES:
        return None
    least = int(taken[known].min())
    known &= is_full
    return least, int(taken[known].min()) if known.any() else least


def _by_rhythm(timeline: Timeline, seen: Arrivals, place: Place, known: Known) -> SenderView | None:
    found = rhythm(timeline, seen, known.hint_ns, resolution_ns=known.resolution_ns)
    if found is None:
        return None
    found = with_least(found, timeline, seen, known.hint_ns)
    left = in_sent_order(timeline, seen, found.least_ns, sent_before=known.sent_before)
    found = with_repairs(found, timeline, seen, known.hint_ns, left)
    bounds = released_between(timeline, seen, left, found)
    release, slack = released_by(timeline, left, bounds)
    slack = between_anchors(timeline, left, release, slack, found, marked_ns=seen.beside.marked_ns)
    times = np.where(release >= 0, timeline.ack_ns[np.maximum(release, 0)], timeline.start_ns)
    seen_at = seen.time_ns[np.maximum(left.row, 0)] - found.turn_ns
    late_ns = seen_at - times
    # Into an empty network it left one turn before it arrived, whenever that was: no queue held it.
    is_empty = into_empty(timeline, seen, left, release, found)
    waits = ~left.is_put_back & ((is_empty & found.is_measured) | (not found.is_clocked))
    free = met_no_queue(seen, left, found)
    waits |= free & by_timer(timeline, seen, left, found, late_ns)
    near = found.near_ns if found.is_measured else 0
    at_once = free & came_at_once(timeline, seen_at, near)
    latest = seen_at if found.is_clocked else np.minimum(seen_at, left_by(timeline, left, seen_at))
    np.maximum(times, latest, out=times, where=waits)
    del seen_at, latest
    is_first = all_before_acked(timeline, left, release)
    late_ns[~is_first | left.is_put_back | (left.offset <= timeline.first_offset)] = 0
    pauses = late_ns > found.turn_ns / 2
    if np.count_nonzero(pauses) < FEWEST_ALIKE:
        # Once or twice for less than a round trip a path may have stood still.
        pauses &= late_ns > found.turn_ns
    kind = _Kind(
        place=place,
        how="the rhythm of its ACKs",
        turn_ns=found.turn_ns,
        slack=slack,
        written=float(1 - np.argmax(pauses) / len(pauses)) if found.is_clocked and pauses.any() else 0.0,
        by_rhythm=ByRhythm(near_ns=near, spacing_ns=found.spacing_ns, met_no_queue=free, came_at_once=at_once),
    )
    return _view(timeline, left, release, np.maximum.accumulate(times, out=times), kind)


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """What a view rests on. `written`: the share of the sends behind a pause of the application."""

    place: Place
    how: str
    turn_ns: int
    slack: Ints
    written: float = 0.0
    stamp_clock: SenderClock | None = None
    by_rhythm: ByRhythm | None = None


def _view(timeline: Timeline, left: Sends, release: Places, times: Ints, kind: _Kind) -> SenderView:
    share = _open_share(timeline, left, release, kind.slack)
    unsure = float(np.mean(share > OPEN_SHARE))
    note = _note(kind, left, unsure)
    return SenderView(
        timeline=replace(
            timeline,
            send_ns=times,
            send_offset=left.offset,
            send_end=left.end,
            # Told of the segments as they passed.
            echoes_older=timeline.echoes_older[:0],
            # At the receiver's tap nothing is lost behind.
            fate=np.where(left.is_put_back, np.uint8(LOST), np.uint8(ARRIVED if kind.place == "receiver" else UNKNOWN)),
            slack=kind.slack,
            stamp_clock=kind.stamp_clock,
            notes=(*timeline.notes, note),
        ),
        slack=kind.slack,
        unsure=unsure,
        turn_ns=kind.turn_ns,
        how=kind.how,
        shows_window=bool(np.median(share) <= MOST_OPEN) and kind.written <= MINORITY,
        is_paused=kind.written > MINORITY,
        unplaced=left.unplaced,
        is_counted=left.is_counted,
        by_rhythm=kind.by_rhythm,
    )


def _bounds(timeline: Timeline, left: Sends, echoed: Bounds, latest: Ints) -> Bounds:
    """The same for each send: none later than what could reach the tap in time (`latest`), and in order."""
    row, is_seen = np.maximum(left.row, 0), ~left.is_put_back
    reach = _core.places(timeline.ack_ns, latest, or_equal=True) - 1
    low = np.where(is_seen, echoed.low[row], -1)
    high = np.where(is_seen, np.maximum(np.minimum(echoed.high, reach), echoed.low)[row], -1)
    del row, is_seen, reach
    return in_order(low, high, left)


def released_by(timeline: Timeline, left: Sends, bounds: Bounds, *, by_echo: bool = False) -> tuple[Places, Ints]:
    """The ACK that released each send, and how many bytes after each ACK may belong to others.

    Between the ACKs at which it is certain what had been sent, what is in the network is taken to change evenly: each
    ACK releases what it says has left, and its share of the growth. `by_echo`: each segment that arrived names its ACK;
    where only what was put back is open, what is in the network lies between what it was and what it becomes.
    """
    released: tuple[Places, Ints] = _core.releasing(
        (left.end - left.offset, bounds.low, bounds.high, left.is_put_back),
        timeline.arrived,
        timeline.first_offset,
        timeline.smss,
        by_echo,
    )
    return released


def _open_share(timeline: Timeline, left: Sends, release: Places, slack: Ints) -> Floats:
    """By what share the flight after each ACK may differ; a segment is nothing."""
    # Of one type: else all are copied.
    sent = np.searchsorted(release, np.arange(len(timeline.ack_ns), dtype=release.dtype), side="right")
    # By parts and in place: beside what the view is made of there is little room.
    flight = np.full(len(sent), timeline.first_offset)
    top = left.end[:1]
    for part in parts(len(left.end)):
        tops = np.maximum.accumulate(np.append(top, left.end[part]))
        first, behind = np.searchsorted(sent, (part.start, part.stop), side="right")
        flight[first:behind] = tops[sent[first:behind] - part.start]
        top = tops[-1:]
    flight -= timeline.snd_una
    share: Floats = slack / np.maximum(flight, timeline.smss, out=flight)
    share[slack <= timeline.smss] = 0.0
    return share


def _note(kind: _Kind, left: Sends, unsure: float) -> str:
    words = [
        f"{WORDS[kind.place]}: the sender's times are those of the ACKs that released its segments (by {kind.how})"
    ]
    if put_back := int(np.count_nonzero(left.is_put_back)):
        words.append(f"{counted(put_back, 'segment')} that did not reach the tap put back")
    if unsure:
        words.append(f"after {unsure:.0%} of the ACKs the flight is not known to within 5%")
    return "; ".join(words)
