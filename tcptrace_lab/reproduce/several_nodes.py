"""Barakat & Altman 2000 (several bottleneck nodes): Figures 2, 4, 5, 6, 7 and the printed formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tcptrace_lab.models import Model
from tcptrace_lab.models import several_nodes as model
from tcptrace_lab.models.several_nodes_packets import SeveralNodesPackets
from tcptrace_lab.models.small_buffers import SmallBuffers
from tcptrace_lab.models.small_buffers_packets import SmallBuffersPackets
from tcptrace_lab.reproduce.paper import Figure, Reproduction, Row, Sources, Table, compared, simulated_slow_starts
from tcptrace_lab.scenario_file import parse, set_key

if TYPE_CHECKING:
    import matplotlib.figure

MU_BPS = 1.5e6
PACKET_BITS = 8 * 512
MU = MU_BPS / PACKET_BITS
T = 0.56
REGIMES = {1: "single", 2: "double", 3: "triple"}
LADDER = range(1, 11)
RATIOS = tuple(round(1 + 0.05 * i, 2) for i in range(21))
BEFORE = (80, 45, 20)


def scenario(upstream: list[tuple[float, float]], buffer: float) -> dict[str, Any]:
    """A Tahoe over nodes of (rate in b/s, places), then mu with `buffer` places and 280 ms each way."""
    nodes = [{"rate_bps": rate, "buffer": places} for rate, places in upstream]
    back = [{"rate_bps": rate} for rate, _ in reversed(upstream)]
    return {
        "title": "Several nodes",
        "profile": "ns2",
        "duration_s": 600,
        "taps": [],
        "path": {
            "packet_bytes": 512,
            "access_rate_bps": 10e6,
            "nodes": [*nodes, {"rate_bps": MU_BPS, "buffer": buffer, "delay_s": 0.28}],
            "reverse": [{"rate_bps": MU_BPS, "delay_s": 0.28}, *back, {"rate_bps": 10e6}],
        },
        "control": {"name": "tahoe", "rto": {"initial_s": 3, "granularity_s": 0.1}},
    }


def reproduce(sources: Sources) -> Reproduction:
    """Everything of the paper that its text lets one compute or simulate."""
    printed = _printed()
    figure_2, figure_4, figure_7 = _figure_2(sources), _figure_4(sources), _figure_7(sources)
    return Reproduction(
        paper="004",
        title="Barakat & Altman 2000, Analysis of TCP with several bottleneck nodes",
        tables=(printed, figure_2, figure_4, _figure_6(), figure_7),
        printed=compared(printed),
        figures=(
            Figure(
                name="figure_2",
                title="Figure 2: window at mu_1 = 1.5 and 1.6 Mb/s (B_1 = 100, B = 50)",
                draw=lambda canvas: _draw_figure_2(canvas, sources),
                size=(8.0, 6.0),
            ),
            Figure(
                name="figure_4",
                title="Figure 4: throughput against the number of upstream nodes (B = 20, B_i = 17)",
                draw=lambda canvas: _draw_figure_4(canvas, figure_4),
            ),
            Figure(name="figure_5", title="Figure 5: S and S' against mu'", draw=_draw_figure_5),
            Figure(name="figure_6", title="Figure 6: the required B' as a function of B", draw=_draw_figure_6),
            Figure(
                name="figure_7",
                title="Figure 7: throughput against mu' (B = 50)",
                draw=lambda canvas: _draw_figure_7(canvas, figure_7),
            ),
        ),
        notes=(
            "The paper gives no B for Figure 7 (50 reproduces its description) and no B_i, B' for Figure 5.",
            "Its printed Mb/s of Figure 2 hold the start-up; the model and the full cycles do not.",
        ),
    )


def uniform(n: int) -> np.ndarray:
    """Section "A simplified model": mu_i = 2 mu - i mu / (n + 1), packets/s."""
    return 2 * MU - np.arange(1, n + 1) * MU / (n + 1)


PAPERS: tuple[tuple[Model, str], ...] = ((model.SeveralNodes(), "throughput"), (SmallBuffers(), "throughput_cycle"))
COUNTED: tuple[tuple[Model, str], ...] = (
    (SeveralNodesPackets(), "throughput_cycle"),
    (SmallBuffersPackets(), "throughput_cycle"),
)


def _predicted(table: dict[str, Any], models: tuple[tuple[Model, str], ...] = PAPERS) -> tuple[str, float] | None:
    """Regime and Mb/s that the first model which applies gives: this paper's, or RR-3574's for a single bottleneck."""
    run = parse(table)
    for ask, rate in models:
        if ask.applies_to(run.path, run.control):
            answer = ask.predict(run.path, run.control)
            return str(answer.regime), float(answer.quantities[rate].value) * PACKET_BITS / 1e6
    return None


def _simulated(sources: Sources, table: dict[str, Any]) -> tuple[int | None, float, float] | None:
    """Slow starts per cycle, Mb/s over full cycles and over the run, of the simulator."""
    run = sources.run(table)
    if run is None:
        return None
    row = run.summary
    full, whole = float(str(row["throughput_full_cycles_pps"])), float(str(row["throughput_pps"]))
    return simulated_slow_starts(row), full * PACKET_BITS / 1e6, whole * PACKET_BITS / 1e6


def _printed() -> Table:
    """The formulas that the text gives in closed form, against the general ones."""
    rows: list[Row] = []

    def add(where: str, what: str, printed: float | str, ours: float) -> None:
        same = isinstance(printed, float) and abs(printed - ours) <= 5e-4 * max(1.0, abs(printed))
        rows.append((where, what, printed, ours, same))

    for n in (1, 3, 4, 10):
        upstream, main = model.burst_sizes(uniform(n), np.full(n, 17.0), MU, 20)
        rate, before, _ = model.equivalent_node(uniform(n), np.full(n, 17.0), MU, 20)
        add(f"n = {n}", "S = B (n + 2)", 20.0 * (n + 2), float(main))
        add(f"n = {n}", "S_n = 17 [2 (n + 1) - (n - 1)]", 17.0 * (2 * (n + 1) - (n - 1)), float(upstream[-1]))
        add(f"n = {n}", "mu' / mu = 1 + 1/(n + 1)", 1 + 1 / (n + 1), float(rate / MU))
        add(f"n = {n}", "B' = 8.5 n (n + 3)/(n + 1)", 8.5 * n * (n + 3) / (n + 1), float(before))
    bursts = {n: model.burst_sizes(uniform(n), np.full(n, 17.0), MU, 20) for n in LADDER}
    add("figure 4", "S_B = S_n from n =", 4.0, min(n for n, (each, main) in bursts.items() if each.min() < main))
    _, alone = model.burst_sizes(np.empty(0), np.empty(0), MU, 20)
    add("figure 4", "S of the single node", 40.0, float(alone))
    main_need, before_need = model.required_buffers(MU, T, 80)
    add("figure 6", "B > mu T / 3", MU * T / 3, float(main_need))
    add("figure 6", "B' > (mu T + B)/4 at B = 80", (MU * T + 80) / 4, float(before_need))
    return Table(
        name="printed",
        title="Formulas printed in the text (mu = 366.21 packets/s, T = 0.56 s)",
        columns=("where", "what", "printed", "ours", "agrees"),
        rows=tuple(rows),
    )


def _full_cycles(rows: list[dict[str, str]]) -> float | None:
    """ns-2's Mbit/s over whole cycles."""
    return round(float(rows[0]["throughput_full_cycles_pkt_per_s"]) * PACKET_BITS / 1e6, 6) if rows else None


