"""Runs that go to their files while they go on: the same bytes as written at the end, whole files or none."""

import gzip
from dataclasses import replace

import pandas as pd
import pytest

from tcptrace_lab.errors import LabError
from tcptrace_lab.scenario_file import load
from tcptrace_lab.simulate import simulate
from tcptrace_lab.simulate_to_files import simulate_to_files

SCENARIOS = "captures/scenarios/"
# Three pieces or more each: of a hundred thousand events and over.
RUNS = {
    "rfc, losses": ("reno_10M", "sender", ["duration_s=100"]),
    "packets of ns-2, drops at random": ("small_buffers_B20", "receiver", ["duration_s=600", "path.nodes.0.loss=0.01"]),
    "controls that hold other things in mind, one of which begins late": (
        "two_flows",
        "sender",
        [
            "duration_s=120",
            "connections.0.control.window=cubic-linux",
            "connections.1.control.window=compound-draft",
            "connections.1.start_s=100",
        ],
    ),
    "several nodes, taps that hear late": ("several_nodes_fig7", "node1.in", ["duration_s=300"]),
}


def of_run(name):
    scenario, tap, overrides = RUNS[name]
    return replace(load(f"{SCENARIOS}{scenario}.toml", overrides=overrides), taps=("sender", tap)[tap == "sender" :])


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize(("capture", "table"), [("pcap", "csv"), ("pcapng", "parquet")])
def test_what_is_passed_on_in_pieces_is_what_is_held_until_the_end(name, capture, table, tmp_path):
    scenario = of_run(name)
    streamed, held = tmp_path / "streamed", tmp_path / "held"
    for folder in (streamed, held):
        folder.mkdir()
    done = simulate_to_files(
        scenario,
        captures=[streamed / f"{tap}.{capture}" for tap in scenario.taps],
        truth=streamed / f"run.truth.{table}",
        payload=False,
    )
    run = simulate(scenario)
    for tap in scenario.taps:
        run.write(held / f"{tap}.{capture}", tap=tap, payload=False)
    run.write_truth(held / f"run.truth.{table}")
    assert [file.name for file in done.files] == [f"{tap}.{capture}" for tap in scenario.taps] + [
        f"run.{kind}.{table}" for kind in ("truth", "drops", "queue")
    ]
    assert repr(done.summary) == repr(run.summary)
    for file in done.files:
        if table == "parquet" and file.suffix == ".parquet":
            pd.testing.assert_frame_equal(pd.read_parquet(file), pd.read_parquet(held / file.name))
        else:
            assert file.read_bytes() == (held / file.name).read_bytes(), file.name


def test_a_run_without_a_loss_has_its_tables_headers(tmp_path):
    scenario = load(f"{SCENARIOS}reno_10M.toml", overrides=["duration_s=0.2"])
    for suffix in ("csv", "csv.gz", "json", "parquet"):
        done = simulate_to_files(
            scenario, captures=[tmp_path / "a.pcap"], truth=tmp_path / f"a.truth.{suffix}", snaplen=64
        )
        assert all(file.exists() for file in done.files)
    assert (tmp_path / "a.drops.csv").read_text().startswith("time,node,")
    assert gzip.decompress((tmp_path / "a.drops.csv.gz").read_bytes()) == (tmp_path / "a.drops.csv").read_bytes()
    assert len(pd.read_parquet(tmp_path / "a.drops.parquet")) == 0


def test_an_interrupt_in_the_middle_leaves_no_file(tmp_path, monkeypatch):
    def interrupted(run):
        raise KeyboardInterrupt

    monkeypatch.setattr("tcptrace_lab.simulate_to_files.drop_table", interrupted)
    scenario = of_run("rfc, losses")
    with pytest.raises(KeyboardInterrupt):
        simulate_to_files(scenario, captures=[tmp_path / "a.pcap"], truth=tmp_path / "a.truth.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_ends_the_run(tmp_path):
    (tmp_path / "run.pcap").symlink_to("/dev/full")
    with pytest.raises(LabError, match=r"run\.pcap: No space left on device"):
        simulate_to_files(of_run("rfc, losses"), captures=[tmp_path / "run.pcap"])


def test_each_tap_has_its_capture_by_a_known_suffix():
    scenario = of_run("rfc, losses")
    with pytest.raises(LabError, match="suffix"):
        simulate_to_files(scenario, captures=["run.cap"])
    with pytest.raises(LabError, match="1 captures for 0 taps"):
        simulate_to_files(replace(scenario, taps=()), captures=["run.pcap"])
