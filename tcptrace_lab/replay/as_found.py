"""A capture as a scenario: its path, senders, receivers and applications, as far as it shows them."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tcptrace_lab import controls
from tcptrace_lab.capture import Capture
from tcptrace_lab.classify.control.answer.identified import open_names
from tcptrace_lab.classify.control.candidates.candidates import BY_RATE
from tcptrace_lab.classify.verdict import Verdict, classify
from tcptrace_lab.errors import LabError
from tcptrace_lab.reconstruct.timeline import Ints
from tcptrace_lab.replay.application import AppWrites, recover
from tcptrace_lab.replay.by_number import losses_by_number, packets
from tcptrace_lab.replay.habit import Habit, recover_habit
from tcptrace_lab.replay.own_delay import own_delay_s
from tcptrace_lab.replay.pauses import host_pauses
from tcptrace_lab.replay.unseen import unseen_traffic
from tcptrace_lab.scenario import CONTROLS, LONGEST_S, ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario

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
    """One connection of the capture, as it will be sent again; `open_controls` are those that the capture leaves open,
    the likeliest first, by name."""

    verdict: Verdict
    written: AppWrites
    habit: Habit
    # From when to when the sender's host stood still, on the capture's clock.
    pauses_ns: tuple[tuple[int, int], ...]
    control: ControlSpec
    control_name: str
    open_controls: tuple[tuple[str, ControlSpec], ...]
    # Where no control is named and segments leave at times of their own: a sender by a rate, whose data was all there.
    paced: tuple[str, ControlSpec, AppWrites] | None = None


@dataclass(frozen=True, kw_only=True)
class AsFound:
    """The scenario that a capture shows, its connections in the capture's order, and what was assumed."""

    scenario: Scenario
    connections: tuple[Found, ...]
    start_ns: int
    most_events: int
    notes: tuple[str, ...]

    @property
    def leader(self) -> Found:
        """The busiest connection, whose path it is."""
        return max(self.connections, key=lambda one: one.verdict.seen.timeline.new_bytes)


def senders(capture: Capture) -> list[Verdict]:
    """The verdicts on those that sent data."""
    verdicts = [verdict for verdict in classify(capture) if len(verdict.seen.timeline.send_ns)]
    if not verdicts:
        raise LabError(f"{capture.name}: no connection carries data: nothing to send again")
    return verdicts


