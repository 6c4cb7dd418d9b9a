"""Packets damaged on their way: a wrong checksum where nearly all are right; offload's wrong ones are none."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tcptrace_lab import read
from tcptrace_lab.reconstruct.sender import sender
from tests.conftest import ROOT
from tests.degrade import RawPacket, read_packets, write_packets

CAPTURE = ROOT / "captures" / "reno_10M.pcap.gz"


@pytest.fixture(scope="module")
def run() -> tuple[int, list[RawPacket]]:
    return read_packets(CAPTURE)


def damage(path: Path, run: tuple[int, list[RawPacket]], change: Callable[[RawPacket], RawPacket]) -> Path:
    """Some ACKs in a thousand, changed; those of the handshake are not."""
    link, packets = run
    rng = random.Random(7)
    kept = [
        change(packet) if index > 1_000 and packet.is_bare and rng.random() < 0.005 else packet
        for index, packet in enumerate(packets)
    ]
    write_packets(path, link, kept)
    return path


def test_a_flipped_bit_of_an_ack_number_is_left_out_and_said(run: tuple[int, list[RawPacket]], tmp_path: Path) -> None:
    path = damage(
        tmp_path / "flipped.pcap", run, lambda each: each.damaged(each.tcp + 8, bytes([each.data[each.tcp + 8] ^ 8]))
    )
    connection, whole = read(path)[0], read(CAPTURE)[0]
    left_out = int(connection.row["damaged_packets_client"] + connection.row["damaged_packets_server"])
    assert left_out > 20
    # Captured they were.
    assert connection.row["packets"] == whole.row["packets"]
    for name in ("retransmissions_client", "dup_acks_server", "unique_bytes_client"):
        assert abs(int(connection.row[name]) - int(whole.row[name])) <= left_out
    assert any("wrong checksum" in note for note in sender(connection).tap.notes)


def test_checksums_that_are_all_wrong_are_the_taps_or_the_hosts(
    run: tuple[int, list[RawPacket]], tmp_path: Path
) -> None:
    """Addresses rewritten by an anonymiser, or sums left to a card that this tap does not know."""
    link, packets = run
    path = tmp_path / "offload.pcap"
    write_packets(
        path, link, [each.damaged(each.tcp + 16, b"\x12\x34").damaged(each.ip + 10, b"\x56\x78") for each in packets]
    )
    connection, whole = read(path)[0], read(CAPTURE)[0]
    assert connection.row["damaged_packets_client"] == connection.row["damaged_packets_server"] == 0
    assert connection.row["packets"] == whole.row["packets"]
