"""The recorder: what it asks of the kernel, what it refuses, what it reads back, and short real recordings."""

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tcptrace_lab import classify
from tcptrace_lab.cli import main
from tcptrace_lab.errors import ScenarioError
from tcptrace_lab.reconstruct.score import score
from tcptrace_lab.reconstruct.truth_file import read_truth
from tcptrace_lab.scenario import (
    ApplicationSpec,
    ConnectionSpec,
    ControlSpec,
    NodeSpec,
    PathSpec,
    ReceiverSpec,
    Scenario,
)
from tcptrace_lab.scenario_file import load
from tcptrace_lab.testbed import Recording, kernel_truth, missing, realtime, record, requirements
from tcptrace_lab.testbed.kernel import settings
from tcptrace_lab.testbed.namespaces import dumpcap_counts
from tests.conftest import ROOT

NEEDED = missing()
real = pytest.mark.skipif(NEEDED is not None, reason=str(NEEDED))

# Reno with SACK over 20 Mbit/s (0.6 ms a packet), 30 ms there and back, 20 places: BDP 51, so W_max = 51 + 20 + 1.
SMALL = Scenario(
    path=PathSpec(nodes=(NodeSpec(rate_bps=20e6, buffer=20, delay_s=0.015),), return_delay_s=0.015),
    connections=(
        ConnectionSpec(
            control=ControlSpec(recovery="sack", initial_window=10, delayed_ack_segments=2, timestamps=True)
        ),
    ),
    duration_s=1.5,
)


def with_control(**changes: object) -> Scenario:
    """SMALL with another sender."""
    control = dataclasses.replace(SMALL.control, **changes)
    return dataclasses.replace(SMALL, connections=(dataclasses.replace(SMALL.connections[0], control=control),))


# ---- without root


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


# ---- with root


def undisturbed(recording: Recording) -> None:
    """Skips where the machine stood still in each of the attempts: a longer round trip may look like a loss."""
    if not recording.is_clean:
        stood = max(recording.longest_freeze_ms, recording.longest_stall_ms)
        late = f"{recording.late_acks} late ACKs"
        pytest.skip(f"the machine, or the sender's process, stood still for {stood} ms during the recording; {late}")


def windows_at_losses(recording: Recording) -> tuple[list[int], float]:
    """cwnd at each loss of avoidance, and what the path holds: BDP + B + 1."""
    derived = recording.metadata["derived"]
    (measured,) = recording.metadata["measured"].values()
    undisturbed(recording)
    windows = [event["cwnd_before"] for event in measured["loss_events"] if event["phase"] == "avoidance"]
    assert windows
    return windows, derived["bdp_packets"] + derived["buffer_packets_waiting"] + 1


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """One short recording, from both ends, that several tests look at."""
    scenario = dataclasses.replace(SMALL, taps=("sender", "receiver"))
    return record(scenario, output=tmp_path_factory.mktemp("recording") / "small", attempts=3)


@pytest.mark.root
@pytest.mark.slow
@real
class TestARealRecording:
    """Reno of this machine's kernel, 1.5 seconds."""

    def test_packets_are_conserved(self, recording) -> None:
        """In = out + lost; nothing is left inside, and what went in is what tcpdump saw go in."""
        emulator = recording.metadata["emulator"]
        assert emulator["is_conserved"]
        assert emulator["write_errors"] == 0
        for way in ("forward", "reverse"):
            assert emulator[way]["entered"] == emulator[way]["left"] + emulator[way]["lost"]
            assert emulator[way]["inside"] == 0
        entered, left = emulator["forward"]["entered"], emulator["forward"]["left"]
        back_in, back_out = emulator["reverse"]["entered"], emulator["reverse"]["left"]
        assert recording.metadata["tcpdump"]["sender"]["captured"] == entered + back_out
        assert recording.metadata["tcpdump"]["receiver"]["captured"] == left + back_in

    def test_the_window_at_a_loss_is_bdp_plus_buffer_plus_one(self, recording) -> None:
        """A drop-tail path holds BDP + B + 1 packets (one in service).

        The kernel learns of the loss a round trip after the buffer overflowed, in which avoidance has added one
        segment; and the round trip of real packets is a few tens of microseconds above the nominal one: 2 in all.
        """
        windows, w_max = windows_at_losses(recording)
        for window in windows:
            assert abs(window - w_max) <= 2, (windows, w_max)

    def test_every_drop_is_retransmitted(self, recording) -> None:
        """SACK recovery repairs what was lost and nothing else: the kernel's count and the path's are one."""
        undisturbed(recording)
        (measured,) = recording.metadata["measured"].values()
        assert sum(recording.metadata["drops"].values()) == measured["retransmissions"] > 0

    def test_all_data_arrives(self, recording) -> None:
        result = recording.metadata["result"]
        assert [flow["bytes"] for flow in result["sent"]] == [flow["bytes"] for flow in result["received"]]
        assert result["received"][0]["bytes"] > 1_000_000

    def test_deliveries_are_on_time(self, recording) -> None:
        """The median packet is handed over within half a service time (0.6 ms), also on a machine with much to do."""
        undisturbed(recording)
        assert recording.metadata["emulator"]["delivery_lateness_us"]["p50"] < 300


