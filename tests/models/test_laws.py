"""Laws that every model of `tcptrace_lab.models.ALL` obeys."""

from __future__ import annotations

import json
import math
import random
from functools import cache

import numpy as np
import pytest
from tcptrace_lab.models import ALL, Model, Parameter
from tcptrace_lab.models.prediction import TIME_POWER

from tcptrace_lab import controls
from tcptrace_lab.scenario import RECOVERIES, SLOW_STARTS, WINDOWS, ControlSpec, NodeSpec, PathSpec, Scenario
from tcptrace_lab.scenario_file import load
from tests.conftest import ROOT

BY_NAME = {model.name: model for model in ALL}
PAIRS = [(model, parameter) for model in ALL for parameter in model.parameters]

# Quantity, parameter, direction: +1 never falls, -1 never rises as the parameter grows. Every model has its rows.
MONOTONE: dict[str, tuple[tuple[str, str, int], ...]] = {
    "small_buffers": (
        ("W_max", "buffer", 1),
        ("W_max", "mu", 1),
        ("W_max", "tau", 1),
        ("W_B", "buffer", 1),
        ("beta", "buffer", 1),
        ("beta", "tau", -1),
        ("W_D", "tau", 1),
        ("slow_starts", "tau", 1),
    ),
    "small_buffers_packets": (
        ("W_max", "buffer", 1),
        ("W_th", "round_trip", 1),
        ("W_th", "mu", 1),
    ),
    "initial_window": (
        ("first_lost", "places", 1),
        ("first_ack_at", "feed_time", 1),
        ("retransmitted_at", "return_time", 1),
        ("first_ack_at", "last_rate", -1),
    ),
    "several_nodes": (
        ("W_max", "buffer", 1),
        ("S", "buffer", 1),
        ("S_upstream", "upstream_buffer", 1),
        ("S", "upstream_rate", -1),
        ("W_B", "upstream_buffer", 1),
        ("R_CA", "round_trip", -1),
        ("slow_starts", "round_trip", 1),
    ),
    "several_nodes_packets": (
        ("W_max", "buffer", 1),
        ("W_th", "round_trip", 1),
        ("W_th", "upstream_rate", -1),
    ),
    "m_start": (
        ("buffer_needed", "round_trip", 1),
        ("buffer_needed", "mu", 1),
    ),
    "compound": (
        ("w_f", "buffer", 1),
        ("w_after_loss", "beta", -1),
        ("b_burst", "mu", 1),
        ("b_emptying", "tau", 1),
        ("b_linear", "gamma", 1),
        ("period", "buffer", 1),
        ("period", "per_ack", 1),
        ("theta_max", "gamma", 1),
    ),
    "mathis": (("throughput", "loss", -1), ("throughput", "round_trip", -1), ("throughput", "ack_segments", -1)),
    "pftk": (
        ("throughput", "loss", -1),
        ("throughput", "round_trip", -1),
        ("throughput", "timeout", -1),
        ("throughput", "w_max", 1),
        ("throughput_approximate", "loss", -1),
        ("Q", "loss", 1),
        ("f", "loss", 1),
    ),
    "cubic_response": (
        ("throughput", "loss", -1),
        ("mean_window", "round_trip", 1),
        ("throughput", "round_trip", -1),
        ("window_cubic", "c", 1),
        ("window_cubic", "beta_cubic", 1),
    ),
}
MONOTONE_ROWS = [(name, *row) for name, rows in MONOTONE.items() for row in rows if name in BY_NAME]


def examples(model: Model) -> dict[str, float]:
    return {parameter.name: parameter.example for parameter in model.parameters}


def around(parameter: Parameter, count: int = 13) -> np.ndarray:
    """Values from a half to twice the example, inside the range."""
    values = parameter.example * np.geomspace(0.5, 2, count) if parameter.example else np.linspace(0, 1, count)
    values = np.round(values) if parameter.integer else values
    values = values[(values >= parameter.low) & (values <= parameter.high)]
    if parameter.low_open:
        values = values[values > parameter.low]
    if parameter.high_open:
        values = values[values < parameter.high]
    assert values.size > 0, parameter.name
    return values


