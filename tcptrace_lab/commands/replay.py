"""Replay a capture: through another path, sent again by another control, as it happened, or on a wire.

THROUGH ANOTHER PATH (open loop): every recorded packet enters when it was recorded. Would this buffer have dropped it?

    $ tcptrace-lab replay captures/two_reno.pcap.gz --through captures/scenarios/reno_10M.toml
    captures/two_reno.pcap.gz through captures/scenarios/reno_10M.toml, open loop
      carried     18549 of 18549 packets
      there       11854 packets, 69 dropped (69 overflow); delay 43.5 ms (half), 59.8 ms (95 %), 68.9 ms (most)
      back        6695 packets, 0 dropped; delay 20.0 ms (half), 20.0 ms (95 %), 20.0 ms (most)
      node 0      69 of 11854 dropped, 17.4 packets waiting on average, 40 at most
      cannot know
        - the senders were not asked: each packet enters when it was recorded, whatever became of those before it
        - 69 data packets are dropped here: their senders would have sent them again and slowed down, so what
          follows the first drop shows the recording's load, not this path's
        - 123 retransmissions of the recording are carried too, though what they repair may not be lost here

    $ tcptrace-lab replay captures/two_reno.pcap.gz --through captures/scenarios/reno_10M.toml \\
          --over path.nodes.0.buffer=10:40:10
     path.nodes.0.buffer  packets  drops  drop_share drops_per_node  delay_p50_s  delay_p95_s  delay_max_s
                      10    11854    344     0.02902            344      0.03142       0.0328       0.0332
                      20    11854    199     0.01679            199      0.03768      0.04476       0.0452
                      30    11854     98    0.008267             98      0.04122      0.05551      0.05706
                      40    11854     69    0.005821             69      0.04345      0.05983      0.06888

SENT AGAIN (closed loop): what the application wrote is sent by a simulated sender. What if the buffer had held 12?

    $ tcptrace-lab replay captures/tahoe_small_buffer.pcap.gz --as-found --set path.nodes.0.buffer=12
    captures/tahoe_small_buffer.pcap.gz sent again over the path that it shows
      path        1.5 Mbit/s, buffer 12 packets; round trip 283 ms, packets of 512 bytes
      connection 0  10.9.1.1:40000 -> 10.9.2.1:5001
        sender    tahoe; one write of all its bytes: the sender never ran out of data; an ACK for each segment;
                  pauses of a host: 1, 20.8 ms at most
                                          then             now
        completion time               59.996 s        48.348 s
        goodput                  0.6051 Mbit/s   0.7509 Mbit/s
        loss events                          5               3
        segments lost                       39              35
        timeouts                             0               0
        slow starts per cycle             3, 3            2, 2
        regime                          triple          double
        round trip, half              283.6 ms        285.9 ms
        round trip, most              308.7 ms        315.9 ms
        largest window                     109             116
        limited by                    cwnd 99%       cwnd 100%

AS IT HAPPENED: --watch, with --speed, --step, --until. ON A WIRE: --interface IF --yes.

docs/replay.md says what each can answer, how well, and what other tools can.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
from typing import TYPE_CHECKING, Any

from tcptrace_lab.commands.watch import add_pace

if TYPE_CHECKING:
    from tcptrace_lab.capture import Capture
    from tcptrace_lab.scenario import Scenario

# What fits a terminal of an open loop's row.
SHOWN = ("packets", "drops", "drop_share", "drops_per_node", "delay_p50_s", "delay_p95_s", "delay_max_s")

# The same of a closed loop's.
AGAIN_SHOWN = ("connection", "completion_s", "goodput_bps", "loss_events", "lost_segments", "regime", "slow_starts")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One capture, and what becomes of it."""
    parser.add_argument("capture", metavar="CAPTURE", help="pcap or pcapng, also gzip or zstd; - for standard input")
    path = parser.add_argument_group("through another path (open loop)")
    path.add_argument("--through", metavar="SCENARIO", help="the path of this scenario file (TOML)")
    path.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a key of the scenario")
    path.add_argument("--over", action="append", default=[], metavar="KEY=VALUES", help="swept key, as in sweep: 5:80")
    path.add_argument(
        "--near", action="append", default=[], metavar="HOST", help="a host before the path (default: the data senders)"
    )
    path.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="what comes out (.pcap, .pcapng; beside it NAME.drops, NAME.queue, NAME.delays); with --over the rows",
    )
    path.add_argument("--side-cars", default=".csv", metavar="SUFFIX", help=".csv, .csv.gz, .parquet or .json")
    again = parser.add_argument_group("sent again by a simulated sender (closed loop)")
    again.add_argument("--as-found", action="store_true", help="path, control and application as the capture shows")
    again.add_argument("--control", metavar="NAME", help="this control instead; with --through over that path")
    watch = parser.add_argument_group("as it happened")
    watch.add_argument(
        "--watch", action="store_true", help="connections, windows and events on the capture's own clock"
    )
    add_pace(watch)
    wire = parser.add_argument_group("on a wire")
    wire.add_argument("--interface", metavar="IF", help="send the packets from this interface at their recorded times")
    wire.add_argument("--yes", action="store_true", help="send what was shown")
    wire.add_argument("--anywhere", action="store_true", help="also from an interface with a default route")
    wire.add_argument("--rewrite", action="append", default=[], metavar="OLD=NEW", help="another address")
    wire.add_argument("--sender", metavar="NAME", help="tcpreplay or scapy (default: the first that is there)")
    parser.add_argument("--figure", metavar="FILE", help="draw it: .png, .svg or .pdf")


