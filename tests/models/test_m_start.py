"""M-Start (Patel & Ganatra 2017): Tables 1-4, equations 1-3, the buffer condition; ns-2's slow starts."""

import csv
import math

import numpy as np
import pytest
from tcptrace_lab.models import m_start
from tcptrace_lab.models import m_start_tables as tables

from tcptrace_lab.scenario import ControlSpec, NodeSpec, PathSpec
from tests.conftest import shared


def evaluate(**changed: float) -> dict[str, float]:
    values = {p.name: p.example for p in m_start.MStart().parameters} | changed
    return {name: float(q.value) for name, q in m_start.MStart().evaluate(**values).items()}


def test_table_1_is_printed_without_a_misprint() -> None:
    """Table 1: all 16 rows, every cell."""
    assert tuple(tables.derived(cycles=5, step=0)) == tables.TABLE_1_PRINTED


def test_table_2_windows_are_right_where_its_other_columns_drift() -> None:
    """Table 2: the window column agrees in every printed row; which other cells disagree, row by row."""
    rows = {(row.cycle, row.m): row for row in tables.derived(cycles=5)}
    names = ("acked", "window", "first_released", "last_released", "queue")
    wrong = {
        (row.cycle, row.m): [n for n in names if getattr(row, n) != getattr(rows[row.cycle, row.m], n)]
        for row in tables.TABLE_2_PRINTED
    }
    assert {at: cells for at, cells in wrong.items() if cells} == {
        (2, 0): ["last_released"],
        (2, 1): ["first_released", "last_released", "queue"],
        (3, 0): ["first_released", "last_released"],
        (3, 1): ["first_released", "last_released"],
        (3, 2): ["first_released"],
        (3, 20): ["acked", "first_released", "last_released"],
        (4, 0): ["acked", "first_released", "last_released"],
        (4, 1): ["acked", "first_released", "last_released"],
        (4, 2): ["acked", "first_released", "last_released"],
        (4, 138): ["acked", "first_released", "last_released", "queue"],
    }


def test_table_2_prints_13_packets_for_a_window_that_releases_11() -> None:
    """Table 2, 2T: ACK of packet 2 opens the window from 2 to 12, so 11 packets go: 4 to 14, not "4 to 16"."""
    row = next(row for row in tables.derived() if (row.cycle, row.m) == (2, 0))
    assert (row.first_released, row.last_released) == (4, 14)
    assert row.last_released - row.first_released + 1 == row.window - 2 + 1 == row.queue


def test_table_2_queue_754_belongs_one_ack_earlier() -> None:
    """Table 2, last row: the queue is 763; 754 is that of ACK 162, window 892."""
    last, before = list(tables.derived())[-1], list(tables.derived())[-2]
    assert (last.acked, last.window, last.queue) == (163, 901, 763)
    assert (before.acked, before.window, before.queue) == (162, 892, 754)


def test_table_2_throughput_is_8_kbit_for_each_queued_packet() -> None:
    """Table 2: the column is 8 x its own queue column, misprints included."""
    assert tuple(row.throughput for row in tables.TABLE_2_PRINTED) == tables.TABLE_2_PRINTED_THROUGHPUT


def test_table_3_throughputs_of_m_start_are_sums_of_the_queue_column() -> None:
    """Table 3: 10392 and 426712 are 8 kbit x the sum of the derived queues; 232 sums 11 + the misprinted 18."""
    derived = tables.end_of_iterations(step=10)
    printed = tables.TABLE_3_PRINTED["m-start"]
    assert [row[0] for row in derived] == [1, 2, 21, 139, 901]
    assert [row[1] for row in derived] == [1, 2, 20, 119, 763]
    assert [row[2] for row in derived] == [8, 16, 248, 10392, 426712]
    assert [row[2] for row in printed] == [8, 16, 232, 10392, 426712]
    assert 8 * (11 + 18) == 232


def test_table_3_throughputs_of_the_traditional_start_are_windows() -> None:
    """Table 3: 8, 16, 32, 64, 128 is 8 kbit x window; the sum of queues would be 8, 16, 40, 112, 352."""
    derived = tables.end_of_iterations(step=0)
    assert [(w, q, eight) for w, q, _, eight in derived] == list(tables.TABLE_3_PRINTED["traditional"])
    assert [total for _, _, total, _ in derived] == [8, 16, 40, 112, 352]


@pytest.mark.parametrize("scheme", ["traditional", "m-start"])
def test_table_4_per_second_column_is_the_increment_divided_by_t(scheme: str) -> None:
    """Table 4: within 1.3, which is what rounding the averages leaves."""
    printed = [per_second for _, per_second in tables.TABLE_4_PRINTED[scheme]]
    assert np.abs(np.array(tables.table_4_increment_over_t(scheme)) - printed).max() < 1.3


