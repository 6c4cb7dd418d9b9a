"""The controls that a capture is asked about: the windows of the core's table, in variants a capture can tell apart.

A candidate's `name` is its family (what a verdict says), `variant` which arithmetic and which parameters of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product

from tcptrace_lab import _core
from tcptrace_lab.controls import PARAMETERS, WINDOWS, Window

# Compound's queue threshold in packets: the papers'. Stacks and experiments have used others (gamma.py).
GAMMA = float(PARAMETERS["gamma"].default)
# Readings of a document that stacks differ in.
FLAGS = ("htcp_from_recovery", "dwnd_by_cwnd")
# What says on which clock a law hangs, and the clocks that distributions set.
CLOCKS = ("kernel_hz", "module_hz")
KERNELS_HZ = (250.0, 1000.0)
# The least round trip is a part of its law's time, and no other moves its window.
LOOKS_AHEAD = ("cubic-linux",)
# H-TCP's cut goes by the delay from the second loss on at which a cycle's bandwidth was the one before's: the first
# cycle in a capture may be a part of one. Westwood's bandwidth is smoothed over longer than a cycle.
SLOW_TO_FORGET = {"htcp": 3, "westwood": 2}
# What Westwood remembers is two filters of an eighth one behind the other: after so many samples, one a round trip, 3 %
# of what was off.
SMOOTHED_OVER = {"westwood": 40}
# How it cuts hangs on the round trips that met a queue before, counted up to so many (YeAH's rho: then by half); no
# past that is asked for has them.
COUNTS_ROUNDS = {"yeah": 16}
# Families of one window over two slow starts.
TOLD_BY_THEIR_START = ("reno", "m_start")
# Controls that pace by a model of the path: the window alone does not say what they send.
BY_RATE = ("bbr",)


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A sender to replay: a slow start over a window, and parameters that differ from the table's defaults."""

    name: str
    variant: str
    slow_start: str
    window: str
    parameters: Mapping[str, float]

    @property
    def is_by_delay(self) -> bool:
        """Whether round trips move its window."""
        return WINDOWS[self.window].is_by_delay

    @property
    def looks_ahead(self) -> bool:
        """Whether it is where its curve will be a least round trip later."""
        return self.window in LOOKS_AHEAD

    @property
    def is_by_longest_delay(self) -> bool:
        """Whether it holds them against the longest one as well."""
        return WINDOWS[self.window].is_by_longest_delay

    @property
    def is_by_last_loss(self) -> bool:
        """Whether it goes back to the window of its last loss."""
        return WINDOWS[self.window].is_by_last_loss

    @property
    def remembered_losses(self) -> int:
        """How many losses it takes until its law goes by nothing from before them, as far as no past tells it."""
        if self.name in SLOW_TO_FORGET:
            return SLOW_TO_FORGET[self.name]
        return int(self.is_by_delay or self.is_by_last_loss)

    @property
    def fades(self) -> bool:
        """Whether it forgets what came before little by little."""
        return self.name in SLOW_TO_FORGET

    @property
    def is_told_by_pasts(self) -> bool:
        """Whether the pasts that are asked for have all that it remembers."""
        return not (self.fades or self.counts_rounds)

    @property
    def counts_rounds(self) -> bool:
        """Whether it counts round trips, and goes on counting over losses."""
        return self.name in COUNTS_ROUNDS

    @property
    def remembered_rounds(self) -> int:
        """The same in round trips."""
        return SMOOTHED_OVER.get(self.name, COUNTS_ROUNDS.get(self.name, 0))

    @cached_property
    def phases_ms(self) -> tuple[int, ...]:
        """Where within a tick of its kernel's clock the capture may begin: each is another reading of every time."""
        name = _clock(self.window)
        hz = 1000.0 if name is None else self.parameters.get(name, PARAMETERS[name].default)
        return tuple(range(max(int(1000 / hz), 1)))

    def sender(self, *, initial_window: int, smss: int) -> _core.CandidateSender:
        """The candidate before its first ACK."""
        return _core.CandidateSender(
            self.slow_start, self.window, dict(self.parameters), float(initial_window), float(smss)
        )


