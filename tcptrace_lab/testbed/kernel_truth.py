"""The kernel's own account of a recording: congestion window and state, in time's order.

Rows, by `ev`: A, an ACK reaches the established sender (tracepoint tcp_probe, microseconds): the state *before* it is
processed, `arg` the bytes that it newly acknowledges (0: a duplicate or a window update). R, a segment has been
retransmitted (tcp_retransmit_skb; the tracepoint does not name it). C, the congestion state has changed to `ca_state`
(tcp_cong_state_set). I, a sample of TCP_INFO, every 10 ms: the only rows with counts of packets, and the only ones
where tracefs is not to be had.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tcptrace_lab import _core

# The columns of every truth file; x1 and x2 are for senders that have more to say.
COLUMNS = (
    *("time", "ev", "sport", "cwnd", "ssthresh", "srtt_us", "snd_una", "snd_nxt"),
    *("packets_out", "sacked_out", "lost_out", "retrans_out", "ca_state", "snd_wnd", "arg", "x1", "x2"),
)
# RFC 5681 section 4.2: at least every second segment is acknowledged; twice that after a moment of jitter.
STRETCH_SEGMENTS = 4
EVENTS = ("tcp/tcp_probe", "tcp/tcp_retransmit_skb", "tcp/tcp_cong_state_set")
CA_STATES = ("open", "disorder", "cwr", "recovery", "loss")
OPEN, CWR, RECOVERY, LOSS = 0, 2, 3, 4
NO_SSTHRESH = 0x7FFFFFFF

_LINE = re.compile(r"\s(\d+)\.(\d{6}): (tcp_probe|tcp_retransmit_skb|tcp_cong_state_set): (.*)")
_PAIR = re.compile(r"(\w+)=(\S+)")


@dataclass(kw_only=True)
class TruthRow:
    """One line of the truth; what an event does not tell is None."""

    time_ns: int
    ev: str
    sport: int
    cwnd: int | None = None
    ssthresh: int | None = None
    srtt_us: int | None = None
    snd_una: int | None = None
    snd_nxt: int | None = None
    packets_out: int | None = None
    sacked_out: int | None = None
    lost_out: int | None = None
    retrans_out: int | None = None
    ca_state: int | None = None
    snd_wnd: int | None = None
    arg: int | None = None

    def text(self) -> list[str]:
        """The row as it stands in the file."""
        time = f"{self.time_ns // 10**9}.{self.time_ns % 10**9 // 1000:06d}"
        ssthresh = "inf" if self.ssthresh == NO_SSTHRESH else self.ssthresh
        numbers = [getattr(self, name) if name != "ssthresh" else ssthresh for name in COLUMNS[3:15]]
        return [time, self.ev, str(self.sport), *("" if n is None else str(n) for n in numbers), "", ""]


def from_trace(lines: Iterable[str], *, tai_offset_s: int) -> list[TruthRow]:
    """The rows of a trace (clock: TAI), ordered by time."""
    rows = [row for line in lines if (row := _row(line, tai_offset_s)) is not None]
    rows.sort(key=lambda row: row.time_ns)
    states: dict[int, int] = {}
    before: dict[int, TruthRow] = {}
    for row in rows:
        if row.ev == "C" and row.ca_state is not None:
            states[row.sport] = row.ca_state
        row.ca_state = states.get(row.sport, 0)
        if row.ev == "A" and row.snd_una is not None:
            last = before.get(row.sport)
            if last is not None and last.snd_una is not None:
                last.arg = (row.snd_una - last.snd_una) % 2**32
            before[row.sport] = row
    return rows


def _row(line: str, tai_offset_s: int) -> TruthRow | None:
    match = _LINE.search(line)
    if match is None:
        return None
    seconds, micros, event, rest = match.groups()
    time_ns = (int(seconds) - tai_offset_s) * 10**9 + int(micros) * 1000
    values = dict(_PAIR.findall(rest))
    if event == "tcp_retransmit_skb":
        return TruthRow(time_ns=time_ns, ev="R", sport=int(values["sport"]))
    if event == "tcp_cong_state_set":
        return TruthRow(time_ns=time_ns, ev="C", sport=int(values["sport"]), ca_state=int(values["cong_state"]))
    return TruthRow(
        time_ns=time_ns,
        ev="A",
        sport=int(values["src"].rpartition(":")[2]),
        cwnd=int(values["snd_cwnd"]),
        ssthresh=int(values["ssthresh"]),
        srtt_us=int(values["srtt"]),
        snd_una=int(values["snd_una"], 16),
        snd_nxt=int(values["snd_nxt"], 16),
        snd_wnd=int(values["snd_wnd"]),
    )


def settle_ssthresh(rows: Iterable[TruthRow]) -> list[TruthRow]:
    """All rows by time, with the ssthresh that holds.

    tcp_probe shows tcp_current_ssthresh(): outside a reduction at least 3/4 of cwnd, which may hide the value. The
    samples show the value itself, as does every row above that bound; a hidden one is the last known.
    """
    ordered = sorted(rows, key=lambda row: row.time_ns)
    known: dict[int, int] = {}
    for row in ordered:
        if row.ssthresh is None or row.cwnd is None:
            continue
        bound = (row.cwnd >> 1) + (row.cwnd >> 2)
        is_shown = row.ev != "A" or row.ca_state in (CWR, RECOVERY) or row.ssthresh > bound
        if not is_shown:
            row.ssthresh = min(known.get(row.sport, row.ssthresh), row.ssthresh)
        known[row.sport] = row.ssthresh
    return ordered


def from_samples(samples: Iterable[list[int]], *, sport: int) -> list[TruthRow]:
    """The rows of one connection's TCP_INFO samples (endpoint.sample)."""
    rows = []
    for time_ns, ca_state, cwnd, ssthresh, srtt_us, unacked, sacked, lost, retrans, snd_wnd in samples:
        counts = {"packets_out": unacked, "sacked_out": sacked, "lost_out": lost, "retrans_out": retrans}
        state: dict[str, Any] = {"cwnd": cwnd, "ssthresh": ssthresh, "srtt_us": srtt_us, "snd_wnd": snd_wnd}
        rows.append(TruthRow(time_ns=time_ns, ev="I", sport=sport, ca_state=ca_state, **state, **counts))
    return rows


