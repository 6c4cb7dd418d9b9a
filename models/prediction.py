"""What every model answers with, and what it must say before it answers.

A model is a small frozen object: `applies_to(path, control)` gives the reasons for and against, `inputs(path, control)`
the numbers it takes from them, `evaluate(**inputs)` its quantities (vectorised, no path needed), and
`predict(path, control)` all of it as one `Prediction`.

Units are those of TIME_POWER ("1" is a pure number). Changing the unit of time must
change each quantity by the power its unit says: tests/models/test_laws.py holds every model of `ALL` to that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tcptrace_lab.scenario import ControlSpec, PathSpec

FloatArray = NDArray[np.float64]

# Power of time in each unit: the whole list of units a model may use.
TIME_POWER: dict[str, int] = {
    "1": 0,
    "packets": 0,
    "bytes": 0,
    "bit": 0,
    "s": 1,
    "packets/s": -1,
    "bytes/s": -1,
    "bit/s": -1,
    "packets/s^3": -3,
}


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """An input of a model: its unit, the range it must lie in and a value at which the model is at home.

    A bound is outside the range when `low_open` or `high_open`. `integer` parameters are whole numbers.
    """

    name: str
    unit: str
    meaning: str
    example: float
    low: float = 0.0
    high: float = math.inf
    low_open: bool = True
    high_open: bool = True
    integer: bool = False

    @property
    def range(self) -> str:
        """The range in words, as the error names it: "> 0 packets", ">= 0 and < 1"."""
        words = [] if self.low == -math.inf else [f"{'>' if self.low_open else '>='} {self.low:g}"]
        if self.high != math.inf:
            words.append(f"{'<' if self.high_open else '<='} {self.high:g}")
        text = " and ".join(words) or "finite"
        whole = "a whole number " if self.integer else ""
        return whole + text + ("" if self.unit == "1" else f" {self.unit}")

    def check(self, value: ArrayLike) -> FloatArray:
        """The value as an array of floats; a ValueError that names parameter, value and range if one lies outside."""
        try:
            array = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"{self.name} = {value!r}: must be {self.range}") from None
        above = array > self.low if self.low_open else array >= self.low
        below = array < self.high if self.high_open else array <= self.high
        valid = above & below & np.isfinite(array)
        if self.integer:
            valid &= array == np.floor(array)
        if not valid.all():
            worst = array[~valid].flat[0] if array.ndim else array[()]
            raise ValueError(f"{self.name} = {worst:g}: must be {self.range}")
        return array


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """A number, or an array over the parameters, with its unit and the equation it comes from."""

    value: Any
    unit: str
    equation: str = ""

    def __post_init__(self) -> None:
        if self.unit not in TIME_POWER:
            raise ValueError(f"unit = {self.unit!r}: must be one of {', '.join(TIME_POWER)}")

    def __str__(self) -> str:
        unit = "" if self.unit == "1" else f" {self.unit}"
        return f"{_plain(self.value)}{unit}"


@dataclass(frozen=True, kw_only=True)
class Reason:
    """One condition of a model, whether it holds here, and the sentence that says so."""

    holds: bool
    text: str


@dataclass(frozen=True)
class Applicability:
    """The reasons for and against using a model here. True only when every condition holds."""

    reasons: tuple[Reason, ...]

    def __bool__(self) -> bool:
        return all(reason.holds for reason in self.reasons)

    @property
    def against(self) -> tuple[str, ...]:
        """Why the model does not apply; empty when it does."""
        return tuple(reason.text for reason in self.reasons if not reason.holds)

    @property
    def text(self) -> str:
        """One sentence: "applies: ..." or "does not apply: ..."."""
        if self:
            return "applies: " + "; ".join(reason.text for reason in self.reasons)
        return "does not apply: " + "; ".join(self.against)


def reason(holds: bool, for_: str, against: str) -> Reason:
    """A condition with the sentence for either outcome."""
    return Reason(holds=bool(holds), text=for_ if holds else against)


# As many quantities as a line has room for.
NUMBERS_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What a model says of one path and control.

    `regime` is a word ("single", "double", "triple", ...) and `case` a paper's number for it; a model uses one of them,
    or none. `margin` says how far the deciding condition is from flipping: |left - right| / right of the inequality
    (0 = on the edge), None where nothing is decided. `equations` lists what was used, in order.
    """

    model: str
    paper: str
    inputs: Mapping[str, Quantity]
    quantities: Mapping[str, Quantity]
    equations: tuple[str, ...]
    regime: str | None = None
    case: int | None = None
    margin: float | None = None
    notes: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        says = self.regime if self.case is None else f"case {self.case}"
        plain = [(name, each) for name, each in self.quantities.items() if np.ndim(each.value) == 0 and name != "case"]
        numbers = [f"{name} {float(each.value):.5g} {each.unit}".removesuffix(" 1") for name, each in plain]
        return f"<Prediction {self.model}: {', '.join([*([says] if says else []), *numbers[:NUMBERS_SHOWN]])}>"

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and lists, for JSON (an infinite or undefined number becomes null)."""
        return {
            "model": self.model,
            "paper": self.paper,
            "regime": self.regime,
            "case": self.case,
            "margin": None if self.margin is None else _plain(self.margin),
            "inputs": _quantities(self.inputs),
            "quantities": _quantities(self.quantities),
            "equations": list(self.equations),
            "notes": list(self.notes),
        }


class Model(Protocol):
    """A paper, or a law, that can be asked."""

    @property
    def name(self) -> str:
        """Short name, a valid word on the command line: "small_buffers"."""

    @property
    def paper(self) -> str:
        """Authors, title, year: what a reader would cite."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """What `evaluate` takes, in order."""

    def applies_to(self, path: PathSpec, control: ControlSpec) -> Applicability:
        """The conditions of the paper, each with whether it holds here."""

    def inputs(self, path: PathSpec, control: ControlSpec) -> dict[str, float]:
        """The parameters' values on this path, for this control."""

    def evaluate(self, **parameters: ArrayLike) -> dict[str, Quantity]:
        """The model's quantities; arrays broadcast against each other. ValueError outside a parameter's range."""

    def predict(self, path: PathSpec, control: ControlSpec) -> Prediction:
        """The model's answer; ValueError with the reasons where it does not apply."""


