"""What must hold of any sequence number, container, filter and scenario, on examples drawn by hypothesis."""

from __future__ import annotations

import contextlib
import functools
import gzip
import io
import itertools
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcptrace_lab import read
from tcptrace_lab.capture import Capture
from tcptrace_lab.controls import WINDOWS
from tcptrace_lab.errors import LabError
from tcptrace_lab.reconstruct.timeline import Timeline, build
from tcptrace_lab.reconstruct.truth.truth_file import read_truth
from tcptrace_lab.scenario import (
    CONTROLS,
    ApplicationSpec,
    ConnectionSpec,
    ControlSpec,
    NodeSpec,
    PathSpec,
    Scenario,
)
from tcptrace_lab.scenario_file import load, parse, scenario_table
from tcptrace_lab.simulate import simulate
from tests.conftest import ROOT

CAPTURES = ROOT / "captures"
# The same examples each time: what fails here fails everywhere.
FEW = settings(max_examples=12, deadline=None, derandomize=True, database=None)
MANY = settings(FEW, max_examples=80)
# Of a record, a raw IPv4 packet and its TCP header without IP options.
RECORD_BYTES, PCAP_BYTES = 16, 24
SEQ_AT, ACK_AT, OFFSET_AT, FLAGS_AT = 4, 8, 12, 13
ACK = 0x10
PACKETS = 3000
FIRST_SEQS = ("first_seq_client", "first_seq_server")


@functools.cache
def recording() -> bytes:
    """The first packets of a connection without SACK, whose blocks are sequence numbers too; losses among them."""
    raw = gzip.decompress((CAPTURES / "newreno_nosack_8M.pcap.gz").read_bytes())
    return raw[: next(itertools.islice(records(raw), PACKETS, None))[1]]


def records(raw: bytes) -> Iterator[tuple[int, int]]:
    """Where each packet of a little-endian pcap begins and ends."""
    at = PCAP_BYTES
    while at < len(raw):
        (length,) = struct.unpack_from("<I", raw, at + 8)
        yield at + RECORD_BYTES, at + RECORD_BYTES + length
        at += RECORD_BYTES + length


def moved(raw: bytes, *, client: int, server: int) -> bytes:
    """The same connection with other initial sequence numbers."""
    out = bytearray(raw)
    first = None
    for begin, _ in records(raw):
        tcp = begin + 4 * (raw[begin] & 15)
        source = raw[begin + 12 : begin + 16]
        first = first or source
        own, other = (client, server) if source == first else (server, client)
        for place, shift in ((SEQ_AT, own), (ACK_AT, other)):
            if place == ACK_AT and not raw[tcp + FLAGS_AT] & ACK:
                continue
            (number,) = struct.unpack_from(">I", raw, tcp + place)
            struct.pack_into(">I", out, tcp + place, (number + shift) % 2**32)
    return bytes(out)


def tables(capture: Capture) -> list[pd.DataFrame]:
    found = [capture.connections]
    for connection in capture:
        found += [table for flow in connection.flows for table in (flow.segments, flow.acks)]
    return found


def of(raw: bytes) -> Capture:
    return read(io.BytesIO(raw), detail=True)


def same(left: Capture, right: Capture, *, without: tuple[str, ...] = ()) -> None:
    assert left.packets == right.packets
    for a, b in zip(tables(left), tables(right), strict=True):
        pd.testing.assert_frame_equal(
            a.drop(columns=list(without), errors="ignore"), b.drop(columns=list(without), errors="ignore")
        )


@FEW
@given(client=st.integers(0, 2**32 - 1), server=st.integers(0, 2**32 - 1))
def test_any_initial_sequence_number_gives_the_same_columns(client: int, server: int) -> None:
    """RFC 9293 section 3.4: sequence numbers are counted modulo 2^32, and begin anywhere."""
    same(of(recording()), of(moved(recording(), client=client, server=server)), without=FIRST_SEQS)


# The first byte of the second segment, the last of the first, one within a window, and half the space.
@pytest.mark.parametrize("before", [0, 1, 2, 1448, 1449, 40_000, 2**31 - 1, 2**31])
def test_a_number_that_wraps_early_gives_the_same_columns(before: int) -> None:
    raw = recording()
    begin, _ = next(records(raw))
    (first,) = struct.unpack_from(">I", raw, begin + 4 * (raw[begin] & 15) + SEQ_AT)
    same(of(raw), of(moved(raw, client=(2**32 - before - first) % 2**32, server=0)), without=FIRST_SEQS)