def as_found(
    capture: Capture,
    *,
    control: str | ControlSpec | None = None,
    through: Scenario | None = None,
    verdicts: Sequence[Verdict] = (),
) -> AsFound:
    """The run that a capture records, ready to be simulated.

    `control` (a name of CONTROLS) replaces every sender's control, `through` the path. What the capture does not show
    and nobody gave is refused. `verdicts`: those of `senders`, where they are known.
    """
    verdicts = verdicts or senders(capture)
    most = max(verdict.seen.timeline.new_bytes for verdict in verdicts)
    found = [_found(capture, verdict, control) for verdict in verdicts]
    leader = max(found, key=lambda one: one.verdict.seen.timeline.new_bytes)
    tap = leader.verdict.who.tap
    if tap.tap_lost_acks > tap.acks:
        heard = f"{tap.tap_lost_acks} ACKs or more were never captured, {tap.acks} were"
        raise LabError(f"{capture.name}: {heard}: what the receiver answered is not known")
    notes: list[str] = []
    if through is None:
        path = _path(capture, found, leader, notes)
        notes += _others(leader.verdict, verdicts)
    else:
        path = replace(through.path, packet_bytes=_packet_bytes(leader))
    begins = [one.written.first_ns - _handshake_ns(capture, one, path) for one in found]
    start_ns = min(begins)
    connections = tuple(
        ConnectionSpec(
            control=one.control,
            receiver=one.habit.receiver,
            application=one.written.application,
            start_s=(begin - start_ns) / 1e9,
            pauses=tuple(((from_ns - begin) / 1e9, (to_ns - from_ns) / 1e9) for from_ns, to_ns in one.pauses_ns),
            extra_delay_s=_extra_s(capture, one, leader) if through is None else 0.0,
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


def _found(capture: Capture, verdict: Verdict, control: str | ControlSpec | None) -> Found:
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
    is_paced = verdict.as_dict()["sender_tcp"]["congestion_control"] in BY_RATE
    written = recover(verdict.seen, heard, is_bounded=is_bounded, is_paced=is_paced)
    habit = recover_habit(verdict.seen)
    row = capture[who.connection].summary
    # Without the handshake what was agreed shows in what is used.
    has_sack = bool(row["sack"]) or bool(verdict.seen.timeline.sacked.any())

    def as_seen(chosen: ControlSpec) -> ControlSpec:
        return replace(
            _begun(verdict, chosen),
            delayed_ack_segments=habit.delayed_ack_segments,
            timestamps=bool(row["timestamps"]),
            recovery="newreno" if chosen.recovery in ("sack", "fack") and not has_sack else chosen.recovery,
        )

    controls_left = tuple((name, as_seen(chosen)) for name, chosen in _controls(capture.name, verdict, control))
    name, chosen = controls_left[0]
    paced = None
    if control is None and not is_paced and is_bounded and written.application.kind == "schedule":
        by_rate = recover(verdict.seen, heard, is_bounded=is_bounded, is_paced=True)
        if by_rate.application.kind != "schedule":
            (sender, *_) = _of_kin(PACED, verdict.as_dict()["sender_tcp"]["recovery"] or "sack")
            paced = (PACED, as_seen(sender), by_rate)
    return Found(
        verdict=verdict,
        written=written,
        habit=habit,
        # Of one that ran out of data silence has other reasons.
        pauses_ns=host_pauses(verdict, is_paced=is_paced) if written.application.kind == "bytes" else (),
        control=chosen,
        control_name=name,
        open_controls=controls_left,
        paced=paced,
    )


def _begun(verdict: Verdict, control: ControlSpec) -> ControlSpec:
    """With the window that it began with: the initial one, or what was outstanding when the capture began."""
    found = verdict.as_dict()["initial_window"]["segments"]
    if found:
        return replace(control, initial_window=int(found))
    seen = verdict.seen
    if verdict.who.handshake_rtt_s is not None or not len(seen.flight):
        return control
    outstanding = int(seen.flight[0]) // seen.timeline.smss
    if outstanding <= LARGEST_INITIAL_WINDOW:
        # Its first packets, without a handshake before them.
        return control
    # Not in one burst: as many as the queue takes, then doubling to where it stood.
    places = verdict.path.buffer_packets.value
    first = min(outstanding, int(places) if places else control.initial_window)
    return replace(control, initial_window=max(first, 1), initial_ssthresh=float(outstanding))


# What a modern host's sender does whatever its control: RFC 3042, RFC 3465 in avoidance, RFC 8985.
MODERN: dict[str, object] = {"limited_transmit": True, "byte_counting": True, "rack": True, "initial_window": 10}

# Of the recoveries these came with them. Senders with Tahoe's or Reno's may have some: nothing, all, or one of them.
YOUNGER = ("newreno", "sack", "fack")
OLDER: tuple[dict[str, object], ...] = (
    {},
    {"limited_transmit": True, "byte_counting": True},
    {"byte_counting": True},
    {"limited_transmit": True},
)

# RFC 6928: more outstanding at once is no beginning.
LARGEST_INITIAL_WINDOW = 10
# As many of the controls that a capture leaves open are tried.
MOST_CONTROLS = 6
# The sender by a rate that a short transfer, which shows none of its probes, may have had.
PACED = "bbr"
# Where the verdict names no control: RFC 5681's own.
ASSUMED = "reno (assumed: the capture does not tell)"

# The verdict's families as rows of the simulator's senders, on the recovery that the capture shows: what differs from a
# standard slow start under the window of that name.
FAMILIES: dict[str, dict[str, object]] = {
    **{name: {"window": name} for name, row in controls.WINDOWS.items() if "rfc" in row.profiles},
    "cubic": {"window": "cubic", "slow_start": "hystart"},
    "m_start": {"slow_start": "m-start"},
}

# How senders of a family differ, the commonest first: Linux's module; the documents' rules; these without HyStart.
VARIANTS: dict[str, tuple[dict[str, object], ...]] = {
    "cubic": ({"window": "cubic-linux"}, FAMILIES["cubic"], {"window": "cubic"}),
    "reno": ({"window": "reno"}, {"window": "reno-linux"}),
    "m_start": (FAMILIES["m_start"], {**FAMILIES["m_start"], "stack": "linux"}),
    # Linux's module, the draft counted in whole packets, the draft itself.
    "compound": tuple({"window": window} for window in ("compound", "compound-packets", "compound-draft")),
}


def _controls(name: str, verdict: Verdict, wanted: str | ControlSpec | None) -> list[tuple[str, ControlSpec]]:
    """The sender to send again: the one asked for, or those that the verdict leaves."""
    if isinstance(wanted, ControlSpec):
        return [("as given", wanted)]
    shown = verdict.as_dict()["sender_tcp"]
    recovery = shown["recovery"] or "sack"
    if wanted is not None:
        if wanted in FAMILIES:
            return [(wanted, _of_family(wanted, recovery))]
        if wanted not in CONTROLS:
            known = list(dict.fromkeys([*CONTROLS, *FAMILIES]))
            near = "".join(f" (did you mean {name}?)" for name in difflib.get_close_matches(wanted, known, n=1))
            raise LabError(f"--control {wanted}: must be one of {', '.join(known)}{near}")
        modern = _modern(str(CONTROLS[wanted].get("recovery", "newreno")))
        return [(wanted, ControlSpec(**{**modern, **CONTROLS[wanted]}))]  # type: ignore[arg-type]
    if recovery == "tahoe":
        return _tahoe()
    family = shown["congestion_control"]
    if family is None and verdict.as_dict()["m_start"]["detected"]:
        family = "m_start"
    if family is not None and family not in FAMILIES:
        raise LabError(f"{name}: by the verdict its control is {family}, which is not simulated: say --control NAME")
    open_to = [each for each in open_names(shown["candidates"]) if each in FAMILIES]
    names = [str(family)] if family is not None else open_to[:MOST_CONTROLS]
    if not names:
        return [(ASSUMED, sender) for sender in _of_kin("reno", recovery)]
    # Compound's threshold, of the variant that comes nearest.
    gammas = (each.candidate.parameters.get("gamma") for each in verdict.identified.left)
    gamma = next((found for found in gammas if found is not None), None)
    left = [(name, sender) for name in names for sender in _of_kin(name, recovery, gamma)]
    if shown["recovery"] is None and verdict.seen.episodes:
        # How it recovered is not told either.
        left += [*((names[0], sender) for sender in _of_kin(names[0], "reno", gamma)), *_tahoe()]
    return left


def _tahoe() -> list[tuple[str, ControlSpec]]:
    return [("tahoe", ControlSpec(**{**rules, "recovery": "tahoe"})) for rules in OLDER]  # type: ignore[arg-type]


def _of_kin(family: str, recovery: str, gamma: float | None = None) -> list[ControlSpec]:
    kin = VARIANTS.get(family, (FAMILIES[family],))
    told = {"gamma": gamma} if family == "compound" and gamma is not None else {}
    return [
        ControlSpec(**{**rules, "recovery": recovery, **told, **row})  # type: ignore[arg-type]
        for row in kin
        for rules in ((MODERN,) if recovery in YOUNGER else OLDER)
    ]


def _of_family(family: str, recovery: str) -> ControlSpec:
    return ControlSpec(**{**_modern(recovery), "recovery": recovery, **FAMILIES[family]})  # type: ignore[arg-type]


def _modern(recovery: str) -> dict[str, object]:
    """Tahoe's and Reno's rules are older than these."""
    return MODERN if recovery in YOUNGER else {}


def _path(capture: Capture, found: Sequence[Found], leader: Found, notes: list[str]) -> PathSpec:
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
    is_managed = estimate.is_managed
    if is_managed:
        notes.append("CoDel at the bottleneck, by when its losses came: managed again, with RFC 8289's times")
    elif buffer is None and pps is not None:
        notes.append(f"buffer not seen ({estimate.buffer_packets.method}): without limit")
    delay_s = max(base_s - (1 / pps if pps else 0.0), 0.0) / 2
    node = NodeSpec(
        rate_bps=rate_bps,
        buffer=max(buffer, 1.0) if buffer is not None and pps else math.inf,
        delay_s=delay_s,
        queue="codel" if is_managed else "drop_tail",
        drop_packets=losses_by_number(
            [one.verdict for one in found], has_buffer=is_managed or (buffer is not None and pps is not None)
        ),
    )
    if node.drop_packets:
        notes.append(f"{len(node.drop_packets)} packets lost though the queue had room: the same ones are lost again")
    return PathSpec(nodes=(node,), return_delay_s=delay_s, packet_bytes=packet_bytes)


def _others(leader: Verdict, verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Who shared the bottleneck and was not captured is not sent again either."""
    others = unseen_traffic(leader, verdicts)
    if others is not None:
        yield (
            "another flow shared the bottleneck and is not in the capture, nor sent again: at least"
            f" {others.rate_bps / 1e6:.3g} Mbit/s while a queue stood ({others.stood_share:.0%} of the time)"
        )


def _packets(one: Found) -> int:
    """Packets of both directions, super-segments counted as what the wire carried."""
    timeline = one.verdict.seen.timeline
    return int(packets(timeline).sum()) + len(timeline.ack_ns)


def _packet_bytes(one: Found) -> int:
    return int(one.verdict.path.packet_bytes)


def _base_s(one: Found) -> float:
    return float(one.verdict.path.base_rtt_s.value or 0.0)


def _extra_s(capture: Capture, one: Found, leader: Found) -> float:
    """By how much its way is longer than the busiest's: over the queue at the same time, else by the least ever."""
    if one is leader:
        return 0.0
    together = own_delay_s(one.verdict.seen.timeline, leader.verdict.seen.timeline)
    own_s = _base_s(one) - _base_s(leader) if together is None else together
    own_syn_s, syn_s = (capture[each.verdict.who.connection].row["handshake_rtt_ns"] / 1e9 for each in (one, leader))
    if own_syn_s > 0 and 0 < syn_s <= _base_s(leader):
        # The busiest's handshake met no queue; its own may have: by so much its way is longer at most.
        own_s = min(own_s, own_syn_s - syn_s)
    return max(own_s, 0.0)


def _handshake_ns(capture: Capture, one: Found, path: PathSpec) -> int:
    """From the SYN to the first data: its own handshake, in a queue perhaps, of a sender that opened the connection.

    One that was asked first had its handshake before; the simulated one has it so that its first byte leaves in time.
    """
    who = one.verdict.who
    own_ns = float(capture[who.connection].row["handshake_rtt_ns"])
    is_opener = who.direction == 0 and own_ns > 0
    return int(own_ns if is_opener else path.propagation_rtt_s * 1e9)
