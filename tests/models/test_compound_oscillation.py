"""Compound's oscillations (Blanc et al. 2008, section 3): Table 1, Figures 3-5, fixed points, ns-2's phase 3."""

import csv

import numpy as np
import pytest
from tcptrace_lab.models.compound_oscillation import (
    TABLE_1_PRINTED,
    Rule,
    forced_cycle,
    in_flight_seen,
    is_feasible,
    oscillation,
)

from tests.conftest import shared

BDPS = np.arange(60.0, 2001.0)
FLOAT = Rule(arithmetic="float")
EXTREMES = ("theta_max", "theta_min")


def interval(rises: int, falls: int, rule: Rule) -> tuple[float, float]:
    feasible = BDPS[is_feasible(rises, falls, BDPS, 30, rule) > 0]
    # One run, but for single values at its ends that whole-number windows leave out.
    assert (np.diff(feasible) <= 4).all()
    return float(feasible[0]), float(feasible[-1])


def test_table_1_intervals_in_linux_arithmetic() -> None:
    """Table 1: every bound but two within 2 packets, all but one of these exactly 1 above the printed one.

    mu tau of the table is then one packet short of the pipe, as it is if the base round trip has a packet's own
    transmission time. 3:1's upper and 5:2's lower bound (545, 546 printed) come out as 531 and 534: models/ERRATA.md.
    """
    derived = {kind: interval(*kind, Rule()) for kind in TABLE_1_PRINTED}
    assert derived == {(2, 1): (546, 559), (3, 1): (313, 531), (5, 2): (534, 574), (4, 2): (560, 1412),
                       (3, 2): (1344, 2000)}  # fmt: skip
    above = [
        mine - printed
        for kind, row in TABLE_1_PRINTED.items()
        for mine, printed in zip(derived[kind], row, strict=True)
        if np.isfinite(printed)
    ]
    assert sorted(above) == [-14, -12, 1, 1, 1, 1, 1, 1, 2]


def test_table_1_intervals_in_real_arithmetic_are_others() -> None:
    """Section 3.3: "there can be non-negligible differences" between the two arithmetics: up to 67 packets."""
    assert {kind: interval(*kind, FLOAT) for kind in TABLE_1_PRINTED} == {
        (2, 1): (531, 535),
        (3, 1): (302, 512),
        (5, 2): (516, 573),
        (4, 2): (553, 1478),
        (3, 2): (1398, 2000),
    }


def test_an_increase_at_1500_packets_as_printed() -> None:
    """Section 3.4: alpha w^k = 30.13 for w = 1500; Linux's whole number is 30."""
    window = np.array(1500.0)
    assert round(float(FLOAT.increase(window)), 2) == 30.13
    assert float(Rule().increase(window)) == 30


def test_linux_increase_is_within_one_of_the_real_one() -> None:
    """The module's w / sqrt(sqrt(w)), eight bits of fraction: floor or one more, never a packet off (w >= 38)."""
    w = np.arange(38.0, 20_000.0)
    assert np.abs(Rule().increase(w) - FLOAT.increase(w)).max() < 1.1


def test_figure_2_oscillates_3_to_1() -> None:
    """Figure 2: three increases, one decrease at 100 Mb/s and 50 ms, around 458 packets."""
    found = oscillation(5000 / 12)
    assert (float(found.rises), float(found.falls)) == (3, 1)
    assert (float(found.theta_max), float(found.theta_min)) == (476, 440)


