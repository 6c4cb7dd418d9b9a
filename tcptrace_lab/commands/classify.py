"""Say what a sender's congestion control did: slow starts per cycle, path, losses, and whether theory agrees.

Every connection that carries data gets a verdict; where the capture cannot carry a claim it is "undecided", with the
reason. With --json a list of objects, one for each connection. Exit 1 when --expect names another regime.

    $ tcptrace-lab classify captures/tahoe_small_buffer.pcap.gz
    captures/tahoe_small_buffer.pcap.gz  connection 0
    10.9.1.1:40000 -> 10.9.2.1:5001, captured at the sender
    Tahoe, limited by a 1.5 Mbit/s bottleneck with 8 packets of buffer: overflows it 5 times, triple slow start in
    each cycle
      slow starts  triple (3, 3 per cycle)
      cycles       from s   to s  slow starts           up to  largest window  Mbit/s
                     0.00  33.61            3  loss, loss, 13             109   0.676
                    33.61  60.00            3    loss, 24, 12              81   0.515
      path         round trip 283.2 ms [280.6, 283.2], bottleneck 1.5 Mbit/s [1.494, 1.503], pipe 103.7 packets
                   [102.3, 103.9], buffer 8 packets waiting [7, 12]
      control      reno (confidence 1.00)
      sender       recovers as tahoe, initial window 1
      losses       39 (39 overflow)
      limited by   cwnd 99%, recovery 1%
      theory       small_buffers: double (margin 0.23)
      theory       small_buffers_packets: triple
      theory       m_start: overflow (margin 2.1)
      agreement    agrees
      because      - only reno (reno, counts ACKs) does what was seen; against compound: growth in avoidance: 104.0
                   segments expected, 81.0 seen (6 of 12)
                   - 5 loss events with duplicate ACKs, each followed by a restart from one segment
                   - small_buffers expects double; within the path's bounds also triple
                   - small_buffers_packets expects triple; within the path's bounds also double

    $ tcptrace-lab classify --expect double captures/tahoe_small_buffer.pcap.gz > /dev/null || echo "not double"
    not double
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tcptrace_lab.commands.inputs import HELP, captures

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    from tcptrace_lab.capture import Capture
    from tcptrace_lab.classify.verdict import Verdict

    # A verdict, and the keys that --explain and --simulate add to it.
    Judged = tuple[Verdict, dict[str, Any]]

REGIMES = ("none", "single", "double", "triple", "mixed", "undecided")
CASES = tuple(f"case{number}" for number in range(1, 7))
# More connections than this are one line each.
IN_FULL = 4
SHOWN_CYCLES = 8
PATIENCE_S = 2.0
NOT_KNOWN = "not known"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Captures in, verdicts out."""
    parser.add_argument("captures", metavar="FILE", nargs="+", help=HELP)
    parser.add_argument("--connection", type=int, metavar="N", help="only connection N of each capture")
    parser.add_argument(
        "--expect",
        metavar="WHAT",
        help=f"exit with 1 unless this is seen: {', '.join(REGIMES)}; {CASES[0]} to {CASES[-1]}; or a control",
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help="also the evidence, with packet numbers as Wireshark counts them (JSON: evidence)",
    )
    parser.add_argument(
        "--simulate",
        action="store_true",
        help="also run the same path and control: capture, models and simulator in one table (JSON: simulation)",
    )
    parser.add_argument("--json", action="store_true", help="a JSON list on standard output, one object per connection")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write .json (the list), or .csv, .csv.gz, .parquet (flat)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Classify every file; 1 if `--expect` names another regime, 2 if a file cannot be read."""
    from tcptrace_lab.errors import LabError
    from tcptrace_lab.tables import check_table, flat, write_answer

    if arguments.expect is not None:
        _check_expected(arguments.expect)
    if arguments.output:
        check_table(arguments.output)
    judged: list[Judged] = []
    unread = 0
    files = captures(arguments.captures)
    for file in files:
        try:
            judged.extend(_classify(file, arguments))
        except LabError as error:
            # The other files are worth an answer all the same.
            if len(files) == 1:
                raise
            print(f"tcptrace-lab: {' '.join(str(error).split())}", file=sys.stderr)
            unread += 1
    found = [{**verdict.as_dict(), **more} for verdict, more in judged]
    if arguments.output:
        write_answer(found, flat(found), arguments.output)
    if arguments.json:
        print(json.dumps(found, indent=1, allow_nan=False))
    elif not arguments.output:
        print_verdicts(judged)
    if unread:
        return 2
    return 0 if arguments.expect is None or _is_expected(found, arguments.expect) else 1


def _classify(file: str, arguments: argparse.Namespace) -> list[Judged]:
    """Each verdict with what was asked for beyond it."""
    from functools import partial

    from tcptrace_lab.classify.neighbours import neighbours
    from tcptrace_lab.classify.verdict import classify, judge
    from tcptrace_lab.commands.inputs import opened
    from tcptrace_lab.errors import LabError
    from tcptrace_lab.reconstruct.sender import sender

    capture = opened(file)
    connection = arguments.connection
    if connection is None:
        total = int((capture.columns["bytes"] > 0).sum())
        verdicts = list(_told(classify(capture, file=capture.name), total, capture.name))
    elif not 0 <= connection < len(capture):
        raise LabError(f"{capture.name}: no connection {connection}; it has {len(capture)}")
    else:
        who = sender(capture[connection])
        verdicts = [judge(who, file=capture.name, beside=partial(neighbours, capture, who))]
    more = _more(capture, arguments)
    return [(verdict, more(verdict)) for verdict in verdicts]


def _more(capture: Capture, arguments: argparse.Namespace) -> Callable[[Verdict], dict[str, Any]]:
    """What --explain and --simulate add to a verdict."""
    make: dict[str, Callable[[Verdict], Any]] = {}
    if arguments.explain:
        from tcptrace_lab.classify.explain import explain

        make["evidence"] = lambda verdict: explain(verdict, capture[verdict.who.connection])
    if arguments.simulate:
        from tcptrace_lab.replay.beside import Simulated

        make["simulation"] = Simulated(capture).beside
    return lambda verdict: {name: one(verdict) for name, one in make.items()}


def _told(verdicts: Iterator[Verdict], total: int, file: str) -> Iterator[Verdict]:
    """The same verdicts; work beyond two seconds shows a bar on a terminal's standard error."""
    begun = time.monotonic()
    bar: Progress | None = None
    try:
        for number, verdict in enumerate(verdicts, start=1):
            yield verdict
            if bar is None and sys.stderr.isatty() and time.monotonic() - begun > PATIENCE_S and number < total:
                from rich.console import Console
                from rich.progress import Progress

                bar = Progress(console=Console(stderr=True), transient=True)
                bar.add_task(file.rpartition("/")[2], total=total)
                bar.start()
            if bar is not None:
                bar.update(bar.task_ids[0], completed=number)
    finally:
        if bar is not None:
            bar.stop()