def namespaces() -> set[str]:
    """The network namespaces in which some process is."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            found.add(os.readlink(link))
        except OSError:
            continue
    return found


@pytest.mark.root
@pytest.mark.slow
@real
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_recording_that_is_cut_short_leaves_nothing_behind(how, tmp_path) -> None:
    """Ctrl-C, and even a kill: no process, namespace, interface or tracing instance outlives the recorder."""
    output = tmp_path / "cut"
    scenario = ROOT / "captures" / "scenarios" / "reno_10M.toml"
    command = [sys.executable, "-m", "tcptrace_lab", "record", str(scenario), "-o", str(output)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as recorder:
        deadline = time.monotonic() + 120
        while not children(recorder.pid, "senders"):
            assert time.monotonic() < deadline, "never started"
            time.sleep(0.02)
        ours = {pid for role in ("keeper", "receivers", "senders", "tracer") for pid in children(recorder.pid, role)}
        assert len(ours) == 5
        spaces = {os.readlink(f"/proc/{pid}/ns/net") for pid in ours} - {os.readlink("/proc/self/ns/net")}
        assert len(spaces) == 2
        recorder.send_signal(how)
        assert recorder.wait(120) in (130, -signal.SIGKILL)
    deadline = time.monotonic() + 120
    while any(Path(f"/proc/{pid}").exists() for pid in ours) or namespaces() & spaces:
        assert time.monotonic() < deadline, "outlived the recorder"
        time.sleep(0.02)
    assert not list(tmp_path.glob("cut*"))


def children(parent: int, role: str) -> list[int]:
    """The running endpoint processes of a recorder with this role."""
    tasks = Path(f"/proc/{parent}/task")
    found = []
    for task in tasks.iterdir() if tasks.exists() else []:
        for pid in (task / "children").read_text().split():
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if role.encode() in words and any(word.endswith(b"endpoint.py") for word in words):
                found.append(int(pid))
    return found


@pytest.mark.root
@pytest.mark.slow
def test_without_root_the_kernel_sends_in_a_user_namespace(monkeypatch, tmp_path) -> None:
    """All but tracefs is the caller's own there: the truth is TCP_INFO's, marked as such, and reads like any other."""
    monkeypatch.setattr(requirements.os, "geteuid", lambda: 1000)
    lacking = missing()
    if lacking is not None:
        pytest.skip(lacking)
    recording = record(SMALL, output=tmp_path / "user")
    about = recording.metadata["truth"]
    assert (about["source"], about["unavailable"]) == ("TCP_INFO every 10 ms", "tracefs needs root")
    assert about["rows"]["I"] > 50
    assert recording.metadata["tcpdump"]["sender"]["dropped"] == 0
    assert "the truth is TCP_INFO's" in recording.summary()
    (verdict,) = classify(recording.capture)
    port = recording.metadata["addresses"]["client_ports"][0]
    found = score(verdict.seen, read_truth(recording.truth, port=port), first_sequence=verdict.who.first_sequence)
    undisturbed(recording)
    assert found.precision == found.recall == 1
    assert found.limited.median is not None
    assert found.limited.median < 0.01


@real
def test_two_recordings_at_once_do_not_meet(tmp_path) -> None:
    """Each sees its own connection, by its own port, in capture and truth."""
    short = dataclasses.replace(SMALL, duration_s=0.3)
    results = {}

    def run(name: str) -> None:
        results[name] = record(short, output=tmp_path / name)

    threads = [threading.Thread(target=run, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ports = {name: result.metadata["addresses"]["server_port"] for name, result in results.items()}
    assert ports["a"] != ports["b"]
    for result in results.values():
        (client,) = result.metadata["addresses"]["client_ports"]
        (measured,) = result.metadata["measured"].values()
        assert measured["sport"] == client
        # Where the machine stands still a timer may send again what was only late.
        assert not result.is_clean or measured["retransmissions"] == sum(result.metadata["drops"].values())


@pytest.mark.root
@pytest.mark.slow
@real
def test_a_transfer_of_so_many_bytes_sends_them_and_ends(tmp_path) -> None:
    """The recording is over when the data is through, long before `duration_s`."""
    connection = dataclasses.replace(SMALL.connections[0], application=ApplicationSpec(kind="bytes", bytes=30_000))
    began = time.monotonic()
    result = record(
        dataclasses.replace(SMALL, connections=(connection,), duration_s=60), output=tmp_path / "short"
    ).metadata
    assert time.monotonic() - began < 60
    assert result["result"]["received"][0]["bytes"] == 30_000
    assert result["drops"] == {}


@pytest.mark.root
@pytest.mark.slow
@real
def test_tahoe_of_our_own_against_the_kernels_receiver(tmp_path) -> None:
    """Three duplicate ACKs, cwnd of one segment, a slow start: and the kernel's receiver gets every byte."""
    connection = dataclasses.replace(
        with_control(recovery="tahoe", timestamps=False, delayed_ack_segments=1, initial_window=2).connections[0],
        application=ApplicationSpec(kind="bytes", bytes=400_000),
        receiver=ReceiverSpec(rwnd=500_000),
    )
    node = NodeSpec(rate_bps=10e6, buffer=100, delay_s=0.01, drop_packets=(60,))
    path = PathSpec(nodes=(node,), return_delay_s=0.01)
    scenario = dataclasses.replace(SMALL, connections=(connection,), path=path, duration_s=20)
    recording = record(scenario, output=tmp_path / "tahoe", sender="own")
    about = recording.metadata
    assert about["result"]["received"][0]["bytes"] == 400_000
    assert about["drops"]["scheduled"] == 1
    undisturbed(recording)
    measured = about["measured"]["40000"]
    event = measured["loss_events"][0]
    assert (event["kind"], event["phase"]) == ("fast_retransmit", "slow_start")
    # Tahoe: ssthresh is half of what was outstanding, and the growth begins anew: two slow starts in the first cycle.
    assert event["ssthresh_after"] == pytest.approx(event["cwnd_before"] / 2, abs=2)
    assert measured["slow_starts_per_cycle"][0] >= 2


