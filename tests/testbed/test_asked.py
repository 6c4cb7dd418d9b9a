"""The recorder, without recording: what it asks of the kernel, what it refuses, what it reads back."""

import dataclasses

import pytest

from tcptrace_lab.cli import main
from tcptrace_lab.errors import ScenarioError
from tcptrace_lab.scenario import (
    ApplicationSpec,
)
from tcptrace_lab.scenario_file import load
from tcptrace_lab.testbed import kernel_truth, missing, requirements
from tcptrace_lab.testbed.kernel import settings
from tcptrace_lab.testbed.namespaces import dumpcap_counts
from tests.conftest import ROOT
from tests.testbed.small import SMALL, with_control


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"recovery": "tahoe"}, "control.recovery = 'tahoe': the kernel has newreno"),
        ({"window": "compound"}, "is not in the kernel"),
        ({"slow_start": "m-start"}, "is not in the kernel"),
        ({"max_window": 30}, "control.max_window = 30: the kernel has none; use receiver.rwnd"),
        ({"initial_ssthresh": 20.0}, "control.initial_ssthresh = 20.0: the kernel starts without one"),
    ],
)
def test_what_the_kernel_has_not_is_refused_by_its_key(changes: dict[str, object], line: str) -> None:
    """A recording must not pass for a sender that it is not."""
    with pytest.raises(ScenarioError, match=line):
        settings(with_control(**changes), first_port=5001)


@pytest.mark.parametrize("changes", [{"recovery": "tahoe"}, {"window": "compound"}, {"slow_start": "m-start"}])
def test_the_own_sender_has_every_row_of_the_table(changes: dict[str, object]) -> None:
    """... and the recording says who sent it."""
    plan = settings(with_control(**changes), first_port=5001, sender="own")
    assert plan.is_own
    assert "the sender is this project's own" in " ".join(plan.departures)


def test_the_own_sender_refuses_what_it_cannot_write() -> None:
    """One connection, bulk or so many bytes."""
    on_off = dataclasses.replace(
        SMALL.connections[0], application=ApplicationSpec(kind="on_off", bytes=1000, off_s=1, repeats=2)
    )
    with pytest.raises(ScenarioError, match=r"application\.kind = 'on_off': the own sender writes bulk or bytes"):
        settings(dataclasses.replace(SMALL, connections=(on_off,)), first_port=5001, sender="own")
    with pytest.raises(ScenarioError, match="connections: 2, the own sender has one"):
        settings(dataclasses.replace(SMALL, connections=SMALL.connections * 2), first_port=5001, sender="own")


def test_what_the_kernel_does_otherwise_is_listed() -> None:
    """Delayed ACKs, limited transmit and byte counting are Linux's own: said, not hidden."""
    departures = " ".join(settings(SMALL, first_port=5001).departures)
    assert "delayed_ack_timer_s = 0.1: Linux adapts its own" in departures
    assert "RFC 3042" in departures
    assert "RFC 3465" in departures


def test_a_control_becomes_sysctls_and_route_attributes() -> None:
    """SACK and timestamps belong to the namespace, initcwnd and quick ACKs to the route."""
    plan = settings(with_control(recovery="newreno", timestamps=False, delayed_ack_segments=1), first_port=7)
    assert plan.sysctls["net.ipv4.tcp_sack"] == "0"
    assert plan.sysctls["net.ipv4.tcp_timestamps"] == "0"
    assert " ".join(plan.sender_route) == "initcwnd 10 rto_min 200ms"
    assert plan.receiver_route == ("quickack", "1")
    assert plan.flows[0]["congestion"] == "reno"


@pytest.mark.parametrize(("state", "late"), [(0, 1), (3, 0)])
def test_one_ack_for_many_segments_is_a_late_receiver_unless_a_hole_was_filled(state: int, late: int) -> None:
    """RFC 5681 section 4.2: an ACK for every second segment."""
    ordinary = [kernel_truth.TruthRow(time_ns=n, ev="A", sport=1, ca_state=0, arg=2 * 1448) for n in range(5)]
    stretched = kernel_truth.TruthRow(time_ns=9, ev="A", sport=1, ca_state=state, arg=22 * 1448)
    found = kernel_truth.late_acks([*ordinary, stretched], packet_bytes=1500)
    assert found == [(9, 21)] * late


