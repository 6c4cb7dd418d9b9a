"""A reconstruction whose windows carry what the replay of its sender's control adds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from tcptrace_lab.classify.control.answer.identified import HIDDEN
from tcptrace_lab.classify.control.bbr.told import (
    ByModel,
    either,
    of_bbr,
    or_bbr,
    or_paced,
    unbounded,
    unheard_by_rate,
    window_by_model,
)
from tcptrace_lab.classify.control.of_sender import identify_sender
from tcptrace_lab.classify.control.readings.identify import first_windows
from tcptrace_lab.classify.control.windows.hidden import acks_at, wide_enough, with_replay
from tcptrace_lab.classify.control.windows.limited import as_told, limits_of
from tcptrace_lab.classify.obstacles import find_obstacles
from tcptrace_lab.classify.path.path_of import path_of
from tcptrace_lab.classify.sender.first_flight import captured_initial_window
from tcptrace_lab.classify.sender.limits import RHYTHM_SHARE
from tcptrace_lab.classify.sender.recovery import identify_recovery
from tcptrace_lab.reconstruct.away.unrepaired import with_open_end
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import Sender
from tcptrace_lab.reconstruct.tap.unordered import as_known
from tcptrace_lab.reconstruct.timeline import Ints, Places
from tcptrace_lab.reconstruct.windows import UNKNOWN, lowered


@dataclass(frozen=True, repr=False)
class Replayed(Reconstruction):
    """A reconstruction whose windows carry what the replay of its sender's control adds, worked out if asked for."""

    who: Sender

    @cached_property
    def known_columns(self) -> dict[str, Ints]:
        table, view = self._replayed_columns(), self.who.view
        if view is None:
            return table
        table = _by_rhythm(table, self.timeline.smss) if view.is_inferred else table
        return with_open_end(table, self.timeline, is_closed=self.who.tap.ends.value != "open")

    def _replayed_columns(self) -> dict[str, Ints]:
        obstacles = find_obstacles(self, self.who)
        if obstacles.hides_window:
            limits = limits_of(self, self.who, HIDDEN, hides_flight=bool(obstacles.hides_flight))
            # From loss to loss, or flight to flight, it may be known to have been at work: in no row how large it was.
            table = as_told(self._seen_columns, self, {**limits, "cwnd": 0.0})
            return {**table, "ssthresh": np.full_like(table["ssthresh"], UNKNOWN)}
        tcp = identify_recovery(self, self.who.tap)
        # Whose SYNs are not there may be a simulator.
        is_stack = self.who.tap.syns.value != "none"
        path = None if self.timeline.has_start else path_of(self, self.who)
        found = [identify_sender(self, self.who, tcp, path)]
        is_bbr, may_be_bbr = found[0].control == "bbr", found[0].may_be_bbr
        if is_bbr:
            table = self._seen_columns
        else:
            limits = limits_of(self, self.who, found[0], hides_flight=bool(obstacles.hides_flight))
            # Handed over: what was replayed to identify them is larger than the capture.
            table = with_replay(self, as_told(self._seen_columns, self, limits), found.pop(), is_stack=is_stack)
        if not (is_bbr or may_be_bbr):
            return table
        acks = acks_at(self, table)
        if not self._shows_when and is_bbr:
            return unbounded(table)
        if not self._shows_when:
            # Where nothing tells of the tap's place its flight is taken to be the sender's.
            is_apart = self.who.view is not None or self.who.before_tap_ns is not None or not self.timeline.has_start
            return or_paced(table) if is_apart else table
        model = self._by_model(table, acks)
        if model is None:
            return unbounded(table) if is_bbr else table
        return of_bbr(table, model, self.flight[acks] <= 0) if is_bbr else or_bbr(table, model, self.timeline.smss)

    @property
    def _seen_columns(self) -> dict[str, Ints]:
        """As the packets show them, as far as this tap sees all of them in order."""
        table, tap = self.shown_columns, self.who.tap
        is_known = self.who.view is not None or not (tap.is_holed or tap.is_coarse or self.is_stretched)
        return table if is_known else as_known(table, self.timeline, acks_at(self, table))

    @property
    def _shows_when(self) -> bool:
        """Whether the capture shows when its sender sent and heard, from the beginning: what BBR measures."""
        view = self.who.view
        # Behind a line of its own, or put by a rule, is not when.
        is_seen = self.who.before_tap_ns == 0 if view is None else not view.is_inferred
        return is_seen and self.timeline.has_start and not self.who.tap.is_holed

    def _by_model(self, table: dict[str, Ints], acks: Places) -> ByModel | None:
        """The window that BBR would have had; of a first window that is not known with each that it may have been, and
        away from the sender with all ACKs or those that are known to have reached it."""
        view = self.who.view
        known = captured_initial_window(self, self.who, is_bbr=True)
        ask = partial(
            window_by_model,
            self,
            table,
            acks,
            handshake_rtt_s=self.who.handshake_rtt_s,
            is_away=view is not None,
        )
        unheard = None if view is None else unheard_by_rate(self.timeline, view.unechoed)
        hearings = (None,) if unheard is None else (unheard, None)
        models = [ask(initial_window=first, unheard=each) for each in hearings for first in first_windows(self, known)]
        return either([model for model in models if model is not None], self.timeline.smss)


def _by_rhythm(table: dict[str, Ints], smss: int) -> dict[str, Ints]:
    """The same where the rhythm of the ACKs told which of them released a segment. Where the window is known to be at
    work its flights follow it."""
    low, high = table["cwnd_low"], table["cwnd_high"]
    is_open = table["limited_by"] == UNKNOWN
    most = np.where(is_open & (high != UNKNOWN), high / RHYTHM_SHARE, high)
    least = np.where(is_open, lowered(low, RHYTHM_SHARE * low.astype(np.float64), smss), low)
    return {
        **table,
        "cwnd_low": least,
        "cwnd_high": most.astype(wide_enough(high, most.max(initial=0))),
    }


def replayed(who: Sender) -> Replayed:
    """The reconstruction of one sender."""
    return Replayed(who.timeline, who)
