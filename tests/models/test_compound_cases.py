"""Compound's six cases (Blanc et al. 2008, sections 4, 5): Figures 6-15 and ns-2.35's runs of them."""

import csv
import time

import numpy as np
import pytest
from tcptrace_lab.models import compound_cases as cases
from tcptrace_lab.models.compound import Compound, case_map
from tcptrace_lab.models.compound_oscillation import Rule, oscillation

from tcptrace_lab.reproduce.compound import transitions
from tcptrace_lab.reproduce.compound_grid import linear_share
from tcptrace_lab.reproduce.compound_runs import scenario
from tcptrace_lab.scenario import ControlSpec, NodeSpec, PathSpec
from tcptrace_lab.scenario_file import parse
from tcptrace_lab.simulate import simulate
from tests.conftest import shared

# Figures 6-11: Mb/s, ms, b, gamma (packets of 1500 B).
FIGURES = {
    1: (100, 50, 10, 30),
    2: (100, 50, 25, 30),
    3: (50, 20, 85, 90),
    4: (100, 50, 80, 30),
    5: (100, 50, 420, 30),
    6: (100, 50, 500, 30),
}


def evaluate(mbps: float, ms: float, b: float, gamma: float = 30, rule: Rule | None = None) -> dict[str, float]:
    model = Compound(rule=rule or Rule())
    found = model.evaluate(buffer=b, mu=mbps * 1e6 / 12000, tau=ms / 1e3, gamma=gamma, beta=0.5, per_ack=1)
    return {name: float(quantity.value) for name, quantity in found.items()}


def rows(name: str) -> dict[str, dict[str, str]]:
    with shared("oracles", "ns2", name).open() as file:
        return {next(iter(row.values())): row for row in csv.DictReader(file)}


@pytest.mark.parametrize("arithmetic", ["linux", "float"])
@pytest.mark.parametrize("number", FIGURES)
def test_each_figure_is_its_case(number: int, arithmetic: str) -> None:
    """Figures 6-11: cases 1 to 6 with the parameters in sections 4.1-4.6."""
    found = evaluate(*FIGURES[number], rule=Rule(arithmetic=arithmetic))
    assert found["case"] == number
    lasting = {phase for phase in (1, 2, 3, 4) if found[f"t_{phase}"] > 0}
    assert lasting == set(cases.PHASES_OF_CASE[number])


def test_periods_and_windows_of_ns2() -> None:
    """ns-2.35: loss to loss within 1 % where one packet is lost at a time (cases 4-6), windows BDP + b; in cases 1, 2
    the window is cut twice, so the period is within 10 % and utilization is over.
    """
    table = rows("compound_cases.csv")
    wanted = {1: (0.01, 0.085), 2: (0.08, 0.01), 4: (0.005, 0.005), 5: (0.006, 0.005), 6: (0.003, 0.005)}
    for number, (period, utilization) in wanted.items():
        found, row = evaluate(*FIGURES[number]), table[str(number)]
        assert found["period"] == pytest.approx(float(row["mean_time_between_cuts_s"]), rel=period)
        assert found["utilization"] == pytest.approx(float(row["utilization"]), abs=utilization)
        if number >= 4:
            assert found["w_f"] == pytest.approx(float(row["median_w_before_cut_pkts"]), abs=0.5)
            assert found["backlog"] == pytest.approx(float(row["mean_backlog_waiting_pkts"]), rel=0.06)


def test_throughput_of_ns2_in_case_4() -> None:
    """Figure 14 up to 273 Mb/s, "a very good match": utilization within 0.26 %, backlog within 3 packets from 20 to 275
    Mb/s but for 125-140, where ns-2.35 oscillates 3:1 or 2:1 and the paper's module 5:2.
    """
    table = rows("compound_throughput.csv")
    backlog_differs = {"130", "132", "134", "138", "140"}
    compared = 0
    for mbps, row in table.items():
        if float(mbps) > 275:
            continue
        found = evaluate(float(mbps), 50, 100)
        assert found["case"] in (4, 5)
        assert found["utilization"] == pytest.approx(float(row["utilization_whole_epochs"]), abs=0.0026)
        if mbps not in backlog_differs:
            compared += 1
            assert found["backlog"] == pytest.approx(float(row["mean_backlog_waiting_whole_epochs_pkts"]), abs=3)
    assert compared == 18