def _figure_2(sources: Sources) -> Table:
    rows: list[Row] = []
    for rate, printed in ((1.5e6, 1.371), (1.6e6, 1.247)):
        table = scenario([(rate, 100)], 50)
        predicted, simulated = _predicted(table), _simulated(sources, table)
        ns2 = sources.rows("multinode_fig2.csv", tcpTick_s="0.1", mu1_bps=rate, B_ns_limit_pkts="51")
        begun = sources.run({**table, "duration_s": 500})
        early = None if begun is None else float(str(begun.summary["throughput_pps"])) * PACKET_BITS / 1e6
        rows.append(
            (
                rate / 1e6,
                printed,
                float(ns2[0]["throughput_0_500s_Mbps"]) if ns2 else None,
                early,
                predicted[1] if predicted else None,
                _full_cycles(ns2),
                simulated[1] if simulated else None,
            )
        )
    return Table(
        name="figure_2",
        title="Figure 2: throughput in Mb/s",
        columns=(
            "mu_1",
            "printed",
            "ns-2, 0-500 s",
            "simulator, 0-500 s",
            "model",
            "ns-2, cycles",
            "simulator, cycles",
        ),
        rows=tuple(rows),
        notes=("printed beside 0-500 s (the start-up included); the model beside full cycles.",),
    )


