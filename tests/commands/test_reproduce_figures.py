"""What the figures of `reproduce` are drawn from: numbers, not pixels."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from tcptrace_lab.models import compound_cases as cases
from tcptrace_lab.models.compound import case_map
from tcptrace_lab.models.compound_oscillation import oscillation

from tcptrace_lab.reproduce import PAPERS
from tcptrace_lab.reproduce import compound_charts as charts
from tcptrace_lab.reproduce import m_start_figures as m_start
from tcptrace_lab.reproduce.paper import Sources

# The figures that each paper's text names; 001 (RFC 2416) has none.
NUMBERED = {"000": range(2, 6), "002": range(1, 8), "003": range(1, 16), "004": (2, 4, 5, 6, 7)}


@pytest.mark.slow
@pytest.mark.parametrize("paper", NUMBERED)
def test_every_numbered_figure_is_drawn(paper: str) -> None:
    """000's Figure 1, 004's 1 and 3 are drawings of networks that the text describes no further."""
    (module,) = (name for number, name, _ in PAPERS if number == paper)
    found = import_module(f"tcptrace_lab.reproduce.{module}").reproduce(Sources(simulate=False))
    names = " ".join(figure.name for figure in found.figures).replace("figure_5_6", "figure_5 figure_6").split()
    for number in NUMBERED[paper]:
        assert f"figure_{number}" in names


def test_figure_1_of_m_start_doubles_and_starts_again() -> None:
    """Section 1: cwnd is 1 at first, "upon receiving each ack it gets incremented by one", and again after a loss."""
    t, cwnd = m_start.repeated_starts()
    starts = np.flatnonzero(cwnd == 1)
    assert starts.size == m_start.STARTS
    assert (np.diff(t) > 0).all()
    step = np.diff(cwnd)
    assert set(step) == {1.0, 1.0 - float(cwnd.max())}
    for cycle in range(1, 5):
        # Equation (1): 2^n as cycle n ends.
        assert cwnd[: starts[1]][t[: starts[1]] < cycle + 1].max() == 2**cycle
    # Equation (2): ACK m leaves m + 2 packets, 21 first with m = 19 in cycle 6, where W = 2^5 + m + 1.
    assert cwnd.max() == 2**5 + 20
    assert t[starts[1]] - t[starts[1] - 1] == pytest.approx(m_start.TIMER)


def test_figure_2_of_m_start_is_a_window_a_round_trip() -> None:
    """454 packets of 1000 bytes in 0.4 s are 9.08 Mb/s (models/ERRATA.md); no window passes the link."""
    assert m_start.window_rate_bps(454, np.array(0.4)) == pytest.approx(9.08e6)
    round_trip = np.geomspace(1e-6, 10, 50)
    for window in m_start.WINDOWS:
        rate = m_start.window_rate_bps(window, round_trip)
        assert rate.max() == 1e9
        assert (np.diff(rate) <= 0).all()
        assert rate[-1] * round_trip[-1] == pytest.approx(8000 * window)


def test_figure_4_of_m_start_is_section_6_1() -> None:
    """ "Node S1 and D1 are connected ... with 1 Gbps speed and 1 ms", routers "by 1 Gbps speed with 200 ms"."""
    assert m_start.topology() == (
        ("S1", "R1", 1e9, 0.001),
        ("R1", "R2", 1e9, 0.2),
        ("R2", "R3", 1e9, 0.2),
        ("R3", "D1", 1e9, 0.001),
    )


def test_figure_1_of_compound_is_the_phases_in_a_row() -> None:
    """Section 2: w leaves phase 1 at mu tau, 2 at theta; w_d is gone at t_3; w_c gains a packet a round trip."""
    found = charts.four_phases()
    w = dict(zip(found.t, found.w, strict=True))
    t_1, t_2, t_3, t_4 = found.bounds
    assert [w[t] for t in found.bounds] == pytest.approx([found.bdp, found.theta, found.theta, found.w_f])
    w_c = dict(zip(found.t, found.w_c, strict=True))
    assert w_c[t_1] - found.w_c[0] == pytest.approx(t_1 / 0.05)
    assert w_c[t_3] == pytest.approx(found.theta)
    late = (found.t > t_3 + 1e-9) & (found.t <= t_4)
    assert found.w_d[late] == pytest.approx(0, abs=1e-9)
    assert found.w_d.min() > -1e-9
    # The delay window is largest where superlinear growth ends.
    assert found.t[int(np.argmax(found.w_d))] == pytest.approx(t_2)


def test_figure_3_of_compound_finds_the_types() -> None:
    """The chart, question by question, gives what the oscillations' solver gives, m:1 types included."""
    for gamma in (5.0, 30.0):
        for bdp in (70.0, 120.0, 250.0, 320.0, 540.0, 560.0, 700.0, 1340.0, 1500.0):
            found = oscillation(bdp, gamma)
            if float(found.margin) < 0:
                continue
            answer = charts.OSCILLATION.follow({"bdp": bdp, "gamma": gamma})
            assert answer == f"{found.rises:g}:{found.falls:g}", (bdp, gamma)


def test_figure_13_of_compound_finds_the_cases() -> None:
    """The chart followed at random points is the map of Figure 12; every answer comes up."""
    rng = np.random.default_rng(13)
    bdp, b = 10 ** rng.uniform(1.3, 4, 300), 10 ** rng.uniform(0, 4, 300)
    top = oscillation(bdp).theta_max
    answers = [
        charts.CASE.follow({"bdp": float(pipe), "b": float(places), "theta_max": float(most), "gamma": 30})
        for pipe, places, most in zip(bdp, b, top, strict=True)
    ]
    assert answers == [f"case {number}" for number in case_map(bdp, b)]
    # Case 3 needs a large gamma (section 4.3).
    assert charts.CASE.follow({"bdp": 83.3, "b": 85, "theta_max": 200, "gamma": 90}) == "case 3"
    assert set(answers) >= {f"case {number}" for number in cases.PHASES_OF_CASE if number != 3}
