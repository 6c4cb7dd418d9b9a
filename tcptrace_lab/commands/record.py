"""Record a scenario with this machine's kernel over an emulated path (Linux).

Two network namespaces are joined by a path (rate, drop-tail buffer, delay, loss), the kernel's own TCP sends over it,
and tcpdump captures at the places named in `taps`. Beside the capture: the kernel's cwnd and state per ACK, every drop,
the queue in bins of 10 ms, and a description of all of it. Everything else is gone when the command ends.

    $ sudo tcptrace-lab record captures/scenarios/recorded/reno_10M.toml -o reno_10M
    reno_10M.pcap.gz: 28160 packets
      path       18467 packets in, 18380 out; drops: 87 overflow
      port 42146 87 retransmissions, cwnd up to 149; loss events: 9 fast_retransmit
      deliveries 0.7 us late (median), 18.3 us (99th percentile)
      freezes    19, 24 ms in all, the longest 1.8 ms

Without root it all happens in a user namespace of your own (where the machine allows them and /dev/net/tun is yours to
open): the truth is then TCP_INFO's, every 10 ms, instead of every ACK's, the side-car says so, and nothing gives the
path precedence over other programs.

A freeze is the machine standing still: the path then stands still with it. `--attempts 4` records again while there is
one above 4 ms. A scenario that the kernel cannot do (Tahoe, Compound) is refused; `--sender own` sends it with the
simulator's sender, from user space, against the kernel's receiver. Where the kernel does otherwise than the scenario
says, the output lists it:

    $ sudo tcptrace-lab record captures/scenarios/recorded/tahoe_small_buffer.toml --sender own
    tahoe_small_buffer.pcap.gz: 19370 packets
      path       9705 packets in, 9666 out; drops: 39 overflow
      port 40000 86 retransmissions, cwnd up to 109; loss events: 5 fast_retransmit
      deliveries 0.7 us late (median), 86.8 us (99th percentile)
      freezes    29, 47 ms in all, the longest 3.0 ms
      not as in the scenario: the sender is this project's own, in user space; the receiver is the kernel's
"""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("scenario", type=Path, metavar="SCENARIO", help="a scenario file (TOML)")
    parser.add_argument(
        *("-o", "--output"),
        type=Path,
        metavar="NAME",
        help="path and name of the files, without suffix (scenario's name)",
    )
    parser.add_argument(
        *("--set",), action="append", default=[], dest="overrides", metavar="KEY=VALUE", help="path.nodes.0.buffer=20"
    )
    parser.add_argument(
        *("--sender",), choices=("kernel", "own"), default="kernel", help="own: the simulator's, for what no kernel has"
    )
    parser.add_argument(
        *("--snaplen",), type=int, metavar="N", help="bytes kept of each packet (default: every header fits)"
    )
    parser.add_argument(
        *("--attempts",),
        type=int,
        default=1,
        metavar="N",
        help="record again, N times at most, while the machine disturbs",
    )
    parser.add_argument("--json", action="store_true", help="print the description")


def run(arguments: argparse.Namespace) -> int:
    """Record, and say what was recorded."""
    from tcptrace_lab.errors import LabError
    from tcptrace_lab.scenario_file import load
    from tcptrace_lab.testbed.record import SNAPLEN, record

    snaplen = SNAPLEN if arguments.snaplen is None else arguments.snaplen
    if snaplen < 60:
        raise LabError(f"--snaplen {snaplen}: must be >= 60 (IP and TCP headers)")
    if arguments.attempts < 1:
        raise LabError(f"--attempts {arguments.attempts}: must be >= 1")
    scenario = load(arguments.scenario, overrides=arguments.overrides)
    output = arguments.output or Path(arguments.scenario.stem)
    recording = record(
        scenario,
        output=output,
        sender=arguments.sender,
        snaplen=snaplen,
        attempts=arguments.attempts,
    )
    print(recording.description.read_text() if arguments.json else recording.summary(), end="")
    return 0
