"""A capture sent again: the application that it shows, over its path or another, by its control or another.

Where open loop carries recorded packets, here a simulated sender decides anew; what is kept of the recording is what
the application wrote, how the receiver answered, and, with everything as found, the path and the control.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tcptrace_lab.capture import Capture
from tcptrace_lab.classify.verdict import Verdict, classify
from tcptrace_lab.errors import LabError, ScenarioError
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.replay.as_found import MOST_WORK, AsFound, Found, as_found
from tcptrace_lab.scenario import Control, Scenario
from tcptrace_lab.scenario_file import scenario_table
from tcptrace_lab.simulate import Run, simulate

if TYPE_CHECKING:
    import pandas as pd

    from tcptrace_lab.sweep import Over

# A probe of the tail (RFC 8985 section 7) is not yet a loss event.
NOT_EVENTS = ("tlp",)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one connection, then or now; times in seconds, windows in segments, NaN where not known."""

    completion_s: float
    goodput_bps: float
    loss_events: int
    lost_segments: int
    timeouts: int
    regime: str
    slow_starts: tuple[int, ...]
    rtt_median_s: float
    rtt_max_s: float
    window_max: float
    limits: Mapping[str, float]


def outcome(verdict: Verdict) -> Outcome:
    """The same figures of a recording and of a simulation, from the packets of each."""
    seen = verdict.seen
    timeline = seen.timeline
    _, samples = timeline.rtt
    done_s = completion_s(seen)
    sent = int(timeline.snd_max[-1] - timeline.first_offset) if len(timeline.send_ns) else 0
    events = [episode for episode in seen.episodes if episode.detected_by not in NOT_EVENTS]
    lost = seen.losses
    return Outcome(
        completion_s=done_s,
        goodput_bps=8 * sent / done_s if done_s > 0 else math.nan,
        loss_events=len(events),
        lost_segments=int((~lost["spurious"].astype(bool)).sum()),
        timeouts=sum(episode.detected_by == "rto" for episode in events),
        regime=verdict.slow_starts.regime,
        slow_starts=tuple(verdict.as_dict()["slow_starts"]["per_cycle"]),
        rtt_median_s=float(np.median(samples)) / 1e9 if len(samples) else math.nan,
        rtt_max_s=float(samples.max()) / 1e9 if len(samples) else math.nan,
        window_max=float(seen.flight.max()) / timeline.smss if len(seen.flight) else math.nan,
        limits=seen.limits,
    )


def completion_s(seen: Reconstruction) -> float:
    """From the first byte's leaving to the ACK of the last one; NaN: it was never acknowledged."""
    timeline = seen.timeline
    if not len(timeline.send_ns) or not len(timeline.ack_ns):
        return math.nan
    all_acked = timeline.snd_una >= timeline.snd_max[-1]
    if not all_acked.any():
        return math.nan
    return float(timeline.ack_ns[int(np.argmax(all_acked))] - timeline.send_ns[0]) / 1e9


class ClosedLoop(Run):
    """A simulated run of what a capture recorded; `found` is how the capture was understood."""

    def __init__(self, found: AsFound, recording: Capture) -> None:
        run = simulate(found.scenario, most_events=found.most_events)
        super().__init__(found.scenario, run._core)
        self.found = found
        self.recording = recording

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed of the capture, and whether the simulation was cut."""
        if not self.is_cut:
            return self.found.notes
        work = f"{self.found.most_events} events, {MOST_WORK} times what the capture's packets make"
        return (*self.found.notes, f"cut after {work}: what is shown as now is not the whole of it")

    @functools.cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts on the simulated senders, in the order of `found.connections`."""
        by_port = {verdict.who.sender.rpartition(":")[2]: verdict for verdict in classify(self.capture())}
        missing = [port for port, _ in self.ports if str(port) not in by_port]
        if missing:
            raise LabError(f"{self.recording.name}: the simulated connection from port {missing[0]} sent no data")
        return tuple(by_port[str(port)] for port, _ in self.ports)

    @functools.cached_property
    def outcomes(self) -> tuple[tuple[Outcome, Outcome], ...]:
        """Then and now, of each connection."""
        then = (outcome(one.verdict) for one in self.found.connections)
        return tuple(zip(then, map(outcome, self.verdicts), strict=True))

    @functools.cached_property
    def comparison(self) -> pd.DataFrame:
        """A row per connection and quantity: then, now."""
        import pandas as pd

        rows = []
        for one, (then, now) in zip(self.found.connections, self.outcomes, strict=True):
            for name, before in asdict(then).items():
                rows.append(
                    {
                        "connection": one.verdict.who.connection,
                        "quantity": name,
                        "then": before,
                        "now": getattr(now, name),
                    }
                )
        return pd.DataFrame(rows)


def again(
    capture: Capture,
    *,
    control: str | Control | None = None,
    through: Scenario | None = None,
    settings: Sequence[str] = (),
) -> ClosedLoop:
    """Send a capture's data again; `settings` are KEY=VALUE overrides of the scenario that it was found to be."""
    found = as_found(capture, control=control, through=through)
    if settings:
        found = replace(found, scenario=_overridden(found.scenario, settings))
    return ClosedLoop(found, capture)


def sweep_again(
    capture: Capture,
    overs: Sequence[Over],
    *,
    control: str | Control | None = None,
    through: Scenario | None = None,
    settings: Sequence[str] = (),
) -> pd.DataFrame:
    """A row per combination of values and connection: what would have become of it."""
    import pandas as pd

    from tcptrace_lab.sweep import combinations

    found = as_found(capture, control=control, through=through)
    table = scenario_table(_overridden(found.scenario, settings))
    rows = []
    for keys, scenario in combinations(table, overs):
        run = ClosedLoop(replace(found, scenario=replace(scenario, taps=("sender",))), capture)
        for one, (_, now) in zip(found.connections, run.outcomes, strict=True):
            rows.append({**keys, "connection": one.verdict.who.connection, **asdict(now)})
    return pd.DataFrame(rows)


def _overridden(scenario: Scenario, settings: Sequence[str]) -> Scenario:
    from tcptrace_lab.scenario_file import parse

    if not settings:
        return scenario
    try:
        return parse(scenario_table(scenario), overrides=settings)
    except ScenarioError as error:
        raise ScenarioError(f"--set: {error}") from error


def understood(found: AsFound) -> Iterator[tuple[Found, str]]:
    """Each connection with a sentence on how it was understood."""
    for one in found.connections:
        habits = "; ".join((*one.written.notes, *one.habit.notes))
        yield one, f"{one.control_name} with {one.control.recovery}; {habits}"