@pytest.mark.parametrize("rule", [Rule(), FLOAT], ids=["linux", "float"])
@pytest.mark.parametrize("kind", [(2, 1), (3, 1), (4, 1), (5, 1), (6, 1), (5, 2), (4, 2), (3, 2)], ids=str)
def test_cycles_are_fixed_points(kind: tuple[int, int], rule: Rule) -> None:
    """Section 3.2: f_(m:n)(w_1) = w_1, f written out for each type from (13), (14) at a mu tau where it lives."""
    at = {(2, 1): 533.0, (3, 1): 417.0, (4, 1): 250.0, (5, 1): 170.0, (6, 1): 125.0, (5, 2): 560.0, (4, 2): 1000.0,
          (3, 2): 1500.0}[kind]  # fmt: skip
    windows, deltas = forced_cycle(*kind, at, rule)
    rises, falls = kind
    w = [*windows, windows[-1] - rule.decrease(deltas[-1])]
    for i in range(rises):
        assert w[i + 1] == pytest.approx(w[i] + rule.increase(w[i]))
    # Delta_(m+1) = w_m (1 - mu tau / (w_(m-1) + 1)), Delta_(m+2) = w_(m+1) (1 - mu tau / w_(m+2)).
    before = w[rises - 2] if rises > 1 else w[-1]
    assert deltas[rises] == pytest.approx(rule.delta(w[rises - 1], before + 1, np.array(at)))
    if falls == 2:
        seen = np.minimum(w[rises - 1] + 1, w[rises + 1])
        assert deltas[rises + 1] == pytest.approx(rule.delta(w[rises], seen, np.array(at)))
    assert float(w[-1]) == pytest.approx(float(w[0]), abs=1e-6)


def test_theorem_1_brackets_the_solution() -> None:
    """Theorem 1: g_1 >= g_2 at mu tau / 2 and the opposite for large w, so f_(3:1) has its solution between."""
    for pipe in (200.0, 417.0, 1000.0, 3000.0):

        def excess(w_1: float, pipe: float = pipe) -> float:
            w = [np.array(w_1)]
            for _ in range(3):
                w.append(w[-1] + FLOAT.increase(w[-1]))
            cut = FLOAT.delta(w[2], w[1] + 1, np.array(pipe))
            return float(w[3] - cut + 1 - w_1)

        low, high = pipe / 2, 4 * pipe
        assert excess(low) > 0 > excess(high)
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) > 0 else (low, middle)
        assert low == pytest.approx(float(forced_cycle(3, 1, pipe, FLOAT)[0][0]), rel=1e-9)


def test_priority_gives_the_types_of_figure_4() -> None:
    """Section 3.3, Figure 4, gamma = 30: m:1, 3:1, 5:2, 4:2, 3:2 in this order, with the changes of Figure 5."""
    found = oscillation(BDPS)
    kinds = [f"{m:g}:{n:g}" for m, n in zip(found.rises, found.falls, strict=True)]
    changes = [(int(BDPS[i]), kind) for i, kind in enumerate(kinds) if i and kind != kinds[i - 1] and BDPS[i] > 160]
    assert changes == [(213, "4:1"), (313, "3:1"), (534, "5:2"), (575, "4:2"), (1344, "3:2")]


def test_2_to_1_always_gives_way() -> None:
    """Section 3.3: 5:2 happens wherever 2:1 could too; the authors saw 2:1 once, at 557."""
    found = oscillation(BDPS)
    assert not ((found.rises == 2) & (found.falls == 1)).any()


def test_gamma_5_oscillates_3_to_2_everywhere() -> None:
    """Section 3.4: "for gamma = 5 the only type of oscillations is always 3:2" (here: from 67 packets on)."""
    found = oscillation(BDPS[BDPS >= 67], gamma=5)
    assert (found.rises == 3).all()
    assert (found.falls == 2).all()


def test_3_to_2_does_not_feel_gamma() -> None:
    """Section 3.4: "the oscillations are the very same whether gamma = 30 or 5"."""
    wide = BDPS[BDPS >= 1344]
    assert (oscillation(wide, 30).amplitude == oscillation(wide, 5).amplitude).all()


