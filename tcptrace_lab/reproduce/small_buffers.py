"""Barakat & Altman 1998 (RR-3574): Figures 2 to 5, the printed numbers, and theory against simulation B by B."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tcptrace_lab.models import small_buffers as model
from tcptrace_lab.models import small_buffers_packets as packets
from tcptrace_lab.reproduce.paper import Figure, Reproduction, Row, Sources, Table, compared, simulated_slow_starts
from tcptrace_lab.scenario_file import parse

if TYPE_CHECKING:
    import matplotlib.figure

# Section 8: T1, 512-byte packets, 280 ms each way, a 10 Mb/s access link.
MU = 1.5e6 / (8 * 512)
TAU = 0.56
SCENARIO: dict[str, Any] = {
    "title": "Tahoe over a satellite",
    "profile": "ns2",
    "duration_s": 600,
    "taps": [],
    "path": {
        "packet_bytes": 512,
        "access_rate_bps": 10e6,
        "nodes": [{"rate_bps": 1.5e6, "buffer": 20, "delay_s": 0.28}],
        "reverse": [{"rate_bps": 1.5e6, "delay_s": 0.28}, {"rate_bps": 10e6}],
    },
    "control": {"name": "tahoe", "rto": {"initial_s": 3, "granularity_s": 0.01}},
}
BUFFERS = range(2, 70)
SHOWN = (19, 20, 22)


def reproduce(sources: Sources) -> Reproduction:
    """Everything of the paper that its text lets one compute or simulate."""
    theory = model.SmallBuffers().evaluate(buffer=np.array(BUFFERS), mu=MU, tau=TAU)
    columns = {name: np.asarray(quantity.value) for name, quantity in theory.items()}
    path = parse(SCENARIO).path
    counted = packets.SmallBuffersPackets().evaluate(
        buffer=np.array(BUFFERS), mu=MU, round_trip=path.base_rtt_s, feed_rate=path.access_rate_bps / (8 * 512)
    )
    columns |= {f"{name} by packets": np.asarray(quantity.value) for name, quantity in counted.items()}
    ns2 = {int(row["B_pkts"]): row for row in sources.rows("tahoe_sweep.csv", config="paper")}
    simulated = sources.sweep(SCENARIO, "path.nodes.0.buffer", BUFFERS)
    printed, regimes = _printed(), _regimes(columns, ns2, simulated)
    return Reproduction(
        paper="000",
        title="Barakat & Altman 1998, Analysis of TCP in networks with small buffering capacity",
        tables=(printed, regimes, _throughput(columns, ns2, simulated)),
        printed=compared(printed),
        figures=(
            Figure(
                name="figure_2",
                title="Figure 2: throughput against B (shaded: three slow starts per cycle)",
                draw=lambda canvas: _draw_figure_2(canvas, columns, ns2, simulated),
            ),
            *(
                Figure(
                    name=f"figure_{3 + i}",
                    title=f"Figure {3 + i}: congestion window at B = {buffer}",
                    draw=lambda canvas, buffer=buffer: _draw_window(canvas, buffer, sources),  # type: ignore[misc]
                )
                for i, buffer in enumerate(SHOWN)
            ),
        ),
        notes=(
            "Theorems and simulation disagree below 27 packets because the analysis treats bursts as a fluid, "
            "and at 64 because a burst of 2 B whole packets just fits (models/ERRATA.md).",
        ),
    )


def _printed() -> Table:
    """The numbers in the paper's text."""
    buffer = np.arange(1, 200)

    def largest_above(mu: float) -> int:
        above = model.w_threshold(buffer, mu, TAU) > 2 * model.w_b(buffer)
        return int(buffer[above].max())

    double = buffer[model.w_threshold(buffer, MU, TAU) >= model.w_b(buffer)].max()
    drop = 1 - float(model.throughput(25, MU, TAU) / model.throughput(26, MU, TAU))
    rows: list[Row] = [
        ("section 8", "mu, packets/s", 366, MU, round(MU) == 366, ""),
        ("section 8", "W_th > 2 W_B needs B below", 26, largest_above(366) + 1, largest_above(366) == 25, "mu = 366"),
        ("section 8", "none triple where B exceeds", 26, largest_above(MU), largest_above(MU) == 26, "mu = 366.21"),
        ("section 8", "double slow starts up to B", 64, int(double), double == 64, "ns-2 has one slow start at 64"),
        ("section 7", "R at alpha = 1/4", 0.9, float(model.ratio_r(0.25)), abs(model.ratio_r(0.25) - 0.9) < 1e-9, ""),
        ("section 8", "lost near B = 26, %", 10, 100 * drop, abs(drop - 0.1) < 0.01, "B = 25 against 26"),
    ]
    for figure, b, printed in ((3, 19, "double"), (4, 20, "triple"), (5, 22, "double")):
        ours = model.REGIMES[int(model.regime(b, MU, TAU))]
        rows.append((f"figure {figure}", f"B = {b}", printed, ours, printed == ours, ""))
    # The largest beta at which each thing still happens, over pipes of 10 to 10^6 packets.
    pipe = np.geomspace(10, 1e6, 20_001)[:, None]
    powers = 2.0 ** np.arange(12)
    for what, printed, limit, kind in (
        ("beta with losses in slow start (eq. 3)", "1/3", 1 / 3, 1.0),
        ("beta with W_th > 2 W_B, at most", "1/7", 1 / 7, 2.0),
    ):
        happens = model.w_threshold(powers, 1, pipe) >= kind * model.w_b(powers)
        largest = float(model.beta(powers, 1, pipe)[happens].max())
        remark = "" if kind == 1 else "printed beside mu tau + 1 < 7 B: must be >"
        rows.append(("section 6", what, printed, f"1/{1 / largest:.3f}", abs(largest / limit - 1) < 1e-3, remark))
    just = powers * (1 + 1e-9)
    above = model.w_threshold(just, 1, pipe) > 2 * model.w_b(just)
    least = float(model.beta(just, 1, pipe)[above].max())
    remark = "printed beside mu tau + 1 < 11 B: must be >"
    rows.append(("section 6", "... whatever B", "1/11", f"1/{1 / least:.3f}", abs(least * 11 - 1) < 1e-3, remark))
    return Table(
        name="printed",
        title="Printed numbers of RR-3574",
        columns=("where", "what", "printed", "ours", "agrees", "remark"),
        rows=tuple(rows),
    )


