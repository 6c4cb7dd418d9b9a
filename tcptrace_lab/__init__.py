"""tcptrace_lab: trace-driven TCP analysis. A capture goes in; a verdict with its evidence comes out."""

from tcptrace_lab._version import __version__

__all__ = ["__version__"]
