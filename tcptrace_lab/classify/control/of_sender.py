"""Which control a sender's was, with what its tap tells and hides: the one way to it for verdicts and tables."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial

import numpy as np

from tcptrace_lab.classify.control.answer.decided import Doubts
from tcptrace_lab.classify.control.answer.followed import is_followed, is_followed_to_the_ack
from tcptrace_lab.classify.control.answer.identified import HIDDEN, UNKNOWN, Identified
from tcptrace_lab.classify.control.at_losses.between_losses import identify_between_losses, is_exact
from tcptrace_lab.classify.control.bbr.by_rate import is_clocked
from tcptrace_lab.classify.control.readings.identify import identify
from tcptrace_lab.classify.control.readings.silences import silences
from tcptrace_lab.classify.obstacles import TICKS_PER_ROUND, least_rtt_ns
from tcptrace_lab.classify.path.path import PathEstimate
from tcptrace_lab.classify.sender.initial_window import initial_window
from tcptrace_lab.classify.sender.recovery import SenderTcp
from tcptrace_lab.classify.sender.written import does_not_grow
from tcptrace_lab.reconstruct.away.sender_view import MOST_OPEN
from tcptrace_lab.reconstruct.given import FEWEST_ALIKE
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import Sender
from tcptrace_lab.reconstruct.tap.clock import ROUNDING_NS, Clock
from tcptrace_lab.reconstruct.tap.passed_over import unseen_losses
from tcptrace_lab.reconstruct.timeline import Bools

# Of a window the mildest reduction of the table leaves this much (Scalable, YeAH, Illinois).
MILDEST_SHARE = 0.875


class Unheld(Reconstruction):
    """One whose flight is taken for its window wherever that seems to be the limit, also where it stands."""

    @cached_property
    def stands(self) -> Bools:
        return np.zeros(len(self.timeline.ack_ns), dtype=bool)


def identify_sender(seen: Reconstruction, who: Sender, tcp: SenderTcp, path: PathEstimate | None) -> Identified:
    """The controls left standing, with what the tap tells of the beginning; `path`: where that is not captured."""
    refused, view = who.tap.refuses("control"), who.view
    is_open = view is not None and view.unsure > MOST_OPEN
    if refused:
        return replace(HIDDEN, reasons=(refused,))
    is_holed = who.tap.is_holed and not _misses_nothing(seen, who)
    ask = partial(
        identify,
        # What was sent first, whether or not that was the connection's beginning.
        initial_window=initial_window(seen, who.handshake_rtt_s),
        recovery=tcp.recovery,
        handshake_rtt_ns=_handshake_rtt_ns(who) or _unseen_handshake_ns(seen, path),
        doubts=Doubts(
            is_holed=is_holed or who.tap.is_coarse or (view is not None and view.is_inferred),
            is_rough=who.tap.blurs_times
            or is_open
            or _beside_holes(seen, who)
            or not who.tap.clock.tells(least_rtt_ns(seen), ticks=TICKS_PER_ROUND),
            # Between two anchors of a rhythm the flight is taken to change evenly, as no law that goes by delay has to.
            is_untimed=who.tap.hides_blocks or (view is not None and view.is_inferred),
            tick_ns=_unread_ns(who.tap.clock),
        ),
        # A base round trip that is bounded from below was met at a load that leaves no queue.
        shortest_ns=_short_rtt_ns(seen, path)
        if who.place == "sender" and path is not None and path.base_rtt_s.low is not None
        else None,
    )
    if seen.stands.any() and sum(episode.is_loss for episode in seen.episodes) >= FEWEST_ALIKE:
        # A window that delay holds stands as well. That it comes back from each loss to where its own law has it stand,
        # to the segment, is no chance; that it stands there once may be.
        found = ask(Unheld(seen.timeline))
        best = found.left[0] if found.control is not None and found.left else None
        if best is not None and best.candidate.is_by_delay and is_followed_to_the_ack(best):
            return found
    found = ask(seen)
    reason = no_evidence(tcp, found, seen)
    if reason is not None:
        return found.opened(reason).or_bbr()
    if seen.is_rwnd_limited and found.left and found.control is None and not found.may_be_bbr:
        return found.or_bbr("where the receiver's window hid its own most of the time")
    return found


def _misses_nothing(seen: Reconstruction, who: Sender) -> bool:
    """Whether of what the tap lost all is data that passed in its order, and no silence was in which it did."""
    return not (who.tap.tap_lost_acks or len(unseen_losses(seen.timeline, seen.episodes)) or len(silences(seen)))


def _beside_holes(seen: Reconstruction, who: Sender) -> bool:
    """Whether the tap lost packets beside every loss: whether one restarted its sender, or cut its window, is told of
    none, and a law is held against reductions that were others."""
    return who.tap.is_holed and bool(seen.episodes) and not any(each.sure for each in seen.episodes)


def _handshake_rtt_ns(who: Sender) -> int | None:
    return None if who.handshake_rtt_s is None else round(who.handshake_rtt_s * 1e9)


def _unseen_handshake_ns(seen: Reconstruction, path: PathEstimate | None) -> int | None:
    """What the handshake took where the beginning is captured without it."""
    return _short_rtt_ns(seen, path) if seen.timeline.has_start and seen.base_rtt_ns else None


def _short_rtt_ns(seen: Reconstruction, path: PathEstimate | None) -> int:
    """The least round trip, but for the time in which the bottleneck sends a full segment, as SYNs are short."""
    rate = None if path is None else path.bottleneck_pps.value
    segment_ns = round(1e9 / rate) if rate else 0
    taken = seen.base_rtt_ns - segment_ns
    return taken if taken > 0 else seen.base_rtt_ns


def _unread_ns(clock: Clock) -> int:
    """By how much a round trip may have been shorter than its stamps say, beyond what a format rounds."""
    ticks = clock.resolution_ns if clock.resolution_ns > ROUNDING_NS else 0
    return max(ticks, clock.stalled_ns)


def no_evidence(tcp: SenderTcp, identified: Identified, seen: Reconstruction) -> str | None:
    """Why what its losses did to the window tells no control from another; None: it does.

    None but BBR keeps its window. That it is none of the known ones is said only where it is not BBR's rate either.
    """
    if identified.control == "bbr" or not (identified.left or identified.refuted):
        return None
    is_held = not seen.is_rwnd_limited and does_not_grow(seen)
    if identified.control is None and identified.refuted and is_held:
        return "nothing was lost, and what was outstanding did not grow: something else than its window held it back"
    kept = 0.0 if tcp.decrease is None else tcp.decrease
    if kept >= 1.0 or (identified.control == UNKNOWN and kept > MILDEST_SHARE):
        return f"a loss leaves {kept:.0%} of its window (median): it does not go by losses as the table's controls do"
    if identified.control == UNKNOWN and not is_clocked(seen):
        # Beside another flow no cycle of its need follow another.
        return "its segments left by a rate of their own, as BBR's do"
    if identified.control == UNKNOWN and seen.episodes and not _grows_between_losses(seen):
        # Linux's BBR keeps to the rate that a policer leaves it for 48 round trips, and probes for none.
        return "what was outstanding did not grow between its losses, as where a sender keeps to a rate"
    return None


def opened_where_held(found: Identified, seen: Reconstruction) -> Identified:
    """Of a sender whose times are not known: the same, but for one that something else than its window held back."""
    if seen.is_rwnd_limited:
        return found.opened("the receiver's window held it back most of the time: its own is seen in parts only")
    if found.left and found.left[0].candidate.is_by_delay and not _grows_between_losses(seen):
        # A law that delay holds would stand so too.
        reason = "what was outstanding did not grow between its losses: an application's pace does the same"
        return found.opened(reason).or_bbr()
    return found


def _grows_between_losses(seen: Reconstruction) -> bool:
    """Whether more is outstanding in the second half of a stretch between losses than in the first, on average: what
    losses take of a window has to grow again."""
    stretches = [part for part in seen.stretches if part.begin == "recovery" and part.episode is not None]
    halves = [
        np.array_split(seen.flight[part.first : part.last + 1], 2) for part in stretches if part.last > part.first
    ]
    grown = [np.median(second) - np.median(first) for first, second in halves]
    return not grown or bool(np.mean(grown) >= seen.timeline.smss)


def identify_by_rhythm(by_flights: Identified, by_losses: Identified, *, hides_most: bool) -> Identified:
    """Of a sender whose flights were put by a rule between the few that are known: by those, and by its losses alone.

    `hides_most`: the flights that are known are so few that they refute nobody; else they have named nobody. What both
    ways leave is left; the only one is named that was followed by both.
    """
    names = {each.candidate.name for each in by_losses.left}
    both = tuple(each for each in by_flights.left if each.candidate.name in names)
    if not names:
        why = "most flights are not known: nobody is refuted by them"
        return by_flights.opened(why) if hides_most else by_flights
    if by_losses.control is not None or by_flights.control == UNKNOWN or not by_flights.left:
        return by_losses
    if hides_most and (len(names) > 1 or not both):
        return by_losses
    if not both:
        return by_flights
    out = tuple(each for each in by_flights.left if each not in both)
    exact = {each.candidate.name for each in by_losses.left if is_exact(each)}
    is_told = len(both) == 1 and both[0].candidate.name in exact and is_followed(both[0])
    share = 1.0 / (len(both) + (by_flights.may_be_bbr and not is_told))
    return replace(
        by_flights,
        control=both[0].candidate.name if is_told else None,
        left=both,
        refuted=(*by_flights.refuted, *out),
        confidence=share,
        shares=(share,) * len(both),
        reasons=(*by_flights.reasons, *by_losses.reasons[:1]),
        may_be_bbr=by_flights.may_be_bbr and not is_told,
    )


def identify_unseen(seen: Reconstruction, who: Sender) -> Identified:
    """The same by what was outstanding at its losses alone, if the order of what was sent tells it."""
    view, tap = who.order or who.view, who.tap
    if not tap.tap_lost_acks:
        # What passed in its order disturbs nothing, and where what did not lies, is known.
        tap = replace(tap, tap_lost_bytes=0)
    if view is None or view.is_paused or tap.hides_details or tap.refuses("control"):
        return HIDDEN
    return identify_between_losses(seen, handshake_rtt_ns=_handshake_rtt_ns(who))
