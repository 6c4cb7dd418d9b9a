"""What looks like one thing and is another: needless timeouts, the end of data, a queue before the tap, merged ACKs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tcptrace_lab import read
from tcptrace_lab.classify.sender.initial_window import initial_window
from tcptrace_lab.classify.verdict import classify
from tcptrace_lab.reconstruct.away.rhythm import is_spaced
from tcptrace_lab.reconstruct.sender import sender
from tcptrace_lab.reconstruct.tap.clock import clock_of
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
from tests.reconstruct.ladder import MS, SMSS, ladder, rounds


def test_a_recovery_that_ends_with_the_data_tells_no_restart() -> None:
    """Sixteen duplicate ACKs would release new data; there was none, and the next comes after a pause."""
    sent, acks = rounds([4, 8, 16])
    heard = acks[-1][0]
    number = 28
    burst = [(heard + 500.0 + 0.01 * index, number + index) for index in range(20)]
    first = heard + 600.0
    acks += [(first + index, number) for index in range(1, 20)]
    again = [(first + 3.0, number)]
    acks += [(first + 103.0, number + 20)]
    later = [(first + 700.0 + 0.01 * index, number + 20 + index) for index in range(2)]
    acks += [(first + 800.0, number + 21), (first + 800.1, number + 22)]
    (event,) = ladder([*sent, *burst, *again, *later], acks).episodes
    assert (event.detected_by, event.restarts, event.sure) == ("dupack", False, False)


def test_a_needless_timeout_restarts_and_lost_nothing() -> None:
    """The answers to the first copies come 20 ms after the timer's segment, a fifth of a round trip: RFC 3522."""
    sent, acks = rounds([4, 8])
    heard = acks[-1][0]
    sent += [(heard + 0.1 + 0.01 * index, 12 + index) for index in range(8)]
    late = heard + 1000.0
    sent += [(late, 12), (late + 20.1, 14), (late + 20.2, 15), (late + 21.1, 16), (late + 21.2, 17)]
    acks += [(late + 20.0, 14), (late + 21.0, 16), (late + 22.0, 18), (late + 23.0, 20)]
    seen = ladder(sent, acks)
    (event,) = seen.episodes
    assert (event.detected_by, event.restarts) == ("rto", True)
    assert seen.losses["spurious"].all()


