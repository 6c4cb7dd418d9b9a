"""pyshark: Wireshark's full dissection of one packet."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from tcptrace_lab.backends import tshark
from tcptrace_lab.errors import CaptureError


def dissect(path: str | os.PathLike[str], packet: int) -> Any:
    """Every field that Wireshark knows in one packet (numbered from 0, as in the `packet` columns)."""
    import pyshark

    tshark.executable()
    if packet < 0:
        raise ValueError(f"no packet {packet}")
    wanted = f"frame.number == {packet + 1}"
    parameters = [word for preference in tshark.PREFERENCES for word in ("-o", preference)]
    # Wireshark reads the file up to this packet only.
    parameters += ["-c", str(packet + 1)]
    with _capture(pyshark.FileCapture, os.fspath(path), display_filter=wanted, custom_parameters=parameters) as found:
        try:
            return found.next()
        except StopIteration:
            raise CaptureError(f"{os.fspath(path)}: no packet {packet}") from None


@contextmanager
def _capture(kind: Any, source: str, **options: Any) -> Iterator[Any]:
    """A pyshark capture, its tshark ended afterwards."""
    from pyshark.capture.capture import TSharkCrashException

    asyncio.set_event_loop(_event_loop())
    capture = kind(source, eventloop=_event_loop(), **options)
    try:
        yield capture
    finally:
        # A tshark that we end before it has written everything counts as crashed: its status says nothing.
        with suppress(TSharkCrashException):
            capture.close()


@cache
def _event_loop() -> asyncio.AbstractEventLoop:
    """One for all captures, and never closed: pyshark leaves pipes that refer to it when they are collected."""
    return asyncio.new_event_loop()
