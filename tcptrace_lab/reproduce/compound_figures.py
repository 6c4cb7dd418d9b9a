"""The figures of RR-6778 (Compound TCP): model, ns-2 and the simulator in one picture each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tcptrace_lab.models import compound_cases as cases
from tcptrace_lab.models import compound_cuts as cuts
from tcptrace_lab.models.compound import case_map, network
from tcptrace_lab.models.compound_oscillation import oscillation
from tcptrace_lab.reproduce.compound_runs import CASES, PACKET_BITS, evaluate, ns2_rule, scenario
from tcptrace_lab.reproduce.paper import Figure, Sources, Table

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

MODEL, NS2, SIMULATOR, LOSSES = "tab:blue", "black", "tab:red", "tab:green"
# The bands of time shown in Figures 6 to 11, s.
SHOWN = {1: (4, 14), 2: (4, 14), 3: (4, 10), 4: (10, 60), 5: (50, 180), 6: (50, 200)}


def figures(sources: Sources, amplitudes: Table, throughput: Table) -> tuple[Figure, ...]:
    """Figures 2, 4, 5, 6-11, 12, 14 and 15 (1, 3 and 13: compound_charts)."""
    return (
        Figure(
            name="figure_2",
            title="Figure 2: oscillations of w (100 Mb/s, 50 ms), phases 1 to 4 between two losses",
            draw=lambda canvas: _draw_figure_2(canvas, sources),
            size=(8.0, 6.4),
        ),
        Figure(
            name="figure_4",
            title="Figure 4: type of oscillation, gamma = 30",
            draw=lambda canvas: _draw_figure_4(canvas, amplitudes),
        ),
        Figure(
            name="figure_5",
            title="Figure 5: amplitude of the oscillations",
            draw=lambda canvas: _draw_figure_5(canvas, amplitudes),
        ),
        *(
            Figure(
                name=f"figure_{number + 5}",
                title=f"Figure {number + 5}: the window in case {number} "
                f"({mbps:g} Mb/s, {ms:g} ms, b = {b}, gamma = {gamma:g})",
                draw=lambda canvas, number=number: _draw_case(canvas, number, sources),  # type: ignore[misc]
            )
            for number, (mbps, ms, b, gamma, _) in CASES.items()
        ),
        Figure(
            name="figure_12",
            title="Figure 12: the cases on the b - mu tau plane, gamma = 30",
            draw=_draw_figure_12,
            size=(8.0, 6.0),
        ),
        Figure(
            name="figure_14",
            title="Figure 14: normalized throughput (b = 100, 50 ms, gamma = 30)",
            draw=lambda canvas: _draw_rates(canvas, throughput, "util", "throughput / mu"),
        ),
        Figure(
            name="figure_15",
            title="Figure 15: average backlog (b = 100, 50 ms, gamma = 30)",
            draw=lambda canvas: _draw_rates(canvas, throughput, "backlog", "packets waiting"),
        ),
    )


def _cycle(number: int) -> tuple[cases.Cycle, float, float]:
    mbps, ms, b, gamma, _ = CASES[number]
    mu, tau = mbps * 1e6 / PACKET_BITS, ms / 1e3
    return cases.cycle(number, mu=mu, tau=tau, buffer=b, theta=oscillation(mu * tau, gamma).theta), mu, tau


def _ns2_window(sources: Sources, number: int) -> tuple[np.ndarray, np.ndarray] | None:
    if CASES[number][3] != 30:
        # gamma is fixed at 30 in ns-2.35.
        return None
    rows = sources.rows(f"compound_case{number}_cwnd.csv")
    if not rows:
        return None
    at, window = (np.array([float(row[key]) for row in rows]) for key in ("t_s", "cwnd_pkts"))
    return at, window


def _draw_figure_2(canvas: matplotlib.figure.Figure, sources: Sources) -> None:
    """Above one cycle with its phases, below 20 round trips of phase 3."""
    whole, close = canvas.subplots(2, 1)
    one, mu, tau = _cycle(4)
    path = cases.trajectory(one, mu=mu, tau=tau)
    mbps, ms, b, gamma, _ = CASES[4]
    simulated = sources.windows(scenario(mbps, ms, b, gamma, 40))
    ns2 = _ns2_window(sources, 4)
    begin = 16.5
    for name, series, color in (("ns-2", ns2, NS2), ("simulator", simulated, SIMULATOR)):
        if series is None:
            continue
        at, window = np.asarray(series[0]), np.asarray(series[1])
        begin = _loss_after(at, window, 10)
        inside = (at > begin - 1) & (at < begin + 15)
        whole.step(at[inside] - begin, window[inside], where="post", color=color, linewidth=0.7, label=name)
        rest = (at > begin + 2) & (at < begin + 3.2)
        close.step(at[rest] - begin, window[rest], where="post", color=color, linewidth=1,
                   linestyle=":" if name == "ns-2" else "-", label=name)  # fmt: skip
    whole.plot(path[:, 0], path[:, 1], color=MODEL, label="model")
    now = 0.0
    for phase, lasts in enumerate(one.time):
        whole.axvspan(now, now + float(lasts), color=f"C{phase}", alpha=0.08)
        whole.annotate(str(phase + 1), (now + float(lasts) / 2, 180), ha="center")
        now += float(lasts)
    found = oscillation(mu * tau)
    for level, name in ((found.theta_max, "theta_max"), (found.theta_min, "theta_min")):
        close.axhline(float(level), color=MODEL, linestyle="--", linewidth=0.8)
        close.annotate(name, (3.2, float(level)), color=MODEL, va="bottom", ha="right")
    whole.set_ylabel("w, packets")
    whole.set_ylim(150, 560)
    close.set_ylabel("w, packets")
    close.set_xlim(2, 3.2)
    close.set_ylim(430, 485)
    close.set_xlabel("s after the loss")
    whole.legend(loc="lower right")


def _loss_after(at: np.ndarray, window: np.ndarray, earliest: float) -> float:
    """When a cut that follows `earliest` is over: the window has fallen by 30 % within half a second."""
    later = np.searchsorted(at, at - 0.5)
    fallen = (window < 0.7 * window[later]) & (at > earliest)
    if not fallen.any():
        return earliest
    first = int(np.argmax(fallen))
    near = slice(first, int(np.searchsorted(at, at[first] + 0.3)))
    lowest = first + int(np.argmin(window[near]))
    return float(at[lowest])


def _draw_figure_4(canvas: matplotlib.figure.Figure, table: Table) -> None:
    axes = canvas.subplots()
    kinds = ["m:1", "3:1", "2:1", "5:2", "4:2", "3:2", "other"]
    bdp = np.arange(60.0, 2001)
    found = oscillation(bdp)

    def place(kind: str) -> int:
        rises, falls = kind.split(":")
        name = "m:1" if falls == "1" and int(rises) > 3 else kind
        return kinds.index(name if name in kinds else "other")

    ours = [place(f"{m:g}:{n:g}") for m, n in zip(found.rises, found.falls, strict=True)]
    axes.step(bdp, ours, where="post", color=MODEL, label="model")
    for name, marker, color in (("ns-2", "x", NS2), ("simulator", "+", SIMULATOR)):
        points = [(row[0], place(str(kind))) for row in table.rows if (kind := row[table.columns.index(name)])]
        if points:
            axes.plot(*zip(*points, strict=True), marker, color=color, label=name)
    axes.set_yticks(range(len(kinds)), kinds)
    axes.set_xlim(60, 2000)
    axes.set_xlabel("mu tau, packets")
    axes.legend(loc="center right")


def _draw_figure_5(canvas: matplotlib.figure.Figure, table: Table) -> None:
    axes = canvas.subplots()
    bdp = np.arange(60.0, 2001)
    for gamma, style in ((30, "-"), (5, "--")):
        axes.plot(
            bdp, oscillation(bdp, gamma).amplitude, style, color=MODEL, linewidth=1, label=f"model, gamma = {gamma}"
        )
    shown = (
        ("ns-2", "x", NS2, "ns-2, gamma = 30"),
        ("sim", "+", SIMULATOR, "simulator, gamma = 30"),
        ("rounds", ".", "tab:gray", "rounds (ns-2.35's module)"),
    )
    for name, marker, color, label in shown:
        top, low = (table.columns.index(f"{end} {name}") for end in ("max", "min"))
        points = [(row[0], float(str(row[top])) - float(str(row[low]))) for row in table.rows if row[top] is not None]
        if points:
            axes.plot(*zip(*points, strict=True), marker, color=color, markersize=5, label=label)
    axes.set_xlim(60, 2000)
    axes.set_ylim(0, 130)
    axes.set_xlabel("mu tau, packets")
    axes.set_ylabel("theta_max - theta_min, packets")
    axes.legend(loc="lower right")


def _draw_case(canvas: matplotlib.figure.Figure, number: int, sources: Sources) -> None:
    """The model's cycle, repeated from a loss of the simulator (or of ns-2, or from the left edge) on."""
    axes = canvas.subplots()
    one, mu, tau = _cycle(number)
    mbps, ms, b, gamma, _ = CASES[number]
    low, high = SHOWN[number]
    begin = float(low)
    ns2 = _ns2_window(sources, number)
    simulated = sources.windows(scenario(mbps, ms, b, gamma, high))
    for name, series, color, style in (("ns-2", ns2, NS2, ":"), ("simulator", simulated, SIMULATOR, "-")):
        if series is None:
            continue
        at, window = np.asarray(series[0]), np.asarray(series[1])
        begin = _loss_after(at, window, low)
        axes.step(at, window, style, where="post", color=color, linewidth=0.8, label=name)
    path = cases.trajectory(one, mu=mu, tau=tau)
    copies = int((high - begin) / float(one.period)) + 1
    t = np.concatenate([begin + k * float(one.period) + path[:, 0] for k in range(copies)])
    axes.plot(t, np.tile(path[:, 1], copies), color=MODEL, linewidth=1.2, label="model (one loss)")
    if number <= 3:
        _draw_losses(axes, number, begin, high)
    axes.axhline(mu * tau, color="gray", linewidth=0.6)
    axes.annotate("mu tau", (high, mu * tau), ha="right", va="bottom", color="gray")
    axes.set_xlim(low, high)
    axes.set_ylim(0, 1.15 * max(float(one.w_end), mu * tau))
    axes.set_xlabel("time, s")
    axes.set_ylabel("w, packets")
    axes.legend(loc="lower right")


