"""A capture as a scenario: its path, senders, receivers and applications, as far as it shows them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tcptrace_lab import controls
from tcptrace_lab.capture import Capture
from tcptrace_lab.classify.verdict import Verdict, classify
from tcptrace_lab.errors import LabError
from tcptrace_lab.reconstruct.timeline import Ints
from tcptrace_lab.replay.application import Written, recover
from tcptrace_lab.replay.habit import Habit, recover_habit
from tcptrace_lab.scenario import CONTROLS, LONGEST_S, Connection, Control, Node, Path, Scenario

# After the last byte of the recording a slower run goes on: so many times its length, and never less.
PATIENCE = 4.0
LEAST_S = 5.0
# A simulation is cut after so many times the packets that the capture's bytes fill; a short transfer's timers go on.
MOST_WORK = 8
LEAST_EVENTS = 50_000
# A receiver's window at work for less of the time bounds nothing.
BOUND_SHARE = 0.1
# A connection with fewer bytes than this share of the busiest is carried, and not judged.
TELLING_SHARE = 0.02


@dataclass(frozen=True, kw_only=True)
class Found:
    """One connection of the capture, as it will be sent again."""

    verdict: Verdict
    written: Written
    habit: Habit
    control: Control
    control_name: str


@dataclass(frozen=True, kw_only=True)
class AsFound:
    """The scenario that a capture shows, its connections in the capture's order, and what was assumed."""

    scenario: Scenario
    connections: tuple[Found, ...]
    start_ns: int
    most_events: int
    notes: tuple[str, ...]


def as_found(
    capture: Capture,
    *,
    control: str | Control | None = None,
    through: Scenario | None = None,
) -> AsFound:
    """The run that a capture records, ready to be simulated.

    `control` (a name of CONTROLS) replaces every sender's control, `through` the path. What the capture does not show
    and nobody gave is refused.
    """
    verdicts = [verdict for verdict in classify(capture) if len(verdict.seen.timeline.send_ns)]
    if not verdicts:
        raise LabError(f"{capture.name}: no connection carries data: nothing to send again")
    most = max(_bytes(verdict) for verdict in verdicts)
    found = [_found(capture, verdict, control) for verdict in verdicts]
    leader = max(found, key=lambda one: _bytes(one.verdict))
    notes: list[str] = []
    if through is None:
        path = _path(capture, found, leader, notes)
    else:
        path = replace(through.path, packet_bytes=_packet_bytes(leader))
    begins = [one.written.first_ns - _handshake_ns(one, path) for one in found]
    start_ns = min(begins)
    base = _base_s(leader)
    connections = tuple(
        Connection(
            control=one.control,
            receiver=one.habit.receiver,
            application=one.written.application,
            start_s=(begin - start_ns) / 1e9,
            extra_delay_s=max(_base_s(one) - base, 0.0) if through is None else 0.0,
        )
        for one, begin in zip(found, begins, strict=True)
    )
    last_ns = max(int(one.verdict.seen.timeline.end_ns) for one in found)
    span_s = (last_ns - start_ns) / 1e9
    if len(found) > 1 and most < 1 / TELLING_SHARE:
        notes.append("several connections share the path that the busiest shows")
    scenario = Scenario(
        path=path,
        connections=connections,
        duration_s=min(max(PATIENCE * span_s, span_s + LEAST_S), LONGEST_S - 1),
        profile="rfc",
        taps=("sender",),
        ipv6=":" in str(capture.connections["client"].iloc[0]),
        title=f"{capture.name}, sent again",
    )
    events = LEAST_EVENTS + MOST_WORK * sum(_packets(one) for one in found)
    return AsFound(
        scenario=scenario, connections=tuple(found), start_ns=start_ns, most_events=events, notes=tuple(notes)
    )


def _found(capture: Capture, verdict: Verdict, control: str | Control | None) -> Found:
    who = verdict.who
    flow = capture[who.connection].flows[who.direction]
    acks = flow.acks
    heard: Ints = acks["time_ns"].to_numpy()[acks["length"].to_numpy() > 0]
    limits = verdict.seen.limits
    is_bounded = (
        verdict.path.bottleneck_pps.value is not None
        or bool(verdict.seen.episodes)
        or limits.get("rwnd", 0.0) >= BOUND_SHARE
    )
    written = recover(verdict.seen, heard, is_bounded=is_bounded)
    habit = recover_habit(verdict.seen)
    row = capture[who.connection].summary
    name, chosen = _control(capture.name, verdict, control)
    chosen = replace(
        chosen,
        initial_window=_initial_window(verdict, chosen),
        delayed_ack_segments=habit.delayed_ack_segments,
        timestamps=bool(row["timestamps"]),
    )
    if chosen.recovery in ("sack", "fack") and not bool(row["sack"]):
        chosen = replace(chosen, recovery="newreno")
    return Found(verdict=verdict, written=written, habit=habit, control=chosen, control_name=name)


def _initial_window(verdict: Verdict, control: Control) -> int:
    found = verdict.as_dict()["initial_window"]["segments"]
    return int(found) if found else max(control.initial_window, 1)


# What a modern host's sender does whatever its control: RFC 3042, RFC 3465 in avoidance, RFC 8985.
MODERN: dict[str, object] = {"limited_transmit": True, "byte_counting": True, "rack": True, "initial_window": 10}

# Where the verdict names no control: RFC 5681's own.
ASSUMED = "reno (assumed: the capture does not tell)"

# The verdict's families as rows of the simulator's senders, on the recovery that the capture shows: what differs from a
# standard slow start under the window of that name.
FAMILIES: dict[str, dict[str, object]] = {
    **{name: {"window": name} for name, row in controls.WINDOWS.items() if "rfc" in row.profiles},
    "cubic": {"window": "cubic", "slow_start": "hystart"},
    "m_start": {"slow_start": "m-start"},
}


