"""The verdict on one sender: what was observed, what theory expects, and the evidence for both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tcptrace_lab.classify.control.answer.decided import by_rate
from tcptrace_lab.classify.control.answer.identified import HIDDEN as NOT_IDENTIFIED
from tcptrace_lab.classify.control.answer.identified import UNKNOWN, Identified
from tcptrace_lab.classify.control.bbr.by_rate import probes_of
from tcptrace_lab.classify.control.of_sender import (
    identify_by_rhythm,
    identify_sender,
    identify_unseen,
    opened_where_held,
)
from tcptrace_lab.classify.control.windows.limited import held, limits_of
from tcptrace_lab.classify.diagnosis import course, diagnosis
from tcptrace_lab.classify.obstacles import (
    FEW_TICKS,
    Obstacles,
    find_obstacles,
    least_rtt_ns,
)
from tcptrace_lab.classify.path.causes import losses_by_cause, losses_refused
from tcptrace_lab.classify.path.neighbours import Neighbours
from tcptrace_lab.classify.path.path import PathEstimate
from tcptrace_lab.classify.path.path_of import path_of
from tcptrace_lab.classify.regime.compound import NOT_COMPOUND, CompoundRegime, compound_regime
from tcptrace_lab.classify.regime.slow_starts import SlowStarts
from tcptrace_lab.classify.regime.told import told_slow_starts
from tcptrace_lab.classify.sender.first_flight import captured_initial_window
from tcptrace_lab.classify.sender.growth import Growth, initial_growth
from tcptrace_lab.classify.sender.recovery import HIDDEN, SenderTcp, identify_recovery
from tcptrace_lab.classify.theory.expectation import Expectation, expect, not_asked
from tcptrace_lab.reconstruct.away.sender_view import MOST_OPEN
from tcptrace_lab.reconstruct.given import MAJORITY, MINORITY
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import Sender, senders

if TYPE_CHECKING:
    from tcptrace_lab.capture import Capture


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One connection's verdict; `as_dict` has the keys of the project's JSON."""

    file: str
    who: Sender
    seen: Reconstruction
    obstacles: Obstacles
    path: PathEstimate
    sender_tcp: SenderTcp
    identified: Identified
    compound: CompoundRegime | None
    growth: Growth | None
    slow_starts: SlowStarts
    losses: dict[str, Any]
    limits: dict[str, float]
    expectation: Expectation

    def __repr__(self) -> str:
        return f"<Verdict {self.file} connection {self.who.connection}: {self.diagnosis}>"

    @property
    def diagnosis(self) -> str:
        """What a person would say of it, in one sentence."""
        sentence: str = self.as_dict()["diagnosis"]
        return sentence

    @property
    def reasons(self) -> tuple[str, ...]:
        """Sentences that name the evidence, the deciding ones first."""
        return (
            *self.slow_starts.reasons,
            *self._limited(),
            *self.identified.reasons,
            *(self.compound.reasons if self.compound is not None else ()),
            *self.sender_tcp.reasons,
            *self._lost(),
            *self._path(),
            *self.expectation.reasons,
        )

    def _limited(self) -> Iterator[str]:
        rwnd = self.limits.get("rwnd", 0.0)
        if rwnd > MINORITY:
            yield f"the receiver's window was the limit {rwnd:.0%} of the time: the congestion window is not seen then"
        yield from self.who.tap.notes
        yield from self.seen.timeline.notes

    def _lost(self) -> Iterator[str]:
        if refused := losses_refused(self.seen, self.who):
            yield f"losses not known: {refused}"

    def _path(self) -> Iterator[str]:
        if self.path.buffer_packets.value is None:
            yield f"buffer not known: {self.path.buffer_packets.method}"
        if self.path.policed.pps.value is not None:
            yield f"a policer: {self.path.policed.pps.method}"

    def _control(self) -> str | None:
        # That none of the known controls fits is said of what was seen whole, and captured at the sender, only; and not
        # where segments that were late were sent again: how much of a needless reduction a stack undoes is its own, and
        # so is what it makes of a window that the receiver's hides, and from how much a loss has reduced it then.
        tap = self.who.tap
        is_whole = not tap.hides_details and self.who.view is None and tap.shift.value is not None
        is_undone = bool(self.seen.timeline.observed.lost()["spurious"].any())
        is_hidden = self.limits.get("rwnd", 0.0) > MINORITY
        # Nor where ACKs tell of more than a receiver leaves waiting: a law counts them by its own rule, and others may
        # be missing between them.
        is_whole = is_whole and not self.seen.is_stretched
        if self.identified.control == "unknown" and (is_undone or is_hidden or not is_whole):
            return None
        return self.identified.control

    def _initial_window(self, hidden: bool) -> int | None:
        is_hidden = hidden and self.who.place != "sender" and self.who.order is None
        # Of whom no law is left, or asked, BBR may have grown its window by words that filled none.
        is_bbr = not self.identified.left
        return None if is_hidden else captured_initial_window(self.seen, self.who, is_bbr=is_bbr)

    def as_dict(self) -> dict[str, Any]:
        found = self._found()
        found["diagnosis"] = diagnosis(
            found,
            course(
                self.seen,
                self.path,
                self.who.tap,
                self.obstacles,
                limits=self.limits,
                is_kept=self.identified.is_kept,
                unplaced=0 if self.who.view is None else self.who.view.unplaced,
            ),
        )
        return found

    def _found(self) -> dict[str, Any]:
        hidden = bool(self.obstacles.hides_window)
        return {
            "file": self.file,
            "connection": self.who.connection,
            "sender": self.who.sender,
            "receiver": self.who.receiver,
            "vantage": self.who.vantage,
            "diagnosis": None,
            "tap": self.who.tap.as_dict(),
            "path": self.path.as_dict(),
            "sender_tcp": {
                "congestion_control": self._control(),
                "recovery": self.sender_tcp.recovery,
                "confidence": round(self.identified.confidence, 3),
                "candidates": self.identified.as_dicts(),
            },
            "initial_window": {"segments": self._initial_window(hidden)},
            "slow_starts": self.slow_starts.as_dict(self.seen),
            "m_start": {"detected": None, "step_cycle": None}
            if hidden or self.growth is None
            else self.growth.as_dict(),
            "compound": NOT_COMPOUND if self.compound is None else self.compound.as_dict(),
            "losses": self.losses,
            "limits": self.limits,
            "predictions": list(self.expectation.predictions),
            "agreement": self.expectation.agreement,
            "reasons": list(dict.fromkeys(self.reasons)),
        }


