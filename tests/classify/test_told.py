"""BBR's window: its own code, told of a capture, has the window that its sender had."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tcptrace_lab import read
from tcptrace_lab.classify.control.bbr.told import or_paced
from tcptrace_lab.classify.control.windows.replayed import Replayed, replayed
from tcptrace_lab.classify.sender.initial_window import initial_window
from tcptrace_lab.classify.verdict import judge
from tcptrace_lab.reconstruct.away.sender_view import MOST_OPEN
from tcptrace_lab.reconstruct.sender import Sender, sender
from tcptrace_lab.reconstruct.truth.score import Score, score
from tcptrace_lab.reconstruct.truth.truth_file import read_truth
from tcptrace_lab.reconstruct.windows import APPLICATION, CWND, RECOVERY, RWND, UNKNOWN
from tcptrace_lab.scenario import (
    CONTROLS,
    ApplicationSpec,
    ConnectionSpec,
    ControlSpec,
    NodeSpec,
    PathSpec,
    ReceiverSpec,
    Scenario,
)
from tcptrace_lab.simulate import Run, simulate
from tcptrace_lab.simulate_to_files import simulate_to_files
from tests.claims import IDENTIFY, KERNEL
from tests.conftest import SHARED

BULK = ApplicationSpec()
PAIRS = ("bbr_plain1", "bbr_plain2", "bbr_compete")
KERNELS = (KERNEL / "bbr_20M.pcap.gz", *(IDENTIFY / f"{name}{tap}.pcap.gz" for name in PAIRS for tap in ("", ".rcv")))


def run_of(
    *,
    loss: float = 0.0,
    buffer: float = 40,
    application: ApplicationSpec = BULK,
    recovery: str = "sack",
    rwnd: int = 4_194_304,
    duration_s: float = 12,
) -> Run:
    """12 seconds of 10 Mbit/s and 60 ms: a pipe of 50 packets, and one probe of the round trip."""
    control = ControlSpec(**CONTROLS["bbr"], initial_window=10, delayed_ack_segments=2, stack="linux")
    return simulate(
        Scenario(
            path=PathSpec(
                nodes=(NodeSpec(rate_bps=10e6, buffer=buffer, delay_s=0.03, loss=loss),), return_delay_s=0.03
            ),
            connections=(
                ConnectionSpec(
                    application=application,
                    control=replace(control, recovery=recovery),
                    receiver=ReceiverSpec(rwnd=rwnd, delayed_ack_timer_s=0.04),
                ),
            ),
            duration_s=duration_s,
        )
    )


def beside_truth(run: Run, seen: Replayed) -> tuple[np.ndarray, np.ndarray]:
    """At each row the window's error as a share of the truth, and whether the bounds hold it."""
    truth, found = run.windows, seen.windows
    cwnd = truth["cwnd"].to_numpy()[np.searchsorted(truth["time_ns"], found["time_ns"], side="right") - 1]
    smss, high = seen.timeline.smss, found["cwnd_high"].to_numpy(dtype=float, na_value=np.inf)
    held = (cwnd >= found["cwnd_low"].to_numpy() - 1.5 * smss) & (cwnd <= high + 0.5 * smss)
    return np.abs(found["cwnd"].to_numpy() - cwnd) / cwnd, held


@pytest.mark.parametrize(
    ("loss", "buffer"), [(0.0, 40), (0.0, 4), (0.01, 40), (0.03, 100)], ids=["plain", "small buffer", "1 %", "3 %"]
)
def test_the_window_is_known_though_the_flight_never_fills_it(loss: float, buffer: float) -> None:
    """draft-cardwell-iccrg-bbr section 4.2.3: two bandwidth-delay products, of which about one is in flight."""
    run = run_of(loss=loss, buffer=buffer)
    seen = replayed(sender(run.capture(tap="sender")[0]))
    error, held = beside_truth(run, seen)
    assert held.mean() >= 0.99
    assert np.median(error) <= 0.05
    assert seen.flight.max() > 0


def test_behind_its_own_pace_the_window_is_at_work() -> None:
    """One count in every view: the verdict's share of the window, and the table's."""
    run = run_of()
    who = sender(run.capture(tap="sender")[0])
    limited = replayed(who).windows["limited_by"]
    assert judge(who, file="").as_dict()["limits"]["cwnd"] > 0.9
    assert (limited == "cwnd").mean() > 0.9


