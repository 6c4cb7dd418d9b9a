"""Which congestion control it was, as identification leaves it: who is left, who is refuted and by what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tcptrace_lab.classify.control.candidates.likelihood import Replay
from tcptrace_lab.reconstruct.estimate import Estimate, unknown

UNKNOWN = "unknown"
NOT_TOLD = unknown("no Compound was followed to the ACK")
ALL_ALONG = "off by less than is open, but all along, where another is not"
OTHER_START = "its slow start comes to another window than was lost first"
BY_RATE_AGAINST = "segments leave by a rate, not by ACKs, and the path is probed in cycles"


@dataclass(frozen=True, kw_only=True)
class Identified:
    """`control`: the only family left, "unknown", or None. `left` and `refuted`: each family's best variant."""

    control: str | None
    confidence: float
    left: tuple[Replay, ...]
    refuted: tuple[Replay, ...]
    reasons: tuple[str, ...]
    # Of each of `left`.
    shares: tuple[float, ...] = ()
    # What a sender does that none of the table is.
    seen_instead: str | None = None
    # The flight stood as no window does: held by a send buffer, or by a fixed window.
    is_kept: bool = False
    # Less was sent than any window allows, also where one seems to be at work: no flight shows it.
    hides_window: bool = False
    # Of the Compound of `left`, if there is one: what is known of its queue threshold.
    gamma: Estimate = NOT_TOLD
    # Nothing tells it from a sender that goes by a rate, and shows no probe of its own in so little.
    may_be_bbr: bool = False
    # Named is Reno, and a Compound of other thresholds than its document's would have been Reno here: in words, which.
    same_with: str | None = None

    def kept(self) -> Identified:
        """The same of a sender that is held by something else than its window most of the time."""
        reason = (
            "its flight stood at its largest, as no window that grows does: a send buffer held it, or a fixed window"
        )
        return replace(self, reasons=(*self.reasons, reason), is_kept=True)

    def opened(self, reason: str) -> Identified:
        """The same where what was seen is no evidence: nobody is refuted."""
        every = (*self.left, *self.refuted)
        return all_left(every, reason, confidence=1.0 / max(len(every), 1))

    def or_bbr(self, why: str = "but nothing grew again and again") -> Identified:
        """The same with BBR in the set: one more, as likely as the others; `why` it is not told from them."""
        among = len(self.left) / (len(self.left) + 1)
        return replace(
            self,
            confidence=self.confidence * among,
            shares=tuple(share * among for share in self.shares),
            reasons=(
                *self.reasons,
                f"nor is BBR told from them: it has shown no probe, {why}",
            ),
            may_be_bbr=True,
        )

    def as_dicts(self) -> list[dict[str, Any]]:
        """The verdict's `candidates`: the set first; only of those refuted `against` says by what."""
        out = [_row(each, 0.0, against=self._against(each)) for each in self.refuted]
        if self.control == "bbr":
            row: dict[str, Any] = {"name": "bbr", "variant": "probes", "confidence": self.confidence}
            return [{**row, "residual": None, "against": None}] + [{**each, "against": BY_RATE_AGAINST} for each in out]
        if self.control == UNKNOWN:
            row = {"name": UNKNOWN, "variant": None, "confidence": round(self.confidence, 3), "residual": None}
            return [{**row, "against": self.seen_instead}, *out]
        left = [_row(each, share, against=None) for each, share in zip(self.left, self.shares, strict=True)]
        if self.may_be_bbr:
            share = round(1.0 / (len(left) + 1), 3)
            left.append({"name": "bbr", "variant": "no probe", "confidence": share, "residual": None, "against": None})
        return left + out

    def _against(self, each: Replay) -> str:
        is_by_cycles = bool(each.tape.compared.pieces.places_of["cycle"].any())
        is_start = is_by_cycles and each.candidate.slow_start != "standard"
        words = each.against or (OTHER_START if is_start else ALL_ALONG)
        if self.same_with and "gamma" in each.candidate.parameters:
            return f"{words}; with {self.same_with} it is reno here: its delay window never opens"
        return words


def open_names(candidates: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of a verdict's `candidates` those that it leaves: nothing speaks against them, or none of the table does it."""
    return [str(row["name"]) for row in candidates if row["against"] is None or row["name"] == UNKNOWN]


def all_left(families: Sequence[Replay], reason: str, *, confidence: float = 0.0) -> Identified:
    """Nobody is refuted, and nobody likelier than another."""
    return Identified(
        control=None,
        confidence=confidence,
        left=tuple(families),
        refuted=(),
        reasons=(reason,),
        shares=(1.0 / max(len(families), 1),) * len(families),
    )


def not_captured(left: Sequence[Replay]) -> list[str]:
    """What those left differ by that a capture without the connection's beginning does not have."""
    pieces = left[0].tape.compared.pieces
    if pieces.has_start or not len(pieces):
        return []
    asked = [each.candidate for each in left]
    has_none = not pieces.places_of["slow_start"].any()
    told = {
        "a slow start": has_none and len({each.slow_start for each in asked}) > 1,
        "the least round trip": any(each.is_by_delay for each in asked),
        "the last loss's window": any(each.is_by_last_loss for each in asked),
    }
    return [words for words, is_asked in told.items() if is_asked]


HIDDEN = Identified(control=None, confidence=0.0, left=(), refuted=(), reasons=())


def _row(each: Replay, confidence: float, *, against: str | None) -> dict[str, Any]:
    residual = each.residual
    return {
        "name": each.candidate.name,
        "variant": each.candidate.variant,
        "confidence": round(confidence, 3),
        "residual": None if residual is None else round(residual, 3),
        "against": against,
    }
