"""What keeps a capture from carrying a claim about its sender's window, each obstacle a sentence with its evidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.sender.shares import between_losses, held_by_application
from tcptrace_lab.numbers import duration, seconds
from tcptrace_lab.reconstruct.given import MAJORITY, MINORITY, ODD_SHARE
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.sender import Sender
from tcptrace_lab.reconstruct.timeline import parts

# An own window shows itself when, most of the time, something is outstanding and ACKs release segments.
APPLICATION_SHARE = 0.3
# Fewer segments than this cannot show growth over two round trips.
FEW_SEGMENTS = 12
# A flight of so few super-segments is too coarse to show a window.
FEW_SUPER_SEGMENTS = 4
# A round trip of fewer ticks of the clock has no beginning and no end.
FEW_TICKS = 2
# A slow start doubles in a round trip: a clock with fewer ticks than this in one does not show by how much.
TICKS_PER_ROUND = 8


@dataclass(frozen=True, kw_only=True)
class Obstacles:
    """`hides_window`: nothing may be said of slow starts; `hides_cycles`: what was seen is not one running window.

    `hides_flight`: not even what was outstanding is known (the tap's place), so nor what limited the sender.
    """

    hides_window: tuple[str, ...]
    hides_cycles: tuple[str, ...]
    hides_flight: bool = False

    @property
    def all(self) -> tuple[str, ...]:
        return self.hides_window + self.hides_cycles


def least_rtt_ns(seen: Reconstruction) -> int:
    """What nearly all round trips take at least; 0: none was measured."""
    _, samples = seen.timeline.rtt
    # An odd one is read otherwise: an answer captured with what it answers.
    return int(_core.percentile(samples, 100 * ODD_SHARE)) if len(samples) else 0


def find_obstacles(seen: Reconstruction, who: Sender) -> Obstacles:
    """What the tap rules out, and what the run itself hides."""
    timeline, handshake_rtt_s = seen.timeline, who.handshake_rtt_s
    refused = who.tap.refuses("window")
    if refused:
        return Obstacles(hides_window=(refused,), hides_cycles=(), hides_flight=True)
    _, samples = timeline.rtt
    if not len(samples):
        return Obstacles(
            hides_window=("no ACK answers a segment of the capture: no round trip, no window",),
            hides_cycles=(),
            hides_flight=True,
        )
    tick_ns = who.tap.clock.resolution_ns
    if not who.tap.clock.tells(seen.typical_rtt_ns, ticks=FEW_TICKS):
        words = "no time passes between segments and their ACKs"
        if seen.typical_rtt_ns:
            words = f"stamps are {duration(tick_ns)} apart, round trips about {duration(seen.typical_rtt_ns)}"
        return Obstacles(hides_window=(f"{words}: no round is told from the next",), hides_cycles=(), hides_flight=True)
    away = [
        *_vantage(float(samples.min()) / 1e9, handshake_rtt_s, who),
        *(_nearer_receiver(seen) if who.place == "unknown" else ()),
    ]
    if away:
        # The pace of what passes is the tap's position, not the application's: not looked into.
        return Obstacles(hides_window=tuple(away), hides_cycles=(), hides_flight=True)
    return obstacles_of_run(seen, who)


def obstacles_of_run(seen: Reconstruction, who: Sender) -> Obstacles:
    """What the run itself hides, wherever it was captured."""
    hides_window = (*_too_few(seen), *_not_clocked(seen), *_coarse(seen))
    return Obstacles(hides_window=hides_window, hides_cycles=() if hides_window else tuple(_held_back(seen, who)))


def _vantage(least_rtt_s: float, handshake_rtt_s: float | None, who: Sender) -> list[str]:
    if who.place == "receiver":
        return [
            "captured at the receiver: neither what the sender had outstanding nor what was lost on the way is seen"
        ]
    if who.place == "middle":
        if who.vantage == "middle":
            return ["captured midway: part of the flight and of the losses lies between the sender and the tap"]
        return ["captured behind a queue that stands between the sender and the tap: what left when is not seen"]
    # One handshake may have waited for a host: only what no host's answer takes shows a path. Where the sender's own
    # part of it was short, the host was the other.
    to_sender_ns = None if who.where is None else who.where.to_sender_ns
    is_near = to_sender_ns is not None and to_sender_ns < _core.HOST_NS
    far = handshake_rtt_s is not None and handshake_rtt_s - least_rtt_s > _core.HOST_NS / 1e9 and not is_near
    if handshake_rtt_s and far and least_rtt_s < MAJORITY * handshake_rtt_s and who.place != "sender":
        return [
            f"round trip at the tap {seconds(least_rtt_s)}, in the handshake {seconds(handshake_rtt_s)}: "
            "the sender is not near the tap"
        ]
    return []


def _nearer_receiver(seen: Reconstruction) -> list[str]:
    """Where the place is not known: at a sender ACKs release segments at once, at a receiver segments are answered."""
    timeline = seen.timeline
    following = _core.places(timeline.send_ns, timeline.ack_ns)
    known = (timeline.newly_acked > 0) & (following < len(timeline.send_ns))
    if not known.any():
        return []
    release = _core.median(timeline.send_ns[following[known]] - timeline.ack_ns[known]) / 1e9
    answer = seen.typical_rtt_ns / 1e9
    if answer > release:
        return []
    return [
        f"segments are ACKed {seconds(answer)} after they pass the tap, ACKs followed by segments after "
        f"{seconds(release)}: the tap is not near the sender, or behind a shaper"
    ]


def _too_few(seen: Reconstruction) -> list[str]:
    timeline = seen.timeline
    unique = timeline.new_bytes / timeline.smss
    if unique < FEW_SEGMENTS:
        return [f"{unique:.1f} full segments of data are too few to show a window growing"]
    return []


def _not_clocked(seen: Reconstruction) -> list[str]:
    """A sender behind a shaper of its own host, or one that waits for its application, sends into an empty network."""
    timeline = seen.timeline
    empty = empty_share(seen)
    if empty <= MAJORITY:
        return []
    rtt_s = seen.typical_rtt_ns / 1e9
    fresh = timeline.send_ns[~timeline.is_retransmission]
    pauses = np.diff(fresh)
    pauses = pauses[pauses > max(rtt_s * 1e9, 1.0)]
    if not len(pauses):
        return []
    # Bursts of more than two round trips are a window at work between pauses: its slow start is visible.
    alone = _sent_alone_share(seen)
    if alone < MAJORITY:
        return []
    return [
        f"nothing was outstanding {empty:.0%} of the time: segments leave {duration(float(np.median(pauses)))} apart, "
        f"ACKs return to the tap after {seconds(rtt_s)}: the application, or a shaper in the host before the tap, "
        "sets the pace"
    ]


def empty_share(seen: Reconstruction, within: slice | None = None) -> float:
    """Share of the time from the first to the last segment, or of these ACKs, in which everything sent was
    acknowledged."""
    timeline, waited = seen.timeline, 0
    whole = int(timeline.send_ns[-1] - timeline.send_ns[0] if within is None else np.ptp(timeline.ack_ns[within]))
    first, end = (0, len(timeline.ack_ns)) if within is None else (within.start, within.stop)
    for part in (slice(first + each.start, first + each.stop) for each in parts(end - first)):
        following = _core.places(timeline.send_ns, timeline.ack_ns[part])
        known = (following > 0) & (following < len(timeline.send_ns)) & (timeline.newly_acked[part] > 0)
        at = following[known]
        done = timeline.snd_max[at - 1] <= timeline.snd_una[part][known]
        waited += int((timeline.send_ns[at] - timeline.ack_ns[part][known])[done].sum())
    return waited / whole if whole > 0 else 0.0


def _sent_alone_share(seen: Reconstruction) -> float:
    """Share of the bytes that left as the first burst into an empty network: no ACK released them."""
    timeline = seen.timeline
    una = timeline.una_after(timeline.acks_before_send)
    before = np.concatenate(([timeline.first_offset], timeline.snd_max[:-1]))
    burst = np.cumsum(before <= una)
    released = timeline.acks_before_send - timeline.acks_before_send[np.searchsorted(burst, burst, side="left")]
    sizes = (timeline.send_end - timeline.send_offset).astype(np.float64)
    return float(sizes[released == 0].sum() / sizes.sum())


def _coarse(seen: Reconstruction) -> list[str]:
    """Where the window left by a loss is not told to a super-segment; without one there is the first slow start."""
    timeline = seen.timeline
    if not seen.episodes:
        return []
    # A first flight, or what a recovery releases at once, is a super-segment of its own, and few are.
    sizes, counts = timeline.sizes
    usual = int(sizes[np.searchsorted(np.cumsum(counts), (1 - MINORITY) * counts.sum())])
    most = int(seen.flight.max(initial=0))
    if usual > 2 * timeline.smss and most < FEW_SUPER_SEGMENTS * usual:
        return [f"segments of {usual} bytes (offload) in a flight of at most {most}: too coarse to show a window"]
    return []


def _goes_on_throughout(seen: Reconstruction) -> bool:
    """Whether each loss event, of two or more, surely went on without a restart: recoveries themselves, however long,
    show that none of them was a slow start."""
    events = [episode for episode in seen.episodes if episode.is_loss]
    return len(events) > 1 and all(episode.sure and not episode.restarts for episode in events)


def _held_back(seen: Reconstruction, who: Sender) -> list[str]:
    recovering = seen.limits.get("recovery", 0.0)
    if recovering >= MAJORITY and not _goes_on_throughout(seen):
        timed_out = any(episode.detected_by == "rto" for episode in seen.episodes)
        instead = "timeouts" if timed_out else "long recoveries"
        return [f"{recovering:.0%} of the time was spent recovering from losses: {instead}, not a running window"]
    share = held_by_application(seen)
    if share < APPLICATION_SHARE:
        return []
    empty = min(share, empty_share(seen, between_losses(seen)))
    if empty >= MINORITY:
        return [
            f"the application had nothing to send {share:.0%} of the time (pauses: {empty:.0%}): not one running window"
        ]
    if who.view is not None or who.order is not None:
        # Rebuilt from another place: how promptly a segment followed an ACK is the tap's position, not the sender's.
        return []
    return [
        f"for {share:.0%} of the time no ACK released segments at once, though some were outstanding: the sender paces "
        "itself by a rate (as BBR does), its application writes slowly, or its host is slower than the ACKs"
    ]
