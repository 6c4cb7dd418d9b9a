"""M-Start: a slow start whose step runs from P down to 1 and round again (Patel & Ganatra 2017).

R. P. Patel, A. P. Ganatra, "TCP M-Start: A New Slow Start Method of TCP to Transfer Data Over Long Fat Pipe Network".
One sender, one bottleneck of mu packets/s, a round trip of T seconds, an ACK for every packet. Cycle n answers the
packets released in cycle n - 1; the ACKs of a cycle are 1/mu apart, and the queue is empty when a cycle begins.

Everything follows from W(a), the window after `a` ACKs: a cycle that begins after A_n ACKs has seen everything released
before it, so A_(n+1) = A_n + W(A_n), and its m-th ACK leaves a queue of W(A_n + m + 1) - W(A_n) + 1.
Units: packets, packets/s, seconds. Functions take scalars or arrays and broadcast. Equation numbers are the paper's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from tcptrace_lab.models import conditions
from tcptrace_lab.models.prediction import (
    Applicability,
    FloatArray,
    Parameter,
    Prediction,
    Quantity,
    checked,
    named,
    reason,
    require_applies,
)

from tcptrace_lab.scenario import ControlSpec, PathSpec

BUFFER = Parameter(name="buffer", unit="packets", meaning="B_s, waiting places at the bottleneck", example=100, low=1,
                   low_open=False)  # fmt: skip
MU = Parameter(name="mu", unit="packets/s", meaning="the bottleneck's rate (the paper's c too)", example=125_000)
ROUND_TRIP = Parameter(name="round_trip", unit="s", meaning="T, propagation and transmission", example=0.4)
STEP = Parameter(name="step", unit="1", meaning="P, the first step of each run (0: standard slow start)", example=10,
                 low_open=False, integer=True)  # fmt: skip
ZERO_STEP = Parameter(name="zero_step", unit="1", meaning="1 if a run ends in a step of 0 (P + 1 ACKs)", example=0,
                      low_open=False, high=1, high_open=False, integer=True)  # fmt: skip

INITIAL_WINDOW = Parameter(name="initial_window", unit="packets", meaning="the first window", example=1, low=1,
                           low_open=False, integer=True)  # fmt: skip

# "To find out minimum delay, first two iterations are not changed" (section 4): one ACK, in cycle 1, adds 1.
UNCHANGED_ACKS = 1
# Standard slow start needs 50 cycles to pass 2^50 packets, beyond which doubles no longer count packets.
MAX_CYCLES = 50


def window(
    acks: ArrayLike, step: ArrayLike = 10, zero_step: ArrayLike = 0, initial_window: ArrayLike = 1
) -> FloatArray:
    """W in packets after so many ACKs: the first adds 1, the next P, P - 1, ... , 1 and again P, P - 1, ...

    Equation (3) as Table 2 uses it. `zero_step` adds a step of 0 before P comes again: the text's "when P becomes 0 it
    would reset to 10" and the algorithm's test `scnt == 0` allow either reading; the tables have no zero step.
    """
    a, p, zero = np.asarray(acks, dtype=np.float64), STEP.check(step), ZERO_STEP.check(zero_step)
    k = np.maximum(a - UNCHANGED_ACKS, 0)
    runs, r = np.divmod(k, np.maximum(p + zero, 1))
    r = np.minimum(r, p)
    stepped = runs * p * (p + 1) / 2 + r * (2 * p + 1 - r) / 2
    return INITIAL_WINDOW.check(initial_window) + np.minimum(a, UNCHANGED_ACKS) + np.where(p == 0, k, stepped)


def acks_until(
    wanted: ArrayLike, step: ArrayLike = 10, zero_step: ArrayLike = 0, initial_window: ArrayLike = 1
) -> FloatArray:
    """The number of ACKs after which the window is first `wanted` packets or more: the inverse of `window`."""
    p, zero, first = STEP.check(step), ZERO_STEP.check(zero_step), INITIAL_WINDOW.check(initial_window)
    more = np.ceil(np.asarray(wanted, dtype=np.float64) - first)
    rest = np.maximum(more - UNCHANGED_ACKS, 0)
    run = np.maximum(p * (p + 1) / 2, 1)
    runs = np.maximum(np.ceil(rest / run) - 1, 0)
    left = rest - runs * run
    # Smallest r with r (2P + 1 - r) / 2 >= left: the smaller root, rounded up (exact: the root is whole or far off).
    r = np.ceil((2 * p + 1 - np.sqrt(np.maximum((2 * p + 1) ** 2 - 8 * left, 0))) / 2 - 1e-9)
    k = np.where(p == 0, rest, runs * (p + zero) + r)
    return np.clip(more, 0, UNCHANGED_ACKS) + np.where(rest > 0, k, 0)


def acks_by(cycle: int, step: ArrayLike = 10, zero_step: ArrayLike = 0, initial_window: ArrayLike = 1) -> FloatArray:
    """ACKs received when cycle n is over: all that was released before it, so A_n = A_(n-1) + W(A_(n-1))."""
    acks = np.zeros(np.broadcast_shapes(np.shape(step), np.shape(zero_step), np.shape(initial_window)))
    for _ in range(cycle):
        acks = acks + window(acks, step, zero_step, initial_window)
    return acks


def queue(
    cycle: int, m: ArrayLike, step: ArrayLike = 10, zero_step: ArrayLike = 0, initial_window: ArrayLike = 1
) -> FloatArray:
    """Packets in the bottleneck after ACK m (from 0) of cycle n >= 1, Tables 1 and 2; equation (2) for step 0."""
    before = acks_by(cycle - 1, step, zero_step, initial_window)
    after = window(before + np.asarray(m) + 1, step, zero_step, initial_window)
    return after - window(before, step, zero_step, initial_window) + 1


def equation_1(n: ArrayLike, m: ArrayLike) -> FloatArray:
    """Equation (1) as it must be meant, and as Table 1 has it: W(nT + m/mu) = 2^(n-1) + m + 1, packets."""
    return _floats(2.0 ** (_floats(n) - 1) + _floats(m) + 1)


def equation_1_printed(n: ArrayLike, m: ArrayLike) -> FloatArray:
    """Equation (1) as printed: 2n - 1 + m + 1 (the exponent lost)."""
    return _floats(2.0 * _floats(n) - 1 + _floats(m) + 1)


def equation_2(m: ArrayLike) -> FloatArray:
    """Equation (2): Q(nT + m/mu) = m + 2, packets; at most 2^(n-1) + 1 in cycle n."""
    return _floats(m) + 2.0


def equation_3_printed(k: ArrayLike, m: ArrayLike, step: ArrayLike = 10) -> FloatArray:
    """Equation (3) as printed: 2^(k-1) + m + 1 + (P - k mod P), packets: it does not give Table 2's windows.

    Meant is the increment: each ACK adds P - (k mod P), k counting ACKs from 0 (`window`).
    """
    return _floats(2.0 ** (_floats(k) - 1) + _floats(m) + 1 + (STEP.check(step) - np.mod(k, step)))


def growth(step: ArrayLike = 10, zero_step: ArrayLike = 0) -> FloatArray:
    """The factor by which the window grows per cycle in the long run: 1 + the mean step (2 for standard slow start)."""
    p, zero = STEP.check(step), ZERO_STEP.check(zero_step)
    return 1 + np.where(p == 0, 1.0, p * (p + 1) / 2 / np.maximum(p + zero, 1))


def buffer_needed(step: ArrayLike = 10, zero_step: ArrayLike = 0) -> FloatArray:
    """B_s / cT from which a slow start up to (cT + B_s) / 2 does not overflow the buffer, a pure number.

    Section 3: Q_max = W_max / 2 <= (cT + B_s) / 4 gives B_s >= cT / 3. With growth g the queue takes (1 - 1/g) of the
    window, so B_s >= cT (g - 1) / (g + 1): 11/15 of the pipe for M-Start, which the paper does not say. Like the
    paper's, it leaves out single packets: `queue_peak` counts them.
    """
    g = growth(step, zero_step)
    return (g - 1) / (g + 1)


def run_until(
    limit: ArrayLike,
    buffer: ArrayLike = np.inf,
    step: ArrayLike = 10,
    zero_step: ArrayLike = 0,
    initial_window: ArrayLike = 1,
) -> dict[str, FloatArray]:
    """The slow start up to the first queue above `buffer`, or else to the first window of `limit` packets or more.

    Returns overflows (1 or 0), the cycle n and its ACK m where it ended, the window there and queue_peak, the longest
    queue seen (packets). The ACKs of a cycle must not fill a round trip, so `limit` should not exceed cT + B_s.
    """
    rule = (STEP.check(step), ZERO_STEP.check(zero_step), INITIAL_WINDOW.check(initial_window))
    top, places = np.asarray(limit, dtype=np.float64), np.asarray(buffer, dtype=np.float64)
    shape = np.broadcast_shapes(top.shape, places.shape, *(array.shape for array in rule))
    found = {name: np.zeros(shape) for name in ("overflows", "cycle", "m", "window", "queue_peak")}
    # Cycle 0: the first window at once; all but the packet in service wait.
    first = np.broadcast_to(rule[2], shape)
    found["queue_peak"] = first - 1
    is_lost = found["queue_peak"] > places
    found["window"] = np.where(is_lost, first, 0.0)
    found["overflows"] = np.where(is_lost, 1.0, 0.0)
    running, acks = ~is_lost, np.zeros(shape)
    for cycle in range(1, MAX_CYCLES):
        start = window(acks, *rule)
        # ACK m leaves W - start + 1 packets: the window that exceeds the buffer by one is start + B_s.
        last = acks_until(np.minimum(start + np.floor(places), top), *rule)
        end = acks + start
        is_last = running & (last <= end)
        at = np.maximum(np.where(is_last, last, end), acks)
        reached = window(at, *rule)
        length = reached - start + 1
        found["queue_peak"] = np.where(running, np.maximum(found["queue_peak"], length), found["queue_peak"])
        for name, value in (
            ("cycle", cycle),
            ("m", at - acks - 1),
            ("window", reached),
            ("overflows", length > places),
        ):
            found[name] = np.where(is_last, value, found[name])
        running, acks = running & ~is_last, end
        if not running.any():
            break
    return found


def _floats(value: ArrayLike) -> FloatArray:
    return np.asarray(value, dtype=np.float64)


@dataclass(frozen=True)
class MStart:
    """The paper as a model: does the slow start up to half of what the network holds overflow the buffer."""

    name: str = "m_start"
    paper: str = "Patel & Ganatra 2017, TCP M-Start: a new slow start method over long fat pipe networks"
    parameters: tuple[Parameter, ...] = (BUFFER, MU, ROUND_TRIP, STEP, ZERO_STEP, INITIAL_WINDOW)

    def applies_to(self, path: PathSpec, control: ControlSpec) -> Applicability:
        """Section 3's model: ACK-clocked slow start, standard or M-Start, into one drop-tail buffer."""
        return Applicability(
            (
                reason(
                    control.slow_start in ("standard", "m-start"),
                    f"slow start is {control.slow_start}",
                    f"slow start is {control.slow_start}, neither standard nor m-start",
                ),
                conditions.acks_every_packet(control),
                conditions.has_finite_buffer(path, path.bottleneck),
                conditions.is_return_free(path),
                conditions.no_random_loss(path),
                conditions.has_delay(path),
            )
        )

    def inputs(self, path: PathSpec, control: ControlSpec) -> dict[str, float]:
        """B_s, mu and T of the slowest node and the path; the step of the control (0: standard slow start)."""
        return {
            "buffer": path.waiting_places(path.bottleneck),
            "mu": path.mu_pps,
            "round_trip": path.base_rtt_s,
            "step": 10 if control.slow_start == "m-start" else 0,
            "zero_step": float(control.zero_step),
            "initial_window": control.initial_window,
        }

    def evaluate(self, **parameters: ArrayLike) -> dict[str, Quantity]:
        """Two slow starts: up to W_th = (cT + B_s) / 2, and with no threshold up to the first loss."""
        b, mu, round_trip, p, zero, first = checked(self, parameters)
        pipe = mu * round_trip
        threshold = (pipe + b) / 2
        free = run_until(threshold, np.inf, p, zero, first)
        # With no threshold the buffer overflows within a cycle, or at the latest when the whole path is full.
        loss = run_until(pipe + b + 1, b, p, zero, first)
        # The last packet released at the overflow is lost; the ACKs of those before it go on opening the window.
        lost = loss["window"] + acks_until(loss["window"], p, zero, first)
        shape = np.broadcast_shapes(*(array.shape for array in (b, mu, round_trip, p, zero, first)))
        quantities = {
            "overflows": (free["queue_peak"] > b, "1", "section 3"),
            "W_th": (threshold, "packets", "section 3"),
            "Q_max": (free["queue_peak"], "packets", "eqs. 2, 3"),
            "rounds": (free["cycle"], "1", "eqs. 1, 3"),
            "time_to_W_th": (free["cycle"] * round_trip + free["m"] / mu, "s", "eqs. 1, 3"),
            "growth": (growth(p, zero), "1", "eq. 3"),
            "buffer_needed": (buffer_needed(p, zero) * pipe, "packets", "section 3"),
            "W_first_loss": (loss["window"], "packets", "eqs. 1, 3"),
            "time_of_first_loss": (loss["cycle"] * round_trip + loss["m"] / mu, "s", "eqs. 1, 3"),
            "W_detected": (window(lost - 1, p, zero, first), "packets", "eqs. 1, 3"),
            "margin": (np.abs(free["queue_peak"] / b - 1), "1", "section 3"),
        }
        return {
            name: Quantity(value=np.broadcast_to(value, shape), unit=unit, equation=equation)
            for name, (value, unit, equation) in quantities.items()
        }

    def predict(self, path: PathSpec, control: ControlSpec) -> Prediction:
        """ "overflow" if the slow start up to half of cT + B_s loses packets, else "fits"."""
        require_applies(self, path, control)
        inputs = self.inputs(path, control)
        found = self.evaluate(**inputs)
        is_m_start = inputs["step"] > 0
        notes = ["cycles are taken apart: the queue is empty when a cycle begins, as long as W < cT"]
        if control.initial_ssthresh < float(found["W_first_loss"].value):
            notes.append(
                f"ssthresh = {control.initial_ssthresh:g} at first: the first slow start ends before W_first_loss"
            )
        return Prediction(
            model=self.name,
            paper=self.paper,
            inputs=named(self, inputs),
            quantities=found,
            equations=("eq. 3", "section 3") if is_m_start else ("eq. 1", "eq. 2", "section 3"),
            regime="overflow" if found["overflows"].value else "fits",
            margin=float(found["margin"].value),
            notes=tuple(notes),
        )
