"""The table `windows`: the congestion window after each ACK, between bounds, and what limited the sender.

A sender limited by its congestion window has as much outstanding as the window allows: value, low and high lie within
a segment. Held back by the receiver's window or by its application it has less: then the flight is only the low bound,
nothing bounds the window from above, and the value is the last one seen at work (no loss and no long pause since).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tcptrace_lab.reconstruct.losses import Episode
from tcptrace_lab.reconstruct.phases import Stretch
from tcptrace_lab.reconstruct.timeline import Bools, Ints, Timeline

LIMITS = ("cwnd", "rwnd", "application", "recovery")
CWND, RWND, APPLICATION, RECOVERY = range(len(LIMITS))
UNKNOWN = -1
# So much below what it had outstanding before, in segments, and no loss: the sender had nothing (or chose not) to send.
# Two: a delayed ACK's worth that was read late.
SLACK_SEGMENTS = 2
CLOCKED_SHARE = 0.5
OFFLOAD_ROOM_SEGMENTS = 3
# RFC 6937 spreads a reduction: at half the window it sends for every second segment that left, at a quarter every
# fourth. A sender silent for longer has its reduced window at once (RFC 5681) and waits until the network has drained.
SPREAD_SEGMENTS = 4


def windows(timeline: Timeline, episodes: Sequence[Episode], parts: Sequence[Stretch], flight: Ints) -> pd.DataFrame:
    """A row per ACK and per restart: time_ns, cwnd, cwnd_low, cwnd_high, ssthresh (bytes; NA: unknown), limited_by."""
    held = _held(flight, parts)
    slack = max(SLACK_SEGMENTS * timeline.smss, _burst(timeline))
    limited = np.zeros(len(flight), dtype=np.int8)
    is_clocked, on_the_whole = _is_clocked(timeline)
    if not on_the_whole:
        limited[:] = APPLICATION
    limited[(flight + slack < held) & ~is_clocked] = APPLICATION
    exhausted = _is_exhausted(timeline)
    limited[(flight < held) & exhausted] = APPLICATION
    limited[flight + timeline.smss > timeline.rwnd] = RWND
    drained = _drained_to(timeline, episodes, flight, limited, exhausted)
    limited[_in_recovery(timeline, episodes)] = RECOVERY
    columns: dict[str, Ints] = {
        "time_ns": timeline.ack_ns,
        "cwnd": np.minimum(_last_at_work(flight, limited, exhausted), drained),
        "cwnd_low": np.minimum(flight, drained),
        "cwnd_high": np.where(
            (limited == CWND) | ((limited == RECOVERY) & ~exhausted), flight + _room(timeline), UNKNOWN
        ),
        "ssthresh": _thresholds(flight, parts),
        "limited_by": limited.astype(np.int64),
    }
    columns = _with_restarts(columns, timeline, episodes)
    return pd.DataFrame(
        {
            "time_ns": columns["time_ns"],
            "cwnd": columns["cwnd"],
            "cwnd_low": columns["cwnd_low"],
            "cwnd_high": _nullable(columns["cwnd_high"]),
            "ssthresh": _nullable(columns["ssthresh"]),
            "limited_by": pd.Categorical.from_codes(columns["limited_by"], categories=pd.Index(LIMITS)),
        }
    )


def _drained_to(
    timeline: Timeline, episodes: Sequence[Episode], flight: Ints, limited: NDArray[np.int8], exhausted: Bools
) -> Ints:
    """For each ACK: what was outstanding when a sender silent in recovery went on; huge where it was not silent.

    The window does not grow in recovery. A silent sender's is at most what is outstanding, and at least what will be
    when it sends again. No claim where the window was not its limit before, or no data was left to send.
    """
    found = np.full(len(flight), np.iinfo(np.int64).max, dtype=np.int64)
    # Without SACK a retransmission leaves by force (RFC 5681, 6582); with it, when the window allows.
    telling = np.ones(len(timeline.send_ns), dtype=bool) if timeline.has_sack else ~timeline.is_retransmission
    total = np.concatenate(([0], np.cumsum(telling)))[timeline.sends_before_next_ack]
    for episode in episodes:
        first = int(timeline.acks_before_send[episode.first_send]) - 1
        if episode.restarts or episode.detected_by == "tlp" or limited[max(first - episode.dupacks, 0)] != CWND:
            continue
        over = int(np.searchsorted(timeline.ack_ns, episode.end_ns, side="right"))
        goes_on = np.flatnonzero(np.diff(total[first:over]) > 0) + first + 1
        for begin, end in pairwise([first, *goes_on.tolist()]):
            if flight[begin] - flight[end] > SPREAD_SEGMENTS * timeline.smss and not exhausted[begin:end].any():
                found[begin:end] = flight[end]
    return found


def _with_restarts(columns: dict[str, Ints], timeline: Timeline, episodes: Sequence[Episode]) -> dict[str, Ints]:
    """The timer moves the window between two ACKs: the ACK before keeps the old one, a row of its own has the new."""
    known = timeline.acks_before_send
    restarts = [episode for episode in episodes if episode.restarts and known[episode.first_send] > 0]
    if not restarts:
        return columns
    rows = np.array([known[episode.first_send] - 1 for episode in restarts], dtype=np.int64)
    flights = np.array([episode.flight for episode in restarts], dtype=np.int64)
    whole = {name: np.insert(values, rows + 1, values[rows]) for name, values in columns.items()}
    new = rows + 1 + np.arange(len(rows))
    old = rows + np.searchsorted(rows, rows, side="left")
    whole["time_ns"][new] = [episode.time_ns for episode in restarts]
    whole["cwnd"][old] = whole["cwnd_low"][old] = flights
    whole["cwnd_high"][old] = UNKNOWN
    whole["limited_by"][old] = RECOVERY
    return whole


def _thresholds(flight: Ints, parts: Sequence[Stretch]) -> Ints:
    found = np.full(len(flight), UNKNOWN, dtype=np.int64)
    for part in parts:
        value = ssthresh_of(part)
        if value is not None:
            found[part.first : part.last + 1] = value
    return found


def _nullable(values: Ints) -> pd.arrays.IntegerArray:
    return pd.arrays.IntegerArray(values, values == UNKNOWN)


def ssthresh_of(part: Stretch) -> int | None:
    """The threshold seen at work: where slow start turned into avoidance. None: it never did, or something else did."""
    if part.begin == "recovery":
        return part.grown_from
    return part.grown_to if part.has_threshold else None


def limits(table: pd.DataFrame, timeline: Timeline) -> dict[str, float]:
    """Share of the time in which data was to be delivered, by what limited the sender; pauses count as application."""
    if len(table) < 2 or not len(timeline.send_ns):
        return {}
    times = table["time_ns"].to_numpy()
    until = min(int(times[-1]), int(timeline.send_ns[-1]))
    spans = np.maximum(np.minimum(np.append(times[1:], times[-1]), until) - np.minimum(times, until), 0)
    codes = table["limited_by"].cat.codes.to_numpy()
    pauses = np.minimum(_pauses(timeline, times), spans)
    total = float(spans.sum())
    if total <= 0:
        return {}
    shares = [float((spans - pauses)[codes == code].sum()) / total for code in range(len(LIMITS))]
    shares[APPLICATION] += float(pauses.sum()) / total
    return {name: round(share, 4) for name, share in zip(LIMITS, shares, strict=True)}


def _pauses(timeline: Timeline, times: Ints) -> Ints:
    """For each row: how long, from then on, everything sent was acknowledged and nothing was sent."""
    sent = np.searchsorted(timeline.send_ns, times, side="left")
    heard = np.searchsorted(timeline.ack_ns, times, side="right")
    known = (sent > 0) & (sent < len(timeline.send_ns)) & (heard > 0)
    done = timeline.snd_max[np.maximum(sent - 1, 0)] <= timeline.snd_una[np.maximum(heard - 1, 0)]
    resumes = timeline.send_ns[np.minimum(sent, len(timeline.send_ns) - 1)]
    return np.where(known & done, resumes - times, 0)


def _last_at_work(flight: Ints, limited: NDArray[np.int8], exhausted: Bools) -> Ints:
    """The flight, or where the sender was held back the flight of the last ACK before (of the same recovery)."""
    is_held = (limited == APPLICATION) | ((limited == RECOVERY) & exhausted)
    index = np.maximum.accumulate(np.where(is_held, -1, np.arange(len(flight))))
    last = np.maximum(index, 0)
    is_held &= (index >= 0) & ((limited == APPLICATION) | (limited[last] == RECOVERY))
    value: Ints = np.where(is_held, np.maximum(flight[last], flight), flight)
    return value


def _held(flight: Ints, parts: Sequence[Stretch]) -> Ints:
    """The most that was outstanding so far in each stretch."""
    held = flight.copy()
    for part in parts:
        rows = slice(part.first, part.last + 1)
        held[rows] = np.maximum.accumulate(flight[rows])
    return held


def _is_clocked(timeline: Timeline) -> tuple[Bools, bool]:
    """Whether the ACKs of the last round trip released segments at once (a window at work), per ACK and on the whole.

    An application or a pacer sends at its own times: by chance, one in eight of its segments follows an ACK within an
    eighth of the time to the next. Errs to "not clocked" where the host answers slower than ACKs come.
    """
    count = len(timeline.ack_ns)
    _, samples = timeline.rtt
    known = timeline.acks_before_send
    # The first segment after each ACK tells; those behind it in a burst do not.
    first = np.flatnonzero(np.diff(known, prepend=0) > 0)
    first = first[known[first] < count]
    if not len(first) or not len(samples):
        return np.zeros(count, dtype=bool), False
    ack = known[first] - 1
    gap = timeline.ack_ns[ack + 1] - timeline.ack_ns[ack]
    prompt = np.zeros(count, dtype=np.int64)
    told = np.zeros(count, dtype=np.int64)
    told[ack[gap > 0]] = 1
    prompt[ack[(gap > 0) & (timeline.send_ns[first] - timeline.ack_ns[ack] <= gap // 8)]] = 1
    since = np.searchsorted(timeline.ack_ns, timeline.ack_ns - int(np.median(samples)), side="left")
    told_sum, prompt_sum = (np.concatenate(([0], np.cumsum(flag))) for flag in (told, prompt))
    index = np.arange(count) + 1
    local: Bools = (prompt_sum[index] - prompt_sum[since]) > CLOCKED_SHARE * (told_sum[index] - told_sum[since])
    return local, bool(prompt_sum[-1] > CLOCKED_SHARE * told_sum[-1])


def _is_exhausted(timeline: Timeline) -> Bools:
    """The ACKs after the last segment before a pause, or before the end: no data was left for them to release."""
    sent = timeline.sends_before_next_ack
    total = len(timeline.send_ns)
    if not total or not len(timeline.ack_ns):
        return np.ones(len(sent), dtype=bool)
    _, samples = timeline.rtt
    # The next segment leaves when all before it is acknowledged, and later than that ACK explains.
    wait = max(2_000_000, int(np.median(samples)) // 4) if len(samples) else 0
    known = timeline.acks_before_send
    una = np.where(known > 0, timeline.snd_una[np.maximum(known - 1, 0)], timeline.first_offset)
    heard = np.where(known > 0, timeline.ack_ns[np.maximum(known - 1, 0)], timeline.send_ns)
    before = np.concatenate(([timeline.first_offset], timeline.snd_max[:-1]))
    resumes = (una >= before) & (timeline.send_ns - heard > wait)
    found: Bools = (sent >= total) | resumes[np.minimum(sent, total - 1)]
    return found


def _room(timeline: Timeline) -> int:
    """How much a sender at its limit may leave unused: less than a segment; with offload it waits for a few."""
    return timeline.smss if not _burst(timeline) else OFFLOAD_ROOM_SEGMENTS * timeline.smss


def _burst(timeline: Timeline) -> int:
    """Segments of several MSS (offload) leave the flight that much below the window at times."""
    sizes = timeline.send_end - timeline.send_offset
    largest = int(sizes.max(initial=0))
    return 2 * largest if largest > timeline.smss else 0


def _in_recovery(timeline: Timeline, episodes: Sequence[Episode]) -> Bools:
    """From the loss noticed until all outstanding then is acknowledged; after a restart, until it resends."""
    found = np.zeros(len(timeline.ack_ns), dtype=bool)
    for episode in episodes:
        if episode.detected_by == "tlp":
            continue
        first = max(int(timeline.acks_before_send[episode.first_send]) - episode.dupacks - 1, 0)
        over_ns = episode.end_ns if not episode.restarts else episode.time_ns
        found[first : int(np.searchsorted(timeline.ack_ns, over_ns, side="left"))] = True
    return found
