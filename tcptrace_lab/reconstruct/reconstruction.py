"""A flow's timeline turned into what its sender did: loss events, windows, phases, cycles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from tcptrace_lab.reconstruct.cycles import Cycle, cycles
from tcptrace_lab.reconstruct.flight import outstanding
from tcptrace_lab.reconstruct.losses import Episode, base_rtt_ns, episodes
from tcptrace_lab.reconstruct.lost import losses
from tcptrace_lab.reconstruct.phase_table import cycle_table, phase_table, phases
from tcptrace_lab.reconstruct.phases import Phase, Stretch, stretches
from tcptrace_lab.reconstruct.timeline import Ints, Timeline
from tcptrace_lab.reconstruct.windows import limits, windows


@dataclass(frozen=True)
class Reconstruction:
    """Everything inferred from one timeline; each part is computed when first asked for."""

    timeline: Timeline

    @cached_property
    def episodes(self) -> tuple[Episode, ...]:
        return episodes(self.timeline)

    @cached_property
    def flight(self) -> Ints:
        return outstanding(self.timeline, self.episodes)

    @cached_property
    def stretches(self) -> tuple[Stretch, ...]:
        return stretches(self.timeline, self.episodes, self.flight)

    @cached_property
    def windows(self) -> pd.DataFrame:
        return windows(self.timeline, self.episodes, self.stretches, self.flight)

    @cached_property
    def limits(self) -> dict[str, float]:
        return limits(self.windows, self.timeline)

    @cached_property
    def losses(self) -> pd.DataFrame:
        return losses(self.timeline, self.episodes, self.flight, self.base_rtt_ns)

    @cached_property
    def base_rtt_ns(self) -> int:
        return base_rtt_ns(self.timeline)

    @cached_property
    def typical_rtt_ns(self) -> int:
        """The median round trip: how late a loss is noticed."""
        _, samples = self.timeline.rtt
        return int(np.median(samples)) if len(samples) else 0

    @cached_property
    def cycles(self) -> tuple[Cycle, ...]:
        return cycles(self.timeline, self.stretches, self.flight, self.typical_rtt_ns)

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        return phases(self.timeline, self.stretches, self.episodes, self.flight, self.windows)

    def tables(self) -> dict[str, pd.DataFrame]:
        """The four tables by name: windows, phases, losses, cycles."""
        return {
            "windows": self.windows,
            "phases": phase_table(self.phases),
            "losses": self.losses.drop(columns="event"),
            "cycles": cycle_table(self.cycles, self.phases),
        }