def _figure_4(sources: Sources) -> Table:
    rows: list[Row] = []
    for n in range(11):
        upstream = [(float(rate) * PACKET_BITS, 17.0) for rate in uniform(n)]
        table = scenario(upstream, 20)
        predicted, counted, simulated = _predicted(table), _predicted(table, COUNTED), _simulated(sources, table)
        two = None
        if n:
            rate, before, _ = model.equivalent_node(uniform(n), np.full(n, 17.0), MU, 20)
            two = _simulated(sources, scenario([(float(rate) * PACKET_BITS, float(np.round(before)))], 20))
        wanted = {"tcpTick_s": "0.1", "delay_variant": "prop", "n_upstream": n}
        ns2 = sources.rows("multinode_fig4.csv", model="multi" if n else "single", **wanted)
        ns2_two = sources.rows("multinode_fig4.csv", model="equivalent2", **wanted)
        rows.append(
            (
                n,
                predicted[0] if predicted else None,
                counted[0] if counted else None,
                REGIMES[int(ns2[0]["slow_starts_per_cycle"])] if ns2 else None,
                REGIMES.get(simulated[0] or 0) if simulated else None,
                round(predicted[1], 3) if predicted else None,
                round(counted[1], 3) if counted else None,
                _full_cycles(ns2),
                round(simulated[1], 4) if simulated else None,
                _full_cycles(ns2_two),
                round(two[1], 4) if two else None,
            )
        )
    return Table(
        name="figure_4",
        title="Figure 4: regime and throughput (Mb/s, full cycles) with n upstream nodes and with the equivalent one",
        columns=(
            "n", "model", "packets", "ns-2", "simulator", "model Mb/s", "packets Mb/s", "ns-2 Mb/s",
            "simulator Mb/s", "ns-2, two nodes", "simulator, two nodes",
        ),
        rows=tuple(rows),
        notes=(
            "model: W_th < W_B; packets: the recurrence that counts them, on the equivalent node.",
            "n = 0 is the single-node model: RR-3574's theorem where this paper does not apply.",
            "Printed: an increase of the throughput with five nodes and more, and 'very close' results of both models.",
        ),
    )  # fmt: skip


def _figure_6() -> Table:
    """Corners of the shaded region, and the buffers that the exact condition asks for."""
    pipe = MU * T
    whole = np.arange(1.0, 400)
    rows: list[Row] = []
    for buffer in (69.0, 80.0, 100.0, 128.0, 160.0, 205.0):
        need, before = (float(value) for value in model.required_buffers(MU, T, buffer))
        exact = model.required_buffers_exact(MU, T, buffer, whole)
        rows.append((buffer, buffer > need, round(before, 2), float(whole[exact].min()) if exact.any() else None))
    return Table(
        name="figure_6",
        title=f"Figure 6: B' that avoids every loss in slow start (mu T = {pipe:.2f}, mu T / 3 = {pipe / 3:.2f})",
        columns=("B", "B > mu T / 3", "(mu T + B)/4", "smallest whole B', exact"),
        rows=tuple(rows),
        notes=("exact: 2^n'_B as it is instead of 2 B'; it is a power of two, so B' a little smaller is enough.",),
    )


