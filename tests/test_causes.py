"""The cause of each retransmission, against what the kernel itself says it did (its truth beside the capture)."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from pathlib import Path

import pytest

import tcptrace_lab
from tests.conftest import shared


def _causes(path: Path) -> Counter[str]:
    capture = tcptrace_lab.read(path, detail=True)
    segments = (flow.segments for connection in capture for flow in connection.flows)
    return Counter(cause for table in segments for cause in table["cause"] if cause)


def _truth(name: str) -> Counter[str]:
    """Rows by event; `C3`: entered Recovery, `C4`: a timeout; `R`: a segment retransmitted."""
    with gzip.open(shared("captures", "kernel", f"{name}.truth.csv.gz"), "rt") as stream:
        rows = csv.DictReader(stream)
        return Counter(row["ev"] + (row["ca_state"] if row["ev"] == "C" else "") for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bbr_20M", "cubic_20M", "mstart_20M", "reno_10M", "reno_loss", "two_reno_cubic"])
def test_one_fast_retransmission_for_each_recovery(name: str) -> None:
    """RFC 6675: the first hole by fast retransmission, the others led by SACK blocks."""
    truth, causes = _truth(name), _causes(shared("captures", "kernel", f"{name}.pcap.gz"))
    assert causes["fast_retransmit"] == truth["C3"]
    assert causes["sack_recovery"] == truth["R"] - truth["C3"]
    assert set(causes) <= {"fast_retransmit", "sack_recovery"}


@pytest.mark.slow
def test_without_sack_partial_acks_lead() -> None:
    """RFC 6582 section 3.2."""
    truth, causes = _truth("reno_nosack_8M"), _causes(shared("captures", "kernel", "reno_nosack_8M.pcap.gz"))
    assert causes == {"fast_retransmit": truth["C3"], "partial_ack": truth["R"] - truth["C3"]}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tahoe_sat_B20", "tahoe_sat_B22"])
def test_timeouts_after_duplicate_acks_are_timeouts(name: str) -> None:
    """The kernel's Tahoe waits for its timer although duplicate ACKs came, then sends everything again."""
    truth, causes = _truth(name), _causes(shared("captures", "kernel", f"{name}.pcap.gz"))
    assert causes == {"rto": truth["C4"], "go_back_n": truth["R"] - truth["C4"]}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["utahoe_sat_B18", "utahoe_sat_B20"])
def test_textbook_tahoe_goes_back_n_after_a_fast_retransmission(name: str) -> None:
    """RFC 5681 section 1: Tahoe has no fast recovery, so no partial ACKs either."""
    truth, causes = _truth(name), _causes(shared("captures", "kernel", f"{name}.pcap.gz"))
    assert causes["fast_retransmit"] == truth["C4"]
    assert causes["partial_ack"] == 0
    assert causes["go_back_n"] >= 0.9 * (truth["R"] - truth["C4"])


def test_flow_without_loss_has_no_causes() -> None:
    assert not _causes(shared("captures", "kernel", "reno_rwnd.pcap.gz"))