def test_throughput_of_ns2_in_case_2() -> None:
    """Figure 14 above the transitions: within 3 % of ns-2.35 from 290 Mb/s to 800 where both are in case 2.

    At 900 Mb/s ns-2.35 cuts twice each time (0.59); the paper reports a deviation at 800 and 900 too, unexplained.
    """
    table = rows("compound_throughput.csv")
    found = {mbps: evaluate(float(mbps), 50, 100) for mbps in table}
    both = [
        mbps
        for mbps, row in table.items()
        if found[mbps]["case"] == 2 and float(row["utilization_whole_epochs"]) < 0.9 and float(mbps) <= 800
    ]
    assert len(both) >= 12
    for mbps in both:
        ours, theirs = found[mbps]["utilization"], float(table[mbps]["utilization_whole_epochs"])
        assert ours == pytest.approx(theirs, abs=0.03)
    assert found["900"]["utilization"] == pytest.approx(0.742, abs=0.001)
    assert float(table["900"]["utilization_whole_epochs"]) == pytest.approx(0.59, abs=0.01)


def test_transitions_of_figures_14_and_15() -> None:
    """Sections 5.1, 5.2: case 4 to 2 at 273, back at 320, to 2 for good at 400 Mb/s.

    Ours: a band of 280.1-283.7, then 322.6 and 410.2. Within 3 % but not equal: models/ERRATA.md.
    """
    found = transitions(30)
    assert found == [(280.1, 283.7, 2), (322.6, 322.6, 4), (410.2, 410.2, 2)]
    assert [first for first, _, _ in found] == pytest.approx([273, 320, 400], rel=0.03)


def test_transition_with_gamma_5() -> None:
    """Section 5.1: "if gamma = 5 the transition from case 4 to case 2 takes place when mu = 410 Mb/s"."""
    ((first, last, number),) = transitions(5)
    assert (round(first), round(last), number) == (410, 410, 2)


def test_types_change_at_131_and_138_mbps() -> None:
    """Section 5.2: mu tau of 546 and 574 packets are 131 and 138 Mb/s; the backlog falls there and rises after."""
    assert [round(bdp * 12000 / 0.05 / 1e6) for bdp in (546, 574)] == [131, 138]
    # Ours begins 5:2 at 534 packets, 128 Mb/s (Table 1 in models/ERRATA.md).
    before, within, after, later = (evaluate(bdp * 0.24, 50, 100) for bdp in (530, 540, 576, 1100))
    assert before["backlog"] > within["backlog"] + 8 > after["backlog"] + 8
    assert later["backlog"] > after["backlog"] + 10
    assert before["utilization"] == pytest.approx(after["utilization"], abs=0.001)


def test_isolated_connection_tends_to_three_quarters() -> None:
    """Abstract: "utilizes around 75 % of the link capacity": phase 1 from half the pipe to all of it, and a pause."""
    assert evaluate(600, 50, 100)["utilization"] == pytest.approx(0.75, abs=0.005)


def test_ignoring_the_oscillations_case_2_vanishes() -> None:
    """Section 4.7: with theta_max = mu tau + gamma a buffer above 30 packets never sees case 2, whatever the pipe."""
    bdp = np.logspace(2, 4, 200)
    buffer = np.maximum(31, 0.125 * bdp**0.75 + 1)
    assert not (cases.case(buffer, cases.thresholds(bdp, bdp + 30)) == 2).any()
    assert (case_map(bdp, buffer)[bdp > 1000] == 2).any()


