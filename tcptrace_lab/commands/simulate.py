"""Run a scenario and write what its taps saw, and the truth beside it.

    $ tcptrace-lab simulate captures/scenarios/reno_10M.toml --set path.nodes.0.buffer=20 -o reno.pcap \\
          --truth reno.truth.csv
    Reno, 10 Mbit/s
      duration s                  24
      throughput bps              9.622e+06
      throughput pps              801.833
      packets sent                19320
      retransmissions             36
      timeouts                    0
      losses                      9
      drops                       36
      drops per node              36
      utilization                 0.963904
      backlog packets             8.32028
      cycles                      7
      slow starts per cycle       0
      slow starts mean            0
      cycle s                     2.9484
      throughput full cycles pps  806.878
      wrote reno.pcap
      wrote reno.truth.csv
      wrote reno.drops.csv
      wrote reno.queue.csv

Editors complete a scenario's keys from its schema: `tcptrace-lab simulate --schema > scenario.schema.json`, and
`#:schema scenario.schema.json` as the file's first line.

A run begins at 1000000000 s (2001-09-09) in its files. The truth has the columns of the kernel captures' truth: ev S,
the sender's variables after a change; ev C, a loss noticed. Of several --tap each has its own file: reno.node0.in.pcap.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

# No packet is longer.
WHOLE = 65535


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`simulate SCENARIO -o run.pcap --truth run.truth.csv`."""
    from tcptrace_lab.controls import described

    parser.epilog = described()
    parser.add_argument("scenario", nargs="?", help="scenario file (TOML)")
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of scenario files, for editors")
    parser.add_argument("-o", "--output", metavar="FILE", help="capture: .pcap (nanoseconds) or .pcapng")
    parser.add_argument("--truth", metavar="FILE", help="truth side-car: .parquet, .csv, .csv.gz or .json")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a key")
    parser.add_argument("--tap", action="append", metavar="PLACE", help="sender, receiver, node0.in, node0.out, ...")
    parser.add_argument("--snaplen", type=int, metavar="BYTES", help="bytes kept of each packet")
    parser.add_argument("--headers-only", action="store_true", help="capture no payload")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Simulate, write, print."""
    if arguments.schema:
        from tcptrace_lab.scenario import SCHEMA

        print(json.dumps(SCHEMA, indent=1))
        return 0
    from dataclasses import replace

    from tcptrace_lab.errors import LabError
    from tcptrace_lab.scenario_file import load
    from tcptrace_lab.simulate import checked_capture
    from tcptrace_lab.simulate_to_files import simulate_to_files
    from tcptrace_lab.tables import check_output, suffix_of

    if arguments.scenario is None:
        raise LabError("simulate: which scenario? (a TOML file; --schema says what one may hold)")
    for name in ("tap", "snaplen", "headers_only"):
        if getattr(arguments, name) and not arguments.output:
            raise LabError(f"--{name.replace('_', '-')}: only with -o, the capture's file")
    scenario = load(arguments.scenario, overrides=arguments.set)
    if arguments.tap:
        scenario = replace(scenario, taps=tuple(arguments.tap))
    # A wrong name is found before the run, not after it.
    if arguments.output:
        checked_capture(arguments.output)
    if arguments.truth:
        suffix_of(arguments.truth)
    snaplen = WHOLE if arguments.snaplen is None else arguments.snaplen
    if snaplen < 1:
        raise LabError(f"--snaplen {snaplen}: must be > 0")
    for file in (arguments.output, arguments.truth):
        if file:
            check_output(file)
    if not arguments.output:
        scenario = replace(scenario, taps=())
    done = simulate_to_files(
        scenario,
        captures=[_of_tap(Path(arguments.output), tap, len(scenario.taps)) for tap in scenario.taps],
        truth=arguments.truth,
        snaplen=snaplen,
        payload=not arguments.headers_only,
    )
    if arguments.json:
        # Not a number: there was no complete cycle. JSON has null for that.
        summary = {name: None if _is_nan(value) else value for name, value in done.summary.items()}
        print(json.dumps({**summary, "files": [str(file) for file in done.files]}, indent=2))
    else:
        print(_text(scenario.title, done.summary, done.files))
    return 0


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _of_tap(output: Path, tap: str, count: int) -> Path:
    """run.pcap for the only tap; run.sender.pcap, run.node0.in.pcap for several."""
    return output if count == 1 else output.with_name(f"{output.stem}.{tap}{output.suffix}")


def _text(title: str, summary: dict[str, object], written: list[Path]) -> str:
    rows = [(name.replace("_", " "), value) for name, value in summary.items()]
    width = max(len(name) for name, _ in rows)
    lines = [title] if title else []
    lines += [
        f"  {name:{width}}  {value:.6g}"
        if isinstance(value, float) and not _is_nan(value)
        else f"  {name:{width}}  {'-' if value is None or _is_nan(value) else value}"
        for name, value in rows
    ]
    return "\n".join(lines + [f"  wrote {file}" for file in written])
