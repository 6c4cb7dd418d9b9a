"""Timeouts taken back: F-RTO (RFC 5682), Eifel detection and response (RFC 3522, RFC 4015), as Linux has them.

A burst of another connection fills the queue for longer than the timer waits: nothing is lost.
"""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tcptrace_lab import classify
from tcptrace_lab.scenario import (
    ApplicationSpec,
    ConnectionSpec,
    ControlSpec,
    NodeSpec,
    PathSpec,
    ReceiverSpec,
    Scenario,
)
from tcptrace_lab.simulate import Run, simulate
from tcptrace_lab.testbed import Recording, missing, record

LINUX = ControlSpec(
    recovery="sack", stack="linux", rack=True, prr=True, limited_transmit=True, initial_window=10, timestamps=True
)
NO_SACK = dataclasses.replace(LINUX, recovery="newreno", rack=False, prr=False, timestamps=False)
WIDE = ReceiverSpec(rwnd=3_000_000)
# 3 ms a packet: 400 of them stand for 1.2 s, over a timer of about 0.4 s.
BURST = 580_000
NEEDED = missing()


def delayed(control: ControlSpec, *, beside: ControlSpec | None = None) -> Scenario:
    """The second connection has sent 400 packets before, and sends as many at once while the first is at work."""
    burst = ApplicationSpec(kind="schedule", writes=((0.0, BURST), (5.0, BURST)))
    kept = dataclasses.replace(control, slow_start_after_idle=False)
    # With timestamps the receiver's window grows fast enough for the burst.
    beside = dataclasses.replace(beside or dataclasses.replace(control, timestamps=True), slow_start_after_idle=False)
    return Scenario(
        path=PathSpec(
            nodes=(NodeSpec(rate_bps=4e6, buffer=2000, delay_s=0.02, drop_packets=(450,)),), return_delay_s=0.02
        ),
        connections=(
            ConnectionSpec(start_s=2.0, control=kept, receiver=WIDE),
            ConnectionSpec(control=beside, receiver=WIDE, application=burst),
        ),
        duration_s=9.0,
        taps=("sender",),
    )


def around_timeout(run: Run) -> tuple[pd.Series, pd.DataFrame]:
    """The loss booked for the timer, and the sender's variables from then on."""
    losses = run.losses[run.losses["connection"] == 0]
    timeout = losses[losses["detected_by"] == "rto"].iloc[0]
    windows = run.windows[(run.windows["connection"] == 0) & (run.windows["time_ns"] >= timeout["time_ns"])]
    return timeout, windows.assign(cwnd=windows["cwnd"] / windows["smss"], ssthresh=windows["ssthresh"] / 1448)


def sent_again(run: Run) -> int:
    """Retransmissions after the first loss's."""
    return int(run.totals[0]["retransmissions"]) - 1


def of_the_first(capture: pathlib.Path) -> dict[str, Any]:
    """The verdict on the connection that lost a packet."""
    verdicts = [verdict.as_dict() for verdict in classify(capture)]
    return next(verdict for verdict in verdicts if verdict["losses"]["total"])


def test_the_first_answer_echoes_a_timestamp_from_before_the_retransmission():
    """RFC 3522 section 3.2 (5), RFC 4015 section 3.2: cwnd and ssthresh as they were; Linux's ssthresh: 3/4 of cwnd."""
    run = simulate(delayed(LINUX))
    timeout, windows = around_timeout(run)
    before = timeout["cwnd_before"] // 1448
    assert run.totals[0]["timeouts"] == 1
    assert windows["cwnd"].iloc[0] == 1
    assert windows["state"].iloc[1] == 0
    assert windows["cwnd"].iloc[1] == pytest.approx(before, abs=1)
    assert windows["ssthresh"].iloc[1] == before // 2 + before // 4
    assert sent_again(run) == 1


@pytest.mark.parametrize("control", [dataclasses.replace(LINUX, timestamps=False), NO_SACK], ids=["sack", "newreno"])
def test_without_timestamps_two_new_segments_probe_before_anything_is_sent_again(control):
    """RFC 5682 sections 2.1 and 3.1 (2b) and (3b): the second ACK covers a segment that was sent once."""
    run = simulate(delayed(control))
    timeout, windows = around_timeout(run)
    assert windows["state"].tolist()[:3] == [4, 4, 0]
    assert windows["cwnd"].iloc[2] == pytest.approx(timeout["cwnd_before"] / 1460, abs=2)
    packets = run.packets(tap="sender")
    sent = packets[(packets["connection"] == 0) & packets["is_from_sender"] & (packets["payload_len"] > 0)]
    first_ns, second_ns = windows["time_ns"].iloc[1], windows["time_ns"].iloc[2]
    probe = sent[(sent["time_ns"] >= first_ns) & (sent["time_ns"] < second_ns)]
    highest = sent[sent["time_ns"] < first_ns]["seq"].max()
    assert len(probe) == 2
    assert (probe["seq"] > highest).all()
    assert sent_again(run) == 1


