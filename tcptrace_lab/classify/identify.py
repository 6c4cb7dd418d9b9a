"""Which congestion control sent this: every candidate replayed over the capture, and what it does not refute.

The answer is a set. A candidate leaves it when what it would have done lies outside of what was sent by more than the
capture's own noise, again and again; the noise is that of the candidate that fits best. The evidence of one loss cycle
is bounded, so a single odd one refutes nobody. Where even the best does not follow what was sent, it is "unknown".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tcptrace_lab.classify.by_rate import ByRate, probes_of
from tcptrace_lab.classify.candidates import Candidate, candidates, others_of
from tcptrace_lab.classify.evidence import Misfit, misfits
from tcptrace_lab.classify.tape import Tape, tape
from tcptrace_lab.classify.traits import traits
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Floats

UNKNOWN = "unknown"
# RFC 6928, where the beginning is not in the capture: the first window seen is taken over anyway.
INITIAL_WINDOW = 10
# Student's t with two degrees of freedom: (1 + z^2)^-1.5. Large errors count by their logarithm.
TAIL = 1.5
# One loss cycle, one reduction: at most e^4 = 55 to 1 for or against anybody.
MOST_PER_PIECE = 4.0
# Odds of 100 to 1 against the best: refuted.
REFUTED = math.log(100.0)
# Least noise in segments: an ACK more or less per round trip moves a window by less than half a segment.
LEAST_NOISE_SEGMENTS = 0.35
# A law that was followed is off by a segment at most, and by a share of what it grew or was cut: K, w_max and the start
# of an epoch are each known to within a segment of some tens; a cut is arithmetic; in slow start a late ACK is a burst.
FITS_SEGMENTS = 1.0
FITS_SHARES = {"growth": 0.03, "reduction": 0.01, "slow_start": 0.1}
# Of the loss cycles (and of the reductions) the true law explains at least this share.
EXPLAINED = 0.5
# Below this share it may be another that is like it: no name is given.
SURELY_EXPLAINED = 0.9
# What is open is two standard deviations of a law that was followed; half of its errors are then within this ...
MEDIAN_OF_OPEN = 0.337
# ... give or take the standard error of that median over n pieces: 1 / (2 f(m) sqrt n) of the half-normal.
MEDIAN_ERROR = 0.394
# From this share on the document's parameters are taken for the sender's.
FOLLOWED = 0.8
FEWEST_UNFIT = 3
# A single disturbed loss cycle refutes nobody.
FEWEST_CLEAR = 2
# Where somebody fits well, many small errors refute as well: these odds, cubed.
ALL_ALONG = 3.0


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """A candidate with its misfits and their log likelihood; `residual`: the median misfit in units of what is open.

    `explained`: share of the loss cycles (or of the reductions, if less) that it follows; `unfit`: misfits beyond that.
    """

    candidate: Candidate
    tape: Tape
    initial_window: int
    misfits: tuple[Misfit, ...]
    log_likelihood: float
    residual: float | None
    explained: float
    unfit: int
    starts_as_seen: bool
    against: str | None

    def memory(self) -> dict[str, Floats]:
        """What the candidate held in mind after each row of its tape."""
        sender = self.candidate.sender(initial_window=self.initial_window, smss=self.tape.smss)
        return dict(self.tape.core.memory(sender))

    def cwnd(self) -> Floats:
        """Its window in bytes after each row."""
        found: Floats = self.tape.core.play(
            self.candidate.sender(initial_window=self.initial_window, smss=self.tape.smss)
        )[0]
        return found


@dataclass(frozen=True, kw_only=True)
class Identified:
    """`control`: the only family left, "unknown", or None. `left` and `refuted`: each family's best variant."""

    control: str | None
    confidence: float
    left: tuple[Replayed, ...]
    refuted: tuple[Replayed, ...]
    reasons: tuple[str, ...]
    # What a sender does that none of the table is.
    seen_instead: str | None = None

    def as_dicts(self) -> list[dict[str, Any]]:
        """The verdict's `candidates`: the set first."""
        shares = _shares(self.left)
        if self.control == "bbr":
            found = {
                "name": "bbr",
                "variant": "probes",
                "confidence": self.confidence,
                "residual": None,
                "against": None,
            }
            return [found, *(_row(replayed, 0.0) for replayed in self.refuted)]
        if self.control == UNKNOWN:
            row = {"name": UNKNOWN, "variant": None, "confidence": round(self.confidence, 3), "residual": None}
            return [{**row, "against": self.seen_instead}, *(_row(replayed, 0.0) for replayed in self.refuted)]
        return [_row(replayed, share) for replayed, share in zip(self.left, shares, strict=True)] + [
            _row(replayed, 0.0) for replayed in self.refuted
        ]