@cache
def candidates(recovery: str | None = None) -> tuple[Candidate, ...]:
    """Every sender worth replaying, with the parameters of its document. Linux's modules never ran over Tahoe."""
    rows = [
        row
        for row in WINDOWS.values()
        # Omitted: what runs on ns-2's agents alone (TCP-LP reads one-way delays, which a tape does not carry).
        if "rfc" in row.profiles and row.family not in BY_RATE and not (recovery == "tahoe" and row.is_linux_module)
    ]
    return tuple(each for row in rows for each in (*_windows(row), *_m_start(row)))


def other_starts(candidate: Candidate) -> tuple[Candidate, ...]:
    """The same window over HyStart++ (RFC 9406), which counts bytes and slows down before it ends, where none fits."""
    if candidate.slow_start != "standard" or WINDOWS[candidate.window].keeps_to_its_slow_start:
        return ()
    return (replace(candidate, slow_start="hystart", variant=f"{candidate.variant}, HyStart++"),)


def other_clocks(candidate: Candidate) -> tuple[Candidate, ...]:
    """The same module on the other clocks that Linux's kernels have, where it does not fit on the one of the table."""
    name = _clock(candidate.window)
    return tuple(
        replace(
            candidate,
            variant=f"{candidate.variant}, HZ {hz:.0f}",
            parameters={**candidate.parameters, name: hz},
        )
        for hz in KERNELS_HZ
        if name is not None and hz != PARAMETERS[name].default
    )


def _clock(window: str) -> str | None:
    """The parameter of a window's row that says on which clock its law hangs."""
    return next((parameter.name for parameter in WINDOWS[window].parameters if parameter.name in CLOCKS), None)


def with_gamma(candidate: Candidate, gamma: float) -> Candidate:
    """The same Compound with another queue threshold."""
    return replace(
        with_gamma_told(candidate, f"gamma {gamma:.3g}"), parameters={**candidate.parameters, "gamma": gamma}
    )


def with_gamma_told(candidate: Candidate, words: str) -> Candidate:
    """The same Compound; `words`: what its variant says of the queue threshold."""
    before = f"gamma {candidate.parameters['gamma']:.3g}"
    return replace(candidate, variant=candidate.variant.replace(before, words))


def _windows(row: Window) -> Iterator[Candidate]:
    has = {parameter.name for parameter in row.parameters}
    flags = [name for name in FLAGS if name in has]
    # Linux's modules always count bytes.
    counts = (True,) if row.is_linux_module and "byte_counting" not in has else (False, True)
    for byte_counting, *given in product(counts, *([0.0, 1.0] for _ in flags)):
        words = [
            row.name,
            *([_counting(bool(byte_counting))] if len(counts) > 1 else []),
            *(name for name, value in zip(flags, given, strict=True) if value),
        ]
        parameters = {"byte_counting": float(byte_counting), **dict(zip(flags, given, strict=True))}
        if "gamma" in has:
            parameters["gamma"] = GAMMA
            words.append(f"gamma {GAMMA:.3g}")
        yield Candidate(
            name=row.family,
            variant=", ".join(words),
            slow_start="standard",
            window=row.name,
            parameters=parameters,
        )


def _m_start(row: Window) -> Iterator[Candidate]:
    """M-Start is a slow start: over Reno's avoidance, in both readings of the paper."""
    if row.name != "reno":
        return
    for byte_counting, zero_step in product((False, True), repeat=2):
        yield Candidate(
            name="m_start",
            variant=f"steps 10 to {0 if zero_step else 1}, reno, {_counting(byte_counting)}",
            slow_start="m-start",
            window=row.name,
            parameters={"byte_counting": float(byte_counting), "zero_step": float(zero_step)},
        )


def _counting(byte_counting: bool) -> str:
    return "counts bytes" if byte_counting else "counts ACKs"
