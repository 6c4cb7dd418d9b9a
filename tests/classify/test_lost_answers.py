"""Losses where ACKs get lost: a timer that expires for the answer alone sends what had arrived."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcptrace_lab import read
from tcptrace_lab.classify.control.windows.replayed import replayed
from tcptrace_lab.classify.verdict import classify
from tcptrace_lab.reconstruct.truth.score import score
from tcptrace_lab.reconstruct.truth.truth_file import read_truth
from tcptrace_lab.scenario import ApplicationSpec, ConnectionSpec, ControlSpec, NodeSpec, PathSpec, Scenario
from tcptrace_lab.simulate_to_files import simulate_to_files
from tests.reconstruct.ladder import SMSS, ladder


# The receiver of the second tells of no copies (RFC 2883), though it tells of holes.
@pytest.mark.parametrize(("recovery", "seed"), [("newreno", 6), ("sack", 9)])
def test_a_tail_whose_answer_was_lost_is_no_sure_loss(recovery: str, seed: int, tmp_path: Path) -> None:
    """Nothing left behind the tail, so that no ACK tells whether it arrived; and one in ten ACKs is lost."""
    node = NodeSpec(rate_bps=2.5e6, buffer=8, delay_s=0.03)
    scenario = Scenario(
        path=PathSpec(nodes=(node,), return_delay_s=0.03, ack_loss=0.1),
        connections=(
            ConnectionSpec(
                control=ControlSpec(window="reno", recovery=recovery, initial_window=10),
                application=ApplicationSpec(kind="on_off", bytes=60000, off_s=0.5),
            ),
        ),
        duration_s=12,
        seed=seed,
    )
    capture, truth = tmp_path / "x.pcap", tmp_path / "x.truth.csv"
    simulate_to_files(scenario, captures=[capture], truth=truth, payload=False)
    (verdict,) = classify(read(capture))
    port = int(verdict.who.sender.rpartition(":")[2])
    found = score(replayed(verdict.who), read_truth(truth, port=port), first_sequence=verdict.who.first_sequence)
    assert found.precision == 1.0
    assert found.drops is not None
    assert found.losses <= found.drops <= found.losses + verdict.as_dict()["losses"]["possible_unseen"]


def test_a_probe_without_an_answer_at_the_end_is_no_sure_loss() -> None:
    """RFC 8985 section 7: it is sent before a timer tells of anything."""
    sent = [(0, 0), (0.1, 1), (100, 2), (100.1, 3), (200, 4), (200.1, 5), (490, 5)]
    acks = [(100, 2), (200, 4)]
    seen = ladder(sent, acks, blocks={})
    assert len(seen.losses) == 0


def test_a_repair_beside_one_new_segment_that_nothing_answers_is_no_sure_loss() -> None:
    """A partial ACK lets go the hole and one segment more (RFC 6582 section 3.2 (3)): both answers may be lost."""
    sent = [(0.1 * each, each) for each in range(10)] + [(100 + 0.1 * each, 10 + each) for each in range(10)]
    acks = [(100.0, 2), (100.2, 4), (100.6, 8), (100.8, 10)]
    # Segments 10 and 14 are lost.
    acks += [(200.1 + 0.1 * each, 10) for each in range(8)]
    sent += [(200.35, 10), (300.4, 14), (300.5, 20), (700.0, 14)]
    acks += [(300.35, 14), (800.0, 21)]
    seen = ladder(sorted(sent), acks)
    assert seen.losses["offset"].tolist() == [10 * SMSS, 14 * SMSS]
