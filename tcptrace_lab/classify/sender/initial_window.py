"""The initial window (RFC 6928): what a sender with enough to send sends before the first ACK of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.given import DELAYED_ACK_SEGMENTS, MAJORITY
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import Ints, Timeline

# RFC 8985 section 7.2: a probe leaves two round trips after the flight; what is paced leaves within one.
PROBE_FACTOR = 1.5
# A first flight has left within half a round trip, also where it is paced (Linux: at twice its rate), and the least
# round trip measured may be longer than the first.
FIRST_SHARE = 0.75
# Where a flight ends at a tap away from its sender the next ACK is later than its segments alone make it.
PAUSE_FACTOR = 1.5
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, kw_only=True)
class Captured:
    """What of a first flight its tap carries.

    `is_holed`: it lost packets, the first ACK perhaps; `misses_acks`: some are not in the capture; `is_unseen`: only
    the order of what was sent is known, so that one segment more may be the second flight's, and not one that a
    receiver left waiting; `is_behind_line`: segments take longer to the tap than a burst does, so that a first flight
    may still come when its first ACK passes; `line_ns`: so long, as far as that is known; `tick_ns`: of a clock that
    tells nothing finer.
    """

    is_holed: bool = False
    misses_acks: bool = False
    is_unseen: bool = False
    is_behind_line: bool = False
    line_ns: int = 0
    tick_ns: int = 0


WHOLE = Captured()


def initial_window(
    seen: Reconstruction,
    handshake_rtt_s: float | None = None,
    captured: Captured = WHOLE,
    *,
    is_bbr: bool = False,
) -> int | None:
    """Segments sent before the first ACK of data (RFC 6928); None where the beginning is not in the capture.

    None too where the receiver's window had no room for more: then it is that; where the application had no more, but
    for a word or two that are passed over; and where the next data captured leaves a hole: the tap lost some, of this
    flight or of what followed. A probe (RFC 8985 section 7.2: new data after twice the round trip of the handshake) is
    none of them. `is_bbr`: a window that grows by what is acknowledged whether or not it was filled, in packets of any
    size.
    """
    timeline = seen.timeline
    if not timeline.has_start or not len(timeline.ack_ns):
        return None
    if len(timeline.slack) and seen.base_rtt_ns <= captured.tick_ns:
        # Rebuilt, and the clock tells no round trip, or one of a tick: one flight is not told from the next.
        return None
    flight = _flight(seen, handshake_rtt_s, captured, is_bbr=is_bbr)
    if flight is None or flight.is_written_apart or flight.may_go_on or flight.ends_short or flight.is_not_whole:
        return None
    begin, behind, top = flight.begin, flight.behind, flight.top
    is_open = handshake_rtt_s is None or captured.tick_ns > 0
    if is_open and _may_be_probe(timeline.send_ns[begin:behind], _soonest_probe_ns(handshake_rtt_s, captured.tick_ns)):
        return None
    if behind < len(timeline.send_ns) and int(timeline.send_offset[behind]) > top:
        return None
    sent = top - flight.beginning
    offered = timeline.rwnd[timeline.ack_ns < flight.until_ns]
    if len(offered) and sent + timeline.smss > int(offered.max()):
        return None
    if _falls_short(timeline, top, sent):
        return None
    segments = -(-sent // timeline.smss)
    # Linux counts packets, RFC 5681 bytes: of short segments between full ones it is not known which of both was full.
    packets = np.count_nonzero(~timeline.is_retransmission[begin:behind])
    return None if packets > segments else segments


@dataclass(frozen=True, kw_only=True)
class _Flight:
    """The sends from `begin` up to `behind`, the first one that is later than `until_ns`; one at least.

    `answer_ns`: when the first ACK of it passed; `probed_ns`: from when on a pause makes what is sent a probe;
    `is_unheard`: ACKs before the first captured one are missing.
    """

    timeline: Timeline
    captured: Captured
    base_rtt_ns: int
    begin: int
    behind: int
    until_ns: int
    answer_ns: int
    probed_ns: int
    is_unheard: bool

    @property
    def top(self) -> int:
        """The offset at which it ends."""
        return int(self.timeline.snd_max[self.behind - 1])

    @property
    def beginning(self) -> int:
        """From the first byte of the connection: the tap may have lost the segment that had it."""
        timeline = self.timeline
        return int(timeline.send_offset[self.begin]) if self.begin else min(timeline.first_offset, 0)

    @property
    def is_last(self) -> bool:
        """Nothing was sent behind it."""
        return self.behind == len(self.timeline.send_ns)

    @property
    def is_written_apart(self) -> bool:
        """Whether parts of it, or what follows, left when the application wrote it and not with the flight."""
        sent_ns, captured = self.timeline.send_ns[self.begin :], self.captured
        behind, pause_ns = self.behind - self.begin, MAJORITY * self.base_rtt_ns
        if _waited(sent_ns[:behind], pause_ns + (captured.tick_ns if pause_ns else 0)):
            return True
        lasted_ns = int(sent_ns[behind - 1] - sent_ns[0])
        clock, tick_ns = self.timeline.stamp_clock, float(captured.tick_ns)
        is_rebuilt = len(self.timeline.slack) > 0
        if is_rebuilt and clock is not None:
            # Elsewhere its own stamps tell when each left.
            is_rebuilt, tick_ns = False, max(tick_ns, clock.tick_ns)
        is_timed = not (is_rebuilt or captured.is_unseen or captured.is_behind_line)
        is_long = is_timed and 0 < FIRST_SHARE * self.base_rtt_ns < lasted_ns - tick_ns
        if is_long and _goes_on(sent_ns[: behind + 1]):
            # An application's pace, which the first ACK does not change.
            return True
        if self.is_last or sent_ns[behind] >= min(self.answer_ns, self.probed_ns):
            return False
        # More left before an ACK released any: at the application's pace, but where a pause tells of a missing ACK.
        is_paused = _waited(sent_ns[behind - 1 : behind + 1], pause_ns)
        return not (is_paused and (captured.misses_acks or self.is_unheard))

    @property
    def may_go_on(self) -> bool:
        """Whether more of it may follow, or it was all that there was to send."""
        if self.captured.is_unseen and self.is_last:
            return True
        if self.is_last or not (self.is_unheard or self.captured.is_behind_line):
            return False
        sent_ns = self.timeline.send_ns
        if _goes_on(sent_ns[self.begin : self.behind + 1]):
            return True
        # Of one alone no pace is known, but that nothing which an ACK released comes as soon.
        return self.behind == self.begin + 1 and sent_ns[self.behind] - self.answer_ns < self.captured.line_ns

    @property
    def ends_short(self) -> bool:
        """Whether what follows may have been written later, or its short end have waited for an answer (Nagle), and the
        window have had room for it all along."""
        timeline, ends = self.timeline, slice(self.behind - 1, self.behind + 1)
        lengths = timeline.send_end[ends] - timeline.send_offset[ends]
        return self.until_ns < self.answer_ns and bool((lengths < timeline.smss).any())

    @property
    def is_not_whole(self) -> bool:
        """Whether it was rebuilt and is not known to the segment: what came later than a round trip may have been asked
        for by the first."""
        timeline = self.timeline
        heard = max(int(timeline.acks_before_send[self.begin]) - 1, 0)
        if not len(timeline.slack) or timeline.slack[heard] < timeline.smss:
            return False
        came = timeline.snd_una[timeline.ack_ns < self.answer_ns + FIRST_SHARE * self.base_rtt_ns]
        most = int(came.max(initial=self.beginning))
        waiting = 0 if self.captured.is_unseen else timeline.smss
        return (
            self.top > most + waiting
            # Nor where that ends: on a slow line the next flight comes on the heels of the first.
            or not _ends_in_pause(timeline, most)
            # A word, and what was written behind it, perhaps when its answer had come.
            or (_is_short(timeline, self.begin) and self.behind > self.begin + 1)
        )


def _flight(seen: Reconstruction, handshake_rtt_s: float | None, captured: Captured, *, is_bbr: bool) -> _Flight | None:
    """The first flight that may fill a window; None: there is none, or its beginning is not in the capture."""
    timeline = seen.timeline
    # Duplicates answer data too: the first may have been lost.
    answers = np.flatnonzero((timeline.newly_acked > 0) | timeline.is_dupack)
    begin = _first_send(timeline, answers)
    if begin is None or (begin and is_bbr):
        return None
    if not begin and int(timeline.send_offset[0]) > timeline.smss:
        # One segment that the tap lost is counted; of more, what was captured first may be a later flight's.
        return None
    begin_ns = int(timeline.send_ns[begin])
    answers = answers[answers >= timeline.acks_before_send[begin]] if begin else answers
    answer_ns = int(timeline.ack_ns[answers[0]]) if len(answers) else NEVER
    until_ns, probed_ns, is_unheard = answer_ns, NEVER, False
    if seen.base_rtt_ns:
        # Nothing that an ACK released leaves before one can have come, whether or not the tap caught the first.
        until_ns = min(until_ns, begin_ns + int((FIRST_SHARE if captured.is_holed else 1.0) * seen.base_rtt_ns))
    if handshake_rtt_s is not None:
        probe_ns = begin_ns + int(PROBE_FACTOR * handshake_rtt_s * 1e9)
        # A probe follows a pause: what comes at the flight's pace is the rest of it, on a line that is slow for these.
        probed = int(np.searchsorted(timeline.send_ns, probe_ns, side="left"))
        if not _goes_on(timeline.send_ns[begin : probed + 1]):
            until_ns, probed_ns = min(until_ns, probe_ns), probe_ns
        if len(answers):
            soon_ns = begin_ns + int(FIRST_SHARE * handshake_rtt_s * 1e9)
            is_unheard = _follows_others(timeline, int(timeline.snd_una[answers[0]]))
            until_ns = min(until_ns, soon_ns) if is_unheard else until_ns
    behind = int(np.searchsorted(timeline.send_ns, until_ns, side="left"))
    if behind <= begin:
        return None
    return _Flight(
        timeline=timeline,
        captured=captured,
        base_rtt_ns=seen.base_rtt_ns,
        begin=begin,
        behind=behind,
        until_ns=until_ns,
        answer_ns=answer_ns,
        probed_ns=probed_ns,
        is_unheard=is_unheard,
    )


def _falls_short(timeline: Timeline, top: int, sent: int) -> bool:
    """Whether less was outstanding behind the last ACK of the first flight than that had, but for what offload leaves,
    while nothing was lost, the receiver's window had room and more was sent later: a window that it had filled lets go
    with each ACK as much as that acknowledges, and grows (RFC 5681 section 3.1), so the application had no more."""
    over = int(np.searchsorted(timeline.snd_una, top, side="left"))
    if over < len(timeline.ack_ns):
        # Those of one stamp came together.
        over = int(np.searchsorted(timeline.ack_ns, timeline.ack_ns[over], side="right")) - 1
    if over >= len(timeline.ack_ns) or timeline.is_dupack[: over + 1].any() or timeline.slack[: over + 1].any():
        return False
    last = int(timeline.sends_before_next_ack[over])
    if last >= len(timeline.send_ns) or timeline.is_retransmission[: last + 1].any():
        return False
    outstanding = int(timeline.snd_max[last - 1] - timeline.snd_una[over])
    unused = max(int(timeline.sizes[0].max()) - timeline.smss, 0)
    return outstanding + unused < sent and outstanding + timeline.smss <= int(timeline.rwnd[over])


def _ends_in_pause(timeline: Timeline, came: int) -> bool:
    """Whether the ACK of more than came first is later than ACKs of as much follow one another, or there is none."""
    moving = np.flatnonzero(timeline.newly_acked > 0)
    behind = int(np.searchsorted(timeline.snd_una[moving], came, side="right"))
    if not 0 < behind < len(moving):
        return True
    apart, newly = np.diff(timeline.ack_ns[moving]), timeline.newly_acked[moving[1:]]
    usual = _core.median(apart / np.maximum(newly / timeline.smss, 1.0))
    pause, segments = apart[behind - 1], max(newly[behind - 1] / timeline.smss, 1.0)
    return bool(pause > PAUSE_FACTOR * segments * usual)


def _goes_on(sent_ns: Ints) -> bool:
    """Whether the last of these comes as soon after the others as they after each other: no round trip is between."""
    gaps = np.diff(sent_ns)
    return len(gaps) > 1 and bool(gaps[-1] <= gaps[:-1].max())


def _waited(sent_ns: Ints, pause_ns: float) -> bool:
    """Whether any of it left so long behind the last: later than a paced flight takes, so it was written then, or the
    first ACK, stamped late or never captured, released it."""
    return pause_ns > 0 and bool((np.diff(sent_ns) > pause_ns).any())


def _soonest_probe_ns(handshake_rtt_s: float | None, tick_ns: int) -> float:
    """How soon one may leave: two stamps are apart by a tick more or less than what they were put on."""
    return 0.0 if handshake_rtt_s is None else PROBE_FACTOR * (handshake_rtt_s * 1e9 - tick_ns) - tick_ns


def _may_be_probe(sent_ns: Ints, soonest_ns: float) -> bool:
    """Whether the last leaves alone behind a pause longer than all before it took: two round trips of a handshake, for
    all that is known, which are `soonest_ns` at the least."""
    if len(sent_ns) < 2:
        return False
    pause, before = int(sent_ns[-1] - sent_ns[-2]), int(sent_ns[-2] - sent_ns[0])
    return pause > max(before, _core.HOST_NS) and pause >= soonest_ns


def _follows_others(timeline: Timeline, una: int) -> bool:
    """Whether an ACK tells of more than a receiver may leave waiting (RFC 9293 section 3.8.6.3): if it is the first
    captured, those before it are missing, and may have released what left behind a round trip."""
    return una - min(timeline.first_offset, 0) > DELAYED_ACK_SEGMENTS * timeline.smss


def _first_send(timeline: Timeline, answers: Ints) -> int | None:
    """The send with which the first flight begins that may fill a window; None: that has grown by then, or none does.

    A flight that ends with a short segment and is answered whole before anything follows was all there was to send; so
    was one whose short end waited for that answer (Nagle, RFC 896).
    RFC 5681 lets a window grow by the bytes acknowledged: less than a segment of such words leaves it as it was.
    """
    begin = 0
    while begin < len(timeline.send_ns):
        place = int(np.searchsorted(answers, timeline.acks_before_send[begin]))
        if place == len(answers):
            return None if _is_short(timeline, len(timeline.send_ns) - 1) else begin
        following = int(np.searchsorted(timeline.send_ns, timeline.ack_ns[answers[place]], side="left"))
        last = following - 1
        has_more = following < len(timeline.send_ns)
        ends, waits = _is_short(timeline, last), has_more and _is_short(timeline, following)
        if last < begin or not (ends or waits):
            return begin
        heard = timeline.acks_before_send[following : following + 1]
        if has_more and int(timeline.una_after(heard)[0]) < timeline.snd_max[last]:
            # More was outstanding: of an application that writes words all along, no window is seen.
            return None if ends and waits else begin
        said = timeline.snd_max[last] - timeline.first_offset
        if said >= timeline.smss or timeline.is_retransmission[:following].any():
            return None
        begin = following
    return None


def _is_short(timeline: Timeline, send: int) -> bool:
    return bool(timeline.send_end[send] - timeline.send_offset[send] < timeline.smss)
