"""How a receiver answered: delayed ACKs, the window it offered, how fast its application read."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tcptrace_lab.reconstruct.given import FEWEST_SAMPLES
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Bools, Timeline
from tcptrace_lab.scenario import ReceiverSpec

# RFC 1122 section 4.2.3.2 asks for an ACK for every second segment: a receiver that does so for fewer than half of its
# ACKs outside recovery acknowledges each.
DELAYING_SHARE = 0.5
# Linux's least, and by far the commonest: what is used where no ACK of the capture waited for its timer.
USUAL_TIMER_S = 0.04
# A sender kept by the window for less of the time says nothing about the reader.
READER_SHARE = 0.1
# A window that is lower than it was for fewer of the ACKs tells of the host, not of the reader.
BUSY_SHARE = 0.2
# Without SACK each duplicate ACK lets one segment more leave (RFC 5681 section 3.2), and those bring the next ones: a
# sender that sent nothing new for so many ACKs, with more outstanding than this many times its flight at the loss, had
# no room left in its own buffer (a host lets its application write again when a part of that is free).
SILENT_ACKS = 8
GROWN_TIMES = 2
# A window that ends by less above where it began did not open: buffers are counted in a segment or two.
LEAST_STEPS = 8
# What a 16-bit field can say with the largest shift (RFC 7323 section 2.3).
LARGEST_WINDOW = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Habit:
    """The receiver as a scenario has it; `opening`: one that opens its window as data comes, where that shows."""

    receiver: ReceiverSpec
    opening: ReceiverSpec | None
    delayed_ack_segments: int
    notes: tuple[str, ...]


def recover_habit(seen: Reconstruction) -> Habit:
    """The habits that a timeline's ACKs show."""
    timeline = seen.timeline
    segments, quick = _delaying(seen)
    rwnd = _offered(seen)
    reader_bps, words = _reader(seen, rwnd)
    if reader_bps < math.inf:
        # What is offered when all has been read.
        rwnd = max(rwnd, int(timeline.rwnd[timeline.rwnd < LARGEST_WINDOW].max(initial=0)))
    own = _send_buffer(seen)
    if own is not None and own < rwnd:
        # To what may be outstanding the one buffer is as good as the other.
        rwnd, words = own, (*words, f"no more than {own} bytes outstanding, by the sender's own buffer")
    notes = [f"an ACK for {'every second segment' if segments == 2 else 'each segment'}"]
    if segments == 2 and quick:
        notes[0] += f", the first {quick} at once"
    receiver = ReceiverSpec(
        # As its ACKs show, whatever host it is.
        stack="rfc",
        delayed_ack_timer_s=_timer_s(timeline) if segments == 2 else 0.1,
        quickack_segments=quick if segments == 2 else 0,
        dsack=bool(timeline.dsacks),
        rwnd=max(rwnd, 1),
        reader_bps=reader_bps,
    )
    opening = _opening(timeline, receiver) if reader_bps == math.inf else None
    return Habit(receiver=receiver, opening=opening, delayed_ack_segments=segments, notes=(*notes, *words))


def _opening(timeline: Timeline, receiver: ReceiverSpec) -> ReceiverSpec | None:
    """The same as a Linux host, whose window opens by two segments for each that comes, where it did open."""
    moved = np.flatnonzero(timeline.newly_acked > 0)
    if not len(moved):
        return None
    step = 2 * timeline.smss
    first = int(timeline.rwnd[moved[0]])
    if first + step * LEAST_STEPS > receiver.rwnd or receiver.rwnd >= LARGEST_WINDOW:
        return None
    return replace(receiver, stack="linux", initial_rwnd=max(first - step, step), quickack_segments=0)


def _offered(seen: Reconstruction) -> int:
    """The window offered when all has been read: the largest, or where it was the limit what it was then (a host may
    offer more at first than it goes on with)."""
    timeline = seen.timeline
    known = timeline.rwnd[timeline.rwnd < LARGEST_WINDOW]
    if not len(known):
        return LARGEST_WINDOW
    most = int(known.max())
    rows = seen.windows
    limited = rows.loc[rows["limited_by"] == "rwnd", "time_ns"].to_numpy()
    if not len(limited) or seen.limits.get("rwnd", 0.0) < READER_SHARE:
        return most
    at = timeline.rwnd[np.maximum(np.searchsorted(timeline.ack_ns, limited, side="right") - 1, 0)]
    usual = int(np.percentile(at, 90))
    return usual if most // 2 < usual < LARGEST_WINDOW else most


def _send_buffer(seen: Reconstruction) -> int | None:
    """What the sending host holds until it is acknowledged: where the flight stands, or where a recovery without SACK
    filled it; None: neither."""
    timeline = seen.timeline
    if seen.stands.any():
        return int(seen.flight[seen.stands].max())
    if timeline.has_sack or not seen.episodes:
        return None
    outstanding = timeline.snd_max - timeline.una_after(timeline.acks_before_send)
    place = int(np.argmax(outstanding))
    most, time_ns = int(outstanding[place]), int(timeline.send_ns[place])
    begun = [episode for episode in seen.episodes if episode.time_ns <= time_ns <= episode.end_ns]
    if not begun or most < GROWN_TIMES * begun[-1].flight:
        return None
    # What was sent behind it in the same burst belongs to it.
    fresh = timeline.send_ns[(timeline.snd_max > timeline.snd_max[place] + SILENT_ACKS * timeline.smss)]
    until_ns = min(int(fresh[0]) if len(fresh) else timeline.end_ns, begun[-1].end_ns)
    silent = (timeline.ack_ns > time_ns) & (timeline.ack_ns < until_ns)
    return most if np.count_nonzero(silent) >= 2 * SILENT_ACKS else None


