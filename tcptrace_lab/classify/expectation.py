"""What theory expects on the inferred path: every model is asked, and its answer set beside the observation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tcptrace_lab.classify.growth import Growth
from tcptrace_lab.classify.path import PathEstimate
from tcptrace_lab.classify.recovery import SenderTcp
from tcptrace_lab.classify.slow_starts import REGIMES, UNDECIDED
from tcptrace_lab.errors import ScenarioError
from tcptrace_lab.models import ALL
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.scenario import Control, Node, Path

ACK_BYTES = 40


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """`predictions` as in the verdict; `agreement`: agrees, disagrees, undecided or not_applicable."""

    predictions: tuple[dict[str, Any], ...]
    agreement: str
    reasons: tuple[str, ...]


def expect(seen: Reconstruction, path: PathEstimate, tcp: SenderTcp, grown: Growth | None, regime: str) -> Expectation:
    """Ask every model about the inferred path, at the buffer's value and at its bounds."""
    control, missing = _control(seen, tcp, grown)
    if control is None:
        return Expectation(predictions=(), agreement="not_applicable", reasons=(missing,))
    buffer = path.buffer_packets
    likely = _path(path, buffer.value)
    if likely is None:
        return Expectation(
            predictions=(),
            agreement="not_applicable",
            reasons=("the path is not known well enough to ask a model about it",),
        )
    predictions, reasons, verdicts = [], [], []
    for model in ALL:
        answer = model.applies_to(likely, control)
        if not answer:
            continue
        predicted = model.predict(likely, control)
        plain = predicted.as_dict()
        inputs = {name: quantity["value"] for name, quantity in plain["inputs"].items()}
        predictions.append(
            {
                "model": predicted.model,
                "inputs": inputs,
                "regime": predicted.regime,
                "case": predicted.case,
                "margin": plain["margin"],
            }
        )
        if predicted.regime is not None and predicted.regime in REGIMES.values():
            within = {_regime_at(model, _path(path, places), control) for places in _places(path)} - {None}
            verdicts.append(_agree(predicted.regime, within, regime))
            words = f"{predicted.model} expects {predicted.regime}"
            others = sorted(str(other) for other in within - {predicted.regime})
            reasons.append(f"{words}; within the buffer's bounds also {', '.join(others)}" if others else words)
    if not verdicts:
        return Expectation(
            predictions=tuple(predictions),
            agreement="not_applicable",
            reasons=("no model of slow starts per cycle covers this sender and path",),
        )
    # A model whose answer depends on a packet of the buffer does not speak against one that fits.
    decided = set(verdicts) - {UNDECIDED}
    agreement = decided.pop() if len(decided) == 1 else UNDECIDED
    return Expectation(predictions=tuple(predictions), agreement=agreement, reasons=tuple(reasons))


def _agree(predicted: str, within: set[str | None], observed: str) -> str:
    if observed not in REGIMES.values():
        return UNDECIDED
    if observed == predicted:
        return "agrees"
    return UNDECIDED if observed in within else "disagrees"


def _regime_at(model: Any, path: Path | None, control: Control) -> str | None:
    if path is None or not model.applies_to(path, control):
        return None
    regime: str | None = model.predict(path, control).regime
    return regime


def _places(path: PathEstimate) -> list[float | None]:
    """Whole numbers of waiting places between the buffer's bounds."""
    buffer = path.buffer_packets
    if buffer.value is None or buffer.low is None or buffer.high is None:
        return [buffer.value]
    return [float(places) for places in np.arange(max(math.ceil(buffer.low), 1), math.floor(buffer.high) + 1)]


def _path(path: PathEstimate, places: float | None) -> Path | None:
    base, rate = path.base_rtt_s.value, path.bottleneck_bps.value
    if base is None or rate is None or places is None or places < 1:
        return None
    # The round trip includes one transmission at the bottleneck; the rest is propagation, put behind the queue.
    delay = max(base - 8 * path.packet_bytes / rate, 0.0)
    return Path(
        nodes=(Node(rate_bps=rate, buffer=float(round(places)), delay_s=delay / 2),),
        return_delay_s=delay / 2,
        packet_bytes=path.packet_bytes,
        ack_bytes=ACK_BYTES,
    )


def _control(seen: Reconstruction, tcp: SenderTcp, grown: Growth | None) -> tuple[Control | None, str]:
    if tcp.recovery is None:
        return None, "no loss event shows how this sender recovers: no model can be asked"
    if tcp.recovery != "tahoe":
        # Reno's halving and CUBIC's growth are told apart by replay only; a model of either would be a guess.
        return None, "the sender's window growth is not identified: models of it are not asked"
    timeline = seen.timeline
    moved = timeline.newly_acked[timeline.newly_acked > 0]
    ack_every = 1 if np.median(moved) < 1.5 * timeline.smss else 2
    try:
        control = Control(
            slow_start="m-start" if grown is not None and grown.is_m_start else "standard",
            recovery=tcp.recovery,
            initial_window=initial_window(seen) or 1,
            delayed_ack_segments=ack_every,
        )
    except ScenarioError as error:
        return None, str(error)
    return control, ""


def initial_window(seen: Reconstruction) -> int | None:
    """Segments sent before the first ACK of data (RFC 6928); None where the beginning is not in the capture."""
    timeline = seen.timeline
    if not timeline.has_start or not len(timeline.ack_ns):
        return None
    moved = np.flatnonzero(timeline.newly_acked > 0)
    until = timeline.ack_ns[moved[0]] if len(moved) else np.iinfo(np.int64).max
    if seen.base_rtt_ns:
        # Nothing that an ACK released leaves before one can have come, whether or not the tap caught the first.
        until = min(until, timeline.send_ns[0] + seen.base_rtt_ns)
    first = timeline.send_ns < until
    if not first.any():
        return None
    return int(-(-(int(timeline.snd_max[first].max()) - timeline.first_offset) // timeline.smss))
