"""D-SACK: the receiver reports what arrived twice (RFC 2883)."""

import pytest

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
from tests.timeline import timeline

CONTROL = ControlSpec(recovery="sack", initial_window=6, initial_ssthresh=4.0, prr=False)


@pytest.mark.parametrize(("has_dsack", "last"), [(True, "sack 5001:5502"), (False, "")])
def test_a_rescue_that_was_not_needed_is_reported_below_the_cumulative_ack(has_dsack, last):
    """Section 4.1; RFC 6675 NextSeg (4) sends the last segment again, which has not been lost. The FIN has a number."""
    timeline(
        f"""
        0.000 > S
        0.100 < S. ack 1
        0.100 > ack 1
        0.100 > 1:1001 x
        0.100 > 1001:2001
        0.100 > 2001:3001
        0.100 > 3001:4001
        0.100 > 4001:5001
        0.100 > 5001:5501
        0.202 < ack 1 sack 1001:2001
        0.203 < ack 1 sack 1001:3001
        0.204 < ack 1 sack 1001:4001
        0.204 > 1:1001
        0.205 < ack 1 sack 1001:5001
        0.205 > 5001:5501
        0.206 < ack 1 sack 1001:5502
        0.305 < ack 5502
        0.305 > ack 2
        0.306 < ack 5502 {last}
        """,
        control=CONTROL,
        receiver=ReceiverSpec(dsack=has_dsack),
        bytes_=5500,
    )


def with_lost_acks(seed: int, *, dsack: bool = True) -> Run:
    """Timeouts send again what has arrived: many ACKs are lost."""
    path = PathSpec(nodes=(NodeSpec(rate_bps=8e6, delay_s=0.02, loss=0.05),), return_delay_s=0.02, ack_loss=0.4)
    control = ControlSpec(recovery="sack", initial_window=4)
    connection = ConnectionSpec(
        control=control, receiver=ReceiverSpec(dsack=dsack), application=ApplicationSpec(kind="bytes", bytes=300_000)
    )
    taps = ("sender", "receiver")
    return simulate(Scenario(path=path, connections=(connection,), duration_s=300, taps=taps, seed=seed))


def duplicates(run: Run) -> list[tuple[int, int]]:
    """What reached the receiver a second time, by its capture alone."""
    seen: set[int] = set()
    found = []
    packets = run.packets(tap="receiver")
    for row in packets[packets["is_from_sender"] & (packets["payload_len"] > 0)].itertuples():
        if row.seq in seen:
            found.append((row.seq, row.seq + row.payload_len + (row.flags & 1)))
        seen.add(row.seq)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_each_duplicate_is_reported_once_and_first(seed):
    """Section 4: the first block; below the cumulative ACK or inside the second block."""
    run = with_lost_acks(seed)
    wanted = duplicates(run)
    assert len(wanted) > 3
    packets = run.packets(tap="receiver")
    acks = packets[~packets["is_from_sender"]]
    reported = []
    for row in acks.itertuples():
        if not row.sack:
            continue
        (left, right), *others = row.sack
        is_below = (row.ack - right) % 2**32 < 2**31
        is_inside = bool(others) and others[0][0] <= left and right <= others[0][1]
        if is_below or is_inside:
            reported.append((left, right))
    assert reported == wanted
    # The analysis counts the same, and takes none of them for a SACK of something new.
    connections = run.capture(tap="receiver").connections
    assert connections["dsacks_server"].iloc[0] == len(wanted)
    assert run.totals[0]["delivered"] == 300_000


def test_a_sender_takes_no_notice_of_a_report():
    """The same packets go out: what was SACKed before is not new, and no ACK with a D-SACK alone is a duplicate."""
    for seed in range(4):
        sent = [
            packets.loc[packets["is_from_sender"], ["time_ns", "seq"]].reset_index(drop=True)
            for packets in (with_lost_acks(seed, dsack=dsack).packets(tap="sender") for dsack in (True, False))
        ]
        assert sent[0].equals(sent[1])
