"""Patel & Ganatra 2017, TCP M-Start: Tables 1-4 and Figures 1-7 as far as the text lets one rebuild them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from tcptrace_lab.models import m_start as model
from tcptrace_lab.models import m_start_tables as tables
from tcptrace_lab.reproduce.m_start_figures import figures
from tcptrace_lab.reproduce.m_start_runs import PACKET_BITS, SCHEMES, SECONDS, scenario
from tcptrace_lab.reproduce.paper import Comparison, Reproduction, Row, Sources, Table

MBIT = 1e6
# Queue limits of the reference runs (packets in the node); the paper names none.
LIMITS = (50, 100, 250, 500, 1000)
# Figure 4's links are 1, 200, 200 and 1 ms; the printed times fit half of that.
ROUTER_MS = (200, 100)


def reproduce(sources: Sources) -> Reproduction:
    """Everything of the paper that its text lets one compute or simulate."""
    runs = {scheme: sources.windows(scenario(scheme, 100, 100, 50)) for scheme in SCHEMES}
    return Reproduction(
        paper="002",
        title="Patel & Ganatra 2017, TCP M-Start",
        tables=(_table_1_2("table_1", 0), _table_1_2("table_2", 10), _table_3(), _table_4(sources), _printed(),
                _saturation(sources), _buffers()),
        printed=tuple(_compared()),
        figures=figures(sources, runs),
        notes=(
            "The images are not in the text: figures are drawn from captions, rules and tables. Figures 1 and 2 have "
            "no numbers in the text, so their axes are ours.",
            "Table 4 and the saturation at 1992 packets cannot be reproduced: queue limits, initial window, time "
            "origin and what was counted are not given, and the averages exceed the links (models/ERRATA.md).",
        ),
    )  # fmt: skip


def _compared() -> Iterator[Comparison]:
    """Every printed number of tables and text, once."""
    yield from _compared_1_2(1, tables.TABLE_1_PRINTED, 0)
    yield from _compared_1_2(2, tables.TABLE_2_PRINTED, 10)
    for scheme, step in SCHEMES.items():
        both = zip(tables.TABLE_3_PRINTED[scheme], tables.end_of_iterations(step), strict=True)
        for iteration, (printed, (window, queue, total, eight)) in enumerate(both):
            why = tables.TABLE_3_WHY.get((scheme, iteration), "")
            cells = zip(("window", "queue", "kbit/s"), printed, (window, queue, total if step else eight), strict=True)
            for name, wanted, ours in cells:
                yield _comparison("Table 3", f"{scheme}, iteration {iteration}: {name}", wanted, ours, why)
    for scheme in SCHEMES:
        yield from _compared_4(scheme)
    for claim in tables.claims():
        if not claim.is_again:
            yield Comparison(
                where=claim.where,
                what=claim.text,
                printed=claim.printed,
                ours=round(claim.ours, max(claim.digits, 1)),
                agrees=claim.is_reproduced,
                why="" if claim.is_reproduced else claim.why,
            )


def _compared_1_2(number: int, printed: tuple[tables.Row, ...], step: int) -> Iterator[Comparison]:
    ours = {(row.cycle, row.m): row for row in tables.derived(5, step)}
    for i, row in enumerate(printed):
        place = (row.cycle, row.m)
        m_printed = tables.TABLE_2_PRINTED_M.get(place, row.m) if step else row.m
        kbit = tables.TABLE_2_PRINTED_THROUGHPUT[i] if step else row.throughput
        cells = [("m", m_printed, row.m), ("kbit", kbit, ours[place].throughput)]
        cells += [(name, getattr(row, cell), getattr(ours[place], cell)) for cell, name in CELLS.items()]
        why = tables.TABLE_2_WHY.get(place, tables.DRIFT)
        for name, wanted, found in cells:
            yield _comparison(f"Table {number}", f"cycle {row.cycle}, ACK {row.m} of it: {name}", wanted, found, why)


def _compared_4(scheme: str) -> Iterator[Comparison]:
    """The column per second beside the increment of the averages over t."""
    shares = tables.table_4_increment_over_t(scheme)
    for second, ((_, per_second), share) in enumerate(
        zip(tables.TABLE_4_PRINTED[scheme], shares, strict=True), start=1
    ):
        yield Comparison(
            where="Table 4",
            what=f"{scheme}, second {second}: per second",
            printed=per_second,
            ours=round(share, 2),
            # The averages are rounded to 1: a share is known to (2 t - 1) / (2 t).
            agrees=abs(share - per_second) <= 0.5 + (2 * second - 1) / (2 * second),
            why="no increment of the averages",
        )


# Tables 1 and 2's columns by the names of `tables.Row`.
CELLS = {"acked": "acked", "window": "window", "first_released": "from", "last_released": "to", "queue": "queue"}


def _comparison(where: str, what: str, printed: int, ours: int, why: str) -> Comparison:
    agrees = printed == ours
    return Comparison(where=where, what=what, printed=printed, ours=ours, agrees=agrees, why="" if agrees else why)


def _table_1_2(name: str, step: int) -> Table:
    """Every printed row beside the derived one; cells that disagree are named."""
    printed = tables.TABLE_1_PRINTED if step == 0 else tables.TABLE_2_PRINTED
    ours = {(row.cycle, row.m): row for row in tables.derived(5, step)}
    cells = ("acked", "window", "first_released", "last_released", "queue", "throughput")
    rows: list[Row] = []
    for row in printed:
        other = ours[row.cycle, row.m]
        wrong = [cell for cell in cells if getattr(row, cell) != getattr(other, cell)]
        m_printed = tables.TABLE_2_PRINTED_M.get((row.cycle, row.m), row.m) if step else row.m
        wrong += [] if m_printed == row.m else ["m"]
        rows.append(
            (
                row.cycle,
                m_printed,
                row.m,
                *(getattr(line, cell) for cell in cells for line in (row, other)),
                " ".join(wrong),
            )
        )
    columns = ("cycle", "m", "m ours", "acked", "ours", "window", "ours ", "from", "ours  ", "to", "ours   ", "queue",
               "ours    ", "kbit", "ours     ", "disagree")  # fmt: skip
    right = sum(not row[-1] for row in rows)
    return Table(
        name=name,
        title=f"Table {name[-1]}: {'M-Start' if step else 'slow start'}, ACK m of RTT cycle n: printed, then ours",
        columns=columns,
        rows=tuple(rows),
        notes=(f"{right} of {len(rows)} printed rows agree in every cell",),
    )


def _table_3() -> Table:
    rows: list[Row] = []
    for scheme, step in SCHEMES.items():
        both = zip(tables.TABLE_3_PRINTED[scheme], tables.end_of_iterations(step), strict=True)
        for iteration, (printed, ours) in enumerate(both):
            window, queue, total, eight = ours
            throughput = total if step else eight
            agrees = printed == (window, queue, throughput)
            rows.append((scheme, iteration, printed[0], window, printed[1], queue, printed[2], total, eight, agrees))
    return Table(
        name="table_3",
        title="Table 3: end of each iteration, printed and ours",
        columns=("scheme", "iteration", "window", "ours", "queue", "ours ", "kbit/s", "8 x sum of queues", "8 x window",
                 "right"),
        rows=tuple(rows),
        notes=("throughput: M-Start's column sums the queues, the traditional one's is the window",),
    )  # fmt: skip


def _table_4(sources: Sources) -> Table:
    """Printed, what the columns are, and runs of the simulator and ns-2 on the same links."""
    ns2 = {int(row["t_s"]): row for row in sources.rows("mstart_cubic_per_second.csv", config="rtt404_q100_iw1")}
    simulated = {scheme: _per_second(sources, scheme) for scheme in SCHEMES}
    rows: list[Row] = []
    for scheme in SCHEMES:
        shares = tables.table_4_increment_over_t(scheme)
        for second, (average, per_second) in enumerate(tables.TABLE_4_PRINTED[scheme], start=1):
            share = shares[second - 1]
            run = simulated[scheme]
            mbps_ns2 = float(ns2[second]["throughput_last_link_Mbps"]) if ns2 and scheme == "traditional" else None
            rows.append(
                (scheme, second, average, per_second, round(share, 2), round(share * second, 1),
                 round(share * second / 4, 2), mbps_ns2, None if run is None else round(run[second - 1], 4))
            )  # fmt: skip
    return Table(
        name="table_4",
        title="Table 4: throughput (Mb/s) per second, and what its columns are",
        columns=("scheme", "s", "average", "per second", "increment / t", "increment", "increment / 4 links", "ns-2",
                 "simulator"),
        rows=tuple(rows),
        notes=("ns-2, simulator: queues of 100, 100 ms router links; ns-2 counts what the last link carries, the "
               "simulator what is acknowledged.",),
    )  # fmt: skip


def _per_second(sources: Sources, scheme: str) -> list[float] | None:
    """Mb/s acknowledged in each second."""
    run = sources.run(scenario(scheme, 100, 100, SECONDS + 1))
    if run is None:
        return None
    rows = run.windows
    at, acked = rows["time_ns"].to_numpy() / 1e9, (rows["snd_una"] / rows["smss"]).to_numpy()
    reached = [
        float(acked[max(int(np.searchsorted(at, second, side="right")) - 1, 0)]) for second in range(SECONDS + 1)
    ]
    return [(now - before) * PACKET_BITS / MBIT for before, now in itertools.pairwise(reached)]


def _printed() -> Table:
    rows = tuple(
        (claim.where, claim.text, claim.printed, round(claim.ours, max(claim.digits, 1)), claim.is_reproduced)
        for claim in tables.claims()
    )
    return Table(
        name="printed",
        title="Numbers of the text",
        columns=("section", "what", "printed", "ours", "agrees"),
        rows=rows,
    )


def _saturation(sources: Sources) -> Table:
    """Section 6.2's saturation: first loss and largest window over queue limits and delays."""
    rows: list[Row] = []
    for router_ms in ROUTER_MS:
        for limit in LIMITS:
            # The reference runs over 200 ms links start with 2 packets, those over 100 ms with 1.
            first = 2 if router_ms == 200 else 1
            config = f"rtt{4 * router_ms + 4}_q{limit}_iw{first}"
            ns2 = sources.rows("mstart_cubic_summary.csv", config=config)
            for scheme, step in SCHEMES.items():
                found = model.MStart().evaluate(
                    buffer=limit - 1, mu=1e9 / PACKET_BITS, round_trip=(4 * router_ms + 4) / 1e3, step=step,
                    zero_step=0, initial_window=first,
                )  # fmt: skip
                run = sources.windows(scenario(scheme, limit, router_ms, 12, initial_window=first))
                other = ns2[0] if ns2 and step == 0 else None
                peak = None if run is None else _first_peak(*run)
                rows.append(
                    (
                        scheme,
                        router_ms,
                        limit,
                        round(float(found["time_of_first_loss"].value), 3),
                        round(float(other["first_drop_t_s"]), 3) if other else None,
                        float(found["W_detected"].value),
                        float(other["max_cwnd_first_epoch_pkts"]) if other else None,
                        None if peak is None else round(peak[1]),
                        None if peak is None else round(peak[0], 3),
                    )
                )
    at_model, at_run = 5, 7
    off = [abs(float(str(row[at_model])) / float(str(row[at_run])) - 1) for row in rows if row[at_run] is not None]
    note = f"W as the loss is detected, model against simulator: {100 * max(off):.1f} % apart at most" if off else ""
    return Table(
        name="saturation",
        title="Section 6.2: printed 454 packets at 4.10101 s (traditional), 1992 at 2.10097 s (M-Start)",
        columns=("scheme", "router ms", "queue", "first loss", "ns-2", "W model", "W ns-2", "W simulator", "at s"),
        rows=tuple(rows),
        notes=(note,) if note else (),
    )


