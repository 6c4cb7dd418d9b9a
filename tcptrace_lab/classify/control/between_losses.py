"""Which control it was where the window shows at the losses alone: from each loss to the next, by itself.

Away from the sender, behind a queue that never runs empty and without timestamps, segments arrive as the bottleneck
sends them, whatever window let them leave. What was outstanding at a loss is known all the same: the order of what was
sent tells it, and which ACK asked for the retransmission. A candidate begins with that, cuts by its own law, grows with
the ACKs seen, at the round trips that its own window makes (core/src/infer/candidates/own_times.rs), and must have at
the next loss what was outstanding then.

A law that was followed comes to the segment, cycle after cycle. Another may come near in one cycle, and then again in
every one that is like it: such a cycle over and over is one piece of evidence, however often it is seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from tcptrace_lab.classify.control.candidates import Candidate, candidates, other_clocks
from tcptrace_lab.classify.control.compared import Compared, Piece
from tcptrace_lab.classify.control.epoch import Epoch
from tcptrace_lab.classify.control.evidence import Misfits
from tcptrace_lab.classify.control.heard import Heard
from tcptrace_lab.classify.control.identified import HIDDEN, Identified
from tcptrace_lab.classify.control.identify import CLEAR_OF_NOISE, INITIAL_WINDOW
from tcptrace_lab.classify.control.likelihood import (
    FITS_SEGMENTS,
    FITS_SHARES,
    MOST_PER_PIECE,
    NOISE_SHARE,
    REFUTED,
    TAIL,
    Replay,
    log_likelihood,
    open_of,
)
from tcptrace_lab.classify.control.marks import LOSS, SET, Mark
from tcptrace_lab.classify.control.tape import Tape, Tapes, clock_zero_ns
from tcptrace_lab.reconstruct.given import FEWEST_ALIKE, MINORITY
from tcptrace_lab.reconstruct.losses import DUP_THRESH, Episode
from tcptrace_lab.reconstruct.phases import Stretch
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Floats, Ints

# Off by more than is open so many times more often than the best: out. Once it may be a recovery that was disturbed,
# and its echo the next cycle of who goes by delay.
FEWEST_MORE = {False: 2, True: FEWEST_ALIKE}
# A twentieth of what is open, a segment and a little, is nothing: windows are counted in whole segments.
LEAST_NOISE_SHARE = 0.05
# Limited transmit (RFC 3042; RFC 6675's pipe does the same) sends a segment for each of the first duplicate ACKs beyond
# the window, or a stack does not: the same number at every loss.
TRANSMITTED = range(DUP_THRESH)
# A law that was followed comes nearer than by half of what is open.
EXACT_SHARE = 0.5
# Another is off by more than what windows, counted in whole segments, are read off by.
EXACT_SEGMENTS = 0.5
# Cycles of so many kinds are told apart; each one beyond them is one of its own.
MOST_KINDS = 64


class HeardAtLosses(Heard):
    """What a control heard of a sender that nothing but its window held back, of which losses alone show the window."""

    def __init__(self, seen: Reconstruction) -> None:
        # Where a candidate's own window is read before it hears of a loss.
        self.before_mark: dict[int, int] = {}
        super().__init__(seen, None)
        self.limited = np.ones_like(self.limited)

    def _begin(self, number: int, part: Stretch) -> None:
        return

    def _mark_loss(self, episode: Episode, known: int, event: int, *, is_within: bool) -> None:
        self.before_mark[id(episode)] = self._add(Mark(ack=known - 1, event=SET, now_ns=episode.time_ns))
        super()._mark_loss(episode, known, event, is_within=is_within)
        if event == LOSS and not episode.follows and id(episode) not in self.unsettled:
            mark = self.marks[self.loss_mark[id(episode)]]
            mark.cwnd, mark.flight_size = self.least_before(episode), float(episode.flight)
            mark.more, mark.more_flight, mark.less = mark.flight_size - mark.cwnd, 0.0, 0.0

    def least_before(self, episode: Episode) -> float:
        """The least window, in bytes, with which so much is outstanding: limited transmit (RFC 3042) adds to it."""
        transmitted = (DUP_THRESH - 1) * self.timeline.smss
        return float(min(episode.window_before, max(episode.flight - transmitted, self.timeline.smss)))


class Cycles(Compared):
    """From loss to loss: what stands for each cycle is the window at its end."""

    heard: HeardAtLosses

    def __init__(self, seen: Reconstruction) -> None:
        super().__init__(HeardAtLosses(seen))

    @property
    def epochs(self) -> tuple[Epoch, ...]:
        """No ACK between two losses shows a window."""
        return ()

    def evidence(self) -> Iterator[Piece]:
        """Of losses at which what was outstanding is known to the segment, and was the window."""
        heard, timeline = self.heard, self.heard.timeline
        events = [episode for episode in heard.seen.episodes if episode.is_loss]
        is_told = {
            id(loss): _is_told(heard, before, loss) for before, loss in zip([None, *events], events, strict=False)
        }
        for number, (before, loss) in enumerate(pairwise(events)):
            if before.restarts or loss.follows or not (is_told[id(before)] and is_told[id(loss)]):
                continue
            observed = loss.flight / self.smss
            yield Piece(
                part="cycle",
                ack=int(timeline.acks_before_send[loss.first_send]) - 1,
                stretch=number,
                mark=heard.before_mark[id(loss)],
                observed=observed,
                scale=observed,
            )


def _is_told(heard: HeardAtLosses, before: Episode | None, loss: Episode) -> bool:
    """Whether what was outstanding at a loss is known to the segment, and was the window: the ACK that asked for its
    first retransmission is the one that tells of three segments above the hole; what was lost left after the recovery
    before was over, so that a whole window has."""
    timeline = heard.timeline
    asked = int(timeline.acks_before_send[loss.first_send]) - 1
    # ACKs of other numbers than the data's leave less than nothing outstanding.
    if asked < 1 or loss.flight <= 0 or loss.restarts or id(loss) in heard.unsettled:
        return False
    if timeline.slack[asked - 1] >= timeline.smss:
        return False
    if before is not None and loss.una - before.recover < loss.flight:
        return False
    above = timeline.delivered[asked - 1 : asked + 1] - timeline.snd_una[asked - 1 : asked + 1]
    is_third = above[1] >= DUP_THRESH * timeline.smss > above[0]
    return bool(is_third and loss.flight + timeline.smss <= timeline.rwnd[asked])


def identify_between_losses(seen: Reconstruction, *, chosen: Sequence[Candidate] = ()) -> Identified:
    """The controls that go from loss to loss as the sender did; nobody, where too few losses tell, or none does."""
    compared = Cycles(seen)
    if len(compared.pieces) < FEWEST_MORE[False]:
        return HIDDEN
    asked = tuple(chosen) or candidates()
    asked = (*asked, *(other for each in asked for other in other_clocks(each)))
    best: dict[str, Replay] = {}
    for tape in Tapes(compared).read():
        for each in asked:
            for phase_ms in each.phases_ms:
                played = min(_replays(each, tape, phase_ms * 1_000_000), key=_rank)
                if each.name not in best or _rank(played) < _rank(best[each.name]):
                    best[each.name] = played
    families = sorted(best.values(), key=_rank)
    if families[0].unfit > max(MINORITY * len(compared.pieces), 1):
        return HIDDEN
    kinds = _kinds(families[0])
    left = tuple(each for each in families if not _is_refuted(each, families[0], kinds))
    out = tuple(each for each in families if each not in left)
    names = ", ".join(each.candidate.name for each in left)
    is_told = len(left) == 1 and is_exact(left[0]) and _are_telling(left[0], kinds)
    found = Identified(
        control=left[0].candidate.name if is_told else None,
        confidence=1.0 / len(left),
        left=left,
        refuted=out,
        reasons=(f"by what was outstanding at {len(compared.pieces)} losses alone: {names} would have had it",),
        shares=(1.0 / len(left),) * len(left),
    )
    return found if is_told else found.or_bbr()


def _replays(candidate: Candidate, tape: Tape, later_ns: int) -> Iterator[Replay]:
    """One play, for each number of segments that limited transmit may have added to what was outstanding."""
    pieces = tape.compared.pieces
    sender = candidate.sender(initial_window=INITIAL_WINDOW, smss=tape.smss)
    timeline = tape.compared.heard.timeline
    begins_ns = int(timeline.send_ns[0]) - clock_zero_ns(timeline)
    cwnd = tape.core.play_by_itself(sender, begins_ns=begins_ns, later_ns=later_ns)
    expected: Floats = cwnd[tape.row_of_mark[pieces.reductions.mark]] / tape.smss
    for transmitted in TRANSMITTED:
        # Of the window whole segments are seen.
        seen = pieces.observed - transmitted
        error = expected - np.clip(expected, seen, seen + 1.0)
        yield Replay(
            candidate=candidate,
            tape=tape,
            initial_window=INITIAL_WINDOW,
            later_ns=later_ns,
            misfits=Misfits(error=error, expected=expected),
            sizes=np.abs(error) / open_of(tape),
        )


def _rank(each: Replay) -> tuple[int, float]:
    return each.unfit, -log_likelihood(each.sizes, LEAST_NOISE_SHARE, math.inf)


def _kinds(each: Replay) -> Ints:
    """Which cycles are alike, in where they begin and where they end."""
    end = each.tape.compared.pieces.observed
    begin, near = np.append(end[:1], end[:-1]), open_of(each.tape)
    found = np.full(len(end), -1, dtype=np.int64)
    for kind in range(MOST_KINDS):
        rest = np.flatnonzero(found < 0)
        if not len(rest):
            return found
        first = rest[0]
        is_like = (np.abs(begin[rest] - begin[first]) <= near[first]) & (np.abs(end[rest] - end[first]) <= near[first])
        found[rest[is_like]] = kind
    rest = np.flatnonzero(found < 0)
    found[rest] = MOST_KINDS + np.arange(len(rest))
    return found


def _is_refuted(each: Replay, best: Replay, kinds: Ints) -> bool:
    if each.unfit - best.unfit >= FEWEST_MORE[each.candidate.is_by_delay]:
        return True
    noise = max(float(np.quantile(best.sizes, NOISE_SHARE)), LEAST_NOISE_SHARE)
    # Where the best is off nowhere: once by so much that chance would have brought a disturbed cycle to where the best
    # is once in a hundred times.
    if not best.unfit and bool((math.exp(REFUTED) * (best.sizes + noise) < each.sizes).any()):
        return True
    told = TAIL * (np.log1p((each.sizes / noise) ** 2) - np.log1p((best.sizes / noise) ** 2))
    told = np.bincount(kinds, np.clip(told, -MOST_PER_PIECE, MOST_PER_PIECE)) / np.bincount(kinds)
    is_clear = (each.sizes > best.sizes + CLEAR_OF_NOISE * noise) & (np.abs(each.misfits.error) > EXACT_SEGMENTS)
    return bool(told.sum() > REFUTED and np.count_nonzero(is_clear) >= FEWEST_ALIKE)


def is_exact(each: Replay) -> bool:
    """Whether it came to the segment, cycle after cycle."""
    odd = np.count_nonzero(each.sizes > EXACT_SHARE)
    return len(each.sizes) >= FEWEST_ALIKE and bool(odd <= round(MINORITY * len(each.sizes)))


def _are_telling(each: Replay, kinds: Ints) -> bool:
    """Whether its cycles are several, and no one cycle over and over, which another law comes by chance to the same end
    of: but for one so long that its end is read finer than laws are told apart by."""
    share = FITS_SHARES["cycle"] * each.tape.compared.pieces.observed
    is_fine = bool(np.median(share) >= FITS_SEGMENTS)
    return is_fine or int(kinds.max()) > 0
