"""What a sender may have outstanding, worked out from its own capture: flight and pipe by the documents' definitions.

Nothing here is the engine's: RFC 5681's FlightSize and RFC 6675's SetPipe are counted segment by segment from the
packets that pass the sender's tap. Only cwnd, which no packet carries, comes from the truth.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import pandas as pd

from tcptrace_lab.simulate import Run

DISORDER, RECOVERY, LOSS = 1, 3, 4
SYN = 2


@dataclass
class Segment:
    """Sent and not yet acknowledged."""

    start: int
    end: int
    is_sacked: bool = False
    is_lost: bool = False
    is_sent_again: bool = False


@dataclass(frozen=True)
class Sending:
    """New data going out: what is outstanding with it, and what the windows were."""

    time_ns: int
    end: int
    flight: int
    pipe: int
    cwnd: float
    state: int
    right_edge: int
    is_probe: bool


class Sender:
    """One connection's outstanding segments as its packets and ACKs pass by."""

    def __init__(self, smss: int, *, is_fack: bool) -> None:
        self.smss = smss
        self.is_fack = is_fack
        self.una = 0
        self.high = 0
        self.segments: list[Segment] = []

    def on_data(self, start: int, end: int) -> bool:
        """Whether it is new data."""
        if end > self.high:
            self.segments.append(Segment(max(start, self.high), end))
            self.high = end
            return True
        last_sacked = max((segment.end for segment in self.segments if segment.is_sacked), default=0)
        for segment in self.segments:
            if start <= segment.start and segment.end <= end:
                # NextSeg (4): a rescue retransmission does not move HighRxt and is not counted.
                segment.is_sent_again = segment.is_lost or segment.end <= last_sacked
        return False

    def on_ack(self, ack: int, blocks: list[tuple[int, int]]) -> None:
        self.una = max(self.una, ack)
        self.segments = [segment for segment in self.segments if segment.end > self.una]
        for segment in self.segments:
            segment.is_sacked |= any(start <= segment.start and segment.end <= end for start, end in blocks)
        self._judge()

    def on_timeout(self) -> None:
        # RFC 6675 section 5.1: everything not SACKed is lost and will be sent again.
        for segment in self.segments:
            segment.is_lost, segment.is_sent_again = not segment.is_sacked, False

    def on_recovered(self) -> None:
        for segment in self.segments:
            segment.is_sent_again = False

    def _judge(self) -> None:
        """IsLost (section 4): three ranges, or more than two segments, are SACKed above; FACK: anything is."""
        above, ranges, was_sacked = 0, 0, False
        for segment in reversed(self.segments):
            if segment.is_sacked:
                above += segment.end - segment.start
                ranges += not was_sacked
            elif above > (0 if self.is_fack else 2 * self.smss) or ranges >= 3:
                segment.is_lost = True
            was_sacked = segment.is_sacked

    @property
    def flight(self) -> int:
        return self.high - self.una

    @property
    def pipe(self) -> int:
        """SetPipe (section 4)."""
        return sum(
            (segment.end - max(segment.start, self.una)) * ((not segment.is_lost) + segment.is_sent_again)
            for segment in self.segments
            if not segment.is_sacked
        )


def sendings(run: Run, *, wscale: int, connection: int = 0) -> list[Sending]:
    """Every sending of new data by a connection."""
    packets = run.packets(tap="sender")
    packets = packets[packets["connection"] == connection]
    windows = run.windows[run.windows["connection"] == connection]
    # What ns-2's Reno may have outstanding in recovery is cwnd and what duplicate ACKs add to it.
    window = "usable_window" if windows["usable_window"].notna().any() else "cwnd"
    times, cwnd, states = (windows[column].to_list() for column in ("time_ns", window, "state"))
    restarts = windows[(windows["state"] == LOSS) & (windows["cwnd"] <= windows["smss"])]["time_ns"]
    timeouts = [*sorted({*_times(run.losses, connection, "rto"), *restarts}), 1 << 62]
    data = packets[packets["is_from_sender"]]
    has_syn = bool(data["flags"].iloc[0] & SYN)
    first_seq = int(data["seq"].iloc[0]) + has_syn
    smss = int(windows["smss"].iloc[0])
    sender = Sender(smss, is_fack=run.scenario.connections[connection].control.recovery == "fack")
    right_edge, offered = 0, 0
    last_state = 0
    found = []
    for row in packets.itertuples():
        at = bisect_right(times, row.time_ns) - 1
        # At the very time of a timeout its retransmission comes last.
        is_again = row.is_from_sender and _offset(row.seq, first_seq) + row.payload_len <= sender.high
        if timeouts[0] < row.time_ns + (is_again and row.payload_len > 0):
            sender.on_timeout()
            del timeouts[0]
        if not row.is_from_sender:
            if not row.flags & SYN:
                offered = row.window << wscale
                ack = _offset(row.ack, first_seq)
                sender.on_ack(ack, [(_offset(a, first_seq), _offset(b, first_seq)) for a, b in row.sack])
            else:
                offered, ack = row.window, 0
            right_edge = max(right_edge, ack + offered)
            state = states[at] if at >= 0 else 0
            if last_state in (RECOVERY, LOSS) and state not in (RECOVERY, LOSS):
                sender.on_recovered()
            last_state = state
        elif row.payload_len > 0:
            start = _offset(row.seq, first_seq)
            # The truth has the window after the timeout, not that of an ACK at the same nanosecond.
            if sender.on_data(start, start + row.payload_len) and timeouts[0] != row.time_ns:
                found.append(
                    Sending(
                        time_ns=row.time_ns,
                        end=start + row.payload_len,
                        flight=sender.flight,
                        pipe=sender.pipe,
                        cwnd=cwnd[at],
                        state=states[at],
                        right_edge=right_edge,
                        is_probe=offered == 0 and row.payload_len == 1,
                    )
                )
    return found


def _times(losses: pd.DataFrame, connection: int, detected_by: str) -> list[int]:
    rows = losses[(losses["connection"] == connection) & (losses["detected_by"] == detected_by)]
    return [int(time_ns) for time_ns in rows["time_ns"]]


def _offset(number: int, first: int) -> int:
    # No run here is as long as half the sequence space.
    distance = (number - first) % 2**32
    return distance if distance < 2**31 else distance - 2**32
