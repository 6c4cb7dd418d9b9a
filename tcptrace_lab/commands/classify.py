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
      path         round trip 283.2 ms [280.6, 284.1], bottleneck 1.5 Mbit/s [1.494, 1.503], pipe 103.7 packets
                   [102.3, 104.3], buffer 8 packets waiting [7, 12]
      control      reno (confidence 1.00)
      sender       recovers as tahoe, initial window 1
      losses       39 (39 overflow), up to 41 more may not be seen
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
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from tcptrace_lab.commands.inputs import HELP, captures

if TYPE_CHECKING:
    from rich.progress import Progress

    from tcptrace_lab.capture import Capture
    from tcptrace_lab.classify.verdict import Verdict
    from tcptrace_lab.commands.answers import Answers

REGIMES = ("none", "single", "double", "triple", "mixed", "undecided")
CASES = tuple(f"case{number}" for number in range(1, 7))
PATIENCE_S = 2.0
REFRESHED_S = 0.2
# To start a process costs what some ten short connections do.
FEWEST_SHARED = 64
T = TypeVar("T")


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
    from tcptrace_lab.commands.answers import Answers
    from tcptrace_lab.errors import LabError

    if arguments.expect is not None:
        _check_expected(arguments.expect)
    if arguments.output:
        from tcptrace_lab.tables import check_table

        check_table(arguments.output)
    unread = 0
    files = captures(arguments.captures)
    with Answers(json=arguments.json, output=arguments.output) as answers:
        for file in files:
            try:
                _classify(file, arguments, answers)
            except LabError as error:
                # The other files are worth an answer all the same.
                if len(files) == 1:
                    raise
                print(f"tcptrace-lab: {' '.join(str(error).split())}", file=sys.stderr)
                unread += 1
    if unread:
        return 2
    return 0 if arguments.expect is None or _is_expected(answers, arguments.expect) else 1


def _classify(file: str, arguments: argparse.Namespace, answers: Answers) -> None:
    """Each verdict with what was asked for beyond it."""
    from tcptrace_lab.commands.inputs import opened

    capture = opened(file, needs="tcptrace_lab.classify.verdict")
    from tcptrace_lab.classify.verdict import classify, verdicts
    from tcptrace_lab.errors import LabError
    from tcptrace_lab.reconstruct.sender import sender

    connection = arguments.connection
    total = int((capture.columns["bytes"] > 0).sum())
    if connection is not None:
        if not 0 <= connection < len(capture):
            raise LabError(f"{capture.name}: no connection {connection}; it has {len(capture)}")
        judged = verdicts(capture, [sender(capture[connection])])
    elif arguments.explain or arguments.simulate or answers.may_be_full(total) or total < FEWEST_SHARED:
        judged = _told(classify(capture), total, capture.name)
    else:
        from tcptrace_lab.commands.many import each_told

        for told in _told(each_told(capture, answers.tell), total, capture.name):
            answers.add(told)
        return
    more = _more(capture, arguments)
    for verdict in judged:
        answers.add_full(verdict, more(verdict))


def _more(capture: Capture, arguments: argparse.Namespace) -> Callable[[Verdict], dict[str, Any]]:
    """What --explain and --simulate add to a verdict."""
    make: dict[str, Callable[[Verdict], Any]] = {}
    if arguments.explain:
        from tcptrace_lab.classify.explain import explain

        make["evidence"] = lambda verdict: explain(verdict, capture[verdict.who.connection])
    if arguments.simulate:
        from tcptrace_lab.replay.beside import SentAgain

        make["simulation"] = SentAgain(capture).beside
    return lambda verdict: {name: one(verdict) for name, one in make.items()}


def _told(each: Iterator[T], total: int, file: str) -> Iterator[T]:
    """The same; work beyond two seconds shows a bar on a terminal's standard error."""
    begun = time.monotonic()
    bar: Progress | None = None
    try:
        for number, one in enumerate(each, start=1):
            yield one
            if bar is None and sys.stderr.isatty() and time.monotonic() - begun > PATIENCE_S and number < total:
                from rich.console import Console
                from rich.progress import Progress

                # No thread of its own: what one holds, a process that is forked meanwhile would wait for.
                bar = Progress(console=Console(stderr=True), transient=True, auto_refresh=False)
                bar.add_task(file.rpartition("/")[2], total=total)
                bar.start()
            if bar is not None and (number == total or time.monotonic() - begun > PATIENCE_S):
                bar.update(bar.task_ids[0], completed=number, refresh=True)
                begun = time.monotonic() - PATIENCE_S + REFRESHED_S
    finally:
        if bar is not None:
            bar.stop()


def _check_expected(what: str) -> None:
    from tcptrace_lab.classify.diagnosis import SPELT
    from tcptrace_lab.errors import LabError

    known = (*REGIMES, *CASES, *SPELT)
    if what not in known:
        raise LabError(f"--expect {what}: must be one of {', '.join(known)}")


def _is_expected(answers: Answers, what: str) -> bool:
    """Some connection shows it, and none that can be decided shows another."""
    if what in REGIMES:
        return what in answers.regimes and not answers.regimes - {what, "undecided"}
    if what in CASES:
        cases = answers.cases
        return int(what.removeprefix("case")) in cases and len(cases - {None}) == 1
    return what in answers.controls and not answers.controls - {what, None}
