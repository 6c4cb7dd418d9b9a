"""Short real recordings: both ends, cut short, two at once, with our own sender, without root."""

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
from tcptrace_lab.reconstruct.truth.score import score
from tcptrace_lab.reconstruct.truth.truth_file import read_truth
from tcptrace_lab.scenario import (
    ApplicationSpec,
    NodeSpec,
    PathSpec,
    ReceiverSpec,
)
from tcptrace_lab.testbed import Recording, missing, realtime, record, requirements
from tests.conftest import ROOT
from tests.testbed.small import SMALL, with_control

NEEDED = missing()
real = pytest.mark.skipif(NEEDED is not None, reason=str(NEEDED))


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
        # They need not show in order.
        ours: set[int] = set()
        while len(ours) < 5:
            assert time.monotonic() < deadline, "never started"
            time.sleep(0.02)
            roles = ("keeper", "receivers", "senders", "tracer")
            ours = {pid for role in roles for pid in children(recorder.pid, role)}
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
def test_our_own_reno_does_as_the_kernels(tmp_path) -> None:
    """The simulator's SACK sender and the kernel's on one path: the same window at each loss."""
    ours = dataclasses.replace(with_control(byte_counting=True, limited_transmit=True), duration_s=2.5)
    for number in range(3):
        kernels = record(SMALL, output=tmp_path / f"kernels{number}", attempts=3)
        own = record(ours, output=tmp_path / f"own{number}", sender="own", attempts=3)
        windows, w_max = windows_at_losses(own)
        largest = [measured["cwnd_max"] for run in (kernels, own) for measured in run.metadata["measured"].values()]
        # Both leave the initial slow start at the same window: it is the path that ends it. A receiver that is late
        # just then, in either of the two, moves the end and is not told from one that is not: both are made again, and
        # three times in a row is no accident.
        if abs(largest[0] - largest[1]) <= 2:
            break
    assert abs(largest[0] - largest[1]) <= 2, largest
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