@cache
def scenarios() -> dict[str, Scenario]:
    files = sorted((ROOT / "captures" / "scenarios").glob("*.toml"))
    return {file.stem: load(file) for file in files}


def lossy_cubic() -> tuple[PathSpec, ControlSpec]:
    node = NodeSpec(rate_bps=100e6, buffer=500, delay_s=0.02, loss=0.001)
    return PathSpec(nodes=(node,), return_delay_s=0.02), ControlSpec(window="cubic", recovery="sack")


@pytest.mark.parametrize("model", ALL, ids=lambda model: model.name)
def test_names_are_words_and_unlike_each_other(model: Model) -> None:
    assert model.name.isidentifier()
    assert sum(other.name == model.name for other in ALL) == 1
    assert len(model.paper) > 20
    assert len({parameter.name for parameter in model.parameters}) == len(model.parameters)
    assert all(parameter.unit in TIME_POWER for parameter in model.parameters)


@pytest.mark.parametrize(("model", "parameter"), PAIRS, ids=lambda value: value.name)
def test_array_results_equal_scalar_results(model: Model, parameter: Parameter) -> None:
    """A model over an array is the model at each of its elements."""
    values = around(parameter)
    together = model.evaluate(**{**examples(model), parameter.name: values})
    for i, value in enumerate(values):
        alone = model.evaluate(**{**examples(model), parameter.name: value})
        assert alone.keys() == together.keys()
        for name, quantity in alone.items():
            row = np.broadcast_to(together[name].value, (values.size, *np.shape(quantity.value)))[i]
            np.testing.assert_allclose(row, quantity.value, rtol=1e-12, err_msg=f"{name} at {parameter.name}={value}")


@pytest.mark.parametrize("model", ALL, ids=lambda model: model.name)
@pytest.mark.parametrize("scale", [0.25, 64.0])
def test_a_change_of_the_unit_of_time_changes_each_quantity_by_its_unit(model: Model, scale: float) -> None:
    """Seconds to other ticks: pure numbers and packets stay, rates divide, times multiply (a dimension check)."""
    before = model.evaluate(**examples(model))
    scaled = {p.name: p.example * scale ** TIME_POWER[p.unit] for p in model.parameters}
    after = model.evaluate(**scaled)
    for name, quantity in before.items():
        wanted = np.asarray(quantity.value, dtype=float) * scale ** TIME_POWER[quantity.unit]
        np.testing.assert_allclose(np.asarray(after[name].value, dtype=float), wanted, rtol=1e-9, err_msg=name)


@pytest.mark.parametrize(("model", "parameter"), PAIRS, ids=lambda value: value.name)
def test_a_value_outside_its_range_raises_with_name_and_range(model: Model, parameter: Parameter) -> None:
    outside = [parameter.low - 1, math.nan, math.inf, -math.inf]
    outside += [parameter.low] if parameter.low_open else []
    if parameter.high != math.inf:
        outside += [parameter.high + 1, *([parameter.high] if parameter.high_open else [])]
    if parameter.integer:
        outside.append(parameter.example + 0.5)
    for value in outside:
        for given in (value, [parameter.example, value]):
            with pytest.raises(ValueError, match=f"{parameter.name} = ") as caught:
                model.evaluate(**{**examples(model), parameter.name: given})
            assert parameter.range in str(caught.value)


@pytest.mark.parametrize("model", ALL, ids=lambda model: model.name)
def test_an_unknown_or_missing_parameter_raises_with_the_known_ones(model: Model) -> None:
    with pytest.raises(ValueError, match="nonsense"):
        model.evaluate(**examples(model), nonsense=1.0)
    first = model.parameters[0].name
    with pytest.raises(ValueError, match=first):
        model.evaluate(**{name: value for name, value in examples(model).items() if name != first})


