"""The window where something else holds the sender back: between what is outstanding and what its control allows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tcptrace_lab import read
from tcptrace_lab.classify.control.heard.ack_columns import AckColumns
from tcptrace_lab.classify.control.windows.hidden import acks_at
from tcptrace_lab.classify.control.windows.replayed import Replayed, replayed
from tcptrace_lab.classify.control.windows.unused import reached
from tcptrace_lab.reconstruct.sender import sender
from tcptrace_lab.reconstruct.windows import fills_rwnd
from tcptrace_lab.scenario import (
    ApplicationSpec,
    ConnectionSpec,
    ControlSpec,
    NodeSpec,
    PathSpec,
    ReceiverSpec,
    Scenario,
)
from tcptrace_lab.simulate import Run, simulate
from tests.claims import KERNEL
from tests.conftest import SHARED
from tests.reconstruct.ladder import SMSS, ladder

PATH = PathSpec(nodes=(NodeSpec(rate_bps=10e6, buffer=40, delay_s=0.02),), return_delay_s=0.02)
CONTROLS = ("reno", "cubic", "compound", "htcp")


def seen_of(connection: ConnectionSpec) -> tuple[Run, Replayed]:
    """The run, and what a capture at its sender shows."""
    run = simulate(Scenario(path=PATH, connections=(connection,), duration_s=20, seed=7))
    return run, replayed(sender(run.capture(tap="sender")[0]))


def beside_truth(run: Run, seen: Replayed) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(hidden, finite, held): rows in which the packets bound nothing, in which we do, in which the bounds hold."""
    before, after = seen.envelope, seen.windows
    truth = run.windows
    at = np.searchsorted(truth["time_ns"], after["time_ns"], side="right") - 1
    cwnd, smss = truth["cwnd"].to_numpy()[at], seen.timeline.smss
    high = after["cwnd_high"].to_numpy(dtype=float, na_value=np.inf)
    held = (cwnd >= after["cwnd_low"].to_numpy() - 1.5 * smss) & (cwnd <= high + 0.5 * smss)
    hidden = before["cwnd_high"].isna().to_numpy() & (before["limited_by"] != "recovery").to_numpy()
    return hidden, np.isfinite(high), held


def error_of_value(run: Run, seen: Replayed, rows: np.ndarray) -> float:
    """The median error of the window told, as a share of the truth."""
    truth, after = run.windows, seen.windows
    cwnd = truth["cwnd"].to_numpy()[np.searchsorted(truth["time_ns"], after["time_ns"], side="right") - 1]
    return float(np.median(np.abs(after["cwnd"].to_numpy() - cwnd)[rows] / cwnd[rows]))


@pytest.mark.parametrize("name", CONTROLS)
def test_behind_the_receivers_window_the_bounds_are_finite_and_hold(name: str) -> None:
    """Twelve segments of receiver's window for a pipe of 33: the congestion window is never met again."""
    control = ControlSpec(window=name, recovery="sack", initial_window=3)
    run, seen = seen_of(ConnectionSpec(control=control, receiver=ReceiverSpec(rwnd=12 * 1448)))
    hidden, finite, held = beside_truth(run, seen)
    assert hidden.mean() > 0.9
    assert finite[hidden][:50].all()
    assert held[hidden].mean() >= 0.99
    # RFC 7661 section 4.3, Linux: a window that is not used does not grow beyond what was.
    assert error_of_value(run, seen, hidden) < 0.05


