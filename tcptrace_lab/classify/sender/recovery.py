"""Which loss recovery a sender showed, by what it did after duplicate ACKs (RFC 5681, 6582, 6675; Tahoe)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.sender.recovering import answers_missing
from tcptrace_lab.numbers import counted
from tcptrace_lab.reconstruct.given import DELAYED_ACK_SEGMENTS, MAJORITY
from tcptrace_lab.reconstruct.losses import DUP_THRESH, Episode
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.tap.tap import Tap
from tcptrace_lab.reconstruct.tap.unheard import unheard_behind
from tcptrace_lab.reconstruct.timeline import Bools

# The coarsest tick that timestamps have in use (Linux 1 ms, 10 ms before; RFC 7323 section 5.4 allows more): where they
# tell which ACK released a segment, ACKs within a tick are not told apart.
STAMP_TICK_NS = 10_000_000


@dataclass(frozen=True, kw_only=True)
class SenderTcp:
    """`recovery` None: no loss event shows it. `decrease`: the window after recovery over the one before, a median."""

    recovery: str | None
    confidence: float
    decrease: float | None
    reasons: tuple[str, ...]


HIDDEN = SenderTcp(recovery=None, confidence=0.0, decrease=None, reasons=())


def identify_recovery(
    seen: Reconstruction,
    tap: Tap,
    *,
    by_rhythm: bool = False,
    is_rebuilt: bool = False,
    late_ns: int = 0,
    met_no_queue: Bools | None = None,
) -> SenderTcp:
    """Tahoe, SACK, NewReno or Reno, with the share of the loss events that speak for it.

    `is_rebuilt`: which ACK released a segment was inferred; `by_rhythm`: and nothing but their rhythm tells, by which
    these sends `met_no_queue`. `late_ns`: how long after an ACK what it releases passes the tap.
    """
    restarted = _restarted(seen, tap)
    if is_rebuilt:
        restarted = [episode for episode in restarted if _is_followed(seen, episode)]
    if tap.exceeds_scale and restarted and all(episode.round_trip_sends <= 1 for episode in restarted):
        return _unnamed("more was in flight than the window allows, so whether it left room is not told")
    if by_rhythm or tap.is_holed:
        restarted = [episode for episode in restarted if episode.sure]
    if by_rhythm:
        if met_no_queue is not None:
            restarted = _answered(restarted, met_no_queue)
        if len(restarted) == 1:
            return _unnamed("whether a timer made the one restart is not told by the rhythm of ACKs")
    if tap.repairs[1] and len(restarted) == 1:
        # Repairs passed and are not in the capture: what followed the first of these may have been among them.
        return _unnamed("holes were filled by what was not captured, and one restart is no habit")
    told = [episode for episode in seen.episodes if episode.is_asked]
    if tap.is_holed:
        told = [episode for episode in told if episode.sure]
    if not told and not restarted:
        return HIDDEN
    if len(restarted) * 2 > len({*map(id, told), *map(id, restarted)}):
        return _tahoe(told, restarted)
    fast = [episode for episode in told if not episode.restarts]
    if why := _not_told(seen, tap, told, restarted, is_rebuilt=is_rebuilt):
        return _unnamed(why)
    # Both SYNs permitted SACK: the sender repairs by it, whether or not the tap kept the blocks.
    name = "sack" if tap.sack.value == "used" else None
    # Out of order, what filled a hole may have been late; where options of as many ACKs as most duplicates are cut or
    # overwritten, those may have been the blocks by which it was filled (RFC 2018 section 3: duplicates carry them).
    is_cut = tap.cut_acks > MAJORITY * np.count_nonzero(seen.timeline.is_dupack)
    if name is None and not by_rhythm and not tap.refuses("losses") and not is_cut:
        blur_ns = max(tap.clock.doubt_ns, late_ns) + STAMP_TICK_NS * is_rebuilt
        heard = _heard_whole(seen, fast) if tap.may_miss_acks else fast
        name = _without_sack(seen, heard, blur_ns, are_copied=tap.copies > 0)
    decrease = _decrease(seen)
    if name is None:
        why = "no window with two losses shows what was done about the second"
        return replace(_unnamed(why), decrease=decrease)
    reasons: tuple[str, ...] = ()
    if fast and decrease is not None:
        reasons = (f"window after fast recovery / before: {decrease:.2f} (median of {len(fast)})",)
    sure = sum(episode.sure for episode in fast)
    return SenderTcp(recovery=name, confidence=sure / len(told), decrease=decrease, reasons=reasons)


def _restarted(seen: Reconstruction, tap: Tap) -> list[Episode]:
    """Loss events with duplicate ACKs after which the sender went back to one segment."""
    # A timer that expires amid the duplicate ACKs of a recovery restarts any sender.
    restarted = [
        episode
        for before, episode in zip((None, *seen.episodes), seen.episodes, strict=False)
        if episode.restarts and episode.dupacks >= DUP_THRESH and not episode.expires_within(before)
    ]
    # One that expires long after them may have been a lost retransmission's, of any sender: a single one is no habit,
    # nor are more where most came so and the tap lost packets.
    expired = [episode.detected_by for episode in restarted].count("rto")
    if expired == 1 or (tap.is_holed and 2 * expired > len(restarted)):
        restarted = [episode for episode in restarted if episode.detected_by != "rto"]
    if tap.copies:
        # Duplicates are alike, so that each may be another's copy: what their number tells its answer has to.
        restarted = [episode for episode in restarted if episode.una < seen.timeline.snd_una[-1]]
    return restarted


def _unnamed(why: str) -> SenderTcp:
    return replace(HIDDEN, reasons=(f"the recovery is not named: {why}",))


def _tahoe(told: Sequence[Episode], restarted: Sequence[Episode]) -> SenderTcp:
    """Of a sender most of whose loss events end in a restart."""
    sure = sum(episode.sure for episode in restarted)
    going_on = sum(episode.sure for episode in told if not episode.restarts)
    if sure <= going_on or not _is_one_segments(restarted):
        return _unnamed("no loss event shows that the window went back to one segment")
    why = f"{counted(len(restarted), 'loss event')} with duplicate ACKs, each followed by a restart from one segment"
    return SenderTcp(recovery="tahoe", confidence=sure / max(len(told), len(restarted)), decrease=None, reasons=(why,))


def _not_told(
    seen: Reconstruction, tap: Tap, told: Sequence[Episode], restarted: Sequence[Episode], *, is_rebuilt: bool
) -> str | None:
    """Why the loss events do not tell one recovery of those that go on from another; None: they may."""
    if told and not any(episode.sure for episode in (*told, *restarted)):
        return "no loss event shows what became of the window"
    if tap.is_holed and restarted:
        return "the tap lost packets, and not all loss events show the same"
    if not is_rebuilt and tap.sack.value != "used" and answers_missing(seen):
        return "most answers to what was sent again were not captured"
    if refused := tap.refuses("recovery"):
        return refused
    fast, ended = [episode for episode in told if not episode.restarts], _ended_by_timer(seen)
    if 2 * sum(id(episode) in ended for episode in fast) > len(fast):
        return "most repaired one hole and waited for the timer"
    return None


def _is_followed(seen: Reconstruction, event: Episode) -> bool:
    """Whether what the ACKs up to its answer released can have passed a tap away from the sender, a round trip later,
    before the capture ended: that nothing did is else no silence of the sender's."""
    timeline = seen.timeline
    answer = int(np.searchsorted(timeline.snd_una, event.una, side="right"))
    return answer < len(timeline.ack_ns) and int(timeline.ack_ns[answer]) + seen.base_rtt_ns <= timeline.end_ns


