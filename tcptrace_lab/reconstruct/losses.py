"""Loss events and lost segments, as the core finds them (core/src/infer/sender/loss_events/events.rs, lost.rs)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.timeline import Ints, Timeline

if TYPE_CHECKING:
    import pandas as pd

# RFC 5681 section 3.2: the third duplicate ACK tells of a loss.
DUP_THRESH: int = _core.DUP_THRESH
DetectedBy = Literal["dupack", "sack", "rto", "tlp", "reordering", "undone"]
# Retransmissions by which no window falls: a probe of the tail, and a timeout that was taken back.
NO_LOSS = ("tlp", "undone")


class Episode(NamedTuple):
    """One loss event. Indices are those of the timeline's sends; times in ns; windows in bytes.

    It lasts until everything that was outstanding at its first retransmission is acknowledged; a timeout within it
    begins a new one. `restarts`: the sender went back to a window of about one segment (Tahoe, or any sender after a
    timeout). `lost_sent_ns`: when the first lost segment had last been sent before. `sure`: nothing speaks for the
    other answer. `follows`: it begins with the ACK that ends the event before, which has sent again what is lost.
    `window_before`: what was outstanding before the loss, limited transmit (RFC 3042) not counted.
    """

    first_send: int
    time_ns: int
    end_ns: int
    una: int
    recover: int
    flight: int
    detected_by: DetectedBy
    dupacks: int
    restarts: bool
    sure: bool
    lost_sent_ns: int
    retransmitted: int
    round_trip_sends: int
    follows: bool
    window_before: int
    window_after: int | None

    @property
    def is_loss(self) -> bool:
        """Whether the window fell for it."""
        return self.detected_by not in NO_LOSS

    @property
    def is_asked(self) -> bool:
        """Whether duplicate ACKs, or their SACK blocks, asked for what was sent again."""
        return self.detected_by in ("dupack", "sack")

    @property
    def is_unasked(self) -> bool:
        """Begun by no timer, for its sender has not restarted, and by no duplicate: what asked was not captured."""
        return self.detected_by == "rto" and not self.restarts and not self.dupacks

    def expires_within(self, before: Episode | None) -> bool:
        """Whether the timer expired before the event `before` was over."""
        return self.detected_by == "rto" and before is not None and self.una < before.recover


def episodes(timeline: Timeline) -> tuple[Episode, ...]:
    """Every loss event in order of time."""
    columns: dict[str, list[Any]] = {name: column.tolist() for name, column in timeline.observed.events().items()}
    columns["detected_by"] = [_core.DETECTED_BY[code] for code in columns["detected_by"]]
    columns["window_after"] = [None if window < 0 else window for window in columns["window_after"]]
    return tuple(map(Episode._make, zip(*(columns[name] for name in Episode._fields), strict=True)))


def loss_columns(timeline: Timeline) -> dict[str, Any]:
    """One row per lost segment; `time_ns` is when it was sent, `event` the number of its loss event.

    `spurious` are retransmissions whose segment, or an earlier copy, the answer shows to have arrived;
    `ssthresh_after` is -1 where it is not known.
    """
    rows, events = timeline.observed.lost(), timeline.observed.events()
    event = rows["event"]
    detected_by = np.asarray(_core.DETECTED_BY, dtype=object)[events["detected_by"][event]]
    return {
        "time_ns": rows["time_ns"],
        "offset": rows["offset"],
        "length": rows["length"],
        "detected_by": detected_by,
        "cause": np.full(len(event), "unknown", dtype=object),
        "cwnd_before": events["window_before"][event],
        "ssthresh_after": events["window_after"][event],
        "spurious": rows["spurious"],
        "event": event,
    }


def losses(columns: dict[str, Any]) -> pd.DataFrame:
    """The same as a table: NA where ssthresh is not known."""
    import pandas as pd

    after = columns["ssthresh_after"]
    return pd.DataFrame({**columns, "ssthresh_after": pd.arrays.IntegerArray(after, after < 0)})


def lost_again(timeline: Timeline) -> int:
    """How many fills, away from the sender, may have been preceded by a copy that was lost before the tap as well.

    A sender fills the lowest hole that it knows of before it sends anything beyond (RFC 6582, RFC 6675 section 4):
    where that had left before the fill, a copy may have left before it.
    """
    lost = timeline.observed.lost()
    sent_ns, offsets = lost["time_ns"][~lost["spurious"]], lost["offset"][~lost["spurious"]]
    fills = _next_copies(timeline, offsets, sent_ns)
    told = told_lost(timeline, offsets)
    is_told = (fills >= 0) & (told < len(timeline.ack_ns))
    fills, offsets = fills[is_told], offsets[is_told]
    begins, fills = _core.places(timeline.send_ns, timeline.ack_ns[told[is_told]]), fills.astype(np.int32)
    behind = begins < fills
    farthest = -_core.least_within(-timeline.send_offset, begins[behind], fills[behind])
    return int(np.count_nonzero(farthest > offsets[behind]))


def told_lost(timeline: Timeline, offsets: Ints) -> Ints:
    """The ACKs by which holes at these offsets were known: by three segments beyond (RFC 6675), or three duplicates."""
    if timeline.has_sack:
        high = np.maximum.accumulate(timeline.sack_high)
        return np.searchsorted(high, offsets + (1 + DUP_THRESH) * timeline.smss, side="left")
    dups = np.flatnonzero(timeline.is_dupack)
    third = np.searchsorted(dups, np.searchsorted(timeline.snd_una, offsets, side="left")) + DUP_THRESH - 1
    return np.where(third < len(dups), np.append(dups, 0)[np.minimum(third, len(dups))], len(timeline.ack_ns))


def _next_copies(timeline: Timeline, offsets: Ints, sent_ns: Ints) -> Ints:
    """The first retransmission that began at each offset after the time beside it; -1: there was none."""
    again = np.flatnonzero(timeline.is_retransmission)
    all_offsets = np.concatenate((timeline.send_offset[again], offsets))
    # At equal times the retransmission stands first: it did not leave after.
    is_asked = np.arange(len(all_offsets)) >= len(again)
    order = np.lexsort((is_asked, np.concatenate((timeline.send_ns[again], sent_ns)), all_offsets))
    places = np.where(is_asked[order], len(order), np.arange(len(order)))
    following = np.minimum.accumulate(places[::-1])[::-1]
    asked = np.flatnonzero(is_asked[order])
    asked = asked[following[asked] < len(order)]
    row, copy = order[asked], order[following[asked]]
    is_same = all_offsets[row] == all_offsets[copy]
    found = np.full(len(offsets), -1, dtype=np.int64)
    found[row[is_same] - len(again)] = again[copy[is_same]]
    return found