def _regimes(columns: dict[str, np.ndarray], ns2: dict[int, dict[str, str]], simulated: list[dict[str, Any]]) -> Table:
    """Theory, ns-2 and the simulator for each B; which condition fired and by what margin."""
    rows: list[Row] = []
    counts: dict[tuple[str, str], list[bool]] = {}
    for i, buffer in enumerate(BUFFERS):
        theory = int(columns["slow_starts"][i])
        fired = [f"({n})" for n in (9, 10) if columns[f"condition_{n}"][i] > 0]
        is_above = columns["W_th"][i] > 2 * columns["W_B"][i]
        seen_ns2 = int(ns2[buffer]["slow_starts_per_cycle"]) if buffer in ns2 else None
        seen_sim = simulated_slow_starts(simulated[i]) if simulated else None
        by_packets = int(columns["slow_starts by packets"][i])
        for name, seen in (("ns-2", seen_ns2), ("simulator", seen_sim)):
            if seen is not None:
                counts.setdefault(("the theorems agree", name), []).append(seen == theory)
                counts.setdefault(("counting packets agrees", name), []).append(seen == by_packets)
        seen_any = [seen for seen in (seen_ns2, seen_sim) if seen is not None]
        rows.append(
            (
                buffer,
                *(float(columns[name][i]) for name in ("W_th", "W_B", "S")),
                *(int(columns[name][i]) for name in ("n_B", "n_1", "n_2")),
                round(float(columns["condition_9"][i]), 3),
                round(float(columns["condition_10"][i]), 3),
                " ".join(fired) if is_above else "(theorem 2)" if theory == 2 else "W_th < W_B",
                round(float(columns["margin"][i]), 3),
                theory,
                by_packets,
                seen_ns2,
                seen_sim,
                "" if not seen_any else "disagree" if any(seen != theory for seen in seen_any) else "",
            )
        )
    agreement = [f"{who} with {name} at {sum(same)} of {len(same)} B" for (who, name), same in counts.items()]
    return Table(
        name="regimes",
        title="Slow starts per cycle, B by B (mu tau = 205.08); (9), (10): left / right - 1, > 0 holds",
        columns=(
            "B", "W_th", "W_B", "S", "n_B", "n_1", "n_2", "(9)", "(10)", "fired", "margin",
            "theory", "packets", "ns-2", "simulator", "verdict",
        ),
        rows=tuple(rows),
        notes=(
            "theory: theorems 1 and 2; packets: the same slow starts counted packet by packet; disagree: with theory.",
            *agreement,
        ),
    )  # fmt: skip


