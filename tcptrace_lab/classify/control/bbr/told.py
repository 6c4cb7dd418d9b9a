"""The windows of a sender that sets them by a model of the path (BBR), as its own code would have had them.

It is told of all that was seen, as the simulator's sender is (core/src/infer/candidates/told.rs), so it knows delivery
rates, round trips and losses. Which phase of its cycle it began with no capture tells, nor to the microsecond what it
measured: a probe of the round trip may come a little sooner or later, and then the window is anything between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.reconstruct.away.heard import without
from tcptrace_lab.reconstruct.given import DELAYED_ACK_SEGMENTS, FEWEST_ALIKE
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import ARRIVED, Bools, Floats, Ints, Places, Timeline
from tcptrace_lab.reconstruct.windows import APPLICATION, CWND, RECOVERY, UNKNOWN

# Two segments more in one phase of eight, and an even number of them (draft-cardwell-iccrg-bbr section 4.3.4.2; Linux);
# and what a rate is off by where its interval begins or ends at the tap, not in the sender.
SPREAD_SEGMENTS = 4
SPREAD_SHARE = 0.02
# Beyond it at more of the ACKs the flight is not of this window. What a recovery has in flight is known less well.
BEYOND_SHARE = 0.05


@dataclass(frozen=True, kw_only=True)
class ByModel:
    """At each row of `windows`: the window that BBR would have had, and between what it lies. Bytes.

    `is_open`: it may as well have been another, as where it holds its flight down to measure the round trip.
    """

    value: Ints
    least: Ints
    most: Ints
    is_open: Bools


def window_by_model(
    seen: Reconstruction,
    table: dict[str, Ints],
    acks: Places,
    *,
    initial_window: int,
    handshake_rtt_s: float | None,
    is_away: bool = False,
    unheard: Bools | None = None,
) -> ByModel | None:
    """At the rows of `windows`, each with the last ACK up to it; None where the beginning was not captured, or where
    more was in flight than the window allows. `is_away`: when segments left is inferred, as away from the sender;
    `unheard`: the ACKs that did not reach it."""
    timeline = seen.timeline
    smss = timeline.smss
    told, bridging = _core.told_windows(
        timeline if unheard is None else without(timeline, unheard),
        _core.CandidateSender("standard", "bbr", {}, float(initial_window), float(smss)),
        None if handshake_rtt_s is None else round(handshake_rtt_s * 1e9),
        [episode.first_send for episode in seen.episodes if episode.restarts],
    )
    if not len(told):
        return None
    if unheard is not None:
        last = np.maximum(np.cumsum(~unheard) - 1, 0)
        told, bridging = told[last], bridging[last]
    value, spread = told[acks], _spread(seen, told)[acks]
    is_beyond = _surely_in_flight(seen)[acks] > value + spread
    if np.count_nonzero(is_beyond & (table["limited_by"] != RECOVERY)) > BEYOND_SHARE * len(value):
        return None
    least, most = _around_probes(seen, table["time_ns"], value, seen.flight[acks])
    # What bridges lumps of ACKs adds up what comes beyond the bandwidth until less comes: of a bandwidth that inferred
    # times make a little too small it grows without end.
    lumps = bridging[acks] * is_away
    # Of those that nothing echoes one more or less may have been lost: so much more or less came as a lump.
    more = 0 if unheard is None else DELAYED_ACK_SEGMENTS * smss
    return ByModel(
        value=_whole(value),
        least=_whole(np.maximum(least - lumps - spread, smss)),
        most=_whole(most + more + spread),
        is_open=(least < most) | (lumps > smss),
    )


def unheard_by_rate(timeline: Timeline, unechoed: Bools | None) -> Bools | None:
    """The ACKs that a sender may not have heard; None: it heard all. `unechoed`: of a view by timestamps, those that no
    segment echoes (RFC 7323 section 4.3).

    A sender with a pace lets segments go between ACKs: what left behind one, by its own clock, and echoes one before,
    had not heard it. A view puts it no later than that; where it puts two there, they are a pace apart, and its clock's
    ticks are no reason. If some are shown so, the others that nothing echoes may be lost as well.
    """
    if unechoed is None:
        return None
    seen = np.flatnonzero(timeline.fate == ARRIVED) if len(timeline.fate) else np.arange(len(timeline.send_ns))
    found: Bools = unechoed & (timeline.newly_acked > 0)
    asked = np.flatnonzero(found)
    before_last = np.searchsorted(timeline.acks_before_send[seen], asked, side="right") - 2
    is_known = before_last >= 0
    left_ns = timeline.send_ns[seen[before_last[is_known]]]
    shown = np.count_nonzero(left_ns >= timeline.ack_ns[asked[is_known]] - 1)
    return found if shown >= FEWEST_ALIKE else None


def either(models: Sequence[ByModel], smss: int) -> ByModel | None:
    """What holds whichever of these it was; None where there is none."""
    if not models:
        return None
    found = models[0]
    for other in models[1:]:
        found = ByModel(
            value=found.value,
            least=np.minimum(found.least, other.least),
            most=np.maximum(found.most, other.most),
            is_open=found.is_open | other.is_open | (np.abs(found.value - other.value) > smss),
        )
    return found


def _surely_in_flight(seen: Reconstruction) -> Ints:
    """At each ACK what was in flight at least, outside recoveries.

    Linux (tcp_packets_in_flight) does not count what has arrived: without SACK a segment for each duplicate ACK.
    """
    timeline = seen.timeline
    surely = seen.flight - timeline.slack if len(timeline.slack) else seen.flight
    if timeline.has_sack:
        return surely
    places = np.arange(len(surely))
    repeats = places - np.maximum.accumulate(np.where(timeline.newly_acked > 0, places, 0))
    found: Ints = surely - repeats * timeline.smss
    return found


def _spread(seen: Reconstruction, told: Floats) -> Floats:
    """By how much the window may be another: nothing while each ACK opens it by what it acknowledges (startup)."""
    smss = seen.timeline.smss
    spread = np.maximum(SPREAD_SHARE * told, SPREAD_SEGMENTS * smss)
    opens = np.diff(told) >= seen.timeline.newly_acked[1:] - 1.0
    spread[: 1 + (len(opens) if opens.all() else int(np.argmin(opens)))] = smss
    return spread


def of_bbr(table: dict[str, Ints], model: ByModel, is_emptied: Bools) -> dict[str, Ints]:
    """The columns of `windows` of a sender known to be BBR, which has no threshold. `is_emptied`: nothing was in
    flight, so it waits for its application; else what holds it back is its own pace, which goes with its window."""
    is_paced = (table["limited_by"] == APPLICATION) & ~is_emptied
    return {
        **table,
        "limited_by": np.where(is_paced, CWND, table["limited_by"]).astype(table["limited_by"].dtype),
        "cwnd": model.value,
        "cwnd_low": model.least,
        "cwnd_high": model.most,
        "ssthresh": np.full_like(table["ssthresh"], UNKNOWN),
    }


def or_bbr(table: dict[str, Ints], model: ByModel, smss: int) -> dict[str, Ints]:
    """The same of a sender that may be BBR: the bounds reach as far as BBR's, which has no threshold; and where that
    has another window than what seems to be one at work, it may as well be its pace that held it back."""
    high, limited = table["cwnd_high"], table["limited_by"]
    is_apart = (np.abs(model.value - table["cwnd"]) > smss) | model.is_open
    return {
        **table,
        "limited_by": np.where((limited == CWND) & is_apart, UNKNOWN, limited).astype(limited.dtype),
        "cwnd_low": np.minimum(table["cwnd_low"], model.least),
        "cwnd_high": np.where(high == UNKNOWN, high, np.maximum(high, model.most)),
        "ssthresh": np.full_like(table["ssthresh"], UNKNOWN),
    }


def or_paced(table: dict[str, Ints]) -> dict[str, Ints]:
    """The same where BBR's window is not followed: what is in flight is then its pace's, and the window any above."""
    limited = table["limited_by"]
    is_open = limited != RECOVERY
    return {
        **table,
        "limited_by": np.where(limited == CWND, UNKNOWN, limited).astype(limited.dtype),
        "cwnd_high": np.where(is_open, UNKNOWN, table["cwnd_high"]).astype(table["cwnd_high"].dtype),
        "ssthresh": np.full_like(table["ssthresh"], UNKNOWN),
    }


def unbounded(table: dict[str, Ints]) -> dict[str, Ints]:
    """The same where BBR's window is not followed: its pace holds its flight below it."""
    nothing = {name: np.full_like(table[name], UNKNOWN) for name in ("cwnd_high", "ssthresh")}
    return {**table, **nothing}