def _check_expected(what: str) -> None:
    from tcptrace_lab.classify.diagnosis import SPELT
    from tcptrace_lab.errors import LabError

    known = (*REGIMES, *CASES, *SPELT)
    if what not in known:
        raise LabError(f"--expect {what}: must be one of {', '.join(known)}")


def _is_expected(found: list[dict[str, Any]], what: str) -> bool:
    """Some connection shows it, and none that can be decided shows another."""
    if what in REGIMES:
        seen = {verdict["slow_starts"]["regime"] for verdict in found}
        return what in seen and not seen - {what, "undecided"}
    if what in CASES:
        cases = {verdict["compound"]["case"] for verdict in found}
        return int(what.removeprefix("case")) in cases and len(cases - {None}) == 1
    names = {verdict["sender_tcp"]["congestion_control"] for verdict in found}
    return what in names and not names - {what, None}


def print_verdicts(judged: list[Judged]) -> None:
    """Each in full; many of them a line each, unless more was asked for."""
    from tcptrace_lab.report import terminal

    console = terminal.console()
    if not judged:
        console.print("no connection carries data")
    elif len(judged) > IN_FULL and not any(more for _, more in judged):
        _print_lines(console, [verdict.as_dict() for verdict, _ in judged])
    else:
        for verdict, more in judged:
            _print_verdict(console, verdict, verdict.as_dict())
            if "evidence" in more:
                _print_evidence(console, more["evidence"])
            if "simulation" in more:
                _print_simulation(console, more["simulation"])


def _print_evidence(console: Console, evidence: list[dict[str, Any]]) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

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
    from rich.padding import Padding
    from rich.table import Table

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


def _print_lines(console: Console, found: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, expand=True)
    several = len({plain["file"] for plain in found}) > 1
    longest = max(len(plain["sender"]) for plain in found)
    widths = {"no": len(str(len(found))) + 1, "sender": longest, "regime": len("undecided")}
    for name in (*(["file"] if several else []), *widths, "per cycle"):
        table.add_column(name, no_wrap=True, min_width=widths.get(name), justify="right" if name == "no" else "left")
    # What is left of the line: -o and --json have all reasons in full.
    table.add_column("because", no_wrap=True, ratio=1)
    for plain in found:
        starts = plain["slow_starts"]
        table.add_row(
            *([plain["file"].rpartition("/")[2]] if several else []),
            str(plain["connection"]),
            plain["sender"],
            starts["regime"],
            _counts(starts["per_cycle"]),
            plain["reasons"][0] if plain["reasons"] else "",
        )
    console.print(table)


def _print_verdict(console: Console, verdict: Verdict, plain: dict[str, Any]) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

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
    grid.add_row("losses", NOT_KNOWN if total is None else f"{total}" + (f" ({causes})" if causes else ""))
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
    from rich.table import Table

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
        table.add_row(f"+ {left}")
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
    return f"{name} {value:.4g} {unit}{'' if low == high == value else bounds}"


def _control(tcp: dict[str, Any]) -> str:
    from tcptrace_lab.classify.identify import open_names

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