def _delaying(seen: Reconstruction) -> tuple[int, int]:
    """Segments per ACK (1 or 2), and how many ACKs came at once before delaying began."""
    timeline = seen.timeline
    moved = timeline.newly_acked
    # While a hole is filled an ACK tells of more than came last.
    sane = (moved > 0) & timeline.is_bare & (timeline.sacked == 0)
    for episode in seen.episodes:
        sane &= (timeline.ack_ns < episode.time_ns) | (timeline.ack_ns > episode.end_ns)
    pairs = moved[sane] / timeline.smss > 1.5
    if not len(pairs):
        return 2, 0
    # A host that is quick until its window has opened is so behind a recovery as well: the beginning ends where singles
    # before and pairs behind are most.
    fitting = np.concatenate(([0], np.cumsum(~pairs) - np.cumsum(pairs)))
    first = int(np.argmax(fitting))
    if np.mean(pairs) < DELAYING_SHARE * 0.5 and not _is_habit(pairs[first:]):
        return 1, 0
    # Each of them told of one arrival, also where a hole was filled.
    begun = int(np.flatnonzero(sane)[first]) if first < len(pairs) else len(moved)
    return 2, int(np.count_nonzero(moved[:begun] > 0))


def _is_habit(pairs: Bools) -> bool:
    return len(pairs) >= FEWEST_SAMPLES and bool(np.mean(pairs) >= DELAYING_SHARE)


def _timer_s(timeline: Timeline) -> float:
    """The wait of lone segments beyond the least round trip, where some did wait; else the usual."""
    rows, samples = timeline.rtt
    if not len(samples):
        return USUAL_TIMER_S
    single = timeline.newly_acked[rows] <= timeline.smss
    # A lone segment: everything sent is acknowledged by its ACK.
    sent = timeline.sends_before_next_ack[rows]
    top = timeline.snd_max[np.maximum(sent - 1, 0)]
    lone = single & (timeline.snd_una[rows] >= top)
    waits = (samples[lone] - samples.min()) / 1e9
    waits = waits[(waits > 0.02) & (waits <= 0.5)]
    return float(np.median(waits)) if len(waits) >= 3 else USUAL_TIMER_S


def _reader(seen: Reconstruction, rwnd: int) -> tuple[float, tuple[str, ...]]:
    """The rate at which the application read, where a window that fell shows it."""
    timeline = seen.timeline
    if seen.limits.get("rwnd", 0.0) < READER_SHARE or not len(timeline.ack_ns):
        return math.inf, ()
    bps = _while_unread(timeline)
    if bps == math.inf:
        bps = _while_tight(timeline, rwnd)
    if math.isnan(bps):
        return math.inf, (f"a window of {rwnd} bytes",)
    read = "at once" if bps == math.inf else f"at {bps / 1e6:.3g} Mbit/s"
    return bps, (f"a window of {rwnd} bytes, read {read}",)


def _while_unread(timeline: Timeline) -> float:
    """The rate of a reader that keeps up on average, not with a burst: what it read between ACKs that found something
    unread, once the window had been open as far as it ever was."""
    known = np.where(timeline.rwnd < LARGEST_WINDOW, timeline.rwnd, 0)
    since = int(np.argmax(known))
    rwnd, edge = known[since:], (timeline.snd_una + timeline.rwnd)[since:]
    unread = rwnd[0] - rwnd[:-1]
    read, waited = np.diff(edge), np.diff(timeline.ack_ns[since:])
    # More was unread than was read in between, by more than one ACK tells of: it did not run out.
    busy = (read >= 0) & (unread - read >= LEAST_STEPS * timeline.smss)
    all_read, all_waited = int(read[busy].sum()), int(waited[busy].sum())
    if np.count_nonzero(busy) < BUSY_SHARE * len(busy) or all_read <= 0 or all_waited <= 0:
        return math.inf
    return all_read * 8e9 / all_waited


def _while_tight(timeline: Timeline, rwnd: int) -> float:
    """The rate from the first window of less than half to the last; infinite without one, NaN if nothing was read."""
    edge = timeline.snd_una + timeline.rwnd
    tight = timeline.rwnd < rwnd // 2
    if not tight.any() or int(timeline.rwnd[timeline.newly_acked > 0].min()) > rwnd // 2:
        return math.inf
    first, last = int(np.argmax(tight)), int(len(tight) - 1 - np.argmax(tight[::-1]))
    span_ns = int(timeline.ack_ns[last] - timeline.ack_ns[first])
    # What was read is what moved the right edge (RFC 9293 section 3.8.6).
    read = int(edge[: last + 1].max() - edge[: first + 1].max())
    return read * 8e9 / span_ns if span_ns > 0 and read > 0 else math.nan