BY_RATE_AGAINST = "segments leave by a rate, not by ACKs, and the round trip is probed with four segments"
HIDDEN = Identified(control=None, confidence=0.0, left=(), refuted=(), reasons=())


def identify(
    seen: Reconstruction,
    *,
    initial_window: int | None,
    handshake_rtt_ns: int | None = None,
    recovery: str | None = None,
    chosen: Sequence[Candidate] = (),
) -> Identified:
    """The controls that a capture at the sender does not refute."""
    if not len(seen.timeline.ack_ns) or not len(seen.timeline.send_ns):
        return HIDDEN
    # Some stacks take the handshake for the first round trip, others do not: SYNs are shorter than segments.
    tapes = [tape(seen)] + ([tape(seen, handshake_rtt_ns=handshake_rtt_ns)] if handshake_rtt_ns else [])
    begins_with = initial_window or INITIAL_WINDOW
    asked = tuple(chosen) or candidates(recovery)
    replays = _replays(asked, tapes, begins_with)
    if not any(_is_followed(found) and _starts_as_seen(found) for _, _, found in replays):
        replays += _replays([other for each in asked for other in others_of(each)], tapes, begins_with)
    noise = _noise([found for _, _, found in replays])
    judged = [_judged(each, written, begins_with, found, noise) for each, written, found in replays]
    families = _best_of_families(judged)
    rate = probes_of(seen)
    if rate.probes and not rate.is_clocked:
        return _by_rate(seen, rate, families)
    if not families or not families[0].misfits:
        return Identified(
            control=None,
            confidence=0.0,
            left=tuple(families),
            refuted=(),
            reasons=("no window of its own is seen at work: nothing tells the controls apart",),
        )
    best = families[0]
    # Two odd loss cycles are no rule of their own.
    is_foreign = best.explained < EXPLAINED and best.unfit >= FEWEST_UNFIT and not _is_partly_followed(families)
    left = [] if is_foreign else [each for each in families if not _is_refuted(each, best)]
    out = [each for each in families if each not in left]
    return _answer(best, left, out, None if left else traits(best.tape, is_clocked=rate.is_clocked))


def _is_partly_followed(families: Sequence[Replayed]) -> bool:
    """Whether the nearest may yet be the one: every cut is its own, and growth that no other family has.

    A delay window that opens and closes hangs on single round trips: where one is read otherwise, or a parameter is
    not the table's, what comes behind it is off, though the law is that one.
    """
    best = families[0]
    is_ahead = len(families) < 2 or best.log_likelihood - families[1].log_likelihood > REFUTED
    followed = {part: [_size(each) <= 1.0 for each in best.misfits if each.part == part] for part in FITS_SHARES}
    return (
        best.candidate.is_by_delay
        and is_ahead
        and best.starts_as_seen
        and all(followed["reduction"])
        and min(sum(followed["growth"]), len(followed["reduction"])) >= FEWEST_CLEAR
    )