def run(arguments: argparse.Namespace) -> int:
    """Replay in the way that was asked for."""
    from tcptrace_lab.errors import LabError

    if arguments.interface:
        if arguments.through or arguments.as_found or arguments.control or arguments.watch:
            raise LabError(
                "--interface: sends the packets as recorded, not with --through, --as-found, --control, --watch"
            )
        return _on_the_wire(arguments)
    if arguments.watch and (arguments.through or arguments.as_found or arguments.control):
        raise LabError("--watch: shows the packets as recorded, not with --through, --as-found, --control")
    if arguments.watch or arguments.step or arguments.speed or arguments.until:
        return _watch(arguments)
    if arguments.as_found or arguments.control:
        return _closed_loop(arguments)
    if arguments.through:
        return _open_loop(arguments)
    raise LabError(
        f"{arguments.capture}: say how to replay it: --watch, --through SCENARIO, --as-found or --control NAME"
    )


def _on_the_wire(arguments: argparse.Namespace) -> int:
    from tcptrace_lab import read
    from tcptrace_lab.errors import LabError
    from tcptrace_lab.numbers import counted
    from tcptrace_lab.replay.wire import plan, send

    speed = 1.0 if arguments.speed is None else arguments.speed
    if speed <= 0:
        raise LabError(f"--speed {speed:g}: must be above 0")
    capture = read(arguments.capture)
    chosen, frames = plan(
        capture,
        arguments.interface,
        rewrite=arguments.rewrite,
        sender=arguments.sender,
        anywhere=arguments.anywhere,
    )
    if not arguments.json:
        print("\n".join(chosen.lines()))
    if not arguments.yes:
        raise LabError("nothing was sent: --yes sends it")
    sent = send(chosen, frames, speed=speed)
    if arguments.json:
        print(json.dumps(_plain({**dataclasses.asdict(chosen), **dataclasses.asdict(sent)}), indent=1))
        return 0
    print(f"  sent       {counted(sent.packets, 'packet')} in {sent.duration_s:.3f} s")
    if math.isnan(sent.error_median_s):
        print("  timing     not known: not all packets were seen to leave")
    else:
        shown = (sent.error_median_s, sent.error_p99_s, sent.error_max_s)
        half, most, worst = (f"{1e6 * error:.0f} us" for error in shown)
        print(f"  timing     off by {half} (half of the packets), {most} (99 %), {worst} (most)")
    return 0


def _watch(arguments: argparse.Namespace) -> int:
    from tcptrace_lab.commands.watch import follow, paced
    from tcptrace_lab.replay.watch import watch_files

    watcher = watch_files([arguments.capture], detail=arguments.capture == "-" and not arguments.no_verdicts)
    if arguments.speed is None and not arguments.json and not arguments.until and sys.stdout.isatty():
        # For people: as it happened.
        arguments.speed = 1.0
    again = None if arguments.capture == "-" else arguments.capture
    return follow(arguments, paced(arguments, watcher, arguments.capture), again)


def _open_loop(arguments: argparse.Namespace) -> int:
    from tcptrace_lab.commands.analyze import Progress
    from tcptrace_lab.commands.inputs import opened
    from tcptrace_lab.commands.plot import check_picture
    from tcptrace_lab.errors import LabError, ScenarioError
    from tcptrace_lab.replay.open_loop import check_side_cars, check_suffix, through
    from tcptrace_lab.scenario_file import parse, set_key, split_override, table_of
    from tcptrace_lab.tables import check_output
    from tcptrace_lab.whole_files import together

    # What is wrong with the names is found before the run, not after it.
    if arguments.figure:
        check_picture(arguments.figure)
        if not arguments.over:
            raise LabError("--figure: open loop draws a sweep: give --over KEY=VALUES")
    table = table_of(arguments.through)
    for override in arguments.set:
        table = set_key(table, *split_override(override))
    if not arguments.over:
        check_side_cars(arguments.side_cars)
        if arguments.output:
            check_suffix(arguments.output)
            check_output(arguments.output)
    try:
        scenario = parse(table)
        capture = opened(arguments.capture)
        if arguments.over:
            return _open_loop_sweep(arguments, capture, table)
    except ScenarioError as error:
        raise ScenarioError(f"{arguments.through}: {error}") from error
    with Progress(arguments.capture) as progress:
        done = through(capture, scenario, near=arguments.near, progress=progress.tell)
    written = []
    if arguments.output:
        with together():
            side_cars = done.write_side_cars(arguments.output, suffix=arguments.side_cars)
            done.write(arguments.output)
        written = [arguments.output, *map(str, side_cars)]
    if arguments.json:
        answer = {"capture": capture.name, "scenario": arguments.through, **_plain(done.summary)}
        answer |= {"counts": done.counts, "cannot_know": list(done.cannot_know), "files": written}
        print(json.dumps(answer, indent=1, allow_nan=False))
        return 0
    from tcptrace_lab.report.replay_text import open_loop_lines

    print("\n".join(open_loop_lines(done, arguments.through)))
    print("".join(f"  wrote {file}\n" for file in written), end="")
    return 0