def _figure_7(sources: Sources) -> Table:
    rows: list[Row] = []
    for before in BEFORE:
        base = scenario([(MU_BPS, float(before))], 50)
        for ratio in RATIOS:
            rate = ratio * MU_BPS
            table = set_key(set_key(base, "path.nodes.0.rate_bps", rate), "path.reverse.1.rate_bps", rate)
            predicted, counted, simulated = _predicted(table), _predicted(table, COUNTED), _simulated(sources, table)
            ns2 = sources.rows(
                "multinode_fig7.csv", tcpTick_s="0.1", B_pkts=50, Bprime_pkts=before, mu_prime_over_mu=f"{ratio:.4f}"
            )
            rows.append(
                (
                    before,
                    ratio,
                    predicted[0] if predicted else None,
                    counted[0] if counted else None,
                    REGIMES.get(int(ns2[0]["slow_starts_per_cycle"])) if ns2 else None,
                    REGIMES.get(simulated[0] or 0) if simulated else None,
                    round(predicted[1], 3) if predicted else None,
                    round(counted[1], 3) if counted else None,
                    _full_cycles(ns2),
                    round(simulated[1], 4) if simulated else None,
                )
            )
    notes = []
    for column, name in ((4, "ns-2"), (5, "simulator")):
        both = [(row[2], row[column]) for row in rows if row[2] is not None and row[column] is not None]
        if both:
            same = sum((ours == "single") == (theirs == "single") for ours, theirs in both)
            notes.append(f"losses in slow start or none: the model agrees with {name} at {same} of {len(both)} points")
            exact = [row[3] == row[column] for row in rows if row[3] is not None and row[column] is not None]
            notes.append(f"slow starts: counting packets agrees with {name} at {sum(exact)} of {len(exact)} points")
    return Table(
        name="figure_7",
        title="Figure 7: regime and throughput (Mb/s, full cycles) over mu'/mu, B = 50",
        columns=(
            "B'", "mu'/mu", "model", "packets", "ns-2", "simulator",
            "model Mb/s", "packets Mb/s", "ns-2 Mb/s", "simulator Mb/s",
        ),
        rows=tuple(rows),
        notes=tuple(notes),
    )  # fmt: skip


def _draw_figure_2(canvas: matplotlib.figure.Figure, sources: Sources) -> None:
    for axes, rate in zip(canvas.subplots(2, 1, sharex=True), (1.5e6, 1.6e6), strict=True):
        simulated = sources.windows(scenario([(rate, 100)], 50), "duration_s=300")
        if simulated is not None:
            axes.plot(*simulated, color="tab:red", linewidth=1.2, label="simulator")
        rows = sources.rows("multinode_fig2_cwnd.csv", mu1_bps=f"{rate:.1f}")
        if rows:
            at, cwnd = ([float(row[key]) for row in rows] for key in ("t_s", "cwnd_pkts"))
            axes.plot(at, cwnd, "k:", linewidth=1, label="ns-2")
        buffer = 100 if rate == MU_BPS else 50
        for factor, name in ((1.0, "W_max"), (0.5, "W_th")):
            level = factor * float(model.w_max(buffer, MU, T + 1 / MU))
            axes.axhline(level, color="tab:blue", linewidth=0.7, linestyle="--")
            axes.annotate(name, (299, level), va="bottom", ha="right", color="tab:blue")
        axes.set_ylim(0, 430)
        axes.set_xlim(0, 300)
        axes.set_ylabel("cwnd, packets")
        axes.set_title(f"mu_1 = {rate / 1e6:g} Mb/s", fontsize=9)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="upper left")
    axes.set_xlabel("time, s")


def _column(table: Table, name: str) -> list[Any]:
    return [row[table.columns.index(name)] for row in table.rows]