def _draw_losses(axes: matplotlib.axes.Axes, number: int, begin: float, high: float) -> None:
    """The same cycle with ns-2's losses, from the end of a loss on."""
    mbps, ms, b, gamma, _ = CASES[number]
    mu, tau = mbps * 1e6 / PACKET_BITS, ms / 1e3
    on = network(ns2_rule(mu, tau), mu=mu, tau=tau, buffer=b, gamma=gamma)
    path = cuts.trajectory(number, on)
    period = float(path[-1, 0])
    copies = int((high - begin) / period) + 1
    t = np.concatenate([begin + k * period + path[:, 0] for k in range(copies)])
    axes.plot(t, np.tile(path[:, 1], copies), "--", color=LOSSES, linewidth=1.2, label="model with its losses")


def _draw_figure_12(canvas: matplotlib.figure.Figure) -> None:
    from matplotlib.colors import ListedColormap

    axes = canvas.subplots()
    bdp, buffer = np.logspace(1, 4, 1000), np.logspace(0, 4, 1000)
    numbers = case_map(bdp[:, None], buffer[None, :])
    colors = ["#d73027", "#fc8d59", "#fee090", "#91bfdb", "#4575b4", "#313695"]
    picture = axes.pcolormesh(buffer, bdp, numbers, cmap=ListedColormap(colors), vmin=0.5, vmax=6.5, rasterized=True)
    canvas.colorbar(picture, ax=axes, ticks=range(1, 7), label="case")
    axes.plot(np.full(2, 30.0), [30, (30 * 8) ** (4 / 3)], "k:", label="theta_max = mu tau + gamma (no oscillations)")
    for number, (mbps, ms, b, gamma, _) in CASES.items():
        if gamma == 30:
            axes.plot(b, mbps * ms * 1e3 / PACKET_BITS, "ko", markersize=4)
            # Cases 5 and 6 lie side by side.
            side = "right" if number == 5 else "left"
            axes.annotate(f" {number} ", (b, mbps * ms * 1e3 / PACKET_BITS), ha=side, va="bottom")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("b, packets")
    axes.set_ylabel("mu tau, packets")
    axes.legend(loc="lower right")


