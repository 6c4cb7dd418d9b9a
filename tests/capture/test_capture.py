"""The Python face of a capture: tables, detail on demand, sources."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import tcptrace_lab
from tcptrace_lab.errors import CaptureError
from tests.conftest import ROOT, shared


@pytest.fixture(scope="module")
def lossy() -> Path:
    return ROOT / "captures" / "reno_loss.pcap.gz"


def test_importing_the_package_brings_neither_pandas_nor_numpy() -> None:
    code = "import sys, tcptrace_lab, tcptrace_lab.cli; sys.exit(any(m in sys.modules for m in ('pandas', 'numpy')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_connections_is_a_table_with_one_row_per_connection(lossy: Path) -> None:
    capture = tcptrace_lab.read(lossy)
    row = capture.connections.iloc[0]
    assert len(capture) == len(capture.connections) == 1
    assert (row["client"], row["client_port"]) == ("10.9.1.1", 51052)
    assert (row["server"], row["port"]) == ("10.9.2.1", 5001)
    # As tshark counts them.
    assert row["unique_bytes_client"] == 14_221_312
    assert row["retransmitted_bytes_client"] == 47_784
    assert row["end"] == "fin"


def test_a_column_is_made_when_it_is_looked_at(lossy: Path) -> None:
    """Of a million connections all of them would be larger than what was read."""
    capture = tcptrace_lab.read(lossy)
    assert capture.columns["bytes"].tolist() == capture.connections["bytes"].tolist()
    assert capture[0].row["end"] == "fin"
    assert set(vars(capture.columns)["_made"]) == {"bytes"}
    for name, column in capture.connection_columns().items():
        np.testing.assert_array_equal(capture.columns[name], column)
    assert list(capture.columns) == list(capture.connection_columns())
    with pytest.raises(KeyError, match="absent"):
        capture.columns["absent"]


def test_segments_add_up_to_the_summary(lossy: Path) -> None:
    capture = tcptrace_lab.read(lossy)
    forward, back = capture[0].flows
    row = capture[0].summary
    assert forward.segments["length"].sum() == row["bytes_client"]
    assert forward.segments["is_retransmission"].sum() == row["retransmissions_client"]
    assert len(forward.acks) == row["acks_server"] - row["damaged_packets_server"]
    assert len(back.segments) == 0
    assert (forward.acks["rtt_ns"] >= 0).sum() <= row["rtt_count_client"]
    assert (forward.acks["dup_count"] > 0).sum() == row["dup_acks_server"]


def test_sack_blocks_are_pairs_of_offsets_above_the_ack(lossy: Path) -> None:
    acks = tcptrace_lab.read(lossy)[0].flows[0].acks
    with_blocks = acks[acks["sack_blocks"].map(len) > 0]
    # As tshark counts them.
    assert len(with_blocks) == 742
    assert all(
        left >= ack for ack, ((left, _), *_) in zip(with_blocks["ack_offset"], with_blocks["sack_blocks"], strict=True)
    )


def test_numeric_columns_are_the_cores_own_arrays(lossy: Path) -> None:
    flow = tcptrace_lab.read(lossy)[0].flows[0]
    assert np.shares_memory(flow.segments["offset"].to_numpy(), flow._segments["offset"])
    assert np.shares_memory(flow.acks["rwnd"].to_numpy(), flow._acks["rwnd"])


def test_path_file_object_and_unpacked_bytes_give_the_same_table(lossy: Path) -> None:
    from_path = tcptrace_lab.read(lossy)
    with lossy.open("rb") as stream:
        from_file = tcptrace_lab.read(stream)
    from_bytes = tcptrace_lab.read(io.BytesIO(gzip.decompress(lossy.read_bytes())))
    assert from_path.connections.equals(from_file.connections)
    assert from_path.connections.equals(from_bytes.connections)
    assert len(from_bytes[0].flows[0].segments) == 9855


def test_a_pipe_is_read_once_and_looked_at_twice(lossy: Path, tmp_path: Path) -> None:
    """`classify <(zcat x.pcap.gz)`: the detail is a second pass, for which a pipe has no bytes left."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(lossy.read_bytes()))
    writer.start()
    found = tcptrace_lab.read(pipe)
    writer.join()
    assert found.name == str(pipe)
    assert found[0].flows[0].segments.equals(tcptrace_lab.read(lossy)[0].flows[0].segments)


def test_detail_asked_for_at_once_is_the_detail_read_later(lossy: Path) -> None:
    at_once = tcptrace_lab.read(lossy, detail=True)[0].flows[0]
    later = tcptrace_lab.read(lossy)[0].flows[0]
    assert at_once.segments.equals(later.segments)
    assert at_once.acks.equals(later.acks)


def test_connections_of_one_capture_are_read_in_few_passes() -> None:
    capture = tcptrace_lab.read(ROOT / "captures" / "two_reno.pcap.gz")
    lengths = [len(flow.segments) for connection in capture for flow in connection.flows]
    assert len(lengths) == 2 * 2
    table = capture.connections
    assert sum(lengths) == table["data_packets_client"].sum() + table["data_packets_server"].sum()


def test_a_file_that_is_no_capture_is_one_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a capture at all, but a text\n")
    with pytest.raises(CaptureError, match=r"notes\.txt"):
        tcptrace_lab.read(path)


def test_unknown_backend_and_source_say_what_is_known() -> None:
    with pytest.raises(ValueError, match="native"):
        tcptrace_lab.read("x.pcap", backend="wireshark")
    with pytest.raises(ValueError, match="int"):
        tcptrace_lab.read(3)
    with pytest.raises(ValueError, match="binary"):
        tcptrace_lab.read(io.StringIO("text"))


def test_a_connection_out_of_range_is_an_index_error(lossy: Path) -> None:
    with pytest.raises(IndexError):
        tcptrace_lab.read(lossy)[1]


@pytest.mark.slow
def test_rows_of_the_first_connections_main_sender_are_those_of_a_second_pass() -> None:
    """More packets than it takes to let the other direction's rows go (16,384 ACKs), and fewer."""
    for name in ("cubic_20M", "reno_small_buffer"):
        guessed, later = (tcptrace_lab.read(ROOT / f"captures/{name}.pcap.gz", detail=each) for each in ("first", None))
        assert guessed.connections.equals(later.connections)
        assert guessed._core.has_detail(0, 0) is False
        for rows, again in zip(guessed.rows(0, 0), later.rows(0, 0), strict=True):
            assert rows.keys() == again.keys()
            assert all(np.array_equal(rows[column], again[column]) for column in rows)
        # Taken once, they are read again.
        assert len(guessed[0].flows[0].segments) == len(later[0].flows[0].segments)


def test_keeping_detail_changes_nothing_in_the_summary() -> None:
    """Without detail the core takes shorter ways: on real captures too they lead to the same numbers."""
    files = [path for path in sorted(shared("captures", "public").glob("*.[dp]*")) if path.name != "MANIFEST.csv"]
    assert len(files) > 30
    for path in files:
        plain, detailed = tcptrace_lab.read(path), tcptrace_lab.read(path, detail=True)
        assert plain.connections.equals(detailed.connections), path