def test_after_a_pause_the_window_is_the_model_s() -> None:
    """Nothing was in flight, and what had been measured holds: section 4.3.4.4."""
    run = run_of(application=ApplicationSpec(kind="on_off", bytes=2_000_000, off_s=0.7))
    seen = replayed(sender(run.capture(tap="sender")[0]))
    _, held = beside_truth(run, seen)
    assert held.mean() >= 0.99


def test_it_has_no_threshold() -> None:
    """Section 4.3.4: no ssthresh is met, and none is told (one was read off the flights around its startup's loss)."""
    assert replayed(sender(run_of(buffer=4).capture(tap="sender")[0])).windows["ssthresh"].isna().all()


def test_where_a_short_slow_start_may_be_its_startup_the_window_is_as_closely_known() -> None:
    """Either opens by what is acknowledged, and no probe of the round trip is due within ten seconds."""
    control = ControlSpec(recovery="sack", initial_window=10, delayed_ack_segments=2, byte_counting=True)
    connection = ConnectionSpec(
        control=control,
        application=ApplicationSpec(kind="bytes", bytes=150_000),
        receiver=ReceiverSpec(rwnd=4_194_304, delayed_ack_timer_s=0.04),
    )
    path = PathSpec(nodes=(NodeSpec(rate_bps=50e6, buffer=200, delay_s=0.03),), return_delay_s=0.03)
    run = simulate(Scenario(path=path, connections=(connection,), duration_s=5))
    who = sender(run.capture(tap="sender")[0])
    seen = replayed(who)
    assert "bbr" in [row["name"] for row in judge(who, file="").as_dict()["sender_tcp"]["candidates"]]
    limited = seen.windows[seen.windows["limited_by"] == "cwnd"]
    assert len(limited) > 10
    assert ((limited["cwnd_high"] - limited["cwnd_low"]) <= 2 * seen.timeline.smss).all()
    assert beside_truth(run, seen)[1].all()


def test_without_sack_what_is_outstanding_in_a_recovery_refutes_no_model() -> None:
    """What has arrived out of order is in the flight that a capture shows, and not in what Linux counts."""
    run = run_of(recovery="newreno", duration_s=6)
    who = sender(run.capture(tap="sender")[0])
    assert judge(who, file="").identified.may_be_bbr
    seen = replayed(who)
    outside = (seen.windows["limited_by"] != "recovery").to_numpy()
    assert beside_truth(run, seen)[1][outside].mean() >= 0.99


@pytest.mark.parametrize(
    ("recovery", "loss", "buffer", "rwnd"),
    [("sack", 0.0, 40, 45_000), ("newreno", 0.0, 4, 4_194_304), ("newreno", 0.003, 4, 45_000)],
    ids=["behind the receiver's window", "without SACK", "both"],
)
def test_a_flight_that_bbr_s_pace_would_have_held_is_no_window_at_work(
    recovery: str, loss: float, buffer: float, rwnd: int
) -> None:
    """Section 4.2.3: its window is twice what its pace lets be in flight: a row is the window's where both would be."""
    run = run_of(recovery=recovery, loss=loss, buffer=buffer, rwnd=rwnd, duration_s=6)
    who = sender(run.capture(tap="sender")[0])
    assert judge(who, file="").identified.may_be_bbr
    seen = replayed(who)
    error, _ = beside_truth(run, seen)
    at_work = (seen.windows["limited_by"] == "cwnd").to_numpy()
    assert at_work.any()
    assert np.median(error[at_work]) <= 0.01


def at_receiver(folder: Path, node: NodeSpec, *, ack_loss: float = 0.0) -> tuple[Sender, Replayed, Score]:
    """Six seconds of BBR captured at its receiver, and how its windows score."""
    control = ControlSpec(**CONTROLS["bbr"], initial_window=10, delayed_ack_segments=2, stack="linux")
    receiver = ReceiverSpec(rwnd=4_194_304, delayed_ack_timer_s=0.04)
    scenario = Scenario(
        path=PathSpec(nodes=(node,), return_delay_s=node.delay_s, ack_loss=ack_loss),
        connections=(ConnectionSpec(control=control, receiver=receiver),),
        duration_s=6,
        taps=("receiver",),
    )
    capture, beside = folder / "run.pcap", folder / "run.truth.csv"
    simulate_to_files(scenario, captures=[capture], truth=beside, payload=False)
    who = sender(read(capture)[0])
    seen = replayed(who)
    truth = read_truth(beside, port=int(who.sender.rpartition(":")[2]))
    return who, seen, score(seen, truth, first_sequence=who.first_sequence)


