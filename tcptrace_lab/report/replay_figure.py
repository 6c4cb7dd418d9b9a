"""Figures of a replay: drops and delays over a swept key; a recording beside the same data sent again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from tcptrace_lab.report.connection_figure import BINS, BLUE, ORANGE, RED
from tcptrace_lab.report.decimate import envelope

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from tcptrace_lab.reconstruct.reconstruction import Reconstruction
    from tcptrace_lab.replay.closed_loop import ClosedLoop


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


def then_and_now_figure(run: ClosedLoop) -> Figure:
    """Per connection what was outstanding, and below it the data acknowledged, then and now."""
    pairs = [(one.verdict, now) for one, now in zip(run.found.connections, run.verdicts, strict=True)]
    shown = sorted(pairs, key=lambda pair: -len(pair[0].seen.timeline.send_ns))[:MOST_PANELS]
    figure = Figure(figsize=(9.5, 1.5 + 3.5 * len(shown)), layout="constrained")
    panels = figure.subplots(2 * len(shown), 1, squeeze=False, height_ratios=(2.2, 1.0) * len(shown))
    for number, (then, now) in enumerate(shown):
        window, data = panels[2 * number][0], panels[2 * number + 1][0]
        for verdict, colour, label in ((then, BLUE, "then"), (now, ORANGE, "now")):
            _draw(window, data, verdict.seen, colour, label)
        window.set_ylabel("outstanding (segments)")
        window.set_title(f"connection {then.who.connection}: {then.who.sender}", fontsize=9, loc="left")
        window.legend(frameon=False, fontsize=8, ncols=2, loc="upper right")
        data.set_ylabel("acknowledged (MB)")
        data.set_xlabel("time since its first byte (s)")
        data.sharex(window)
        for axes in (window, data):
            _plain(axes)
    figure.suptitle(f"{run.recording.name}, then and sent again", fontsize=10, x=0.01, ha="left")
    return figure


# More connections than this have a figure each by --connection of `plot`.
MOST_PANELS = 3


def _draw(window: Axes, data: Axes, seen: Reconstruction, colour: str, label: str) -> None:
    timeline = seen.timeline
    if not len(timeline.ack_ns) or not len(timeline.send_ns):
        return
    for axes, values, zero, unit in (
        (window, seen.flight, 0, timeline.smss),
        (data, timeline.snd_una, timeline.first_offset, 1e6),
    ):
        kept = envelope(timeline.ack_ns, values, bins=BINS)
        seconds = (timeline.ack_ns[kept] - timeline.send_ns[0]) / 1e9
        axes.plot(seconds, (values[kept] - zero) / unit, color=colour, linewidth=0.9, label=label)
