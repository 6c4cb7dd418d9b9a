"""Shares of the time by what limited the sender: what a part of it comes to, and what is taken from one cause to
another."""

from __future__ import annotations

import numpy as np

from tcptrace_lab.reconstruct.given import FEWEST_ALIKE, MINORITY
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Bools, Ints, Timeline
from tcptrace_lab.reconstruct.windows import APPLICATION, LIMITS, limited_at

UNKNOWN = "unknown"


def share_of(timeline: Timeline, spent_ns: float) -> float:
    """Of the time until the last segment left."""
    whole = int(timeline.send_ns[-1]) - timeline.start_ns if len(timeline.send_ns) else 0
    return spent_ns / whole if whole > 0 else 0.0


def spans_of(timeline: Timeline, acks: Ints | None = None) -> Ints:
    """How long each ACK, or each of these, was the last one, until the last segment left."""
    until = int(timeline.send_ns[-1])
    if acks is None:
        found: Ints = np.diff(np.minimum(np.append(timeline.ack_ns, until), until))
        return found
    is_last = acks + 1 >= len(timeline.ack_ns)
    ends_ns = np.where(is_last, until, timeline.ack_ns[np.where(is_last, acks, acks + 1)])
    return np.minimum(ends_ns, until) - np.minimum(timeline.ack_ns[acks], until)


def by_limit(timeline: Timeline, spent_ns: Ints, limited: Ints, *names: str) -> dict[str, float]:
    """Shares of the time, of what was spent with each of these as the limit."""
    return {name: share_of(timeline, float(spent_ns[limited == LIMITS.index(name)].sum())) for name in names}


def within(timeline: Timeline, acks: Ints | Bools | slice, *names: str) -> dict[str, float]:
    """The same of the time behind these ACKs."""
    return by_limit(timeline, spans_of(timeline)[acks], limited_at(timeline)[acks], *names)


def between_losses(seen: Reconstruction) -> slice | None:
    """The ACKs from the first to the last of a few loss events (None: of fewer, or no time between ACKs): what was said
    before a transfer, and a connection left open behind it, are no part of the windows that losses cut."""
    times = [episode.time_ns for episode in seen.episodes if episode.is_loss]
    if len(times) < FEWEST_ALIKE:
        return None
    first, end = np.searchsorted(seen.timeline.ack_ns, [times[0], times[-1]])
    return slice(int(first), int(end)) if end - first > 1 else None


def held_by_application(seen: Reconstruction) -> float:
    """Share of the time in which the application held it back: of all, or between its losses if that is less."""
    whole, part = seen.limits.get("application", 0.0), between_losses(seen)
    if whole < MINORITY or part is None:
        return whole
    spent = spans_of(seen.timeline)[part]
    if not spent.any():
        return whole
    return min(whole, float(spent[limited_at(seen.timeline)[part] == APPLICATION].sum() / spent.sum()))


def move(shares: dict[str, float], name: str, to: str = UNKNOWN, *, most: float = 1.0) -> None:
    """Takes up to `most` of what was put down to one cause to another."""
    share = round(min(most, shares[name]), 4)
    if share > 0:
        shares[to] = round(shares[to] + share, 4)
        shares[name] = round(shares[name] - share, 4)
