"""A scenario in the kernel's terms: socket options, sysctls and route attributes; what Linux cannot do is refused.

Linux's TCP is what it is: where a scenario's value has no switch and the kernel's own differs, the recording lists it
in `departures` rather than pretending.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcptrace_lab.errors import ScenarioError
from tcptrace_lab.scenario import ConnectionSpec, ControlSpec, Scenario

# One pair of addresses for every recording: they exist inside its namespaces only.
ADDRESSES = {False: ("10.9.1.1", "10.9.2.1", 32), True: ("fd09:1::1", "fd09:2::1", 128)}
CUBIC_HYSTART = Path("/sys/module/tcp_cubic/parameters/hystart")
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
OWN_CAN = "--sender own sends it from user space"
# Control's default: no limit.
NO_MAX_WINDOW = 100_000
# Linux acknowledges every second segment, or after this time at the latest (TCP_DELACK_MIN).
LINUX_DELAYED_ACK_S = 0.04


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the two namespaces and the programs in them are told."""

    sysctls: dict[str, str]
    sender_route: tuple[str, ...]
    receiver_route: tuple[str, ...]
    flows: tuple[dict[str, Any], ...]
    departures: tuple[str, ...]
    is_own: bool


def settings(scenario: Scenario, *, first_port: int, sender: str = "kernel") -> Settings:
    """The kernel's settings for a scenario. Those of a namespace must be the same for all its connections."""
    if sender not in ("kernel", "own"):
        raise ValueError(f"sender = {sender!r}: must be kernel or own")
    is_own = sender == "own"
    for number, connection in enumerate(scenario.connections):
        at = f"connections.{number}." if len(scenario.connections) > 1 else ""
        _check(connection, at)
        if not is_own:
            _check_kernel(connection.control, at)
    _check_scenario(scenario, is_own=is_own)
    control = scenario.control
    for number, connection in enumerate(scenario.connections):
        if _shared(connection) != _shared(scenario.connections[0]):
            raise ScenarioError(
                f"connections.{number}.control: SACK, timestamps, initial_window, rto.min_s, "
                "slow_start_after_idle and delayed_ack_segments belong to the namespace: the same for all connections"
            )
    rows = tuple(enumerate(scenario.connections))
    departures = [line for _, row in rows for line in _departures(row, is_own=is_own)]
    return Settings(
        sysctls=_sysctls(scenario.connections[0], ipv6=scenario.ipv6),
        sender_route=() if is_own else _sender_route(control),
        receiver_route=("quickack", "1") if control.delayed_ack_segments == 1 else (),
        flows=tuple(_flow(row, scenario, first_port + number, is_own=is_own) for number, row in rows),
        departures=tuple(dict.fromkeys(departures)),
        is_own=is_own,
    )


def congestion(control: ControlSpec) -> str:
    """The kernel's name of a sender's slow start and window; ScenarioError where it has none."""
    if control.window == "reno" and control.slow_start == "standard":
        return "reno"
    if control.window == "cubic":
        kernels = "hystart" if _cubic_has_hystart() else "standard"
        if control.slow_start != kernels:
            raise ScenarioError(
                f"control.slow_start = {control.slow_start!r}: this kernel's cubic has {kernels} ({CUBIC_HYSTART})"
            )
        return "cubic"
    # A module that not every kernel has.
    if control.window == "bbr" and "bbr" in AVAILABLE.read_text().split():
        return "bbr"
    raise ScenarioError(
        f"control: {control.slow_start} slow start with window {control.window!r} is not in the kernel, "
        f"which records reno (standard), cubic and, where it has the module, bbr; {OWN_CAN}"
    )


def _cubic_has_hystart() -> bool:
    # Built in and switched on unless someone has switched it off.
    return not CUBIC_HYSTART.exists() or CUBIC_HYSTART.read_text().strip() == "1"


def _check(connection: ConnectionSpec, at: str) -> None:
    if connection.reverse:
        raise ScenarioError(f"{at}reverse: recorded connections run from the sender to the receiver")
    if connection.extra_delay_s > 0:
        raise ScenarioError(f"{at}extra_delay_s = {connection.extra_delay_s}: the recorder has one way back for all")


def _check_kernel(control: ControlSpec, at: str) -> None:
    congestion(control)
    if control.recovery not in ("newreno", "sack"):
        raise ScenarioError(
            f"{at}control.recovery = {control.recovery!r}: the kernel has newreno (without SACK) and sack (with it); "
            f"{OWN_CAN}"
        )
    if control.initial_ssthresh < math.inf:
        raise ScenarioError(
            f"{at}control.initial_ssthresh = {control.initial_ssthresh}: the kernel starts without one; {OWN_CAN}"
        )
    if control.max_window < NO_MAX_WINDOW:
        # A route's `cwnd lock` counts only after an earlier connection has left metrics behind.
        raise ScenarioError(
            f"{at}control.max_window = {control.max_window}: the kernel has none; use receiver.rwnd, or {OWN_CAN}"
        )


