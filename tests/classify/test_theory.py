"""Theory beside the observation: which models are asked, their numbers within bounds, and the agreement."""

from __future__ import annotations

import json
import math
from functools import cache
from typing import Any

import numpy as np
import pytest

from tcptrace_lab import read
from tcptrace_lab.classify.theory.measured import sent_between
from tcptrace_lab.classify.verdict import classify
from tcptrace_lab.reconstruct.timeline import build
from tcptrace_lab.scenario import ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario
from tcptrace_lab.simulate import simulate
from tests.conftest import ROOT


@cache
def recorded(name: str) -> dict[str, Any]:
    (verdict,) = classify(read(ROOT / "captures" / f"{name}.pcap.gz"))
    found = verdict.as_dict()
    # JSON has no word for an infinite number.
    json.dumps(found, allow_nan=False)
    return found


def rows(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["model"]: row for row in found["predictions"]}


# A row: recording, the models that speak of it, the agreement.
RECORDINGS = (
    ("reno_10M", {"mathis", "pftk"}, "agrees"),
    ("reno_loss", {"mathis", "pftk"}, "agrees"),
    ("cubic_20M", {"cubic_response"}, "agrees"),
    ("tahoe_small_buffer", {"small_buffers", "small_buffers_packets", "m_start"}, "agrees"),
    ("short_reno", set(), "not_applicable"),
)


@pytest.mark.parametrize(("name", "models", "agreement"), RECORDINGS, ids=[row[0] for row in RECORDINGS])
def test_every_model_of_the_sender_is_asked(name: str, models: set[str], agreement: str) -> None:
    """The control identified decides which; each number lies within the bounds that it is given with."""
    found = recorded(name)
    assert models <= set(rows(found))
    assert found["agreement"] == agreement
    for row in found["predictions"]:
        for quantity in row["quantities"].values():
            if quantity["value"] is not None:
                assert quantity["low"] <= quantity["value"] <= quantity["high"]


def test_a_saw_tooth_at_a_full_queue_follows_mathis() -> None:
    """One loss every 1/p packets is what the law is about: windows and rate within a tenth on a kernel's Reno."""
    numbers = rows(recorded("reno_10M"))["mathis"]["quantities"]
    for name in ("throughput", "mean_window", "peak_window"):
        assert numbers[name]["observed"] == pytest.approx(numbers[name]["value"], rel=0.1)


def test_the_observed_throughput_is_the_recordings() -> None:
    """10 Mbit/s less headers and the queue's idle moments: 9.65 Mbit/s of 1448-byte segments."""
    throughput = rows(recorded("reno_10M"))["mathis"]["quantities"]["throughput"]["observed"]
    assert math.isclose(throughput * 8 * 1448, 9.65e6, rel_tol=0.01)


def test_a_regime_at_an_edge_lists_the_others_that_the_path_allows() -> None:
    """Tahoe at B = 8: the theorem's number of slow starts hangs on the buffer's bounds."""
    row = rows(recorded("tahoe_small_buffer"))["small_buffers"]
    assert row["compatible"] == ["double", "triple"]
    assert row["regime"] == "double"


def test_a_simulated_compound_has_the_models_case_and_cycle() -> None:
    """Blanc et al. 2008: case, period, throughput of a sender that is identified from its packets."""
    path = PathSpec(nodes=(NodeSpec(rate_bps=24e6, buffer=20, delay_s=0.03),), return_delay_s=0.03)
    control = ControlSpec(window="compound-draft", recovery="sack", initial_window=10)
    done = simulate(Scenario(path=path, connections=(ConnectionSpec(control=control),), duration_s=20.0, profile="rfc"))
    (verdict,) = classify(done.capture(tap="sender"))
    found = verdict.as_dict()
    json.dumps(found, allow_nan=False)
    row = rows(found)["compound"]
    assert found["agreement"] == "agrees"
    assert row["case"] == row["quantities"]["case"]["observed"] == 2
    # What the queue never reached may be any: with no buffer and gamma of their bounds it is another.
    assert row["compatible"] == [2]
    gamma, variant = found["compound"]["gamma"], found["sender_tcp"]["candidates"][0]["variant"]
    assert (gamma["value"], gamma["high"], row["inputs"]["gamma"]) == (None, None, None)
    assert 10 < gamma["low"] <= control.gamma
    assert variant.endswith(f"gamma >= {gamma['low']:.3g}")
    for name in ("throughput", "period"):
        assert row["quantities"][name]["observed"] == pytest.approx(row["quantities"][name]["value"], rel=0.1)


def test_what_was_sent_between_two_places_is_counted_also_where_nothing_was() -> None:
    sends = {
        "send_ns": range(6),
        "send_offset": range(0, 60, 10),
        "send_end": range(5, 65, 10),
        "ack_ns": [],
        "ack_offset": [],
    }
    timeline = build({name: list(column) for name, column in sends.items()}, smss=10)
    assert sent_between(timeline, np.array([0, 2, 2, 5, 6, 6])).tolist() == [10, 0, 15, 5, 0]
    assert sent_between(timeline, np.array([6, 6])).tolist() == [0]
