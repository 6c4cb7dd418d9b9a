"""tcptrace_lab: trace-driven TCP analysis. A capture goes in; a verdict with its evidence comes out."""

from tcptrace_lab._version import __version__

# Type checkers take the name for true; importing it from typing would cost every start of the command line.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from tcptrace_lab.capture import Capture as Capture
    from tcptrace_lab.capture import Connection as Connection
    from tcptrace_lab.capture import Flow as Flow
    from tcptrace_lab.capture import read as read

__all__ = ["Capture", "Connection", "Flow", "__version__", "read"]


def __getattr__(name: str) -> object:
    # The command line starts without the core: each command brings what it needs.
    if name in __all__:
        from tcptrace_lab import capture

        return getattr(capture, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