def _is_one_segments(restarted: Sequence[Episode]) -> bool:
    """Whether in most of these no more left in the first round trip than a window of one, and what its answer released
    at a clock's edge."""
    few = [episode.round_trip_sends <= 1 + DELAYED_ACK_SEGMENTS for episode in restarted]
    return sum(few) > MAJORITY * len(few)


def _answered(restarted: Sequence[Episode], met_no_queue: Bools) -> list[Episode]:
    """Those of which what came behind the first segment sent again met no queue, as what the answer to that released
    does: one behind the other they may have left together."""
    freed = np.append(met_no_queue, True)
    return [each for each in restarted if freed[each.first_send + 1]]


def _ended_by_timer(seen: Reconstruction) -> set[int]:
    """Which events repaired one hole, and nothing more until the timer expired, by `id`."""
    pairs = pairwise(seen.episodes)
    return {id(before) for before, after in pairs if before.retransmitted <= 1 and after.expires_within(before)}


def _heard_whole(seen: Reconstruction, events: list[Episode]) -> list[Episode]:
    """Those in which no ACK is missing: one may have been the partial one, or have ended the recovery."""
    missing_ns = seen.timeline.ack_ns[unheard_behind(seen.timeline)]
    first = np.searchsorted(missing_ns, [each.time_ns for each in events])
    behind = np.searchsorted(missing_ns, [each.end_ns for each in events])
    return [each for each, is_whole in zip(events, (first == behind).tolist(), strict=True) if is_whole]


