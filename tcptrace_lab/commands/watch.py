"""Watch connections as they go: packets from a pipe, from captures one after the other, or from files that grow.

    $ tcpdump -i eth0 -U -w - tcp | tcptrace-lab watch -
    $ tcptrace-lab watch --follow ring.pcap

On a terminal a table with keys; in a pipe a line of JSON for each event, with --json also the sender's windows then; at
the end the verdicts:

    $ tcptrace-lab watch captures/short_reno.pcap.gz | head -1
    {"time_s": 0.0, "time_ns": 1795232889062936000, "connection": 0, "event": "syn", "from": "10.9.1.1:50388",
     "to": "10.9.2.1:5001", "flight": 1}
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tcptrace_lab.replay.watch import Watch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where packets come from, and how fast they are followed."""
    parser.add_argument("captures", metavar="FILE", nargs="+", help="captures as one stream, in order; - for a pipe")
    parser.add_argument("--follow", action="store_true", help="read the last one as it grows, and what comes after it")
    add_pace(parser)


def add_pace(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """What watching a capture has in common, wherever it comes from."""
    parser.add_argument("--speed", type=float, metavar="X", help="X seconds of the capture in a second")
    parser.add_argument("--step", action="store_true", help="begin paused: s goes on by a packet, e to the next event")
    parser.add_argument("--until", metavar="TIME", help="stop at this time of the capture: 12.5s")
    parser.add_argument(
        "--json",
        action="store_true",
        help="a line of JSON for each event with the sender's windows, also on a terminal",
    )
    parser.add_argument("--no-verdicts", action="store_true", help="no verdicts at the end: nothing is kept for them")


def run(arguments: argparse.Namespace) -> int:
    """Watch until the end."""
    from tcptrace_lab.replay.watch import watch_files

    # What can be read again need not be kept.
    again = arguments.captures[0] if len(arguments.captures) == 1 and _is_file(arguments) else None
    keeps = not arguments.no_verdicts and again is None
    watcher = watch_files(arguments.captures, follow=arguments.follow, detail=keeps)
    return follow(arguments, paced(arguments, watcher, watcher_name(arguments.captures)), again)


def _is_file(arguments: argparse.Namespace) -> bool:
    import os

    return os.path.isfile(arguments.captures[0]) and not arguments.follow


def watcher_name(files: list[str]) -> str:
    """What is watched, in a title."""
    return "standard input" if files == ["-"] else files[0] if len(files) == 1 else f"{files[0]} .. {files[-1]}"


def paced(arguments: argparse.Namespace, watcher: object, name: str) -> Watch:
    """The pace that was asked for."""
    from typing import cast

    from tcptrace_lab import _core
    from tcptrace_lab.errors import LabError
    from tcptrace_lab.replay.watch import Watch

    if arguments.speed is not None and arguments.speed <= 0:
        raise LabError(f"--speed {arguments.speed:g}: must be above 0")
    until_s = None if arguments.until is None else seconds("--until", arguments.until)
    speed = arguments.speed
    if speed is None and arguments.step:
        speed = 1.0
    return Watch(cast("_core.Watcher", watcher), name, speed=speed, until_s=until_s, is_paused=arguments.step)


def seconds(option: str, text: str) -> float:
    """`12.5s`, `200ms` or `12.5`."""
    from tcptrace_lab.errors import LabError

    for suffix, factor in (("ms", 1e-3), ("us", 1e-6), ("min", 60.0), ("s", 1.0), ("", 1.0)):
        if text.endswith(suffix):
            try:
                found = float(text[: len(text) - len(suffix)]) * factor
            except ValueError:
                break
            if found > 0:
                return found
            break
    raise LabError(f"{option} {text}: must be a time above 0, for example 12.5s")


def follow(arguments: argparse.Namespace, watch: Watch, again: str | None) -> int:
    """Show what happens, then the verdicts: those that classify gives."""
    from tcptrace_lab.report import terminal
    from tcptrace_lab.report.watch_view import JsonLines, screen

    console = terminal.console(width=150)
    is_json = arguments.json or not console.is_terminal
    if arguments.step and is_json:
        from tcptrace_lab.errors import LabError

        raise LabError("--step: wants a terminal, for its keys")
    if arguments.json or not is_json:
        # A pipe that asks for no more is told what needs no look back, as fast as packets are read.
        watch.watcher.observe(keeps_recent=not is_json)
    try:
        if is_json:
            watch.run(JsonLines())
        else:
            with screen(console) as view:
                watch.run(view)
    except KeyboardInterrupt:
        # The end that was asked for.
        pass
    finally:
        watch.watcher.stop()
    _conclude(arguments, watch, again, is_json=is_json)
    return 0


def _conclude(arguments: argparse.Namespace, watch: Watch, again: str | None, *, is_json: bool) -> None:
    from tcptrace_lab import read
    from tcptrace_lab.capture import Capture
    from tcptrace_lab.classify.verdict import classify
    from tcptrace_lab.commands.analyze import connections_view, extent
    from tcptrace_lab.commands.inputs import note_truncated
    from tcptrace_lab.errors import LabError
    from tcptrace_lab.numbers import counted
    from tcptrace_lab.report import terminal

    whole = watch.status == "ended"
    capture: Capture = watch.capture()
    note_truncated(capture)
    if whole and not len(capture):
        raise LabError(f"{watch.name}: no TCP connection in {counted(capture.packets, 'packet')}: nothing to watch")
    if not is_json:
        console = terminal.console(width=150)
        console.print(f"{watch.name}: {extent(capture)}")
        console.print(connections_view(capture.connections.itertuples(), console.width))
    if arguments.no_verdicts or (again is not None and not whole):
        return
    judged = read(again, detail="first") if again is not None else capture
    if is_json:
        for verdict in classify(judged, file=watch.name):
            sys.stdout.write(json.dumps({"event": "verdict", **verdict.as_dict()}, allow_nan=False) + "\n")
    else:
        from tcptrace_lab.report.verdict_text import print_verdicts

        print_verdicts([(verdict, {}) for verdict in classify(judged, file=watch.name)])
