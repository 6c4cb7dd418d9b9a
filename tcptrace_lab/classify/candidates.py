"""The controls that a capture is asked about: the windows of the core's table, in variants a capture can tell apart.

A candidate's `name` is its family (what a verdict says), `variant` which arithmetic and which parameters of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

# Compound's queue threshold in packets: the Linux module's, and what captures of other stacks have been seen to use.
GAMMAS = (30.0, 10.0, 60.0, 90.0)


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A sender to replay: `sender` holds the keys of the core's sender that differ from its defaults."""

    name: str
    variant: str
    sender: Mapping[str, object]

    def to_json(self, *, initial_window: int) -> str:
        return json.dumps({**self.sender, "initial_window": initial_window})


@dataclass(frozen=True, kw_only=True)
class Window:
    """A row of the table of controls, as far as identification needs it."""

    name: str
    family: str
    parameters: tuple[str, ...]


WINDOWS = (
    Window(name="reno", family="reno", parameters=("byte_counting",)),
    Window(name="cubic", family="cubic", parameters=("byte_counting",)),
    Window(name="cubic-linux", family="cubic", parameters=()),
    Window(name="compound", family="compound", parameters=("gamma",)),
    Window(name="compound-draft", family="compound", parameters=("gamma",)),
)


def candidates() -> tuple[Candidate, ...]:
    """Every sender worth replaying."""
    return tuple(_each())


def _each() -> Iterator[Candidate]:
    for window in WINDOWS:
        for byte_counting, gamma in product((False, True), GAMMAS if "gamma" in window.parameters else (None,)):
            sender: dict[str, object] = {"window": window.name, "byte_counting": byte_counting}
            words = [window.name, "bytes" if byte_counting else "ACKs"]
            if gamma is not None:
                sender["gamma"] = gamma
                words.append(f"gamma {gamma:g}")
            yield Candidate(name=window.family, variant=", ".join(words), sender=sender)
            if window.name == "reno":
                yield from _m_start(sender)


def _m_start(sender: Mapping[str, object]) -> Iterator[Candidate]:
    """M-Start is a slow start: over Reno's avoidance, in both readings of the paper."""
    for zero_step in (False, True):
        steps = "10 to 0" if zero_step else "10 to 1"
        counting = "bytes" if sender["byte_counting"] else "ACKs"
        yield Candidate(
            name="m_start",
            variant=f"steps {steps}, reno, {counting}",
            sender={**sender, "slow_start": "m-start", "zero_step": zero_step},
        )