@pytest.mark.parametrize("model", ALL, ids=lambda model: model.name)
def test_it_applies_somewhere_and_its_answer_is_json(model: Model) -> None:
    """A scenario of the collection, or a lossy CUBIC path, meets every model."""
    paths = [(scenario.path, scenario.control) for scenario in scenarios().values()]
    at_home = [(path, control) for path, control in [*paths, lossy_cubic()] if model.applies_to(path, control)]
    assert at_home, "no scenario meets this model"
    for path, control in at_home[:4]:
        answer = model.predict(path, control)
        assert answer.model == model.name
        assert answer.equations
        assert answer.margin is None or answer.margin >= 0
        assert set(answer.inputs) == {parameter.name for parameter in model.parameters}
        text = json.dumps(answer.as_dict(), allow_nan=False)
        assert json.loads(text)["quantities"].keys() == answer.quantities.keys()


@pytest.mark.parametrize("model", ALL, ids=lambda model: model.name)
def test_where_it_does_not_apply_it_says_why_and_does_not_predict(model: Model) -> None:
    refused = 0
    for scenario in scenarios().values():
        answer = model.applies_to(scenario.path, scenario.control)
        if answer:
            assert answer.against == ()
            assert answer.text.startswith("applies: ")
            continue
        refused += 1
        assert answer.against
        with pytest.raises(ValueError, match="does not apply"):
            model.predict(scenario.path, scenario.control)
    assert refused > 0, "a model of everything is a model of nothing"


def drawn(draw: random.Random) -> tuple[PathSpec, ControlSpec]:
    """Any path and control that the vocabulary allows, the odd ones often."""

    def node() -> NodeSpec:
        return NodeSpec(
            rate_bps=draw.choice([math.inf, 1.0, 9600.0, 1e6, draw.uniform(1e3, 1e10)]),
            buffer=draw.choice([math.inf, 1, 2, draw.randint(1, 500), 10**6]),
            buffer_unit=draw.choice(["packets", "bytes"]),
            counts_in_service=draw.random() < 0.3,
            delay_s=draw.choice([0.0, draw.uniform(0, 1)]),
            loss=draw.choice([0.0, 0.0, draw.uniform(0, 0.5)]),
            drop_packets=draw.choice([(), (), (3,)]),
        )

    path = PathSpec(
        nodes=tuple(node() for _ in range(draw.randint(1, 4))),
        return_delay_s=draw.choice([0.0, draw.uniform(0, 1)]),
        packet_bytes=draw.choice([40, 512, 1500]),
        access_rate_bps=draw.choice([math.inf, 1e6, 1e9]),
        reverse=tuple(node() for _ in range(draw.randint(0, 2))),
    )
    if draw.random() < 0.5:
        return path, ControlSpec(recovery="tahoe")
    window = draw.choice(WINDOWS)
    control = ControlSpec(
        slow_start="standard" if controls.WINDOWS[window].has_slow_start else draw.choice(SLOW_STARTS),
        window=window,
        recovery=draw.choice(RECOVERIES),
        initial_window=draw.choice([1, 2, 10, 1000]),
        delayed_ack_segments=draw.choice([1, 2]),
        max_window=draw.choice([1, 10, 1e5, 2**30]),
        limited_transmit=draw.random() < 0.2,
    )
    return path, control


@pytest.mark.parametrize("model", ALL, ids=lambda model: model.name)
def test_any_path_gets_reasons_or_an_answer_never_an_error(model: Model) -> None:
    """`applies_to` decides on every path; where it says yes, `predict` answers with finite inputs."""
    for seed in range(300):
        path, control = drawn(random.Random(seed))
        if model.applies_to(path, control):
            answer = model.predict(path, control)
            assert all(math.isfinite(float(quantity.value)) for quantity in answer.inputs.values())


def test_every_model_has_its_monotone_rows() -> None:
    assert set(BY_NAME) <= set(MONOTONE), "name what rises and falls in a new model"


@pytest.mark.parametrize(("name", "quantity", "parameter", "sign"), MONOTONE_ROWS)
def test_monotone(name: str, quantity: str, parameter: str, sign: int) -> None:
    """What must rise (or fall) with a parameter does, over a grid around the example."""
    model = BY_NAME[name]
    values = around({p.name: p for p in model.parameters}[parameter], 101)
    found = np.asarray(model.evaluate(**{**examples(model), parameter: values})[quantity].value, dtype=float)
    steps = sign * np.diff(found[np.isfinite(found)])
    assert np.all(steps >= -1e-9 * np.max(np.abs(found[np.isfinite(found)])))
