"""What a sender may remember from before a capture that begins in the middle of its connection.

A law that goes by delay holds every round trip against the least it ever had: one that is not in the capture, if the
queue never emptied in it; some also against the longest, which a slow start may have met that filled more of the queue.
One that goes back to the window of its last loss cuts and grows otherwise after a loss at a smaller one (fast
convergence). Each past that differs is a reading of its own: what the sender heard before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tcptrace_lab.classify.control.answer.followed import SIGNED_SHARE, is_followed
from tcptrace_lab.classify.control.candidates.candidates import Candidate
from tcptrace_lab.classify.control.candidates.gamma import nearest_of
from tcptrace_lab.classify.control.candidates.hearing import replays
from tcptrace_lab.classify.control.candidates.likelihood import Replay
from tcptrace_lab.classify.control.heard.marks import ACK, ARRIVAL, LOSS, RECOVERED, SET, Mark
from tcptrace_lab.classify.control.shown.tape import Tape, Tapes
from tcptrace_lab.reconstruct.reconstruction import Reconstruction

# From one reading to the next the remembered round trip is so much shorter, down to this part of the least seen: there
# the queue at its emptiest would hold half as much again as the path.
STEP_SHARE = 0.95
LEAST_SHARE = 0.4
# Round trips rose to the first that is seen in steps that no law takes for another path's (H-TCP: 20 ms).
RISES_NS = 10_000_000
# Of a path of more than ten seconds in longer ones.
MOST_STEPS = 1_000
# What laws that go by delay count in.
MICROSECOND_NS = 1_000
# A window at a loss that none in the capture reaches.
LARGER_FACTOR = 2
# The remembered queue is so much longer from one reading to the next, up to where the longest in the capture is none to
# it (Illinois: below a tenth), and then as near to the best as halvings of the step come: a cut hangs on it to 1/64.
LONGER_FACTOR = 1.25
LONGEST_FACTOR = 12.0
HALVINGS = 3
# Hybla's round trip of 25 ms, at which it is Reno, and the cents of a segment that it counts.
RTT0_NS = 25_000_000
CENTS = 128
# They are asked for so coarsely first, then by halves of that.
COARSE_CENTS = 8
# BIC's smoothed segments per ACK stay at any of so many where each ACK tells of one (tcp_bic.c shifts by four).
SIXTEENTHS = 16


def remembering(
    seen: Reconstruction,
    asked: Sequence[Candidate],
    known: Sequence[Replay],
    written: Tapes,
    *,
    shortest_ns: int | None,
) -> list[Replay]:
    """Those of a capture without its start, over every past that they would have remembered; `shortest_ns`: no round
    trip of the path is shorter (None: not known)."""
    if seen.timeline.has_start or not known or not len(known[0].sizes):
        return []
    found, heard = list(known), dict[int, list[Mark]]()
    lasting = list(_round_trips(seen, shortest_ns))
    for those, pasts in (
        ([each for each in asked if each.is_by_delay], lasting),
        *(([each], _ticks_apart(lasting, len(each.phases_ms))) for each in asked if each.looks_ahead),
        ([each for each in asked if each.is_by_last_loss], [_loss(seen)]),
    ):
        tapes = [(tape, past) for past in pasts for tape in written.behind(past)]
        heard.update((id(tape), past) for tape, past in tapes)
        found += replays(those, [tape for tape, _ in tapes], known[0].initial_window, found)
    for each in asked if len(lasting) > 1 else ():
        if each.is_by_delay:
            found += _finer(seen, each, found, written, heard)
    for each in asked:
        own = [other for other in found if other.candidate == each and len(seen.timeline.rtt[1])]
        if each.is_by_longest_delay and own and not any(map(is_followed, own)):
            best = nearest_of(own)
            found += _longer(seen, best, heard.get(id(best.tape), []), written, found)
        if each.window in COUNTS and own and ((best := nearest_of(own)).sizes > SIGNED_SHARE).any():
            for past in COUNTS[each.window].pasts(seen, heard.get(id(best.tape), [])):
                found += _counted(seen, best, past, written)
    return found[len(known) :]


def _finer(
    seen: Reconstruction, asked: Candidate, known: Sequence[Replay], written: Tapes, heard: dict[int, list[Mark]]
) -> list[Replay]:
    """The same sender if the round trip that it remembers lies between those asked for: by halves of their step, as
    long as its nearest is off, to the unit that its law counts in; beside all that come as near as that.

    What it takes to be queued is its window's part of the difference: of a hundred segments five to a step.
    """
    own, first_ns, step_ns = [each for each in known if each.candidate == asked], int(seen.timeline.rtt[1][0]), math.inf
    count = len(own)
    while own and step_ns >= MICROSECOND_NS and ((best := nearest_of(own)).sizes > SIGNED_SHARE).any():
        alike = [heard.get(id(each.tape), []) for each in own if np.array_equal(each.sizes, best.sizes)]
        begins = [past[0].rtt_ns if past else seen.base_rtt_ns for past in alike]
        step_ns = min(step_ns, (1.0 - STEP_SHARE) * max(begins)) / 2
        beside = {max(min(begins) - round(step_ns), 1), min(max(begins) + round(step_ns), seen.base_rtt_ns)}
        pasts = [rising(seen, each, max(first_ns, each + 1)) for each in sorted(beside.difference(begins))]
        tapes = [(tape, past) for past in pasts for tape in written.behind(past) if tape.opens == best.tape.opens]
        heard.update((id(tape), past) for tape, past in tapes)
        own += replays([asked], [tape for tape, _ in tapes], best.initial_window, [*known, *own[count:]])
    return own[count:]


def _counted(seen: Reconstruction, best: Replay, past: Sequence[Mark], written: Tapes) -> list[Replay]:
    """The same sender if it begins with another count of what it counts through losses too, beside its `past`."""
    count_of = COUNTS[best.candidate.window]
    found: dict[int, Replay] = {}

    def ask(some: Iterable[int]) -> None:
        tapes = {
            id(tape): (count, tape)
            for count in (each % count_of.most for each in some)
            for tape in written.behind([*past, *count_of.behind(seen, past, count)])
        }
        # By themselves: with the wrong count it is off all along.
        for each in replays([best.candidate], [tape for _, tape in tapes.values()], best.initial_window):
            count = tapes[id(each.tape)][0]
            found[count] = nearest_of([each, found[count]]) if count in found else each

    ask(range(0, count_of.most, count_of.coarse))
    step = count_of.coarse // 2
    while step and found:
        nearest = nearest_of(list(found.values()))
        count = next(key for key, each in found.items() if each is nearest)
        ask((count - step, count + step))
        step //= 2
    return list(found.values())


def _near_rho(seen: Reconstruction, past: Sequence[Mark]) -> list[list[Mark]]:
    """Hybla's rho is counted in eighths: as remembered, and one less or more."""
    eighths = _eighths(past[0].rtt_ns if past else seen.base_rtt_ns)
    # In the middle of each.
    times = [(2 * each + 1) * RTT0_NS // 16 for each in range(max(eighths - 1, 8), eighths + 2)]
    return [[_arrival(seen, rtt_ns)] for rtt_ns in times]


def _eighths(rtt_ns: int) -> int:
    return max(8 * rtt_ns // RTT0_NS, 8)


def _cents(seen: Reconstruction, past: Sequence[Mark], count: int) -> list[Mark]:
    """ACKs by which Hybla counts so many of its fractions: 2 (8 rho)^2 / cwnd for each."""
    eighths, found = _eighths(past[0].rtt_ns), list[Mark]()
    for step, times in ((COARSE_CENTS, count // COARSE_CENTS), (count % COARSE_CENTS, 1)):
        if step and times:
            window = float(2 * eighths**2 // step * seen.timeline.smss)
            found.append(Mark(ack=-1, event=SET, now_ns=seen.timeline.start_ns, cwnd=window, ssthresh=window))
            found += [replace(past[0], event=ACK, flight_size=window)] * times
    return found


def _as_it_is(seen: Reconstruction, past: Sequence[Mark]) -> list[Sequence[Mark]]:
    return [past]


def _smoothed(seen: Reconstruction, past: Sequence[Mark], count: int) -> list[Mark]:
    """Duplicates, each with the ACK behind it, by so many of which BIC's smoothed segments per ACK came down to where
    they stay."""
    acked = _arrival(seen, -1)
    return [acked, *[replace(acked, newly_acked=0.0), acked] * count]


@dataclass(frozen=True, kw_only=True)
class Count:
    """So many there are, asked for first so coarsely; `behind`: what leads to one of them, behind each of `pasts`."""

    most: int
    coarse: int
    pasts: Callable[[Reconstruction, Sequence[Mark]], Sequence[Sequence[Mark]]]
    behind: Callable[[Reconstruction, Sequence[Mark], int], list[Mark]]


COUNTS = {
    "hybla": Count(most=CENTS, coarse=COARSE_CENTS, pasts=_near_rho, behind=_cents),
    "bic": Count(most=SIXTEENTHS, coarse=1, pasts=_as_it_is, behind=_smoothed),
}


def _longer(
    seen: Reconstruction, best: Replay, past: Sequence[Mark], written: Tapes, known: Sequence[Replay]
) -> list[Replay]:
    """The same sender if it remembers a longer round trip than any in the capture too, beside its `past`."""
    least, most = past[0].rtt_ns if past else seen.base_rtt_ns, int(seen.timeline.rtt[1].max())
    found: dict[float, Replay] = {}
    if most <= least:
        return []

    def ask(factors: Sequence[float]) -> None:
        tapes: dict[int, tuple[float, Tape]] = {}
        for factor in factors:
            longest = least + round((most - least) * factor)
            behind = written.behind([*rising(seen, least, longest), _arrival(seen, longest)])
            tapes.update((id(tape), (factor, tape)) for tape in behind if tape.opens == best.tape.opens)
        for each in replays([best.candidate], [tape for _, tape in tapes.values()], best.initial_window, known):
            factor = tapes[id(each.tape)][0]
            found[factor] = nearest_of([each, found[factor]]) if factor in found else each

    ask([LONGER_FACTOR**each for each in range(round(math.log(LONGEST_FACTOR, LONGER_FACTOR)) + 1)])
    for halving in range(HALVINGS if found else 0):
        factor, step = (
            next(key for key, each in found.items() if each is nearest_of(list(found.values()))),
            LONGER_FACTOR,
        )
        ask([factor * step ** (sign * 0.5 ** (halving + 1)) for sign in (-1, 1)])
    return list(found.values())


def _round_trips(seen: Reconstruction, shortest_ns: int | None) -> Iterator[list[Mark]]:
    """From the least round trip in the capture, or a shorter one, up to the first in it."""
    samples = seen.timeline.rtt[1]
    if not len(samples):
        return
    least, share = float(seen.base_rtt_ns), 1.0
    last = shortest_ns or LEAST_SHARE * least
    while share * least > last and share * least >= 1:
        begin = int(share * least)
        yield rising(seen, begin, max(int(samples[0]), begin + 1))
        share *= STEP_SHARE
    if last >= 1:
        yield rising(seen, int(last), max(int(samples[0]), int(last) + 1))


def _ticks_apart(pasts: Sequence[list[Mark]], tick_ms: int) -> list[list[Mark]]:
    """Of those that a clock of such ticks takes for the same one each."""
    return list({past[0].rtt_ns // (tick_ms * 1_000_000): past for past in pasts}.values())


def rising(seen: Reconstruction, begin: int, end: int) -> list[Mark]:
    """Round trips from the one up to the other."""
    return [_arrival(seen, rtt_ns) for rtt_ns in range(begin, end, max(RISES_NS, (end - begin) // MOST_STEPS))]


def _arrival(seen: Reconstruction, rtt_ns: int) -> Mark:
    timeline = seen.timeline
    return Mark(ack=-1, event=ARRIVAL, now_ns=timeline.start_ns, rtt_ns=rtt_ns, newly_acked=float(timeline.smss))


def _loss(seen: Reconstruction) -> list[Mark]:
    """A loss at a window larger than any in the capture, and the end of its recovery."""
    window, now_ns = float(LARGER_FACTOR * seen.flight.max()), seen.timeline.start_ns
    return [
        Mark(ack=-1, event=LOSS, now_ns=now_ns, cwnd=window, flight_size=window),
        Mark(ack=-1, event=RECOVERED, now_ns=now_ns),
    ]