# All but those whose window is ns-2's alone.
IN_BYTES = [name for name, keys in CONTROLS.items() if "rfc" in WINDOWS[str(keys.get("window", "reno"))].profiles]
shares = st.floats(0, 0.05)
scenarios = st.builds(
    lambda rate, buffer, delay, loss, control, size, seed, v6: Scenario(
        path=PathSpec(nodes=(NodeSpec(rate_bps=rate, buffer=buffer, delay_s=delay, loss=loss),), return_delay_s=delay),
        connections=(
            ConnectionSpec(
                control=ControlSpec(**CONTROLS[control]), application=ApplicationSpec(kind="bytes", bytes=size)
            ),
        ),
        duration_s=5.0,
        seed=seed,
        ipv6=v6,
        taps=("sender", "receiver"),
    ),
    rate=st.floats(5e5, 1e8),
    buffer=st.integers(2, 60),
    delay=st.floats(0, 0.1),
    loss=shares,
    control=st.sampled_from(IN_BYTES),
    size=st.integers(1, 300_000),
    seed=st.integers(0, 2**40),
    v6=st.booleans(),
)


@FEW
@given(scenario=scenarios, tap=st.sampled_from(["sender", "receiver"]))
def test_what_a_tap_saw_reads_the_same_from_every_container(
    scenario: Scenario, tap: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """pcap and pcapng, packed or not, with payload or headers alone: the tables of the run itself."""
    folder = tmp_path_factory.mktemp("taps")
    run = simulate(scenario)
    files = [folder / "x.pcap", folder / "x.pcapng"]
    for file in files:
        run.write(file, tap=tap)
        files_gz = file.with_name(file.name + ".gz")
        files_gz.write_bytes(gzip.compress(file.read_bytes(), 1))
    run.write(folder / "headers.pcap", tap=tap, payload=False)
    first = read(files[0], detail=True)
    for other in (files[1], *(file.with_name(file.name + ".gz") for file in files), folder / "headers.pcap"):
        same(first, read(other, detail=True))


@FEW
@given(cut=st.integers(PCAP_BYTES, 20_000))
def test_a_cut_capture_is_the_beginning_of_the_whole(cut: int) -> None:
    """Whatever the place: the records before it, and the place where the last whole one ended."""
    raw = recording()
    ends = [end for _, end in records(raw) if end <= cut]
    found = of(raw[:cut])
    assert found.packets == len(ends)
    whole = (not ends and cut == PCAP_BYTES) or (ends and ends[-1] == cut)
    assert (found.truncated is None) == bool(whole)
    if found.truncated is not None:
        assert found.truncated[0] == (ends[-1] if ends else PCAP_BYTES)


words = st.sampled_from(
    ["bytes", "packets", "retransmissions", "port", "client_port", "duration_ns", "rtt_count_client"]
)
compared = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
expressions = st.builds(lambda word, sign, number: f"{word} {sign} {number}", words, compared, st.integers(0, 10**8))


@functools.cache
def many() -> Capture:
    return read(CAPTURES / "two_reno.pcap.gz")


def accepted(expression: str) -> list[int]:
    return many().accepted(expression)


@FEW
@given(left=expressions, right=expressions)
def test_filters_combine_as_sets(left: str, right: str) -> None:
    """De Morgan, and a word is a column: the table's own comparison gives the same connections."""
    table = many().connections
    every, a, b = set(table["id"]), set(accepted(left)), set(accepted(right))
    assert set(accepted(f"{left} and {right}")) == a & b
    assert set(accepted(f"{left} or {right}")) == a | b
    assert set(accepted(f"not ({left})")) == every - a
    assert set(accepted(f"not ({left} or {right})")) == set(accepted(f"not ({left}) and not ({right})"))
    assert a == set(table.query(left)["id"])


@FEW
@given(scenario=scenarios)
def test_a_scenario_comes_back_from_its_table(scenario: Scenario) -> None:
    assert parse(scenario_table(scenario)) == scenario


@pytest.mark.parametrize("file", sorted((CAPTURES / "scenarios").glob("**/*.toml")), ids=lambda file: file.stem)
def test_a_scenario_file_comes_back_from_its_table(file: Path) -> None:
    scenario = load(file)
    assert parse(scenario_table(scenario)) == scenario


@functools.cache
def truth_text() -> list[bytes]:
    """The kernel's own truth, a row in 200."""
    lines = gzip.decompress((CAPTURES / "reno_loss.truth.csv.gz").read_bytes()).splitlines(keepends=True)
    return [lines[0], *lines[1::200]]


WORDS = [b"", b"-1", b"1e400", b"nan", b"inf", b"A", b"S", b"99999999999999999999", b"\xff", b'"', b"\n"]
CELLS = st.sampled_from(WORDS)


@MANY
@given(edits=st.lists(st.tuples(st.integers(0), st.integers(0), CELLS), max_size=12), cut=st.integers(0, 2000))
def test_a_damaged_truth_is_read_or_refused_by_its_cell(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[int, int, bytes]], cut: int
) -> None:
    """Any cell, the header's too, may hold anything, and the file may end anywhere."""
    rows = [line.rstrip(b"\r\n").split(b",") for line in truth_text()]
    for row, column, cell in edits:
        cells = rows[row % len(rows)]
        cells[column % len(cells)] = cell
    text = b"\n".join(b",".join(cells) for cells in rows)
    file = tmp_path_factory.mktemp("truth") / "x.truth.csv"
    file.write_bytes(text[: max(len(text) - cut, 0)])
    with contextlib.suppress(LabError):
        truth = read_truth(file, port=int(truth_text()[1].split(b",")[2]))
        assert len(truth.time_ns) == len(truth.cwnd) == len(truth.acked)


