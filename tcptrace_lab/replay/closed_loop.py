"""A capture sent again: the application that it shows, over its path or another, by its control or another.

Where open loop carries recorded packets, here a simulated sender decides anew; what is kept of the recording is what
the application wrote, how the receiver answered, and, with everything as found, the path and the control.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from tcptrace_lab.capture import Capture
from tcptrace_lab.classify.verdict import Verdict, classify
from tcptrace_lab.errors import LabError, ScenarioError
from tcptrace_lab.replay.as_found import MOST_WORK, PATIENCE, AsFound, Found, as_found, senders
from tcptrace_lab.replay.closest import closest
from tcptrace_lab.replay.outcome import Outcome, outcome
from tcptrace_lab.scenario import LONGEST_S, ControlSpec, Scenario
from tcptrace_lab.scenario_file import scenario_table, split_override
from tcptrace_lab.simulate import Run, simulate

if TYPE_CHECKING:
    import pandas as pd

    from tcptrace_lab.sweep import Over


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


def found_in(capture: Capture, *, control: str | ControlSpec | None = None, through: Scenario | None = None) -> AsFound:
    """What will be sent again: what is asked for, and for the rest what comes back closest to the recording."""
    verdicts = senders(capture)
    if control is not None and through is not None:
        return as_found(capture, control=control, through=through, verdicts=verdicts)
    if control is None and through is None:
        return closest(as_found(capture, verdicts=verdicts))
    wanted = as_found(capture, control=control, through=through, verdicts=verdicts)
    try:
        own = closest(as_found(capture, verdicts=verdicts))
    except LabError:
        # The recording's control or path is not known, and what is asked for stands without it.
        return wanted
    if through is None:
        return replace(wanted, scenario=replace(wanted.scenario, path=own.scenario.path), notes=own.notes)
    rows = tuple(
        replace(row, control=one.control) for row, one in zip(wanted.scenario.connections, own.connections, strict=True)
    )
    scenario = replace(wanted.scenario, connections=rows)
    return replace(wanted, scenario=scenario, connections=own.connections, notes=own.notes)


def again(
    capture: Capture,
    *,
    control: str | ControlSpec | None = None,
    through: Scenario | None = None,
    settings: Sequence[str] = (),
) -> ClosedLoop:
    """Send a capture's data again; `settings` are KEY=VALUE overrides of the scenario that it was found to be."""
    found = found_in(capture, control=control, through=through)
    scenario = _overridden(found.scenario, settings)
    return ClosedLoop(_to_the_end(found, scenario, [split_override(each)[0] for each in settings]), capture)


def sweep_again(
    capture: Capture,
    overs: Sequence[Over],
    *,
    control: str | ControlSpec | None = None,
    through: Scenario | None = None,
    settings: Sequence[str] = (),
) -> pd.DataFrame:
    """A row per combination of values and connection: what would have become of it."""
    import pandas as pd

    from tcptrace_lab.sweep import combinations

    found = found_in(capture, control=control, through=through)
    table = scenario_table(_overridden(found.scenario, settings))
    rows = []
    given = [split_override(each)[0] for each in settings]
    for keys, scenario in combinations(table, overs):
        run = ClosedLoop(_to_the_end(found, replace(scenario, taps=("sender",)), [*given, *keys]), capture)
        for one, (_, now) in zip(found.connections, run.outcomes, strict=True):
            rows.append({**keys, "connection": one.verdict.who.connection, **asdict(now)})
    return pd.DataFrame(rows)


def _to_the_end(found: AsFound, scenario: Scenario, given: Sequence[str]) -> AsFound:
    """What is sent again over a path that may be slower, and takes its time for all bytes unless one was `given`."""
    slowest = scenario.path.bottleneck
    packet_s = 8 * scenario.path.packet_bytes / slowest.rate_bps
    patience_s = max(connection.control.rto.max_s for connection in scenario.connections)
    if packet_s > patience_s:
        node = scenario.path.nodes.index(slowest)
        raise ScenarioError(
            f"path.nodes.{node}.rate_bps = {slowest.rate_bps:g}: too slow for ever: a packet of"
            f" {scenario.path.packet_bytes} bytes takes {packet_s:.3g} s, a sender's timer {patience_s:g} s at most"
        )
    if "duration_s" not in given:
        all_s = 8 * sum(one.written.bytes for one in found.connections) / slowest.rate_bps
        scenario = replace(scenario, duration_s=min(max(scenario.duration_s, PATIENCE * all_s), LONGEST_S - 1))
    return replace(found, scenario=scenario)


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
        habits = "; ".join((*one.written.notes, *one.habit.notes, *_stood_still(one)))
        recovery = one.control.recovery
        sender = recovery if recovery == one.control_name else f"{one.control_name} with {recovery}"
        yield one, f"{sender}; {habits}"


def _stood_still(one: Found) -> Iterator[str]:
    if one.pauses_ns:
        longest_ms = max(to_ns - from_ns for from_ns, to_ns in one.pauses_ns) / 1e6
        yield f"pauses of a host: {len(one.pauses_ns)}, {longest_ms:.3g} ms at most"