def classify(capture: Capture, *, file: str | None = None) -> Iterator[Verdict]:
    """The verdict on every connection of a capture that carries data."""
    yield from verdicts(capture, senders(capture), file=file)


def verdicts(capture: Capture, asked: Iterable[Sender], *, file: str | None = None) -> Iterator[Verdict]:
    """The verdict on each of a capture's senders."""
    near = Neighbours(capture)
    for who in asked:
        yield judge(who, file=file or capture.name, beside=partial(near.of, who))


def _is_vague(seen: Reconstruction, who: Sender) -> bool:
    """Whether answers at once and an application's own times cannot be told apart well enough for a window."""
    view = who.view
    is_open = view is not None and (view.is_inferred or view.unsure > MOST_OPEN)
    return is_open and seen.limits.get("application", 0.0) > MINORITY


def _compound(identified: Identified, path: PathEstimate) -> CompoundRegime | None:
    """The regime of the sender, if it is Compound, or if it may be."""
    best = next((each for each in identified.left if each.candidate.name == "compound"), None)
    if best is None or not len(best.sizes):
        return None
    found = compound_regime(
        best,
        identified.gamma,
        # With others on the path the rate found is this flow's share, which changes.
        pipe=None if path.bottleneck_pps.high is None else path.bdp_packets.value,
    )
    # The only one left, if not followed closely enough for its name, is Compound or none of the table.
    return found if len(identified.left) == 1 else found.if_it_is()


