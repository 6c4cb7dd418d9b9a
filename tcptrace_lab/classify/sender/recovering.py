"""How long recoveries held a sender back, and how much of that, or of what lies behind them, is not certain."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.sender.shares import share_of
from tcptrace_lab.reconstruct.losses import Episode
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.tap.not_captured import TIMER_NS, TIMER_ROUNDS
from tcptrace_lab.reconstruct.tap.tap import Tap
from tcptrace_lab.reconstruct.timeline import LOST, Bools, Ints, Timeline


def silent_behind(spans_ns: Ints, rtt_ns: int) -> Ints:
    """Of the time until each following ACK what lies beyond a round trip, where no timer would have waited as long."""
    found: Ints = np.where(spans_ns > TIMER_NS + TIMER_ROUNDS * rtt_ns, spans_ns - rtt_ns, 0)
    return found


def spent(seen: Reconstruction, episodes: list[Episode]) -> float:
    """Share of the time in some loss events."""
    return share_of(seen.timeline, sum(each.end_ns - each.time_ns for each in episodes))


def has_no_block(seen: Reconstruction, tap: Tap) -> bool:
    """Whether not one of the SACK blocks that there may have been was captured."""
    return tap.hides_blocks and not len(seen.timeline.sack_edges)


def waited_for_probes(seen: Reconstruction, tap: Tap) -> float:
    """Share of the time before timers that may have been those of probes (RFC 8985 section 7.2, which needs SACK): of a
    segment that was all there was in flight, sent again for the first time and no later than a probe would be, with no
    more to send behind its answer. A window of one segment that nothing fills looks like any other."""
    timeline = seen.timeline
    if tap.sack.value == "not offered" or not len(timeline.rtt[1]):
        return 0.0
    latest_ns = 2 * int(timeline.rtt[1].max()) + _core.LEAST_RTO_NS
    waits_ns, before = 0, None
    for each in seen.episodes:
        is_only = each.detected_by == "rto" and each.flight <= timeline.smss and each.round_trip_sends <= 1
        if is_only and not each.expires_within(before) and _ends_in_pause(timeline, each):
            heard = int(timeline.acks_before_send[each.first_send]) - 1
            wait_ns = each.time_ns - max(each.lost_sent_ns, int(timeline.ack_ns[heard]) if heard >= 0 else 0)
            waits_ns += wait_ns if wait_ns <= latest_ns else 0
        before = each
    return share_of(timeline, float(waits_ns))


def _ends_in_pause(timeline: Timeline, episode: Episode) -> bool:
    """Whether nothing left for a host's own time behind the ACK of all that was outstanding."""
    following = int(np.searchsorted(timeline.send_ns, episode.end_ns, side="right"))
    is_last = following >= len(timeline.send_ns)
    return is_last or int(timeline.send_ns[following]) - episode.end_ns > _core.HOST_NS


def waits_first(seen: Reconstruction, each: Episode) -> bool:
    """Whether a sender that seems to go on sent nothing in the round trip behind its first segment: an answer that was
    not captured may have released what followed, at a window of one."""
    times, following = seen.timeline.send_ns, each.first_send + 1
    if each.restarts or each.round_trip_sends <= 1 or following >= len(times):
        return False
    return bool(times[following] - each.time_ns >= seen.base_rtt_ns)


def answers_missing(seen: Reconstruction) -> bool:
    """Whether so it is at most losses, where ACKs tell of more than a receiver leaves waiting: some are missing."""
    going_on = [each for each in seen.episodes if not each.restarts and each.is_loss]
    if not seen.is_stretched or not going_on:
        return False
    timeline = seen.timeline
    following = np.minimum([each.first_send + 1 for each in going_on], len(timeline.send_ns) - 1)
    heard = timeline.ack_ns[np.maximum(timeline.acks_before_send[following] - 1, 0)]
    # What a captured ACK released was not released by another.
    is_alone = timeline.send_ns[following] - heard > _core.HOST_NS
    waits = [waits_first(seen, each) and alone for each, alone in zip(going_on, is_alone.tolist(), strict=True)]
    return bool(2 * sum(waits) > len(waits))


