"""Closing a connection (RFC 9293 section 3.6)."""

import pandas as pd
import pytest

from tcptrace_lab.scenario import ApplicationSpec, ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario
from tcptrace_lab.simulate import simulate

FIN = 1


def closing(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both ends' captures of a short connection; two of three packets on the way back are lost."""
    path = PathSpec(nodes=(NodeSpec(rate_bps=8e6, delay_s=0.02),), return_delay_s=0.02, ack_loss=0.65)
    connection = ConnectionSpec(
        control=ControlSpec(recovery="sack"), application=ApplicationSpec(kind="bytes", bytes=3000)
    )
    taps = ("sender", "receiver")
    run = simulate(Scenario(path=path, connections=(connection,), duration_s=600, seed=seed, taps=taps))
    return run.packets(tap="sender"), run.packets(tap="receiver")


def fins(packets: pd.DataFrame) -> pd.DataFrame:
    return packets[~packets["is_from_sender"] & (packets["flags"] & FIN > 0)]


@pytest.mark.parametrize("seed", range(8))
def test_the_receiver_s_fin_is_sent_again_until_it_is_acknowledged(seed):
    """Section 3.8.1: a FIN is retransmitted as data is, after twice as long each time (RFC 6298 (5.5))."""
    sender, receiver = closing(seed)
    sent = fins(receiver)
    # All but the last are lost.
    assert len(fins(sender)) == 1
    waits = sent["time_ns"].diff().dropna()
    assert (waits >= 200_000_000).all()
    assert waits.is_monotonic_increasing
    assert sent["seq"].nunique() == 1
    last = receiver[receiver["is_from_sender"]].iloc[-1]
    assert last["ack"] == (sent["seq"].iloc[0] + 1) % 2**32


def test_some_of_these_fins_are_lost():
    assert max(len(fins(closing(seed)[1])) for seed in range(8)) > 2
