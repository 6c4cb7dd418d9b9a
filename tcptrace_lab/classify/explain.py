"""The evidence of a verdict with packet numbers, as Wireshark counts them: what can be looked up in the capture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from tcptrace_lab.classify.control.candidates.likelihood import Replay
from tcptrace_lab.classify.control.shown.evidence import FRACTIONS, Misfit, outside
from tcptrace_lab.classify.control.windows.replayed import replayed
from tcptrace_lab.classify.verdict import Verdict
from tcptrace_lab.numbers import seconds
from tcptrace_lab.reconstruct.away.arrivals import COPIES
from tcptrace_lab.reconstruct.losses import Episode
from tcptrace_lab.reconstruct.phases import Stretch
from tcptrace_lab.reconstruct.sent_and_heard import NOT_SENT
from tcptrace_lab.reconstruct.timeline import LOST, Ints
from tcptrace_lab.reconstruct.windows import APPLICATION, LIMITS, RWND

if TYPE_CHECKING:
    from tcptrace_lab.capture import Connection

# How a loss was noticed, in words.
NOTICED = {
    "dupack": "the third duplicate ACK",
    "sack": "SACK blocks",
    "rto": "the timer",
    "tlp": "a probe of the tail",
    "undone": "a timer, and taken back",
    "reordering": "fewer duplicate ACKs than three",
}
WORDS = ("the congestion window", "the receiver's window", "the application", "a recovery")
# Stretches in which something else than the window was the limit: the longest are named.
SHOWN_LIMITS = 5
MISSING = 0


@dataclass(frozen=True, kw_only=True)
class EvidenceRow:
    """`about`: loss, slow_start, candidate, limit or path. `frame`: Wireshark's frame.number (None: not one packet)."""

    about: str
    time_s: float | None
    frame: int | None
    says: str


def explain(verdict: Verdict, connection: Connection) -> list[dict[str, Any]]:
    """Every loss event, slow start, refuted control, limit and estimate of the path, each about in order of time."""
    is_hidden = bool(verdict.obstacles.hides_window)
    if is_hidden and not verdict.identified.refuted:
        return [asdict(each) for each in _path(verdict)]
    frames = Frames(verdict, connection)
    if is_hidden:
        # Of such a window its losses alone tell.
        return [asdict(each) for each in (*_candidates(verdict, frames), *_path(verdict))]
    found = [
        *_losses(verdict, frames),
        *_slow_starts(verdict, frames),
        *_candidates(verdict, frames),
        *_limits(verdict, frames),
        *_path(verdict),
    ]
    return [asdict(each) for each in found]


class Frames:
    """The packets behind a timeline's sends and ACKs; MISSING for what was put back."""

    def __init__(self, verdict: Verdict, connection: Connection) -> None:
        timeline = verdict.seen.timeline
        flow = connection.flows[verdict.who.direction]
        self.ack: Ints = flow.acks["packet"].to_numpy() + 1
        # What came late to a tap away from the sender was sent all the same.
        is_rebuilt = len(timeline.fate) > 0
        left_out = COPIES if is_rebuilt else NOT_SENT
        sent = flow.segments[(flow.segments["length"] > 0) & ~flow.segments["cause"].isin(left_out)]
        frames, offsets = sent["packet"].to_numpy() + 1, sent["offset"].to_numpy()
        if len(frames) == len(timeline.send_ns) and np.array_equal(offsets, timeline.send_offset):
            self.send: Ints = frames
            return
        # A timeline rebuilt away from its sender: the copies of a segment in their order, without those put back.
        self.send = np.full(len(timeline.send_ns), MISSING, dtype=np.int64)
        is_seen = timeline.fate != LOST if is_rebuilt else np.ones(len(self.send), dtype=bool)
        ours, theirs = np.flatnonzero(is_seen), np.arange(len(frames))
        ours = ours[np.argsort(timeline.send_offset[ours], kind="stable")]
        theirs = theirs[np.argsort(offsets, kind="stable")]
        mine, captured = _numbered(timeline.send_offset[ours]), _numbered(offsets[theirs])
        _, at, place = np.intersect1d(mine, captured, return_indices=True)
        self.send[ours[at]] = frames[theirs[place]]

    def of_send(self, send: int) -> int | None:
        return int(self.send[send]) or None

    def of_ack(self, ack: int) -> int | None:
        return int(self.ack[ack]) if 0 <= ack < len(self.ack) else None