def recovering_unsure(seen: Reconstruction, tap: Tap) -> float:
    """Share of the time in recoveries of which it is not sure that they were none of a restarted sender.

    A sender has one habit: where most of its recoveries show it, the others follow it. What the tap lost, or SACK
    blocks that it did not take, hide whether a window was at work; under a coarse clock a third duplicate comes late.
    """
    going_on = [each for each in seen.episodes if not each.restarts]
    has_none = has_no_block(seen, tap)
    # Two cards' clocks run apart by some parts of a millisecond: nor is it then sure what left just before its answer.
    apart_ns = min(_core.HOST_NS, seen.base_rtt_ns // _core.PROMPT_PARTS)
    blur_ns = max(apart_ns, tap.clock.resolution_ns if tap.is_coarse else 0)
    may_restart = _may_restart(seen, going_on, blur_ns).tolist()
    sure = [
        each.sure and not (each.is_unasked or restarts) for each, restarts in zip(going_on, may_restart, strict=True)
    ]
    if not (has_none or tap.tap_lost_bytes) and 2 * sum(sure) > len(going_on):
        going_on = [
            each for each in going_on if each.is_unasked or (tap.is_coarse and each.detected_by == "reordering")
        ]
    elif not has_none:
        going_on = [each for each, is_sure in zip(going_on, sure, strict=True) if not is_sure]
        return spent(seen, going_on) - _waited(seen, going_on)
    return spent(seen, going_on)


def _waited(seen: Reconstruction, episodes: list[Episode]) -> float:
    """Share of the time in which some of these, which a timer ended, not their answer, sent nothing more: losses held
    the sender back then, whether or not a window had been at work before."""
    timeline = seen.timeline
    timers = {each.time_ns: each.una for each in seen.episodes if each.detected_by == "rto"}
    ends = np.array([each.end_ns for each in episodes if timers.get(each.end_ns, each.recover) < each.recover])
    if not len(ends):
        return 0.0
    waits = ends - timeline.send_ns[np.searchsorted(timeline.send_ns, ends, side="left") - 1]
    # What comes sooner is a restarted sender's, whose answer came.
    return share_of(timeline, float(waits[waits >= _core.LEAST_RTO_NS].sum()))


def _may_restart(seen: Reconstruction, episodes: Sequence[Episode], resolution_ns: int) -> Bools:
    """Of which all but the first of its segments may have left behind the answer to that, by what the clock leaves
    open: so does a window of one segment."""
    timeline = seen.timeline
    answers = np.searchsorted(timeline.snd_una, [each.una for each in episodes], side="right")
    is_answered = answers < len(timeline.ack_ns)
    heard_ns = timeline.ack_ns[answers[is_answered]]
    found = is_answered.copy()
    left = np.searchsorted(timeline.send_ns, heard_ns - resolution_ns, side="right")
    first = np.array([each.first_send for each in episodes], dtype=np.int64)
    found[is_answered] = left <= first[is_answered] + 1
    return found


def recovering_beyond(seen: Reconstruction) -> float:
    """Share of the time behind recoveries, away from the sender, that may be theirs: what comes next was lost as well,
    and whether it had left when the recovery began, which lasts as long as that, or to the next, is not seen."""
    timeline, spent_ns = seen.timeline, 0
    if not len(timeline.fate):
        return 0.0
    lost = set(timeline.send_offset[timeline.fate == LOST].tolist())
    for each, following in zip_longest(seen.episodes, seen.episodes[1:]):
        filled = int(np.searchsorted(timeline.snd_una, each.recover, side="right"))
        if not each.restarts and each.recover in lost and filled < len(timeline.ack_ns):
            over_ns = int(timeline.ack_ns[filled])
            spent_ns += max((min(over_ns, following.time_ns) if following else over_ns) - each.end_ns, 0)
    return share_of(timeline, float(spent_ns))


def recovering_on(seen: Reconstruction) -> float:
    """Share of the time behind recoveries in which another may go on, where no block tells of its holes: what was sent
    in the one before, and lost, is asked for as that one ends, or was sent again in it."""
    timeline, spent_ns = seen.timeline, 0
    for each, following in zip_longest(seen.episodes, seen.episodes[1:]):
        next_ns = following.time_ns if following else int(timeline.send_ns[-1])
        sent = int(np.searchsorted(timeline.send_ns, each.end_ns, side="right"))
        answered = int(np.searchsorted(timeline.snd_una, timeline.snd_max[max(sent - 1, 0)]))
        over_ns = int(timeline.ack_ns[answered]) if answered < len(timeline.ack_ns) else next_ns
        spent_ns += 0 if each.restarts else max(min(over_ns, next_ns) - each.end_ns, 0)
    return share_of(timeline, float(spent_ns))


def recovering_until_heard(seen: Reconstruction) -> float:
    """Share of the time between the ACKs that end recoveries and those before them, where ACKs are missing, by what the
    others tell of: one in between may have ended it."""
    if not seen.is_stretched:
        return 0.0
    timeline = seen.timeline
    begins = np.array([each.time_ns for each in seen.episodes if not each.restarts], dtype=np.int64)
    ends = np.array([each.end_ns for each in seen.episodes if not each.restarts], dtype=np.int64)
    before = np.searchsorted(timeline.ack_ns, ends) - 1
    heard = np.where(before >= 0, timeline.ack_ns[np.maximum(before, 0)], begins)
    return share_of(timeline, float(np.maximum(ends - np.maximum(heard, begins), 0).sum()))


def recovering_longer(seen: Reconstruction) -> float:
    """Share of the time in recoveries beyond the round trip that each takes at the least; what nothing asked for may
    have come late, and be none."""
    rtt_ns = seen.typical_rtt_ns
    spans = (each.end_ns - each.time_ns - (0 if each.is_unasked else rtt_ns) for each in seen.episodes)
    return share_of(seen.timeline, sum(max(span, 0) for span in spans))


def holed_beside(seen: Reconstruction) -> Bools:
    """Of each ACK, whether its blocks tell of holes beside the recoveries seen: another's, of which the repairs were
    not captured."""
    timeline = seen.timeline
    starts, ends = (np.array([getattr(each, name) for each in seen.episodes]) for name in ("time_ns", "end_ns"))
    behind = np.searchsorted(starts, timeline.ack_ns, side="right") - 1
    found: Bools = (timeline.sacked > 0) & ~((behind >= 0) & (timeline.ack_ns < np.append(ends, 0)[behind]))
    return found