def _throughput(
    columns: dict[str, np.ndarray], ns2: dict[int, dict[str, str]], simulated: list[dict[str, Any]]
) -> Table:
    """The paper's approximation and the one with queue and slow starts counted, against full cycles of a run."""
    rows: list[Row] = []
    for i, buffer in enumerate(BUFFERS):
        printed, counted = float(columns["throughput"][i]), float(columns["throughput_cycle"][i])
        seen_ns2 = float(ns2[buffer]["throughput_full_cycles_pkt_per_s"]) if buffer in ns2 else None
        seen_sim = float(simulated[i]["throughput_full_cycles_pps"]) if simulated else None
        seen = seen_ns2 if seen_ns2 is not None else seen_sim
        rows.append(
            (
                buffer,
                int(columns["slow_starts"][i]),
                round(printed, 2),
                round(counted, 2),
                round(float(columns["throughput_cycle by packets"][i]), 2),
                None if seen_ns2 is None else round(seen_ns2, 2),
                None if seen_sim is None else round(seen_sim, 2),
                None if seen is None else round(100 * (printed / seen - 1), 1),
                None if seen is None else round(100 * (counted / seen - 1), 1),
                None if seen is None else round(100 * (columns["throughput_cycle by packets"][i] / seen - 1), 1),
            )
        )
    return Table(
        name="figure_2",
        title="Figure 2 as numbers: throughput in packets/s over full cycles",
        columns=(
            "B", "theory", "section 7", "with queue", "by packets", "ns-2", "simulator",
            "error 7, %", "error queue, %", "error packets, %",
        ),
        rows=tuple(rows),
        notes=("theory: slow starts per cycle; errors against ns-2 (or the simulator where ns-2 is absent).",),
    )  # fmt: skip


def _draw_figure_2(
    canvas: matplotlib.figure.Figure,
    columns: dict[str, np.ndarray],
    ns2: dict[int, dict[str, str]],
    simulated: list[dict[str, Any]],
) -> None:
    axes = canvas.subplots()
    buffers = np.array(BUFFERS)
    seen = {b: int(ns2[b]["slow_starts_per_cycle"]) for b in BUFFERS if b in ns2}
    if simulated:
        seen = {b: simulated_slow_starts(row) or 0 for b, row in zip(BUFFERS, simulated, strict=True)}
    for buffer in buffers[columns["slow_starts"] == 3]:
        axes.axvspan(buffer - 0.5, buffer + 0.5, ymax=0.5, color="tab:blue", alpha=0.15, linewidth=0)
    for buffer in (b for b, count in seen.items() if count == 3):
        axes.axvspan(buffer - 0.5, buffer + 0.5, ymin=0.5, color="tab:red", alpha=0.15, linewidth=0)
    axes.plot(buffers, columns["throughput"], ":", color="tab:blue", label="section 7")
    axes.plot(buffers, columns["throughput_cycle"], "-", color="tab:blue", label="queue and slow starts counted")
    axes.plot(buffers, columns["throughput_cycle by packets"], "-", color="tab:green", label="counted by packets")
    if simulated:
        axes.plot(
            buffers, [row["throughput_full_cycles_pps"] for row in simulated], "-", color="tab:red", label="simulator"
        )
    if ns2:
        points = [float(ns2[b]["throughput_full_cycles_pkt_per_s"]) for b in ns2]
        axes.plot(list(ns2), points, "x", color="black", markersize=4, label="ns-2")
    axes.axhline(MU, color="gray", linewidth=0.8)
    axes.set_ylim(150, 375)
    axes.annotate("mu", (buffers[-1], MU), va="bottom", ha="right", color="gray")
    axes.text(0.99, 0.02, "lower half: theorem 1; upper half: simulated", transform=axes.transAxes, ha="right")
    axes.set_xlabel("B, packets")
    axes.set_ylabel("throughput, packets/s")
    axes.legend(loc="upper center")


def _draw_window(canvas: matplotlib.figure.Figure, buffer: int, sources: Sources) -> None:
    axes = canvas.subplots()
    rows = sources.rows(f"tahoe_cwnd_paper_q{buffer + 1}.csv")
    simulated = sources.windows(SCENARIO, f"path.nodes.0.buffer={buffer}", "duration_s=260")
    if simulated is not None:
        axes.plot(*simulated, color="tab:red", linewidth=1.2, label="simulator")
    if rows:
        at = [float(row["t_s"]) for row in rows]
        axes.plot(at, [float(row["cwnd_pkts"]) for row in rows], "k:", linewidth=1, label="ns-2")
    for value, name in (
        (float(model.w_max(buffer, MU, TAU)), "W_max"),
        (float(model.w_threshold(buffer, MU, TAU)), "W_th"),
        (2 * float(model.w_b(buffer)), "2 W_B"),
        (float(model.w_b(buffer)), "W_B"),
    ):
        axes.axhline(value, color="tab:blue", linewidth=0.7, linestyle="--")
        # W_th and 2 W_B lie close to each other.
        axes.annotate(name, (259, value), va="top" if name == "2 W_B" else "bottom", ha="right", color="tab:blue")
    axes.set_xlim(0, 260)
    axes.set_ylim(0, None)
    axes.set_xlabel("time, s")
    axes.set_ylabel("cwnd, packets")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper left", bbox_to_anchor=(0.02, 0.9))
