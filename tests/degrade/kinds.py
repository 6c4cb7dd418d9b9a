"""Every kind of degradation by its name, alone and two at once."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.degrade.around import bound_anew, ip_id_zero, nat, sequence_wraps, two_vlans, vlan
from tests.degrade.clocks import (
    clock_set_forward,
    clock_steps_back,
    interrupt_batches,
    jittered_clock,
    slewed_clock,
    stamped_by_polls,
    stamped_early,
    ticks,
    two_clocks,
    written_late,
)
from tests.degrade.ends import (
    begins_in_avoidance,
    begins_in_recovery,
    ends_early,
    ends_in_recovery,
    idle_tail,
    one_way_at_first,
    one_way_at_last,
    one_way_meanwhile,
    zero_window_stall,
)
from tests.degrade.merged import (
    both_cards,
    bursts_lost,
    delayed_apart,
    drifting_clocks,
    merged_by_tick,
    noisy_and_sorted,
    noisy_stamps,
    padded,
    read_in_batches,
    reused,
    reversed_within_ms,
    shuffled_within_ticks,
    tap_stalls,
    two_resolutions,
)
from tests.degrade.middlebox import (
    ack_options_lost,
    acks_doubled,
    blocks_of_other_numbers,
    data_options_lost,
    marked,
    reset_forged,
    snaplen_varies,
    some_split,
    split_from_the_middle,
    thinned,
)
from tests.degrade.offload import acks_merged, gro_stamped_last, gso_at_sender, super_segments_cut
from tests.degrade.options import mss_rewritten, no_syn, only_syn, only_syn_ack, snaplen, stripped, wscale_hidden
from tests.degrade.records import (
    ETHERNET,
    MS,
    MSS,
    SACK,
    SACK_PERMITTED,
    SECOND,
    TIMESTAMPS,
    WSCALE,
    Kind,
    Packets,
)
from tests.degrade.tap import (
    bare_acks_stripped,
    file_missing,
    one_of_each,
    one_way,
    seen_twice,
    some_twice,
    tap_gap,
    tap_loss,
    tap_reorders,
)


@dataclass(frozen=True, kw_only=True)
class Degradation:
    """`keeps`: whole (the run is all there), a piece of it, longer than it was, resized (in other packets), or several.

    `tells`: what regime and control need is still there. `stage`: of two kinds the earlier's comes first, in whatever
    order they are named: what passes a tap (0), when and in which order it is read there (1), what its clock then shows
    (2), to which tick (3), and what is put behind each frame (4). Where a capture begins and ends (-1) is told before
    another connection follows.
    """

    change: Kind
    keeps: str = "whole"
    tells: bool = False
    stage: int = 0
    link: int | None = field(default=None)


def _two(first: Degradation, second: Degradation) -> Degradation:
    first, second = sorted((first, second), key=lambda each: each.stage)
    keeps = " ".join(sorted({first.keeps, second.keeps} - {"whole"})) or "whole"

    def both(packets: Packets, rng: random.Random) -> Packets:
        return second.change(first.change(packets, rng), rng)

    return Degradation(change=both, keeps=keeps, link=first.link or second.link)


ONES: dict[str, Degradation] = {
    "no SYN": Degradation(change=no_syn, tells=True),
    "only the SYN": Degradation(change=only_syn),
    "only the SYN-ACK": Degradation(change=only_syn_ack),
    "snaplen 68": Degradation(change=snaplen(68 + 14), tells=True),
    "snaplen 60": Degradation(change=snaplen(60 + 14)),
    "snaplen 54": Degradation(change=snaplen(54 + 14)),
    "no option captured": Degradation(change=snaplen(54)),
    "timestamps stripped": Degradation(change=stripped(TIMESTAMPS), tells=True),
    "SACK stripped": Degradation(change=stripped(SACK, SACK_PERMITTED)),
    "SACK blocks stripped": Degradation(change=stripped(SACK)),
    "all options stripped": Degradation(change=stripped(MSS, WSCALE, SACK, SACK_PERMITTED, TIMESTAMPS)),
    "window scale stripped": Degradation(change=stripped(WSCALE)),
    "window scale cut": Degradation(change=wscale_hidden, tells=True),
    "MSS rewritten": Degradation(change=mss_rewritten),
    "clock of 1 ms": Degradation(change=ticks(MS), stage=3),
    "clock of 4 ms": Degradation(change=ticks(4 * MS), stage=3),
    "clock of 10 ms": Degradation(change=ticks(10 * MS), stage=3),
    "clock of 15.6 ms": Degradation(change=ticks(15_600_000), stage=3),
    "clock of 1 s": Degradation(change=ticks(SECOND), stage=3),
    "two clocks": Degradation(change=two_clocks, stage=1),
    "stamped early": Degradation(change=stamped_early, stage=1),
    "written late": Degradation(change=written_late, stage=1),
    "clock set forward": Degradation(change=clock_set_forward, stage=2),
    "slewed clock": Degradation(change=slewed_clock, stage=2),
    "stamped by polls": Degradation(change=stamped_by_polls, stage=1),
    "jittered clock": Degradation(change=jittered_clock, stage=1),
    "clock steps back": Degradation(change=clock_steps_back, stage=2),
    "interrupt batches": Degradation(change=interrupt_batches, stage=1),
    "begins in avoidance": Degradation(change=begins_in_avoidance, keeps="piece", tells=True, stage=-1),
    "begins in a recovery": Degradation(change=begins_in_recovery, keeps="piece", stage=-1),
    "one way at last": Degradation(change=one_way_at_last),
    "one way at first": Degradation(change=one_way_at_first),
    "ends early": Degradation(change=ends_early, keeps="piece", stage=-1),
    "ends in a recovery": Degradation(change=ends_in_recovery, keeps="piece", stage=-1),
    "idle tail, keep-alives": Degradation(change=idle_tail, tells=True),
    "zero-window stall": Degradation(change=zero_window_stall, keeps="longer"),
    "GSO at the sender": Degradation(change=gso_at_sender, tells=True),
    "ACK trains merged": Degradation(change=acks_merged, tells=True),
    "tap lost 0.1 % of data": Degradation(change=tap_loss(0.001, data=True, acks=False), tells=True),
    "tap lost 0.1 % of ACKs": Degradation(change=tap_loss(0.001, data=False, acks=True), tells=True),
    "tap lost 0.1 %": Degradation(change=tap_loss(0.001, data=True, acks=True), tells=True),
    "tap lost 1 % of data": Degradation(change=tap_loss(0.01, data=True, acks=False)),
    "tap lost 1 % of ACKs": Degradation(change=tap_loss(0.01, data=False, acks=True)),
    "tap lost 1 %": Degradation(change=tap_loss(0.01, data=True, acks=True)),
    "tap lost 5 %": Degradation(change=tap_loss(0.05, data=True, acks=True)),
    "tap lost half of the ACKs": Degradation(change=tap_loss(0.5, data=False, acks=True)),
    "bare ACKs stripped": Degradation(change=bare_acks_stripped),
    "tap lost 300 ms": Degradation(change=tap_gap),
    "no segment twice": Degradation(change=one_of_each),
    "seen twice": Degradation(change=seen_twice, tells=True),
    "1 % seen twice": Degradation(change=some_twice),
    "tap reorders": Degradation(change=tap_reorders),
    "data only": Degradation(change=one_way(data=True)),
    "ACKs only": Degradation(change=one_way(data=False)),
    "NAT": Degradation(change=nat, tells=True),
    "VLAN": Degradation(change=vlan, tells=True, link=ETHERNET),
    "the same on two VLANs": Degradation(change=two_vlans, link=ETHERNET),
    "IP identification 0": Degradation(change=ip_id_zero),
    "sequence numbers wrap": Degradation(change=sequence_wraps, tells=True),
    "directions delayed apart": Degradation(change=delayed_apart, stage=1),
    "two resolutions": Degradation(change=two_resolutions, stage=1),
    "merged by tick": Degradation(change=merged_by_tick, stage=1),
    "clocks that drift apart": Degradation(change=drifting_clocks, stage=1),
    "noisy stamps": Degradation(change=noisy_stamps, stage=1),
    "noisy stamps, sorted": Degradation(change=noisy_and_sorted, stage=1),
    "reversed within 1 ms": Degradation(change=reversed_within_ms, stage=1),
    "tap stalls": Degradation(change=tap_stalls, stage=1),
    "both cards of a router": Degradation(change=both_cards, link=ETHERNET),
    "frames padded": Degradation(change=padded, tells=True, stage=4, link=ETHERNET),
    "tap lost bursts": Degradation(change=bursts_lost),
    "ports used again": Degradation(change=reused),
    "no options of ACKs": Degradation(change=ack_options_lost),
    "no options of data": Degradation(change=data_options_lost),
    "snaplen varies": Degradation(change=snaplen_varies),
    "SACK blocks of other numbers": Degradation(change=blocks_of_other_numbers),
    "one ACK of four": Degradation(change=thinned(4)),
    "1 % of ACKs doubled": Degradation(change=acks_doubled),
    "split from the middle on": Degradation(change=split_from_the_middle, keeps="resized"),
    "2 % of data split": Degradation(change=some_split, keeps="resized"),
    "reset forged": Degradation(change=reset_forged),
    "ECN bits set": Degradation(change=marked, tells=True),
    "GSO, cut again": Degradation(change=super_segments_cut),
    "merged, stamped as the last": Degradation(change=gro_stamped_last, stage=1),
    "shuffled within 1 ms": Degradation(change=shuffled_within_ticks, stage=3),
    "one way meanwhile": Degradation(change=one_way_meanwhile),
    "NAT binds anew": Degradation(change=bound_anew, keeps="piece"),
    "a file of the ring missing": Degradation(change=file_missing),
    "read in batches": Degradation(change=read_in_batches, stage=1),
}

# Kinds that leave one direction, or two connections, so nothing to combine.
ALONE = ("data only", "ACKs only", "NAT binds anew")

PAIRS = (
    ("no SYN", "tap lost 0.1 %"),
    ("no SYN", "clock of 1 ms"),
    ("timestamps stripped", "tap lost 1 %"),
    ("snaplen 68", "clock of 1 ms"),
    ("SACK stripped", "tap lost 0.1 %"),
    ("begins in avoidance", "GSO at the sender"),
    ("begins in a recovery", "no option captured"),
    ("ends early", "tap lost 1 % of ACKs"),
    ("tap reorders", "IP identification 0"),
    ("seen twice", "IP identification 0"),
    ("GSO at the sender", "interrupt batches"),
    ("idle tail, keep-alives", "no SYN"),
)

KINDS: dict[str, Degradation] = {
    **ONES,
    **{f"{first} + {second}": _two(ONES[first], ONES[second]) for first, second in PAIRS},
}


def pairs_from(first: int) -> Iterator[str]:
    """Every two kinds, in either order, shuffled; again and again."""
    both = [kind for kind in ONES if kind not in ALONE]
    found = [f"{one} + {other}" for one in both for other in both if one != other]
    random.Random(f"pairs {first}").shuffle(found)
    return itertools.cycle(found)


def chosen(kind: str) -> Degradation:
    """A kind by its name; any two at once by theirs, with " + " between."""
    if kind in KINDS:
        return KINDS[kind]
    first, second = kind.split(" + ")
    return _two(ONES[first], ONES[second])


def keeps_of(kind: str) -> str:
    """What of the run is left."""
    return chosen(kind).keeps


def degrade(link: int, packets: Packets, *, kind: str, seed: int) -> tuple[int, Packets]:
    """A capture's packets by one kind: link type and packets."""
    by = chosen(kind)
    return by.link or link, by.change(packets, random.Random(f"{kind} {seed}"))
