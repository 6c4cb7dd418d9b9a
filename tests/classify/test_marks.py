"""What stands between the ACKs of a sender's life (tcptrace_lab/classify/control/heard/marks.py)."""

from __future__ import annotations

import numpy as np

from tcptrace_lab.classify.control.heard.marks import LOSS, OPENING, RECOVERED, SET, Many, Mark, Marks


def test_kinds_of_one_loss_follow_each_other_and_keep_their_numbers() -> None:
    """A control hears of a loss before what ends its recovery, whatever else is added with it."""
    marks = Marks([Mark(ack=0, event=SET, now_ns=1)])
    losses = Many(
        place=np.arange(3),
        event=LOSS,
        when=["always", "reduces once", "always"],
        columns={"ack": np.array([4, 9, 14]), "now_ns": np.array([40, 90, 140]), "cwnd": np.array([3e3, np.nan, 5e3])},
    )
    ends = Many(place=np.array([0, 2]), event=OPENING, when="new", columns={"ack": np.array([6, 17]), "now_ns": 0})
    none = Many(place=np.zeros(0, dtype=np.int64), event=RECOVERED, columns={"ack": 0, "now_ns": 0})
    numbers = marks.extend([losses, ends, none])
    assert [each.tolist() for each in numbers] == [[1, 3, 4], [2, 5], []]
    assert list(marks.ack) == [0, 4, 6, 9, 14, 17]
    assert list(marks.event) == [SET, LOSS, OPENING, LOSS, LOSS, OPENING]
    assert marks.when == ["always", "always", "new", "reduces once", "always", "new"]
    # What nobody told is not observed.
    np.testing.assert_array_equal(marks.cwnd, [np.nan, 3e3, np.nan, np.nan, 5e3, np.nan])
    assert list(marks.rtt_ns) == [-1] * 6
