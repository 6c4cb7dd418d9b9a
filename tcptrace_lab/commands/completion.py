"""Completion for a shell, made from the command line's own parser; or the manual page.

$ tcptrace-lab completion bash > ~/.local/share/bash-completion/completions/tcptrace-lab
$ tcptrace-lab completion zsh > ~/.zfunc/_tcptrace-lab
$ tcptrace-lab completion man > ~/.local/share/man/man1/tcptrace-lab.1
"""

from __future__ import annotations

import argparse
from datetime import date

from tcptrace_lab.errors import LabError, to_install

SHELLS = ("bash", "zsh", "tcsh", "man")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """For what."""
    parser.add_argument("shell", choices=SHELLS, help="the shell, or man for the manual page")


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    # The command line's own, with every command's arguments.
    parser = arguments.whole_parser()
    try:
        if arguments.shell == "man":
            print(_manual(parser))
        else:
            import shtab

            print(shtab.complete(parser, shell=arguments.shell))
    except ImportError:
        line = to_install("shtab", "argparse-manpage")
        raise LabError(f"completion: needs shtab and argparse-manpage; type:  {line}") from None
    return 0


def _manual(parser: argparse.ArgumentParser) -> str:
    from argparse_manpage.manpage import Manpage

    words = {"project_name": "tcptrace_lab", "prog": parser.prog, "description": parser.description}
    return str(Manpage(parser, _data={**words, "date": date.today()}))