def test_figure_5_amplitudes_fall_where_the_type_changes() -> None:
    """Figure 5: a peak between 546 and 574 (5:2), a reduction at 1340 (4:2 to 3:2)."""
    amplitude = oscillation(BDPS).amplitude
    at = {int(bdp): float(value) for bdp, value in zip(BDPS, amplitude, strict=True)}
    assert at[560] > 1.5 * at[530]
    assert at[560] > at[580]
    assert at[1343] > 1.25 * at[1345]


def rows(name: str) -> list[dict[str, str]]:
    with shared("oracles", "ns2", name).open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("name", "agree", "differ"),
    [
        # Differ: 100, 120 (one m more or less), 535-585, where ns-2 has 3:1 and 2:1 (the paper saw 5:2, 4:2), 590 and
        # 600 (4:1/2:2 there), 1345 and 1360, where ns-2 still has 4:2: its other root shifts every bound by 15 or so.
        ("compound_phase3.csv", 47, {100, 120, *range(535, 601), 1345, 1360}),
        ("compound_phase3_othergamma_derived.csv", 58, {100, 200, 500, 1400, 1500}),
    ],
)
def test_ns2_windows_of_phase_3_within_3_packets(name: str, agree: int, differ: set[int]) -> None:
    """ns-2.35 (another integer root, another rounding of the cut): theta_max and theta_min wherever the type agrees."""
    table = rows(name)
    column = {name: np.array([float(row[f"{name}_pkts"]) for row in table]) for name in ("bdp", "gamma", *EXTREMES)}
    found = oscillation(column["bdp"], column["gamma"])
    kinds = [f"{m:g}:{n:g}" for m, n in zip(found.rises, found.falls, strict=True)]
    same = np.array([kind == row["oscillation_m_n"] for kind, row in zip(kinds, table, strict=True)])
    assert same.sum() == agree
    assert set(column["bdp"][~same]) <= differ
    assert found.theta_max[same] == pytest.approx(column["theta_max"][same], abs=3)
    assert found.theta_min[same] == pytest.approx(column["theta_min"][same], abs=3)


def test_ns2_arithmetic_shows_the_types_of_ns2() -> None:
    """gamma = 30, the pipe a packet and its ACK longer than mu tau: 2:1 at 550-585, which the paper's module lacks.

    Not 535-543 and 600 (two types alternate) and 1320-1360, where 4:2 and 3:2 can both live.
    """
    table = rows("compound_phase3.csv")
    bdp = np.array([float(row["bdp_pkts"]) for row in table])
    found = oscillation(bdp, 30, Rule(arithmetic="ns2", transmission=1 + 40 / 1500))
    kinds = [f"{m:g}:{n:g}" for m, n in zip(found.rises, found.falls, strict=True)]
    differ = [at for at, kind, row in zip(bdp, kinds, table, strict=True) if kind != row["oscillation_m_n"]]
    assert set(differ) <= {60, 80, 535, 540, 543, 600, 1320, 1340, 1345, 1360}
    same = np.array([at not in differ for at in bdp])
    assert found.theta_max[same] == pytest.approx(
        np.array([float(row["theta_max_pkts"]) for row in table])[same], abs=1.5
    )


def test_samples_are_those_of_equation_14() -> None:
    """Equation (14) as meant: after an increase w_(i-2) + 1, after a decrease w_i."""
    assert float(in_flight_seen(np.array(476.0), np.array(464.0), np.array(452.0))) == 453
    assert float(in_flight_seen(np.array(440.0), np.array(476.0), np.array(464.0))) == 440


def test_rules_outside_the_module_are_refused() -> None:
    """Section 2.1.1: 0 < k < 1; the Linux module has k = 3/4 and shifts for alpha."""
    for wrong in ({"k": 1.2, "arithmetic": "float"}, {"alpha": 0.1}, {"k": 0.8}, {"alpha": -1.0}, {"arithmetic": "ns"}):
        with pytest.raises(ValueError, match="must be"):
            Rule(**wrong)  # type: ignore[arg-type]
