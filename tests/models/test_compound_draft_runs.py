"""Compound in the draft's arithmetic, run in both profiles, beside the model of paper 003."""

from __future__ import annotations

import pytest
from tcptrace_lab.models.compound import Compound

from tcptrace_lab.scenario import Scenario
from tcptrace_lab.scenario_file import load
from tcptrace_lab.simulate import simulate
from tests.conftest import ROOT


def scenario(name: str, profile: str, control: str) -> Scenario:
    """A shipped scenario with another control, and none of the first one's parameters."""
    overrides = [f"profile={profile}", f"control={control}", "duration_s=60"]
    return load(ROOT / "captures" / "scenarios" / f"{name}.toml", overrides=overrides)


@pytest.mark.parametrize("profile", ["ns2", "rfc"])
@pytest.mark.parametrize("name", ["compound_case2", "compound_case4"])
def test_delay_window_brings_what_the_model_says(name: str, profile: str) -> None:
    """Section 4, cases 2 and 4: utilization of the model within 4 % (the start included), where Reno misses it."""
    draft = scenario(name, profile, "compound-draft")
    wanted = float(Compound().predict(draft.path, draft.control).quantities["utilization"].value)
    found = simulate(draft).summary["utilization"]
    reno = simulate(scenario(name, profile, "reno")).summary["utilization"]
    assert found == pytest.approx(wanted, rel=0.04)
    assert reno < 0.95 * wanted