TRACE = """\
# tracer: nop
   python3-77 [001] b.... 1000000037.500000: tcp_probe: family=AF_INET src=10.9.1.1:40000 dest=10.9.2.1:5001 mark=0x0 \
data_len=0 snd_nxt=0x100 snd_una=0xffffff00 snd_cwnd=10 ssthresh=2147483647 snd_wnd=65535 srtt=30000 rcv_wnd=65535 \
sock_cookie=1 skbaddr=0x1 skaddr=0x2
   python3-77 [000] b.... 1000000037.600000: tcp_cong_state_set: family=AF_INET sport=40000 dport=5001 saddr=10.9.1.1 \
daddr=10.9.2.1 saddrv6=:: daddrv6=:: cong_state=3
   python3-77 [000] b.... 1000000037.600001: tcp_retransmit_skb: skbaddr=0x1 skaddr=0x2 family=AF_INET sport=40000 \
dport=5001 saddr=10.9.1.1 daddr=10.9.2.1 saddrv6=:: daddrv6=:: state=TCP_ESTABLISHED err=0
   python3-77 [001] b.... 1000000037.700000: tcp_probe: family=AF_INET6 src=[fd09::1]:40000 dest=[fd09::2]:5001 \
mark=0x0 data_len=0 snd_nxt=0x100 snd_una=0x20 snd_cwnd=5 ssthresh=5 snd_wnd=65535 srtt=31000 rcv_wnd=65535 \
sock_cookie=1 skbaddr=0x1 skaddr=0x2
"""


def test_a_trace_becomes_rows_with_the_bytes_each_ack_covers() -> None:
    """tcp_probe shows the state before an ACK: what it covered is the next row's snd_una minus its own, modulo 2^32."""
    rows = kernel_truth.from_trace(TRACE.splitlines(), tai_offset_s=37)
    assert [row.ev for row in rows] == ["A", "C", "R", "A"]
    assert rows[0].time_ns == 1_000_000_000_500_000_000
    assert rows[0].arg == 0x120
    assert [row.ca_state for row in rows] == [0, 3, 3, 3]
    assert rows[0].text()[:5] == ["1000000000.500000", "A", "40000", "10", "inf"]
    measured = kernel_truth.measure(rows, sport=40000)
    (event,) = measured.loss_events
    assert (event.kind, event.cwnd_before, event.ssthresh_after, event.phase) == (
        "fast_retransmit",
        10,
        5,
        "slow_start",
    )
    assert measured.retransmissions == 1


def test_a_threshold_that_the_tracepoint_hides_is_the_last_known() -> None:
    """tcp_current_ssthresh() is max(ssthresh, 3/4 cwnd) outside a reduction: 39 at cwnd 53 says only "39 at most"."""
    rows = [
        row("A", cwnd=40, ssthresh=38),  # above 30: exact
        row("A", cwnd=53, ssthresh=39),
        row("I", cwnd=53, ssthresh=37),  # the kernel has changed it
        row("A", cwnd=54, ssthresh=40),
        row("A", cwnd=54, ssthresh=27, ca_state=kernel_truth.RECOVERY),
        row("A", cwnd=40, ssthresh=30),
    ]
    assert [settled.ssthresh for settled in kernel_truth.settle_ssthresh(rows)] == [38, 38, 37, 37, 27, 27]


def row(ev: str, **values: int) -> kernel_truth.TruthRow:
    """A row of port 1 at time 0."""
    return kernel_truth.TruthRow(time_ns=0, ev=ev, sport=1, **values)


