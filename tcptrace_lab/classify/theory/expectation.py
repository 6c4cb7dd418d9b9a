"""What theory expects on the inferred path: every model is asked, and its answer set beside the observation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tcptrace_lab.classify.control.answer.identified import Identified
from tcptrace_lab.classify.path.path import PathEstimate
from tcptrace_lab.classify.regime.compound import CompoundRegime
from tcptrace_lab.classify.regime.slow_starts import REGIMES, UNDECIDED, SlowStarts
from tcptrace_lab.classify.sender.growth import Growth
from tcptrace_lab.classify.sender.recovery import SenderTcp
from tcptrace_lab.classify.theory.asked import gammas_asked, law_control, law_paths, queue_paths, sender_asked
from tcptrace_lab.classify.theory.measured import Steady, observed, steady
from tcptrace_lab.errors import ScenarioError
from tcptrace_lab.models import ALL, Model, Prediction, TogetherModel
from tcptrace_lab.reconstruct.given import DELAYED_ACK_SEGMENTS, MINORITY
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.scenario import ControlSpec, PathSpec

# What was seen over what a model predicts: the least and the greatest ratio that its own accuracy explains. Measured
# beside the simulator (docs/models_vs_simulator.md, errors of 5 to 95 % of the runs, turned into seen / predicted):
# section 7 of small_buffers leaves out waiting and slow starts (+3 to +27 %), counted by packets it is off by -2.0 to
# +0.4 %, Compound's cycle by -4 to +3 % (its hard cases 1 to 3), Mathis by -7 to +24 % up to p = 0.02, PFTK by -20 to
# +22 %; CUBIC's response function is 4 to 20 % low under random loss. Each has 2 % more for a host's own delays.
ACCURACY: Mapping[str, tuple[float, float]] = {
    "small_buffers": (0.77, 1.02),
    "small_buffers_packets": (0.97, 1.04),
    "several_nodes": (0.80, 1.02),
    "several_nodes_packets": (0.97, 1.04),
    "compound": (0.95, 1.06),
    "mathis": (0.79, 1.10),
    "pftk": (0.80, 1.27),
    "cubic_response": (0.94, 1.27),
}
# Above this p Mathis, which has no timeouts, is more than 24 % too high.
MATHIS_LOSS = 0.02
DECISIVE = ("throughput", "throughput_cycle")
NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """`predictions` as in the verdict; `agreement`: agrees, disagrees, undecided or not_applicable."""

    predictions: tuple[dict[str, Any], ...]
    agreement: str
    reasons: tuple[str, ...]


def not_asked(why: str) -> Expectation:
    """No model was asked, and why not."""
    return Expectation(predictions=(), agreement=NOT_APPLICABLE, reasons=(why,))


def expect(
    seen: Reconstruction,
    path: PathEstimate,
    *,
    tcp: SenderTcp,
    identified: Identified,
    grown: Growth | None,
    starts: SlowStarts,
    compound: CompoundRegime | None,
    limits: Mapping[str, float],
) -> Expectation:
    """Ask every model about the inferred path, at its values and at their bounds."""
    try:
        control, why = sender_asked(seen, tcp, identified, grown)
        if control is None:
            return not_asked(why)
        means = steady(seen)
        queues, laws = queue_paths(path), law_paths(path, means)
    except (ScenarioError, ValueError) as error:
        return not_asked(f"no model can be asked about this path or sender: {error}")
    if not queues and not laws:
        return not_asked("the path is not known well enough to ask a model about it")
    found = observed(means, starts.steady, compound)
    gammas = gammas_asked(control, identified.gamma, queues)
    held = sum(limits.get(name, 0.0) for name in ("rwnd", "application"))
    predictions: list[dict[str, Any]] = []
    reasons, verdicts = [why] if why else [], list[str]()
    for model in ALL:
        for paths, asked in ((queues, control), (laws, law_control(control))):
            if not paths:
                continue
            try:
                if not model.applies_to(paths[0], asked):
                    continue
                answers = _answers(model, paths, asked, gammas if _has_gamma(model) else ())
            except (ScenarioError, ValueError, ArithmeticError) as error:
                reasons.append(f"{model.name} has no answer: {error}")
                continue
            row = _row(answers, found)
            if _has_gamma(model):
                row["inputs"]["gamma"] = identified.gamma.value
            predictions.append(row)
            judged = (_by_regime(row, starts.regime), _by_case(row, compound), _by_number(row, means, held))
            verdicts.extend(verdict for verdict, _ in judged if verdict is not None)
            reasons.extend(sentence for _, sentence in judged if sentence)
    if not verdicts:
        why = "no model of what was seen here covers this sender and path"
        return Expectation(predictions=tuple(predictions), agreement=NOT_APPLICABLE, reasons=(*reasons, why))
    # A model whose answer depends on a packet of the buffer does not speak against one that fits.
    decided = set(verdicts) - {UNDECIDED}
    agreement = decided.pop() if len(decided) == 1 else UNDECIDED
    if agreement == "disagrees" and identified.control is None and tcp.recovery != "tahoe":
        # It may be another of the set that sent this.
        agreement = UNDECIDED
    return Expectation(predictions=tuple(predictions), agreement=agreement, reasons=tuple(reasons))


def _has_gamma(model: Model) -> bool:
    return any(parameter.name == "gamma" for parameter in model.parameters)


def _answers(
    model: Model, paths: Sequence[PathSpec], control: ControlSpec, gammas: Sequence[float]
) -> list[Prediction]:
    """At the values of path and sender first; then wherever within their bounds the model still applies."""
    asked = [paths[0], *(path for path in paths[1:] if model.applies_to(path, control))]
    if isinstance(model, TogetherModel):
        return model.predict_all(asked, control)
    controls = [control, *(replace(control, gamma=gamma) for gamma in gammas)]
    return [model.predict(path, each) for each in controls for path in asked]


def _row(answers: Sequence[Prediction], seen: Mapping[str, float | None]) -> dict[str, Any]:
    """A row of the verdict's `predictions`."""
    likely, *others = (answer.as_dict() for answer in answers)
    quantities = {}
    for name, quantity in likely["quantities"].items():
        values = [each["quantities"].get(name, {}).get("value") for each in (likely, *others)]
        numbers = [float(value) for value in values if isinstance(value, (int, float))]
        value = quantity["value"]
        quantities[name] = {
            "value": float(value) if isinstance(value, (int, float)) else None,
            "low": min(numbers, default=None),
            "high": max(numbers, default=None),
            "observed": seen.get(name),
            "unit": quantity["unit"],
        }
    kinds = {each["regime"] if each["case"] is None else each["case"] for each in (likely, *others)}
    return {
        "model": likely["model"],
        "inputs": {name: quantity["value"] for name, quantity in likely["inputs"].items()},
        "quantities": quantities,
        "regime": likely["regime"],
        "case": likely["case"],
        "compatible": sorted(kinds - {None}),
        "margin": likely["margin"],
    }