def _around_probes(seen: Reconstruction, times: Ints, value: Floats, flight: Ints) -> tuple[Floats, Floats]:
    """The least and the most that the window may be: around a probe of the round trip, its own and the one before."""
    probing = (_core.BBR_MIN_CWND_SEGMENTS + 0.5) * seen.timeline.smss
    reach_ns = _core.BBR_PROBE_RTT_NS + 2 * seen.typical_rtt_ns
    may_probe = times >= times[0] + _core.BBR_MIN_RTT_WINDOW_NS - reach_ns
    at = np.flatnonzero(may_probe & ((value <= probing) | _stays_low(times, flight, probing)))
    least, most = value.copy(), value.copy()
    if not len(at):
        return least, most
    for group in np.split(at, np.flatnonzero(np.diff(times[at]) > 2 * reach_ns) + 1):
        rows = slice(
            int(np.searchsorted(times, times[group[0]] - reach_ns)),
            int(np.searchsorted(times, times[group[-1]] + reach_ns, side="right")),
        )
        least[rows] = np.minimum(least[rows], _core.BBR_MIN_CWND_SEGMENTS * seen.timeline.smss)
        most[rows] = value[rows].max()
    return least, most


def _stays_low(times: Ints, flight: Ints, most: float) -> Bools:
    """Where no more than this is in flight, and something is, for half of a probe or longer: what waits for its
    application, or has nothing left, is through with it sooner."""
    low = np.concatenate(([False], (flight > 0) & (flight <= most), [False]))
    begins, ends = np.flatnonzero(low[1:] & ~low[:-1]), np.flatnonzero(low[:-1] & ~low[1:])
    until = np.append(times, times[-1])[ends]
    found = np.zeros(len(times), dtype=bool)
    for begin, end, lasts_ns in zip(begins, ends, until - times[begins], strict=True):
        found[begin:end] = lasts_ns >= _core.BBR_PROBE_RTT_NS // 2
    return found


def _whole(values: Floats) -> Ints:
    found: Ints = np.round(values).astype(np.int64)
    return found
