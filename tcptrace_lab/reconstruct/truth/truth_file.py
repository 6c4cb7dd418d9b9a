"""A truth side-car: the sender's own window and the packets really dropped, as recorders and the simulator write them.

Rows of `ev`: A, an ACK arrived and the row holds the state before it; S or I, the state after a change or at a poll;
R, C: retransmissions and congestion states (used for counting restarts). Beside NAME.truth.* lies NAME.drops.*.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from tcptrace_lab import _core
from tcptrace_lab.errors import LabError
from tcptrace_lab.reconstruct.losses import NO_LOSS
from tcptrace_lab.reconstruct.timeline import Bools, Floats, Ints
from tcptrace_lab.tables import read_table, suffix_of

NEEDED = ("time", "ev", "sport", "cwnd")
DROPS_NEEDED = ("time", "dir", "sport", "tcp_seq", "payload_len")
# Every row has these; other numbers may be absent, and windows without bound.
ALWAYS = ("time", "time_ns", "tcp_seq")
NUMBERS = (*ALWAYS, "sport", "cwnd", "ssthresh", "snd_una", "snd_nxt", "ca_state", "arg", "payload_len")
UNBOUNDED = ("cwnd", "ssthresh")
# Seconds of the year 2200: above, and far above, 64 bits of nanoseconds end.
LARGEST = {"time": 7.3e9}
LARGEST_WHOLE = float(1 << 62)
# Linux's tcp_ca_state: at 0 nothing is to be repaired, 2 and 3 lower the window step by step (PRR), 4 is the loss state
# after a timeout.
OPEN, CWR, RECOVERY, LOSS = 0, 2, 3, 4
SEQUENCE_SPACE = 1 << 32


@dataclass(frozen=True, kw_only=True)
class Truth:
    """One sender's rows. `cwnd` in segments; `before_ack` marks rows that hold the state before the ACK at `time_ns`;
    `is_log`: a row for each change, whose state holds until the next.

    `acked` is the wire's ACK number at those rows (-1: not said), `drops` the wire's sequence numbers of data packets
    dropped (None: no list), with the times of the drops. `slow_starts`: those of each loss cycle (None: not told).
    """

    time_ns: Ints
    cwnd: Floats
    before_ack: Bools
    is_log: bool
    in_recovery: Bools
    acked: Ints
    slow_starts: tuple[int, ...] | None
    drops: Ints | None
    drop_ns: Ints


def read_truth(path: str | Path, *, port: int) -> Truth:
    """The rows of the sender on `port`."""
    table = _read(path, NEEDED, "truth")
    table = table[table["sport"] == port]
    if not len(table):
        raise LabError(f"{path}: no row of a sender on port {port}")
    states = table[table["ev"].isin(["A", "S", "I"]) & table["cwnd"].notna()]
    has_acks = bool((states["ev"] == "A").any())
    if has_acks:
        states = states[states["ev"] == "A"]
    state = states["ca_state"].fillna(0).astype(np.int64).to_numpy() if "ca_state" in states else np.zeros(len(states))
    acked = _acked(states, has_acks)
    if not has_acks:
        acked = _first_at_its_ack(acked, _times(states), _times(table[table["ev"] == "C"]))
    cwnd = states["cwnd"].to_numpy(dtype=np.float64)
    if "detected_by" in table and not (table["detected_by"] == "sack").any():
        # The simulator's own, without SACK: RFC 6582 inflates cwnd by the segments that have left the network, and
        # ssthresh is what may be outstanding. With SACK nothing is inflated, and cwnd comes down to ssthresh by steps.
        ssthresh = states["ssthresh"].to_numpy(dtype=np.float64, na_value=np.inf)
        cwnd = np.where(state == RECOVERY, np.minimum(cwnd, ssthresh), cwnd)
    drops, drop_ns = _drops(path, port)
    return Truth(
        time_ns=_times(states),
        cwnd=cwnd,
        before_ack=np.full(len(states), has_acks),
        is_log=bool((states["ev"] == "S").all()),
        in_recovery=np.isin(state, (CWR, RECOVERY)),
        acked=acked,
        slow_starts=_slow_starts(table, states),
        drops=drops,
        drop_ns=drop_ns,
    )


def _read(path: str | Path, needed: tuple[str, ...], what: str) -> pd.DataFrame:
    """A table whose numbers are numbers; the first cell that holds none is named."""
    table = read_table(path)
    missing = [name for name in needed if name not in table.columns]
    if missing:
        raise LabError(f"{path}: not a {what} table: no column {', '.join(missing)}")
    for name in NUMBERS:
        if name not in table.columns:
            continue
        numbers = pd.to_numeric(table[name], errors="coerce")
        value = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
        wrong = np.isnan(value) & (table[name].notna() | (name in ALWAYS)).to_numpy(dtype=bool)
        if name not in UNBOUNDED:
            wrong |= np.abs(value) > LARGEST.get(name, LARGEST_WHOLE)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise LabError(f"{path}: row {row + 1}: {name} = {str(table[name].iloc[row])!r} cannot be")
        table[name] = numbers
    return table


def _acked(states: pd.DataFrame, has_acks: bool) -> Ints:
    """The ACK number on the wire: of the ACK that comes (A: what it acknowledges is `arg`), or of the last one (S)."""
    if "snd_una" not in states or ("arg" if has_acks else "time_ns") not in states:
        return np.full(len(states), -1, dtype=np.int64)
    known = pd.to_numeric(states["snd_una"]).astype("Float64")
    more = states["arg"].fillna(0) if has_acks else 0
    return np.asarray((known + more).fillna(-1).to_numpy(dtype=np.float64), dtype=np.int64)


def _first_at_its_ack(acked: Ints, times: Ints, event_times: Ints) -> Ints:
    """A log has a row where the window changes. Where the first row of a number is a timer's or a loss's, the ACK of
    that number changed nothing and came some time before: -1.
    """
    _, first, place = np.unique(acked, return_index=True, return_inverse=True)
    return np.where(np.isin(times[first], event_times)[place], -1, acked)


def _times(table: pd.DataFrame) -> Ints:
    """Exact where the table has integers: two ACKs may lie closer than the float's resolution."""
    if "time_ns" in table:
        return np.asarray(table["time_ns"].to_numpy(), dtype=np.int64)
    return _ns(table["time"])


