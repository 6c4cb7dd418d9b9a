"""Captures as strangers have them: cut, of one packet, at one time, backwards: an answer or one line."""

from __future__ import annotations

import gzip
import json
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tcptrace_lab import read
from tcptrace_lab.classify.verdict import classify
from tcptrace_lab.cli import main
from tests.conftest import ROOT

SCENARIO = str(ROOT / "captures" / "scenarios" / "reno_10M.toml")
SHORT = gzip.decompress((ROOT / "captures" / "short_reno.pcap.gz").read_bytes())
HEAD, RECORD = 24, 16


def records() -> list[bytes]:
    found, at = [], HEAD
    while at < len(SHORT):
        (length,) = struct.unpack_from("<I", SHORT, at + 8)
        found.append(SHORT[at : at + RECORD + length])
        at += RECORD + length
    return found


def from_client(record: bytes) -> bool:
    return record[RECORD + 12 : RECORD + 16] == records()[0][RECORD + 12 : RECORD + 16]


def years_apart(all_of: list[bytes]) -> list[bytes]:
    """Stamps that a damaged clock may give: anything that 32 bits of seconds hold."""
    rng = random.Random(7)
    return [struct.pack("<I", rng.getrandbits(32)) + record[4:] for record in all_of]


# Each as the packets of a short transfer become it.
ODD: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "nothing": lambda all_of: [],
    "one_syn": lambda all_of: all_of[:1],
    "one_data_packet": lambda all_of: all_of[10:11],
    "handshake_only": lambda all_of: all_of[:3],
    "one_direction": lambda all_of: [record for record in all_of if from_client(record)],
    "only_acks": lambda all_of: [record for record in all_of if not from_client(record)],
    "at_one_time": lambda all_of: [all_of[0][:8] + record[8:] for record in all_of],
    "years_apart": years_apart,
    "backwards": lambda all_of: all_of[::-1],
    "acks_before_data": lambda all_of: sorted(all_of, key=from_client),
    "twice": lambda all_of: [record for one in all_of for record in (one, one)],
}
COMMANDS = {
    "analyze": ("analyze",),
    "classify": ("classify",),
    "reconstruct": ("reconstruct",),
    "plot": ("plot", "-o", "drawn.svg"),
    "through": ("replay", "--through", SCENARIO),
    "as_found": ("replay", "--as-found"),
    "watch": ("watch",),
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_capture_ends_in_an_answer_or_in_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("odd.pcap").write_bytes(SHORT[:HEAD] + b"".join(ODD[name](records())))
    for command, words in COMMANDS.items():
        status = main([*words, "odd.pcap"])
        err = capsys.readouterr().err
        assert status in (0, 1, 2), command
        assert len(err.splitlines()) == (0 if status == 0 else 1), (command, err)
        assert "odd.pcap" in err or status == 0, (command, err)


@pytest.mark.parametrize("wild", [1, 0.02], ids=["each", "some"])
def test_stamps_of_64_bits_end_in_an_answer_or_in_one_line(
    wild: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pcapng can say the year 584554."""
    monkeypatch.chdir(tmp_path)
    rng = random.Random(7)
    blocks = [(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)), (1, SHORT[20:22] + bytes(6))]
    for record in records():
        seconds, micros, length, on_wire = struct.unpack_from("<4I", record)
        stamp = rng.getrandbits(64) if rng.random() < wild else seconds * 1_000_000 + micros
        head = struct.pack("<5I", 0, stamp >> 32, stamp & 0xFFFFFFFF, length, on_wire)
        blocks.append((6, head + record[RECORD:] + bytes(-length % 4)))
    framed = [struct.pack("<II", kind, len(body) + 12) + body for kind, body in blocks]
    Path("odd.pcapng").write_bytes(b"".join(block + struct.pack("<I", len(block) + 4) for block in framed))
    for command, words in COMMANDS.items():
        status = main([*words, "odd.pcapng"])
        err = capsys.readouterr().err
        assert status in (0, 1, 2), command
        assert len(err.splitlines()) == (0 if status == 0 else 1), (command, err)


def test_a_clock_that_stands_still_tells_no_round_trip_and_no_rate(tmp_path: Path) -> None:
    file = tmp_path / "still.pcap"
    file.write_bytes(SHORT[:HEAD] + b"".join(ODD["at_one_time"](records())))
    (verdict,) = classify(read(file))
    told = verdict.as_dict()["path"]
    assert {key: estimate["value"] for key, estimate in told.items()} == dict.fromkeys(told)
    json.dumps(verdict.as_dict(), allow_nan=False)


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "analyze"])
def test_every_command_tells_of_a_cut(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cut.pcap").write_bytes(SHORT[:-7])
    assert main([*COMMANDS[command], "cut.pcap"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert "cut.pcap: truncated at byte " in line


def test_a_sender_without_any_ack_is_asked_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Writes in turn with the other side's data, and no ACK among them that fits."""
    out = []
    for record in records():
        # The ACK flag of the receiver's packets away, and some data in the sender's direction only.
        changed = bytearray(record)
        if not from_client(record):
            at = RECORD + 4 * (record[RECORD] & 15)
            changed[at + 13] &= ~0x10
        out.append(bytes(changed))
    file = tmp_path / "no_acks.pcap"
    file.write_bytes(SHORT[:HEAD] + b"".join(out))
    assert main(["replay", "--as-found", str(file)]) == 2
    assert "round trip not known" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("plot", "-o", "drawn.svg", "--from", "9", "--to", "10"), "within the connection (it lasts 0.387 s)"),
        (("plot", "-o", "drawn.svg", "--to", "inf"), "must be 0 <= from < to"),
        (("plot", "-o", "drawn.png", "--dpi", "0"), "--dpi 0: must be 1 to 600"),
        (("analyze", "--closed", "5"), "--closed: only with --json-lines"),
        (("analyze", "--json", "--json-lines"), "--json and --json-lines: one of them"),
        (("replay", "--watch", "--as-found"), "--watch: shows the packets as recorded"),
        (("replay", "--interface", "lo", "--as-found"), "--interface: sends the packets as recorded"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    words: tuple[str, ...],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("short.pcap").write_bytes(SHORT)
    assert main([*words, "short.pcap"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line


def test_losses_that_cannot_be_told_are_not_denied(tmp_path: Path) -> None:
    """One direction alone: nothing says that nothing was lost."""
    file = tmp_path / "one_direction.pcap"
    file.write_bytes(SHORT[:HEAD] + b"".join(ODD["one_direction"](records())))
    (verdict,) = classify(read(file))
    told = verdict.as_dict()
    assert told["losses"]["total"] is None
    assert "no losses" not in told["diagnosis"]