def _is_within_noise(each: Replayed) -> bool:
    """Whether its errors scatter, in every part, as those of a law that was followed: no constant part in them."""
    for part in FITS_SHARES:
        sizes = [abs(_size(misfit)) for misfit in each.misfits if misfit.part == part]
        if len(sizes) < FEWEST_UNFIT:
            continue
        if float(np.median(sizes)) > MEDIAN_OF_OPEN + MEDIAN_ERROR / math.sqrt(len(sizes)):
            return False
    return True


def _is_refuted(each: Replayed, best: Replayed) -> bool:
    """Much less likely than the best, and off by more than the capture leaves open, more than once; or all along."""
    behind = best.log_likelihood - each.log_likelihood
    is_off = each.unfit >= min(FEWEST_CLEAR, len(each.misfits))
    return behind > REFUTED and (is_off or (behind > ALL_ALONG * REFUTED and best.log_likelihood > -REFUTED))


def _replays(
    asked: Sequence[Candidate], tapes: Sequence[Tape], initial_window: int
) -> list[tuple[Candidate, Tape, tuple[Misfit, ...]]]:
    return [
        (each, written, _replay(written, each, initial_window))
        for each in asked
        for written in (tapes if each.is_by_delay else tapes[:1])
    ]


def _is_followed(found: Sequence[Misfit]) -> bool:
    sizes = [_size(misfit) for misfit in found]
    return sum(size <= 1.0 for size in sizes) >= FOLLOWED * len(sizes)


def _replay(written: Tape, candidate: Candidate, initial_window: int) -> tuple[Misfit, ...]:
    sender = candidate.sender(initial_window=initial_window, smss=written.smss)
    cwnd, ssthresh = written.core.play(sender)
    return misfits(written, cwnd, ssthresh)


def open_of(misfit: Misfit) -> float:
    """Segments that a law which was followed may be off."""
    return FITS_SEGMENTS + FITS_SHARES[misfit.part] * misfit.scale


def _size(misfit: Misfit) -> float:
    # The window is seen in whole segments, so a reduction is known to within one.
    error = max(abs(misfit.error) - 0.5, 0.0) if misfit.part == "reduction" else misfit.error
    return error / open_of(misfit)


def _noise(replays: Sequence[tuple[Misfit, ...]]) -> float:
    """The least median error of any candidate, as a share of what is open: the capture's own noise."""
    medians = [float(np.median([_size(misfit) for misfit in found])) for found in replays if found]
    return min(max(min(medians, default=1.0), LEAST_NOISE_SEGMENTS), 1.0)


def _judged(
    candidate: Candidate, written: Tape, initial_window: int, found: tuple[Misfit, ...], noise: float
) -> Replayed:
    sizes = np.array([_size(misfit) for misfit in found])
    pieces = np.minimum(TAIL * np.log1p((sizes / noise) ** 2), MOST_PER_PIECE)
    parts = [
        np.array([_size(misfit) <= 1.0 for misfit in found if misfit.part == part]) for part in ("growth", "reduction")
    ]
    explained = min((float(part.mean()) for part in parts if len(part)), default=1.0)
    return Replayed(
        candidate=candidate,
        tape=written,
        initial_window=initial_window,
        misfits=found,
        log_likelihood=-float(pieces.sum()),
        residual=float(np.median(sizes)) if len(sizes) else None,
        explained=explained,
        starts_as_seen=_starts_as_seen(found),
        unfit=int(np.count_nonzero(sizes > 1.0)),
        against=_against(found),
    )


def _starts_as_seen(found: Sequence[Misfit]) -> bool:
    own = [_size(misfit) <= 1.0 for misfit in found if misfit.part == "slow_start"]
    return len(own) < FEWEST_UNFIT or sum(own) >= EXPLAINED * len(own)


