"""ns-2.35's Compound, round by round (Blanc et al. 2008, section 3.1), against its own rounds."""

import csv

import numpy as np
import pytest
from tcptrace_lab.models.compound_rounds import cycles_of, draft_rounds, increase, quartic_root, rounds

from tests.conftest import shared

TAU = 0.05


def rows(name: str) -> list[dict[str, str]]:
    with shared("oracles", "ns2", name).open() as file:
        return list(csv.DictReader(file))


def base_rtt(mu: np.ndarray) -> np.ndarray:
    """Propagation, a packet and its ACK over the bottleneck, both over the 10 Gb/s access link."""
    return TAU + (1 + 40 / 1500) / mu + 8 * 1540 / 10e9


def test_integer_root_is_within_one_of_the_root() -> None:
    """Newton stopped at a step of 1: the floor, or one off."""
    a = np.arange(20, 5000, dtype=np.int64) ** 3
    assert np.abs(quartic_root(a) - a**0.25).max() < 2
    assert quartic_root(np.int64(438**3)) == 95  # 438^(3/4) = 95.74
    assert (increase(np.arange(1, 9)) == 0).all()


@pytest.mark.parametrize(
    ("name", "types", "exact"),
    [("compound_phase3.csv", 68, 66), ("compound_phase3_othergamma_derived.csv", 60, 60)],
)
def test_type_and_extremes_of_phase_3(name: str, types: int, exact: int) -> None:
    """Oscillation type, theta_max and theta_min to the packet in 126 of 138 rows, the type in two more.

    Not: 60-100 packets (two or three cycles in all), 535-543 and 600 (two types alternate, the counts differ), 1200
    (1 packet), 1360 (4:2 still there, 3:2 here), and three like these with gamma = 60.
    """
    table = rows(name)
    bdp, gamma = (np.array([float(row[key]) for row in table]) for key in ("bdp_pkts", "gamma_pkts"))
    run = rounds(bdp / TAU, base_rtt(bdp / TAU), gamma, start=np.floor(bdp / 2))
    found = [cycles_of(run.path(i)) for i in range(bdp.size)]
    same = [
        seen and f"{seen.rises}:{seen.falls}" == row["oscillation_m_n"] for seen, row in zip(found, table, strict=True)
    ]
    equal = [
        is_same and (seen.theta_max, seen.theta_min) == (float(row["theta_max_pkts"]), float(row["theta_min_pkts"]))
        for is_same, seen, row in zip(same, found, table, strict=True)
        if seen
    ]
    assert (sum(map(bool, same)), sum(map(bool, equal))) == (types, exact)


@pytest.mark.parametrize(("bdp", "share"), [(417, 0.8), (700, 0.78), (1500, 0.85), (2000, 0.95)])
def test_rounds_are_those_of_ns2(bdp: int, share: float) -> None:
    """From the end of slow start on, the window after most updates is ns-2's to the packet, and within 1 otherwise."""
    wanted = [row for row in rows("compound_phase3_rounds.csv") if float(row["bdp_pkts"]) == bdp]
    windows = np.array([int(float(row["w_after_update_pkts"])) for row in wanted])
    # The first round that grows by less than a quarter is past slow start.
    first = next(i for i in range(4, windows.size) if windows[i] < 1.25 * windows[i - 1] and windows[i] > bdp / 2.5)
    mu = np.array(bdp / TAU)
    run = rounds(mu, base_rtt(mu), start=windows[first - 1], count=windows.size - first)
    off = np.abs(run.window - windows[first:])
    assert np.mean(off == 0) >= share
    assert off.max() <= 1
    # Linear growth: once the delay window is used up nothing falls any more.
    assert not run.decreased[run.delay_window == 0][1:].any()


def test_several_paths_at_once_are_the_paths_one_by_one() -> None:
    bdp = np.array([200.0, 417.0, 1000.0])
    together = rounds(bdp / TAU, base_rtt(bdp / TAU))
    for i, one in enumerate(bdp):
        alone = rounds(one / TAU, base_rtt(np.array(one / TAU)))
        assert (alone.window == together.window[:, i]).all()


@pytest.mark.parametrize(
    ("bdp", "kind", "largest", "smallest"),
    [(200, (10, 2), 246, 177.5), (417, (8, 2), 483, 389), (600, (8, 3), 670, 549), (1200, (6, 3), 1291.5, 1138)],
)
def test_the_drafts_rounds_are_the_simulators(bdp: int, kind: tuple[int, int], largest: float, smallest: float) -> None:
    """draft-sridharan-tcpm-ctcp-02 in the simulator's rfc profile, 50 ms, no loss: type and extremes seen there."""
    seen = cycles_of(draft_rounds([bdp + 1.03]).path(0).after(60))
    assert seen is not None
    # Types take turns: the one seen there is among the frequent ones here.
    assert seen.counts.get(kind, 0) >= 0.15 * sum(seen.counts.values())
    assert seen.falls == kind[1]
    assert (seen.theta_max, seen.theta_min) == (pytest.approx(largest, rel=0.01), pytest.approx(smallest, rel=0.01))


@pytest.mark.filterwarnings("error")
def test_the_drafts_rounds_stay_windows() -> None:
    """A gamma as large as the pipe: what the decreases take beyond the window leaves one packet, not a negative one."""
    pipe, gamma = (grid.ravel() for grid in np.meshgrid(np.geomspace(2, 5000, 60), [1, 10, 30, 90, 300, 1000]))
    run = draft_rounds(pipe, gamma)
    assert np.isfinite(run.window).all()
    assert run.window.min() == 1
    # RR-6778's case 3 with gamma = 90: 50 Mbit/s, 20 ms, 83 packets.
    assert (draft_rounds([83.0], 90).window >= 1).all()
