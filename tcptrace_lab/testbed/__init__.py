"""Recordings of our own: the real kernel over an emulated path, inside private network namespaces (Linux, root)."""

from tcptrace_lab.testbed.record import record
from tcptrace_lab.testbed.recording import Recording
from tcptrace_lab.testbed.requirements import missing

__all__ = ["Recording", "missing", "record"]