def _against(found: Sequence[Misfit]) -> str | None:
    """The part that speaks loudest against a candidate, with its numbers."""
    words = {"slow_start": "slow start", "growth": "growth in avoidance", "reduction": "reduction at a loss"}
    told = []
    for part, name in words.items():
        own = [misfit for misfit in found if misfit.part == part]
        bad = [misfit for misfit in own if _size(misfit) > 1.0]
        if bad:
            worst = sorted(bad, key=_size)[len(bad) // 2]
            told.append(
                (
                    float(np.sum([_size(misfit) for misfit in bad])),
                    f"{name}: {worst.expected:.1f} segments expected, {worst.observed:.1f} seen "
                    f"({len(bad)} of {len(own)})",
                )
            )
    return max(told)[1] if told else None


def _best_of_families(judged: Sequence[Replayed]) -> list[Replayed]:
    best: dict[str, Replayed] = {}
    for each in sorted(judged, key=lambda replayed: -replayed.log_likelihood):
        best.setdefault(each.candidate.name, each)
    return list(best.values())


def _by_rate(seen: Reconstruction, rate: ByRate, families: Sequence[Replayed]) -> Identified:
    """BBR: what the windows would have been speaks of nothing."""
    times = ", ".join(f"{seen.timeline.seconds(at):.2f}" for at in rate.probes)
    return Identified(
        control="bbr",
        confidence=rate.confidence,
        left=(),
        refuted=tuple(replace(each, against=BY_RATE_AGAINST) for each in families),
        reasons=(
            f"sent by a rate, not by ACKs, and held four segments in flight for 200 ms at {times} s: only bbr does",
        ),
    )


def _shares(left: Sequence[Replayed]) -> list[float]:
    if not left:
        return []
    logs = np.array([each.log_likelihood for each in left])
    weights = np.exp(logs - logs.max())
    return [float(share) for share in weights / weights.sum()]


def _row(replayed: Replayed, confidence: float) -> dict[str, Any]:
    return {
        "name": replayed.candidate.name,
        "variant": replayed.candidate.variant,
        "confidence": round(confidence, 3),
        "residual": None if replayed.residual is None else round(replayed.residual, 3),
        "against": replayed.against,
    }


def _answer(best: Replayed, left: Sequence[Replayed], out: Sequence[Replayed], traits_seen: str | None) -> Identified:
    if not left:
        return Identified(
            control=UNKNOWN,
            confidence=1.0 - best.explained,
            left=(),
            refuted=tuple(out),
            reasons=(
                f"no control of the table does what was seen; the nearest is {best.candidate.name}: {best.against}",
                f"seen instead: {traits_seen}",
            ),
            seen_instead=traits_seen,
        )
    shares = _shares(left)
    if len(left) == 1 and best.explained < SURELY_EXPLAINED and best.unfit >= FEWEST_UNFIT:
        words = f"{best.candidate.name} is nearest, but does not do all that was seen: {best.against}"
        return Identified(control=None, confidence=shares[0], left=tuple(left), refuted=tuple(out), reasons=(words,))
    if len(left) == 1 and not _is_within_noise(best):
        words = f"{best.candidate.name} is nearest, but is off by a little all along: it may be another that is like it"
        return Identified(control=None, confidence=shares[0], left=tuple(left), refuted=tuple(out), reasons=(words,))
    if len(left) == 1 and not best.starts_as_seen:
        name = best.candidate.name
        words = (
            f"after slow start only {name} ({best.candidate.variant}) does what was seen, but its slow start is another"
        )
        return Identified(control=None, confidence=shares[0], left=tuple(left), refuted=tuple(out), reasons=(words,))
    if len(left) == 1:
        rival = out[0] if out else None
        words = f"only {best.candidate.name} ({best.candidate.variant}) does what was seen"
        against = f"; against {rival.candidate.name}: {rival.against}" if rival is not None and rival.against else ""
        return Identified(
            control=best.candidate.name,
            confidence=shares[0],
            left=tuple(left),
            refuted=tuple(out),
            reasons=(words + against,),
        )
    names = ", ".join(each.candidate.name for each in left)
    return Identified(
        control=None,
        confidence=shares[0],
        left=tuple(left),
        refuted=tuple(out),
        reasons=(f"{names} would all have done what was seen",),
    )
