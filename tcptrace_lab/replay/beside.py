"""Capture, models and simulator beside each other: the same path and control, run, and measured as the capture was."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tcptrace_lab.capture import Capture
from tcptrace_lab.classify.theory.measured import observed, steady
from tcptrace_lab.classify.verdict import Verdict
from tcptrace_lab.errors import LabError
from tcptrace_lab.replay.as_found import as_found
from tcptrace_lab.replay.closed_loop import ClosedLoop
from tcptrace_lab.replay.outcome import Outcome, outcome

# Of a transfer's figures those that no model gives: they are shown where there is no steady state too.
FIGURES = ("completion_s", "goodput_bps", "loss_events", "rtt_median_s", "window_max")
WORDS = ("regime", "case")


@dataclass(frozen=True, kw_only=True)
class ComparedQuantity:
    """One quantity: as seen in the capture, as each model that was asked expects it, and as seen in the simulation."""

    quantity: str
    unit: str | None
    capture: float | str | None
    models: Mapping[str, float | str | None]
    simulator: float | str | None

    def as_dict(self) -> dict[str, Any]:
        return {
            "quantity": self.quantity,
            "unit": self.unit,
            "capture": self.capture,
            "models": dict(self.models),
            "simulator": self.simulator,
        }


class SentAgain:
    """A capture's connections, each sent again over the path and by the control that its verdict names."""

    def __init__(self, capture: Capture) -> None:
        self.refused: str | None = None
        self.notes: tuple[str, ...] = ()
        self._now: dict[int, Verdict] = {}
        self._control: dict[int, str] = {}
        try:
            found = as_found(capture)
            run = ClosedLoop(found, capture)
            numbers = [one.verdict.who.connection for one in found.connections]
            self._now = dict(zip(numbers, run.verdicts, strict=True))
            self._control = {one.verdict.who.connection: one.control_name for one in found.connections}
            self.notes = run.notes
        except LabError as error:
            self.refused = str(error)

    def beside(self, verdict: Verdict) -> dict[str, Any]:
        """The verdict's key `simulation`: the control that was run, what was assumed, and the table."""
        number = verdict.who.connection
        if number not in self._now:
            reason = self.refused or "the connection carries no data that could be sent again"
            return {"control": None, "refused": reason, "notes": [], "table": []}
        rows = table(verdict, self._now[number])
        return {
            "control": self._control[number],
            "refused": None,
            "notes": list(self.notes),
            "table": [row.as_dict() for row in rows],
        }


def table(then: Verdict, now: Verdict) -> list[ComparedQuantity]:
    """Everything that the capture or a model tells, beside the simulation."""
    predictions = then.expectation.predictions
    seen, simulated = _means(then), _means(now)
    rows = [
        ComparedQuantity(
            quantity=name,
            unit=None,
            capture=_word(then, name),
            models={row["model"]: row[name] for row in predictions if row[name] is not None},
            simulator=_word(now, name),
        )
        for name in WORDS
    ]
    quantities = [(name, quantity) for row in predictions for name, quantity in row["quantities"].items()]
    units = {name: quantity["unit"] for name, quantity in quantities if name not in WORDS}
    for name, unit in units.items():
        values = {row["model"]: row["quantities"].get(name, {}).get("value") for row in predictions}
        if seen.get(name) is None and simulated.get(name) is None:
            continue
        known = {model: value for model, value in values.items() if value is not None}
        rows.append(
            ComparedQuantity(
                quantity=name, unit=unit, capture=seen.get(name), models=known, simulator=simulated.get(name)
            )
        )
    figures = outcome(then), outcome(now)
    rows += [
        ComparedQuantity(
            quantity=name,
            unit=None,
            capture=_number(figures[0], name),
            models={},
            simulator=_number(figures[1], name),
        )
        for name in FIGURES
    ]
    return [row for row in rows if row.capture is not None or row.models or row.simulator is not None]


def _means(verdict: Verdict) -> dict[str, float | None]:
    return observed(steady(verdict.seen), verdict.slow_starts.steady, verdict.compound)


def _word(verdict: Verdict, name: str) -> str | int | None:
    if name == "regime":
        return verdict.slow_starts.regime
    return None if verdict.compound is None else verdict.compound.case


def _number(figures: Outcome, name: str) -> float | None:
    value = float(getattr(figures, name))
    return None if math.isnan(value) else value