@pytest.mark.parametrize(("rate_bps", "buffer", "delay_s"), [(8e6, 20, 0.02), (4.57e6, 4, 0.0145), (2e6, 6, 0.015)])
def test_at_the_receiver_acks_that_nothing_echoes_did_not_reach_a_sender_with_a_pace(
    rate_bps: float, buffer: int, delay_s: float, tmp_path: Path
) -> None:
    """One ACK of ten is lost: what the next tells of is a lump, which its window bridges (Linux's extra_acked)."""
    node = NodeSpec(rate_bps=rate_bps, buffer=buffer, delay_s=delay_s)
    who, _, found = at_receiver(tmp_path, node, ack_loss=0.1)
    assert judge(who, file="").identified.control == "bbr"
    assert found.limited.median is not None
    assert found.limited.median <= 0.01
    assert found.within is not None
    assert found.within >= 0.99


def test_at_the_receiver_a_pace_is_told_where_flights_are_not(tmp_path: Path) -> None:
    """Ten ACKs to a tick of the stamps, and losses: what released what is open, when segments left is not."""
    node = NodeSpec(rate_bps=42e6, buffer=16, delay_s=0.004, loss=0.003)
    who, _, _ = at_receiver(tmp_path, node)
    assert who.view is not None
    assert who.view.unsure > MOST_OPEN
    assert judge(who, file="").identified.control == "bbr"


def test_at_the_receiver_what_bridges_lumps_of_acks_may_be_less(tmp_path: Path) -> None:
    """Linux's extra_acked adds up what comes beyond the bandwidth; of one that inferred times make a little too small
    it grows from round trip to round trip."""
    _, _, found = at_receiver(tmp_path, NodeSpec(rate_bps=5e6, buffer=6, delay_s=0.02))
    assert found.within is not None
    assert found.within >= 0.99


@pytest.mark.parametrize(("rate_bps", "buffer", "delay_s"), [(1.8e6, 3, 0.0115), (10e6, 4, 0.03)], ids=["set", "named"])
def test_a_first_window_that_is_not_told_is_forgotten_behind_the_startup(
    tmp_path: Path, rate_bps: float, buffer: float, delay_s: float
) -> None:
    """Section 4.2.3: what follows the startup is of rates and round trips, whatever it began with. At the receiver."""
    node = NodeSpec(rate_bps=rate_bps, buffer=buffer, delay_s=delay_s)
    who, seen, found = at_receiver(tmp_path, node)
    assert initial_window(seen, who.handshake_rtt_s, is_bbr=True) is None
    assert found.within is not None
    assert found.within >= 0.99
    assert found.limited.median in (None, 0.0)


def test_a_window_that_cannot_be_followed_is_any_above_what_is_in_flight() -> None:
    """Its pace may be what shows: outside recoveries no row is the window's, and none bounds it from above."""
    columns = {
        "limited_by": np.array([CWND, RECOVERY, APPLICATION, RWND], dtype=np.int8),
        "cwnd": np.array([9000, 6000, 5000, 8000]),
        "cwnd_low": np.array([7500, 6000, 5000, 8000]),
        "cwnd_high": np.array([9000, 6000, UNKNOWN, 9500]),
        "ssthresh": np.array([9000, 6000, 6000, 6000]),
    }
    before = {name: column.copy() for name, column in columns.items()}
    found = or_paced(columns)
    assert found["limited_by"].tolist() == [UNKNOWN, RECOVERY, APPLICATION, RWND]
    assert found["cwnd_high"].tolist() == [UNKNOWN, 6000, UNKNOWN, UNKNOWN]
    assert (found["ssthresh"] == UNKNOWN).all()
    for name in ("cwnd", "cwnd_low"):
        assert found[name].tolist() == before[name].tolist()
    # What it was made of is another's as well.
    assert all((columns[name] == before[name]).all() for name in columns)


@pytest.mark.skipif(not SHARED.exists(), reason=f"no reference data in {SHARED}")
@pytest.mark.parametrize("capture", KERNELS, ids=lambda capture: capture.name)
def test_the_kernel_s_window_is_followed(capture: Path) -> None:
    """Linux 6.18's own BBR, ACK by ACK, at both ends."""
    who = sender(read(capture)[0])
    beside = capture.with_name(f"{capture.name.split('.')[0]}.truth.csv.gz")
    truth = read_truth(beside, port=int(who.sender.rpartition(":")[2]))
    found = score(replayed(who), truth, first_sequence=who.first_sequence)
    assert found.within is not None
    assert found.window.median is not None
    assert found.within >= 0.99
    assert found.window.median <= 0.05
    assert found.limited.rows > 5000
