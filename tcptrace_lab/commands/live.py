"""Connections on an interface as they go: a table that updates, until --duration, --count or Ctrl-C.

EXAMPLES
  tcptrace-lab live lo --duration 6 --bpf 'tcp port 5599' | cut -c-112

  lo: 91 packets, 3 TCP connections
  #  client           server          seconds  packets  bytes out  bytes in  retr out  retr in     RTT min     med
  0  127.0.0.1:37706  127.0.0.1:5599    0.101       29     550000      1000         -        -   0.0124 ms  0.0256
  1  127.0.0.1:37710  127.0.0.1:5599    0.101       31     550000      1000         -        -   0.0093 ms  0.0225
  2  127.0.0.1:37724  127.0.0.1:5599    0.101       31     550000      1000         -        -  0.00799 ms  0.0304

  tcptrace-lab live eth0 --count 1000 --json

Through pyshark, so that every packet is dissected in full: some hundreds of packets a second, no more. For a busy
link record with tcpdump and read the file.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from tcptrace_lab.commands.analyze import connections_view
from tcptrace_lab.errors import LabError

if TYPE_CHECKING:
    from tcptrace_lab import _core
    from tcptrace_lab.capture import Capture

# The table is drawn anew after so long; what is followed is followed at once.
REFRESH_S = 0.5
# Connections shown while the capture runs: those heard of last.
SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The interface, and when to stop."""
    parser.add_argument("interface", metavar="IFACE", help="network interface, as tshark -D lists them")
    parser.add_argument("--duration", type=float, metavar="SECONDS", help="stop after this time")
    parser.add_argument("--count", type=int, metavar="PACKETS", help="stop after this many packets")
    parser.add_argument("--bpf", default="tcp", metavar="FILTER", help="what is captured (default: tcp)")
    parser.add_argument("--json", action="store_true", help="no table; at the end one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Follow until the end that was asked for, then show all connections."""
    for name in ("duration", "count"):
        value = getattr(arguments, name)
        if value is not None and value <= 0:
            raise LabError(f"--{name} {value}: must be above 0")
    from tcptrace_lab.backends.pyshark import live
    from tcptrace_lab.capture import Capture

    def follow(each: Any) -> Capture:
        follower = live(
            arguments.interface,
            each=each,
            bpf_filter=arguments.bpf,
            duration_s=arguments.duration,
            count=arguments.count,
        )
        return Capture(follower.capture())

    if arguments.json:
        capture = follow(lambda _: None)
        rows = json.loads(capture.connections.to_json(orient="records"))
        json.dump({"interface": arguments.interface, "packets": capture.packets, "connections": rows}, sys.stdout)
        print()
        return 0
    from tcptrace_lab.report import terminal

    console = terminal.console(width=150)
    capture = _while_drawing(console, follow) if console.is_terminal else follow(lambda _: None)
    console.print(f"{arguments.interface}: {capture.packets} packets, {len(capture)} TCP connections")
    console.print(_table(capture, len(capture), console.width))
    return 0


def _while_drawing(console: Any, follow: Any) -> Capture:
    from rich.live import Live

    from tcptrace_lab.capture import Capture

    drawn = 0.0
    with Live(console=console, transient=True, auto_refresh=False) as view:

        def draw(follower: _core.Follower) -> None:
            nonlocal drawn
            now = time.monotonic()
            if now - drawn >= REFRESH_S:
                drawn = now
                view.update(_table(Capture(follower.capture()), SHOWN, console.width), refresh=True)

        capture: Capture = follow(draw)
        return capture


def _table(capture: Capture, rows: int, width: int) -> Any:
    """The connections that sent something last, oldest first."""
    connections = capture.connections
    last = (connections["start_ns"] + connections["duration_ns"]).nlargest(rows).index
    return connections_view(connections.loc[sorted(last)], width)
