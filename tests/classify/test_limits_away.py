"""What limited a sender that is seen at its receiver only, without timestamps: most of it is told, and none wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcptrace_lab import read
from tcptrace_lab.classify.verdict import classify
from tcptrace_lab.scenario import ConnectionSpec, ControlSpec, NodeSpec, PathSpec, ReceiverSpec, Scenario
from tcptrace_lab.simulate import simulate
from tests.classify.test_random_classes import of
from tests.random_degraded import against_truth

STRIPPED = "timestamps stripped"


@pytest.mark.parametrize(
    ("seed", "kind", "cause", "share"),
    [
        # What an ACK's window had waited for comes a turn behind it, again and again: RFC 9293 section 3.8.6.
        (7310012, STRIPPED, "rwnd", 0.85),
        (7310017, "", "rwnd", 0.85),
        (7310032, STRIPPED, "rwnd", 0.7),
        # Each repair came at once, and more was outstanding at each loss than passes in a turn.
        (7310051, "", "cwnd", 0.6),
        # Whether a loss restarted its window (Tahoe) is not asked; nor how the few duplicates of a small one are read.
        (7310023, "", "cwnd", 0.75),
        (7310031, STRIPPED, "cwnd", 0.7),
        # Up to its first loss, behind a slow start, too.
        (7310027, "", "cwnd", 0.65),
        # Few losses met a queue of its own: ACKs let go what came between.
        (7310058, STRIPPED, "cwnd", 0.8),
        # One long recovery behind another, with nothing between them.
        (7310002, STRIPPED, "recovery", 0.8),
    ],
)
def test_where_no_window_is_seen_what_held_it_back_is_told(
    seed: int, kind: str, cause: str, share: float, tmp_path: Path
) -> None:
    found, verdict = of(seed, tmp_path, kind=kind, place="receiver")
    assert verdict.limits.get(cause, 0.0) > share
    assert "sender's limits" not in against_truth(found, verdict)


@pytest.mark.parametrize(
    ("node", "rwnd", "jitter_s"),
    [
        # At each loss a segment or more would have had room in a window of 13, of which a hole takes some meanwhile.
        (NodeSpec(rate_bps=4.33e6, buffer=4, delay_s=0.006), 20_000, 0.0),
        # What an ACK lets go comes a turn behind it, half a millisecond to and fro.
        (NodeSpec(rate_bps=8.39e6, buffer=7, delay_s=0.025, loss=0.01), 1 << 30, 5e-4),
    ],
)
def test_a_window_is_told_below_the_receivers_and_over_a_path_that_jitters(
    node: NodeSpec, rwnd: int, jitter_s: float, tmp_path: Path
) -> None:
    control = ControlSpec(window="cubic-linux", recovery="sack", initial_window=10, timestamps=False)
    connection = ConnectionSpec(control=control, receiver=ReceiverSpec(rwnd=rwnd), jitter_s=jitter_s)
    path = PathSpec(nodes=(node,), return_delay_s=node.delay_s)
    run = simulate(
        Scenario(path=path, connections=(connection,), duration_s=12.0, profile="rfc", seed=1, taps=("receiver",))
    )
    run.write(tmp_path / "receiver.pcap", tap="receiver", payload=False)
    (verdict,) = classify(read(tmp_path / "receiver.pcap"))
    assert verdict.limits["cwnd"] > 0.75
    assert verdict.limits["rwnd"] == 0.0


def test_the_receivers_small_window_is_held_to_what_was_outstanding_to_the_segment(tmp_path: Path) -> None:
    """Vegas below a window of five segments, and losses: no segment more was let go, and none was outstanding."""
    _, verdict = of(7310028, tmp_path, place="receiver")
    assert verdict.limits.get("cwnd", 0.0) == 0.0
