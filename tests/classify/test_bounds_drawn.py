"""Bounds of the window in drawn runs: untouched ones, and where the tap missed packets or its stamps do not order what
was sent and what was heard."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tcptrace_lab import read
from tcptrace_lab.classify.control.windows.replayed import Replayed, replayed
from tcptrace_lab.reconstruct.sender import sender
from tcptrace_lab.reconstruct.tap.unordered import as_known
from tcptrace_lab.reconstruct.truth.score import score
from tcptrace_lab.reconstruct.truth.truth_file import read_truth
from tcptrace_lab.reconstruct.windows import CWND
from tcptrace_lab.scenario import ConnectionSpec, ControlSpec, NodeSpec, PathSpec, ReceiverSpec, Scenario
from tcptrace_lab.simulate import simulate
from tests.classify.test_random_classes import of
from tests.degrade import RawPacket, read_packets, sender_of, write_packets

SMSS = 1460


@pytest.mark.parametrize(
    ("seed", "kind"),
    [
        # What the missing ACK released left long after the one before it.
        (8100016, "tap lost half of the ACKs + reset forged"),
        (8100005, "one ACK of four"),
        (8100024, "tap lost 1 %"),
        # Stamped before the ACK that released it, and behind the one before.
        (8100004, "clocks that drift apart"),
    ],
)
def test_what_left_later_than_an_ack_s_answer_is_not_its_window(seed: int, kind: str, tmp_path: Path) -> None:
    assert within(seed, tmp_path, kind=kind) >= 0.99


@pytest.mark.parametrize(
    ("seed", "least"),
    [
        pytest.param(8310055, 0.99, id="a recovery left more outstanding than its window, and nothing was sent again"),
        pytest.param(8330023, 0.99, id="the window that it left opened while that drained"),
        pytest.param(8100055, 0.99, id="a write far below the window's upper bound does not fill it"),
        pytest.param(8700032, 0.99, id="what was written late does not show how much the window allowed"),
        pytest.param(8700059, 0.99, id="nor does what was written late and left behind an ACK by chance"),
        pytest.param(8860004, 0.97, id="nor does the last of a write, where what is short of a segment waits for ACKs"),
        # Of some events it is not told when they were over.
        pytest.param(8100041, 0.92, id="duplicates tell of nothing that left within the least round trip"),
    ],
)
def test_what_is_outstanding_is_not_the_window(seed: int, least: float, tmp_path: Path) -> None:
    assert within(seed, tmp_path) >= least


@pytest.mark.parametrize("seed", [8340017, 8340027])
def test_what_the_rhythm_of_acks_leaves_open_is_a_part_of_the_window(seed: int, tmp_path: Path) -> None:
    """At a receiver, without timestamps: which ACK released a segment is known to a part of a turn, or to less."""
    assert within(seed, tmp_path, place="receiver") >= 0.99


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(8997125, id="the last of each write"),
        pytest.param(8997016, id="the last of what was captured"),
    ],
)
def test_what_may_be_the_last_that_there_was_to_send_bounds_no_window(seed: int, tmp_path: Path) -> None:
    """At a receiver, without timestamps: a queue spaces the last of it, whenever that left."""
    assert within(seed, tmp_path, place="receiver") >= 0.99


def test_what_a_capture_ends_before_it_is_repaired_has_reduced_the_window(tmp_path: Path) -> None:
    """At a receiver: the third duplicate is in the capture, Tahoe's answer on its way."""
    assert within(8700026, tmp_path, place="receiver") >= 0.99


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(8984034, id="where what limited it is not told no upper bound is, whichever window may be full"),
        pytest.param(8984010, id="a slow start only seems to end where there was nothing to send"),
        pytest.param(8984145, id="or where the receiver's window may have been full"),
    ],
)
def test_what_may_have_held_a_sender_back_ends_no_slow_start(seed: int, tmp_path: Path) -> None:
    """At a receiver, where it is not told what did."""
    assert within(seed, tmp_path, place="receiver") >= 0.99


def test_a_log_is_asked_for_what_it_says_behind_a_duplicate(tmp_path: Path) -> None:
    """By jitter the third reaches its sender a little later than the first of its number, by which the log is moved."""
    assert within(8984117, tmp_path, place="receiver") == 1.0


def within(seed: int, folder: Path, *, kind: str = "", place: str = "sender") -> float:
    """The share of the ACKs of a drawn run at which the truth lies within the bounds."""
    found, verdict = of(seed, folder, kind=kind, place=place)
    run = simulate(found.scenario)
    run.write_truth(folder / "truth.parquet")
    truth = read_truth(folder / "truth.parquet", port=run.ports[0][0])
    share = score(replayed(verdict.who), truth, first_sequence=verdict.who.first_sequence).within
    assert share is not None
    return share


def seen_without(missed: int, folder: Path, *, rwnd: int = 5 * SMSS) -> Replayed:
    """A sender held back by its receiver's window, of which the tap missed one data segment of so many (0: none)."""
    path = PathSpec(nodes=(NodeSpec(rate_bps=10e6, buffer=40, delay_s=0.02),), return_delay_s=0.02)
    connection = ConnectionSpec(control=ControlSpec(window="reno"), receiver=ReceiverSpec(rwnd=rwnd))
    run = simulate(Scenario(path=path, connections=(connection,), duration_s=10, seed=7))
    run.write(folder / "x.pcap", tap="sender")
    link, packets = read_packets(folder / "x.pcap")
    own, sent, kept = sender_of(packets), 0, list[RawPacket]()
    for packet in packets:
        sent += packet.source == own
        if not (missed and packet.source == own and sent % missed == 0):
            kept.append(packet)
    write_packets(folder / "x.pcap", link, kept)
    return replayed(sender(read(folder / "x.pcap")[0]))


def test_a_receiver_s_window_filled_by_what_was_not_captured_is_no_congestion_window(tmp_path: Path) -> None:
    """Short of it by the segment that the tap missed the flight seems to be all that the sender's own window allows."""
    whole, holed = seen_without(0, tmp_path), seen_without(50, tmp_path)
    assert holed.who.tap.tap_lost_bytes
    by_cwnd = holed.shown_columns["limited_by"] == CWND
    assert np.count_nonzero(by_cwnd) > np.count_nonzero(whole.shown_columns["limited_by"] == CWND)
    told = (holed.windows["limited_by"] == "cwnd").sum()
    assert told <= (whole.windows["limited_by"] == "cwnd").sum()


def test_bounds_are_no_wider_where_every_packet_is_seen_in_order(tmp_path: Path) -> None:
    """Nothing left later than the answers, and nothing is missing: what is known stays as it was."""
    seen = seen_without(0, tmp_path, rwnd=1 << 20)
    table = seen.shown_columns
    acks = np.searchsorted(seen.timeline.ack_ns, table["time_ns"], side="right") - 1
    told = as_known(table, seen.timeline, acks)
    for name, column in table.items():
        np.testing.assert_array_equal(told[name], column, err_msg=name)
