"""ACKs that reached the sender and that the tap lost: known by what the sender did."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from tcptrace_lab import read
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import sender
from tcptrace_lab.scenario import ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario
from tcptrace_lab.simulate import simulate
from tests.degrade import Packets, read_packets, sender_of, write_packets

PATH = PathSpec(nodes=(NodeSpec(rate_bps=10e6, buffer=30, delay_s=0.02),), return_delay_s=0.02)


def run(folder: Path, *, timestamps: bool, ack_loss: float = 0.0) -> tuple[int, Packets]:
    control = ControlSpec(recovery="sack", initial_window=10, delayed_ack_segments=2, timestamps=timestamps)
    path = PathSpec(nodes=PATH.nodes, return_delay_s=PATH.return_delay_s, ack_loss=ack_loss)
    done = simulate(Scenario(path=path, connections=(ConnectionSpec(control=control),), duration_s=10.0, profile="rfc"))
    done.write(folder / "x.pcap")
    return read_packets(folder / "x.pcap")


def lost_acks(folder: Path, link: int, packets: Packets) -> int:
    write_packets(folder / "y.pcap", link, packets)
    return sender(read(folder / "y.pcap")[0]).tap.tap_lost_acks


@pytest.mark.parametrize("timestamps", [True, False])
def test_an_ack_that_the_tap_lost_shows_in_what_the_sender_did(timestamps: bool, tmp_path: Path) -> None:
    """A segment echoes a TSval that was never captured; or the flight stands out until one ACK reports what two do."""
    link, packets = run(tmp_path, timestamps=timestamps)
    assert lost_acks(tmp_path, link, packets) == 0
    own = sender_of(packets)
    bare = [index for index, packet in enumerate(packets) if packet.source != own and packet.is_bare]
    dropped = set(bare[2000::400])
    left = [packet for index, packet in enumerate(packets) if index not in dropped]
    assert 0 < lost_acks(tmp_path, link, left) <= len(dropped)


@pytest.mark.parametrize("timestamps", [True, False])
def test_a_third_of_the_acks_lost_by_the_tap_shows_in_what_left_unasked(timestamps: bool, tmp_path: Path) -> None:
    """No mark stands out where so many are missing: ACKs report several of what most do, behind what none released."""
    link, packets = run(tmp_path, timestamps=timestamps)
    own = sender_of(packets)
    bare = [index for index, packet in enumerate(packets) if packet.source != own and packet.is_bare]
    dropped = set(random.Random(1).sample(bare, len(bare) // 3))
    left = [packet for index, packet in enumerate(packets) if index not in dropped]
    assert 0.8 * len(dropped) < lost_acks(tmp_path, link, left) <= len(dropped)


@pytest.mark.parametrize("timestamps", [True, False])
def test_half_of_the_acks_lost_on_their_way_are_not_the_taps(timestamps: bool, tmp_path: Path) -> None:
    assert lost_acks(tmp_path, *run(tmp_path, timestamps=timestamps, ack_loss=0.4)) == 0


@pytest.mark.parametrize("timestamps", [True, False])
def test_an_ack_lost_on_its_way_is_not_the_taps(timestamps: bool, tmp_path: Path) -> None:
    """It released nothing, and no segment names it."""
    assert lost_acks(tmp_path, *run(tmp_path, timestamps=timestamps, ack_loss=0.01)) == 0


def test_bare_acks_that_were_stripped_are_put_back_at_the_receiver(tmp_path: Path) -> None:
    """Requests only: what the segments echo names the ACKs, and what had arrived by then is what they acknowledged."""
    control = ControlSpec(recovery="sack", initial_window=10, delayed_ack_segments=2, timestamps=True)
    done = simulate(
        Scenario(
            path=PATH,
            connections=(ConnectionSpec(control=control),),
            duration_s=10.0,
            profile="rfc",
            taps=("receiver",),
        )
    )
    done.write(tmp_path / "x.pcap", tap="receiver")
    link, packets = read_packets(tmp_path / "x.pcap")
    own = sender_of(packets)
    bare = [index for index, packet in enumerate(packets) if packet.source != own and packet.is_bare]
    kept = set(bare[::20])
    left = [
        packet for index, packet in enumerate(packets) if packet.source == own or index in kept or index not in bare
    ]
    write_packets(tmp_path / "y.pcap", link, left)
    whole, stripped = (sender(read(tmp_path / name)[0]) for name in ("x.pcap", "y.pcap"))
    assert len(stripped.timeline.ack_ns) > 10 * len(kept)
    assert stripped.timeline.snd_una[-1] <= whole.timeline.snd_una[-1]
    flights = [Reconstruction(who.timeline).flight for who in (whole, stripped)]
    # Within the segments that one tick of the receiver's clock holds.
    assert abs(np.median(flights[1]) - np.median(flights[0])) <= 0.1 * np.median(flights[0])