def test_what_is_sacked_at_once_had_arrived_before_it_was_sent_again() -> None:
    """RFC 6675 section 4 (4): a rescue retransmission of the last segment while the first hole is repaired."""
    sent, acks = rounds([4, 8])
    heard, base = acks[-1][0], 12
    sent += [(heard + 0.1 + 0.01 * index, base + index) for index in range(8)]
    first = heard + 100.0
    blocks = {}
    for index in range(1, 8):
        blocks[len(acks)] = [(base + 1, base + 1 + index)]
        acks.append((first + index, base))
    sent += [(first + 3.0, base), (first + 3.5, base + 7)]
    acks.append((first + 103.0, base + 8))
    seen = ladder(sent, acks, blocks=blocks)
    lost = seen.losses
    assert (lost["offset"] // SMSS).tolist() == [base, base + 7]
    assert lost["spurious"].tolist() == [False, True]


def test_a_hole_that_was_told_of_stays_told_when_blocks_of_repairs_take_its_place() -> None:
    """RFC 2018 section 4: the latest blocks come first, and the highest leaves the option before an ACK takes it."""
    after_slow = rounds([4, 8], first=1, begin_ms=300.0)
    sent, acks = [(0.0, 0), *after_slow[0]], [(300.0, 1), *after_slow[1]]
    base, left = 13, acks[-1][0] + 0.1
    sent += [(left + 0.01 * index, base + index) for index in range(10)]
    # Every second one is lost, and the first one's repair; three blocks have room.
    told = [[1], [3, 1], [5, 3, 1], [7, 5, 3], [9, 7, 5], [2, 9, 7], [4, 2, 9], [6, 4, 2], [8, 6, 4]]
    first = len(acks)
    blocks = {first + index: [(base + each, base + each + 1) for each in row] for index, row in enumerate(told)}
    acks += [(left + 100.0 + index + 100.0 * (index > 4), base) for index in range(len(told))]
    sent += [(left + 102.1 + 0.5 * index, base + lost) for index, lost in enumerate([0, 2, 4, 6, 8])]
    sent.append((left + 300.0, base))
    acks.append((left + 400.0, base + 10))
    lost = ladder(sent, acks, blocks=blocks).losses
    assert sorted(lost["offset"] // SMSS - base) == [0, 0, 2, 4, 6, 8]


def test_a_first_flight_that_fills_the_receivers_window_is_not_the_initial_window() -> None:
    sent, acks = rounds([5, 5, 5])
    acks = [(-50.0, 0), *acks]
    assert initial_window(ladder(sent, acks, rwnd=5 * SMSS + 500)) is None
    assert initial_window(ladder(sent, acks, rwnd=20 * SMSS)) == 5


def test_a_burst_of_an_application_is_no_interrupt() -> None:
    """Ten segments with one stamp every second, then each ACK releases one at once: they leave, and do not arrive."""
    sent, heard = [], []
    for second in range(30):
        begin = second * 1_000_000_007
        sent += [begin] * 10
        for index in range(10):
            heard.append(begin + 100 * MS + index * 8_000_123)
            sent.append(heard[-1])
    stamps, is_sent = in_order_of_capture(heard, sent)
    assert not clock_of(stamps, is_sent).is_coarse


def test_interrupts_still_show_where_packets_arrive() -> None:
    """Three segments every 250 us, each answered at once by one ACK: what arrives was stamped together."""
    sent = np.repeat(np.arange(200, dtype=np.int64) * 250_000, 3)
    stamps, is_sent = in_order_of_capture(sent[::3] + 1_000, sent)
    assert clock_of(stamps, is_sent).resolution_ns == 250_000


def test_interrupts_show_though_the_answers_have_the_same_stamp() -> None:
    """Three ACKs every 250 us, and with the same stamp the segments that they release: those are the answers."""
    heard = np.repeat(np.arange(200, dtype=np.int64) * 250_000, 3)
    stamps, is_sent = in_order_of_capture(heard, heard)
    assert clock_of(stamps, is_sent).resolution_ns == 250_000


def in_order_of_capture(heard: list[int] | np.ndarray, sent: list[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All stamps, and which are sent: of one instant what was heard stands first."""
    stamps = np.concatenate((np.asarray(heard, dtype=np.int64), np.asarray(sent, dtype=np.int64)))
    order = np.argsort(stamps, kind="stable")
    return stamps[order], order >= len(heard)


def test_merged_trains_of_acks_are_no_jumps_of_the_window() -> None:
    """LRO hands over every fourth ACK: the sender's answers are larger bursts, its window doubles as before."""
    sent, acks = rounds([4, 8, 16, 32])
    merged = [ack for index, ack in enumerate(acks) if index % 4 == 3]
    released = [next(time for time, top in merged if top >= segment / 2 - 2) for _, segment in sent[4:]]
    later = [(max(time + 0.1, mine), segment) for time, (mine, segment) in zip(released, sent[4:], strict=True)]
    seen = ladder(sorted([*sent[:4], *later]), merged)
    assert seen.episodes == ()
    assert seen.windows["cwnd"].max() <= 36 * SMSS
    assert seen.windows["ssthresh"].isna().all()


@pytest.fixture(scope="module")
def behind_a_queue(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One sender, its bottleneck the first node: captured as it sends, and behind that queue."""
    nodes = (NodeSpec(rate_bps=8e6, buffer=60, delay_s=0.002), NodeSpec(rate_bps=100e6, buffer=500, delay_s=0.02))
    run = simulate(
        Scenario(
            path=PathSpec(nodes=nodes, return_delay_s=0.022),
            connections=(ConnectionSpec(control=ControlSpec(timestamps=True)),),
            duration_s=12.0,
            profile="rfc",
            taps=("sender", "node0.out"),
        )
    )
    return _written(run, tmp_path_factory.mktemp("taps"))


def _written(run: Run, folder: Path) -> dict[str, Path]:
    places = {name: folder / f"{name}.pcap" for name in run.scenario.taps}
    for name, path in places.items():
        run.write(path, tap=name, payload=False)
    return places


def test_segments_that_echo_old_acks_waited_before_the_tap(behind_a_queue: dict[str, Path]) -> None:
    """Near the sender by the handshake, but what passes had left before the last ACKs: a queue stands between."""
    at, behind = (sender(read(behind_a_queue[place])[0]) for place in ("sender", "node0.out"))
    assert at.where is not None
    assert not at.where.queued_before
    assert at.view is None
    assert behind.where is not None
    assert behind.where.queued_before
    assert behind.view is not None
    assert behind.view.how == "timestamps"


def test_where_the_place_is_not_known_old_echoes_tell_of_a_queue_before_the_tap(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Host times everywhere, no loss, and a queue of 0.1 s: no handshake tells the place. At the sender nothing has
    waited, also not what its application wrote late."""
    nodes = (NodeSpec(rate_bps=2e6, buffer=200, delay_s=0.0002), NodeSpec(rate_bps=100e6, buffer=500, delay_s=0.0004))
    flow = ConnectionSpec(control=ControlSpec(timestamps=True), receiver=ReceiverSpec(rwnd=30_000))
    late = ApplicationSpec(kind="on_off", bytes=20_000, off_s=0.05)
    for application in (ApplicationSpec(), late):
        run = simulate(
            Scenario(
                path=PathSpec(nodes=nodes, return_delay_s=0.0006),
                connections=(replace(flow, application=application),),
                duration_s=6.0,
                profile="rfc",
                taps=("sender", "node0.out"),
            )
        )
        written = _written(run, tmp_path_factory.mktemp("near"))
        at, behind = (sender(read(written[place])[0]) for place in ("sender", "node0.out"))
        assert at.where is not None
        assert behind.where is not None
        assert (at.where.place, behind.where.place) == ("sender", "unknown")
        assert not at.where.queued_before
        assert behind.where.queued_before
        assert behind.view is not None


def test_behind_the_senders_own_queue_the_verdict_is_the_same(behind_a_queue: dict[str, Path]) -> None:
    at, behind = (next(classify(read(behind_a_queue[place]))).as_dict() for place in ("sender", "node0.out"))
    assert behind["slow_starts"]["regime"] == at["slow_starts"]["regime"]
    assert behind["sender_tcp"]["recovery"] == at["sender_tcp"]["recovery"]
    assert abs(behind["path"]["base_rtt_s"]["value"] - at["path"]["base_rtt_s"]["value"]) < 0.001
    assert abs(behind["limits"]["cwnd"] - at["limits"]["cwnd"]) < 0.1
    assert behind["losses"]["total"] <= at["losses"]["total"] + at["losses"]["possible_unseen"]
    assert behind["losses"]["total"] + behind["losses"]["possible_unseen"] >= at["losses"]["total"]


def test_two_connections_of_one_pair_of_hosts_are_told_apart(tmp_path: Path) -> None:
    """The same addresses, other ports, one queue: each keeps its own losses, first window and recovery."""
    nodes = (NodeSpec(rate_bps=10e6, buffer=40, delay_s=0.02),)
    controls = (ControlSpec(recovery="sack", initial_window=10), ControlSpec(recovery="tahoe", initial_window=2))
    run = simulate(
        Scenario(
            path=PathSpec(nodes=nodes, return_delay_s=0.02),
            connections=tuple(ConnectionSpec(control=control) for control in controls),
            duration_s=12.0,
            profile="rfc",
            taps=("sender",),
        )
    )
    verdicts = [each.as_dict() for each in classify(read(_written(run, tmp_path)["sender"]))]
    assert [each["initial_window"]["segments"] for each in verdicts] == [10, 2]
    assert [each["sender_tcp"]["recovery"] for each in verdicts] == ["sack", "tahoe"]
    drops = run.drops.query("is_data and not is_reverse").groupby("connection").size()
    for number, each in enumerate(verdicts):
        lost = each["losses"]
        assert lost["total"] <= drops[number] <= lost["total"] + lost["possible_unseen"] + 2


def test_a_segment_at_a_time_is_an_applications_pace_and_no_queue_before_the_tap(tmp_path: Path) -> None:
    """As evenly as a bottleneck would space them, and at its own times: the tap is the sender's."""
    writes = ((0.0, 1460), *((0.1 + 0.02 * count, 1460) for count in range(390)))
    run = simulate(
        Scenario(
            path=PathSpec(nodes=(NodeSpec(rate_bps=10e6, buffer=50, delay_s=0.02),), return_delay_s=0.0234),
            connections=(
                ConnectionSpec(
                    control=ControlSpec(initial_window=10, delayed_ack_segments=1),
                    application=ApplicationSpec(kind="schedule", writes=writes),
                ),
            ),
            duration_s=8.0,
            profile="rfc",
            taps=("sender",),
        )
    )
    found = sender(read(_written(run, tmp_path)["sender"])[0])
    assert is_spaced(found.timeline)
    assert found.where is not None
    assert found.where.is_at_sender
