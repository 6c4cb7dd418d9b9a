"""What a notebook needs: the five names of the package and the methods of a connection, over the rooms within.

    >>> from tcptrace_lab import classify, predict, read, simulate, sweep
    >>> capture = read("captures/tahoe_small_buffer.pcap.gz")
    >>> capture[0].verdict().slow_starts.per_cycle
    (3, 3)

Inner modules may move; these names do not.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from tcptrace_lab.capture import Capture, Connection
    from tcptrace_lab.classify.verdict import Verdict
    from tcptrace_lab.models import Prediction
    from tcptrace_lab.reconstruct.reconstruction import Reconstruction
    from tcptrace_lab.scenario import Scenario
    from tcptrace_lab.simulate import Control, Run

    Source = str | os.PathLike[str]


def classify(source: Capture | Source, *, connection: int | None = None) -> list[Verdict]:
    """The verdict on every connection of a capture that carries data, or on one of them.

    `source`: what `read` gives, or a path (pcap, pcapng; gzip and zstd too). Raises CaptureError where it cannot be
    read, LabError where there is no such connection.

    >>> (verdict,) = classify("captures/tahoe_small_buffer.pcap.gz")
    >>> verdict.as_dict()["slow_starts"]["regime"]
    'triple'
    """
    from tcptrace_lab.classify.verdict import classify as every

    capture = _capture(source)
    if connection is not None:
        if not 0 <= connection < len(capture):
            from tcptrace_lab.errors import LabError

            raise LabError(f"{capture.name}: no connection {connection}; it has {len(capture)}")
        return [verdict(capture[connection])]
    return list(every(capture))


def simulate(
    scenario: Scenario | Source,
    *,
    control: Control | None = None,
    controls: Sequence[Control | None] = (),
    truth: bool = True,
) -> Run:
    """Run a scenario (or a scenario file) in the reference simulator.

    `control`: an object with on_ack, on_loss and on_timeout that stands for the first connection's congestion control
    (docs: "A control of one's own"); `controls`: one for each connection, None where the scenario's is meant. Without
    `truth` the tables of windows and queues stay empty. Times of the run are integer nanoseconds, windows bytes.

    >>> run = simulate("captures/scenarios/small_buffers_B20.toml")
    >>> run.summary["slow_starts_per_cycle"]
    '3'
    """
    from tcptrace_lab.simulate import simulate as run

    return run(_scenario(scenario), control=control, controls=controls, truth=truth)


def sweep(
    scenario: Source | Mapping[str, object],
    over: str | Sequence[str],
    *,
    output: Source | None = None,
) -> pd.DataFrame:
    """A scenario file (or its TOML table) run for every combination of values, in parallel; a row for each run.

    `over`: `KEY=3:70` (both ends run), `KEY=0:1:0.25` (a step), `KEY=tahoe,reno` (a list), or several of these. With
    `output` (.parquet, .csv, .json) rows are kept as they finish, and a later call runs what is missing.

    >>> table = sweep("captures/scenarios/small_buffers_B20.toml", "path.nodes.0.buffer=19:21")
    >>> table["slow_starts_per_cycle"].tolist()
    ['2', '3', '2']
    """
    from tcptrace_lab.scenario_file import table_of
    from tcptrace_lab.sweep import over as values_of
    from tcptrace_lab.sweep import sweep as run

    table = scenario if isinstance(scenario, Mapping) else table_of(scenario)
    return run(table, [values_of(one) for one in ([over] if isinstance(over, str) else over)], output=output)


def predict(scenario: Scenario | Source) -> list[Prediction]:
    """What each model that applies says of a scenario (or scenario file), without running it.

    >>> {answer.model: answer.regime for answer in predict("captures/scenarios/small_buffers_B20.toml")}
    {'small_buffers': 'triple', 'small_buffers_packets': 'triple', ...}
    """
    from tcptrace_lab.models import ALL

    asked = _scenario(scenario)
    return [model.predict(asked.path, asked.control) for model in ALL if model.applies_to(asked.path, asked.control)]


def verdict(connection: Connection) -> Verdict:
    """The verdict on one connection's main sender, with the other flows of its capture as neighbours."""
    from tcptrace_lab.classify.verdict import verdicts
    from tcptrace_lab.reconstruct.sender import sender

    return next(verdicts(connection.capture, [sender(connection)]))


def reconstruct(connection: Connection, *, direction: int | None = None) -> Reconstruction:
    """Windows, phases, losses and cycles of one direction (0: the client's), by default the one with more data.

    ValueError where `direction` is neither 0 nor 1.
    """
    if direction not in (None, 0, 1):
        raise ValueError(f"direction {direction!r}: must be 0 (client to server) or 1 (server to client)")
    from tcptrace_lab.classify.control.windows.replayed import replayed
    from tcptrace_lab.reconstruct.sender import sender

    return replayed(sender(connection, direction=direction))


def plot(connection: Connection, *, start_s: float | None = None, end_s: float | None = None) -> Figure:
    """Time-sequence graph, window and round trip, between two times in seconds from the first packet.

    ValueError where these are not 0 <= start_s < end_s, both finite.
    """
    if not 0 <= (start_s or 0.0) < (math.inf if end_s is None else end_s) or math.inf in (start_s, end_s):
        raise ValueError(f"start_s {start_s}, end_s {end_s}: must be 0 <= start_s < end_s, both finite")
    from tcptrace_lab.classify.control.windows.replayed import replayed
    from tcptrace_lab.reconstruct.sender import sender
    from tcptrace_lab.report.connection_figure import connection_figure

    who = sender(connection)
    title = f"{connection.capture.name.rpartition('/')[2]}, connection {connection.id}"
    return connection_figure(replayed(who), who, title=title, start_s=start_s, end_s=end_s)


def _capture(source: Capture | Source) -> Capture:
    from tcptrace_lab.capture import Capture, read

    return source if isinstance(source, Capture) else read(source)


def _scenario(scenario: Scenario | Source) -> Any:
    from tcptrace_lab.scenario import Scenario
    from tcptrace_lab.scenario_file import load

    return scenario if isinstance(scenario, Scenario) else load(os.fspath(scenario))
