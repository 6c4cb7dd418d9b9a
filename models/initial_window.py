"""k packets at once into b buffers: who is lost first and when it is sent again (RFC 2416).

T. Shepard, C. Partridge, "When TCP Starts Up With Four Packets Into Only Three Buffers", RFC 2416. A chain of links
leads to a last queue that holds b packets, the one in service among them ("which can hold at most two packets while one
is being sent"); a slow start from an initial window of k packets. Time 0 is the first packet's transmission, and times
are those at the sender ("we spy here").

The RFC gives a trace and no equations; here is the recurrence behind it, packet by packet, until the third duplicate
ACK (`initial_window_transfer` goes on, one start at a time). A chain of FIFO links with packets of one size delays a
stream exactly as its slowest link with the sum of all times, so the links before the last queue enter as `feed_rate`
and `feed_time` (see `reduce_chain`).

A point of a map costs 0.01 ms where b is up to 60, 0.3 ms where it is up to 1000: time grows with packets followed.

Units: packets, packets/s, seconds. Parameters broadcast; the packets are the last axis of a result. The ways the start
depends on them are steps, so a parameter near a tie (a packet arrives just when another leaves) may move an event; a
departure at the same time frees its place first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from tcptrace_lab.models import conditions
from tcptrace_lab.models.initial_window_start import (
    ACK_TIMER,
    BLOCK_BYTES,
    BLOCK_TIME,
    BLOCKS,
    FEED_RATE,
    FEED_TIME,
    FORWARD,
    INITIAL_WINDOW,
    LAST_RATE,
    PLACES,
    RETURN_TIME,
    StartTimeline,
    packets_needed,
    timeline,
)
from tcptrace_lab.models.prediction import (
    Applicability,
    FloatArray,
    Parameter,
    Prediction,
    Quantity,
    Reason,
    checked,
    named,
    reason,
    require_applies,
)

from tcptrace_lab.scenario import ControlSpec, PathSpec

# Packets of all rows that are followed at once: some arrays of this size are in memory.
BLOCK = 2_000_000


def _summaries(**parameters: FloatArray) -> dict[str, FloatArray]:
    """What `evaluate` answers, for arrays of any size; the one-packet starts to compare with are followed once each."""
    shape = np.broadcast_shapes(*(values.shape for values in parameters.values()))
    # Together: each is followed as far as the other.
    every = {name: np.broadcast_to(values, shape) for name, values in parameters.items()}
    single = {**every, "initial_window": np.ones(shape)}
    both = _followed(**{name: np.stack((values, single[name])) for name, values in every.items()})
    many, one = ({name: values[place] for name, values in both.items()} for place in (0, 1))
    packets = one["first_lost"] - many["first_lost"]
    seconds = one["retransmitted_at"] - many["retransmitted_at"]
    compared = {"shift": seconds, "shift_packets": packets, "ahead": seconds - packets / parameters["last_rate"]}
    return {name: np.broadcast_to(values, shape) for name, values in (many | compared).items()}


def _followed(**parameters: FloatArray) -> dict[str, FloatArray]:
    """First loss, its retransmission and the first ACK: equal rows once, short starts together, in blocks."""
    names = list(parameters)
    arrays = np.broadcast_arrays(*parameters.values())
    rows, place = np.unique(np.stack([array.ravel() for array in arrays]), axis=1, return_inverse=True)
    row = dict(zip(names, rows, strict=True))
    needed = packets_needed(row)
    order = np.argsort(needed, kind="stable")
    found: dict[str, FloatArray] = {}
    begin = 0
    while begin < order.size:
        # The last row of a block needs most; there is always one row.
        sizes = needed[order[begin:]] * np.arange(1, order.size - begin + 1)
        end = begin + max(1, int(np.searchsorted(sizes, BLOCK, side="right")))
        block = order[begin:end]
        run = timeline(**{name: values[block] for name, values in row.items()})
        answers = {
            "first_lost": run.first_lost,
            "retransmitted_at": run.retransmitted,
            "first_ack_at": np.nanmin(np.where(np.isnan(run.ack_at), np.inf, run.ack_at), axis=-1),
            "duplicate_acks": run.duplicates,
            "lost_before_retransmission": run.is_lost.sum(axis=-1).astype(np.float64),
        }
        for name, values in answers.items():
            found.setdefault(name, np.full(needed.shape, np.nan))[block] = values
        begin = end
    return {name: values[place.ravel()].reshape(arrays[0].shape) for name, values in found.items()}


def shift(**parameters: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    """How a k-packet start compares with a one-packet start: (seconds, packets, seconds ahead), section "Discussion".

    At the first retransmission the one-packet start is `seconds` later and `packets` further. Those packets take
    packets / last_rate on the last link; what is left is how far ahead the k-packet start is (positive) in delivering.
    """
    return _shift(timeline(**parameters), **parameters)


def _shift(many: StartTimeline, **parameters: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    is_one = bool(np.all(np.asarray(parameters["initial_window"]) == 1))
    one = many if is_one else timeline(**{**parameters, "initial_window": 1})
    seconds = one.retransmitted - many.retransmitted
    packets = one.first_lost - many.first_lost
    return seconds, packets, seconds - packets / LAST_RATE.check(parameters["last_rate"])


def reduce_chain(path: PathSpec) -> dict[str, float]:
    """A path as `timeline` wants it: the last node's rate and places, what feeds it, and the way back."""
    packet_bits, ack_bits = 8 * path.packet_bytes, 8 * path.ack_bytes
    *before, last = path.nodes
    rates = [path.access_rate_bps, *(node.rate_bps for node in before)]
    delays = [path.access_delay_s, *(node.delay_s for node in before)]
    back = path.return_delay_s + sum(node.delay_s + ack_bits / node.rate_bps for node in path.reverse)
    return {
        "places": path.waiting_places(last) + 1,
        "last_rate": last.rate_bps / packet_bits,
        # No finite rate before the last node: a burst arrives all at once.
        "feed_rate": min(min(rates) / packet_bits, 1e12),
        "feed_time": sum(delays) + sum(packet_bits / rate for rate in rates),
        "return_time": last.delay_s + back,
    }