def test_slow_starts_are_counted_per_cycle() -> None:
    """A loss in slow start stays in its cycle, one in avoidance ends it; each timeout brings a slow start."""
    rows = [
        row("A", cwnd=20, ssthresh=kernel_truth.NO_SSTHRESH, snd_una=100, snd_nxt=120),
        row("C", ca_state=kernel_truth.LOSS),  # the initial slow start is cut by a timeout: a second one, same cycle
        row("A", cwnd=1, ssthresh=10, snd_una=100, snd_nxt=120),
        row("C", ca_state=kernel_truth.LOSS),  # the timer again, before any answer: the same one
        row("A", cwnd=1, ssthresh=10, snd_una=100, snd_nxt=120),
        row("A", cwnd=2, ssthresh=10, snd_una=120, snd_nxt=122),
        row("C", ca_state=kernel_truth.OPEN),
        row("A", cwnd=11, ssthresh=10, snd_una=150, snd_nxt=161),
        row("A", cwnd=12, ssthresh=10, snd_una=161, snd_nxt=173),
        row("A", cwnd=15, ssthresh=10, snd_una=200, snd_nxt=215),
        row("C", ca_state=kernel_truth.RECOVERY),  # fast retransmit in avoidance: a cycle without slow start
        row("A", cwnd=8, ssthresh=7, snd_una=200, snd_nxt=216),
        row("C", ca_state=kernel_truth.LOSS),  # ... whose recovery fails
        row("A", cwnd=1, ssthresh=4, snd_una=200, snd_nxt=216),
        row("A", cwnd=2, ssthresh=4, snd_una=216, snd_nxt=218),
    ]
    measured = kernel_truth.measure(rows, sport=1)
    assert [event.kind for event in measured.loss_events] == ["rto", "rto", "fast_retransmit", "rto"]
    assert measured.slow_starts_per_cycle == (2, 1)


def test_without_root_and_user_namespaces_the_command_says_so_in_one_line(monkeypatch, tmp_path, capsys) -> None:
    """Exit 2, one line on standard error, nothing written."""
    monkeypatch.setattr(requirements.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(requirements, "program", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(requirements, "user_namespace_refused", lambda: "unshare failed: Operation not permitted")
    file = str(ROOT / "captures" / "scenarios" / "on_off.toml")
    assert main(["record", file, "-o", str(tmp_path / "x")]) == 2
    assert capsys.readouterr().err == (
        "tcptrace-lab: recording needs root, or a user namespace (unshare failed: Operation not permitted): "
        "run it with sudo\n"
    )
    assert not list(tmp_path.iterdir())


def test_a_user_who_may_not_open_the_tun_device_is_told(monkeypatch) -> None:
    """User namespaces do not change who may open a device."""
    monkeypatch.setattr(requirements.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(requirements, "program", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(requirements, "user_namespace_refused", lambda: "")
    monkeypatch.setattr(requirements.os, "access", lambda path, mode: False)
    monkeypatch.setattr(requirements.Path, "exists", lambda self: True)
    assert missing() == "recording needs /dev/net/tun, which this user may not open: run it with sudo"


def test_dumpcaps_counts_are_read() -> None:
    """What it says as it ends, in a user namespace."""
    said = "Packets captured: 812\nPackets received/dropped on interface 'tun0': 812/3 (pcap:3/dumpcap:0) (99.6%)\n"
    assert dumpcap_counts(said) == {"captured": 812, "received": 815, "dropped": 3}


def test_a_container_without_the_capabilities_is_told_which(monkeypatch) -> None:
    """Root of a container is often not allowed to make namespaces."""
    monkeypatch.setattr(requirements.os, "geteuid", lambda: 0)
    monkeypatch.setattr(requirements, "capabilities", lambda: 1 << 12)
    monkeypatch.setattr(requirements, "program", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(requirements, "user_namespace_refused", lambda: "unshare failed: Operation not permitted")
    line = "recording needs the capabilities CAP_SYS_ADMIN, CAP_NET_RAW: a container must be started with them"
    assert missing() == line


def test_scenarios_of_the_recordings_can_be_recorded_again() -> None:
    """Each shipped recording's scenario is one that the kernel has."""
    files = sorted((ROOT / "captures" / "scenarios" / "recorded").glob("*.toml"))
    assert files
    for file in files:
        scenario = load(file)
        sender = "own" if scenario.control.recovery == "tahoe" else "kernel"
        settings(scenario, first_port=5001, sender=sender)