@pytest.mark.parametrize(("window", "timestamps"), [("hybla", True), ("hybla", False), ("westwood", False)])
def test_a_rebuilt_flight_that_may_fill_the_receivers_window_is_not_taken_for_the_other(
    window: str, timestamps: bool
) -> None:
    """At the receiver a flight is known to a few segments: as near to what is offered either window may be full.

    A window that was taken over there was held below what its control had opened meanwhile.
    """
    control = ControlSpec(window=window, recovery="sack", initial_window=3, timestamps=timestamps, byte_counting=True)
    connection = ConnectionSpec(
        control=control, receiver=ReceiverSpec(rwnd=1 << 30, initial_rwnd=65_535), jitter_s=2e-4
    )
    path = PathSpec(nodes=(NodeSpec(rate_bps=26e6, buffer=25, delay_s=0.038),), return_delay_s=0.038)
    run = simulate(Scenario(path=path, connections=(connection,), duration_s=8, taps=("receiver",)))
    seen = replayed(sender(run.capture(tap="receiver")[0]))
    shown = AckColumns(seen, None).shown
    assert shown.sum() > 1000
    assert not fills_rwnd(seen.timeline)[shown].any()


def test_an_ack_of_many_segments_opens_a_window_used_to_half_by_all_of_them() -> None:
    """Linux, in slow start: below twice what was outstanding the window still grows, by all that an ACK acknowledges.

    16 segments of receiver's window; the ACKs of a slow reader cover 14 and 16 at once.
    """
    edges, times = (4, 12, 28, 42, 58, 74), (0, 100, 200, 300, 400, 500)
    sent = [
        (time + 0.01 * (number - first), number)
        for time, first, last in zip(times, (0, *edges), edges, strict=False)
        for number in range(first, last)
    ]
    seen = ladder(sent, list(zip(times[1:], (4, 12, 26, 42, 58), strict=True)), rwnd=16 * SMSS)
    table = seen.shown_columns
    _, most = reached(seen, table, acks_at(seen, table), np.arange(len(table["time_ns"])))
    # 16 + 14 = 30, which is below 2 x 16: the ACK of 16 makes it 46. At most a segment more may have been outstanding.
    assert 46 * SMSS <= most[-1] <= (2 * 17 + 16) * SMSS


@pytest.mark.parametrize("name", CONTROLS)
def test_over_a_pause_the_bounds_hold(name: str) -> None:
    """400 kB, then two seconds of silence."""
    control = ControlSpec(window=name, recovery="sack", initial_window=3)
    application = ApplicationSpec(kind="on_off", bytes=400_000, off_s=2.0)
    run, seen = seen_of(ConnectionSpec(control=control, application=application))
    hidden, finite, held = beside_truth(run, seen)
    assert hidden.any()
    assert finite[hidden].mean() > 0.9
    assert held[hidden].mean() >= 0.99


@pytest.mark.parametrize(("every_s", "size"), [(0.15, 60_000), (0.3, 120_000)])
@pytest.mark.parametrize("name", CONTROLS)
def test_behind_an_application_that_writes_at_times_the_bounds_hold(name: str, every_s: float, size: int) -> None:
    """A third of the pipe, in bursts: ACKs that release nothing bound no window, nor does what comes long after one."""
    control = ControlSpec(window=name, recovery="sack", initial_window=3)
    writes = tuple((every_s * number, size) for number in range(120))
    run, seen = seen_of(ConnectionSpec(control=control, application=ApplicationSpec(kind="schedule", writes=writes)))
    _, finite, held = beside_truth(run, seen)
    free = (seen.envelope["limited_by"] != "recovery").to_numpy()
    assert held[free].mean() >= 0.99
    assert finite[free].mean() >= 0.99
    assert error_of_value(run, seen, free) < 0.1


def test_a_window_unused_for_a_moment_is_still_bounded_from_below() -> None:
    """Within 200 ms no stack takes it back (RFC 2861): what is outstanding meanwhile falls to nothing."""
    application = ApplicationSpec(kind="on_off", bytes=400_000, off_s=0.5)
    control = ControlSpec(window="reno", recovery="sack", initial_window=3)
    run, seen = seen_of(ConnectionSpec(control=control, application=application))
    before, after = seen.envelope, seen.windows
    narrower = (after["cwnd_low"] > before["cwnd_low"]).to_numpy()
    assert narrower.sum() >= 20
    assert beside_truth(run, seen)[2][narrower].mean() >= 0.99