def test_map_of_a_million_points_takes_seconds() -> None:
    """Figure 12 at 1000 x 1000, from two axes (0.1 s on an idle machine) and from a mesh; point by point: minutes."""
    bdp, buffer = np.logspace(1, 4, 1000)[:, None], np.logspace(0, 4, 1000)[None, :]
    for given in ((bdp, buffer), np.broadcast_arrays(bdp, buffer)):
        start = time.process_time()
        numbers = case_map(*given)
        # The time of this process: others may use the machine too.
        assert time.process_time() - start < 10
        assert numbers.shape == (1000, 1000)
        assert set(np.unique(numbers)) == {1, 2, 3, 4, 5, 6}


def test_map_is_the_model_point_by_point() -> None:
    """Figures 12 and 13: array and scalar answers are the same."""
    rng = np.random.default_rng(3)
    bdp, buffer = 10 ** rng.uniform(1.3, 4, 20), 10 ** rng.uniform(0, 4, 20)
    for one_bdp, one_buffer, number in zip(bdp, buffer, case_map(bdp, buffer), strict=True):
        assert evaluate(one_bdp * 0.24, 50, one_buffer)["case"] == number


def test_what_is_sent_is_what_leaves() -> None:
    """Section 4: with a queue that never empties mu packets a second leave; three more are sent (the duplicates)."""
    for number in (3, 5, 6):
        mbps, ms, b, gamma = FIGURES[number]
        mu = mbps * 1e6 / 12000
        top = oscillation(mu * ms / 1e3, gamma).theta
        one = cases.cycle(number, mu=mu, tau=ms / 1e3, buffer=b, theta=top)
        assert float(one.sent - mu * one.period) == pytest.approx(3, abs=1e-6)


@pytest.mark.parametrize("number", FIGURES)
def test_backlog_is_the_integral_of_the_trajectory(number: int) -> None:
    """Section 5.2's "tedious algebra" against w(t) - mu tau summed along Figures 6-11 (the loss's round apart)."""
    mbps, ms, b, gamma = FIGURES[number]
    mu, tau = mbps * 1e6 / 12000, ms / 1e3
    one = cases.cycle(number, mu=mu, tau=tau, buffer=b, theta=oscillation(mu * tau, gamma).theta)
    path = cases.trajectory(one, mu=mu, tau=tau, points=2000)[:-2]
    queue = np.maximum(path[:, 1] - mu * tau, 0)
    loss_queue = float(one.w_end) - mu * tau if number > 1 else 0
    pause = (0.5 * float(one.w_end) - 3) / mu
    t = np.linspace(0, float(one.loss_time), 20_001)
    loss = np.trapezoid(np.maximum(loss_queue - mu * np.minimum(t, pause), 0), t)
    assert float(one.backlog_time) == pytest.approx(np.trapezoid(queue, path[:, 0]) + loss, rel=2e-3, abs=1e-6)


def test_margin_is_the_distance_to_the_next_case() -> None:
    """Figure 13: a buffer changed by less than the margin keeps its case, by a little more changes it one way.

    Or comes to where the oscillation overflows before it is at rest.
    """
    rng = np.random.default_rng(5)
    bdp, buffer = 10 ** rng.uniform(1.5, 4, 300), 10 ** rng.uniform(0.3, 4, 300)
    limits = cases.thresholds(bdp, oscillation(bdp).theta_max)
    number, margin = cases.case(buffer, limits), cases.margin(buffer, limits)
    # The margin is a fraction of the threshold: b = edge (1 +- margin).
    for sign in (-1, 1):
        closer = buffer / (1 + sign * margin * 0.999)
        assert ((cases.case(closer, limits) == number) | (sign * margin <= -1)).all()
    less = buffer / (1 + margin * 1.001)
    down = (cases.case(less, limits) != number) | (less < limits.oscillation + limits.settling)
    up = cases.case(buffer / np.maximum(1 - margin * 1.001, 1e-9), limits) != number
    assert (down | up).all()


