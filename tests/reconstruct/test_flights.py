"""What limited a sender by its data alone: flights a round trip apart."""

from __future__ import annotations

import numpy as np
import pytest

from tcptrace_lab.reconstruct.flights import Offered, Passed, shares_by_flights, start_by_flights

SMSS, MS = 1000, 1_000_000
RTT = 50


def passed(
    flights: list[tuple[float, float]],
    *,
    rtt_ms: int | None = RTT,
    asked_ms: tuple[float, ...] = (),
    again: bool = False,
    apart_ms: float = 0.1,
    tick_ms: int = 0,
) -> Passed:
    """`flights`: (when in ms, segments), `apart_ms` apart; a part of a segment comes last."""
    times, lengths = [], []
    for begin, segments in flights:
        sizes = [SMSS] * int(segments) + [round(segments % 1 * SMSS)] * (segments % 1 > 0)
        times += [round((begin + apart_ms * place) * MS) for place in range(len(sizes))]
        lengths += sizes
    return Passed(
        time_ns=np.array(times, dtype=np.int64),
        offset=np.cumsum([0, *lengths[:-1]]),
        length=np.array(lengths, dtype=np.int64),
        asked_ns=np.array([round(time * MS) for time in asked_ms], dtype=np.int64),
        smss=SMSS,
        again_ns=times[0] + 1 if again else None,
        last_ns=times[-1],
        rtt_ns=None if rtt_ms is None else rtt_ms * MS,
        resolution_ns=max(tick_ms * MS, 1),
    )


