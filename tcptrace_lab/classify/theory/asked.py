"""What a model is asked about: the path as inferred, corner by corner, and the sender as identified.

Two kinds of questions. A model of a queue takes the bottleneck's rate and places, and no other loss. A law of rate
against loss takes p and the round trip as they were seen, whatever caused the losses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.control.answer.identified import UNKNOWN, Identified
from tcptrace_lab.classify.control.candidates.candidates import Candidate
from tcptrace_lab.classify.control.candidates.gamma import LEAST
from tcptrace_lab.classify.path.path import PathEstimate
from tcptrace_lab.classify.sender.growth import Growth
from tcptrace_lab.classify.sender.initial_window import initial_window
from tcptrace_lab.classify.sender.recovery import SenderTcp
from tcptrace_lab.classify.theory.measured import Steady
from tcptrace_lab.controls import WINDOWS
from tcptrace_lab.reconstruct.distinct import distinct
from tcptrace_lab.reconstruct.estimate import Estimate
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Timeline
from tcptrace_lab.scenario import INFINITE, ControlSpec, NodeSpec, PathSpec

ACK_BYTES = 40
# Larger sets than this are no answer that a model could be asked about.
MOST_NAMES = 3
# The families that a model here is about. Any other has none.
MODELLED = ("reno", "cubic", "compound", "m_start")
# A model is asked at each number of waiting places between the bounds; of more than this an even sample. Packet by
# packet an answer takes 0.1 s, and on a pipe of many packets a second: there a place more or less decides nothing.
MOST_PLACES = 16
LARGE_PIPE_PACKETS = 1000


def sender_asked(
    seen: Reconstruction, tcp: SenderTcp, identified: Identified, grown: Growth | None
) -> tuple[ControlSpec | None, str]:
    """The sender to ask models about, and why it is that one; None with what is missing."""
    names = [each.candidate.name for each in identified.left]
    if tcp.recovery == "tahoe":
        # Tahoe's papers are about its slow starts: those are seen, whatever is left of the candidates.
        is_m_start = grown is not None and grown.is_m_start
        return replace(_plain(seen), slow_start="m-start" if is_m_start else "standard", recovery="tahoe"), ""
    if identified.control == "bbr":
        return None, "BBR goes by a model of the path of its own: none of the table's is about it"
    if identified.control == UNKNOWN or not names:
        return None, "the sender's congestion control is not identified: no model can be asked"
    if identified.control is None and len(names) > MOST_NAMES:
        several = len(names) + identified.may_be_bbr
        return None, f"{several} controls would all have done what was seen: no model can be asked"
    best = next((each.candidate for each in identified.left if each.candidate.name in MODELLED), None)
    if best is None:
        return None, f"no model here is about {' or '.join(names)}"
    recovery = tcp.recovery or ("sack" if seen.timeline.has_sack else "newreno")
    plain = _plain(seen)
    control = replace(
        plain,
        slow_start=best.slow_start,
        window=_document(best),
        recovery=recovery,
        gamma=best.parameters.get("gamma", plain.gamma),
        byte_counting=_counts_packets(best),
        zero_step=bool(best.parameters.get("zero_step", 0.0)),
    )
    return control, "" if len(names) == 1 else f"models are asked about {best.name}, one of {', '.join(names)}"


def _plain(seen: Reconstruction) -> ControlSpec:
    return ControlSpec(
        initial_window=initial_window(seen) or 1,
        max_window=_max_window(seen.timeline),
        delayed_ack_segments=acks_every(seen.timeline),
    )


def acks_every(timeline: Timeline) -> int:
    """Segments that an ACK answers, 1 or 2: the median of what ACKs cover."""
    moved = timeline.newly_acked[timeline.newly_acked > 0]
    return 1 if not len(moved) or _core.median(moved) < 1.5 * timeline.smss else 2


def queue_paths(path: PathEstimate) -> list[PathSpec]:
    """The path at its values, then at its bounds; empty where a part of it is not known."""
    places, base, rate = _places(path.buffer_packets), path.base_rtt_s, path.bottleneck_bps
    likely = _path(path, base.value, rate.value, path.buffer_packets.value)
    if likely is None:
        return []
    few = sorted({places[0], places[-1]}) if places else []
    is_large = likely.mu_pps * likely.base_rtt_s > LARGE_PIPE_PACKETS
    asked = [(base.value, rate.value, each) for each in (few if is_large else places)]
    asked += list(product(_bounds(base), _bounds(rate), few))
    found = [_path(path, *each) for each in asked]
    return [likely, *(each for each in found if each is not None)]


def law_paths(path: PathEstimate, steady: Steady | None) -> list[PathSpec]:
    """Paths of the loss rate and the mean round trip that were seen, at their values and their bounds.

    The link is without a limit: what its queue did to p and to the round trip is in both.
    """
    if steady is None or not 0 < steady.loss_rate < 1 or steady.round_trip_s <= 0:
        return []
    base, mean = path.base_rtt_s, steady.round_trip_s
    shorter = 0.0 if base.value is None or base.low is None else max(base.value - base.low, 0.0)
    longer = 0.0 if base.value is None or base.high is None else max(base.high - base.value, 0.0)
    # Losses at one distance give their rate exactly; losses at random to 1 / sqrt(events).
    off = min(steady.loss_rate_error, 0.9)
    rates = (steady.loss_rate * (1 - off), min(steady.loss_rate * (1 + off), 0.99))
    asked = [(steady.loss_rate, mean), *product(rates, (max(mean - shorter, mean / 2), mean + longer))]
    return [
        PathSpec(
            nodes=(NodeSpec(rate_bps=INFINITE, delay_s=rtt_s / 2, loss=loss),),
            return_delay_s=rtt_s / 2,
            packet_bytes=path.packet_bytes,
            ack_bytes=ACK_BYTES,
        )
        for loss, rtt_s in asked
    ]


def gammas_asked(control: ControlSpec, gamma: Estimate, paths: Sequence[PathSpec]) -> list[float]:
    """What else Compound's queue threshold may be, as far as the capture tells: the ends of its bounds.

    Without a lower one down to the least that is replayed; without an upper one up to all that the queue holds: one
    that is never met is one like another.
    """
    if WINDOWS[control.window].family != "compound":
        return []
    most = max((path.waiting_places(path.bottleneck) + 1 for path in paths), default=control.gamma)
    low = LEAST if gamma.low is None else max(gamma.low, LEAST)
    high = max(most, control.gamma) if gamma.high is None else gamma.high
    return [each for each in (low, high) if each != control.gamma]


def law_control(control: ControlSpec) -> ControlSpec:
    """The laws' b is by how many packets the window waits for its next increase: one where packets are counted."""
    return replace(control, delayed_ack_segments=1) if control.byte_counting else control


