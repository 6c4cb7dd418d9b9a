"""tcptrace-lab: the command line.

Exit status: 0 done; 1 the capture answers "no"; 2 cannot be read, or bad usage (one line on stderr).
"""

from __future__ import annotations

import argparse
import atexit
import gc
import importlib
import os
import sys
from collections.abc import Sequence

from tcptrace_lab._version import __version__
from tcptrace_lab.errors import LabError, reason

# Name, one line of help. The module tcptrace_lab.commands.NAME is imported only when the command runs.
COMMANDS: dict[str, str] = {
    "analyze": "connections of captures: who, how long, how much, how fast, what was lost",
    "columns": "what each column of the connections table holds",
    "completion": "completion for bash, zsh and tcsh; the manual page",
    "classify": "say what a sender's congestion control did, and whether theory agrees",
    "live": "connections on a network interface as they go",
    "plot": "draw a connection: time-sequence graph and window",
    "predict": "what each model says of a scenario, without running it",
    "record": "record a scenario with this machine's kernel over an emulated path (Linux)",
    "reconstruct": "what a sender's window did: windows, phases, losses, cycles",
    "replay": "send a capture through another path, or again with another control; watch it; put it on a wire",
    "reproduce": "regenerate a paper's tables and figures beside the published numbers",
    "simulate": "run a scenario; write what its taps saw, and the truth beside it",
    "sweep": "run a scenario over ranges of its keys, in parallel",
    "watch": "connections of a pipe, of captures or of growing files as they go",
    "score": "compare a reconstruction with the truth beside a capture",
}

# Python's own 700 are a thousandth of what one capture with many losses comes to.
OBJECTS_PER_COLLECTION = 500_000
# As a shell has it: 128 and the signal's number.
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    # Nothing here multiplies matrices: numpy's threads for that would only start and spin.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Columns are worked through once and let go: huge pages, which the kernel has to find and to clear whole, took up
    # to a fifth of the processor's time.
    os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")
    # Hardly anything here goes in circles: to look for what does took a twentieth.
    gc.set_threshold(OBJECTS_PER_COLLECTION)
    # Nor need the interpreter look once more when it ends.
    atexit.register(gc.freeze)
    try:
        parser = _parser(words)
        if not words:
            parser.print_help()
            return 0
        arguments, foreign = parser.parse_known_args(words)
        if foreign:
            # Told by the command: its help has the right ones.
            parser.prog += f" {arguments.command}"
            parser.error(f"unrecognized arguments: {' '.join(foreign)}")
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except LabError as error:
        return _complain(str(error))
    except BrokenPipeError:
        # The reader of our output (head, less) has left: nobody is there to be told.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _complain(f"{error.filename}: {reason(error)}" if error.filename else reason(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    except ImportError as error:
        # An interrupt within a library's own initialization is told as its failure.
        if not isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            raise
        return INTERRUPTED
    return status


class _Version(argparse.Action):
    """The version, and of what the core was built: asked for only when it is to be printed."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from tcptrace_lab import _core

        print(f"{parser.prog} {__version__} (core {_core.__version__}, {_core.BUILD})")
        parser.exit()


# As the words of `_parser`: every command with its arguments.
ALL: Sequence[str] = ()


def whole_parser() -> argparse.ArgumentParser:
    """The parser with every command's arguments, for completion and the manual page."""
    return _parser(ALL)


def _complain(message: str) -> int:
    print(f"tcptrace-lab: {' '.join(message.split())}", file=sys.stderr)
    return 2


class _Parser(argparse.ArgumentParser):
    """One line for bad usage, as for every other error."""

    def _get_formatter(self) -> argparse.HelpFormatter:
        # Asked for with every argument. Left to itself it imports shutil, and with it all compression modules, for the
        # width of the terminal.
        given = os.environ.get("COLUMNS", "")
        try:
            columns = int(given) if given.isdigit() and int(given) > 0 else os.get_terminal_size().columns
        except OSError:
            columns = 100
        return self.formatter_class(prog=self.prog, width=max(columns - 2, 40))  # type: ignore[call-arg]

    def error(self, message: str) -> None:  # type: ignore[override]
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="tcptrace-lab",
        description="A packet capture goes in; a verdict with its evidence comes out.",
        epilog="Each command's --help shows an example: tcptrace-lab analyze --help",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and the build, and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    chosen = next((word for word in words if not word.startswith("-")), None)
    if chosen is not None and chosen not in COMMANDS:
        import difflib

        near = difflib.get_close_matches(chosen, COMMANDS, n=1)
        parser.error(f"no command {chosen!r}" + (f"; did you mean {near[0]}?" if near else ""))
    for name, summary in COMMANDS.items():
        if name != chosen and words is not ALL:
            commands.add_parser(name, help=summary, add_help=False)
            continue
        module = importlib.import_module(f"tcptrace_lab.commands.{name}")
        command = commands.add_parser(
            name,
            help=summary,
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run, whole_parser=whole_parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
