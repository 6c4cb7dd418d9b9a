"""tcptrace_lab: trace-driven TCP analysis. A capture goes in; a verdict with its evidence comes out."""

import sys
from types import ModuleType

from tcptrace_lab._version import __version__

# Type checkers take the name for true; importing it from typing would cost every start of the command line.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from tcptrace_lab.capture import Capture as Capture
    from tcptrace_lab.capture import Connection as Connection
    from tcptrace_lab.capture import read as read
    from tcptrace_lab.face import classify as classify
    from tcptrace_lab.face import predict as predict
    from tcptrace_lab.face import simulate as simulate
    from tcptrace_lab.face import sweep as sweep
    from tcptrace_lab.flow import Flow as Flow

__all__ = [
    "Capture",
    "Connection",
    "Flow",
    "__version__",
    "classify",
    "predict",
    "read",
    "simulate",
    "sweep",
]

_FROM_CAPTURE = ("Capture", "Connection", "Flow", "read")
_FROM_FACE = ("classify", "predict", "simulate", "sweep")


class _Package(ModuleType):
    """Where a room has a function's name, the function stands for it: imports find the room all the same."""

    def __setattr__(self, name: str, value: object) -> None:
        # The import system binds each room to its package when it is first entered.
        if not (name in _FROM_FACE and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    """What a notebook's completion offers: also what is brought only when it is asked for."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    # The command line starts without the core: each command brings what it needs.
    if name in _FROM_CAPTURE:
        from tcptrace_lab import capture

        return getattr(capture, name)
    if name in _FROM_FACE:
        from tcptrace_lab import face

        return getattr(face, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
