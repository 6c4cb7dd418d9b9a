"""Which congestion control sent this: every candidate replayed over the capture, and what it does not refute.

Who is asked, with which beginning, clock, gamma or slow start, and over which reading of the capture; the set that this
leaves is decided.py's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from tcptrace_lab.classify.control.answer.decided import NONE, Doubts, answer, best_of_families, decide
from tcptrace_lab.classify.control.answer.followed import (
    excused,
    grows_alone,
    is_followed,
    is_followed_from_avoidance,
    starts_throughout,
)
from tcptrace_lab.classify.control.answer.identified import HIDDEN, Identified
from tcptrace_lab.classify.control.bbr.by_rate import probes_of
from tcptrace_lab.classify.control.bbr.kept import gives_way, leaves_as_much
from tcptrace_lab.classify.control.candidates.candidates import Candidate, candidates, other_clocks, other_starts
from tcptrace_lab.classify.control.candidates.gamma import begins_as_seen, replays_of_gammas
from tcptrace_lab.classify.control.candidates.hearing import heard_to_the_end, replays, unheard
from tcptrace_lab.classify.control.candidates.likelihood import LEAST_NOISE_SEGMENTS, Replay
from tcptrace_lab.classify.control.readings.remembered import remembering
from tcptrace_lab.classify.control.readings.silences import excused_behind, silences
from tcptrace_lab.classify.control.shown.tape import Tape, Tapes
from tcptrace_lab.reconstruct.given import FEWEST_ALIKE, MAJORITY, ODD_SHARE
from tcptrace_lab.reconstruct.reconstruction import Reconstruction

# RFC 6928, where no first window is seen.
INITIAL_WINDOW = 10


def identify(
    seen: Reconstruction,
    *,
    initial_window: int | None,
    handshake_rtt_ns: int | None = None,
    recovery: str | None = None,
    chosen: Sequence[Candidate] = (),
    doubts: Doubts = NONE,
    shortest_ns: int | None = None,
) -> Identified:
    """The controls that a capture at the sender does not refute.

    `shortest_ns`: no round trip of the path is shorter, its handshake's included (None: not known).
    """
    if not len(seen.timeline.ack_ns) or not len(seen.timeline.send_ns):
        return HIDDEN
    rate = probes_of(seen)
    if doubts.is_holed and len(rate.probes) < 2:
        # Which ACKs released what was sent is not all seen: once may be a flight of a window's.
        rate = replace(rate, probes=())
    written = Tapes.of(seen, handshake_rtt_ns, recovery)
    asked, begins = tuple(chosen) or candidates(recovery), first_windows(seen, initial_window)
    if not written.shows_window:
        # Whatever anybody would have done, there is nothing to hold it against: nobody is replayed.
        told = decide(seen, unheard(asked, written.plain(), begins[0]), rate)
        return told if told.control is not None else told.or_bbr()
    read = written.read()
    # What came before a capture is looked for by what all of it tells.
    ask_all = partial(replays, asked, read, to_the_end=not seen.timeline.has_start)
    begun = [ask_all(each) for each in begins]
    # A first window that the table's slow starts do not begin with was not it.
    found = max(begun, key=lambda those: sum(each.starts_as_seen for each in those))
    if not _is_done(found):
        # Who was far ahead was not the one: nobody is refuted by that.
        found = heard_to_the_end(found)
    found = [*found, *remembering(seen, asked, found, written, shortest_ns=shortest_ns)]
    if not rate.is_bbr:
        # Whose rate was its own has no window to be another Compound's.
        found = [*found, *replays_of_others(found, asked, written)]
    found = list(map(excused, found))
    told = _by_what_was_heard(
        seen, found, partial(decide, seen, rate=rate, doubts=doubts), doubts, asked=asked, written=written
    )
    if told.left and told.control is not None and not rate.is_clocked and leaves_as_much(seen):
        # A window of a few segments that losses leave nearly as it was fits laws whose cuts are mild by chance.
        return replace(told, control=None).or_bbr("and segments left by a rate of their own, as BBR's do")
    if told.control is not None or not told.left:
        return told
    # BBR's window is not replayed; what its losses leave is known all the same.
    if gives_way(seen):
        return told
    if not any(map(_grows, told.left)):
        return told.or_bbr()
    return told if any(map(is_followed, told.left)) else told.or_bbr("nor was any law followed to the ACK")


def _by_what_was_heard(
    seen: Reconstruction,
    found: Sequence[Replay],
    ask: Callable[[Sequence[Replay]], Identified],
    doubts: Doubts,
    *,
    asked: Sequence[Candidate],
    written: Tapes,
) -> Identified:
    """What is decided of all that were replayed, and who may have been meant if a law that goes by delay heard other
    round trips than the capture has."""
    told = ask(found)
    if doubts.tick_ns and told.left:
        # It read them on its own host, and finer: that refutes nobody, and names none.
        by_delay = [each for each in asked if each.is_by_delay]
        sooner = replays(by_delay, written.read_sooner(doubts.tick_ns), found[0].initial_window, found)
        told = _with_those(told, [each for each in ask([*found, *sooner]).left if each.tape.is_sooner])
    if doubts.is_holed and len(silent := silences(seen)):
        # Nor does what it heard in a silence of the tap.
        others = [each for each in found if not each.candidate.is_by_delay]
        left = ask([*others, *excused_behind(silent, found)]).left
        told = _with_those(told, [each for each in left if each.candidate.is_by_delay and is_followed(each)])
    return told


def _with_those(told: Identified, others: Sequence[Replay]) -> Identified:
    """With others that may have been meant as well."""
    left = best_of_families([*told.left, *others])
    if len(left) == len(told.left):
        return told
    names = {each.candidate.name for each in left}
    refuted = [each for each in told.refuted if each.candidate.name not in names]
    return answer(left, refuted, (1 / len(left),) * len(left), is_whole=False)


def first_windows(seen: Reconstruction, known: int | None) -> list[int]:
    """With what a sender may have begun: where that is not told, as most do, or with what was outstanding."""
    timeline = seen.timeline
    if known is not None or not timeline.has_start:
        # Where the beginning is not in the capture the first window seen is taken over.
        return [known or INITIAL_WINDOW]
    answered = timeline.acks_before_send > int(np.argmax(timeline.newly_acked > 0))
    upto = int(np.argmax(answered)) if answered.any() else len(answered)
    sent = int(timeline.snd_max[max(upto - 1, 0)]) - min(timeline.first_offset, 0)
    return list(dict.fromkeys((INITIAL_WINDOW, max(-(-sent // timeline.smss), 1))))


def replays_of_others(found: Sequence[Replay], asked: Sequence[Candidate], written: Tapes) -> list[Replay]:
    """Of senders like those asked, where none of those did what was seen: other parameters or clocks, another slow
    start."""
    if not found:
        return []
    initial_window, is_done = found[0].initial_window, _is_done(found)
    ticking = [] if is_done else [other for each in asked for other in other_clocks(each)]
    clocks = replays(ticking, written.read(), initial_window, found) if ticking else []
    known = [*found, *clocks]
    gammas = [] if _is_done(known) else _of_gammas(asked, known, written.read())
    known = [*known, *gammas]
    is_done = _is_done(known)
    # Another may be followed but for its slow start, or for what that left: Veno behind a queue grows as a Reno that
    # counts ACKs. None of a family comes nearer than who is nowhere off by more than the least noise.
    exact = {each.candidate.name for each in known if (each.sizes <= LEAST_NOISE_SEGMENTS).all()} if is_done else set()
    others = [each for each in known if each.candidate.name not in exact]
    like = {each.candidate.variant for each in others if is_followed_from_avoidance(each)}
    if not is_done:
        like |= {each.variant for each in asked} - {each.candidate.variant for each in known if starts_throughout(each)}
    starting = [other for each in asked if each.variant in like for other in other_starts(each)]
    if not starting:
        return [*clocks, *gammas]
    tapes = written.read(ends_itself=True)
    starts = replays(starting, tapes, initial_window, known)
    more = [] if is_done or _is_done(starts) else _of_gammas(starting, starts, tapes)
    return [*clocks, *gammas, *starts, *more]


def _of_gammas(asked: Sequence[Candidate], known: Sequence[Replay], tapes: Sequence[Tape]) -> list[Replay]:
    """Other gammas, where no Compound of the document's is followed."""
    compounds = [each for each in known if "gamma" in each.candidate.parameters]
    rivals = [each for each in known if "gamma" not in each.candidate.parameters]
    is_found = any(
        is_followed(each) or (each.explained >= MAJORITY and grows_alone(each, rivals)) for each in compounds
    )
    if is_found or not any(map(begins_as_seen, compounds)):
        return []
    with_one = [each for each in asked if "gamma" in each.parameters]
    return replays_of_gammas(with_one, tapes, known[0].initial_window)


def _is_done(known: Sequence[Replay]) -> bool:
    """Whether one of them did what was seen.

    Of hundreds of pieces one is odd whoever sent them; in an odd one of Reno's a Compound's delay window may be open.
    """
    return any(
        is_followed(each) and each.unfit <= ODD_SHARE * len(each.sizes) * (each.candidate.window != "reno")
        for each in known
    )


def _grows(each: Replay) -> bool:
    """Whether a window is seen to grow again and again: a slow start doubles as BBR's Startup does."""
    return bool(np.count_nonzero(each.sizes_of("growth") <= 1.0) >= FEWEST_ALIKE)
