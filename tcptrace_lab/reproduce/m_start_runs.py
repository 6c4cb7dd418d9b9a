"""The runs that the M-Start paper's figures and tables need, as scenario tables."""

from __future__ import annotations

from typing import Any

PACKET_BITS = 8000
LINK_BPS = 1e9
SCHEMES = {"traditional": 0, "m-start": 10}
CONTROLS = {"traditional": "cubic-linux", "m-start": "m-start-cubic"}
SECONDS = 15


def scenario(
    scheme: str, limit: int, router_ms: float, duration_s: float, *, initial_window: int = 1
) -> dict[str, Any]:
    """Figure 4: S1 - R1 - R2 - R3 - D1 at 1 Gb/s, packets of 1000 bytes (section 3), CUBIC after the slow start."""
    delays = (1e-3, router_ms / 1e3, router_ms / 1e3, 1e-3)
    places = {"buffer": limit, "counts_in_service": True}
    return {
        "title": scheme,
        "profile": "ns2",
        "duration_s": duration_s,
        "taps": [],
        "path": {
            "packet_bytes": 1000,
            "nodes": [{"rate_bps": LINK_BPS, "delay_s": delay, **places} for delay in delays],
            "reverse": [{"rate_bps": LINK_BPS, "delay_s": delay} for delay in delays],
        },
        "control": {
            "name": CONTROLS[scheme],
            "window": "cubic-linux",
            "initial_window": initial_window,
            "rto": {"initial_s": 3, "granularity_s": 0.01},
        },
    }
