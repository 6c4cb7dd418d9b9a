"""Slow starts in the tables that recordings come with: what a row shows depends on who wrote it, and when."""

from __future__ import annotations

from pathlib import Path

from tcptrace_lab.reconstruct.truth.truth_file import read_truth

COLUMNS = "time,ev,sport,cwnd,ssthresh,snd_una,snd_nxt,lost_out,ca_state,arg"
# Behind the slow start that a connection begins with.
BEFORE = ("1.00,A,1,10,5,0,10000,,0,1000", "1.01,A,1,10,5,1000,11000,,0,0")


def slow_starts(folder: Path, *rows: str) -> int:
    """How many in all."""
    path = folder / "x.truth.csv"
    path.write_text("\n".join((COLUMNS, *BEFORE, *rows)) + "\n")
    per_cycle = read_truth(path, port=1).slow_starts
    assert per_cycle is not None
    return sum(per_cycle)


def test_a_kernels_window_of_one_in_recovery_is_no_restart(tmp_path: Path) -> None:
    """RFC 6937: with nothing in flight cwnd is one segment until the recovery ends at ssthresh."""
    recovery = (
        "1.02,C,1,,,,,,3,",
        "1.03,I,1,1,5,,,9,3,",
        "1.04,A,1,1,5,1000,11000,,3,1000",
        "1.05,A,1,2,5,2000,11000,,3,9000",
        "1.06,C,1,,,,,,0,",
        "1.07,A,1,5,5,11000,16000,,0,1000",
        "1.08,A,1,5,5,12000,17000,,0,1000",
    )
    assert slow_starts(tmp_path, *recovery) == 1
    # A sender that does not count what is lost is no kernel: one segment is Tahoe's.
    tahoe = [row.replace(",,,9,3,", ",,,,3,") for row in recovery]
    assert slow_starts(tmp_path, *tahoe) == 2


def test_a_restart_that_is_answered_behind_the_last_row_counts(tmp_path: Path) -> None:
    """The row of an ACK holds what stood before it: of the last ACK only the end of the recovery tells."""
    restarted = ("1.30,C,1,,,,,9,4,", "1.40,A,1,1,5,1000,11000,,4,")
    assert slow_starts(tmp_path, *restarted) == 1
    assert slow_starts(tmp_path, *restarted, "1.40,C,1,,,,,0,0,") == 2


def test_a_restart_that_is_answered_right_before_the_timer_expires_again_counts(tmp_path: Path) -> None:
    """Two restarts, of which one was answered before the second: the row behind its ACK tells."""
    first = ("1.30,C,1,1,5,1000,11000,,4,", "1.40,A,1,1,5,1000,11000,,4,1000")
    second = ("1.70,C,1,1,5,2000,11000,,4,", "1.80,A,1,1,5,2000,11000,,4,9000", "1.80,S,1,5,5,11000,16000,,0,")
    assert slow_starts(tmp_path, *first, "1.40,S,1,2,5,2000,11000,,4,", *second) == 3