@pytest.mark.parametrize("rtt_ms", [RTT, None])
@pytest.mark.parametrize("growth", [1.5, 2])
def test_flights_that_grow_are_a_slow_start(rtt_ms: int | None, growth: float) -> None:
    """10, 20, 40, 80 segments, or half as many more each time (delayed ACKs), the round trip known or their own."""
    found = shares_by_flights(passed([(RTT * turn, 10 * growth**turn // 1) for turn in range(5)], rtt_ms=rtt_ms))
    assert found["cwnd"] > 0.95


@pytest.mark.parametrize(
    ("flights", "rtt_ms"),
    [
        pytest.param([(RTT * turn, 20.0) for turn in range(8)], RTT, id="equal: either window"),
        pytest.param([(RTT * turn, 20.0 + turn) for turn in range(8)], RTT, id="a segment more each time"),
        pytest.param([(RTT * turn, 10 * 2**turn + 0.5) for turn in range(4)], RTT, id="each ends with a write's rest"),
        pytest.param([(0, 10.0), (RTT, 20.0)], None, id="no round trip known"),
        pytest.param([(0, 5.0), (5, 10.0), (10, 20.0)], RTT, id="no round trip apart"),
        pytest.param([(0, 10.0), (1, 20.0), (2, 40.0)], 1, id="no longer than a host may take"),
        pytest.param([(0, 10.0), (RTT, 16.0)], RTT, id="one step that may be the data's end"),
    ],
)
def test_what_the_flights_do_not_carry_is_not_said(flights: list[tuple[float, float]], rtt_ms: int | None) -> None:
    assert shares_by_flights(passed(flights, rtt_ms=rtt_ms)).get("cwnd", 0.0) == 0.0


def test_the_last_flight_of_a_row_may_be_all_there_was() -> None:
    """10, 20, 40, then 55, and a pause: what ended the growth, the data or a window, is not told."""
    found = shares_by_flights(passed([(0, 10), (RTT, 20), (2 * RTT, 40), (3 * RTT, 55), (4 * RTT, 55)]))
    assert found["cwnd"] == pytest.approx(3 / 4, abs=0.05)
    assert found["application"] == 0.0


@pytest.mark.parametrize(("last", "asked"), [(3.5, ()), (3.0, (8 * RTT,))])
def test_a_pause_behind_a_writes_end_or_before_a_request_is_the_application(
    last: float, asked: tuple[float, ...]
) -> None:
    found = shares_by_flights(passed([(0, last), (10 * RTT, 4)], asked_ms=asked))
    assert found["application"] > 0.95


def test_a_pause_that_nothing_explains_is_not_told() -> None:
    """It may be a timer's: the flight's end was lost before the tap."""
    assert shares_by_flights(passed([(0, 3.0), (10 * RTT, 4)])) == {}


@pytest.mark.parametrize(
    ("count", "rwnd", "again", "is_told"),
    [
        pytest.param(30, 60 * SMSS, False, True, id="a stream"),
        pytest.param(30, None, False, False, id="the receiver's windows are not known"),
        pytest.param(30, SMSS, False, False, id="one segment was offered"),
        pytest.param(30, 60 * SMSS, True, False, id="some was sent again"),
        pytest.param(6, 60 * SMSS, False, False, id="too few"),
    ],
)
def test_pauses_behind_most_of_many_flights_are_the_application(
    count: int, rwnd: int | None, *, again: bool, is_told: bool
) -> None:
    """A segment each six round trips: a window would have grown, and no timer would have ended all of them."""
    data = passed([(6 * RTT * turn, 1) for turn in range(count)], again=again)
    offered = None
    if rwnd is not None:
        offered = Offered(time_ns=data.time_ns + MS, ack=data.offset + SMSS, rwnd=np.full(count, rwnd))
    assert (shares_by_flights(data, offered).get("application", 0.0) > 0.95) == is_told


def test_over_a_path_as_short_as_a_host_takes_pauses_are_told() -> None:
    """Flights are not: 2, 4, 8, 16 segments on request, each time after a second."""
    data = passed([(1000 * turn, 2.0 ** (turn + 1)) for turn in range(4)], rtt_ms=1, asked_ms=(999, 1999, 2999))
    found = shares_by_flights(data)
    assert found["application"] > 0.9
    assert found["cwnd"] == 0.0


def test_what_follows_a_retransmission_is_not_read() -> None:
    assert shares_by_flights(passed([(RTT * turn, 10 * 2**turn) for turn in range(4)], again=True)) == {}


def answered(data: Passed, behind_ms: float) -> tuple[np.ndarray, np.ndarray]:
    """An ACK for each segment, so long after it passed: when, and up to where."""
    return data.time_ns + round(behind_ms * MS), data.offset + data.length


SLOW = [(RTT * turn, float(2**turn)) for turn in range(5)]


@pytest.mark.parametrize(
    ("flights", "apart_ms", "behind_ms", "turn_ms", "is_whole"),
    [
        pytest.param([(RTT * turn, 10.0 * 2**turn) for turn in range(4)], 0.1, 0, RTT, True, id="at the receiver"),
        pytest.param([(RTT * turn, 10.0 * 1.5**turn // 1) for turn in range(4)], 0.1, 0, RTT, True, id="delayed ACKs"),
        pytest.param([(RTT * turn, 10.0 * 2**turn) for turn in range(4)], 0.1, RTT, 0, True, id="at the sender"),
        pytest.param([(RTT * turn, 10.0 * 2**turn) for turn in range(4)], 0.1, 20, RTT - 20, True, id="midway"),
        pytest.param(SLOW, 1.4, 0, RTT, True, id="a slow line, from one segment on"),
        pytest.param([(0, 30.0), *((RTT + at, size) for at, size in SLOW)], 0.1, 0, RTT, False, id="more came before"),
    ],
)
def test_the_flights_of_a_slow_start_show_the_turn_to_the_sender(
    flights: list[tuple[float, float]], apart_ms: float, behind_ms: float, turn_ms: float, is_whole: bool
) -> None:
    data = passed(flights, rtt_ms=None, apart_ms=apart_ms)
    found = start_by_flights(data, *answered(data, behind_ms))
    assert found is not None
    assert found.turn_ns == turn_ms * MS
    assert found.is_whole == is_whole


@pytest.mark.parametrize(
    "flights",
    [
        pytest.param([(RTT * turn, 20.0) for turn in range(8)], id="equal: an application's, for all we know"),
        pytest.param([(RTT * turn**2, 10.0 * 2**turn) for turn in range(5)], id="not evenly apart"),
        pytest.param([(0, 200.0)], id="one"),
    ],
)
def test_other_flights_show_no_turn(flights: list[tuple[float, float]]) -> None:
    data = passed(flights, rtt_ms=None)
    assert start_by_flights(data, *answered(data, 0)) is None


@pytest.mark.parametrize(("more", "is_told"), [(2, True), (0, False)])
def test_flights_that_fill_what_was_offered_may_be_the_receivers(more: int, *, is_told: bool) -> None:
    """A receiver that doubles its window as what it reads doubles: each flight ends where that does, or before."""
    sizes = [10 * 2**turn for turn in range(5)]
    data = passed([(RTT * turn, size) for turn, size in enumerate(sizes)])
    una = np.cumsum([0, *sizes[:-1]])
    offered = Offered(
        time_ns=np.arange(5, dtype=np.int64) * RTT * MS - MS,
        ack=una * SMSS,
        rwnd=(np.array(sizes) + more) * SMSS,
    )
    assert (shares_by_flights(data, offered).get("cwnd", 0.0) > 0) is is_told


@pytest.mark.parametrize(("tick_ms", "is_told"), [(0, True), (RTT, False)])
def test_stamps_of_neighbouring_ticks_show_no_flight(tick_ms: int, *, is_told: bool) -> None:
    data = passed([(RTT * turn, 10 * 2**turn) for turn in range(5)], apart_ms=0.0, tick_ms=tick_ms)
    assert (shares_by_flights(data).get("cwnd", 0.0) > 0) is is_told