def _open_loop_sweep(arguments: argparse.Namespace, capture: Capture, table: Any) -> int:
    from tcptrace_lab.commands.analyze import Progress
    from tcptrace_lab.replay.open_loop import sweep_through
    from tcptrace_lab.sweep import over
    from tcptrace_lab.tables import check_table, write_table
    from tcptrace_lab.whole_files import together

    if arguments.output:
        check_table(arguments.output)
    overs = [over(text) for text in arguments.over]
    with Progress(arguments.capture) as progress:
        frame = sweep_through(capture, table, overs, near=arguments.near, progress=progress.tell)
    with together():
        if arguments.output:
            write_table(frame, arguments.output)
        if arguments.figure:
            from tcptrace_lab.report.replay_figure import sweep_figure

            title = f"{capture.name} through {arguments.through}"
            _save(sweep_figure(frame, overs[0].key, title=title), arguments.figure)
    if arguments.json:
        print(json.dumps(json.loads(frame.to_json(orient="records")), indent=2))
    elif not arguments.output:
        keys = [one.key for one in overs]
        shown = frame[[*keys, *(name for name in SHOWN if name not in keys)]]
        print(shown.to_string(index=False, float_format=lambda value: f"{value:.4g}"))
    return 0


def _closed_loop(arguments: argparse.Namespace) -> int:
    from tcptrace_lab.commands.inputs import opened
    from tcptrace_lab.commands.plot import check_picture
    from tcptrace_lab.errors import LabError
    from tcptrace_lab.replay.closed_loop import again
    from tcptrace_lab.replay.open_loop import check_suffix
    from tcptrace_lab.scenario_file import load
    from tcptrace_lab.tables import check_output
    from tcptrace_lab.whole_files import together

    if arguments.near:
        raise LabError("--near: only open loop carries hosts' packets; a sender sends again whoever it was")
    if arguments.figure:
        check_picture(arguments.figure)
    if arguments.output and not arguments.over:
        check_suffix(arguments.output)
        check_output(arguments.output)
    through = load(arguments.through) if arguments.through else None
    capture = opened(arguments.capture)
    if arguments.over:
        return _closed_loop_sweep(arguments, capture, through)
    done = again(capture, control=arguments.control, through=through, settings=arguments.set)
    written = []
    with together():
        if arguments.output:
            base = arguments.output.rpartition(".")[0]
            truth = done.write_truth(f"{base}.truth{arguments.side_cars}")
            done.write(arguments.output, payload=False)
            written = [arguments.output, *map(str, truth)]
        if arguments.figure:
            from tcptrace_lab.report.replay_figure import then_and_now_figure

            _save(then_and_now_figure(done), arguments.figure)
            written.append(arguments.figure)
    if arguments.json:
        from tcptrace_lab.report.replay_text import closed_loop_answer

        print(json.dumps(closed_loop_answer(done, written), indent=1, allow_nan=False))
        return 0
    from tcptrace_lab.report.replay_text import closed_loop_lines

    print("\n".join(closed_loop_lines(done, arguments.through)))
    print("".join(f"  wrote {file}\n" for file in written), end="")
    return 0


def _closed_loop_sweep(arguments: argparse.Namespace, capture: Capture, through: Scenario | None) -> int:
    from tcptrace_lab.errors import LabError
    from tcptrace_lab.replay.closed_loop import sweep_again
    from tcptrace_lab.sweep import over
    from tcptrace_lab.tables import check_table, write_table

    if arguments.output:
        check_table(arguments.output)
    if arguments.figure:
        raise LabError("--figure: with --over it draws open loop's drops; a closed loop's rows go to -o")
    overs = [over(text) for text in arguments.over]
    frame = sweep_again(capture, overs, control=arguments.control, through=through, settings=arguments.set)
    frame["slow_starts"] = ["/".join(map(str, counts)) for counts in frame["slow_starts"]]
    frame = frame.drop(columns="limits")
    if arguments.output:
        write_table(frame, arguments.output)
    if arguments.json:
        print(json.dumps(json.loads(frame.to_json(orient="records")), indent=2))
    elif not arguments.output:
        shown = frame[[*(one.key for one in overs), *AGAIN_SHOWN]]
        print(shown.to_string(index=False, float_format=lambda value: f"{value:.4g}"))
    return 0


def _save(figure: Any, path: str) -> None:
    from tcptrace_lab.whole_files import replacing

    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.rpartition(".")[2], dpi=150)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """JSON has no number for "none"."""
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()}
