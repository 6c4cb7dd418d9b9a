"""The sentence a person would say of a sender, from the parts of its verdict; what is undecided is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

# How the controls are written in their papers.
SPELT = {
    "reno": "Reno",
    "cubic": "CUBIC",
    "bbr": "BBR",
    "compound": "Compound",
    "m_start": "M-Start",
    "highspeed": "HighSpeed",
    "bic": "BIC",
    "htcp": "H-TCP",
    "scalable": "Scalable",
    "westwood": "Westwood",
    "vegas": "Vegas",
    "hybla": "Hybla",
    "illinois": "Illinois",
    "yeah": "YeAH",
    "veno": "Veno",
    "lp": "TCP-LP",
    "unknown": "a control that is none of the known ones",
}
# More names than this are no sentence.
NAMED = 3
# Whose throughput a sender's is said to be a share of, the first that has one.
LAWS = {
    "cubic_response": "CUBIC's law",
    "compound": "Compound's model",
    "pftk": "Reno's law",
}
# A share of a law is said in percent where its bounds are no farther apart than this part of its value.
LAW_KNOWN = 0.1
# What holds a sender back for most of the time is what a person calls its limit.
MOSTLY = 0.5


def diagnosis(verdict: Mapping[str, Any], *, loss_times_s: Sequence[float]) -> str:
    """One line from a verdict's keys; `loss_times_s` when its loss events were noticed."""
    limit = _limit(verdict)
    names_buffer = limit is not None and "bottleneck" in limit
    losses = _losses(verdict, loss_times_s, names_buffer=names_buffer)
    parts = [limit, losses, _slow_starts(verdict), _share_of_law(verdict)]
    said = [part for part in parts if part]
    sentence = ", ".join([_who(verdict), *said[:1]])
    return f"{sentence}: {', '.join(said[1:])}" if len(said) > 1 else sentence


def _who(verdict: Mapping[str, Any]) -> str:
    tcp = verdict["sender_tcp"]
    name, recovery = tcp["congestion_control"], tcp["recovery"]
    if recovery == "tahoe" and name in (None, "reno"):
        return "Tahoe"
    if name is not None:
        return SPELT.get(str(name), str(name))
    left = [row["name"] for row in tcp["candidates"] if row["confidence"] > 0]
    if 1 < len(left) <= NAMED:
        return " or ".join(SPELT.get(each, each) for each in left)
    return "A sender whose control is not decided"


def _limit(verdict: Mapping[str, Any]) -> str | None:
    limits = verdict["limits"]
    if not limits:
        return None
    network = limits.get("cwnd", 0.0) + limits.get("recovery", 0.0)
    if network >= MOSTLY:
        return _bottleneck(verdict["path"]) if verdict["losses"]["total"] else None
    if limits.get("rwnd", 0.0) >= MOSTLY:
        return "limited by the receiver's window"
    return "limited by its application" if limits.get("application", 0.0) >= MOSTLY else None


def _bottleneck(path: Mapping[str, Any]) -> str | None:
    rate, buffer = path["bottleneck_bps"]["value"], path["buffer_packets"]["value"]
    if rate is None:
        return None
    held = "" if buffer is None else f" with {buffer:.0f} packets of buffer"
    return f"limited by a {_bits(rate)} bottleneck{held}"


def _bits(rate_bps: float) -> str:
    for unit, factor in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if rate_bps >= factor:
            return f"{rate_bps / factor:.3g} {unit}"
    return f"{rate_bps:.3g} bit/s"


def _losses(verdict: Mapping[str, Any], loss_times_s: Sequence[float], *, names_buffer: bool) -> str | None:
    total, causes = verdict["losses"]["total"], verdict["losses"]["by_cause"]
    if total is None:
        return None
    if total == 0:
        return "no losses"
    overflows = causes.get("overflow", 0) > MOSTLY * total
    verb = ("overflows it" if names_buffer else "overflows the buffer") if overflows else "loses packets"
    if len(loss_times_s) < 3:
        times = {1: "once", 2: "twice"}.get(len(loss_times_s))
        return f"{verb} {times}" if times else None
    return f"{verb} every {_seconds(float(np.median(np.diff(np.asarray(loss_times_s)))))}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"


def _slow_starts(verdict: Mapping[str, Any]) -> str | None:
    regime = verdict["slow_starts"]["regime"]
    return f"{regime} slow start in each cycle" if regime in ("double", "triple") else None


def _share_of_law(verdict: Mapping[str, Any]) -> str | None:
    rows = {row["model"]: row["quantities"] for row in verdict["predictions"]}
    for model, words in LAWS.items():
        quantity = rows.get(model, {}).get("throughput")
        if quantity and quantity["value"] and quantity["observed"] is not None:
            is_known = quantity["high"] - quantity["low"] <= LAW_KNOWN * quantity["value"]
            share = quantity["observed"] / quantity["value"]
            return f"{share:.0%} of what {words} allows" if is_known else None
    return None
