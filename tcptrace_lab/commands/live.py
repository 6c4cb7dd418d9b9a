"""Connections on an interface as they go: a table that updates, until --duration, --count or Ctrl-C.

    $ tcptrace-lab live lo --duration 6 --bpf 'tcp port 5599'
    lo: 96 packets, 3 TCP connections
    # client          server          lasted packets bytes out bytes in retr out retr in RTT min  median        rate
    0 127.0.0.1:60264 127.0.0.1:5599 10.2 ms      33    550000     1000        0       0 10.0 us 28.0 us  433 Mbit/s
    1 127.0.0.1:60276 127.0.0.1:5599  880 us      30    550000     1000        0       0 11.0 us 33.0 us  5.0 Gbit/s
    2 127.0.0.1:60282 127.0.0.1:5599  786 us      33    550000     1000        0       0  9.0 us 26.5 us 5.60 Gbit/s

    $ tcptrace-lab live eth0 --count 1000 --json

On a terminal the connections' windows, rates and last events with keys, as `watch` has them; --lines prints a line of
JSON for each event. Packets come from tcpdump or dumpcap: hundreds of thousands a second.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from tcptrace_lab.commands.analyze import connections_view, extent
from tcptrace_lab.errors import LabError

if TYPE_CHECKING:
    from tcptrace_lab.replay.watch import View, Watch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The interface, and when to stop."""
    parser.add_argument("interface", metavar="IFACE", help="network interface, as ip link lists them; any: all")
    parser.add_argument("--duration", type=float, metavar="SECONDS", help="stop after this time")
    parser.add_argument("--count", type=int, metavar="PACKETS", help="stop after this many packets")
    parser.add_argument("--bpf", default="tcp", metavar="FILTER", help="what is captured (default: tcp)")
    parser.add_argument("--lines", action="store_true", help="a line of JSON for each event")
    parser.add_argument("--json", action="store_true", help="no table; at the end one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Follow until the end that was asked for, then show all connections."""
    for name in ("duration", "count"):
        value = getattr(arguments, name)
        if value is not None and value <= 0:
            raise LabError(f"--{name} {value}: must be above 0")
    from tcptrace_lab.replay.interface import capturing
    from tcptrace_lab.replay.watch import Watch, watch_files
    from tcptrace_lab.report import terminal
    from tcptrace_lab.report.watch_view import JsonLines, Silent, screen

    console = terminal.console(width=150)
    with capturing(arguments.interface, bpf=arguments.bpf) as stream:
        watcher = watch_files([stream], name=arguments.interface)
        watch = Watch(watcher, arguments.interface, count=arguments.count, duration_s=arguments.duration)
        if arguments.lines:
            watcher.observe(keeps_recent=False)
            _until_stopped(watch, JsonLines())
        elif arguments.json or not console.is_terminal:
            _until_stopped(watch, Silent())
        else:
            watcher.observe()
            with screen(console) as view:
                _until_stopped(watch, view)
    capture = watch.capture()
    if arguments.json:
        rows = json.loads(capture.connections.to_json(orient="records"))
        json.dump({"interface": arguments.interface, "packets": capture.packets, "connections": rows}, sys.stdout)
        print()
    elif not arguments.lines:
        console.print(f"{arguments.interface}: {extent(capture)}")
        console.print(connections_view(capture.connections.itertuples(), console.width))
    return 0


def _until_stopped(watch: Watch, view: View) -> None:
    try:
        watch.run(view)
    except KeyboardInterrupt:
        # The end that was asked for.
        pass
    finally:
        watch.watcher.stop()
