"""An estimate carries its bounds, the method that gave it and the evidence it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number inferred from a capture. `value` None: the capture does not say; `method` then says why.

    `low` and `high` bound the truth as far as the method can tell; None where it has no bound on that side. `between`:
    of a number that changed, what it changed between; `value` is then the median.
    `evidence` names what it rests on, in words that can be checked in the capture (times in seconds from its start).
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    method: str
    evidence: tuple[str, ...] = ()
    between: tuple[float, float] | None = None

    def as_dict(self) -> dict[str, Any]:
        """The four keys of the verdict's JSON, and `between` of a number that changed."""
        told = {"value": self.value, "low": self.low, "high": self.high, "method": self.method}
        return told if self.between is None else {**told, "between": list(self.between)}


def unknown(method: str, *, low: float | None = None, high: float | None = None) -> Estimate:
    """No value, and the reason why not."""
    return Estimate(value=None, low=low, high=high, method=method)
