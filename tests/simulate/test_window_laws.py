"""Never more than min(cwnd, rwnd) outstanding: at every sending of new data, by the documents' own counting."""

import functools

import pytest

from tcptrace_lab.controls import WINDOWS
from tcptrace_lab.scenario import (
    CONTROLS,
    ApplicationSpec,
    ConnectionSpec,
    ControlSpec,
    NodeSpec,
    PathSpec,
    ReceiverSpec,
    Scenario,
)
from tcptrace_lab.simulate import Run, simulate
from tests.window_reference import DISORDER, LOSS, RECOVERY, Sending, sendings


@functools.cache
def run_of(profile: str, control: ControlSpec, receiver: ReceiverSpec, seed: int) -> Run:
    """Overflows, random and scheduled losses, lost ACKs."""
    path = PathSpec(
        nodes=(
            NodeSpec(rate_bps=4e6, buffer=12, delay_s=0.01, loss=0.01, drop_packets=(40, 41, 60)),
            NodeSpec(rate_bps=6e6),
        ),
        return_delay_s=0.01,
        packet_bytes=1000,
        ack_loss=0.01,
    )
    connection = ConnectionSpec(
        control=control, receiver=receiver, application=ApplicationSpec(kind="bytes", bytes=600_000)
    )
    return simulate(Scenario(path=path, connections=(connection,), duration_s=120, profile=profile, seed=seed))


def wscale(receiver: ReceiverSpec) -> int:
    """RFC 7323 section 2.3: the smallest shift that lets 16 bits say the window."""
    return next((shift for shift in range(14) if receiver.rwnd >> shift <= 65_535), 14)


VARIANTS = {
    "plain": ({}, {}),
    "limited_transmit": ({"limited_transmit": True}, {}),
    "delayed_acks": ({"limited_transmit": True, "delayed_ack_segments": 2, "initial_window": 10}, {}),
    "small_window": ({}, {"rwnd": 9000}),
    "slow_reader": ({}, {"rwnd": 20_000, "reader_bps": 5e5}),
}


def room(sending: Sending, profile: str, control: ControlSpec, smss: int) -> tuple[int, float]:
    """What counts as outstanding, and what the congestion window lets it be."""
    if profile == "ns2" and WINDOWS[control.window].is_linux_module:
        # ns-2's Linux agent never counts what is SACKed.
        return sending.pipe, sending.cwnd
    if profile == "ns2":
        # Its agents go on by cwnd after two duplicate ACKs and call that no state.
        return sending.flight, sending.cwnd + (2 * smss if control.limited_transmit else 0)
    if control.has_sack and (sending.state in (RECOVERY, LOSS) or control.limited_transmit):
        # RFC 6675 section 5 (C) and (3): by the pipe.
        return sending.pipe, sending.cwnd
    if control.window == "bbr":
        # Its window bounds what is on the path, in every state.
        return sending.pipe, sending.cwnd
    if control.limited_transmit and sending.state == DISORDER:
        # RFC 3042: two segments beyond cwnd.
        return sending.flight, sending.cwnd + 2 * smss
    return sending.flight, sending.cwnd


# ns-2's receivers have no window.
CASES = [
    (profile, name, variant)
    for profile in ("ns2", "rfc")
    for name in CONTROLS
    for variant, (_, of_receiver) in VARIANTS.items()
    if profile in WINDOWS[ControlSpec(**CONTROLS[name]).window].profiles and not (profile == "ns2" and of_receiver)
]


@pytest.mark.parametrize(("profile", "name", "variant"), CASES)
def test_new_data_leaves_only_into_the_room_of_both_windows(profile, name, variant):
    of_control, of_receiver = VARIANTS[variant]
    # The reference counts a pipe by RFC 6675; what RACK takes for lost it takes by time.
    by_pipe = {"rack": False, "stack": "rfc"} if profile == "rfc" else {}
    control = ControlSpec(**{**CONTROLS[name], **by_pipe, **of_control})
    receiver = ReceiverSpec(**of_receiver)
    for seed in range(3):
        run = run_of(profile, control, receiver, seed)
        smss = int(run.windows["smss"].iloc[0])
        sent = sendings(run, wscale=wscale(receiver))
        assert len(sent) >= 600_000 // 1000
        for sending in sent:
            if profile == "ns2" and control.has_sack and sending.state in (RECOVERY, LOSS):
                # ns-2's own pipe, which core/tests/ns2.rs compares with ns-2 packet by packet.
                continue
            outstanding, cwnd = room(sending, profile, control, smss)
            assert outstanding <= cwnd + 1e-6, (seed, sending)
            if profile == "rfc":
                assert sending.end <= sending.right_edge or sending.is_probe, (seed, sending)
