"""Papers 002 and 003 beside the simulator: sections of models_vs_simulator.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from comparison_table import SPREAD, percent, spread, table
from tcptrace_lab.models.compound import Compound
from tcptrace_lab.models.m_start import MStart

from tcptrace_lab.reproduce.compound import simulated_oscillation
from tcptrace_lab.reproduce.compound_grid import linear_share
from tcptrace_lab.reproduce.compound_runs import evaluate, scenario, simulated_utilization
from tcptrace_lab.reproduce.paper import Sources
from tcptrace_lab.scenario_file import parse
from tcptrace_lab.simulate import simulate

GAMMA = 30
SHARES = (0.04, 0.08, 0.12, 0.2, 0.3, 0.5, 0.8, 1.2)
RATE_BPS = 1e9
PACKET_BYTES = 1000


def compound(quick: bool) -> list[str]:
    """Cases, throughput and period over mu tau and b; types of oscillation over mu tau."""
    pipes = (125, 420) if quick else (60, 125, 250, 420, 600, 850)
    rows = [row for pipe in pipes for share in SHARES if (row := _run(pipe, max(3, round(share * pipe)))) is not None]
    decided = [row for row in rows if row["linear"] is not None]
    clear = [row for row in decided if row["margin"] > 0.1]
    lines = [
        f"{len(rows)} runs of 200 s, gamma = {GAMMA}, 50 ms: mu tau = {', '.join(map(str, pipes))} packets, "
        f"b from {SHARES[0]:g} to {SHARES[-1]:g} mu tau.",
        "",
        "Losses after linear growth (cases 4-6) or during superlinear growth (cases 1-3):",
        "",
    ]
    shown = []
    for title, chosen in (("all", decided), ("margin above 10 %", clear)):
        right = sum((row["linear"] > 0.5) == (row["case"] >= 4) for row in chosen)
        shown.append((title, percent(right, len(chosen))))
    lines += table(("runs", "case agrees"), shown)
    lines += ["", "Errors over full cycles:", ""]
    agreed = [row for row in decided if (row["linear"] > 0.5) == (row["case"] >= 4)]
    slow, fast = ([row for row in agreed if (row["case"] >= 4) == late] for late in (True, False))
    lines += table(
        ("quantity", "where", *SPREAD),
        [
            ("throughput", "cases 4-6, case agrees", *spread([row["throughput"] for row in slow])),
            ("throughput", "cases 1-3, case agrees", *spread([row["throughput"] for row in fast])),
            ("throughput, one cut (paper)", "cases 1-3, case agrees", *spread([row["paper"] for row in fast])),
            ("period", "cases 4-6, case agrees", *spread([row["period"] for row in slow if row["period"] is not None])),
        ],
    )
    lines += [
        "",
        "In cases 1-3 several packets are lost at once and, with a small b, the window is cut twice "
        "(models/compound_cuts.py); the paper cuts it once. Between 275 and 410 Mb/s with b = 100 (Figure 14) "
        "theta_max is within a packet or two of mu tau + b: see `tcptrace-lab reproduce 003`.",
        "",
        *_second_cuts(quick),
        "",
        "Types of oscillation m:n (the most frequent one), window at its largest and smallest:",
        "",
    ]
    return lines + _types(quick)


# From where the first increase after a recovery fits twice over to where it does not fit at all.
CUT_SHARES = (0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.045, 0.05, 0.06, 0.07, 0.09, 0.12, 0.16)
# A second cut comes within so many round trips of the first.
NEAR_ROUNDS = 6


def _second_cuts(quick: bool) -> list[str]:
    """Cases 1 to 3 over mu tau and small b: one cut or two, and the throughput."""
    pipes = (125, 420) if quick else (40, 60, 90, 125, 200, 300, 420, 600, 850, 1300, 2000, 3000)
    rows = []
    for pipe in pipes:
        for b in sorted({round(share * pipe) for share in CUT_SHARES if share * pipe >= 3}):
            mbps = pipe * 0.24
            one = parse(scenario(mbps, 50, b, GAMMA, 60))
            answer = Compound().predict(one.path, one.control)
            if answer.case not in (1, 2, 3):
                continue
            run = simulate(one)
            at = run.losses["time_ns"].to_numpy() / 1e9
            gaps = np.diff(at[at > 10])
            again = gaps < NEAR_ROUNDS * 0.05 * (1 + b / pipe)
            seen = float(np.mean(again)) / (1 - float(np.mean(again)))
            found = {name: float(quantity.value) for name, quantity in answer.quantities.items()}
            util = simulated_utilization(run.summary, mbps)
            paper = evaluate(mbps, 50, b, GAMMA)["utilization"]
            rows.append(
                {
                    "cuts": round(found["cuts"]),
                    "seen": 1 + min(seen, 1),
                    "off": b - found["b_second_cut"],
                    "error": found["utilization"] / util - 1,
                    "paper": paper / util - 1,
                }
            )
    clear = [row for row in rows if abs(row["off"]) > 4]
    lines = [
        f"One cut or two: {len(rows)} runs of 60 s in cases 1-3, mu tau = {', '.join(map(str, pipes))} packets, b from "
        f"3 packets to {CUT_SHARES[-1]:g} mu tau. The simulator's answer is that of most of its cycles.",
        "",
    ]
    shown = []
    for title, chosen in (("all", rows), ("b more than 4 packets from the edge", clear)):
        right = sum(row["cuts"] == round(row["seen"]) for row in chosen)
        shown.append((title, percent(right, len(chosen))))
    lines += [*table(("runs", "number of cuts agrees"), shown), ""]
    shown_errors: list[tuple[object, ...]] = []
    for title, chosen in (("all", rows), ("more than 4 packets from the edge", clear)):
        for key, name in (("paper", "one cut (paper)"), ("error", "losses and second cuts")):
            shown_errors.append((name, title, *spread([row[key] for row in chosen])))
    return lines + table(("throughput", "where", *SPREAD), shown_errors)


def _run(pipe: int, b: int) -> dict[str, Any] | None:
    """One point of the grid; None where the model does not apply."""
    mbps = pipe * 0.24
    one = parse(scenario(mbps, 50, b, GAMMA, 200))
    model = Compound()
    if not model.applies_to(one.path, one.control):
        return None
    answer = model.predict(one.path, one.control)
    found = {name: float(quantity.value) for name, quantity in answer.quantities.items()}
    run = simulate(one)
    cycle_s = float(run.summary["cycle_s"]) if run.summary["cycles"] else None
    return {
        "case": answer.case,
        "margin": answer.margin,
        "linear": linear_share(run, pipe),
        "throughput": found["utilization"] / simulated_utilization(run.summary, mbps) - 1,
        "paper": evaluate(mbps, 50, b, GAMMA)["utilization"] / simulated_utilization(run.summary, mbps) - 1,
        "period": None if cycle_s is None else found["period"] / cycle_s - 1,
    }


def _types(quick: bool) -> list[str]:
    pipes = np.unique(np.round(np.geomspace(120, 2000, 20 if quick else 60)).astype(int))
    rows = []
    for window in ("compound", "compound-draft"):
        same, errors = 0, []
        for pipe in pipes:
            # The draft is a sender of the rfc profile.
            profile = "rfc" if window == "compound-draft" else "ns2"
            one = parse(scenario(float(pipe) * 0.24, 50, 4000, GAMMA, 6, window=window))
            found = Compound().predict(one.path, one.control).quantities
            seen = simulated_oscillation(Sources(), int(pipe), profile=profile, window=window)
            if seen is None:
                continue
            if (seen.rises, seen.falls) == (found["oscillation_m"].value, found["oscillation_n"].value):
                same += 1
            errors += [float(found[name].value) / getattr(seen, name) - 1 for name in ("theta_max", "theta_min")]
        rows.append((window, f"{pipes[0]} to {pipes[-1]}", percent(same, len(pipes)), *spread(errors)))
    return table(("window", "mu tau", "type agrees", *SPREAD), rows)


def m_start(quick: bool) -> list[str]:
    """The first loss of a slow start, and the window when it is detected, over pipes, queues and steps."""
    rows: list[dict[str, Any]] = []
    for slow_start in ("standard", "m-start"):
        for delay_s in (0.02, 0.1) if quick else (0.02, 0.05, 0.1, 0.4):
            for places in (20, 100, 400) if quick else (20, 50, 100, 200, 400, 800):
                rows.append(_start(slow_start, delay_s, places))
    lines = [
        f"{len(rows)} starts at {RATE_BPS / 1e9:g} Gb/s, round trips of 20 to 400 ms, 20 to 800 waiting places, "
        f"packets of {PACKET_BYTES} bytes, no threshold:",
        "",
    ]
    shown = []
    for name in ("standard", "m-start"):
        mine = [row for row in rows if row["slow_start"] == name]
        for key, title in (("time", "time of the first loss"), ("window", "window at its detection")):
            shown.append((name, title, *spread([row[key] for row in mine])))
    return lines + table(("slow start", "quantity", *SPREAD), shown)


def _start(slow_start: str, delay_s: float, places: int) -> dict[str, Any]:
    one = parse(
        {
            "title": slow_start,
            "profile": "ns2",
            "duration_s": 14 * delay_s + 1,
            "taps": [],
            "path": {
                "packet_bytes": PACKET_BYTES,
                "access_rate_bps": 10 * RATE_BPS,
                "nodes": [{"rate_bps": RATE_BPS, "buffer": places, "delay_s": delay_s / 2}],
                "return_delay_s": delay_s / 2,
            },
            "control": {"name": "sack", "slow_start": slow_start, "initial_window": 1, "rto": {"initial_s": 3}},
        }
    )
    found = MStart().predict(one.path, one.control).quantities
    run = simulate(one)
    loss = run.losses.iloc[0]
    window = float(loss["cwnd_before"]) / float(loss["smss"])
    first_drop_s = float(run.drops["time_ns"].iloc[0]) / 1e9
    return {
        "slow_start": slow_start,
        "time": float(found["time_of_first_loss"].value) / first_drop_s - 1,
        "window": float(found["W_detected"].value) / window - 1,
    }
