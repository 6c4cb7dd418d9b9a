"""What each model says of a scenario, without running it.

Every model of tcptrace_lab.models is asked whether it applies to the scenario's path and first sender; those that do
give regime or case, the margin to the next one, and their quantities; the others say why not.

    $ tcptrace-lab predict captures/scenarios/several_nodes_fig2_fast.toml --model several_nodes
    Two nodes, mu1 = 1.07 mu

    several_nodes: single (margin 45.3%), by S_i, S, S_B = min, 2^(n_B-1) < S_B <= 2^n_B, W_th < W_B
      Barakat & Altman 2000, Analysis of TCP with several bottleneck nodes
    quantity                  value    unit         equation
    buffer                       50    packets      input
    ...
    throughput              311.615    packets/s    not in the paper
      note: no loss in slow start

    $ tcptrace-lab predict captures/scenarios/small_buffers_B20.toml --set path.nodes.0.buffer=22 --json
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from tcptrace_lab.models import Model, Prediction
    from tcptrace_lab.scenario import Scenario


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The scenario and what to show."""
    parser.add_argument("scenario", metavar="SCENARIO.toml", help="path and control (captures/scenarios/*.toml)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override a key of the scenario"
    )
    parser.add_argument("--model", action="append", default=[], metavar="NAME", help="only this model (repeatable)")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write .json (the object), or .csv, .csv.gz, .parquet (a row per quantity)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Ask every model, print those that apply and why the others do not."""
    from tcptrace_lab.scenario_file import load
    from tcptrace_lab.tables import check_table, write_answer

    if arguments.output:
        check_table(arguments.output)
    scenario = load(arguments.scenario, overrides=arguments.set)
    chosen = _chosen(arguments.model)
    answers: list[tuple[Model, Prediction | tuple[str, ...]]] = []
    for model in chosen:
        answer = model.applies_to(scenario.path, scenario.control)
        answers.append((model, model.predict(scenario.path, scenario.control) if answer else answer.against))
    found = _as_dict(arguments.scenario, scenario, answers)
    if arguments.output:
        write_answer(found, _rows(found["predictions"]), arguments.output)
    if arguments.json:
        print(json.dumps(found, indent=1, allow_nan=False))
    elif not arguments.output:
        _print(scenario, answers)
    return 0


def _chosen(names: list[str]) -> list[Model]:
    from tcptrace_lab.errors import LabError
    from tcptrace_lab.models import ALL

    known = {model.name: model for model in ALL}
    for name in names:
        if name not in known:
            raise LabError(f"--model {name}: unknown; known are {', '.join(known)}")
    return [known[name] for name in names] if names else list(ALL)


def _caution(scenario: Scenario) -> list[str]:
    """What the models cannot see of a scenario."""
    notes = []
    if len(scenario.connections) > 1:
        notes.append(f"{len(scenario.connections)} connections: the models know one, the first")
    if scenario.connections[0].application.kind != "bulk":
        notes.append(f"application {scenario.connections[0].application.kind}: the models assume endless data")
    return notes


def _as_dict(
    file: str, scenario: Scenario, answers: list[tuple[Model, Prediction | tuple[str, ...]]]
) -> dict[str, Any]:
    return {
        "scenario": file,
        "title": scenario.title,
        "cautions": _caution(scenario),
        "predictions": [answer.as_dict() for _, answer in answers if not isinstance(answer, tuple)],
        "not_applicable": [
            {"model": model.name, "reasons": list(answer)} for model, answer in answers if isinstance(answer, tuple)
        ],
    }


def _rows(predictions: list[dict[str, Any]]) -> pd.DataFrame:
    """A row for each input and quantity of each model; one of several values has a row for each, in order.

    A column holds numbers or text: a value in words stands apart, yes is 1.
    """
    import pandas as pd

    return pd.DataFrame(
        {
            **{name: found[name] for name in ("model", "regime", "case", "margin")},
            "kind": kind,
            "quantity": name,
            "place": place,
            "value": None if value is None or isinstance(value, str) else float(value),
            "text": value if isinstance(value, str) else None,
            "unit": quantity["unit"],
            "equation": quantity["equation"],
        }
        for found in predictions
        for kind, group in (("input", found["inputs"]), ("quantity", found["quantities"]))
        for name, quantity in group.items()
        for place, value in enumerate(_values(quantity["value"]))
    )


def _values(value: Any) -> list[Any]:
    return [each for part in value for each in _values(part)] if isinstance(value, list) else [value]


def _print(scenario: Scenario, answers: list[tuple[Model, Prediction | tuple[str, ...]]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    console.print(Text(scenario.title or "untitled scenario", style="bold"))
    for note in _caution(scenario):
        console.print(Text(f"caution: {note}", style="yellow"))
    for model, answer in answers:
        if isinstance(answer, tuple):
            continue
        console.print()
        console.print(Text(f"{model.name}: {_headline(answer)}", style="bold"))
        console.print(Text(f"  {model.paper}"))
        table = Table(box=None, pad_edge=False, padding=(0, 2), show_header=True, header_style="dim")
        for column, justify in (("quantity", "left"), ("value", "right"), ("unit", "left"), ("equation", "left")):
            table.add_column(column, justify=justify)  # type: ignore[arg-type]
        for kind in (answer.inputs, answer.quantities):
            for name, quantity in kind.items():
                unit = "" if quantity.unit == "1" else quantity.unit
                table.add_row(Text(name), _number(quantity.value), unit, Text(quantity.equation or "input"))
        console.print(table)
        for note in answer.notes:
            console.print(Text(f"  note: {note}"))
    silent = [(model, answer) for model, answer in answers if isinstance(answer, tuple)]
    if silent:
        console.print()
        for model, reasons in silent:
            console.print(Text(f"{model.name} does not apply: {'; '.join(reasons)}", style="dim"))


def _headline(answer: Prediction) -> str:
    """Regime or case, how far from the next, and what decided."""
    verdict = answer.regime or (f"case {answer.case}" if answer.case is not None else "")
    margin = "" if answer.margin is None else f" (margin {answer.margin:.1%})"
    return f"{verdict}{margin}{', ' if verdict else ''}by {', '.join(answer.equations)}"


def _number(value: Any) -> str:
    """A scalar to six digits, an array's first elements."""
    import numpy as np

    array = np.atleast_1d(np.asarray(value))
    shown = [f"{item:.6g}" if isinstance(item, int | float) else str(item) for item in array.ravel()[:4].tolist()]
    return ", ".join(shown) + (", ..." if array.size > 4 else "")