def _control(name: str, verdict: Verdict, wanted: str | Control | None) -> tuple[str, Control]:
    """The sender to send again: the one asked for, or the one that the verdict names."""
    if isinstance(wanted, Control):
        return "as given", wanted
    shown = verdict.as_dict()["sender_tcp"]
    recovery = shown["recovery"] or "sack"
    if wanted is not None:
        if wanted in FAMILIES:
            return wanted, _of_family(wanted, recovery)
        if wanted not in CONTROLS:
            known = ", ".join(dict.fromkeys([*CONTROLS, *FAMILIES]))
            raise LabError(f"--control {wanted}: must be one of {known}")
        return wanted, Control(**{**_modern(str(CONTROLS[wanted].get("recovery", "newreno"))), **CONTROLS[wanted]})  # type: ignore[arg-type]
    family = shown["congestion_control"]
    if recovery == "tahoe":
        return "tahoe", Control(recovery="tahoe")
    if family in FAMILIES:
        return str(family), _of_family(str(family), recovery)
    if verdict.as_dict()["m_start"]["detected"]:
        return "m_start", _of_family("m_start", recovery)
    candidates = [row["name"] for row in shown["candidates"] if row["name"] in FAMILIES and not row.get("against")]
    if candidates:
        return str(candidates[0]), _of_family(str(candidates[0]), recovery)
    if family is not None:
        raise LabError(f"{name}: sent by {family}, which is not simulated: say --control NAME")
    return ASSUMED, _of_family("reno", recovery)


def _of_family(family: str, recovery: str) -> Control:
    return Control(**{**_modern(recovery), "recovery": recovery, **FAMILIES[family]})  # type: ignore[arg-type]


def _modern(recovery: str) -> dict[str, object]:
    """Tahoe's and Reno's rules are older than these."""
    return MODERN if recovery in ("newreno", "sack", "fack") else {}


def _path(capture: Capture, found: Sequence[Found], leader: Found, notes: list[str]) -> Path:
    """The path that the busiest connection shows; what it does not show is without limit, and said."""
    estimate = leader.verdict.path
    packet_bytes = _packet_bytes(leader)
    base_s = _base_s(leader)
    if not base_s:
        raise LabError(f"{capture.name}: round trip not known ({estimate.base_rtt_s.method}): give --through SCENARIO")
    pps = estimate.bottleneck_pps.value
    if pps is None:
        notes.append(f"bottleneck not seen ({estimate.bottleneck_pps.method}): links without limit")
    rate_bps = 8 * packet_bytes * pps if pps else math.inf
    buffer = estimate.buffer_packets.value
    if buffer is None and pps is not None:
        notes.append(f"buffer not seen ({estimate.buffer_packets.method}): without limit")
    delay_s = max(base_s - (1 / pps if pps else 0.0), 0.0) / 2
    node = Node(
        rate_bps=rate_bps,
        buffer=max(buffer, 1.0) if buffer is not None and pps else math.inf,
        delay_s=delay_s,
        drop_packets=_losses_by_number(found, buffer is not None and pps is not None),
    )
    if node.drop_packets:
        notes.append(f"{len(node.drop_packets)} packets lost though the queue had room: the same ones are lost again")
    return Path(nodes=(node,), return_delay_s=delay_s, packet_bytes=packet_bytes)


def _losses_by_number(found: Sequence[Found], has_buffer: bool) -> tuple[int, ...]:
    """Lost data packets that met no full buffer, by number among those that the node served."""
    from tcptrace_lab.classify.causes import with_causes

    sent = np.sort(np.concatenate([one.verdict.seen.timeline.send_ns for one in found]))
    lost: list[int] = []
    overflowed: list[int] = []
    for one in found:
        table = with_causes(one.verdict.seen, one.verdict.path)
        table = table[~table["spurious"].astype(bool)]
        # Where the buffer is known, what speaks for nothing else will overflow it again.
        full = (table["cause"] != "random") if has_buffer else np.zeros(len(table), dtype=bool)
        lost += table.loc[~full, "time_ns"].tolist()
        overflowed += table.loc[full, "time_ns"].tolist()
    numbers = np.searchsorted(sent, np.array(sorted(lost), dtype=np.int64), side="left") + 1
    refused = np.searchsorted(np.sort(np.array(overflowed, dtype=np.int64)), np.array(sorted(lost)), side="left")
    return tuple(int(number) for number in np.unique(np.maximum(numbers - refused, 1)))


def _packets(one: Found) -> int:
    """Packets of both directions, super-segments counted as what the wire carried."""
    timeline = one.verdict.seen.timeline
    captured = timeline.send_end - timeline.send_offset
    return int(np.sum(-(-captured // timeline.smss))) + len(timeline.ack_ns)


def _packet_bytes(one: Found) -> int:
    return int(one.verdict.path.packet_bytes)


def _base_s(one: Found) -> float:
    return float(one.verdict.path.base_rtt_s.value or 0.0)


def _handshake_ns(one: Found, path: Path) -> int:
    """From the SYN to the first data: the recorded handshake, in a queue perhaps, of a sender that opened it.

    One that was asked first had its handshake before; the simulated one has it so that its first byte leaves in time.
    """
    who = one.verdict.who
    is_opener = who.direction == 0 and who.handshake_rtt_s is not None
    return int((who.handshake_rtt_s if is_opener and who.handshake_rtt_s else path.propagation_rtt_s) * 1e9)


def _bytes(verdict: Verdict) -> int:
    timeline = verdict.seen.timeline
    return int(timeline.snd_max[-1] - timeline.first_offset) if len(timeline.send_ns) else 0
