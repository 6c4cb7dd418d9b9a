"""The figures of the M-Start paper. The images are not in the text: each is drawn from what the text says of it.

Figure 1 (slow start, loss, timeout, slow start again) and Figure 2 (a caption only: "Theoretical Round trip time vs
Bits per second") have no numbers in the text: their axes are ours, the curves are the paper's rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tcptrace_lab.models import m_start as model
from tcptrace_lab.models import m_start_tables as tables
from tcptrace_lab.models.prediction import FloatArray
from tcptrace_lab.reproduce.m_start_runs import LINK_BPS, PACKET_BITS, SCHEMES, SECONDS, scenario
from tcptrace_lab.reproduce.paper import Figure, Sources

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

# Figure 1's path, ours: 40 packets in flight, 20 waiting, an ACK every 1/40 of a round trip, a timer of 3 round trips.
PIPE, PLACES, TIMER = 40, 20, 3
STARTS = 3
# Windows of Figure 2: the first, Table 1's and Table 2's last, and section 6.2's two.
WINDOWS = (1, 16, 454, 901, 1992)
Runs = dict[str, tuple[Any, Any] | None]


def repeated_starts() -> tuple[FloatArray, FloatArray]:
    """Figure 1: (t in round trips, cwnd in packets), an ACK a row, over some slow starts of equation (1).

    The window stops at the first packet that finds PLACES others waiting; nothing comes until the timer runs out.
    """
    loss = model.run_until(PIPE + PLACES + 1, PLACES, 0)
    last = float(loss["window"])
    t, cwnd = [0.0], [1.0]
    for row in tables.derived(int(loss["cycle"]) + 1, 0):
        if row.cycle > 0 and row.window <= last:
            t.append(row.cycle + row.m / PIPE)
            cwnd.append(float(row.window))
    one = np.array(t), np.array(cwnd)
    period = t[-1] + TIMER
    return (
        np.concatenate([one[0] + start * period for start in range(STARTS)]),
        np.concatenate([one[1] for _ in range(STARTS)]),
    )


def window_rate_bps(window: float, round_trip_s: FloatArray) -> FloatArray:
    """Figure 2: a window of packets of 1000 bytes once a round trip, bit/s, and at most the link's rate."""
    return np.asarray(np.minimum(window * PACKET_BITS / round_trip_s, LINK_BPS))


def topology() -> tuple[tuple[str, str, float, float], ...]:
    """Figure 4: (from, to, bit/s, s) of each link, as the simulated scenario has them."""
    nodes = scenario("traditional", 100, 200, 1)["path"]["nodes"]
    names = ("S1", "R1", "R2", "R3", "D1")
    return tuple(
        (names[i], names[i + 1], float(node["rate_bps"]), float(node["delay_s"])) for i, node in enumerate(nodes)
    )


def figures(sources: Sources, runs: Runs) -> tuple[Figure, ...]:
    """Figures 1 to 7."""
    return (
        Figure(
            name="figure_1",
            title=f"Figure 1: behaviour of slow start (chosen: cT = {PIPE} packets, B_s = {PLACES}, timer {TIMER} T)",
            draw=_draw_figure_1,
        ),
        Figure(
            name="figure_2",
            title="Figure 2: theoretical round trip time vs bits per second (windows chosen, packets of 1000 bytes)",
            draw=_draw_figure_2,
        ),
        Figure(name="figure_3", title="Figure 3: the window per ACK, traditional and M-Start", draw=_draw_figure_3),
        Figure(
            name="figure_4", title="Figure 4: simulation topology (section 6.1)", draw=_draw_figure_4, size=(8.0, 2.4)
        ),
        Figure(
            name="figure_5_6",
            title="Figures 5, 6: CUBIC's window after either slow start (Figure 4's links, 100 ms, queues of 100)",
            draw=lambda canvas: _draw_figures_5_6(canvas, runs, sources),
            size=(8.0, 6.0),
        ),
        Figure(
            name="figure_7",
            title="Figure 7: throughput per second of Table 4: as printed, and as bits per second on one link",
            draw=_draw_figure_7,
        ),
    )


def _draw_figure_1(canvas: matplotlib.figure.Figure) -> None:
    axes = canvas.subplots()
    t, cwnd = repeated_starts()
    axes.step(t, cwnd, where="post", color="black", label="cwnd, equation (1)")
    falls = np.flatnonzero(np.diff(cwnd) < 0)
    axes.plot(t[falls], cwnd[falls], "x", color="tab:red", label="the network is full: no ACK comes")
    axes.plot(t[falls + 1], cwnd[falls + 1], "o", color="tab:blue", fillstyle="none", label="timeout, slow start again")
    axes.set_xlabel("time, round trips T")
    axes.set_ylabel("cwnd, packets")
    axes.set_ylim(0, 1.3 * float(cwnd.max()))
    axes.legend(loc="upper right", ncols=3, fontsize=8)


