"""Every shipped recording is what captures/index.toml says of it."""

import csv
import gzip
import hashlib
import json
import tomllib
from typing import Any

import pytest

import tcptrace_lab
from captures import judged
from tcptrace_lab.cli import main
from tcptrace_lab.scenario_file import load, scenario_table
from tcptrace_lab.tables import finite
from tests.conftest import ROOT

CAPTURES = ROOT / "captures"
INDEX: list[dict[str, Any]] = tomllib.loads((CAPTURES / "index.toml").read_text())["captures"]
FILES = [row for capture in INDEX for row in (capture, *capture.get("also", []))]
every_capture = pytest.mark.parametrize("entry", INDEX, ids=lambda entry: entry["name"])


def sent_by(entry: dict[str, Any], port: int) -> dict[str, Any]:
    """The connection whose data sender has this port: one row of the capture's table."""
    connections = tcptrace_lab.read(CAPTURES / entry["file"]).connections
    (row,) = connections[connections.client_port == port].to_dict("records")
    return row


def goes_back_n(entry: dict[str, Any]) -> bool:
    """Tahoe sends more again than was lost: everything above the hole."""
    return str(entry["expected"][0]["congestion_control"]).endswith("tahoe")


def drops(entry: dict[str, Any]) -> list[dict[str, str]]:
    with (CAPTURES / entry["drops"]).open(newline="") as file:
        return list(csv.DictReader(file))


def truth(entry: dict[str, Any]) -> list[dict[str, str]]:
    with gzip.open(CAPTURES / entry["truth"], "rt", newline="") as file:
        return list(csv.DictReader(file))


def test_the_index_lists_every_capture_and_every_recorded_scenario() -> None:
    assert {row["file"] for row in FILES} == {path.name for path in CAPTURES.glob("*.pcap.gz")}
    recorded = {f"scenarios/recorded/{path.name}" for path in (CAPTURES / "scenarios" / "recorded").glob("*.toml")}
    assert {entry["scenario"] for entry in INDEX} == recorded


@pytest.mark.parametrize("row", FILES, ids=lambda row: row["file"])
def test_files_are_the_recorded_ones_and_small(row: dict[str, Any]) -> None:
    data = (CAPTURES / row["file"]).read_bytes()
    assert hashlib.sha256(data).hexdigest() == row["sha256"]
    assert len(data) < 2_000_000
    assert tcptrace_lab.read(CAPTURES / row["file"]).packets == row["packets"]


def known_part(now: Any, then: Any) -> Any:
    """A value without the keys that the schema has learnt since it was recorded."""
    if isinstance(now, dict) and isinstance(then, dict):
        return {key: known_part(now[key], value) for key, value in then.items() if key in now}
    if isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        return [known_part(a, b) for a, b in zip(now, then, strict=True)]
    return now


@every_capture
def test_it_was_made_from_its_scenario(entry: dict[str, Any]) -> None:
    """The description beside the capture holds the scenario that ran: changing the file means recording again."""
    about = json.loads((CAPTURES / f"{entry['name']}.json").read_text())
    now = finite(scenario_table(load(CAPTURES / entry["scenario"])))
    assert known_part(now, about["scenario"]) == about["scenario"]


@every_capture
def test_path_sender_and_reader_count_the_same_retransmissions(entry: dict[str, Any]) -> None:
    """Three accounts of one run: the path's log, the sender's (the kernel's tracepoint), our reading of the packets."""
    rows = drops(entry)
    for expected in entry["expected"]:
        port = expected["client_port"]
        lost = sum(int(row["sport"]) == port and int(row["payload_len"]) > 0 for row in rows)
        assert sent_by(entry, port)["retransmissions_client"] == expected["retransmissions"]
        if goes_back_n(entry):
            assert lost < expected["retransmissions"]
        else:
            assert lost == expected["retransmissions"]


@every_capture
def test_every_dropped_packet_is_in_the_senders_capture(entry: dict[str, Any]) -> None:
    """The tap is before the path: each lost sequence number was seen, and seen again."""
    capture = tcptrace_lab.read(CAPTURES / entry["file"])
    for expected in entry["expected"]:
        id = sent_by(entry, expected["client_port"])["id"]
        segments = capture[id].flows[0].segments
        retransmitted = segments[segments.is_retransmission]
        assert len(retransmitted) == expected["retransmissions"]
        again = sorted(retransmitted.offset)
        lost = [int(row["tcp_seq"]) for row in drops(entry) if int(row["sport"]) == expected["client_port"]]
        # Offsets count from the SYN; the first lost packet's sequence number ties the two together.
        base = min(lost, default=0) - min(again, default=0)
        dropped = sorted((seq - base) % 2**32 for seq in lost)
        assert (set(dropped) <= set(again)) if goes_back_n(entry) else (dropped == again)


