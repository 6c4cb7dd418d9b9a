"""Which control it was where the window shows at the losses alone: from each loss to the next, by itself.

Away from the sender, behind a queue that never runs empty and without timestamps, segments arrive as the bottleneck
sends them, whatever window let them leave. What was outstanding at a loss is known all the same: the order of what was
sent tells it, and which ACK asked for the retransmission. A candidate begins with that, cuts by its own law, grows with
the ACKs seen, at the round trips that its own window makes (core/src/infer/candidates/own_times.rs), and must have at
the next loss what was outstanding then.

Who goes by delay hears round trips that a recovery, and what it times, make here otherwise than there: it leaves the
set only where it is off by far.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from tcptrace_lab.classify.control.candidates import Candidate, candidates, other_clocks
from tcptrace_lab.classify.control.compared import Compared, Piece
from tcptrace_lab.classify.control.epoch import Epoch
from tcptrace_lab.classify.control.evidence import Misfits
from tcptrace_lab.classify.control.heard import Heard
from tcptrace_lab.classify.control.identified import HIDDEN, Identified
from tcptrace_lab.classify.control.identify import INITIAL_WINDOW
from tcptrace_lab.classify.control.likelihood import Replay, open_of
from tcptrace_lab.classify.control.marks import LOSS, SET, Mark
from tcptrace_lab.classify.control.tape import Tape, Tapes, clock_zero_ns
from tcptrace_lab.reconstruct.given import FEWEST_ALIKE, MINORITY
from tcptrace_lab.reconstruct.losses import DUP_THRESH, Episode
from tcptrace_lab.reconstruct.phases import Stretch
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Floats

# Who goes by delay may be off by so many times what is open to the others.
DELAY_FACTOR = 3.0
# Off by more than is open so many times more often than the best: out, by delay or not. Once it may be a recovery that
# was disturbed, and its echo the next cycle of who goes by delay.
FEWEST_MORE = {False: 2, True: FEWEST_ALIKE}


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
        timeline = self.heard.timeline
        events = [episode for episode in self.heard.seen.episodes if episode.is_loss]
        for number, (before, loss) in enumerate(pairwise(events)):
            if before.restarts or loss.restarts or loss.follows or {id(before), id(loss)} & self.heard.unsettled:
                continue
            asked = int(timeline.acks_before_send[loss.first_send]) - 1
            is_known = asked > 0 and timeline.slack[asked - 1] < timeline.smss
            if is_known and loss.flight + timeline.smss <= timeline.rwnd[asked]:
                least, most = self.heard.least_before(loss) / self.smss, loss.flight / self.smss
                yield Piece(
                    part="cycle",
                    ack=asked,
                    stretch=number,
                    open=most - least,
                    mark=self.heard.before_mark[id(loss)],
                    observed=most,
                    scale=most,
                )


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
                played = _replay(each, tape, phase_ms * 1_000_000)
                if each.name not in best or _rank(played) < _rank(best[each.name]):
                    best[each.name] = played
    families = sorted(best.values(), key=_rank)
    if min(map(_off, families)) > max(MINORITY * len(compared.pieces), 1):
        return HIDDEN
    left = tuple(each for each in families if each.unfit - families[0].unfit < FEWEST_MORE[each.candidate.is_by_delay])
    out = tuple(each for each in families if each not in left)
    names = ", ".join(each.candidate.name for each in left)
    is_told = len(left) == 1 and not left[0].candidate.is_by_delay and _are_several(left[0])
    found = Identified(
        control=left[0].candidate.name if is_told else None,
        confidence=1.0 / len(left),
        left=left,
        refuted=out,
        reasons=(f"by what was outstanding at {len(compared.pieces)} losses alone: {names} would have had it",),
        shares=(1.0 / len(left),) * len(left),
    )
    return found if is_told else found.or_bbr()


def _replay(candidate: Candidate, tape: Tape, later_ns: int) -> Replay:
    pieces = tape.compared.pieces
    sender = candidate.sender(initial_window=INITIAL_WINDOW, smss=tape.smss)
    timeline = tape.compared.heard.timeline
    begins_ns = int(timeline.send_ns[0]) - clock_zero_ns(timeline)
    cwnd = tape.core.play_by_itself(sender, begins_ns=begins_ns, later_ns=later_ns)
    expected: Floats = cwnd[tape.row_of_mark[pieces.reductions.mark]] / tape.smss
    # Of the window whole segments are seen.
    error = expected - np.clip(expected, pieces.observed, pieces.observed + 1.0)
    opened = open_of(tape) * (DELAY_FACTOR if candidate.is_by_delay else 1.0)
    return Replay(
        candidate=candidate,
        tape=tape,
        initial_window=INITIAL_WINDOW,
        later_ns=later_ns,
        misfits=Misfits(error=error, expected=expected),
        sizes=np.abs(error) / opened,
    )


def _off(each: Replay) -> int:
    """At how many losses it is off by more than is open to any."""
    return int(np.count_nonzero(each.sizes * (DELAY_FACTOR if each.candidate.is_by_delay else 1.0) > 1.0))


def _are_several(each: Replay) -> bool:
    """Whether its cycles are no one cycle over and over, which another law comes by chance to the same end of."""
    pieces = each.tape.compared.pieces
    return len(pieces) >= FEWEST_ALIKE and bool(np.ptp(pieces.observed) > 2 * open_of(each.tape).max())


def _rank(each: Replay) -> tuple[int, float]:
    return each.unfit, float(each.sizes.sum())