def _ns(seconds: pd.Series[float]) -> Ints:
    """Microseconds are what a float holds of the epoch."""
    found: Ints = np.round(seconds.to_numpy(dtype=np.float64) * 1e6).astype(np.int64) * 1000
    return found


def _slow_starts(table: pd.DataFrame, states: pd.DataFrame) -> tuple[int, ...] | None:
    """Slow starts per cycle of the windows and losses; None where the table has no sequence numbers or no losses."""
    if not {"snd_una", "snd_nxt", "ssthresh", "ca_state"} <= set(table.columns):
        return None
    losses = table[(table["ev"] == "C") & table["ca_state"].isin((RECOVERY, LOSS))]
    is_ours = "detected_by" in table
    if is_ours:
        losses = losses[~losses["detected_by"].isin(NO_LOSS)]
    # A row of an ACK holds what stood before it: what followed it says what the ACK moved.
    after = table[(table["ev"] == "S") & table["cwnd"].notna()].drop(states.index, errors="ignore")
    windows = pd.concat([states, after])
    rows = pd.concat([losses, windows[windows["snd_una"].notna() & windows["snd_nxt"].notna()]]).sort_index()
    cwnd = rows["cwnd"].to_numpy(dtype=np.float64, na_value=np.inf)
    # A Tahoe restarts in its recovery. Who counts what is lost is the kernel: in a recovery its cwnd follows what is in
    # flight (RFC 6937), down to one segment too, and is ssthresh at the end.
    follows_pipe = "lost_out" in table and bool(table["lost_out"].notna().any())
    is_tahoe = (cwnd <= 1) & (not is_ours) & (not follows_pipe)
    restarted = (rows["ca_state"] == LOSS).to_numpy(dtype=bool) | is_tahoe
    # A loss of the kernel's log has none: it was the last one's.
    una, nxt = (rows[name].ffill().fillna(0).to_numpy(dtype=np.int64) for name in ("snd_una", "snd_nxt"))
    is_loss = (rows["ev"] == "C").to_numpy(dtype=bool)
    is_slow_start = cwnd < rows["ssthresh"].to_numpy(dtype=np.float64, na_value=np.inf)
    if _is_over(table, windows):
        una, nxt = (np.append(column, nxt[-1]) for column in (una, nxt))
        is_loss, is_slow_start, restarted = (np.append(column, False) for column in (is_loss, is_slow_start, restarted))
    return tuple(_core.slow_starts_per_cycle(is_loss, una, nxt, is_slow_start, restarted))


def _is_over(table: pd.DataFrame, windows: pd.DataFrame) -> bool:
    """Whether the last recovery ends behind the last row of a window: where that stands before its ACK, no row shows
    that the ACK moved `snd_una`.
    """
    ends = table.index[(table["ev"] == "C") & (table["ca_state"] == OPEN)]
    return len(ends) > 0 and len(windows) > 0 and bool(ends[-1] > windows.index.max())


def _drops(path: str | Path, port: int) -> tuple[Ints | None, Ints]:
    name, suffix = Path(path).name, suffix_of(path)
    stem = name.removesuffix(suffix).removesuffix(".truth")
    for other in (suffix, ".csv", ".csv.gz", ".parquet"):
        beside = Path(path).with_name(f"{stem}.drops{other}")
        if not beside.exists():
            continue
        table = _read(beside, DROPS_NEEDED, "drops")
        table = table[(table["dir"] == "fwd") & (table["sport"] == port) & (table["payload_len"] > 0)]
        return table["tcp_seq"].to_numpy(dtype=np.int64), _times(table)
    return None, np.zeros(0, dtype=np.int64)
