"""The table of controls as the core has it (core/src/congestion/table.rs): adding a row there adds it here."""

from __future__ import annotations

from dataclasses import dataclass

from tcptrace_lab import _core


@dataclass(frozen=True, kw_only=True)
class ControlParameter:
    """A number or flag that a scenario's control may set; `low` and `high` are both allowed."""

    name: str
    unit: str
    default: float | bool
    low: float
    high: float
    wanted: str
    profiles: tuple[str, ...]
    what: str

    def holds(self, value: float) -> bool:
        """Whether a scenario may say so."""
        return self.low <= value <= self.high


@dataclass(frozen=True, kw_only=True)
class SlowStart:
    """How cwnd grows below ssthresh."""

    name: str
    source: str
    parameters: tuple[ControlParameter, ...]


@dataclass(frozen=True, kw_only=True)
class Window:
    """How cwnd grows above ssthresh and what a loss makes of it; variants of one control are a `family`.

    One that has a slow start of its own takes no other; over one that keeps to its own no stack has run another.
    """

    name: str
    family: str
    spelt: str
    source: str
    profiles: tuple[str, ...]
    is_linux_module: bool
    has_slow_start: bool
    keeps_to_its_slow_start: bool
    is_by_delay: bool
    is_by_longest_delay: bool
    is_by_last_loss: bool
    parameters: tuple[ControlParameter, ...]


def _parameter(row: _core.ParameterRow) -> ControlParameter:
    return ControlParameter(
        name=row["name"],
        unit=row["unit"],
        default=row["default"],
        low=row["low"],
        high=row["high"],
        wanted=row["wanted"],
        profiles=tuple(row["profiles"]),
        what=row["what"],
    )


_TABLE = _core.controls()

SLOW_STARTS: dict[str, SlowStart] = {
    row["name"]: SlowStart(name=row["name"], source=row["source"], parameters=tuple(map(_parameter, row["parameters"])))
    for row in _TABLE["slow_starts"]
}
WINDOWS: dict[str, Window] = {
    row["name"]: Window(
        name=row["name"],
        family=row["family"],
        spelt=row["spelt"],
        source=row["source"],
        profiles=tuple(row["profiles"]),
        is_linux_module=row["is_linux_module"],
        has_slow_start=row["has_slow_start"],
        keeps_to_its_slow_start=row["keeps_to_its_slow_start"],
        is_by_delay=row["is_by_delay"],
        is_by_longest_delay=row["is_by_longest_delay"],
        is_by_last_loss=row["is_by_last_loss"],
        parameters=tuple(map(_parameter, row["parameters"])),
    )
    for row in _TABLE["windows"]
}

# The named controls, and the keys for which each stands.
CONTROLS: dict[str, dict[str, object]] = dict(_TABLE["controls"])

PARAMETERS: dict[str, ControlParameter] = {
    parameter.name: parameter
    for parameters in (row.parameters for table in (SLOW_STARTS, WINDOWS) for row in table.values())
    for parameter in parameters
}


def described() -> str:
    """The table as text, for a command's help."""
    lines = ["control.slow_start is one of"]
    lines += [f"  {row.name:15} {row.source}{_settable(row.parameters)}" for row in SLOW_STARTS.values()]
    lines += ["control.window is one of"]
    lines += [f"  {row.name:15} {row.source}{_settable(row.parameters)}" for row in WINDOWS.values()]
    lines += [f"control = NAME: {', '.join(CONTROLS)}", "parameters of control"]
    for parameter in PARAMETERS.values():
        default = (
            str(parameter.default).lower() if parameter.unit == "flag" else f"{parameter.default:g} {parameter.unit}"
        )
        lines.append(f"  {parameter.name:15} {default}: {parameter.what}")
    return "\n".join(lines)


def _settable(parameters: tuple[ControlParameter, ...]) -> str:
    return f" ({', '.join(parameter.name for parameter in parameters)})" if parameters else ""