def test_a_stack_that_keeps_to_rfc_6298_goes_back_to_one_segment():
    """RFC 5681 section 3.1: without detection everything outstanding is sent again."""
    run = simulate(delayed(dataclasses.replace(LINUX, stack="rfc", rack=False)))
    timeout, windows = around_timeout(run)
    assert windows["cwnd"].iloc[1] == 2
    assert windows["ssthresh"].iloc[1] == pytest.approx(timeout["cwnd_before"] / 1448 / 2, abs=1)
    assert sent_again(run) > 20


@pytest.mark.parametrize(
    "control", [LINUX, dataclasses.replace(LINUX, timestamps=False), NO_SACK], ids=["timestamps", "sack", "newreno"]
)
def test_a_whole_window_lost_is_not_taken_back(control):
    """RFC 5682 section 3.1 (3a): what was sent before does not arrive, and is sent again."""
    path = PathSpec(nodes=(NodeSpec(rate_bps=4e6, buffer=100, delay_s=0.02, drop_packets=tuple(range(200, 400))),))
    sender = ConnectionSpec(control=control, receiver=ReceiverSpec(rwnd=60_000))
    run = simulate(Scenario(path=path, connections=(sender,), duration_s=20))
    timeout, windows = around_timeout(run)
    later = windows[windows["time_ns"] < timeout["time_ns"] + 150_000_000]
    assert (later["ssthresh"] < 0.75 * timeout["cwnd_before"] / 1448).all()
    assert (later["cwnd"] < timeout["cwnd_before"] / 1448 / 2).all()


@pytest.mark.parametrize("window", ["reno-linux", "cubic-linux", "htcp", "westwood"])
def test_a_timeout_that_was_taken_back_is_no_loss_event_of_the_capture(window, tmp_path):
    """The window that the capture shows, and the candidate that replays it, are what they were before."""
    run = simulate(delayed(dataclasses.replace(LINUX, window=window)))
    run.write(tmp_path / "delayed.pcap")
    verdict = of_the_first(tmp_path / "delayed.pcap")
    assert verdict["slow_starts"]["per_cycle"] == [1]
    assert verdict["losses"]["total"] == 1
    left = [each["name"] for each in verdict["sender_tcp"]["candidates"] if not each["against"]]
    assert window.removesuffix("-linux") in left


def recorded(control: ControlSpec, output: pathlib.Path) -> Recording:
    """The kernel's transfer, its timer expired once: the burst stands nearly until it would again, backed off."""
    for _ in range(3):
        recording = record(delayed(control, beside=control), output=output)
        flows = recording.metadata["measured"].values()
        timeouts = [event for flow in flows for event in flow["loss_events"] if event["kind"] == "rto"]
        if len(timeouts) == 1:
            return recording
    pytest.skip(f"the timer expired {len(timeouts)} times before the burst had passed, in the last of three recordings")


@pytest.mark.root
@pytest.mark.skipif(NEEDED is not None, reason=str(NEEDED))
@pytest.mark.parametrize(("control", "answers"), [(LINUX, 1), (NO_SACK, 2)], ids=["timestamps", "newreno"])
def test_the_kernel_takes_the_same_timeout_back(control, answers, tmp_path):
    """Beside the real one: the state goes from loss to open with the answer that ours needs, and the windows are the
    same."""
    recording = recorded(dataclasses.replace(control, stack="auto"), tmp_path / "kernel")
    truth = pd.read_csv(recording.truth)
    rows = truth[(truth["ev"] == "A") & truth["ca_state"].notna()]
    lost = rows[rows["ca_state"] == 4]
    assert len(lost) == answers
    flow = rows[rows["sport"] == lost["sport"].iloc[0]].reset_index(drop=True)
    at = int(np.flatnonzero(flow["ca_state"] == 4)[0])
    before, after = flow.iloc[at - 1], flow.iloc[at + answers]
    assert after["ca_state"] == 0
    assert after["cwnd"] == pytest.approx(before["cwnd"], abs=2)
    # The probe tells the larger of ssthresh and 3/4 of cwnd, at times some ACKs late.
    assert flow["ssthresh"].iloc[at + answers : at + 6].max() >= before["cwnd"] // 2 + before["cwnd"] // 4
    verdict = of_the_first(recording.capture)
    assert verdict["slow_starts"]["per_cycle"] == [1]
    assert verdict["losses"]["total"] == 1