@runtime_checkable
class TogetherModel(Protocol):
    """A model that answers for many paths in hardly more time than for one."""

    def predict_all(self, paths: Sequence[PathSpec], control: ControlSpec) -> list[Prediction]:
        """An answer for each; ValueError where it does not apply to one."""


def require_applies(model: Model, path: PathSpec, control: ControlSpec) -> None:
    """ValueError with the reasons against, where there are any: the first line of every `predict`."""
    answer = model.applies_to(path, control)
    if not answer:
        raise ValueError(f"{model.name} {answer.text}")


def named(model: Model, values: Mapping[str, ArrayLike]) -> dict[str, Quantity]:
    """A model's inputs as quantities, with the units its parameters declare."""
    units = {parameter.name: parameter.unit for parameter in model.parameters}
    return {name: Quantity(value=value, unit=units[name]) for name, value in values.items()}


def checked(model: Model, values: Mapping[str, ArrayLike]) -> list[FloatArray]:
    """Every parameter of a model as an array, in the declared order; unknown, missing or invalid ones raise."""
    known = [parameter.name for parameter in model.parameters]
    for name in values:
        if name not in known:
            raise ValueError(f"{name}: unknown to {model.name}; known are {', '.join(known)}")
    for name in known:
        if name not in values:
            raise ValueError(f"{name}: missing; {model.name} needs {', '.join(known)}")
    return [parameter.check(values[parameter.name]) for parameter in model.parameters]


def _quantities(quantities: Mapping[str, Quantity]) -> dict[str, Any]:
    return {
        name: {"value": _plain(quantity.value), "unit": quantity.unit, "equation": quantity.equation}
        for name, quantity in quantities.items()
    }


def _plain(value: Any) -> Any:
    """numpy to Python; what JSON has no word for becomes None."""
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
