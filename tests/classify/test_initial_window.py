"""The initial window where the application's first words are fewer: what a person would read off the bursts."""

from __future__ import annotations

import pytest

from tcptrace_lab.classify.sender.initial_window import Captured, initial_window
from tcptrace_lab.scenario import ApplicationSpec, ConnectionSpec, ReceiverSpec
from tests.classify.test_limits import SACK, verdicts
from tests.reconstruct.ladder import MS, ladder, rounds


def first_windows(*writes: tuple[float, int]) -> set[int | None]:
    """Of a sender with an initial window of 10 segments that writes so much at these times: at both ends."""
    at_once = ReceiverSpec(quickack_segments=16)
    connection = ConnectionSpec(
        control=SACK, application=ApplicationSpec(kind="schedule", writes=writes), receiver=at_once
    )
    return {found.as_dict()["initial_window"]["segments"] for found in verdicts(connection, seconds=3.0)}


def test_a_word_before_the_data_is_no_window() -> None:
    """iperf3 sends a cookie of 37 bytes, waits for its answer, and begins then."""
    assert first_windows((0.0, 37), (0.1, 500_000)) == {10}


@pytest.mark.parametrize("writes", [((0.0, 3_000), (0.1, 500_000)), ((0.0, 7_000),)])
def test_an_answer_shorter_than_the_window_tells_none(writes: tuple[tuple[float, int], ...]) -> None:
    """Two segments of a TLS handshake, by which a window may have grown; five that are all there is."""
    assert first_windows(*writes) == {None}


@pytest.mark.parametrize(("short", "segments"), [((), 10), ((0,), 10), ((1, 3, 5, 7), None)])
def test_short_segments_leave_open_whether_packets_or_bytes_filled_the_window(
    short: tuple[int, ...], segments: int | None
) -> None:
    """Ten packets, four of half the length: a window of ten packets, or of eight segments' bytes."""
    sent, acks = rounds([10, 20, 40])
    assert initial_window(ladder(sent, acks, short=short), 0.1) == segments


@pytest.mark.parametrize(("tick_ms", "segments"), [(0, 4), (4, 4), (10, None)])
def test_on_a_coarse_clock_a_probe_may_come_a_tick_sooner(tick_ms: int, segments: int | None) -> None:
    """RFC 8985 section 7.2: a probe leaves two round trips of the handshake, here 20 ms, behind a flight of three."""
    sent = [(0, 0), (0, 1), (0, 2), (12, 3), (40, 4), (40, 5), (60, 6), (60, 7), (80, 8), (80, 9)]
    acks = [(40, 1), (60, 3), (80, 5), (100, 8), (120, 10)]
    assert initial_window(ladder(sent, acks), 0.02, Captured(tick_ns=tick_ms * MS)) == segments


@pytest.mark.parametrize(("rtt_ms", "segments"), [(80.0, None), (94.0, 5)])
def test_a_pace_that_the_first_ack_does_not_change_is_the_applications(rtt_ms: float, segments: int | None) -> None:
    """A segment each 18 ms, and ACKs that come in time for the sixth, or that it has to wait for."""
    sent = [(18.0 * number, number) for number in range(5)]
    sent += [(max(18.0 * number, rtt_ms + 18.0 * (number - 5)), number) for number in range(5, 15)]
    acks = [(left + rtt_ms, number + 1) for left, number in sent]
    assert initial_window(ladder(sent, acks), rtt_ms / 1e3) == segments