@pytest.mark.root
@pytest.mark.slow
@real
def test_our_own_reno_does_as_the_kernels(recording, tmp_path) -> None:
    """The simulator's SACK sender on the path of the kernel's recording: the same window at each loss."""
    scenario = dataclasses.replace(with_control(byte_counting=True, limited_transmit=True), duration_s=2.5)
    (kernels,) = recording.metadata["measured"].values()
    for number in range(3):
        own = record(scenario, output=tmp_path / f"own{number}", sender="own", attempts=3)
        windows, w_max = windows_at_losses(own)
        (measured,) = own.metadata["measured"].values()
        # Both leave the initial slow start at the same window: it is the path that ends it. A receiver that is late
        # just then moves the end and is not told from one that is not: three times in a row is no accident.
        if abs(measured["cwnd_max"] - kernels["cwnd_max"]) <= 2:
            break
    assert abs(measured["cwnd_max"] - kernels["cwnd_max"]) <= 2
    assert all(abs(window - w_max) <= 2 for window in windows), (windows, w_max)


@pytest.mark.root
@pytest.mark.slow
@real
def test_a_sender_that_had_to_wait_for_a_processor_is_told(tmp_path, monkeypatch) -> None:
    """Our sender's thread shares one processor, at no priority, with others that never rest: the run is not clean."""
    monkeypatch.setattr(realtime.os, "sched_setscheduler", refuse)
    only = {min(os.sched_getaffinity(0))}
    rest = [
        subprocess.Popen([sys.executable, "-c", f"import os\nos.sched_setaffinity(0, {only})\nwhile True: pass"])
        for _ in range(3)
    ]
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, only)
        found = record(dataclasses.replace(SMALL, duration_s=1.0), output=tmp_path / "late", sender="own")
    finally:
        os.sched_setaffinity(0, before)
        for each in rest:
            each.kill()
            each.wait()
    assert found.longest_stall_ms > 1.0
    assert not found.is_clean
    assert "sender     late" in found.summary()


def refuse(*_: object) -> None:
    raise PermissionError


def test_scenarios_of_the_recordings_can_be_recorded_again() -> None:
    """Each shipped recording's scenario is one that the kernel has."""
    files = sorted((ROOT / "captures" / "scenarios" / "recorded").glob("*.toml"))
    assert files
    for file in files:
        scenario = load(file)
        sender = "own" if scenario.control.recovery == "tahoe" else "kernel"
        settings(scenario, first_port=5001, sender=sender)