def test_table_4_averages_exceed_the_link() -> None:
    """Table 4: 1840 Mb/s over 1 Gb/s links; over four hops 460, and no second above 862."""
    averages = [average for average, _ in tables.TABLE_4_PRINTED["m-start"]]
    assert max(averages) == 1840
    seconds = [(k + 1) * share / 4 for k, share in enumerate(tables.table_4_increment_over_t("m-start"))]
    assert max(seconds) == 862


def test_table_4_stands_still_in_the_seconds_the_text_names() -> None:
    """Section 6.2: "at 4th, 8th, 9th, 13th, 14th & 15th second throughput is near to zero" (M-Start)."""
    rows = tables.TABLE_4_PRINTED["m-start"]
    assert [second for second, (_, rate) in enumerate(rows, start=1) if rate <= 1] == [4, 8, 9, 13, 14, 15]


def test_numbers_of_the_text() -> None:
    """Sections 3, 6.2: which printed numbers follow from the paper itself, and what the others are."""
    found = {claim.text: claim for claim in tables.claims()}
    assert {text for text, claim in found.items() if claim.is_reproduced} == {
        "1/mu of 1000 bytes at 1 Gb/s, ms",
        "epoch point of M-Start over traditional",
        "throughput increase, %",
    }
    unknown = {text for text, claim in found.items() if math.isnan(claim.ours)}
    assert unknown == {"packet drops increased by, %", "share of available bandwidth filled, %"}
    wrong = {
        text: round(claim.ours, 1) for text, claim in found.items() if not claim.is_reproduced and text not in unknown
    }
    assert wrong == {
        "T of 4 x 10^6 m at 2 x 10^8 m/s, ms": 20,
        "time to the epoch point reduced to, %": 51.2,
        "the same from Table 4's last averages, %": 99.5,
        "traditional saturation, packets": 453,
        "traditional saturation at, s": 3.6,
        "M-Start saturation, packets": 791,
        "the same, first window 2, zero step, 249 places": 1993,
    }


def test_equations_1_and_2_as_meant_give_table_1() -> None:
    """Equations (1), (2), n >= 1; as printed (2n - 1 + m + 1) the first disagrees from cycle 2 on."""
    for row in tables.TABLE_1_PRINTED[1:]:
        assert m_start.equation_1(row.cycle, row.m) == row.window
        assert m_start.equation_2(row.m) == row.queue == m_start.queue(row.cycle, row.m, step=0)
    wrong = {r.cycle for r in tables.TABLE_1_PRINTED[1:] if m_start.equation_1_printed(r.cycle, r.m) != r.window}
    assert wrong == {2, 3, 4}


def test_longest_queue_is_half_the_window_and_one() -> None:
    """Section 3: Q_max = 2^(n-1) + 1 and W_max = 2^n, so W_max / 2 + 1, not W_max / 2."""
    for n in range(1, 12):
        last = 2 ** (n - 1) - 1
        assert m_start.equation_2(last) == m_start.equation_1(n, last) / 2 + 1


def test_equation_3_as_printed_gives_no_window_of_table_2() -> None:
    """Equation (3): neither k = ACK number from 0 nor from 1 gives 12, 21, 29 at the first M-Start ACKs."""
    wanted = {(2, 0): 12, (2, 1): 21, (3, 0): 29}
    for offset in (0, 1):
        for k, ((_, m), window) in enumerate(wanted.items()):
            assert m_start.equation_3_printed(k + offset, m) != window


@pytest.mark.parametrize("zero_step", [0, 1])
@pytest.mark.parametrize("step", [0, 1, 3, 10])
def test_acks_until_inverts_window(step: int, zero_step: int) -> None:
    """Equation (3): the first ACK count at which the window is reached, for every window."""
    windows = m_start.window(np.arange(2100), step, zero_step)
    wanted = np.arange(1, 1050)
    first = np.array([np.argmax(windows >= w) for w in wanted])
    assert m_start.acks_until(wanted, step, zero_step).tolist() == first.tolist()


def test_zero_step_makes_a_run_of_11_acks() -> None:
    """The algorithm's `scnt == 0`: after 10, 9, ..., 1 an ACK adds nothing, then 10 again."""
    assert np.diff(m_start.window(np.arange(14), zero_step=1)).tolist() == [1, *range(10, 0, -1), 0, 10]
    assert np.diff(m_start.window(np.arange(14), zero_step=0)).tolist() == [1, *range(10, 0, -1), 10, 9]


def test_buffer_condition_is_a_third_of_the_pipe_for_standard_slow_start() -> None:
    """Section 3: B_s >= cT / 3; with M-Start's growth of 6.5 per cycle (6 with a zero step) 11/15 (5/7)."""
    assert m_start.buffer_needed(step=0) == pytest.approx(1 / 3)
    assert m_start.buffer_needed(step=10) == pytest.approx(11 / 15)
    assert m_start.buffer_needed(step=10, zero_step=1) == pytest.approx(5 / 7)


