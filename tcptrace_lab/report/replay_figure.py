"""Figures of a replay: drops and delays over a swept key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from tcptrace_lab.report.connection_figure import BLUE, ORANGE, RED

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def sweep_figure(frame: pd.DataFrame, key: str, *, title: str) -> Figure:
    """An open loop over one key: what is dropped, and how long the rest waits."""
    figure = Figure(figsize=(8.0, 5.5), layout="constrained")
    dropped, delay = figure.subplots(2, 1, sharex=True)
    order = frame.sort_values(key)
    dropped.plot(order[key], 100 * order["drop_share"], color=RED, marker=".", linewidth=0.9)
    dropped.set_ylabel("dropped (%)")
    for name, colour, label in (("p50", BLUE, "half of the packets"), ("p95", ORANGE, "95 %"), ("max", RED, "all")):
        delay.plot(order[key], 1e3 * order[f"delay_{name}_s"], color=colour, marker=".", linewidth=0.9, label=label)
    delay.set_ylabel("on the way at most (ms)")
    delay.set_xlabel(key)
    delay.legend(frameon=False, fontsize=8)
    figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    for axes in (dropped, delay):
        _plain(axes)
    return figure


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="#e6e6e6", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_ylim(bottom=0)