def _numbered(offsets: Ints) -> Ints:
    """Each copy of a segment under a number of its own; `offsets` in order."""
    first = np.searchsorted(offsets, offsets, side="left")
    pairs = np.stack((offsets, np.arange(len(offsets)) - first), axis=1)
    found: Ints = np.ascontiguousarray(pairs, dtype=np.int64).view([("offset", np.int64), ("copy", np.int64)]).ravel()
    return found


def _losses(verdict: Verdict, frames: Frames) -> Iterator[EvidenceRow]:
    timeline, smss = verdict.seen.timeline, verdict.seen.timeline.smss
    for number, episode in enumerate(verdict.seen.episodes):
        known = int(timeline.acks_before_send[episode.first_send]) - 1
        words = [
            f"{_lost(verdict, frames, episode)} is missing",
            f"noticed by {NOTICED[episode.detected_by]}" + (f" (packet {frames.of_ack(known)})" if known >= 0 else ""),
            f"{episode.window_before / smss:.0f} segments outstanding before",
        ]
        if episode.restarts:
            words.append("then one: it restarts")
        elif episode.window_after is not None:
            words.append(f"{episode.window_after / smss:.0f} behind the recovery")
        if episode.is_loss:
            words.append(_cause(verdict, number))
        yield EvidenceRow(
            about="loss",
            time_s=round(timeline.seconds(episode.time_ns), 6),
            frame=frames.of_send(episode.first_send),
            says=", ".join(word for word in words if word),
        )


def _lost(verdict: Verdict, frames: Frames, episode: Episode) -> str:
    """The lost segment by its packet's number."""
    lost = frames.of_send(_sent_before(verdict, episode))
    return "a segment that the tap did not see" if lost is None else f"the segment of packet {lost}"


def _sent_before(verdict: Verdict, episode: Episode) -> int:
    """The send of the lost segment before it was sent again."""
    timeline = verdict.seen.timeline
    same = np.flatnonzero(timeline.send_offset[: episode.first_send] <= timeline.send_offset[episode.first_send])
    copies = same[timeline.send_end[same] > timeline.send_offset[episode.first_send]]
    return int(copies[-1]) if len(copies) else episode.first_send


def _cause(verdict: Verdict, number: int) -> str:
    queues = verdict.path.queue_at_loss
    queue = queues[number] if number < len(queues) else float("nan")
    if number < len(verdict.path.managed.is_codel) and verdict.path.managed.is_codel[number]:
        return "CoDel: waits had been above 5 ms for 100 ms"
    return "" if np.isnan(queue) else f"a queue of {queue:.0f} packets found"


def _slow_starts(verdict: Verdict, frames: Frames) -> Iterator[EvidenceRow]:
    timeline = verdict.seen.timeline
    for part in verdict.seen.stretches:
        if not part.is_counted:
            continue
        first = _first_send(verdict, part)
        until = part.last if part.slow_start_end is None else part.slow_start_end
        if part.is_slow_start and part.has_threshold:
            ended = f"turns into avoidance at {part.grown_to / timeline.smss:.0f} segments"
        elif part.episode is not None:
            ended = f"ends with the loss of {_lost(verdict, frames, part.episode)}"
        else:
            ended = "meets no threshold in the capture"
        yield EvidenceRow(
            about="slow_start",
            time_s=round(timeline.seconds(timeline.send_ns[first]), 6),
            frame=frames.of_send(first),
            says=f"slow start of cycle {part.cycle + 1}, up to packet {frames.of_ack(until)}: {ended}",
        )


