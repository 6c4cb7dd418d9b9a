"""RR-6778's model against the simulator away from the paper's points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tcptrace_lab.reproduce.compound_runs import evaluate, scenario, simulated_utilization, window_of
from tcptrace_lab.reproduce.paper import Row, Sources, Table

if TYPE_CHECKING:
    from tcptrace_lab.simulate import Run

# mu tau in packets (50 ms), and b as a share of it.
GRID_BDP = (60, 125, 250, 420, 850)
GRID_BUFFER = (0.04, 0.08, 0.12, 0.2, 0.3, 0.8, 1.2)
DURATION_S = 200
# The start-up (slow start, up to two cuts in a row) and its recovery.
SETTLED_S = 20
# Three round trips of Reno, and one packet for where they begin.
LINEAR_GAIN = 4


def grid(sources: Sources) -> Table:
    """Does the window reach its linear phase before it is cut, and what goes through: theory and simulator."""
    rows: list[Row] = []
    errors: list[tuple[int, float, float]] = []
    same: list[bool] = []
    for bdp in GRID_BDP:
        for share in GRID_BUFFER:
            mbps, b = bdp * 0.24, max(3, round(share * bdp))
            model, losses = (evaluate(mbps, 50, b, 30, counts_cuts=counts) for counts in (False, True))
            row = (
                bdp,
                b,
                int(model["case"]),
                round(model["margin"], 3),
                round(losses["cuts"]),
                round(model["utilization"], 4),
                round(losses["utilization"], 4),
            )
            run = sources.run(scenario(mbps, 50, b, 30, DURATION_S))
            if run is None:
                rows.append((*row, None, None, None))
                continue
            linear, simulated = linear_share(run, bdp), simulated_utilization(run.summary, mbps)
            is_same = None if linear is None else (linear > 0.5) == (model["case"] >= 4)
            same += [] if is_same is None else [is_same]
            errors.append((int(model["case"]), model["utilization"] - simulated, losses["utilization"] - simulated))
            rows.append((*row, round(simulated, 4), None if linear is None else round(linear, 2), is_same))
    notes = []
    if same:
        notes.append(f"linear growth before a loss (cases 4-6) or not: the same at {sum(same)} of {len(same)} points")
    for few, many in ((1, 3), (4, 6)):
        chosen = [error for error in errors if few <= error[0] <= many]
        for column, name in ((1, "model"), (2, "losses")):
            off = [error[column] for error in chosen]
            if off:
                low, middle, high = np.percentile(off, [10, 50, 90])
                notes.append(
                    f"utilization in cases {few}-{many}, {name} - simulator: median {middle:+.3f}, "
                    f"10-90 % {low:+.3f} to {high:+.3f} ({len(off)} points)"
                )
    return Table(
        name="grid",
        title=f"Model against simulator over mu tau and b (packets; 50 ms, gamma = 30, {DURATION_S} s)",
        columns=(
            "mu tau",
            "b",
            "case",
            "margin",
            "cuts",
            "util model",
            "util losses",
            "util sim",
            "losses after linear growth",
            "as the case says",
        ),
        rows=tuple(rows),
        notes=tuple(notes),
    )


def linear_share(run: Run, bdp: float) -> float | None:
    """The share of losses before which the window grew by a packet a round trip for three of them, once settled."""
    at, window = window_of(run)
    losses = run.losses["time_ns"].to_numpy() / 1e9
    found = []
    for loss in losses[losses > SETTLED_S]:
        # The packet was lost a round trip before: look at the three before that.
        rtt = 0.05 * max(1.0, float(window[max(int(np.searchsorted(at, loss)) - 1, 0)]) / bdp)
        inside = (at > loss - 4 * rtt) & (at < loss - rtt)
        # A cut within these round trips is the first of two in a row: that one is judged.
        if inside.any() and np.diff(window[inside]).min(initial=0) < -1:
            continue
        found.append(bool(inside.any()) and bool(np.ptp(window[inside]) <= LINEAR_GAIN))
    return float(np.mean(found)) if found else None
