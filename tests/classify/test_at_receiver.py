"""Captures at the receiver made worse: what was wrong of some of each class, and holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.claims import IDENTIFY, runs
from tests.classify.test_odd_taps import judged
from tests.degraded import variants


@pytest.mark.parametrize("seed", [8600212, 8600224])
def test_a_silence_with_data_in_it_is_no_recovery(seed: int, tmp_path: Path) -> None:
    """The receiver's ACKs took another way for a fifth of the run: the loss before was mended meanwhile."""
    wrong, verdict = judged(seed, "one way meanwhile", tmp_path, worse_at="receiver")
    assert not wrong
    assert verdict.who.tap.unanswered_ns > 0
    assert verdict.limits["cwnd"] > 0.4


@pytest.mark.parametrize("name", ["veno"])
def test_what_acks_told_of_before_they_went_another_way_had_arrived(name: str, tmp_path: Path) -> None:
    """Begun in a recovery: holes of before the capture, filled by nothing in it, hold no later ACK back."""
    if not IDENTIFY.exists():
        pytest.skip("shared captures are not here")
    run = [each for each in runs() if each.name == name]
    found = variants(run, ["begins in a recovery + one way at last"], seed=1, folder=tmp_path, at="receiver")
    assert all(not variant.judged.wrong for variant in found)
