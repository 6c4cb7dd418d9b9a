"""Draw a connection: time-sequence graph with ACKs, window with slow starts shaded, round trip.

$ tcptrace-lab plot captures/tahoe_small_buffer.pcap.gz -o tahoe.png
$ tcptrace-lab plot captures/tahoe_small_buffer.pcap.gz --from 33 --to 40 -o second_cycle.svg
"""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
# A picture of 11 inches is then 200 MB while it is drawn; renderers refuse 65,536 points a side.
MOST_DPI = 600


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One capture, one connection, one picture."""
    parser.add_argument("capture", metavar="FILE", help="pcap or pcapng, also gzip or zstd; - for standard input")
    parser.add_argument("--connection", type=int, metavar="N", help="the connection (default: the one with most data)")
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="the picture: .png, .svg or .pdf")
    parser.add_argument(
        "--from", dest="start_s", type=float, metavar="S", help="begin S seconds after the first packet"
    )
    parser.add_argument("--to", dest="end_s", type=float, metavar="S", help="end S seconds after the first packet")
    parser.add_argument("--dpi", type=int, default=150, help="resolution of a .png (default 150)")


def run(arguments: argparse.Namespace) -> int:
    """Draw, and write the picture whole or not at all."""
    from tcptrace_lab.errors import LabError
    from tcptrace_lab.whole_files import replacing

    check_picture(arguments.output)
    if not 1 <= arguments.dpi <= MOST_DPI:
        raise LabError(f"--dpi {arguments.dpi}: must be 1 to {MOST_DPI}")
    # Rendering takes 50 MB: what was drawn from is no longer held.
    figure = _figure(arguments)
    with replacing(arguments.output) as temporary:
        figure.savefig(temporary, format=arguments.output.rpartition(".")[2], dpi=arguments.dpi)
    return 0


def _figure(arguments: argparse.Namespace) -> Figure:
    from tcptrace_lab.commands.reconstruct import chosen
    from tcptrace_lab.errors import LabError

    capture, who = chosen(
        arguments.capture, arguments.connection, needs="tcptrace_lab.classify.control.windows.replayed"
    )
    from tcptrace_lab.classify.control.windows.replayed import replayed

    seen = replayed(who)
    if not len(seen.timeline.send_ns):
        raise LabError(f"{capture.name}: connection {who.connection} has no data segment to draw")
    whole = seen.timeline.seconds(seen.timeline.end_ns)
    start, end = arguments.start_s or 0.0, arguments.end_s if arguments.end_s is not None else whole
    is_part = arguments.start_s is not None or arguments.end_s is not None
    if is_part and not (0 <= start < end < math.inf and start < whole):
        raise LabError(
            f"--from {start:g} --to {end:g}: must be 0 <= from < to, within the connection (it lasts {whole:.3f} s)"
        )
    title = f"{capture.name.rpartition('/')[2]}, connection {who.connection}"
    # matplotlib takes 40 MB: not beside what is needed only until the timeline stands.
    from tcptrace_lab.report.connection_figure import connection_figure

    return connection_figure(seen, who, title=title, start_s=start, end_s=end)


def check_picture(path: str) -> None:
    """Refuse a picture that cannot be written, before the work."""
    from tcptrace_lab.errors import LabError
    from tcptrace_lab.tables import check_output

    if not path.endswith(SUFFIXES):
        raise LabError(f"{path}: the suffix must be one of {', '.join(SUFFIXES)}")
    check_output(path)