def overflows_alone(entry: dict[str, Any]) -> bool:
    """One Reno, whose losses in avoidance are those of a full buffer."""
    expected = entry["expected"]
    is_reno = len(expected) == 1 and expected[0]["congestion_control"] == "reno"
    return is_reno and set(entry["path"]) >= {"drops_overflow"} and bool(expected[0]["w_max"])


@pytest.mark.parametrize("entry", [*filter(overflows_alone, INDEX)], ids=lambda entry: entry["name"])
def test_the_window_at_a_loss_in_avoidance_is_bdp_plus_buffer_plus_one(entry: dict[str, Any]) -> None:
    """A drop-tail path holds BDP + B + 1; the kernel hears of the loss a round trip, one segment of growth, later."""
    path = entry["path"]
    w_max = path["bdp_packets"] + path["buffer_packets"] + 1
    assert all(abs(window - w_max) <= 2 for window in entry["expected"][0]["w_max"])


@every_capture
def test_the_verdict_finds_the_slow_starts_of_each_cycle(entry: dict[str, Any], capsys) -> None:
    """What the packets alone tell against what the sender knew."""
    assert main(["classify", "--json", str(CAPTURES / entry["file"])]) == 0
    found = {
        row["sender"].rpartition(":")[2]: row["slow_starts"]["per_cycle"] for row in json.loads(capsys.readouterr().out)
    }
    for expected in entry["expected"]:
        assert found[str(expected["client_port"])] == expected["slow_starts_per_cycle"]


@every_capture
def test_truth_is_in_order_and_holds_what_the_index_says(entry: dict[str, Any]) -> None:
    rows = truth(entry)
    times = [float(row["time"]) for row in rows]
    assert times == sorted(times)
    for expected in entry["expected"]:
        mine = [row for row in rows if int(row["sport"]) == expected["client_port"]]
        assert sum(row["ev"] == "R" for row in mine) == expected["retransmissions"]
        assert sum(row["ev"] == "C" and row["ca_state"] == "3" for row in mine) == expected["fast_retransmits"]
        assert sum(row["ev"] == "C" and row["ca_state"] == "4" for row in mine) == expected["timeouts"]
        assert max(int(row["cwnd"]) for row in mine if row["cwnd"]) == expected["cwnd_max"]


@every_capture
def test_the_kernel_sees_each_ack_just_after_the_capture_does(entry: dict[str, Any]) -> None:
    """One clock: an A row never precedes its ACK's packet, and follows it by microseconds."""
    capture = tcptrace_lab.read(CAPTURES / entry["file"])
    for expected in entry["expected"]:
        id = sent_by(entry, expected["client_port"])["id"]
        acks = capture[id].flows[0].acks.time_ns.to_numpy()
        rows = [row for row in truth(entry) if row["ev"] == "A" and int(row["sport"]) == expected["client_port"]]
        late = []
        for row in rows:
            time_ns = round(float(row["time"]) * 1e6) * 1000
            before = acks[: acks.searchsorted(time_ns, side="right")]
            late.append(time_ns - int(before[-1]))
        # Our own sender is a program, woken for each ACK that the kernel forwards to it.
        median_ns = 20_000 if entry["sender"] == "kernel" else 200_000
        assert sorted(late)[len(late) // 2] < median_ns
        assert sorted(late)[int(len(late) * 0.99)] < 1_000_000


@pytest.mark.parametrize("number", judged.NUMBERS)
def test_what_is_judged_only_is_as_the_seed_drew_it(number: int) -> None:
    """Nobody picked these: path, control and receiver are the numbers of captures/judged.py."""
    about = json.loads((CAPTURES / "judged" / f"drawn_{number}.json").read_text())
    now = finite(scenario_table(judged.draw(number)))
    assert known_part(now, about["scenario"]) == about["scenario"]
    assert about["truth"]["unavailable"] is None
    assert about["truth"]["events_lost"] == 0
    assert all(counts["dropped"] == 0 for counts in about["tcpdump"].values())
