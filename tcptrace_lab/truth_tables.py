"""A run's truth as files say it: the kernel captures' columns (packets, seconds), and ours beside them.

`ev`: S, the sender's variables changed, and the row holds them afterwards; C, a loss was noticed (`ca_state` 3 by
duplicate ACKs or SACK, 4 by the timer), with the columns of `losses`.

`usable_window` is cwnd and what duplicate ACKs add to it (apart in ns-2's Reno and NewReno). The last columns are
what the controls hold in mind (w_max, dwnd, base_rtt_ns, ...; windows in segments), empty in the rows of others.

As in the kernel, what is in flight is packets_out - sacked_out - lost_out + retrans_out. The last three are empty for a
sender without a scoreboard, and in profile ns2, whose agents keep other books.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tcptrace_lab.simulate import FILE_EPOCH_S, Run
from tcptrace_lab.tables import suffix_of

if TYPE_CHECKING:
    import pandas as pd

KERNEL_COLUMNS = (
    *("time", "ev", "sport", "cwnd", "ssthresh", "srtt_us", "snd_una", "snd_nxt"),
    *("packets_out", "sacked_out", "lost_out", "retrans_out", "ca_state", "snd_wnd", "arg", "x1", "x2"),
)
OUR_COLUMNS = (
    *("time_ns", "connection", "usable_window", "flight_size"),
    *("offset", "detected_by", "cwnd_before", "ssthresh_after"),
)
DROP_COLUMNS = (
    *("time", "node", "reason", "dir", "ip_id", "tcp_seq", "payload_len", "sport", "dport", "queue_len", "ip_len"),
    *("time_ns", "connection"),
)


def truth_files(path: str | os.PathLike[str]) -> list[Path]:
    """The side-car, and beside it NAME.drops and NAME.queue."""
    suffix = suffix_of(path)
    stem = Path(path).name.removesuffix(suffix)
    base = Path(path).with_name(stem.removesuffix(".truth"))
    return [Path(path), *(base.with_name(f"{base.name}.{kind}{suffix}") for kind in ("drops", "queue"))]


def truth_table(run: Run) -> pd.DataFrame:
    """Windows and losses in one table, in order of time; behind our columns what the controls held in mind."""
    import pandas as pd

    windows, losses = run.windows, run.losses
    smss = windows["smss"] if len(windows) else 1
    changed = pd.DataFrame(
        {
            "time_ns": windows["time_ns"],
            "ev": "S",
            "connection": windows["connection"],
            "cwnd": windows["cwnd"] / smss,
            "usable_window": windows["usable_window"] / smss,
            "ssthresh": windows["ssthresh"] / smss,
            "srtt_us": windows["srtt_ns"] / 1000,
            "snd_una": _wire(run, windows, "snd_una"),
            "snd_nxt": _wire(run, windows, "snd_nxt"),
            "packets_out": (windows["snd_nxt"] - windows["snd_una"]) / smss,
            "sacked_out": windows["sacked"] / smss,
            "lost_out": windows["lost"] / smss,
            "retrans_out": windows["retransmitted"] / smss,
            "ca_state": windows["state"],
            "snd_wnd": windows["rwnd"],
            "flight_size": windows["flight_size"],
            **{name: windows[name] for name in run.control_names},
        }
    )
    noticed = pd.DataFrame(
        {
            "time_ns": losses["time_ns"],
            "ev": "C",
            "connection": losses["connection"],
            "snd_una": _wire(run, losses, "offset"),
            "ca_state": losses["detected_by"].map(lambda by: 4 if by == "rto" else 3),
            "offset": losses["offset"],
            "detected_by": losses["detected_by"],
            "cwnd_before": losses["cwnd_before"] / losses["smss"],
            "ssthresh_after": losses["ssthresh_after"] / losses["smss"],
        }
    )
    # A loss comes before the window it leads to.
    rows = pd.concat([noticed, changed], ignore_index=True).sort_values("time_ns", kind="stable", ignore_index=True)
    rows = _for_file(run, rows).reindex(columns=[*KERNEL_COLUMNS, *OUR_COLUMNS, *run.control_names])
    return rows.astype(dict.fromkeys(("snd_una", "snd_nxt", "ca_state", "snd_wnd", "offset"), "Int64"))


def drop_table(run: Run) -> pd.DataFrame:
    """Every packet that the path lost, in the columns of the kernel captures' drops."""
    drops = run.drops
    rows = _for_file(run, drops)
    rows["dir"] = drops["is_reverse"].map({False: "fwd", True: "rev"})
    return rows.reindex(columns=list(DROP_COLUMNS))


def _wire(run: Run, rows: pd.DataFrame, name: str) -> pd.Series[int]:
    """Offsets as the capture's sequence numbers."""
    return (rows[name] + rows["connection"].map(lambda number: run.first_seqs[number])) % 2**32


def queue_table(run: Run, *, epoch_ns: int = FILE_EPOCH_S * 10**9) -> pd.DataFrame:
    """The nodes' queues, `time_bin` being the begin of each 10 ms in seconds; the run began at `epoch_ns`."""
    queue = run.queue.rename(columns={"waiting_max": "qmax", "waiting_last": "qlast"})
    queue.insert(0, "time_bin", (queue["time_ns"] + epoch_ns) / 1e9)
    return queue.drop(columns="time_ns")


def _for_file(run: Run, rows: pd.DataFrame) -> pd.DataFrame:
    """On the clock of the capture files, and with the ports by which connections are told apart there."""
    ports = run.ports
    time_ns = rows["time_ns"] + FILE_EPOCH_S * 10**9
    return rows.assign(
        time=time_ns / 1e9,
        time_ns=time_ns,
        sport=rows["connection"].map(lambda number: ports[number][0]),
        dport=rows["connection"].map(lambda number: ports[number][1]),
    )