def _first_send(verdict: Verdict, part: Stretch) -> int:
    if part.started_by is not None:
        return part.started_by.first_send
    known = int(np.searchsorted(verdict.seen.timeline.acks_before_send, part.first, side="left"))
    return min(known, len(verdict.seen.timeline.send_ns) - 1)


def _candidates(verdict: Verdict, frames: Frames) -> Iterator[EvidenceRow]:
    for each in verdict.identified.refuted:
        off = np.flatnonzero((each.sizes > 1.0) & each.is_heard)
        if not len(off):
            continue
        misfit = each.misfit(int(off[0]))
        ack, seen, expected = _parted(each, misfit)
        name = f"{each.candidate.name} ({each.candidate.variant})"
        where = misfit.part.replace("_", " ")
        yield EvidenceRow(
            about="candidate",
            time_s=round(verdict.seen.timeline.seconds(verdict.seen.timeline.ack_ns[max(ack, 0)]), 6),
            frame=frames.of_ack(ack),
            says=f"{name} parts from what was sent in {where}: {expected:.1f} segments expected, {seen:.1f} seen",
        )


def _parted(each: Replay, misfit: Misfit) -> tuple[int, float, float]:
    """The first ACK of a piece at which the candidate is off by more than a segment, and the two windows there."""
    tape = each.tape
    for epoch in tape.epochs:
        own = epoch.released[epoch.released <= misfit.ack]
        if misfit.part == "reduction" or not len(own) or int(epoch.released[-1]) < misfit.ack:
            continue
        flight, window = epoch.heard.flight[own] / tape.smss, each.cwnd()[tape.rows(own)] / tape.smss
        errors = [outside(flight - window - begun) for begun in FRACTIONS]
        off = np.flatnonzero(np.min(errors, axis=0) > 1.0)
        if len(off):
            at = int(off[0])
            return int(own[at]), float(flight[at]), float(window[at])
        break
    return misfit.ack, misfit.observed, misfit.expected


def _limits(verdict: Verdict, frames: Frames) -> Iterator[EvidenceRow]:
    # As `reconstruct` has them: what goes by a rate is held back by that, not by its application.
    timeline, table = verdict.seen.timeline, replayed(verdict.who).known_columns
    times, codes = table["time_ns"], table["limited_by"]
    told = [code for code in (RWND, APPLICATION) if verdict.limits.get(LIMITS[code])]
    runs = [list(run) for code, run in groupby(range(len(codes)), key=lambda row: codes[row]) if code in told]
    # Each lasts until the ACK at which something else is the limit.
    ends = [*times[1:].tolist(), int(times[-1])] if len(times) else []
    longest = sorted(runs, key=lambda run: int(times[run[0]]) - ends[run[-1]])[:SHOWN_LIMITS]
    for run in sorted(longest):
        first, last = (int(np.searchsorted(timeline.ack_ns, times[row], side="left")) for row in (run[0], run[-1]))
        spent_s = (ends[run[-1]] - int(times[run[0]])) / 1e9
        yield EvidenceRow(
            about="limit",
            time_s=round(timeline.seconds(times[run[0]]), 6),
            frame=frames.of_ack(first),
            says=f"{WORDS[codes[run[0]]]} is the limit for {seconds(spent_s)}, up to packet {frames.of_ack(last)}",
        )


def _path(verdict: Verdict) -> Iterator[EvidenceRow]:
    for name, estimate in verdict.path.as_dict().items():
        value = "unknown" if estimate["value"] is None else f"{estimate['value']:.6g}"
        bounds = "" if estimate["value"] is None else f" [{_or_open(estimate['low'])}, {_or_open(estimate['high'])}]"
        yield EvidenceRow(about="path", time_s=None, frame=None, says=f"{name} {value}{bounds}: {estimate['method']}")


def _or_open(bound: float | None) -> str:
    return "?" if bound is None else f"{bound:.6g}"
