"""A scenario as the engine reads it (core/src/simulate/spec): nanoseconds, and every value said."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping

from tcptrace_lab.scenario import MOST_PACKETS, Application, Connection, Node, Path, Rto, Scenario


def to_json(scenario: Scenario, *, external: Collection[int] = (), events: bool = False, truth: bool = True) -> str:
    """The engine's JSON. `external`: connections whose control comes from Python; `events`: ns-style rows."""
    return json.dumps(to_spec(scenario, external=external, events=events, truth=truth))


def to_spec(
    scenario: Scenario, *, external: Collection[int] = (), events: bool = False, truth: bool = True
) -> dict[str, object]:
    """The engine's run. The access link, where there is one, is its node 0: see `engine_node`."""
    return {
        "profile": scenario.profile,
        "duration_ns": _ns(scenario.duration_s),
        "seed": scenario.seed,
        "path": _path(scenario.path),
        "connections": [
            _connection(row, scenario.profile, external=number in external)
            for number, row in enumerate(scenario.connections)
        ],
        "taps": [engine_tap(scenario.path, tap) for tap in scenario.taps],
        "record_events": events,
        "record_truth": truth,
        "ipv6": scenario.ipv6,
    }


def nodes_before(path: Path) -> int:
    """How many nodes the engine has before `path.nodes`: 1 with an access link."""
    return int(path.access_rate_bps < math.inf or path.access_delay_s > 0)


def engine_tap(path: Path, tap: str) -> str:
    """A tap's name in the engine, which counts the access link as its first node."""
    if not tap.startswith("node"):
        return tap
    number, _, side = tap.removeprefix("node").partition(".")
    return f"node{int(number) + nodes_before(path)}.{side}"


def _path(path: Path) -> dict[str, object]:
    access = [Node(rate_bps=path.access_rate_bps, delay_s=path.access_delay_s)] * nodes_before(path)
    back = list(path.reverse)
    if back and path.return_delay_s > 0:
        back.append(Node(rate_bps=math.inf, delay_s=path.return_delay_s))
    return {
        "nodes": [_node(node) for node in (*access, *path.nodes)],
        "reverse": [_node(node) for node in back],
        "return_delay_ns": 0.0 if back else path.return_delay_s * 1e9,
        "packet_bytes": path.packet_bytes,
        "ack_bytes": path.ack_bytes,
        "ack_loss": path.ack_loss,
    }


def _node(node: Node) -> dict[str, object]:
    return {
        "rate_bps": _finite(node.rate_bps),
        "buffer": None if node.buffer == math.inf else int(node.buffer),
        "buffer_unit": node.buffer_unit,
        "counts_in_service": node.counts_in_service,
        "delay_ns": node.delay_s * 1e9,
        "loss": node.loss,
        "drop_packets": list(node.drop_packets),
        "queue": node.queue,
        "target_ns": _ns(node.target_s),
        "interval_ns": _ns(node.interval_s),
    }


def _connection(connection: Connection, profile: str, *, external: bool) -> dict[str, object]:
    control, receiver = connection.control, connection.receiver
    return {
        "start_ns": _ns(connection.start_s),
        "sender": {
            "slow_start": control.slow_start,
            "window": "external" if external else control.window,
            "recovery": control.recovery,
            "initial_window": control.initial_window,
            "initial_ssthresh": _finite(control.initial_ssthresh),
            "max_window": int(min(control.max_window, MOST_PACKETS)),
            "limited_transmit": control.limited_transmit,
            "timestamps": control.timestamps,
            "rto": _rto(control.rto),
            "slow_start_after_idle": control.slow_start_after_idle,
            "prr": control.prr,
            "rack": control.rack,
            "impatient": control.impatient,
            "syn": control.syn,
            # A control from Python has its own.
            **({} if external else control.all_parameters(profile)),
        },
        "receiver": {
            "delayed_ack_segments": control.delayed_ack_segments,
            "delayed_ack_timer_ns": _ns(receiver.delayed_ack_timer_s),
            "quickack_segments": receiver.quickack_segments,
            "sack": control.has_sack,
            "dsack": receiver.dsack,
            "rwnd": receiver.rwnd,
            "reader_bps": _finite(receiver.reader_bps),
        },
        "application": _application(connection.application),
        "reverse": connection.reverse,
        "extra_delay_ns": connection.extra_delay_s * 1e9,
        "jitter_ns": _ns(connection.jitter_s),
    }


def _rto(rto: Rto) -> dict[str, object]:
    return {
        "initial_ns": _ns(rto.initial_s),
        "min_ns": _ns(rto.min_s),
        "max_ns": _ns(rto.max_s),
        "granularity_ns": _ns(rto.granularity_s),
        "backoff": rto.backoff,
        "tick_phase": rto.tick_phase,
    }


def _application(application: Application) -> Mapping[str, object]:
    match application.kind:
        case "bytes":
            return {"kind": "bytes", "bytes": application.bytes}
        case "on_off":
            repeats = application.repeats or None
            off_ns = _ns(application.off_s)
            return {"kind": "on_off", "on_bytes": application.bytes, "off_ns": off_ns, "repeats": repeats}
        case "schedule":
            return {"kind": "schedule", "writes": [(_ns(at_s), size) for at_s, size in application.writes]}
        case "turns":
            return {"kind": "turns", "turns": [(_ns(wait_s), size) for wait_s, size in application.turns]}
    return {"kind": "bulk"}


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _finite(value: float) -> float | None:
    return None if value == math.inf else value