def _by_regime(row: Mapping[str, Any], seen: str) -> tuple[str | None, str]:
    """Slow starts per cycle: within the path's bounds any regime that the model gives there is compatible."""
    expected = row["regime"]
    if expected not in REGIMES.values():
        return None, ""
    others = [other for other in row["compatible"] if other != expected]
    words = f"{row['model']} expects {expected}"
    words += f"; within the path's bounds also {', '.join(others)}" if others else ""
    if seen not in REGIMES.values():
        return UNDECIDED, words
    return "agrees" if seen == expected else UNDECIDED if seen in others else "disagrees", words


def _by_case(row: Mapping[str, Any], compound: CompoundRegime | None) -> tuple[str | None, str]:
    expected = row["case"]
    if expected is None:
        return None, ""
    others = [other for other in row["compatible"] if other != expected]
    words = f"{row['model']} expects case {expected}"
    words += f"; within the bounds also {', '.join(map(str, others))}" if others else ""
    seen = None if compound is None else compound.case
    if seen is None:
        return UNDECIDED, words
    return "agrees" if seen == expected else UNDECIDED if seen in others else "disagrees", f"{words}; {seen} was seen"


def _by_number(row: Mapping[str, Any], means: Steady | None, held: float) -> tuple[str | None, str]:
    """Every number that was seen against its bounds, widened by what the model is good for."""
    accuracy = ACCURACY.get(row["model"])
    off, seen_any = [], False
    if accuracy is None or means is None:
        return None, ""
    for name, quantity in row["quantities"].items():
        seen, low, high = quantity["observed"], quantity["low"], quantity["high"]
        # Shares and counts are no measure of a model's accuracy.
        if seen is None or low is None or quantity["unit"] == "1":
            continue
        seen_any = True
        # A window's largest value is seen when the loss is noticed, a round trip after it was made.
        slack = DELAYED_ACK_SEGMENTS if quantity["unit"] == "packets" else 0.0
        if not low * accuracy[0] - slack <= seen <= high * accuracy[1] + slack:
            off.append((name, f"{name} {quantity['value']:.4g} expected [{low:.4g}, {high:.4g}], {seen:.4g} seen"))
    if not seen_any:
        return None, ""
    words = f"{row['model']}: " + "; ".join(sentence for _, sentence in off)
    if not off:
        return "agrees", f"{row['model']}: what was seen lies within its bounds and its accuracy"
    if held > MINORITY:
        # A sender's throughput is not its control's then.
        return UNDECIDED, f"{words}: but the receiver or the application held the sender {held:.0%} of the time"
    if row["model"] == "mathis" and row["inputs"]["loss"] > MATHIS_LOSS:
        return UNDECIDED, f"{words}: but p is too large for a law without timeouts"
    if row["model"] != "pftk" and means.timeouts > 0:
        return (
            UNDECIDED,
            f"{words}: but a timer noticed {means.timeouts:.0%} of the losses, which it leaves out",
        )
    return "disagrees" if any(name in DECISIVE for name, _ in off) else UNDECIDED, words