def _check_scenario(scenario: Scenario, *, is_own: bool) -> None:
    if is_own and len(scenario.connections) > 1:
        raise ScenarioError(f"connections: {len(scenario.connections)}, the own sender has one")
    kind = scenario.connections[0].application.kind
    if is_own and kind not in ("bulk", "bytes"):
        raise ScenarioError(f"application.kind = {kind!r}: the own sender writes bulk or bytes")
    least = 1280 if scenario.ipv6 else 128
    if scenario.path.packet_bytes < least:
        raise ScenarioError(f"path.packet_bytes = {scenario.path.packet_bytes}: the kernel's MTU must be >= {least}")
    for tap in scenario.taps:
        if tap not in ("sender", "receiver"):
            raise ScenarioError(f"taps = {tap!r}: a recording is captured at the sender or the receiver")


def _shared(connection: ConnectionSpec) -> tuple[object, ...]:
    control = connection.control
    return (
        connection.has_sack,
        control.timestamps,
        control.initial_window,
        control.rto.min_s,
        control.delayed_ack_segments,
        control.slow_start_after_idle,
    )


def _sysctls(connection: ConnectionSpec, *, ipv6: bool) -> dict[str, str]:
    control = connection.control
    common = {
        "net.ipv4.tcp_sack": str(int(connection.has_sack)),
        "net.ipv4.tcp_timestamps": str(int(control.timestamps)),
        "net.ipv4.tcp_slow_start_after_idle": str(int(control.slow_start_after_idle)),
        # Nothing of an earlier connection, and room enough that no buffer is the limit unless the scenario says so.
        "net.ipv4.tcp_no_metrics_save": "1",
        "net.ipv4.tcp_rmem": "4096 8388608 67108864",
        "net.ipv4.tcp_wmem": "4096 4194304 67108864",
        # Bursts of the path's making only: no packets held back to be sent together.
        "net.ipv4.tcp_autocorking": "0",
        "net.ipv4.tcp_ecn": "0",
    }
    # No link-local address, duplicate detection or router solicitation: they are no part of the experiment.
    quiet = {"addr_gen_mode": "1", "accept_dad": "0", "autoconf": "0", "router_solicitations": "0"}
    if not ipv6:
        quiet["disable_ipv6"] = "1"
    return common | {
        f"net.ipv6.conf.{name}.{key}": value for name in ("all", "default") for key, value in quiet.items()
    }


def _sender_route(control: ControlSpec) -> tuple[str, ...]:
    return ("initcwnd", str(control.initial_window), "rto_min", f"{round(control.rto.min_s * 1000)}ms")


def _flow(connection: ConnectionSpec, scenario: Scenario, port: int, *, is_own: bool) -> dict[str, Any]:
    application, receiver, control = connection.application, connection.receiver, connection.control
    own_name = f"{control.window}-{control.recovery}"
    if control.slow_start != "standard":
        own_name = f"{control.slow_start}-{own_name}"
    return {
        "address": ADDRESSES[scenario.ipv6][1],
        "port": port,
        "start_s": connection.start_s,
        "congestion": own_name if is_own else congestion(control),
        "rwnd": receiver.rwnd if receiver.rwnd < 1 << 30 else 0,
        "reader_bps": receiver.reader_bps if receiver.reader_bps < math.inf else 0,
        "application": {
            "kind": application.kind,
            "bytes": application.bytes,
            "off_s": application.off_s,
            "repeats": application.repeats,
            "writes": application.writes,
        },
    }


def _departures(connection: ConnectionSpec, *, is_own: bool) -> list[str]:
    """Where the kernel does not do what the scenario says, and has no switch for it."""
    control, receiver = connection.control, connection.receiver
    lines = []
    is_linux = connection.has_linux_receiver
    if control.delayed_ack_segments == 2 and not (is_linux or receiver.quickack_segments):
        lines.append("the first segments are acknowledged at once (Linux's quick ACKs)")
    if control.delayed_ack_segments == 2 and receiver.delayed_ack_timer_s != LINUX_DELAYED_ACK_S:
        lines.append(
            f"delayed_ack_timer_s = {receiver.delayed_ack_timer_s}: Linux adapts its own, >= {LINUX_DELAYED_ACK_S} s"
        )
    if is_own:
        return [*lines, "the sender is this project's own, in user space; the receiver is the kernel's"]
    if connection.jitter_s > 0:
        lines.append(f"jitter_s = {connection.jitter_s}: the host's own")
    if not (control.is_linux or control.limited_transmit):
        lines.append("limited_transmit = false: Linux sends new data on the first duplicate ACKs (RFC 3042)")
    if not control.byte_counting:
        lines.append("byte_counting = false: Linux counts acknowledged segments (RFC 3465)")
    return lines