@dataclass(frozen=True)
class InitialWindow:
    """The RFC's experiment as a model, for any k and b.

    `ack_timer_s` is the receiver's delayed-ACK timer, used where the control has an ACK for two packets.
    """

    ack_timer_s: float = 0.1
    name: str = "initial_window"
    paper: str = "Shepard & Partridge 1998, When TCP starts up with four packets into only three buffers (RFC 2416)"
    parameters: tuple[Parameter, ...] = (
        INITIAL_WINDOW,
        PLACES,
        LAST_RATE,
        FEED_RATE,
        FEED_TIME,
        RETURN_TIME,
        ACK_TIMER,
        BLOCK_TIME,
        FORWARD,
    )

    def applies_to(self, path: PathSpec, control: ControlSpec) -> Applicability:
        """A slow start from the initial window into a last queue that is the slowest and can overflow."""
        return Applicability(
            (
                conditions.is_standard_slow_start(control),
                conditions.no_limited_transmit(control),
                reason(
                    control.recovery in RULES,
                    RULES.get(control.recovery, ""),
                    f"{control.recovery}: no recovery of which the first retransmission is known here",
                ),
                _is_last_slowest(path),
                _is_last_queue_short(path),
                conditions.is_return_free(path, option_bytes=BLOCKS * BLOCK_BYTES if control.has_sack else 0),
                conditions.no_random_loss(path),
                reason(
                    control.initial_window <= INITIAL_WINDOW.high,
                    f"{control.initial_window} packets are sent at once",
                    f"initial_window = {control.initial_window}: must be {INITIAL_WINDOW.range}",
                ),
            )
        )

    def inputs(self, path: PathSpec, control: ControlSpec) -> dict[str, float]:
        """k of the control, the chain reduced to its last queue, the ACK timer if ACKs are delayed, SACK's blocks."""
        return {
            "initial_window": float(control.initial_window),
            **reduce_chain(path),
            "ack_timer": self.ack_timer_s if control.delayed_ack_segments == 2 else 0.0,
            "block_time": sum(8 * BLOCK_BYTES / node.rate_bps for node in path.reverse) if control.has_sack else 0.0,
            "forward": float(control.recovery == "fack"),
        }

    def evaluate(self, **parameters: ArrayLike) -> dict[str, Quantity]:
        """First loss, retransmission, and the comparison with a one-packet start."""
        given = checked(self, parameters)
        names = [parameter.name for parameter in self.parameters]
        found = _summaries(**dict(zip(names, given, strict=True)))
        return {
            name: Quantity(value=value, unit="s" if name in _SECONDS else "packets", equation="recurrence")
            for name, value in found.items()
        }

    def predict(self, path: PathSpec, control: ControlSpec) -> Prediction:
        """Which packet is lost first and when it is sent again."""
        return self.predict_all((path,), control)[0]

    def predict_all(self, paths: Sequence[PathSpec], control: ControlSpec) -> list[Prediction]:
        """The same for each path, each followed as far as the longest."""
        for path in paths:
            require_applies(self, path, control)
        asked = [self.inputs(path, control) for path in paths]
        found = self.evaluate(**{name: np.array([inputs[name] for inputs in asked]) for name in asked[0]})
        return [
            self._prediction(
                inputs, {name: replace(every, value=np.asarray(every.value)[place]) for name, every in found.items()}
            )
            for place, inputs in enumerate(asked)
        ]

    def _prediction(self, inputs: dict[str, float], found: dict[str, Quantity]) -> Prediction:
        notes = []
        if np.isnan(found["first_lost"].value):
            notes.append("nothing is lost in the packets followed")
        elif np.isnan(found["retransmitted_at"].value):
            count = found["duplicate_acks"].value
            notes.append(f"only {count:g} duplicate ACKs come: the retransmission timer must recover the first loss")
        return Prediction(
            model=self.name,
            paper=self.paper,
            inputs=named(self, inputs),
            quantities=found,
            equations=("recurrence",),
            notes=tuple(notes),
        )


# What asks for the first retransmission, by recovery.
RULES = {
    **dict.fromkeys(("tahoe", "reno", "newreno"), "the third duplicate ACK asks for the retransmission"),
    "sack": "the third duplicate ACK, with its blocks, asks for the retransmission",
    "fack": "a SACK of the third packet above the hole asks for the retransmission",
}
_SECONDS = ("retransmitted_at", "first_ack_at", "shift", "ahead")


def _is_last_slowest(path: PathSpec) -> Reason:
    last = path.nodes[-1]
    others = [node.rate_bps for node in path.nodes[:-1]] + [path.access_rate_bps]
    return reason(
        last.rate_bps < min(others),
        "the last node is the slowest",
        "the last node is not the slowest: packets wait before it",
    )


def _is_last_queue_short(path: PathSpec) -> Reason:
    places = path.waiting_places(path.nodes[-1]) + 1
    before = min((path.waiting_places(node) for node in path.nodes[:-1]), default=np.inf)
    return reason(
        PLACES.low <= places <= PLACES.high and before >= 2 * places,
        f"the last queue holds b = {places:g} packets, the one in service included",
        f"the last queue holds b = {places:g} packets: must be {PLACES.range}"
        if not PLACES.low <= places <= PLACES.high
        else f"a queue before the last has {before:g} places: it may overflow before the last one, with b = {places:g}",
    )