def _draw_figure_4(canvas: matplotlib.figure.Figure, table: Table) -> None:
    axes = canvas.subplots()
    n = _column(table, "n")
    styles: tuple[tuple[str, dict[str, Any]], ...] = (
        ("model Mb/s", {"color": "tab:blue", "label": "model"}),
        ("ns-2 Mb/s", {"color": "black", "marker": "x", "linestyle": "none", "label": "ns-2"}),
        ("simulator Mb/s", {"color": "tab:red", "label": "simulator"}),
        ("ns-2, two nodes", {"color": "black", "marker": "o", "linestyle": "none", "fillstyle": "none",
                             "label": "ns-2, equivalent node"}),
        ("simulator, two nodes", {"color": "tab:red", "linestyle": ":", "label": "simulator, equivalent node"}),
    )  # fmt: skip
    for name, style in styles:
        values = _column(table, name)
        if any(value is not None for value in values):
            axes.plot(n, [np.nan if value is None else value for value in values], **style)
    axes.axhline(float(_column(table, "model Mb/s")[0]), color="gray", linestyle="--", label="single node, model")
    axes.set_xlabel("n, nodes before the main bottleneck")
    axes.set_ylabel("throughput, Mb/s")
    axes.legend()


def _draw_figure_5(canvas: matplotlib.figure.Figure) -> None:
    axes = canvas.subplots()
    ratio = np.linspace(1.02, 1.98, 400)
    before, main = model.burst_sizes(ratio[:, None] * MU, np.full((400, 1), 45.0), MU, 50)
    axes.plot(ratio, main, color="tab:blue", label="S, B = 50")
    axes.plot(ratio, before[:, 0], color="tab:red", label="S', B' = 45")
    axes.plot(ratio, np.minimum(main, before[:, 0]), "k:", linewidth=2, label="S_B")
    threshold = float(model.w_threshold(50, MU, T))
    # W_B = 2^(n_B - 1) + S_B / 2 > W_th; W_B rises with S_B.
    sizes = np.linspace(2, 600, 60_000)
    needed = sizes[model.w_b(sizes) > threshold].min()
    axes.axhline(needed, color="gray", linestyle="--", label=f"W_B = W_th ({needed:.0f} packets)")
    for level, name, color in ((100, "2 B", "tab:blue"), (90, "2 B'", "tab:red")):
        axes.axhline(level, color=color, linewidth=0.6)
        axes.annotate(name, (1.0, level), va="bottom" if level == 100 else "top", color=color)
    axes.set_ylim(0, 600)
    axes.set_xlabel("mu' / mu")
    axes.set_ylabel("burst that overflows, packets")
    axes.legend(loc="upper center")


def _draw_figure_6(canvas: matplotlib.figure.Figure) -> None:
    axes = canvas.subplots()
    buffer = np.linspace(1, 250, 500)
    need, line = model.required_buffers(MU, T, buffer)
    inside = buffer >= need
    axes.fill_between(buffer[inside], line[inside], 150, color="tab:blue", alpha=0.2, label="no loss in slow start")
    axes.plot(buffer, line, color="tab:blue", label="B' = (mu T + B)/4")
    axes.axvline(float(need), color="tab:blue", linestyle="--", label="B = mu T / 3")
    grid_b, grid_before = np.meshgrid(np.arange(1.0, 250, 1), np.arange(1.0, 150, 1))
    exact = model.required_buffers_exact(MU, T, grid_b, grid_before)
    axes.contour(grid_b, grid_before, exact, levels=[0.5], colors="tab:red", linewidths=0.8)
    axes.plot([], [], color="tab:red", linewidth=0.8, label="exact powers of two")
    axes.set_xlim(0, 250)
    axes.set_ylim(0, 150)
    axes.set_xlabel("B, packets")
    axes.set_ylabel("B', packets")
    axes.legend(loc="upper left")


def _draw_figure_7(canvas: matplotlib.figure.Figure, table: Table) -> None:
    axes = canvas.subplots()
    for before, color in zip(BEFORE, ("tab:blue", "tab:green", "tab:red"), strict=True):
        rows = [row for row in table.rows if row[0] == before]
        for column, style in ((6, ":"), (8, "x"), (9, "-")):
            points = [(row[1], row[column]) for row in rows if row[column] is not None]
            if points:
                label = f"B' = {before}" if style == ":" else None
                axes.plot(*zip(*points, strict=True), style, color=color, label=label)
    axes.text(0.99, 0.02, "dotted: model; crosses: ns-2; lines: simulator", transform=axes.transAxes, ha="right")
    axes.set_xlabel("mu' / mu")
    axes.set_ylabel("throughput, Mb/s")
    axes.legend()
