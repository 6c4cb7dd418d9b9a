"""The sentence a person would say of a sender, from the parts of its verdict; what is undecided is left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.control.answer.identified import UNKNOWN as UNKNOWN_CONTROL
from tcptrace_lab.classify.control.answer.identified import open_names
from tcptrace_lab.classify.obstacles import FEW_SEGMENTS, Obstacles
from tcptrace_lab.classify.path.path import PathEstimate
from tcptrace_lab.classify.sender.limits import paused, stalls_ns
from tcptrace_lab.classify.sender.shares import UNKNOWN
from tcptrace_lab.classify.sender.written import is_written_or_buffered
from tcptrace_lab.classify.theory.asked import MOST_NAMES
from tcptrace_lab.controls import WINDOWS
from tcptrace_lab.reconstruct.given import FEWEST_ALIKE, FULL_SHARE, MAJORITY, MINORITY
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.tap.tap import Tap
from tcptrace_lab.reconstruct.windows import CWND

# How the controls are written in their papers.
SPELT = {
    **{row.family: row.spelt for row in WINDOWS.values()},
    "m_start": "M-Start",
    "unknown": "A control that is none of the known ones",
}
# Whose throughput a sender's is said to be a share of, the first that has one.
LAWS = {
    "cubic_response": "CUBIC's law",
    "compound": "Compound's model",
    "pftk": "Reno's law",
}
# A share of a law is said in percent where its bounds are no farther apart than this part of its value.
LAW_KNOWN = 0.1
BY_WINDOW = "limited by its congestion window"
BY_APPLICATION = "limited by its application"
# Nor does a pace that is set to less than the path carries (SO_MAX_PACING_RATE) show otherwise.
BY_WRITES = "limited by what its application writes, by its send buffer, or by a pace of its own"
# A part of the time that is told beside another.
PARTLY = 0.2
# A closed window is told that lasted so many round trips, and until a sender probes it.
STOPPED_ROUNDS = 3.0
# A timer that went off, and after twice its time again (RFC 6298 section 5.5): unanswered for three times its least.
UNANSWERED_FACTOR = 3.0
# Losses further apart than so many times the median, or from where the run begins or ends, come in bunches: a distance
# would say little of them.
SCATTERED = 5.0
FEW_TIMES = {1: "once", 2: "twice"}
CAUSES = {
    "cwnd": "by its congestion window",
    "rwnd": "by the receiver's window",
    "application": "by its application",
    "recovery": "by losses",
}


@dataclass(frozen=True, kw_only=True)
class Course:
    """What a sentence needs of how the run went, beside the verdict's keys.

    `loss_times_s`: when its loss events were noticed, apart from needless timeouts, and those of the same loss again;
    `sends_until_s`: when it sent last;
    `stopped_s`: the longest time with a closed window, `unanswered_s`: in which no timeout was answered (0: none worth
    telling); `is_full`: whether the window held the bottleneck busy most of the time (None: not known);
    `grows_throughout`: in slow start to the end; `is_kept`: what was in flight stood below what the path holds;
    `is_even`: the same by what was written, a send buffer, or a pace; `is_busy`: what was delivered kept the bottleneck
    busy most of the time, whatever window allowed it; `paused`: the share of the time in which it had nothing to send
    for longer than a timer waits. `unplaced`: packets that were lost before the tap, at times that
    are not known. `new_bytes`: sent, each once; `smss`: of a full segment. `hidden_by`: why what limited it is not
    seen.
    """

    new_bytes: int
    smss: int
    loss_times_s: tuple[float, ...]
    stopped_s: float
    is_full: bool | None
    grows_throughout: bool
    sends_until_s: float = 0.0
    is_kept: bool = False
    is_even: bool = False
    is_busy: bool = False
    paused: float = 0.0
    unplaced: int = 0
    unanswered_s: float = 0.0
    hidden_by: str | None = None


def course(
    seen: Reconstruction,
    path: PathEstimate,
    tap: Tap,
    obstacles: Obstacles,
    *,
    limits: Mapping[str, float],
    is_kept: bool = False,
    unplaced: int = 0,
) -> Course:
    """Of one sender; `limits`: what the verdict says of them."""
    timeline = seen.timeline
    lost = timeline.observed.lost()
    needless = set(lost["event"].tolist()) - set(lost["event"][~lost["spurious"]].tolist())
    told = [each for number, each in enumerate(seen.episodes) if each.is_loss and number not in needless]
    # A timer that goes off again before anything was answered tells of no other loss (RFC 6298 section 5.5).
    again = [each.detected_by == "rto" and each.una == before.una for before, each in pairwise(told)]
    times = [
        timeline.seconds(each.time_ns) for each, is_same in zip(told, [False, *again], strict=False) if not is_same
    ]
    longest = float(stalls_ns(timeline, tap).max(initial=0)) / 1e9
    is_told = longest >= max(_core.LEAST_RTO_NS / 1e9, STOPPED_ROUNDS * seen.typical_rtt_ns / 1e9)
    parts = seen.stretches
    only = parts[0] if len(parts) == 1 else None
    end_ns = int(timeline.send_ns[-1]) if len(timeline.send_ns) else 0
    grows = (
        only is not None
        and only.peak is not None
        and only.begin == "connection"
        and not seen.episodes
        and end_ns - int(timeline.ack_ns[only.peak]) <= seen.typical_rtt_ns
    )
    return Course(
        new_bytes=timeline.new_bytes,
        smss=timeline.smss,
        loss_times_s=tuple(times),
        sends_until_s=timeline.seconds(end_ns) if end_ns else 0.0,
        stopped_s=longest if is_told else 0.0,
        is_full=_is_full(seen, path),
        grows_throughout=grows,
        is_kept=is_kept,
        is_even=limits.get("application", 0.0) >= MAJORITY and is_written_or_buffered(seen),
        is_busy=_is_busy(seen, path),
        paused=paused(seen, max(_core.LEAST_RTO_NS, seen.typical_rtt_ns)),
        unplaced=unplaced,
        unanswered_s=0.0 if tap.is_holed else _unanswered_s(seen),
        hidden_by=next(iter(obstacles.hides_window), None) if obstacles.hides_flight else tap.refuses("limits"),
    )


def _unanswered_s(seen: Reconstruction) -> float:
    """The longest time between two ACKs of a loss event for which a timer went off, and went off again."""
    timeline, longest = seen.timeline, 0
    for episode in seen.episodes:
        if episode.detected_by != "rto" or not episode.is_loss:
            continue
        first, last = np.searchsorted(timeline.ack_ns, [episode.time_ns, episode.end_ns])
        part = slice(max(int(first) - 1, 0), int(last) + 1)
        # A closed window is silent by itself.
        is_open = (seen.flight[part] > 0) & (timeline.rwnd[part] >= timeline.smss)
        longest = max(longest, int(np.diff(timeline.ack_ns[part])[is_open[:-1]].max(initial=0)))
    is_told = longest >= UNANSWERED_FACTOR * _core.LEAST_RTO_NS + seen.typical_rtt_ns
    return longest / 1e9 if is_told else 0.0


def _is_full(seen: Reconstruction, path: PathEstimate) -> bool | None:
    """Whether the median of what was in the network, recoveries apart, fills the pipe."""
    pipe = path.bdp_packets.value
    columns = seen.timeline.observed.windows()
    free = columns["limited_by"] == CWND
    if pipe is None or not free.any():
        return None
    return float(np.median(columns["cwnd_low"][free])) >= FULL_SHARE * pipe * seen.timeline.smss


def _is_busy(seen: Reconstruction, path: PathEstimate) -> bool:
    """Whether, most of the time, new data came through at the bottleneck's rate: its ACKs tell, from anywhere.

    Errs towards "no": what is sent twice is no new data.
    """
    timeline, rate = seen.timeline, path.bottleneck_pps
    if rate.value is None or rate.high is None or len(timeline.ack_ns) < 2:
        return False
    # A round trip at a time: slower ones have their bursts spread by then.
    step_ns = max(seen.typical_rtt_ns, int(FEW_SEGMENTS / rate.value * 1e9))
    begin_ns, end_ns = int(timeline.start_ns), int(timeline.ack_ns[-1])
    if len(timeline.ack_ns) < MAJORITY * ((end_ns - begin_ns) // step_ns):
        # Each that is full has an ACK; a connection may be idle for days of many short round trips.
        return False
    edges = np.arange(begin_ns, end_ns + 1, step_ns)
    through = np.diff(timeline.una_after(_core.places(timeline.ack_ns, edges, or_equal=True))) / timeline.smss
    is_full = through >= FULL_SHARE * rate.value * step_ns / 1e9
    return len(is_full) > 1 and float(is_full.mean()) >= MAJORITY


def diagnosis(verdict: Mapping[str, Any], course: Course) -> str:
    """One line from a verdict's keys and the run's course."""
    limit = _limit(verdict, course)
    losses = _losses(verdict, course, names_buffer=limit is not None and "bottleneck" in limit)
    parts = [_stopped(course), _unanswered(course), losses, _marks(verdict), _slow_starts(verdict)]
    parts.append(_share_of_law(verdict))
    said = ", ".join(part for part in parts if part)
    sentence = _who_and_limit(verdict, course, limit)
    return f"{sentence}: {said}" if said else sentence


def _who_and_limit(verdict: Mapping[str, Any], course: Course, limit: str | None) -> str:
    who = _name(verdict)
    if who is None and course.new_bytes < FEW_SEGMENTS * course.smss:
        few = f"{_bytes(course.new_bytes)} sent, too few to show a"
        # Of so little nobody asks why.
        return f"{few} control or what limited it" if limit is None else f"{few} congestion control, {limit}"
    return f"{who or _nameless(verdict)}, {limit or f'what limited it is not told ({_hidden_by(verdict, course)})'}"


def _name(verdict: Mapping[str, Any]) -> str | None:
    """The control, or the few that would all have done what was seen."""
    tcp = verdict["sender_tcp"]
    name, recovery = tcp["congestion_control"], tcp["recovery"]
    if recovery == "tahoe" and name in (None, "reno"):
        return "Tahoe"
    if name is not None:
        return SPELT.get(str(name), str(name))
    left = _left(verdict)
    return " or ".join(SPELT.get(each, each) for each in left) if 1 < len(left) <= MOST_NAMES else None


def _nameless(verdict: Mapping[str, Any]) -> str:
    left = _left(verdict)
    if len(left) == 1:
        return f"{SPELT.get(left[0], left[0])} or one like it"
    is_alike = verdict["losses"]["total"] == 0 and bool(left)
    return f"A sender whose control {'does not show' if is_alike else 'is not decided'}"


def _left(verdict: Mapping[str, Any]) -> list[str]:
    return [each for each in open_names(verdict["sender_tcp"]["candidates"]) if each != UNKNOWN_CONTROL]


def _limit(verdict: Mapping[str, Any], course: Course) -> str | None:
    """None: not told (`_hidden_by`)."""
    limits = verdict["limits"]
    if not limits:
        return _bottleneck(verdict["path"]) if course.is_busy else None
    if limits.get("rwnd", 0.0) >= MAJORITY:
        return "limited by the receiver's window"
    if limits.get("application", 0.0) >= MAJORITY:
        return BY_WRITES if course.is_even else _by_application(verdict, course)
    if course.is_kept:
        return "limited by its send buffer, or by a window or a pace of a fixed size"
    if course.is_busy and (words := _bottleneck(verdict["path"])):
        return words
    if limits.get("cwnd", 0.0) + limits.get("recovery", 0.0) >= MAJORITY:
        if words := _policer(verdict):
            return words
        if limits.get("recovery", 0.0) >= limits.get("cwnd", 0.0):
            return f"held back by losses: {limits['recovery']:.0%} of the time spent recovering"
        return _network(verdict, course)
    known = sorted(((limits.get(name, 0.0), words) for name, words in CAUSES.items()), reverse=True)
    told = [f"{words} {share:.0%} of the time" for share, words in known if share >= PARTLY]
    return f"limited {', '.join(told)}" if told and limits.get(UNKNOWN, 0.0) < MAJORITY else None


def _by_application(verdict: Mapping[str, Any], course: Course) -> str:
    """Its pauses, and what held it back between them: of a page fetched and a connection left open both are asked."""
    limits = verdict["limits"]
    paused = min(course.paused, limits["application"])
    if paused < PARTLY:
        return BY_APPLICATION
    part = f"{paused:.0%}" if round(paused, 2) < 1.0 else "nearly all"
    words = f"{BY_APPLICATION}, which paused {part} of the time"
    between = {name: share / (1.0 - paused) for name, share in limits.items() if paused < 1.0}
    if between.get("cwnd", 0.0) + between.get("recovery", 0.0) >= MAJORITY:
        return f"{words}, and between pauses {_network(verdict, course).removeprefix('limited ')}"
    return f"{words}, and between pauses {CAUSES['rwnd']}" if between.get("rwnd", 0.0) >= MAJORITY else words


def _hidden_by(verdict: Mapping[str, Any], course: Course) -> str:
    """Why what limited it is not told."""
    if course.hidden_by is not None:
        return course.hidden_by
    limits = verdict["limits"]
    if not limits:
        return "no two ACKs, or no time, between its segments"
    return f"{limits.get(UNKNOWN, 0.0):.0%} of the time more than one cause fits"


def _network(verdict: Mapping[str, Any], course: Course) -> str:
    """Held back by its congestion window: what keeps that from growing."""
    losses = verdict["losses"]
    if not losses["total"]:
        if course.grows_throughout:
            return "in slow start to its end"
        return (_bottleneck(verdict["path"]) if course.is_full else None) or BY_WINDOW
    is_overflow = losses["by_cause"].get("overflow", 0) > MAJORITY * losses["total"]
    if not is_overflow and course.is_full is False:
        return f"{BY_WINDOW}, which losses keep below what the path holds"
    return _bottleneck(verdict["path"]) or BY_WINDOW


def _stopped(course: Course) -> str | None:
    return f"the receiver stopped reading for {_seconds(course.stopped_s)}" if course.stopped_s else None


def _policer(verdict: Mapping[str, Any]) -> str | None:
    path, losses = verdict["path"], verdict["losses"]
    rate, burst = path["policer_bps"]["value"], path["policer_burst_packets"]["value"]
    if rate is None or losses["by_cause"].get("policed", 0) <= MAJORITY * (losses["total"] or 0):
        return None
    return f"limited by a policer that lets {_bits(rate)} pass, and bursts of {burst:.0f} packets"


def _unanswered(course: Course) -> str | None:
    return f"nothing was answered for {_seconds(course.unanswered_s)}" if course.unanswered_s else None


def _bottleneck(path: Mapping[str, Any]) -> str | None:
    rate, buffer = path["bottleneck_bps"]["value"], path["buffer_packets"]["value"]
    if rate is None or path["bottleneck_bps"]["low"] is None:
        # A pace that bounds the path's rate on neither side may be the window's, or a radio's.
        return None
    held = "" if buffer is None else f" with {buffer:.0f} packets of buffer"
    if between := path["bottleneck_bps"].get("between"):
        return f"limited by a bottleneck whose rate changes, {' to '.join(map(_bits, between))}{held}"
    return f"limited by a {_bits(rate)} bottleneck{held}"


def _bits(rate_bps: float) -> str:
    for unit, factor in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if rate_bps >= factor:
            return f"{rate_bps / factor:.3g} {unit}"
    return f"{rate_bps:.3g} bit/s"


def _bytes(count: int) -> str:
    return f"{count} bytes" if count < 10_000 else f"{count / 1e3:.3g} kB"


def _losses(verdict: Mapping[str, Any], course: Course, *, names_buffer: bool) -> str | None:
    loss_times_s = course.loss_times_s
    total, causes = verdict["losses"]["total"], verdict["losses"]["by_cause"]
    if total is None:
        return None
    if total == 0:
        return None if verdict["losses"]["possible_unseen"] else "no losses"
    overflows = causes.get("overflow", 0) > MAJORITY * total
    verb = ("overflows it" if names_buffer else "overflows the buffer") if overflows else "loses packets"
    if causes.get("policed", 0) > MAJORITY * total:
        verb = "exceeds it"
    if causes.get("codel", 0) > MAJORITY * total:
        verb = "loses packets to CoDel"
    if len(loss_times_s) < FEWEST_ALIKE:
        times = FEW_TIMES.get(len(loss_times_s))
        return f"{verb} {times}" if times else None
    if course.unplaced > MINORITY * total:
        # Lost at times that are not known.
        return f"{verb} {len(loss_times_s)} times or more"
    apart = np.diff(np.asarray(loss_times_s))
    usual = _core.median(apart)
    without = max(float(apart.max()), loss_times_s[0], course.sends_until_s - loss_times_s[-1])
    if without > SCATTERED * usual:
        return f"{verb} {len(loss_times_s)} times"
    return f"{verb} every {_seconds(usual)}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"


def _marks(verdict: Mapping[str, Any]) -> str | None:
    """ECN: what a queue told without a loss."""
    cuts = verdict["tap"]["ecn_cuts"]
    return f"told to slow down by ECN marks {FEW_TIMES.get(cuts, f'{cuts} times')}" if cuts else None


def _slow_starts(verdict: Mapping[str, Any]) -> str | None:
    regime = verdict["slow_starts"]["regime"]
    return f"{regime} slow start in each cycle" if regime in ("double", "triple") else None


def _share_of_law(verdict: Mapping[str, Any]) -> str | None:
    rows = {row["model"]: row["quantities"] for row in verdict["predictions"]}
    for model, words in LAWS.items():
        quantity = rows.get(model, {}).get("throughput")
        if quantity and quantity["value"] and quantity["observed"] is not None:
            is_known = quantity["high"] - quantity["low"] <= LAW_KNOWN * quantity["value"]
            share = quantity["observed"] / quantity["value"]
            return f"{share:.0%} of what {words} allows" if is_known else None
    return None