def _recovery(seen: Reconstruction, who: Sender) -> SenderTcp:
    by_rhythm = who.view is not None and who.view.is_inferred
    is_rebuilt = who.view is not None
    return identify_recovery(
        seen,
        who.tap,
        by_rhythm=by_rhythm,
        is_rebuilt=is_rebuilt,
        late_ns=0 if is_rebuilt else who.answers_ns,
        met_no_queue=None if who.view is None or who.view.by_rhythm is None else who.view.by_rhythm.met_no_queue,
    )


def _hides_most(who: Sender) -> bool:
    """Whether most of the flights were put by a rule between the few that are known."""
    return who.view is not None and who.view.is_inferred and who.view.unsure > MAJORITY


def _identified(seen: Reconstruction, who: Sender, tcp: SenderTcp, path: PathEstimate, *, hidden: bool) -> Identified:
    """By every ACK, or, where those show no window, by the losses alone."""
    if hidden:
        return identify_unseen(seen, who)
    if not who.tap.clock.tells(least_rtt_ns(seen), ticks=FEW_TICKS):
        # Round trips have no beginning and no end while the queue is short: growth by a round trip is chance.
        return NOT_IDENTIFIED
    if _is_vague(seen, who):
        # A pace is told by what the sender's stamps say of its own times, whatever was in flight.
        has_stamps = who.view is not None and not who.view.is_inferred and not who.tap.refuses("control")
        is_told = has_stamps and (rate := probes_of(seen)).is_bbr and bool(rate.cycled)
        return by_rate(seen, rate) if is_told else NOT_IDENTIFIED
    found = identify_sender(seen, who, tcp, path)
    if who.view is None or not who.view.is_inferred or found.control == "bbr" or not found.refuted:
        return found
    found = opened_where_held(found, seen)
    if not found.refuted:
        return found
    hides_most = _hides_most(who)
    if found.control not in (None, UNKNOWN) and not hides_most:
        return found
    return identify_by_rhythm(found, identify_unseen(seen, who), hides_most=hides_most)


def judge(who: Sender, *, file: str, beside: Callable[[], Sequence[Reconstruction]] = tuple) -> Verdict:
    """The verdict on one sender; `beside` gives the other flows of its capture."""
    seen = Reconstruction(who.timeline)
    obstacles = find_obstacles(seen, who)
    path = path_of(seen, who, beside=beside)
    hidden = obstacles.hides_window
    tcp = HIDDEN if hidden else _recovery(seen, who)
    shows_windows = not hidden and not _hides_most(who)
    identified = _identified(seen, who, tcp, path, hidden=bool(hidden))
    is_behind = who.view is None and who.before_tap_ns != 0
    if identified.control == "bbr" and is_behind and not probes_of(seen).cycled:
        # What leaves by a rate may leave by that of a line before the tap, which has one.
        identified = NOT_IDENTIFIED
    if not hidden and held(seen, identified) >= MAJORITY:
        identified = identified.kept()
    limits = limits_of(seen, who, identified, hides_flight=bool(obstacles.hides_flight))
    growth = initial_growth(seen)
    is_open = limits.get("unknown", 0.0) > MAJORITY
    starts = told_slow_starts(seen, obstacles, who, is_paced=identified.control == "bbr", is_open=is_open)
    compound = _compound(identified, path) if shows_windows else None
    if obstacles.hides_window:
        expectation = not_asked("the window is not visible in this capture: no model is asked")
    else:
        expectation = expect(
            seen,
            path,
            tcp=tcp,
            identified=identified,
            grown=growth,
            starts=starts,
            compound=compound,
            limits=limits,
        )
    return Verdict(
        file=file,
        who=who,
        seen=seen,
        obstacles=obstacles,
        path=path,
        sender_tcp=tcp,
        identified=identified,
        compound=compound,
        growth=growth,
        slow_starts=starts,
        losses=losses_by_cause(seen, path, who),
        limits=limits,
        expectation=expectation,
    )