def _document(candidate: Candidate) -> str:
    """The window that papers know: of a stack's own arithmetic that of its family; Compound's differ in their model."""
    if candidate.name == "compound":
        return candidate.window
    return "reno" if candidate.name == "m_start" else WINDOWS[candidate.window].family


def _counts_packets(candidate: Candidate) -> bool:
    # Linux's modules count what an ACK acknowledges.
    return bool(candidate.parameters.get("byte_counting", 0.0)) or WINDOWS[candidate.window].is_linux_module


def _max_window(timeline: Timeline) -> int:
    """What the receiver offered at its best, in segments: no window is larger."""
    most = int(timeline.rwnd.max()) // timeline.smss if len(timeline.rwnd) else 0
    return min(most, 100_000) if most > 0 else 100_000


def _places(buffer: Estimate) -> list[float]:
    """Whole numbers of waiting places between the buffer's bounds."""
    if buffer.value is None:
        return []
    if buffer.low is None or buffer.high is None:
        return [buffer.value]
    low, high = max(math.ceil(buffer.low), 1), max(math.floor(buffer.high), 1)
    if high < low:
        return [buffer.value]
    if high - low < MOST_PLACES:
        return [float(places) for places in range(low, high + 1)]
    return [float(places) for places in distinct(np.round(np.linspace(low, high, MOST_PLACES)))]


def _bounds(estimate: Estimate) -> list[float]:
    known = {estimate.low, estimate.high} - {None}
    return sorted(each for each in known if each is not None) or [each for each in (estimate.value,) if each]


def _path(path: PathEstimate, base: float | None, rate: float | None, places: float | None) -> PathSpec | None:
    if base is None or rate is None or places is None or places < 1 or rate <= 0:
        return None
    # The round trip includes one transmission at the bottleneck; the rest is propagation, put behind the queue.
    delay = max(base - 8 * path.packet_bytes / rate, 0.0)
    return PathSpec(
        nodes=(NodeSpec(rate_bps=rate, buffer=float(round(places)), delay_s=delay / 2),),
        return_delay_s=delay / 2,
        packet_bytes=path.packet_bytes,
        ack_bytes=ACK_BYTES,
    )
