"""What an application wrote and when, from what its sender sent: what would be written again on another path.

A write shows where the sender had nothing left to send: everything was acknowledged, and it stayed silent for longer
than its ACK explains. What is written while data still waits in the sender cannot be told from the write before, and
need not be: it leaves when the window allows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Bools, Ints, Timeline
from tcptrace_lab.scenario import ApplicationSpec

# A host answers its own ACK within this; longer, and it was the application that waited (as in windows' pauses).
PROMPT_NS = 2_000_000
# A sender whose application held it back for less than this share of the time is a bulk transfer: stray late answers
# of the host are not writes.
HELD_BACK_SHARE = 0.05
# More writes than this make no scenario that anybody reads; the last of them has the rest.
MOST_WRITES = 100_000


@dataclass(frozen=True, kw_only=True)
class AppWrites:
    """The application of one sender; `first_ns` is when its first byte left, `bytes` all it wrote."""

    application: ApplicationSpec
    first_ns: int
    bytes: int
    notes: tuple[str, ...]


def recover(seen: Reconstruction, heard_ns: Ints, *, is_bounded: bool = True, is_paced: bool = False) -> AppWrites:
    """The application behind a timeline; `heard_ns` are the times at which the other side sent data.

    Without a bound (no bottleneck seen, no loss, no receiver's window at work) it was the application that took its
    time, also where its segments seem to follow ACKs: each burst then left when it was written. Of a sender that leaves
    by a rate of its own (`is_paced`) a segment that no ACK released says nothing of its application.
    """
    timeline = seen.timeline
    fresh = np.flatnonzero(~timeline.is_retransmission)
    starts, ends = timeline.send_offset[fresh], timeline.send_end[fresh]
    first_ns = int(timeline.send_ns[fresh[0]])
    total = int(ends.max() - starts.min())
    begins = _pauses(timeline, fresh)
    streamed = _streamed(seen, fresh) & ~begins
    if is_paced:
        streamed[:] = False
    elif not is_bounded and _lasts(seen, fresh):
        streamed = np.diff(timeline.send_ns[fresh], prepend=timeline.send_ns[fresh[0]]) > PROMPT_NS // 4
        begins |= streamed
    elif seen.limits.get("application", 0.0) >= HELD_BACK_SHARE:
        begins |= streamed
    at = np.flatnonzero(begins)
    if not len(at):
        return AppWrites(
            application=ApplicationSpec(kind="bytes", bytes=total),
            first_ns=first_ns,
            bytes=total,
            notes=("one write of all its bytes: the sender never ran out of data",),
        )
    places = np.concatenate(([0], at))[:MOST_WRITES]
    sizes = np.diff(np.append(starts[places], ends.max()))
    kept = sizes > 0
    places, sizes = places[kept], sizes[kept]
    times = timeline.send_ns[fresh[places]]
    asked, since = _asked(timeline, times, heard_ns)
    if np.count_nonzero(asked) * 2 > len(places) - 1 and not streamed.any():
        return _turns(times, sizes, since, first_ns, total)
    writes = tuple((int(ns - first_ns) / 1e9, int(size)) for ns, size in zip(times, sizes, strict=True))
    words = f"{len(writes)} writes at their own times: nothing from the other side came before them"
    return AppWrites(
        application=ApplicationSpec(kind="schedule", writes=writes), first_ns=first_ns, bytes=total, notes=(words,)
    )


def _lasts(seen: Reconstruction, fresh: Ints) -> bool:
    """Whether it went on for longer than a slow start without a bound would: a window doubles every round trip."""
    timeline = seen.timeline
    span_ns = int(timeline.send_ns[fresh[-1]] - timeline.send_ns[fresh[0]])
    return span_ns > (len(fresh).bit_length() + 1) * max(seen.base_rtt_ns, 1)


def _turns(times: Ints, sizes: Ints, since: Ints, first_ns: int, total: int) -> AppWrites:
    waits = np.maximum(times - since, 0)
    turns = [(0.0, int(sizes[0]))]
    turns += [(int(wait) / 1e9, int(size)) for wait, size in zip(waits[1:], sizes[1:], strict=True)]
    words = f"{len(turns)} answers to requests, {np.median(waits[1:]) / 1e6:.3g} ms (median) after all before was heard"
    return AppWrites(
        application=ApplicationSpec(kind="turns", turns=tuple(turns)), first_ns=first_ns, bytes=total, notes=(words,)
    )


def _pauses(timeline: Timeline, fresh: Ints) -> Bools:
    """New segments that left when all before had been acknowledged, and later than that ACK explains."""
    known = timeline.acks_before_send[fresh]
    last = np.maximum(known - 1, 0)
    if not len(timeline.ack_ns):
        return np.zeros(len(fresh), dtype=bool)
    una = timeline.una_after(known)
    heard = np.where(known > 0, timeline.ack_ns[last], timeline.send_ns[fresh])
    before = timeline.snd_max[np.maximum(fresh - 1, 0)]
    _, samples = timeline.rtt
    wait = max(PROMPT_NS, int(np.median(samples)) // 4) if len(samples) else PROMPT_NS
    found: Bools = (una >= before) & (timeline.send_ns[fresh] - heard > wait) & (fresh > 0)
    return found


def _streamed(seen: Reconstruction, fresh: Ints) -> Bools:
    """New segments that no ACK released while the application was the limit: each left when it was written."""
    timeline = seen.timeline
    if not len(timeline.ack_ns) or not len(seen.windows):
        return np.zeros(len(fresh), dtype=bool)
    rows = seen.windows
    row = np.searchsorted(rows["time_ns"].to_numpy(), timeline.send_ns[fresh], side="right") - 1
    limited: NDArray[np.bool_] = (rows["limited_by"] == "application").to_numpy()[np.maximum(row, 0)]
    known = timeline.acks_before_send[fresh]
    late = timeline.send_ns[fresh] - timeline.ack_ns[np.maximum(known - 1, 0)] > PROMPT_NS // 4
    # The first of a burst tells; those behind it were written with it.
    apart = np.diff(timeline.send_ns[fresh], prepend=timeline.send_ns[fresh[0]]) > PROMPT_NS // 4
    found: Bools = limited & late & apart & (known > 0)
    return found


def _asked(timeline: Timeline, times: Ints, heard_ns: Ints) -> tuple[Bools, Ints]:
    """Of each write: whether the other side sent data since everything before was acknowledged, and when that was."""
    if not len(timeline.ack_ns):
        return np.isin(times, heard_ns), times
    known = np.searchsorted(timeline.ack_ns, times, side="right")
    # The ACK that moved last: those behind it said nothing new.
    moved = timeline.newly_acked > 0
    last_move = np.maximum.accumulate(np.where(moved, np.arange(len(moved)), -1))
    since = np.where(known > 0, timeline.ack_ns[np.maximum(last_move[np.maximum(known - 1, 0)], 0)], times)
    # A request may carry the last ACK itself.
    after = np.searchsorted(heard_ns, times, side="right") - np.searchsorted(heard_ns, since, side="left")
    return after > 0, since