@FEW
@given(seed=st.integers(0, 2**62), rate=st.floats(1, 1e12), buffer=st.integers(1, 2**50))
def test_an_override_sets_one_key_and_no_other(seed: int, rate: float, buffer: int) -> None:
    table = scenario_table(load(CAPTURES / "scenarios" / "reno_10M.toml"))
    changed = parse(
        table, overrides=[f"seed={seed}", f"path.nodes.0.rate_bps={rate!r}", f"path.nodes.0.buffer={buffer}"]
    )
    assert (changed.seed, changed.path.nodes[0].rate_bps, changed.path.nodes[0].buffer) == (seed, rate, buffer)
    back = parse(
        scenario_table(changed),
        overrides=[f"seed={table['seed']}", "path.nodes.0.rate_bps=10e6", "path.nodes.0.buffer=40"],
    )
    assert back == parse(table)


# What a capture has, what 64 bits end at, and the most that the core (core/src/infer/sender/rows/trace.rs) lets in.
EXTREMES = st.one_of(
    st.integers(0, 10**9), st.sampled_from([-(2**63), 2**63 - 1, -(2**61), 2**62, -(2**58), 2**58, -1, 2**58 + 1])
)


@st.composite
def timelines(draw: st.DrawFn) -> Timeline:
    """Columns of any numbers, mostly in the order of time."""
    sends, acks = draw(st.integers(0, 12)), draw(st.integers(0, 12))

    def column(rows: int, *, rises: bool = False) -> list[int]:
        values = draw(st.lists(EXTREMES, min_size=rows, max_size=rows))
        return sorted(values) if rises and draw(st.integers(0, 7)) else values

    offsets = column(sends)
    return build(
        {
            "send_ns": column(sends, rises=True),
            "send_offset": offsets,
            "send_end": [min(offset + draw(st.integers(0, 3000)), 2**63 - 1) for offset in offsets],
            "ack_ns": column(acks, rises=True),
            "ack_offset": column(acks),
            "rwnd": column(acks),
            "sack_high": column(acks),
            "sacked": column(acks),
        },
        smss=draw(st.sampled_from([1, 536, 1448, 2**24])),
        has_start=draw(st.booleans()),
        has_sack=draw(st.booleans()),
    )


@MANY
@given(timeline=timelines())
def test_columns_of_any_numbers_are_refused_or_worked_through(timeline: Timeline) -> None:
    """Nothing wraps on the way: what is outstanding is never less than nothing, nor more than was sent since an ACK."""
    try:
        seen = timeline.observed
    except LabError as error:
        assert re.search("must not fall|is beyond what a trace has|segments that end", str(error))  # noqa: PT017
        return
    flight, sent = seen.column("flight"), sum((timeline.send_end - timeline.send_offset).tolist())
    assert len(flight) == len(timeline.ack_ns)
    least = min([*timeline.send_offset.tolist(), *timeline.ack_offset.tolist()], default=0)
    span = max(timeline.send_end.tolist(), default=0) - least
    assert all(0 <= each <= max(span, sent) for each in flight.tolist())
    assert (timeline.rtt[1] >= 0).all()