def test_buffer_condition_holds_in_the_recurrence_within_a_packet_or_two() -> None:
    """Section 3: with B_s = cT / 3 and a packet for each rounding the longest queue fits, for pipes up to 2^15."""
    for pipe in 2.0 ** np.arange(6, 16) * 3 / 2:
        places = np.ceil(pipe / 3) + 1
        assert evaluate(buffer=places, mu=pipe, round_trip=1, step=0)["overflows"] == 0
        # W_th = 2 pipe / 3 is a power of two: the worst case, in which cT / 3 less a few packets overflows.
        assert evaluate(buffer=places - 3, mu=pipe, round_trip=1, step=0)["overflows"] == 1


def test_reaching_half_the_window_takes_fewer_rounds() -> None:
    """Section 1: log 6.5 against log 2; section 6.2's 2.1 s against 4.1 s is of this kind."""
    slow, fast = evaluate(step=0), evaluate(step=10)
    assert fast["rounds"] < slow["rounds"] / 2
    assert fast["time_to_W_th"] < slow["time_to_W_th"]


def test_ns2_first_loss_and_window_at_its_detection() -> None:
    """Section 6: 24 slow starts of ns-2 on Figure 4's topology; the saturation "at 454 packets" is q = 100's 453."""
    with shared("oracles", "ns2", "mstart_cubic_summary.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["first_drop_t_s"] and row["syn_packet"] == "0"]
    assert len(rows) >= 20
    for row in rows:
        found = evaluate(
            buffer=float(row["q_ns_limit_pkts"]) - 1,
            mu=125_000,
            round_trip=0.804 if row["config"].startswith("rtt804") else 0.404,
            step=0,
            initial_window=float(row["initial_window_pkts"]),
        )
        # T leaves out the transmission times of each round trip (four links, 8 us a packet): 0.07 ms a round.
        assert found["time_of_first_loss"] == pytest.approx(float(row["first_drop_t_s"]), abs=0.5e-3), row["config"]
        assert found["W_detected"] == pytest.approx(float(row["max_cwnd_first_epoch_pkts"]), abs=2), row["config"]


def test_derived_tables_equal_the_reference_tables() -> None:
    """Tables 1 and 2: every derived row against an independent derivation."""
    for name, step in (("mstart_table1.csv", 0), ("mstart_table2.csv", 10)):
        with shared("oracles", "ns2", name).open() as file:
            wanted = list(csv.DictReader(file))
        mine = list(tables.derived(5, step))
        assert len(mine) == len(wanted)
        for row, other in zip(mine, wanted, strict=True):
            released = other["released_derived"].split("-")
            assert (row.cycle, row.m, row.window, row.queue) == (
                int(other["rtt_cycle"]),
                int(other["m"]),
                int(other["window_derived"]),
                int(other["queue_derived"]),
            )
            assert (row.first_released, row.last_released) == (int(released[0]), int(released[-1]))


def test_prediction_says_overflow_and_why() -> None:
    """The scenario of Figure 4: 100 packets of buffer against a pipe of 50 500."""
    path = PathSpec(nodes=(NodeSpec(rate_bps=1e9, buffer=100, delay_s=0.2),), return_delay_s=0.2, packet_bytes=1000)
    model = m_start.MStart()
    found = model.predict(path, ControlSpec(slow_start="m-start"))
    assert found.regime == "overflow"
    assert found.quantities["growth"].value == 6.5
    early = model.predict(path, ControlSpec(slow_start="m-start", initial_ssthresh=64))
    assert early.notes[1] == "ssthresh = 64 at first: the first slow start ends before W_first_loss"
    assert not model.applies_to(path, ControlSpec(slow_start="hystart"))
    with pytest.raises(ValueError, match="hystart"):
        model.predict(path, ControlSpec(slow_start="hystart"))


def test_a_first_window_that_does_not_fit_is_lost_at_once() -> None:
    """RFC 2416: four packets into three places (two waiting); the fourth is lost at 0 s, detected at a window of 7."""
    model = m_start.MStart()
    others = {"mu": 1.2, "round_trip": 1.2223, "step": 0, "zero_step": 0}
    for first, lost in ((1, False), (3, False), (4, True), (10, True)):
        found = model.evaluate(buffer=2, initial_window=first, **others)
        assert bool(found["overflows"].value) == lost, first
        assert (float(found["time_of_first_loss"].value) == 0) == lost
    found = model.evaluate(buffer=2, initial_window=4, **others)
    assert (found["W_first_loss"].value, found["W_detected"].value) == (4, 7)