def _without_sack(seen: Reconstruction, fast: Sequence[Episode], blur_ns: float, *, are_copied: bool) -> str | None:
    """What a sender did about the second hole of a window; None: no event shows it.

    NewReno fills it at the ACK of the first (RFC 6582), Reno has left its recovery and waits for three duplicate ACKs
    again (RFC 5681), or for its timer. `fast`: the recoveries that duplicate ACKs began. What began otherwise may be
    another sender's restart of which the tap lost a part. `blur_ns`: within it ACKs are not told apart. `are_copied`:
    the tap took packets twice, so of duplicate ACKs, which are alike, each may be another's copy.
    """
    timeline = seen.timeline
    again = np.flatnonzero(timeline.is_retransmission)
    # The partial ACK's own copy, and one of each duplicate.
    copies, third = (1, 2 * DUP_THRESH + 1) if are_copied else (0, DUP_THRESH)
    partial, anew = 0, 0
    for episode in fast:
        if not episode.is_loss:
            continue
        first, behind = np.searchsorted(again, [episode.first_send + 1, len(timeline.send_ns)])
        for send in again[first:behind]:
            if timeline.send_ns[send] > episode.end_ns:
                break
            known = int(timeline.acks_before_send[send])
            if known == timeline.acks_before_send[send - 1] and timeline.is_retransmission[send - 1]:
                # The rest of what a box, or a card, has cut.
                continue
            moved = int(timeline.last_moved[known - 1]) if known else -1
            if timeline.send_end[send] <= timeline.snd_una[max(moved, 0)]:
                # A timer's copy that crossed its answer, by a clock that does not tell which came first: none asked.
                continue
            dupacks = int(np.count_nonzero(timeline.is_dupack[moved + 1 : known]))
            left_ns = timeline.send_ns[send]
            # What leaves so long after the ACK that told of a hole was not released by it, but by a timer: anybody's.
            partial += dupacks <= copies and left_ns - timeline.ack_ns[max(moved, 0)] < _core.LEAST_RTO_NS
            # Neither the ACK before nor one behind may have been the partial one.
            soon = slice(known, int(np.searchsorted(timeline.ack_ns, left_ns + blur_ns, side="right")))
            is_told = left_ns - timeline.ack_ns[max(moved, 0)] > blur_ns and not timeline.newly_acked[soon].any()
            anew += dupacks >= third and bool(is_told)
    if partial == anew:
        return None
    return "newreno" if partial > anew else "reno"


def _decrease(seen: Reconstruction) -> float | None:
    shares = []
    for part in seen.stretches:
        if part.begin == "recovery" and part.started_by is not None:
            before = part.started_by.window_before
            shares.append(seen.flight[part.first] / before if before else np.nan)
    shares = [share for share in shares if np.isfinite(share)]
    return _core.median(np.array(shares)) if shares else None
