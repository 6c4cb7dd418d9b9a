"""What a capture of one sender can show and what it cannot, each with its reason: decided once, asked by every view.

A fact is about the capture (where it was taken, what of each packet it kept, its clock, what it missed), never about
the sender. `Tap.refuses` turns facts into the claims that they rule out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from tcptrace_lab.numbers import counted, duration
from tcptrace_lab.reconstruct.given import MAJORITY, MINORITY, ODD_SHARE
from tcptrace_lab.reconstruct.tap.clock import PACKETS_PER_STEP, Clock

Claim = Literal["window", "initial_window", "losses", "cycles", "recovery", "limits", "control"]
# Coarser than this a clock does not tell which ACK released which segment: at 100 Mbit/s a full one takes 0.12 ms.
COARSE_NS = 100_000
# Of the data that the tap lost: with more than this a loss event has one of its packets missing, and one in ten tells
# another story (events of some ten retransmissions; a few in a thousand leave nine of ten whole).
LOST_SHARE = 0.003


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A value, and what it rests on (empty: nothing to explain)."""

    value: Any
    why: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {"value": self.value, "why": self.why}


@dataclass(frozen=True, kw_only=True)
class Tap:
    """Of one direction. `shift`: by which the receiver's windows are scaled (None: unknown), `least_shift` at least.

    `sack`: used, not offered, or unknown. `tap_lost_bytes`: sent, never captured. `offload_bytes`: the largest
    segment where it was no single packet, else 0. `tap_lost_acks`: heard by the sender, never captured; at the least.
    `ahead_ns`: by how much segments precede, on the tap's clock, what they answer (0: they follow).
    `ecn_cuts`: how often the receiver asked for a smaller window because the path had marked packets (RFC 3168).
    """

    vantage: Fact
    syns: Fact
    shift: Fact
    least_shift: int
    # More was in flight than the SYNs' scale allows: the windows are larger, or ACKs are missing.
    exceeds_scale: bool
    sack: Fact
    timestamps: Fact
    clock: Clock
    offload_bytes: int
    copies: int
    # How far apart they lie at the most (None: not known).
    copies_apart_ns: int | None
    damaged: int
    tap_lost_bytes: int
    # Of what was sent before the capture began, and lies between what was sent again in it.
    sent_before_bytes: int
    # The first byte that was sent for the first time in the capture (0: from the start).
    first_new: int
    tap_lost_acks: int
    # How long new data left after the timer of a sender without ACKs would have stopped it.
    unanswered_ns: int
    ahead_ns: int
    # Of the segments those that were captured behind later ones, though sent once.
    segments: int
    disordered: int
    ecn_cuts: int
    # Holes that were filled a round trip after they were told of, and those of them filled by nothing captured.
    repairs: tuple[int, int]
    begins: Fact
    ends: Fact
    bytes: int
    has_data: bool
    has_acks: bool
    cut_acks: int
    acks: int
    lasts_ns: int
    # Those that were not captured have been put back, each within so long (0: they have not).
    acks_within_ns: int = 0
    # Where the file is cut or damaged, and how.
    truncated: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The verdict's `tap`."""
        return {
            "vantage": self.vantage.as_dict(),
            "syns": self.syns.as_dict(),
            "window_scale": {**self.shift.as_dict(), "at_least": self.least_shift},
            "sack": self.sack.as_dict(),
            "timestamps": self.timestamps.as_dict(),
            "clock": {**self.clock.as_dict(), "ahead_s": self.ahead_ns / 1e9},
            "offload_bytes": self.offload_bytes or None,
            "copies": self.copies,
            "damaged": self.damaged,
            "lost_by_tap_bytes": self.tap_lost_bytes,
            "lost_by_tap_acks": self.tap_lost_acks,
            "unanswered_s": self.unanswered_ns / 1e9,
            "repairs_not_captured": self.repairs[1],
            "options_cut_acks": self.cut_acks,
            "ecn_cuts": self.ecn_cuts,
            "begins": self.begins.as_dict(),
            "ends": self.ends.as_dict(),
            "truncated": self.truncated,
            "notes": list(self.notes),
        }

    @property
    def has_all_acks(self) -> bool:
        """Whether those that were not captured have been put back."""
        return self.acks_within_ns > 0

    @property
    def may_miss_acks(self) -> bool:
        """Whether some are known to be missing, or more was in flight than those that were captured allow."""
        return self.tap_lost_acks > 0 or self.exceeds_scale

    @property
    def ack_clock(self) -> Clock:
        """The clock behind the times of all ACKs, also of those that were put back, or that waited for an interrupt."""
        within_ns = max(self.acks_within_ns, self.clock.tick_ns)
        resolution_ns = max(within_ns, self.clock.resolution_ns, self.clock.read_apart_ns)
        return replace(self.clock, tick_ns=within_ns, resolution_ns=resolution_ns)

    @property
    def begins_whole(self) -> bool:
        """Whether the first flight is in the capture."""
        return bool(self.begins.value == "connection")

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know before believing a figure: empty for a whole capture with a good clock."""
        found = [] if self.truncated is None else [self.truncated]
        if not self.begins_whole:
            found.append(f"begins in the middle of the connection: {self.begins.why}")
        if self.shift.value is None and self.has_acks:
            found.append(f"window scale unknown ({self.shift.why}): at least {self.least_shift} by what was in flight")
        if self.sack.value == "unknown":
            found.append(f"whether SACK was used is unknown: {self.sack.why}")
        elif self.cut_acks:
            found.append(f"options cut in {self.cut_acks} of {self.acks} ACKs, or changed: blocks are missing")
        if self.ahead_ns:
            words = f"segments pass up to {duration(self.ahead_ns)} before what they answer"
            found.append(f"{words} (two clocks, or not in the order in which they came): nothing finer is told by them")
        elif self.clock.is_coarse:
            found.append(_clock_words(self.clock))
        if self.clock.stalled_ns:
            words = f"the tap did not read for up to {duration(self.clock.stalled_ns)}"
            found.append(f"{words}, and stamped late what had come meanwhile: nothing is told across that")
        if self.tap_lost_bytes:
            found.append(f"{_were(self.tap_lost_bytes, 'byte')} sent and never captured: the tap lost packets")
        if self.tap_lost_acks:
            found.append(f"{counted(self.tap_lost_acks, 'ACK')} or more reached the sender and never the capture")
        if self.unanswered_ns:
            found.append(f"for {duration(self.unanswered_ns)} new data left and no ACK was captured")
        if self.repairs[1]:
            found.append(f"{self.repairs[1]} of {counted(self.repairs[0], 'hole')} filled by what was not captured")
        if self.ecn_cuts:
            found.append(
                f"the path marks packets (ECN): {counted(self.ecn_cuts, 'time')} the window was to fall without a loss"
            )
        if self.copies:
            found.append(f"{_were(self.copies, 'packet')} captured twice: counted once")
        if self.damaged:
            have = "has" if self.damaged == 1 else "have"
            words = f"{counted(self.damaged, 'packet')} {have} a wrong checksum, as no other has"
            found.append(f"{words}: left out, as a receiver would")
        if self.offload_bytes:
            found.append(f"segments of up to {self.offload_bytes} bytes (offload): several packets each on the wire")
        return tuple(found)

    @property
    def hides_flight(self) -> bool:
        """Whether so much of the data was not captured that what was outstanding is not known."""
        return self.tap_lost_bytes > MINORITY * self.bytes

    @property
    def misses_repairs(self) -> bool:
        """Whether most holes were filled by what was not captured: then losses leave no trace."""
        return self.repairs[1] > MAJORITY * self.repairs[0]

    @property
    def _is_disordered(self) -> bool:
        """Whether the order of capture is not the order in which packets passed: a path that reorders one in ten, or
        the tap, where stamps show it too."""
        if self.ahead_ns and self.clock.jitter_ns:
            return True
        is_shown = self.ahead_ns or self.clock.jitter_ns
        return self.disordered > self.segments * (1 / PACKETS_PER_STEP if is_shown else MINORITY)

    @property
    def lost_acks_share(self) -> float:
        """Of the ACKs that the sender heard: those that were not captured, nor put back."""
        return 0.0 if self.has_all_acks else self.tap_lost_acks / max(self.acks + self.tap_lost_acks, 1)

    @property
    def blurs_flight(self) -> bool:
        """Whether so many ACKs are missing that how much was in flight is not known, though pauses are seen."""
        return self.lost_acks_share > MINORITY

    @property
    def misses_dupacks(self) -> bool:
        """Whether so many ACKs are missing that duplicates do not tell what was lost, and no block does."""
        return self.sack.value != "used" and self.blurs_flight

    @property
    def hides_blocks(self) -> bool:
        """Whether it is not told what arrived out of order: options cut, or nothing that says whether SACK was used."""
        return bool(self.sack.value == "unknown" or self.cut_acks > ODD_SHARE * self.acks)

    @property
    def blurs_times(self) -> bool:
        """Whether which of two copies was the packet leaves open which ACK released which segment."""
        is_told = self.copies_apart_ns is not None and self.copies_apart_ns <= COARSE_NS
        return not is_told and self.copies > ODD_SHARE * (self.segments + self.acks)

    @property
    def is_holed(self) -> bool:
        """Whether packets passed that were never captured."""
        return bool(self.tap_lost_bytes or self.tap_lost_acks)

    @property
    def is_coarse(self) -> bool:
        """Whether the clock does not tell which ACK released which segment."""
        return bool(self.clock.jitter_ns or self.clock.resolution_ns > COARSE_NS)

    @property
    def hides_details(self) -> str | None:
        """Why what single packets do is not certain here, so that no candidate is refuted by it; None: it is."""
        if self.hides_blocks:
            return "SACK blocks are missing"
        if self.is_holed:
            return "the tap lost packets"
        if self.is_coarse:
            return "the clock is coarse"
        if self.clock.stalled_ns:
            return "the tap was late to read"
        return "segments were merged (offload)" if self.offload_bytes else None

    def refuses(self, claim: Claim) -> str | None:
        """Why the capture cannot carry a claim; None: it can."""
        if not self.has_acks:
            return "only the sender's direction was captured: no ACK, so no window"
        if not self.has_data:
            return "only the receiver's direction was captured: no data segment"
        if claim == "losses" and self._is_disordered:
            return "packets are not in the order in which they came: what filled a hole was late, or sent again"
        if claim != "initial_window" and self.misses_repairs:
            return "retransmissions were not captured: holes were filled by what is not in the capture"
        if self.ahead_ns and claim in ("window", "initial_window", "cycles", "recovery"):
            return "causes are stamped after their effects: which ACK released which segment is not known"
        if self.ecn_cuts and claim in ("control", "cycles"):
            return "the window answers ECN marks as well as losses, and which of them is not looked into"
        if self.hides_flight and claim in ("window", "limits"):
            return f"the tap lost {self.tap_lost_bytes / self.bytes:.0%} of the data: what was outstanding is not known"
        missing = {"initial_window": MINORITY, "window": MAJORITY}
        if self.lost_acks_share > missing.get(claim, 1.0):
            return f"{self.lost_acks_share:.0%} of the ACKs were not captured: what was outstanding is not known"
        if claim in ("recovery", "losses") and self.misses_dupacks:
            return f"{self.lost_acks_share:.0%} of the ACKs were not captured: duplicates are not counted"
        # What limited the sender for most of the time is told of the rest.
        most = MAJORITY if claim == "limits" else ODD_SHARE
        is_asked = claim in ("losses", "cycles", "recovery") or (claim == "limits" and not self.has_all_acks)
        if is_asked and self.unanswered_ns > most * self.lasts_ns:
            return f"new data left for {duration(self.unanswered_ns)} without an ACK in the capture"
        if claim in ("losses", "cycles") and self.tap_lost_bytes > LOST_SHARE * self.bytes:
            return f"the tap lost {self.tap_lost_bytes / self.bytes:.1%} of the data: what was sent twice is not known"
        if claim == "initial_window" and (not self.begins_whole or self.syns.value == "none"):
            # A quiet start without a SYN may be any pause of the connection.
            return f"the capture does not hold the connection's beginning: {self.begins.why}"
        if claim in ("recovery", "cycles") and self.sack.value == "unknown":
            return f"whether the ACKs carried SACK blocks is unknown: {self.sack.why}"
        return None


def _were(number: int, noun: str) -> str:
    return f"{counted(number, noun)} {'was' if number == 1 else 'were'}"


def _clock_words(clock: Clock) -> str:
    if clock.jitter_ns:
        return f"stamps go back by up to {duration(clock.jitter_ns)}: nothing finer is told by them"
    if clock.set_forward_ns:
        words = f"by up to {duration(clock.set_forward_ns)}, while no time passed for the hosts: undone"
        return f"the clock was set forward, {words}"
    if clock.steps_back:
        return f"the clock was set back {clock.steps_back} times, by up to {duration(clock.stepped_ns)}: undone"
    return f"stamps {duration(clock.resolution_ns)} apart (clock or interrupts): nothing finer is told by them"
