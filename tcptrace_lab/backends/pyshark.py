"""pyshark: Wireshark's full dissection of one packet, and packets as they arrive on an interface."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from tcptrace_lab import _core
from tcptrace_lab.backends import tshark
from tcptrace_lab.errors import CaptureError, LabError


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


def live(
    interface: str,
    *,
    each: Callable[[_core.Follower], object],
    bpf_filter: str = "tcp",
    duration_s: float | None = None,
    count: int | None = None,
) -> _core.Follower:
    """Follow the connections on an interface, calling `each` after every packet; ends after `duration_s` or `count`.

    Wireshark dissects every field of every packet here: good for some hundreds of packets a second, no more.
    """
    import pyshark
    from pyshark.capture.capture import TSharkCrashException
    from pyshark.capture.live_capture import UnknownInterfaceException

    tshark.executable()
    follower = _core.Follower(interface, None)

    def on_packet(packet: Any) -> None:
        tshark.push(follower, [_fields(packet)])
        each(follower)

    parameters = ["-n"] + [word for preference in tshark.PREFERENCES for word in ("-o", preference)]
    with _capture(pyshark.LiveCapture, interface, bpf_filter=bpf_filter, custom_parameters=parameters) as capture:
        try:
            capture.apply_on_packets(on_packet, timeout=duration_s, packet_count=count)
        except (TimeoutError, KeyboardInterrupt):
            # The end that was asked for.
            pass
        except UnknownInterfaceException:
            raise LabError(f"{interface}: no such network interface, or not permitted to capture on it") from None
        except TSharkCrashException as error:
            raise LabError(f"{interface}: tshark cannot capture: {error}") from None
    return follower


@contextmanager
def _capture(kind: Any, source: str, **options: Any) -> Iterator[Any]:
    """A pyshark capture, its tshark ended afterwards."""
    asyncio.set_event_loop(_event_loop())
    capture = kind(source, eventloop=_event_loop(), **options)
    try:
        yield capture
    finally:
        capture.close()


@cache
def _event_loop() -> asyncio.AbstractEventLoop:
    """One for all captures, and never closed: pyshark leaves pipes that refer to it when they are collected."""
    return asyncio.new_event_loop()


def _fields(packet: Any) -> list[str]:
    """A packet as the row that `tshark -T fields` would print."""
    values: dict[str, list[str]] = {name: [] for name in tshark.FIELDS}
    values["frame.protocols"] = [packet.frame_info.protocols]
    values["frame.time_epoch"] = [packet.frame_info.time_epoch]
    for layer in packet.layers:
        for field in layer._all_fields.values():
            for single in field.all_fields:
                if single.name in values:
                    values[single.name].append(single.show)
    return [",".join(values[name]) for name in tshark.FIELDS]
