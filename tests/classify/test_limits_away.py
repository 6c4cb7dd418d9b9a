"""What limited a sender that is seen at its receiver only, without timestamps: most of it is told, and none wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def test_the_receivers_small_window_is_held_to_what_was_outstanding_to_the_segment(tmp_path: Path) -> None:
    """Vegas below a window of five segments, and losses: no segment more was let go, and none was outstanding."""
    _, verdict = of(7310028, tmp_path, place="receiver")
    assert verdict.limits.get("cwnd", 0.0) == 0.0