def test_what_the_packets_show_is_not_touched() -> None:
    """A bulk transfer: the replay adds nothing to a window that is seen at every ACK."""
    _, seen = seen_of(ConnectionSpec(control=ControlSpec(window="cubic", recovery="sack")))
    before, after = seen.envelope, seen.windows
    assert before["limited_by"].equals(after["limited_by"])
    shown = before["cwnd_high"] - before["cwnd_low"] <= 3 * seen.timeline.smss
    assert shown.mean() > 0.9
    for name in ("time_ns", "cwnd", "cwnd_low", "cwnd_high"):
        assert before[name][shown].equals(after[name][shown])


def test_a_threshold_not_yet_met_is_the_controls_own() -> None:
    """RFC 9438 section 4.6: in the recovery from slow start's overflow nothing shows it; 0.7 of the window it is."""
    run, seen = seen_of(ConnectionSpec(control=ControlSpec(window="cubic", recovery="sack", initial_window=3)))
    before, after, loss = seen.envelope, seen.windows, run.losses.iloc[0]
    recovering = (before["time_ns"] > loss["time_ns"]) & (before["limited_by"] == "recovery")
    unmet = np.flatnonzero(recovering & before["ssthresh"].isna())[:100]
    told = after["ssthresh"].iloc[unmet]
    assert (told - loss["ssthresh_after"]).abs().max() <= seen.timeline.smss


def test_a_timer_that_backs_off_leaves_the_threshold_open() -> None:
    """RFC 5681 section 3.1 keeps it, other stacks halve it again: all from packet 60 on is lost for long."""
    path = replace(PATH, nodes=(replace(PATH.nodes[0], drop_packets=tuple(range(60, 300))),))
    run = simulate(Scenario(path=path, connections=(ConnectionSpec(),), duration_s=20))
    assert set(run.losses["detected_by"]) == {"rto"}
    windows = replayed(sender(run.capture(tap="sender")[0])).windows
    behind = windows["time_ns"] >= run.losses["time_ns"].iloc[1]
    assert behind.any()
    assert windows["ssthresh"][behind].isna().all()


def test_a_threshold_that_moves_between_losses_is_the_control_s() -> None:
    """Linux's Vegas lifts it to three quarters of its window each round trip; what a slow start met stays behind."""
    control = ControlSpec(window="vegas", recovery="sack", initial_window=10, byte_counting=True)
    path = PathSpec(nodes=(NodeSpec(rate_bps=10e6, buffer=12, delay_s=0.03),), return_delay_s=0.03)
    run = simulate(Scenario(path=path, connections=(ConnectionSpec(control=control),), duration_s=20))
    found = replayed(sender(run.capture(tap="sender")[0])).windows
    truth = run.windows
    rows = np.searchsorted(truth["time_ns"], found["time_ns"], side="right") - 1
    own = truth["ssthresh"].to_numpy(dtype=float, na_value=np.inf)[rows]
    told = found["ssthresh"].to_numpy(dtype=float, na_value=np.nan)
    known = np.isfinite(told)
    assert known.mean() > 0.5
    assert np.mean(np.abs(told[known] - own[known]) > 1460) < 0.02


@pytest.mark.skipif(not SHARED.exists(), reason=f"no reference data in {SHARED}")
def test_where_the_window_is_not_seen_no_threshold_and_no_limit_is_told() -> None:
    """A receiver without timestamps, all of whose flights were put by a rule: its rows are bounds."""
    found = read(KERNEL / "reno_nots_rcvcap.rcv.pcap.gz")[0]
    assert found.verdict().obstacles.hides_window
    windows = found.reconstruct().windows
    assert windows["ssthresh"].isna().all()
    assert set(windows["limited_by"].dropna()) <= {"recovery"}