@dataclass(frozen=True, kw_only=True)
class LossEvent:
    """The kernel entered Recovery (third duplicate ACK, SACK or RACK: `fast_retransmit`) or Loss (`rto`).

    A timeout again before any ACK came is the same loss (`rto_backoff`, RFC 6298 section 5.5).
    """

    time_ns: int
    kind: str
    cwnd_before: int
    ssthresh_before: int | None
    ssthresh_after: int | None
    phase: str


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One connection's facts, from the kernel's rows alone."""

    sport: int
    retransmissions: int
    loss_events: tuple[LossEvent, ...]
    slow_starts_per_cycle: tuple[int, ...]
    cwnd_max: int
    states: tuple[str, ...] = field(default=())


def measure(rows: Iterable[TruthRow], *, sport: int, restarts: bool = False) -> Measured:
    """Loss events and slow starts of one connection, from A, C and R rows.

    `restarts`: a fast retransmit is followed by a slow start from one segment (Tahoe).
    """
    rows = [row for row in rows if row.sport == sport]
    mine = [row for row in rows if row.ev != "I"]
    events = []
    state, before, fired = OPEN, None, None
    for index, row in enumerate(mine):
        if row.ev == "C" and row.ca_state in (RECOVERY, LOSS) and before is not None:
            after = next((later for later in mine[index:] if later.ev == "A"), None)
            event = _loss_event(row, before, after, is_recovering=state in (CWR, RECOVERY, LOSS))
            if event.kind == "rto" and fired is before:
                event = dataclasses.replace(event, kind="rto_backoff")
            fired = before if row.ca_state == LOSS else fired
            events.append(event)
        if row.ev == "C" and row.ca_state is not None:
            state = row.ca_state
        if row.ev == "A":
            before = row
    return Measured(
        sport=sport,
        retransmissions=sum(row.ev == "R" for row in mine),
        loss_events=tuple(events),
        slow_starts_per_cycle=slow_starts_per_cycle(mine, restarts=restarts),
        cwnd_max=max((row.cwnd for row in rows if row.cwnd is not None), default=0),
        states=tuple(CA_STATES[row.ca_state] for row in mine if row.ev == "C" and row.ca_state is not None),
    )


def _loss_event(row: TruthRow, before: TruthRow, after: TruthRow | None, *, is_recovering: bool) -> LossEvent:
    assert before.cwnd is not None
    assert before.ssthresh is not None
    growing = "slow_start" if before.cwnd < before.ssthresh else "avoidance"
    return LossEvent(
        time_ns=row.time_ns,
        kind="rto" if row.ca_state == LOSS else "fast_retransmit",
        cwnd_before=before.cwnd,
        ssthresh_before=None if before.ssthresh == NO_SSTHRESH else before.ssthresh,
        ssthresh_after=None if after is None else after.ssthresh,
        # While it recovers the window is proportional rate reduction's (RFC 6937), and in no phase.
        phase="recovery" if is_recovering else growing,
    )


def slow_starts_per_cycle(rows: Sequence[TruthRow], *, restarts: bool) -> tuple[int, ...]:
    """One connection's counts, from its A and C rows, by the definition that captures and simulations are counted by.

    `restarts`: a fast retransmit is followed by a slow start from one segment (Tahoe).
    """
    told = [row for row in rows if row.ev == "A" or (row.ev == "C" and row.ca_state in (RECOVERY, LOSS))]
    is_loss = np.array([row.ev == "C" for row in told], dtype=bool)
    cwnd, ssthresh, una, nxt = (
        np.array([getattr(row, name) or 0 for row in told], dtype=np.int64)
        for name in ("cwnd", "ssthresh", "snd_una", "snd_nxt")
    )
    restarting = (RECOVERY, LOSS) if restarts else (LOSS,)
    has_restarted, state = np.zeros(len(told), dtype=bool), None
    for index, row in enumerate(told):
        state = row.ca_state if row.ev == "C" else state
        has_restarted[index] = state in restarting
    return tuple(_core.slow_starts_per_cycle(is_loss, una, nxt, cwnd < ssthresh, has_restarted))


def late_acks(rows: Iterable[TruthRow], *, packet_bytes: int) -> list[tuple[int, int]]:
    """When one ACK came for many segments though nothing was missing, and for how many: the receiving host was late.

    The window then leaves in one burst, and a full buffer loses part of it early.
    """
    found = []
    for row in rows:
        if row.ev == "A" and row.ca_state == OPEN and row.arg is not None:
            segments = row.arg // packet_bytes
            if segments > STRETCH_SEGMENTS:
                found.append((row.time_ns, segments))
    return found
