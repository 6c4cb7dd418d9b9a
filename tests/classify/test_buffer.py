"""The buffer, from the queues that losses met: a full one, or losses of a link that met any queue."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tcptrace_lab.classify.path.buffer import Met, buffer_of
from tcptrace_lab.classify.path.buffer_by_losses import with_short
from tcptrace_lab.reconstruct.estimate import Estimate
from tcptrace_lab.reconstruct.timeline import Floats
from tests.claims import main_verdict
from tests.random_runs import tapped
from tests.reconstruct.ladder import ladder

RTT = Estimate(value=0.05, low=0.05, high=0.05, method="")
RATE = Estimate(value=1000.0, low=1000.0, high=1000.0, method="")


def _told(
    met: tuple[float, ...],
    queue: Floats,
    *,
    own: Floats | None = None,
    grown: tuple[float, ...] | None = None,
    stalled_ns: int = 0,
) -> Estimate:
    """Of losses that met these queues, where nothing else bounds the buffer."""
    nothing = np.zeros(len(met))
    return buffer_of(
        Met(
            at_loss=np.array(met),
            elsewhere=nothing,
            behind=np.full(len(met), np.nan),
            grown=nothing if grown is None else np.array(grown),
            queue=queue,
            own=queue if own is None else own,
        ),
        RTT,
        RATE,
        resolution_ns=1000,
        stalled_ns=stalled_ns,
    )


@pytest.mark.parametrize(
    ("met", "value"),
    [
        ((4.0, 4.0, 3.0, 4.0, 4.0), 4.0),
        # A link lost one of the ten.
        ((4.0, 4.0, 3.0, 4.0, 0.0, 4.0, 4.0, 4.0, 4.0, 4.0), 4.0),
        # Any two queues of a few packets are near each other.
        ((0.0, 2.0, 2.0, 0.0, 3.0, 2.0, 0.0, 1.0), None),
        # The overshoot of the slow start met the buffer, the losses behind it did not.
        ((10.0, 5.0, 2.0, 2.0), None),
        # Two are one buffer's to the packet, but for what a delayed ACK leaves open.
        ((37.0, 39.0), 38.0),
        ((31.0, 39.0), None),
    ],
)
def test_a_full_buffer_is_one_that_no_loss_found_longer(met: tuple[float, ...], value: float | None) -> None:
    found = _told(met, np.concatenate((np.zeros(300), np.linspace(0.0, max(met), 100))))
    assert found.value == value
    if value is not None:
        assert found.low is not None
        assert found.high is not None
        assert found.low <= value <= found.high


@pytest.mark.parametrize(("carried", "is_told"), [(200, False), (20, True)])
def test_where_a_link_loses_too_losses_agree_by_more_than_chance(carried: int, is_told: bool) -> None:
    """Three of four losses met the longest queue, which one segment of five, or of fifty, met."""
    queue = np.concatenate((np.zeros(1000 - carried), np.linspace(6.0, 11.0, carried)))
    assert (_told((11.0, 8.0, 0.0, 10.0), queue).value is not None) == is_told


@pytest.mark.parametrize(("grown", "is_told"), [(0.0, True), (141.0, False)])
def test_a_queue_that_grew_packet_by_packet_was_no_stall(grown: float, is_told: bool) -> None:
    """Twelve losses met three packets, one met 141: the buffer holds those if what was sent made them wait."""
    met = (141.0, *[3.0] * 12)
    queue = np.concatenate((np.zeros(3000), np.linspace(0.0, 3.0, 100), np.linspace(0.0, 141.0, 141)))
    assert (_told(met, queue, grown=(grown, *[3.0] * 12)).value is not None) == is_told


def test_a_path_that_stands_still_holds_no_more_than_was_sent() -> None:
    """Of a short run a stall delays more than a tenth of the segments by thousands of services."""
    queue = np.concatenate((np.linspace(0.0, 20.0, 80), np.full(20, 4000.0)))
    found = _told((), queue, own=np.full(100, 30.0))
    assert found.low is not None
    assert found.low <= 30.0


def test_a_queue_that_counts_packets_holds_more_of_them_where_some_are_short() -> None:
    """A quarter of the packets is half as long: of seven full ones' time there are eight."""
    found = Estimate(value=70.0, low=69.0, high=70.0, method="")
    sent = [(0.1 * number, number) for number in range(16)]
    acks = [(100.0 + number, number + 1) for number in range(16)]
    held = with_short(found, ladder(sent, acks, short=(2, 6, 10, 14)))
    assert (held.value, held.low, held.high) == (70.0, 69.0, 80.0)
    assert with_short(found, ladder(sent, acks)) == found


@pytest.mark.parametrize(("bursts", "value"), [(2, 6.0), (3, 6.0), (12, None)])
def test_two_losses_at_the_top_of_bursts_of_one_size_are_no_full_buffer(bursts: int, value: float | None) -> None:
    """Each burst fills the same six places; a queue that is full loses most of the times it is."""
    queue = np.concatenate([np.linspace(0.0, 6.0, 7), np.zeros(50)] * bursts)
    assert _told((6.0, 6.0), queue).value == value


@pytest.mark.parametrize(
    ("seed", "met"),
    [
        # A slow start that filled 246 places would lose every second segment from there on: it lost one, of 248.
        (8983038, 246),
        # The pipe is not full, but each round trip's burst makes a queue: duplicates tell that it grew on to 105.
        (9012125, 53),
    ],
)
def test_what_was_carried_behind_a_loss_before_it_was_noticed_was_no_full_buffer(
    tmp_path: Path, seed: int, met: int
) -> None:
    assert tapped(seed, tmp_path) is not None
    verdict = main_verdict(tmp_path / f"random{seed}.sender.pcap")
    assert verdict is not None
    found = verdict.path.buffer_packets
    assert (found.value, found.high) == (None, None)
    assert found.low is not None
    assert found.low <= met


@pytest.mark.parametrize(("met", "value"), [((908.0,), None), ((90.0,), None), ((908.0,) * 4, 908.0)])
def test_one_loss_where_the_tap_did_not_read_tells_no_buffer(met: tuple[float, ...], value: float | None) -> None:
    """900 services long nothing was read: what left before seems to have waited for as long."""
    found = _told(met, np.linspace(0.0, max(met), 100), stalled_ns=900_000_000)
    assert found.value == value
    assert value is not None or (found.low is not None and found.low <= 8.0)
