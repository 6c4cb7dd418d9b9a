"""The frame of a model: parameters that check themselves, quantities with units, answers as JSON."""

from __future__ import annotations

import numpy as np
import pytest
from tcptrace_lab.models import Applicability, Parameter, Prediction, Quantity, Reason


def test_a_range_is_written_as_it_is_meant() -> None:
    assert Parameter(name="mu", unit="packets/s", meaning="", example=1).range == "> 0 packets/s"
    assert Parameter(name="p", unit="1", meaning="", example=0.1, high=1).range == "> 0 and < 1"
    whole = Parameter(name="k", unit="packets", meaning="", example=1, low=1, low_open=False, integer=True)
    assert whole.range == "a whole number >= 1 packets"


def test_the_first_invalid_element_is_named() -> None:
    mu = Parameter(name="mu", unit="packets/s", meaning="", example=1)
    with pytest.raises(ValueError, match=r"^mu = -3: must be > 0 packets/s$"):
        mu.check(np.array([1.0, 2.0, -3.0, -4.0]))
    with pytest.raises(ValueError, match=r"^mu = 'fast': must be > 0 packets/s$"):
        mu.check("fast")  # type: ignore[arg-type]


def test_an_unknown_unit_is_refused() -> None:
    with pytest.raises(ValueError, match="furlongs"):
        Quantity(value=1.0, unit="furlongs")


def test_applicability_is_true_only_when_every_reason_holds() -> None:
    yes, no = Reason(holds=True, text="a"), Reason(holds=False, text="b")
    assert Applicability((yes, yes))
    assert not Applicability((yes, no))
    assert Applicability((yes, no)).against == ("b",)
    assert Applicability((yes, no)).text == "does not apply: b"


def test_json_has_no_nan_and_no_numpy() -> None:
    answer = Prediction(
        model="m",
        paper="p",
        inputs={"n": Quantity(value=np.float64(2), unit="1")},
        quantities={
            "missing": Quantity(value=np.array(np.nan), unit="s"),
            "several": Quantity(value=np.array([1.5, np.inf]), unit="packets"),
            "yes": Quantity(value=np.bool_(True), unit="1"),
        },
        equations=("eq. 1",),
        margin=0.5,
    ).as_dict()
    assert answer["inputs"]["n"]["value"] == 2
    assert answer["quantities"]["missing"]["value"] is None
    assert answer["quantities"]["several"]["value"] == [1.5, None]
    assert answer["quantities"]["yes"]["value"] is True
    assert type(answer["inputs"]["n"]["value"]) is float
