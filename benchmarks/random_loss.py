"""Mathis, PFTK and CUBIC's response function beside senders under random loss (a section of models_vs_simulator.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from comparison_table import SPREAD, records, spread, table
from tcptrace_lab.models import Model
from tcptrace_lab.models.textbook import cubic_response, pftk
from tcptrace_lab.models.textbook.cubic_response import CubicResponse
from tcptrace_lab.models.textbook.mathis import Mathis
from tcptrace_lab.models.textbook.pftk import Pftk

from tcptrace_lab.scenario_file import parse
from tcptrace_lab.sweep import Over, sweep

# Losses of a run: the standard error of its rate is about 1 / sqrt of this.
EVENTS = 2000
CUBIC_EVENTS = 500
SENDERS = (("ns2", "reno"), ("ns2", "newreno"), ("ns2", "sack"), ("rfc", "newreno"), ("rfc", "sack"))
LAWS: tuple[tuple[str, Model, str], ...] = (
    ("Mathis", Mathis(), "throughput"),
    ("PFTK full", Pftk(), "throughput"),
    ("PFTK approximate", Pftk(), "throughput_approximate"),
)


def textbook(quick: bool) -> list[str]:
    """The laws' errors, by sender and by loss probability."""
    losses = (0.001, 0.01, 0.05) if quick else (3e-4, 1e-3, 3e-3, 0.01, 0.02, 0.05, 0.1)
    delays = (0.05,) if quick else (0.02, 0.1)
    by_sender: dict[tuple[str, str], list[float]] = {}
    by_loss: dict[tuple[str, float], list[float]] = {}
    runs = 0
    for profile, recovery in SENDERS:
        for segments in (1, 2):
            for delay in delays:
                for loss in losses:
                    rate = float(pftk.throughput(loss, delay, 0.2, segments))
                    seconds = EVENTS / loss / rate
                    base = _lossy(profile, recovery, segments=segments, delay=delay, loss=loss, duration_s=seconds)
                    runs += 1
                    for name, error in _errors(base, LAWS):
                        by_sender.setdefault((name, f"{recovery}, {profile}"), []).append(error)
                        by_loss.setdefault((name, loss), []).append(error)
    lines = [
        f"{runs} runs of Reno, NewReno and SACK (profiles ns2 and rfc): random loss p from {losses[0]:g} to "
        f"{losses[-1]:g} on a link of 1 Gb/s, round trips of {_list(delays)} s, an ACK for each packet or for two; RTO "
        f"at least 0.2 s; about {EVENTS} losses each. The rate is that of packets sent.",
        "",
    ]
    rows = [(*key, *spread(values)) for key, values in sorted(by_sender.items())]
    lines += table(("model", "sender", *SPREAD), rows)
    names = [name for name, _, _ in LAWS]
    lines += ["", "Median error by loss probability:", ""]
    lines += table(("p", *names), [(loss, *(_median(by_loss[name, loss]) for name in names)) for loss in losses])
    lines += [
        "",
        "At small p the laws are too low: losses far apart by chance let the window grow further than losses every 1/p "
        "packets do, and PFTK ends each round with its first loss. At large p timeouts decide: Mathis has none, PFTK "
        "has them, and needs the timer's length.",
    ]
    return lines + _cubic(quick)


def _cubic(quick: bool) -> list[str]:
    """RFC 9438's response function beside its CUBIC."""
    losses = (1e-3, 1e-2) if quick else (3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
    laws: tuple[tuple[str, Model, str], ...] = (("", CubicResponse(), "throughput"),)
    rows: list[tuple[object, ...]] = []
    for delay in (0.02, 0.1):
        for loss in losses:
            average = float(cubic_response.window(loss, delay))
            region = "CUBIC" if average > cubic_response.window_reno(loss) else "Reno-friendly"
            seconds = CUBIC_EVENTS * delay / loss / average
            base = _lossy("rfc", "cubic", segments=1, delay=delay, loss=loss, duration_s=seconds)
            ((_, error),) = _errors(base, laws)
            rows.append((delay, loss, region, average, f"{100 * error:+.1f} %"))
    lines = [
        "",
        f"CUBIC (profile rfc, an ACK for each packet, about {CUBIC_EVENTS} losses each) beside its response function:",
        "",
    ]
    lines += table(("RTT, s", "p", "region", "average window", "error"), rows)
    return [
        *lines,
        "",
        "The function supposes one loss every 1/p packets, so that every epoch ends at its plateau; random losses also "
        "come late, when CUBIC grows convexly, and its Reno-friendly branch is the rounded 1.2 / sqrt(p).",
    ]


def _lossy(
    profile: str, control: str, *, segments: int, delay: float, loss: float, duration_s: float
) -> dict[str, Any]:
    return {
        "profile": profile,
        "duration_s": duration_s,
        "seed": 3,
        "taps": [],
        "path": {
            "packet_bytes": 1000,
            "nodes": [{"rate_bps": 1e9, "buffer": 100_000, "delay_s": delay / 2, "loss": loss}],
            "return_delay_s": delay / 2,
        },
        "control": {"name": control, "delayed_ack_segments": segments, "rto": {"granularity_s": 0.01}},
        "receiver": {"delayed_ack_timer_s": 0.1},
    }


def _errors(base: dict[str, Any], laws: Sequence[tuple[str, Model, str]]) -> list[tuple[str, float]]:
    """Each law's rate over the rate at which packets were sent, minus 1."""
    (run,) = records(sweep(base, [Over(key="seed", values=(3,))]))
    seen = float(run["packets_sent"]) / float(run["duration_s"])
    scenario = parse(base)
    found = []
    for name, model, quantity in laws:
        value = float(model.evaluate(**model.inputs(scenario.path, scenario.control))[quantity].value)
        found.append((name, value / seen - 1))
    return found


def _median(values: Sequence[float]) -> str:
    return f"{100 * float(np.median(values)):+.1f} %"


def _list(values: Sequence[float]) -> str:
    return " and ".join(f"{value:g}" for value in values)