def _first_peak(at: np.ndarray, window: np.ndarray) -> tuple[float, float]:
    """When the window is first cut, and what it was."""
    at, window = np.asarray(at), np.asarray(window)
    falls = np.flatnonzero(np.diff(window) < -0.5)
    first = int(falls[0]) if falls.size else window.size - 1
    return float(at[first]), float(window[first])


def _buffers() -> Table:
    """Section 3's buffer condition, also for M-Start's steps."""
    rows: list[Row] = []
    for name, step, zero_step in (("traditional", 0, 0), ("m-start", 10, 0), ("m-start, zero step", 10, 1)):
        for pipe in (100.0, 1000.0, 50_500.0):
            share = float(model.buffer_needed(step, zero_step))
            places = np.arange(1.0, 2 * pipe)
            peak = model.run_until((pipe + places) / 2, np.inf, step, zero_step)["queue_peak"]
            # The last buffer that overflows, and one more.
            exact = float(places[peak > places].max()) + 1
            rows.append((name, pipe, float(model.growth(step, zero_step)), round(share * pipe, 1), exact))
    return Table(
        name="buffers",
        title="B_s from which slow start up to (cT + B_s)/2 does not overflow: printed cT/3 for the traditional start",
        columns=("scheme", "cT", "growth", "continuous", "by the recurrence"),
        rows=tuple(rows),
    )
