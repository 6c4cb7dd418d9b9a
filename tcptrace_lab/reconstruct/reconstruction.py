"""A flow's timeline turned into what its sender did: loss events, windows, phases, cycles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.cycles import Cycle, cycles
from tcptrace_lab.reconstruct.given import DELAYED_ACK_SEGMENTS, MAJORITY, MINORITY
from tcptrace_lab.reconstruct.losses import Episode, episodes, loss_columns, losses, lost_again
from tcptrace_lab.reconstruct.phase_table import cycle_columns, phase_columns, phases
from tcptrace_lab.reconstruct.phases import Phase, Stretch, stretches
from tcptrace_lab.reconstruct.standing import standing
from tcptrace_lab.reconstruct.tap.stalled import held_back
from tcptrace_lab.reconstruct.timeline import Bools, Floats, Ints, Timeline, WorkedOutOnce
from tcptrace_lab.reconstruct.windows import limits, window_columns, windows

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Reconstruction(WorkedOutOnce):
    """Everything inferred from one timeline; each part is computed when first asked for."""

    timeline: Timeline

    def __repr__(self) -> str:
        return f"<Reconstruction: {len(self.timeline.send_ns)} segments sent, {len(self.timeline.ack_ns)} ACKs>"

    @cached_property
    def episodes(self) -> tuple[Episode, ...]:
        return episodes(self.timeline)

    @cached_property
    def lost_sent_ns(self) -> Ints:
        """When what was lost first left, of each loss event."""
        return np.array([episode.lost_sent_ns for episode in self.episodes], dtype=np.int64)

    @property
    def is_rwnd_limited(self) -> bool:
        """Whether the receiver's window was the limit most of the time in which there was something to send."""
        rwnd, application = (self.limits.get(name, 0.0) for name in ("rwnd", "application"))
        return rwnd > 0 and rwnd >= MAJORITY * (1.0 - application)

    @cached_property
    def flight(self) -> Ints:
        """Bytes in the network after each ACK and after the segments it released."""
        found: Ints = self.timeline.observed.column("flight")
        return found

    @cached_property
    def under_way(self) -> Floats:
        """Of each round trip: the packets that were under way when its segment left, itself included.

        Infinite as long as some of it had left before a capture that begins in the middle: what was sent again then is
        not known.
        """
        rows, samples = self.timeline.rtt
        una = self.una_at(self.timeline.ack_ns[rows] - samples)
        found: Floats = (self.timeline.snd_una[rows] - una) / self.timeline.smss
        return found

    @cached_property
    def is_stretched(self) -> bool:
        """Whether ACKs tell of more than a receiver leaves waiting (RFC 9293 section 3.8.6.3): some may be missing."""
        newly = self.timeline.newly_acked
        return bool(np.count_nonzero(newly > DELAYED_ACK_SEGMENTS * self.timeline.smss) > MINORITY * len(newly))

    @cached_property
    def jump(self) -> int:
        """Bytes beyond which an ACK jumps: it fills a hole, or those before it are missing."""
        moved = self.timeline.newly_acked[self.timeline.newly_acked > 0]
        return int(4 * max(self.timeline.smss, _core.median(moved) if len(moved) else 0))

    @cached_property
    def held_back(self) -> tuple[Ints, Ints]:
        """From when to when ACKs were read at once that the tap had held back."""
        return held_back(self.timeline)

    def una_at(self, times: Ints) -> Floats:
        """What was acknowledged at these times; minus infinity where a capture's beginning hides it."""
        known = _core.places(self.timeline.ack_ns, times, or_equal=True)
        una = self.timeline.una_after(known).astype(np.float64)
        if not self.timeline.has_start:
            una[(known == 0) | (una < self.timeline.first_offset)] = -np.inf
        return una

    @cached_property
    def stretches(self) -> tuple[Stretch, ...]:
        return stretches(self.timeline, self.episodes)

    @cached_property
    def stands(self) -> Bools:
        """Of each ACK, whether what is in flight stands: something else than a window that grows holds it."""
        losses_ns = [episode.time_ns for episode in self.episodes]
        return standing(self.timeline, self.flight, self.typical_rtt_ns, losses_ns)

    @property
    def shown_columns(self) -> dict[str, Ints]:
        """As the packets alone show them, in as few bits as that takes; not to be changed."""
        return window_columns(self.timeline, self.stands)

    @cached_property
    def envelope(self) -> pd.DataFrame:
        """The table `windows` as the packets alone show it."""
        return windows(self.shown_columns)

    @property
    def known_columns(self) -> dict[str, Ints]:
        """The same with what else is known of the windows."""
        return self.shown_columns

    @cached_property
    def windows(self) -> pd.DataFrame:
        return windows(self.known_columns)

    @cached_property
    def limits(self) -> dict[str, float]:
        return limits(self.timeline)

    @cached_property
    def losses(self) -> pd.DataFrame:
        return losses(loss_columns(self.timeline))

    @cached_property
    def lost_again(self) -> int:
        return lost_again(self.timeline)

    @property
    def base_rtt_ns(self) -> int:
        """The smallest round trip of a segment sent once; 0 where there is none."""
        return self.timeline.observed.rtt_ns[0]

    @property
    def typical_rtt_ns(self) -> int:
        """The median round trip: how late a loss is noticed."""
        return self.timeline.observed.rtt_ns[1]

    @cached_property
    def cycles(self) -> tuple[Cycle, ...]:
        return cycles(self.timeline, self.stretches, self.flight, self.typical_rtt_ns)

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        return phases(
            self.timeline, self.stretches, self.episodes, self.flight, self.timeline.observed.windows()["limited_by"]
        )

    def columns(self, table: str) -> dict[str, Any]:
        """One of the tables without pandas: -1 for NA, a limit as its place in `LIMITS`."""
        if table == "windows":
            return self.known_columns
        if table == "losses":
            return loss_columns(self.timeline)
        return phase_columns(self.phases) if table == "phases" else cycle_columns(self.cycles, self.phases)

    def tables(self, names: Sequence[str] | None = None) -> dict[str, pd.DataFrame]:
        """The tables by name: windows, phases, losses, cycles; only those asked for are worked out."""
        import pandas as pd

        make: dict[str, Callable[[], pd.DataFrame]] = {
            "windows": lambda: self.windows,
            "phases": lambda: pd.DataFrame(self.columns("phases")),
            "losses": lambda: self.losses.drop(columns="event"),
            "cycles": lambda: pd.DataFrame(self.columns("cycles")),
        }
        return {name: make[name]() for name in (make if names is None else names)}