def _draw_figure_2(canvas: matplotlib.figure.Figure) -> None:
    axes = canvas.subplots()
    round_trip = np.geomspace(1e-4, 1, 400)
    for packets in WINDOWS:
        axes.plot(round_trip * 1e3, window_rate_bps(packets, round_trip) / 1e6, label=f"{packets}")
    axes.axhline(LINK_BPS / 1e6, color="gray", linestyle="--", linewidth=0.8)
    axes.annotate("1 Gb/s link", (950, LINK_BPS / 1e6), ha="right", va="bottom", color="gray")
    axes.axvline(200, color="gray", linestyle=":", linewidth=0.8)
    axes.annotate("T = 200 ms (section 3)", (190, 0.012), ha="right", va="bottom", color="gray")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(0.1, 1000)
    axes.set_ylim(0.008, 3000)
    axes.set_xlabel("round trip time, ms")
    axes.set_ylabel("Mb/s")
    axes.legend(title="window, packets", loc="lower left")


def _draw_figure_3(canvas: matplotlib.figure.Figure) -> None:
    axes = canvas.subplots()
    for (name, step), color in zip(SCHEMES.items(), ("black", "tab:blue"), strict=True):
        rows = list(tables.derived(6 if step else 12, step))
        # Cycles of one unit, ACKs spread over a fifth of it: 1/mu is too small to see.
        t = [row.cycle + 0.8 * row.m / max(1, row.window) for row in rows]
        axes.step(t, [row.window for row in rows], where="post", color=color, label=name)
    axes.set_yscale("log")
    axes.set_xlabel("RTT cycle n (the ACKs of a cycle drawn apart, not to scale)")
    axes.set_ylabel("window, packets")
    axes.legend()


def _draw_figure_4(canvas: matplotlib.figure.Figure) -> None:
    axes = canvas.subplots()
    axes.axis("off")
    links = topology()
    names = [links[0][0], *(link[1] for link in links)]
    for i, name in enumerate(names):
        is_host = name[0] in "SD"
        shape = {"boxstyle": "square,pad=0.5" if is_host else "circle,pad=0.4", "facecolor": "#eef3fa"}
        axes.text(i, 0, name, ha="center", va="center", bbox=shape, zorder=2)
    for i, (_, _, rate_bps, delay_s) in enumerate(links):
        axes.plot([i, i + 1], [0, 0], color="black", zorder=1)
        axes.text(i + 0.5, 0.12, f"{rate_bps / 1e9:g} Gb/s\n{delay_s * 1e3:g} ms", ha="center", va="bottom")
    total = 2 * sum(link[3] for link in links)
    axes.text(2, -0.5, f"there and back {total * 1e3:g} ms; queue limits are not given", ha="center", va="top")
    axes.set_xlim(-0.4, len(links) + 0.4)
    axes.set_ylim(-0.9, 0.8)


def _draw_figures_5_6(canvas: matplotlib.figure.Figure, runs: Runs, sources: Sources) -> None:
    whole, first = canvas.subplots(2, 1)
    ns2 = sources.rows("mstart_cubic_cwnd.csv", config="rtt404_q100_iw1")
    for axes, end in ((whole, 50), (first, 5)):
        if ns2:
            # Thinned to the first row of each 20 ms: points, no steps.
            axes.plot(
                [float(row["t_s"]) for row in ns2], [float(row["cwnd_pkts"]) for row in ns2], ".", markersize=4,
                color="black", label="ns-2, traditional",
            )  # fmt: skip
        for (scheme, run), color in zip(runs.items(), ("tab:red", "tab:blue"), strict=True):
            if run is not None:
                axes.step(*run, where="post", color=color, linewidth=0.9, label=f"simulator, {scheme}")
        axes.set_xlim(0, end)
        axes.set_ylabel("window, packets")
    printed = ((4.10101, 454, "traditional", "tab:red"), (2.10097, 1992, "M-Start", "tab:blue"))
    for at, window, name, color in printed:
        first.plot(at, window, "*", color=color, markersize=9, label=f"printed, {name}")
    first.set_ylim(-60, 2200)
    first.set_xlabel("time, s")
    first.legend(loc="upper left", fontsize=7)


def _draw_figure_7(canvas: matplotlib.figure.Figure) -> None:
    axes = canvas.subplots()
    seconds = np.arange(1, SECONDS + 1)
    for (scheme, rows), color in zip(tables.TABLE_4_PRINTED.items(), ("tab:red", "tab:blue"), strict=True):
        axes.plot(seconds, [per_second for _, per_second in rows], ":", color=color, label=f"{scheme}, as printed")
        shares = np.array(tables.table_4_increment_over_t(scheme)) * seconds / 4
        axes.plot(seconds, shares, color=color, label=f"{scheme}, bits per second and link")
    axes.axhline(LINK_BPS / 1e6, color="gray", linestyle="--", label="rate of each link")
    axes.set_xlim(1, SECONDS)
    axes.set_ylim(0, None)
    axes.set_xlabel("second")
    axes.set_ylabel("Mb/s")
    axes.legend()
