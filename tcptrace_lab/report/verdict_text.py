"""Verdicts as a person reads them: in full, or a line each where there are many."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tcptrace_lab.classify.control.answer.identified import open_names
from tcptrace_lab.report import terminal

if TYPE_CHECKING:
    from rich.console import Console

    from tcptrace_lab.classify.verdict import Verdict

    # A verdict, and the keys that --explain and --simulate add to it.
    Judged = tuple[Verdict, dict[str, Any]]

# More connections than this are one line each.
IN_FULL = 4
SHOWN_CYCLES = 8
NOT_KNOWN = "not known"


class Line(NamedTuple):
    """What one line says of a verdict."""

    file: str
    connection: int
    sender: str
    regime: str
    per_cycle: str
    sentence: str


def line_of(plain: dict[str, Any]) -> Line:
    """Of a verdict's keys."""
    starts = plain["slow_starts"]
    return Line(
        file=plain["file"],
        connection=plain["connection"],
        sender=plain["sender"],
        regime=starts["regime"],
        per_cycle=_counts(starts["per_cycle"]),
        sentence=plain["diagnosis"],
    )


def print_verdicts(judged: list[Judged]) -> None:
    """Each in full; many of them a line each, unless more was asked for."""
    if not judged or (len(judged) > IN_FULL and not any(more for _, more in judged)):
        print_lines([line_of(verdict.as_dict()) for verdict, _ in judged])
        return
    console = terminal.console()
    for verdict, more in judged:
        _print_verdict(console, verdict, verdict.as_dict())
        if "evidence" in more:
            _print_evidence(console, more["evidence"])
        if "simulation" in more:
            _print_simulation(console, more["simulation"])


def _print_evidence(console: Console, evidence: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="cyan")
    table.add_column("", no_wrap=True)
    table.add_column("time s", justify="right", no_wrap=True)
    table.add_column("packet", justify="right", no_wrap=True)
    table.add_column("evidence")
    for row in evidence:
        time_s = "" if row["time_s"] is None else f"{row['time_s']:.6f}"
        frame = "" if row["frame"] is None else str(row["frame"])
        table.add_row(row["about"].replace("_", " "), time_s, frame, Text(row["says"]))
    console.print(Padding(table, (0, 0, 1, 2)))


def _print_simulation(console: Console, simulation: dict[str, Any]) -> None:
    if simulation["refused"]:
        console.print(f"  not simulated: {simulation['refused']}\n")
        return
    models = list(dict.fromkeys(model for row in simulation["table"] for model in row["models"]))
    table = Table(box=None, pad_edge=False, header_style="cyan", title_justify="left")
    for name in (f"sent by {simulation['control']}", "capture", *models, "simulator"):
        table.add_column(name, justify="left" if name.startswith("sent by") else "right")
    for row in simulation["table"]:
        unit = f", {row['unit']}" if row["unit"] not in (None, "1") else ""
        cells = (row["capture"], *(row["models"].get(model) for model in models), row["simulator"])
        table.add_row(f"{row['quantity']}{unit}", *(_figure(cell) for cell in cells))
    console.print(Padding(table, (0, 0, 0, 2)))
    for note in simulation["notes"]:
        console.print(f"  {note}")
    console.print()


def _figure(cell: float | str | None) -> str:
    return "" if cell is None else cell if isinstance(cell, str) else f"{cell:.4g}"


def print_lines(lines: Sequence[Line]) -> None:
    """A line each."""
    console = terminal.console(width=terminal.UNBOUNDED)
    if not lines:
        console.print("no connection carries data")
        return
    table = Table(box=None, pad_edge=False, expand=True)
    several = len({line.file for line in lines}) > 1
    longest = max(len(line.sender) for line in lines)
    widths = {"no": len(str(len(lines))) + 1, "sender": longest, "regime": len("undecided")}
    for name in (*(["file"] if several else []), *widths, "per cycle"):
        table.add_column(name, no_wrap=True, min_width=widths.get(name), justify="right" if name == "no" else "left")
    # What is left of a terminal's line; in a pipe, -o and --json in full.
    table.add_column("in a sentence", no_wrap=True, ratio=1)
    for line in lines:
        table.add_row(
            *([line.file.rpartition("/")[2]] if several else []),
            str(line.connection),
            line.sender,
            line.regime,
            line.per_cycle,
            Text(line.sentence),
        )
    console.print(table)


