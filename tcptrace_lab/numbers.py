"""Numbers as people write them: 8.0 s, 35.3 Gbit/s, 41.2 ms; "-" where nothing is known."""

from __future__ import annotations

import math

UNKNOWN = "-"
PREFIXES = ("", "k", "M", "G", "T")


def seconds(value: float | None) -> str:
    """`value` in seconds: 12.4 us, 41.2 ms, 8.0 s, 3 min 20 s."""
    if value is None or math.isnan(value):
        return UNKNOWN
    size = abs(value)
    if size >= 3600:
        return f"{int(value // 3600)} h {int(value % 3600 // 60)} min"
    if size >= 120:
        return f"{int(value // 60)} min {value % 60:.0f} s"
    if size >= 1 or value == 0:
        return f"{_three(value)} s"
    return f"{_three(value * 1e3)} ms" if size >= 1e-3 else f"{_three(value * 1e6)} us"


def duration(value_ns: float) -> str:
    """`value_ns` in nanoseconds, as `seconds` writes it."""
    return seconds(value_ns / 1e9)


def rate(bps: float | None) -> str:
    """`bps` in bits a second: 950 bit/s, 35.3 Gbit/s."""
    return UNKNOWN if bps is None or math.isnan(bps) else f"{_scaled(bps)}bit/s"


def size(number: float | None) -> str:
    """`number` in bytes, decimal: 532 B, 1.46 MB."""
    return UNKNOWN if number is None or math.isnan(number) else f"{_scaled(number)}B"


def counted(number: int, noun: str) -> str:
    """1 packet, 2 packets."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def end(address: str, port: int) -> str:
    """One end of a connection; an IPv6 address before a port stands in brackets (RFC 5952 section 6)."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _scaled(value: float) -> str:
    for prefix in PREFIXES:
        # What would be written as 1000 is 1 of the next.
        if abs(value) < 999.5 or prefix == PREFIXES[-1]:
            return f"{_three(value) if prefix else f'{value:.0f}'} {prefix}"
        value /= 1000
    raise AssertionError("the last prefix takes all")


def _three(value: float) -> str:
    """Three digits, and one behind the point of a small whole number: 8.0, 41.2, 950."""
    size = abs(value)
    if size >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if size >= 9.995 or value == int(value) else f"{value:.2f}"
