"""The commands of `tcptrace-lab`, one file each, imported only when named.

A command module has `add_arguments(parser)` and `run(arguments) -> int` (the exit status), and a docstring: its first
line is the one-line help, the rest is what `--help` shows below, examples with real output.
"""
