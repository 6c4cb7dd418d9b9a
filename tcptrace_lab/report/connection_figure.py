"""A connection in one figure: time-sequence graph (as tcptrace's), window with slow starts shaded, round trip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tcptrace_lab.classify.obstacles import Obstacles, find_obstacles
from tcptrace_lab.reconstruct.given import BLUR_SEGMENTS
from tcptrace_lab.reconstruct.windows import UNKNOWN, in_64_bits
from tcptrace_lab.report.decimate import Floats, Ints, band, cells, corners, envelope

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tcptrace_lab.reconstruct.reconstruction import Reconstruction
    from tcptrace_lab.reconstruct.sender import Sender

# Okabe & Ito's colours, told apart by colour-blind readers too.
INK, BLUE, SKY, GREEN, ORANGE, RED, PURPLE, YELLOW = (
    *("#222222", "#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00", "#CC79A7", "#F0E442"),
)
BINS = 1600
# More notes than these cover the panel; classify has all of them.
NOTES = 4
SIZE_IN = (11.0, 8.5)
# A receiver's window this much above the data is left out of the frame: it limits nothing and flattens the rest.
FRAME = 1.25
# The window's panel has room for marks above the largest.
HEADROOM = 1.14
BOUNDS_ALPHA = 0.13
STYLE: dict[str, Any] = {"linewidth": 0.9, "solid_joinstyle": "round"}


@dataclass(frozen=True, kw_only=True)
class Span:
    """The part of a run that is drawn, in seconds from its first packet."""

    start_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        return self.end_s - self.start_s


def connection_figure(
    seen: Reconstruction, who: Sender, *, title: str, start_s: float | None = None, end_s: float | None = None
) -> Figure:
    """The figure of one sender; `start_s` and `end_s` choose a part of the run."""
    timeline = seen.timeline
    whole = timeline.seconds(timeline.end_ns)
    span = Span(start_s=start_s if start_s is not None else 0.0, end_s=end_s if end_s is not None else whole)
    figure = Figure(figsize=SIZE_IN, layout="constrained")
    sequence, window, trip = figure.subplots(3, 1, sharex=True, height_ratios=(3.2, 3.2, 1.3))
    hidden = find_obstacles(seen, who)
    _sequence(sequence, seen, span)
    if hidden.hides_window:
        _no_window(window, seen, span, hidden)
    else:
        _window(window, seen, span, doubt=who.tap.hides_details)
    _notes(window, who)
    _round_trip(trip, seen, span)
    ends = f"{who.sender} to {who.receiver}, segments of {timeline.smss} bytes"
    figure.suptitle(f"{title}: {ends}", fontsize=10, x=0.01, ha="left")
    trip.set_xlabel("time since the first packet (s)")
    trip.set_xlim(span.start_s, max(span.end_s, span.start_s + 1e-6))
    for axes in (sequence, window, trip):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(True, color="#e6e6e6", linewidth=0.6)
        axes.set_axisbelow(True)
    return figure


def _legend(axes: Axes, handles: list[Any]) -> None:
    """Above the panel: inside, it would hide a part of some run."""
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(-0.005, 0.985),
        fontsize=7.5,
        frameon=False,
        ncols=max(len(handles), 1),
        handlelength=1.4,
        handletextpad=0.5,
        columnspacing=1.3,
    )


def _within(times_ns: Ints, seen: Reconstruction, span: Span) -> slice:
    """The rows of a column of times in the span: a view of each column, no copy."""
    bounds = [seen.timeline.start_ns + round(edge * 1e9) for edge in (span.start_s, span.end_s)]
    return slice(
        int(np.searchsorted(times_ns, bounds[0], side="left")), int(np.searchsorted(times_ns, bounds[1], side="right"))
    )


def _line(seen: Reconstruction, times_ns: Ints, values: Ints, unit: float) -> tuple[Floats, Floats]:
    """A line of a panel: seconds, and values in units of so many."""
    kept = envelope(times_ns, values, bins=BINS)
    return (times_ns[kept] - seen.timeline.start_ns) / 1e9, values[kept] / unit


def _sequence(axes: Axes, seen: Reconstruction, span: Span) -> None:
    timeline = seen.timeline
    drawn, heard = _within(timeline.send_ns, seen, span), _within(timeline.ack_ns, seen, span)
    is_again = timeline.is_retransmission[drawn]
    again = drawn.start + np.flatnonzero(is_again)
    handles: list[Any] = []
    if len(is_again) - len(again) <= 2 * BINS:
        # Each segment as the range of bytes it carries.
        fresh = drawn.start + np.flatnonzero(~is_again)
        sent_s = (timeline.send_ns[fresh] - timeline.start_ns) / 1e9
        axes.vlines(sent_s, timeline.send_offset[fresh] / 1e6, timeline.send_end[fresh] / 1e6, BLUE, linewidth=1.1)
    else:
        axes.plot(*_line(seen, timeline.send_ns[drawn], timeline.snd_max[drawn], 1e6), color=BLUE, **STYLE)
    handles.append(Line2D([], [], color=BLUE, label="segments sent"))
    if heard.start < heard.stop:
        acked = _line(seen, timeline.ack_ns[heard], timeline.snd_una[heard], 1e6)
        axes.step(*acked, where="post", color=GREEN, **STYLE)
        handles.append(Line2D([], [], color=GREEN, label="acknowledged"))
        handles.extend(_receiver_window(axes, seen, heard, top=timeline.send_end[drawn].max(initial=0)))
        handles.extend(_sacks(axes, seen, heard))
    if len(again):
        kept = again[cells(timeline.send_ns[again], timeline.send_offset[again], bins=BINS // 8)]
        sent_s = (timeline.send_ns[kept] - timeline.start_ns) / 1e9
        axes.plot(sent_s, timeline.send_offset[kept] / 1e6, "D", color=RED, markersize=3.2, markeredgewidth=0)
        label = f"retransmitted ({len(again)})"
        handles.append(Line2D([], [], color=RED, marker="D", linestyle="", markersize=4, label=label))
    axes.set_ylabel("sequence offset (MB)")
    _legend(axes, handles)


def _receiver_window(axes: Axes, seen: Reconstruction, heard: slice, *, top: int) -> list[Any]:
    timeline = seen.timeline
    edge = timeline.snd_una[heard] + timeline.rwnd[heard]
    low, high = int(timeline.snd_una[heard].min()), max(int(top), int(timeline.snd_una[heard].max()))
    frame = low + (high - low) * FRAME + timeline.smss
    axes.set_ylim(low / 1e6 - (high - low) * 0.02 / 1e6, min(frame, max(int(edge.max()), high) * 1.02 + 1) / 1e6)
    if not (edge < frame).any():
        return [Line2D([], [], color=ORANGE, linestyle=":", label="receiver's window: above the frame")]
    axes.step(*_line(seen, timeline.ack_ns[heard], edge, 1e6), where="post", color=ORANGE, **STYLE)
    return [Line2D([], [], color=ORANGE, label="receiver's window")]


def _sacks(axes: Axes, seen: Reconstruction, heard: slice) -> list[Any]:
    timeline = seen.timeline
    index = heard.start + np.flatnonzero(timeline.sacked[heard] > 0)
    if not len(index):
        return []
    index = index[cells(timeline.ack_ns[index], timeline.sack_high[index], bins=BINS // 4)]
    heard_s = (timeline.ack_ns[index] - timeline.start_ns) / 1e9
    axes.plot(heard_s, timeline.sack_high[index] / 1e6, "|", color=PURPLE, markersize=4, markeredgewidth=0.9)
    return [Line2D([], [], color=PURPLE, marker="|", linestyle="", label="highest byte SACKed")]


def _notes(axes: Axes, who: Sender) -> None:
    """What the capture cannot show, in the figure itself."""
    if who.tap.notes:
        words = "\n".join(f"note: {note}" for note in who.tap.notes[:NOTES])
        axes.text(0.995, 0.97, words, transform=axes.transAxes, ha="right", va="top", fontsize=6.5, color=RED)


def _no_window(axes: Axes, seen: Reconstruction, span: Span, hidden: Obstacles) -> None:
    """What classify refuses is not drawn: at most what was outstanding at the tap, in grey and hatched."""
    timeline = seen.timeline
    axes.set_ylabel("window (segments)")
    axes.text(
        0.01, 0.5, "\n".join(f"no window: {why}" for why in hidden.hides_window), transform=axes.transAxes, fontsize=8
    )
    drawn = _within(timeline.ack_ns, seen, span)
    if hidden.hides_flight or drawn.start >= drawn.stop:
        return
    x, y = _line(seen, timeline.ack_ns[drawn], seen.flight[drawn], timeline.smss)
    axes.fill_between(x, y, step="post", facecolor="none", edgecolor="#aaaaaa", hatch="////", linewidth=0.3)
    _legend(
        axes, [Patch(facecolor="none", edgecolor="#aaaaaa", hatch="////", label="outstanding: no window's measure")]
    )


def _window(axes: Axes, seen: Reconstruction, span: Span, *, doubt: str | None) -> None:
    timeline, table = seen.timeline, in_64_bits(seen.known_columns)
    smss = timeline.smss
    drawn, heard = _within(table["time_ns"], seen, span), _within(timeline.ack_ns, seen, span)
    handles: list[Any] = []
    if drawn.start >= drawn.stop:
        return
    times_ns, cwnd, flight = table["time_ns"][drawn], table["cwnd"][drawn], seen.flight[heard]
    top = float(max(cwnd.max(), flight.max(initial=0))) / smss
    handles.extend(_slow_starts(axes, seen, span, top, doubt=doubt))
    handles[:0] = _bounds(axes, seen, {name: column[drawn] for name, column in table.items()}, top=top)
    axes.plot(*_line(seen, timeline.ack_ns[heard], flight, smss), color=SKY, linewidth=0.7, drawstyle="steps-post")
    axes.plot(*_line(seen, times_ns, cwnd, smss), color=BLUE, drawstyle="steps-post", **STYLE)
    handles[:0] = [Line2D([], [], color=BLUE, label="cwnd"), Line2D([], [], color=SKY, label="in flight")]
    threshold = table["ssthresh"][drawn]
    if (threshold != UNKNOWN).any():
        at = corners(threshold)
        steps = np.where(threshold[at] == UNKNOWN, np.nan, threshold[at] / smss)
        seconds = (times_ns[at] - timeline.start_ns) / 1e9
        axes.plot(seconds, steps, color=GREEN, linestyle="--", linewidth=1.0, drawstyle="steps-post")
        handles.append(Line2D([], [], color=GREEN, linestyle="--", label="ssthresh"))
    rwnd = timeline.rwnd[heard]
    if np.mean(rwnd < FRAME * top * smss) > 0.02:
        # More than one ACK (the SYN's window is not scaled) told of a window that could limit.
        seconds, windows = _line(seen, timeline.ack_ns[heard], rwnd, smss)
        axes.plot(seconds, np.minimum(windows, 4 * top), color=ORANGE, linewidth=0.8, drawstyle="steps-post")
        handles.append(Line2D([], [], color=ORANGE, label="receiver's window"))
    handles.extend(_events(axes, seen, span, top))
    # What has nothing in flight (no ACK fits a segment) has a frame too.
    axes.set_ylim(0, max(top, 1.0) * HEADROOM)
    axes.set_ylabel("window (segments)")
    _legend(axes, handles)


def _bounds(axes: Axes, seen: Reconstruction, table: dict[str, Ints], *, top: float) -> list[Any]:
    """Between what the window lies; to the frame where nothing bounds it from above. Not drawn where no wider than the
    line."""
    timeline, high = seen.timeline, table["cwnd_high"]
    frame = round(max(top, 1.0) * HEADROOM * timeline.smss)
    high = np.where(high == UNKNOWN, frame, np.minimum(high, frame))
    if not (high - table["cwnd_low"] > BLUR_SEGMENTS * timeline.smss).any():
        return []
    at, low, high = band(table["time_ns"], table["cwnd_low"], high, bins=BINS)
    seconds = (table["time_ns"][at] - timeline.start_ns) / 1e9
    style: dict[str, Any] = {"facecolor": BLUE, "alpha": BOUNDS_ALPHA, "linewidth": 0}
    axes.fill_between(seconds, low / timeline.smss, high / timeline.smss, step="post", **style)
    return [Patch(label="bounds of cwnd", **style)]


def _slow_starts(axes: Axes, seen: Reconstruction, span: Span, top: float, *, doubt: str | None) -> list[Any]:
    """Shaded, and numbered within their loss cycle where they are not too narrow for a number."""
    timeline = seen.timeline
    cycles, number = list(seen.cycles), 0
    edges = [timeline.seconds(cycle.start_ns) for cycle in cycles]
    current = -1
    shown = False
    after_pause = {phase.end_ns for phase in seen.phases if phase.kind == "idle"}
    for phase in seen.phases:
        if phase.kind != "slow_start":
            continue
        start, end = timeline.seconds(phase.start_ns), timeline.seconds(phase.end_ns)
        cycle = int(np.searchsorted(edges, start, side="right"))
        is_counted = phase.start_ns not in after_pause
        number = is_counted + (number if cycle == current else 0)
        current = cycle
        if end < span.start_s or start > span.end_s:
            continue
        shown = True
        axes.axvspan(start, end, color=YELLOW, alpha=0.35, linewidth=0, hatch="///" if doubt else None)
        if is_counted and (end - start) > 0.008 * span.length_s:
            axes.text((start + end) / 2, top * 1.04, str(number), ha="center", va="bottom", fontsize=8, color=INK)
    inner = [edge for edge in edges[1:] if span.start_s < edge < span.end_s]
    axes.vlines(inner, 0, top * 1.03, color="#999999", linewidth=0.7, linestyle=(0, (1, 2)))
    words = f"slow start, doubtful: {doubt}" if doubt else "slow start (number in its cycle)"
    patch = Patch(facecolor=YELLOW, alpha=0.35, hatch="///" if doubt else None, label=words)
    handles: list[Any] = [patch] if shown else []
    if inner:
        handles.append(Line2D([], [], color="#999999", linewidth=0.8, linestyle=":", label="a cycle begins"))
    return handles


def _events(axes: Axes, seen: Reconstruction, span: Span, top: float) -> list[Any]:
    timeline = seen.timeline
    handles: list[Any] = []
    for marker, label, kinds in (("v", "loss seen by ACKs", ("dupack", "sack")), ("X", "timeout", ("rto",))):
        times = [timeline.seconds(episode.time_ns) for episode in seen.episodes if episode.detected_by in kinds]
        times = [time for time in times if span.start_s <= time <= span.end_s]
        if times:
            axes.plot(times, [top * 1.025] * len(times), marker, color=RED, markersize=5, markeredgewidth=0)
            handles.append(Line2D([], [], color=RED, marker=marker, linestyle="", markersize=5, label=label))
    return handles


def _round_trip(axes: Axes, seen: Reconstruction, span: Span) -> None:
    timeline = seen.timeline
    rows, samples = timeline.rtt
    times_ns = timeline.ack_ns[rows]
    drawn = _within(times_ns, seen, span)
    axes.set_ylabel("RTT (ms)")
    if drawn.start >= drawn.stop:
        return
    axes.plot(
        *_line(seen, times_ns[drawn], samples[drawn], 1e6),
        ".",
        color=INK,
        markersize=1.6,
        markeredgewidth=0,
        rasterized=True,
    )
    # A few answers that waited for a recovery must not flatten the rest.
    low, high = float(samples[drawn].min()) / 1e6, float(np.percentile(samples[drawn], 99.5)) / 1e6
    axes.set_ylim(low - 0.08 * (high - low + 0.1), high + 0.15 * (high - low + 0.1))