@pytest.mark.slow
def test_a_case_with_a_margin_is_the_simulators() -> None:
    """Of 169 runs over mu tau = 60 to 1800 packets and b, none of the 141 with a margin of 2 % was in another case.

    Without one 18 were: the first oscillations overflow a buffer that holds those at rest (at 335 Mb/s of section 5.1
    it holds 16 % more).
    """
    decided = 0
    for pipe, b in ((1396, 100), (1750, 100), (1309, 108), (1396, 140), (904, 110), (420, 130), (212, 60), (700, 40)):
        one = parse(scenario(pipe * 0.24, 50, b, 30, 60))
        found = Compound().predict(one.path, one.control)
        assert found.margin is not None
        linear = linear_share(simulate(one), pipe)
        if found.margin > 0.02 and linear is not None:
            decided += 1
            assert (linear > 0.5) == (found.case in (4, 5, 6)), (pipe, b)
        else:
            assert (pipe, b) in ((1396, 100), (1750, 100), (1309, 108))
    assert decided == 5


def test_prediction_names_case_phases_and_oscillation() -> None:
    """Figure 9's network as a scenario: b counts the packet in service, so 79 waiting places."""
    path = PathSpec(nodes=(NodeSpec(rate_bps=100e6, buffer=79, delay_s=0.025),), return_delay_s=0.025)
    model = Compound()
    found = model.predict(path, ControlSpec(window="compound", recovery="sack"))
    assert found.case == 4
    assert found.notes == ("phases 1, 2, 3, 4; oscillation 3:1 in phase 3",)
    # ns-2.35's module over a link of 100 Mb/s and nothing else: 475; over the reference run's it is 476.
    assert found.quantities["theta_max"].value == 475
    assert found.quantities["oscillation_margin"].value == 1
    draft = model.predict(path, ControlSpec(window="compound-draft", recovery="sack"))
    # The draft's own rounds fall twice, and further: the simulator's rfc profile has 483 and 389.
    assert draft.quantities["oscillation_n"].value == 2
    assert draft.quantities["theta_max"].value == pytest.approx(483, rel=0.02)
    assert draft.quantities["theta_min"].value == pytest.approx(389, rel=0.03)
    with pytest.raises(ValueError, match="reno"):
        model.predict(path, ControlSpec(window="reno"))


def test_delayed_acks_double_the_slow_phases() -> None:
    """Equations (9)-(12) with m = 2, Figure 9's network: phases 1, 2 as before, the cycle 27.4 s, not 13.7."""
    mu, tau = 100e6 / 12000, 0.05
    theta = oscillation(mu * tau).theta
    one, two = (cases.cycle(4, mu=mu, tau=tau, buffer=80, theta=theta, per_ack=m) for m in (1, 2))
    for phase in (0, 1):
        assert one.time[phase] == two.time[phase]
    assert float(two.time[3]) == pytest.approx(2 * float(one.time[3]))
    assert float(two.time[2]) > 2 * float(one.time[2])
    path = PathSpec(nodes=(NodeSpec(rate_bps=100e6, buffer=79, delay_s=0.025),), return_delay_s=0.025)
    ack_counting = ControlSpec(window="compound", recovery="sack", delayed_ack_segments=2)
    found = Compound().predict(path, ack_counting)
    assert float(found.quantities["period"].value) == pytest.approx(27.4, abs=0.05)
    assert "acknowledges every packet" in found.notes[1]
    # The draft's window counts what an ACK acknowledges.
    draft = ControlSpec(window="compound-draft", recovery="sack", delayed_ack_segments=2)
    assert float(Compound().predict(path, draft).quantities["period"].value) < 14


def test_delayed_acks_in_the_simulator() -> None:
    """The same network in the simulator: 27.3 s between losses (2 % of the model's)."""
    from tcptrace_lab.reproduce.compound_runs import scenario
    from tcptrace_lab.scenario_file import parse
    from tcptrace_lab.simulate import simulate

    run = parse(scenario(100, 50, 80, 30, 90) | {"receiver": {"delayed_ack_segments": 2}})
    predicted = Compound().predict(run.path, run.control).quantities["period"].value
    assert simulate(run).summary["cycle_s"] == pytest.approx(float(predicted), rel=0.02)