def _print_verdict(console: Console, verdict: Verdict, plain: dict[str, Any]) -> None:
    starts, path = plain["slow_starts"], plain["path"]
    where = {"sender": "captured at the sender", "receiver": "captured at the receiver"}
    tap = where.get(plain["vantage"], f"capture point {plain['vantage']}")
    console.print(Text(f"{plain['file']}  connection {plain['connection']}", style="bold"))
    console.print(Text(f"{plain['sender']} -> {plain['receiver']}, {tap}"))
    console.print(Text(plain["diagnosis"], style="bold"))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column()
    per_cycle = _counts(starts["per_cycle"])
    grid.add_row(
        "slow starts", Text(f"{starts['regime']}" + (f" ({per_cycle} per cycle)" if per_cycle else ""), "bold")
    )
    if starts["cycles"]:
        grid.add_row("cycles", _cycles(verdict))
    grid.add_row("path", _path(path))
    if plain["sender_tcp"]["candidates"]:
        grid.add_row("control", _control(plain["sender_tcp"]))
    if plain["sender_tcp"]["recovery"]:
        grid.add_row("sender", f"recovers as {plain['sender_tcp']['recovery']}{_initial(plain)}")
    causes = ", ".join(f"{count} {name}" for name, count in plain["losses"]["by_cause"].items())
    total = plain["losses"]["total"]
    losses = NOT_KNOWN if total is None else f"{total}" + (f" ({causes})" if causes else "")
    unseen = plain["losses"]["possible_unseen"]
    grid.add_row("losses", f"{losses}, up to {unseen} more may not be seen" if total is not None and unseen else losses)
    grid.add_row(
        "limited by",
        ", ".join(f"{name} {share:.0%}" for name, share in plain["limits"].items() if share >= 0.005) or NOT_KNOWN,
    )
    for prediction in plain["predictions"]:
        for line in _theory(prediction):
            grid.add_row("theory", line)
    grid.add_row("agreement", plain["agreement"].replace("_", " "))
    grid.add_row("because", "\n".join(f"- {reason}" for reason in plain["reasons"]))
    console.print(Padding(grid, (0, 0, 1, 2)))


def _cycles(verdict: Verdict) -> Table:
    seen = verdict.seen
    smss = seen.timeline.smss
    table = Table(box=None, pad_edge=False, header_style="")
    for name in ("from s", "to s", "slow starts", "up to", "largest window", "Mbit/s"):
        table.add_column(name, justify="right")
    # A slow start that nothing bounds ends with a loss, or with the data.
    unbounded = "loss" if seen.episodes else "-"
    for cycle in verdict.slow_starts.cycles[:SHOWN_CYCLES]:
        table.add_row(
            f"{seen.timeline.seconds(cycle.start_ns):.2f}",
            f"{seen.timeline.seconds(cycle.end_ns):.2f}",
            str(cycle.slow_starts),
            ", ".join(unbounded if at is None else f"{at / smss:.0f}" for at in cycle.ssthresh),
            f"{cycle.w_max / smss:.0f}",
            "?" if math.isnan(cycle.throughput) else f"{cycle.throughput / 1e6:.3g}",
        )
    left = len(verdict.slow_starts.cycles) - SHOWN_CYCLES
    if left > 0:
        table.add_row(f"{left} more")
    return table


def _path(path: dict[str, Any]) -> str:
    words = [
        _within(path["base_rtt_s"], "round trip", 1e3, "ms"),
        _within(path["bottleneck_bps"], "bottleneck", 1e-6, "Mbit/s"),
        _within(path["bdp_packets"], "pipe", 1, "packets"),
        _within(path["buffer_packets"], "buffer", 1, "packets waiting"),
    ]
    return ", ".join(words)


def _within(estimate: dict[str, Any], name: str, factor: float, unit: str) -> str:
    value, low, high = (None if estimate[key] is None else estimate[key] * factor for key in ("value", "low", "high"))
    if value is None:
        return f"{name} unknown" + (f" (at least {low:.4g} {unit})" if low else "")
    bounds = f" [{'?' if low is None else f'{low:.4g}'}, {'?' if high is None else f'{high:.4g}'}]"
    if between := estimate.get("between"):
        slowest, fastest = (number * factor for number in between)
        return f"{name} between {slowest:.4g} and {fastest:.4g} {unit} (median {value:.4g})"
    return f"{name} {value:.4g} {unit}{'' if low == high == value else bounds}"


def _control(tcp: dict[str, Any]) -> str:
    left = open_names(tcp["candidates"])
    if tcp["congestion_control"] is not None:
        return f"{tcp['congestion_control']} (confidence {tcp['confidence']:.2f})"
    if left == ["unknown"]:
        return "none of the table does what was seen, nor can this capture tell how it differs"
    if len(left) == 1:
        return f"not named: nearest is {left[0]}, the only one not refuted"
    return f"one of {', '.join(left)}"


def _theory(prediction: dict[str, Any]) -> Iterator[str]:
    """What a model decides, then each of its numbers that was seen as well."""
    model, case = prediction["model"], prediction["case"]
    kind = f"case {case}" if case is not None else prediction["regime"]
    if kind:
        margin = "" if prediction["margin"] is None else f" (margin {prediction['margin']:.2g})"
        yield f"{model}: {kind}{margin}"
    for name, quantity in prediction["quantities"].items():
        # Shares and counts are in the regime, or in --json.
        if quantity["observed"] is None or quantity["value"] is None or quantity["unit"] == "1":
            continue
        within = f"{quantity['low']:.4g}-{quantity['high']:.4g}"
        yield f"{model}: {name} {quantity['value']:.4g} {quantity['unit']} ({within}), {quantity['observed']:.4g} seen"


def _initial(plain: dict[str, Any]) -> str:
    segments = plain["initial_window"]["segments"]
    m_start = ", M-Start" if plain["m_start"]["detected"] else ""
    return f", initial window {segments}{m_start}" if segments is not None else m_start


def _counts(per_cycle: list[int]) -> str:
    """Runs are shortened: "1, then 9 x 0"."""
    runs: list[tuple[int, int]] = []
    for count in per_cycle:
        if runs and runs[-1][0] == count:
            runs[-1] = (count, runs[-1][1] + 1)
        else:
            runs.append((count, 1))
    return ", ".join(
        f"{length} x {count}" if length > 3 else ", ".join([str(count)] * length) for count, length in runs
    )
