"""A capture made worse, as captures come: the degrader of the tests, seeded, over records of a pcap.

Every kind takes the packets of a good capture in their order and gives those that a worse tap, clock, disk, card or
middlebox would have left. What the kind leaves of the run is its `Part`: the same run, or a piece of it.
"""

from __future__ import annotations

from tests.degrade.ends import first_again
from tests.degrade.kinds import ALONE, KINDS, ONES, degrade, keeps_of, pairs_from
from tests.degrade.records import (
    ACK,
    MS,
    SECOND,
    SYN,
    TIMESTAMPS,
    Packets,
    RawPacket,
    options_of,
    read_packets,
    sender_of,
    write_packets,
)

__all__ = [
    "ACK",
    "ALONE",
    "KINDS",
    "MS",
    "ONES",
    "SECOND",
    "SYN",
    "TIMESTAMPS",
    "Packets",
    "RawPacket",
    "degrade",
    "first_again",
    "keeps_of",
    "options_of",
    "pairs_from",
    "read_packets",
    "sender_of",
    "write_packets",
]
