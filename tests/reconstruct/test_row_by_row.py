"""What follows of a timeline row by row, and of rebuilt orders part by part, is what all at once gives."""

from __future__ import annotations

import numpy as np
import pytest

from tcptrace_lab import _core, read
from tcptrace_lab.reconstruct.away.arrivals import Sends, goes_back, reached
from tcptrace_lab.reconstruct.away.numbered import _move
from tcptrace_lab.reconstruct.sender import sender
from tcptrace_lab.reconstruct.timeline import AT_ONCE, Timeline, build
from tests.conftest import ROOT

AS_OBSERVED = ("snd_max", "snd_una", "last_moved", "acks_before_send", "sends_before_next_ack", "is_dupack", "rtt")


@pytest.mark.parametrize("name", ["short_reno", "tahoe_small_buffer"])
def test_what_follows_row_by_row_is_what_is_observed(name: str) -> None:
    timeline = sender(read(ROOT / "captures" / f"{name}.pcap.gz")[0]).timeline
    followed = Timeline(**{each: getattr(timeline, each) for each in Timeline.__dataclass_fields__})
    followed.follow()
    for each in (*AS_OBSERVED, "first_offset", "is_retransmission"):
        assert np.array_equal(getattr(followed, each), getattr(timeline, each)), each
    assert "observed" not in vars(followed)


def test_no_loss_is_looked_for_in_what_another_timeline_is_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside its receiver a sender's timeline is rebuilt: what the tap saw is observed as far as that asks."""
    observed = []
    monkeypatch.setattr(_core, "observe", observed.append)
    who = sender(read(ROOT / "captures" / "cubic_v6_two_nodes.receiver.pcap.gz")[0])
    assert who.view is not None
    assert not observed


@pytest.mark.parametrize("length", [0, 1, 2 * AT_ONCE + 3])
def test_what_goes_back_is_the_same_part_by_part(length: int) -> None:
    rng = np.random.default_rng(7)
    offset = np.arange(length) * 3 + rng.integers(0, 9, length)
    end = offset + rng.integers(1, 9, length)
    assert np.array_equal(goes_back(offset, end), offset < reached(offset, end))


def test_what_is_moved_stands_before_whom_it_is_put() -> None:
    """Two parts, of which the first has one move within another's; of two before the same the first stays first."""
    row = np.arange(12, dtype=np.int32)
    whole = Sends(row=row, offset=10 * row.astype(np.int64), end=10 * row.astype(np.int64) + 1)
    _move(whole, [(1, 4), (2, 5), (1, 6), (8, 10)])
    assert whole.row.tolist() == [0, 4, 6, 1, 5, 2, 3, 7, 10, 8, 9, 11]
    assert (whole.offset // 10).tolist() == whole.row.tolist()
    assert (whole.end // 10).tolist() == whole.row.tolist()


def test_nothing_of_nothing_is_followed() -> None:
    timeline = build({"send_ns": [], "send_offset": [], "send_end": [], "ack_ns": [], "ack_offset": []}, smss=1000)
    timeline.follow()
    assert len(timeline.rtt[0]) == 0
