"""Why segments were lost: a full buffer, or something else, by the queue that their neighbours met."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.obstacles import FEW_TICKS
from tcptrace_lab.classify.path.goodput import carries_data
from tcptrace_lab.classify.path.hidden import (
    gone_over_unseen,
    largest_flight,
    limited_unseen,
    tails_unseen,
    timed_unseen,
)
from tcptrace_lab.classify.path.path import PathEstimate
from tcptrace_lab.reconstruct.distinct import is_among
from tcptrace_lab.reconstruct.given import DELAYED_ACK_SEGMENTS, MAJORITY, MINORITY, ODD_SHARE
from tcptrace_lab.reconstruct.losses import DUP_THRESH, Episode
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import Sender
from tcptrace_lab.reconstruct.tap.tap import COARSE_NS
from tcptrace_lab.reconstruct.timeline import LOST, Bools, Ints, Timeline

if TYPE_CHECKING:
    import pandas as pd

# A loss in a queue below this share of one that was carried without a loss was no overflow.
SHORT_SHARE = 0.7
# What is counted by chance lies within so many of its deviations.
DEVIATION_FACTOR = 2.0


def losses_by_cause(seen: Reconstruction, path: PathEstimate, who: Sender) -> dict[str, Any]:
    """The verdict's `losses`: total, by_cause (overflow, codel, policed, random, unknown), possible_unseen."""
    lost = seen.timeline.observed.lost()
    is_lost = ~lost["spurious"]
    events, lengths = lost["event"][is_lost], lost["length"][is_lost]
    by_event = causes(seen, path, who)
    # Packets on the wire: a super-segment sent again is as many as it was cut into.
    packets = np.maximum(np.round(lengths / seen.timeline.smss).astype(np.int64), 1)
    restarts = np.array([seen.episodes[event].restarts for event in events.tolist()], dtype=bool)
    # Where an ACK stood in front of a segment shows which were lost: each that the tap lost may have.
    merged = min(who.tap.tap_lost_acks, sum(each.retransmitted for each in seen.episodes if each.restarts))
    twice: dict[int, int] = {}
    if who.tap.offload_bytes:
        offsets = lost["offset"][is_lost]
        rows = np.column_stack((events, offsets, offsets + lengths))[~restarts]
        twice = _counted_twice(rows, seen.timeline.smss)
    found: Counter[str] = Counter()
    for event, count in zip(events.tolist(), packets, strict=True):
        found[by_event[event]] += int(count)
    for event, count in twice.items():
        found[by_event[event]] -= count
    merged += sum(twice.values())
    if seen.is_stretched and not seen.timeline.has_sack:
        # Where ACKs are missing that said what had arrived, lost for sure is what one of the others asks for.
        unsure = ~is_among(lost["offset"][is_lost], seen.timeline.snd_una)
        for event, count in zip(events[unsure].tolist(), packets[unsure].tolist(), strict=True):
            merged += min(count, found[by_event[event]])
            found[by_event[event]] -= min(count, found[by_event[event]])
    merged += _without(found, _surplus(found, seen))
    merged += _without(found, _needless_unseen(int(np.count_nonzero(~is_lost)), who.tap.lost_acks_share))
    total = found.total()
    merged += _unseen(seen, who, total)
    is_told = not losses_refused(seen, who)
    if seen.is_stretched:
        # What the others show to have been sent again needlessly may have been lost all the same.
        merged = max(merged, _sent_again(seen) - total)
    return {
        "total": total if is_told else None,
        "by_cause": dict(sorted((+found).items())) if is_told else {},
        "possible_unseen": merged
        + who.tap.repairs[1] * largest_flight(seen)
        + who.lost_before_tap
        + -(-who.missing_bytes // seen.timeline.smss),
    }


def _unseen(seen: Reconstruction, who: Sender, total: int) -> int:
    """How many more than `total` may have been lost by what the tap, or its clock, does not show."""
    lost = seen.timeline.observed.lost()
    is_lost = ~lost["spurious"]
    events, ends, needless = lost["event"], lost["offset"] + lost["length"], int(np.count_nonzero(lost["spurious"]))
    found: int = seen.timeline.observed.possible_losses
    if seen.timeline.hides_blocks:
        # Of what a restarted sender goes over the blocks that are missing would tell what had arrived.
        again = Counter(events.tolist())
        found += sum(max(each.retransmitted - again[n], 0) for n, each in enumerate(seen.episodes) if each.restarts)
    if who.view is not None:
        found += who.view.unplaced
    if who.put_back is not None:
        # Where no stamps tell when a fill left, each may have been the second.
        found += total if who.view is None or who.is_blurred else seen.lost_again
        found += limited_unseen(seen, events[is_lost], ends[is_lost])
        # A flight lost to its end leaves no hole.
        is_counted = who.view is None or who.view.is_counted
        found += timeouts_unseen(seen) * largest_flight(seen) + tails_unseen(seen, is_counted=is_counted)
        if not is_counted:
            found += gone_over_unseen(seen) + timed_unseen(seen)
    if who.tap.tap_lost_bytes:
        found += _repairs_unseen(seen, who.tap.tap_lost_bytes)
    if who.place == "sender" and who.view is None:
        found += _silent_unseen(seen)
    if who.tap.clock.stalled_ns:
        # Stamped so soon behind what followed it, a segment that was sent again seems to have come out of order, and
        # one whose answer was read with it to have been sent needlessly.
        found += who.tap.disordered + needless
    if who.tap.clock.steps_back:
        # So does one that was sent again across a step: or it is stamped as soon as a second capture of the first.
        found += min(who.tap.copies, who.tap.clock.steps_back * largest_flight(seen)) + needless
    return found


def _without_unseen(by_event: list[str], seen: Reconstruction) -> list[str]:
    """What was put back behind a pause that may be a timeout may have been lost before it, in another queue."""
    _, resumed = pauses_unseen(seen)
    begins = np.sort(seen.timeline.send_ns[resumed])
    sent = seen.lost_sent_ns
    at = np.searchsorted(begins, sent, side="right") - 1
    since = sent - begins[np.maximum(at, 0)] if len(begins) else sent
    is_open = (at >= 0) & (since <= seen.typical_rtt_ns)
    return ["unknown" if hidden else cause for cause, hidden in zip(by_event, is_open.tolist(), strict=True)]


def _surplus(causes: Counter[str], seen: Reconstruction) -> int:
    """How many more than was sent again: of what was put back, the tap alone missed some."""
    return max(causes.total() - _sent_again(seen), 0)


def _sent_again(seen: Reconstruction) -> int:
    """So many packets were."""
    timeline = seen.timeline
    again = (timeline.send_end - timeline.send_offset)[timeline.is_retransmission]
    return int(np.ceil(again / timeline.smss).sum())


def _repairs_unseen(seen: Reconstruction, lost_bytes: int) -> int:
    """Of what was sent again, how much more the tap may have lost, where it lost so much of what was sent once: in the
    same share, but for chance, and each a whole super-segment (offload)."""
    timeline = seen.timeline
    lengths = timeline.send_end - timeline.send_offset
    again = timeline.is_retransmission
    first, repeated = int(lengths[~again].sum()), int(lengths[again].sum())
    if not first:
        return 0
    usual = float(lengths.mean())
    found = lost_bytes / usual * repeated / first
    return int(np.ceil((found + DEVIATION_FACTOR * np.sqrt(found)) * usual / timeline.smss)) if found else 0


def _silent_unseen(seen: Reconstruction) -> int:
    """Segments that may have been sent again in a silence longer than any round trip within a recovery, which ends with
    an answer, no timer's segment: what passed meanwhile was not captured, and what was outstanding may have."""
    timeline, (_, samples) = seen.timeline, seen.timeline.rtt
    if not seen.episodes or not len(samples):
        return 0
    spans, longest = np.diff(timeline.ack_ns), int(samples.max())
    before = np.flatnonzero((spans > longest) & (timeline.newly_acked[1:] > 0))
    starts, ends = (np.array([getattr(each, name) for each in seen.episodes]) for name in ("time_ns", "end_ns"))
    own = np.searchsorted(starts, timeline.ack_ns[before], side="right") - 1
    before = before[(own >= 0) & (timeline.ack_ns[before + 1] <= np.append(ends, 0)[own])]
    # Nor was anything sent for as long.
    last = timeline.sends_before_next_ack[before] - 1
    since = np.maximum(timeline.send_ns[np.maximum(last, 0)], timeline.ack_ns[before])
    before, last = (each[timeline.ack_ns[before + 1] - since > longest] for each in (before, last))
    return int(((timeline.snd_max[np.maximum(last, 0)] - timeline.snd_una[before]) // timeline.smss).sum())


def _needless_unseen(needless: int, missing: float) -> int:
    """Of so many that answers show to have been sent again needlessly, how many more the answers that are missing, a
    share of all, may have shown."""
    return int(np.ceil(needless * missing / (1 - missing))) if missing < 1 else 0


def _without(causes: Counter[str], surplus: int) -> int:
    """Takes so many out, or all there are; returns how many."""
    left = taken = min(surplus, causes.total())
    for cause, count in causes.most_common():
        causes[cause] -= min(left, count)
        left -= min(left, count)
    return taken


def losses_refused(seen: Reconstruction, who: Sender) -> str | None:
    """Why neither the number of losses nor the table of them is told; None: it is."""
    clock = who.tap.clock
    refused = who.tap.refuses("losses")
    timeline = seen.timeline
    # A round trip within a tick is none: of few that are longer the usual one is not told.
    has_usual = len(timeline.rtt[1]) > MINORITY * np.count_nonzero(timeline.newly_acked > 0)
    is_fine = clock.resolution_ns <= COARSE_NS or (has_usual and clock.tells(seen.typical_rtt_ns, ticks=FEW_TICKS))
    # What came out of order within one tick was late, or sent again behind a loss before the tap.
    if refused or is_fine or not (seen.episodes or who.tap.disordered):
        return refused
    return "stamps do not tell what was answered too soon to have been lost from what was"


def _counted_twice(rows: Ints, smss: int) -> dict[int, int]:
    """By loss event: packets of super-segments that another covers, in part: a second copy may be one packet's only.

    `rows`: event, begin, end. The very same range sent twice was lost twice.
    """
    found: dict[int, int] = {}
    rows = np.unique(rows, axis=0)
    # In order, so that those of one event stand together.
    for own in np.split(rows, np.flatnonzero(np.diff(rows[:, 0])) + 1) if len(rows) else ():
        ranges = own[:, 1:]
        reached = np.maximum.accumulate(np.concatenate((ranges[:1, 0], ranges[:-1, 1])))
        twice = np.clip(np.minimum(reached, ranges[:, 1]) - ranges[:, 0], 0, None)
        found[int(own[0, 0])] = round(float(twice.sum()) / smss)
    return found


def pauses_unseen(seen: Reconstruction) -> tuple[Ints, Ints]:
    """Pauses, away from the sender, that may be timeouts (a flight lost to its end leaves no hole at the tap): the ACK
    with which each begins, and the send that ends it.

    Everything seen was acknowledged, and the next segment came later than a retransmission timer's least (RFC 6298
    section 2.4 has a second, Linux 200 ms), asked for by no data from the other side, and
    not after a segment short of full, with which what there was to send had ended. A timer sends one segment (RFC 5681
    section 3.1), an application its burst.
    """
    timeline = seen.timeline
    acks, sends = timeline.answered_to_the_end
    # Of several ACKs before a send the last may have released it: a window that opened.
    is_last = np.append(np.diff(sends) > 0, True)[: len(sends)]
    acks, sends = acks[is_last], sends[is_last]
    waits = timeline.send_ns[sends] - timeline.ack_ns[acks]
    last = sends - 1
    is_end = ~timeline.is_bare[acks] | (timeline.send_end[last] - timeline.send_offset[last] < timeline.smss)
    is_unseen = (waits > _core.LEAST_RTO_NS) & ~is_end & _is_alone(timeline, sends)
    return acks[is_unseen], sends[is_unseen]


def _is_alone(timeline: Timeline, sends: Ints) -> Bools:
    """Whether of what left with each send, before the next ACK, one segment came to the tap."""
    arrived = np.cumsum(timeline.fate != LOST) if len(timeline.fate) else np.arange(1, len(timeline.send_ns) + 1)
    following = np.minimum(timeline.acks_before_send[sends], len(timeline.ack_ns) - 1)
    upto = np.searchsorted(timeline.send_ns, timeline.ack_ns[following], side="left")
    before = np.append(arrived, 0)[sends - 1]
    found: Bools = np.append(arrived, 0)[np.maximum(upto, sends + 1) - 1] - before <= 1
    return found


def timeouts_unseen(seen: Reconstruction) -> int:
    """How many there are; so late behind a handshake the first flight may have been lost too."""
    timeline = seen.timeline
    begins_late = (
        timeline.has_start
        and len(timeline.send_ns) > 0
        and timeline.acks_before_send[0] == 1
        and timeline.send_ns[0] - timeline.ack_ns[0] > _core.LEAST_RTO_NS
    )
    return len(pauses_unseen(seen)[1]) + int(begins_late)


def first_flight_lost(seen: Reconstruction) -> bool:
    """Whether a loss event, or a pause that may hide one, touches what was sent before the first answer."""
    timeline = seen.timeline
    moved = np.flatnonzero(timeline.newly_acked > 0)
    if not len(moved):
        return True
    top = int(
        timeline.snd_max[max(int(np.searchsorted(timeline.send_ns, timeline.ack_ns[moved[0]], side="left")) - 1, 0)]
    )
    # Where the end of it was lost, the hole begins behind what arrived, and it may have been put among the next flight.
    lost = any(episode.una <= 2 * top - timeline.first_offset for episode in seen.episodes)
    # The second flight begins at once, or the rest of the first was lost.
    after = np.searchsorted(timeline.send_ns, timeline.ack_ns[moved[0]], side="left")
    is_late = after < len(timeline.send_ns) and timeline.send_ns[after] - timeline.ack_ns[moved[0]] > _core.LEAST_RTO_NS
    return lost or bool(is_late)


def with_causes(seen: Reconstruction, by_event: list[str]) -> pd.DataFrame:
    """The table `losses` with the cause of each segment's event filled in."""
    table = seen.losses
    return table.assign(cause=[by_event[event] for event in table["event"].tolist()]).drop(columns="event")


def causes(seen: Reconstruction, path: PathEstimate, who: Sender) -> list[str]:
    """The cause of each loss event, in their order: the same for verdicts, tables and replays."""
    by_event = [
        "unknown" if cause == "random" and is_burst(each, seen.timeline.smss) else cause
        for cause, each in zip(_by_event(path), seen.episodes, strict=True)
    ]
    is_another = _became_shorter(seen, who) or path.bottleneck_pps.between is not None
    if is_another or _at_one_level(by_event, path.queue_at_loss) or carries_data(seen):
        # A shorter path, or a faster one, makes a full buffer's round trips shorter too, and a queue on the way back
        # makes them longer.
        by_event = ["unknown" if cause == "random" else cause for cause in by_event]
    if who.view is not None and who.view.unsure > MAJORITY:
        # A queue that was not measured may have been longer.
        by_event = ["unknown" if cause == "random" else cause for cause in by_event]
    return by_event if who.put_back is None else _without_unseen(by_event, seen)


def is_burst(episode: Episode, smss: int) -> bool:
    """Whether so much of one window was lost that chance would have taken some of every window before it."""
    return episode.retransmitted > max(DUP_THRESH, MINORITY * episode.window_before / smss)


def _became_shorter(seen: Reconstruction, who: Sender) -> bool:
    """Whether round trips were shorter than the handshake's by more than a tenth, and than a host's delay."""
    _, samples = seen.timeline.rtt
    if who.handshake_rtt_s is None or not len(samples):
        return False
    least_ns, handshake_ns = int(samples.min()), who.handshake_rtt_s * 1e9
    return handshake_ns - least_ns > max(MINORITY * handshake_ns, _core.HOST_NS)


def _at_one_level(by_event: list[str], queues: tuple[float, ...]) -> bool:
    """Whether all that was lost since some time, twice at least, met the same queue, shorter than one before: chance
    does not find one queue again and again."""
    since = by_event.index("random") if "random" in by_event else 0
    met = queues[since:]
    if since == 0 or len(met) < 2 or set(by_event[since:]) != {"random"}:
        return False
    return max(met) - min(met) <= max(DELAYED_ACK_SEGMENTS, ODD_SHARE * max(met))


def _by_event(path: PathEstimate) -> list[str]:
    count = len(path.queue_at_loss)
    is_codel, may_be = (told or (False,) * count for told in (path.managed.is_codel, path.managed.may_be))
    found = [
        "codel" if codel else _cause(queue, path, may_be_codel=maybe)
        for queue, codel, maybe in zip(path.queue_at_loss, is_codel, may_be, strict=True)
    ]
    is_policed = path.policed.is_policed or (False,) * count
    return ["policed" if policed else cause for cause, policed in zip(found, is_policed, strict=True)]


def _cause(queue: float, path: PathEstimate, *, may_be_codel: bool) -> str:
    if math.isnan(queue):
        return "unknown"
    buffer = path.buffer_packets
    if buffer.value is not None and buffer.low is not None:
        return "overflow" if queue >= SHORT_SHARE * buffer.low else "random"
    if may_be_codel:
        return "unknown"
    # A path that was slow for a while made waits long, and queues no longer; where jitter alone makes them half as long
    # as the longest, none is known to have been short.
    longest = min(path.queue_max, path.own_queue_max)
    is_short = queue < SHORT_SHARE * (longest - path.queue_jitter) and path.queue_jitter <= MAJORITY * longest
    return "random" if is_short or path.queue_max < DELAYED_ACK_SEGMENTS else "unknown"