def _draw_rates(canvas: matplotlib.figure.Figure, table: Table, what: str, label: str) -> None:
    axes = canvas.subplots()
    fine = np.arange(20, 900.5, 0.5)
    mu, tau = fine * 1e6 / PACKET_BITS, 0.05
    found = oscillation(mu * tau)
    number = cases.case(100.0, cases.thresholds(mu * tau, found.theta_max))
    one = cases.cycle(number, mu=mu, tau=tau, buffer=100.0, theta=found.theta)
    label_model = "model (one loss)"
    axes.plot(
        fine, np.minimum(one.throughput / mu, 1) if what == "util" else one.backlog, color=MODEL, label=label_model
    )
    early = range(20, 901, 10)
    with_losses = [evaluate(mbps, 50, 100, 30, counts_cuts=True) for mbps in early]
    shown = [found["case"] <= 3 for found in with_losses]
    values = np.array([found["utilization" if what == "util" else "backlog"] for found in with_losses])
    axes.plot(early, np.where(shown, values, np.nan), "--", color=LOSSES, label="model with its losses (cases 1-3)")
    for name, marker, color, text in (("ns-2", "s", NS2, "ns-2"), ("sim", "+", SIMULATOR, "simulator")):
        points = [
            (row[0], value) for row in table.rows if (value := row[table.columns.index(f"{what} {name}")]) is not None
        ]
        if points:
            axes.plot(*zip(*points, strict=True), marker, color=color, fillstyle="none", label=text)
    # Section 5's rates at which something changes.
    for mbps in (131, 138, 273, 320, 400):
        axes.axvline(mbps, color="gray", linewidth=0.6, linestyle=":")
    axes.set_xlim(0, 920)
    axes.set_xlabel("mu, Mb/s (dotted: the printed transitions)")
    axes.set_ylabel(label)
    axes.legend()
